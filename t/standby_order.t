use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Select;
use Test::More;
use Hydrofoil::Test;

# First come, first served, over all workers: a connection whose request was moved is not passed by those that stay. Each of
# the connections asks again as soon as it is answered, more of them than there are workers, and a page takes about as long as
# a call may before requests are moved.

my $CONNECTIONS = 16;
my $ANSWERS = 1_600;

my $server = start_server(lint => 0, args => ['--workers' => 2], app => <<'END');
use Time::HiRes qw(sleep);
my $call = sub { sleep 0.002; [200, ['Content-Type' => 'text/plain', 'Content-Length' => 2], ['ok']] };
$call;
END

check 'connections that keep asking get equal shares, wherever their requests wait' => sub {
    my @clients = map { $server->connect } 1 .. $CONNECTIONS;
    my %client = map { fileno($_->socket) => $_ } @clients;
    my $select = IO::Select->new(map { $_->socket } @clients);
    my (%answers, $total);
    my $request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    $_->send($request) for @clients;
    while (($total || 0) < $ANSWERS) {
        my @readable = $select->can_read($Hydrofoil::Test::DEADLINE) or die "no answer\n";
        for my $socket (@readable) {
            sysread $socket, my $bytes, 65_536 or die "a connection ended\n";
            my $ends = () = $bytes =~ /\r\n\r\nok/g;
            die "an answer came in parts: $bytes\n" unless $ends == 1;
            $total++;
            $answers{ fileno $socket }++;
            syswrite $socket, $request;
        }
    }
    my @sorted = sort { $a <=> $b } map { $answers{ fileno($_->socket) } || 0 } @clients;
    cmp_ok $sorted[0] * 1.5, '>=', $sorted[-1], 'the poorest has at least two thirds of what the richest has' or diag "@sorted";
    note "@sorted";
};

done_testing;
