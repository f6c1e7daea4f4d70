use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;

BEGIN {
    for my $module (qw(Plack::Middleware::AccessLog Plack::Middleware::AccessLog::Timed Apache::LogFormat::Compiler POSIX::strftime::Compiler)) {
        eval "require $module" or plan skip_all => "needs $module";
    }
}
use Hydrofoil::Test::Differential;

{
    package Text;
    use overload '""' => sub { $_[0]{text} }, fallback => 1;
    sub new { my ($class, $text) = @_; return bless { text => $text }, $class }
}
{
    package Lines;
    sub new { my $class = shift; return bless { lines => [@_] }, $class }
    sub getline { return shift @{ $_[0]{lines} } }
    sub close { return 1 }
}
{
    package OtherLine;
    our @ISA = ('Plack::Middleware::AccessLog');
    sub log_line { my $self = shift; return 'other: ' . $self->SUPER::log_line(@_) }
}
{
    package OtherLogger;
    our @ISA = ('Plack::Middleware::AccessLog');
    sub logger { my $self = shift; my $logger = $self->SUPER::logger(@_); return sub { $logger->('logged: ', @_) } }
}
{
    package Sink;
    sub new { return bless [], shift }
    sub print { my $self = shift; push @$self, @_; return 1 }
}

my @keys = qw(REMOTE_ADDR REMOTE_USER REQUEST_METHOD REQUEST_URI SERVER_PROTOCOL SERVER_NAME HTTP_HOST SERVER_PORT PATH_INFO QUERY_STRING
  HTTP_REFERER HTTP_USER_AGENT HTTP_X_FOO CONTENT_TYPE CONTENT_LENGTH);

sub text {
    return pick(
        'plain', 'GET', '/a/b?c=d', 'HTTP/1.1', '', '0', 0, 80, 1.5, "caf\xe9", "tab\there", "line\nfeed", "nul\0", "del\x7f", "quo\"te", 'back\\slash', "\x80\x9f\xff",
        "\x{263a}", "wide\x{100}\x{85}", "caf\x{e9}\x{263a}", 'x' x 400, '%h', "\x{85}",
    );
}

sub value {
    my $kind = number(40);
    return undef             if $kind == 0;
    return Text->new(text()) if $kind == 1;
    return [1]               if $kind == 2;
    return text();
}

sub env {
    my %env = (
        REMOTE_ADDR => '127.0.0.1', REQUEST_METHOD => 'GET', REQUEST_URI => '/foo?a=b', SERVER_PROTOCOL => 'HTTP/1.1', SERVER_NAME => 'localhost',
        SERVER_PORT => 80, PATH_INFO => '/foo', QUERY_STRING => 'a=b', HTTP_REFERER => 'http://example.com/',
    );
    $env{ pick(@keys) } = value() for 1 .. number(8);
    delete $env{ pick(@keys) } if chance(8);
    return \%env;
}

sub headers {
    my @list = map { pick('Content-Type', 'content-length', 'X-Foo', 'x-foo', 'Location', "X-\x{263a}", "X-\xe9"), value() } 1 .. number(5);
    push @list, 'X-Odd' if chance(12);
    return \@list;
}

my @literals = (
    ' ', '"', '-', '!', '!!', "'", '[]', '100%', '%', '%{', '%}', '{', '~', '$x @y', "\n", "\t", "caf\xe9", "\x{263a}", '#', '%1', '%<', '%{abc', '\\', '\\!', '\\\\',
    'text', q{q!'~}, '%{}i', '()',
);
my @chars  = qw(h l u t r s b T D v V p P m U q H % z n);
my @blocks = (
    'Referer', 'User-Agent', 'X-Foo', 'x_foo', 'content-type', 'Content-Length', 'content_length', 'X!Foo', "it's", 'a b', '0', '%Y-%m-%d', '%d/%b/%Y:%T %z', '%s',
    '%Z %j %U %V %G %N %c %p', '%H:%M:%S.%N', '%%', "caf\xe9", "\x{263a}", 'a}b', 'a|b', '!', '$ENV{PATH}', '@{[1]}', 'X-\\Foo',
);
my @types = qw(i i i o o t t Z y Q);

sub format_string {
    return pick(undef, 'common', 'combined', '', '0') if chance(20);
    return join '', map {
        my $kind = number(4);
        $kind == 0 ? pick(@literals) : $kind == 1 ? '%{' . pick(@blocks) . '}' . pick(@types) : '%' . pick('', '', '', '<', '>') . pick(@chars);
    } 1 .. 1 + number(8);
}

sub ordinary_format {
    return join '', map {
        my $kind = number(4);
        $kind == 0 ? pick(' ', '"', '!', ' - ', "\x{263a}", "\xe9") : $kind == 1 ? '%{' . pick(@blocks[ 0 .. 5, 11 .. 16 ]) . '}' . pick(qw(i o t Z)) : '%' . pick(@chars[ 0 .. 18 ]);
    } 1 .. 1 + number(10);
}

my $calls = 0;
my %chars = (
    z => sub { $calls++; return pick(text(), (undef), (), Text->new('object')) },
    n => sub { my ($env, $answer, $length, $reqtime) = @_; return join ',', map { defined $_ ? ref $_ || $_ : 'undef' } @_ },
);
my %blocks = (
    Z => sub { my ($block, $env, $answer) = @_; return ("$block:" . ref $answer, 'more') },
    y => sub { die "handler died\n" if $_[0] eq 'X-Foo'; return $_[0] },
);

my @times = (0, 1, 951_782_400, 1_700_000_000, 1_700_000_000, 1_711_846_800, 1_711_846_801, 1_725_000_000.5, 1_729_990_800, '1700000000', 2_147_483_647, 4_000_000_000, -1);

sub compiled_case {
    my (@seen, $log);
    local $ENV{TZ} = pick('UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kathmandu', 'EST5EDT', 'Nowhere/Land');
    delete $ENV{TZ} if chance(10);
    my $format = chance(2) ? format_string() : ordinary_format();
    my $common  = chance(2); # times that nothing is special about
    my @options = chance(3) ? () : (char_handlers => {%chars}, block_handlers => {%blocks});
    push @seen, $format, attempt(sub { $log = Apache::LogFormat::Compiler->new($format, @options); return });
    return \@seen if !$log;
    push @seen, $log->code, ref $log->code_ref, scalar @$log;
    for (1 .. 4) {
        my ($env, $headers) = (env(), headers());
        my @arguments = ($env, [ pick(200, '404', 200, 200, value()), $headers ], pick(undef, 12, '0', 4_000, text()), pick(undef, 1_234_567, 999_999, 1.5, -1, '2000000', 3e10), pick($common ? @times[ 1 .. 10 ] : @times));
        $arguments[0] = pick(undef, 'text') if chance(60);
        $arguments[1] = pick(undef, 'text', [], [200], {}) if chance(60);
        delete $options[1]{z} if @options && chance(20);
        my $as_code = chance(4);
        push @seen, attempt(sub { return $as_code ? $log->code_ref->(@arguments) : $log->log_line(@arguments) }), $arguments[4];
        push @seen, $env->{REMOTE_USER}, ref $arguments[1] eq 'ARRAY' ? $arguments[1][0] : ();
        $ENV{TZ} = 'Australia/Lord_Howe' if $common && chance(6);
    }
    return \@seen;
}

same_with_and_without(name => 'Apache::LogFormat::Compiler', areas => [ 'Util', 'AccessLog' ], count => 1_500, case => \&compiled_case);

Hydrofoil::Accelerate->unload;

my $fixed = 1_700_000_000;

sub middleware_case {
    my (@seen, @lines);
    my $format = pick(undef, 'common', 'combined', '%h %{X-Foo}o %b %D', '"%r" %s %{%Y}t %z', 'plain!', '%{Referer}i %{a b}Z', '%q');
    my $body   = pick([], ['one'], [ 'one', 'two' ], [ 'one', undef ], ["\x{263a}"], [ 42 ], Lines->new('a'), undef);
    my $answer = [ pick(200, 404, 500), headers(), $body ];
    pop @$answer if chance(12);
    my $class  = chance(6) ? pick('OtherLine', 'OtherLogger', 'Plack::Middleware::AccessLog::Timed') : 'Plack::Middleware::AccessLog';
    my $logger = pick(sub { push @lines, @_; return 'logger' }, sub { push @lines, @_; return }, undef, 0);
    $logger = sub { push @lines, @_ } if $class eq 'OtherLogger';
    my $kind   = number(8);
    my $app    = $kind == 0
      ? sub { my $env = shift; return sub { my $respond = shift; my $w = $respond->([ @{$answer}[ 0, 1 ] ]); if ($w) { $w->write('a'); $w->close } } }
      : $kind == 1 ? sub { return sub { $_[0]->($answer) } }
      : $kind == 2 ? sub { return 'nothing' }
      : $kind == 3 ? sub { die "died\n" }
      : $kind == 4 ? sub { $_[0]{REMOTE_ADDR} = '10.0.0.1'; $_[0] = {}; return $answer }
      :              sub { return $answer };
    my $errors = Sink->new;
    my $env    = { %{ env() }, 'psgi.errors' => $errors };
    my $made   = attempt(sub {
        my $log = $class->wrap($app, format => $format, logger => $logger, char_handlers => {%chars}, block_handlers => {%blocks});
        for (1 .. 2) {
            my $got = eval { $log->($env) };
            push @seen, $@, ref $got, ref $got eq 'ARRAY' ? @$got[ 0, 1 ] : ();
            $got->(sub { push @seen, 'respond', @{ $_[0] }[ 0, 1 ]; return @{ $_[0] } > 2 ? undef : Plack::Util::inline_object(write => sub { }, close => sub { }) }) if ref $got eq 'CODE';
            if (ref $got eq 'ARRAY' && ref $got->[2] eq 'Plack::Util::Prototype') { 1 while defined $got->[2]->getline; $got->[2]->close }
        }
        return;
    });
    # The time of the request, and what it took, differ between two runs.
    s{\[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [-+]\d{4}\]}{[TIME]}g, s{\[20\d\d\]}{[YEAR]}g for @lines, @$errors;
    s/ [0-9.e-]+$/ TOOK/mg for $class =~ /Timed/ ? (@lines, @$errors) : ();
    return [ $made, \@seen, \@lines, [@$errors] ];
}

same_with_and_without(name => 'Plack::Middleware::AccessLog', areas => [ 'Util', 'AccessLog' ], count => 1_200, case => \&middleware_case);

is_deeply { map { $_->{module} => $_->{state} } Hydrofoil::Accelerate->status },
  { map { $_ => 'accelerated' } qw(Plack::Util Plack::Component Plack::Middleware Plack::Middleware::AccessLog Apache::LogFormat::Compiler) },
  'all of it is accelerated';

{
    my $log  = Apache::LogFormat::Compiler->new('%t %{%H:%M:%S}t');
    my $wait = time;
    my %seen;
    while (time < $wait + 3) {
        my ($before, $line, $after) = (time, $log->log_line({}, [ 200, [] ]), time);
        my ($h, $m, $s) = $line =~ /\[(\d\d):(\d\d):(\d\d)\]/;
        next if $before != $after;
        my @now = localtime $before;
        ok 0, "time is $now[2]:$now[1]:$now[0], line is $line" and last if "$h$m$s" != sprintf('%02d%02d%02d', @now[ 2, 1, 0 ]);
        $seen{$line}++;
        select undef, undef, undef, 0.02;
    }
    cmp_ok keys %seen, '>=', 3, 'the clock of a log goes on';
}
{
    my $log  = Apache::LogFormat::Compiler->new('%h');
    my $time = undef;
    $log->log_line({}, [ 200, [] ], 0, 0, $time);
    is $log->log_line({ REMOTE_ADDR => 'a' }, [ 200, [] ], undef, undef, $time), "a\n", 'a time that is undefined';
}
{
    my @lines;
    my $app = Plack::Middleware::AccessLog->wrap(sub { [ 200, [], ['x'] ] }, format => '%b', logger => sub { push @lines, @_ });
    $app->({});
    {
        no warnings 'redefine';
        local *Plack::Util::content_length = sub { 99 };
        $app->({});
        local *Apache::LogFormat::Compiler::log_line = sub { 'mine' };
        $app->({});
    }
    $app->({});
    is "@lines", "1\n 99\n mine 1\n", 'functions that somebody replaces afterwards are called';
}
{
    my $freed = 0;
    sub Freed::DESTROY { $freed++ }
    my $object = bless [], 'Freed';
    my $app = Plack::Middleware::AccessLog->wrap(sub { [ 200, [], [] ] }, logger => sub { $object }, char_handlers => { z => sub { $object } }, format => '%z');
    $app->({});
    undef $object;
    undef $app;
    is $freed, 1, 'an application that is given up is freed with its handlers';
}

{
    my $log = Apache::LogFormat::Compiler->new('%h %z %u %s %{X-Foo}o %z', char_handlers => {
        z => sub { my ($env, $answer) = @_; %$env = (REMOTE_USER => 'new'); @$answer = (500, [ 'X-Foo' => 'new' ]); return 'z' },
    });
    like $log->log_line({ REMOTE_ADDR => 'a', REMOTE_USER => 'old' }, [ 200, [ 'X-Foo' => 'old' ] ]), qr/\A\S+ z new \S+ new z\n\z/,
      'a handler that changes the environment and the answer';
}

my $app = Plack::Middleware::AccessLog->wrap(sub { [ 200, [ 'X-Foo' => 'bar' ], ['body'] ] }, logger => sub { }, format => '%h %t "%r" %b %{X-Foo}o %{Referer}i %{%T}t %z',
    char_handlers => { z => sub { 'z' } });
my $env = { REQUEST_METHOD => 'GET', REQUEST_URI => "/\x{e9}", SERVER_PROTOCOL => 'HTTP/1.1', HTTP_REFERER => "\x{263a}" };
no_leak('an access log', 20_000, sub { my $answer = $app->($env) });
no_leak('compiled formats', 2_000, sub { my $line = Apache::LogFormat::Compiler->new('%h %{X}i %{%T}t')->log_line({}, [ 200, [] ]) });

done_testing;
