# What versions of Plack were compared with in 2015: the access log, Plack::Request, and Plack::Response with 4,000 bytes.
use strict;
use warnings;
use Plack::Builder;
use Plack::Request;

my $body = 'x' x 4000;

builder {
    enable 'AccessLog', logger => sub { };
    sub {
        my $request = Plack::Request->new(shift);
        $request->param('foo');
        my $response = $request->new_response(200);
        $response->content_type('text/plain');
        $response->content_length(4000);
        $response->body($body);
        return $response->finalize;
    };
};
