#!perl
# The tiny server of t/null_server.c, over TCP: that listening, the poller and signals work together. NULL_SERVER is the
# program.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(time);

my $program = $ENV{NULL_SERVER} || './null_server';
plan skip_all => "there is no $program" unless -x $program;
alarm 120;

my $pid = open my $said, '-|', $program, '0' or die "$program: $!";
END { kill KILL => $pid if $pid }
my ($port) = (<$said> || '') =~ /^port (\d+)/;
ok $port, 'it listens' or BAIL_OUT("$program does not start");

my $request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

sub dial {
    my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "connect: $!";
    return $socket;
}

# Reads until there are $n answers, the end of the connection, or 20 s have passed.
sub answers {
    my ($socket, $n) = @_;
    my ($text, $until) = ('', time + 20);
    while (() = $text =~ /Hello World/g, time < $until) {
        last if (() = $text =~ /Hello World/g) >= $n;
        next unless IO::Select->new($socket)->can_read(1);
        sysread $socket, $text, 65536, length $text or last;
    }
    return scalar(() = $text =~ /HTTP\/1\.1 200 OK\r\n.*?\r\n\r\nHello World/gs);
}

my $first = dial();
for my $time (1 .. 3) {
    syswrite $first, $request;
    is answers($first, 1), 1, "request $time on a connection is answered";
}
syswrite $first, $request x 100;
is answers($first, 100), 100, 'so are a hundred at once';

my @many = map { dial() } 1 .. 60;
syswrite $_, substr $request, 0, 10 for @many;
syswrite $_, substr $request, 10 for reverse @many;
is scalar(grep { answers($_, 1) == 1 } @many), 60, 'sixty connections are served beside each other';
close $_ for splice @many, 10, 40;
syswrite $_, $request for @many;
is scalar(grep { answers($_, 1) == 1 } @many), 20, 'and go on when others leave';

my $half = dial();
syswrite $half, $request;
shutdown $half, 1;
is answers($half, 2), 1, 'one that half-closes has its answer';

my $bad = dial();
syswrite $bad, "GET /\r\n\r\n";
my $text = '';
1 while sysread $bad, $text, 65536, length $text;
like $text, qr/\AHTTP\/1\.1 400 .*^Connection: close\r$/ms, 'a malformed request is refused, and its connection closed';

kill TERM => $pid;
waitpid $pid, 0;
is $?, 0, 'it ends when it is told to';
undef $pid;
done_testing;
