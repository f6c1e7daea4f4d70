use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use IO::Socket::INET;
use Test::More;
use Hydrofoil::TestProcess qw(hydrofoil finish get is_alive poll_until write_file);

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

my $dir = tempdir(CLEANUP => 1);
my $app = write_file("$dir/app.psgi", <<'APP');
sub {
    my $env = shift;
    exit 3 if $env->{PATH_INFO} eq '/exit';
    kill ABRT => $$ if $env->{PATH_INFO} eq '/crash';
    $env->{'psgix.harakiri.commit'} = 1 if $env->{PATH_INFO} eq '/harakiri';
    return [ 200, [ 'Content-Type' => 'text/plain' ], [ $$ ] ];
}
APP

sub start { hydrofoil('--host', '127.0.0.1', '--port', 0, @_) }

subtest 'a worker that is killed is replaced, and the log tells who, why and when' => sub {
    my $server   = start('-w', 2, $app);
    my $port     = $server->port;
    my ($victim) = $server->wait_for_workers(2);
    get($port);
    kill KILL => $victim;
    ok $server->wait_for(qr/worker [12] \(pid $victim\) was killed by SIGKILL after \d+\.\d s; starting another/), 'log';
    my @workers = $server->wait_for_workers(2);
    is scalar @workers, 2, 'there are two again';
    ok !grep({ $_ == $victim } @workers), 'the dead one is not among them';
    like get($port), qr/^\d+$/, 'it serves';
    is $server->stop, 0, 'exit code';
};

subtest 'a worker in which the application crashes or exits is replaced' => sub {
    my $server = start('-w', 1, '--err-respawn-interval', 0.01, $app);
    my $port   = $server->port;
    get($port, '/exit');
    ok $server->wait_for(qr/worker 1 \(pid \d+\) exited with code 3 after/), 'log of the exit';
    like get($port), qr/^\d+$/, 'it serves';
    get($port, '/crash');
    ok $server->wait_for(qr/worker 1 \(pid \d+\) was killed by SIGABRT(?: \(core dumped\))? after/), 'log of the crash';
    like get($port), qr/^\d+$/, 'it serves';
    is $server->stop, 0, 'exit code';
};

subtest '--max-requests: workers leave and are replaced without a word' => sub {
    my $server = start('-w', 1, '--max-requests', 3, '--min-reqs-per-child', 3, $app);
    my $port   = $server->port;
    my (%count, @order);
    for (1 .. 9) {
        my $worker = get($port);
        push @order, $worker if !$count{$worker}++;
    }
    is_deeply [ @count{@order} ], [ 3, 3, 3 ], 'each answered three';
    unlike $server->output, qr/worker 1 \(/, 'nothing in the log';
    is $server->stop, 0, 'exit code';
};

subtest 'psgix.harakiri: the worker leaves after its answer and is replaced' => sub {
    my $server = start('-w', 1, $app);
    my $port   = $server->port;
    my $first  = get($port, '/harakiri');
    like $first, qr/^\d+$/, 'the answer came';
    ok poll_until(sub { !is_alive($first) }), 'the worker left';
    isnt get($port), $first, 'another answers';
    is $server->stop, 0, 'exit code';
};

subtest 'workers that die at once are started again after longer and longer pauses' => sub {
    my $switch = "$dir/broken";
    my $file   = write_file("$dir/switch.psgi", qq{die "out of order\\n" if -e '$switch';\nsub { [ 200, [], [\$\$] ] }\n});
    my $server = start('-w', 1, '--no-preload-app', '--err-respawn-interval', 0.1, $file);
    my $port   = $server->port;
    my $worker = get($port);
    write_file($switch, '');
    kill KILL => $worker;
    for my $pause (0.1, 0.2, 0.4, 0.8) {
        ok $server->wait_for(qr/after \d+\.\d s; starting another in \Q$pause\E s/), "pause of $pause s";
    }
    like $server->output, qr/out of order/, 'the log has the reason';
    unlink $switch;
    like get($port), qr/^\d+$/, 'it serves when the cause is gone';
    is $server->stop, 0, 'exit code';
};

subtest 'a server none of whose workers can start gives up' => sub {
    my $count = "$dir/count";
    my $file  = write_file("$dir/once.psgi",
        qq{die "only once\\n" if -e '$count';\nopen my \$mark, '>', '$count';\nsub { [ 200, [], [] ] }\n});
    my ($code, $output) = finish(start('-w', 2, '--no-preload-app', $file));
    is $code, 1, 'exit code';
    like $output, qr/only once/, 'the reason';
    like $output, qr/^hydrofoil: no worker could start: worker \d/m, 'the verdict';
};

subtest '--spawn-interval keeps the starts of workers apart' => sub {
    my $server = start('-w', 3, '--spawn-interval', 300, $app);
    like get($server->port), qr/^\d+$/, 'the first worker serves';
    is scalar $server->workers, 1, 'alone';
    $server->stop;

    $server = start('-w', 3, '--spawn-interval', 0.05, $app);
    is scalar $server->wait_for_workers(3), 3, 'the others follow';
    is $server->stop, 0, 'exit code';
};

subtest 'a worker that is told to stop by itself is replaced' => sub {
    my $server = start('-w', 1, $app);
    my $port   = $server->port;
    my $first  = get($port);
    kill TERM => $first;
    ok $server->wait_for(qr/worker 1 \(pid $first\) leaves \(stopped\)/), 'log';
    isnt get($port), $first, 'another answers';
    is $server->stop, 0, 'exit code';
};

subtest 'a worker that leaves but still has a slow client is replaced meanwhile' => sub {
    my $file   = write_file("$dir/big.psgi", 'sub { [ 200, [], [ $_[0]{PATH_INFO} eq "/big" ? "x" x 20_000_000 : $$ ] ] }');
    my $server = start('-w', 1, '--max-requests', 1, $file);
    my $port   = $server->port;
    my $slow   = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die $!;
    my ($old)  = $server->wait_for_workers(1);
    print {$slow} "GET /big HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    sysread $slow, my $first, 1;
    like get($port), qr/^\d+$/, 'another worker answers';
    ok is_alive($old), 'while the old one is still sending';
    my $length = 1;
    while (my $n = sysread $slow, my $bytes, 65536) { $length += $n }
    cmp_ok $length, '>', 20_000_000, 'all of it';
    is $server->stop, 0, 'exit code';
};

done_testing;
