package Hydrofoil::Error;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(fail usage_error);

sub fail {
    my $message = shift;
    _die(1, $message);
}

sub usage_error {
    my $message = shift;
    _die(2, $message);
}

# An uncaught exception makes perl exit with errno, so this sets the exit code
# even where plackup, not we, owns the top of the program.
sub _die {
    my ($status, $message) = @_;
    $! = $status;
    die "hydrofoil: $message\n";
}

1;

__END__

=head1 NAME

Hydrofoil::Error - errors that an operator reads: one line and an exit code

=head1 SYNOPSIS

    use Hydrofoil::Error qw(fail usage_error);

    usage_error('unknown option --prot; did you mean --port?');    # exit code 2
    fail('127.0.0.1:5000 is already in use');                      # exit code 1

=head1 FUNCTIONS

Both die with C<hydrofoil: MESSAGE> and a newline. Uncaught, the program ends
with the exit code.

=head2 fail

    fail($message);

The server cannot start here and now. Exit code 1.

=head2 usage_error

    usage_error($message);

The command line is wrong. Exit code 2.

=cut
