package HydroBench::Chart::Style;
use strict;
use warnings;

# Colours by name, in light and in dark. Hydrofoil has the accent, everybody else is grey where a bar bears a name, and has a
# colour where lines cross. The eight hues differ in lightness too, and each has its own mark, so that nobody has to tell
# red from green; all reach a contrast of 4.5 to 1 on their background.
our %LIGHT = (
    paper => '#ffffff', ink => '#1b2127', muted => '#5b6670', grid => '#e4e7ea', guide => '#eef0f2',
    axis => '#9aa4ad', bar => '#a9b4be', ref => '#d5dbe0', dot => '#74808b', own => '#005fb8', variant => '#6fa8dc',
    bad => '#b3261e', good => '#1a7048', whisker => '#2b333b', hue1 => '#b84a00', hue2 => '#00735c',
    hue3 => '#a23b7e', hue4 => '#8a6100', hue5 => '#6a4fb0', hue6 => '#7d4a37', hue7 => '#4d5a66', hue8 => '#0f7285',
);
our %DARK = (
    paper => '#14181c', ink => '#e7eaed', muted => '#9ba6b0', grid => '#2a3138', guide => '#20262c',
    axis => '#616d78', bar => '#66727d', ref => '#3a444d', dot => '#8c98a3', own => '#62b0ff', variant => '#3d76ad',
    bad => '#ff8a80', good => '#62c893', whisker => '#dfe4e8', hue1 => '#f0935a', hue2 => '#4fc9a5',
    hue3 => '#e893c6', hue4 => '#dfb04a', hue5 => '#b9a2f2', hue6 => '#cf9f8a', hue7 => '#aab5bf', hue8 => '#5bc4d4',
);

# Series that are no accent, in the order of the hues.
my @HUES = map {"hue$_"} 1 .. 8;

my %STYLES = (
    title     => { text => 'ink',   size => 13.5, bold => 1 },
    subtitle  => { text => 'muted', size => 11.5 },
    group     => { text => 'ink',   size => 11.5, bold => 1 },
    name      => { text => 'ink',   size => 12 },
    'name-own'  => { text => 'own', size => 12,   bold => 1 },
    value     => { text => 'ink',   size => 11.5 },
    'value-own' => { text => 'own', size => 11.5, bold => 1 },
    tick      => { text => 'muted', size => 10.5 },
    failed    => { text => 'bad',   size => 11 },
    nothing   => { text => 'muted', size => 11 },
    grid      => { stroke => 'grid',    width => 1 },
    guide     => { stroke => 'guide',   width => 1 },
    axis      => { stroke => 'axis',    width => 1 },
    reference => { stroke => 'muted',   width => 1, dash => '3 3' },
    whisker   => { stroke => 'whisker', width => 1.1 },
    target    => { stroke => 'bad',     width => 1.6 },
    between   => { stroke => 'axis',    width => 1.5 },
    leader    => { stroke => 'axis',    width => 0.7 },
    'dot-hollow' => { fill => 'paper',  stroke => 'muted', width => 1.5 },
    'bar-own' => { fill => 'own' }, 'bar-own-variant' => { fill => 'variant' },
    'bar-other' => { fill => 'bar' }, 'bar-ref' => { fill => 'ref' },
    'dot-other' => { fill => 'dot' }, 'dot-ref' => { fill => 'paper', stroke => 'dot', width => 1.5 },
);
for (['own', 'own', 2.6], ['own-variant', 'variant', 2, '5 3'], ['line1', 'muted', 1.3], ['line2', 'muted', 1.3, '2 3'],
    map { ([$_, $_, 1.5], ["$_-2", $_, 1.5, '5 3'], ["$_-3", $_, 1.5, '1.5 2.5']) } @HUES)
{
    my ($name, $colour, $width, $dash) = @$_;
    $STYLES{"line-$name"}  = { stroke => $colour, width => $width, ($dash ? (dash => $dash) : ()) };
    $STYLES{"thin-$name"}  = { stroke => $colour, width => 1, opacity => 0.55 };
    $STYLES{"dot-$name"}   = { fill => $colour };
    $STYLES{"label-$name"} = { text => $colour, size => 11.5, bold => $name =~ /^own/ ? 1 : 0 };
}
$STYLES{'label-own-variant'}{text} = 'own';

# What a style is: text (colour), size, bold; or fill, stroke (colours), width, dash, opacity.
sub of {
    my ($class, $name) = @_;
    return $STYLES{$name} || die "There is no style '$name'.\n";
}

sub names { return sort keys %STYLES }

# The style of a server's bar, by its name and kind.
sub bar {
    my ($class, $name, $kind) = @_;
    return 'own'         if $name eq 'hydrofoil' || $name eq 'hydrofoil-accelerated';
    return 'own-variant' if $name =~ /^hydrofoil\b/;
    return $name =~ /^(?:nginx|floor)\b/ || ($kind || '') eq 'web' ? 'ref' : 'other';
}

# The styles and marks of lines, by server: { name => [style, shape] }. A server has the same ones in every chart, whoever else
# is in it.
my %HUE_OF = (
    feersum => 1, starlet => 2, starman => 3, gazelle => 4, twiggy => 5, uwsgi => 6, unit => 7, cacilheiro => 8, monoceros => 1,
);
my @SHAPES = qw(triangle square diamond circle);

# A server under other conditions has its hue, another mark and a broken line.
my %VARIANT = ('-nginx' => 1, '-flock' => 1, '-accelerated' => 1, '-semaphore' => 2);

sub lines {
    my ($class, @names) = @_;
    my %line;
    my $others = 0;
    for my $name (@names) {
        my ($base, $rest) = $name =~ /^([a-z]+)(.*)/i ? ($1, $2) : ('', '');
        my $hue     = $HUE_OF{$base};
        my $variant = !length $rest ? 0 : $VARIANT{$rest} || 2;
        $line{$name}
            = $name eq 'hydrofoil'             ? ['own', 'circle']
            : $name eq 'hydrofoil-accelerated' ? ['own', 'diamond']
            : $base eq 'hydrofoil'             ? ['own-variant', 'square']
            : $name eq 'nginx'                 ? ['line1', 'square']
            : $name eq 'floor'                 ? ['line2', 'diamond']
            : $hue ? ['hue' . $hue . ('', '-2', '-3')[$variant], $SHAPES[($hue + $variant + ($base eq 'monoceros')) % 4]]
            :        ['hue' . (1 + $others % 8), $SHAPES[$others++ % 4]];
    }
    return \%line;
}

1;
__END__

=head1 NAME

HydroBench::Chart::Style - how the parts of a chart look, in light and in dark

=head1 SYNOPSIS

    my $style  = HydroBench::Chart::Style->of('bar-own');              # { fill => 'own' }
    my $colour = $HydroBench::Chart::Style::LIGHT{ $style->{fill} };   # #005fb8

=cut
