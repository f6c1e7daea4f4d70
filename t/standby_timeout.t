use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;
use Time::HiRes qw(sleep);
use Hydrofoil::Test;
use Hydrofoil::TestStandby;

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

# The stuck calls end by themselves after a minute, in case that nobody ends them.
my $large = 8 * 1024 * 1024;
my $app = gated_app(more => <<"END");
    if (\$path eq '/loop') {
        main::record("loop \$\$");
        my \$until = time + 60;
        1 while time < \$until;
    }
    if (\$path eq '/large') {
        return [ 200, [ 'Content-Type' => 'text/plain' ], [ 'x' x $large ] ];
    }
    if (\$path eq '/begun') {
        return sub {
            my \$writer = \$_[0]->([ 200, [ 'Content-Type' => 'text/plain' ] ]);
            \$writer->write("the beginning\\n");
            main::record("begun \$\$");
            Deep::inside();
        };
    }
    if (\$path =~ m{^/later(/begun)?}) {
        my \$begun = \$1;
        return sub {
            my \$responder = shift;
            main::record("later \$\$");
            push \@later, \$begun ? \$responder->([ 200, [ 'Content-Type' => 'text/plain' ] ]) : \$responder;
            \$later[-1]->write("the beginning\\n") if \$begun;
        };
    }
    if (\$path eq '/stuck') {
        main::record("stuck \$\$");
        Deep::inside();
    }
END
$app = "my \@later;\npackage Deep; sub inside { my \$until = time + 60; Time::HiRes::sleep(0.05) while time < \$until } package main;\n$app";

sub worker_of { my ($server, $word) = @_; return (map { /^\Q$word\E (\d+)/ ? $1 : () } $server->recorded)[0] }

sub is_replaced {
    my ($server, $pid, $n) = @_;
    like $server->wait_for_log(qr/\(pid $pid\) gave up on a stuck request/), qr/starting another/, 'the supervisor says why';
    ok poll_until(sub { !kill 0, $pid }), 'the worker is gone';
    ok poll_until(sub { workers_of($server) == $n }), 'another is there';
    return;
}

{
    my $server = start_server(app => $app, args => [ '--workers', 2, '--request-timeout', 2 ]);

    check 'a stuck request is answered 504, and the log says which and where' => sub {
        my $answer = $server->ask('GET /stuck?x=1');
        is $answer->status, 504, 'the answer';
        ok $answer->closes, 'is the last one on its connection';
        my $pid = worker_of($server, 'stuck');
        like $server->wait_for_log(qr/stuck for/), qr{GET /stuck\?x=1: stuck for [2-9]\S* s}, 'the request and how long';
        my ($stack) = $server->log =~ /about to be given up(.*?)stuck for/s;
        like $stack, qr/Deep::inside called at \S+ line \d+/, 'where it was';
        unlike $stack, qr/Hydrofoil/, 'without the server itself';
        is_replaced($server, $pid, 2);
        is scalar(() = $server->log =~ /stuck for/g), 1, 'nothing else was given up';
    };

    check 'a call that takes its time, but less than that, is left alone' => sub {
        my $client = client_of($server);
        my $pid = hold($server, $client, 'patient');
        sleep 0.5;
        open_gate('patient');
        is fact($client->read_response('GET'), 'pid'), $pid, 'answered';
    };

    check 'a loop that never sleeps is ended, too' => sub {
        my $answer = $server->ask('GET /loop');
        is $answer->status, 504, 'the answer';
        is_replaced($server, worker_of($server, 'loop'), 2);
        like $server->log, qr{GET /loop: stuck for}, 'and the log';
    };

    check 'an answer that had begun is cut' => sub {
        my $client = $server->connect;
        $client->send(req('GET /begun'));
        my $rest = $client->read_until_close;
        like $rest, qr/the beginning/, 'what was written has come';
        unlike $rest, qr/^0\r\n\r\n\z/m, 'without an end of the answer';
        unlike $rest, qr/504/, 'nor another answer in it';
        is_replaced($server, worker_of($server, 'begun'), 2);
    };

    check 'the same when its client has left already' => sub {
        $server->forget_recorded;
        my $client = $server->connect;
        $client->send(req('GET /stuck'));
        my $pid;
        poll_until(sub { $pid = worker_of($server, 'stuck') });
        $client->abort;
        is_replaced($server, $pid, 2);
        is $server->ask('GET /')->status, 200, 'it serves on';
    };

    check 'the other connections of the worker are not harmed' => sub {
        $server->forget_recorded;
        my $client = client_of($server);
        my $pid = fact($client->ask('GET /'), 'pid');
        my ($idle, $head, $body, $file, $waits) = client_of($server, $pid, 5);
        my $slow = client_of($server, $pid, 1, receive_buffer => 8192);
        my $small = 'x' x 3000;
        my $upload = 'y' x 300_000;
        my $post = req('POST /', \$small);
        my $put = req('PUT /', \$upload);
        $slow->send(req('GET /large'));
        $slow->read_at_least(1000);
        $head->send("GET /half HTTP/1.1\r\nHo");
        $body->send(substr $post, 0, 2000);
        $file->send(substr $put, 0, 200_000);
        $client->send(req('GET /stuck'));
        ok poll_until(sub { worker_of($server, 'stuck') }), 'a worker is stuck';
        $pid = worker_of($server, 'stuck');
        $waits->send(req('GET /'));
        is $client->read_response('GET')->status, 504, 'the stuck one';
        is $waits->read_response('GET')->status, 200, 'one that waited';
        is length($slow->read_response('GET')->body), $large, 'a large answer that was being sent is sent on';
        is $slow->ask('GET /')->status, 200, 'and its connection goes on';
        $head->send("st: localhost\r\n\r\n");
        $body->send(substr $post, 2000);
        $file->send(substr $put, 200_000);
        is fact($head->read_response('GET'), 'path'), '/half', 'a head that was half there';
        is fact($body->read_response('POST'), 'length'), 3000, 'a body';
        is fact($file->read_response('PUT'), 'length'), 300_000, 'a body in a file';
        is $idle->ask('GET /')->status, 200, 'an idle one';
        ok poll_until(sub { !kill 0, $pid }), 'the worker is gone';
    };

    check 'what the same worker was to answer later ends, too' => sub {
        $server->forget_recorded;
        my $client = client_of($server);
        my $pid = fact($client->ask('GET /'), 'pid');
        my ($later, $begun, $stuck) = client_of($server, $pid, 3);
        $later->send(req('GET /later'));
        $begun->send(req('GET /later/begun'));
        ok poll_until(sub { 2 == grep { $_ eq "later $pid" } $server->recorded }), 'two are waiting for their answers';
        $begun->read_at_least(1);
        $stuck->send(req('GET /stuck'));
        ok poll_until(sub { worker_of($server, 'stuck') }), 'a worker is stuck';
        SKIP: {
            skip 'it was moved', 4 if worker_of($server, 'stuck') != $pid;
            is $stuck->read_response('GET')->status, 504, 'the stuck one';
            is $later->read_response('GET')->status, 503, 'one that has no answer yet';
            my $rest = $begun->read_until_close;
            like $rest, qr/the beginning/, 'one whose answer had begun';
            unlike $rest, qr/\r\n0\r\n/, 'is cut';
        }
    };

    check 'a slow reader has its time though the worker that answered it has been given up' => sub {
        $server->forget_recorded;
        my $client = client_of($server);
        my $pid = fact($client->ask('GET /'), 'pid');
        my $slow = client_of($server, $pid, 1, receive_buffer => 8192);
        $slow->send(req('GET /large'));
        $slow->read_at_least(1000);
        my $stuck = client_of($server, $pid);
        $stuck->send(req('GET /stuck'));
        is $stuck->read_response('GET')->status, 504, 'the stuck one';
        ok poll_until(sub { (grep { $_ != $pid } workers_of($server)) == 2 }), 'there are two other workers';
        sleep 2;    # more than what it takes to say goodbye to the others
        is length(eval { $slow->read_response('GET')->body }), $large, 'the rest of the answer still comes';
        ok poll_until(sub { !kill 0, $pid }), 'then the worker goes';
    };

    ok $server->stop, 'it stops';
}

{
    my $server = start_server(app => $app, args => [ '--workers', 1, '--request-timeout', 1.5 ]);
    check 'with one worker, the requests behind a stuck one are answered by its successor' => sub {
        my @clients = client_of($server, undef, 3);
        my $pid = fact($clients[0]->ask('GET /'), 'pid');
        sleep 1;    # a worker that dies in its first second is not replaced at once
        my $stuck = $server->connect;
        $stuck->send(req('GET /stuck'));
        ok poll_until(sub { worker_of($server, 'stuck') }), 'the worker is stuck';
        $_->send(req('GET /')) for @clients;
        my $fresh = $server->connect;
        $fresh->send(req('GET /'));
        is $stuck->read_response('GET')->status, 504, 'the stuck one';
        for my $client (@clients, $fresh) {
            my $answer = $client->read_response('GET');
            is $answer->status, 200, 'another is answered';
            isnt fact($answer, 'pid'), $pid, 'by the new worker';
        }
        is_replaced($server, $pid, 1);
    };
    ok $server->stop, 'it stops';
}

{
    my $server = start_server(app => $app, args => [ '--workers', 2, '--request-timeout', 3 ]);
    check 'time in the queue does not count' => sub {
        my @clients = client_of($server, undef, 4);
        my @stuck = stick_all($server, 2);
        my $before = descriptors_of($server, @stuck);
        $clients[$_]->send(req("GET /hold/late$_")) for 0 .. 3;
        ok poll_until(sub { descriptors_of($server, @stuck) <= $before - 4 }), 'four wait in the queue';
        sleep 1.5;
        is $_->release->status, 200, 'the stuck ones are released' for @stuck;
        ok poll_until(sub { 2 == grep { /^held late/ } $server->recorded }), 'two of the four run';
        sleep 2;    # longer since they were sent than --request-timeout, shorter since they run
        open_gate("late$_") for 0 .. 3;
        is $_->read_response('GET')->status, 200, 'answered' for @clients;
    };
    ok $server->stop, 'it stops';
}

done_testing;
