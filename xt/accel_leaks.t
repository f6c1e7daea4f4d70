use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../t/lib";
use Test::More;
use Hydrofoil::Accelerate;

# Calls each sub that is accelerated 100,000 times, as it is called most, and 100,000 times with objects in place of strings,
# which most hand to the original. The process does not grow. HYDROFOIL_LEAK_CALLS says how often (100000); names after ::
# say which subs:
#
#   prove -b xt/accel_leaks.t
#   prove -b xt/accel_leaks.t :: Plack::Request::param

my $calls  = $ENV{HYDROFOIL_LEAK_CALLS} || 100_000;
my $warmup = 3_000;
my $most   = 160;    # pages that caches may take. 24 bytes, the least that can be lost in a call, come to 586 in 100,000 calls
my %only   = map { $_ => 1 } @ARGV;

sub pages {
    open my $fh, '<', '/proc/self/statm' or return;
    return (split ' ', scalar <$fh>)[1];
}
plan skip_all => 'needs /proc/self/statm' if !defined pages();

{
    package Text;
    use overload '""' => sub { ${ $_[0] } }, fallback => 1;
    sub new { my ($class, $text) = @_; return bless \$text, $class }
}

# ---- what they are called with ----

my $query = 'foo=bar&foo=b%20z&q=HTTP%3A%3ARequest&caf%C3%A9=1&empty=&ie=UTF-8';
my %get   = (
    REQUEST_METHOD => 'GET', SCRIPT_NAME => '/app', PATH_INFO => '/f o', REQUEST_URI => "/app/f%20o?$query", QUERY_STRING => $query,
    SERVER_NAME => 'localhost', SERVER_PORT => 5000, SERVER_PROTOCOL => 'HTTP/1.1', REMOTE_ADDR => '127.0.0.1', REMOTE_HOST => 'h',
    REMOTE_USER => 'me', HTTP_HOST => 'localhost:5000', HTTP_REFERER => 'http://localhost/', HTTP_USER_AGENT => 'Mozilla/5.0',
    HTTP_COOKIE => 'sid=abc; lang="en%20US"; sid=again', HTTP_CONTENT_ENCODING => 'gzip', HTTP_X_FORWARDED_FOR => '10.0.0.1',
    'psgi.url_scheme' => 'http', 'psgix.input.buffered' => 1, 'psgix.session' => { a => 1 }, 'psgix.session.options' => {},
    'psgix.logger' => sub { }, 'psgi.errors' => \*STDERR,
);

my %input;

sub posted {
    my ($type, $body) = @_;
    my $input = $input{$body} ||= do { open my $fh, '<', \$body or die $!; $fh };
    seek $input, 0, 0;
    return { %get, REQUEST_METHOD => 'POST', CONTENT_TYPE => $type, CONTENT_LENGTH => length $body, 'psgi.input' => $input };
}

my $parts = join '', (map {qq{--xYz\r\nContent-Disposition: form-data; name="field$_"\r\n\r\nvalue $_\r\n}} 1 .. 3),
    qq{--xYz\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n}, 'x' x 100,
    "\r\n--xYz--\r\n";
my $json = '{"name":"value","list":[1,2.5,"three"],"nested":{"a":null,"b":true}}';

sub form      { return posted('application/x-www-form-urlencoded', $query) }
sub multipart { return posted('multipart/form-data; boundary=xYz', $parts) }
sub in_json   { return posted('application/json', $json) }
sub request   { return Plack::Request->new(@_ ? $_[0] : {%get}) }
sub multi     { return Hash::MultiValue->new(foo => 'bar', bar => 'baz', foo => 'y', q => 'x') }
sub fields    { return HTTP::Headers::Fast->new('Content-Type' => 'text/html; charset=utf-8', 'X-Foo' => [ 'a', "b\r\n c" ], 'Content-Length' => 3) }
sub pairs     { return [ 'Content-Type' => 'text/plain', 'X-Foo' => 'a', 'x-foo' => 'b', 'Content-Length' => 12 ] }

sub response {
    my $response = Plack::Response->new(200, [ 'Content-Type' => 'text/html' ], 'body');
    $response->cookies->{sid} = { value => 'a b', path => '/', expires => '+1d' };
    return $response;
}

sub parsers {
    my ($kind, $env, @data) = @_;
    my $class = "HTTP::Entity::Parser::$kind";
    return (
        "$class\::new"      => sub { ($class, $env->()) },
        "$class\::add"      => sub { ($class->new($env->()), @data) },
        "$class\::finalize" => sub { my $parser = $class->new($env->()); $parser->add(@data); $parser },
    );
}

my (%arguments, $access_log, $component, $prototype, $compiler);

sub methods {
    my ($module, $self, @names) = @_;
    for my $name (@names) {
        my ($method, @values) = ref $name ? @$name : $name;
        $arguments{"$module\::$method"} = sub { ($self->(), map { ref eq 'CODE' ? $_->() : $_ } @values) };
    }
    return;
}

for my $module (map {"WWW::Form::UrlEncoded::$_"} qw(XS PP)) {
    my @form = (foo => 'b z', foo => "caf\xe9", list => [ 'a', '+' ]);
    $arguments{"$module\::$_"} = sub { ($query) } for qw(parse_urlencoded parse_urlencoded_arrayref);
    $arguments{"$module\::$_"} = sub { (@form) } for qw(build_urlencoded build_urlencoded_utf8);
}
$arguments{'Cookie::Baker::bake_cookie'} = sub {
    ('a b', { value => "\xe9 x", domain => '.example.com', path => '/', expires => '+1d', samesite => 'none', partitioned => 1, httponly => 1 });
};
$arguments{$_} = sub { ($get{HTTP_COOKIE}) } for qw(Cookie::Baker::pp_crush_cookie Cookie::Baker::XS::crush_cookie);

methods('Hash::MultiValue', sub {'Hash::MultiValue'}, 'create', [ new => foo => 1, bar => 2, foo => 3 ], [ from_mixed => { a => [ 1, 2 ], b => 3 } ]);
methods('Hash::MultiValue', \&multi,
    qw(DESTROY as_hashref as_hashref_mixed as_hashref_multi clear clone flatten keys mixed multi values), [ STORABLE_freeze => 0 ],
    [ each => sub { sub { } } ], (map { [ $_ => 'foo' ] } qw(get get_all remove)), [ get_one => q{q} ], [ add => foo => 1, 'z' ], [ set => foo => 1, 'z' ],
    [ merge_flat => foo => 1, z => 2 ], [ merge_mixed => { foo => [ 1, 2 ], z => 3 } ]);
$arguments{'Hash::MultiValue::STORABLE_thaw'} = sub { (bless({}, 'Hash::MultiValue'), 0, Hash::MultiValue::STORABLE_freeze(multi(), 0)) };

methods('HTTP::Headers::Fast', \&fields,
    [ _as_string => "\n", sub { [ 'content-type', 'x-foo' ] } ], [ _header => 'x-foo', 'v', 'SET' ], [ _header_get => 'x-foo' ], [ _header_push => 'x-foo', 'v' ],
    [ _header_set => 'x-foo', 'v' ], [ _psgi_flatten => sub { [ 'content-type', 'x-foo' ] } ], '_sorted_field_names',
    [ header => 'X-Foo', 'new' ], [ push_header => 'X-Foo', 'more' ], [ init_header => 'X-New', 'v' ], [ remove_header => 'X-Foo' ],
    [ isa => 'HTTP::Headers' ], [ scan => sub { sub { } } ], [ content_type => 'text/xml' ],
    (map { [ $_ => 'value' ] } qw(authorization content_encoding content_language from proxy_authenticate proxy_authorization server title
        user_agent warnings www_authenticate)),
    [ content_length => 7 ],
    qw(as_string as_string_without_sort clear clone content_is_html content_is_text content_is_xhtml content_is_xml header_field_names
        psgi_flatten psgi_flatten_without_sort remove_content_headers));
$arguments{'HTTP::Headers::Fast::_standardize_field_name'} = sub {'X-Foo'};
$arguments{'HTTP::Headers::Fast::new'} = sub { ('HTTP::Headers::Fast', 'X-Foo' => 'a', 'Set-Cookie' => [ 'b', 'c' ]) };

methods('Plack::Response', \&response, qw(_body cookies finalize), [ _finalize_cookies => sub { [] } ], [ body => sub { [ 'a', 'b' ] } ],
    [ content => 'x' ], [ header => 'X-Foo', 'v' ], [ headers => sub { pairs() } ], [ code => 404 ], [ status => 404 ],
    [ content_encoding => 'gzip' ], [ content_length => 3 ], [ content_type => 'text/xml' ], [ location => '/there' ], [ redirect => '/there', 301 ]);
$arguments{'Plack::Response::new'} = sub { ('Plack::Response', 200, pairs(), [ 'body' ]) };

methods('Plack::Util', \&pairs, [ header_get => 'X-Foo' ], [ header_exists => 'X-Foo' ], [ header_push => 'X-Foo', 'c' ], [ header_remove => 'X-Foo' ],
    [ header_set => 'X-Foo', 'c' ], [ header_iter => sub { sub { } } ], 'headers', 'content_length', [ foreach => sub { sub { } } ]);
$arguments{'Plack::Util::inline_object'} = sub { (foo => sub { 1 }) };
$arguments{'Plack::Util::status_with_no_entity_body'} = sub {304};
$arguments{'Plack::Util::response_cb'} = sub { ([ 200, pairs(), ['x'] ], sub { $_[0][2] = ['y']; return }) };
$arguments{'Plack::Component::response_cb'} = sub { ($component, [ 200, pairs(), ['x'] ], sub { sub { $_[0] } }) };
$arguments{'Plack::Component::to_app'} = sub { ($component) };
$arguments{'Plack::Middleware::app'} = sub { ($access_log) };

%arguments = (
    %arguments,
    parsers(UrlEncoded => \&form,      $query),
    parsers(JSON       => \&in_json,   $json),
    parsers(MultiPart  => \&multipart, $parts),
);
$arguments{'HTTP::Entity::Parser::parse'} = sub {
    my $parser = HTTP::Entity::Parser->new;
    $parser->register('multipart/form-data', 'HTTP::Entity::Parser::MultiPart');
    return ($parser, multipart());
};
$arguments{'Plack::Request::Upload::new'} = sub {
    ('Plack::Request::Upload', headers => fields(), tempname => '/dev/null', size => 0, filename => 'a.txt');
};

methods('Plack::Request', \&request,
    qw(_query_parameters _uri_base address base content_encoding content_length content_type cookies env
        headers input logger method parameters path path_info port protocol query_parameters query_string referer remote_host
        request_body_parser request_uri scheme script_name secure session session_options uri user user_agent _build_body_parser),
    [ _buffer_length_for => sub { +{} } ], [ header => 'User-Agent' ], [ new_response => 200 ], [ param => 'foo' ]);
methods('Plack::Request', sub { request(form()) }, qw(_body_parameters body body_parameters content raw_body));
methods('Plack::Request', sub { request(multipart()) }, qw(_parse_request_body uploads), [ upload => 'file' ]);
$arguments{'Plack::Request::new'} = sub { ('Plack::Request', {%get}) };

my $format = '%h %l %u %t "%r" %>s %b "%{Referer}i" %{X-Foo}o %{%Y}t %D';
$arguments{'Apache::LogFormat::Compiler::compile'}  = sub { ($format, {}, {}) };
$arguments{'Apache::LogFormat::Compiler::log_line'} = sub { ($compiler, {%get}, [ 200, pairs(), [] ], 12, 345, 1_700_000_000) };
methods('Plack::Middleware::AccessLog', sub { $access_log }, qw(block_handlers char_handlers compiled_format format logger),
    [ call => sub { +{%get} } ], [ log_line => 200, sub { pairs() }, sub { +{%get} }, sub { +{ content_length => 12 } } ]);

my %called = (
    'Plack::Util::Prototype::AUTOLOAD' => sub { $prototype->foo(@_) },
);
$arguments{'Plack::Util::Prototype::AUTOLOAD'} = sub {'x'};

# ---- the calls ----

# Not of objects: compiling takes its time, and HTTP::Entity::Parser::MultiPart's own new() makes an object that refers to
# itself until finalize() is called.
my %strings_only = map { $_ => 1 } qw(Apache::LogFormat::Compiler::compile HTTP::Entity::Parser::MultiPart::new);

local $SIG{__WARN__} = sub { };
for my $module (qw(Plack::Request Plack::Response Plack::Component Apache::LogFormat::Compiler Plack::Middleware::AccessLog)) {
    (my $file = "$module.pm") =~ s{::}{/}g;
    eval { require $file } or next;
}
$component  = Plack::Component->can('to_app') && bless {}, 'Plack::Component';
$prototype  = Plack::Util->can('inline_object') && Plack::Util::inline_object(foo => sub { scalar @_ });
$compiler   = Apache::LogFormat::Compiler->can('new') && Apache::LogFormat::Compiler->new($format);
$access_log = Plack::Middleware::AccessLog->can('new')
    && Plack::Middleware::AccessLog->new(app => sub { [ 200, pairs(), ['x'] ] }, logger => sub { }, format => $format);
$access_log->prepare_app if $access_log;

# By how many pages the process grows. What a cache takes is taken once: what is lost is lost again.
sub growth {
    my ($code, $arguments) = @_;

    my $grown;
    for (1 .. 2) {
        for (1 .. $warmup) { my @got = eval { $code->($arguments->()) } }
        my $before = pages();
        for my $call (1 .. $calls) {
            my @arguments = $arguments->();
            if ($call & 1) { my @got = eval { $code->(@arguments) } }
            else           { my $got = eval { $code->(@arguments) } }
        }
        $grown = pages() - $before;
        last if $grown <= $most;
    }
    return $grown;
}

my %done;
for my $module (Hydrofoil::Accelerate->status) {
    for my $sub (@{ $module->{subs} }) {
        my $name = "$module->{module}::$sub";
        next if $done{$name}++ || %only && !$only{$name};
        my $arguments = $arguments{$name};
        if (!$arguments) {
            fail "$name is called";
            next;
        }
        my $code = $called{$name} || do { no strict 'refs'; \&{$name} };
        if (!eval { $code->($arguments->()); 1 }) {
            fail "$name is called as it should be: $@";
            next;
        }
        cmp_ok growth($code, $arguments), '<=', $most, $name;
        next if $strings_only{$name};
        my $objects = sub { map { ref || !defined ? $_ : Text->new($_) } $arguments->() };
        cmp_ok growth($code, $objects), '<=', $most, "$name, of objects";
    }
}

done_testing;
