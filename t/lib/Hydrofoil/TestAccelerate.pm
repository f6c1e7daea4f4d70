package Hydrofoil::TestAccelerate;
# Compares a sub that is written in C with the one it stands for.
use strict;
use warnings;
use Data::Dumper ();
use Exporter qw(import);

our @EXPORT_OK = qw(outcome differ_in resident_growth);

# All that can be seen of a call, as text: what it returns in list and in scalar context, or dies with; its warnings;
# and what has become of its arguments. Line numbers are left out.
sub outcome {
    my ($code, @args) = @_;

    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, $_[0] };
    my @seen;
    my @list   = eval { $code->(@args) };
    push @seen, $@ ? "dies: $@" : \@list;
    my $scalar = eval { scalar $code->(@args) };
    push @seen, $@ ? "dies: $@" : $scalar;
    my $text = _dump(\@seen, \@warnings, \@args);
    $text =~ s/ at \S+ line \d+\.?//g;
    $text =~ s{0x[0-9a-f]{6,}}{ADDRESS}gi;
    return $text;
}

# The first input for which two subs differ, with both outcomes; '' if there is none. An input is a list of arguments.
sub differ_in {
    my ($ours, $original, @inputs) = @_;

    for my $input (@inputs) {
        my $got      = outcome($ours,     _copy(@$input));
        my $expected = outcome($original, _copy(@$input));
        return 'For ' . _dump($input) . "ours: $got\noriginal: $expected\n" if $got ne $expected;
    }
    return '';
}

# By how many bytes the process grows while something is called so often. The first calls fill caches.
sub resident_growth {
    my ($times, $code) = @_;

    # AddressSanitizer keeps what is freed for a while.
    $code->() for 1 .. ($ENV{ASAN_OPTIONS} ? 30_000 : 1000);
    my $before = _resident();
    $code->() for 1 .. $times;
    return _resident() - $before;
}

# Hashes keep their order in a copy made this way: iteration is part of what is compared.
sub _copy {
    return map { ref eq 'ARRAY' ? [ _copy(@$_) ] : $_ } @_;
}

sub _dump {
    local $Data::Dumper::Indent   = 1;
    local $Data::Dumper::Sortkeys = 1;
    local $Data::Dumper::Useqq    = 1;
    local $Data::Dumper::Terse    = 1;
    return Data::Dumper::Dumper(@_);
}

sub _resident {
    open my $status, '<', "/proc/$$/statm" or return 0;
    return (split ' ', scalar <$status>)[1] * 4096;
}

1;
