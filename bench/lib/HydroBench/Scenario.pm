package HydroBench::Scenario;
use strict;
use warnings;
use HydroBench::Stats qw(median ratio);

# Every scenario there is: the files of bench/scenarios, by name.
sub names {
    my ($class, $root) = @_;
    return sort map { m{([^/]+)\.pl$} } glob "$root/bench/scenarios/*.pl";
}

sub load {
    my ($class, $root, $name) = @_;
    my $path = "$root/bench/scenarios/$name.pl";
    my $scenario = do $path or die "$path: " . ($@ || $!) . "\n";
    for my $measure (@{ $scenario->{measures} }) {
        $measure->{app}     ||= 'hello';
        $measure->{tool}    ||= 'wrk';
        $measure->{options} ||= $scenario->{options} if $scenario->{options};
    }
    return bless { %$scenario, name => $name }, $class;
}

# Whether a server takes part in a measure: true, or false and why not.
sub takes_part {
    my ($class, $measure, $server) = @_;
    return (0, 'is no server') if $measure->{tool} eq 'functions';
    return (0, $measure->{essential} ? 'left to a full run' : 'not in this measure')
        if $measure->{servers} && !grep { $server->{name} =~ /^\Q$_\E(?:@|$)/ } @{ $measure->{servers} };
    return (0, 'does not serve that') if $server->{apps} && !grep { $_ eq $measure->{app} } @{ $server->{apps} };
    return (0, 'keeps no connection after an answer without Content-Length') if $measure->{unframed} && $server->{unframed};
    return (0, 'has one worker only') if $server->{single} && ($measure->{workers} || 1) > 1;
    return (0, 'cannot replace its workers') if $measure->{tool} eq 'restarts' && !$server->{reload};
    return (0, 'serves one connection at a time') if $measure->{many} && $server->{blocking};
    return (1, undef);
}

# Holds one target against the results of its measure: { server name => { figure => number, kind => ... } }. It is about
# $subject, or what the target names as `of`. Returns the
# target with `value` (what was found, undef when it cannot be told), `verdict` (pass, miss, or "not measured") and `text`.
sub judge {
    my ($class, $target, $results, $subject) = @_;
    my %judged = (%$target, value => undef, verdict => 'not measured');
    my $figure = $target->{figure};
    my $own    = ($results->{ $target->{of} || $subject } || {})->{$figure};

    my $than = $target->{than};
    if (defined $than && $than eq 'best psgi') {
        my ($best) = sort { ($results->{$b}{$figure} || 0) <=> ($results->{$a}{$figure} || 0) }
            grep { $results->{$_}{kind} eq 'psgi' && !/^\Q$subject\E(?:@|$)/ && defined $results->{$_}{$figure} }
            keys %$results;
        $than = $best;
        $judged{against} = $best;
    }
    $judged{value}
        = !defined $target->{than} ? $own
        : defined $than            ? ratio($own, ($results->{$than} || {})->{$figure})
        :                            undef;

    if (defined $judged{value}) {
        my $holds = defined $target->{at_least}
            ? $judged{value} >= $target->{at_least}
            : $judged{value} <= $target->{at_most};
        $judged{verdict} = $holds ? 'pass' : 'miss';
    }
    return \%judged;
}

# The rounds of one server in one measure, as one result: the median of each figure.
#
# A round that has `worst`, a hash, promises something for every single round: of each of its figures the worst counts, the
# smallest of those per second and of ratios to be reached (_per_s, _part), the largest of all others.
sub summarize {
    my ($class, @rounds) = @_;
    my %result;
    for my $figure (map { keys %{ $_->{worst} || {} } } @rounds) {
        my @sorted = sort { $a <=> $b } grep { defined } map { $_->{worst}{$figure} } @rounds;
        $result{$figure} = $figure =~ /_(?:per_s|part)$/ ? $sorted[0] : $sorted[-1] if @sorted;
    }
    for my $figure (qw(req_per_s cpu_us mb_per_cpu_s bytes_per_connection p50_us p99_us server_cpu client_cpu foreign_cpu
        original_us accelerated_us times rate own_delay_p99_us own_delay_max_us
        switches syscalls sleeps_per_s active_part active_cpu)) {
        my $median = median(map { $_->{$figure} } @rounds);
        $result{$figure} = $median if defined $median;
    }
    my %latency;
    for my $key (map { keys %{ $_->{latency} || {} } } @rounds) {
        my $median = median(map { $_->{latency}{$key} } @rounds);
        $latency{$key} = $median if defined $median;
    }
    $result{latency} = \%latency if %latency;
    return { %result, %{ $class->errors(@rounds) } };
}

# What went wrong in all rounds of a server together: `errors`, by class in `error_classes`, and as error_ratio, the part of
# all requests that came to nothing or to an error: errors / (requests + errors).
sub errors {
    my ($class, @rounds) = @_;
    my %total = (errors => 0, requests => 0);
    my %classes;
    for my $round (@rounds) {
        $total{$_} += $round->{$_} || 0 for qw(errors requests);
        $classes{$_} += $round->{error_classes}{$_} for keys %{ $round->{error_classes} || {} };
    }
    return { errors => $total{errors} } unless %classes;
    return { %total, error_classes => \%classes, error_ratio => ratio($total{errors}, $total{requests} + $total{errors}) };
}

# Figures that were published, each with what was measured here: { measure, figure, server, value, unit, source } becomes the
# same with `measured` (undef when that cannot be told). With `than`, another server, or `than_measure`, another measure, or
# both, value is a ratio. With `peak`, the name of a series, value is the point of it at which the figure is largest; measure
# is then any of its measures. $done is what HydroBench::Run gives.
sub published {
    my ($class, $published, @done) = @_;
    my %results = map { $_->{measure}{name} => $_->{results} } @done;
    my $figure = sub {
        my ($measure, $server, $name) = @_;
        my $result = ($results{$measure} || {})->{$server} || return undef;
        return undef if defined $result->{problem} && $name ne 'errors' && $name ne 'error_ratio';
        return $name =~ /^latency\.(.+)$/ ? ($result->{latency} || {})->{$1} : $result->{$name};
    };
    my @entries;
    for my $entry (@{ $published || [] }) {
        my $measured = $figure->(@$entry{qw(measure server figure)});
        if (defined $entry->{than} || defined $entry->{than_measure}) {
            $measured = ratio($measured, $figure->(
                defined $entry->{than_measure} ? $entry->{than_measure} : $entry->{measure},
                defined $entry->{than}         ? $entry->{than}         : $entry->{server},
                $entry->{figure},
            ));
        }
        elsif (defined $entry->{peak}) {
            my @points = grep { defined $_->[1] } map { [$_->{x}, $figure->($_->{name}, @$entry{qw(server figure)})] }
                grep { ($_->{series} || '') eq $entry->{peak} } map { $_->{measure} } @done;
            my ($best) = sort { $b->[1] <=> $a->[1] } @points;
            $measured = @points > 1 ? $best->[0] : undef;
        }
        push @entries, { %$entry, measured => $measured };
    }
    return @entries;
}

1;
__END__

=head1 NAME

HydroBench::Scenario - what is measured and what is promised

=head1 SYNOPSIS

    my $scenario = HydroBench::Scenario->load($root, 'hello');
    for my $measure (@{ $scenario->{measures} }) { ... }

A scenario is a file in F<bench/scenarios> that returns a hash.

=head1 A SCENARIO

    {
        summary   => 'one line for --list',
        servers   => [qw(hydrofoil starlet)],       # all that are no variant, unless this names some
        options   => { starlet => '--max-workers={workers} ...' },  # instead of a server's own; also in a measure
        measures  => [ { name => 'keepalive16', title => '16 connections', connections => 16 } ],
        targets   => [ { measure => 'keepalive16', figure => 'req_per_s', at_least => 1, than => 'nginx' } ],
        published => [ { measure => 'keepalive16', figure => 'req_per_s', server => 'starlet', value => 14_866,
            unit => 'req/s', source => '2015-11, 12 cores, 10 workers' } ],
    }

Of a measure, only C<name> and C<title> are needed:

=over

=item tool (wrk)

wrk, ab, h2load (each keeps its connections busy), latency (a fixed rate, see L<HydroBench::Load>), load (the groups of
F<bench/load.c>), restarts, idle, idle_active, syscalls, functions.

=item app (hello), path (/), post, body, env

The application in F<bench/apps>, what is asked for, a form to post (see L<HydroBench::Body>), the bytes of the right answer
where they are not those that the application is known for, more environment for the server.

=item connections, threads (1), pipeline (1), keep_alive (of ab: no), requests, duration

Of the client. C<requests> ends ab and h2load after so many; else C<duration>, in seconds, or --duration does.

=item workers (1), options, servers

Of the servers; C<servers> are those that take part, where that is not all of the scenario.

=item quick, quick_requests, essential

Seconds and requests under --quick. Of C<essential> measures C<--quick> without a scenario is made; where this is a list,
of these servers.

=item rounds, min_duration

Where the run's own will not do.

=item many

Servers whose workers serve one connection at a time are left out.

=item unframed

The answers have no Content-Length and the connections are to be kept: servers that cannot do both are left out.

=item tolerates (0)

The part of the answers that may be errors before the figure counts for nothing.

=item series, x

The measure is the point C<x> of a curve.

=item part, rate

Of latency: requests per second, or the part of what the slowest server can do at most.

=item note

What a reader must know.

=back

=cut
