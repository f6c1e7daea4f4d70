# Does a server scale with its workers, and what does a lock around accept(2) do? As published in April 2013, there with 8
# cores, 16 threads and the client on another host.
my $options = '-E production --max-workers={workers} --max-reqs-per-child=50000';

{
    summary  => 'the application of 2013 under 1 to 16 workers, ab -c 30 -n 30000; Starman with locks around accept and without',
    servers  => [qw(hydrofoil starlet starman starman-flock starman-semaphore gazelle)],
    options  => {
        starman => '--preload-app --workers={workers} --max-requests=50000',
        map { $_ => $options } qw(hydrofoil starlet gazelle),
    },
    measures => [
        map {
            {
                name           => "workers$_",
                title          => $_ == 1 ? 'one worker' : "$_ workers",
                tool           => 'ab',
                app            => 'app2013',
                path           => '/foo?foo=bar&bar=baz&baz=hoge&hoge=foo',
                connections    => 30,
                requests       => 30_000,
                quick_requests => 1_000,
                workers        => $_,
                rounds         => 4,
                series         => 'workers',
                x              => $_,
                ($_ == 4 ? (essential => [qw(hydrofoil starman-flock starlet)]) : ()),
            };
        } 1, 2, 4, 6, 8, 12, 16
    ],
    targets => [
        { measure => 'workers16', figure => 'req_per_s', at_least => 1.0, than => 'best psgi' },
    ],
    published => [
        {
            measure => 'workers16', figure => 'req_per_s', server => 'starman-flock', peak => 'workers', value => 6,
            unit    => 'workers', source => '2013-04, 8 cores, 16 threads, Starman with its lock, client on another host',
        },
        {
            measure => 'workers16', figure => 'req_per_s', server => 'starlet', peak => 'workers', value => 16,
            unit    => 'workers', source => '2013-04, 8 cores, 16 threads, client on another host',
        },
    ],
};
