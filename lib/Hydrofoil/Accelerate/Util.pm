package Hydrofoil::Accelerate::Util;
use 5.016;
use strict;
use warnings;

my @SUBS = qw(
  header_get header_set header_push header_exists header_remove header_iter headers inline_object content_length foreach
  status_with_no_entity_body response_cb
);

sub modules {
    no strict 'refs';
    return (
        'Plack::Util' => {
            versions => [ '1.0048', '1.0050', '1.0051' ],
            version  => 'Plack',
            from     => ['Plack::Util::Prototype'],
            replace  => {
                'Prototype::AUTOLOAD' => \&prototype_autoload,
                map { $_ => \&{ __PACKAGE__ . "::$_" } } @SUBS,
            },
        },
        'Plack::Component' => {
            versions => [ '1.0048', '1.0050', '1.0051' ],
            version  => 'Plack',
            replace  => { to_app => \&component_to_app, response_cb => \&component_response_cb },
        },
    );
}

1;

__END__

=head1 NAME

Hydrofoil::Accelerate::Util - header helpers and response callbacks in C

=head1 SYNOPSIS

    use Hydrofoil::Accelerate only => ['Util'];

=head1 DESCRIPTION

Which subs of L<Plack::Util> and L<Plack::Component> run in C, and the versions that this was proven with.
L<Hydrofoil::Accelerate> puts them into place.

=cut
