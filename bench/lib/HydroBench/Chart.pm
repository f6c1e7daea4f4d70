package HydroBench::Chart;
use strict;
use warnings;
use POSIX qw(floor ceil);
use HydroBench::Format qw(short times);

# A chart is laid out once, as a list of shapes on a sheet of $WIDTH units, a unit being a pixel at the size at which text
# is read: narrow enough for a phone, and three go side by side on a desk. HydroBench::Chart::SVG and
# HydroBench::Chart::Gnuplot paint the shapes.
our $WIDTH = 340;

my $ROW     = 18;     # height of a row
my $BAR     = 10;     # height of its bar
my $HEAD    = 44;     # above the first row: title and what is measured
my $GROUP   = 24;     # height of a group's heading
my $FOOT    = 36;     # below the last row: the axis and its unit
my $GAP     = 6;      # between a bar and the texts beside it
my $LINES   = 210;    # height of the plot of a line chart
my $SPACING = 13;     # least distance of the names beside lines

# Bars, one row for each name, in groups that share the axis. Options:
#
#   title, subtitle   what is shown, and in which unit; `unit` stands at the axis
#   groups            [{ label (optional), rows => [{ name, style, value, low, high, text, problem, why, target, other }] }]
#   axis              "linear" (bars from zero), "log" (dots), or "auto": log when values lie more than 100 times apart
#   tick              formats a number at the axis
#   reference         a value that gets a line through all rows (1 for ratios), with its `reference_label`
#   none              what to say instead of rows of zeros, where all values are zero
#   desc              the chart in a sentence, for those who do not see it
#
# Of a row: value may be undef (nothing measured: `problem` or `why` says more), low and high are the ends of its whisker, text is
# what stands beside it, target what was promised, other a second value (hollow: the published one).
sub bars {
    my ($class, %o) = @_;
    my @rows   = map { @{ $_->{rows} } } @{ $o{groups} };
    my @values = grep { defined } map { @$_{qw(value low high target other)} } @rows;
    push @values, $o{reference} if defined $o{reference};
    my @positive = grep { $_ > 0 } @values;
    if (defined $o{none} && @values && !@positive) {
        my $text = { kind => 'text', x => 0, y => $HEAD + $ROW / 2, text => $o{none}, style => 'name' };
        return _drawing(\%o, $HEAD + $ROW + 6, {}, $text);
    }
    my $axis = $o{axis} || 'auto';
    $axis = @positive && _max(@positive) > 100 * _min(@positive) ? 'log' : 'linear' if $axis eq 'auto';
    $axis = 'linear' unless @positive;

    my $left  = 10 + _max(40, map { text_width($_->{name}, 12, _is_own($_->{style})) } @rows);
    $left = 156 if $left > 156;
    my $beside = _max(20, map { text_width($_->{text}, 11.5, _is_own($_->{style})) } grep { defined $_->{text} } @rows);
    my $right  = $WIDTH - $GAP - 8 - $beside;
    my $scale = $class->scale(
        type => $axis, from => $axis eq 'log' ? _min(@positive) : 0, to => @positive ? _max(@positive) : 1,
        start => $left + ($axis eq 'log' ? 8 : 0), end => $right, ticks => 4, wide => $axis eq 'log',
    );

    my (@under, @shapes);
    my $y = $HEAD;
    my $top = $y;
    for my $group (@{ $o{groups} }) {
        if (defined $group->{label}) {
            push @shapes, { kind => 'text', x => 0, y => $y + $GROUP / 2 + 1, text => $group->{label}, style => 'group',
                halo => 1 };
            $y += $GROUP;
        }
        for my $row (@{ $group->{rows} }) {
            push @shapes, _row($scale, $row, $y + $ROW / 2, $left, $axis);
            $y += $ROW;
        }
        $y += 6;
    }
    my $bottom = $y - 2;
    $scale->{ticks} = [0] unless @positive;    # an axis of nothing needs no numbers
    push @under, map { +{ kind => 'line', style => 'grid', points => [[$_, $top], [$_, $bottom]] } }
        map { $scale->{at}->($_) } @{ $scale->{ticks} };
    if (defined $o{reference}) {
        my $x = $scale->{at}->($o{reference});
        push @under, { kind => 'line', points => [[$x, $top - 2], [$x, $bottom]], style => 'reference' };
    }
    push @shapes, _ticks($scale, $bottom + 10, $o{tick}), {
        kind => 'text', x => $WIDTH - 2, y => $bottom + 25, anchor => 'end', style => 'tick',
        text => ($o{unit} || '') . ($axis eq 'log' ? ', log scale' : ''),
    } if @positive;
    return _drawing(\%o, $bottom + $FOOT, { %$scale, axis => $axis, top => $top }, @under, @shapes);
}

sub _row {
    my ($scale, $row, $y, $left, $axis) = @_;
    my $own  = _is_own($row->{style});
    my $name = $row->{name};
    my @shapes = ({
        kind => 'text', x => $left - 8, y => $y, anchor => 'end', text => _fit($name, $left - 10, 12, $own), full => $name,
        style => $own ? 'name-own' : 'name', server => $name,
    });
    if (!defined $row->{value} && defined $row->{other}) {
        my ($mark) = _other($scale, $row, $y);
        my $text = defined $row->{why} ? $row->{why} : 'not measured';
        my $side = $mark->{x} + 3 + $GAP + text_width($text, 11) > $WIDTH ? -1 : 1;
        return (@shapes, $mark, { kind => 'text', x => $mark->{x} + $side * ($GAP + 3), y => $y, style => 'nothing', halo => 1,
            text => $text, server => $name, ($side < 0 ? (anchor => 'end') : ()) });
    }
    if (!defined $row->{value}) {
        push @shapes, {
            kind => 'text', x => $left + 2, y => $y, style => defined $row->{problem} ? 'failed' : 'nothing', server => $name,
            text => _fit(defined $row->{problem} ? "failed: $row->{problem}" : defined $row->{why} ? $row->{why} : 'not measured',
                $WIDTH - $left, 11, 0),
            full => defined $row->{problem} ? $row->{problem} : $row->{why},
        };
        return @shapes;
    }
    my $x     = $scale->{at}->($row->{value});
    my $paint = $row->{style} || 'other';
    my $title = "$name: $row->{text}";
    my $end   = $x;
    if ($axis eq 'log') {
        push @shapes, { kind => 'line', points => [[$left, $y], [$scale->{end}, $y]], style => 'guide' };
    }
    elsif ($x > $left) {
        push @shapes, {
            kind => 'rect', x => $left, y => $y - $BAR / 2, w => $x - $left, h => $BAR, style => "bar-$paint",
            title => $title, server => $name,
        };
    }
    if (defined $row->{low} && defined $row->{high}) {
        my ($low, $high) = map { $scale->{at}->($_) } @$row{qw(low high)};
        if ($high - $low >= 2) {
            push @shapes, map { +{ kind => 'line', style => 'whisker', server => $name, points => $_ } }
                [[$low, $y], [$high, $y]], [[$low, $y - 3], [$low, $y + 3]], [[$high, $y - 3], [$high, $y + 3]];
            $end = $high if $high > $end;
        }
    }
    push @shapes, { kind => 'mark', shape => 'circle', x => $x, y => $y, size => 4, style => "dot-$paint", title => $title,
        server => $name } if $axis eq 'log';
    if (defined(my $target = $row->{target})) {
        my $at = $scale->{at}->($target);
        push @shapes, { kind => 'line', points => [[$at, $y - 8], [$at, $y + 8]], style => 'target' };
        $end = $at if $at > $end && $at - $end < 30;
    }
    my @other = _other($scale, $row, $y);
    $end = $other[0]{x} if @other && $other[0]{x} > $end;
    push @shapes, { kind => 'line', points => [[$x, $y], [$other[0]{x}, $y]], style => 'between', server => $name } if @other;
    push @shapes, @other;
    my $text  = { kind => 'text', x => $end + $GAP, y => $y, text => $row->{text}, style => $own ? 'value-own' : 'value',
        server => $name };
    if ($axis eq 'log') {
        $text->{x} += 3;
        $text->{halo} = 1;
    }
    return (@shapes, $text);
}

sub _other {
    my ($scale, $row, $y) = @_;
    return () unless defined $row->{other};
    return { kind => 'mark', shape => 'circle', x => $scale->{at}->($row->{other}), y => $y, size => 4, style => 'dot-hollow',
        server => $row->{name}, title => $row->{other_text} };
}

# Lines, each with its name at its end. Options:
#
#   title, subtitle, desc   as for bars
#   series            [{ name, style, points => [[x, y, low, high]] }]; a point without y interrupts its line
#   x, y              { type => "linear" or "log", tick => formats a number, label, from, to, at => [[x, text]] }: at gives the
#                     ticks; from and to are the ends, when they are not those of the data
#   height            of the plot (210)
sub lines {
    my ($class, %o) = @_;
    my @series = grep { grep { defined $_->[1] } @{ $_->{points} } } @{ $o{series} };
    my @points = map { grep { defined $_->[1] } @{ $_->{points} } } @series;
    my %x = (type => 'linear', %{ $o{x} || {} });
    my %y = (type => 'linear', %{ $o{y} || {} });
    my @y = grep { defined } map { @$_[1 .. 3] } @points;
    @y = grep { $_ > 0 } @y if $y{type} eq 'log';
    $y{type} = 'linear' unless @y;
    my @x = map { $_->[0] } @points;
    @x = (0, 1) unless @x;
    @y = (0, 1) unless @y;

    my $names  = _max(30, map { text_width($_->{name}, 11.5, 1) } @series);
    $names = 138 if $names > 138;
    my $bottom = $HEAD + ($o{height} || $LINES);
    my $across = $class->scale(
        type => 'linear', from => _min(@x), to => _max(@x), (map { defined $x{$_} ? ($_ => $x{$_}) : () } qw(type from to)),
        start => 0, end => 1, exact => 1,
    );
    my $up = $class->scale(
        type => $y{type}, from => $y{type} eq 'log' ? _min(@y) : 0, to => _max(@y),
        (map { defined $y{$_} ? ($_ => $y{$_}) : () } qw(from to)), start => $bottom - ($y{type} eq 'log' ? 8 : 0),
        end => $HEAD + 6, ticks => $y{type} eq 'log' ? 7 : 5,
    );
    my $left  = 8 + _max(map { text_width($y{tick} ? $y{tick}->($_) : short($_), 10.5) } @{ $up->{ticks} });
    my $right = $WIDTH - $names - 14;
    my $at    = sub { $left + 5 + ($right - $left - 5) * $across->{at}->($_[0]) };

    my @shapes;
    for my $tick (@{ $up->{ticks} }) {
        my $height = $up->{at}->($tick);
        push @shapes, { kind => 'line', points => [[$left, $height], [$right + 6, $height]], style => 'grid' },
            { kind => 'text', x => $left - 5, y => $height, anchor => 'end', style => 'tick',
                text => $y{tick} ? $y{tick}->($tick) : short($tick) };
    }
    my $last = -100;
    for my $tick (@{ $x{at} || [map { [$_, short($_)] } @{ $across->{ticks} }] }) {
        my ($place, $text) = ($at->($tick->[0]), $tick->[1]);
        push @shapes, { kind => 'line', points => [[$place, $bottom], [$place, $bottom + 4]], style => 'axis' };
        my $half = text_width($text, 10.5) / 2;
        next if $place - $half < $last + 3;
        $last = $place + $half;
        push @shapes, { kind => 'text', x => $place, y => $bottom + 12, anchor => 'middle', text => $text, style => 'tick' };
    }
    push @shapes, { kind => 'line', points => [[$left, $bottom], [$right + 6, $bottom]], style => 'axis' },
        { kind => 'text', x => ($left + $right) / 2, y => $bottom + 27, anchor => 'middle', style => 'tick',
            text => $x{label} || '' };

    # What is to be seen best is drawn last.
    my @ends;
    for my $series (sort { _is_own($a->{style}) <=> _is_own($b->{style}) } @series) {
        my $paint = $series->{style};
        my (@run, @marks, $end);
        for my $point (@{ $series->{points} }) {
            my ($x, $y, $low, $high) = @$point;
            if (!defined $y) {
                push @shapes, { kind => 'line', points => [@run], style => "line-$paint", server => $series->{name} } if @run > 1;
                @run = ();
                next;
            }
            my $place = [$at->($x), $up->{at}->($y)];
            push @run, $place;
            $end = $place;
            if (defined $low && defined $high && $up->{at}->($low) - $up->{at}->($high) >= 4) {
                push @marks, { kind => 'line', style => "thin-$paint", server => $series->{name},
                    points => [[$place->[0], $up->{at}->($low)], [$place->[0], $up->{at}->($high)]] };
            }
            push @marks, { kind => 'mark', shape => $series->{shape} || 'circle', x => $place->[0], y => $place->[1],
                size => _is_own($paint) ? 3.6 : 2.8, style => "dot-$paint", server => $series->{name},
                title => "$series->{name}, " . _tick_text($x{at}, $x) . ': ' . ($y{tick} ? $y{tick}->($y) : short($y)) };
        }
        push @shapes, { kind => 'line', points => [@run], style => "line-$paint", server => $series->{name} } if @run > 1;
        push @shapes, @marks;
        push @ends, { name => $series->{name}, style => $paint, x => $end->[0], y => $end->[1] };
    }
    push @shapes, _names($right, $HEAD, $bottom, @ends);
    push @shapes, { kind => 'text', x => ($left + $right) / 2, y => ($HEAD + $bottom) / 2, anchor => 'middle', style => 'nothing',
        text => 'nothing was measured' } unless @ends;
    my $plot = { axis => $y{type}, start => $left, end => $right, top => $HEAD, bottom => $bottom, at_x => $at, at_y => $up->{at},
        ticks => $up->{ticks} };
    return _drawing(\%o, $bottom + 38, $plot, @shapes);
}

# Names beside the ends of lines, moved apart so that none covers another, with a thin line where one had to move.
sub _names {
    my ($right, $top, $bottom, @ends) = @_;
    my @sorted = sort { $a->{y} <=> $b->{y} || $a->{name} cmp $b->{name} } @ends;
    my @at = map { $_->{y} } @sorted;
    for (1 .. 200) {
        my $moved = 0;
        for my $i (1 .. $#at) {
            my $missing = $SPACING - ($at[$i] - $at[$i - 1]);
            next if $missing < 0.01;
            $at[$i - 1] -= $missing / 2;
            $at[$i]     += $missing / 2;
            $moved = 1;
        }
        last unless $moved;
    }
    my $over = @at ? $at[-1] - ($bottom - 2) : 0;
    $_ -= $over > 0 ? $over : 0 for @at;
    my $under = @at ? $top - 2 - $at[0] : 0;
    $_ += $under > 0 ? $under : 0 for @at;
    my @shapes;
    for my $i (0 .. $#sorted) {
        my $end = $sorted[$i];
        my $x   = $right + 14;
        push @shapes, { kind => 'line', style => 'leader', points => [[$end->{x} + 5, $end->{y}], [$x - 2, $at[$i]]] }
            if abs($at[$i] - $end->{y}) > 3 || $end->{x} < $right - 2;
        push @shapes, { kind => 'text', x => $x, y => $at[$i], style => "label-$end->{style}", server => $end->{name},
            text => _fit($end->{name}, $WIDTH - $x, 11.5, 1), full => $end->{name} };
    }
    return @shapes;
}

# An axis: { at => value to pixel, ticks => [...], from, to, start, end, type }. Values beyond its ends land on them; on a log
# axis zero lands where it begins. Options: type, from, to (of the data), start, end (pixels), ticks (how many at most), exact
# (the data's ends are the axis's).
sub scale {
    my ($class, %o) = @_;
    my ($from, $to) = @o{qw(from to)};
    my $count = $o{ticks} || 4;
    my ($map, @ticks);
    if ($o{type} eq 'log') {
        $from = $to if $from <= 0;
        ($from, $to) = (1, 10) if $to <= 0;
        @ticks = _log_ticks($from, $to, $count);
        if ($o{exact} || !$o{wide}) {
            @ticks = grep { $_ >= $from * 0.999 && $_ <= $to * 1.001 } @ticks;
        }
        else {
            $from = $ticks[0]  if $ticks[0] < $from;
            $to   = $ticks[-1] if $ticks[-1] > $to;
        }
        ($from, $to) = ($from / 2, $to * 2) if $from == $to;
        my ($low, $span) = (log $from, log($to) - log $from);
        $map = sub { $_[0] > 0 ? (log($_[0]) - $low) / $span : 0 };
    }
    else {
        $to = $from + 1 if $to <= $from;
        my $step = _nice_step(($to - $from) / $count);
        @ticks = map { $_ * $step } ceil($from / $step - 1e-9) .. floor($to / $step + 1e-9);
        $map = sub { ($_[0] - $from) / ($to - $from) };
    }
    my ($start, $end) = @o{qw(start end)};
    return {
        type => $o{type}, from => $from, to => $to, start => $start, end => $end, ticks => \@ticks,
        at   => sub {
            my $part = $map->($_[0]);
            $part = $part < 0 ? 0 : $part > 1 ? 1 : $part;
            return $start + ($end - $start) * $part;
        },
    };
}

# 1, 2, 2.5 or 5 times a power of ten, not below $least.
sub _nice_step {
    my ($least) = @_;
    my $power = 10**floor(log($least) / log 10);
    for (1, 2, 2.5, 5, 10) { return $_ * $power if $_ * $power >= $least * 0.9999 }
}

# Round numbers that enclose $from to $to: powers of ten, with 2 and 5 (or 3) between them where few decades are spanned, and
# even steps where it is less than one.
sub _log_ticks {
    my ($from, $to, $count) = @_;
    if ($to < 1.6 * $from && $to > $from) {
        my $step = _nice_step(($to - $from) / $count);
        return map { $_ * $step } floor($from / $step + 1e-9) .. ceil($to / $step - 1e-9);
    }
    for my $steps ([1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]) {
        my @all = map { my $power = 10**$_; map { $_ * $power } @$steps }
            floor(log($from) / log(10) - 1e-9) .. ceil(log($to) / log(10) + 1e-9);
        my @below = grep { $_ <= $from * 1.0001 } @all;
        my @above = grep { $_ >= $to * 0.9999 } @all;
        my @ticks = grep { $_ >= $below[-1] * 0.9999 && $_ <= $above[0] * 1.0001 } @all;
        return @ticks if @ticks <= $count + 1;
        next if @$steps > 1;
        my $every = ceil((@ticks - 1) / $count);
        my $first = $ticks[0];
        my @thin  = map { $first * 10**($every * $_) } 0 .. ceil((@ticks - 1) / $every);
        return @thin;
    }
}

sub _ticks {
    my ($scale, $y, $format) = @_;
    my @shapes;
    my $last = -100;
    for my $tick (@{ $scale->{ticks} }) {
        my $text = $format ? $format->($tick) : short($tick);
        my $half = text_width($text, 10.5) / 2;
        my $x = $scale->{at}->($tick);
        my $place = $x + $half > $WIDTH ? $WIDTH - $half : $x;
        next if $place - $half < $last + 4;
        $last = $place + $half;
        push @shapes, { kind => 'text', x => $place, y => $y, anchor => 'middle', text => $text, style => 'tick' };
    }
    return @shapes;
}

sub _tick_text {
    my ($at, $x) = @_;
    for (@{ $at || [] }) { return $_->[1] if $_->[0] == $x }
    return short($x);
}

sub _drawing {
    my ($o, $height, $plot, @shapes) = @_;
    unshift @shapes, { kind => 'text', x => 0, y => 10, text => $o->{title}, style => 'title' } if defined $o->{title};
    unshift @shapes, { kind => 'text', x => 0, y => 27, text => $o->{subtitle}, style => 'subtitle' } if defined $o->{subtitle};
    return {
        width => $WIDTH, height => ceil($height), shapes => \@shapes, plot => $plot,
        title => $o->{title}, desc => $o->{desc},
    };
}

# Several drawings as one: at most $columns in a row, $gap units apart. For pictures that are not laid out by a browser.
sub beside {
    my ($class, $columns, $gap, @drawings) = @_;
    my ($x, $y, $tallest, $widest, @shapes) = (0, 0, 0, 0);
    for my $i (0 .. $#drawings) {
        my $drawing = $drawings[$i];
        if ($i && $i % $columns == 0) {
            ($x, $y, $tallest) = (0, $y + $tallest + $gap, 0);
        }
        push @shapes, map { _moved($_, $x, $y) } @{ $drawing->{shapes} };
        $tallest = $drawing->{height} if $drawing->{height} > $tallest;
        $widest  = $x + $drawing->{width} if $x + $drawing->{width} > $widest;
        $x += $drawing->{width} + $gap;
    }
    return { width => $widest, height => $y + $tallest, shapes => \@shapes,
        title => join('; ', grep { defined } map { $_->{title} } @drawings),
        desc => join(' ', grep { defined } map { $_->{desc} } @drawings) };
}

sub _moved {
    my ($shape, $x, $y) = @_;
    my %moved = %$shape;
    $moved{x} += $x if defined $moved{x};
    $moved{y} += $y if defined $moved{y};
    $moved{points} = [map { [$_->[0] + $x, $_->[1] + $y] } @{ $moved{points} }] if $moved{points};
    return \%moved;
}

# About how wide a text is, in units, in the usual sans serif fonts. Rather too wide than too narrow.
sub text_width {
    my ($text, $size, $bold) = @_;
    my $width = 0;
    $width += /[ijltf.,:;'|!() \[\]]/ ? 0.36 : /[mwMW\@%]/ ? 0.92 : /[A-Z]/ ? 0.72 : 0.6 for split //, $text;
    return $width * $size * ($bold ? 1.06 : 1);
}

# Whether a style is one of those that are to be seen first.
sub _is_own { return ($_[0] || '') =~ /^own/ ? 1 : 0 }

# The text, cut short where it would not fit.
sub _fit {
    my ($text, $width, $size, $bold) = @_;
    return $text if text_width($text, $size, $bold) <= $width + 0.01;
    chop $text while length $text && text_width("$text\x{2026}", $size, $bold) > $width;
    $text =~ s/\s+\z//;
    return "$text\x{2026}";
}

sub _max { my $max = shift; for (@_) { $max = $_ if $_ > $max } return $max }
sub _min { my $min = shift; for (@_) { $min = $_ if $_ < $min } return $min }

1;
__END__

=head1 NAME

HydroBench::Chart - bars, dots and lines as shapes on a sheet

=head1 SYNOPSIS

    my $drawing = HydroBench::Chart->bars(
        title    => 'Throughput',
        subtitle => 'requests per second, more is better',
        unit     => 'requests/s',
        groups   => [{ label => '16 connections', rows => [
            { name => 'hydrofoil', style => 'own',   value => 93_000, low => 91_000, high => 95_000, text => '93,000' },
            { name => 'nginx',     style => 'other', value => 90_000, text => '90,000' },
        ] }],
    );
    print HydroBench::Chart::SVG->paint($drawing);

=head1 WHY NOT A LIBRARY

The pages must be readable without a network and without a script, on a phone, in dark mode and by a screen reader. gnuplot's
SVG has its colours and its one size written into it, and it knows nothing of descriptions; the chart modules on CPAN make
pictures of a fixed size as well. What a chart needs beyond them is a log axis, names that do not cover each other and texts
that are cut where they would not fit: little code, and code that tests can ask where a value landed. gnuplot paints the same
shapes as PNG, so a picture in a document and the chart on the page are the same.

=head1 DRAWINGS

A drawing is a hash: C<width>, C<height>, C<title>, C<desc>, C<shapes>, and C<plot>, which tells where values land. Shapes are
hashes with C<kind> and C<style>:

    { kind => 'text', x, y (its middle), text, anchor => start, middle or end, full (when text was cut) }
    { kind => 'rect', x, y, w, h }
    { kind => 'line', points => [[x, y], ...] }
    { kind => 'mark', x, y, size, shape => circle, square, triangle or diamond }

Styles are those of L<HydroBench::Chart::Style>. C<title> is what a pointer shows, C<server> whose shape it is.

=cut
