package Hydrofoil::Test::Differential;
use strict;
use warnings;
use Data::Dumper ();
use Exporter 'import';
use POSIX ();
use Test::More;

our @EXPORT = qw(pick chance number reseed attempt same_with_and_without no_leak);

# What a function gives, with and without the accelerator, on generated input that is the same on every run and machine.

my $state = 1;

sub reseed { $state = shift; return }

sub number {
    my $below = shift;
    $state = ($state * 1_103_515_245 + 12_345) & 0x7fff_ffff;
    return ($state >> 8) % $below;
}

sub pick { return $_[ number(scalar @_) ] }

sub chance { return number($_[0]) == 0 }

sub dump_of {
    local $Data::Dumper::Sortkeys = 1;
    local $Data::Dumper::Indent   = 1;
    local $Data::Dumper::Terse    = 1;
    local $Data::Dumper::Useperl  = 0;
    local $Data::Dumper::Deparse  = 0;
    my $dump = Data::Dumper::Dumper(@_);
    $dump =~ s/\(0x[0-9a-f]+\)/(ADDRESS)/gi;
    # Before 5.36 a number that has once been read as a string looks like one.
    $dump =~ s/'(-?[0-9]+(?:\.[0-9]+)?)'/$1/g if $] < 5.036;
    utf8::encode($dump);
    return $dump;
}

# All that can be seen of a call: what it returns in a random context, how it dies, what it warns of.
sub attempt {
    my $code = shift;

    my (@warnings, @result);
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    my $context = number(3);
    my $lived   = eval {
        if    ($context == 0) { $code->(); }
        elsif ($context == 1) { $result[0] = $code->(); }
        else                  { @result = $code->(); }
        1;
    };
    my $error = $lived ? '' : "$@";
    s/\(eval [0-9]+\)/(eval)/g for $error, @warnings;
    return [ $context, \@result, $error, [ sort @warnings ] ];
}

# Runs `case` with seeds 1 to `count`, in one process with the modules as they are, in another accelerated; what it returns
# has to be the same, and so has what `last` returns in the end. HYDROFOIL_CASES=10 runs ten times as many.
sub same_with_and_without {
    my %args = @_;

    $args{count} *= $ENV{HYDROFOIL_CASES} if $ENV{HYDROFOIL_CASES};
    require Hydrofoil::Accelerate;
    my $pid = open my $pipe, '-|';
    BAIL_OUT("fork: $!") if !defined $pid;
    if (!$pid) {
        binmode STDOUT;
        _run(\%args, sub { print pack 'N/a', $_[0] });
        close STDOUT;
        POSIX::_exit(0);
    }
    binmode $pipe;
    Hydrofoil::Accelerate->load(only => $args{areas});
    my ($different, $number) = (0, 0);
    _run(\%args, sub {
        my $now = shift;
        $number++;
        my $before = '';
        read $pipe, $before, unpack 'N', $before if 4 == read $pipe, $before, 4; # <> would say in warnings where it is
        return if $now eq $before;
        is $now, $before, "case $number" if $different++ < 3;
    });
    close $pipe;
    is $different, 0, "$args{name}: $args{count} generated cases give what the original gives";
    return;
}

sub _run {
    my ($args, $result) = @_;

    for my $seed (1 .. $args->{count}) {
        reseed($seed * 7919);
        $result->(_dump_of_case($args->{case}, $seed));
    }
    $result->(_dump_of_case($args->{last})) if $args->{last};
    return;
}

# The two processes are one to their cases.
sub _dump_of_case {
    my ($case, @seed) = @_;

    my $process = $$;
    $$ = 7_654_321;
    my $dump = eval { dump_of($case->(@seed)) };
    my $error = $@;
    $$ = $process;
    die $error if !defined $dump;
    return $dump;
}

sub _resident {
    open my $fh, '<', '/proc/self/statm' or return;
    return (split ' ', scalar <$fh>)[1];
}

# The process does not grow from calls. (Where there is no /proc, nothing is said.)
sub no_leak {
    my ($name, $calls, $code) = @_;

    $code->() for 1 .. 2_000;
    my $before = _resident();
  SKIP: {
        skip 'needs /proc/self/statm', 1 if !defined $before;
        $code->() for 1 .. $calls;
        my $grown = _resident() - $before;
        # AddressSanitizer keeps what was freed for a while.
        cmp_ok $grown, '<', ($ENV{ASAN_OPTIONS} ? 8192 : 128), "$name: no leak in $calls calls";
    }
    return;
}

1;
