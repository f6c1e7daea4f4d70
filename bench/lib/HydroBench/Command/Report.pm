package HydroBench::Command::Report;
use strict;
use warnings;
use File::Basename qw(dirname);
use Getopt::Long ();
use HydroBench::Chart;
use HydroBench::Chart::Gnuplot;
use HydroBench::Figures;
use HydroBench::Html;
use HydroBench::Report;
use HydroBench::Results;

my $HELP = <<'HELP';
script/bench report [OPTIONS] DIR...     tables and charts of what was measured before

  DIR                    a results folder (or a results.json); several are put together into one report
  --output FILE          where to write the page (default: report.html in the first DIR)
  --png                  each row of charts as a PNG file beside the page, too (needs gnuplot)
  --dark                 these in the colours for a dark background
  --quiet                no tables in the terminal
HELP

# Returns the exit status. @arguments are those after "report".
sub run {
    my ($class, @arguments) = @_;
    my %option;
    Getopt::Long::GetOptionsFromArray(\@arguments, \%option, 'help|h', 'output=s', 'png', 'dark', 'quiet|q')
        or die "Try script/bench report --help.\n";
    if ($option{help}) { print $HELP; return 0 }
    die $HELP unless @arguments;
    die HydroBench::Chart::Gnuplot->hint if $option{png} && !HydroBench::Chart::Gnuplot->program;

    my $results = HydroBench::Results->load(@arguments);
    binmode STDOUT, ':encoding(UTF-8)';
    print $class->text($results) unless $option{quiet};

    my $folder = -d $arguments[0] ? $arguments[0] : dirname($arguments[0]);
    my $output = defined $option{output} ? $option{output} : "$folder/report.html";
    write_file($output, HydroBench::Html->report($results));
    print "\nA page with charts: $output\n";
    if ($option{png}) {
        print "$_\n" for $class->write_pngs($results, dirname($output), $option{dark} ? 'dark' : 'light');
    }
    return 0;
}

# All tables, as script/bench prints them at the end of a run.
sub text {
    my ($class, $results) = @_;
    my $text = '';
    $text .= sprintf "%-12s %s\n", @$_ for map { [$_->[0], $_->[1] =~ s/\s+/ /gr] } $results->machine_rows;
    $text .= "skipped:     $_ ($results->{skipped}{$_})\n" for sort keys %{ $results->{skipped} };
    $text .= "note:        $_\n" for $results->warnings;
    for my $scenario (@{ $results->{scenarios} }) {
        $text .= "\n$scenario->{name}" . (length $scenario->{summary} ? ": $scenario->{summary}" : '') . "\n";
        $text .= HydroBench::Report->measure($_) for @{ $scenario->{measures} };
        $text .= (HydroBench::Report->targets($scenario->{targets}))[0] if @{ $scenario->{targets} };
        $text .= HydroBench::Report->published($scenario->{published});
    }
    return $text;
}

# Each row of charts as a file in $dir; returns their paths.
sub write_pngs {
    my ($class, $results, $dir, $theme) = @_;
    my @paths;
    for my $figure (map { HydroBench::Figures->of($_) } @{ $results->{scenarios} }) {
        push @paths, HydroBench::Chart::Gnuplot->write_png(HydroBench::Chart->beside(3, 36, @{ $figure->{drawings} }),
            "$dir/$figure->{name}.png", theme => $theme);
    }
    return @paths;
}

sub write_file {
    my ($path, $text) = @_;
    open my $file, '>:encoding(UTF-8)', $path or die "$path: $!\n";
    print {$file} $text;
    close $file or die "$path: $!\n";
    return;
}

1;
__END__

=head1 NAME

HydroBench::Command::Report - script/bench report

=head1 SYNOPSIS

    exit HydroBench::Command::Report->run('build/bench/20260101-120000');

=cut
