use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../t/lib";
use Test::More;
use Time::HiRes qw(time sleep);
use Hydrofoil::Test;

# A long run of mixed requests leaves memory and descriptors where they were. HYDROFOIL_SOAK_REQUESTS says how many.

my $requests = $ENV{HYDROFOIL_SOAK_REQUESTS} || 200_000;
my $server = start_server(lint => 0, args => ['--max-write-buffer' => 262_144], app => <<'END');
my @text = ('Content-Type' => 'text/plain');
my $large = 'x' x 200_000;
my %page = (
    '/pid' => sub { [200, [@text], [$$]] },
    '/plain' => sub { [200, [@text], ['plain']] },
    '/echo' => sub { my $b = ''; while ($_[0]{'psgi.input'}->read(my $x, 65_536)) { $b .= $x } [200, [@text], [length $b]] },
    '/unread' => sub { [200, [@text], ['unread']] },
    '/large' => sub { [200, [@text], [$large]] },
    '/file' => sub { open my $fh, '<', $INC{'Plack/Util.pm'} or die; [200, [@text], $fh] },
    '/memory' => sub { open my $fh, '<', \$large or die; [200, [@text], $fh] },
    '/stream' => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write("$_\n") for 1 .. 5; $w->close } },
    '/drop' => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write('part'); return } },
    '/delayed' => sub { sub { $_[0]->([200, [@text], ['delayed']]) } },
    '/cleanup' => sub { push @{ $_[0]{'psgix.cleanup.handlers'} }, sub { $_[0]{seen}++ }; [200, [@text], ['cleanup']] },
    '/io' => sub { my $io = $_[0]{'psgix.io'}; [200, [@text], [fileno $io]] },
    '/hints' => sub { $_[0]{'psgix.informational'}->(103, [Link => '</a>']); [200, [@text], ['hints']] },
    '/dies' => sub { die "dies\n" },
    '/illegal' => sub { [200, ['X-Odd'], ['x']] },
);
my $call = sub { my $env = shift; ($page{ $env->{PATH_INFO} } || sub { [404, [@text], ['no such page']] })->($env) };
$call;
END

my $done = 0;
my $turn = 0;
my $pid = $server->worker_pid;
my $body = join '', map { "line $_\n" } 1 .. 2_000;        # 19 KB
my $big = $body x 6;                                       # above the limit of what stays in memory
my @kinds = (
    sub { many(200, map { 'GET /plain' } 1 .. 200) },
    sub { many(50, map { "GET $_" } ('/plain', '/stream', '/delayed', '/cleanup', '/hints') x 10) },
    sub { many(10, map { ("HEAD /large", 'GET /file') } 1 .. 5) },
    sub { many(40, map { my $n = $turn++; req("GET /plain?$n", "X-Header-$n: $n", "Cookie: id=$n") } 1 .. 40) },
    sub { many(20, map { req('POST /echo', \$body) } 1 .. 20) },
    sub { many(4, req('POST /echo', \$big), 'GET /io', req('POST /unread', \$big), 'GET /memory') },
    sub { many(10, map { req('POST /echo', 'Transfer-Encoding: chunked', \chunked($body)) } 1 .. 10) },
    sub { one('GET /plain', 'Connection: close') for 1 .. 10 },
    sub { one('GET /plain HTTP/1.0') for 1 .. 5 },
    sub { one('GET /stream HTTP/1.0') },
    sub { one("GET $_", 'Connection: close') for '/dies', '/illegal', '/drop' },
    sub { bad("GET / HTTP/1.1\r\n\r\n"); bad("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"); bad("\0\0\0\r\n\r\n") },
    sub { leave('GET /large'); leave('GET /stream'); leave(substr req('POST /echo', \$big), 0, 90_000); leave("GET /pla") },
);

sub chunked { return join('', map { sprintf "%x\r\n%s\r\n", length, $_ } every_n(1_000, $_[0])) . "0\r\n\r\n" }

# Several on one connection, without waiting in between.
sub many {
    my ($n, @requests) = @_;
    my $client = $server->connect;
    my @bytes = map { /\n/ ? $_ : req($_) } @requests;
    $client->send(join '', @bytes);
    for my $bytes (@bytes) {
        my ($method) = $bytes =~ /\A(\w+)/;
        my $answer = $client->read_response($method);
        die "no answer to $method\n" unless $answer;
        die 'status ' . $answer->status . "\n" if $answer->status != 200;
        @{ $client->{responses} } = ();
    }
    $done += $n;
    return;
}

sub one {
    my $client = $server->connect;
    $client->send(req(@_));
    $client->read_until_close;
    $done++;
    return;
}

sub bad {
    my $client = $server->connect;
    $client->send($_[0]);
    $client->read_until_close;
    $done++;
    return;
}

sub leave {
    my $client = $server->connect;
    $client->send($_[0] =~ /\n/ ? $_[0] : req($_[0]));
    $client->_turn(0, time + 1) if $turn++ % 2 && $_[0] =~ m{GET /(?:large|stream)};
    $turn % 3 ? $client->abort : $client->close;
    $done++;
    return;
}

sub run_until {
    my $goal = shift;
    while ($done < $goal) { $_->() for @kinds }
    return;
}

# The figures when nothing is under way.
sub figures {
    $server->get('/plain');
    sleep 0.3;
    my $fds = $server->descriptors($pid);
    # Lingering connections end by themselves.
    poll_until(sub { my $now = $server->descriptors($pid); my $steady = $now == $fds; $fds = $now; sleep 0.2; $steady }, 10);
    return ($server->rss($pid), $fds);
}

run_until($requests / 10);
my ($memory, $descriptors) = figures();
note "after $done requests: $memory KB, $descriptors descriptors";

my $error = eval { run_until($requests); 1 } ? '' : $@;
is $error, '', "all requests were answered as they should be";
my ($memory_after, $descriptors_after) = figures();
note "after $done requests: $memory_after KB, $descriptors_after descriptors";

cmp_ok $done, '>=', $requests, "$done requests were made";
is $server->worker_pid, $pid, 'one worker has served them all';
cmp_ok $memory_after - $memory, '<=', 2_048, 'its memory is where it was after the first tenth, give or take 2 MB';
cmp_ok $descriptors_after, '<=', $descriptors, 'so are its descriptors';
ok $server->stop, 'and it goes when it is told to';

done_testing;
