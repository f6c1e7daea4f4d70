# What servers were compared with in 2013: the access log and Plack::Request, and an answer of a few bytes.
use strict;
use warnings;
use Plack::Builder;
use Plack::Request;

builder {
    enable 'AccessLog', logger => sub { };
    sub {
        my $request = Plack::Request->new(shift);
        $request->param('foo');
        return [200, ['Content-Type' => 'text/plain', 'Content-Length' => 12], ["Hello World\n"]];
    };
};
