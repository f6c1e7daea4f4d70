package Hydrofoil::UrlEncoded;
use 5.016;
use strict;
use warnings;
use Exporter qw(import);
use Hydrofoil::Accelerate ();

our $VERSION   = $Hydrofoil::Accelerate::VERSION;
our @EXPORT_OK = qw(parse_urlencoded parse_urlencoded_arrayref build_urlencoded build_urlencoded_utf8);

for my $name (@EXPORT_OK) {
    no strict 'refs';
    *$name = \&{"Hydrofoil::Accelerate::UrlEncoded::$name"};
}

1;

__END__

=head1 NAME

Hydrofoil::UrlEncoded - read and write application/x-www-form-urlencoded

=head1 SYNOPSIS

    use Hydrofoil::UrlEncoded qw(parse_urlencoded parse_urlencoded_arrayref build_urlencoded);

    my @params = parse_urlencoded('foo=bar&baz=a+b%21');    # foo => 'bar', baz => 'a b!'
    my $params = parse_urlencoded_arrayref($env->{QUERY_STRING});

    my $query = build_urlencoded(foo => 'bar', baz => [ 1, 2 ]);    # foo=bar&baz=1&baz=2

=head1 DESCRIPTION

What L<WWW::Form::UrlEncoded> does, in C: text is searched sixteen or thirty-two bytes
at a time. It needs no other module and replaces nothing. All is about bytes: decode
what you read, encode what you write, or use C<build_urlencoded_utf8>.

=head1 FUNCTIONS

None is exported unless asked for.

=head2 parse_urlencoded

    my @params = parse_urlencoded($string);

Names and values in turn, in the order of the string, decoded: C<+> is a space and
C<%XX> the byte XX; a C<%> without two hexadecimal digits behind it stands for itself.
Pairs are separated by C<&> or C<;>, with or without a space behind it; a pair without
C<=> has an empty value. The empty string and undef have no pairs. Of a string that is
marked as characters the bytes of its UTF-8 encoding are read.

=head2 parse_urlencoded_arrayref

    my $params = parse_urlencoded_arrayref($string);

The same as a reference to an array.

=head2 build_urlencoded

    my $string = build_urlencoded(@params);
    my $string = build_urlencoded(@params, $separator);
    my $string = build_urlencoded(\@params, $separator);
    my $string = build_urlencoded(\%params, $separator);

Writes names and values. A value that is a reference to an array stands for several
pairs; undef is written as the empty string. Letters, digits and C<-_.~!*'()> stand for
themselves, a space becomes C<+>, all others C<%XX>. Default for C<$separator>: C<&>.

=head2 build_urlencoded_utf8

The same, and strings that are not marked as characters are taken as ISO 8859-1 and
written in UTF-8.

=head1 SEE ALSO

L<Hydrofoil::Accelerate>, L<WWW::Form::UrlEncoded>

=cut
