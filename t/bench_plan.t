use strict;
use warnings;
use Test::More;
use Cwd qw(abs_path);
use File::Temp;
use FindBin;
use JSON::PP ();
use POSIX ();
use Time::HiRes qw(sleep time);
use lib "$FindBin::Bin/../bench/lib";
use HydroBench::Machine;
use HydroBench::Plan;
use HydroBench::Proc qw(slurp tree);
use HydroBench::Results;
use HydroBench::Run;
use HydroBench::Scenario;
use HydroBench::Servers;

my $root = abs_path("$FindBin::Bin/..");
my $dir  = File::Temp->newdir;
local $SIG{ALRM} = sub { die "the test takes too long\n" };
alarm 120;

# As if every server and every tool were here.
our $everything = 1;
{
    no warnings 'redefine';
    my ($missing, $program) = (\&HydroBench::Servers::missing, \&HydroBench::Servers::find_program);
    *HydroBench::Servers::missing      = sub { $everything ? undef : $missing->(@_) };
    *HydroBench::Servers::find_program = sub { $everything ? "/usr/bin/$_[0]" : $program->(@_) };
}

sub plan_of {
    return HydroBench::Plan->new(root => $root, names => [], servers => [], only => [], copies => {}, @_);
}

sub measures {
    my ($plan) = @_;
    return map { $_->{name} => $_ } map { @{ $_->{measures} } } $plan->parts;
}

subtest 'without a scenario it is all of them' => sub {
    is_deeply [map { $_->{scenario}{name} } plan_of()->parts], [HydroBench::Scenario->names($root)], 'all';
    is_deeply [map { $_->{scenario}{name} } plan_of(names => [qw(ok hello)])->parts], [qw(ok hello)], 'or those that are named';
};

subtest 'what is not there is refused with what is' => sub {
    for (
        [{ names => ['hallo'] }, qr/no scenario 'hallo', only: .*hello/],
        [{ names => ['hello'], only => ['ok15'] }, qr/no measure 'ok15' in hello, only: keepalive16/],
        [{ servers => ['apache'] }, qr/no server 'apache'/],
        [{ servers => ['hydrofoil@old'] }, qr/--copy hydrofoil\@old=DIR/],
    ) {
        my ($options, $message) = @$_;
        ok !eval { plan_of(%$options); 1 }, join ' ', map { @$_ } values %$options;
        like $@, $message, 'the message';
    }
};

subtest '--quick without a scenario: something of every scenario, in less than three minutes with every server here' => sub {
    my $plan = plan_of(quick => 1);
    for my $part ($plan->parts) {
        ok scalar @{ $part->{measures} }, $part->{scenario}{name};
        ok $_->{essential}, $_->{name} for @{ $part->{measures} };
    }
    cmp_ok $plan->total_seconds, '<', 150, 'seconds';
    is $plan->rounds, 1, 'one round of each';
    ok !grep({ defined $plan->hindrance($_, $_->{measures}[0]) } $plan->parts), 'nothing is in the way';

    $plan->{begin} -= 160;
    my ($part) = $plan->parts;
    like $plan->hindrance($part, $part->{measures}[0]), qr/no time is left/, 'what does not fit any more is left out';
    ok !grep({ $_->{servers} } map { @{ $_->{measures} } } plan_of(quick => 1, servers => ['starman'])->parts),
        'whoever is named takes part';
    is plan_of(quick => 1, names => ['hello'])->rounds, 3, 'a scenario that is named has three rounds';
};

subtest 'the command line says how long and how often' => sub {
    my %as_published = measures(plan_of(names => [qw(workers connections hello)]));
    is $as_published{workers16}{requests}, 30_000, 'ab ends after as many requests as published';
    is $as_published{connections16}{seconds}, 20, 'wrk after as many seconds';
    is $as_published{file}{seconds}, undef, 'and after --duration where a measure says nothing';
    my %quick = measures(plan_of(names => [qw(workers connections)], quick => 1));
    is $quick{workers16}{requests}, 1_000, '--quick: fewer requests';
    is $quick{connections16}{seconds}, 1, 'and seconds';
    %quick = measures(plan_of(names => ['hello'], quick => 1));
    cmp_ok $quick{keepalive16}{rounds}, '<=', 3, 'and rounds, also of a measure that has many';
    my %given = measures(plan_of(names => [qw(workers connections)], duration => 7, rounds => 4, given_rounds => 4));
    is $given{workers16}{requests}, undef, '--duration ends ab, too';
    is $given{workers16}{seconds}, 7, 'in as many seconds';
    is $given{workers16}{rounds}, 4, '--rounds is for all';
};

subtest 'the time that is left follows the pace of what was done' => sub {
    my $plan = plan_of(names => ['hello']);
    my ($part) = $plan->parts;
    my ($first, $last) = @{ $part->{measures} }[0, -1];
    my ($done, $left) = $plan->where($first, 0);
    is $done, 0, 'nothing is done';
    cmp_ok abs($left - $plan->total_seconds), '<', 1, 'all is left';
    ($done, $left) = $plan->where($last, 1);
    cmp_ok abs($done - 1), '<', 1e-9, 'all is done';
    cmp_ok abs($left), '<', 1e-6, 'nothing is left';
    my $half = $plan->measure_seconds($part, $first);
    $plan->{begin} -= 2 * $half;
    (undef, $left) = $plan->where($first, 1);
    my $rest = $plan->total_seconds - $half;
    cmp_ok abs($left / $rest - 2), '<', 0.1, 'twice as slow as planned: twice the rest';
};

subtest 'a tool that is not installed leaves its measures out, by name' => sub {
    local $everything = 0;
    local $ENV{PATH} = "$dir";
    my $plan = plan_of(names => ['workers'], servers => ['floor']);
    my ($part) = $plan->parts;
    no warnings 'redefine';
    local *HydroBench::Servers::find_program = sub { undef };
    is $plan->hindrance($part, $part->{measures}[0]), 'ab is not installed', 'the reason';
    ok scalar(grep { $_ eq 'apache2-utils' } $plan->packages), 'and the package that brings it';
};

subtest 'servers and clients have cores of their own where there are enough' => sub {
    my $on = sub {
        my ($groups, $workers, $threads) = @_;
        my $placement = HydroBench::Machine->placement($workers, $threads, $groups);
        return join ' ', map { defined $_ ? $_ : '-' } @$placement{qw(server client shared)};
    };
    is $on->([[0]], 1), '- - 1', 'one core: nothing is pinned';
    is $on->([[0], [1]], 1), '0 1 0', 'two cores, one worker';
    is $on->([[0], [1]], 8), '- - 1', 'two cores, several workers: all share all';
    is $on->([[0, 1]], 1), '0 1 0', 'two threads of one core are better than one';
    is $on->([map { [$_] } 0 .. 3], 1, 2), '0 1,2 0', 'four cores, one worker, a client of two threads';
    is $on->([map { [$_] } 0 .. 3], 8), '0,1,2 3 0', 'four cores, several workers';
    is $on->([[0, 2], [1, 3]], 1), '0 1 0', 'never two threads of one core';
    is $on->([[0, 2], [1, 3]], 8), '0,2 1,3 0', 'nor for several workers';
    is $on->([map { [$_, $_ + 8] } 0 .. 7], 16, 4), '0,8,1,9,2,10,3,11,4,12,5,13 6,14,7,15 0', 'sixteen threads';
};

subtest 'the options of a measure are for a server and for its variants' => sub {
    my $measure = { workers => 6, options => { starman => '--workers={workers} --max-requests 50000' } };
    my $options = sub { join ' ', HydroBench::Servers->options(HydroBench::Servers->named($_[0]), $measure) };
    is $options->('starman'), '--workers=6 --max-requests 50000', 'its own';
    is $options->('starman-flock'), '--workers=6 --max-requests 50000', 'of a variant';
    is $options->('starman@other'), '--workers=6 --max-requests 50000', 'of another copy';
    like $options->('starlet'), qr/--max-workers=6 --max-keepalive-reqs=10000/, 'what a server has by itself';
    my @command = HydroBench::Servers->command(HydroBench::Servers->named('starman-flock'),
        { root => '/there', port => 1, app => 'hello', options => ['--workers=6'] });
    is "@command", 'starman --listen 127.0.0.1:1 --workers=6 -I/there/bench/lib -MHydroBench::Serialize=flock'
        . ' -a /there/bench/apps/hello.psgi', 'in the command line';
};

subtest 'a server takes part where it can, and else there is a reason' => sub {
    my $why = sub {
        my ($measure, %server) = @_;
        return (HydroBench::Scenario->takes_part({ app => 'hello', tool => 'wrk', %$measure }, { name => 'x', %server }))[1];
    };
    is $why->({}), undef, 'it can';
    is $why->({ app => 'ok' }, apps => ['hello']), 'does not serve that', 'another application';
    is $why->({ workers => 2 }, single => 1), 'has one worker only', 'several workers';
    is $why->({ many => 1 }, blocking => 1), 'serves one connection at a time', 'many connections';
    is $why->({ unframed => 1 }, unframed => 1), 'keeps no connection after an answer without Content-Length', 'no Content-Length';
    is $why->({ tool => 'restarts' }), 'cannot replace its workers', 'graceful restarts';
    is $why->({ servers => ['y'] }), 'not in this measure', 'a measure that names others';
    is $why->({ servers => ['x'] }, name => 'x@old'), undef, 'another copy of one that it names';
    is $why->({ servers => ['y'], essential => 1 }), 'left to a full run', 'among the essentials';
};

subtest 'a server behind nginx is found by the copy of the server itself' => sub {
    is(HydroBench::Servers->copy(HydroBench::Servers->named('gazelle-nginx'), { gazelle => '/copy' }), '/copy', 'copy');
    my @command = HydroBench::Servers->command(HydroBench::Servers->named('gazelle-nginx'),
        { root => '/there', dir => "$dir", port => 81, app => 'hello', copy => '/copy', options => ['--workers=8'] });
    my $socket = qr{\Q$dir\E/gazelle\.sock};
    like "@command",
        qr{behind_nginx\.pl $socket nginx .* -- start_server --path $socket --backlog \d+ -- plackup -s Gazelle --workers=8 -a},
        'its command line has no port';
    my $config = slurp("$dir/nginx-81.conf");
    like $config, qr{listen 127\.0\.0\.1:81 .*proxy_pass http://unix:\Q$dir\E/gazelle\.sock;}s, 'nginx has it';
};

subtest 'NGINX Unit is configured by a file' => sub {
    mkdir "$dir/unit";
    mkdir "$dir/unit/$_" for qw(sbin modules);
    for ('sbin/unitd', 'modules/perl.unit.so') {
        open my $file, '>', "$dir/unit/$_" or die $!;
        close $file;
        chmod 0755, "$dir/unit/$_";
    }
    local $everything = 0;
    my $unit = HydroBench::Servers->named('unit');
    is(HydroBench::Servers->missing($unit, { root => $root, copy => "$dir/unit" }), undef, 'a copy');
    like(HydroBench::Servers->missing($unit, { root => $root, copy => "$dir" }), qr/no unitd/, 'a directory that is none');
    my @command = HydroBench::Servers->command($unit,
        { root => '/there', dir => "$dir", port => 82, app => 'hello', copy => "$dir/unit", workers => 3 });
    my %options = @command[2 .. $#command];
    is $command[0], "$dir/unit/sbin/unitd", 'the program';
    is $options{'--modulesdir'}, "$dir/unit/modules", 'its modules';
    my $config = JSON::PP->new->decode(slurp("$options{'--statedir'}/conf.json"));
    is_deeply $config->{listeners}, { '127.0.0.1:82' => { pass => 'applications/bench' } }, 'where it listens';
    is_deeply $config->{applications}{bench}, { type => 'perl', script => '/there/bench/apps/hello.psgi', processes => 3 },
        'what it runs';
};

subtest 'two programs, one behind the other, end together' => sub {
    plan skip_all => 'reads /proc' unless -e '/proc/self/stat';
    my $socket = "$dir/s.sock";
    my $server = 'use IO::Socket::UNIX; my $l = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die; sleep 1 while 1';
    for my $how ('TERM', 'the end of the first', 'the end of the second') {
        defined(my $pid = fork) or die;
        if (!$pid) {
            exec $^X, "$root/bench/behind_nginx.pl", $socket, $^X, '-e', 'sleep 1 while 1', '--', $^X, '-e', $server, $socket;
        }
        my @tree;
        wait_until(sub { @tree = tree($pid); @tree == 3 });
        is scalar @tree, 3, 'both run';
        my ($first, $second) = sort { $a <=> $b } @tree[1, 2];
        kill TERM => $how eq 'TERM' ? $pid : $how =~ /first/ ? $first : $second;
        ok wait_until(sub { waitpid($pid, POSIX::WNOHANG()) == $pid }), "$how ends it";
        is !!$?, $how ne 'TERM', 'with a status that says whether it should';
        ok !kill(0, $first) && !kill(0, $second), 'and both';
    }
};

sub wait_until {
    my ($condition) = @_;
    for (1 .. 1000) {
        return 1 if $condition->();
        sleep 0.02;
    }
    return 0;
}

SKIP: {
    skip 'Net::Server is not installed', 1 unless eval { require Net::Server::PreForkSimple; 1 };
    subtest 'Starman can be given a lock around accept' => sub {
        require HydroBench::Serialize;
        HydroBench::Serialize->import('flock');
        my $server = bless { server => { serialize => 'none', _BIND => [], sock => [], log_level => 0 } },
            'Net::Server::PreForkSimple';
        eval { $server->post_bind };
        is $server->{server}{serialize}, 'flock', 'whatever it asked for itself';
        ok -e ($server->{server}{lock_file} || ''), 'the lock is there' or diag $@;
        unlink $server->{server}{lock_file} if $server->{server}{lock_file};
    };
}

subtest 'every scenario names only what there is' => sub {
    my %server = map { $_->{name} => 1 } HydroBench::Servers->all;
    my %tool   = map { $_ => 1 } qw(wrk ab h2load latency load restarts idle idle_active syscalls functions);
    for my $name (HydroBench::Scenario->names($root)) {
        my $scenario = HydroBench::Scenario->load($root, $name);
        my %measure  = map { $_->{name} => 1 } @{ $scenario->{measures} };
        is scalar keys %measure, scalar @{ $scenario->{measures} }, "$name: each measure has a name of its own";
        my @measures = @{ $scenario->{measures} };
        my @servers  = map { @{ $_ || [] } } $scenario->{servers}, map { ref $_->{essential} ? $_->{essential} : () } @measures;
        is_deeply [grep { !$server{$_} } @servers, map { keys %{ $_->{options} || {} } } @measures], [], "$name: servers";
        is_deeply [grep { !$tool{$_} } map { $_->{tool} } @measures], [], "$name: tools";
        is_deeply [grep { !-e "$root/bench/apps/$_.psgi" } map { $_->{app} } @measures], [], "$name: applications";
        for (@{ $scenario->{published} || [] }) {
            ok $measure{ $_->{measure} } && $server{ $_->{server} }, "$name: $_->{measure} of $_->{server} was published";
            ok defined $_->{value} && length $_->{source}, 'with its figure and where it is from';
            ok !defined $_->{than} || $server{ $_->{than} }, 'and what it is a ratio to';
            ok !defined $_->{than_measure} || $measure{ $_->{than_measure} }, 'and in which measure';
        }
    }
};

subtest 'the sample of a real run can be read' => sub {
    my $results = HydroBench::Results->load("$root/t/data/bench/sample");
    is $results->{schema}, 2, 'schema';
    my %scenario = map { $_->{name} => $_ } @{ $results->{scenarios} };
    my ($done) = grep { $_->{measure}{name} eq 'keepalive16' } @{ $scenario{hello}{measures} };
    my $own = $done->{results}{hydrofoil};
    cmp_ok $own->{$_}, '>', 0, $_ for qw(req_per_s cpu_us requests);
    cmp_ok $own->{latency}{$_}, '>', 0, "latency $_" for qw(mean p50 p75 p90 p99 p99.9 max);
    is_deeply [sort keys %{ $own->{error_classes} }], [qw(connect read status timeout write)], 'error classes';
    is_deeply [map { $_->{measure}{x} } @{ $scenario{workers}{measures} }], [1, 2, 4], 'a curve';
};

done_testing;
