package Hydrofoil::Accelerate::UrlEncoded;
use strict;
use warnings;

# WWW::Form::UrlEncoded exports the subs of one of these two.
sub modules {
    return (
        'WWW::Form::UrlEncoded::XS' => {
            versions => [ '0.26', '0.28' ],
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

__END__

=head1 NAME

Hydrofoil::Accelerate::UrlEncoded - WWW::Form::UrlEncoded in C

=head1 SYNOPSIS

    use Hydrofoil::Accelerate only => ['UrlEncoded'];

=head1 DESCRIPTION

Which subs of L<WWW::Form::UrlEncoded> run in C (parsing and building query strings), and the versions that this was proven with.
L<Hydrofoil::Accelerate> puts them into place.

=cut
