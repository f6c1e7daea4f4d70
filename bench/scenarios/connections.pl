# Few and very many connections, as published for Cacilheiro in 2016.
my $many  = '--max-workers 8 --max-reqs-per-child 99999999';
my %point = (workers => 8, duration => 20, rounds => 4, series => 'connections', tolerates => 0.05);

my %published = (    # req/s, mean latency in ms, errors: at 8,192, 256 and 16 connections, of runs of 20 s
    cacilheiro      => [[168_975, 29.83, 551], [206_449, 1.85, 0], [148_948, 0.10, 0]],
    starlet         => [[95_862, 0.08, 6_269], [95_869, 0.08, 0], [101_650, 0.13, 0]],
    'gazelle-nginx' => [[78_482, 33.12, 36_617], [104_793, 3.82, 13_310], [81_978, 0.21, 0]],
);
my $source = '2016, i7-4770, 8 threads, 8 workers';

{
    summary  => 'hello world on 16, 256 and 8,192 keep-alive connections, 8 workers, as published in 2016',
    servers  => [qw(hydrofoil hydrofoil-nginx cacilheiro starlet starlet-nginx gazelle-nginx feersum monoceros unit nginx)],
    options  => {
        hydrofoil  => "-E production $many --max-keepalive-reqs 99999999",
        cacilheiro => "-E prod $many --max-keepalive-reqs 99999999",
        starlet    => "-E production $many --max-keepalive-reqs 99999999",
        gazelle    => "-workers=8 --max-reqs-per-child 99999999 --min-reqs-per-child 99999999 -E production",
    },
    measures => [
        {
            %point,
            name        => 'connections16',
            title       => '16 connections, wrk -t 1 -c 16 -d 20s',
            connections => 16,
            threads     => 1,
            x           => 16,
            quick       => 1,
        },
        {
            %point,
            name        => 'connections256',
            title       => '256 connections, wrk -t 2 -c 256 -d 20s',
            connections => 256,
            threads     => 2,
            x           => 256,
            quick       => 1,
            essential   => [qw(hydrofoil starlet nginx)],
        },
        {
            %point,
            name        => 'connections8192',
            title       => '8,192 connections, wrk -t 4 -c 8192 -d 20s',
            connections => 8192,
            threads     => 4,
            x           => 8192,
            quick       => 3,
            note        => 'a server that serves only a few of them is fast for those: see the errors',
        },
    ],
    targets => [
        (map { { measure => "connections$_", figure => 'req_per_s', at_least => 1.0, than => 'best psgi' } } 16, 256),
        map { { measure => "connections$_", figure => 'errors', at_most => 0 } } 16, 256, 8192,
    ],
    published => [
        map {
            my ($server, $i, $measure) = @$_;
            my ($req_per_s, $mean_ms, $errors) = @{ $published{$server}[$i] };
            my %of = (measure => $measure, server => $server, source => $source);
            (
                { %of, figure => 'req_per_s', value => $req_per_s, unit => 'req/s' },
                { %of, figure => 'latency.mean', value => $mean_ms * 1000, unit => 'us' },
                { %of, figure => 'error_ratio', unit => 'of all requests', value => $errors / ($req_per_s * 20 + $errors) },
            );
        } map { my $server = $_; map { [$server, $_, (qw(connections8192 connections256 connections16))[$_]] } 0 .. 2 }
            qw(cacilheiro starlet gazelle-nginx)
    ],
};
