use strict;
use warnings;
use Test::More;
use Cwd qw(abs_path);
use File::Temp;
use FindBin;
use lib "$FindBin::Bin/../bench/lib";
use HydroBench::Client;
use HydroBench::Functions;
use HydroBench::Proc qw(tree cpu_seconds private_kib);
use HydroBench::Report;
use HydroBench::Run;
use HydroBench::Scenario;
use HydroBench::Server;
use HydroBench::Servers;

plan skip_all => 'reads /proc' unless -e '/proc/self/stat';
my $root = abs_path("$FindBin::Bin/..");
my $dir  = File::Temp->newdir;
local $SIG{ALRM} = sub { die "the test takes too long\n" };
alarm 240;

# A server of a few lines, for one way of going wrong or right. It handles one connection at a time; %ANSWER% is what
# it does with a request on $client.
sub small_server {
    my ($name, $answer) = @_;
    my $code = <<'PERL';
use strict; use warnings; use IO::Socket::INET;
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], Listen => 64, ReuseAddr => 1) or die;
my $ok = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nHello World";
my $requests = 0;
$SIG{TERM} = sub { exit 0 };
$SIG{PIPE} = 'IGNORE';
while (1) {
    my $client = $listener->accept or next;
    my $bytes = '';
    while (sysread $client, $bytes, 65536, length $bytes) {
        while ($bytes =~ s/\A.*?\r\n\r\n//s) { $requests++; %ANSWER% }
    }
}
PERL
    $code =~ s/%ANSWER%/$answer/;
    return { name => $name, kind => 'psgi', command => sub { ($^X, '-e', $code, $_[0]{port}) } };
}

my $GOOD = small_server('good', 'syswrite $client, $ok;');

sub server {
    my ($description) = @_;
    return HydroBench::Server->new($description, { root => $root, dir => "$dir", app => 'hello' });
}

sub is_hello { $_[0]{status} == 200 && $_[0]{body} eq 'Hello World' ? undef : "status $_[0]{status}" }

subtest 'a server that answers is ready, costs CPU and memory, and is gone after stop' => sub {
    my $server = server($GOOD)->start;
    ok $server->wait_ready('/', \&is_hello), 'ready' or diag $server->problem;
    my $pid = $server->{pid};
    is_deeply [tree($pid)], [$pid], 'its tree is itself';
    my $before = $server->cpu_seconds;
    HydroBench::Client->get($server->port, '/') for 1 .. 50;
    cmp_ok $server->cpu_seconds, '>=', $before, 'CPU time never runs backwards';
    cmp_ok $server->cpu_seconds, '>', 0, 'and is not zero';
    cmp_ok $server->private_kib, '>', 100, 'it has memory of its own';
    $server->stop;
    ok !kill(0, $pid), 'the process has ended';
};

subtest 'a server that does not start says why' => sub {
    my $server = server({ name => 'broken', command => sub { ($^X, '-e', 'die "no such library\n"') } })->start;
    ok !$server->wait_ready('/', \&is_hello), 'not ready';
    like $server->problem, qr/exit status .*no such library/, 'its last words';
    $server->stop;
};

subtest 'a program that is not there is a server that does not start' => sub {
    my $server = server({ name => 'absent', command => sub { ('/nonexistent/server') } })->start;
    ok !$server->wait_ready('/', \&is_hello), 'not ready';
    like $server->problem, qr/exit status 127/, 'exit status';
};

subtest 'a server that answers other bytes is not measured' => sub {
    my $server = server(small_server('liar', '(my $no = $ok) =~ s/200 OK/500 No/; syswrite $client, $no;'))->start;
    ok !$server->wait_ready('/', \&is_hello), 'not ready';
    is $server->problem, 'wrong answer: status 500', 'what it answered';
    $server->stop;
};

subtest 'the CPU of children counts, of the living and of those that were waited for' => sub {
    defined(my $pid = fork) or die;
    if (!$pid) {
        my $burn = 'my $until = (times)[0] + 0.3; 1 while (times)[0] < $until;';
        system $^X, '-e', $burn;
        exec $^X, '-e', "fork or do { $burn sleep 60 }; sleep 60";
    }
    my $seconds = 0;
    for (1 .. 200) {
        $seconds = cpu_seconds($pid);
        last if $seconds >= 0.55;
        select undef, undef, undef, 0.1;
    }
    cmp_ok $seconds, '>=', 0.55, 'two children of 0.3 s each';
    is scalar(tree($pid)), 2, 'one of them is alive';
    kill KILL => tree($pid);
    waitpid $pid, 0;
};

subtest 'idle connections that the server closes are counted' => sub {
    my $keeps = server({ name => 'floor', command => sub { ($^X, '-e', <<'PERL', $_[0]{port}) } })->start;
use strict; use warnings; use IO::Socket::INET; use IO::Select;
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], Listen => 64, ReuseAddr => 1) or die;
my $select = IO::Select->new($listener);
my $count = 0;
while (my @ready = $select->can_read) {
    for my $socket (@ready) {
        if ($socket == $listener) { $select->add($listener->accept); next }
        if (!sysread $socket, my $bytes, 65536) { $select->remove($socket); close $socket; next }
        syswrite $socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if (++$count % 5 == 0) { $select->remove($socket); close $socket }
    }
}
PERL
    ok $keeps->wait_ready('/', sub { undef }), 'ready' or diag $keeps->problem;
    my ($sockets, $error) = HydroBench::Client->open_idle($keeps->port, '/', 20);
    is $error, undef, 'all were opened';
    is scalar @$sockets, 20, 'as many as asked for';
    my $closed = 0;
    for (1 .. 100) {
        last if ($closed = HydroBench::Client->closed_by_server(@$sockets)) >= 4;
        select undef, undef, undef, 0.05;
    }
    is $closed, 4, 'every fifth was closed';
    $keeps->stop;
};

subtest 'the port of a server is one that outgoing connections do not take from it' => sub {
    open my $file, '<', '/proc/sys/net/ipv4/ip_local_port_range' or plan skip_all => 'no range of ports';
    my ($first, $last) = split ' ', <$file>;
    plan skip_all => 'no ports below' if $first <= 20_000;
    my @taken = grep { $_ >= $first && $_ <= $last } map { HydroBench::Server::_free_port() } 1 .. 20;
    is "@taken", '', 'none of twenty';
};

subtest 'a server that is not installed is named with the reason' => sub {
    my %context = (root => $root);
    is(HydroBench::Servers->missing({ name => 'x', needs => { program => ['no-such-program'] } }, \%context),
        'no-such-program is not installed', 'a program');
    is(HydroBench::Servers->missing({ name => 'x', needs => { module => ['No::Such::Module'] } }, \%context),
        'No::Such::Module is not installed', 'a module');
    like(HydroBench::Servers->missing({ name => 'x', needs => { copy => 1 } }, \%context), qr/--copy x=DIR/, 'a copy');
    is(HydroBench::Servers->missing({ name => 'x', needs => { program => ['sh'] } }, \%context), undef, 'nothing missing');
    is(HydroBench::Servers->named('nginx@old')->{name}, 'nginx@old', 'another copy has its own name');
    is(HydroBench::Servers->named('no-such-server'), undef, 'an unknown name');
};

subtest 'an accelerated server is started like the plain one, with the toolkit loaded' => sub {
    my %context = (root => '/there', port => 1, app => 'hello');
    for my $name (qw(starman starlet hydrofoil)) {
        my @plain = HydroBench::Servers->command(HydroBench::Servers->named($name), \%context);
        my @more  = HydroBench::Servers->command(HydroBench::Servers->named("$name-accelerated"), \%context);
        my %plain = map { $_ => 1 } @plain;
        is_deeply [ grep { $plain{$_} } @more ], \@plain, "$name: the same";
        is_deeply [ grep { !$plain{$_} } @more ],
            $name eq 'hydrofoil' ? ['--accelerate'] : [qw(-I/there/blib/lib -I/there/blib/arch -MHydrofoil::Accelerate)], 'and more';
        is(HydroBench::Servers->named("$name-accelerated")->{kind}, 'accelerated', 'it is no rival');
    }
};

subtest 'functions are measured round by round, and held against their targets by name' => sub {
    is_deeply [ HydroBench::Functions->parse("a warning\nRequest new\t3.0\t1.5\tPerl\nbroken\t1\n") ],
        [ { name => 'Request new', original => 'Perl', original_us => '3.0', accelerated_us => '1.5', times => 2 } ], 'its lines';
    my $run = HydroBench::Run->new(root => $root, measures => [], servers => [], rounds => 2, duration => 1);
    $run->{share} = [ 0, 1 ];
    no warnings 'redefine';
    local *HydroBench::Functions::command = sub { ($^X, '-e', 'print "b\t8\t2\tXS\na\t3\t3\tPerl\n"') };
    my $done = HydroBench::Functions->measure($run, { name => 'functions', title => 'all', tool => 'functions' });
    is $done->{results}{b}{times}, 4, 'times';
    like(HydroBench::Report->measure($done), qr/b +XS +8\.000 +2\.000 +4\.00 .*\n +a +Perl/, 'in the order of the program');
    my $judged = HydroBench::Scenario->judge({ measure => 'functions', figure => 'times', of => 'b', at_least => 5 }, $done->{results}, 'hydrofoil');
    is $judged->{verdict}, 'miss', 'a target';
    local *HydroBench::Functions::command = sub { ($^X, '-e', 'die "no such thing\n"') };
    $done = HydroBench::Functions->measure($run, { name => 'functions', title => 'all', tool => 'functions' });
    like(HydroBench::Report->measure($done), qr/FAILED: no such thing/, 'a failure is told');
};

subtest 'every scenario is whole: its measures have names and titles, its targets a measure' => sub {
    for my $name (HydroBench::Scenario->names($root)) {
        my $scenario = HydroBench::Scenario->load($root, $name);
        my %measure = map { $_->{name} => $_ } @{ $scenario->{measures} };
        ok $_->{title} && ($_->{connections} || $_->{groups} || $_->{tool} eq 'functions'), "$name: $_->{name}" for values %measure;
        ok $measure{ $_->{measure} }, "$name: a target for $_->{measure}" for @{ $scenario->{targets} };
    }
};

SKIP: {
    skip 'wrk is not installed', 1 unless HydroBench::Servers::find_program('wrk');
    subtest 'a run reports who failed and how, and measures the others' => sub {
        my @servers = (
            $GOOD,
            small_server('dies',  'exit 3 if $requests > 20; syswrite $client, $ok;'),
            small_server('fails', '(my $no = $ok) =~ s/200 OK/503 No/; syswrite $client, $requests > 20 ? $no : $ok;'),
            small_server('never', 'exit 4;'),
        );
        my $run = HydroBench::Run->new(
            root     => $root,
            servers  => \@servers,
            measures => [{ name => 'm', title => 't', app => 'hello', tool => 'wrk', connections => 1 }],
            copies   => {},
            rounds   => 1,
            duration => 1,
        );
        my ($done)  = $run->run;
        my $results = $done->{results};
        cmp_ok $results->{good}{req_per_s}, '>', 0, 'the good one has a figure';
        cmp_ok $results->{good}{cpu_us},    '>', 0, 'and its CPU per request';
        like $results->{dies}{problem}, qr/^died \(exit status 3\)/, 'the one that dies';
        like $results->{fails}{problem}, qr/^answered \d+ of \d+ with an error/, 'the one that answers errors';
        like $results->{never}{problem}, qr/^wrong answer: closed without an answer|exit status 4/, 'the one that never answers';
        ok !exists $results->{$_}{req_per_s}, "$_ has no figure" for qw(dies fails never);
        my $text = HydroBench::Report->measure($done);
        like $text, qr/\b$_\s+FAILED: /, "$_ is in the table" for qw(dies fails never);
    };
}

done_testing;
