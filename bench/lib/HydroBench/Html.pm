package HydroBench::Html;
use strict;
use warnings;
use HydroBench::Chart::SVG;
use HydroBench::Figures;
use HydroBench::Format qw(escape thousands times);
use HydroBench::Html::Page qw(page scroll_box table badge);
use HydroBench::Report;
use HydroBench::Results;

my $R = 'HydroBench::Results';

# All results as one page of HTML that needs nothing but itself.
sub report {
    my ($class, $results) = @_;
    my @scenarios = @{ $results->{scenarios} };
    my @body = (
        $class->_head($results),
        $class->_promises($results),
        (map { $class->_scenario($_) } @scenarios),
        $class->_servers($results),
        $class->_reading,
        $class->_machine($results),
    );
    my @links = (
        (map { [$_->{id}, $_->{name}] } @scenarios), ['servers', 'Servers'], ['reading', 'How to read it'], ['machine', 'Machine'],
    );
    return page('Hydrofoil: benchmark results', \@links, @body);
}

sub _head {
    my ($class, $results) = @_;
    my $machine = $results->{machine};
    my $day  = ($results->{time} || '') =~ /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)/ ? "$1, $2 UTC" : 'at an unknown time';
    my @facts = (
        $day, ($machine->{cores} ? "$machine->{cores} " . ($machine->{cores} == 1 ? 'core' : 'cores')
            . ($machine->{cpu} ? " of $machine->{cpu}" : '') : ()),
        ($machine->{kernel} ? "Linux $machine->{kernel}" : ()), ($machine->{perl} ? "perl $machine->{perl}" : ()),
    );
    my $html = "<header>\n<p class=\"kicker\">Benchmark results</p>\n<h1>Hydrofoil beside other servers</h1>\n"
        . '<p class="facts">' . join(qq( <span aria-hidden="true">\x{b7}</span> ), map { escape($_) } @facts) . "</p>\n";
    my @findings = map { HydroBench::Figures->findings($_) }
        sort { ($b->{name} eq 'hello') <=> ($a->{name} eq 'hello') } @{ $results->{scenarios} };
    $html .= '<p class="lead">' . escape($findings[0]) . "</p>\n" if @findings;
    my @warnings = $results->warnings;
    if (@warnings) {
        $html .= "<aside class=\"warning\"><h2>Before you believe it</h2>\n<ul>"
            . join('', map { '<li>' . escape($_) . "</li>\n" } @warnings) . "</ul></aside>\n";
    }
    return "$html</header>\n";
}

# All promises of all scenarios, the missed ones first.
sub _promises {
    my ($class, $results) = @_;
    my @all = map { my $scenario = $_; map { [$scenario, $_] } @{ $scenario->{targets} } } @{ $results->{scenarios} };
    return '' unless @all;
    my %count = (pass => 0, miss => 0, 'not measured' => 0);
    $count{ $_->[1]{verdict} }++ for @all;
    my $html = "<section id=\"promises\">\n<h2>What was promised</h2>\n<p>"
        . sprintf('%d of %d promises are kept', $count{pass}, scalar @all)
        . ($count{miss} ? ", $count{miss} " . ($count{miss} == 1 ? 'is' : 'are') . ' missed' : '')
        . ($count{'not measured'} ? ", $count{'not measured'} could not be told" : '') . ".</p>\n";
    my %rank = (miss => 0, 'not measured' => 1, pass => 2);
    my @sorted = sort { $rank{ $a->[1]{verdict} } <=> $rank{ $b->[1]{verdict} } } @all;
    my @kept   = @sorted > 12 ? grep { $_->[1]{verdict} eq 'pass' } @sorted : ();
    $html .= _promise_list(@sorted[0 .. $#sorted - @kept]) if @sorted > @kept;
    $html .= '<details class="tables"><summary>The ' . @kept . ' that are kept</summary>' . "\n" . _promise_list(@kept) . "</details>\n"
        if @kept;
    return "$html</section>\n";
}

sub _promise_list {
    my @items = map {
        my ($scenario, $target) = @$_;
        my ($value, $what, $promise) = HydroBench::Report->target($target);
        sprintf '<li>%s<span class="found">%s</span><span><a href="#%s">%s</a>: %s<small>%s</small></span></li>' . "\n",
            badge($target->{verdict}), map { escape($_) } $value, @$scenario{qw(id name)}, $what, $promise;
    } @_;
    return '<ul class="promises">' . join('', @items) . "</ul>\n";
}

sub _scenario {
    my ($class, $scenario) = @_;
    my $id   = escape($scenario->{id});
    my $html = "<section id=\"$id\">\n<h2>" . escape($scenario->{name}) . "</h2>\n";
    $html .= '<p class="summary">' . escape(ucfirst $scenario->{summary}) . ".</p>\n" if length $scenario->{summary};
    my @findings = HydroBench::Figures->findings($scenario);
    $html .= '<ul class="findings">' . join('', map { '<li>' . escape($_) . "</li>\n" } @findings) . "</ul>\n" if @findings;

    my @figures = HydroBench::Figures->of($scenario);
    my @of      = @figures;
    my %done    = map { $_->{measure}{name} => $_ } @{ $scenario->{measures} };
    my (%shown, %told);
    while (my $figure = shift @figures) {
        $html .= '<h3>' . escape(ucfirst $figure->{title}) . "</h3>\n" unless $figure->{part} || $figure->{of} eq 'published';
        $html .= $figure->{of} eq 'published' ? $class->_published($scenario, $figure) : $class->_figure($figure, \%told);
        next if @figures && $figures[0]{of} eq $figure->{of};
        $html .= $class->_measures(map { $done{$_} } grep { !$shown{$_}++ } @{ $figure->{measures} });
    }
    $html .= $class->_measure($_) for grep { !$shown{ $_->{measure}{name} }++ } @{ $scenario->{measures} };
    $html .= $class->_published($scenario) if @{ $scenario->{published} } && !grep { $_ eq 'published' } map { $_->{of} } @of;
    return "$html</section>\n";
}

# What has been said below one figure ($told, by what it says) is not said again below the next.
sub _figure {
    my ($class, $figure, $told) = @_;
    my $number = 0;
    my $html = "<figure>\n<div class=\"panels\">\n";
    $html .= HydroBench::Chart::SVG->paint($_, id => join '-', 'c', $figure->{name}, ++$number) for @{ $figure->{drawings} };
    my $note = $told->{ $figure->{note} }++ ? '' : '<figcaption>' . escape($figure->{note}) . "</figcaption>\n";
    return "$html</div>\n$note</figure>\n";
}

# Tables below their charts; many of them are folded away.
sub _measures {
    my ($class, @done) = @_;
    my $html = join '', map { $class->_measure($_) } @done;
    return $html if @done < 4;
    return '<details class="tables"><summary>The same as ' . @done . ' tables, and how they were measured</summary>'
        . "\n$html</details>\n";
}

# The table of a measure, who was left out, and how it was run.
sub _measure {
    my ($class, $done) = @_;
    my $measure = $done->{measure};
    my ($titles, @lines) = HydroBench::Report->cells($done);
    my $html = '<h4>' . escape($measure->{name}) . ' <span>' . escape($measure->{title}) . "</span></h4>\n";
    my @rows;
    for my $line (@lines) {
        my ($name, $result, @cells) = @$line;
        my $attributes = $name eq 'hydrofoil' ? { class => 'own' } : {};
        push @rows, [
            $attributes, escape($name),
            @cells ? map { escape($_) } @cells
                : { span => $#$titles, html => '<span class="failed">failed: ' . escape($result->{problem}) . '</span>' },
        ];
    }
    $html .= scroll_box($measure->{name}, table($titles, @rows));
    $html .= '<p class="left-out">' . escape(ucfirst $measure->{note}) . ".</p>\n" if defined $measure->{note};
    my %why;
    push @{ $why{ $done->{left_out}{$_} } }, $_ for sort keys %{ $done->{left_out} };
    my $out = join '; ', map { join(', ', @{ $why{$_} }) . " ($_)" } sort keys %why;
    $html .= '<p class="left-out">Left out: ' . escape($out) . ".</p>\n" if %why;
    return $html . $class->_commands($done);
}

# How each server was started and loaded, folded away.
sub _commands {
    my ($class, $done) = @_;
    my $results = $done->{results};
    my $html = '';
    for my $name (sort keys %$results) {
        my $result = $results->{$name};
        my ($round) = @{ $result->{rounds} || [] };
        my @lines = grep { defined && length } $result->{command}, $round ? map { $_->{command} } $round, $round->{beside} : ();
        next unless @lines;
        $html .= '<dt>' . escape($name) . '</dt>' . join('', map { '<dd><code>' . escape($_) . '</code></dd>' } @lines) . "\n";
    }
    return '' unless length $html;
    return "<details><summary>Command lines: the server's, and the client's in the first round</summary>\n"
        . "<dl class=\"commands\">$html</dl></details>\n";
}

sub _published {
    my ($class, $scenario, $figure) = @_;
    my $html  = "<h3>Published and measured</h3>\n" . ($figure ? $class->_figure($figure, {}) : '');
    my $count = 0;
    my @tables;
    for my $table (HydroBench::Figures->published($scenario)) {
        my $about = $R->figure($table->{figure});
        my $base  = $table->{base};
        my @rows  = map {
            my $row   = $_;
            my @cells = map { defined $_ ? $about->{format}->($_) : '-' } @$row{qw(published value)};
            splice @cells, 1, 0, _times($row->{published_times}) if defined $base;
            push @cells, _times($row->{times}) if defined $base;
            [($row->{server} eq 'hydrofoil' ? { class => 'own' } : {}), map { escape($_) } $row->{server}, @cells];
        } @{ $table->{rows} };
        my $what   = lcfirst $about->{title} . (length $about->{what} ? ", $about->{what}" : '');
        my @times  = defined $base ? ">times $base" : ();
        my @titles = ('server', '>published', @times, '>here', @times);
        my $source = defined $table->{source} ? "Published: $table->{source}." : '';
        $source .= ' None of these servers was measured here.'
            unless grep { defined $_->{published} && defined $_->{value} } @{ $table->{rows} };
        push @tables, '<div><h4>' . escape($table->{label}) . ' <span>' . escape($what) . "</span></h4>\n"
            . scroll_box('published ' . ++$count, table(\@titles, @rows))
            . (length $source ? '<p class="left-out">' . escape($source) . "</p>\n" : '') . "</div>\n";
    }
    $html .= '<div class="pairs">' . join('', @tables) . "</div>\n" if @tables;
    my @alone = HydroBench::Figures->published_alone($scenario);
    $html .= scroll_box('published ratios', table(['what', '>published', '>measured here', 'published where'],
        map { [map { escape($_) } @$_] } @alone)) if @alone;
    return $html;
}

sub _times { return defined $_[0] ? times($_[0]) : '-' }

sub _servers {
    my ($class, $results) = @_;
    my %versions = %{ $results->{versions} };
    my $skipped  = $results->{skipped};
    my $html = "<section id=\"servers\">\n<h2>Servers</h2>\n";
    my @rows = map {
        my $version = defined $versions{$_} ? $versions{$_} : 'unknown';
        [escape($_), join '<br>', map { escape($_) } split /\n/, $version]
    } sort keys %versions;
    $html .= scroll_box('versions', table(['measured, or a tool', 'version'], @rows)) if @rows;
    if (%$skipped) {
        $html .= "<h3>Not measured</h3>\n<ul>"
            . join('', map { '<li><strong>' . escape($_) . '</strong>: ' . escape($skipped->{$_}) . "</li>\n" } sort keys %$skipped)
            . "</ul>\n";
    }
    return "$html</section>\n";
}

sub _reading {
    return <<'HTML';
<section id="reading">
<h2>How to read it</h2>
<ul>
<li><strong>Medians.</strong> Every server is loaded once in each round, in turn, and a figure is the median of the rounds.
The spread is the distance of the largest round from the smallest, as a part of the median. Where spreads overlap, the order of
two servers means nothing.</li>
<li><strong>CPU per request</strong> is user and system time of all processes of the server for each request that was answered.
It is the steadier figure on a machine that does other things as well.</li>
<li><strong>The floor</strong> is a loop in C that sends the same bytes for whatever arrives: what the kernel alone costs. nginx
answers from its configuration. Neither runs an application.</li>
<li><strong>Latency under full load</strong> is mostly the length of the queue: a closed loop of 256 connections waits 256 answers
long. Clients of that kind ask again only when they were answered, so what a stalled server delays is not counted, and a
server that serves one connection at a time looks quick while the other connections wait unasked.</li>
<li><strong>Errors</strong> are refused and broken connections, timeouts, and answers with a status other than 2xx or 3xx. A server
that fails has no other figure.</li>
<li><strong>Server and client share the machine</strong>, over the loopback interface: no network, no distance, and the client
uses up cores that a server has to itself in production.</li>
</ul>
</section>
HTML
}

sub _machine {
    my ($class, $results) = @_;
    my $html = "<section id=\"machine\">\n<h2>Machine</h2>\n";
    for my $one ($results, @{ $results->{others} }) {
        my @rows = map { '<div><dt>' . escape($_->[0]) . '</dt><dd>' . escape($_->[1]) . '</dd></div>' } $one->machine_rows;
        $html .= '<dl class="machine">' . join('', @rows) . "</dl>\n";
    }
    $html .= "<p>The output of each run is in the folder <code>raw</code> beside results.json.</p>\n"
        if defined $results->{dir} && -d "$results->{dir}/raw";
    return "$html</section>\n";
}

1;
__END__

=head1 NAME

HydroBench::Html - results as a page that stands alone

=head1 SYNOPSIS

    my $results = HydroBench::Results->load($folder);
    open my $page, '>:encoding(UTF-8)', "$folder/report.html" or die $!;
    print {$page} HydroBench::Html->report($results);

One file, without a network: charts are SVG in the page, and follow the colours that the reader prefers. The little script
in it sorts tables and points out one server in all charts; nothing is lost without it.

=cut
