package HydroBench::Wrk;
use strict;
use warnings;
use JSON::PP ();

my %MICROSECONDS = (us => 1, ms => 1e3, s => 1e6, m => 60e6, h => 3600e6);
my %BYTES        = (B => 1, KB => 1024, MB => 1024**2, GB => 1024**3, TB => 1024**4);
my @CLASSES      = qw(connect read write timeout status);

# The command line, as a list. $options: url, connections, duration (whole seconds), threads (1), timeout (seconds, wrk's
# own is 2), and with script (the path of bench/wrk.lua) also pipeline, post_file and post_type.
sub command {
    my ($class, %options) = @_;
    my @command = (
        'wrk',
        '-t' => $options{threads} || 1,
        '-c' => $options{connections},
        '-d' => "$options{duration}s",
        '--latency',
    );
    push @command, '--timeout' => "$options{timeout}s" if $options{timeout};
    push @command, '-s' => $options{script} if defined $options{script};
    push @command, $options{url};
    my @arguments;
    push @arguments, "pipeline=$options{pipeline}" if $options{pipeline};
    push @arguments, "file=$options{post_file}", "type=$options{post_type}" if defined $options{post_file};
    push @command, '--', @arguments if @arguments;
    return @command;
}

# What wrk printed, as a hash; undef when there is no result in it. Latencies are microseconds. `answers` counts every
# answer, `requests` those that were no error, and req_per_s is of the latter; `errors` is the sum of error_classes.
sub parse {
    my ($class, $text) = @_;
    my ($answers, $seconds, $bytes, $unit)
        = $text =~ /^\s*(\d+) requests in ([\d.]+\w+), ([\d.]+)([KMGT]?B) read/m
        or return undef;
    my %result = (answers => $answers + 0, seconds => _microseconds($seconds) / 1e6, bytes => $bytes * $BYTES{$unit});
    my %count = map { $_ => 0 } @CLASSES;
    if ($text =~ /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/) {
        @count{qw(connect read write timeout)} = map { $_ + 0 } $1, $2, $3, $4;
    }
    $count{status} = $1 + 0 if $text =~ /Non-2xx or 3xx responses: (\d+)/;

    my %latency;
    $latency{mean} = _microseconds($1) if $text =~ /^\s+Latency\s+([\d.]+\w+)/m;
    $latency{max}  = _microseconds($1) if $text =~ /^\s+Latency\s+\S+\s+\S+\s+([\d.]+\w+)/m;
    while ($text =~ /^\s+([\d.]+)%\s+([\d.]+(?:us|ms|s|m|h))\s*$/mg) {
        $latency{ 'p' . ($1 + 0) } = _microseconds($2);
    }

    my ($json) = $text =~ /^(\{"requests":.*\})$/m;
    my $exact = defined $json ? eval { JSON::PP->new->decode($json) } : undef;
    if ($exact) {
        @result{qw(answers seconds bytes)} = ($exact->{requests}, $exact->{duration} / 1e6, $exact->{bytes});
        $count{$_} = $exact->{$_} for @CLASSES;
        $latency{$_} = $exact->{$_} for grep { $_ eq 'mean' || $_ eq 'max' || /^p\d/ } keys %$exact;
    }
    elsif ($text =~ m{^Requests/sec:\s+([\d.]+)}m && $1 > 0) {
        $result{seconds} = $answers / $1;    # less rounded than the seconds that wrk prints
    }
    delete @latency{ grep { !$latency{$_} } keys %latency };    # wrk prints zero for what it could not tell

    $result{errors} += $count{$_} for @CLASSES;
    $result{requests}      = $result{answers} - $count{status};
    $result{req_per_s}     = $result{seconds} > 0 ? $result{requests} / $result{seconds} : 0;
    $result{error_classes} = \%count;
    $result{latency}       = \%latency;
    return \%result;
}

sub _microseconds {
    my ($number, $unit) = $_[0] =~ /^([\d.]+)(us|ms|s|m|h)$/ or return undef;
    return $number * $MICROSECONDS{$unit};
}

1;
__END__

=head1 NAME

HydroBench::Wrk - the load generator wrk: its command line and what it prints

=head1 SYNOPSIS

    my @command = HydroBench::Wrk->command(url => $url, connections => 16, duration => 5, script => "$root/bench/wrk.lua");
    my $result  = HydroBench::Wrk->parse($output) or die "wrk gave no result";
    print "$result->{req_per_s} req/s, $result->{errors} errors, p99.9 $result->{latency}{'p99.9'} us\n";

With F<bench/wrk.lua> figures are exact, and there is a p99.9; without it they are as wrk prints them.

=cut
