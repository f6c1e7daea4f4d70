# The page that script/bench report writes, in a real browser: nothing is wider than the screen, on a phone and on a desk, and
# it follows the colours that the reader prefers.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../bench/lib", "$FindBin::Bin/../t/lib";
use Test::More;

use BenchSample qw(sample);
use File::Temp;
use HydroBench::Command::Report;
use HydroBench::Compare;
use HydroBench::Command::Compare;
use HydroBench::Html;
use HydroBench::Results;
use JSON::PP ();

my ($chromium) = grep { -x && !-d } map { my $dir = $_; map {"$dir/$_"} qw(chromium chromium-browser google-chrome) } split /:/, $ENV{PATH};
plan skip_all => 'there is no chromium' unless $chromium;

my $dir = File::Temp->newdir;
my @flags = qw(
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --hide-scrollbars
);

# What the page measures of itself, as a hash.
my $PROBE = <<'SCRIPT';
<script>
addEventListener('load', () => {
  for (const details of document.querySelectorAll('details')) details.open = location.hash === '#open';
  const root = document.documentElement;
  const style = getComputedStyle(document.body);
  const lost = [...document.querySelectorAll('main *')].filter(element => {
    if (element.closest('.scroll, nav, svg, .word')) return false;
    return element.getBoundingClientRect().right > innerWidth + 1;
  });
  const texts = [...document.querySelectorAll('.chart text')].map(text => {
    const box = text.getBoundingClientRect();
    return {text: text.textContent, height: box.height, right: box.right};
  });
  parent.postMessage(JSON.stringify({
    width: root.scrollWidth, window: innerWidth, background: style.backgroundColor, colour: style.color,
    lost: lost.slice(0, 5).map(element => element.tagName + ' ' + element.className + ' ' + element.textContent.slice(0, 40)),
    smallest: Math.min(...texts.map(text => text.height)),
    beyond: texts.filter(text => text.right > innerWidth + 1).map(text => text.text),
    charts: document.querySelectorAll('svg.chart').length,
  }), '*');
});
</script>
SCRIPT

# A browser's window cannot be as narrow as a phone, but a frame in it can.
sub probe {
    my ($file, $width, $dark, $open) = @_;
    my $profile = File::Temp->newdir;
    my $url     = "file://$file" . ($open ? '#open' : '');
    HydroBench::Command::Report::write_file("$dir/frame.html", <<"HTML");
<!DOCTYPE html>
<meta name="color-scheme" content="light dark">
<body style="margin: 0">
<script>
addEventListener('message', event => {
  const out = document.createElement('pre');
  out.id = 'probe';
  out.textContent = event.data;
  document.body.append(out);
});
</script>
<iframe src="$url" style="border: 0; width: ${width}px; height: 900px; color-scheme: light dark"></iframe>
HTML
    my $pid = open my $browser, '-|';
    die "cannot fork: $!" unless defined $pid;
    if (!$pid) {
        open STDERR, '>', '/dev/null';
        exec 'timeout', '120', $chromium, @flags, "--user-data-dir=$profile", '--window-size=1400,1000', '--dump-dom',
            '--virtual-time-budget=2000', '--blink-settings=preferredColorScheme=' . ($dark ? 0 : 1), "file://$dir/frame.html";
        exit 127;
    }
    binmode $browser, ':raw';
    my $dom = do { local $/; <$browser> };
    close $browser;
    my ($json) = (defined $dom ? $dom : '') =~ m{<pre id="probe">(.*?)</pre>}s or return {};
    $json =~ s/&lt;/</g;
    $json =~ s/&gt;/>/g;
    $json =~ s/&amp;/&/g;
    return JSON::PP->new->utf8->decode($json);
}

sub write_page {
    my ($name, $html) = @_;
    $html =~ s{</body>}{$PROBE</body>} or die 'the page has no end';
    HydroBench::Command::Report::write_file("$dir/$name.html", $html);
    return "$dir/$name.html";
}

my $sample = sample();
$sample->{scenarios}[0]{measures}[0]{results}{ 'a-server-with-a-very-long-name-' x 3 }
    = { kind => 'psgi', problem => 'x' x 500, errors => 0, rounds => [], command => '/' . 'y' x 900 };
my ($old, $new) = (HydroBench::Results->from_hash($sample), HydroBench::Results->from_hash(sample(seed => 9)));
my %pages = (
    report  => write_page(report => HydroBench::Html->report($old)),
    compare => write_page(compare => HydroBench::Command::Compare->html($old, $new, HydroBench::Compare->compare($old, $new))),
);
if (-e "$FindBin::Bin/../t/data/bench/sample/results.json") {
    $pages{'report of a real run'}
        = write_page(real => HydroBench::Html->report(HydroBench::Results->load("$FindBin::Bin/../t/data/bench/sample")));
}

for my $name (sort keys %pages) {
    for my $width (360, 768, 1280) {
        my $found = probe($pages{$name}, $width, 0, 1);
        is $found->{window}, $width, "$name: the window is $width pixels wide";
        cmp_ok $found->{width} || 9999, '<=', $width, 'and so is the page, with everything unfolded';
        is_deeply $found->{lost}, [], 'nothing sticks out';
        is_deeply $found->{beyond}, [], 'nor do texts of charts';
        cmp_ok $found->{charts} || 0, '>', 2, 'there are charts';
        cmp_ok $found->{smallest} || 0, '>=', 10, 'whose texts are large enough to read';
    }
    my ($light, $dark) = map { probe($pages{$name}, 360, $_) } 0, 1;
    is $light->{background}, 'rgb(255, 255, 255)', "$name: light";
    is $dark->{background}, 'rgb(20, 24, 28)', "$name: dark";
    isnt $dark->{colour}, $light->{colour}, 'with other text';
}

done_testing;
