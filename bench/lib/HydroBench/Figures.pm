package HydroBench::Figures;
use strict;
use warnings;
use HydroBench::Chart;
use HydroBench::Chart::Style;
use HydroBench::Format qw(thousands times duration_tick);
use HydroBench::Report;
use HydroBench::Results;
use HydroBench::Stats qw(ratio);

my $R = 'HydroBench::Results';

# By the table that a measure gets: the figures that are shown, and those that are shown as times that of others.
my %SHOWN = (
    file        => ['mb_per_cpu_s', 'req_per_s', 'error_ratio'],
    functions   => ['times'],
    idle        => ['bytes_per_connection'],
    idle_active => ['active_part', 'active_cpu', 'each_bytes'],
    latency     => ['latency.p50', 'latency.p99', 'latency.p99.9'],
    load        => ['fast_p99_us', 'fast_max_us', 'slow_per_s'],
    mix         => ['mix_mean_to_ideal', 'mix_p99_to_ideal'],
    restarts    => ['failed', 'resets', 'unanswered'],
    switches    => ['req_per_s', 'cpu_us', 'switches'],
    syscalls    => ['syscalls', 'sleeps_per_s'],
);
my @USUAL    = qw(req_per_s latency.mean error_ratio);
my %COMPARED = (file => 'mb_per_cpu_s', map { $_ => undef } qw(functions idle idle_active latency load mix restarts syscalls));

# What to say where nobody had any.
my %NONE = (error_ratio => 'None: no server made an error.', map { $_ => 'None.' } qw(errors failed resets unanswered));

# Where a percentile is on its axis: each step to the right leaves a tenth as many requests.
my %PLACE = map { my ($percent) = /p(.+)/; $_ => -log(1 - $percent / 100) / log 10 } qw(p50 p75 p90 p99 p99.9);

# The figures of a scenario: a list of { name, title, note, drawings => [...], measures => [names] }, each a row of charts that
# belong together. `name` is fit for a file. $targets are drawn where they are about a ratio that is shown.
sub of {
    my ($class, $scenario) = @_;
    my @figures;
    for my $family ($R->families($scenario)) {
        next unless grep { %{ $_->{results} } } @{ $family->{measures} };
        my @own = ($class->_absolute($family), $class->_ratios($family, $scenario->{targets}), $class->_percentiles($family));
        my ($ratios) = grep { ($_->{part} || '') eq 'ratios' } @own;
        my ($last)   = @own ? $own[-1] : {};
        if ($ratios && ($last->{part} || '') eq 'percentiles' && @{ $ratios->{drawings} } + @{ $last->{drawings} } <= 3) {
            push @{ $ratios->{drawings} }, @{ $last->{drawings} };    # they fit side by side
            $ratios->{note} .= " $last->{note}";
            pop @own;
        }
        my $name = join '-', $scenario->{id},
            $family->{axis} ? $family->{axis} . (@figures && _taken($family->{axis}, \@figures) ? scalar @figures : '')
            : $family->{measures}[0]{measure}{name};
        for my $figure (@own) {
            $figure->{of}       = $name;
            $figure->{scenario} = $scenario->{id};
            $figure->{name}     = $figure->{part} ? "$name-$figure->{part}" : $name;
            $figure->{name}     =~ s/[^\w.-]+/-/g;
            $figure->{measures} = [map { $_->{measure}{name} } @{ $family->{measures} }];
        }
        push @figures, @own;
    }
    my $published = $class->_published($scenario);
    push @figures, { %$published, name => $scenario->{id} . '-published', of => 'published', measures => [],
        scenario => $scenario->{id} }
        if $published;
    return @figures;
}

sub _taken {
    my ($axis, $figures) = @_;
    return grep { $_->{of} =~ /-\Q$axis\E\d*$/ } @$figures;
}

# The figures as they are: bars grouped by the number of connections, or curves where there are many points.
sub _absolute {
    my ($class, $family) = @_;
    my ($table) = HydroBench::Report->layout($family->{measures}[0]);
    my @shown = grep { _is_there($family, $_) } @{ $SHOWN{$table} || \@USUAL };
    @shown = grep { _is_there($family, $_) } _any_figures($family) if !@shown;
    my $curves = _is_curve($family);
    my @drawings = map { $curves ? $class->_curve($family, $_) : $class->_bars($family, $_) } @shown;
    return () unless @drawings;
    return {
        title => _title($family), drawings => \@drawings,
        note  => _is_worst($family, $shown[0]) ? 'The worst of all rounds counts; the thin lines reach to the best.'
            : _is_single($family) ? 'There was one round only: how far rounds lie apart is not known.'
            : 'Medians over the rounds; the thin lines reach from the smallest round to the largest.',
    };
}

# The figures of a measure that are worth comparing between runs.
sub shown {
    my ($class, $done) = @_;
    my ($table) = HydroBench::Report->layout($done);
    my @figures = $SHOWN{$table} ? (@{ $SHOWN{$table} }, $table eq 'latency' ? 'cpu_us' : (), 'errors')
        : qw(req_per_s cpu_us latency.p99 error_ratio);
    my $family  = { measures => [$done] };
    @figures = grep { _is_there($family, $_) } @figures;
    return @figures ? @figures : _any_figures($family);
}

sub _is_curve {
    my ($family) = @_;
    return defined $family->{axis} && ($family->{axis} eq 'workers' || @{ $family->{measures} } > 4);
}

sub _is_single {
    my ($family) = @_;
    return !grep { @{ $_->{rounds} || [] } > 1 } map { values %{ $_->{results} } } @{ $family->{measures} };
}

# Some figures are a promise for every single round, so that the worst one counts.
sub _is_worst {
    my ($family, $figure) = @_;
    return scalar grep { exists +($_->{worst} || {})->{$figure} } map { @{ $_->{rounds} || [] } }
        map { values %{ $_->{results} } } @{ $family->{measures} };
}

sub _title {
    my ($family) = @_;
    return $family->{measures}[0]{measure}{title} unless defined $family->{axis};
    my @x = map { thousands($_->{x}) } @{ $family->{measures} };
    return sprintf '%s to %s %s', $x[0], $x[-1], $family->{axis} if _is_curve($family);
    return @x == 2 ? "$x[0] and $x[1] $family->{axis}" : join(', ', @x[0 .. $#x - 1]) . " and $x[-1] $family->{axis}";
}

sub _is_there {
    my ($family, $figure) = @_;
    return scalar grep { defined $R->value($_, $figure) } map { values %{ $_->{results} } } @{ $family->{measures} };
}

# For measures nobody described here: the figures that a result has, without those that only tell how it was measured.
sub _any_figures {
    my ($family) = @_;
    my %seen;
    for my $result (map { values %{ $_->{results} } } @{ $family->{measures} }) {
        $seen{$_} = 1 for grep {
            !ref $result->{$_} && defined $result->{$_} && $result->{$_} =~ /^-?[\d.]+(?:e[-+]?\d+)?$/i
                && !/_cpu$|^own_|^(?:spread|keep_alive|errors)$/
        } keys %$result;
    }
    my @figures = sort keys %seen;
    return @figures > 3 ? @figures[0 .. 2] : @figures;
}

sub _bars {
    my ($class, $family, $figure) = @_;
    my $about = $R->figure($figure);
    my @names = $R->servers($family);
    my @groups;
    for my $done (@{ $family->{measures} }) {
        my @rows;
        for my $name (@names) {
            my $result = $done->{results}{$name};
            next if !$result && @{ $family->{measures} } == 1;
            push @rows, _row($name, $result, $R->value($result, $figure), [$R->range($result, $figure)], $about->{format},
                $done->{left_out}{$name});
        }
        push @groups, { label => _label($family, $done), rows => \@rows };
    }
    return HydroBench::Chart->bars(
        title    => $about->{title},
        subtitle => _subtitle($about),
        unit     => $about->{unit},
        tick     => $about->{tick},
        axis     => $about->{unit} =~ /^time/ ? 'auto' : 'linear',    # times may lie far apart, amounts are lengths
        groups   => \@groups,
        ($NONE{$figure} ? (none => $NONE{$figure}) : ()),
        desc     => _describe($about->{title}, $about->{what}, \@groups),
    );
}

sub _subtitle {
    my ($about) = @_;
    return join '; ', grep {length} $about->{what}, $about->{better} > 0 ? 'more is better' : 'less is better';
}

sub _row {
    my ($name, $result, $value, $range, $format, $left_out) = @_;
    return {
        name => $name, style => HydroBench::Chart::Style->bar($name, $result && $result->{kind}), value => $value,
        text => $format->($value), (@$range ? (low => $range->[0], high => $range->[1]) : ()),
        problem => $result && !defined $value ? $result->{problem} : undef, why => $left_out,
    };
}

sub _label {
    my ($family, $done) = @_;
    return undef unless defined $family->{axis};
    my $unit = $family->{axis};
    $unit =~ s/^(\w+)s\b/$1/ if $done->{x} == 1;
    return thousands($done->{x}) . " $unit";
}

# A chart in words, for those who do not see it.
sub _describe {
    my ($title, $what, $groups) = @_;
    my @parts;
    for my $group (@$groups) {
        my @rows = map { "$_->{name} " . (defined $_->{value} ? $_->{text} : defined $_->{problem} ? 'failed' : 'not measured') }
            @{ $group->{rows} };
        push @parts, (defined $group->{label} ? "$group->{label}: " : '') . join(', ', @rows) . '.';
    }
    return join ' ', $title . (length $what ? ", $what" : '') . '.', @parts;
}

# Curves over the number of workers or connections.
sub _curve {
    my ($class, $family, $figure) = @_;
    my $about = $R->figure($figure);
    my @names = $R->servers($family);
    my $line  = HydroBench::Chart::Style->lines(@names);
    my (@series, @all);
    for my $name (@names) {
        my @points = map {
            my $result = $_->{results}{$name};
            my $value  = $R->value($result, $figure);
            push @all, $value if defined $value;
            [_place($family, $_->{x}), $value, defined $value ? $R->range($result, $figure) : ()]
        } @{ $family->{measures} };
        push @series, { name => $name, style => $line->{$name}[0], shape => $line->{$name}[1], points => \@points };
    }
    my @positive = sort { $a <=> $b } grep { $_ > 0 } @all;
    return HydroBench::Chart->bars(
        title => $about->{title}, subtitle => _subtitle($about), none => $NONE{$figure}, desc => $NONE{$figure},
        groups => [{ rows => [{ name => '', value => 0 }] }],
    ) if $NONE{$figure} && @all && !@positive;
    my $log = $about->{unit} eq 'time' && @positive && $positive[-1] > 30 * $positive[0];
    return HydroBench::Chart->lines(
        title    => $about->{title},
        subtitle => _subtitle($about) . ($log ? '; log scale' : ''),
        x        => {
            label => _is_log($family) ? "$family->{axis} (log scale)" : $family->{axis},
            at    => [map { [_place($family, $_->{x}), thousands($_->{x})] } @{ $family->{measures} }],
        },
        y      => { type => $log ? 'log' : 'linear', tick => $about->{tick}, label => $about->{unit}, },
        series => \@series,
        desc   => join(' ', "$about->{title} over $family->{axis}" . (length $about->{what} ? ", $about->{what}" : '') . '.', map {
            my $series = $_;
            my @points = grep { defined $_->[1] } @{ $series->{points} };
            @points ? "$series->{name}: " . $about->{format}->($points[0][1]) . ' to ' . $about->{format}->($points[-1][1]) . '.'
                : "$series->{name}: not measured."
        } @series),
    );
}

# Connections go up by powers, workers one by one.
sub _is_log { return $_[0]{axis} ne 'workers' }
sub _place  { return _is_log($_[0]) ? log($_[1] || 1) / log 2 : $_[1] }

# Times nginx, times the floor, times the best other PSGI server: what the promises are about.
sub _ratios {
    my ($class, $family, $targets) = @_;
    my ($table) = HydroBench::Report->layout($family->{measures}[0]);
    my $main = exists $COMPARED{$table} ? $COMPARED{$table} : 'req_per_s';
    return () if !defined $main || _is_curve($family);
    my @drawings;
    for my $panel (
        ['nginx', $main, 'nginx'],
        ['floor', 'cpu_us', 'the floor'],
        ['best psgi', $main, 'the best other PSGI'],
    ) {
        my ($base, $figure, $called) = @$panel;
        my $drawing = $class->_ratio_panel($family, $targets, $base, $figure, $called);
        push @drawings, $drawing if $drawing;
    }
    return () unless @drawings;
    return {
        part => 'ratios', title => _title($family) . ': times others', drawings => \@drawings,
        note => 'Ratios of the medians; the thin lines reach from the smallest to the largest ratio of two rounds that were run'
            . ' one after the other. A red mark is what Hydrofoil promises.',
    };
}

sub _ratio_panel {
    my ($class, $family, $targets, $base, $figure, $called) = @_;
    my $about = $R->figure($figure);
    my (@groups, $any, %against);
    for my $done (@{ $family->{measures} }) {
        my $results = $done->{results};
        my $than = $base eq 'best psgi' ? $R->best_other($results, $figure) : $base;
        next unless defined $than && defined $R->value($results->{$than}, $figure);
        $against{$than} = 1;
        my @rows;
        for my $name ($R->servers($family)) {
            my $result = $results->{$name} or next;
            my ($ratio, $low, $high) = $R->ratio_of($results, $name, $than, $figure);
            next if !defined $ratio && !defined $result->{problem};
            my $row = _row($name, $result, $ratio, [defined $low ? ($low, $high) : ()], \&times);
            my ($target) = grep {
                $_->{measure} eq $done->{measure}{name} && $_->{figure} eq $figure && defined $_->{than} && $_->{than} eq $base
                    && (defined $_->{of} ? $_->{of} : 'hydrofoil') eq $name
            } @$targets;
            $row->{target} = defined $target->{at_least} ? $target->{at_least} : $target->{at_most} if $target;
            $any++ if defined $ratio && $name ne $than;
            push @rows, $row;
        }
        my $label = _label($family, $done);
        $label .= " (times $than)" if defined $label && $base eq 'best psgi';
        push @groups, { label => $label, rows => \@rows };
    }
    return undef unless $any;
    $called .= " ($_)" for $base eq 'best psgi' && !defined $family->{axis} ? keys %against : ();
    my $title = ($figure eq 'cpu_us' ? 'CPU per request' : $about->{title}) . ", times $called";
    return HydroBench::Chart->bars(
        title     => $title,
        subtitle  => ($about->{better} > 0 ? 'more is better' : 'less is better') . '; the dashed line is 1',
        unit      => 'times',
        axis      => 'log',
        tick      => \&HydroBench::Format::short,
        reference => 1,
        groups    => \@groups,
        desc      => _describe($title, '', \@groups),
    );
}

# Latency by percentile, one chart for each measure of a family, with one axis for all.
sub _percentiles {
    my ($class, $family) = @_;
    my (@charts, @all);
    my @names = $R->servers($family);
    my $line  = HydroBench::Chart::Style->lines(@names);
    my @shown = @{ $family->{measures} };
    @shown = @shown[0, int(@shown / 2), -1] if @shown > 3;
    for my $done (@shown) {
        my $groups = $done->{measure}{groups};
        for my $group ($groups && $done->{measure}{tool} ne 'latency' ? map { $_->{name} } @$groups : undef) {
            my @series;
            for my $name (@names) {
                my @points = map { [$PLACE{ $_->[0] }, $_->[1]] } $R->percentiles($done->{results}{$name}, $group);
                next unless @points > 1;
                push @series, { name => $name, style => $line->{$name}[0], shape => $line->{$name}[1], points => \@points };
                push @all, map { $_->[1] } @points;
            }
            push @charts, { done => $done, group => $group, series => \@series } if @series;
        }
    }
    my ($low, $high) = (sort { $a <=> $b } grep { $_ > 0 } @all)[0, -1];
    my %there = map { $_->[0] => 1 } map { @{ $_->{points} } } map { @{ $_->{series} } } @charts;
    my @drawings;
    for my $chart (@charts) {
        my ($done, $group) = @$chart{qw(done group)};
        my $label = join ', ', grep { defined && length } _label($family, $done),
            (defined $group ? qq(requests named "$group") : ()),
            ($done->{measure}{rate} ? thousands($done->{measure}{rate}) . ' requests per second' : ());
        push @drawings, HydroBench::Chart->lines(
            title    => 'Latency by percentile',
            subtitle => join('; ', grep {length} $label, 'log scale', 'less is better'),
            x        => {
                label => 'percentile of requests',
                at    => [map { [$PLACE{$_}, $_] } grep { $there{ $PLACE{$_} } } qw(p50 p90 p99 p99.9)],
            },
            y      => { type => 'log', from => $low, to => $high, tick => \&duration_tick, label => 'time' },
            series => $chart->{series},
            desc   => join(' ', 'Latency by percentile' . (length $label ? ", $label" : '') . '.', map {
                "$_->{name}: " . join(' to ', map { HydroBench::Format::duration($_->[1]) } @{ $_->{points} }[0, -1]) . '.'
            } @{ $chart->{series} }),
        );
    }
    return () unless @drawings;
    return {
        part => 'percentiles', title => 'Latency by percentile: ' . _title($family), drawings => \@drawings,
        note => (grep({ defined $_->{group} } @charts) ? 'The worst of all rounds counts for each percentile: half'
            : 'Percentiles are medians over the rounds, too: half') . ' of the requests took at most the time at p50'
            . ($there{ $PLACE{'p99.9'} } ? '; one of a thousand took longer than that at p99.9.'
                : '; one of a hundred took longer than that at p99.'),
    };
}

# What was published beside what was found here, as times one server that is in both.
sub _published {
    my ($class, $scenario) = @_;
    my @tables = grep { grep { defined $_->{published_times} } @{ $_->{rows} } } $class->published($scenario);
    return undef unless @tables;
    my @drawings;
    for my $figure (_unique(map { $_->{figure} } @tables)) {
        my @of     = grep { $_->{figure} eq $figure } @tables;
        my @groups = map { +{ label => "$_->{label}, times $_->{base}", rows => [map { _published_row($_) } @{ $_->{rows} }] } }
            @of;
        my $about  = $R->figure($figure);
        push @drawings, HydroBench::Chart->bars(
            title     => "$about->{title}, published and measured",
            subtitle  => 'hollow: published; filled: measured here',
            unit      => 'times',
            axis      => 'log',
            tick      => \&HydroBench::Format::short,
            reference => 1,
            groups    => \@groups,
            desc      => join(' ', "$about->{title}, published and measured.", map { _published_words($_) } @of),
        );
    }
    return {
        title => 'Published and measured', drawings => \@drawings,
        note  => 'Machines differ, so what is compared is ratios: each server as times one that was both published and measured.',
    };
}

sub _published_row {
    my ($row) = @_;
    return {
        name => $row->{server}, style => HydroBench::Chart::Style->bar($row->{server}, 'psgi'), value => $row->{times},
        text => times($row->{times}), other => $row->{published_times}, why => 'not measured here',
        other_text => "$row->{server}, published: " . times($row->{published_times}),
    };
}

sub _published_words {
    my ($table) = @_;
    my @parts = map {
        "$_->{server} " . (defined $_->{published_times} ? times($_->{published_times}) . ' published' : 'not published')
            . (defined $_->{times} ? ', ' . times($_->{times}) . ' measured' : ', not measured')
    } @{ $table->{rows} };
    return "$table->{label}, times $table->{base}: " . join('; ', @parts) . '.';
}

# The published figures of a scenario in tables: { measure, figure, label, base, source, rows => [{ server, published, unit,
# value, published_times, times }] }. base is the server that both ratios are relative to, undef when no server is in both.
# Those that are ratios or places of a maximum by themselves are not in them: see `published_alone`.
sub published {
    my ($class, $scenario) = @_;
    my %done = map { $_->{measure}{name} => $_ } @{ $scenario->{measures} };
    my (@tables, %table);
    for my $entry (grep { !_stands_alone($_) } @{ $scenario->{published} }) {
        my $key = join "\0", map { defined $_ ? $_ : '' } @$entry{qw(measure figure source)};
        push @tables, $table{$key} = { (map { $_ => $entry->{$_} } qw(measure figure source)), entries => [] }
            unless $table{$key};
        push @{ $table{$key}{entries} }, $entry;
    }
    my %same;
    $same{"$_->{measure}\0$_->{figure}"}++ for @tables;
    for my $table (@tables) {
        my ($measure, $figure) = @$table{qw(measure figure)};
        my $results   = ($done{$measure} || {})->{results} || {};
        my @entries   = @{ delete $table->{entries} };
        my %published = map { $_->{server} => $_ } @entries;
        my @both = grep { $published{$_}{value} && $R->value($results->{$_}, $figure) } map { $_->{server} } @entries;
        my %rank = (starlet => 1, starman => 2, gazelle => 3);
        ($table->{base}) = sort { ($rank{$a} || 9) <=> ($rank{$b} || 9) || $a cmp $b } @both;
        $table->{label} = $measure;
        $table->{label} .= " ($1)" if $same{"$measure\0$figure"} > 1 && ($table->{source} || '') =~ /([^,]+)\z/ && $1 =~ /(\S.*)/;
        my @servers = map { $_->{server} } @entries;
        unshift @servers, 'hydrofoil' if $results->{hydrofoil} && !$published{hydrofoil};
        for my $server (@servers) {
            my $value = $R->value($results->{$server}, $figure);
            my $own   = $published{$server} || {};
            my %row   = (server => $server, published => $own->{value}, unit => $own->{unit}, value => $value);
            if (defined(my $base = $table->{base})) {
                $row{published_times} = ratio($own->{value}, $published{$base}{value});
                $row{times}           = ratio($value, $R->value($results->{$base}, $figure));
            }
            push @{ $table->{rows} }, \%row;
        }
    }
    return @tables;
}

# Published ratios, and numbers at which something was largest: [what, published, measured, source]... as text.
sub published_alone {
    my ($class, $scenario) = @_;
    my @rows;
    for my $entry (grep { _stands_alone($_) } @{ $scenario->{published} }) {
        my $title = lcfirst $R->figure($entry->{figure})->{title};
        my $what  = defined $entry->{peak} ? "$entry->{server}: $title is largest at this number of $entry->{peak}"
            : join ' ', "$entry->{measure}, $entry->{server}: $title, times that",
                (defined $entry->{than} ? "of $entry->{than}" : ()),
                (defined $entry->{than_measure} ? "in $entry->{than_measure}" : ());
        my @numbers = map { !defined $_ ? '-' : defined $entry->{peak} ? thousands($_) : times($_) } @$entry{qw(value measured)};
        push @rows, [$what, @numbers, $entry->{source}];
    }
    return @rows;
}

sub _stands_alone { return grep { defined } @{ $_[0] }{qw(than than_measure peak)} }

sub _unique {
    my %seen;
    return grep { !$seen{$_}++ } @_;
}

# A scenario in a few sentences: what stands out for Hydrofoil.
sub findings {
    my ($class, $scenario) = @_;
    my @findings;
    for my $family ($R->families($scenario)) {
        my @parts;
        for my $done (@{ $family->{measures} }) {
            my $results = $done->{results};
            my $own     = $results->{hydrofoil} or next;
            if (defined $own->{problem}) {
                push @findings, "Hydrofoil failed in $done->{measure}{name}: $own->{problem}.";
                next;
            }
            my ($table) = HydroBench::Report->layout($done);
            my $figure  = exists $COMPARED{$table} ? $COMPARED{$table} : 'req_per_s';
            next unless defined $figure && defined $R->value($own, $figure);
            my $best  = $R->best_other($results, $figure);
            my @times = grep { defined $_->[1] } ['nginx', ($R->ratio_of($results, 'hydrofoil', 'nginx', $figure))[0]],
                defined $best ? [$best, ($R->ratio_of($results, 'hydrofoil', $best, $figure))[0]] : ();
            push @parts, [$done, $figure, @times] if @times;
        }
        next unless @parts;
        @parts = @parts[0, -1] if @parts > 3;
        push @findings, ucfirst join('; ', map { _clause($family, $_ == 0, @{ $parts[$_] }) } 0 .. $#parts) . '.';
    }
    return @findings;
}

# What Hydrofoil does in one measure, in words; only the first clause of a sentence says of what.
sub _clause {
    my ($family, $is_first, $done, $figure, @times) = @_;
    my $label = _label($family, $done);
    my $where = defined $label ? ($family->{axis} eq 'connections' ? 'on' : 'with') . " $label" : $done->{measure}{title};
    my ($does, $of, $and) = $figure eq 'mb_per_cpu_s' ? ('sends', 'as much as %s for each second of CPU', 'as much as')
        : ('answers', 'as many requests as %s', 'as many as');
    my ($first, @others) = map { [times($_->[1]) . ' times', $_->[0]] } @times;
    my $text = !$is_first ? "$where @$first" : (defined $label ? $where : "$where:") . " Hydrofoil $does $first->[0] "
        . sprintf $of, $first->[1];
    return join ' and ', $text, map { join ' ', $_->[0], ($is_first ? $and : ()), $_->[1] } @others;
}

1;
__END__

=head1 NAME

HydroBench::Figures - which charts a scenario gets, and what they say

=head1 SYNOPSIS

    for my $figure (HydroBench::Figures->of($scenario)) {
        print "$figure->{title}\n";
        print HydroBench::Chart::SVG->paint($_, id => $figure->{name}) for @{ $figure->{drawings} };
    }
    print "$_\n" for HydroBench::Figures->findings($scenario);

=cut
