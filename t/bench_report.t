use strict;
use warnings;
use utf8;
use Test::More;
use Encode ();
use File::Temp;
use FindBin;
use JSON::PP ();
use lib "$FindBin::Bin/../bench/lib", "$FindBin::Bin/lib";
use BenchSample qw(sample measure scenario_sample);
use HydroBench::Chart;
use HydroBench::Chart::Gnuplot;
use HydroBench::Chart::SVG;
use HydroBench::Command::Report;
use HydroBench::Docs;
use HydroBench::Figures;
use HydroBench::Format qw(thousands short significant duration duration_tick percent times bytes escape);
use HydroBench::Html;
use HydroBench::Results;
use HydroBench::Scenario;

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);
my $R    = 'HydroBench::Results';
my $root = "$FindBin::Bin/..";

# What is wrong with a piece of XML, or undef: tags nest and close, attributes are quoted and appear once, entities are known.
sub xml_problem {
    my ($xml) = @_;
    my @open;
    while ($xml =~ m{\G([^<]*)(<(/?)([A-Za-z][\w:-]*)((?:\s+[\w:-]+="[^"<]*")*)\s*(/?)>)?}gc) {
        my ($text, $tag, $closes, $name, $attributes, $empty) = ($1, $2, $3, $4, $5, $6);
        my $both = $text . ($attributes || '');
        return "a lone & in '$both'" if $both =~ /&(?!(?:amp|lt|gt|quot|#39);)/;
        last if !defined $tag;
        my %seen;
        while ($attributes =~ /([\w:-]+)=/g) { return "$name has $1 twice" if $seen{$1}++ }
        if ($closes) {
            my $last = pop @open;
            return "</$name> closes " . (defined $last ? $last : 'nothing') if !defined $last || $last ne $name;
        }
        elsif (!$empty) { push @open, $name }
    }
    return 'a tag that cannot be read: ' . substr $xml, pos $xml || 0, 60 if (pos $xml || 0) < length $xml;
    return @open ? "<$open[-1]> stays open" : undef;
}

sub shapes {
    my ($drawing, $style, $server) = @_;
    return grep { $_->{style} =~ /^(?:$style)$/ && (!defined $server || ($_->{server} || '') eq $server) } @{ $drawing->{shapes} };
}

sub bars {
    my ($rows, %options) = @_;
    return HydroBench::Chart->bars(title => 'T', subtitle => 's', unit => 'u', desc => 'd', groups => [{ rows => $rows }], %options);
}

# Both ends of a text.
sub ends {
    my ($shape) = @_;
    my $width = HydroBench::Chart::text_width($shape->{text}, HydroBench::Chart::Style->of($shape->{style})->{size});
    my $x = $shape->{x} - $width * { start => 0, middle => 0.5, end => 1 }->{ $shape->{anchor} || 'start' };
    return ([$x, $shape->{y}], [$x + $width, $shape->{y}]);
}

sub row { my ($name, $value, %more) = @_; return { name => $name, style => 'other', value => $value, text => "$value", %more } }

subtest 'the check of XML that these tests use finds faults' => sub {
    is xml_problem('<a b="1"><c/>x &amp; y</a>'), undef, 'well-formed';
    like xml_problem('<a><b></a></b>'), qr/closes/, 'crossed tags';
    like xml_problem('<a>'), qr/stays open/, 'an open tag';
    like xml_problem('<a b="1" b="2"/>'), qr/twice/, 'a doubled attribute';
    like xml_problem('<a>x & y</a>'), qr/lone &/, 'a lone ampersand';
    like xml_problem('<a b=1/>'), qr/cannot be read/, 'an attribute without quotes';
};

subtest 'numbers are told as a reader wants them' => sub {
    is thousands(1234567.8), '1,234,568', 'thousands';
    is_deeply [map { short($_) } 0, 0.25, 950, 1500, 150_000, 2_000_000], [qw(0 0.25 950 1.5k 150k 2M)], 'at an axis';
    is_deeply [map { significant($_) } 0, 0.01234, 1.234, 12.34, 999.6, 12345],
        ['0', '0.0123', '1.23', '12.3', '1,000', '12,345'], 'three digits';
    is_deeply [map { duration($_) } 0, 0.5, 85, 999.6, 1234, 2_500_000],
        ['0 s', '0.500 µs', '85.0 µs', '1.00 ms', '1.23 ms', '2.50 s'], 'times';
    is_deeply [map { duration_tick($_) } 100, 1000, 2_500_000], ['100 µs', '1 ms', '2.5 s'], 'times at an axis';
    is_deeply [map { percent($_) } 0, 0.00001, 0.0042, 0.123, 1], ['0', '<0.01%', '0.42%', '12.3%', '100%'], 'per cent';
    is_deeply [map { times($_) } 0, 0.068, 1.0391, 12.34, 1234.5], ['0.00', '0.068', '1.04', '12.3', '1,234'], 'ratios';
    is_deeply [map { bytes($_) } 184, 2048, 8 * 1024**3], ['184 B', '2.00 KiB', '8.00 GiB'], 'bytes';
    is_deeply [map { $_->(undef) } \&thousands, \&short, \&significant, \&duration, \&percent, \&times, \&bytes, \&escape],
        [('') x 8], 'nothing is an empty text';
    is escape(qq(<a href="x">'&\x01)), '&lt;a href=&quot;x&quot;&gt;&#39;&amp;?', 'HTML';
};

subtest 'a bar ends where its value is' => sub {
    my $drawing = bars([row('a', 100), row('b', 50), row('c', 0)]);
    my ($a, $b) = map { (shapes($drawing, 'bar-other', $_))[0] } qw(a b);
    my ($start, $end) = @{ $drawing->{plot} }{qw(start end)};
    is $drawing->{plot}{axis}, 'linear', 'a linear axis';
    is $a->{x}, $start, 'bars begin at zero';
    cmp_ok abs($a->{x} + $a->{w} - $end), '<', 0.01, 'the largest reaches the end';
    cmp_ok abs($b->{w} - $a->{w} / 2), '<', 0.01, 'half the value is half as long';
    is scalar shapes($drawing, 'bar-other', 'c'), 0, 'zero has no bar';
    is((shapes($drawing, 'value', 'c'))[0]{text}, '0', 'but a figure');
};

subtest 'a whisker reaches from low to high' => sub {
    my $drawing = bars([row('a', 100, low => 80, high => 120), row('b', 60)]);
    my ($line) = grep { $_->{points}[0][1] == $_->{points}[1][1] } shapes($drawing, 'whisker', 'a');
    my $at = $drawing->{plot}{at};
    is_deeply [map { $_->[0] } @{ $line->{points} }], [$at->(80), $at->(120)], 'on the axis';
    is $at->(120), $drawing->{plot}{end}, 'which has room for it';
    is scalar shapes($drawing, 'whisker', 'b'), 0, 'none without rounds';
};

subtest 'values that lie far apart become dots on a log axis' => sub {
    my $drawing = bars([row('a', 1), row('b', 100), row('c', 10_000), row('zero', 0)]);
    is $drawing->{plot}{axis}, 'log', 'a log axis';
    my ($a, $b, $c, $zero) = map { (shapes($drawing, 'dot-other', $_))[0]{x} } qw(a b c zero);
    cmp_ok abs(($b - $a) - ($c - $b)), '<', 0.01, 'equal ratios are equal distances';
    is $zero, $drawing->{plot}{start}, 'zero is at its beginning';
    is scalar shapes($drawing, 'bar-other'), 0, 'no bars: they would have no zero to begin at';
    ok((grep { $_->{text} =~ /log scale/ } shapes($drawing, 'tick')), 'and it says so');
};

subtest 'charts hold what is missing, failed, alone, huge or nothing' => sub {
    my %charts = (
        'no row'          => bars([]),
        'one row'         => bars([row('only', 5)]),
        'only zeros'      => bars([row('a', 0), row('b', 0)]),
        'nothing measured' => bars([{ name => 'a', style => 'other' }, { name => 'b', style => 'own', problem => 'died' }]),
        'a huge ratio'    => bars([row('a', 1e-9), row('b', 1e12)]),
        'published only'  => bars([row('a', 1, other => 2), { name => 'b', style => 'other', other => 9, why => 'not measured here' }],
            axis => 'log'),
        'a long name'     => bars([row('x' x 300, 5)]),
        'nothing but zeros, in words' => bars([row('a', 0), row('b', 0)], none => 'None at all.'),
        'equal values'    => bars([row('a', 7), row('b', 7)], axis => 'log'),
        'no series'       => HydroBench::Chart->lines(title => 'T', desc => 'd', series => []),
        'one point'       => HydroBench::Chart->lines(title => 'T', desc => 'd',
            series => [{ name => 'a', style => 'own', points => [[1, 5]] }]),
        'zeros on a log axis' => HydroBench::Chart->lines(title => 'T', desc => 'd', y => { type => 'log' },
            series => [{ name => 'a', style => 'own', points => [[1, 0], [2, 0]] }]),
        'twelve ends in one place' => HydroBench::Chart->lines(title => 'T', desc => 'd',
            series => [map { { name => "server$_", style => 'hue1', points => [[1, 5], [2, 5]] } } 1 .. 12]),
    );
    for my $name (sort keys %charts) {
        my $drawing = $charts{$name};
        my ($width, $height) = map { $_ + 0.01 } @$drawing{qw(width height)};
        my @outside = grep { $_->[0] < -0.01 || $_->[0] > $width || $_->[1] < -0.01 || $_->[1] > $height }
            map { $_->{points} ? @{ $_->{points} } : $_->{kind} eq 'text' ? ends($_) : [@$_{qw(x y)}] } @{ $drawing->{shapes} };
        is_deeply \@outside, [], "$name: every shape is on the sheet";
        is xml_problem(HydroBench::Chart::SVG->paint($drawing)), undef, "$name: well-formed";
    }
    is_deeply [map { $_->{text} } shapes($charts{'nothing but zeros, in words'}, 'name|value')], ['None at all.'], 'zeros can be a sentence';
    is((shapes($charts{'nothing measured'}, 'failed'))[0]{text}, 'failed: died', 'a failure is told');
    is((shapes($charts{'nothing measured'}, 'nothing'))[0]{text}, 'not measured', 'so is a gap');
    my @labels = sort { $a <=> $b } map { $_->{y} } shapes($charts{'twelve ends in one place'}, 'label-hue1');
    is scalar(grep { $labels[$_] - $labels[$_ - 1] < 12.9 } 1 .. $#labels), 0, 'names beside lines do not cover each other';
};

subtest 'a line goes through its points, and a gap interrupts it' => sub {
    my $drawing = HydroBench::Chart->lines(title => 'T', desc => 'd', y => { type => 'log' }, series => [
        { name => 'a', style => 'hue1', points => [[0, 1], [1, 10], [2, 100]] },
        { name => 'b', style => 'hue2', points => [[0, 5], [1, undef], [2, 5], [3, 5]] },
    ]);
    my ($line) = shapes($drawing, 'line-hue1');
    my ($one, $two, $three) = @{ $line->{points} };
    cmp_ok abs(($one->[1] - $two->[1]) - ($two->[1] - $three->[1])), '<', 0.01, 'ten times is the same height everywhere';
    cmp_ok abs(($two->[0] - $one->[0]) - ($three->[0] - $two->[0])), '<', 0.01, 'and steps to the right are even';
    is_deeply [map { scalar @{ $_->{points} } } shapes($drawing, 'line-hue2')], [2], 'a line for what is joined';
    is scalar shapes($drawing, 'dot-hue2'), 3, 'marks for all there is';
};

subtest 'texts of others do no harm' => sub {
    my $evil = q{<script>alert("1")</script>&'};
    my $drawing = bars([{ name => $evil, style => 'other', problem => $evil }, row("a\x{0}b$evil", 3, text => $evil)],
        title => $evil, desc => $evil);
    my $svg = HydroBench::Chart::SVG->paint($drawing, standalone => 1);
    is xml_problem($svg), undef, 'SVG stays well-formed';
    unlike $svg, qr/<script/, 'and has no script';

    my $sample = sample();
    my $done   = $sample->{scenarios}[0]{measures}[0];
    $done->{results}{$evil} = { kind => 'psgi', problem => $evil, errors => 0, rounds => [], command => $evil };
    $done->{left_out}{"out$evil"} = $evil;
    $done->{measure}{title} = $evil;
    $sample->{scenarios}[0]{$_} = $evil for qw(name summary);
    $sample->{machine}{cpu} = $sample->{command} = $sample->{versions}{$evil} = $sample->{skipped}{$evil} = $evil;
    $sample->{scenarios}[0]{published}[0]{source} = $evil;
    my $results = $R->from_hash($sample);
    my $html = HydroBench::Html->report($results);
    is(() = $html =~ /<script/g, 1, 'a page has its own script only');
    my ($main) = $html =~ m{(<main>.*</main>)}s;
    $main =~ s/<br>/<br\/>/g;
    is xml_problem($main), undef, 'and is well-formed';
    my $script = HydroBench::Chart::Gnuplot->script($drawing, '/tmp/x.png');
    unlike $script, qr/^[^"\n]*"[^"\n]*"[^"\n]*"/m, 'no text of a gnuplot script ends early';
};

subtest 'a page of the sample says what was found' => sub {
    my $results = $R->from_hash(sample());
    my $html = HydroBench::Html->report($results);
    my ($main) = $html =~ m{(<main>.*</main>)}s;
    is xml_problem($main =~ s/<br>/<br\/>/gr), undef, 'well-formed';
    unlike $html, qr{(?:src|href)="(?!#)|url\(|\@import}, 'it loads nothing';
    my @svgs = $html =~ m{(<svg.*?</svg>)}gs;
    cmp_ok scalar(@svgs), '>=', 12, scalar(@svgs) . ' charts';
    my @silent = grep { !m{<title id="[^"]+">[^<]+</title>\n<desc id="[^"]+">[^<]+</desc>} } @svgs;
    is scalar @silent, 0, 'each with a title and a description';
    my %seen;
    is_deeply [grep { $seen{$_}++ } $html =~ / id="([^"]+)"/g], [], 'every id is there once';
    is scalar(grep { !$seen{$_} } $html =~ /href="#([^"]+)"/g), 0, 'and every link leads to one';
    like $html, qr/prefers-color-scheme: dark/, 'it follows the reader into the dark';
    like $html, qr/failed: died \(exit status 1\)/, 'a server that failed';
    like $html, qr/Left out: gazelle, starlet, starman \(serves one connection at a time\)/, 'servers that were left out';
    like $html, qr{<strong>cacilheiro</strong>: no built copy given}, 'a server that was skipped, and why';
    like $html, qr/3 of 5 promises are kept, 1 is missed, 1 could not be told/, 'the promises';
    like $html, qr/the README of Cacilheiro, 2016/, 'where published figures come from';
    like $html, qr/taskset -c 1 wrk/, 'command lines';
};

subtest 'a parser of XML agrees that charts are well-formed' => sub {
    plan skip_all => 'XML::Parser is not here' unless eval { require XML::Parser; 1 };
    my @drawings = map { @{ $_->{drawings} } } map { HydroBench::Figures->of($_) } @{ $R->from_hash(sample())->{scenarios} };
    my $parser = XML::Parser->new;
    for my $drawing (@drawings) {
        my $svg = Encode::encode('UTF-8', HydroBench::Chart::SVG->paint($drawing, standalone => 1));
        ok eval { $parser->parse($svg); 1 }, $drawing->{title} or diag $@;
    }
};

subtest 'every text and every line can be told from its background, in light and in dark' => sub {
    my $luminance = sub {
        my @parts = map { hex($_) / 255 } $_[0] =~ /([0-9a-f]{2})/g;
        my ($r, $g, $b) = map { $_ <= 0.03928 ? $_ / 12.92 : (($_ + 0.055) / 1.055)**2.4 } @parts;
        return 0.2126 * $r + 0.7152 * $g + 0.0722 * $b;
    };
    for (['light', \%HydroBench::Chart::Style::LIGHT], ['dark', \%HydroBench::Chart::Style::DARK]) {
        my ($theme, $colours) = @$_;
        my %least = ((map { $_ => 4.5 } qw(ink muted own bad good), map {"hue$_"} 1 .. 8), dot => 3);
        my @faint;
        for my $name (sort keys %least) {
            my ($low, $high) = sort { $a <=> $b } map { $luminance->($colours->{$_}) } $name, 'paper';
            my $contrast = ($high + 0.05) / ($low + 0.05);
            push @faint, sprintf '%s %.2f', $name, $contrast if $contrast < $least{$name};
        }
        is_deeply \@faint, [], $theme;
        is_deeply [sort keys %$colours], [sort keys %HydroBench::Chart::Style::LIGHT], 'with the same colours';
    }
    for my $style (map { HydroBench::Chart::Style->of($_) } HydroBench::Chart::Style->names) {
        my @unknown = grep { defined && !$HydroBench::Chart::Style::LIGHT{$_} } @$style{qw(text fill stroke)};
        fail "there is no colour @unknown" if @unknown;
    }
};

subtest 'a family of measures shares its charts' => sub {
    my $results = $R->from_hash(sample());
    my ($hello, $workers) = map { [$R->families($_)] } @{ $results->{scenarios} };
    is_deeply [map { $_->{axis} } @$hello, @$workers], ['connections', 'workers'], 'by what they vary';
    is_deeply [map { $_->{x} } @{ $workers->[0]{measures} }], [1, 2, 4, 6, 8, 12, 16], 'in order';
    my %figures = map { $_->{name} => $_ } map { HydroBench::Figures->of($_) } @{ $results->{scenarios} };
    is_deeply [sort keys %figures],
        [qw(
            hello-connections hello-connections-percentiles hello-connections-ratios hello-published workers-workers
            workers-workers-percentiles
        )],
        'rows of charts';
    is_deeply [map { $_->{title} } @{ $figures{'hello-connections'}{drawings} }], ['Throughput', 'Mean latency', 'Errors'],
        'throughput, latency and errors side by side';
    my ($curve) = @{ $figures{'workers-workers'}{drawings} };
    my ($line)  = shapes($curve, 'line-own');
    is scalar @{ $line->{points} }, 7, 'and a curve over the workers';

    my $families = sub {
        my @measures = map { measure(name => 'm', connections => $_->{connections} || 5, measure => $_) } @_;
        return [map { $_->{axis} } $R->families({ measures => \@measures })];
    };
    is_deeply $families->({ connections => 5 }, { connections => 9 }), ['connections'], 'also where no measure says what varies';
    is_deeply $families->({ app => 'hello' }, { app => 'other' }), [undef, undef], 'measures of different things stand alone';
    is_deeply $families->({}, { env => { X => 1 } }), [undef, undef], 'so do those with another environment';
    is_deeply $families->({}, {}), [undef, undef], 'and those that have the same place';
    is_deeply $families->(map { { series => 'requests in each write', x => $_, pipeline => $_ } } 1, 4), ['requests in each write'],
        'whatever it is';
};

subtest 'what a real run wrote is read whole' => sub {
    my $results = $R->load("$FindBin::Bin/data/bench/sample");
    is $results->{schema}, 2, 'schema 2';
    my @measures = map { @{ $_->{measures} } } @{ $results->{scenarios} };
    cmp_ok scalar(@measures), '>', 5, scalar(@measures) . ' measures';
    my ($usual) = grep { $_->{measure}{name} eq 'keepalive16' } @measures;
    for my $figure (qw(req_per_s cpu_us latency.mean latency.p99.9 error_ratio)) {
        my $value = $R->value($usual->{results}{hydrofoil}, $figure);
        my @range = $R->range($usual->{results}{hydrofoil}, $figure);
        ok defined $value && @range == 2 && $range[0] <= $value && $value <= $range[1], "$figure lies within its rounds";
    }
    my $html = HydroBench::Html->report($results);
    my ($main) = $html =~ m{(<main>.*</main>)}s;
    is xml_problem($main =~ s/<br>/<br\/>/gr), undef, 'and is a page';
};

subtest 'every scenario there is can be told' => sub {
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    my $sample = sample();
    my @names  = HydroBench::Scenario->names($root);
    $sample->{scenarios} = [map { scenario_sample(HydroBench::Scenario->load($root, $_)) } @names];
    my $results = $R->from_hash($sample);
    my $html    = HydroBench::Html->report($results);
    my ($main)  = $html =~ m{(<main>.*</main>)}s;
    is xml_problem($main =~ s/<br>/<br\/>/gr), undef, 'as a page';
    my ($markdown, $pictures) = HydroBench::Docs->page($results);
    for my $scenario (@{ $results->{scenarios} }) {
        my $name    = $scenario->{name};
        my @figures = HydroBench::Figures->of($scenario);
        cmp_ok scalar(@figures), '>', 0, "$name has charts";
        my %drawn = map { $_ => 1 } map { @{ $_->{measures} } } @figures;
        is_deeply [grep { !$drawn{$_} } map { $_->{measure}{name} } @{ $scenario->{measures} }], [], 'of every measure';
        like $markdown, qr/^## \Q$name\E$/m, 'and a part of docs/benchmarks.md';
    }
    my %seen;
    is_deeply [grep { $seen{$_}++ } map { $_->{file} } @$pictures], [], 'no picture covers another';
    like(HydroBench::Command::Report->text($results), qr/fairness/, 'as text');
    is_deeply \@warnings, [], 'and Perl has nothing to complain about';
};

subtest 'a single round has no spread' => sub {
    my $one = $R->from_hash(sample(rounds => 1));
    my ($done) = @{ $one->{scenarios}[0]{measures} };
    my ($titles) = HydroBench::Report->cells($done);
    is_deeply [grep {/spread/} @$titles], [], 'no column for it';
    my ($figure) = HydroBench::Figures->of($one->{scenarios}[0]);
    like $figure->{note}, qr/one round only/, 'which is told';
    is scalar(map { shapes($_, 'whisker') } @{ $figure->{drawings} }), 0, 'and no whiskers';
    like((HydroBench::Figures->of($R->from_hash(sample())->{scenarios}[0]))[0]{note}, qr/smallest round to the largest/, 'others do');
};

subtest 'ratios have the range of rounds that were run side by side' => sub {
    my %results = (
        hydrofoil => { kind => 'psgi', req_per_s => 110, rounds => [map { { req_per_s => $_ } } 100, 110, 132] },
        nginx     => { kind => 'web',  req_per_s => 100, rounds => [map { { req_per_s => $_ } } 100, 100, 110] },
        failed    => { kind => 'psgi', problem => 'died', rounds => [] },
        single    => { kind => 'psgi', req_per_s => 50, rounds => [{ req_per_s => 50 }] },
    );
    my @ratio = map { sprintf '%.3f', $_ } $R->ratio_of(\%results, 'hydrofoil', 'nginx', 'req_per_s');
    is_deeply \@ratio, ['1.100', '1.000', '1.200'], 'ratio, lowest, highest';
    is_deeply [$R->ratio_of(\%results, 'single', 'nginx', 'req_per_s')], [0.5], 'no range from one round';
    is_deeply [$R->ratio_of(\%results, 'failed', 'nginx', 'req_per_s')], [], 'nothing for a server that failed';
    is_deeply [$R->ratio_of(\%results, 'absent', 'nginx', 'req_per_s')], [], 'nor for one that is not there';
    is $R->best_other(\%results, 'req_per_s'), 'single', 'the best other server is one that runs applications';
};

subtest 'both schemas are read, and what is neither is refused' => sub {
    my $dir = File::Temp->newdir;
    my $write = sub {
        my ($text) = @_;
        open my $out, '>', "$dir/results.json" or die $!;
        print {$out} $text;
        close $out or die $!;
    };
    my $sample = sample();
    my $old = { %$sample, scenario => 'hello', measures => $sample->{scenarios}[0]{measures}, targets => [] };
    delete @$old{qw(schema scenarios)};
    delete @$_{qw(latency error_ratio)} for map { values %{ $_->{results} } } @{ $old->{measures} };
    $write->(JSON::PP->new->encode($old));
    my $results = $R->load("$dir");
    is $results->{scenarios}[0]{name}, 'hello', 'schema 1';
    my $own = $results->{scenarios}[0]{measures}[0]{results}{hydrofoil};
    cmp_ok $R->value($own, 'latency.p99.9'), '>', 0, 'whose latencies come from the rounds';
    is $R->value($own, 'error_ratio'), 0, 'and errors too';
    like(HydroBench::Html->report($results), qr/Latency by percentile/, 'which is enough for a page');

    for (['{', qr/is not JSON/], ['{}', qr/no results of script\/bench/], ['{"schema":3,"scenarios":[]}', qr/schema 3/]) {
        my ($text, $message) = @$_;
        $write->($text);
        ok !eval { $R->load("$dir"); 1 }, "refused: $text";
        like $@, $message, 'and why';
    }
    ok !eval { $R->load("$dir/none"); 1 }, 'a folder that is not there';
    like $@, qr/none/, 'is named';
};

subtest 'several folders become one report that tells where they differ' => sub {
    my $dir = File::Temp->newdir;
    for my $part (1, 2) {
        my $sample = sample();
        $sample->{machine}{kernel} = "6.$part";
        mkdir "$dir/$part" or die $!;
        open my $out, '>', "$dir/$part/results.json" or die $!;
        print {$out} JSON::PP->new->encode($sample);
        close $out or die $!;
    }
    my $results = $R->load("$dir/1", "$dir/2");
    is_deeply [map { $_->{id} } @{ $results->{scenarios} }], [qw(hello workers hello-2 workers-2)], 'sections have names of their own';
    like join("\n", $results->warnings), qr/differ in kernel: 6\.1; 6\.2/, 'another kernel is told';
};

subtest 'script/bench report prints tables and writes a page, and PNGs where gnuplot is' => sub {
    my $dir = File::Temp->newdir;
    open my $out, '>', "$dir/results.json" or die $!;
    print {$out} JSON::PP->new->encode(sample());
    close $out or die $!;
    my $text = qx{"$^X" "$root/script/bench" report "$dir" 2>&1};
    is $?, 0, 'exit status';
    like $text, qr/keepalive16: 16 keep-alive connections\n.*hydrofoil\s+\d\d,\d{3}.*Targets\n/s, 'tables';
    like $text, qr/Targets.*pass\s+\d\.\d\d\s+keepalive16, req\/s: at least 1\.00 times nginx/s, 'promises';
    ok -s "$dir/report.html", 'the page';
    $text = do { local $ENV{PATH} = "$dir"; qx{"$^X" "$root/script/bench" report --png "$dir" 2>&1} };
    isnt $?, 0, '--png fails without gnuplot';
    like $text, qr/apt-get install gnuplot-nox/, 'and says what to install';
    SKIP: {
        skip 'gnuplot is not here', 3 unless HydroBench::Chart::Gnuplot->program;
        $text = qx{"$^X" "$root/script/bench" report --quiet --png "$dir" 2>&1};
        is $?, 0, '--png';
        my @files = glob "$dir/*.png";
        is scalar @files, 6, 'a file for each row of charts';
        my @broken = grep { open my $png, '<:raw', $_ or die $!; read $png, my $head, 8; $head ne "\x89PNG\r\n\x1a\n" } @files;
        is_deeply \@broken, [], 'each a PNG';
    }
};

done_testing;
