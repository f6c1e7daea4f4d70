package Hydrofoil::PidFile;
use strict;
use warnings;
use Errno qw(EPERM);
use File::Spec;
use Hydrofoil::Error qw(fail);

sub new {
    my ($class, $path) = @_;
    return bless { path => File::Spec->rel2abs($path) }, $class;
}

sub refuse_if_live {
    my $self = shift;

    my $pid = $self->_read or return;
    return if $pid == $$ || !_is_alive($pid);
    fail("--pid: $self->{path} names process $pid, which is running; stop it, or give another file");
}

# Readers never see a half-written file: it appears under its name when complete.
sub write {
    my $self = shift;

    my $new = "$self->{path}.$$";
    my $written = open my $handle, '>', $new;
    $written &&= print {$handle} "$$\n";
    $written &&= close $handle;
    $written &&= rename $new, $self->{path};
    return if $written;

    my $error = $!;
    unlink $new;
    fail("--pid: cannot write $self->{path}: $error");
}

sub remove {
    my $self = shift;

    my $pid = $self->_read;
    unlink $self->{path} if defined $pid && $pid == $$;
    return;
}

sub _read {
    my $self = shift;

    open my $handle, '<', $self->{path} or return;
    my $line = <$handle>;
    return defined $line && $line =~ /^\s*([1-9][0-9]{0,9})\s*$/ ? $1 : undef;
}

sub _is_alive {
    my $pid = shift;
    return kill(0, $pid) || $! == EPERM;
}

1;

__END__

=head1 NAME

Hydrofoil::PidFile - the file that names the supervisor's process

=head1 SYNOPSIS

    use Hydrofoil::PidFile;

    my $file = Hydrofoil::PidFile->new('/run/app.pid');
    $file->refuse_if_live;
    $file->write;
    ...
    $file->remove;

=head1 METHODS

=head2 new

    my $file = Hydrofoil::PidFile->new($path);

=head2 refuse_if_live

Ends in L<Hydrofoil::Error/fail> if the file names another process that runs. A
file left by a dead process, or without a number in it, does not count.

=head2 write

Puts this process's id there, in one step.

=head2 remove

Removes the file if it still names this process.

=cut
