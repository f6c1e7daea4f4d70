# The applications in eg/ do what their comments promise, under Plack::Test
# and Lint, without a server.
use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use File::Basename qw(dirname);
use File::Spec;
use HTTP::Request::Common qw(GET HEAD POST PUT);
use JSON::PP qw(decode_json);
use Plack::Middleware::Lint;
use Plack::Test;
use Plack::Util;
use Test::More;

$Plack::Test::Impl = 'MockHTTP';

my $eg = File::Spec->catdir(dirname(__FILE__), File::Spec->updir, 'eg');

my %app;    # each is loaded once, as a server does

sub browse {
    my ($name, %extra) = @_;
    my $app = $app{$name} ||= Plack::Util::load_psgi(File::Spec->catfile($eg, $name));
    return Plack::Test->create(Plack::Middleware::Lint->wrap(sub {
        my $env = shift;
        return $app->({ %$env, %extra });
    }));
}

subtest 'hello.psgi says hello' => sub {
    my $got = browse('hello.psgi')->request(GET '/');
    is $got->code, 200;
    is $got->content, "Hello, world!\n";
    is $got->content_length, length $got->content, 'with the right length';
};

subtest 'streaming.psgi counts down and lifts off' => sub {
    my $got = browse('streaming.psgi')->request(GET '/?count=3&pause=0');
    is $got->code, 200;
    is $got->content, "3\n2\n1\nlift-off\n";
};

subtest 'upload.psgi' => sub {
    my $test = browse('upload.psgi');
    like $test->request(GET '/')->content, qr/<form method="post"/, 'shows a form';

    my $got = $test->request(POST '/', Content_Type => 'form-data', Content => [
        note => 'a note',
        file => [undef, 'notes.txt', Content => "some\0bytes\n"],
    ]);
    is $got->code, 200;
    like $got->content, qr/^file    notes\.txt$/m, 'names the file that arrived';
    like $got->content, qr/^bytes   11$/m,         'and its size';
    like $got->content, qr/^sha256  @{[ sha256_hex("some\0bytes\n") ]}$/m, 'and its digest';
    like $got->content, qr/^note    a note$/m,     'and the other field';

    is $test->request(POST '/', [ note => 'alone' ])->code, 400, 'a form without a file is refused';
};

subtest 'demo.psgi serves its page and nothing beside it' => sub {
    my $test = browse('demo.psgi');
    my $page = $test->request(GET '/');
    is $page->code, 200;
    is $page->content_type, 'text/html';

    my @local = $page->content =~ /(?:href|src)="(demo\/[^"]+)"/g;
    ok @local > 2, 'the page refers to its own files';
    is $test->request(GET "/$_")->code, 200, "$_ is there" for @local;
    unlike join('', map { $test->request(GET "/$_")->content } '', @local),
        qr{(?:src|href)="(?:https?:)?//|\@import|url\(}, 'and to nothing on other hosts';

    is $test->request(GET '/demo/../demo.psgi')->code, 403, 'no path leads out of its folder';
    is $test->request(GET '/nothing')->code, 404;
    my $wrong = $test->request(PUT '/ping');
    is $wrong->code, 405;
    is $wrong->header('Allow'), 'GET', 'a wrong method is told the right one';
    is $test->request(HEAD '/ping')->code, 200, 'HEAD works where GET does';
};

subtest 'demo.psgi: ping tells the worker, its count and the connection' => sub {
    my $test = browse('demo.psgi', REMOTE_PORT => 4711);
    my ($count) = $test->request(GET '/ping')->content =~ /\A$$ (\d+) 4711\n\z/;
    ok $count;
    is $test->request(GET '/ping')->content, join(' ', $$, $count + 1, 4711) . "\n";
};

subtest 'demo.psgi: stream writes as many lines as asked for, within bounds' => sub {
    my $test  = browse('demo.psgi');
    my $lines = sub { scalar(() = $test->request(GET "/stream?pause=0&lines=$_[0]")->content =~ /^line /mg) };
    is $lines->(3),       3;
    is $lines->(0),       1;
    is $lines->(1000),    100;
    is $lines->('a%0d'),  12, 'a line count that is no number is the default';
    is browse('demo.psgi', 'psgi.streaming' => 0)->request(GET '/stream')->code, 501,
        'a server that cannot stream is not asked to';
};

subtest 'demo.psgi: upload returns size and digest of the body' => sub {
    my $test = browse('demo.psgi');
    for my $size (0, 1, 65_536, 200_000) {
        my $body = 'x' x $size;
        my $got  = decode_json($test->request(POST '/upload', Content => $body)->content);
        is $got->{bytes},  $size,            "$size bytes";
        is $got->{sha256}, sha256_hex($body), '  and their digest';
    }
};

subtest 'demo.psgi: hints sends 103 before the answer where the server can' => sub {
    my @sent;
    my $test = browse('demo.psgi', 'psgix.informational' => sub { push @sent, [@_] });
    my $got  = $test->request(GET '/hints');
    is_deeply \@sent, [ [ 103, [ Link => '</demo/demo.css>; rel=preload; as=style' ] ] ];
    is $got->header('Link'), $sent[0][1][1], 'the answer repeats the link';
    is browse('demo.psgi')->request(GET '/hints')->code, 200, 'and works where it cannot';
};

subtest 'demo.psgi: file is an open file of the size asked for' => sub {
    my $test = browse('demo.psgi');
    my $got  = $test->request(GET '/file?mib=2');
    is $got->content_length, 2 * 1024 * 1024;
    is length $got->content, 2 * 1024 * 1024;
};

subtest 'demo.psgi: env shows the request and keeps what is secret' => sub {
    local $ENV{HYDROFOIL_EG_SECRET} = 'hunter2';
    my $test = browse('demo.psgi', HYDROFOIL_EG_SECRET => 'hunter2');
    my $got  = $test->request(GET '/env?a=b', Authorization => 'Basic Zm9v', Cookie => 'session=1', 'X-Test' => 'seen');
    my %env  = map { @$_ } @{ decode_json($got->content)->{env} };
    is $env{QUERY_STRING}, 'a=b';
    is $env{HTTP_X_TEST},  'seen';
    is $env{HTTP_COOKIE},        '(not shown)';
    is $env{HTTP_AUTHORIZATION}, '(not shown)';
    unlike $got->content, qr/hunter2|Zm9v|session=1/, 'nothing secret is in the answer';
};

subtest 'demo.psgi: wire does not wait for a worker that there is not' => sub {
    my $alone = browse('demo.psgi', 'psgi.multiprocess' => 0, 'psgi.multithread' => 0);
    like $alone->request(GET '/wire?show=hints')->content, qr/two workers/;
    is $alone->request(GET '/wire?show=anything')->code, 404, 'and has no other dialogue than its own';
};

done_testing;
