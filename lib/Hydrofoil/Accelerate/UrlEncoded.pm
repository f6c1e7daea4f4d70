package Hydrofoil::Accelerate::UrlEncoded;
use strict;
use warnings;

# WWW::Form::UrlEncoded exports the subs of one of these two.
sub modules {
    return (
        'WWW::Form::UrlEncoded::XS' => {
            versions => ['0.28'],
            replace  => _subs('xs'),
        },
        'WWW::Form::UrlEncoded::PP' => {
            versions => ['0.26'],
            version  => 'WWW::Form::UrlEncoded',
            replace  => _subs('pp'),
        },
    );
}

sub _subs {
    my $kind = shift;

    no strict 'refs';
    return { map { $_ => \&{"${kind}_$_"} }
            qw(parse_urlencoded parse_urlencoded_arrayref build_urlencoded build_urlencoded_utf8) };
}

1;
