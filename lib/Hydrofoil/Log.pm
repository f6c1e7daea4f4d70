package Hydrofoil::Log;
use strict;
use warnings;
use File::Spec;
use IO::Handle;
use POSIX ();
use Hydrofoil::Error qw(fail);

sub new {
    my ($class, %args) = @_;

    my $self = bless { quiet => $args{quiet}, owner => $args{owner} }, $class;
    if (defined $args{path}) {
        $self->{path}   = File::Spec->rel2abs($args{path});
        $self->{handle} = $self->_open or fail("--error-log: cannot open $self->{path}: $!");
    }
    return $self;
}

sub info {
    my ($self, $message) = @_;
    $self->problem($message) if !$self->{quiet};
    return;
}

sub problem {
    my ($self, $message) = @_;
    print STDERR POSIX::strftime('%Y-%m-%d %H:%M:%S', localtime), " [$$] $message\n";
    return;
}

sub path { $_[0]{path} }

# Everything that writes to standard error, applications included, then writes
# to the log.
sub take_over_stderr {
    my $self = shift;

    my $handle = delete $self->{handle} or return;
    open STDERR, '>>&', $handle or fail("--error-log: cannot redirect standard error: $!");
    STDERR->autoflush(1);
    return;
}

sub reopen {
    my $self = shift;

    return if !defined $self->{path};
    if ($self->{handle} = $self->_open) {
        $self->take_over_stderr;
    }
    else {
        $self->problem("cannot reopen the error log $self->{path}: $!; writing on to the old one");
    }
    return;
}

sub _open {
    my $self = shift;

    open my $handle, '>>', $self->{path} or return;
    # Workers that gave up root's rights reopen the file themselves.
    chown $self->{owner}, -1, $handle if defined $self->{owner} && $> == 0;
    return $handle;
}

1;

__END__

=head1 NAME

Hydrofoil::Log - lines with a time stamp, to standard error or a file

=head1 SYNOPSIS

    use Hydrofoil::Log;

    my $log = Hydrofoil::Log->new(path => 'error.log');
    $log->take_over_stderr;
    $log->info('worker 3 is ready');
    $log->problem('worker 3 was killed by SIGSEGV');
    $log->reopen;

=head1 DESCRIPTION

Lines look like C<2025-11-21 20:15:04 [4711] worker 3 is ready>: local time,
process id, message. With a file, standard error itself is redirected there, so
that warnings of the application go the same way.

=head1 METHODS

=head2 new

    my $log = Hydrofoil::Log->new(%options);

Opens the file, but does not write there yet, so that errors on the way up
still reach the terminal. A file that cannot be opened ends in
L<Hydrofoil::Error/fail>.

=over 4

=item path

The file to append to; default: none, lines go to standard error as it is.

=item quiet

Leave out L</info>, default 0.

=item owner

A user id that the file is given to when root opens it; default: none.

=back

=head2 info

    $log->info($message);

Something went as it should. Nothing if C<quiet>.

=head2 problem

    $log->problem($message);

=head2 path

The absolute path of the file, or undef.

=head2 take_over_stderr

Points standard error to the file.

=head2 reopen

Opens the path again, after log rotation. If that fails the old file stays in
use and gets a line that says so.

=cut
