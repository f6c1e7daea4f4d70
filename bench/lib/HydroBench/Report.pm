package HydroBench::Report;
use strict;
use warnings;
use HydroBench::Scenario;
use HydroBench::Stats qw(ratio);

# The columns of a measure's table: title, width, and a function of (result, results of all) that gives the cell.
my $ERRORS = ['errors', 7, sub { defined $_[0]{errors} ? $_[0]{errors} : '' }];
my $SPREAD = ['spread', 7, sub { defined $_[0]{spread} ? sprintf '%.1f%%', 100 * $_[0]{spread} : '' }];
my %COLUMNS = (
    wrk => [
        ['req/s',      9, sub { _thousands($_[0]{req_per_s}) }],
        $SPREAD,
        ['vs nginx',   9, sub { _ratio($_[0], $_[1], 'req_per_s') }],
        ['CPU us/req', 11, sub { _number('%.2f', $_[0]{cpu_us}) }],
        ['p50 ms',     9, sub { _milliseconds($_[0]{p50_us}) }],
        ['p99 ms',     9, sub { _milliseconds($_[0]{p99_us}) }],
        $ERRORS,
    ],
    file => [
        ['MB/CPU s',   9, sub { _thousands($_[0]{mb_per_cpu_s}) }],
        $SPREAD,
        ['vs nginx',   9, sub { _ratio($_[0], $_[1], 'mb_per_cpu_s') }],
        ['req/s',      9, sub { _thousands($_[0]{req_per_s}) }],
        ['CPU us/req', 11, sub { _number('%.1f', $_[0]{cpu_us}) }],
        $ERRORS,
    ],
    idle => [
        ['bytes each', 11, sub { _thousands($_[0]{bytes_per_connection}) }],
        ['vs nginx',   9, sub { _ratio($_[0], $_[1], 'bytes_per_connection') }],
        $ERRORS,
    ],
);

my %FIGURES = (
    req_per_s            => 'req/s',
    cpu_us               => 'CPU per request',
    mb_per_cpu_s         => 'MB per CPU second',
    bytes_per_connection => 'bytes per connection',
    errors               => 'errors',
);

# One measure as a table, as text.
sub measure {
    my ($class, $done) = @_;
    my ($measure, $results) = @$done{qw(measure results)};
    my $columns = $COLUMNS{ $measure->{file_bytes} ? 'file' : $measure->{tool} };
    my $rank    = $measure->{tool} eq 'idle' ? 'bytes_per_connection' : $measure->{file_bytes} ? 'mb_per_cpu_s' : 'req_per_s';
    my $sign    = $measure->{tool} eq 'idle' ? -1 : 1;

    my $text = "\n$measure->{name}: $measure->{title}\n";
    $text .= sprintf "  %-18s", 'server';
    $text .= sprintf "%$_->[1]s", $_->[0] for @$columns;
    $text .= "\n";

    my @order = sort {
        defined $results->{$b}{$rank} <=> defined $results->{$a}{$rank}
            || $sign * (($results->{$b}{$rank} || 0) <=> ($results->{$a}{$rank} || 0))
            || $a cmp $b
    } keys %$results;
    for my $name (@order) {
        my $result = $results->{$name};
        $text .= sprintf '  %-18s', $name;
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

# What a reader must know before believing a line.
sub notes {
    my ($class, $result) = @_;
    my @notes;
    push @notes, 'no keep-alive' unless $result->{keep_alive};
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
        my ($word, $limit) = defined $target->{at_least} ? ('at least', $target->{at_least}) : ('at most', $target->{at_most});
        my $times = defined $target->{than};
        my $than  = !$times ? '' : $target->{than} eq 'best psgi'
            ? ' times the best other PSGI server' . (defined $target->{against} ? " ($target->{against})" : '')
            : " times $target->{than}";
        my $value = !defined $target->{value} ? '-' : sprintf $times ? '%.2f' : '%.0f', $target->{value};
        $text .= sprintf "  %-13s %8s  %s: %s %s%s\n", $target->{verdict}, $value,
            "$target->{measure}, $FIGURES{ $target->{figure} }", $word, $times ? sprintf('%.2f', $limit) : $limit, $than;
        $missed++ if $target->{verdict} eq 'miss';
    }
    return ($text, $missed);
}

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
