package HydroBench::Command::Compare;
use strict;
use warnings;
use Getopt::Long ();
use HydroBench::Chart;
use HydroBench::Chart::Style;
use HydroBench::Chart::SVG;
use HydroBench::Command::Report;
use HydroBench::Compare;
use HydroBench::Format qw(escape times short);
use HydroBench::Html::Page qw(page scroll_box table badge);
use HydroBench::Results;

my $HELP = <<'HELP';
script/bench compare [OPTIONS] OLD NEW     what got faster or slower between two results folders, and how sure that is

  OLD, NEW               results folders, or results.json
  --least PERCENT        smaller differences count as none (2)
  --servers A,B          only these
  --all                  tell what stayed the same, too
  --html FILE            the same as a page with charts
  --strict               exit status 1 when something surely got slower or worse, which takes 5 rounds each

Ratios are of NEW to OLD, with their interval at 95% from the rounds of both. `perldoc bench/lib/HydroBench/Compare.pm` says
how sure that is.
HELP

# Returns the exit status. @arguments are those after "compare".
sub run {
    my ($class, @arguments) = @_;
    my %option = (least => 2, servers => '');
    Getopt::Long::GetOptionsFromArray(\@arguments, \%option, 'help|h', 'least=f', 'servers=s', 'all', 'html=s', 'strict')
        or die "Try script/bench compare --help.\n";
    if ($option{help}) { print $HELP; return 0 }
    die $HELP unless @arguments == 2;

    my ($old, $new) = map { HydroBench::Results->load($_) } @arguments;
    my $found = HydroBench::Compare->compare($old, $new, least => $option{least} / 100, only => [split /,/, $option{servers}]);
    binmode STDOUT, ':encoding(UTF-8)';
    print $class->text($old, $new, $found, $option{all});
    if (defined $option{html}) {
        HydroBench::Command::Report::write_file($option{html}, $class->html($old, $new, $found));
        print "\nA page with charts: $option{html}\n";
    }
    return $option{strict} && grep({ _is_worse($_) } @{ $found->{comparisons} }) ? 1 : 0;
}

sub _is_worse { return $_[0]{verdict} =~ /^(?:slower|worse)$/ && !$_[0]{control} }

# The result of HydroBench::Compare as text; with $all also what stayed the same.
sub text {
    my ($class, $old, $new, $found, $all) = @_;
    my $text = sprintf "old: %s\nnew: %s\n", map { _run($_) } $old, $new;
    $text .= "note: $_\n" for @{ $found->{warnings} };
    my @comparisons = @{ $found->{comparisons} };
    $text .= "\n" . _summary(@comparisons) . "\n";
    my @shown = grep { $all || $_->{verdict} ne 'same' } @comparisons;
    $text .= sprintf "\n%-12s  %7s  %-15s  %s\n", '', 'new/old', '95% interval', '' if @shown;
    for my $one (@shown) {
        $text .= sprintf "%-12s  %7s  %-15s  %s\n", $one->{verdict}, _ratio($one), _interval($one), join ', ', _what($one),
            "$one->{figure}{title}: " . _change($one), $one->{verdict} =~ /tell|same/ ? $one->{why} : (),
            $one->{control} ? 'the same server' : ();
    }
    $text .= "\nNot compared:\n" . join('', map {"  $_\n"} @{ $found->{missing} }) if @{ $found->{missing} };
    $text .= "\n" . _caveat(@comparisons) . "\n" if @comparisons;
    return $text;
}

sub _run {
    my ($results) = @_;
    my $commit = $results->{machine}{commit};
    return join ', ', grep {defined} $results->{time}, defined $commit ? 'commit ' . substr($commit, 0, 12) : undef,
        $results->{machine}{changed} ? 'with changes' : undef, defined $results->{dir} ? $results->{dir} : undef;
}

sub _summary {
    my (@comparisons) = @_;
    return 'There is nothing to compare.' unless @comparisons;
    my %count;
    $count{ $_->{verdict} }++ for @comparisons;
    return @comparisons . ' comparisons: ' . join(', ', map { $count{$_} ? "$count{$_} $_" : () }
        qw(slower worse faster better), (map {"maybe $_"} qw(slower worse faster better)), 'same', 'cannot tell') . '.';
}

sub _caveat {
    my (@comparisons) = @_;
    my $chance = sprintf '%.0f', @comparisons / 20;
    return 'Intervals are from the rounds, and rounds of one run share its hour.'
        . ($chance > 0 ? " Of @{[ scalar @comparisons ]} comparisons about $chance would differ at 95% by chance alone." : '');
}

sub _what {
    my ($one) = @_;
    return ("$one->{scenario}/$one->{measure}", $one->{server});
}

# Three places tell a per mille; ratios that large need none of it.
sub _times { return $_[0] < 10 ? sprintf '%.3f', $_[0] : times($_[0]) }
sub _ratio { return defined $_[0]{ratio} ? _times($_[0]{ratio}) : '-' }

sub _interval {
    my ($one) = @_;
    return '-' unless defined $one->{low} && defined $one->{ratio};
    return join ' to ', map { _times($_) } @$one{qw(low high)};
}

sub _change {
    my ($one) = @_;
    return join ' to ', map { $one->{figure}{format}->($_) } @$one{qw(old new)};
}

# The same as a page.
sub html {
    my ($class, $old, $new, $found) = @_;
    my @comparisons = @{ $found->{comparisons} };
    my $html = "<header>\n<p class=\"kicker\">Benchmark results compared</p>\n<h1>What got faster, what slower</h1>\n"
        . '<p class="facts">old: ' . escape(_run($old)) . '<br>new: ' . escape(_run($new)) . "</p>\n"
        . '<p class="lead">' . escape(_summary(@comparisons)) . "</p>\n";
    $html .= "<aside class=\"warning\"><h2>Before you believe it</h2>\n<ul>"
        . join('', map { '<li>' . escape($_) . "</li>\n" } @{ $found->{warnings} }, @comparisons ? _caveat(@comparisons) : ())
        . "</ul></aside>\n</header>\n";

    my @changed = grep { $_->{verdict} !~ /same|tell/ } @comparisons;
    $html .= "<section id=\"changes\">\n<h2>Changes</h2>\n" . (@changed ? _table('changes', @changed)
        : "<p>Nothing is surely faster or slower.</p>\n") . "</section>\n";
    my @links = (['changes', 'Changes']);
    my %scenarios = map { $_->{scenario} => 1 } @comparisons;
    for my $scenario (sort keys %scenarios) {
        my @own = grep { $_->{scenario} eq $scenario } @comparisons;
        (my $id = "s-$scenario") =~ s/[^\w.-]+/-/g;
        push @links, [$id, $scenario];
        $html .= "<section id=\"$id\">\n<h2>" . escape($scenario) . "</h2>\n" . $class->_charts($id, @own) . _table($scenario, @own)
            . "</section>\n";
    }
    if (@{ $found->{missing} }) {
        $html .= "<section id=\"missing\">\n<h2>Not compared</h2>\n<ul>"
            . join('', map { '<li>' . escape($_) . "</li>\n" } @{ $found->{missing} }) . "</ul>\n</section>\n";
        push @links, ['missing', 'Not compared'];
    }
    return page('Hydrofoil: benchmark results compared', \@links, $html);
}

sub _table {
    my ($label, @comparisons) = @_;
    my @titles = ('', 'measure', 'server', 'figure', '>new/old', '>95% interval', '>old', '>new', '>rounds', 'why');
    return scroll_box($label, table(\@titles,
        map {
            my $one = $_;
            [
                ($one->{server} eq 'hydrofoil' ? { class => 'own' } : {}), badge($one->{verdict}), escape($one->{measure}),
                escape($one->{server} . ($one->{control} ? ' (the same)' : '')), escape($one->{figure}{title}),
                escape(_ratio($one)), escape(_interval($one)), (map { escape($one->{figure}{format}->($one->{$_})) } qw(old new)),
                escape(join ' and ', @{ $one->{rounds} }), escape($one->{why}),
            ]
        } @comparisons));
}

# Ratios with their intervals, a chart for each figure, one row for each server.
sub _charts {
    my ($class, $id, @comparisons) = @_;
    my (@figures, %of);
    for my $one (sort { $a->{measure} cmp $b->{measure} || $a->{server} cmp $b->{server} } @comparisons) {
        next unless defined $one->{ratio};
        my $name = $one->{figure}{name};
        push @figures, $name unless $of{$name};
        push @{ $of{$name}{ $one->{measure} } }, $one;
    }
    my %rank = (req_per_s => 1, mb_per_cpu_s => 1, cpu_us => 2, 'latency.p99' => 3);
    my @drawings;
    for my $name (sort { ($rank{$a} || 9) <=> ($rank{$b} || 9) } @figures) {
        my @measures = sort keys %{ $of{$name} };
        my $about = $of{$name}{ $measures[0] }[0]{figure};
        my @groups = map {
            { label => $_, rows => [map {
                { name => $_->{server}, style => HydroBench::Chart::Style->bar($_->{server}, $_->{control} ? 'web' : 'psgi'),
                    value => $_->{ratio}, low => $_->{low}, high => $_->{high}, text => sprintf('%.3f', $_->{ratio}) }
            } @{ $of{$name}{$_} }] }
        } @measures;
        push @drawings, HydroBench::Chart->bars(
            title => $about->{title}, subtitle => 'new, times old; ' . ($about->{better} > 0 ? 'more' : 'less') . ' is better',
            unit => 'times', axis => 'log', tick => \&short, reference => 1, groups => \@groups,
            desc => join ' ', map {
                my $group = $_;
                "$group->{label}: " . join(', ', map {"$_->{name} $_->{text}"} @{ $group->{rows} }) . '.'
            } @groups,
        );
    }
    return '' unless @drawings;
    my $count = 0;
    return "<figure>\n<div class=\"panels\">\n"
        . join('', map { HydroBench::Chart::SVG->paint($_, id => "$id-" . ++$count) } @drawings)
        . "</div>\n<figcaption>The thin lines are intervals at 95%: where one crosses the dashed line, there may be no difference."
        . "</figcaption>\n</figure>\n";
}

1;
__END__

=head1 NAME

HydroBench::Command::Compare - script/bench compare

=head1 SYNOPSIS

    exit HydroBench::Command::Compare->run('--strict', 'build/bench/before', 'build/bench/after');

=cut
