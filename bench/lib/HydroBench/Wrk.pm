package HydroBench::Wrk;
use strict;
use warnings;

my %MICROSECONDS = (us => 1, ms => 1e3, s => 1e6, m => 60e6, h => 3600e6);
my %BYTES        = (B => 1, KB => 1024, MB => 1024**2, GB => 1024**3, TB => 1024**4);

# The command line, as a list. $options: url, connections, duration (whole seconds), threads (1), script, script_args.
sub command {
    my ($class, %options) = @_;
    my @command = (
        'wrk',
        '-t' => $options{threads} || 1,
        '-c' => $options{connections},
        '-d' => "$options{duration}s",
        '--latency',
    );
    push @command, '-s' => $options{script} if defined $options{script};
    push @command, $options{url};
    push @command, '--', @{ $options{script_args} } if $options{script_args};
    return @command;
}

# What wrk printed, as a hash; undef when there is no result in it. Latencies are microseconds; `errors` counts every
# request or connection that went wrong, for whatever reason.
sub parse {
    my ($class, $text) = @_;
    my ($requests, $seconds, $bytes, $unit)
        = $text =~ /^\s*(\d+) requests in ([\d.]+\w+), ([\d.]+)([KMGT]?B) read/m
        or return undef;
    my ($req_per_s) = $text =~ m{^Requests/sec:\s+([\d.]+)}m or return undef;

    my %result = (
        requests  => $requests + 0,
        seconds   => _microseconds($seconds) / 1e6,
        bytes     => $bytes * $BYTES{$unit},
        req_per_s => $req_per_s + 0,
        (map { ("${_}_errors" => 0) } qw(connect read write timeout status)),
        latency => {},
    );
    if ($text =~ /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/) {
        @result{qw(connect_errors read_errors write_errors timeout_errors)} = map { $_ + 0 } $1, $2, $3, $4;
    }
    $result{status_errors} = $1 + 0 if $text =~ /Non-2xx or 3xx responses: (\d+)/;
    $result{errors} += $result{"${_}_errors"} for qw(connect read write timeout status);

    $result{latency}{mean} = _microseconds($1) if $text =~ /^\s+Latency\s+([\d.]+\w+)/m;
    $result{latency}{max}  = _microseconds($1) if $text =~ /^\s+Latency\s+\S+\s+\S+\s+([\d.]+\w+)/m;
    while ($text =~ /^\s+([\d.]+)%\s+([\d.]+(?:us|ms|s|m|h))\s*$/mg) {
        my ($percent, $time) = ($1 + 0, _microseconds($2));
        $result{latency}{"p$percent"} = $time if $time;    # wrk prints zero for what it could not tell (pipelining)
    }
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

    my @command = HydroBench::Wrk->command(url => $url, connections => 16, duration => 5);
    my $result  = HydroBench::Wrk->parse($output) or die "wrk gave no result";
    print "$result->{req_per_s} req/s, $result->{errors} errors, p99 $result->{latency}{p99} us\n";

=cut
