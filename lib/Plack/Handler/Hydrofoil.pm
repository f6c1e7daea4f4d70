package Plack::Handler::Hydrofoil;
use strict;
use warnings;
use overload ();
use File::Basename qw(basename);
use POSIX ();
use Scalar::Util qw(blessed reftype);
use Hydrofoil;
use Hydrofoil::Daemon;
use Hydrofoil::Error qw(fail usage_error);
use Hydrofoil::Listener;
use Hydrofoil::Log;
use Hydrofoil::Options;
use Hydrofoil::PidFile;
use Hydrofoil::Privileges;
use Hydrofoil::Supervisor;
use Hydrofoil::Worker;

sub new {
    my ($class, @args) = @_;

    my ($settings, $internal) = Hydrofoil::Options->from_pairs(@args);
    if (defined(my $dir = $settings->{tmpdir})) {
        usage_error("--tmpdir: $dir is not a directory that can be written to") if !-d $dir || !-w _;
    }
    if ($settings->{accelerate}) {
        require Hydrofoil::Accelerate;
        Hydrofoil::Accelerate->load;
    }
    return bless {
        %$internal,
        settings   => $settings,
        privileges => Hydrofoil::Privileges->new(user => $settings->{user}, group => $settings->{group}),
    }, $class;
}

sub run {
    my ($self, $app) = @_;

    if (!$self->{settings}{daemonize}) {
        $self->_serve($app);
        return;
    }
    $self->{daemon} = Hydrofoil::Daemon->start;
    eval { $self->_serve($app); 1 } or $self->{daemon}->failed($@);
    return;
}

sub _serve {
    my ($self, $app) = @_;

    my $settings = $self->{settings};
    $self->{log} = Hydrofoil::Log->new(
        path  => $settings->{error_log},
        quiet => $settings->{quiet},
        owner => $self->{privileges}->uid,
    );
    # Until the supervisor takes it over.
    my $log = $self->{log};
    local $SIG{USR1} = sub { $log->reopen };
    if (defined $settings->{pid}) {
        $self->{pid_file} = Hydrofoil::PidFile->new($settings->{pid});
        $self->{pid_file}->refuse_if_live if !Hydrofoil::Listener->under_server_starter;
    }
    $self->_settle_app($app);

    my $served = eval {
        $self->_listen;
        $self->{pid_file}->write if $self->{pid_file};
        $self->_announce;
        $self->_switch_output;
        $settings->{workers} ? $self->_supervise : $self->_serve_here;
        1;
    };
    my $error = $@;
    $_->close for @{ $self->{listeners} || [] };
    $self->{pid_file}->remove if $self->{pid_file};
    die $error if !$served;
    return;
}

# Plack::Loader::Delayed leaves its builder in psgi_app_builder: then every
# worker loads the application itself, and it is only tried out here.
sub _settle_app {
    my ($self, $app) = @_;

    my $settings = $self->{settings};
    if (my $builder = $self->{psgi_app_builder}) {
        if ($settings->{workers}) {
            $self->_try_out($builder);
            $self->{builder} = sub { _callable($builder->()) };
            return;
        }
        $app = $builder->();
    }
    $self->{app} = _callable($app);
    return;
}

sub _callable {
    my $app = shift;

    return $app if (reftype($app) || '') eq 'CODE';
    return sub { $app->(@_) } if blessed $app && overload::Method($app, '&{}');
    fail('the application is not a code reference: does the .psgi file end in one?');
}

sub _try_out {
    my ($self, $builder) = @_;

    my $pid = fork;
    fail("cannot fork: $!") if !defined $pid;
    if ($pid == 0) {
        my $loads = eval { $self->{privileges}->drop; _callable($builder->()); 1 };
        print STDERR $@ if !$loads;
        $_->flush for \*STDOUT, \*STDERR;
        POSIX::_exit($loads ? 0 : 1);
    }
    waitpid $pid, 0;
    fail('the application does not load; nothing was started') if $?;
    return;
}

sub _listen {
    my $self = shift;

    my $settings = $self->{settings};
    $self->{listeners} = [
        Hydrofoil::Listener->open_all(
            listen    => $settings->{listen},
            backlog   => $settings->{backlog},
            reuseport => $settings->{reuseport} && $settings->{workers},
        )
    ];
    my ($tcp) = grep { defined $_->port } @{ $self->{listeners} };
    @$self{qw(host port)} = ($tcp->host, $tcp->port) if $tcp;
    return;
}

sub _announce {
    my $self = shift;

    $self->{server_ready}->($self) if $self->{server_ready};
    return if $self->{settings}{quiet};

    my $workers = $self->{settings}{workers};
    my $how = !$workers ? 'in one process' : $workers == 1 ? 'with 1 worker' : "with $workers workers";
    my $env = defined $ENV{PLACK_ENV} ? " ($ENV{PLACK_ENV})" : '';
    my $lines = "hydrofoil $Hydrofoil::VERSION: serving " . $self->_app_name . "$env $how, pid $$\n"
        . 'hydrofoil listens on ' . join(' ', map { $_->url } @{ $self->{listeners} }) . "\n";
    print STDERR $lines;
    if (defined $self->{log}->path) {
        $self->{log}->take_over_stderr;
        $self->{log}->info($_) for split /\n/, $lines;
    }
    return;
}

sub _app_name {
    my $self = shift;

    return $self->{app_name} if defined $self->{app_name};
    # plackup keeps the name to itself, but a .psgi file is compiled into a
    # package that is named after it.
    no strict 'refs';
    my ($package) = sort grep { /_2epsgi::$/ } keys %{'Plack::Sandbox::'};
    return $self->{app_name} = 'an application' if !defined $package;
    $package =~ s/::$//;
    $package =~ s/_([0-9a-f]{2})/chr hex $1/ge;
    return $self->{app_name} = basename($package);
}

sub _switch_output {
    my $self = shift;

    $self->{log}->take_over_stderr;
    $self->{daemon}->detach(keep_stderr => defined $self->{log}->path) if $self->{daemon};
    return;
}

sub _supervise {
    my $self = shift;

    Hydrofoil::Supervisor->new(
        (map { $_ => $self->{$_} } qw(app builder settings listeners log privileges logger)),
        name     => $self->_app_name,
        on_start => sub { $self->{daemon}->started if $self->{daemon} },
    )->run;
    return;
}

sub _serve_here {
    my $self = shift;

    my $term = Hydrofoil::Listener->under_server_starter ? 'drain' : 'stop';
    Hydrofoil::Worker->new(
        (map { $_ => $self->{$_} } qw(app settings listeners log privileges logger)),
        number  => 1,
        signals => { INT => 'stop', TERM => $term, QUIT => 'drain' },
        report  => sub { $self->{daemon}->started if $self->{daemon} && $_[0] eq 'ready' },
    )->run;
    return;
}

1;

__END__

=head1 NAME

Plack::Handler::Hydrofoil - serve a PSGI application with Hydrofoil

=head1 SYNOPSIS

    plackup -s Hydrofoil --workers=16 -E production app.psgi

    use Plack::Loader;
    Plack::Loader->load('Hydrofoil', host => '127.0.0.1', port => 5000)->run($app);

=head1 DESCRIPTION

The adapter between L<Plack> and the server. The C<hydrofoil> command has a
better command line (plackup cannot tell a flag from an option with a value) and
is documented, with all options, in L<hydrofoil>.

=head2 From plackup

plackup does not know the server's options. It takes the argument after each as
its value, so write flags as C<--quiet=1>, or at the end. C<-L Delayed> is what
C<--no-preload-app> is to the C<hydrofoil> command.

=head1 METHODS

=head2 new

    my $handler = Plack::Handler::Hydrofoil->new(%options);

The options of L<hydrofoil> under their names or aliases, with C<_> for C<->.
Besides them:

=over 4

=item listen

A reference to a list of addresses; it goes before C<host>, C<port> and C<socket>.

=item server_ready

Called with the handler once the server listens; C<< $handler->{host} >> and
C<< $handler->{port} >> then tell where. Default: nothing.

=item logger

A code reference for C<psgix.logger>. Default: none.

=item app_name

The application's name for messages. Default: the name of the .psgi file.

=back

A wrong option dies with one line and, if that ends the program, exit code 2.

=head2 run

    $handler->run($app);

Serves until a signal stops the server; see L<Hydrofoil::Supervisor/Signals>. Dies
with one line if it cannot listen, with exit code 1.

=cut
