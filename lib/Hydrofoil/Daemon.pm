package Hydrofoil::Daemon;
use strict;
use warnings;
use IO::Handle;
use POSIX ();
use Hydrofoil::Error qw(fail);

sub start {
    my $class = shift;

    pipe my $reader, my $writer or fail("--daemonize: cannot make a pipe: $!");
    $_->flush for \*STDOUT, \*STDERR;
    my $pid = fork;
    fail("--daemonize: cannot fork: $!") if !defined $pid;
    if ($pid) {
        close $writer;
        _wait_for($reader);
    }

    close $reader;
    POSIX::setsid();
    # The session's leader goes, so that no terminal can ever become ours.
    $pid = fork;
    POSIX::_exit(0) if $pid;
    my $self = bless { writer => $writer }, $class;
    $self->failed("hydrofoil: --daemonize: cannot fork: $!\n") if !defined $pid;
    return $self;
}

sub detach {
    my ($self, %args) = @_;

    open STDIN,  '<', '/dev/null';
    open STDOUT, '>', '/dev/null';
    open STDERR, '>', '/dev/null' if !$args{keep_stderr};
    return;
}

sub started {
    my $self = shift;
    $self->_tell("started\n");
    return;
}

sub failed {
    my ($self, $message) = @_;
    $self->_tell("failed\n$message");
    POSIX::_exit(1);
}

sub _tell {
    my ($self, $text) = @_;

    my $writer = delete $self->{writer} or return;
    local $SIG{PIPE} = 'IGNORE';
    syswrite $writer, $text;
    close $writer;
    return;
}

# The process that was started on the terminal ends here: what it holds
# belongs to the daemon now, so nothing is cleaned up.
sub _wait_for {
    my $reader = shift;

    my $first = <$reader>;
    POSIX::_exit(0) if defined $first && $first eq "started\n";
    my $message = join '', <$reader>;
    STDERR->printflush(length $message ? $message : "hydrofoil: the daemon ended before it served\n");
    POSIX::_exit(1);
}

1;

__END__

=head1 NAME

Hydrofoil::Daemon - goes to the background, and tells the terminal how it went

=head1 SYNOPSIS

    use Hydrofoil::Daemon;

    my $daemon = Hydrofoil::Daemon->start;    # the caller's process waits
    ...                                       # bind, load
    $daemon->detach(keep_stderr => 1);
    $daemon->started;                         # and now it ends, with code 0

=head1 DESCRIPTION

The process that calls C<start> stays until the daemon says that it serves, or
why it does not. It then ends with code 0 or 1. The working directory stays
what it is.

=head1 METHODS

=head2 start

Forks twice, with setsid(2) in between, and returns in the daemon only.

=head2 detach

    $daemon->detach(keep_stderr => 1);

Points standard input and output to F</dev/null>, and standard error too unless
C<keep_stderr> is true (default: false).

=head2 started

Ends the waiting process with code 0.

=head2 failed

    $daemon->failed($message);

Has the waiting process print the message and end with code 1, and ends this one.

=cut
