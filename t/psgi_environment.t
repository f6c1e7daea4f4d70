use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;
use Hydrofoil::Test;

# The environment belongs to the application: it may keep it, change it and break it, and no other request notices.

my $app = <<'END';
use Scalar::Util ();
my (@kept, $weak);
my @watched = qw(REQUEST_METHOD SCRIPT_NAME PATH_INFO REQUEST_URI QUERY_STRING SERVER_NAME SERVER_PORT SERVER_PROTOCOL
    REMOTE_ADDR CONTENT_LENGTH CONTENT_TYPE HTTP_HOST HTTP_COOKIE HTTP_X_ONE HTTP_X_TWO HTTP_USER_AGENT psgi.url_scheme
    psgi.multithread psgi.run_once psgi.nonblocking psgi.streaming psgix.input.buffered psgix.harakiri psgix.cleanup);
sub dump_env {
    my $env = shift;
    my %watched = map { $_ => 1 } @watched;
    my $text = join '', map { defined $env->{$_} ? "$_=$env->{$_}\n" : exists $env->{$_} ? "$_ undefined\n" : '' } @watched;
    $text .= "version=@{ $env->{'psgi.version'} || ['none'] }\n";
    $text .= 'handlers=' . @{ $env->{'psgix.cleanup.handlers'} || ['none'] } . "\n";
    $text .= 'left over: ' . join(' ', grep { !$watched{$_} && !/^(?:REMOTE_PORT|psgix?\..*|HTTP_CONNECTION)\z/ } sort keys %$env) . "\n";
    my $input = $env->{'psgi.input'};
    my $body = '';
    if (ref $input && eval { $input->can('read') }) { $input->read($body, 100_000) } else { $body = 'no input' }
    $text . "body=$body\n" . 'informational=' . ref($env->{'psgix.informational'}) . "\n";
}
my %harm = (
    append    => sub { my $env = shift; for my $key (grep { !ref $env->{$_} } keys %$env) { eval { $env->{$key} .= 'x' } } },
    replace   => sub { my $env = shift; $env->{$_} = 'replaced' for grep { !ref $env->{$_} } keys %$env },
    undefine  => sub { my $env = shift; $env->{$_} = undef for keys %$env },
    delete    => sub { my $env = shift; delete @$env{grep { /^[A-Z]/ } keys %$env} },
    clear     => sub { my $env = shift; %$env = () },
    undefall  => sub { my $env = shift; undef %$env },
    add       => sub { my $env = shift; $env->{"left.$_"} = $_ for 1 .. 100; $env->{HTTP_X_TWO} = 'forged'; $env->{HTTP_COOKIE} = 'forged' },
    add_one   => sub { my $env = shift; $env->{HTTP_X_FORGED} = 'forged' },
    add_many  => sub { my $env = shift; $env->{"left.$_"} = [$_] for 1 .. 60; each %$env },
    add_wide  => sub { my $env = shift; $env->{"left.\x{263a}"} = 1; $env->{"left.\xe9"} = 2; my $key = "lef\xe8"; utf8::upgrade($key); $env->{$key} = 3 },
    add_over  => sub { my $env = shift; $env->{left} = 1; $env->{HTTP_X_ONE} .= 'x'; delete $env->{HTTP_COOKIE}; $env->{REMOTE_ADDR} = 'forged' },
    add_again => sub { my $env = shift; $env->{$_} = delete $env->{$_} for keys %$env; $env->{left} = 1 },
    leaver    => sub { my $env = shift; $env->{left} = Leaver->new($env, sub { my $env = shift; $env->{more} = 1; delete $env->{PATH_INFO} }) },
    leaver2   => sub { my $env = shift; $env->{left} = Leaver->new($env, sub { my $env = shift; push @kept, $env; $env->{HTTP_X_ONE} = 'forged' }) },
    leaver3   => sub { my $env = shift; $env->{"left.$_"} = Leaver->new($env, sub { %{ $_[0] } = () }) for 1 .. 5 },
    leaver4   => sub { my $env = shift; $env->{"left.$_"} = Leaver->new($env, sub { delete $_[0]{"left.$_"} for 1 .. 5; die 'left' }) for 1 .. 5 },
    swap      => sub { my $env = shift; my $x = delete $env->{HTTP_X_ONE}; $env->{HTTP_X_NEW} = $x },
    number    => sub { my $env = shift; no warnings; my $sum = 0; $sum += $env->{$_} for grep { !ref $env->{$_} } keys %$env },
    bool      => sub { my $env = shift; $env->{'psgi.streaming'} = 0; $env->{'psgi.multithread'}++; $env->{'psgix.harakiri'} = '' },
    utf8      => sub { my $env = shift; utf8::upgrade($env->{PATH_INFO}); utf8::decode($env->{HTTP_X_ONE}); $env->{REQUEST_URI} .= "\x{263a}" },
    chop      => sub { my $env = shift; chop $env->{PATH_INFO}; $env->{REQUEST_URI} =~ s/.//; substr($env->{HTTP_X_ONE}, 0, 2) = '' },
    chop_off  => sub { my $env = shift; $env->{PATH_INFO} =~ s/^.//; $env->{PATH_INFO} =~ s/^.// },
    long      => sub { my $env = shift; $env->{PATH_INFO} = 'x' x 100_000; $env->{HTTP_X_ONE} = 'y' x 100_000 },
    pos       => sub { my $env = shift; $env->{PATH_INFO} =~ /./g; pos($env->{HTTP_X_ONE}) = 1 },
    readonly  => sub { my $env = shift; Internals::SvREADONLY($env->{PATH_INFO}, 1); Internals::SvREADONLY($env->{HTTP_X_ONE}, 1) },
    reference => sub { my $env = shift; $env->{PATH_INFO} = ['x']; $env->{HTTP_X_ONE} = {}; $env->{'psgi.errors'} = \my $x },
    glob      => sub { my $env = shift; $env->{HTTP_X_ONE} = *STDOUT; $env->{QUERY_STRING} = *STDERR{IO} },
    tie       => sub { my $env = shift; tie $env->{HTTP_X_ONE}, 'Tied'; tie $env->{PATH_INFO}, 'Tied' },
    each      => sub { my $env = shift; each %$env; each %$env },
    bless     => sub { my $env = shift; bless $env, 'Whatever' },
    local     => sub { my $env = shift; local $env->{PATH_INFO} = 'x'; local $env->{HTTP_X_LOCAL} = 1; local @$env{qw(HTTP_X_ONE A)} = (1, 2) },
    alias     => sub { my $env = shift; $_ .= '!' for grep { !ref } @$env{qw(PATH_INFO HTTP_X_ONE HTTP_HOST)}; eval { $_ .= '!' } for values %$env },
    lock      => sub { my $env = shift; Hash::Util::lock_ref_keys($env) },
    handlers  => sub { my $env = shift; push @{ $env->{'psgix.cleanup.handlers'} }, sub { } },
    handlers2 => sub { my $env = shift; push @kept, $env->{'psgix.cleanup.handlers'} },
    handlers3 => sub { my $env = shift; delete $env->{'psgix.cleanup.handlers'} },
    version   => sub { my $env = shift; eval { $env->{'psgi.version'}[0] = 7 }; eval { push @{ $env->{'psgi.version'} }, 3 }; $env->{'psgi.version'} = [2, 0] },
    input     => sub { my $env = shift; close $env->{'psgi.input'} },
    input2    => sub { my $env = shift; open my $fh, '<', \'another' or die; $env->{'psgi.input'} = $fh },
    input3    => sub { my $env = shift; push @kept, $env->{'psgi.input'} },
    input4    => sub { my $env = shift; seek $env->{'psgi.input'}, 5, 0; binmode $env->{'psgi.input'}, ':utf8' },
    input5    => sub { my $env = shift; bless $env->{'psgi.input'}, 'Whatever' },
    lazy      => sub { my $env = shift; push @kept, \$env->{'psgix.io'}, \$env->{'psgix.informational'} },
    lazy2     => sub { my $env = shift; delete $env->{'psgix.io'}; $env->{'psgix.informational'} = 'x' },
    copy      => sub { my $env = shift; my %copy = %$env; push @kept, \%copy },
    weaken    => sub { my $env = shift; $weak = $env; Scalar::Util::weaken($weak) },
    cycle     => sub { my $env = shift; $env->{cycle} = $env },
    keep      => sub { my $env = shift; push @kept, $env },
    keep_value => sub { my $env = shift; push @kept, \$env->{PATH_INFO}, \$env->{HTTP_X_ONE} },
    nothing   => sub { },
);
require Hash::Util;
sub Leaver::new { my ($class, $env, $code) = @_; my $self = bless { env => \$env, code => $code }, $class; Scalar::Util::weaken($env); $self }
sub Leaver::DESTROY { my $self = shift; my $env = ${ $self->{env} }; $self->{code}->($env) if $env }
sub Tied::TIESCALAR { bless [], shift }
sub Tied::FETCH { 'tied' }
sub Tied::STORE { }
my @strings;
my $call = sub {
    my $env = shift;
    my @text = (200, ['Content-Type' => 'text/plain']);
    return [@text, [join ' ', sort keys %harm]] if $env->{PATH_INFO} eq '/harms';
    if ($env->{PATH_INFO} eq '/keep-strings') {
        push @strings, [$env->{QUERY_STRING}, \$env->{QUERY_STRING}, $env, $env->{HTTP_X_ONE}];
        return [@text, ['kept']];
    }
    if ($env->{PATH_INFO} eq '/kept-strings') {
        my @told = map { "$_->[0],${ $_->[1] },$_->[2]{QUERY_STRING},$_->[3],$_->[2]{HTTP_X_ONE}\n" } @strings;
        @strings = ();
        return [@text, [@told]];
    }
    if (my ($name) = $env->{PATH_INFO} =~ m{^/harm/(\w+)}) {
        $harm{$name}->($env);
        return [@text, ['harmed']];
    }
    [@text, [dump_env($env)]];
};
$call;
END

my $server = start_server(app => $app, lint => 0);

my @probes = (
    req('GET /probe?q=1', 'X-One: first', 'Cookie: a=1'),
    req('POST /probe/longer/path', 'X-Two: second', 'Content-Type: text/plain', \'the body'),
    req('GET /p'),
    req('PUT /probe', 'Transfer-Encoding: chunked', 'X-One: 1', 'X-One: 2', 'User-Agent: u', \"3\r\nabc\r\n0\r\n\r\n"),
);
my @fresh = map { my $fresh = start_server(app => $app, lint => 0); $fresh->ask($_)->body } @probes;
s/^SERVER_PORT=\d+/SERVER_PORT=$server->{port}/m for @fresh;
my @harms = split ' ', $server->get('/harms')->body;

check 'what is done to an environment is not seen by the requests after it' => sub {
    my $client = $server->connect;
    for my $harm (@harms) {
        for my $request (req("GET /harm/$harm?x=y", 'X-One: one', 'X-Two: two', 'Cookie: z=1'),
            req("POST /harm/$harm", 'X-One: one', \'a body that is harmed'))
        {
            my $harmed = $client->ask($request);
            is $harmed->body, 'harmed', "$harm: the harm is done";
            for my $i (0 .. $#probes) {
                my $seen = $client->ask($probes[$i])->body;
                is $seen, $fresh[$i], "$harm: request " . ($i + 1) . ' after it is as ever' if $seen ne $fresh[$i];
            }
        }
    }
};

check 'nor in any order' => sub {
    my $client = $server->connect;
    srand 42;
    my $wrong = 0;
    for my $round (1 .. 1500) {
        my $harm = $harms[rand @harms];
        my $n = int rand 2;
        $client->ask(req("GET /harm/$harm?$round", ('X-One: one') x $n, ('X-Two: two') x (1 - $n)));
        my $i = int rand @probes;
        my $seen = $client->ask($probes[$i])->body;
        is $seen, $fresh[$i], "round $round, after $harm" or last if $seen ne $fresh[$i] && ++$wrong;
    }
    is $wrong, 0, 'in fifteen hundred rounds';
};

check 'what an application keeps stays as it was' => sub {
    my $client = $server->connect;
    my $expected = '';
    for my $i (1 .. 50) {
        my $query = 'q' x ($i * 3 % 70) . $i;
        $client->ask("GET /keep-strings?$query", "X-One: value $i");
        $client->ask('GET /probe?' . 'other' x ($i % 9), 'X-One: another', 'Cookie: c=d');
        $expected .= join(',', ($query) x 3, ("value $i") x 2) . "\n";
    }
    is $client->ask('GET /kept-strings')->body, $expected, 'fifty environments and their values';
};

unlike $server->log, qr/panic|Attempt to free|Segmentation/, 'and perl has nothing to say about it';

done_testing;
