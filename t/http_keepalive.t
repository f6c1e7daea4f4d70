use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;
use Hydrofoil::Test;

# Persistence and pipelining: RFC 9112, section 9.

my $server = start_server(app => app_file('echo.psgi'));

each_way 'a 1.1 connection stays open for more requests' => sub {
    my $client = $server->exchange(map { req("GET /$_") } 1 .. 5);
    is_deeply [$client->bodies], [map { "GET /$_\n" } 1 .. 5], 'every request has its answer, in order';
    is scalar(grep { lc($_->header('Connection') || '') =~ /close/ } $client->responses), 0, 'no answer says close';
    ok !$client->eof, 'the connection is open';
};

each_way 'Connection: close is honoured and echoed' => sub {
    my $client = $server->exchange(req('GET /1'), req('GET /2', 'Connection: close'), req('GET /3'));
    is_deeply [$client->bodies], ["GET /1\n", "GET /2\n"], 'nothing is answered after the request that said close';
    is $client->response(1)->header('Connection'), 'close', 'the answer says close too';
    ok $client->eof, 'the server closes';
    $server->forget_recorded;
};

each_way 'close is found in a list and in any case' => sub {
    my $client = $server->exchange(req('GET /1', 'Connection: foo, CLOSE'));
    is $client->response->header('Connection'), 'close', 'the answer says close';
    ok $client->eof, 'the server closes';
};

each_way 'a 1.0 request closes the connection' => sub {
    my $client = $server->exchange(req('GET /1 HTTP/1.0'), req('GET /2 HTTP/1.0'));
    is_deeply [$client->bodies], ["GET /1\n"], 'only the first is answered';
    ok $client->eof, 'the server closes';
};

each_way 'a 1.0 request that asks for keep-alive gets it' => sub {
    my $client = $server->exchange(
        req('GET /1 HTTP/1.0', 'Connection: keep-alive'),
        req('GET /2 HTTP/1.0', 'Connection: Keep-Alive'),
        req('GET /3 HTTP/1.0'),
    );
    is_deeply [$client->bodies], ["GET /1\n", "GET /2\n", "GET /3\n"], 'all three are answered';
    like $client->response(0)->header('Connection'), qr/\Akeep-alive\z/i, 'the first answer says keep-alive';
    like $client->response(1)->header('Connection'), qr/\Akeep-alive\z/i, 'so does the second';
    ok $client->eof, 'the third one ends it';
};

each_way 'HEAD and GET alternate on one connection' => sub {
    my $client = $server->exchange(map { req(($_ % 2 ? 'HEAD' : 'GET') . " /$_") } 1 .. 6);
    is_deeply [$client->bodies], [map { $_ % 2 ? '' : "GET /$_\n" } 1 .. 6], 'HEAD never has a body';
};

each_way 'a hundred requests, some with bodies, are answered in order' => sub {
    my (@requests, @expected);
    for my $i (1 .. 100) {
        if ($i % 7 == 0) {
            my $body = "body $i " . 'x' x $i;
            push @requests, req("POST /$i", \$body);
            push @expected, "POST /$i\n$body";
        }
        elsif ($i % 11 == 0) {
            push @requests, req("PUT /$i", 'Transfer-Encoding: chunked', \"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
            push @expected, "PUT /$i\nabcde";
        }
        else {
            push @requests, req("GET /$i");
            push @expected, "GET /$i\n";
        }
    }
    my $client = $server->exchange(@requests);
    is_deeply [$client->bodies], \@expected, 'every answer is that of its request';
    ok !$client->eof, 'the connection is open';
};

check 'a thousand pipelined requests need no reading in between' => sub {
    my $client = $server->connect;
    $client->send(join '', map { req("GET /$_") } 1 .. 1000);
    my @wrong = grep { $client->read_response('GET')->body ne "GET /$_\n" } 1 .. 1000;
    is "@wrong", '', 'all answers are right and in order';
};

check 'a segment border anywhere in two pipelined requests changes nothing' => sub {
    my $bytes = req('POST /one', \'first') . req('GET /two', 'Connection: close');
    my $wrong = '';
    for my $cut (1 .. length($bytes) - 1) {
        my $client = $server->connect;
        $client->send(substr($bytes, 0, $cut), substr($bytes, $cut));
        my @bodies = map { my $r = $client->read_response($_); $r ? $r->body : '(none)' } qw(POST GET);
        $wrong .= "cut at $cut: @bodies; " if "@bodies" ne "POST /one\nfirst GET /two\n";
    }
    is $wrong, '', 'both answers are right for every cut';
};

check 'answers arrive in full at a client that has closed its sending side' => sub {
    my $client = $server->connect;
    $client->send(join '', map { req("GET /$_") } 1 .. 20);
    $client->half_close;
    my @bodies = map { my $r = $client->read_response('GET'); $r ? $r->body : '(none)' } 1 .. 20;
    is_deeply \@bodies, [map { "GET /$_\n" } 1 .. 20], 'all twenty';
    ok $client->closes, 'then the server closes';
};

check 'a client that half-closes in the middle of a request does not hold the connection' => sub {
    my $client = $server->connect;
    $client->send(req('GET /whole') . "GET /part HTTP/1.1\r\nHos");
    $client->half_close;
    is $client->read_response('GET')->body, "GET /whole\n", 'the whole request is answered';
    ok poll_until(sub { $client->_turn(0, time + 10); $client->eof }), 'the server closes';
    is scalar(grep { m{/part} } $server->recorded), 0, 'the half one does not reach the application';
};

check 'requests go on over one connection while others come and go' => sub {
    my $steady = $server->connect;
    for my $i (1 .. 30) {
        my $other = $server->connect;
        $other->send("GET / HT") if $i % 3;
        is $steady->ask("GET /$i")->body, "GET /$i\n", "request $i" if $i % 10 == 0;
        $i % 2 ? $other->close : $other->abort;
    }
};

undef $server;

my $few = start_server(app => app_file('echo.psgi'), args => ['--max-keepalive-reqs' => 3]);

each_way '--max-keepalive-reqs closes after that many requests and says so' => sub {
    my $client = $few->exchange(map { req("GET /$_") } 1 .. 5);
    is_deeply [$client->bodies], [map { "GET /$_\n" } 1 .. 3], 'three of five are answered';
    is $client->response(1)->header('Connection'), undef, 'the second answer does not say close';
    is $client->response(2)->header('Connection'), 'close', 'the third says close';
    ok $client->eof, 'the server closes';
};

check '--max-keepalive-reqs counts for 1.0 clients too' => sub {
    my $client = $few->exchange(map { req("GET /$_ HTTP/1.0", 'Connection: keep-alive') } 1 .. 5);
    is_deeply [$client->bodies], [map { "GET /$_\n" } 1 .. 3], 'three of five are answered';
};

undef $few;

my $quick = start_server(app => app_file('echo.psgi'), args => ['--keepalive-timeout' => 2]);

check '--keepalive-timeout closes a connection that idles' => sub {
    my $client = $quick->connect;
    $client->ask('GET /1');
    $client->ask('GET /2');
    ok !$client->eof, 'it is open after a request';
    ok $client->closes, 'and closed, without a word, some time later';
    ok !$client->reset, 'and not by a reset';
};

check '--keepalive-timeout lets an active connection live' => sub {
    my $client = $quick->connect;
    for (1 .. 6) {
        $client->ask('GET /1');
        select undef, undef, undef, 0.4;
    }
    is $client->ask('GET /last')->body, "GET /last\n", 'it is still open after longer than the timeout';
};

undef $quick;

my $never = start_server(app => app_file('echo.psgi'), args => ['--disable-keepalive']);

each_way '--disable-keepalive closes after every answer' => sub {
    my $client = $never->exchange(req('GET /1'), req('GET /2'));
    is_deeply [$client->bodies], ["GET /1\n"], 'one request is answered';
    is $client->response->header('Connection'), 'close', 'the answer says close';
    ok $client->eof, 'the server closes';
};

check '--disable-keepalive refuses it to 1.0 clients too' => sub {
    my $client = $never->exchange(req('GET /1 HTTP/1.0', 'Connection: keep-alive'));
    unlike $client->response->header('Connection') || '', qr/keep-alive/i, 'the answer does not say keep-alive';
    ok $client->eof, 'the server closes';
};

undef $never;

check 'connections that stay are spread over the workers that are idle' => sub {
    my $four = start_server(args => ['--workers' => 4], app => <<'END');
my $call = sub { [200, ['Content-Type' => 'text/plain'], [$$]] };
$call;
END
    my (@kept, %connections);
    for (1 .. 40) {
        push @kept, $four->connect;
        $connections{ $kept[-1]->ask('GET /')->body }++;
    }
    my ($most) = sort { $b <=> $a } values %connections;
    cmp_ok $most, '<=', 20, 'none has most of them';
};

check 'a client that says nothing at first is served as well' => sub {
    my $patient = start_server(app => app_file('echo.psgi'));
    my $client  = $patient->connect;
    sleep 2.5;    # the kernel hands connections over with their first request, or after a second or two
    is $client->ask('GET /late')->body, "GET /late\n", 'when it asks';
};

done_testing;
