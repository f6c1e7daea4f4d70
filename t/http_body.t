use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Digest::MD5 qw(md5_hex);
use Test::More;
use Hydrofoil::Test;

# Request bodies: the PSGI specification, "The Input Stream"; RFC 9112, section 7; RFC 9110, section 10.1.1.

my $app = <<'END';
use Digest::MD5 qw(md5_hex);
my $all = sub {
    my $in = shift;
    my $body = '';
    while (my $got = $in->read($body, 10_000, length $body)) { }
    $body;
};
my %how = (
    method => $all,
    builtin => sub {
        my $in = shift;
        my $body = '';
        while (read $in, my $piece, 7_777) { $body .= $piece }
        $body;
    },
    lines => sub { my $in = shift; my $body = ''; while (defined(my $line = <$in>)) { $body .= $line } $body },
    getline => sub { my $in = shift; my $body = ''; while (defined(my $line = $in->getline)) { $body .= $line } $body },
    slurp => sub { my $in = shift; local $/; my $body = <$in>; defined $body ? $body : '' },
    again => sub {
        my $in = shift;
        my $first = $all->($in);
        $in->seek(0, 0) or return 'cannot seek';
        my $second = $all->($in);
        seek $in, 0, 0 or return 'cannot seek again';
        my $third = $all->($in);
        $first eq $second && $second eq $third ? $third : 'not the same';
    },
    offset => sub { my $in = shift; my $body = 'ab'; $in->read($body, 3, 2); $in->read($body, 3, 8); $body },
    pieces => sub { my $in = shift; my @got; while ($in->read(my $piece, 3)) { push @got, $piece } join '|', @got },
    past => sub { my $in = shift; $all->($in); join '|', map { my $n = $in->read(my $x, 5); defined $n ? "$n$x" : 'undef' } 1 .. 3 },
    middle => sub { my $in = shift; seek $in, 3, 0; $in->read(my $x, 4); $x },
    none => sub { 'not read' },
    half => sub { my $in = shift; $in->read(my $x, 2); $x },
);
my $call = sub {
    my $env = shift;
    record("$env->{REQUEST_METHOD} $env->{REQUEST_URI}");
    my ($name) = $env->{PATH_INFO} =~ m{^/(\w+)};
    return [200, ['Content-Type' => 'text/plain'], [$$]] if $name eq 'pid';
    my $body = $how{$name}->($env->{'psgi.input'});
    my @told = (
        'Content-Type' => 'text/plain', 'X-Length' => defined $env->{CONTENT_LENGTH} ? $env->{CONTENT_LENGTH} : 'none',
        'X-Coding' => defined $env->{HTTP_TRANSFER_ENCODING} ? $env->{HTTP_TRANSFER_ENCODING} : 'none',
        'X-Buffered' => $env->{'psgix.input.buffered'} ? 1 : 0, 'X-MD5' => md5_hex($body), 'X-Size' => length $body,
    );
    [200, \@told, [length $body > 1000 ? 'long' : $body]];
};
$call;
END

my $server = start_server(app => $app);

sub chunked {
    my ($body, $size) = @_;
    return join('', map { sprintf "%x\r\n%s\r\n", length, $_ } every_n($size, $body)) . "0\r\n\r\n";
}

my $ten = "line1\nrest";    # 10 bytes

each_way 'a small body can be read in every way that handles can' => sub {
    for my $way (qw(method builtin lines getline slurp again)) {
        my $client = $server->exchange(
            req("POST /$way", \$ten),
            req("POST /$way", 'Transfer-Encoding: chunked', \chunked($ten, 3)),
            req("GET /none"),
        );
        is_deeply [$client->bodies], [$ten, $ten, 'not read'], "by $way";
    }
};

each_way 'read() keeps to its length and its offset' => sub {
    my $client = $server->exchange(map { req("POST /$_", \'abcdefghij') } qw(offset pieces past middle));
    is_deeply [$client->bodies],
        ["ababc\0\0\0def", 'abc|def|ghi|j', '0|0|0', 'defg'], 'as the builtin does';
};

each_way 'a body that the application does not read is no part of the next request' => sub {
    my $client = $server->exchange(
        req('POST /none', \req('GET /smuggled')),
        req('POST /half', 'Transfer-Encoding: chunked', \chunked(req('GET /smuggled'), 7)),
        req('GET /none'),
    );
    is_deeply [$client->bodies], ['not read', 'GE', 'not read'], 'three requests, three answers';
    is scalar(grep { /smuggled/ } $server->recorded), 0, 'and no fourth';
};

each_way 'an empty body reads as empty' => sub {
    my $client = $server->exchange(
        req('POST /method', 'Content-Length: 0'), req('POST /method'), req('GET /lines'), req('GET /again'),
        req('POST /method', 'Transfer-Encoding: chunked', \"0\r\n\r\n"), req('GET /past'),
    );
    is_deeply [$client->bodies], ['', '', '', '', '', '0|0|0'], 'everywhere';
};

each_way 'the input is buffered, chunked or not' => sub {
    my $client = $server->exchange(
        req('POST /method', \$ten), req('POST /method', 'Transfer-Encoding: chunked', \chunked($ten, 4)), req('GET /method'));
    is_deeply [map { scalar $_->header('X-Buffered') } $client->responses], [1, 1, 1], 'psgix.input.buffered says so';
};

each_way 'a chunked body arrives decoded, with its length told' => sub {
    my $body = join ' ', 1 .. 100;
    for my $size (1, 2, 10, 100, 1000) {
        my $client = $server->exchange(req('POST /method', 'Transfer-Encoding: chunked', \chunked($body, $size)));
        my $answer = $client->response;
        is $answer->body, $body, "chunks of $size bytes";
        is $answer->header('X-Length'), length $body, 'CONTENT_LENGTH is the decoded length';
        is $answer->header('X-Coding'), 'none', 'HTTP_TRANSFER_ENCODING is not there';
    }
};

each_way 'chunk extensions and trailers are read over' => sub {
    my $client = $server->exchange(
        req('POST /method', 'Transfer-Encoding: chunked', 'Trailer: X-Sum',
            \qq{5;name=value\r\nhello\r\n6;a;b="c\\"d;"\r\n world\r\n000;last\r\nX-Sum: 1\r\nContent-Length: 3\r\n\r\n}),
        req('GET /none'),
    );
    is_deeply [$client->bodies], ['hello world', 'not read'], 'and the next request is seen';
    is $client->response->header('X-Length'), 11, 'a length in a trailer says nothing';
};

my %body = map { $_ => join('', map { chr(($_ * 131 + ($_ >> 8)) % 256) } 1 .. $_) } 65_535, 65_536, 65_537;
$body{1_048_576} = join '', map { md5_hex($_) } 1 .. 32_768;
$body{5_000_000} = 'abcde' x 1_000_000;

for my $size (sort { $a <=> $b } keys %body) {
    each_way "a body of $size bytes arrives whole" => sub {
        my $body = $body{$size};
        my $md5 = md5_hex($body);
        for my $way ($size < 100_000 ? qw(method builtin lines again) : qw(method again)) {
            for my $chunk (0, 1, 60_000) {
                # One byte to each chunk and one send to each byte are for the small ones only.
                next if $chunk == 1 && ($size > 65_536 || $way ne 'method');
                my $request = $chunk
                    ? req("POST /$way", 'Transfer-Encoding: chunked', \chunked($body, $chunk))
                    : req("POST /$way", \$body);
                my $client = $server->connect;
                my $piece = how eq 'whole' ? length $request : how eq 'segment' ? 65_536 : 1_021;
                $client->send(every_n($piece, $request));
                my $answer = $client->read_response('POST');
                my $told = join ' ', map { scalar $answer->header($_) } qw(X-Size X-MD5 X-Length);
                is $told, "$size $md5 $size", "$way, " . ($chunk ? "chunks of $chunk" : 'with a length');
                is $client->ask('GET /none')->body, 'not read', 'and the connection goes on';
            }
        }
    };
}

check 'a body of 65,537 bytes arrives whole one byte at a time' => sub {
    my $client = $server->connect;
    $client->send(split //, req('POST /method', \$body{65_537}));
    is $client->read_response('POST')->header('X-MD5'), md5_hex($body{65_537}), 'to the byte';
};

check 'a chunked body split at every byte arrives whole' => sub {
    my $bytes = req('POST /method', 'Transfer-Encoding: chunked', \"4;x=y\r\nwiki\r\n05\r\npedia\r\n0\r\nX-T: v\r\n\r\n");
    my $wrong = '';
    for my $cut (1 .. length($bytes) - 1) {
        my $client = $server->connect;
        $client->send(substr($bytes, 0, $cut), substr($bytes, $cut));
        my $answer = $client->read_response('POST');
        $wrong .= "$cut " unless $answer && $answer->body eq 'wikipedia';
    }
    is $wrong, '', 'for every place of the cut';
};

check 'Expect: 100-continue is answered with 100 and then with the answer' => sub {
    my $client = $server->connect;
    for my $i (1 .. 2) {
        $client->send(req('POST /method', 'Expect: 100-continue', 'Content-Length: 5'));
        $client->read_at_least(10);
        is $client->{in}, "HTTP/1.1 100 Continue\r\n\r\n", "request $i: 100 comes while the body has not been sent";
        $client->send('hello');
        is $client->read_response('POST')->body, 'hello', "request $i: then the answer";
    }
    $client->send(req('POST /method', 'expect: 100-Continue', 'Transfer-Encoding: chunked'));
    $client->read_at_least(10);
    like $client->{in}, qr{\AHTTP/1\.1 100 }, 'a chunked body is asked for too, whatever the case of the word';
    $client->send("2\r\nhi\r\n0\r\n\r\n");
    is $client->read_response('POST')->body, 'hi', 'and arrives';
};

check 'a client that does not wait for the 100 is served' => sub {
    my $client = $server->connect;
    $client->send(req('POST /method', 'Expect: 100-continue', \'hello') . req('GET /none'));
    is $client->read_response('POST')->body, 'hello', 'the body is read';
    is $client->read_response('GET')->body, 'not read', 'and so is the next request';
};

check 'a request without a body is not told to continue' => sub {
    my $client = $server->connect;
    my $answer = $client->ask('GET /none', 'Expect: 100-continue');
    is $answer->body, 'not read', 'it is answered';
};

check 'a 1.0 client is never sent a 100' => sub {
    my $client = $server->connect;
    $client->send("POST /method HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    select undef, undef, undef, 0.2;
    $client->send('hello');
    my $answer = $client->read_response('POST', 0);
    is $answer->body, 'hello', 'it is answered';
    is scalar($answer->informational), 0, 'once';
};

check 'another expectation is refused with 417' => sub {
    my $client = $server->connect;
    $client->send(req('POST /method', 'Expect: miracles', 'Content-Length: 5'));
    is $client->read_response('POST')->status, 417, 'before the body is sent';
};

check 'a slow upload does not occupy the only worker' => sub {
    my @slow = map { $server->connect } 1 .. 3;
    my $body = 'x' x 70_000;
    $_->send(req('POST /method', 'Content-Length: 70000')) for @slow[0, 1];
    $slow[2]->send(req('POST /method', 'Transfer-Encoding: chunked'));
    for my $round (0 .. 6) {
        my $part = substr $body, $round * 10_000, 10_000;
        $_->send($part) for @slow[0, 1];
        $slow[2]->send("2710\r\n$part\r\n");
        is $server->get('/none')->body, 'not read', "another client is answered after part $round" if $round % 3 == 0;
    }
    $slow[2]->send("0\r\n\r\n");
    is $_->read_response('POST')->header('X-Size'), 70_000, 'and the upload ends well' for @slow;
};

check 'a client that leaves in mid-upload hurts nobody' => sub {
    my $pid = $server->worker_pid;
    $server->get('/none') for 1 .. 5;
    my $before = $server->descriptors($pid);
    for my $i (1 .. 40) {
        my $client = $server->connect;
        $client->send(req('POST /method', 'Content-Length: 200000') . 'x' x ($i * 4_000));
        $i % 2 ? $client->close : $client->abort;
    }
    is $server->get('/none')->body, 'not read', 'others are served';
    ok poll_until(sub { $server->descriptors($pid) <= $before }, 10), 'its descriptors are given back';
    is $server->worker_pid, $pid, 'the worker is the same';
};

done_testing;
