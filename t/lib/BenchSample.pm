package BenchSample;
use strict;
use warnings;
use Exporter 'import';
use HydroBench::Scenario;
use HydroBench::Stats qw(median spread);

our @EXPORT_OK = qw(sample measure scenario_sample);

# Made-up results of script/bench, the same each time: what its reports are tested with. Options: seed, and factor, a
# function of (measure, server, figure) that says by what a figure is multiplied.

my $state;

# About normal, with a mean of 1 and the given deviation.
sub _noise {
    my ($deviation) = @_;
    my $sum = 0;
    for (1 .. 12) {
        $state = ($state * 1_103_515_245 + 12_345) & 0x7fffffff;
        $sum += $state / 0x7fffffff;
    }
    return 1 + ($sum - 6) * $deviation;
}

# Requests per second with 16 connections; kind.
my %SERVERS = (
    floor     => [98_000, 'floor'],
    nginx     => [91_000, 'web'],
    hydrofoil => [93_000, 'psgi'],
    feersum   => [64_000, 'psgi'],
    gazelle   => [16_500, 'psgi'],
    starlet   => [8_400,  'psgi'],
    starman   => [6_300,  'psgi'],
    monoceros => [7_900,  'psgi'],
    twiggy    => [9_800,  'psgi'],
    uwsgi     => [14_200, 'psgi'],
    unit      => [35_000, 'psgi'],
    cacilheiro => [42_000, 'psgi'],
);
my @USUAL = qw(floor nginx hydrofoil feersum gazelle starlet starman);

# One measure with its results. $options: name, connections, servers (names), factor, rounds (5), measure (more keys of it),
# req_per_s (a function of the server's name).
sub measure {
    my (%o) = @_;
    my %results;
    my $factor = $o{factor} || sub {1};
    for my $name (@{ $o{servers} || [sort @USUAL] }) {
        my ($base) = $name =~ /^(\w+)/;
        my ($speed, $kind) = @{ $SERVERS{$name} || [$SERVERS{$base} ? 0.8 * $SERVERS{$base}[0] : 5_000, 'psgi'] };
        $kind  = 'accelerated' if $name =~ /-accelerated$/;
        $speed = $o{req_per_s}->($name) if $o{req_per_s};
        my @rounds;
        for my $round (1 .. $o{rounds} || 5) {
            my $req_per_s = $speed * _noise(0.01) * $factor->($o{name}, $name, 'req_per_s');
            my $cpu_us    = 9.5e5 / $speed * _noise(0.01) * $factor->($o{name}, $name, 'cpu_us');
            my $mean      = ($o{connections} || 16) / $speed * 1e6;
            my $requests  = int 5 * $req_per_s;
            my $tail      = $factor->($o{name}, $name, 'latency');
            push @rounds, {
                req_per_s   => $req_per_s, cpu_us => $cpu_us, requests => $requests, seconds => 5,
                latency     => {
                    mean => $mean * _noise(0.02) * $tail, p50 => 0.9 * $mean * _noise(0.02) * $tail,
                    p75 => 1.1 * $mean * _noise(0.02), p90 => 1.4 * $mean * _noise(0.02), p99 => 4 * $mean * _noise(0.05) * $tail,
                    'p99.9' => 15 * $mean * _noise(0.1) * $tail, max => 60 * $mean * _noise(0.2),
                },
                errors      => 0,
                error_classes => { connect => 0, read => 0, write => 0, timeout => 0, status => 0 },
                server_cpu  => 0.97, client_cpu => 0.8, foreign_cpu => 0.01,
                command     => "taskset -c 1 wrk -t 1 -c @{[ $o{connections} || 16 ]} -d 5s --latency http://127.0.0.1:5000/",
            };
        }
        my $summary = HydroBench::Scenario->summarize(@rounds);
        my %latency = map { my $key = $_; $key => median(map { $_->{latency}{$key} } @rounds) } keys %{ $rounds[0]{latency} };
        $results{$name} = {
            %$summary, kind => $kind, latency => \%latency, p50_us => $latency{p50}, p99_us => $latency{p99}, error_ratio => 0,
            spread => spread(map { $_->{req_per_s} } @rounds), keep_alive => $name eq 'gazelle' ? 0 : 1, rounds => \@rounds,
            command => "taskset -c 0 $name --host 127.0.0.1 --port 5000 --workers 1 -a bench/apps/hello.psgi", log => '',
        };
    }
    return {
        measure  => {
            name => $o{name}, title => $o{title} || $o{name}, tool => 'wrk', app => 'hello',
            (defined $o{connections} ? (connections => $o{connections}) : ()), %{ $o{measure} || {} },
        },
        results  => \%results,
        left_out => $o{left_out} || {},
    };
}

sub sample {
    my (%o) = @_;
    $state = $o{seed} || 1;
    my %usual = (factor => $o{factor}, rounds => $o{rounds});
    my %single = map { $_ => 'serves one connection at a time' } qw(starlet starman gazelle);
    my @many = qw(floor nginx hydrofoil feersum);
    my @hello = (
        measure(%usual, name => 'keepalive16', title => '16 keep-alive connections', connections => 16,
            measure => { series => 'connections', x => 16 }),
        measure(%usual, name => 'keepalive256', title => '256 keep-alive connections', connections => 256, servers => \@many,
            left_out => \%single, measure => { series => 'connections', x => 256 }),
        measure(%usual, name => 'keepalive8192', title => '8,192 keep-alive connections', connections => 8192, servers => \@many,
            left_out => \%single, measure => { series => 'connections', x => 8192 },
            req_per_s => sub { 0.6 * $SERVERS{ $_[0] }[0] }),
    );
    my $failed = $hello[2]{results}{feersum};
    $_->{errors} = 600, $_->{error_classes}{timeout} = 600 for @{ $failed->{rounds} };
    @$failed{qw(errors error_ratio)} = (3000, 0.003);
    $hello[0]{results}{uwsgi} = {
        kind => 'psgi', problem => 'died (exit status 1): no python application found', errors => 0, rounds => [],
        keep_alive => undef, spread => undef, command => 'uwsgi --psgi bench/apps/hello.psgi',
    };

    my %scaling = (starman => sub { $_[0] <= 6 ? 0.9 * $_[0] : 5.4 - 0.18 * ($_[0] - 6) }, starlet => sub { 0.93 * $_[0]**0.95 },
        hydrofoil => sub { $_[0]**0.98 });
    my @workers = map {
        my $workers = $_;
        measure(%usual, name => "workers$workers", title => "$workers workers, 30 connections", connections => 30,
            servers => [qw(hydrofoil starlet starman)],
            measure => { tool => 'ab', series => 'workers', x => $workers, workers => $workers },
            req_per_s => sub { 3_000 * $scaling{ $_[0] }->($workers) });
    } 1, 2, 4, 6, 8, 12, 16;

    my @targets = map { HydroBench::Scenario->judge($_, $hello[0]{results}, 'hydrofoil') } (
        { measure => 'keepalive16', figure => 'req_per_s', at_least => 1.00, than => 'nginx' },
        { measure => 'keepalive16', figure => 'cpu_us',    at_most  => 1.30, than => 'floor' },
        { measure => 'keepalive16', figure => 'req_per_s', at_least => 1.35, than => 'best psgi' },
        { measure => 'keepalive16', figure => 'req_per_s', at_least => 2.00, than => 'nginx' },
        { measure => 'keepalive16', figure => 'switches',  at_most  => 1 },
    );
    my $source = 'the README of Cacilheiro, 2016';
    return {
        schema => 2, time => '2026-01-02T03:04:05Z', command => 'script/bench all', rounds => $o{rounds} || 5, duration => 5,
        pinned => { server => 0, client => 1 },
        machine => { cores => 2, cpu => 'Example CPU', kernel => '6.1.0', memory_mib => 8192, perl => '5.36.0', load => 0.1,
            system => 'Debian GNU/Linux 12', open_files => 20_000, commit => '0123456789abcdef0123', changed => 0 },
        versions => {
            hydrofoil => "hydrofoil 0.01\nengine poller epoll", nginx => 'nginx version: nginx/1.22.1', wrk => 'wrk 4.1.0',
        },
        skipped  => { cacilheiro => 'no built copy given (--copy cacilheiro=DIR)' },
        scenarios => [
            { name => 'hello', summary => 'hello world over keep-alive connections', measures => \@hello, targets => \@targets,
                published => [
                    map {
                        { measure => 'keepalive16', figure => 'req_per_s', server => $_->[0], value => $_->[1], unit => 'req/s',
                            source => $source }
                    } [cacilheiro => 148_948], [starlet => 101_650], [gazelle => 81_978]
                ] },
            { name => 'workers', summary => 'how throughput grows with workers', measures => \@workers, targets => [],
                published => [] },
        ],
    };
}

# A scenario of bench/scenarios (HydroBench::Scenario) with results that nobody measured, for whatever it measures.
sub scenario_sample {
    my ($scenario) = @_;
    $state = 7;
    my @names = @{ $scenario->{servers} || [sort keys %SERVERS] };
    my @done  = map { _made_up($_, @names) } @{ $scenario->{measures} };
    my %results = map { $_->{measure}{name} => $_->{results} } @done;
    return {
        name => $scenario->{name}, summary => $scenario->{summary}, measures => \@done,
        targets   => [map { HydroBench::Scenario->judge($_, $results{ $_->{measure} }, 'hydrofoil') } @{ $scenario->{targets} || [] }],
        published => [HydroBench::Scenario->published($scenario->{published}, @done)],
    };
}

sub _made_up {
    my ($measure, @names) = @_;
    my $tool = $measure->{tool};
    @names = ('parse_urlencoded', 'Request param', 'upload of 1 MB') if $tool eq 'functions';
    @names = grep { !/^(?:starman|starlet|gazelle|monoceros|uwsgi)/ } @names if $measure->{many};
    my $x    = $measure->{x} || 1;
    my $done = measure(name => $measure->{name}, title => $measure->{title}, connections => $measure->{connections}, servers => \@names,
        measure => $measure, ($measure->{series} || '') eq 'workers'
        ? (req_per_s => sub { 3_000 * ($_[0] =~ /starman/ && $x > 6 ? 5 - 0.1 * $x : $x**0.9) }) : ());
    return $done if $tool =~ /^(?:wrk|ab|h2load|latency)$/ && !$measure->{file_bytes} && !$measure->{switches};
    my @groups = map { $_->{name} } @{ $measure->{groups} || [] };
    for my $name (@names) {
        my $result = $done->{results}{$name};
        my $slow   = 90_000 / $result->{req_per_s};
        for my $round (@{ $result->{rounds} }) {
            %$round = (%$round, mb_per_cpu_s => 2_000 / $slow, switches => 0.01 * $slow, bytes_per_connection => 190 * $slow,
                syscalls => 2 * $slow, sleeps_per_s => 100, active_part => 1 / $slow, times => 9, original_us => 30, accelerated_us => 3);
            next unless $tool =~ /^(?:load|restarts|idle_active)$/;
            $round->{worst} = {
                (map { my $group = $_; map { ("${group}_${_}_us" => 900 * $slow * _noise(0.1)) } qw(mean p50 p90 p99 p99.9 max) } @groups),
                (map { ("${_}_per_s" => 20 * _noise(0.05), "${_}_mean_to_ideal" => $slow, "${_}_p99_to_ideal" => 1.1 * $slow) } @groups),
                (map { $_ => 0 } qw(failed resets twice unanswered idle_unanswered errors)), each_bytes => 190, workers_part => 1,
            };
        }
        $done->{results}{$name} = {
            %$result, %{ HydroBench::Scenario->summarize(@{ $result->{rounds} }) }, kind => $tool eq 'functions' ? 'function' : $result->{kind},
        };
    }
    return $done;
}

1;
