package Hydrofoil::Test::GuestBook;
use strict;
use warnings;
use Exporter 'import';
use Test::More;
use Hydrofoil::Test;

our @EXPORT = qw(test_guest_book);

my $ROOT = $Hydrofoil::Test::ROOT;

# What a browser would do with the guest book in t/apps/NAME, the same for every framework; and all of it once more with
# Plack's own modules in C.
sub test_guest_book {
    my ($name, $framework) = @_;
    for my $module ($framework, qw(LWP::UserAgent HTTP::Request::Common HTTP::Tiny HTTP::Cookies)) {
        plan skip_all => "$module is not installed" unless eval "require $module; 1";
    }
    local $ENV{HYDROFOIL_TEST_APPDIR} = app_file($name);
    delete local @ENV{qw(http_proxy HTTP_PROXY)};
    for my $accelerated (0, 1) {
        my $server = start_server(
            app => app_that_tells(app_file("$name/app.psgi")),
            args => ['-E', 'deployment', $accelerated ? '--accelerate' : ()],
        );
        subtest $accelerated ? "$framework, accelerated" : $framework => sub {
            my $status = HTTP::Tiny->new->get($server->url('/accelerated'))->{content};
            is $status, $accelerated ? status_of_accelerator() : 'not loaded', 'which modules are accelerated in the worker';
            use_guest_book($name, $server);
        };
    }
    done_testing;
    return;
}

# The source of an application that answers at /accelerated which modules are.
sub app_that_tells {
    my $file = shift;

    open my $in, '<', $file or die "$file: $!";
    my $source = do { local $/; <$in> };
    return <<"END";
my \$guest_book = do {
#line 1 "$file"
$source
};
sub {
    my \$env = shift;
    return \$guest_book->(\$env) if \$env->{PATH_INFO} ne '/accelerated';
    my \$status = Hydrofoil::Accelerate->can('status') ? Hydrofoil::Accelerate->status : 'not loaded';
    return [ 200, [ 'Content-Type' => 'text/plain' ], [ \$status ] ];
}
END
}

# What it says in a program that has nothing else: which modules are installed, in versions that are accelerated.
sub status_of_accelerator {
    open my $out, '-|', $^X, (map { "-I$ROOT/$_" } qw(blib/arch blib/lib lib)), '-e',
        'use Hydrofoil::Accelerate; print scalar Hydrofoil::Accelerate->status' or die "perl: $!";
    local $/;
    return scalar <$out>;
}

sub use_guest_book {
    my ($name, $server) = @_;

    my $ua = LWP::UserAgent->new(keep_alive => 4, cookie_jar => HTTP::Cookies->new, requests_redirectable => ['GET', 'POST'],
        timeout => 20);
    my $tiny = HTTP::Tiny->new(keep_alive => 1, timeout => 20);
    my $content = "a static file of the application\n";

    check 'pages and their parameters' => sub {
        like $ua->get($server->url('/'))->content, qr/\AHello nobody, there are 0 entries\.$/, 'the front page';
        like $ua->get($server->url('/?name=you%20there'))->content, qr/\AHello you there,/, 'a parameter of the query';
        is $ua->get($server->url('/hello/a%20b'))->content, 'Hello, a b', 'a parameter of the path';
        my $answer = $ua->get($server->url("/hello/caf%C3%A9"));
        is $answer->decoded_content, "Hello, caf\xe9", 'one with an accent';
        is $ua->get($server->url('/nowhere'))->code, 404, 'a page that is not there';
        is $ua->head($server->url('/'))->code, 200, 'HEAD';
    };

    check 'a form, and the redirect after it' => sub {
        my $answer = $ua->post($server->url('/sign'), {text => 'Nice & simple = good'});
        is $answer->code, 200, 'it ends well';
        is $answer->content, 'Nice & simple = good', 'at the page that shows the entry';
        like $answer->request->uri, qr{/entries\z}, 'to which it was redirected';
        my $plain = $tiny->post_form($server->url('/sign'), {text => "second\nentry"});
        ok $plain->{status} == 302 || $plain->{status} == 200, 'another client';
        is $tiny->get($server->url('/entries'))->{content}, "Nice & simple = good\nsecond\nentry", 'adds one';
        my $long = 'long ' x 40_000;
        is $ua->post($server->url('/sign'), {text => $long})->content =~ /\Q$long\E\z/, 1, 'a long one, from a temporary file';
    };

    check 'uploads, small and large' => sub {
        for my $size (10, 65_536, 3_000_000) {
            my $answer = $ua->request(HTTP::Request::Common::POST($server->url('/upload'), Content_Type => 'form-data',
                Content => [comment => 'see file', file => [undef, 'photo.jpg', 'Content-Type' => 'image/jpeg',
                    Content => 'x' x $size]]));
            is $answer->content, "photo.jpg $size image/jpeg see file", "$size bytes";
        }
        my @parts = map { "$_" x 1_000 } 0 .. 9;
        my $body = join "\r\n", '--x', 'Content-Disposition: form-data; name="comment"', '', 'chunks', '--x',
            'Content-Disposition: form-data; name="file"; filename="c.bin"', 'Content-Type: a/b', '', join('', @parts),
            '--x--', '';
        my @pieces = every_n(777, $body);
        my $answer = $tiny->request(POST => $server->url('/upload'),
            {headers => {'Content-Type' => 'multipart/form-data; boundary=x'}, content => sub { shift @pieces }});
        is $answer->{content}, 'c.bin 10000 a/b chunks', 'in chunks';
    };

    check 'cookies' => sub {
        is $ua->get($server->url('/visit'))->content, "visit $_", "visit $_" for 1 .. 3;
        is $tiny->get($server->url('/visit'))->{content}, 'visit 1', 'of another client';
    };

    check 'files and streams' => sub {
        my $static = $name eq 'catalyst' ? '/static/data.txt' : '/data.txt';
        my $answer = $ua->get($server->url($static));
        is $answer->content, $content, 'a static file';
        like $answer->content_type, qr{\Atext/plain}, 'with its type';
        if (my $date = $answer->header('Last-Modified')) {
            my $again = $ua->get($server->url($static), 'If-Modified-Since' => $date);
            ok $again->code == 304 || $again->code == 200, 'asked for again';
        }
        is $ua->get($server->url('/file'))->content, $content, 'a file by the application';
        is $ua->get($server->url('/stream'))->content, join('', map { "part $_\n" } 1 .. 5), 'a stream';
        is $tiny->get($server->url('/stream'))->{content}, join('', map { "part $_\n" } 1 .. 5), 'for another client';
    };

    check 'an exception, and life after it' => sub {
        is $ua->get($server->url('/dies'))->code, 500, 'a 500';
        is $ua->get($server->url('/hello/you'))->content, 'Hello, you', 'the next page';
    };

    check 'a JSON request' => sub {
        my $answer = $tiny->put($server->url('/json'),
            {headers => {'Content-Type' => 'application/json'}, content => '{"a":40,"b":2}'});
        like $answer->{content}, qr/\{\s*"sum"\s*:\s*"?42"?\s*\}/, 'and its answer';
    };

    check 'many requests in a row' => sub {
        my $wrong = grep { $tiny->get($server->url("/hello/n$_"))->{content} ne "Hello, n$_" } 1 .. 100;
        is $wrong, 0, 'all right';
    };

    return;
}

1;
