# The application of 2013 without Content-Length: HTTP/1.1 sends its answer in chunks.
use strict;
use warnings;
use Plack::Builder;
use Plack::Request;

builder {
    enable 'AccessLog', logger => sub { };
    sub {
        my $request = Plack::Request->new(shift);
        $request->param('foo');
        return [200, ['Content-Type' => 'text/plain'], ["Hello World\n"]];
    };
};
