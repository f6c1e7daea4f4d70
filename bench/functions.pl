#!/usr/bin/env perl
# Times functions of Plack's modules as they are and accelerated, side by side in one process:
#
#   perl -Iblib/lib -Iblib/arch bench/functions.pl [SECONDS [NAME...]]
#
# SECONDS is for one batch of calls (0.03). Prints a line for each function: its name, the microseconds of a call of the
# original and of the accelerated one, and what the original is, separated by tabs. Five batches of each are made in turn,
# and the fastest counts; what prepares a call is timed apart and taken off. A function whose module is not installed is
# left out.
use strict;
use warnings;
use Hydrofoil::Accelerate ();
use Time::HiRes qw(time);

my ($seconds, @only) = @ARGV;
$seconds ||= 0.03;

my $QUERY = 'foo=bar&bar=baz&q=HTTP%3A%3ARequest%3A%3ACommon&ie=UTF-8&sourceid=chrome';

# A request of a browser as a server hands it over.
my %ENV_OF_GET = (
    REQUEST_METHOD => 'GET', SCRIPT_NAME => '', PATH_INFO => '/foo', REQUEST_URI => "/foo?$QUERY", QUERY_STRING => $QUERY,
    SERVER_NAME => '127.0.0.1', SERVER_PORT => 5000, SERVER_PROTOCOL => 'HTTP/1.1',
    REMOTE_ADDR => '127.0.0.1', REMOTE_PORT => 50_000,
    HTTP_HOST       => 'localhost:5000', HTTP_CONNECTION => 'keep-alive', HTTP_REFERER => 'http://localhost:5000/',
    HTTP_USER_AGENT => 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/46.0',
    HTTP_ACCEPT     => 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    HTTP_ACCEPT_LANGUAGE => 'en-US,en;q=0.5', HTTP_ACCEPT_ENCODING => 'gzip, deflate',
    HTTP_COOKIE => 'sid=abcdef0123456789; lang=en-US; theme="dark%20blue"; _ga=GA1.2.123456789.1234567890',
    'psgi.version' => [ 1, 1 ], 'psgi.url_scheme' => 'http', 'psgi.multithread' => '', 'psgi.multiprocess' => 1,
    'psgi.run_once' => '', 'psgi.nonblocking' => '', 'psgi.streaming' => 1, 'psgix.input.buffered' => 1,
    'psgi.errors'   => \*STDERR,
);
{
    open my $empty, '<', \'' or die $!;
    $ENV_OF_GET{'psgi.input'} = $empty;
}

my @PARSED = qw(plack.request.query_parameters plack.request.body_parameters plack.request.query plack.request.body
    plack.request.merged plack.request.upload plack.cookie.parsed plack.cookie.string
    http.entity.parser.multipart.tempdir);

sub post {
    my ($type, $body) = @_;
    open my $input, '<', \$body or die $!;
    my %entity = (CONTENT_TYPE => $type, CONTENT_LENGTH => length $body, 'psgi.input' => $input);
    return { %ENV_OF_GET, REQUEST_METHOD => 'POST', %entity };
}

# 20 fields and a file of a megabyte.
sub upload {
    my $bytes = '';
    my $state = 1;
    while (length $bytes < 2**20) {
        $state = ($state * 1_103_515_245 + 12_345) & 0x7fffffff;
        $bytes .= pack 'V', $state;
    }
    my $body = join '', map { qq{--xYzZY\r\nContent-Disposition: form-data; name="field$_"\r\n\r\nvalue $_\r\n} } 1 .. 20;
    $body .= qq{--xYzZY\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n}
        . "Content-Type: application/octet-stream\r\n\r\n$bytes\r\n--xYzZY--\r\n";
    return post('multipart/form-data; boundary=xYzZY', $body);
}

my @headers = ('Content-Type' => 'text/plain', 'Content-Length' => 4000, 'X-Powered-By' => 'Plack', 'Set-Cookie' => 'a=b');

sub response {
    my $response = Plack::Response->new(200);
    $response->content_type('text/plain');
    $response->content_length(4000);
    $response->body('x');
    return $response;
}

sub access_log {
    my $answer = [ 200, [ 'Content-Type' => 'text/plain', 'Content-Length' => 12 ], ["Hello World\n"] ];
    return Plack::Middleware::AccessLog->wrap(sub { $answer }, logger => sub { }, @_);
}

my $env = {%ENV_OF_GET};
my $fresh = sub { delete @$env{@PARSED} };
my $json = '{"name":"value","list":[1,2,3,4,5],"nested":{"a":"b","c":null,"d":true},"text":"' . 'lorem ipsum ' x 20 . '"}';
my ($object, $upload, $form, $json_env);

sub multi_value { Hash::MultiValue->new(foo => 'bar', bar => 'baz', foo => 'y') }
sub form_urlencoded { my $name = shift; no strict 'refs'; return \&{"WWW::Form::UrlEncoded::$name"} }

my @FUNCTIONS;

# Declares one: its name, its module, what returns the code to time (called when the subs have been replaced, or put back),
# and what prepares each call, if anything has to.
sub timed { my %function; @function{qw(name module make before)} = @_; push @FUNCTIONS, \%function }

timed 'parse_urlencoded', 'WWW::Form::UrlEncoded' => sub {
    my $parse = form_urlencoded('parse_urlencoded');
    return sub { () = $parse->($QUERY) };
};
timed 'parse_urlencoded_arrayref', 'WWW::Form::UrlEncoded' => sub {
    my $parse = form_urlencoded('parse_urlencoded_arrayref');
    return sub { my $x = $parse->($QUERY) };
};
timed 'build_urlencoded', 'WWW::Form::UrlEncoded' => sub {
    my $build = form_urlencoded('build_urlencoded');
    return sub { my $x = $build->(foo => 'bar', q => 'HTTP::Request::Common', ie => 'UTF-8', text => 'a b c') };
};
timed 'crush_cookie', 'Cookie::Baker' => sub {
    my $crush = \&Cookie::Baker::crush_cookie;
    return sub { my $x = $crush->($ENV_OF_GET{HTTP_COOKIE}) };
};
timed 'bake_cookie', 'Cookie::Baker' => sub {
    my $bake   = \&Cookie::Baker::bake_cookie;
    my $cookie = { value => 'abcdef 0123456789', path => '/', expires => '+1d', httponly => 1 };
    return sub { my $x = $bake->('sid', $cookie) };
};

timed 'MultiValue new', 'Hash::MultiValue' => sub {
    return sub { my $x = Hash::MultiValue->new(foo => 'bar', bar => 'baz', q => 'x', ie => 'UTF-8', foo => 'y') };
};
timed 'MultiValue get_all', 'Hash::MultiValue' => sub { my $h = multi_value(); sub { my @x = $h->get_all('foo') } };
timed 'MultiValue flatten', 'Hash::MultiValue' => sub { my $h = multi_value(); sub { my @x = $h->flatten } };
timed 'MultiValue add', 'Hash::MultiValue' => sub { sub { $object->add(foo => 'x', 'y') } }, sub { $object = multi_value() };

sub request { Plack::Request->new($env) }
timed 'Request new', 'Plack::Request' => sub { sub { my $x = Plack::Request->new($env) } };
timed 'Request param', 'Plack::Request' => sub { my $r = request(); sub { my $x = $r->param('foo') } }, $fresh;
timed 'Request param again', 'Plack::Request' => sub { $fresh->(); my $r = request(); sub { my $x = $r->param('foo') } };
timed 'Request cookies', 'Plack::Request' => sub { my $r = request(); sub { my $x = $r->cookies } }, $fresh;
timed 'Request headers', 'Plack::Request' => sub { sub { my $x = $object->headers } }, sub { $object = request() };
timed 'Request user_agent', 'Plack::Request' => sub { my $r = request(); sub { my $x = $r->user_agent } };
timed 'Request uri', 'Plack::Request' => sub { my $r = request(); sub { my $x = $r->uri } };
timed 'Request base', 'Plack::Request' => sub { my $r = request(); sub { my $x = $r->base } };
timed 'Request path_info', 'Plack::Request' => sub { my $r = request(); sub { my $x = $r->path_info } };

sub again { my $posted = shift; delete @$posted{@PARSED}; seek $posted->{'psgi.input'}, 0, 0 }
timed 'form body', 'Plack::Request' => sub {
    $form = post('application/x-www-form-urlencoded', join '&', ($QUERY) x 4);
    return sub { my $x = Plack::Request->new($form)->body_parameters };
}, sub { again($form) };
timed 'upload of 1 MB', 'Plack::Request' => sub {
    $upload ||= upload();
    return sub { my $x = Plack::Request->new($upload)->uploads };
}, sub { again($upload) };
timed 'upload of 1 MB, its path' => 'Plack::Request' => sub {
    $upload ||= upload();
    return sub { my $x = Plack::Request->new($upload)->upload('file')->path };
}, sub { again($upload) };
timed 'JSON body', 'HTTP::Entity::Parser' => sub {
    $json_env = post('application/json', $json);
    my $parser = HTTP::Entity::Parser->new;
    $parser->register('application/json', 'HTTP::Entity::Parser::JSON');
    return sub { my ($x) = $parser->parse($json_env) };
}, sub { again($json_env) };

sub headers { HTTP::Headers::Fast->new(@headers) }
timed 'Headers new', 'HTTP::Headers::Fast' => sub { sub { my $x = HTTP::Headers::Fast->new(@headers) } };
timed 'Headers header', 'HTTP::Headers::Fast' => sub { my $h = headers(); sub { my $x = $h->header('Content-Type') } };
timed 'Headers push_header', 'HTTP::Headers::Fast' => sub { sub { $object->push_header('Set-Cookie' => 'c=d') } },
    sub { $object = headers() };
timed 'Headers psgi_flatten', 'HTTP::Headers::Fast' => sub { my $h = headers(); sub { my $x = $h->psgi_flatten } };
timed 'Response new', 'Plack::Response' => sub { sub { my $x = Plack::Response->new(200) } };
timed 'Response finalize', 'Plack::Response' => sub { my $r = response(); sub { my $x = $r->finalize } };
timed 'Response, all of it', 'Plack::Response' => sub { sub { my $x = response()->finalize } };

timed 'AccessLog combined', 'Plack::Middleware::AccessLog' => sub { my $app = access_log(); sub { my $x = $app->($env) } };
timed 'AccessLog own format', 'Plack::Middleware::AccessLog' => sub {
    my $app = access_log(format => '%h %m %U %s %{Content-Type}o %{sid}i %b');
    return sub { my $x = $app->($env) };
};
timed 'Util response_cb', 'Plack::Util' => sub {
    my $after = sub { };
    return sub { my $x = Plack::Util::response_cb([ 200, [], ['x'] ], $after) };
};
timed 'Util header_get', 'Plack::Util' => sub { sub { my $x = Plack::Util::header_get(\@headers, 'x-powered-by') } };

for my $function (@FUNCTIONS) {
    next if @only && !grep { $_ eq $function->{name} } @only;
    (my $file = "$function->{module}.pm") =~ s{::}{/}g;
    next if !eval { require $file; 1 };
    my %best;
    for my $batch (1 .. 5) {
        for my $kind (qw(original accelerated)) {
            Hydrofoil::Accelerate->load if $kind eq 'accelerated';
            my %us = batch($function);
            Hydrofoil::Accelerate->unload if $kind eq 'accelerated';
            for my $part (keys %us) {
                my $least = \$best{$kind}{$part};
                $$least = $us{$part} if !defined $$least || $us{$part} < $$least;
            }
        }
    }
    my @us = map { $_->{all} > $_->{around} ? $_->{all} - $_->{around} : $_->{all} / 1000 } @best{qw(original accelerated)};
    printf "%s\t%.4f\t%.4f\t%s\n", $function->{name}, @us, original_of($function->{module});
}

# Microseconds of one call with what prepares it, and of that alone. There are as many calls as it takes to last.
sub batch {
    my $function = shift;
    my $before   = $function->{before};
    my $code     = $function->{make}->();
    my $times    = 1;
    my $took;
    while (1) {
        my $started = time;
        if ($before) { for (1 .. $times) { $before->(); $code->() } }
        else         { for (1 .. $times) { $code->() } }
        $took = time - $started;
        last if $took >= $seconds;
        $times = $took > $seconds / 8 ? int($times * $seconds / $took) + 1 : $times * 4;
    }
    my $nothing = sub { };
    my $started = time;
    if ($before) { for (1 .. $times) { $before->(); $nothing->() } }
    else         { for (1 .. $times) { $nothing->() } }
    return (all => $took / $times * 1e6, around => (time - $started) / $times * 1e6);
}

sub original_of {
    my $module = shift;
    return 'XS' if $module eq 'WWW::Form::UrlEncoded' && $INC{'WWW/Form/UrlEncoded/XS.pm'};
    return 'XS' if $module eq 'Cookie::Baker' && $INC{'Cookie/Baker/XS.pm'};
    return 'Perl';
}
