package Hydrofoil::TestOriginal;

# Before any pragma, which the source would inherit.
sub _compile { return eval $_[0] }

use strict;
use warnings;
use Exporter 'import';
use Storable ();
use Data::Dumper ();

our @EXPORT_OK = qw(second_copy outcome picture resident_size);

# Compiles a module's file a second time under another name: the original, beside the accelerated one. Pairs in `rename`
# replace further names of packages in the source.
sub second_copy {
    my ($module, $as, %rename) = @_;
    (my $file = "$module.pm") =~ s{::}{/}g;
    eval "require $module; 1" or die $@;
    open my $fh, '<', $INC{$file} or die "$INC{$file}: $!";
    my $source = do { local $/; <$fh> };
    $source =~ s/^__END__.*//ms;
    $rename{$module} = $as;
    my $names = join '|', map {quotemeta} sort { length $b <=> length $a } keys %rename;
    $source =~ s/(?<![\w:])($names)(?![\w]|::)/$rename{$1}/g;
    _compile(qq{#line 1 "$INC{$file}"\n$source; 1}) or die $@;
    (my $copy = "$as.pm") =~ s{::}{/}g;
    $INC{$copy} = $INC{$file};
    return $as;
}

# A call's result in a context (list, scalar, void), its error, and the texts of its warnings without their places.
sub outcome {
    my ($context, $code, @args) = @_;
    my (@warnings, @result);
    local $SIG{__WARN__} = sub { my $text = shift; $text =~ s/ at \S+ line .*//s; push @warnings, $text };
    local $@;
    my $ok = eval {
        if    ($context eq 'list')   { @result = $code->(@args) }
        elsif ($context eq 'scalar') { @result = scalar $code->(@args) }
        else                         { $code->(@args) }
        1;
    };
    my $error = $ok ? undef : "$@";
    return { result => \@result, error => $error, warnings => \@warnings };
}

# What Data::Dumper makes of it, the keys sorted and the names of packages replaced.
sub picture {
    my ($value, %rename) = @_;
    local $Data::Dumper::Sortkeys = 1;
    local $Data::Dumper::Indent   = 1;
    local $Data::Dumper::Useqq    = 1;
    my $text = Data::Dumper::Dumper($value);
    $text =~ s{\(0x[0-9a-f]+\)}{(address)}g;
    for my $from (keys %rename) {
        $text =~ s/\Q$from\E/$rename{$from}/g;
    }
    return $text;
}

# Pages of this process, from /proc; nothing where there is none.
sub resident_size {
    open my $fh, '<', '/proc/self/statm' or return;
    return (split ' ', <$fh>)[1];
}

1;
