package HydroBench::Html::Page;
use strict;
use warnings;
use Exporter 'import';
use HydroBench::Chart::SVG;
use HydroBench::Format qw(escape);

our @EXPORT_OK = qw(page scroll_box table badge);

my $CSS = <<'CSS';
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-behavior: smooth; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 16px/1.6 -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, system-ui, sans-serif;
}
main, nav ul { max-width: 1160px; margin: 0 auto; padding: 0 24px; }
nav { border-bottom: 1px solid var(--grid); }
nav ul { display: flex; gap: 4px 20px; list-style: none; overflow-x: auto; font-size: 14px;
  padding-top: 12px; padding-bottom: 12px; }
nav a { color: var(--muted); text-decoration: none; white-space: nowrap; overflow-wrap: normal; }
nav a:hover { color: var(--own); text-decoration: underline; }
a { color: var(--own); }
h1 { font-size: clamp(28px, 5vw, 42px); line-height: 1.15; letter-spacing: -0.02em; margin: 0 0 8px; text-wrap: balance; }
h2 { font-size: 26px; line-height: 1.25; letter-spacing: -0.01em; margin: 0 0 8px; }
h3 { font-size: 18px; line-height: 1.35; margin: 44px 0 16px; text-wrap: balance; }
h4 { font-size: 14px; margin: 32px 0 8px; }
h4 span { font-weight: 400; color: var(--muted); margin-left: 6px; }
p, ul, dl { margin: 0 0 16px; }
ul { padding-left: 20px; }
p, li { max-width: 70ch; }
section { border-top: 1px solid var(--grid); padding: 40px 0 24px; margin-top: 40px; }
header { padding: 48px 0 0; }
.kicker { color: var(--muted); font-size: 13px; font-weight: 600; letter-spacing: 0.06em; text-transform: uppercase;
  margin: 0 0 6px; }
.facts { color: var(--muted); font-size: 14px; }
.lead { font-size: clamp(18px, 2.4vw, 21px); line-height: 1.5; margin: 20px 0 24px; max-width: 62ch; }
.summary { color: var(--muted); font-size: 17px; }
.findings { padding-left: 20px; }
.warning { border-left: 3px solid var(--hue4); padding: 2px 0 2px 18px; margin: 24px 0; font-size: 15px; }
.warning h2 { font-size: 15px; letter-spacing: 0; margin: 0 0 4px; }
.warning ul { margin: 0; padding-left: 18px; }
figure { margin: 0 0 28px; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 310px), 1fr)); gap: 32px 44px;
  align-items: start; }
.chart { display: block; width: 100%; height: auto; max-width: 460px; overflow: visible; }
.chart [data-server] { transition: opacity 0.15s; }
.pointed .chart [data-server]:not(.at) { opacity: 0.25; }
figcaption { color: var(--muted); font-size: 13px; margin-top: 14px; max-width: 80ch; }
.pairs { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 0 44px; }
.pairs > div { min-width: 0; }
.scroll { overflow-x: auto; max-width: 100%; margin: 0 0 8px; }
.scroll:focus-visible { outline: 2px solid var(--own); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 14px; line-height: 1.4; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: 6px 14px 6px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--grid); }
th { font-size: 12px; font-weight: 600; color: var(--muted); white-space: nowrap; vertical-align: bottom; }
th.n, td.n { text-align: right; white-space: nowrap; padding-left: 14px; }
td:first-child, .failed { white-space: nowrap; }
td:last-child, th:last-child { padding-right: 4px; }
tr.own td { color: var(--own); font-weight: 600; }
tr:last-child td { border-bottom: 0; }
th button { all: unset; cursor: pointer; }
th button:hover { color: var(--own); }
th button:focus-visible { outline: 2px solid var(--own); }
.failed, .miss, .slower { color: var(--bad); }
.pass, .faster { color: var(--good); }
.miss, .pass, .slower, .faster { font-weight: 600; white-space: nowrap; }
.unknown { color: var(--muted); white-space: nowrap; }
.left-out { color: var(--muted); font-size: 13px; max-width: 90ch; }
details { margin: 4px 0 8px; font-size: 13px; }
summary { cursor: pointer; color: var(--muted); }
.tables { margin-bottom: 16px; }
.tables > summary { font-size: 15px; padding: 6px 0; color: var(--own); }
summary:hover { color: var(--own); }
code { font: 12.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
.commands dt { font-weight: 600; margin-top: 10px; }
.commands dd { margin: 2px 0 0; color: var(--muted); }
.promises { list-style: none; padding: 0; font-size: 15px; line-height: 1.45; columns: 2 440px; column-gap: 44px; }
.promises li { display: grid; grid-template-columns: 66px 56px minmax(0, 1fr); gap: 0 12px; padding: 7px 0; max-width: none;
  border-bottom: 1px solid var(--grid); break-inside: avoid; }
.promises .found { text-align: right; font-variant-numeric: tabular-nums; font-weight: 600; }
.promises .unknown { white-space: normal; overflow-wrap: normal; }
.promises small { display: block; color: var(--muted); font-size: 13px; }
.machine { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 320px), 1fr)); gap: 0 44px; font-size: 14px; }
.machine div { display: flex; gap: 14px; padding: 6px 0; border-bottom: 1px solid var(--grid); }
.machine dt { color: var(--muted); flex: 0 0 92px; }
.machine dd { margin: 0; min-width: 0; }
footer { color: var(--muted); font-size: 13px; padding: 8px 0 48px; }
@media (max-width: 480px) {
  main, nav ul { padding-left: 16px; padding-right: 16px; }
  header { padding-top: 28px; }
  section { padding-top: 28px; margin-top: 28px; }
  h3 { margin-top: 36px; }
  td { white-space: nowrap; }
  td:last-child:not(.n) { white-space: normal; min-width: 220px; }
  .promises li { grid-template-columns: 22px 56px minmax(0, 1fr); }
  .promises .word { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; white-space: nowrap; }
}
@media print { nav { display: none; } section { break-inside: auto; } figure, .scroll { break-inside: avoid; } }
CSS

# Comfort only: a click on a column's title sorts a table, and a pointer at a server shows it in all charts beside it.
my $SCRIPT = <<'SCRIPT';
for (const table of document.querySelectorAll('table')) {
  table.querySelectorAll('thead th').forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement('button');
    button.append(...head.childNodes);
    button.title = 'sort';
    head.append(button);
    let up = false;
    button.addEventListener('click', () => {
      up = !up;
      const body = table.tBodies[0];
      const key = row => {
        const text = (row.cells[column] || {textContent: ''}).textContent.trim();
        const number = parseFloat(text.replace(/[,+%]/g, '').replace('\u2212', '-'));
        return isNaN(number) ? text : number;
      };
      const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === 'number' ? -1 : 1;
      body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * order(key(a), key(b))));
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    });
  });
}
for (const section of document.querySelectorAll('section')) {
  const shapes = [...section.querySelectorAll('.chart [data-server]')];
  section.addEventListener('pointerover', event => {
    const at = event.pointerType === 'mouse' && event.target.closest('.chart [data-server]');
    section.classList.toggle('pointed', !!at);
    if (at) for (const shape of shapes) shape.classList.toggle('at', shape.dataset.server === at.dataset.server);
  });
  section.addEventListener('pointerleave', () => section.classList.remove('pointed'));
}
SCRIPT

# A whole page: its title, links in it ([id, text]...), and the HTML of its parts.
sub page {
    my ($title, $links, @body) = @_;
    my $css = HydroBench::Chart::SVG->colours(':root') . HydroBench::Chart::SVG->css . $CSS;
    my $nav = join '', map { '<li><a href="#' . escape($_->[0]) . '">' . escape($_->[1]) . '</a></li>' } @$links;
    return join '', <<"HTML", @body, <<"END";
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>@{[ escape($title) ]}</title>
<style>
$css</style>
</head>
<body>
<nav aria-label="On this page"><ul>$nav</ul></nav>
<main>
HTML
<footer>Written by script/bench from results.json. This file needs nothing else.</footer>
</main>
<script>
$SCRIPT</script>
</body>
</html>
END
}

# A box in which something wide scrolls by itself, with the keyboard too.
sub scroll_box {
    my ($label, $html) = @_;
    return '<div class="scroll" role="region" tabindex="0" aria-label="' . escape("table: $label") . "\">\n$html</div>\n";
}

# A table of HTML cells. A title that begins with ">" is that of a column of numbers. A row may begin with a hash of its
# attributes (class), and a cell may be a hash { html, span }.
sub table {
    my ($titles, @rows) = @_;
    my @is_number = map { /^>/ ? 1 : 0 } @$titles;
    my $html = "<table>\n<thead><tr>";
    for my $i (0 .. $#$titles) {
        (my $title = $titles->[$i]) =~ s/^>//;
        $html .= '<th scope="col"' . ($is_number[$i] ? ' class="n"' : '') . '>' . escape($title) . '</th>';
    }
    $html .= "</tr></thead>\n<tbody>\n";
    for my $row (@rows) {
        my ($attributes, @cells) = ref $row->[0] eq 'HASH' && !defined $row->[0]{html} ? @$row : ({}, @$row);
        $html .= '<tr' . ($attributes->{class} ? " class=\"$attributes->{class}\"" : '') . '>';
        for my $i (0 .. $#cells) {
            my $cell = ref $cells[$i] ? $cells[$i] : { html => $cells[$i] };
            my $attribute = $cell->{span} ? " colspan=\"$cell->{span}\"" : $is_number[$i] ? ' class="n"' : '';
            $html .= "<td$attribute>$cell->{html}</td>";
        }
        $html .= "</tr>\n";
    }
    return "$html</tbody>\n</table>\n";
}

# A verdict with a sign, so that its colour does not matter.
sub badge {
    my ($verdict) = @_;
    my ($sign, $class) = @{ {
        pass   => ["\x{2713}", 'pass'],   miss  => ["\x{2717}", 'miss'],
        slower => ["\x{2717}", 'slower'], worse => ["\x{2717}", 'slower'], faster => ["\x{2713}", 'faster'],
        better => ["\x{2713}", 'faster'], same  => ['=', 'unknown'],
        (map { ("maybe $_" => ['?', /slower|worse/ ? 'slower' : 'faster']) } qw(slower worse faster better)),
    }->{$verdict} || ["\x{2013}", 'unknown'] };
    return "<span class=\"$class\">$sign <span class=\"word\">" . escape($verdict) . '</span></span>';
}

1;
__END__

=head1 NAME

HydroBench::Html::Page - the page around reports: style sheet, script, tables

=head1 SYNOPSIS

    print page('Title', [['part', 'A part of it']], '<section id="part">', scroll_box('figures', table(['server', '>req/s'],
        ['nginx', '90,000'])), '</section>');

=cut
