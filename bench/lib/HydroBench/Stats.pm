package HydroBench::Stats;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(median spread ratio percentile);

# The middle of the values, or the mean of the two in the middle; undef for none. Undefined values do not count.
sub median {
    my @sorted = sort { $a <=> $b } grep { defined } @_;
    return undef unless @sorted;
    my $half = int(@sorted / 2);
    return @sorted % 2 ? $sorted[$half] : ($sorted[$half - 1] + $sorted[$half]) / 2;
}

# How far the values lie apart, as a part of their median: 0.05 means that the largest is five per cent of the median
# above the smallest. undef when there is no median to compare with.
sub spread {
    my @sorted = sort { $a <=> $b } grep { defined } @_;
    my $median = median(@sorted);
    return undef unless $median;
    return ($sorted[-1] - $sorted[0]) / $median;
}

# undef, rather than an error, when one side is missing or the divisor is zero.
sub ratio {
    my ($value, $base) = @_;
    return undef unless defined $value && $base;
    return $value / $base;
}

# The smallest value that at least $percent per cent of all values do not exceed (nearest rank).
sub percentile {
    my ($percent, @values) = @_;
    my @sorted = sort { $a <=> $b } grep { defined } @values;
    return undef unless @sorted;
    my $exact = $percent / 100 * @sorted;
    my $rank  = int $exact;
    $rank++ if $rank < $exact;
    $rank = 1 if $rank < 1;
    $rank = @sorted if $rank > @sorted;
    return $sorted[$rank - 1];
}

1;
__END__

=head1 NAME

HydroBench::Stats - the few statistics that the benchmark reports

=head1 SYNOPSIS

    use HydroBench::Stats qw(median spread ratio percentile);

    my $req_per_s = median(@rounds);
    my $noise     = spread(@rounds);          # (max - min) / median
    my $times     = ratio($req_per_s, $nginx);
    my $p99       = percentile(99, @latencies);

=cut
