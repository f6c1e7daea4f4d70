# The smallest application: hydrofoil eg/hello.psgi
use strict;
use warnings;

sub {
    my $env = shift;
    return [ 200, [ 'Content-Type' => 'text/plain', 'Content-Length' => 14 ], ["Hello, world!\n"] ];
};
