use strict;
use warnings;
use Test::More;
use File::Temp;
use FindBin;
use JSON::PP ();
use lib "$FindBin::Bin/../bench/lib", "$FindBin::Bin/lib";
use BenchSample qw(sample);
use HydroBench::Command::Compare;
use HydroBench::Compare qw(shift_interval below);
use HydroBench::Results;

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);
my $root = "$FindBin::Bin/..";

sub results { return HydroBench::Results->from_hash(sample(@_)) }

sub compare {
    my ($old, $new, %options) = @_;
    return HydroBench::Compare->compare($old, $new, %options);
}

# A sample in which one server's throughput in one measure is that many times the usual.
sub planted {
    my ($times, $server, %options) = @_;
    return results(%options, factor => sub {
        my ($measure, $name, $figure) = @_;
        return $measure eq 'keepalive256' && $name eq $server && $figure eq 'req_per_s' ? $times : 1;
    });
}

sub one {
    my ($found, $measure, $server, $figure) = @_;
    my ($one) = grep { $_->{measure} eq $measure && $_->{server} eq $server && $_->{figure}{name} eq $figure }
        @{ $found->{comparisons} };
    return $one || {};
}

subtest 'intervals leave out as many ordered differences as the tables of Mann and Whitney say' => sub {
    # Critical values of U at 5%, two-sided; the interval begins one further.
    my %critical = ('4 4' => 0, '5 5' => 2, '6 6' => 5, '5 8' => 6, '8 8' => 13, '10 10' => 23, '20 20' => 127);
    for my $sizes (sort keys %critical) {
        is below(split(/ /, $sizes), 0.025), $critical{$sizes} + 1, "$sizes values";
    }
    is below(3, 3, 0.025), 0, 'three values on each side are too few';
    is below(5, 0, 0.025), 0, 'none on one side too';
};

subtest 'the shift is the median of all differences' => sub {
    my ($shift, $low, $high) = shift_interval(0.95, [1 .. 5], [11 .. 15]);
    is $shift, 10, 'ten';
    is_deeply [$low, $high], [7, 13], 'with its interval';
    is_deeply [shift_interval(0.95, [1, 2, 3], [4, 5, 6])], [3], 'which too few rounds do not have';
};

subtest 'the same program twice is called the same, or nothing is said' => sub {
    my %count;
    for my $seed (1 .. 6) {
        my $found = compare(results(seed => $seed), results(seed => 100 + $seed));
        $count{ $_->{verdict} }++ for @{ $found->{comparisons} };
    }
    my $all  = 0;
    $all += $_ for values %count;
    my $sure = 0;
    $sure += $count{$_} || 0 for qw(slower faster worse better);
    cmp_ok $all, '>', 500, "$all comparisons";
    cmp_ok $sure / $all, '<', 0.015, ($sure || 'none') . ' of them wrong: one in a hundred is the promise';
    cmp_ok $count{same} / $all, '>', 0.5, 'most are called the same';
};

subtest 'a planted change of ten per cent is found, in its place, with its size' => sub {
    for ([0.9, 'slower'], [1.1, 'faster']) {
        my ($times, $verdict) = @$_;
        my $found = compare(results(seed => 3), planted($times, 'hydrofoil', seed => 4));
        my $first = $found->{comparisons}[0];
        is_deeply [@$first{qw(verdict scenario measure server)}, $first->{figure}{name}],
            [$verdict, qw(hello keepalive256 hydrofoil req_per_s)], "$times times: first in the list";
        cmp_ok abs($first->{ratio} - $times), '<', 0.03, 'about the right size';
        cmp_ok $first->{low}, '<=', $times, 'in its interval';
        cmp_ok $first->{high}, '>=', $times, 'from both sides';
        is one($found, 'keepalive16', 'hydrofoil', 'req_per_s')->{verdict}, 'same', 'and nowhere else';
    }
};

subtest 'less is better for times: more CPU per request is slower' => sub {
    my $found = compare(results(seed => 3), results(seed => 4, factor => sub { $_[1] eq 'starlet' && $_[2] eq 'cpu_us' ? 1.2 : 1 }));
    is one($found, 'keepalive16', 'starlet', 'cpu_us')->{verdict}, 'slower', 'starlet';
};

subtest 'three rounds are too few to tell, four tell perhaps, five surely' => sub {
    my %verdict = map {
        my $rounds = $_;
        $rounds => one(compare(results(seed => 3, rounds => $rounds), planted(0.8, 'hydrofoil', seed => 4, rounds => $rounds)),
            'keepalive256', 'hydrofoil', 'req_per_s');
    } 3, 4, 5;
    is $verdict{3}{verdict}, 'cannot tell', 'three';
    like $verdict{3}{why}, qr/3 and 3 rounds are too few/, 'and says why';
    is $verdict{4}{verdict}, 'maybe slower', 'four';
    is $verdict{5}{verdict}, 'slower', 'five';
};

subtest 'differences below the least that counts are none' => sub {
    my ($old, $new) = (results(seed => 3), planted(0.9, 'hydrofoil', seed => 4));
    my $one = one(compare($old, $new, least => 0.2), 'keepalive256', 'hydrofoil', 'req_per_s');
    is $one->{verdict}, 'same', 'ten per cent where twenty are asked for';
    like $one->{why}, qr/below 20%/, 'and says why';
};

subtest 'what nginx seems to have changed is what the machine changed' => sub {
    my $slow  = sub { $_[0] eq 'keepalive256' && $_[2] eq 'req_per_s' ? 0.9 : 1 };
    my $found = compare(results(seed => 3), results(seed => 4, factor => $slow));
    my $own   = one($found, 'keepalive256', 'hydrofoil', 'req_per_s');
    cmp_ok $own->{high}, '<', 1, 'Hydrofoil was slower';
    is $own->{verdict}, 'cannot tell', 'but so was nginx';
    like $own->{why}, qr/the same in both, moved by/, 'which is why nothing is said';
    like join("\n", @{ $found->{warnings} }), qr/nginx, which is the same in both, got slower in hello\/keepalive256/, 'and is told';

    my $other = sample(seed => 4, factor => $slow);
    $other->{versions}{nginx} = 'nginx version: nginx/2.0';
    delete $_->{results}{floor} for map { @{ $_->{measures} } } @{ $other->{scenarios} };
    $found = compare(results(seed => 3), HydroBench::Results->from_hash($other));
    is one($found, 'keepalive256', 'hydrofoil', 'req_per_s')->{verdict}, 'slower', 'another version of nginx excuses nothing';
};

subtest 'errors that are new are worse, errors that are gone better' => sub {
    my $with = sub {
        my ($errors) = @_;
        my $sample = sample(seed => 3);
        my $result = $sample->{scenarios}[0]{measures}[0]{results}{hydrofoil};
        $_->{errors} = $errors for @{ $result->{rounds} };
        $result->{error_ratio} = $errors ? 0.001 : 0;
        return HydroBench::Results->from_hash($sample);
    };
    my ($none, $some) = map { $with->($_) } 0, 400;
    is one(compare($none, $some), 'keepalive16', 'hydrofoil', 'error_ratio')->{verdict}, 'worse', 'new';
    is one(compare($some, $none), 'keepalive16', 'hydrofoil', 'error_ratio')->{verdict}, 'better', 'gone';
    is one(compare($none, $none), 'keepalive16', 'hydrofoil', 'error_ratio')->{verdict}, undef, 'none in both is no comparison';
};

subtest 'what differs between the runs, and what is in one only, is told' => sub {
    my $other = sample(seed => 4);
    $other->{machine}{kernel}  = '6.2.0';
    $other->{versions}{nginx}  = 'nginx version: nginx/2.0';
    $other->{rounds}           = 9;
    $other->{skipped}          = {};
    $_->{command} .= ' --max-workers 5' for grep {defined} map { $_->{results}{starlet} } @{ $other->{scenarios}[0]{measures} };
    delete $other->{scenarios}[0]{measures}[0]{results}{gazelle};
    $other->{scenarios}[0]{measures}[1]{results}{feersum} = { kind => 'psgi', problem => 'died', rounds => [], errors => 0 };
    pop @{ $other->{scenarios}[1]{measures} };
    my $found = compare(results(seed => 3), HydroBench::Results->from_hash($other));
    my $warnings = join "\n", @{ $found->{warnings} };
    like $warnings, qr/kernel: 6\.1\.0; 6\.2\.0/, 'the kernel';
    like $warnings, qr/the version of nginx/, 'a version';
    like $warnings, qr/rounds: 5; 9/, 'the rounds';
    like $warnings, qr/starlet was started in another way: .* --max-workers 5/, 'options';
    my $missing = join "\n", @{ $found->{missing} };
    like $missing, qr{hello/keepalive16: gazelle is in the first only}, 'a server';
    like $missing, qr{hello/keepalive256: feersum failed in the second: died}, 'a failure';
    like $missing, qr{workers/workers16 is in the first only}, 'a measure';
    like join("\n", @{ compare(results(seed => 3), results(seed => 3))->{warnings} }), qr/\A\z/, 'nothing, where nothing differs';
};

subtest 'ports and folders are no difference between command lines' => sub {
    my @lines = map { HydroBench::Results->tidy_command($_) }
        'taskset -c 0 /usr/bin/perl -I/home/a/blib/lib /home/a/bin/hydrofoil --port 40001 -a /home/a/bench/apps/hello.psgi',
        'taskset -c 0 /usr/bin/perl -I/srv/b/blib/lib /srv/b/bin/hydrofoil --port 50002 -a /srv/b/bench/apps/hello.psgi';
    is $lines[0], $lines[1], 'the same';
    is $lines[0], 'taskset -c 0 perl -Iblib/lib bin/hydrofoil --port PORT -a bench/apps/hello.psgi', 'and readable';
};

subtest 'script/bench compare prints, writes a page, and judges when asked to' => sub {
    my $dir = File::Temp->newdir;
    my %sample = (old => sample(seed => 3), same => sample(seed => 5),
        slow => sample(seed => 4, factor => sub { $_[1] eq 'hydrofoil' && $_[2] eq 'req_per_s' ? 0.8 : 1 }));
    for my $name (sort keys %sample) {
        mkdir "$dir/$name" or die $!;
        open my $out, '>', "$dir/$name/results.json" or die $!;
        print {$out} JSON::PP->new->encode($sample{$name});
        close $out or die $!;
    }
    my $run = sub { scalar qx{"$^X" "$root/script/bench" compare @_ 2>&1} };
    my $text = $run->("$dir/old", "$dir/slow");
    is $?, 0, 'a slower one is no failure';
    like $text, qr/^slower +0\.\d+ +0\.\d+ to 0\.\d+ +\S+, hydrofoil, Throughput: /m, 'but is told';
    $text = $run->('--strict', "$dir/old", "$dir/slow");
    is $? >> 8, 1, 'unless asked with --strict';
    $run->('--strict', '--servers', 'starlet,feersum', "$dir/old", "$dir/slow");
    is $?, 0, 'or when other servers are asked for';
    $run->('--strict', "$dir/slow", "$dir/old");
    is $?, 0, 'what got faster is none either';
    $text = $run->('--html', "$dir/page.html", "$dir/old", "$dir/slow");
    is $?, 0, 'with --html';
    open my $in, '<:encoding(UTF-8)', "$dir/page.html" or die $!;
    my $html = do { local $/; <$in> };
    like $html, qr/<svg.*<title[^>]*>Throughput.*slower/s, 'a page with charts';
    unlike $html, qr{(?:src|href)="(?!#)}, 'that loads nothing';
    $run->("$dir/old");
    isnt $?, 0, 'one folder is not enough';
};

done_testing;
