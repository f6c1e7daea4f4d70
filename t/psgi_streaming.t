use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Digest::MD5 qw(md5_hex);
use Test::More;
use Time::HiRes qw(time sleep);
use Hydrofoil::Test;

# The PSGI specification, "Delayed Response and Streaming Body".

my $app = <<'END';
use Digest::MD5 qw(md5_hex);
my @text = ('Content-Type' => 'text/plain');
my %kept;
my %page = (
    '/pid'      => sub { [200, [@text], [$$]] },
    '/plain'    => sub { [200, [@text], ['plain']] },
    '/array'    => sub { sub { $_[0]->([200, [@text], ['a', 'b', 'c']]) } },
    '/handle'   => sub { sub { open my $fh, '<', \"one\ntwo\n" or die; $_[0]->([200, [@text], $fh]) } },
    '/writer'   => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write($_) for 'a' .. 'e'; $w->close } },
    '/post'     => sub {
        my $env = shift;
        sub {
            my $w = $_[0]->([200, [@text]]);
            while ($env->{'psgi.input'}->read(my $x, 10)) { $w->write($x) }
            $w->close;
        }
    },
    '/pairs'    => sub {
        sub {
            my $w = $_[0]->([200, [@text]]);
            for my $i (1 .. 3) {
                $w->write("part $i\n");
                my $t = wait_for("go$i") or return;
            }
            $w->close;
        }
    },
    '/returns'  => sub { sub { my $w = $_[0]->([200, [@text]]); main::record('write ' . ($w->write('x') ? 'true' : 'false')); $w->close } },
    '/big'      => sub {
        sub {
            my $w = $_[0]->([200, [@text]]);
            my $n = 0;
            for my $i (1 .. 640) { $w->write(chr(97 + $i % 26) x 65_536) or last; $n++ }
            main::record("wrote $n");
            $w->close;
        }
    },
    '/one-write' => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write('y' x 30_000_000); $w->close } },
    '/tiny'     => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write("$_\n") for 1 .. 50_000; $w->close } },
    '/endless'  => sub {
        sub {
            my $w = $_[0]->([200, [@text]]);
            my ($true, $false) = (0, 0);
            while (1) {
                my $ok = eval { $w->write('z' x 16_384) };
                if ($@) { main::record("died after $true true, $false false: $@"); die $@ }
                $ok ? $true++ : $false++;
                if ($false > 3) { main::record('never died'); last }
            }
        }
    },
    '/polite'   => sub {
        sub {
            my $w = $_[0]->([200, [@text]]);
            my $n = 0;
            while ($w->write('z' x 16_384)) { $n++ }
            main::record("told after $n");
            $w->close;
            main::record('closed');
        }
    },
    '/drop'     => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write('part'); undef $w; return } },
    '/drop-length' => sub { sub { my $w = $_[0]->([200, [@text, 'Content-Length' => 10]]); $w->write('part'); return } },
    '/drop-at-once' => sub { sub { $_[0]->([200, [@text]]); return } },
    '/silent'   => sub { sub { return } },
    '/twice'    => sub { sub { $_[0]->([200, [@text], ['first']]); eval { $_[0]->([200, [@text], ['second']]) }; main::record("second: $@") } },
    '/after-close' => sub {
        sub {
            my $w = $_[0]->([200, [@text]]);
            $w->write('a'); $w->close;
            eval { $w->write('b') }; main::record('write after close: ' . ($@ ? 'died' : 'lived'));
            eval { $w->close }; main::record('close after close: ' . ($@ ? 'died' : 'lived'));
        }
    },
    '/die-before' => sub { sub { die "dies before its headers\n" } },
    '/die-after' => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write('part'); die "dies after its headers\n" } },
    '/die-after-close' => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write('whole'); $w->close; die "dies after its close\n" } },
    '/die-after-body' => sub { sub { $_[0]->([200, [@text], ['whole']]); die "dies after its answer\n" } },
    '/keep'     => sub { my $env = shift; sub { my $w = $_[0]->([200, [@text]]); $w->write('kept '); $kept{ $env->{QUERY_STRING} } = $w } },
    '/keep-responder' => sub { my $env = shift; sub { $kept{ $env->{QUERY_STRING} } = $_[0] } },
    '/finish'   => sub {
        my $w = delete $kept{ $_[0]{QUERY_STRING} };
        if (ref $w eq 'CODE') { $w->([200, [@text], ['answered later']]) } else { $w->write('and finished'); $w->close }
        [200, [@text], ['done']];
    },
    '/forget'   => sub { delete $kept{ $_[0]{QUERY_STRING} }; [200, [@text], ['forgotten']] },
    '/undef'    => sub { sub { my $w = $_[0]->([200, [@text]]); { no warnings; eval { $w->write(undef) }; $w->write('after'); } $w->close } },
    '/wide'     => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write("ok"); $w->write("\x{263a}"); $w->close } },
    '/latin'    => sub { sub { my $w = $_[0]->([200, [@text]]); my $s = "\xe9"; utf8::upgrade($s); $w->write($s); $w->close } },
    '/too-long' => sub { sub { my $w = $_[0]->([200, [@text, 'Content-Length' => 4]]); $w->write('12345678'); $w->close } },
);
sub wait_for {
    my $name = shift;
    for (1 .. 1000) { return 1 if -e "$ENV{HYDROFOIL_TEST_GATE}/$name"; select undef, undef, undef, 0.01 }
    return;
}
my $call = sub { my $env = shift; ($page{ $env->{PATH_INFO} } || sub { [404, [@text], ['no such page']] })->($env) };
$call;
END

require File::Temp;
my $gate = File::Temp->newdir;
my $server = start_server(app => $app, env => {HYDROFOIL_TEST_GATE => "$gate"}, args => ['--max-write-buffer' => 262_144]);

each_way 'a delayed answer is like any other' => sub {
    my $client = $server->exchange(map { req("GET $_") } qw(/array /handle /writer /plain));
    is_deeply [$client->bodies], ['abc', "one\ntwo\n", 'abcde', 'plain'], 'whole and in order';
    ok !$client->eof, 'and the connection is open';
};

each_way 'the writer sends what the application reads' => sub {
    my $body = join ' ', 1 .. 1000;
    my $client = $server->exchange(req('POST /post', \$body), req('GET /plain'));
    is $client->response->body, $body, 'the body comes back';
    is $client->response(1)->body, 'plain', 'and the next request is answered';
};

check 'what is written is sent while the application goes on' => sub {
    my $client = $server->connect;
    $client->send(req('GET /pairs'));
    for my $i (1 .. 3) {
        poll_until(sub { $client->_turn(0, time + 20) unless $client->{in} =~ /part $i\n/; $client->{in} =~ /part $i\n/ });
        like $client->{in}, qr/part $i\n/, "part $i arrives before part " . ($i + 1) . ' is made';
        open my $go, '>', "$gate/go$i" or die $!;
    }
    is $client->read_response('GET')->body, "part 1\npart 2\npart 3\n", 'the whole is right';
};

check 'write says that it was well' => sub {
    $server->forget_recorded;
    $server->get('/returns');
    is join(' ', $server->recorded), 'write true', 'by a true value';
};

check 'a large stream arrives whole' => sub {
    my $body = $server->get('/big')->body;
    is md5_hex($body), md5_hex(join '', map { chr(97 + $_ % 26) x 65_536 } 1 .. 640), '40 MB in pieces of 64 KB';
    is length $server->get('/one-write')->body, 30_000_000, '30 MB in one piece';
    is $server->get('/tiny')->body, join('', map { "$_\n" } 1 .. 50_000), 'fifty thousand small pieces';
};

check 'a slow reader holds a bounded amount of memory' => sub {
    my $pid = $server->worker_pid;
    my $before = $server->rss($pid);
    my $client = $server->connect(receive_buffer => 16_384);
    $client->send(req('GET /big', 'Connection: close'));
    $client->read_at_least(100_000);
    sleep 0.5;
    my $most = 0;
    my $total = 0;
    for (1 .. 100) {
        $client->_turn(0, time + 20) for 1 .. 3;
        $total += length $client->{in};
        $client->{in} = '';
        my $now = $server->rss($pid);
        $most = $now if $now > $most;
    }
    cmp_ok $most - $before, '<', 20_000, 'the worker does not grow by the 40 MB that are being sent';
    $total += $client->discard_until_close;
    cmp_ok $total, '>', 40 * 1024 * 1024, 'and the whole of it arrives in the end';
};

check 'an application that never answers is a 500' => sub {
    my $client = $server->connect;
    is $client->ask('GET /silent')->status, 500, 'for its client';
    ok $server->wait_for_log(qr{/silent}), 'and a line in the log names the request';
    is $server->get('/plain')->body, 'plain', 'the next client is served';
};

check 'a writer that is dropped without close ends the answer in a way the client can tell' => sub {
    for my $page (qw(/drop /drop-length)) {
        my $client = $server->connect;
        $client->send(req("GET $page", 'Connection: close'));
        my $got = $client->read_until_close;
        like $got, qr/part/, "$page: what was written arrives";
        like $got, $page eq '/drop' ? qr/\r\n0\r\n\r\n\z/ : qr/part\z/, 'complete, or visibly not as long as promised';
    }
    is $server->get('/plain')->body, 'plain', 'the next client is served';
};

check 'the writer may outlive the call' => sub {
    my $client = $server->connect;
    $client->send(req('GET /keep?1'));
    $client->read_at_least(50);
    is $server->get('/plain')->body, 'plain', 'another client is served meanwhile';
    is $server->get('/finish?1')->body, 'done', 'another request finishes it';
    is $client->read_response('GET')->body, 'kept and finished', 'and the client has it all';
    is $client->ask('GET /plain')->body, 'plain', 'on a connection that goes on';
};

check 'the responder may outlive the call' => sub {
    my $client = $server->connect;
    $client->send(req('GET /keep-responder?2'));
    is $server->get('/plain')->body, 'plain', 'another client is served meanwhile';
    is $server->get('/finish?2')->body, 'done', 'another request answers';
    is $client->read_response('GET')->body, 'answered later', 'and the client has its answer';
};

check 'answers that come later keep the order of pipelined requests' => sub {
    my $client = $server->connect;
    $client->send(req('GET /keep?3') . req('GET /plain') . req('GET /array'));
    $server->get('/plain');
    is $server->get('/finish?3')->body, 'done', 'the first is finished from elsewhere';
    is_deeply [map { $client->read_response('GET')->body } 1 .. 3], ['kept and finished', 'plain', 'abc'],
        'and the three answers come in the order of the requests';
};

check 'a client that leaves before a kept answer hurts nobody' => sub {
    my $client = $server->connect;
    $client->send(req('GET /keep?4'));
    $client->read_at_least(50);
    $client->abort;
    $client = $server->connect;
    $client->send(req('GET /keep-responder?5'));
    sleep 0.1;
    $client->abort;
    sleep 0.1;
    eval { $server->get('/finish?4') };
    eval { $server->get('/finish?5') };
    is $server->get('/plain')->body, 'plain', 'the next client is served';
};

check 'a kept responder that is dropped is a 500' => sub {
    my $client = $server->connect;
    $client->send(req('GET /keep-responder?6'));
    sleep 0.1;
    is $server->get('/forget?6')->body, 'forgotten', 'another request drops it';
    is $client->read_response('GET')->status, 500, 'and the client is told';
};

check 'an exception before the headers is a 500' => sub {
    my $client = $server->connect;
    is $client->ask('GET /die-before')->status, 500, 'for its client';
    ok $server->wait_for_log(qr/dies before its headers/), 'with its message in the log';
    is $server->get('/plain')->body, 'plain', 'the next client is served';
};

check 'an exception after the headers cuts the answer' => sub {
    my $client = $server->connect;
    $client->send(req('GET /die-after') . req('GET /plain'));
    my $got = $client->read_until_close;
    unlike $got, qr/\r\n0\r\n\r\n/, 'no last chunk says that all is well';
    unlike $got, qr/plain\z/, 'nothing else follows';
    ok $server->wait_for_log(qr/dies after its headers/), 'its message is in the log';
    is $server->get('/plain')->body, 'plain', 'the next client is served';
};

check 'an exception after a complete answer takes nothing from it' => sub {
    for my $page (qw(/die-after-close /die-after-body)) {
        my $client = $server->connect;
        is $client->ask("GET $page")->body, 'whole', "$page arrives whole";
    }
    ok $server->wait_for_log(qr/dies after its close/), 'the message is in the log';
    ok $server->wait_for_log(qr/dies after its answer/), 'for the other too';
    is $server->get('/plain')->body, 'plain', 'the next client is served';
};

check 'a second answer to one request is not sent' => sub {
    my $client = $server->connect;
    $client->send(req('GET /twice') . req('GET /plain'));
    is $client->read_response('GET')->body, 'first', 'the first one is';
    my $next = $client->read_response('GET');
    ok !$next || $next->body eq 'plain', 'and the second is not taken for the next answer';
};

check 'using the writer after its close harms nothing' => sub {
    $server->forget_recorded;
    my $client = $server->connect;
    is $client->ask('GET /after-close')->body, 'a', 'the answer ends at the close';
    is $client->ask('GET /plain')->body, 'plain', 'and the next one is clean';
};

check 'a wide character in a write is not sent' => sub {
    my $client = $server->connect;
    $client->send(req('GET /wide') . req('GET /plain'));
    my $got = $client->read_until_close;
    unlike $got, qr/\xe2\x98\xba|\r\n0\r\n\r\n/, 'neither the character nor a proper end';
    ok $server->wait_for_log(qr{wide character.*/wide|/wide.*wide character}i), 'the log names what is wrong and where';
    is $server->get('/latin')->body, "\xe9", 'a character below 256 is a byte, however Perl stores it';
};

check 'a stream longer than its Content-Length does not spill over' => sub {
    my $client = $server->connect;
    $client->send(req('GET /too-long') . req('GET /plain'));
    is $client->read_response('GET')->body, '1234', 'the promised length is sent';
    my $next = $client->read_response('GET');
    ok !$next || $next->body eq 'plain', 'the next answer is right, if there is one';
};

check 'a client that leaves in mid-answer is told to the application once, then the writer dies' => sub {
    $server->forget_recorded;
    my $pid = $server->worker_pid;
    my $client = $server->connect;
    $client->send(req('GET /endless'));
    $client->read_at_least(100_000);
    $client->abort;
    ok poll_until(sub { grep { /^died/ } $server->recorded }), 'a write after that dies';
    like join('', $server->recorded), qr/ true, 1 false/, 'a false value came first, once';
    is $server->worker_pid, $pid, 'the worker lives';
    is $server->get('/plain')->body, 'plain', 'and serves';
};

check 'an application that heeds the false value goes on in peace' => sub {
    $server->forget_recorded;
    my $pid = $server->worker_pid;
    my $client = $server->connect;
    $client->send(req('GET /polite'));
    $client->read_at_least(100_000);
    $client->close;
    ok poll_until(sub { grep { $_ eq 'closed' } $server->recorded }), 'it closes the writer without an exception';
    is $server->worker_pid, $pid, 'the worker lives';
};

check 'a client that leaves without reading is noticed by the writer too' => sub {
    $server->forget_recorded;
    my $client = $server->connect;
    $client->send(req('GET /polite'));
    sleep 0.2;
    $client->abort;
    ok poll_until(sub { grep { $_ eq 'closed' } $server->recorded }), 'while it waits for room';
    is $server->get('/plain')->body, 'plain', 'the next client is served';
};

check 'TERM ends a worker that waits for a slow reader' => sub {
    my $client = $server->connect(receive_buffer => 8_192);
    $client->send(req('GET /endless'));
    $client->read_at_least(10_000);
    sleep 0.3;
    ok $server->stop, 'by itself';
};

check 'what a fast reader has taken is let go of while the application writes on' => sub {
    my $long = start_server(app => <<'END');
{
    package Pieces;
    sub getline { my $self = shift; return $$self-- > 0 ? chr(97 + $$self % 26) x 65_536 : undef }
    sub close { }
}
my %page = (
    '/pid'     => sub { [200, ['Content-Type' => 'text/plain'], [$$]] },
    '/write'   => sub {
        sub {
            my $w = $_[0]->([200, ['Content-Type' => 'text/plain']]);
            $w->write(chr(97 + $_ % 26) x 65_536) for 1 .. 1600;
            $w->close;
        }
    },
    '/getline' => sub { my $pieces = 1600; [200, ['Content-Type' => 'text/plain'], bless \$pieces, 'Pieces'] },
);
my $call = sub { $page{ $_[0]{PATH_INFO} }->() };
$call;
END
    my $pid = $long->worker_pid;
    for my $page (qw(/write /getline)) {
        my $client = $long->connect;
        $client->send(req("GET $page", 'Connection: close'));
        cmp_ok $client->discard_until_close, '>', 1600 * 65_536, "$page: 100 MB arrive";
        cmp_ok $long->peak_rss($pid), '<', 60_000, 'and the worker is a small process still' unless $ENV{ASAN_OPTIONS};
    }
};

done_testing;
