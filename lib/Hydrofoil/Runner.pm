package Hydrofoil::Runner;
use strict;
use warnings;
use parent 'Plack::Runner';
use Config;
use Hydrofoil::Error qw(fail usage_error);
use Hydrofoil::Options;

sub new {
    my ($class, @args) = @_;
    return $class->SUPER::new(
        server => 'Hydrofoil',
        env    => length($ENV{PLACK_ENV} || '') ? $ENV{PLACK_ENV} : 'deployment',
        @args,
    );
}

sub parse_options {
    my ($self, @argv) = @_;

    my $parsed = Hydrofoil::Options->parse_argv(@argv);
    my %plack  = map { $_->[0] => $_->[1] } @{ $parsed->{plack} };
    $self->_print_and_exit(Hydrofoil::Options->help_text) if $plack{help};
    $self->_print_and_exit($self->version_text)           if $plack{version};

    my %given    = %{ $parsed->{given} };
    my $settings = Hydrofoil::Options->settings(\%given);
    $self->_refuse(\%plack, $settings);

    $self->SUPER::parse_options(map { _for_plack(@$_) } @{ $parsed->{plack} });
    # It takes precedence over -E in Plack::Runner.
    $ENV{PLACK_ENV} = $plack{env} if defined $plack{env};
    $self->{loader} = 'Delayed' if !$settings->{preload_app} && $self->{loader} eq 'Plack::Loader';

    my @arguments = @{ $parsed->{arguments} };
    shift @arguments if !defined $plack{app};
    usage_error("there is no use for '$arguments[0]': the application is one file") if @arguments;

    delete @given{qw(preload_app host port socket)};
    $given{listen}   = $settings->{listen};
    $self->{argv}    = $parsed->{arguments};
    $self->{options} = [ %given, app_name => $self->_app_name ];
    return;
}

sub run {
    my ($self, @args) = @_;

    $self = $self->new if !ref $self;
    $self->parse_options if !$self->{options};
    $self->_refuse_missing_file if !@args;
    $self->_accelerate;
    local $SIG{USR1} = sub { };    # log rotation while the application loads is no reason to die
    return $self->SUPER::run(@args);
}

# Before the application is loaded: what it makes while it loads is then made in C. Under plackup the handler does it, after.
sub _accelerate {
    my $self = shift;

    my %options = @{ $self->{options} };
    return if !$options{accelerate};
    require Hydrofoil::Accelerate;
    Hydrofoil::Accelerate->load;
    return;
}

# Plack::Runner adds a line of its own on where the server listens; ours do.
sub prepare_devel {
    my ($self, $app) = @_;

    my @options = @{ $self->{options} };
    $app = $self->SUPER::prepare_devel($app);
    $self->{options} = \@options;
    return $app;
}

sub version_text {
    require Hydrofoil;
    require Plack;

    my %info   = %{ Hydrofoil::engine_info() };
    my $engine = delete $info{version};
    my @parts  = map { "$_ $info{$_}" } sort keys %info;
    return "hydrofoil $Hydrofoil::VERSION\n"
        . 'engine ' . join(', ', grep { defined } $engine, @parts) . "\n"
        . sprintf("perl %vd, %s\n", $^V, $Config{archname})
        . "Plack $Plack::VERSION\n";
}

sub _print_and_exit {
    my ($self, $text) = @_;
    print $text;
    exit 0;
}

sub _refuse {
    my ($self, $plack, $settings) = @_;

    my $server = $plack->{server};
    usage_error("-s $server: hydrofoil is the server; use plackup for another")
        if defined $server && $server ne 'Hydrofoil';
    usage_error('--daemonize does not go with -r or -R: the watching process would lose the server')
        if $settings->{daemonize} && ($plack->{reload} || defined $plack->{Reload});
    return;
}

sub _for_plack {
    my ($name, $value) = @_;

    return $value ? () : '--no-default-middleware' if $name eq 'default-middleware';
    return $value ? '--reload' : () if $name eq 'reload';
    return length $name == 1 ? ("-$name", $value) : ("--$name", $value);
}

sub _app_name {
    my $self = shift;

    my $app = defined $self->{app} ? $self->{app} : $self->{argv}[0];
    return ref $app ? 'an application' : $app if defined $app;
    return defined $self->{eval} ? 'the code of -e' : 'app.psgi';
}

# Otherwise Plack's message names perl's internals.
sub _refuse_missing_file {
    my $self = shift;

    my $file = defined $self->{app} ? $self->{app} : $self->{argv}[0];
    return if !defined $file && defined $self->{eval} || ref $file;
    if (!defined $file) {
        return if -f 'app.psgi';
        usage_error('there is no app.psgi in this directory; give the application\'s file, '
            . 'or its code with -e (hydrofoil --help tells more)');
    }
    return if $file =~ /^[A-Za-z0-9_:]+$/;    # to Plack these are the name of a module
    fail("$file is a directory, not an application") if -d $file;
    fail("there is no file $file") if !-e _;
    return;
}

1;

__END__

=head1 NAME

Hydrofoil::Runner - the hydrofoil command

=head1 SYNOPSIS

    use Hydrofoil::Runner;

    my $runner = Hydrofoil::Runner->new;
    $runner->parse_options(@ARGV);
    $runner->run;

=head1 DESCRIPTION

A L<Plack::Runner> that knows the server's options: flags take no value, a
misspelt option is an error before the application is loaded, and the default
of C<PLACK_ENV> is C<deployment>.

=head1 METHODS

Those of L<Plack::Runner>, and

=head2 version_text

    print $runner->version_text;

The versions of the server, its engine, perl and Plack, a line each.

=cut
