package HydroBench::H2load;
use strict;
use warnings;

my %MICROSECONDS = (us => 1, ms => 1e3, s => 1e6, m => 60e6, min => 60e6, h => 3600e6);

# The command line, as a list: HTTP/1.1 always. $options: url, connections, requests or duration (whole seconds), threads
# (1), pipeline (1), post_file and post_type.
sub command {
    my ($class, %options) = @_;
    my @command = ('h2load', '--h1', '-t' => $options{threads} || 1, '-c' => $options{connections});
    push @command, $options{requests} ? ('-n' => $options{requests}) : ('-D' => $options{duration});
    push @command, '-m' => $options{pipeline} if $options{pipeline};
    push @command, '-d' => $options{post_file}, '-H' => "Content-Type: $options{post_type}" if defined $options{post_file};
    return (@command, $options{url});
}

# What h2load printed, as a hash; undef when there is no result in it. Of latencies it prints mean and maximum; for the
# other keys see HydroBench::Wrk.
sub parse {
    my ($class, $text) = @_;
    my ($seconds) = $text =~ /^finished in ([\d.]+\w+), /m or return undef;
    my ($counts)  = $text =~ /^requests: (.+)$/m or return undef;
    my %requests = map { /^(\d+) (\w+)$/ ? ($2 => $1 + 0) : () } split /, /, $counts;
    my %status   = (map { $_ => 0 } 2 .. 5);
    if ($text =~ /^status codes: (.+)$/m) {
        my $codes = $1;
        $status{$2} = $1 while $codes =~ /(\d+) (\d)xx/g;
    }
    my ($bytes) = $text =~ /^traffic: \S+ \((\d+)\) total/m;

    # What failed is the sum of the answers that were errors and of connections that broke (errored), which timed out or not.
    my %count = (connect => 0, read => 0, write => 0, timeout => $requests{timeout} || 0, status => $status{4} + $status{5});
    my $broken = ($requests{errored} || 0) - $count{timeout};
    $count{read} = $broken if $broken > 0;

    my %latency;
    if ($text =~ /^(?:time for request|request\s*):\s+(\S+)\s+(\S+)\s+(\S+)/m) {
        @latency{qw(max mean)} = map { _microseconds($_) } $2, $3;
        delete @latency{ grep { !$latency{$_} } keys %latency };
    }

    my %result = (
        requests      => $status{2} + $status{3},
        answers       => $status{2} + $status{3} + $count{status},
        seconds       => _microseconds($seconds) / 1e6,
        bytes         => ($bytes || 0) + 0,
        error_classes => \%count,
        latency       => \%latency,
        errors        => 0,
    );
    $result{errors} += $_ for values %count;
    $result{req_per_s} = $result{seconds} > 0 ? $result{requests} / $result{seconds} : 0;
    return \%result;
}

sub _microseconds {
    my ($number, $unit) = $_[0] =~ /^([\d.]+)([a-z]+)$/ or return undef;
    return defined $MICROSECONDS{$unit} ? $number * $MICROSECONDS{$unit} : undef;
}

1;
__END__

=head1 NAME

HydroBench::H2load - the load generator h2load in its HTTP/1.1 mode: its command line and what it prints

=head1 SYNOPSIS

    my @command = HydroBench::H2load->command(url => $url, connections => 16, duration => 5, pipeline => 16);
    my $result  = HydroBench::H2load->parse($output) or die "h2load gave no result";
    print "$result->{req_per_s} req/s, $result->{errors} errors\n";

=cut
