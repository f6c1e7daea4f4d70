package Hydrofoil::Supervisor;
use strict;
use warnings;
use Config;
use IO::Handle;
use IO::Poll qw(POLLIN);
use List::Util qw(max min);
use POSIX qw(:sys_wait_h :signal_h);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
use Hydrofoil::Error qw(fail);
use Hydrofoil::Listener;
use Hydrofoil::Worker;

use constant {
    QUICK_STOP    => 5,     # seconds from TERM to KILL
    DIED_AT_ONCE  => 1,     # seconds; a worker that lived shorter is not replaced immediately
    LONGEST_PAUSE => 30,    # seconds; where the back-off stops growing
    EXIT_STUCK    => 124,   # HF_EXIT_STUCK in the engine
};

my @SIGNALS = qw(CHLD HUP INT QUIT TERM TTIN TTOU USR1 USR2);

sub new {
    my ($class, %args) = @_;
    return bless {
        on_start   => sub { },
        %args,
        target     => $args{settings}{workers},
        workers    => {},
        slots      => [],
        received   => [],
        generation => 1,
        newest     => 1,
        next_spawn => 0,
    }, $class;
}

sub run {
    my $self = shift;

    my %handlers = map { my $signal = $_; $signal => sub { $self->_receive($signal) } } @SIGNALS;
    local @SIG{ keys %handlers } = values %handlers;
    local $SIG{PIPE} = 'IGNORE';
    my $title = $0;
    $self->_entitle('supervisor' . (defined $self->{name} ? " ($self->{name})" : ''));
    pipe $self->{wake_reader}, $self->{wake_writer} or fail("cannot make a pipe: $!");
    $_->blocking(0) for @$self{qw(wake_reader wake_writer)};
    $self->{run_queue} = [Hydrofoil::run_queue()];
    Hydrofoil::raise_open_files();

    while (!$self->{stopping} || %{ $self->{workers} }) {
        $self->_keep_workers if !$self->{stopping};
        $self->_wait;
        $self->_read_reports;
        $self->_obey($_) for splice @{ $self->{received} };
        $self->_bury_dead;
        $self->_kill_stragglers;
    }

    $self->_entitle(undef, $title);
    fail($self->{failure}) if defined $self->{failure};
    return;
}

# Signal handlers only take notes. The byte wakes the poll that would otherwise
# miss a signal that arrived just before it.
sub _receive {
    my ($self, $signal) = @_;

    push @{ $self->{received} }, $signal;
    local $!;
    syswrite $self->{wake_writer}, '.' if $self->{wake_writer};
    return;
}

sub _wait {
    my $self = shift;

    my $poll = IO::Poll->new;
    $poll->mask($_ => POLLIN) for $self->{wake_reader}, map { $_->{reports} } $self->_all;
    $poll->poll($self->_time_to_next);
    1 while sysread $self->{wake_reader}, my $bytes, 512;
    return;
}

sub _time_to_next {
    my $self = shift;

    my @due = map { $_->{deadline} } grep { defined $_->{deadline} } $self->_all;
    push @due, $self->{wake_at} if defined $self->{wake_at} && !$self->{stopping};
    return @due ? max(0, min(@due) - _now()) : -1;
}

sub _obey {
    my ($self, $signal) = @_;

    # Server::Starter ends the old generation with TERM when the new one is up.
    my $quit = $signal eq 'QUIT' || $signal eq 'TERM' && Hydrofoil::Listener->under_server_starter;
    if    ($quit)               { $self->_stop('QUIT', $self->{settings}{shutdown_timeout} + 1) }
    elsif ($signal eq 'TERM')   { $self->_stop('TERM', QUICK_STOP) }
    elsif ($signal eq 'INT')    { $self->_stop('INT', QUICK_STOP) }
    elsif ($signal eq 'USR1')   { $self->_reopen_log }
    elsif ($self->{stopping} || $signal eq 'USR2') { return }
    elsif ($signal eq 'HUP')    { $self->_restart }
    elsif ($signal eq 'TTIN')   { $self->_change_target(1) }
    elsif ($signal eq 'TTOU')   { $self->_change_target(-1) }
    return;
}

# A second Ctrl-C means that the first one takes too long.
sub _stop {
    my ($self, $signal, $seconds) = @_;

    my $stopping = $self->{stopping} || '';
    if ($stopping eq 'INT' && $signal eq 'INT') {
        $self->_kill($_) for $self->_all;
        return;
    }
    return if $stopping && $stopping ne 'QUIT' || $stopping eq $signal;

    $self->{log}->info($signal eq 'QUIT' ? 'stopping when what is under way is finished' : 'stopping');
    $self->{stopping} = $signal;
    $_->close for @{ $self->{listeners} };
    $self->_dismiss($_, $signal eq 'QUIT' ? 'QUIT' : 'TERM', $seconds) for $self->_all;
    return;
}

sub _let_go {
    my ($self, $worker) = @_;
    $self->_dismiss($worker, 'USR2', $self->{settings}{shutdown_timeout} + 1);
    return;
}

sub _dismiss {
    my ($self, $worker, $signal, $seconds) = @_;

    $worker->{leaving}  = 1;
    $worker->{patience} = $seconds;
    $worker->{deadline} = _now() + $seconds;
    kill $signal => $worker->{pid};
    return;
}

sub _kill_stragglers {
    my $self = shift;

    my $now = _now();
    for my $worker (grep { defined $_->{deadline} && $_->{deadline} <= $now } $self->_all) {
        $self->{log}->problem(sprintf '%s did not stop within %g s: killing it', _who($worker), $worker->{patience});
        $self->_kill($worker);
    }
    return;
}

sub _kill {
    my ($self, $worker) = @_;

    $worker->{killed}   = 1;
    $worker->{deadline} = undef;
    kill KILL => $worker->{pid};
    return;
}

sub _reopen_log {
    my $self = shift;

    $self->{log}->reopen;
    kill USR1 => keys %{ $self->{workers} };
    return;
}

sub _change_target {
    my ($self, $by) = @_;

    my $before = $self->{target};
    my $target = $self->{target} = max(1, $before + $by);
    # One that was alone does not give requests away; its successor does.
    $self->_let_go($_) for $before == 1 && $target > 1 ? grep { !$_->{leaving} } $self->_all : ();
    $self->{log}->info('received SIG' . ($by > 0 ? 'TTIN' : 'TTOU') . ": $target worker" . ($target == 1 ? '' : 's'));
    return;
}

# The first worker of a new generation is its scout: until that one is ready,
# no other is replaced, and if it does not get there, none is.
sub _restart {
    my $self = shift;

    $self->{log}->info('received SIGHUP: replacing the workers');
    $self->{last_good}  = $self->{generation} if !$self->{scouting};
    $self->{generation} = ++$self->{newest};
    $self->{scouting}   = 1;
    $self->{scout}      = undef;
    $self->{restarting} = 1;
    $self->{slots}      = [];
    return;
}

sub _give_up_restart {
    my $self = shift;

    $self->{generation} = $self->{last_good};
    $self->{scouting}   = 0;
    $self->{scout}      = undef;
    $self->{restarting} = 0;
    $self->{log}->problem('the new workers do not start (the reason is above): the old ones serve on');
    return;
}

# Brings the workers to what they should be: one of the current generation in
# each slot, none in slots above the target.
sub _keep_workers {
    my $self = shift;

    $self->{wake_at} = undef;
    my %staff;
    for my $worker (grep { !$_->{leaving} } $self->_all) {
        push @{ $staff{ $worker->{number} } }, $worker;
        $self->_let_go($worker) if $worker->{number} > $self->{target};
    }

    my $complete = 1;
    for my $number (1 .. $self->{target}) {
        my @here = @{ $staff{$number} || [] };
        next if grep { $_->{generation} == $self->{generation} && $_->{ready} } @here;
        $complete = 0;
        next if grep { $_->{generation} == $self->{generation} } @here;
        next if @here && $self->{scouting} && $self->{scout};
        $self->_spawn_when_due($number, scalar @here);
    }
    if ($complete && delete $self->{restarting}) {
        $self->{log}->info('all workers are replaced');
    }
    return;
}

sub _spawn_when_due {
    my ($self, $number, $replaces) = @_;

    my $due = max($self->{next_spawn}, $self->_slot($number)->{not_before});
    my $now = _now();
    if ($due > $now) {
        $self->{wake_at} = $due if !defined $self->{wake_at} || $due < $self->{wake_at};
        return;
    }
    my $worker = $self->_spawn($number) or return;
    $self->{next_spawn} = $now + $self->{settings}{spawn_interval};
    $self->{scout} = $worker if $self->{scouting} && $replaces;
    return;
}

# Signals wait until the child has handlers of its own.
sub _spawn {
    my ($self, $number) = @_;

    pipe my $reports, my $reporter or return $self->_cannot_spawn($number, "cannot make a pipe: $!");
    eval { $_->handle_for($number) for @{ $self->{listeners} }; 1 } or return $self->_cannot_spawn($number, $@);
    my $signals = POSIX::SigSet->new(map { POSIX->can("SIG$_")->() } @SIGNALS);
    sigprocmask(SIG_BLOCK, $signals);
    my $supervisor = $$;
    my $pid = fork;
    if (defined $pid && $pid == 0) {
        close $reports;
        $self->_become_worker($number, $supervisor, $reporter, $signals);
    }
    my $error = $!;
    sigprocmask(SIG_UNBLOCK, $signals);
    return $self->_cannot_spawn($number, "cannot fork: $error") if !defined $pid;

    $reports->blocking(0);
    return $self->{workers}{$pid} = {
        pid        => $pid,
        number     => $number,
        generation => $self->{generation},
        started    => _now(),
        reports    => $reports,
    };
}

sub _cannot_spawn {
    my ($self, $number, $error) = @_;

    chomp $error;
    my $pause = $self->_back_off($number);
    $self->{log}->problem("cannot start worker $number: $error; next try in $pause s");
    $self->{wake_at} = $self->_slot($number)->{not_before};
    return;
}

sub _become_worker {
    my ($self, $number, $supervisor, $reporter, $signals) = @_;

    $self->{workers} = {};
    close $self->{$_} for qw(wake_reader wake_writer);
    $self->_entitle("worker $number");
    my $done = eval {
        Hydrofoil::Worker->new(
            (map { $_ => $self->{$_} } qw(app builder settings listeners log privileges logger run_queue)),
            number     => $number,
            workers    => $self->{target},
            parent_pid => $supervisor,
            blocked    => $signals,
            signals    => { TERM => 'stop', QUIT => 'drain', USR2 => 'leave' },
            report     => sub { syswrite $reporter, "$_[0]\n" },
            report_fd  => fileno $reporter,
        )->run;
        1;
    };
    print STDERR $@ if !$done;
    exit($done ? 0 : 1);
}

sub _read_reports {
    my $self = shift;
    $self->_read_report($_) for $self->_all;
    return;
}

sub _read_report {
    my ($self, $worker) = @_;

    my $text = '';
    1 while sysread $worker->{reports}, $text, 512, length $text;
    for my $line (split /\n/, $text) {
        $self->_greet($worker) if $line eq 'ready';
        $self->_part_with($worker, $1) if $line =~ /^leaving (.+)/;
    }
    return;
}

# A worker of a generation that another HUP has overtaken meanwhile leaves again.
sub _greet {
    my ($self, $worker) = @_;

    $worker->{ready} = 1;
    my $current = $worker->{generation} == $self->{generation};
    @$self{qw(scouting scout)} = () if $current;
    my @others = grep { $_->{number} == $worker->{number} && $_ != $worker && !$_->{leaving} } $self->_all;
    $self->_let_go($_) for $current ? @others : @others ? $worker : ();
    if (my $on_start = delete $self->{on_start}) {
        $self->{started} = 1;
        $on_start->();
    }
    return;
}

# It has stopped accepting of its own accord. Its successor starts now, not when
# the last slow client has its answer.
sub _part_with {
    my ($self, $worker, $reason) = @_;

    return if $worker->{leaving};
    $worker->{leaving}  = 1;
    $worker->{patience} = $self->{settings}{shutdown_timeout} + 1;
    $worker->{deadline} = _now() + $worker->{patience};
    $self->_slot($worker->{number})->{failures} = 0;
    if ($reason eq 'request-timeout') {
        $self->{log}->problem(_who($worker) . ' gave up on a stuck request' . ($self->{stopping} ? '' : '; starting another'));
    }
    elsif ($reason ne 'max-requests' && !$self->{stopping}) {
        $self->{log}->info(_who($worker) . ' leaves (' . ($reason eq 'left' ? 'SIGUSR2' : $reason) . ')');
    }
    return;
}

sub _bury_dead {
    my $self = shift;

    local $?;
    while ((my $pid = waitpid -1, WNOHANG) > 0) {
        my $status = $?;
        my $worker = $self->{workers}{$pid} or next;
        $self->_read_report($worker);
        delete $self->{workers}{$pid};
        $self->_consider($worker, $status);
    }
    return;
}

sub _consider {
    my ($self, $worker, $status) = @_;

    my $number = $worker->{number};
    if ($number > $self->{target} && !grep { $_->{number} == $number } $self->_all) {
        $_->forget($number) for @{ $self->{listeners} };
    }
    my $lived = _now() - $worker->{started};
    my $why = sprintf '%s %s after %.1f s', _who($worker), _cause($status), $lived;
    if ($worker->{leaving} || $self->{stopping}) {
        my $known = $worker->{killed} || WIFEXITED($status) && WEXITSTATUS($status) == EXIT_STUCK;
        $self->{log}->problem("$why, while it was leaving") if $status && !$known;
    }
    elsif (($self->{scout} || 0) == $worker) {
        $self->{log}->problem($why);
        $self->_give_up_restart;
    }
    elsif (!$self->{started} && !%{ $self->{workers} }) {
        $self->{failure}  = "no worker could start: $why";
        $self->{stopping} = 'TERM';
    }
    else {
        my $pause = $worker->{ready} && $lived >= DIED_AT_ONCE ? $self->_no_pause($number) : $self->_back_off($number);
        $self->{log}->problem("$why; starting another" . ($pause ? " in $pause s" : ''));
    }
    return;
}

sub _cause {
    my $status = shift;

    my $signal = WIFSIGNALED($status) ? WTERMSIG($status) : 0;
    return 'gave up on a stuck request' if !$signal && WEXITSTATUS($status) == EXIT_STUCK;
    return 'exited with code ' . WEXITSTATUS($status) if !$signal;
    my $name = (split ' ', $Config{sig_name})[$signal] || $signal;
    return "was killed by SIG$name" . ($status & 128 ? ' (core dumped)' : '');
}

sub _no_pause {
    my ($self, $number) = @_;
    $self->_slot($number)->{failures} = 0;
    return 0;
}

sub _back_off {
    my ($self, $number) = @_;

    my $slot  = $self->_slot($number);
    my $pause = min(LONGEST_PAUSE, $self->{settings}{err_respawn_interval} * 2**min(16, $slot->{failures}++));
    $slot->{not_before} = _now() + $pause;
    return $pause;
}

sub _slot {
    my ($self, $number) = @_;
    return $self->{slots}[$number] ||= { failures => 0, not_before => 0 };
}

sub _all {
    my $self = shift;
    return sort { $a->{number} <=> $b->{number} } values %{ $self->{workers} };
}

sub _entitle {
    my ($self, $role, $title) = @_;
    $0 = defined $title ? $title : "hydrofoil $role" if $self->{settings}{proctitle};
    return;
}

sub _who { "worker $_[0]{number} (pid $_[0]{pid})" }

sub _now { clock_gettime(CLOCK_MONOTONIC) }

1;

__END__

=head1 NAME

Hydrofoil::Supervisor - keeps the workers running

=head1 SYNOPSIS

    use Hydrofoil::Supervisor;

    Hydrofoil::Supervisor->new(
        settings   => $settings,
        app        => $app,
        listeners  => \@listeners,
        log        => $log,
        privileges => $privileges,
    )->run;

=head1 DESCRIPTION

The supervisor forks the workers and replaces those that die. It never calls
the application. Between events it sleeps in poll(2): a signal or a report of a
worker wakes it at once.

Before the first fork it makes the run queue, by which workers give connections
to each other, and raises its limit of open files as far as it may.

=head2 Signals

=over 4

=item TERM, INT

Quick stop: each worker ends after the application call it is in; one that has
not ended after 5 seconds is killed. A second INT kills at once. Under
L<Server::Starter> TERM means what QUIT means.

=item QUIT

Graceful stop: workers finish what is under way and accept nothing new; clients
are told to close. One that has not ended a second after C<shutdown_timeout> is
killed.

=item HUP

Graceful restart: each worker is replaced, without a moment in which nobody
serves, and its connections go to the others. Without a preloaded application the new ones load the application
afresh. The first one goes ahead: if it does not get ready, the old workers stay
and the log says why.

=item TTIN, TTOU

One worker more, one less (but never less than one). The connections of one that
goes are taken over by the others. With C<reuseport> a worker that goes for good
takes along what waits in its own socket's queue.

=item USR1

Reopen the error log, here and in the workers.

=back

Workers are told to leave by USR2 (their connections go to the others), by QUIT
or by TERM.

=head2 When a worker dies

The log tells who, by which signal or with which exit code, and after how long. A
worker that had been ready for a second is replaced immediately. One that
died sooner is replaced after C<err_respawn_interval> seconds, and this pause
doubles with every such death in a row, up to 30 seconds. Workers that leave
after their share of requests are replaced without a word, as soon as they stop
accepting. Exit code 124 is that of a worker which gave up on a stuck request.

If no worker at all gets ready when the server starts, C<run> dies.

=head1 METHODS

=head2 new

    my $supervisor = Hydrofoil::Supervisor->new(%options);

=over 4

=item settings, listeners, log, privileges, logger

As for L<Hydrofoil::Worker>.

=item app, builder

The application, or the code that loads it in each worker.

=item name

The application's name, for the process title. Default: none.

=item on_start

Called once, when the first worker is ready. Default: nothing.

=back

=head2 run

    $supervisor->run;

Returns when a signal has stopped the server and all workers are gone.

=cut
