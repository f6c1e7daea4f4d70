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
        $measure->{app}  ||= 'hello';
        $measure->{tool} ||= 'wrk';
    }
    return bless { %$scenario, name => $name }, $class;
}

# Whether a server takes part in a measure: true, or false and why not.
sub takes_part {
    my ($class, $measure, $server) = @_;
    return (0, 'is no server') if $measure->{tool} eq 'functions';
    return (0, 'does not serve that') if $server->{apps} && !grep { $_ eq $measure->{app} } @{ $server->{apps} };
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
        original_us accelerated_us times
        switches syscalls sleeps_per_s active_part active_cpu)) {
        my $median = median(map { $_->{$figure} } @rounds);
        $result{$figure} = $median if defined $median;
    }
    $result{errors} = 0;
    $result{errors} += $_->{errors} || 0 for @rounds;
    return \%result;
}

1;
__END__

=head1 NAME

HydroBench::Scenario - what is measured and what is promised

=head1 SYNOPSIS

    my $scenario = HydroBench::Scenario->load($root, 'hello');
    for my $measure (@{ $scenario->{measures} }) { ... }

A scenario is a file in F<bench/scenarios> that returns a hash; F<hello.pl> there shows all it can say.

=cut
