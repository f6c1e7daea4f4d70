package HydroBench::Syscalls;
use strict;
use warnings;
use POSIX ();
use Time::HiRes qw(sleep time);
use HydroBench::Proc qw(tree slurp);
use HydroBench::Wrk;

my $SECONDS = 2;

# How many system calls a request takes, all threads of all workers together, counted by strace -c on a run of its own.
# Tracing makes every call slow, so only the counts mean something, and only beside those of another server. Sleeps that a
# thread takes between two looks at a clock go by time and not by requests, of which there are far fewer here than usual:
# they are counted apart, per second.
sub round {
    my ($class, $run, $server, $measure) = @_;
    if (!HydroBench::Servers::find_program('strace')) {
        $server->fail('strace is not installed');
        return undef;
    }
    my ($supervisor, @workers) = tree($server->{pid});
    @workers = ($supervisor) unless @workers;
    my $file = "$run->{dir}/strace-$server->{name}";
    defined(my $pid = fork) or die "cannot fork: $!\n";
    if (!$pid) {
        open STDOUT, '>', "$file.log";
        open STDERR, '>&', \*STDOUT;
        exec 'strace', '-f', '-c', '-o', $file, map { ('-p' => $_) } @workers or POSIX::_exit(127);
    }
    sleep 0.5;
    my @command = ($run->pin_client($measure), HydroBench::Wrk->command(
        url => 'http://127.0.0.1:' . $server->port . '/', connections => $measure->{connections}, duration => $SECONDS));
    my $text   = HydroBench::Run::output(\@command, $SECONDS + 30);
    my $result = HydroBench::Wrk->parse($text);
    kill INT => $pid;
    my $deadline = time + 10;
    while (waitpid($pid, POSIX::WNOHANG()) == 0) {
        kill KILL => $pid if time > $deadline;
        sleep 0.02;
    }
    my $table = slurp($file);
    my $raw   = $run->raw($server, $measure, \@command, "$text\n$table");
    my $calls = $class->parse($table);
    if (!$calls || !$result || !$result->{requests}) {
        $server->fail('strace counted nothing: ' . slurp("$file.log"));
        return undef;
    }
    my %each = map { $_ => $calls->{$_} / $result->{requests} } keys %$calls;
    my $sleeps = $calls->{clock_nanosleep} || 0;
    return {
        raw          => $raw,
        errors       => $result->{errors},
        error_classes => $result->{error_classes},
        syscalls     => delete($each{total}) - $sleeps / $result->{requests},
        sleeps_per_s => $sleeps / $result->{seconds},
        by_name      => \%each,
        requests     => $result->{requests},
    };
}

# The table that strace -c prints: calls by name, and `total`. undef when it is none.
sub parse {
    my ($class, $text) = @_;
    my %calls;
    $calls{$2} = $1 while $text =~ /^\s*[\d.]+\s+[\d.]+\s+\d*\s+(\d+)\s+(?:\d+\s+)?([a-z_]\w*)\s*$/mg;
    return defined $calls{total} ? \%calls : undef;
}

1;
__END__

=head1 NAME

HydroBench::Syscalls - how many system calls a server makes for a request

=cut
