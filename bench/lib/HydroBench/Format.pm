package HydroBench::Format;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(thousands short significant duration duration_tick percent percent_tick times bytes escape);

my $MINUS = "\x{2212}";

# 1234567 as "1,234,567"; numbers are rounded to whole ones.
sub thousands {
    my ($number) = @_;
    return '' unless defined $number;
    my $text = sprintf '%.0f', $number;
    1 while $text =~ s/(\d)(\d{3})(?!\d)/$1,$2/;
    $text =~ s/^-/$MINUS/;
    return $text;
}

# A number for an axis: 1500 as "1.5k", 2000000 as "2M"; below a thousand as short as it can be told.
sub short {
    my ($number) = @_;
    return '' unless defined $number;
    for ([1e9, 'G'], [1e6, 'M'], [1e3, 'k']) {
        my ($size, $letter) = @$_;
        return _plain($number / $size) . $letter if abs $number >= $size;
    }
    return _plain($number);
}

# To three significant digits, without an exponent and with separators: 0.0123, 1.23, 12.3, 1,234.
sub significant {
    my ($number, $digits) = @_;
    return '' unless defined $number;
    return '0' if $number == 0;
    $digits ||= 3;
    my ($exponent) = sprintf('%.*e', $digits - 1, $number) =~ /e([-+]\d+)/;
    return thousands($number) if $exponent >= $digits - 1;
    my $places = $digits - 1 - $exponent;
    my $text = sprintf "%.${places}f", $number;
    $text =~ s/^-/$MINUS/;
    return $text;
}

# Microseconds with the unit that suits them: "85 us" (with a micro sign), "1.20 ms", "2.50 s".
sub duration { return _duration($_[0], \&significant, '0 s') }

# The same for an axis, as short as it can be told: "100 us", "1 ms", "2.5 s".
sub duration_tick { return _duration($_[0], \&_plain, '0') }

# A part of one as per cent: 0 as "0", the smallest parts never as zero.
sub percent {
    my ($part) = @_;
    return ''  unless defined $part;
    return '0' if $part == 0;
    return '100%' if $part == 1;
    my $percent = 100 * $part;
    return '<0.01%' if $percent > 0 && $percent < 0.01;
    return sprintf($percent < 1 ? '%.2f%%' : '%.1f%%', $percent);
}

sub percent_tick { return defined $_[0] ? $_[0] ? _plain(100 * $_[0]) . '%' : '0' : '' }

# A ratio: "1.04", or "12.3" and "120" where two places would pretend.
sub times {
    my ($ratio) = @_;
    return '' unless defined $ratio;
    return thousands($ratio) if $ratio >= 100;
    return sprintf $ratio >= 10 ? '%.1f' : $ratio >= 0.1 || $ratio == 0 ? '%.2f' : '%.3f', $ratio;
}

sub bytes {
    my ($bytes) = @_;
    return '' unless defined $bytes;
    for ([1024**3, 'GiB'], [1024**2, 'MiB'], [1024, 'KiB']) {
        my ($size, $unit) = @$_;
        return significant($bytes / $size) . " $unit" if abs $bytes >= $size;
    }
    return thousands($bytes) . ' B';
}

# Text for HTML, XML and their attributes. What XML does not allow becomes a question mark.
sub escape {
    my ($text) = @_;
    return '' unless defined $text;
    my %entity = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;', q{'} => '&#39;');
    $text =~ s/[^\t\n\r\x{20}-\x{d7ff}\x{e000}-\x{fffd}\x{10000}-\x{10ffff}]/?/g;
    $text =~ s/([&<>"'])/$entity{$1}/g;
    return $text;
}

# The larger units begin where the smaller one would be rounded to a thousand.
sub _duration {
    my ($microseconds, $number, $zero) = @_;
    return '' unless defined $microseconds;
    return $zero if $microseconds == 0;
    return $number->($microseconds / 1e6) . ' s'  if abs $microseconds >= 999_500;
    return $number->($microseconds / 1e3) . ' ms' if abs $microseconds >= 999.5;
    return $number->($microseconds) . " \x{b5}s";
}

# The shortest decimal text that differs from the number by less than a thousandth of it.
sub _plain {
    my ($number) = @_;
    return '0' if $number == 0;
    for my $places (0 .. 9) {
        my $text = sprintf "%.${places}f", $number;
        next if abs($text - $number) > abs($number) / 1000;
        $text =~ s/^-/$MINUS/;
        return $text;
    }
    return "$number";
}

1;
__END__

=head1 NAME

HydroBench::Format - numbers as a reader wants them, and text as HTML wants it

=head1 SYNOPSIS

    use HydroBench::Format qw(thousands short significant duration percent times bytes escape);

    thousands(93_238.6);      # 93,239
    short(150_000);           # 150k
    significant(14.3781);     # 14.4
    duration(1_230);          # 1.23 ms, from microseconds
    percent(0.0042);          # 0.42%, from a part of one
    times(1.0391);            # 1.04
    bytes(184);               # 184 B
    escape('<b>');            # &lt;b&gt;

All of them give an empty text for C<undef>.

=cut
