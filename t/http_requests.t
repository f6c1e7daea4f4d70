use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use JSON::PP ();
use Test::More;
use Hydrofoil::Test;

# What the application is told of a request: the PSGI specification, "The Environment"; RFC 9112, sections 2 to 5;
# RFC 3875, section 4.1.

my $server = start_server(app => app_file('env.psgi'));

sub env_of { JSON::PP->new->latin1->decode($_[0]->body) }

# The environments that the application saw for some requests on one connection.
sub envs { map { $_->status == 200 || $_->status == 405 ? env_of($_) : {} } $server->exchange(@_)->responses }

each_way 'the environment has the keys of the specification' => sub {
    my ($env) = envs(req('GET /some/path?a=1&b=2', 'Host: example.com:8080', 'User-Agent: tester'));
    is $env->{REQUEST_METHOD}, 'GET', 'REQUEST_METHOD';
    is $env->{SCRIPT_NAME}, '', 'SCRIPT_NAME';
    is $env->{PATH_INFO}, '/some/path', 'PATH_INFO';
    is $env->{REQUEST_URI}, '/some/path?a=1&b=2', 'REQUEST_URI';
    is $env->{QUERY_STRING}, 'a=1&b=2', 'QUERY_STRING';
    is $env->{SERVER_PROTOCOL}, 'HTTP/1.1', 'SERVER_PROTOCOL';
    is $env->{SERVER_NAME}, '127.0.0.1', 'SERVER_NAME';
    is $env->{SERVER_PORT}, $server->{port}, 'SERVER_PORT';
    is $env->{REMOTE_ADDR}, '127.0.0.1', 'REMOTE_ADDR';
    like $env->{REMOTE_PORT}, qr/\A[1-9]\d*\z/, 'REMOTE_PORT';
    is $env->{HTTP_HOST}, 'example.com:8080', 'HTTP_HOST';
    is $env->{HTTP_USER_AGENT}, 'tester', 'HTTP_USER_AGENT';
    is $env->{'psgi.version'}, 'ref ARRAY', 'psgi.version';
    is $env->{'psgi.url_scheme'}, 'http', 'psgi.url_scheme';
    ok exists $env->{"psgi.$_"}, "psgi.$_"
        for qw(input errors multithread multiprocess run_once nonblocking streaming);
};

check 'REMOTE_PORT is the port of the client' => sub {
    my $client = $server->connect;
    is env_of($client->ask('GET /'))->{REMOTE_PORT}, $client->socket->sockport, 'of this very connection';
};

each_way 'PATH_INFO is percent-decoded and REQUEST_URI is not' => sub {
    my @cases = (
        # target, PATH_INFO, QUERY_STRING
        ['/',                 '/',            ''],
        ['/%41bc',            '/Abc',         ''],
        ['/a%2Fb%2fc',        '/a/b/c',       ''],
        ['/%E3%81%82',        "/\xe3\x81\x82", ''],
        ['/a+b',              '/a+b',         ''],
        ['/100%',             '/100%',        ''],
        ['/%4',               '/%4',          ''],
        ['/%zz%G1',           '/%zz%G1',      ''],
        ['/%2541',            '/%41',         ''],
        ['/a%0d%0ab',         "/a\r\nb",      ''],
        ['/a?b=%41%20c',      '/a',           'b=%41%20c'],
        ['/a?b?c',            '/a',           'b?c'],
        ['/a?',               '/a',           ''],
        ['/?q',               '/',            'q'],
        ['/a%3Fb',            '/a?b',         ''],
        ['//double///slash',  '//double///slash', ''],
        ['/./a/../b',         '/./a/../b',    ''],
        ['/a;b=c,d',          '/a;b=c,d',     ''],
    );
    my @envs = envs(map { req("GET $_->[0]") } @cases);
    for my $case (@cases) {
        my ($target, $path, $query) = @$case;
        my $env = shift @envs || {};
        is $env->{PATH_INFO}, $path, "PATH_INFO of $target";
        is $env->{QUERY_STRING}, $query, "QUERY_STRING of $target";
        is $env->{REQUEST_URI}, $target, "REQUEST_URI of $target";
    }
};

each_way 'an escaped NUL in the path is refused' => sub {
    my $client = $server->exchange(req('GET /a%00b'), req('GET /'));
    is $client->statuses, '400', 'with 400 and nothing after it';
    is $client->response->header('Connection'), 'close', 'which says close';
};

each_way 'an absolute-form target gives path, query and authority' => sub {
    my @envs = envs(
        req('GET http://target.example:81/a%20b?x=y', 'Host: other.example'),
        req('GET http://target.example', 'Host: other.example'),
        req('GET HTTP://target.example?x=y', 'Host: target.example'),
        req('GET https://target.example/s', 'Host: target.example'),
    );
    is $envs[0]{HTTP_HOST}, 'target.example:81', "the target's authority replaces Host";
    is $envs[0]{PATH_INFO}, '/a b', 'PATH_INFO is the path alone, decoded';
    is $envs[0]{REQUEST_URI}, '/a%20b?x=y', 'REQUEST_URI is the path alone with its query, as sent';
    is $envs[0]{QUERY_STRING}, 'x=y', 'QUERY_STRING';
    is $envs[1]{PATH_INFO}, '/', 'a target without a path asks for /';
    is $envs[1]{HTTP_HOST}, 'target.example', 'and its authority is the host';
    is $envs[2]{PATH_INFO}, '/', 'a target with only a query asks for /';
    is $envs[2]{QUERY_STRING}, 'x=y', 'with that query';
    is $envs[3]{'psgi.url_scheme'}, 'http', 'the scheme is that of the connection';
};

each_way 'OPTIONS * asks about the server' => sub {
    my ($env) = envs(req('OPTIONS *'));
    is $env->{REQUEST_METHOD}, 'OPTIONS', 'the method';
    is $env->{REQUEST_URI}, '*', 'REQUEST_URI is the asterisk';
    is $env->{PATH_INFO}, '', 'PATH_INFO is empty';
};

each_way 'a target of no known form is refused' => sub {
    for my $line ('GET *', 'GET path', 'GET example.com:80', 'CONNECT /', 'GET ?x=y') {
        my $client = $server->exchange(req($line), req('GET /'));
        is $client->statuses, '400', "$line is a 400";
    }
};

each_way 'CONNECT reaches the application with the authority as its target' => sub {
    my ($env) = envs(req('CONNECT example.com:443', 'Host: example.com:443'));
    is $env->{REQUEST_METHOD}, 'CONNECT', 'the method';
    is $env->{REQUEST_URI}, 'example.com:443', 'REQUEST_URI is the authority';
    is $env->{PATH_INFO}, '', 'PATH_INFO is empty';
};

each_way 'empty lines before a request are skipped' => sub {
    my @envs = envs("\r\n" . req('GET /1'), "\r\n\r\n" . req('GET /2'), req('POST /3', \"a=b"), "\r\n" . req('GET /4'));
    is join(' ', map { $_->{PATH_INFO} } @envs), '/1 /2 /3 /4', 'all four requests are seen';
};

each_way 'repeated headers are joined' => sub {
    my ($env) = envs(req('GET /', 'X-List: one', 'Cookie: a=1', 'x-list: two', 'Accept: text/html', 'cookie: b=2',
        'X-LIST:three', 'Accept: */*'));
    is $env->{HTTP_X_LIST}, 'one, two, three', 'an unknown one with a comma';
    is $env->{HTTP_ACCEPT}, 'text/html, */*', 'a known one with a comma';
    is $env->{HTTP_COOKIE}, 'a=1; b=2', 'Cookie with a semicolon';
};

each_way 'white space around a value is no part of it' => sub {
    my ($env) = envs(req('GET /', "X-A:  \t padded \t ", 'X-B:tight', 'X-C:', 'X-D:   ', "X-E: in  the\tmiddle"));
    is $env->{HTTP_X_A}, 'padded', 'spaces and tabs';
    is $env->{HTTP_X_B}, 'tight', 'none';
    is $env->{HTTP_X_C}, '', 'an empty value';
    is $env->{HTTP_X_D}, '', 'a value of spaces';
    is $env->{HTTP_X_E}, "in  the\tmiddle", 'inside a value it stays';
};

each_way 'bytes above 127 in a value are passed on' => sub {
    my ($env) = envs(req('GET /', "X-Latin: caf\xe9", "X-Utf8: \xe3\x81\x82"));
    is $env->{HTTP_X_LATIN}, "caf\xe9", 'Latin-1';
    is $env->{HTTP_X_UTF8}, "\xe3\x81\x82", 'UTF-8 stays bytes';
};

each_way 'a header with an underscore does not pass for one with a dash' => sub {
    my @envs = envs(
        req('GET /', 'X-Real-IP: good', 'X_Real_IP: bad'),
        req('GET /', 'X_Real_IP: bad', 'X-Real-IP: good'),
        req('GET /', 'X-Real-IP: good', 'X_Real-IP: bad', 'X-Real_IP: worse'),
        req('GET /', 'Content_Length: 5', 'Content_Type: bad', 'User_Agent: bad', 'User-Agent: good'),
    );
    is $envs[$_]{HTTP_X_REAL_IP}, 'good', 'the one with dashes is believed' for 0 .. 2;
    is $envs[3]{HTTP_USER_AGENT}, 'good', 'for a known header too';
    ok !$envs[3]{CONTENT_LENGTH}, 'Content_Length says nothing about the length';
    ok !$envs[3]{CONTENT_TYPE}, 'nor Content_Type about the type';
    ok !exists $envs[3]{HTTP_CONTENT_TYPE} && !exists $envs[3]{HTTP_CONTENT_LENGTH}, 'not even under HTTP_';
};

each_way 'the Proxy header is dropped' => sub {
    my ($env) = envs(req('GET /', 'Proxy: http://evil.example', 'proxy: again', 'Proxy-Authorization: kept'));
    ok !exists $env->{HTTP_PROXY}, 'HTTP_PROXY is not set (httpoxy)';
    is $env->{HTTP_PROXY_AUTHORIZATION}, 'kept', 'its namesakes are';
};

each_way 'content headers have no HTTP_ in front' => sub {
    my @envs = envs(
        req('POST /', 'Content-Type: text/x-test', \'hello'),
        req('GET /'),
        req('POST /', 'Content-Length: 0'),
        req('PUT /', 'content-type: a/b; charset=c', 'CONTENT-LENGTH: 2', \'hi'),
    );
    is $envs[0]{CONTENT_TYPE}, 'text/x-test', 'CONTENT_TYPE';
    is $envs[0]{CONTENT_LENGTH}, 5, 'CONTENT_LENGTH';
    ok !defined $envs[1]{CONTENT_TYPE} || $envs[1]{CONTENT_TYPE} eq '', 'no type, none told';
    ok !$envs[1]{CONTENT_LENGTH}, 'no length, none told';
    is $envs[2]{CONTENT_LENGTH}, 0, 'a length of 0 is told';
    is $envs[3]{CONTENT_TYPE}, 'a/b; charset=c', 'names in any case';
    is $envs[3]{CONTENT_LENGTH}, 2, 'for both';
    for my $env (@envs) {
        ok !exists $env->{HTTP_CONTENT_TYPE} && !exists $env->{HTTP_CONTENT_LENGTH}, 'never with HTTP_';
    }
};

each_way 'nothing of one request is left in the next' => sub {
    my @envs = envs(
        req('POST /first?q=1', 'Content-Type: text/plain', 'Cookie: a=1', 'X-Own: 1', 'Authorization: Basic x', \'body'),
        req('GET /second'),
    );
    my @left = grep { exists $envs[1]{$_} } qw(HTTP_COOKIE HTTP_X_OWN HTTP_AUTHORIZATION);
    is "@left", '', 'no header';
    is $envs[1]{QUERY_STRING}, '', 'no query';
    ok !$envs[1]{CONTENT_LENGTH} && !$envs[1]{CONTENT_TYPE}, 'no content';
};

each_way 'any method reaches the application' => sub {
    my @methods = qw(GET POST PUT DELETE PATCH PROPFIND MKCOL REPORT PURGE LINK X EXTRAORDINARILYLONGMETHOD);
    my @envs = envs(map { req("$_ /") } @methods);
    is join(' ', map { $_->{REQUEST_METHOD} } @envs), "@methods", 'by its name';
};

each_way 'many headers in one request arrive' => sub {
    my ($env) = envs(req('GET /', map { "X-Header-$_: value $_" } 1 .. 100));
    is scalar(grep { ($env->{"HTTP_X_HEADER_$_"} || '') ne "value $_" } 1 .. 100), 0, 'all hundred';
};

each_way 'a long value and a long name arrive' => sub {
    my ($env) = envs(req('GET /', 'X-Long: ' . 'v' x 30_000, 'X-' . 'n' x 3_000 . ': x'));
    is length $env->{HTTP_X_LONG}, 30_000, 'the value';
    is $env->{ 'HTTP_X_' . 'N' x 3_000 }, 'x', 'the name';
};

check 'thousands of different header names over one connection are all right' => sub {
    my $client = $server->connect;
    my $wrong = 0;
    for my $round (1 .. 100) {
        my @names = map { "X-R$round-N$_" } 1 .. 30;
        my $env = env_of($client->ask('GET /', map { "$_: $_" } @names));
        for my $name (@names) {
            (my $key = uc "HTTP_$name") =~ tr/-/_/;
            $wrong++ if !defined $env->{$key} || $env->{$key} ne $name;
        }
        $wrong++ if grep { /^HTTP_X_R(\d+)_/ && $1 != $round } keys %$env;
    }
    is $wrong, 0, 'every request sees its own and no others';
};

each_way 'HTTP/1.0 needs no Host' => sub {
    my ($env) = envs(req('GET /old HTTP/1.0'));
    is $env->{PATH_INFO}, '/old', 'the request is served';
    is $env->{SERVER_PROTOCOL}, 'HTTP/1.0', 'with its protocol';
    ok !defined $env->{HTTP_HOST}, 'and without a host';
};

done_testing;
