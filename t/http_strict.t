use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;
use Hydrofoil::Test;

# Where laxness would let two parties disagree about where a request ends, the request is refused and the connection
# closed: RFC 9112, sections 2.2, 3, 5.1, 5.2, 6.3, 7.1 and 11.2.

my $server = start_server(app => app_file('echo.psgi'));
my $next = req('GET /smuggled');

# A refused request: the statuses, and that nothing behind it on the connection was taken for a request.
sub refused {
    my ($what, $bytes, $status) = @_;
    $status ||= 400;
    $server->forget_recorded;
    my $client = eval { $server->exchange($bytes . $next) };
    if (!$client) {
        fail "$what: $@";
        return;
    }
    my $answer = $client->response;
    my $connection = $answer ? $answer->header('Connection') || '' : '';
    my $got = join '; ', $client->statuses, $connection, $client->eof ? 'closed' : 'open',
        map { "application saw $_" } $server->recorded;
    is $got, "$status; close; closed", $what;
    return;
}

sub head { join "\r\n", @_, '', '' }

each_way 'a body whose end is in doubt is refused' => sub {
    my $chunks = "5\r\nhello\r\n0\r\n\r\n";
    refused 'Content-Length and Transfer-Encoding',
        head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 5', 'Transfer-Encoding: chunked') . $chunks;
    refused 'Transfer-Encoding and Content-Length',
        head('POST / HTTP/1.1', 'Host: x', 'Transfer-Encoding: chunked', 'Content-Length: 5') . $chunks;
    refused 'differing Content-Lengths',
        head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 5', 'Content-Length: 6') . 'hello';
    refused 'differing Content-Lengths in a list', head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 5, 6') . 'hello';
    refused "Content-Length: $_", head('POST / HTTP/1.1', 'Host: x', "Content-Length: $_") . 'hello'
        for '+5', '-5', '5x', '0x5', '5 5', '5.0', '', ',', '99999999999999999999', '18446744073709551621';
    refused 'chunked in a 1.0 request', head('POST / HTTP/1.0', 'Transfer-Encoding: chunked') . $chunks;
    refused 'an empty Transfer-Encoding', head('POST / HTTP/1.1', 'Host: x', 'Transfer-Encoding:') . $chunks, 400;
};

each_way 'a transfer coding that is not known is refused with 501' => sub {
    for my $coding ('gzip', 'gzip, chunked', 'xchunked', 'identity', 'chunkedx') {
        refused "Transfer-Encoding: $coding", head('POST / HTTP/1.1', 'Host: x', "Transfer-Encoding: $coding"), 501;
    }
};

each_way 'codings around chunked are never read as chunked' => sub {
    for my $lines (['Transfer-Encoding: chunked, chunked'], ['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'],
        ["Transfer-Encoding: \x0bchunked"], ['Transfer-Encoding: "chunked"'], ['Transfer-Encoding: chunked;q=1'])
    {
        $server->forget_recorded;
        my $client = $server->exchange(head('POST / HTTP/1.1', 'Host: x', @$lines) . "0\r\n\r\n$next");
        like $client->statuses, qr/\A(?:400|501)\z/, "@$lines is refused";
        is join(' ', $server->recorded), '', 'and no request is made of it';
    }
};

each_way 'line ends other than CRLF are refused in a head' => sub {
    refused 'a bare LF after the request line', "GET / HTTP/1.1\nHost: x\r\n\r\n";
    refused 'a bare LF after a header', "GET / HTTP/1.1\r\nHost: x\nX-A: b\r\n\r\n";
    refused 'only bare LFs', "GET / HTTP/1.1\nHost: x\n\n";
    refused 'a bare LF as the empty line', "GET / HTTP/1.1\r\nHost: x\r\n\n";
    refused 'a bare CR in a value', "GET / HTTP/1.1\r\nHost: x\r\nX-A: a\rb\r\n\r\n";
    refused 'a bare CR that hides a header', "GET / HTTP/1.1\r\nHost: x\r\nX-A: a\rContent-Length: 5\r\n\r\n";
    refused 'a bare CR in the request line', "GET /\r HTTP/1.1\r\nHost: x\r\n\r\n";
    refused 'CR CR LF', "GET / HTTP/1.1\r\r\nHost: x\r\n\r\n";
};

each_way 'malformed header lines are refused' => sub {
    my @lines = (
        ['a space before the colon',     'X-A : b'],
        ['a tab before the colon',       "X-A\t: b"],
        ['a space before Content-Length\'s colon', 'Content-Length : 5'],
        ['a folded value (obs-fold)',    "X-A: b\r\n c"],
        ['a value folded with a tab',    "X-A: b\r\n\tc"],
        ['a header line without a name', ': b'],
        ['a header line without a colon', 'nonsense'],
        ['a NUL in a value',             "X-A: b\0c"],
        ['a NUL in a name',              "X-\0: b"],
        ['a control character in a value', "X-A: b\x01c"],
        ['DEL in a value',               "X-A: b\x7fc"],
        ['a vertical tab in a value',    "X-A: b\x0bc"],
        ['a space in a name',            'X A: b'],
        ['brackets in a name',           'X(A): b'],
        ['a slash in a name',            'X/A: b'],
        ['a byte above 127 in a name',   "X-\xe9: b"],
    );
    refused $_->[0], head('GET / HTTP/1.1', 'Host: x', $_->[1]) for @lines;
    refused 'white space before the first header', head('GET / HTTP/1.1', ' Host: x', 'X-A: b');
};

each_way 'Host has to be there once and be a host' => sub {
    refused 'no Host in 1.1', head('GET / HTTP/1.1', 'X-A: b');
    refused 'two Hosts', head('GET / HTTP/1.1', 'Host: x', 'Host: y');
    refused 'the same Host twice', head('GET / HTTP/1.1', 'Host: x', 'Host: x');
    refused 'two Hosts in 1.0', head('GET / HTTP/1.0', 'Host: x', 'Host: y');
    refused 'no Host with an absolute target', head('GET http://x/ HTTP/1.1', 'X-A: b');
    refused "Host: $_", head('GET / HTTP/1.1', "Host: $_") for 'x y', 'x/y', 'x, y', 'a@b';
};

each_way 'malformed request lines are refused' => sub {
    my @lines = (
        'GET', 'GET /', 'GET / ', 'GET  / HTTP/1.1', 'GET /  HTTP/1.1', 'GET / HTTP/1.1 ', ' GET / HTTP/1.1',
        "GET\t/ HTTP/1.1", 'GET / http/1.1', 'GET / HTTP/1', 'GET / HTTP/1.1.1', 'GET / HTTP/11', 'GET / HTTQ/1.1',
        'G(T / HTTP/1.1', "GE\0T / HTTP/1.1", "GET /\0 HTTP/1.1", "GET /\x01 HTTP/1.1", "GET /\x7f HTTP/1.1",
        'GET /a b HTTP/1.1', ' / HTTP/1.1', 'GET HTTP/1.1', 'GET / HTTP/01.1', 'GET / HTTP/1.10',
    );
    for my $line (@lines) {
        (my $shown = $line) =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ge;
        refused "'$shown'", head($line, 'Host: x');
    }
};

each_way 'a version that is not 1.x is refused with 505' => sub {
    refused $_, head("GET / $_", 'Host: x'), 505 for 'HTTP/2.0', 'HTTP/0.9', 'HTTP/3.0';
};

each_way 'the preface of HTTP/2 is refused' => sub {
    $server->forget_recorded;
    my $client = $server->exchange("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" . $next);
    like $client->statuses, qr/\A(?:400|505)\z/, 'once';
    is join(' ', $server->recorded), '', 'and the application sees nothing';
};

each_way 'the same Content-Length twice is either refused or taken as one' => sub {
    $server->forget_recorded;
    my @same = ('Content-Length: 5', 'Content-Length: 5');
    my $client = $server->exchange(head('POST / HTTP/1.1', 'Host: x', @same) . 'hello', req('GET /next'));
    like join(' ', $client->statuses, $server->recorded), qr{\A(?:400 *|200 200 POST / GET /next)\z}, 'nothing between';
};

each_way 'malformed chunks are refused' => sub {
    my @bodies = (
        ['no hexadecimal size',         "g\r\nhello\r\n0\r\n\r\n"],
        ['an empty size',               "\r\nhello\r\n0\r\n\r\n"],
        ['a size of more than 15 digits', "0000000000000005\r\nhello\r\n0\r\n\r\n"],
        ['a size above 2^64',           "10000000000000005\r\nhello\r\n0\r\n\r\n"],
        ['a negative size',             "-5\r\nhello\r\n0\r\n\r\n"],
        ['a size with 0x',              "0x5\r\nhello\r\n0\r\n\r\n"],
        ['a space before the size',     " 5\r\nhello\r\n0\r\n\r\n"],
        ['a space after the size',      "5 \r\nhello\r\n0\r\n\r\n"],
        ['a bare LF after the size',    "5\nhello\r\n0\r\n\r\n"],
        ['a bare CR in an extension',   "5;a\rb\r\nhello\r\n0\r\n\r\n"],
        ['a bare LF in an extension',   "5;a\nb\r\nhello\r\n0\r\n\r\n"],
        ['NUL in an extension',         "5;a\0b\r\nhello\r\n0\r\n\r\n"],
        ['a bare LF after the data',    "5\r\nhello\n0\r\n\r\n"],
        ['nothing after the data',      "5\r\nhello0\r\n\r\n"],
        ['more data than the size',     "4\r\nhello\r\n0\r\n\r\n"],
        ['a bare LF after the last size', "5\r\nhello\r\n0\n\r\n"],
        ['a bare LF at the end',        "5\r\nhello\r\n0\r\n\n"],
        ['a trailer that is no field',  "5\r\nhello\r\n0\r\nnonsense\r\n\r\n"],
        ['a space in a trailer name',   "5\r\nhello\r\n0\r\nX : y\r\n\r\n"],
        ['a folded trailer',            "5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n"],
        ['a long extension',            '5;' . 'x' x 10_000 . "\r\nhello\r\n0\r\n\r\n"],
        ['trailers without an end',     "5\r\nhello\r\n0\r\n" . "X: y\r\n" x 10_000 . "\r\n"],
    );
    refused $_->[0], head('POST / HTTP/1.1', 'Host: x', 'Transfer-Encoding: chunked') . $_->[1] for @bodies;
};

each_way 'requests before the bad one are still answered' => sub {
    $server->forget_recorded;
    my $client = $server->exchange(req('GET /1'), req('POST /2', \'x'), "GET / HTTP/1.1\r\n\r\n", req('GET /3'));
    is $client->statuses, '200 200 400', 'two answers, then the refusal';
    is join(' ', $server->recorded), 'GET /1 POST /2', 'and nothing after it';
};

check 'things that are not HTTP are refused' => sub {
    # The start of a TLS ClientHello record, as a browser sends it to a port that it takes for https.
    my $hello = pack('H*', '16030100c8010000c40303') . join '', map { chr($_ * 7 % 256) } 1 .. 190;
    my $answer = $server->raw($hello);
    like $answer, qr{\AHTTP/1\.1 400 .*^Connection: close\r$}msi, 'a TLS handshake gets a 400';
    like $server->raw("\0" x 100), qr{\AHTTP/1\.1 400 }, 'NULs get a 400';
    like $server->raw("hello\r\n\r\n"), qr{\AHTTP/1\.1 400 }, 'a word gets a 400';
    like $server->raw("\x{ff}\x{fe}" x 10), qr{\AHTTP/1\.1 400 }, 'binary bytes get a 400';
};

each_way 'legal but unusual requests are not refused' => sub {
    my @requests = (
        req('POST /te', 'Transfer-Encoding: CHUNKED', \"0\r\n\r\n"),
        req('POST /te-space', "Transfer-Encoding: \tchunked ", \"05;a=b;c=\"d e\"\r\nhello\r\n00\r\nX-Trailer: y\r\n\r\n"),
        req('POST /zeros', 'Content-Length: 0000005', \'hello'),
        req('GET /empty-host', 'Host:'),
        req('GET /ipv6', 'Host: [::1]:80'),
        req('GET /symbols', "!#\$%&'*+-.^_`|~09aZ: token"),
        req('GET /!$&\'()*+,;=:@-._~%20'),
        req('GET /quoted', "X-Quoted: \"a\tb\""),
    );
    my $client = $server->exchange(@requests);
    is $client->statuses, join(' ', (200) x @requests), 'all are answered';
    is $client->response(1)->body, "POST /te-space\nhello", 'chunks with extensions and trailers are decoded';
};

check 'an error answer is a whole one' => sub {
    my $client = $server->connect;
    my $answer = $client->ask("GET / HTTP/1.1\r\n\r\n");
    is $answer->framing, 'length', 'it has a length';
    like $answer->header('Content-Type') || '', qr{\Atext/(?:plain|html)\b}, 'and a type';
    ok $client->closes, 'nothing follows it';
    ok !$client->reset, 'and it is not cut by a reset';
};

check 'the server serves on after all of this' => sub {
    is $server->get('/well')->body, "GET /well\n", 'a good request has its answer';
};

done_testing;
