package Hydrofoil::Accelerate::MultiValue;
use 5.016;
use strict;
use warnings;

# Hash::MultiValue's methods in C (toolkit/multivalue.c). `ref` stays: it is a constant.

my @METHODS = qw(
    new create from_mixed get get_all get_one set add merge_flat merge_mixed remove clear clone keys values flatten
    as_hashref as_hashref_mixed as_hashref_multi STORABLE_freeze STORABLE_thaw
);

sub modules {
    my %replace = map { ($_ => __PACKAGE__->can($_)) } @METHODS;
    return (
        'Hash::MultiValue' => {
            versions => ['0.16'],
            replace  => {
                %replace,
                mixed   => $replace{as_hashref_mixed},
                multi   => $replace{as_hashref_multi},
                each    => \&_each,
                DESTROY => \&gone,
            },
            on  => \&on,
            off => \&off,
        },
    );
}

# The loop is in Perl, in the original's package: `last` in the callback ends it, and it is passed over where Carp looks for
# the caller to blame.
{
    package Hash::MultiValue;

    sub Hydrofoil::Accelerate::MultiValue::_each {
        my ($self, $code) = @_;
        my ($keys, $values) = Hydrofoil::Accelerate::MultiValue::lists($self)
            or return &Hydrofoil::Accelerate::Original::Hash::MultiValue::each;
        for (0 .. $#$keys) {
            $code->($keys->[$_], $values->[$_]);
        }
        return $self;
    }
}

1;

__END__

=head1 NAME

Hydrofoil::Accelerate::MultiValue - Hash::MultiValue in C

=head1 SYNOPSIS

    use Hydrofoil::Accelerate only => ['MultiValue'];

=head1 DESCRIPTION

Which subs of L<Hash::MultiValue> run in C (construction and every method), and the versions that this was proven with.
L<Hydrofoil::Accelerate> puts them into place.

=cut
