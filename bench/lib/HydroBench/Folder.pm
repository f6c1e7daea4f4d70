package HydroBench::Folder;
use strict;
use warnings;
use JSON::PP ();

our $SCHEMA = 2;

# Writes results.json into a folder, all of it or not at all. $results is what its documentation below says.
sub write {
    my ($class, $dir, $results) = @_;
    my $json = JSON::PP->new->canonical->pretty->utf8->encode({ schema => $SCHEMA, %$results });
    my $path = "$dir/results.json";
    open my $file, '>', "$path.new" or die "$path.new: $!\n";
    print {$file} $json;
    close $file or die "$path.new: $!\n";
    rename "$path.new", $path or die "$path: $!\n";
    return $path;
}

1;
__END__

=head1 NAME

HydroBench::Folder - the folder with what was measured

=head1 SYNOPSIS

    HydroBench::Folder->write($dir, { time => $when, scenarios => \@scenarios, ... });

L<HydroBench::Results> reads it again.

=head1 RESULTS.JSON

    schema      2
    time        when it began, ISO 8601
    command     the command line
    rounds, duration    what applies where a measure has no rounds and seconds of its own
    pinned      cores of the servers and of the client in measures with one worker: { server, client }
    machine     cores, cpu, memory_mib, system, kernel, perl, load, open_files, commit, changed
    versions    of servers and tools, by name
    skipped     servers that were not there: why, by name
    scenarios   a list:
        name, summary
        measures    a list:
            measure     as the scenario has it: name, title, tool, ...
            pinned      { server, client, shared }: core lists, or null for all
            left_out    servers that take no part: why, by name
            results     by server:
                kind, command, keep_alive, log
                serves          connections at a time, where that is less than the client has
                problem         why there are no figures, if there are none
                req_per_s, cpu_us, latency { p50 ... }, ...     medians of the rounds
                spread          (largest - smallest) / median, of req/s in most measures
                requests        in all rounds, that were answered well
                errors, error_classes { connect, read, write, timeout, status, ... }    in all rounds
                error_ratio     errors / (requests + errors)
                rounds          a list: the same figures for each, and command, raw, foreign_cpu, repeated
        targets     promises, with value and verdict
        published   figures from elsewhere, with what was measured here as `measured`

Latencies are microseconds: mean, max and percentiles from p50 to p99.9, as far as the tool tells. C<raw> is a file of the
folder: the command line and what it printed.

=cut
