package Hydrofoil::Accelerate::Request;
use 5.016;
use strict;
use warnings;

# Plack::Request's methods in C (toolkit/request*.c).

my @METHODS = qw(
    new env address remote_host protocol method port user request_uri path_info path query_string script_name scheme secure
    body input content_length content_type session session_options logger cookies content raw_body headers content_encoding
    header referer user_agent query_parameters body_parameters parameters uploads param upload uri base new_response
    request_body_parser _body_parameters _query_parameters _uri_base _build_body_parser _buffer_length_for
    _parse_request_body
);

sub modules {
    return (
        'Plack::Request' => {
            versions => [ '1.0048', '1.0050', '1.0051' ],
            replace  => { map { ($_ => __PACKAGE__->can($_)) } @METHODS },
            on       => \&on,
        },
    );
}

1;

__END__

=head1 NAME

Hydrofoil::Accelerate::Request - Plack::Request in C

=head1 SYNOPSIS

    use Hydrofoil::Accelerate only => ['Request'];

=head1 DESCRIPTION

Which subs of L<Plack::Request> run in C (new, parameters, uploads, headers, addresses and accessors), and the versions
that this was proven with. L<Hydrofoil::Accelerate> puts them into place.

=cut
