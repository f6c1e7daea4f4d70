use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use HTTP::Tiny;
use IO::Socket::INET;
use Test::More;
use Hydrofoil::TestProcess qw(hydrofoil plackup free_port get is_alive poll_until write_file);

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

my $dir = tempdir(CLEANUP => 1);
my $app = write_file("$dir/app.psgi", <<'APP');
use Time::HiRes;
sub {
    my $env = shift;
    if ($env->{PATH_INFO} eq '/slow') {
        print STDERR "slow request is in $$\n";
        my $end = Time::HiRes::time() + ($env->{QUERY_STRING} || 1);
        while ((my $rest = $end - Time::HiRes::time()) > 0) { Time::HiRes::sleep($rest) }
    }
    return [ 200, [ 'Content-Type' => 'text/plain' ], [ $env->{PATH_INFO} eq '/random' ? rand : $$ ] ];
}
APP

sub start { hydrofoil('--host', '127.0.0.1', '--port', 0, @_, $app) }

# Asks in a process of its own; the answer is in what the returned code returns.
sub ask_meanwhile {
    my ($port, $path) = @_;
    pipe my $reader, my $writer or die $!;
    my $pid = fork;
    die $! if !defined $pid;
    if (!$pid) {
        syswrite $writer, get($port, $path);
        POSIX::_exit(0);
    }
    close $writer;
    return sub { local $/; my $answer = <$reader>; waitpid $pid, 0; $answer };
}

for my $preload ([], ['--no-preload-app']) {
    subtest "USR1 (log rotation) while the application loads ends nothing: @$preload" => sub {
        my $slow = write_file("$dir/slow.psgi", <<"APP");
open my \$mark, '>', "$dir/loading" or die \$!;
until (-e "$dir/loaded") { select undef, undef, undef, 0.01 }
sub { [ 200, [], ['loaded'] ] };
APP
        unlink "$dir/loading", "$dir/loaded";
        my $server = hydrofoil('--host', '127.0.0.1', '--port', 0, '-w', 1, @$preload, $slow);
        ok poll_until(sub { -e "$dir/loading" }), 'it loads';
        $server->signal('USR1');
        write_file("$dir/loaded", '');
        is get($server->port), 'loaded', 'it serves';
        is $server->stop, 0, 'exit code';
    };
}

for my $signal (qw(TERM INT QUIT)) {
    subtest "$signal ends the server and all its workers" => sub {
        my $server  = start('-w', 3);
        my $port    = $server->port;
        my @workers = $server->wait_for_workers(3);
        like get($port), qr/^\d+$/, 'it served';
        is $server->stop($signal), 0, 'exit code';
        is_deeply [ grep { is_alive($_) } @workers ], [], 'no worker is left';
        ok !IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port"), 'nobody listens';
    };

    subtest "$signal ends a server without workers" => sub {
        my $server = start('-w', 0);
        is get($server->port), $server->pid, 'the process itself served';
        is $server->stop($signal), 0, 'exit code';
    };
}

subtest 'QUIT answers what is under way first, and closes idle connections' => sub {
    my $server = start('-w', 1);
    my $port   = $server->port;
    my $idle   = HTTP::Tiny->new(keep_alive => 1);
    ok $idle->get("http://127.0.0.1:$port/")->{success}, 'a connection is kept open';
    my $answer = ask_meanwhile($port, '/slow');
    my ($worker) = $server->wait_for(qr/slow request is in (\d+)/);
    $server->signal('QUIT');
    is $answer->(), $worker, 'the slow request is answered';
    is $server->wait_for_end, 0, 'exit code';
};

subtest 'TERM answers the request that is in the application' => sub {
    my $server = start('-w', 1);
    my $answer = ask_meanwhile($server->port, '/slow');
    my ($worker) = $server->wait_for(qr/slow request is in (\d+)/);
    $server->signal('TERM');
    is $answer->(), $worker, 'the request is answered';
    is $server->wait_for_end, 0, 'exit code';
};

subtest 'QUIT kills what does not end within --shutdown-timeout' => sub {
    my $server = start('-w', 1, '--shutdown-timeout', 0.2);
    my $answer = ask_meanwhile($server->port, '/slow?300');
    my ($worker) = $server->wait_for(qr/slow request is in (\d+)/);
    $server->signal('QUIT');
    is $server->wait_for_end, 0, 'exit code';
    like $server->output, qr/worker 1 \(pid $worker\) did not stop within 1\.2 s: killing it/, 'the log tells';
    ok !is_alive($worker), 'it is gone';
    $answer->();
};

subtest 'a second INT does not wait' => sub {
    my $server = start('-w', 1, '--shutdown-timeout', 300);
    my $answer = ask_meanwhile($server->port, '/slow?300');
    $server->wait_for(qr/slow request is in (\d+)/);
    $server->signal('INT');
    $server->wait_for(qr/\] stopping$/m);
    $server->signal('INT');
    is $server->wait_for_end, 0, 'exit code';
    unlike $server->output, qr/did not stop/, 'before the time was up';
    $answer->();
};

subtest 'a Ctrl-C that workers get too is left to the supervisor' => sub {
    my $server    = start('-w', 2);
    my ($victim)  = $server->wait_for_workers(2);
    like get($server->port), qr/^\d+$/, 'it serves';
    kill INT => $server->workers;
    like get($server->port), qr/^\d+$/, 'it serves on';
    is_deeply [ grep { is_alive($_) } $victim ], [$victim], 'the worker lives';
    is $server->stop('INT'), 0, 'exit code';
};

subtest 'TTIN adds a worker, TTOU takes one, but never the last' => sub {
    my $server = start('-w', 1);
    my $port   = $server->port;
    $server->wait_for_workers(1);
    $server->signal('TTIN');
    is scalar $server->wait_for_workers(2), 2, 'two';
    $server->signal('TTOU');
    is scalar $server->wait_for_workers(1), 1, 'one';
    ok $server->wait_for(qr/SIGTTOU: 1 worker$/m), 'the log tells';
    $server->signal('TTOU');
    ok $server->wait_for(qr/(?:SIGTTOU: 1 worker\n.*){2}/s), 'one is the least';
    $server->signal('TTIN');
    is scalar $server->wait_for_workers(2), 2, 'two again: TTOU on one worker did nothing';
    like get($port), qr/^\d+$/, 'it serves';
    is $server->stop, 0, 'exit code';
};

subtest 'workers leave when the supervisor is killed' => sub {
    my $server  = start('-w', 2);
    my $port    = $server->port;
    my @workers = $server->wait_for_workers(2);
    like get($port), qr/^\d+$/, 'it serves';
    $server->signal('KILL');
    $server->wait_for_end;
    ok poll_until(sub { !grep { is_alive($_) } @workers }), 'all workers are gone';
};

subtest 'USR1 reopens the error log, in the workers too' => sub {
    my $log    = "$dir/error.log";
    my $server = start('-w', 1, '--error-log', $log);
    my $port   = $server->port;
    my $read   = sub { open my $handle, '<', $log or return ''; local $/; <$handle> };
    ok poll_until(sub { $read->() =~ /listens on/ }), 'the first log tells of the start';
    get($port, '/slow?0.01');
    like $read->(), qr/slow request/, 'and has what the application prints';
    rename $log, "$log.1" or die $!;
    $server->signal('USR1');
    ok poll_until(sub { -e $log }), 'a new log appears';
    ok poll_until(sub { get($port, '/slow?0.01'); $read->() =~ /slow request/ }), 'and the worker writes to it';
    is $server->stop, 0, 'exit code';
    like $read->(), qr/stopping/, 'so does the supervisor';
};

subtest 'each worker has random numbers of its own' => sub {
    my %seen;
    for my $try (1 .. 3) {
        my $server = start('-w', 1, '-e', 'srand(42); Plack::Util::load_psgi("' . $app . '")');
        $seen{ get($server->port, '/random') }++;
        $server->stop;
    }
    is scalar keys %seen, 3, 'although the application set a seed when it was loaded';
};

subtest 'process titles tell the role' => sub {
    my $server = start('-w', 1);
    my ($worker) = $server->wait_for_workers(1);
    $server->port;
    my $title = sub { open my $handle, '<', "/proc/$_[0]/cmdline" or return ''; my $line = <$handle>; $line =~ tr/\0/ /; $line };
    ok poll_until(sub { $title->($server->pid) =~ /^hydrofoil supervisor \(.*app\.psgi\)/ }), 'supervisor';
    ok poll_until(sub { $title->($worker) =~ /^hydrofoil worker 1/ }), 'worker';
    is $server->stop, 0, 'exit code';
};

subtest '--reuseport: workers come and go, and all answer' => sub {
    my $server = start('-w', 2, '--reuseport');
    my $port   = $server->port;
    my %answered;
    ok poll_until(sub { $answered{ get($port) }++; keys %answered >= 2 }), 'both workers get connections';
    my ($victim) = $server->workers;
    kill KILL => $victim;
    $server->wait_for(qr/pid $victim\) was killed by SIGKILL/);
    is scalar(grep { get($port) =~ /^\d+$/ } 1 .. 20), 20, 'no request is lost after one is killed';
    $server->signal('TTOU');
    $server->wait_for_workers(1);
    ok poll_until(sub { 20 == grep { get($port) =~ /^\d+$/ } 1 .. 20 }), 'the one left after TTOU gets all connections';
    is $server->stop, 0, 'exit code';
};

subtest 'a server that plackup restarts (-R) can be stopped and leaves nothing' => sub {
    my $port   = free_port();
    my $server = hydrofoil('--host', '127.0.0.1', '--port', $port, '-w', 2, '-R', $dir, $app);
    $server->port;
    my ($supervisor) = $server->workers;
    ok poll_until(sub { Hydrofoil::TestProcess::workers($supervisor) == 2 }), 'it serves';
    my @all = ($supervisor, Hydrofoil::TestProcess::workers($supervisor));
    $server->wait_for(qr/Watching/);
    $server->stop('TERM');
    ok poll_until(sub { !grep { is_alive($_) } @all }), 'all processes are gone';
};

done_testing;
