use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use File::Temp ();
use Test::More;
use Hydrofoil::Test;

# Clients that people use: curl, ab, wrk, h2load, Python's http.client, Node's http.

delete @ENV{qw(http_proxy HTTP_PROXY no_proxy)};
my $server = start_server(app => app_file('clients.psgi'));
my $dir = File::Temp->newdir;

# What a command prints, with its exit status in $?. It is ended after half a minute.
sub run {
    my (@command) = @_;
    my $pid = open my $out, '-|';
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        delete $ENV{LD_PRELOAD};    # a sanitizer is for the server
        open STDERR, '>&', \*STDOUT;
        open STDIN, '<', '/dev/null';
        alarm 30 * $Hydrofoil::Test::PATIENCE;
        exec { $command[0] } @command or do { print "$command[0]: $!\n"; exit 127 };
    }
    local $/;
    my $all = <$out>;
    close $out;
    return defined $all ? $all : '';
}

sub with_command {
    my ($name, $code) = @_;
    my $found = grep { -x "$_/$name" } split /:/, $ENV{PATH};
    # A stub of a version manager is there and does not run.
    run($name, $name eq 'ab' ? '-V' : '--version') if $found;
    if (!$found || $? >> 8 == 127 || ($? && $name ne 'wrk')) {
        SKIP: { skip "$name is not installed", 1 }
        return;
    }
    check "$name" => $code;
    return;
}

sub spew {
    my ($name, $bytes) = @_;
    open my $out, '>', "$dir/$name" or die "$dir/$name: $!";
    print {$out} $bytes;
    close $out;
    return "$dir/$name";
}

my $upload = spew(upload => join '', map { "line $_\n" } 1 .. 200_000);

with_command curl => sub {
    my @curl = ('curl', '-sS', '--max-time', 20);
    is run(@curl, $server->url('/')), 'Hello World', 'a page';
    is run(@curl, '--http1.0', $server->url('/version')), 'HTTP/1.0', 'by 1.0';
    is run(@curl, '--http1.0', $server->url('/stream')), join('', map { "part $_\n" } 1 .. 10), 'a stream by 1.0';
    is run(@curl, $server->url('/stream')), join('', map { "part $_\n" } 1 .. 10), 'a stream by 1.1';
    my $echoed = run(@curl, '-T', $upload, $server->url('/echo'));
    is length $echoed, length("PUT /echo\n") + -s $upload, '-T file, which expects 100-continue';
    is run(@curl, '-H', 'Expect: 100-continue', '-d', 'a=b', $server->url('/echo')), "POST /echo\na=b", 'Expect with a small body';
    like run(@curl, '-v', '-T', $upload, '-o', '/dev/null', '-H', 'Expect: 100-continue', $server->url('/echo')),
        qr{^< HTTP/1\.1 100 Continue}m, 'and it sees the 100';
    $echoed = run(@curl, '-T', $upload, '-H', 'Transfer-Encoding: chunked', $server->url('/echo'));
    is length $echoed, length("PUT /echo\n") + -s $upload, 'a chunked upload';
    is run(@curl, '-X', 'PUT', '-d', 'x', $server->url('/echo')), "PUT /echo\nx", 'another method';
    like run(@curl, '-I', $server->url('/large')), qr/^Content-Length: 3000000\r$/mi, '-I';
    is run(@curl, '-L', $server->url('/redirect')), "GET /echo?redirected\n", '-L';
    is run(@curl, map { $server->url("/echo?$_") } 1 .. 5), join('', map { "GET /echo?$_\n" } 1 .. 5), 'many URLs';
    my $ports = run(@curl, '-w', "\n", map { $server->url('/port') } 1 .. 5);
    is scalar(keys %{ { map { $_ => 1 } split /\n/, $ports } }), 1, 'over one connection';
    like run(@curl, '-i', $server->url('/hints')), qr{\AHTTP/1\.1 103 .*^HTTP/1\.1 200 .*hinted\z}ms, 'early hints';
    is run(@curl, '-o', '/dev/null', '-w', '%{http_code}', $server->url('/dies')), '500', 'a 500';
    is run(@curl, '--request-target', '*', '-X', 'OPTIONS', '-o', '/dev/null', '-w', '%{http_code}', $server->url('/')),
        '404', 'OPTIONS *';
    is run(@curl, '-x', $server->url('/'), 'http://other.example/echo?by=proxy'), "GET /echo?by=proxy\n",
        'with the server as its proxy (absolute-form)';
};

with_command ab => sub {
    for my $keep ([], ['-k']) {
        for my $page (qw(/ /stream)) {
            my $out = run('ab', '-q', @$keep, '-n', 500, '-c', 10, $server->url($page));
            like $out, qr/^Complete requests:\s+500$/m, "@$keep $page: all complete";
            like $out, qr/^Failed requests:\s+0$/m, "@$keep $page: none failed";
            unlike $out, qr/^Non-2xx/m, "@$keep $page: all well";
            like $out, qr/^Keep-Alive requests:\s+500$/m, 'on kept connections' if @$keep && $page eq '/';
        }
    }
    my $out = run('ab', '-q', '-k', '-n', 50, '-c', 5, '-p', $upload, '-T', 'text/plain', $server->url('/echo'));
    like $out, qr/^Failed requests:\s+0$/m, 'posts of 2 MB';
};

with_command wrk => sub {
    for my $page (qw(/ /stream /large)) {
        my $out = run('wrk', '-t', 1, '-c', 16, '-d', '1s', $server->url($page));
        like $out, qr/^\s*[1-9]\d* requests in/m, "$page: requests are answered";
        unlike $out, qr/Socket errors|Non-2xx/, "$page: without errors" or diag $out;
    }
};

with_command h2load => sub {
    for my $page (qw(/ /stream)) {
        my $out = run('h2load', '--h1', '-n', 500, '-c', 10, '-m', 10, $server->url($page));
        like $out, qr/500 succeeded, 0 failed, 0 errored, 0 timeout/, "$page: with 10 requests under way on each connection";
    }
};

with_command python3 => sub {
    my $script = spew('client.py', <<'END');
import http.client, sys
host, port = sys.argv[1], int(sys.argv[2])
connection = http.client.HTTPConnection(host, port, timeout=20)
ports = set()
for i in range(50):
    connection.request("GET", "/port")
    answer = connection.getresponse()
    ports.add(answer.read())
    connection.request("POST", "/echo", body=b"x" * i)
    assert connection.getresponse().read() == b"POST /echo\n" + b"x" * i
    connection.request("PUT", "/echo", body=iter([b"one ", b"two ", b"three"]), encode_chunked=True,
        headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().read() == b"PUT /echo\none two three"
    connection.request("GET", "/stream")
    assert connection.getresponse().read() == b"".join(b"part %d\n" % n for n in range(1, 11))
    connection.request("HEAD", "/")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.read() == b""
    connection.request("GET", "/204")
    answer = connection.getresponse()
    assert answer.status == 204 and answer.read() == b""
assert len(ports) == 1, ports
print("well")
END
    is run('python3', $script, $server->{host}, $server->{port}), "well\n", 'http.client over one connection';
};

with_command node => sub {
    my $script = spew('client.js', <<'END');
const http = require('http');
const [host, port] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
const ports = new Set();
function ask(method, path, body, chunked) {
  return new Promise((resolve, reject) => {
    const headers = body !== undefined && !chunked ? { 'Content-Length': Buffer.byteLength(body) } : {};
    const request = http.request({ host, port, method, path, agent, headers }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve({ status: answer.statusCode, text: Buffer.concat(parts).toString() }));
      answer.on('error', reject);
    });
    request.on('error', reject);
    if (chunked) for (const piece of body.match(/.{1,7}/g)) request.write(piece);
    else if (body !== undefined) request.write(body);
    request.end();
  });
}
function same(got, wanted) { if (got !== wanted) throw new Error(`${got} is not ${wanted}`); }
async function one(i) {
  ports.add((await ask('GET', '/port')).text);
  same((await ask('POST', '/echo', 'x'.repeat(i))).text, 'POST /echo\n' + 'x'.repeat(i));
  same((await ask('PUT', '/echo', 'in chunks '.repeat(10), true)).text, 'PUT /echo\n' + 'in chunks '.repeat(10));
  same((await ask('GET', '/stream')).text.length, 71);
  same((await ask('GET', '/large')).text.length, 3000000);
  same((await ask('GET', '/204')).status, 204);
  same((await ask('GET', '/dies')).status, 500);
}
(async () => {
  await Promise.all(Array.from({ length: 20 }, (_, i) => one(i)));
  console.log('well');
  agent.destroy();
})().catch((error) => { console.log(error); process.exit(1); });
END
    is run('node', $script, $server->{host}, $server->{port}), "well\n", 'http.request with a keep-alive agent';
};

check 'the server is well after all of them' => sub {
    is $server->get('/')->body, 'Hello World', 'it answers';
    ok $server->stop, 'and goes when it is told to';
};

done_testing;
