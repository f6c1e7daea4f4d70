package HydroBench::Chart::Gnuplot;
use strict;
use warnings;
use Encode ();
use HydroBench::Chart::Style;

my $MARGIN = 14;    # units around the drawing
my $ZOOM   = 2;     # pixels for each unit, unless told otherwise: sharp on screens that have as many
my $POINT  = 0.75; # points in a pixel

my %MARK = (circle => 7, square => 5, triangle => 9, diamond => 13);

# Where gnuplot is, or undef.
sub program {
    my ($class) = @_;
    my ($program) = grep { -x && !-d } map {"$_/gnuplot"} split /:/, $ENV{PATH} || '';
    return $program;
}

# What to do about it when there is none.
sub hint { return "PNG charts are painted by gnuplot, which is not installed: apt-get install gnuplot-nox\n" }

# Writes the drawing as a PNG file. Dies with what gnuplot said when that fails. $options: theme, light (default) or dark, and
# zoom, pixels for each unit (2).
sub write_png {
    my ($class, $drawing, $path, %options) = @_;
    my $program = $class->program or die $class->hint;
    my $script  = $class->script($drawing, $path, %options);
    my $pid     = open my $gnuplot, '|-';
    die "cannot fork: $!\n" unless defined $pid;
    if (!$pid) {
        open STDERR, '>', "$path.log";
        exec { $program } $program, '-' or die "$program: $!\n";
    }
    local $SIG{PIPE} = 'IGNORE';
    print {$gnuplot} Encode::encode('UTF-8', $script);
    my $done = close $gnuplot;
    my $said = do { open my $log, '<', "$path.log"; local $/; $log ? scalar <$log> : '' };
    unlink "$path.log";
    die "gnuplot did not write $path: $said\n" unless $done && -s $path;
    return $path;
}

# The drawing as a script for gnuplot. Everything is a plot of inline data in units, so that what comes later is on top.
sub script {
    my ($class, $drawing, $path, %options) = @_;
    my $zoom    = $options{zoom} || $ZOOM;
    my $colours = ($options{theme} || 'light') eq 'dark' ? \%HydroBench::Chart::Style::DARK : \%HydroBench::Chart::Style::LIGHT;
    my ($width, $height) = map { $_ + 2 * $MARGIN } @$drawing{qw(width height)};
    my $script = "set encoding utf8\n";
    $script .= sprintf "set terminal pngcairo size %d,%d noenhanced background rgb '%s' font 'Arial,%g' linewidth %g\n",
        $width * $zoom, $height * $zoom, $colours->{paper}, 11 * $zoom * $POINT, $zoom;
    $script .= sprintf "set output %s\n", _quote($path);
    $script .= "unset border\nunset key\nunset tics\nset lmargin at screen 0\nset rmargin at screen 1\n"
        . "set tmargin at screen 1\nset bmargin at screen 0\n";
    $script .= sprintf "set xrange [%g:%g]\nset yrange [%g:%g]\n", -$MARGIN, $width - $MARGIN, $height - $MARGIN, -$MARGIN;
    $script .= "set style fill solid 1.0 noborder\n";

    my (@plots, $data);
    for my $shape (@{ $drawing->{shapes} }) {
        my ($lines, @elements) = _shape($shape, $colours, $zoom);
        next unless @elements;
        my $block = sprintf '$d%d', scalar @plots;
        $data .= "$block << EOD\n$lines\nEOD\n";
        push @plots, join ', ', map {"$block $_"} @elements;
    }
    $script .= defined $data ? $data : '';
    $script .= 'plot ' . (@plots ? join ", \\\n  ", @plots : 'NaN') . "\n";
    return $script;
}

# The data of one shape, and how it is plotted.
sub _shape {
    my ($shape, $colours, $zoom) = @_;
    my $style = HydroBench::Chart::Style->of($shape->{style});
    my $kind  = $shape->{kind};
    if ($kind eq 'text') {
        return unless length $shape->{text};
        (my $text = $shape->{text}) =~ tr/"\\\n\r/''  /;
        my %side = (start => 'left', middle => 'center', end => 'right');
        return (
            sprintf('%g %g "%s"', @$shape{qw(x y)}, $text),
            sprintf("using 1:2:3 with labels %s font 'Arial%s,%g' textcolor rgb '%s'", $side{ $shape->{anchor} || 'start' },
                $style->{bold} ? ':Bold' : '', $style->{size} * $zoom * $POINT, $colours->{ $style->{text} }),
        );
    }
    if ($kind eq 'rect') {
        my ($x, $y, $w, $h) = @$shape{qw(x y w h)};
        return (
            sprintf('%g %g %g %g %g %g', $x, $y, $x, $x + $w, $y, $y + $h),
            sprintf("using 1:2:3:4:5:6 with boxxyerror fillcolor rgb '%s'", $colours->{ $style->{fill} }),
        );
    }
    if ($kind eq 'line') {
        my $dash = $style->{dash} ? ' dashtype (' . join(',', map { $_ * 1.3 } split / /, $style->{dash}) . ')' : '';
        return (
            join("\n", map { sprintf '%g %g', @$_ } @{ $shape->{points} }),
            sprintf("using 1:2 with lines linecolor rgb '%s' linewidth %g%s", $colours->{ $style->{stroke} }, $style->{width},
                $dash),
        );
    }
    my $mark = sprintf 'with points pointtype %d pointsize %g', $MARK{ $shape->{shape} }, $shape->{size} * $zoom / 4.8;
    return (
        sprintf('%g %g', @$shape{qw(x y)}),
        ($style->{fill} ? "using 1:2 $mark linecolor rgb '$colours->{ $style->{fill} }'" : ()),
        ($style->{stroke}
            ? sprintf("using 1:2 with points pointtype 6 pointsize %g linewidth %g linecolor rgb '%s'",
                $shape->{size} * $zoom / 4.8, $style->{width}, $colours->{ $style->{stroke} })
            : ()),
    );
}

sub _quote {
    my ($text) = @_;
    $text =~ s/'/''/g;
    return "'$text'";
}

1;
__END__

=head1 NAME

HydroBench::Chart::Gnuplot - drawings as PNG, painted by gnuplot

=head1 SYNOPSIS

    print STDERR HydroBench::Chart::Gnuplot->hint unless HydroBench::Chart::Gnuplot->program;
    HydroBench::Chart::Gnuplot->write_png($drawing, 'docs/img/hello.png');

gnuplot is the canvas: where things are was decided by L<HydroBench::Chart>, so a PNG shows what the page shows.

=cut
