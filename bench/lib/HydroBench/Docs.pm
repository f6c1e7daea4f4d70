package HydroBench::Docs;
use strict;
use warnings;
use HydroBench::Figures;
use HydroBench::Format qw(thousands times);
use HydroBench::Report;
use HydroBench::Results;

my $R = 'HydroBench::Results';

# The page, as Markdown, and the pictures it shows: ($text, \@pictures), a picture being { file => name, drawings => [...] }.
# Options: images, the folder of the pictures as the page sees it (img).
sub page {
    my ($class, $results, %options) = @_;
    my $images = defined $options{images} ? $options{images} : 'img';
    my @pictures;
    my @scenarios = @{ $results->{scenarios} };
    my $text = join "\n", $class->_introduction($results), $class->_promises($results), $class->_limits($results),
        $class->_machine($results), (map { $class->_scenario($_, $images, \@pictures) } @scenarios), $class->_redo($results);
    $text =~ s/\n{3,}/\n\n/g;
    return ($text, \@pictures);
}

sub _introduction {
    my ($class, $results) = @_;
    my ($day) = ($results->{time} || '') =~ /^(\d{4}-\d\d-\d\d)/;
    my $runs = 1 + @{ $results->{others} };
    my $when = (defined $day ? "on $day " : '') . 'in ' . ($runs == 1 ? 'one run' : "$runs runs") . ' of `script/bench`';
    my @findings = map {
        my $link = _link($_);
        map { "- $link: " . _inline($_) . "\n" } HydroBench::Figures->findings($_)
    } @{ $results->{scenarios} };
    my $links = join ', ', map { _link($_) } @{ $results->{scenarios} };
    return <<"END" . (@findings ? join '', "In short:\n\n", @findings : '');
<!-- Written by script/bench docs from measured results. Changes belong into bench/lib/HydroBench/Docs.pm. -->
# Benchmarks

Hydrofoil beside other servers, measured $when on one machine, with nothing left out: each scenario
below has its charts, all of its figures, who took part and who could not, what was promised, and the command that measures it
again on yours.

Scenarios: $links.

END
}

sub _link { '[' . _inline($_[0]{name}) . '](#' . _anchor($_[0]{name}) . ')' }

sub _promises {
    my ($class, $results) = @_;
    my @all = map { my $scenario = $_; map { [$scenario, $_] } @{ $scenario->{targets} } } @{ $results->{scenarios} };
    return () unless @all;
    my %count = (pass => 0, miss => 0, 'not measured' => 0);
    $count{ $_->[1]{verdict} }++ for @all;
    my $text = "## What was promised\n\n" . sprintf 'Of %d promises %d are kept', scalar @all, $count{pass};
    $text .= ", $count{miss} missed" if $count{miss};
    $text .= ", $count{'not measured'} could not be told" if $count{'not measured'};
    $text .= ".\n";
    my @open = grep { $_->[1]{verdict} ne 'pass' } @all;
    if (@open) {
        $text .= "These are not:\n\n" . _table(['', 'scenario', 'what', '>found', 'promised'], map {
            my ($value, $what, $promise) = HydroBench::Report->target($_->[1]);
            [$_->[1]{verdict}, $_->[0]{name}, $what, $value, $promise]
        } @open);
    }
    return $text;
}

# What a reader must not take these figures for.
sub _limits {
    my ($class, $results) = @_;
    my $machine = $results->{machine};
    my $cores   = $machine->{cores};
    my ($shared, $how) = !$cores ? ('Server and client share one machine.', '')
        : $cores == 1 ? ('Server and client share a single core.', 'The client takes part of every figure.')
        : ("Server and client share $cores cores.", 'Where a server has one worker, each has a core of its own. Where it has'
            . ' several, they compete, and what the client uses is missing to the server.');
    my $warnings = join '', map { '- **Note:** ' . _inline($_) . "\n" } $results->warnings;
    return <<"END" . $warnings . "\n";
## What these figures can say, and what not

- **Ratios rather than numbers.** All servers of a measure ran in the same minutes on the same cores, in turns, so the ratio
  between two of them means something. The numbers themselves are those of this machine; another one has others.
- **$shared** $how
  More cores give more requests per second, and not every server can use them: see the scenario on workers.
- **The loopback interface is no network.** There is no distance, no loss and no network card. A slow network makes
  servers more alike; many slow clients make them less alike.
- **Medians and spread.** A figure is the median of its rounds. The spread is the distance of the largest round from the smallest, as
  a part of the median; in the charts it is a thin line. Where these overlap, the order of two servers says nothing.
- **CPU per request is the steadier figure.** It is user and system time of all processes of a server, for each request
  that it answered well. Other work on the machine disturbs it less than it disturbs requests per second.
- **Latency under full load is the length of a queue.** A client that always has 256 requests under way waits for 256
  answers. wrk, ab and h2load ask again only when they were answered, so what a stalled server delays is not counted, and a
  server that serves one connection at a time looks quick while the other connections wait. Where a rate is given, requests
  are sent when they are due and are counted from that moment.
- **Hello world is not your application.** It shows what the server costs. An application that takes 10 ms hides every difference
  between these servers, but for those that show under slow requests, idle connections and restarts.
- **A server that fails has no figure.** It is in the tables with what went wrong.
END
}

sub _machine {
    my ($class, $results) = @_;
    my $text = "## Machine and versions\n\n";
    for my $one ($results, @{ $results->{others} }) {
        my @rows = map { [$_->[0], $_->[0] eq 'by' ? '`' . _redacted($_->[1]) . '`' : $_->[1]] } $one->machine_rows;
        $text .= _table(['', ''], @rows) . "\n";
    }
    my %versions = %{ $results->{versions} };
    my @versions = map { [$_, defined $versions{$_} ? $versions{$_} =~ s/\s*\n\s*/, /gr : 'unknown'] } sort keys %versions;
    $text .= _table(['server or tool', 'version'], @versions) . "\n" if @versions;
    my $skipped = $results->{skipped};
    $text .= "Not measured: " . join('; ', map { _inline("$_ ($skipped->{$_})") } sort keys %$skipped) . ".\n" if %$skipped;
    return $text;
}

sub _scenario {
    my ($class, $scenario, $images, $pictures) = @_;
    my $text = '## ' . _inline($scenario->{name}) . "\n\n";
    $text .= _inline(ucfirst $scenario->{summary}) . ".\n\n" if length $scenario->{summary};
    my @figures = HydroBench::Figures->of($scenario);
    my %done    = map { $_->{measure}{name} => $_ } @{ $scenario->{measures} };
    my (%shown, %told);
    while (my $figure = shift @figures) {
        my $is_published = $figure->{of} eq 'published';
        $text .= '### ' . _inline(ucfirst $figure->{title}) . "\n\n" if !$figure->{part} && !$is_published;
        if (_is_shown($figure, \%done) && !$is_published) {
            $text .= _picture($figure, $images, $pictures, \%told);
        }
        next if @figures && $figures[0]{of} eq $figure->{of};
        $text .= $class->_measure($done{$_}) for grep { !$shown{$_}++ } @{ $figure->{measures} };
        $text .= $class->_published($scenario, $figure, $images, $pictures) if $is_published;
    }
    $text .= $class->_measure($_) for grep { !$shown{ $_->{measure}{name} }++ } @{ $scenario->{measures} };
    $text .= $class->_published($scenario) if @{ $scenario->{published} } && $text !~ /^### Published/m;
    if (@{ $scenario->{targets} }) {
        $text .= "### Promises of $scenario->{name}\n\n" . _table(['', 'what', '>found', 'promised'], map {
            my ($value, $what, $promise) = HydroBench::Report->target($_);
            [$_->{verdict}, $what, $value, $promise]
        } @{ $scenario->{targets} }) . "\n";
    }
    return $text . 'Again: `script/bench ' . _redacted($scenario->{name}) . "`\n";
}

# Charts of ratios and of percentiles are pictures only where they tell what the others do not; the HTML report has them all.
sub _is_shown {
    my ($figure, $done) = @_;
    return 1 unless $figure->{part};
    my ($measure) = map { $done->{$_}{measure} } @{ $figure->{measures} };
    return $figure->{part} eq 'percentiles' ? $measure->{tool} =~ /^(?:latency|load|restarts)$/ : ($measure->{app} || '') eq 'hello'
        && ($measure->{workers} || 1) == 1;
}

sub _picture {
    my ($figure, $images, $pictures, $told) = @_;
    push @$pictures, { file => "$figure->{name}.png", drawings => $figure->{drawings}, scenario => $figure->{scenario} };
    my $alt  = _alt($figure->{drawings}, 600);
    my $note = $told->{ $figure->{note} }++ ? '' : '_' . _inline($figure->{note}) . "_\n\n";
    return "![$alt]($images/$figure->{name}.png)\n\n$note";
}

# What charts show, in at most that many characters.
sub _alt {
    my ($drawings, $length) = @_;
    my $alt = join ' ', map { $_->{desc} } @$drawings;
    $alt = (substr($alt, 0, $length) =~ s/[^.]*\z//r) . ' The tables have all figures.' if length $alt > $length;
    return _inline($alt);
}

sub _measure {
    my ($class, $done) = @_;
    my $measure = $done->{measure};
    my ($titles, @lines) = HydroBench::Report->cells($done);
    my $text = '**' . _inline($measure->{name}) . '**: ' . _inline($measure->{title}) . ".\n\n";
    $text .= _table($titles, map {
        my ($name, $result, @cells) = @$_;
        my @row = ($name, @cells ? @cells : (map({''} 2 .. $#$titles), 'failed: ' . _redacted($result->{problem})));
        $name eq 'hydrofoil' ? [map { length ? "**$_**" : '' } @row] : \@row;
    } @lines) . "\n";
    $text .= _inline(ucfirst $measure->{note}) . ".\n\n" if defined $measure->{note};
    my %why;
    push @{ $why{ $done->{left_out}{$_} } }, $_ for sort keys %{ $done->{left_out} };
    $text .= 'Left out: ' . _inline(join '; ', map { join(', ', @{ $why{$_} }) . " ($_)" } sort keys %why) . ".\n\n" if %why;
    my @commands;
    for my $name (map { $_->[0] } @lines) {
        my $result = $done->{results}{$name};
        my ($round) = @{ $result->{rounds} || [] };
        push @commands, "# $name", map { _redacted($_) } grep { defined && length } $result->{command},
            $round ? $round->{command} : ();
    }
    @commands = grep { defined && length } @commands;
    my $lines = join "\n", map {"    $_"} @commands;
    return $text unless grep { !/^#/ } @commands;
    return "$text<details><summary>Command lines of server and client</summary>\n\n$lines\n\n</details>\n\n";
}

sub _published {
    my ($class, $scenario, $figure, $images, $pictures) = @_;
    my $text = "### Published and measured: $scenario->{name}\n\n";
    $text .= _picture($figure, $images, $pictures, {}) if $figure;
    for my $table (HydroBench::Figures->published($scenario)) {
        my $about = $R->figure($table->{figure});
        my $base  = $table->{base};
        $text .= '**' . _inline($table->{label}) . '**, ' . _inline(lcfirst $about->{title})
            . (defined $table->{source} ? ' (published: ' . _inline($table->{source}) . ')' : '') . ".\n\n";
        my @times = defined $base ? ">times $base" : ();
        $text .= _table(['server', '>published', @times, '>measured here', @times], map {
            my $row   = $_;
            my @cells = map { defined $_ ? $about->{format}->($_) : '-' } @$row{qw(published value)};
            my @ratio = map { defined $_ ? times($_) : '-' } @$row{qw(published_times times)};
            [$row->{server}, $cells[0], (defined $base ? $ratio[0] : ()), $cells[1], (defined $base ? $ratio[1] : ())]
        } @{ $table->{rows} }) . "\n";
    }
    my @alone = HydroBench::Figures->published_alone($scenario);
    $text .= _table(['what', '>published', '>measured here', 'published where'], @alone) . "\n" if @alone;
    return $text;
}

sub _redo {
    my ($class, $results) = @_;
    return <<"END";
## Measure it yourself

    script/bootstrap --bench      # installs servers and tools, on Debian and Ubuntu
    script/bench all              # everything above; script/bench --list tells what there is, and what is missing here
    script/bench --quick          # the essentials, in less than three minutes
    script/bench report DIR       # the tables again, and a page with all charts
    script/bench compare OLD NEW  # what got faster or slower, and how sure that is
    script/bench docs DIR         # this page

Servers that no package has are given as a built copy: `--copy gazelle=DIR`.
END
}

# What README can say: one picture or two with their lines.
sub readme_lines {
    my ($class, $results, $pictures) = @_;
    my %by_file = map { $_->{file} => $_ } @$pictures;
    my @chosen  = grep {defined} map { $by_file{"$_.png"} }
        qw(hello-connections connections-connections fairness-slow4 workers-workers);
    @chosen = $pictures->[0] if !@chosen && @$pictures;
    my ($finding) = map { HydroBench::Figures->findings($_) }
        grep { !@chosen || $_->{id} eq $chosen[0]{scenario} } @{ $results->{scenarios} };
    my $text = defined $finding ? "$finding\n\n" : '';
    $text .= '![' . _alt($_->{drawings}, 400) . "](docs/img/$_->{file})\n\n" for @chosen > 2 ? @chosen[0, 1] : @chosen;
    return "${text}All figures, how they were measured and what they cannot say: [docs/benchmarks.md](docs/benchmarks.md).\n";
}

# A table of texts; a title that begins with ">" is that of a column of numbers.
sub _table {
    my ($titles, @rows) = @_;
    my @is_number = map { /^>/ ? 1 : 0 } @$titles;
    my $text = '| ' . join(' | ', map { _cell(s/^>//r) } @$titles) . " |\n";
    $text .= '| ' . join(' | ', map { $_ ? '---:' : '---' } @is_number) . " |\n";
    $text .= '| ' . join(' | ', map { _cell($_) } @$_) . " |\n" for @rows;
    return $text;
}

sub _cell {
    my ($text) = @_;
    return '' unless defined $text;
    $text =~ s/\s+/ /g;
    $text =~ s/\|/\\|/g;
    $text =~ s/</&lt;/g;
    return $text;
}

# Text within a line: nothing in it starts markup by accident.
sub _inline {
    my ($text) = @_;
    $text =~ s/\s+/ /g;
    $text =~ s/([\\`*\[\]])/\\$1/g;
    $text =~ s/</&lt;/g;
    return $text;
}

# A command or message without the folders of the machine that it ran on.
sub _redacted {
    my ($text) = @_;
    return undef unless defined $text;
    $text = $R->tidy_command($text);
    $text =~ s{(--copy[ =][\w.@-]+=)\S+}{$1DIR}g;
    $text =~ s{(?<![\w.:/])/(?!(?:usr|etc|proc|sys|dev|run|bin)/)(?:[\w.+@~-]+/)+}{.../}g;
    $text =~ s/\s+/ /g;
    return $text;
}

# As GitHub makes it from a heading.
sub _anchor {
    my ($heading) = @_;
    (my $anchor = lc $heading) =~ s/[^\w -]//g;
    $anchor =~ tr/ /-/;
    return $anchor;
}

1;
__END__

=head1 NAME

HydroBench::Docs - docs/benchmarks.md from results

=head1 SYNOPSIS

    my ($markdown, $pictures) = HydroBench::Docs->page(HydroBench::Results->load($folder));
    HydroBench::Chart::Gnuplot->write_png(HydroBench::Chart->beside(3, 36, @{ $_->{drawings} }), "docs/img/$_->{file}")
        for @$pictures;

=cut
