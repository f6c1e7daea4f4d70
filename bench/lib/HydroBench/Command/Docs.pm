package HydroBench::Command::Docs;
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Path qw(make_path);
use Getopt::Long ();
use HydroBench::Chart;
use HydroBench::Chart::Gnuplot;
use HydroBench::Command::Report;
use HydroBench::Docs;
use HydroBench::Results;

my $ROOT = abs_path(dirname(abs_path(__FILE__)) . '/../../../..');

my $HELP = <<'HELP';
script/bench docs [OPTIONS] DIR...     writes docs/benchmarks.md and its pictures from results

  DIR                    a results folder of a full run; several are put together
  --output FILE          where to write the page (default: docs/benchmarks.md); pictures go to the folder img beside it
  --no-png               the page alone, where the pictures are there already; without it, gnuplot is needed

It prints the lines for README in the end.
HELP

# Returns the exit status. @arguments are those after "docs".
sub run {
    my ($class, @arguments) = @_;
    my %option = (output => "$ROOT/docs/benchmarks.md", png => 1);
    Getopt::Long::GetOptionsFromArray(\@arguments, \%option, 'help|h', 'output=s', 'png!')
        or die "Try script/bench docs --help.\n";
    if ($option{help}) { print $HELP; return 0 }
    die $HELP unless @arguments;
    die HydroBench::Chart::Gnuplot->hint if $option{png} && !HydroBench::Chart::Gnuplot->program;

    my $results = HydroBench::Results->load(@arguments);
    my ($text, $pictures) = HydroBench::Docs->page($results);
    my $folder = dirname($option{output}) . '/img';
    if ($option{png}) {
        make_path($folder);
        for my $picture (@$pictures) {
            my $drawing = HydroBench::Chart->beside(3, 36, @{ $picture->{drawings} });
            HydroBench::Chart::Gnuplot->write_png($drawing, "$folder/$picture->{file}");
        }
    }
    HydroBench::Command::Report::write_file($option{output}, $text);
    binmode STDOUT, ':encoding(UTF-8)';
    print "$option{output}, with " . @$pictures . " pictures.\n\n";
    print "For README:\n\n" . HydroBench::Docs->readme_lines($results, $pictures);
    return 0;
}

1;
__END__

=head1 NAME

HydroBench::Command::Docs - script/bench docs

=head1 SYNOPSIS

    exit HydroBench::Command::Docs->run('build/bench/20260101-120000-all');

=cut
