package HydroBench::Machine;
use strict;
use warnings;
use JSON::PP ();
use POSIX ();
use HydroBench::Proc qw(slurp);

# What a reader of the figures must know about where they come from.
sub describe {
    my ($class, $root) = @_;
    my ($model)  = slurp('/proc/cpuinfo') =~ /^model name\s*:\s*(.+)$/m;
    my ($memory) = slurp('/proc/meminfo') =~ /^MemTotal:\s+(\d+) kB/m;
    my ($system) = slurp('/etc/os-release') =~ /^PRETTY_NAME="?([^"\n]+)/m;
    my $commit = _output('git', '-C', $root, 'rev-parse', 'HEAD');
    my $changed = _output('git', '-C', $root, 'status', '--porcelain', '--untracked-files=no');
    return {
        cores      => scalar $class->cores,
        cpu        => $model,
        memory_mib => $memory && int($memory / 1024),
        system     => $system,
        kernel     => (POSIX::uname())[2],
        perl       => sprintf('%vd', $^V),
        load       => slurp('/proc/loadavg') =~ /^([\d.]+)/ ? $1 + 0 : undef,
        open_files => POSIX::sysconf(POSIX::_SC_OPEN_MAX()),
        commit     => $commit =~ /^[0-9a-f]+$/ ? $commit : undef,
        changed    => length $changed ? JSON::PP::true() : JSON::PP::false(),
    };
}

# The numbers of the cores this process may use.
sub cores {
    my ($list) = slurp('/proc/self/status') =~ /^Cpus_allowed_list:\s*(\S+)/m or return (0);
    return map { /^(\d+)-(\d+)$/ ? ($1 .. $2) : $_ } split /,/, $list;
}

# Which cores a server with so many workers runs on, and which its client with so many threads: { server, client, shared }.
# server and client are lists for taskset, or undef where nothing is pinned; shared is true when both use the same cores.
#
#   one core                      nothing is pinned, the client's work is part of every figure
#   one worker                    a core for it; the client on others, never on the other thread of that core if it can be
#   several workers, 2 or 3 cores all share all: to pin eight workers to one core would say nothing of eight workers
#   several workers, 4 cores up   a quarter of the cores, whole ones, for the client, the others for the workers
#
# $groups is for tests: the cores as lists of those that are threads of one.
sub placement {
    my ($class, $workers, $threads, $groups) = @_;
    my @groups = @{ $groups || $class->_core_groups };
    my @cores  = map { @$_ } @groups;
    my $shared = { server => undef, client => undef, shared => 1 };
    return $shared if @cores < 2;
    if (($workers || 1) == 1) {
        my $server = $cores[0];
        my @client = @groups > 1 ? map { @$_ } @groups[1 .. $#groups] : @cores[1 .. $#cores];
        $threads = 1 unless $threads;
        $#client = $threads - 1 if @client > $threads;
        return { server => $server, client => join(',', @client), shared => 0 };
    }
    return $shared if @cores < 4 || @groups < 2;
    my @client;
    unshift @client, @{ pop @groups } while @client < @cores / 4;
    return { server => join(',', map { @$_ } @groups), client => join(',', @client), shared => 0 };
}

# The cores this process may use, in lists of those that are threads of the same one.
sub _core_groups {
    my ($class) = @_;
    my @cores = $class->cores;
    my %mine  = map { $_ => 1 } @cores;
    my (%seen, @groups);
    for my $core (@cores) {
        next if $seen{$core};
        my $list = slurp("/sys/devices/system/cpu/cpu$core/topology/thread_siblings_list");
        my @group = grep { $mine{$_} } map { /^(\d+)-(\d+)$/ ? ($1 .. $2) : $_ } $list =~ /[\d-]+/g;
        @group = ($core) unless grep { $_ == $core } @group;
        $seen{$_} = 1 for @group;
        push @groups, \@group;
    }
    return \@groups;
}

sub _output {
    my @command = @_;
    my $pid = open my $out, '-|';
    return '' unless defined $pid;
    if (!$pid) {
        open STDERR, '>', '/dev/null';
        exec { $command[0] } @command or POSIX::_exit(127);
    }
    local $/;
    my $text = <$out>;
    close $out;
    $text = '' unless defined $text;
    $text =~ s/\s+\z//;
    return $text;
}

1;
__END__

=head1 NAME

HydroBench::Machine - the machine under the measurement, and which cores to measure on

=cut
