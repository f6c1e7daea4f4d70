use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use POSIX ();
use Test::More;
use Time::HiRes qw(time sleep);
use Hydrofoil::Test;
use Hydrofoil::TestStandby;

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

my $app = gated_app(more => <<'END');
    $env->{'psgix.harakiri.commit'} = 1 if $path =~ m{^/note/n\d*00$};
END

# A process that keeps asking on n connections, numbering its requests, until it is told to stop. What it returns then:
# { asked, failed => [ what went wrong, ... ] }.
sub counting_client {
    my ($server, $n) = @_;
    pipe my $from_child, my $to_parent or die $!;
    pipe my $from_parent, my $to_child or die $!;
    my $pid = fork;
    die $! if !defined $pid;
    if (!$pid) {
        close $_ for $from_child, $to_child;
        my ($asked, @failed) = 0;
        my $until = time + 50 * $Hydrofoil::Test::PATIENCE;
        my @clients = map { $server->connect } 1 .. $n;
        while (!@failed && time < $until) {
            my $ready = '';
            vec($ready, fileno $from_parent, 1) = 1;
            last if select $ready, undef, undef, 0.001;
            # Some at the same time, the rest in turn.
            my @turn = map { [ $_, ++$asked ] } @clients;
            eval {
                $_->[0]->send(req("GET /note/n$_->[1]")) || die "the connection is closed\n" for @turn;
                for my $turn (@turn) {
                    my $answer = $turn->[0]->read_response('GET') or die "no answer to $turn->[1]\n";
                    die "another's answer to $turn->[1]\n" if fact($answer, 'path') ne "/note/n$turn->[1]";
                    die "Connection: close for $turn->[1]\n" if $answer->closes;
                }
                1;
            } or push @failed, $@;
        }
        push @failed, "it took too long\n" if time >= $until;
        syswrite $to_parent, join '', "$asked\n", @failed;
        POSIX::_exit(0);
    }
    close $_ for $to_parent, $from_parent;
    return sub {
        close $to_child;
        my ($asked, @failed) = <$from_child>;
        waitpid $pid, 0;
        chomp $asked;
        return { asked => $asked, failed => \@failed };
    };
}

sub is_exactly_once {
    my ($server, $result) = @_;
    my %times;
    $times{$_}++ for map { /^seen n(\d+)/ ? $1 : () } $server->recorded;
    is_deeply $result->{failed}, [], "$result->{asked} requests, none failed, no connection closed";
    is scalar(keys %times), $result->{asked}, 'all of them ran';
    is scalar(grep { $_ > 1 } values %times), 0, 'none twice';
    return;
}

sub wait_for_replacements {
    my ($server, $n) = @_;
    return poll_until(sub { $n <= (() = $server->log =~ /all workers are replaced/g) }, 30);
}

{
    my $server = start_server(app => $app, args => [ '--workers', 3 ]);

    check 'ten HUPs cost keep-alive clients no request and no connection' => sub {
        my $stop = counting_client($server, 6);
        ok poll_until(sub { $server->recorded > 50 }), 'the clients are at work';
        for my $n (1 .. 10) {
            $server->signal('HUP');
            ok wait_for_replacements($server, $n), "HUP $n";
        }
        is_exactly_once($server, $stop->());
    };

    check 'TTOU and TTIN cost them nothing either' => sub {
        $server->forget_recorded;
        my $stop = counting_client($server, 6);
        ok poll_until(sub { $server->recorded > 50 }), 'the clients are at work';
        for my $round (1 .. 3) {
            for my $step ([ TTOU => 2 ], [ TTOU => 1 ], [ TTIN => 2 ], [ TTIN => 3 ]) {
                $server->signal($step->[0]);
                ok poll_until(sub { workers_of($server) == $step->[1] }), "$step->[0]: $step->[1]";
                my $before = $server->recorded;
                ok poll_until(sub { $server->recorded > $before + 10 }), 'it goes on';
            }
        }
        is_exactly_once($server, $stop->());
    };

    check 'a request that was half sent at HUP is completed by a new worker' => sub {
        my @old = workers_of($server);
        my $hups = () = $server->log =~ /all workers are replaced/g;
        my ($idle, $head, $body, $file) = map { $server->connect } 1 .. 4;
        $_->ask('GET /') for $idle, $head, $body, $file;
        my $small = 'x' x 3000;
        my $large = 'y' x 300_000;
        my $post = req('POST /', \$small);
        my $upload = req('POST /', \$large);
        $head->send("GET /half HTTP/1.1\r\nHo");
        $body->send(substr $post, 0, 2000);
        $file->send(substr $upload, 0, 200_000);
        $server->signal('HUP');
        ok wait_for_replacements($server, $hups + 1), 'the workers are replaced';
        ok poll_until(sub { !grep { kill 0, $_ } @old }), 'the old ones are gone';
        $head->send("st: localhost\r\n\r\n");
        $body->send(substr $post, 2000);
        $file->send(substr $upload, 200_000);
        is fact($head->read_response('GET'), 'path'), '/half', 'the head';
        is fact($body->read_response('POST'), 'length'), 3000, 'the body';
        is fact($file->read_response('POST'), 'length'), 300_000, 'the body in a file';
        is $idle->ask('GET /')->status, 200, 'the idle connection';
    };

    check 'HUP: a stuck worker gives its other connections away at once, and its own when it is done' => sub {
        my $hups = () = $server->log =~ /all workers are replaced/g;
        my $pid = fact($server->ask('GET /'), 'pid');
        my @others = client_of($server, $pid, 3);
        my $stuck = stick($server, $pid);
        $server->signal('HUP');
        ok wait_for_replacements($server, $hups + 1), 'the workers are replaced';
        for my $client (@others) {
            my $answer = $client->ask('GET /');
            isnt fact($answer, 'pid'), $pid, 'answered by another worker';
            ok !$answer->closes, 'which keeps the connection';
        }
        my $answer = $stuck->release;
        is fact($answer, 'pid'), $pid, 'the stuck request is answered by the old one';
        ok !$answer->closes, 'without a close';
        $answer = $stuck->client->ask('GET /');
        isnt fact($answer, 'pid'), $pid, 'the next by another worker';
        ok poll_until(sub { !kill 0, $pid }), 'the old one leaves';
    };

    check 'a worker that is killed is replaced, and nobody else notices' => sub {
        my %at = spread($server, 3);
        my ($victim, @others) = keys %at;
        kill KILL => $victim;
        ok $at{$victim}->closes, 'its own connections end';
        is fact($at{$_}->ask('GET /'), 'pid'), $_, 'another goes on' for @others;
        like $server->wait_for_log(qr/\(pid $victim\) was killed by SIGKILL/), qr/starting another/, 'the log says why';
        ok poll_until(sub { workers_of($server) == 3 }), 'there is a new one';
        my %new = spread($server, 3);
        ok !$new{$victim}, 'which serves';
    };

    check 'a worker that dies loses only the request that it runs' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my @clients = client_of($server, $pid, 5);
        my @stuck = stick_all($server, 3);
        my ($victim) = grep { $_->pid == $pid } @stuck;
        my @rest = grep { $_ != $victim } @stuck;
        my $before = descriptors_of($server, $victim);
        $clients[$_]->send(req("GET /note/moved$_")) for 0 .. 4;
        ok poll_until(sub { descriptors_of($server, $victim) <= $before - 5 }), 'its other requests are in the run queue';
        kill KILL => $pid;
        ok $victim->client->closes, 'its own client sees the end';
        is $_->release->status, 200, 'the others are released' for @rest;
        is fact($clients[$_]->read_response('GET'), 'path'), "/note/moved$_", 'a request of its other connections' for 0 .. 4;
    };

    ok $server->stop, 'it stops';
}

check 'psgix.harakiri costs keep-alive clients nothing' => sub {
    my $server = start_server(app => $app, args => [ '--workers', 3 ]);
    my $stop = counting_client($server, 5);
    ok poll_until(sub { $server->recorded > 1000 }, 40), 'many requests';
    is_exactly_once($server, $stop->());
    like $server->log, qr/leaves \(harakiri\)/, 'workers have left meanwhile';
    ok $server->stop, 'it stops';
};

for my $workers (1, 3) {
    my $server = start_server(app => $app, args => [ '--workers', $workers, '--max-requests', 40 ]);
    check "--max-requests with $workers worker(s) closes no keep-alive connection" => sub {
        my $first = fact($server->ask('GET /'), 'pid');
        my $stop = counting_client($server, 5);
        ok poll_until(sub { $server->recorded > 400 }, 40), 'many requests';
        is_exactly_once($server, $stop->());
        my %pids = map { /^seen n\d+ (\d+)/ ? ($1 => 1) : () } $server->recorded;
        cmp_ok scalar(keys %pids), '>=', 6, 'by many workers';
    };
    ok $server->stop, 'it stops';
}

SKIP: {
    skip 'needs /proc/self/statm', 2 if !-r '/proc/self/statm';
    my $leaking = gated_app(more => <<'END');
    if ($path =~ m{^/leak/(\d+)}) { push our @leak, 'x' x ($1 * 1024 * 1024) }
END
    my $server = start_server(app => $leaking, args => [ '--workers', 2, '--max-memory', '150m' ]);
    check '--max-memory replaces a worker that has grown, and closes no connection' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my $client = client_of($server, $pid, 1);
        my $stop = counting_client($server, 3);
        ok poll_until(sub { $server->recorded > 50 }), 'clients are at work';
        is fact($client->ask('GET /leak/1'), 'pid'), $pid, 'one leaks a little';
        is fact($client->ask('GET /leak/200'), 'pid'), $pid, 'and then much';
        ok poll_until(sub { $client->ask('GET /'); !kill 0, $pid }), 'the worker is replaced';
        like $server->wait_for_log(qr/\(pid $pid\) leaves/), qr/leaves \(max-memory\)/, 'the log says why';
        is $client->ask('GET /')->status, 200, 'its client still has its connection';
        is_exactly_once($server, $stop->());
        is scalar(() = $server->log =~ /leaves \(max-memory\)/g), 1, 'the others stay';
    };
    ok $server->stop, 'it stops';
}

check 'a limit of memory below what the application needs is said, and replaces nobody' => sub {
    my $server = start_server(app => $app, args => [ '--workers', 1, '--max-memory', '1m' ]);
    like $server->wait_for_log(qr/--max-memory/), qr/takes \d+ MiB before its first request, and the limit is 1 MiB; give it more/, 'how much it is';
    my $pid = fact($server->ask('GET /'), 'pid');
    ok poll_until(sub { $server->ask('GET /'); 1 }, 1), 'it serves';
    is fact($server->ask('GET /'), 'pid'), $pid, 'as before';
    ok $server->stop, 'it stops';
};

{
    my $server = start_server(app => $app, args => [ '--workers', 2 ]);
    check 'QUIT: what waits is answered, with Connection: close; idle connections end' => sub {
        my ($idle) = client_of($server);
        my @waiting = map { client_of($server) } 1 .. 5;
        my @stuck = stick_all($server, 2);
        my $before = descriptors_of($server, @stuck);
        $waiting[$_]->send(req("GET /note/w$_")) for 0 .. 4;
        ok poll_until(sub { descriptors_of($server, @stuck) <= $before - 5 }), 'five requests are in the run queue';
        $server->signal('QUIT');
        ok $server->wait_for_log(qr/stopping when/), 'QUIT has arrived';
        ok $idle->closes, 'the idle connection ends';
        for my $stuck (@stuck) {
            my $answer = $stuck->release;
            is $answer->status, 200, 'a stuck one is answered';
            ok $answer->closes, 'and its connection ends';
        }
        for my $n (0 .. 4) {
            my $answer = eval { $waiting[$n]->read_response('GET') };
            is $answer && fact($answer, 'path'), "/note/w$n", 'one that waited is answered';
            ok $answer && $answer->closes, 'and its connection ends';
        }
        ok poll_until(sub { $server->exited }), 'the server ends';
        is $server->{status}, 0, 'well';
    };
}

{
    my $server = start_server(app => $app, args => [ '--workers', 1 ]);
    check 'QUIT with one worker, stuck: requests that wait for it are answered' => sub {
        my @waiting = client_of($server, undef, 5);
        my ($stuck) = stick_all($server, 1);
        my $before = descriptors_of($server, $stuck);
        $waiting[$_]->send(req("GET /note/w$_")) for 0 .. 4;
        ok poll_until(sub { descriptors_of($server, $stuck) <= $before - 5 }), 'five requests are in the run queue';
        $server->signal('QUIT');
        ok $server->wait_for_log(qr/stopping when/), 'QUIT has arrived';
        sleep 0.1 * $Hydrofoil::Test::PATIENCE;
        is $stuck->release->status, 200, 'the stuck one';
        for my $n (0 .. 4) {
            my $answer = eval { $waiting[$n]->read_response('GET') };
            is $answer && fact($answer, 'path'), "/note/w$n", 'one that waited';
        }
        ok poll_until(sub { $server->exited }), 'the server ends';
        is $server->{status}, 0, 'well';
    };
}

done_testing;
