# The shortest application under 16 workers, as published in August 2013.
my $keep = '-E production --max-workers 16 --max-keepalive-reqs 10000 --max-reqs-per-child 10000';

my %measure = (
    app         => 'ok',
    unframed    => 1,
    path        => '/foo?foo=bar&bar=baz&baz=hoge&hoge=foo',
    connections => 15,
    threads     => 5,
    duration    => 10,
    quick       => 1,
    workers     => 16,
    rounds      => 4,
);

{
    summary  => "sub { [200, [], ['OK']] } under 16 workers, as published in 2013",
    servers  => [qw(hydrofoil starman starlet monoceros gazelle feersum uwsgi unit)],
    options  => {
        starman   => '--workers=16 --max-requests 10000 -E production',
        monoceros => '-E production --max-workers 16 --max-reqs-per-child 10000 --max-readahead-reqs 500',
        map { $_ => $keep } qw(hydrofoil starlet),
    },
    measures => [
        {
            %measure,
            name      => 'ok15',
            title     => '15 keep-alive connections, wrk -c 15 -t 5 -d 10',
            essential => [qw(hydrofoil starman starlet)],
        },
        {
            %measure,
            name    => 'ok15-h2load',
            title   => 'the same by another client, h2load --h1 -c 15 -t 5 -D 10',
            tool    => 'h2load',
        },
    ],
    targets => [
        { measure => 'ok15', figure => 'req_per_s', at_least => 1.0, than => 'best psgi' },
    ],
    published => [
        {
            measure => 'ok15', figure => 'req_per_s', server => 'starlet', than => 'starman', value => 2, unit => 'times',
            source  => '2013-08, Starlet 0.20, "about twice"',
        },
    ],
};
