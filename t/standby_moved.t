use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Digest::MD5 qw(md5_hex);
use Test::More;
use Time::HiRes qw(time sleep);
use Hydrofoil::Test;
use Hydrofoil::TestStandby;

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

my $app = gated_app(more => <<'END');
    if ($path eq '/io') {
        my $io = $env->{'psgix.io'};
        my $said = "pid=$$\nname=" . ($io->can('peerport') ? $io->peerport : '') . "\n";
        return sub {
            my $responder = shift;
            syswrite $io, "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: " . length($said) . "\r\nConnection: close\r\n\r\n$said";
        };
    }
    if ($path eq '/stream') {
        return sub {
            my $writer = $_[0]->([ 200, [ 'Content-Type' => 'text/plain' ] ]);
            $writer->write("pid=$$\n");
            for my $n (1 .. 20) { $writer->write("n$n=" . ('x' x (1000 * $n)) . "\n"); Time::HiRes::sleep(0.002) }
            $writer->close;
        };
    }
    if ($path eq '/later') {
        return sub { my $responder = shift; $responder->([ 200, [ 'Content-Type' => 'text/plain' ], [ "pid=$$\n" ] ]) };
    }
    if ($path eq '/file') {
        open my $fh, '<', __FILE__;
        return [ 200, [ 'Content-Type' => 'text/plain', 'X-Pid' => $$ ], $fh ];
    }
END

# A request that becomes complete while its worker is stuck is answered by another, as if nothing had happened.
sub moved {
    my ($server, $code, %option) = @_;
    my $pid = fact($server->ask('GET /'), 'pid');
    my $client = client_of($server, $pid, 1, %option);
    my $stuck = stick($server, $pid);
    my $answer = $code->($client);
    isnt fact($answer, 'pid'), $pid, 'another worker has answered' if $answer && $answer->body =~ /^pid=/m;
    is $stuck->release->status, 200, 'the stuck one';
    return ($client, $answer);
}

# The first bytes are sent before the worker is stuck, the others while it is.
sub moved_in_parts {
    my ($server, $method, @parts) = @_;
    my $pid = fact($server->ask('GET /'), 'pid');
    my $client = client_of($server, $pid);
    $client->send(shift @parts);
    my $stuck = stick($server, $pid);
    for my $part (@parts) {
        ref $part ? $part->($client) : $client->send($part);
    }
    my $answer = $client->read_response($method);
    isnt fact($answer, 'pid'), $pid, 'another worker has answered';
    is $client->ask('GET /')->status, 200, 'the connection goes on';
    is $stuck->release->status, 200, 'the stuck one';
    return $answer;
}

for my $listen (qw(tcp unix)) {
    my $server = start_server(app => $app, lint => 0, listen => $listen, args => [ '--workers', 2 ]);

    check "$listen: a request that moves keeps what is known of its client" => sub {
        my ($before, $after);
        my ($client) = moved($server, sub {
            my $client = shift;
            $after = $client->ask('GET /');
        });
        $before = facts($client->ask('GET /'));
        $after = facts($after);
        is $after->{$_}, $before->{$_}, $_ for qw(addr port scheme server_port);
        if ($listen eq 'tcp') {
            is $after->{addr}, '127.0.0.1', 'the address';
            is $after->{port}, $client->socket->sockport, 'and the port are those of the client';
            is $after->{server_port}, $server->{port}, 'the port of the server is the right one';
        }
    };

    check "$listen: psgix.io, writers, delayed answers and files work on a moved connection" => sub {
        my ($client, $answer) = moved($server, sub { shift->ask('GET /io') });
        is fact($answer, 'name'), $client->socket->sockport, 'psgix.io is the socket' if $listen eq 'tcp';
        ok $client->closes, 'which ends there';
        ($client, $answer) = moved($server, sub { shift->ask('GET /stream') });
        is length fact($answer, 'n20'), 20_000, 'a writer';
        is $client->ask('GET /')->status, 200, 'the connection goes on';
        ($client, $answer) = moved($server, sub { shift->ask('GET /later') });
        is $answer->status, 200, 'a delayed answer';
        ($client, $answer) = moved($server, sub { shift->ask('GET /file') });
        like $answer->body, qr/Plack::Middleware::Lint/, 'a file';
        is $client->ask('GET /')->status, 200, 'the connection goes on';
    };

    for my $length (1, 10, 65_535, 65_536, 65_537, 1_048_576) {
        my $body = substr join('', 'a' .. 'zzzz'), 0, $length % 100_000;
        $body .= 'x' x ($length - length $body);
        check "$listen: an upload of $length bytes that is completed while its worker is stuck arrives whole" => sub {
            my $post = req('POST /', \$body);
            my $head = length($post) - $length;
            my $half = $head + int($length / 2);
            my @ways = (
                [ 'nothing but a part of the head was there', substr($post, 0, 20), substr $post, 20 ],
                [ 'the head was there', substr($post, 0, $head), substr($post, $head, $length - 1), substr $post, -1 ],
                [ 'half of it was there', substr($post, 0, $half), substr $post, $half ],
                [ 'all but a byte was there', substr($post, 0, -1), substr $post, -1 ],
            );
            for my $way (@ways) {
                my ($what, @parts) = @$way;
                my $answer = facts(moved_in_parts($server, 'POST', grep { length } @parts));
                is $answer->{length}, $length, "$what: its length";
                is $answer->{md5}, md5_hex($body), 'its bytes';
            }
        };
    }

    check "$listen: so does a chunked one" => sub {
        my $body = join '', map { "$_," } 1 .. 50_000;
        my $chunks = join '', (map { sprintf "%x\r\n%s\r\n", length, $_ } every_n(4099, $body)), "0\r\n\r\n";
        my $head = req('POST /', 'Transfer-Encoding: chunked');
        for my $at (0, 3, 4099, 100_000, length($chunks) - 1) {
            my $answer = facts(moved_in_parts($server, 'POST', $head . substr($chunks, 0, $at), every_n(30_000, substr $chunks, $at)));
            is $answer->{length}, length $body, "cut at $at: its length";
            is $answer->{md5}, md5_hex($body), 'its bytes';
        }
    };

    check "$listen: so does one that waits for 100 Continue" => sub {
        my $body = 'y' x 10_000;
        my $post = req('POST /', 'Expect: 100-continue', \$body);
        my $answer = moved_in_parts($server, 'POST', substr($post, 0, 30), substr($post, 30, length($post) - 10_030), sub {
            my $client = shift;
            my $line = "HTTP/1.1 100 Continue\r\n\r\n";
            $client->read_at_least(length $line);
            is $client->{in}, $line, 'Continue';
        }, $body);
        is fact($answer, 'length'), 10_000, 'its length';
        is scalar(my @more = $answer->informational), 1, 'one Continue';
    };

    check "$listen: pipelined requests behind a moved one move with it" => sub {
        my $body = 'z' x 70_000;
        my @requests = (
            req('GET /one'), req('POST /two', \'12345'), req('POST /three', \$body),
            req('POST /four', 'Transfer-Encoding: chunked') . "5\r\nhello\r\n0\r\n\r\n", req('GET /five'),
        );
        for my $cut (0, 10, length $requests[0], length(join '', @requests[0, 1]) - 2, length(join '', @requests[0 .. 2]) - 100) {
            my $all = join '', @requests;
            my ($client) = moved($server, sub {
                my $client = shift;
                $client->send(grep { length } substr($all, 0, $cut), substr $all, $cut);
                my $answer = $client->read_response('GET');
                is fact($answer, 'path'), '/one', "cut at $cut: the first";
                is fact($client->read_response('POST'), 'length'), 5, 'the second';
                is fact($client->read_response('POST'), 'length'), 70_000, 'the third';
                is fact($client->read_response('POST'), 'md5'), md5_hex('hello'), 'the fourth';
                is fact($client->read_response('GET'), 'path'), '/five', 'the fifth';
                return $answer;
            });
            is $client->ask('GET /')->status, 200, 'the connection goes on';
        }
    };

    check "$listen: a head that does not fit into a message of the queue moves, too" => sub {
        my ($client, $answer) = moved($server, sub {
            my $client = shift;
            $client->ask('GET /big', 'X-Filler: ' . ('f' x 8000), 'Cookie: ' . ('c' x 30_000));
        });
        is fact($answer, 'path'), '/big', 'answered';
        is $client->ask('GET /')->status, 200, 'the connection goes on';
    };

    check "$listen: a client that half-closes has its answers" => sub {
        my ($client) = moved($server, sub {
            my $client = shift;
            $client->send(req('GET /one') . req('GET /two'));
            $client->half_close;
            my $answer = $client->read_response('GET');
            is fact($answer, 'path'), '/one', 'the first';
            is fact($client->read_response('GET'), 'path'), '/two', 'the second';
            return $answer;
        });
        ok $client->closes, 'and then the end';
    };

    check "$listen: HTTP/1.0 with keep-alive, and HEAD" => sub {
        my ($client, $answer) = moved($server, sub { shift->ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") });
        is lc $answer->header('Connection'), 'keep-alive', 'the connection is kept';
        is $client->ask('GET /')->status, 200, 'and works';
        ($client, $answer) = moved($server, sub { shift->ask('HEAD /') });
        is $answer->body, '', 'no body for HEAD';
        is $client->ask('GET /')->status, 200, 'the connection goes on';
    };

    check "$listen: a client that leaves while its request is in the queue harms nobody" => sub {
        my @clients = client_of($server, undef, 6);
        my @stuck = stick_all($server, 2);
        my $before = descriptors_of($server, @stuck);
        $_->send(req('GET /')) for @clients;
        ok poll_until(sub { descriptors_of($server, @stuck) <= $before - 6 }), 'six requests are in the run queue';
        $clients[$_]->abort for 0, 2, 4;
        is $_->release->status, 200, 'the stuck ones' for @stuck;
        is $clients[$_]->read_response('GET')->status, 200, 'one that stayed' for 1, 3, 5;
        is $server->ask('GET /')->status, 200, 'and new ones are answered' for 1 .. 5;
    };

    unlike $server->log, qr/lost|cannot|killed by/, 'nothing to complain of in the log';
    ok $server->stop, 'it stops';
}

{
    my $server = start_server(app => $app, args => [ '--workers', 2, '--max-keepalive-requests', 6 ]);
    check '--max-keepalive-requests counts over moves' => sub {
        my $client = client_of($server);
        for my $n (2 .. 6) {
            my $pid = fact($server->ask('GET /', 'Connection: close'), 'pid');
            my $stuck = stick($server, $pid);
            my $answer = $client->ask('GET /');
            is !!$answer->closes, $n == 6, "answer $n " . ($n == 6 ? 'is the last' : 'is not the last');
            is $stuck->release->status, 200, 'the stuck one';
        }
        ok $client->closes, 'the connection ends';
    };
    ok $server->stop, 'it stops';
}

{
    my $other = Hydrofoil::Test::free_port();
    my $server = start_server(app => $app, listen => 'unix', args => [ '--workers', 2, '--listen', "127.0.0.1:$other" ]);
    check 'with two listeners, a moved request is told by which it came' => sub {
        my $by_tcp = bless { %$server, path => undef, port => $other, pid => 0 }, ref $server;
        for my $way ([ $by_tcp, $other, '127.0.0.1' ], [ $server, fact($server->ask('GET /'), 'server_port'), '' ]) {
            my ($through, $port, $addr) = @$way;
            my $pid = fact($server->ask('GET /'), 'pid');
            my $client = client_of($through, $pid);
            my $stuck = stick($server, $pid);
            my $answer = facts($client->ask('GET /'));
            isnt $answer->{pid}, $pid, 'it has moved';
            is $answer->{server_port}, $port, "SERVER_PORT: $port";
            like $answer->{addr}, qr/^\Q$addr\E/, 'REMOTE_ADDR';
            is $stuck->release->status, 200, 'the stuck one';
        }
    };
    ok $server->stop, 'it stops';
}

{
    # Handed over by HUP after four seconds; the deadlines are at six.
    my $server = start_server(app => $app, args => [ '--workers', 1,
        map { ("--$_-timeout", 6) } qw(keepalive header read) ]);
    check 'a connection that moves keeps its deadline' => sub {
        my ($idle, $head, $body) = client_of($server, undef, 3);
        my $start = time;
        $head->send("GET / HTTP/1.1\r\nHo");
        $body->send(req('POST /', 'Content-Length: 10') . 'half');
        is $idle->ask('GET /')->status, 200, 'idle from now on';
        sleep 4;
        my ($old) = workers_of($server);
        $server->signal('HUP');
        ok $server->wait_for_log(qr/all workers are replaced/), 'the worker is replaced';
        is $head->read_response('GET')->status, 408, 'a head that is not completed';
        is $body->read_response('POST')->status, 408, 'a body that is not completed';
        ok $idle->closes, 'an idle connection';
        my $took = time - $start;
        cmp_ok $took, '>', 5, 'not at once';
        cmp_ok $took, '<', 9.5, 'and not as if they had begun with the move';
    };
    ok $server->stop, 'it stops';
}

done_testing;
