package HydroBench::Load;
use strict;
use warnings;
use File::Path qw(make_path);
use JSON::PP ();
use POSIX ();
use Time::HiRes qw(sleep time);
use HydroBench::Proc qw(busy_seconds tree wait_seconds);

my $WARM_UP = 1;       # seconds of load before anything counts
my $DRAIN   = 2;       # seconds in which the last answers may come, unless the measure says otherwise

# A run in which this program itself was late to send (its own delay, microseconds) says more about who else uses the machine
# than about the server: it is made again, at most so many times, and the one with the smallest own delay counts. The choice
# looks at nothing else.
my ($LATE_P99, $LATE_MAX, $REPEATS) = (2_000, 20_000, 2);

# What goes wrong, by the names that other tools have for it.
my %CLASSES = (
    connect_errors => 'connect', resets => 'read', short_answers => 'short', status_errors => 'status', twice => 'twice',
    mismatched => 'mismatched', unanswered => 'timeout',
);
my @PERCENTS = qw(p50 p75 p90 p99 p99.9 max mean);

# Builds bench/load.c into build/bench where that is not done yet. Returns the program, or undef.
sub build {
    my ($class, $root, $cc) = @_;
    my ($source, $program) = ("$root/bench/load.c", "$root/build/bench/load");
    return $program if -e $program && -M $program <= -M $source;
    return undef unless $cc;
    make_path("$root/build/bench");
    my $temporary = "$program.$$";
    if (system(split(' ', $cc), qw(-std=c11 -O2 -o), $temporary, $source, '-lm') != 0) {
        unlink $temporary;
        return undef;
    }
    rename $temporary, $program or return undef;
    return $program;
}

# The command line, as a list. $options: program, port, duration, warm_up, drain, seed, records (a file, optional), groups: a
# list of hashes with the keys of a group of bench/load.c, where path and service may be lists.
sub command {
    my ($class, %options) = @_;
    my @groups;
    for my $group (@{ $options{groups} }) {
        push @groups, join ',', map {
            my $value = $group->{$_};
            "$_=" . (ref $value ? join('|', @$value) : $value);
        } sort keys %$group;
    }
    return (
        $options{program}, (map { defined $options{$_} ? ('--' . ($_ =~ tr/_/-/r) => $options{$_}) : () }
            qw(port warm_up duration drain seed records)),
        @groups,
    );
}

# What the program printed, as a hash; undef when there is no result in it.
sub parse {
    my ($class, $text) = @_;
    my ($json) = $text =~ /^(\{.*\})$/m or return undef;
    return eval { JSON::PP->new->decode($json) };
}

# The figures of a result that promises are made about: those of each group under its name (fast_p99_us), and totals.
sub figures {
    my ($class, $result) = @_;
    my %figures = (own_delay_max_us => $result->{own_delay}{max_us}, own_delay_p99_us => $result->{own_delay}{p99_us});
    for my $group (@{ $result->{groups} }) {
        $figures{"$group->{name}_$_"} = $group->{$_} for (map { "${_}_us" } @PERCENTS), qw(per_s starved);
        $figures{$_} += $group->{$_} for qw(count answered failed unanswered twice resets status_errors);
        $figures{errors} += $group->{$_} for keys %CLASSES;
        next unless $group->{ideal};
        $figures{"$group->{name}_${_}_to_ideal"} = $group->{"${_}_us"} / $group->{ideal}{"${_}_us"} for qw(mean p99);
    }
    return \%figures;
}

# One run against a server, as HydroBench::Run wants it.
sub round {
    my ($class, $run, $server, $measure, $round) = @_;
    my $repeats = defined $run->{repeats} ? $run->{repeats} : $REPEATS;
    my @runs;
    for (0 .. $repeats) {
        my $run_of_it = $class->_run($run, $server, $measure, $round, sub { }) or return undef;
        push @runs, $run_of_it;
        my $figures = $run_of_it->{worst};
        last if $figures->{own_delay_p99_us} <= $LATE_P99 && $figures->{own_delay_max_us} <= $LATE_MAX;
    }
    my ($best) = sort { $a->{worst}{own_delay_p99_us} <=> $b->{worst}{own_delay_p99_us} } @runs;
    return { %$best, repeated => $#runs };
}

# A fixed rate that is the same for every server: $measure->{rate} requests per second, or where it has `part` instead, that
# part of what the slowest server can do at most, which wrk tells in a second each. Of a measure like this the medians of the
# rounds count, as with other clients, and not the worst.
sub prepare {
    my ($class, $run, $servers, $measure) = @_;
    if (!$measure->{rate}) {
        my %wrk = (%$measure, tool => 'wrk', seconds => 1, min_duration => 0);
        my ($slowest) = sort { $a <=> $b } map {
            my $result = HydroBench::ClosedLoop->round($run, $_, \%wrk, 2);
            $result && !defined $_->problem ? $result->{req_per_s} : ();
        } @$servers;
        return unless $slowest;
        $measure->{rate} = int($slowest * $measure->{part}) || 1;
    }
    $measure->{groups} = [{
        name => 'all', path => $measure->{path} || '/', connections => $measure->{connections}, rate => $measure->{rate},
    }];
    return;
}

sub latency {
    my ($class, @arguments) = @_;
    my $result = $class->round(@arguments) or return undef;
    my $worst  = delete $result->{worst};
    my $server = $arguments[1];
    if ($worst->{status_errors} || !$worst->{answered}) {
        $server->fail(!$worst->{answered} ? 'answered nothing'
            : "answered $worst->{status_errors} of $worst->{answered} with an error");
    }
    return { %$result, %$worst, req_per_s => $result->{requests} / $result->{result}{seconds} };
}

# The same while the server replaces its workers once a second.
sub restarts {
    my ($class, $run, $server, $measure, $round) = @_;
    my %seen = map { $_ => 1 } tree($server->{pid});
    my $times = $run->duration($measure);
    my ($pid, $pipe);
    my $result = $class->_run($run, $server, $measure, $round, sub {
        defined($pid = open $pipe, '-|') or die "cannot fork: $!\n";
        return if $pid;
        $SIG{INT} = $SIG{TERM} = 'DEFAULT';
        sleep 0.2 + $WARM_UP;
        for (1 .. $times) {
            kill $server->{reload}, $server->{pid};
            sleep 1;
            syswrite STDOUT, "$_\n" for tree($server->{pid});
        }
        POSIX::_exit(0);
    });
    if ($pipe) {
        kill TERM => $pid unless $result;
        while (my $line = <$pipe>) { chomp $line; $seen{$line}++ }
        close $pipe;
    }
    $result->{worst}{workers_part} = (keys(%seen) - 1) / (($times + 1) * $measure->{workers}) if $result;
    return $result;
}

sub _run {
    my ($class, $run, $server, $measure, $round, $meanwhile) = @_;
    my @command = ($run->pin_client($measure), $class->command(
        program  => "$run->{root}/build/bench/load",
        port     => $server->port,
        warm_up  => $WARM_UP,
        duration => $run->duration($measure),
        drain    => $measure->{drain} || $DRAIN,
        seed     => $round,
        groups   => $measure->{groups},
        ($ENV{HF_BENCH_RECORDS} ? (records => "$ENV{HF_BENCH_RECORDS}-$measure->{name}-$server->{name}-$round") : ()),
    ));
    my $started = time;
    my ($busy, $cpu) = (busy_seconds(), $server->cpu_seconds);
    my $client = _children_seconds();
    my $wait   = wait_seconds($server->{pid});
    $meanwhile->();
    my $text = HydroBench::Run::output(\@command, $WARM_UP + $run->duration($measure) + ($measure->{drain} || $DRAIN) + 15);
    my $raw = $run->raw($server, $measure, \@command, $text);
    return undef unless $server->alive;
    my $seconds = time - $started;
    my $result  = $class->parse($text);
    if (!$result) {
        $server->fail('load gave no result: ' . substr $text, 0, 200);
        return undef;
    }
    my $figures = $class->figures($result);
    $cpu = $server->cpu_seconds - $cpu;
    my $foreign = busy_seconds() - $busy - $cpu - (_children_seconds() - $client);
    my ($main) = grep { $_->{name} eq 'fast' } @{ $result->{groups} };
    $main ||= $result->{groups}[-1];
    my $counted = $run->duration($measure) / ($WARM_UP + $run->duration($measure));    # of the time that costs CPU
    my %classes;
    for my $group (@{ $result->{groups} }) {
        $classes{ $CLASSES{$_} } += $group->{$_} for keys %CLASSES;
    }
    return {
        worst         => $figures,
        requests      => $figures->{answered} - $figures->{status_errors},
        errors        => $figures->{errors},
        error_classes => \%classes,
        latency       => { map { $_ => $main->{"${_}_us"} } @PERCENTS },
        ($figures->{answered} ? (cpu_us => $cpu * $counted / $figures->{answered} * 1e6) : ()),
        cpu_seconds   => $cpu,
        foreign_cpu   => $foreign > 0 ? $foreign / $seconds : 0,
        server_wait   => wait_seconds($server->{pid}) - $wait,    # seconds
        command       => join(' ', @command),
        raw           => $raw,
        result        => $result,
    };
}

sub _children_seconds {
    my (undef, undef, $user, $system) = times;
    return $user + $system;
}

1;
__END__

=head1 NAME

HydroBench::Load - the load generator bench/load.c: building it, its command line, what it prints, one run of it

=head1 SYNOPSIS

    my $program = HydroBench::Load->build($root, 'cc') or die "bench/load.c does not compile\n";
    my @command = HydroBench::Load->command(program => $program, port => $port, duration => 10,
        groups => [{ name => 'fast', connections => 28, every => 20 }]);
    my $result  = HydroBench::Load->parse($output) or die "no result";
    my $figures = HydroBench::Load->figures($result);
    print "$figures->{fast_p99_us} us, $figures->{unanswered} without an answer\n";

With C<HF_BENCH_RECORDS> in the environment, the beginning of a file's name, every run writes each request there.

=cut
