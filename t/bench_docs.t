use strict;
use warnings;
use Test::More;
use File::Temp;
use FindBin;
use JSON::PP ();
use lib "$FindBin::Bin/../bench/lib", "$FindBin::Bin/lib";
use BenchSample qw(sample);
use HydroBench::Chart::Gnuplot;
use HydroBench::Docs;
use HydroBench::Results;

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);
my $root = "$FindBin::Bin/..";

sub page { return HydroBench::Docs->page(HydroBench::Results->from_hash($_[0] || sample())) }

# The rows of all tables, each with the number of its cells and that of its head.
sub rows {
    my ($text) = @_;
    my ($head, @rows) = (0);
    for my $line (split /\n/, $text) {
        if ($line !~ /^\|/) { $head = 0; next }
        my $cells = () = $line =~ /(?<!\\)\|/g;
        $head ||= $cells;
        push @rows, [$line, $cells - 1, $head - 1];
    }
    return @rows;
}

my ($text, $pictures) = page();

subtest 'the page has every scenario, figure, promise and gap' => sub {
    like $text, qr/^## \Q$_\E$/m, "scenario $_" for qw(hello workers);
    like $text, qr/^\| \*\*hydrofoil\*\* \| \*\*9\d,\d{3}\*\* \|/m, 'figures, with Hydrofoil set off';
    like $text, qr/^\| uwsgi \|.*failed: died \(exit status 1\): no python application found \|$/m, 'a server that failed';
    like $text, qr/^- \[\w+\]\(#\w+\): \S/m, 'what was found, and in which scenario';
    like $text, qr/^Left out: gazelle, starlet, starman \(serves one connection at a time\)\.$/m, 'servers that were left out';
    like $text, qr/^Not measured: cacilheiro \(no built copy given/m, 'servers that were skipped';
    like $text, qr/^Of 5 promises 3 are kept, 1 missed, 1 could not be told\.$/m, 'promises';
    like $text, qr/^\| miss \| keepalive16, req\/s \| 1\.0\d \| at least 2\.00 times nginx \|$/m, 'a missed one';
    like $text, qr/^\| starlet \| 101,650 \| 1\.00 \| 8,\d{3} \| 1\.00 \|$/m, 'published beside measured';
    like $text, qr/^Again: `script\/bench hello`$/m, 'how to measure it again';
    like $text, qr/share 2 cores/, 'the cores';
    like $text, qr/^\| kernel \| Linux 6\.1\.0 \|$/m, 'the machine';
};

subtest 'every picture has a text, and every picture that is written is shown' => sub {
    my %shown;
    while ($text =~ /!\[((?:\\.|[^\\\]])*)\]\(img\/([^)]+)\)/g) {
        cmp_ok length $1, '>', 40, "$2 is described";
        $shown{$2}++;
    }
    is_deeply [sort keys %shown], [sort map { $_->{file} } @$pictures], 'pictures';
    my ($alt) = $text =~ /!\[((?:\\.|[^\\\]])*)\]\(img\/hello-connections\.png\)/;
    like $alt, qr/hydrofoil 9\d,\d{3}/, 'with figures';
};

subtest 'tables are whole' => sub {
    my @rows = rows($text);
    cmp_ok scalar(@rows), '>', 60, scalar(@rows) . ' rows';
    is_deeply [map { $_->[0] } grep { $_->[1] != $_->[2] } @rows], [], 'each with as many cells as its head';
};

subtest 'links within the page lead somewhere' => sub {
    my %anchor = map { my $heading = lc; $heading =~ s/[^\w -]//g; $heading =~ tr/ /-/; $heading => 1 } $text =~ /^#+ (.+)$/mg;
    is_deeply [grep { !$anchor{$_} } $text =~ /\]\(#([^)]+)\)/g], [], 'all';
};

subtest 'no folder of the machine gets into the page, and texts of others start no markup' => sub {
    my $sample = sample();
    my $done   = $sample->{scenarios}[0]{measures}[0];
    $done->{results}{starlet}{command} = '/usr/bin/perl -I/home/somebody/x/blib/lib /home/somebody/x/bin/hydrofoil --port 41234';
    $done->{results}{uwsgi}{problem}   = 'died: /home/somebody/secret/app.psgi | <b>no</b>';
    $done->{measure}{title}            = 'a *title* with [marks] | and <tags>';
    $sample->{command}                 = 'script/bench --copy gazelle=/home/somebody/gazelle all';
    my ($other) = page($sample);
    unlike $other, qr/somebody/, 'no folder';
    like $other, qr/bin\/hydrofoil --port PORT/, 'command lines are told all the same';
    like $other, qr/--copy gazelle=DIR all/, 'copies too';
    unlike $other, qr/<(?!!--|\/?details|\/?summary)/, 'no tags';
    is_deeply [map { $_->[0] } grep { $_->[1] != $_->[2] } rows($other)], [], 'tables stay whole';
};

subtest 'script/bench docs writes page and pictures, and lines for README' => sub {
    my $dir = File::Temp->newdir;
    open my $out, '>', "$dir/results.json" or die $!;
    print {$out} JSON::PP->new->encode(sample());
    close $out or die $!;
    my $said = qx{"$^X" "$root/script/bench" docs --no-png --output "$dir/benchmarks.md" "$dir" 2>&1};
    is $?, 0, 'without pictures';
    ok -s "$dir/benchmarks.md", 'the page';
    like $said, qr/!\[.*\]\(docs\/img\/hello-connections\.png\)/, 'a picture for README';
    $said = do { local $ENV{PATH} = "$dir"; qx{"$^X" "$root/script/bench" docs --output "$dir/benchmarks.md" "$dir" 2>&1} };
    isnt $?, 0, 'pictures need gnuplot';
    like $said, qr/apt-get install gnuplot-nox/, 'which is told';
    SKIP: {
        skip 'gnuplot is not here', 2 unless HydroBench::Chart::Gnuplot->program;
        qx{"$^X" "$root/script/bench" docs --output "$dir/benchmarks.md" "$dir" 2>&1};
        is $?, 0, 'with pictures';
        is_deeply [map { s{.*/}{}r } glob "$dir/img/*.png"], [sort map { $_->{file} } @$pictures], 'all that the page shows';
    }
};

done_testing;
