package Hydrofoil::Worker;
use strict;
use warnings;
use File::Spec;
use POSIX ();

sub new {
    my ($class, %args) = @_;
    return bless { parent_pid => 0, report => sub { }, %args }, $class;
}

sub run {
    my $self = shift;

    my ($engine, $told);
    my $process  = $$;
    my %handlers = $self->_handlers(sub {
        my ($signal, $method) = @_;
        # A child that the application forked has these handlers too.
        return _die_of($signal) if $$ != $process;
        $told = 1;
        $engine->$method if $engine;
    });
    local @SIG{ keys %handlers } = values %handlers;
    POSIX::sigprocmask(POSIX::SIG_UNBLOCK(), $self->{blocked}) if $self->{blocked};

    srand;
    $self->{privileges}->drop;
    my $app = $self->{app} || $self->{builder}->();
    $engine = $self->_engine($app);
    $self->{report}->('ready');

    my $why = $told ? 'stopped' : $engine->run;
    $self->{report}->("leaving $why");
    return $why;
}

# Ctrl-C reaches the whole process group, and its meaning is the supervisor's to
# decide. Handlers rather than IGNORE: programs that the application runs would
# inherit that.
sub _handlers {
    my ($self, $tell) = @_;

    my %signals  = %{ $self->{signals} };
    my %handlers = map { $_ => sub { } } qw(HUP INT PIPE TTIN TTOU USR2);
    $handlers{USR1} = sub { $self->{log}->reopen };
    $handlers{CHLD} = 'DEFAULT';
    $handlers{URG} = sub { $self->_tell_stack } if $self->{run_queue} && $self->{settings}{request_timeout};
    for my $signal (keys %signals) {
        $handlers{$signal} = sub { $tell->($signal, $signals{$signal}) };
    }
    return %handlers;
}

sub _die_of {
    my $signal = shift;
    $SIG{$signal} = 'DEFAULT';
    kill $signal => $$;
    return;
}

sub _engine {
    my ($self, $app) = @_;

    my $settings = $self->{settings};
    my %same = map { $_ => $settings->{$_} } qw(
        keepalive keepalive_timeout header_timeout read_timeout write_timeout shutdown_timeout
        max_body max_request_line max_header_size max_header_fields max_write_buffer
    );
    my $engine = Hydrofoil::Engine->new(
        %same,
        app                    => $app,
        max_keepalive_requests => $settings->{max_keepalive_requests},
        max_requests           => $self->{parent_pid} ? $self->_max_requests : 0,
        max_memory             => $self->{parent_pid} ? $self->_max_memory : 0,
        tmpdir                 => defined $settings->{tmpdir} ? $settings->{tmpdir} : File::Spec->tmpdir,
        server_name            => length $settings->{server_name_header} ? $settings->{server_name_header} : undef,
        multiprocess           => $self->{parent_pid} ? 1 : 0,
        harakiri               => 1,
        logger                 => $self->{logger},
        parent_pid             => $self->{parent_pid},
        $self->_others,
        on_drain               => sub { $self->_part($_[0]) },
    );
    for my $listener (@{ $self->{listeners} }) {
        $listener->keep_only($self->{number});
        my @where = defined $listener->path ? ($listener->path, '') : ($listener->host, $listener->port);
        $engine->listen(fileno $listener->handle_for($self->{number}), @where);
    }
    return $engine;
}

# No longer accepting. When the whole server ends, clients that come now are to
# be refused at once rather than wait in the kernel for nobody.
sub _part {
    my ($self, $why) = @_;
    $self->{report}->("leaving $why");
    $_->close for $why eq 'drained' ? @{ $self->{listeners} } : ();
    return;
}

# A worker that is not alone hands connections to the others, by the run queue,
# when it cannot serve them itself.
sub _others {
    my $self = shift;

    my $settings = $self->{settings};
    return if !$self->{run_queue};
    return (
        run_queue       => $self->{run_queue},
        alone           => $self->{workers} == 1,
        workers         => $self->{workers},
        accept_batch    => $self->{workers} == 1 ? 16 : 1,
        standby         => $settings->{standby},
        standby_grace   => $settings->{standby_grace},
        request_timeout => $settings->{request_timeout},
        report_fd       => $self->{report_fd},
    );
}

# Where a request that is about to be given up is stuck: the application's own
# frames, between those of the signal and those of the server.
sub _tell_stack {
    my $self = shift;

    my (@stack, $here);
    for (my $depth = 0; my ($file, $line, $sub) = (caller $depth)[ 1 .. 3 ]; $depth++) {
        last if $sub eq __PACKAGE__ . '::run';
        my $where = $file eq __FILE__ ? '' : "at $file line $line";
        if (!@stack && ($sub =~ /^Hydrofoil::Worker::/ || $sub eq '(eval)' && $where eq $here)) {
            $here = $where;
        }
        else {
            push @stack, ($sub eq '(eval)' ? 'eval {...}' : $sub) . ($where && " called $where");
        }
    }
    pop @stack if @stack && $stack[-1] eq 'eval {...}';    # the server's
    $self->{log}->problem(join "\n\t", 'a request is about to be given up (--request-timeout); it is', $here, @stack);
    return;
}

# A limit that a worker exceeds before its first request is none that replacing it could keep.
sub _max_memory {
    my $self = shift;

    my $max = $self->{settings}{max_memory} or return 0;
    open my $statm, '<', '/proc/self/statm' or return 0;
    my (undef, $pages) = split ' ', scalar <$statm>;
    my $bytes = $pages * POSIX::sysconf(POSIX::_SC_PAGESIZE());
    return $max if $bytes <= $max;
    $self->{log}->problem(sprintf '--max-memory is without effect: a worker takes %.0f MiB before its first request, and the limit is'
        . ' %.0f MiB; give it more', $bytes / 2**20, $max / 2**20) if $self->{number} == 1;
    return 0;
}

sub _max_requests {
    my $self = shift;
    my ($min, $max) = @{ $self->{settings} }{qw(min_requests max_requests)};
    return $min + int rand($max - $min + 1);
}

1;

__END__

=head1 NAME

Hydrofoil::Worker - sets up an engine and has it serve

=head1 SYNOPSIS

    use Hydrofoil::Worker;

    my $why = Hydrofoil::Worker->new(
        settings   => $settings,
        app        => $app,
        listeners  => \@listeners,
        number     => 1,
        log        => $log,
        privileges => $privileges,
        signals    => { TERM => 'stop', QUIT => 'drain', USR2 => 'leave' },
    )->run;

=head1 METHODS

=head2 new

    my $worker = Hydrofoil::Worker->new(%options);

=over 4

=item settings

What L<Hydrofoil::Options> read.

=item app, builder

The application, or the code that loads it in C<run>.

=item listeners

A reference to a list of L<Hydrofoil::Listener>.

=item number

The worker's number, from 1: its socket with C<--reuseport>.

=item log, privileges

A L<Hydrofoil::Log> and a L<Hydrofoil::Privileges>.

=item signals

Which signals end it: C<stop> after the current application call, C<drain> when
all that is under way is done, C<leave> when it has given its connections to the
other workers.

=item parent_pid

The supervisor's process id: the worker leaves when that is gone, and after as
many requests as the settings say. Default 0: there is none, and it does neither.

=item report

Called with C<ready>, and with C<leaving> and the reason when the worker stops
accepting and again when it is done. Default: nothing.

=item run_queue

The two descriptors that C<Hydrofoil::run_queue> made, shared by all workers.
Default: none, the worker is alone.

=item workers

How many workers share the run queue. If it is only this one, requests that wait
for a long one are handed over only after a tenth of a second; if they are more
than there are processors, each looks more rarely whether a call has become a
long one. Must be given with C<run_queue>.

=item blocked

A L<POSIX::SigSet> to unblock once the handlers stand. Default: none.

=item logger

The C<psgix.logger>. Default: none.

=back

=head2 run

    my $why = $worker->run;

Gives up privileges, seeds the random numbers, loads the application if it is to
be loaded here, and serves. Returns C<stopped>, C<drained>, C<left>,
C<max-requests>, C<harakiri> or C<orphaned>. Dies if the application does not load.

SIGUSR1 reopens the error log; SIGURG, with a C<request_timeout>, writes the Perl
stack to it. HUP, INT, TTIN, TTOU and USR2 do nothing unless C<signals> has them.

With a C<run_queue>, and unless the settings have no C<standby>, a second thread
runs from the beginning of C<run> to its end. It runs no Perl.

=cut
