package HydroBench::Report;
use strict;
use warnings;
use HydroBench::Scenario;
use HydroBench::Stats qw(ratio);

# The columns of a measure's table: title, width, and a function of (result, results of all) that gives the cell.
my $ERRORS = ['errors', 7, sub { defined $_[0]{errors} ? $_[0]{errors} : '' }];
my $SPREAD = ['spread', 7, sub { defined $_[0]{spread} && !_is_single($_[0]) ? sprintf '%.1f%%', 100 * $_[0]{spread} : '' }];
my %COLUMNS = (
    wrk => [
        ['req/s',      9, sub { _thousands($_[0]{req_per_s}) }],
        $SPREAD,
        ['vs nginx',   9, sub { _ratio($_[0], $_[1], 'req_per_s') }],
        ['CPU us/req', 11, sub { _number('%.2f', $_[0]{cpu_us}) }],
        ['p50 ms',     9, sub { _milliseconds($_[0]{p50_us}) }],
        ['p99 ms',     9, sub { _milliseconds($_[0]{p99_us}) }],
        ['p99.9 ms',   9, sub { _milliseconds($_[0]{latency}{'p99.9'}) }],
        $ERRORS,
    ],
    latency => [
        ['p50 ms',     9, sub { _milliseconds($_[0]{latency}{p50}) }],
        ['p90 ms',     9, sub { _milliseconds($_[0]{latency}{p90}) }],
        ['p99 ms',     9, sub { _milliseconds($_[0]{latency}{p99}) }],
        ['p99.9 ms',   9, sub { _milliseconds($_[0]{latency}{'p99.9'}) }],
        ['max ms',     9, sub { _milliseconds($_[0]{latency}{max}) }],
        ['req/s',      9, sub { _thousands($_[0]{req_per_s}) }],
        ['CPU us/req', 11, sub { _number('%.2f', $_[0]{cpu_us}) }],
        $ERRORS,
        ['own delay',  10, sub { _milliseconds($_[0]{own_delay_max_us}) }],
    ],
    file => [
        ['MB/CPU s',   9, sub { _thousands($_[0]{mb_per_cpu_s}) }],
        $SPREAD,
        ['vs nginx',   9, sub { _ratio($_[0], $_[1], 'mb_per_cpu_s') }],
        ['req/s',      9, sub { _thousands($_[0]{req_per_s}) }],
        ['CPU us/req', 11, sub { _number('%.1f', $_[0]{cpu_us}) }],
        $ERRORS,
    ],
    functions => [
        ['original',   9, sub { $_[0]{original} || '' }],
        ['us',        10, sub { _number('%.3f', $_[0]{original_us}) }],
        ['in C us',   10, sub { _number('%.3f', $_[0]{accelerated_us}) }],
        ['times',      8, sub { _number('%.2f', $_[0]{times}) }],
        $SPREAD,
    ],
    apps => [
        ['req/s',      9, sub { _thousands($_[0]{req_per_s}) }],
        $SPREAD,
        ['CPU us/req', 11, sub { _number('%.2f', $_[0]{cpu_us}) }],
        ['times plain', 12, sub { _number('%.2f', $_[0]{to_plain}) }],
        ['p99 ms',     9, sub { _milliseconds($_[0]{p99_us}) }],
        $ERRORS,
    ],
    idle => [
        ['bytes each', 11, sub { _thousands($_[0]{bytes_per_connection}) }],
        ['vs nginx',   9, sub { _ratio($_[0], $_[1], 'bytes_per_connection') }],
        $ERRORS,
    ],
    switches => [
        ['req/s',      9, sub { _thousands($_[0]{req_per_s}) }],
        $SPREAD,
        ['CPU us/req', 11, sub { _number('%.2f', $_[0]{cpu_us}) }],
        ['switches/req', 14, sub { _number('%.4f', $_[0]{switches}) }],
        ['p50 ms',     9, sub { _milliseconds($_[0]{p50_us}) }],
        ['p99 ms',     9, sub { _milliseconds($_[0]{p99_us}) }],
        $ERRORS,
    ],
    syscalls => [
        ['calls/req', 10, sub { _number('%.3f', $_[0]{syscalls}) }],
        ['sleeps/s',  10, sub { _thousands($_[0]{sleeps_per_s}) }],
        $ERRORS,
    ],
    idle_active => [
        ['req/s',      9, sub { _thousands($_[0]{req_per_s}) }],
        ['of alone',  10, sub { _number('%.3f', $_[0]{active_part}) }],
        ['CPU times', 10, sub { _number('%.3f', $_[0]{active_cpu}) }],
        ['bytes each', 11, sub { _thousands($_[0]{each_bytes}) }],
        ['not answered', 13, sub { _number('%d', $_[0]{idle_unanswered}) }],
        $ERRORS,
    ],
    mix => [
        ['mean ms',    9, sub { _milliseconds($_[0]{mix_mean_us}) }],
        ['to ideal',   9, sub { _number('%.3f', $_[0]{mix_mean_to_ideal}) }],
        ['p99 ms',     9, sub { _milliseconds($_[0]{mix_p99_us}) }],
        ['to ideal',   9, sub { _number('%.3f', $_[0]{mix_p99_to_ideal}) }],
        ['unanswered', 11, sub { _number('%d', $_[0]{unanswered}) }],
        $ERRORS,
        ['own delay',  10, sub { _milliseconds($_[0]{own_delay_max_us}) }],
    ],
);
$COLUMNS{load} = [
    ['fast p50',     9, sub { _milliseconds($_[0]{fast_p50_us}) }],
    ['p99 ms',       9, sub { _milliseconds($_[0]{fast_p99_us}) }],
    ['p99.9 ms',     9, sub { _milliseconds($_[0]{'fast_p99.9_us'}) }],
    ['max ms',       9, sub { _milliseconds($_[0]{fast_max_us}) }],
    ['starved',      8, sub { _number('%d', $_[0]{fast_starved}) }],
    ['slow/s',       8, sub { _number('%.2f', $_[0]{slow_per_s}) }],
    ['unanswered',  11, sub { _number('%d', $_[0]{unanswered}) }],
    $ERRORS,
    ['own delay',   10, sub { _milliseconds($_[0]{own_delay_max_us}) }],
];
$COLUMNS{restarts} = [
    ['requests',     9, sub { _thousands($_[0]{count}) }],
    ['failed',       7, sub { _number('%d', $_[0]{failed}) }],
    ['resets',       7, sub { _number('%d', $_[0]{resets}) }],
    ['twice',        6, sub { _number('%d', $_[0]{twice}) }],
    ['unanswered',  11, sub { _number('%d', $_[0]{unanswered}) }],
    $ERRORS,
    ['steady p99',  11, sub { _milliseconds($_[0]{steady_p99_us}) }],
    ['max ms',       9, sub { _milliseconds($_[0]{steady_max_us}) }],
    ['new max',      9, sub { _milliseconds($_[0]{new_max_us}) }],
    ['replaced',     9, sub { _number('%.0f%%', defined $_[0]{workers_part} ? 100 * $_[0]{workers_part} : undef) }],
];

# By which figure a table is ordered, the best first: the sign says whether large (1) or small (-1) is good.
my %RANK = (
    idle     => ['bytes_per_connection', -1],
    file     => ['mb_per_cpu_s', 1],
    latency  => ['p99_us', -1],
    load     => ['fast_p99_us', -1],
    mix      => ['mix_mean_us', -1],
    restarts => ['errors', -1],
    syscalls => ['syscalls', -1],
);

my %FIGURES = (
    req_per_s            => 'req/s',
    cpu_us               => 'CPU per request',
    times                => ['times the original', '%.2f'],
    mb_per_cpu_s         => 'MB per CPU second',
    bytes_per_connection => 'bytes per connection',
    errors               => 'errors',
    switches             => 'context switches per request',
    syscalls             => 'system calls per request, sleeps left out',
    sleeps_per_s         => 'sleeps per second',
    fast_p99_us          => ['fast p99 in ms', '%.2f', 1000],
    fast_max_us          => ['fast maximum in ms', '%.2f', 1000],
    slow_per_s           => ['slow pages per second', '%.2f'],
    mix_mean_to_ideal    => ['mean, times that of the ideal queue', '%.3f'],
    mix_p99_to_ideal     => ['p99, times that of the ideal queue', '%.3f'],
    active_part          => ['req/s, times those without idle connections', '%.3f'],
    each_bytes           => 'bytes of its own per idle connection',
    idle_unanswered      => 'idle connections that are not answered',
    workers_part         => ['workers replaced, of those that should be', '%.2f'],
    unanswered           => 'unanswered',
    failed               => 'failed requests',
    resets               => 'connections reset or closed over a request',
    twice                => 'answered twice',
);

# How a measure is shown: the name of its table, its columns (title, width, a function of (result, results of all) that gives
# the cell), and the names of its results, the best first.
sub layout {
    my ($class, $done) = @_;
    my ($measure, $results) = @$done{qw(measure results)};
    my $table   = $measure->{file_bytes} ? 'file' : $measure->{accelerated} ? 'apps' : $measure->{switches} ? 'switches'
        : $measure->{tool} eq 'load' && $measure->{groups}[0]{name} eq 'mix' ? 'mix' : $measure->{tool};
    _compare_with_plain($results) if $table eq 'apps';
    my ($rank, $sign) = @{ $RANK{$table} || ['req_per_s', 1] };
    my @order = $measure->{order} && keys %$results == @{ $measure->{order} } ? @{ $measure->{order} } : sort {
        defined $results->{$b}{$rank} <=> defined $results->{$a}{$rank}
            || $sign * (($results->{$b}{$rank} || 0) <=> ($results->{$a}{$rank} || 0))
            || $a cmp $b
    } keys %$results;
    return ($table, $COLUMNS{$table} || $COLUMNS{wrk}, \@order);
}

# One measure as a table, as text.
sub measure {
    my ($class, $done) = @_;
    my ($measure, $results) = @$done{qw(measure results)};
    my ($table, $columns, $order) = $class->layout($done);

    my $text = "\n$measure->{name}: $measure->{title}\n";
    my ($width) = sort { $b <=> $a } 18, map { length($_) + 1 } keys %$results;
    $text .= sprintf "  %-${width}s", $table eq 'functions' ? 'function' : 'server';
    $text .= sprintf "%$_->[1]s", $_->[0] for @$columns;
    $text .= "\n";

    for my $name (@$order) {
        my $result = $results->{$name};
        $text .= sprintf "  %-${width}s", $name;
        if (defined $result->{problem}) {
            $text .= "  FAILED: $result->{problem}\n";
            next;
        }
        $text .= sprintf "%$_->[1]s", $_->[2]->($result, $results) for @$columns;
        $text .= '  ' . join ', ', $class->notes($result);
        $text =~ s/ +\z//;
        $text .= "\n";
    }
    my %why = reverse %{ $done->{left_out} };
    for my $why (sort keys %why) {
        my @names = sort grep { $done->{left_out}{$_} eq $why } keys %{ $done->{left_out} };
        $text .= '  left out: ' . join(', ', @names) . " ($why)\n";
    }
    return $text;
}

# The same as cells: the titles, those of numbers after ">", then a row for each result: [name, result, cells...]; no cells where
# it failed. Columns in which nothing was measured are left out; notes come last, if there are any.
sub cells {
    my ($class, $done) = @_;
    my $results = $done->{results};
    my ($table, $columns, $order) = $class->layout($done);
    my %text = map {
        my $result = $results->{$_};
        $_ => [map { $_->[2]->($result, $results) } @$columns];
    } grep { !defined $results->{$_}{problem} } @$order;
    my @kept = grep {
        my $i = $_;
        grep { $_->[$i] !~ /\A-?\z/ } values %text;
    } 0 .. $#$columns;
    my %notes  = map { $_ => $class->_all_notes($results->{$_}) } keys %text;
    my $noted  = grep {length} values %notes;
    my @titles = ($table eq 'functions' ? 'function' : 'server', map({">$_->[0]"} @$columns[@kept]), $noted ? 'notes' : ());
    return (\@titles, map {
        [$_, $results->{$_}, $text{$_} ? (@{ $text{$_} }[@kept], $noted ? $notes{$_} : ()) : ()]
    } @$order);
}

# Notes, and which errors there were.
sub _all_notes {
    my ($class, $result) = @_;
    my $classes = $result->{error_classes} || {};
    return join ', ', $class->notes($result), map { "$_: " . _thousands($classes->{$_}) } grep { $classes->{$_} } sort keys %$classes;
}

# What a reader must know before believing a line.
sub notes {
    my ($class, $result) = @_;
    return if $result->{kind} eq 'function';
    my @notes;
    push @notes, sprintf '%.2g%% errors', 100 * $result->{error_ratio} if $result->{error_ratio};
    my $repeated = grep { $_->{repeated} && $_->{worst} } @{ $result->{rounds} || [] };
    push @notes, "disturbed: $repeated rounds were made again" if $repeated;
    push @notes, 'went on working after its clients had left, and was started anew' . ($result->{anew} > 1 ? " ($result->{anew} times)" : '')
        if $result->{anew};
    push @notes, 'no keep-alive' unless $result->{keep_alive};
    push @notes, 'serves ' . ($result->{serves} == 1 ? 'one connection' : "$result->{serves} connections") . ' at a time'
        if defined $result->{serves};
    if (defined $result->{server_cpu}) {
        push @notes, 'client-bound' if $result->{client_cpu} > 0.95 && $result->{server_cpu} < 0.9;
        push @notes, 'server waits' if $result->{client_cpu} < 0.9 && $result->{server_cpu} < 0.9;
        push @notes, sprintf 'disturbed: others used %.0f%% of a core', 100 * $result->{foreign_cpu}
            if $result->{foreign_cpu} > 0.1;
    }
    return @notes;
}

# The promises, each with its figure. Returns the text and how many were missed.
sub targets {
    my ($class, $judged) = @_;
    my ($text, $missed) = ("\nTargets\n", 0);
    for my $target (@$judged) {
        my ($value, $what, $promise) = $class->target($target);
        $text .= sprintf "  %-13s %8s  %s: %s\n", $target->{verdict}, $value, $what, $promise;
        $missed++ if $target->{verdict} eq 'miss';
    }
    return ($text, $missed);
}

# One promise in words: what was found ("1.04"), what it is about ("keepalive16, req/s"), and what was promised ("at least
# 1.00 times nginx").
sub target {
    my ($class, $target) = @_;
    my ($word, $limit) = defined $target->{at_least} ? ('at least', $target->{at_least}) : ('at most', $target->{at_most});
    my $times = defined $target->{than};
    my $than  = !$times ? '' : $target->{than} eq 'best psgi'
        ? ' times the best other PSGI server' . (defined $target->{against} ? " ($target->{against})" : '')
        : " times $target->{than}";
    my $figure = $FIGURES{ $target->{figure} };
    my ($label, $format, $scale) = ref $figure ? @$figure : (defined $figure ? $figure : $target->{figure}, '%.0f', 1);
    $scale ||= 1;
    $limit /= $scale;
    my $value = !defined $target->{value} ? '-' : sprintf $times ? '%.2f' : $format, $target->{value} / $scale;
    return (
        $value,
        join(', ', $target->{measure}, defined $target->{of} ? $target->{of} : (), $label),
        join(' ', $word, ($times ? sprintf '%.2f', $limit : $limit) . $than),
    );
}

# Figures from elsewhere beside those measured here, as text; none where there are none.
sub published {
    my ($class, $published) = @_;
    return '' unless @$published;
    my $text = "\nPublished                    there      here\n";
    for my $entry (@$published) {
        my $ratio = defined $entry->{than} || defined $entry->{than_measure};
        my $what  = join ' ', $entry->{server}, $entry->{figure},
            defined $entry->{peak} ? 'is largest at this number of' : (), defined $entry->{peak} ? $entry->{peak} : (),
            $ratio ? 'times that' : (), defined $entry->{than} ? "of $entry->{than}" : (),
            defined $entry->{than_measure} ? "in $entry->{than_measure}" : ();
        $text .= sprintf "  %-18s %13s %9s  %s: %s\n", $entry->{measure}, _figure($entry->{value}, $ratio),
            _figure($entry->{measured}, $ratio), $what, $entry->{source};
    }
    return $text;
}

sub _figure {
    my ($value, $ratio) = @_;
    return !defined $value ? '-' : $ratio ? sprintf '%.2f', $value : $value >= 1000 ? _thousands($value) : sprintf '%.4g', $value;
}

# What acceleration brings each server.
sub _compare_with_plain {
    my ($results) = @_;
    for my $name (keys %$results) {
        my ($plain) = $name =~ /^(.+)-accelerated/ or next;
        my $times = ratio($results->{$name}{req_per_s}, ($results->{$plain} || {})->{req_per_s});
        $results->{$name}{to_plain} = $times if defined $times;
    }
    return;
}

# A single round has no spread, rather than none at all.
sub _is_single { return @{ $_[0]{rounds} || [] } == 1 }

sub _ratio {
    my ($result, $results, $figure) = @_;
    return _number('%.2f', ratio($result->{$figure}, ($results->{nginx} || {})->{$figure}));
}

sub _number {
    my ($format, $value) = @_;
    return defined $value ? sprintf $format, $value : '-';
}

sub _milliseconds { _number('%.2f', defined $_[0] ? $_[0] / 1000 : undef) }

sub _thousands {
    my $text = _number('%.0f', $_[0]);
    1 while $text =~ s/(\d)(\d{3})(?!\d)/$1,$2/;
    return $text;
}

1;
__END__

=head1 NAME

HydroBench::Report - the results as tables for the terminal

=cut
