package HydroBench::Chart::SVG;
use strict;
use warnings;
use HydroBench::Chart::Style;
use HydroBench::Format qw(escape);

my $FONT = '-apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, system-ui, sans-serif';

# The drawing as an <svg> element. Its looks come from the style sheet (css, colours) of the page around it; with
# standalone => 1 it carries that itself and is a file of its own. `id` tells its title and description from others on the
# page.
sub paint {
    my ($class, $drawing, %options) = @_;
    my $id  = escape(defined $options{id} ? $options{id} : 'chart');
    my $svg = sprintf '<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img"',
        map { _number($_) } @$drawing{qw(width height)};
    $svg .= sprintf ' width="%s" height="%s"', map { _number($_) } @$drawing{qw(width height)} if $options{standalone};
    $svg .= sprintf ' aria-labelledby="%s-t %s-d">', $id, $id;
    $svg .= sprintf "\n<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", $id, escape($drawing->{title}),
        $id, escape($drawing->{desc});
    if ($options{standalone}) {
        $svg .= '<style>' . $class->colours('svg') . $class->css . "</style>\n";
        $svg .= '<rect width="100%" height="100%" style="fill: var(--paper)"/>' . "\n";
    }
    $svg .= _shape($_) . "\n" for @{ $drawing->{shapes} };
    return "$svg</svg>\n";
}

sub _shape {
    my ($shape) = @_;
    my $style = HydroBench::Chart::Style->of($shape->{style});
    my $attributes = sprintf ' class="%s"', $shape->{style};
    $attributes .= sprintf ' data-server="%s"', escape($shape->{server}) if defined $shape->{server};
    my $tip = defined $shape->{title} ? $shape->{title} : $shape->{full};
    $tip = defined $tip && length $tip ? '<title>' . escape($tip) . '</title>' : '';
    my $kind = $shape->{kind};
    if ($kind eq 'text') {
        my $halo = $shape->{halo} ? ' paint-order="stroke" style="stroke: var(--paper); stroke-width: 3px"' : '';
        my $anchor = $shape->{anchor} ? " text-anchor=\"$shape->{anchor}\"" : '';
        $tip = '' if defined $shape->{full} && $shape->{full} eq $shape->{text};
        return sprintf '<text%s x="%s" y="%s"%s%s>%s%s</text>', $attributes, _number($shape->{x}),
            _number($shape->{y} + 0.36 * $style->{size}), $anchor, $halo, escape($shape->{text}), $tip;
    }
    if ($kind eq 'rect') {
        return sprintf '<rect%s x="%s" y="%s" width="%s" height="%s" rx="1.5">%s</rect>', $attributes,
            (map { _number($_) } @$shape{qw(x y w h)}), $tip;
    }
    if ($kind eq 'line') {
        return sprintf '<polyline%s points="%s"/>', $attributes,
            join ' ', map { join ',', map { _number($_) } @$_ } @{ $shape->{points} };
    }
    my ($x, $y, $size) = @$shape{qw(x y size)};
    if ($shape->{shape} eq 'circle') {
        return sprintf '<circle%s cx="%s" cy="%s" r="%s">%s</circle>', $attributes, map({ _number($_) } $x, $y, $size), $tip;
    }
    my @corners = $shape->{shape} eq 'square' ? ([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9])
        : $shape->{shape} eq 'diamond'        ? ([0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0])
        :                                       ([0, -1.25], [1.15, 0.85], [-1.15, 0.85]);
    return sprintf '<polygon%s points="%s">%s</polygon>', $attributes,
        join(' ', map { _number($x + $size * $_->[0]) . ',' . _number($y + $size * $_->[1]) } @corners), $tip;
}

# The style sheet of all drawings, in terms of the colours' variables.
sub css {
    my ($class) = @_;
    my $css = ".chart { font-family: $FONT; font-variant-numeric: tabular-nums; }\n";
    for my $name (HydroBench::Chart::Style->names) {
        my $style = HydroBench::Chart::Style->of($name);
        my @rules;
        if ($style->{text}) {
            push @rules, "fill: var(--$style->{text})", "font-size: $style->{size}px", ($style->{bold} ? 'font-weight: 600' : ());
        }
        else {
            push @rules, 'fill: ' . ($style->{fill} ? "var(--$style->{fill})" : 'none');
            push @rules, "stroke: var(--$style->{stroke})", "stroke-width: $style->{width}" if $style->{stroke};
            push @rules, "stroke-dasharray: $style->{dash}" if $style->{dash};
            push @rules, "opacity: $style->{opacity}" if $style->{opacity};
            push @rules, 'stroke-linejoin: round' if $name =~ /^line-/;
        }
        $css .= ".chart .$name { " . join('; ', @rules) . " }\n";
    }
    return $css;
}

# The colours as variables of $selector, and those of the dark for who prefers it.
sub colours {
    my ($class, $selector) = @_;
    my $list = sub {
        my ($colours) = @_;
        return join ' ', map {"--$_: $colours->{$_};"} sort keys %$colours;
    };
    return "$selector { color-scheme: light dark; " . $list->(\%HydroBench::Chart::Style::LIGHT) . " }\n"
        . "\@media (prefers-color-scheme: dark) { $selector { " . $list->(\%HydroBench::Chart::Style::DARK) . " } }\n";
}

# Two places are more than a pixel needs.
sub _number {
    my $text = sprintf '%.2f', $_[0];
    $text =~ s/\.?0+\z//;
    return $text eq '-0' ? '0' : $text;
}

1;
__END__

=head1 NAME

HydroBench::Chart::SVG - drawings as SVG that follows the reader's colours

=head1 SYNOPSIS

    my $page = '<style>' . HydroBench::Chart::SVG->colours(':root') . HydroBench::Chart::SVG->css . '</style>'
        . HydroBench::Chart::SVG->paint($drawing, id => 'throughput');
    my $file = HydroBench::Chart::SVG->paint($drawing, standalone => 1);

=cut
