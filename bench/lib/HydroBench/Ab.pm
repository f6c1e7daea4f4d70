package HydroBench::Ab;
use strict;
use warnings;

my %CLASSES = (Connect => 'connect', Receive => 'read', Length => 'length', Exceptions => 'exceptions');

my $MANY = 1_000_000;    # requests that ab makes room for where the time ends it

# The command line, as a list. $options: url, connections, and requests or duration (whole seconds); keep_alive (false: a
# connection for each request, ab's own default), post_file and post_type, csv (a file for finer percentiles).
sub command {
    my ($class, %options) = @_;
    my @command = ('ab', '-q', '-c' => $options{connections});
    push @command, '-k' if $options{keep_alive};
    push @command, $options{requests} ? ('-n' => $options{requests}) : ('-t' => $options{duration}, '-n' => $MANY);
    push @command, '-p' => $options{post_file}, '-T' => $options{post_type} if defined $options{post_file};
    push @command, '-e' => $options{csv} if defined $options{csv};
    return (@command, $options{url});
}

# What ab printed, as a hash; undef when it gave up before the end. $csv, optional, is what it wrote with -e. Latencies are
# microseconds; in ab's own table they are whole milliseconds. For the other keys see HydroBench::Wrk.
sub parse {
    my ($class, $text, $csv) = @_;
    my %found;
    $found{$1} = $2 while $text =~ /^([A-Z][\w \/-]*):\s+([\d.]+)/mg;
    my ($answers, $seconds) = @found{'Complete requests', 'Time taken for tests'};
    return undef unless defined $answers && defined $seconds;

    my %count = map { $_ => 0 } qw(connect read write timeout status length exceptions);
    if ($text =~ /^\s*\((Connect: \d+, Receive: \d+, Length: \d+, Exceptions: \d+)\)/m) {
        my %failed = $1 =~ /(\w+): (\d+)/g;
        $count{ $CLASSES{$_} } = $failed{$_} + 0 for keys %failed;
    }
    $count{status} = $found{'Non-2xx responses'} || 0;
    $count{write}  = $found{'Write errors'} || 0;

    # The page of an error is usually of another length, too: it counts once.
    $count{length} = $count{length} > $count{status} ? $count{length} - $count{status} : 0;

    my %latency;
    $latency{mean} = $1 * 1e3 if $text =~ /^Time per request:\s+([\d.]+) \[ms\] \(mean\)$/m;
    if ($text =~ /^Percentage of the requests served[^\n]*\n((?:\s+\d+%\s+\d+[^\n]*\n?)+)/m) {
        my $table = $1;
        $latency{ $1 == 100 ? 'max' : "p$1" } = $2 * 1e3 while $table =~ /^\s+(\d+)%\s+(\d+)/mg;
    }
    for (split /\n/, defined $csv ? $csv : '') {
        $latency{"p$1"} = $2 * 1e3 if /^(\d+),([\d.]+)$/ && exists $latency{"p$1"};
    }

    my %result = (
        answers       => $answers + 0,
        seconds       => $seconds + 0,
        bytes         => ($found{'Total transferred'} || 0) + 0,
        error_classes => \%count,
        latency       => \%latency,
        errors        => 0,
    );
    $result{errors} += $_ for values %count;
    my $bad = $count{read} + $count{status} + $count{length} + $count{exceptions};
    $result{requests}  = $answers > $bad ? $answers - $bad : 0;
    $result{req_per_s} = $seconds > 0 ? $result{requests} / $seconds : 0;
    return \%result;
}

1;
__END__

=head1 NAME

HydroBench::Ab - the load generator ab: its command line and what it prints

=head1 SYNOPSIS

    my @command = HydroBench::Ab->command(url => $url, connections => 30, requests => 30_000);
    my $result  = HydroBench::Ab->parse($output) or die "ab gave no result";
    print "$result->{req_per_s} req/s, $result->{error_classes}{length} answers of another length\n";

=cut
