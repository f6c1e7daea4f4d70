# /sleep/MS takes that many milliseconds and blocks its worker as a slow query would; every other page takes none. The query
# comes back as X-Request, so that a client can tell whose answer it has.
use strict;
use warnings;
use Time::HiRes qw(time);

sub {
    my ($env) = @_;
    if ($env->{PATH_INFO} =~ m{^/sleep/(\d+)}) {
        my $until = time + $1 / 1000;
        while ((my $left = $until - time) > 0) { select undef, undef, undef, $left }    # a signal may end it early
    }
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => 11, 'X-Request' => $env->{QUERY_STRING}], ['Hello World']];
}
