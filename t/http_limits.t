use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;
use Time::HiRes qw(time sleep);
use Hydrofoil::Test;

# Everything that a client can make grow has a limit and a deadline, and the answer that tells it so arrives.

my $server = start_server(app => app_file('echo.psgi'));

sub statuses { my $client = $server->exchange(@_, req('GET /after')); $client->statuses }

each_way 'a request line is limited and its limit is a 414' => sub {
    is statuses(req('GET /' . 'a' x 8_000)), '200 200', '8,000 bytes are fine';
    is statuses(req('GET /?' . 'a' x 15_000)), '200 200', 'so are 15,000';
    is statuses(req('GET /' . 'a' x 20_000)), '414', '20,000 are not, and the connection is closed';
};

check 'a request line without an end is refused before it ends' => sub {
    my $client = $server->connect;
    $client->send('GET /' . 'a' x 200_000);
    is $client->read_response('GET')->status, 414, 'with 414';
    ok $client->closes, 'and the connection is closed';
};

each_way 'a head is limited and its limit is a 431' => sub {
    is statuses(req('GET /', 'X-Long: ' . 'a' x 60_000)), '200 200', '60,000 bytes are fine';
    is statuses(req('GET /', 'X-Long: ' . 'a' x 66_000)), '431', '66,000 are not, and the connection is closed';
    is statuses(req('GET /', map { "X-$_: " . 'a' x 1_000 } 1 .. 70)), '431', 'nor are 70 lines of 1,000';
};

check 'a header without an end is refused before it ends' => sub {
    my $client = $server->connect;
    $client->send("GET / HTTP/1.1\r\nHost: x\r\nX-Long: " . 'a' x 500_000);
    is $client->read_response('GET')->status, 431, 'with 431';
    ok $client->closes, 'and the connection is closed';
};

each_way 'the number of header fields is limited and its limit is a 431' => sub {
    is statuses(req('GET /', map { "X-$_: a" } 1 .. 127)), '200 200', '128 with Host are fine';
    is statuses(req('GET /', map { "X-$_: a" } 1 .. 128)), '431', '129 are not, and the connection is closed';
};

undef $server;
$server = start_server(app => app_file('echo.psgi'), args => ['--max-body' => 100_000]);

check '--max-body refuses a larger Content-Length before the body is sent' => sub {
    my $client = $server->connect;
    $client->send(req('POST /big', 'Content-Length: 100001', 'Expect: 100-continue'));
    my $answer = $client->read_response('POST');
    is $answer->status, 413, 'with 413';
    is scalar($answer->informational), 0, 'and no 100 before it';
    ok $client->closes, 'and the connection is closed';
    is scalar(grep { m{/big} } $server->recorded), 0, 'the application is not called';
};

each_way '--max-body lets a body of just that size pass' => sub {
    my $body = 'x' x 100_000;
    my $client = how eq 'bytes' ? $server->connect : $server->exchange(req('POST /', \$body));
    if (how eq 'bytes') {
        $client->send(every_n(997, req('POST /', \$body)));
        $client->read_response('POST');
    }
    is length $client->response->body, 100_007, 'in full';
};

check '--max-body counts the bytes of chunks too' => sub {
    my $chunk = "2710\r\n" . 'x' x 10_000 . "\r\n";
    my $head = "POST /chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    my $client = $server->connect;
    $client->send($head . $chunk x 10 . "0\r\n\r\n");
    is $client->read_response('POST')->status, 200, 'ten chunks of 10,000 bytes are fine';
    $server->forget_recorded;
    $client->send($head . $chunk x 11);
    is $client->read_response('POST')->status, 413, 'the eleventh is refused';
    ok $client->closes, 'and the connection is closed';
    is join(' ', $server->recorded), '', 'the application is not called';
};

check 'an error answer reaches a client that is still sending' => sub {
    for my $case (['a length', 'Content-Length: 6000000'], ['chunks', 'Transfer-Encoding: chunked']) {
        my ($what, $line) = @$case;
        my $client = $server->connect;
        my $body = $what eq 'chunks' ? ("FFFF\r\n" . 'x' x 65_535 . "\r\n") x 90 : 'x' x 6_000_000;
        # Blocking and without reading, as a simple client does: all is written, then the answer is read.
        $client->{not_reading} = 1;
        my $sent = $client->send(req('POST /lingering', $line) . $body);
        $client->{not_reading} = 0;
        ok $sent, "with $what: it can send to the end";
        my $answer = eval { $client->read_response('POST') };
        is $answer && $answer->status, 413, "with $what: it reads the 413";
        ok !$client->reset, "with $what: and no reset";
    }
};

check 'bytes sent after a refusal are never taken for a request' => sub {
    my $client = $server->connect;
    $client->send("GET / HTTP/1.1\r\n\r\n");
    is $client->read_response('GET')->status, 400, 'a request is refused';
    $server->forget_recorded;
    for (1 .. 50) {
        $client->send(req('GET /late')) or last;
        sleep 0.005;
    }
    $client->read_until_close;
    is $client->{in}, '', 'no answer to what follows';
    is join(' ', $server->recorded), '', 'and the application does not see it';
};

undef $server;
$server = start_server(app => app_file('echo.psgi'), args => ['--header-timeout' => 1, '--read-timeout' => 2]);

check 'a head that does not end in time is answered with 408' => sub {
    my @clients = map { $server->connect } 1 .. 3;
    $clients[0]->send('G');
    $clients[1]->send("GET / HTTP/1.1\r\nHost: x\r\n");
    $clients[2]->send(req('GET /first') . 'GET / HT');
    $clients[2]->read_response('GET');
    for my $i (0 .. 2) {
        my $answer = $clients[$i]->read_response('GET');
        is $answer && $answer->status, 408, 'client ' . ($i + 1);
        is $answer && $answer->header('Connection'), 'close', 'the answer says close';
        ok $clients[$i]->closes, 'and the server closes';
    }
};

check 'dripping bytes do not stretch the time for a head' => sub {
    my $client = $server->connect;
    my $start = time;
    my @drops = split //, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: " . 'x' x 200;
    while (!$client->eof && time - $start < 15 && @drops) {
        $client->send(shift @drops) or last;
        sleep 0.2;
        $client->_turn(0, time + 0.02) if $client->{in} eq '' && !$client->eof;
        last if $client->{in} =~ /\r\n\r\n/;
    }
    like $client->{in}, qr{\AHTTP/1\.1 408 }, 'the answer is a 408 while it still drips';
};

check 'a connection on which nothing is ever sent is closed without a word' => sub {
    my $client = $server->connect;
    ok $client->closes, 'some time later';
};

check 'a body that stops is given up' => sub {
    my $client = $server->connect;
    $client->send(req('POST /stopped', 'Content-Length: 10') . 'half');
    my $answer = $client->read_response('POST');
    is $answer && $answer->status, 408, 'with 408';
    ok $client->closes, 'and the connection is closed';
    is scalar(grep { m{/stopped} } $server->recorded), 0, 'the application is not called';
};

check 'a body that keeps coming is not given up' => sub {
    my $client = $server->connect;
    $client->send(req('POST /steady', 'Content-Length: 12'));
    for (1 .. 12) {
        $client->send('x');
        sleep 0.25;
    }
    my $answer = $client->read_response('POST');
    is $answer && $answer->body, "POST /steady\nxxxxxxxxxxxx", 'though it takes longer than --read-timeout';
};

done_testing;
