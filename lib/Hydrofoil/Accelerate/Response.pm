package Hydrofoil::Accelerate::Response;
use 5.016;
use strict;
use warnings;

my @SUBS = qw(
  new body status content code headers cookies header content_length content_type content_encoding location redirect
  finalize _body _finalize_cookies
);

sub modules {
    no strict 'refs';
    return (
        'Plack::Response' => {
            versions => [ '1.0048', '1.0050', '1.0051' ],
            from     => ['Plack::Util::Accessor'],
            replace  => { map { $_ => \&{ __PACKAGE__ . "::$_" } } @SUBS },
        },
    );
}

1;

__END__

=head1 NAME

Hydrofoil::Accelerate::Response - Plack::Response in C

=head1 SYNOPSIS

    use Hydrofoil::Accelerate only => ['Response'];

=head1 DESCRIPTION

Which subs of L<Plack::Response> run in C (header methods, cookies, redirect and finalize), and the versions that this was proven with.
L<Hydrofoil::Accelerate> puts them into place.

=cut
