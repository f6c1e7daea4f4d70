package HydroBench::Proc;
use strict;
use warnings;
use POSIX ();
use Exporter 'import';

our @EXPORT_OK = qw(tree cpu_seconds private_kib context_switches wait_seconds busy_seconds slurp);

my $TICKS = POSIX::sysconf(POSIX::_SC_CLK_TCK()) || 100;

# Processes come and go while one looks, so a file that vanished reads as nothing.
sub slurp {
    my ($path) = @_;
    open my $file, '<', $path or return '';
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}

# The fields of /proc/PID/stat behind the command's name, which may itself hold spaces: [0] is the state, [1] the parent.
sub _stat {
    my ($pid) = @_;
    my ($fields) = slurp("/proc/$pid/stat") =~ /^.*\)\s+(.*)/s or return;
    return split ' ', $fields;
}

# The process and all its living descendants.
sub tree {
    my ($root) = @_;
    opendir my $proc, '/proc' or die "/proc: $!\n";
    my %children;
    for my $pid (grep { /^\d+$/ } readdir $proc) {
        my @stat = _stat($pid) or next;
        push @{ $children{ $stat[1] } }, $pid;
    }
    my @pids = ($root);
    for (my $i = 0; $i < @pids; $i++) {
        push @pids, @{ $children{ $pids[$i] } || [] };
    }
    return @pids;
}

# User and system time that the whole tree has used, in seconds, children that were already waited for included.
sub cpu_seconds {
    my ($root) = @_;
    my $seconds = 0;
    for my $pid (tree($root)) {
        my @stat = _stat($pid) or next;
        my ($user, $system, $dead_user, $dead_system) = @stat[11 .. 14];
        my $coarse = ($user + $system) / $TICKS;
        my $fine   = 0;
        $fine += (split ' ', slurp($_) || '0')[0] / 1e9 for glob "/proc/$pid/task/*/schedstat";

        # schedstat is exact but forgets threads that ended; stat remembers them but counts in ticks.
        $seconds += $coarse - $fine > 3 / $TICKS ? $coarse : $fine;
        $seconds += ($dead_user + $dead_system) / $TICKS;
    }
    return $seconds;
}

# Memory that only these processes hold and have written to: what the tree would give back if it ended. KiB.
sub private_kib {
    my ($root) = @_;
    my $kib = 0;
    for my $pid (tree($root)) {
        $kib += $1 if slurp("/proc/$pid/smaps_rollup") =~ /^Private_Dirty:\s+(\d+) kB/m;
    }
    return $kib;
}

# How often the threads of the whole tree gave up a processor, or had to. Threads that ended do not count.
sub context_switches {
    my ($root) = @_;
    my $switches = 0;
    for my $pid (tree($root)) {
        for my $status (map { slurp($_) } glob "/proc/$pid/task/*/status") {
            $switches += $1 while $status =~ /^(?:non)?voluntary_ctxt_switches:\s+(\d+)/mg;
        }
    }
    return $switches;
}

# How long threads of the tree were ready to run while others had the processors, in seconds, threads that ended left out.
sub wait_seconds {
    my ($root) = @_;
    my $seconds = 0;
    for my $pid (tree($root)) {
        $seconds += ((split ' ', slurp($_))[1] || 0) / 1e9 for glob "/proc/$pid/task/*/schedstat";
    }
    return $seconds;
}

# Time that all processors together were not idle since boot, in seconds, time stolen by the hypervisor included.
sub busy_seconds {
    my ($user, $nice, $system, $idle, $iowait, $irq, $softirq, $steal)
        = slurp('/proc/stat') =~ /^cpu\s+(\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)/ or return 0;
    return ($user + $nice + $system + $irq + $softirq + $steal) / $TICKS;
}

1;
__END__

=head1 NAME

HydroBench::Proc - what a tree of processes costs, read from /proc

=head1 SYNOPSIS

    use HydroBench::Proc qw(tree cpu_seconds private_kib busy_seconds);

    my $before = cpu_seconds($pid);
    ...
    my $used   = cpu_seconds($pid) - $before;

=cut
