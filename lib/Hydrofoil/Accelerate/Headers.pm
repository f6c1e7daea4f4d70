package Hydrofoil::Accelerate::Headers;
use 5.016;
use strict;
use warnings;

# Dates, Referer, charset and the authorization_basic methods stay in Perl, over methods that do not.
my @SUBS = qw(
  new isa header clear push_header init_header remove_header remove_content_headers header_field_names scan clone
  as_string as_string_without_sort psgi_flatten psgi_flatten_without_sort
  content_type content_is_text content_is_html content_is_xhtml content_is_xml
  content_length content_language content_encoding title user_agent server from warnings www_authenticate authorization
  proxy_authenticate proxy_authorization
  _standardize_field_name _header_get _header_set _header_push _header _sorted_field_names _as_string _psgi_flatten
);

sub modules {
    no strict 'refs';
    return (
        'HTTP::Headers::Fast' => {
            versions => ['0.22'],
            replace  => { map { $_ => \&{ __PACKAGE__ . "::$_" } } @SUBS },
        },
    );
}

1;

__END__

=head1 NAME

Hydrofoil::Accelerate::Headers - HTTP::Headers::Fast in C

=head1 SYNOPSIS

    use Hydrofoil::Accelerate only => ['Headers'];

=head1 DESCRIPTION

Which subs of L<HTTP::Headers::Fast> run in C (header objects), and the versions that this was proven with.
L<Hydrofoil::Accelerate> puts them into place.

=cut
