package HydroBench::Compare;
use strict;
use warnings;
use Exporter 'import';
use HydroBench::Figures;
use HydroBench::Format qw(times);
use HydroBench::Report;
use HydroBench::Results;
use HydroBench::Stats qw(median);

our @EXPORT_OK = qw(shift_interval below);

my $R = 'HydroBench::Results';

my $PROBABLE = 0.95;    # of an interval
my $SURE     = 0.99;    # of one that has to exclude "no difference" before that is said without a doubt
my $SAME     = 0.05;    # an interval that lies this close around 1 is "the same"

# Compares two results ($old, $new: HydroBench::Results). Options: least (how large a difference must be to count, 0.02), only
# (names of servers). Returns { comparisons => [...], warnings => [...], missing => [...] }, the most important first. Of a
# comparison: scenario, measure, server, figure (as HydroBench::Results tells it), old and new (medians), ratio with low and
# high (new to old, with its interval; undef when there is none), rounds => [old, new], control (true for a server that is the
# same in both), verdict (slower, faster, worse, better, these after "maybe ", same, cannot tell) and why (in words).
sub compare {
    my ($class, $old, $new, %options) = @_;
    my %only = map { $_ => 1 } @{ $options{only} || [] };
    my (@comparisons, @missing);
    my %there = map { $_->{name} => $_ } @{ $new->{scenarios} };
    for my $scenario (@{ $old->{scenarios} }) {
        my $other = delete $there{ $scenario->{name} };
        if (!$other) { push @missing, "scenario $scenario->{name} is in the first only"; next }
        my %measures = map { $_->{measure}{name} => $_ } @{ $other->{measures} };
        for my $done (@{ $scenario->{measures} }) {
            my $name = $done->{measure}{name};
            my $counterpart = delete $measures{$name};
            if (!$counterpart) { push @missing, "$scenario->{name}/$name is in the first only"; next }
            my ($own, $problems) = $class->_measure($old, $new, $scenario->{name}, $done, $counterpart, \%only,
                [map { $_->{figure} } grep { $_->{measure} eq $name } @{ $scenario->{targets} }], $options{least});
            push @comparisons, @$own;
            push @missing, map {"$scenario->{name}/$name: $_"} @$problems;
        }
        push @missing, map {"$scenario->{name}/$_ is in the second only"} sort keys %measures;
    }
    push @missing, map {"scenario $_ is in the second only"} sort keys %there;

    my %rank = (slower => 0, worse => 0, faster => 1, better => 1, 'maybe slower' => 2, 'maybe worse' => 2, 'maybe faster' => 3,
        'maybe better' => 3, 'cannot tell' => 4, same => 5);
    my @sorted = sort {
        $rank{ $a->{verdict} } <=> $rank{ $b->{verdict} }
            || ($a->{control} || 0) <=> ($b->{control} || 0)
            || ($b->{server} =~ /^hydrofoil/) <=> ($a->{server} =~ /^hydrofoil/)
            || $b->{weight} <=> $a->{weight}
            || _name($a) cmp _name($b)
    } @comparisons;
    return { comparisons => \@sorted, missing => \@missing, warnings => [$class->_warnings($old, $new, \@sorted)] };
}

sub _name { return join "\0", @{ $_[0] }{qw(scenario measure server)}, $_[0]{figure}{name} }

sub _measure {
    my ($class, $old, $new, $scenario, $done, $counterpart, $only, $promised, $least) = @_;
    my ($before, $after) = map { $_->{results} } $done, $counterpart;
    my %seen;
    my @figures = grep { !$seen{$_}++ } HydroBench::Figures->shown($done), @$promised;
    my (@own, @problems);
    for my $server (sort keys %$before) {
        next if %$only && !$only->{$server};
        my ($one, $two) = ($before->{$server}, $after->{$server});
        if (!$two) { push @problems, "$server is in the first only"; next }
        my @failed = grep { defined $_->[1]{problem} } ['first', $one], ['second', $two];
        if (@failed) {
            push @problems, join '; ', map {"$server failed in the $_->[0]: $_->[1]{problem}"} @failed;
            next;
        }
        for my $figure (@figures) {
            my $comparison = $class->_figure($figure, $one, $two) or next;
            push @own, { %$comparison, scenario => $scenario, measure => $done->{measure}{name}, server => $server,
                control => _is_control($old, $new, $server, $one) };
        }
    }
    push @problems, map {"$_ is in the second only"} grep { !$before->{$_} && (!%$only || $only->{$_}) } sort keys %$after;

    # What a server that is the same in both seems to have changed is what the machine changed.
    for my $comparison (@own) {
        my @controls = grep { $_->{control} && $_->{figure}{name} eq $comparison->{figure}{name} && defined $_->{ratio} } @own;
        my ($worst)  = sort { $b->{distance} <=> $a->{distance} } @controls;
        _judge($comparison, $comparison->{control} ? undef : $worst, defined $least ? $least : 0.02);
    }
    return (\@own, \@problems);
}

# nginx and the floor run no code of ours; where their version did not change, they tell about the machine.
sub _is_control {
    my ($old, $new, $server, $result) = @_;
    return 0 unless ($result->{kind} || '') =~ /^(?:web|floor)$/;
    my @versions = map { $_->{versions}{$server} } $old, $new;
    return !defined $versions[0] || !defined $versions[1] || $versions[0] eq $versions[1] ? 1 : 0;
}

sub _figure {
    my ($class, $figure, $one, $two) = @_;
    my @old = grep { defined } $R->rounds($one, $figure);
    my @new = grep { defined } $R->rounds($two, $figure);
    my ($before, $after) = map { $R->value($_, $figure) } $one, $two;
    return undef unless defined $before && defined $after;
    @old = ($before) unless @old;
    @new = ($after)  unless @new;
    my %comparison = (figure => $R->figure($figure), old => $before, new => $after, rounds => [scalar @old, scalar @new],
        distance => 0, weight => 0);
    if (grep { $_ <= 0 } @old, @new) {
        return undef unless grep { $_ != 0 } @old, @new;
        @comparison{qw(shift low high)} = shift_interval($PROBABLE, \@old, \@new);
        $comparison{sure} = _excludes(0, shift_interval($SURE, \@old, \@new));
        return \%comparison;
    }
    my @logs = ([map { log } @old], [map { log } @new]);
    my ($shift, @ends) = shift_interval($PROBABLE, @logs);
    $comparison{sure}     = _excludes(0, shift_interval($SURE, @logs));
    $comparison{ratio}    = exp $shift;
    $comparison{distance} = abs $shift;
    @comparison{qw(low high)} = map { exp } @ends if @ends;
    return \%comparison;
}

sub _excludes {
    my ($value, undef, $low, $high) = @_;
    return defined $low && ($low > $value || $high < $value) ? 1 : 0;
}

sub _judge {
    my ($c, $control, $least) = @_;
    my $speed = $c->{figure}{name} =~ /per_s$|_us$|^latency|^times$/;
    my ($good, $bad) = map { $c->{sure} ? $_ : "maybe $_" } $speed ? qw(faster slower) : qw(better worse);
    if (!defined $c->{low}) {
        $c->{verdict} = 'cannot tell';
        $c->{why}     = "$c->{rounds}[0] and $c->{rounds}[1] rounds are too few: 4 and 4 are needed";
        $c->{weight}  = $c->{distance};
        return;
    }
    if (defined $c->{shift}) {
        my $differs = $c->{low} > 0 || $c->{high} < 0;
        $c->{verdict} = !$differs ? 'same' : $c->{shift} * $c->{figure}{better} > 0 ? $good : $bad;
        $c->{why}     = $differs ? 'zero in one of them' : 'no difference beyond that of the rounds';
        $c->{weight}  = $differs ? 1 : 0;
        return;
    }
    my $nearest = $c->{low} > 1 ? log $c->{low} : $c->{high} < 1 ? -log $c->{high} : 0;
    $c->{weight} = $nearest;
    if ($nearest == 0) {
        my $close = $c->{low} > 1 - $SAME && $c->{high} < 1 + $SAME;
        $c->{verdict} = $close ? 'same' : 'cannot tell';
        $c->{why}     = $close ? 'no difference beyond that of the rounds' : 'the rounds lie too far apart';
        $c->{weight}  = $close ? $c->{distance} : log($c->{high} / $c->{low});
    }
    elsif ($c->{distance} < log(1 + $least)) {
        $c->{verdict} = 'same';
        $c->{why}     = sprintf 'a difference, but below %.3g%%', 100 * $least;
    }
    elsif ($control && $nearest <= $control->{distance}) {
        $c->{verdict} = 'cannot tell';
        $c->{why}     = sprintf '%s, which is the same in both, moved by %.1f%%', $control->{server},
            100 * abs($control->{ratio} - 1);
    }
    else {
        $c->{verdict} = log($c->{ratio}) * $c->{figure}{better} > 0 ? $good : $bad;
        $c->{why}     = sprintf 'by %.1f%%', 100 * abs($c->{ratio} - 1);
    }
    return;
}

# How far the values of @$new lie above those of @$old: the median of all differences between one of each (Hodges and Lehmann
# 1963), and the interval that holds it with the probability $level, from the exact distribution of the rank sum (Mann and
# Whitney 1947), which asks nothing of how values are distributed but that those of one side were drawn alike. Only (shift)
# when there are too few for an interval.
sub shift_interval {
    my ($level, $old, $new) = @_;
    my @differences = sort { $a <=> $b } map { my $from = $_; map { $_ - $from } @$new } @$old;
    my $shift = median(@differences);
    my $skip  = below(scalar @$old, scalar @$new, (1 - $level) / 2);
    return ($shift) unless $skip;
    return ($shift, $differences[$skip - 1], $differences[-$skip]);
}

# The largest k for which fewer than k pairs are the wrong way round with at most this probability, if both sides are alike: how
# many of the ordered differences lie outside of the interval on each side, and one more. 0 when there is none.
sub below {
    my ($m, $n, $probability) = @_;
    my $pairs = $m * $n;
    return 0 unless $pairs;
    # How many orders of m and n values have u pairs the wrong way round: the coefficients of the Gaussian binomial.
    my @ways = (1, (0) x $pairs);
    for my $i (1 .. $m) {
        for my $u (reverse $n + $i .. $pairs) { $ways[$u] -= $ways[$u - $n - $i] }
        for my $u ($i .. $pairs) { $ways[$u] += $ways[$u - $i] }
    }
    my $all = 0;
    $all += $_ for @ways;
    my ($k, $sum) = (0, 0);
    for my $u (0 .. $pairs) {
        $sum += $ways[$u];
        last if $sum / $all > $probability;
        $k = $u + 1;
    }
    return $k;
}

sub _warnings {
    my ($class, $old, $new, $comparisons) = @_;
    my @warnings = map {"The two differ in $_->[0]: $_->[1]; $_->[2]."} $old->differences($new);
    for my $pair (['first', $old], ['second', $new]) {
        my ($which, $results) = @$pair;
        push @warnings, map { s/^(The machine)/In the $which, \l$1/r } grep {/busy/} $results->warnings;
    }
    my %commands;
    for my $side (0, 1) {
        for my $scenario (@{ ($old, $new)[$side]{scenarios} }) {
            for my $done (@{ $scenario->{measures} }) {
                for my $name (keys %{ $done->{results} }) {
                    my $command = $R->tidy_command($done->{results}{$name}{command});
                    $commands{$name}{"$scenario->{name}/$done->{measure}{name}"}[$side] = $command if length $command;
                }
            }
        }
    }
    for my $name (sort keys %commands) {
        my ($changed) = grep { defined $_->[0] && defined $_->[1] && $_->[0] ne $_->[1] }
            map { $commands{$name}{$_} } sort keys %{ $commands{$name} };
        push @warnings, "$name was started in another way: $changed->[0]; $changed->[1]." if $changed;
    }
    for my $control (grep { $_->{control} && $_->{verdict} =~ /^(?:slower|faster)$/ } @$comparisons) {
        next unless $control->{figure}{name} =~ /^(?:req_per_s|cpu_us|mb_per_cpu_s)$/;
        push @warnings, sprintf '%s, which is the same in both, got %s in %s/%s (%s, %s times): the machine was not the same.'
            . ' Smaller differences than that count for nothing there.', @$control{qw(server verdict scenario measure)},
            lcfirst $control->{figure}{title}, times($control->{ratio});
    }
    return @warnings;
}

1;
__END__

=head1 NAME

HydroBench::Compare - what got faster or slower between two runs, and how sure one can be

=head1 SYNOPSIS

    my $found = HydroBench::Compare->compare($old, $new, least => 0.02);
    for my $one (@{ $found->{comparisons} }) {
        print "$one->{verdict}: $one->{measure}, $one->{server}, $one->{figure}{title}: $one->{ratio}\n";
    }

=head1 HOW SURE

The rounds of a run are compared with those of the other: the ratio is the median of the ratios of every round of one to every
round of the other, and its interval holds the true ratio in 95 of 100 comparisons, if rounds of a run are drawn alike and
independent. With three rounds each there is no such interval, and nothing is said; four are the least, five are usual.
Of a difference that the interval at 99% does not confirm, it is said that there may be one.

A difference counts when its interval excludes 1, when it is not smaller than C<least>, and when it is larger than what the same
comparison shows for nginx and the floor, where these are the same in both: rounds of one run share that hour's machine, which
no interval from rounds can know. With many comparisons, some will look different by chance: one in twenty.

=cut
