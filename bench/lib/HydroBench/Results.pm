package HydroBench::Results;
use strict;
use warnings;
use JSON::PP ();
use HydroBench::Format qw(thousands significant duration duration_tick percent percent_tick times bytes short);
use HydroBench::Report;
use HydroBench::Stats qw(median ratio);

# What can be told of a figure: [title, what it is (with its unit), unit at the axis, 1 (more is better) or -1, format,
# format at the axis].
my %FIGURES = (
    req_per_s      => ['Throughput',     'requests per second', 'requests per second', 1, \&thousands],
    cpu_us         => ['Server CPU',     'CPU time of the server per request', 'time', -1, \&duration, \&duration_tick],
    'latency.mean' => ['Mean latency',   'time until the answer is there', 'time', -1, \&duration, \&duration_tick],
    'latency.p50'  => ['Median latency', 'half of the answers are there', 'time', -1, \&duration, \&duration_tick],
    'latency.p99'  => ['99th percentile', '99% of the answers are there', 'time', -1, \&duration, \&duration_tick],
    'latency.p75'  => ['75th percentile', '75% of the answers are there', 'time', -1, \&duration, \&duration_tick],
    'latency.p90'  => ['90th percentile', '90% of the answers are there', 'time', -1, \&duration, \&duration_tick],
    'latency.p99.9' => ['99.9th percentile', '999 of 1,000 answers are there', 'time', -1, \&duration, \&duration_tick],
    'latency.max'  => ['Slowest answer', 'the longest wait of all', 'time', -1, \&duration, \&duration_tick],
    error_ratio    => ['Errors',         'part of all requests', 'part of all requests', -1, \&percent, \&percent_tick],
    mb_per_cpu_s   => ['File throughput', 'MB for each second of server CPU', 'MB per CPU second', 1, \&thousands],
    bytes_per_connection => ['Memory',   'bytes per idle connection', 'bytes', -1, \&bytes],
    each_bytes     => ['Memory',         'bytes per idle connection', 'bytes', -1, \&bytes],
    times          => ['Speed',          'times the original', 'times the original', 1, \&times],
    fast_p99_us    => ['Fast pages',     '99th percentile of their latency', 'time', -1, \&duration, \&duration_tick],
    fast_max_us    => ['Slowest fast page', 'the longest wait of all', 'time', -1, \&duration, \&duration_tick],
    slow_per_s     => ['Slow pages',     'answered per second', 'pages per second', 1, \&significant],
    mix_mean_to_ideal => ['Mean latency', 'times that of the ideal queue', 'times the ideal', -1, \&times],
    mix_p99_to_ideal  => ['99th percentile', 'times that of the ideal queue', 'times the ideal', -1, \&times],
    active_part    => ['Throughput beside idle connections', 'times that without them', 'times that without', 1, \&times],
    active_cpu     => ['Server CPU beside idle connections', 'times that without them', 'times that without', -1, \&times],
    switches       => ['Context switches', 'per request', 'per request', -1, \&significant],
    syscalls       => ['System calls',   'per request', 'per request', -1, \&significant],
    sleeps_per_s   => ['Sleeps',         'per second', 'per second', -1, \&thousands],
    unanswered     => ['Unanswered',     'requests without an answer', 'requests', -1, \&thousands],
    failed         => ['Failed',         'requests that failed', 'requests', -1, \&thousands],
    resets         => ['Resets',         'connections reset or closed over a request', 'connections', -1, \&thousands],
    errors         => ['Errors',         'requests that went wrong', 'requests', -1, \&thousands],
);

my @PERCENTILES = qw(p50 p75 p90 p99 p99.9);

# The results of one folder or file, or of several as one: scenarios of later ones are added, and the first tells of the
# machine. Dies, saying what is wrong, when there is nothing to read.
sub load {
    my ($class, @paths) = @_;
    my $self;
    for my $path (@paths) {
        my $one = $class->_read($path);
        if (!$self) { $self = $one; next }
        push @{ $self->{others} }, $one;
        push @{ $self->{scenarios} }, @{ $one->{scenarios} };
        for my $key (qw(skipped versions)) {
            $self->{$key}{$_} = $one->{$key}{$_} for grep { !defined $self->{$key}{$_} } keys %{ $one->{$key} };
        }
    }
    return $self->_name_sections;
}

# Gives each scenario an id of its own, also when it was run twice.
sub _name_sections {
    my ($self) = @_;
    my %seen;
    for my $scenario (@{ $self->{scenarios} }) {
        (my $id = $scenario->{name}) =~ s/[^\w.-]+/-/g;
        $scenario->{id} = $id . ($seen{$id}++ ? "-$seen{$id}" : '');
    }
    return $self;
}

sub _read {
    my ($class, $path) = @_;
    my $file = -d $path ? "$path/results.json" : $path;
    open my $in, '<:raw', $file or die "$file: $!\n";
    my $text = do { local $/; <$in> };
    my $results = eval { JSON::PP->new->utf8->decode($text) };
    die "$file is not JSON: " . ($@ =~ s/ at \S+ line \d+\.?\n\z//r) . "\n" unless $results;
    return $class->from_hash($results, -d $path ? $path : undef);
}

# The same from what results.json holds. $dir is only told.
sub from_hash {
    my ($class, $hash, $dir) = @_;
    die "These are no results of script/bench.\n"
        unless ref $hash eq 'HASH' && (ref $hash->{scenarios} eq 'ARRAY' || ref $hash->{measures} eq 'ARRAY');
    my $schema = $hash->{schema} || 1;
    die "These results have schema $schema, which a later script/bench wrote. This one reads 1 and 2.\n" if $schema > 2;
    my $self = bless { %$hash, schema => $schema, dir => $dir, others => [] }, $class;
    $self->{scenarios} = [{ name => $hash->{scenario}, map { $_ => $hash->{$_} } qw(summary measures targets published) }]
        unless $hash->{scenarios};
    $self->{$_} ||= {} for qw(machine versions skipped pinned);
    for my $scenario (@{ $self->{scenarios} }) {
        $scenario->{$_} ||= [] for qw(measures targets published);
        $scenario->{name} = 'unnamed' unless defined $scenario->{name};
        $scenario->{summary} = '' unless defined $scenario->{summary};
        for my $done (@{ $scenario->{measures} }) {
            $done->{$_} ||= {} for qw(results left_out);
            $done->{measure}{title} = $done->{measure}{name} unless defined $done->{measure}{title};
            $done->{measure}{tool} ||= 'wrk';
        }
    }
    return $self->_name_sections;
}

# What a figure is: a hash of name, title, what, unit, better (1 or -1), format and tick (functions of a number). Figures
# nobody described are told by the end of their name.
sub figure {
    my ($class, $name) = @_;
    my ($title, $what, $unit, $better, $format, $tick) = @{ $FIGURES{$name} || [] };
    if (!defined $title) {
        ($title = ucfirst $name) =~ tr/_./  /;
        $title =~ s/ us$//;
        $what   = '';
        $better = $name =~ /(?:_per_s|_part)$/ || $name =~ /^times/ ? 1 : -1;
        ($unit, $format, $tick)
            = $name =~ /_us$|^latency\./       ? ('time', \&duration, \&duration_tick)
            : $name =~ /ratio$/                ? ('part', \&percent, \&percent_tick)
            : $name =~ /bytes/                 ? ('bytes', \&bytes)
            :                                    ('', \&significant);
    }
    return {
        name => $name, title => $title, what => $what, unit => $unit, better => $better, format => $format,
        tick => $tick || \&short,
    };
}

# A server's figure: what its rounds come to; undef when it has none. latency.NAME is a latency in microseconds.
sub value {
    my ($class, $result, $figure) = @_;
    return undef if !$result || defined $result->{problem} && $figure !~ /^error/;
    return $result->{$figure} if defined $result->{$figure};
    if (my ($name) = $figure =~ /^latency\.(.+)/) {
        return $result->{latency}{$name} if ref $result->{latency} && defined $result->{latency}{$name};
        return median($class->rounds($result, $figure));
    }
    if ($figure eq 'error_ratio') {
        my ($errors, $all) = (0, 0);
        for my $round (@{ $result->{rounds} || [] }) {
            next unless defined $round->{requests};
            $errors += $round->{errors} || 0;
            $all    += $round->{requests} + ($round->{errors} || 0) - ($round->{status_errors} || 0);
        }
        return ratio($errors, $all);
    }
    return undef;
}

# The same of each round, in order, with undef where a round has none.
sub rounds {
    my ($class, $result, $figure) = @_;
    my ($latency) = $figure =~ /^latency\.(.+)/;
    my @values;
    for my $round (@{ $result->{rounds} || [] }) {
        my $value = $latency ? ($round->{latency} || {})->{$latency} : $round->{$figure};
        $value = $round->{worst}{$figure} if !defined $value && $round->{worst};
        $value = ratio($round->{errors} || 0, $round->{requests} + ($round->{errors} || 0) - ($round->{status_errors} || 0))
            if !defined $value && $figure eq 'error_ratio' && defined $round->{requests};
        push @values, $value;
    }
    return @values;
}

# The smallest and the largest of the rounds; nothing with fewer than two.
sub range {
    my ($class, $result, $figure) = @_;
    my @sorted = sort { $a <=> $b } grep { defined } $class->rounds($result, $figure);
    return @sorted > 1 ? @sorted[0, -1] : ();
}

# A figure of $name as times that of $base, both names in $results: (ratio, lowest, highest), the latter two of rounds that
# were made one after the other; fewer values when they cannot be told.
sub ratio_of {
    my ($class, $results, $name, $base, $figure) = @_;
    my ($own, $other) = @$results{$name, $base};
    my $ratio = ratio($class->value($own, $figure), $class->value($other, $figure));
    return () unless defined $ratio;
    my @own   = $class->rounds($own, $figure);
    my @other = $class->rounds($other, $figure);
    return ($ratio) if @own < 2 || @own != @other || $name eq $base;
    my @ratios = sort { $a <=> $b } grep { defined } map { ratio($own[$_], $other[$_]) } 0 .. $#own;
    return @ratios > 1 ? ($ratio, @ratios[0, -1]) : ($ratio);
}

# Which other PSGI server does best: that is what a promise means by it. undef when there is none.
sub best_other {
    my ($class, $results, $figure) = @_;
    my $better = $class->figure($figure)->{better};
    my %value  = map { $_ => $class->value($results->{$_}, $figure) }
        grep { ($results->{$_}{kind} || '') eq 'psgi' && !/^hydrofoil\b/ } keys %$results;
    my @sorted = sort { $better * ($value{$b} <=> $value{$a}) || $a cmp $b } grep { defined $value{$_} } keys %value;
    return $sorted[0];
}

# Percentiles of latency: [['p50', microseconds], ...] of what there is. $group is a group of the load generator, or undef.
sub percentiles {
    my ($class, $result, $group) = @_;
    return map { defined $_->[1] ? $_ : () }
        map { [$_, $class->value($result, defined $group ? "${group}_${_}_us" : "latency.$_")] } @PERCENTILES;
}

# The measures of a scenario that belong into one chart, in the order of the scenario: a list of { axis, unit, measures }.
# axis is "connections" or "workers", or whatever a measure says as its series, and undef for a measure that stands alone.
sub families {
    my ($class, $scenario) = @_;
    my (@families, %family);
    my $json = JSON::PP->new->canonical;
    for my $done (@{ $scenario->{measures} }) {
        my $measure = $done->{measure};
        my ($axis, $x) = @$measure{qw(series x)};
        my @alike = @$measure{qw(tool app accelerated)};
        if (!defined $axis && $measure->{tool} =~ /^(?:wrk|ab|h2load)$/ && defined $measure->{connections}) {
            ($axis, $x) = ('connections', $measure->{connections});
            push @alike, @$measure{qw(path pipeline file_bytes post env keep_alive workers)};
        }
        if (!defined $axis) {
            push @families, { measures => [$done] };
            next;
        }
        my $key = join "\0", map { defined $_ ? ref $_ ? $json->encode($_) : $_ : '' } $axis, @alike;
        push @families, $family{$key} = { axis => $axis, measures => [] }
            if !$family{$key} || grep { $_->{x} == $x } @{ $family{$key}{measures} };
        push @{ $family{$key}{measures} }, { %$done, x => $x };
    }
    for my $family (@families) {
        delete $family->{axis} if @{ $family->{measures} } < 2;
        next unless defined $family->{axis};
        $family->{measures} = [sort { $a->{x} <=> $b->{x} } @{ $family->{measures} }];
    }
    return @families;
}

# The names of the servers in a family, the best in its first measure first.
sub servers {
    my ($class, $family) = @_;
    my (@names, %seen);
    for my $done (@{ $family->{measures} }) {
        my (undef, undef, $order) = HydroBench::Report->layout($done);
        push @names, grep { !$seen{$_}++ } @$order;
    }
    return @names;
}

# A command line without what changes from run to run or from machine to machine: ports and the folders above the project's.
sub tidy_command {
    my ($class, $command) = @_;
    return '' unless defined $command;
    $command =~ s{(?<![^\s=|])/(?:usr/)?(?:local/)?s?bin/}{}g;
    $command =~ s{(?<![^\s=I])/[^\s:]*?/(?=(?:blib|bin|bench|build|lib)/)}{}g;
    $command =~ s{(?<![^\s=])/tmp/\S*/(?=[^\s/])}{}g;
    $command =~ s{(?<![^\s=])/tmp/\S+}{DIR}g;
    $command =~ s{-\d{4,5}(?=\.conf)}{}g;
    $command =~ s{(127\.0\.0\.1:|localhost:|--port[ =])\d+}{$1PORT}g;
    $command =~ s{(/floor) \d+}{$1 PORT};
    return $command;
}

# What is known to make figures doubtful, in sentences.
sub warnings {
    my ($self) = @_;
    my $machine = $self->{machine};
    my @warnings;
    push @warnings, "There was a single core: the client's work is part of every figure." if ($machine->{cores} || 2) < 2;
    push @warnings, sprintf 'The machine was busy with something else when this began (load %.1f): trust CPU per request more'
        . ' than requests per second.', $machine->{load} if ($machine->{load} || 0) > 0.7;
    my ($disturbed, $all) = (0, 0);
    for my $done (map { @{ $_->{measures} } } @{ $self->{scenarios} }) {
        for my $result (values %{ $done->{results} }) {
            next unless defined $result->{foreign_cpu};
            $all++;
            $disturbed++ if $result->{foreign_cpu} > 0.1;
        }
    }
    push @warnings, "Other processes used more than a tenth of a core during $disturbed of $all results; these are marked as"
        . ' disturbed.' if $disturbed;
    push @warnings, 'The commit had changes that were not committed.' if $machine->{changed};
    for my $other (@{ $self->{others} }) {
        push @warnings, "This puts several runs together, and they differ in $_->[0]: $_->[1]; $_->[2]."
            for grep { $_->[0] !~ /^(?:rounds|seconds|pinning)/ } $self->differences($other);
    }
    return @warnings;
}

# In what two results differ that should be alike to compare them: [what, here, there]...
sub differences {
    my ($self, $other) = @_;
    my @differences;
    my @pairs = map { [$_->[0], $self->{machine}{ $_->[1] }, $other->{machine}{ $_->[1] }] }
        ['cores', 'cores'], ['CPU', 'cpu'], ['memory', 'memory_mib'], ['system', 'system'], ['kernel', 'kernel'], ['perl', 'perl'];
    push @pairs, ['rounds', map { $_->{rounds} } $self, $other], ['seconds per round', map { $_->{duration} } $self, $other],
        ['pinning', map { _pinning($_->{pinned}) } $self, $other];
    for my $name (sort keys %{ $self->{versions} }) {
        next unless defined $other->{versions}{$name} && $name !~ /^hydrofoil/;
        push @pairs, ["the version of $name", $self->{versions}{$name}, $other->{versions}{$name}];
    }
    for my $pair (@pairs) {
        my ($what, @both) = @$pair;
        @both = map { defined $_ ? $_ : 'unknown' } @both;
        s/\s*\n\s*/, /g for @both;
        push @differences, [$what, @both] if $both[0] ne $both[1];
    }
    return @differences;
}

sub _pinning {
    my ($pinned) = @_;
    return 'nothing pinned' unless $pinned && defined $pinned->{server};
    return "server on core $pinned->{server}, client on core $pinned->{client}";
}

# The machine in rows of [what, text].
sub machine_rows {
    my ($self) = @_;
    my $machine = $self->{machine};
    my $memory  = $machine->{memory_mib} ? bytes($machine->{memory_mib} * 1024**2) : undef;
    (my $commit = defined $machine->{commit} ? $machine->{commit} : '') =~ s/\s+//g;
    $commit = substr($commit, 0, 12) . ($machine->{changed} ? ' with changes' : '') if length $commit;
    return grep { defined $_->[1] && length $_->[1] } (
        ['measured', $self->{time}], ['by', $self->{command}],
        ['cores', $machine->{cores}], ['CPU', $machine->{cpu}], ['memory', $memory], ['system', $machine->{system}],
        ['kernel', defined $machine->{kernel} ? "Linux $machine->{kernel}" : undef], ['perl', $machine->{perl}],
        ['commit', $commit], ['pinning', _pinning($self->{pinned})],
        ['rounds', $self->{rounds} ? "$self->{rounds} of $self->{duration} s, unless a measure says otherwise" : undef],
        ['load before', $machine->{load}], ['open files', $machine->{open_files} ? thousands($machine->{open_files}) : undef],
    );
}

1;
__END__

=head1 NAME

HydroBench::Results - what a run of script/bench found, for reports

=head1 SYNOPSIS

    my $results = HydroBench::Results->load('build/bench/20260101-120000');
    for my $scenario (@{ $results->{scenarios} }) {
        for my $done (@{ $scenario->{measures} }) {
            my $own = $done->{results}{hydrofoil};
            print HydroBench::Results->value($own, 'latency.p99'), " us\n";
            my ($times, $low, $high) = HydroBench::Results->ratio_of($done->{results}, 'hydrofoil', 'nginx', 'req_per_s');
        }
    }

It reads schema 2 and schema 1, which had one scenario in a file.

=cut
