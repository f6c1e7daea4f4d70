#!/usr/bin/env perl
# behind_nginx.pl SOCKET NGINX... -- SERVER...: runs a server that listens on a unix socket, and when it does, nginx in front
# of it. Ends when either ends, or on TERM, and ends the other.
use strict;
use warnings;
use IO::Socket::UNIX;
use POSIX ();
use Time::HiRes qw(sleep time);

my $socket = shift;
my (@nginx, @server);
push @nginx, shift while @ARGV && $ARGV[0] ne '--';
shift;
@server = @ARGV or die "usage: $0 SOCKET NGINX... -- SERVER...\n";

my @pids;
my $stop = 0;
$SIG{TERM} = $SIG{INT} = sub { $stop = 1 };

sub start {
    my @command = @_;
    defined(my $pid = fork) or die "cannot fork: $!\n";
    if (!$pid) {
        $SIG{TERM} = $SIG{INT} = 'DEFAULT';
        exec { $command[0] } @command or POSIX::_exit(127);
    }
    push @pids, $pid;
    return;
}

unlink $socket;
start(@server);
my $deadline = time + 15;
until (IO::Socket::UNIX->new(Peer => $socket)) {
    if ($stop || time > $deadline || waitpid($pids[0], POSIX::WNOHANG()) != 0) {
        kill TERM => @pids;
        die "nothing listens on $socket\n";
    }
    sleep 0.05;
}
start(@nginx) unless $stop;

my $ended = 0;
until ($stop || $ended) {
    $ended = grep { waitpid($_, POSIX::WNOHANG()) != 0 } @pids;
    sleep 0.1;
}
kill TERM => @pids;
waitpid $_, 0 for @pids;
unlink $socket;
exit($stop ? 0 : 1);
