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

# The core for the server and the one for the client: never two threads of one core when that can be helped.
# (undef, undef) on a machine with a single core: nothing is pinned there.
sub pinning {
    my ($class) = @_;
    my ($server, @others) = $class->cores;
    return (undef, undef) unless @others;
    my $siblings = slurp("/sys/devices/system/cpu/cpu$server/topology/thread_siblings_list");
    my %sibling = map { $_ => 1 } map { /^(\d+)-(\d+)$/ ? ($1 .. $2) : $_ } $siblings =~ /[\d-]+/g;
    my ($client) = grep { !$sibling{$_} } @others;
    return ($server, defined $client ? $client : $others[0]);
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
    chomp $text;
    return $text;
}

1;
__END__

=head1 NAME

HydroBench::Machine - the machine under the measurement, and which cores to measure on

=cut
