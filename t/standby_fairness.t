use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use File::Temp ();
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);
use Hydrofoil::Test;
use Hydrofoil::TestStandby;

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

my $large = 8 * 1024 * 1024;
my $app = gated_app(more => <<"END");
    if (\$path eq '/large') {
        return [ 200, [ 'Content-Type' => 'text/plain' ], [ 'x' x $large ] ];
    }
END

{
    my $server = start_server(app => $app, args => [ '--workers', 3 ]);
    my $gate = 0;

    check 'the connections of a stuck worker are answered by the others' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my @others = client_of($server, $pid, 5);
        my $stuck = stick($server, $pid);
        for my $round (1 .. 3) {
            for my $client (@others) {
                my $answer = $client->ask('GET /');
                is $answer->status, 200, 'answered';
                isnt fact($answer, 'pid'), $pid, 'by another worker';
            }
        }
        my $fresh = 0;
        for (1 .. 10) {
            my $answer = $server->ask('GET /');
            $fresh++ if $answer->status == 200 && fact($answer, 'pid') != $pid;
        }
        is $fresh, 10, 'new connections too';
        is fact($stuck->release, 'pid'), $pid, 'the stuck one is answered in the end';
        is $stuck->client->ask('GET /')->status, 200, 'and its connection goes on';
    };

    check 'requests that were half there when the worker got stuck are completed and answered meanwhile' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my ($head, $body, $chunks) = client_of($server, $pid, 3);
        my $upload = 'abc' x 10_000;
        my $post = req('POST /up', \$upload);
        my $chunked = req('POST /up', 'Transfer-Encoding: chunked') . "5\r\nhello\r\n6\r\n wo";
        $head->send("GET /split HTTP/1.1\r\nHos");
        $body->send(substr $post, 0, 5000);
        $chunks->send($chunked);
        # Nothing tells from outside whether these bytes have been read by now: either way they must do.
        my $stuck = stick($server, $pid);
        $head->send("t: localhost\r\n");
        $body->send(substr $post, 5000, 10_000);
        $head->send("\r\n");
        $body->send(substr $post, 15_000);
        $chunks->send("rld\r\n0\r\n\r\n");
        my $answer = facts($head->read_response('GET'));
        is $answer->{path}, '/split', 'the head';
        isnt $answer->{pid}, $pid, 'by another worker';
        $answer = facts($body->read_response('POST'));
        is $answer->{length}, 30_000, 'the body';
        isnt $answer->{pid}, $pid, 'by another worker';
        $answer = facts($chunks->read_response('POST'));
        is $answer->{length}, 11, 'the chunked body';
        isnt $answer->{pid}, $pid, 'by another worker';
        is $stuck->release->status, 200, 'the stuck one';
    };

    check 'a large answer that was half sent goes on to a client that reads on' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my ($slow) = client_of($server, $pid, 1, receive_buffer => 8192);
        $slow->send(req('GET /large'));
        $slow->read_at_least(1000);
        my $stuck = stick($server, $pid);
        my $answer = $slow->read_response('GET');
        is length $answer->body, $large, 'all of it, while the gate is shut';
        is $slow->ask('GET /')->status, 200, 'and the connection goes on';
        is $stuck->release->status, 200, 'the stuck one';
    };

    check 'answers to pipelined requests before a stuck one leave at once, later ones wait in order' => sub {
        my $client = $server->connect;
        my $name = 'd' . ++$gate;
        $client->send(join '', map { req("GET $_") } '/one', '/two', "/hold/$name", '/three', '/four');
        is fact($client->read_response('GET'), 'path'), '/one', 'the first';
        is fact($client->read_response('GET'), 'path'), '/two', 'the second';
        ok is_open($client), 'not more';
        open_gate($name);
        is fact($client->read_response('GET'), 'path'), $_, $_ for "/hold/$name", '/three', '/four';
    };

    check 'a request behind a stuck one of the same connection is not taken by another worker' => sub {
        my $client = $server->connect;
        my $name = 'e' . ++$gate;
        hold($server, $client, $name);
        $client->send(req("GET /note/after$name"));
        is $server->ask('GET /')->status, 200, 'the others go on' for 1 .. 5;
        is scalar(grep { /^seen after$name / } $server->recorded), 0, 'it waits';
        open_gate($name);
        is fact($client->read_response('GET'), 'path'), "/hold/$name", 'the stuck one is answered first';
        is fact($client->read_response('GET'), 'path'), "/note/after$name", 'then the other';
    };

    check 'one worker serves the connections of all that are stuck' => sub {
        my %at = spread($server, 3);
        my ($free, @others) = sort keys %at;
        my @clients = map { client_of($server, $_, 3) } @others;
        my @stuck = map { stick($server, $_) } @others;
        is fact($_->ask('GET /'), 'pid'), $free, 'answered by the third' for @clients;
        is $_->release->status, 200, 'the stuck ones' for @stuck;
    };

    check 'a standby thread sleeps when the connections of its stuck worker want nothing, whatever state they are in' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my ($idle, $half, $gone, $head, $body) = client_of($server, $pid, 5);
        my $slow = client_of($server, $pid, 1, receive_buffer => 8192);
        $slow->send(req('GET /large') . req('GET /'));    # the second cannot move before the first is sent
        $slow->read_at_least(1000);
        $head->send("GET / HTTP/1.1\r\n");
        $body->send(req('POST /', 'Content-Length: 10') . 'half');
        my @stuck = stick_all($server, 3);
        my ($stuck) = grep { $_->pid == $pid } @stuck;
        $half->half_close;
        $gone->abort;
        $stuck->client->half_close;
        my $switches = sub {
            my $n = 0;
            for my $file (grep { !m{/$pid/status} } glob "/proc/$pid/task/*/status") {
                open my $in, '<', $file or next;
                $n += join('', <$in>) =~ /^voluntary_ctxt_switches:\s*(\d+)/m ? $1 : 0;
            }
            return $n;
        };
        sleep 0.3;
        my $before = $switches->();
        sleep 1;
        cmp_ok $switches->() - $before, '<', 100, 'it was not woken all the time';
        is $_->release->status, 200, 'the stuck ones' for @stuck;
        is length $slow->read_response('GET')->body, $large, 'the slow reader';
        is $slow->read_response('GET')->status, 200, 'and its next request';
    };

    ok $server->stop, 'it stops';
}

{
    my $server = start_server(app => $app, args => [ '--workers', 2, '--keepalive-timeout', 1, '--header-timeout', 1 ]);

    check 'timeouts act on the connections of a stuck worker' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my ($idle, $slow) = client_of($server, $pid, 2);
        $slow->send("GET / HTTP/1.1\r\n");
        my $stuck = stick($server, $pid);
        ok $idle->closes, 'an idle connection is closed after --keepalive-timeout';
        is $slow->read_response('GET')->status, 408, 'one that sends no whole head gets a 408 after --header-timeout';
        is $stuck->release->status, 200, 'the stuck one';
    };

    ok $server->stop, 'it stops';
}

{
    my $server = start_server(app => $app, args => [ '--workers', 2 ]);
    my $open_files = POSIX::sysconf(POSIX::_SC_OPEN_MAX()) || 256;
    my $n = $open_files - 200 > 2000 ? 2000 : $open_files - 200;

    check 'with all workers stuck, far more requests than the run queue takes wait, and each is answered once' => sub {
        my @clients = map { $server->connect } 1 .. $n;
        $_->ask('GET /') for @clients;
        my @stuck = stick_all($server, 2);
        $clients[$_]->send(req("GET /note/n$_")) for 0 .. $#clients;
        my @late = map { my $client = $server->connect; $client->send(req("GET /note/late$_")); $client } 1 .. 50;
        ok is_open($clients[0]), 'no answer while all are stuck';
        is scalar(grep { /^seen/ } $server->recorded), 0, 'nor has any run';
        is $_->release->status, 200, 'the stuck one' for @stuck;
        my $bad = 0;
        for my $i (0 .. $#clients) {
            my $answer = eval { $clients[$i]->read_response('GET') };
            $bad++ unless $answer && fact($answer, 'path') eq "/note/n$i";
        }
        is $bad, 0, "$n requests are answered, each by its own answer";
        is scalar(grep { $_->read_response('GET')->status == 200 } @late), 50, 'those of new connections, too';
        my %times;
        $times{$_}++ for map { /^seen (\w+)/ ? $1 : () } $server->recorded;
        is scalar(keys %times), $n + 50, 'all of them have run';
        is scalar(grep { $_ != 1 } values %times), 0, 'once';
        $bad = grep { !eval { $_->ask('GET /')->status == 200 } } @clients;
        is $bad, 0, 'and every connection goes on';
    };

    ok $server->stop, 'it stops';
}

{
    my $server = start_server(app => $app, args => [ '--workers', 3 ]);

    check 'requests that wait for a worker run in the order in which they came, whoever read them' => sub {
        my %at = spread($server, 3);
        my @queue = map { [ client_of($server, $_, 10) ] } keys %at;
        my @stuck = stick_all($server, 3);
        my @clients;
        for my $i (0 .. 29) {
            push @clients, my $client = shift @{ $queue[ $i % 3 ] };
            $client->send(req("GET /note/o$i"));
            sleep 0.02 * $Hydrofoil::Test::PATIENCE;    # the order is that in which the workers read them
        }
        # With one worker free there is one order.
        is +(shift @stuck)->release->status, 200, 'one is free again';
        is $_->read_response('GET')->status, 200, 'answered' for @clients;
        my @order = map { /^seen o(\d+)/ ? $1 : () } $server->recorded;
        my @moved = grep { abs($order[$_] - $_) > 3 } 0 .. $#order;
        is scalar @order, 30, 'each has run once';
        is scalar @moved, 0, 'in order' or diag "@order";
        is $_->release->status, 200, 'the others' for @stuck;
    };

    ok $server->stop, 'it stops';
}

SKIP: {
    skip 'not with another command', 2 if $ENV{HYDROFOIL_TEST_COMMAND};
    my $dir = File::Temp->newdir;
    open my $script, '>', "$dir/few-files" or die $!;
    print {$script} "#!/bin/sh\nulimit -n 160\nexec @{[ Hydrofoil::Test::Server->program ]} \"\$@\"\n";
    close $script;
    chmod 0755, "$dir/few-files";
    local $ENV{HYDROFOIL_TEST_COMMAND} = "$dir/few-files";
    my $server = start_server(app => $app, args => [ '--workers', 3 ]);

    check 'a worker that has about as many connections as it can have lets the others accept' => sub {
        my @holding = map { $server->connect } 1, 2;
        my @pids = map { hold($server, $holding[$_], "few$_") } 0, 1;
        isnt $pids[0], $pids[1], 'two of three workers are stuck';
        my @clients = map { my $client = $server->connect; $client->send(req('GET /')); $client } 1 .. 200;
        is $clients[0]->read_response('GET')->status, 200, 'the third takes what it can';
        open_gate("few$_") for 0, 1;
        is $_->read_response('GET')->status, 200, 'the stuck ones' for @holding;
        is scalar(grep { eval { $_->read_response('GET')->status == 200 } } @clients[ 1 .. 199 ]), 199, 'then all are answered';
        is scalar(grep { eval { $server->ask('GET /')->status == 200 } } 1 .. 60), 60, 'and new connections, one by one';
        is scalar(grep { eval { $_->ask('GET /')->status == 200 } } @clients), 200, 'and the old ones again';
    };

    check 'nothing is lost when more requests move to one worker than it can have connections' => sub {
        my @clients = map { my $client = $server->connect; $client->ask('GET /'); $client } 1 .. 300;
        my @holding = splice @clients, 0, 2;
        my @pids = map { hold($server, $holding[$_], "scarce$_") } 0, 1;
        isnt $pids[0], $pids[1], 'two of three workers are stuck';
        $_->send(req('GET /')) for @clients;
        # The third has not enough descriptors for all: some wait until the others are back.
        open_gate("scarce$_") for 0, 1;
        is scalar(grep { eval { $_->read_response('GET')->status == 200 } } @clients), 298, 'all are answered';
        is $_->read_response('GET')->status, 200, 'the stuck ones' for @holding;
    };

    unlike $server->log, qr/lost/, 'nothing is lost';
    ok $server->stop, 'it stops';
}

{
    my $server = start_server(app => $app, args => [ '--workers', 2, '--no-standby' ]);

    check '--no-standby lets the connections of a stuck worker wait for it' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my @others = client_of($server, $pid, 3);
        my $stuck = stick($server, $pid);
        $_->send(req('GET /note/kept')) for @others;
        is $server->ask('GET /')->status, 200, 'new connections are served by the other worker' for 1 .. 10;
        is scalar(grep { /^seen kept/ } $server->recorded), 0, 'those of the stuck one have not run';
        is $stuck->release->status, 200, 'the stuck one';
        is fact($_->read_response('GET'), 'pid'), $pid, 'then they are answered, by their own worker' for @others;
    };

    ok $server->stop, 'it stops';
}

done_testing;
