use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;
use Hydrofoil::Test;

# What an application does wrong is a 500 for its client, one line in the log for its author, and nothing for anybody else.

my $app = <<'END';
my @text = ('Content-Type' => 'text/plain');
my %page = (
    '/pid'           => sub { [200, [@text], [$$]] },
    '/fine'          => sub { [200, [@text], ['fine']] },
    '/dies'          => sub { die "the application dies here\n" },
    '/dies-object'   => sub { die bless {}, 'Exception' },
    '/dies-hash'     => sub { die {code => 42} },
    '/dies-empty'    => sub { die '' },
    '/dies-utf8'     => sub { die "smile \x{263a}\n" },
    '/dies-lines'    => sub { die "first line\nsecond line\n" },
    '/exits-eval'    => sub { eval { die "caught\n" }; [200, [@text], ["still $@"]] },
    '/warns'         => sub { warn "a warning of the application\n"; [200, [@text], ['fine']] },
    '/stderr'        => sub { print STDERR "printed to STDERR\n"; [200, [@text], ['fine']] },
    '/errors-print'  => sub { $_[0]{'psgi.errors'}->print("printed to ", "psgi.errors\n"); [200, [@text], ['fine']] },
    '/errors-builtin' => sub { my $e = $_[0]{'psgi.errors'}; print {$e} "builtin print to psgi.errors\n"; [200, [@text], ['fine']] },
    '/errors-printf' => sub { my $e = $_[0]{'psgi.errors'}; printf {$e} "printf %d to psgi.errors\n", 42; [200, [@text], ['fine']] },
    '/nothing'       => sub { return },
    '/undef'         => sub { undef },
    '/string'        => sub { 'Hello' },
    '/hash'          => sub { {status => 200} },
    '/empty-array'   => sub { [] },
    '/one'           => sub { [200] },
    '/two'           => sub { [200, [@text]] },
    '/four'          => sub { [200, [@text], ['x'], 'more'] },
    '/status-text'   => sub { ['OK', [@text], ['x']] },
    '/status-99'     => sub { [99, [@text], ['x']] },
    '/status-0'      => sub { [0, [@text], ['x']] },
    '/status-negative' => sub { [-200, [@text], ['x']] },
    '/status-1000'   => sub { [1000, [@text], ['x']] },
    '/status-undef'  => sub { [undef, [@text], ['x']] },
    '/status-101'    => sub { [103, [@text], ['x']] },
    '/headers-undef' => sub { [200, undef, ['x']] },
    '/headers-hash'  => sub { [200, {@text}, ['x']] },
    '/headers-odd'   => sub { [200, [@text, 'X-Odd'], ['x']] },
    '/value-undef'   => sub { [200, [@text, 'X-Undef' => undef], ['x']] },
    '/value-crlf'    => sub { [200, [@text, 'X-Split' => "a\r\nX-Injected: b"], ['x']] },
    '/value-cr'      => sub { [200, [@text, 'X-Split' => "a\rb"], ['x']] },
    '/value-lf'      => sub { [200, [@text, 'X-Split' => "a\nb"], ['x']] },
    '/value-nul'     => sub { [200, [@text, 'X-Nul' => "a\0b"], ['x']] },
    '/value-wide'    => sub { [200, [@text, 'X-Wide' => "\x{263a}"], ['x']] },
    '/location-lf'   => sub { [302, [@text, Location => "http://x/\nSet-Cookie: a=b"], ['x']] },
    '/name-crlf'     => sub { [200, [@text, "X-A\r\nX-Injected" => 'b'], ['x']] },
    '/name-lf'       => sub { [200, [@text, "X-A\nB" => 'b'], ['x']] },
    '/name-nul'      => sub { [200, [@text, "X-A\0" => 'b'], ['x']] },
    '/name-colon'    => sub { [200, [@text, 'X-A:' => 'b'], ['x']] },
    '/name-space'    => sub { [200, [@text, 'X A' => 'b'], ['x']] },
    '/name-empty'    => sub { [200, [@text, '' => 'b'], ['x']] },
    '/length-text'   => sub { [200, [@text, 'Content-Length' => 'many'], ['x']] },
    '/length-twice'  => sub { [200, [@text, 'Content-Length' => 1, 'Content-Length' => 2], ['x']] },
    '/body-undef'    => sub { [200, [@text], undef] },
    '/body-string'   => sub { [200, [@text], 'Hello'] },
    '/body-hash'     => sub { [200, [@text], {}] },
    '/body-code'     => sub { [200, [@text], sub { 'x' }] },
    '/body-scalar'   => sub { my $x = 'x'; [200, [@text], \$x] },
    '/body-object'   => sub { [200, [@text], bless {}, 'WithoutGetline'] },
    '/body-wide'     => sub { [200, [@text], ["caf\x{e9} \x{263a}"]] },
    '/body-wide-second' => sub { [200, [@text], ['fine', "\x{100}"]] },
    '/element-undef' => sub { [200, [@text], ['a', undef, 'b']] },
    '/late-string'   => sub { sub { $_[0]->('Hello') } },
    '/late-odd'      => sub { sub { $_[0]->([200, ['X-Odd'], ['x']]) } },
    '/late-crlf'     => sub { sub { $_[0]->([200, [@text, 'X-Split' => "a\r\nb"], ['x']]) } },
    '/late-writer-odd' => sub { sub { my $w = $_[0]->([200, ['X-Odd']]); $w->write('x'); $w->close } },
    '/late-wide'     => sub { sub { $_[0]->([200, [@text], ["\x{263a}"]]) } },
    '/late-one'      => sub { sub { $_[0]->([200]) } },
    '/big-then-die'  => sub { my @big = ('x') x 100_000; die "dies with much in hand\n" },
);
my $call = sub { my $env = shift; ($page{ $env->{PATH_INFO} } || sub { [404, [@text], ['no such page']] })->($env) };
$call;
END

my $server = start_server(app => $app, lint => 0);
my $pid = $server->worker_pid;

each_way 'an application that dies is a 500' => sub {
    my $client = $server->exchange(req('GET /fine'), req('GET /dies'));
    is $client->statuses, '200 500', 'for that request';
    my $answer = $client->response(1);
    unlike $answer->body, qr/dies here/, 'the client is not told why';
    is $answer->reason, 'Internal Server Error', 'the reason phrase';
    ok $server->wait_for_log(qr/the application dies here/), 'the log is';
    if ($answer->closes) {
        ok $client->eof, 'the connection is closed, as the answer says';
    }
    else {
        is $client->ask('GET /fine')->body, 'fine', 'the connection goes on, as the answer says';
    }
    is $server->get('/fine')->body, 'fine', 'the next client is served';
};

check 'whatever it dies of is a 500' => sub {
    is $server->get($_)->status, 500, $_ for qw(/dies-object /dies-hash /dies-empty /dies-utf8 /dies-lines /big-then-die);
    ok $server->wait_for_log(qr/Exception=HASH/), 'an object is in the log';
    ok $server->wait_for_log(qr/smile \xe2\x98\xba/), 'wide characters are there as UTF-8';
    ok $server->wait_for_log(qr/second line/), 'so is a second line';
};

check 'a body sent to an application that dies is read over' => sub {
    my $client = $server->connect;
    $client->send(req('POST /dies', \('x' x 100_000)) . req('GET /fine'));
    my $answer = $client->read_response('POST');
    is $answer->status, 500, 'the answer arrives';
    my $next = $client->read_response('GET');
    ok $answer->closes ? !$next : $next && $next->body eq 'fine', 'and the connection is in the state it says';
};

check 'HEAD and 1.0 are answered with their 500 too' => sub {
    my $client = $server->exchange(req('HEAD /dies'));
    is $client->statuses, '500', 'HEAD';
    $client = $server->exchange(req('GET /dies HTTP/1.0'));
    is $client->statuses, '500', '1.0';
    ok $client->eof, 'and closed';
};

check '$@ of one request is not seen by the next' => sub {
    $server->get('/dies');
    is $server->get('/exits-eval')->body, "still caught\n", 'an eval of the application is its own';
};

my @illegal = (
    # page, what the log line has to speak of
    ['/nothing',         qr/response|answer/i],
    ['/undef',           qr/response|answer/i],
    ['/string',          qr/response|answer/i],
    ['/hash',            qr/response|answer/i],
    ['/empty-array',     qr/response|answer|status|element/i],
    ['/one',             qr/response|answer|header|element/i],
    ['/two',             qr/body|response|element/i],
    ['/status-text',     qr/status/i],
    ['/status-99',       qr/status/i],
    ['/status-0',        qr/status/i],
    ['/status-negative', qr/status/i],
    ['/status-1000',     qr/status/i],
    ['/status-undef',    qr/status/i],
    ['/status-101',      qr/status/i],
    ['/headers-undef',   qr/header/i],
    ['/headers-hash',    qr/header/i],
    ['/headers-odd',     qr/header/i],
    ['/value-undef',     qr/header.*|X-Undef/i],
    ['/value-crlf',      qr/header|X-Split/i],
    ['/value-cr',        qr/header|X-Split/i],
    ['/value-lf',        qr/header|X-Split/i],
    ['/value-nul',       qr/header|X-Nul/i],
    ['/value-wide',      qr/wide|header|X-Wide/i],
    ['/location-lf',     qr/header|Location/i],
    ['/name-crlf',       qr/header/i],
    ['/name-lf',         qr/header/i],
    ['/name-nul',        qr/header/i],
    ['/name-colon',      qr/header/i],
    ['/name-space',      qr/header/i],
    ['/name-empty',      qr/header/i],
    ['/length-text',     qr/Content-Length/i],
    ['/body-undef',      qr/body/i],
    ['/body-string',     qr/body/i],
    ['/body-hash',       qr/body/i],
    ['/body-code',       qr/body/i],
    ['/body-scalar',     qr/body/i],
    ['/body-object',     qr/body|getline/i],
    ['/body-wide',       qr/wide character/i],
    ['/body-wide-second', qr/wide character/i],
    ['/late-string',     qr/response|answer/i],
    ['/late-odd',        qr/header/i],
    ['/late-crlf',       qr/header|X-Split/i],
    ['/late-writer-odd', qr/header/i],
    ['/late-wide',       qr/wide character/i],
    ['/late-one',        qr/response|answer|header|element/i],
);

for my $case (@illegal) {
    my ($page, $words) = @$case;
    check "an answer that breaks the specification is a 500 ($page)" => sub {
        my $at = length $server->log;
        my $client = $server->connect;
        my $answer = $client->ask("GET $page");
        is $answer->status, 500, 'for its client';
        is scalar($answer->header($_)), undef, "no $_" for qw(X-Split X-Injected Set-Cookie X-Odd);
        my $line;
        poll_until(sub { ($line) = grep { /GET \Q$page\E/ } split /\n/, substr $server->log, $at; $line }, 5);
        like $line, $words, 'the log says what is wrong, and in which request';
        # Going on without a writer, that application dies as well.
        my @lines = grep { /\S/ && !/Can't call method "write"/ } split /\n/, substr $server->log, $at;
        is scalar @lines, 1, 'in one line' or diag join "\n", @lines;
        is $client->ask('GET /fine')->body, 'fine', 'the connection goes on' unless $answer->closes;
        is $server->get('/fine')->body, 'fine', 'the next client is served';
    };
}

check 'the answer to HEAD is checked too' => sub {
    is $server->exchange(req("HEAD $_"))->statuses, '500', $_ for qw(/value-crlf /headers-odd /body-undef /status-99);
};

check 'two Content-Lengths never reach the client' => sub {
    my $answer = $server->get('/length-twice');
    ok $answer->status == 500 || $answer->body eq 'x', 'it is a 500, or the first one is taken';
};

check 'an undefined element of a body is refused or sent as nothing' => sub {
    my $answer = $server->get('/element-undef');
    like $answer->status . ' ' . $answer->body, qr/\A(?:200 ab\z|500 )/, 'one or the other';
};

check 'what the application prints to its error streams is in the log' => sub {
    $server->get($_) for qw(/warns /stderr /errors-print /errors-builtin /errors-printf);
    ok $server->wait_for_log(qr/a warning of the application/), 'warn';
    ok $server->wait_for_log(qr/printed to STDERR/), 'STDERR';
    ok $server->wait_for_log(qr/printed to psgi\.errors/), 'psgi.errors by its print method';
    ok $server->wait_for_log(qr/builtin print to psgi\.errors/), 'by the builtin';
    ok $server->wait_for_log(qr/printf 42 to psgi\.errors/), 'by printf';
};

check 'all of this happened in one worker' => sub {
    is $server->worker_pid, $pid, 'which is still the first one';
    unlike $server->log, qr/Use of uninitialized|panic|Attempt to free/, 'and perl complains of nothing itself';
};

check 'an application that exits is replaced' => sub {
    my $mortal = start_server(app => <<'END', lint => 0);
sub {
    my $env = shift;
    exit 3 if $env->{PATH_INFO} eq '/exit';
    kill KILL => $$ if $env->{PATH_INFO} eq '/kill';
    [200, ['Content-Type' => 'text/plain'], [$$]];
};
END
    my $first = $mortal->get('/')->body;
    for my $page (qw(/exit /kill)) {
        my $client = $mortal->connect;
        $client->send(req("GET $page"));
        eval { $client->read_until_close };
        ok $client->eof, "$page: the connection ends";
        my $next = poll_until(sub { eval { $mortal->get('/')->body } });
        ok $next && $next != $first, "$page: another worker serves";
        $first = $next;
    }
};

done_testing;
