# Starman and Starlet on a small application, as published in April and August 2013: the access log, Plack::Request, 12 bytes.
my $path = '/foo?foo=bar&bar=baz&baz=hoge&hoge=foo';

# The published command lines; Hydrofoil and Gazelle take Starlet's.
my $close = '-E production --max-workers=16 --max-reqs-per-child=50000';
my $keep  = '-E production --max-workers 16 --max-keepalive-reqs 10000 --max-reqs-per-child 10000';

{
    summary  => 'the application of 2013, a connection for each request (ab) and keep-alive (wrk), 16 workers',
    servers  => [qw(hydrofoil hydrofoil-accelerated starman starlet monoceros gazelle feersum uwsgi)],
    measures => [
        {
            name           => 'close30',
            title          => '30 connections that are new for each request, ab -c 30 -n 30000',
            tool           => 'ab',
            app            => 'app2013',
            path           => $path,
            connections    => 30,
            requests       => 30_000,
            quick_requests => 1_000,
            workers        => 16,
            rounds         => 4,
            options        => {
                starman => '--preload-app --workers=16 --max-requests=50000',
                map { $_ => $close } qw(hydrofoil starlet gazelle),
            },
        },
        {
            name        => 'keepalive15',
            title       => '15 keep-alive connections, an answer without Content-Length, wrk -c 15 -t 5 -d 10',
            app         => 'app2013-chunked',
            unframed    => 1,
            path        => $path,
            connections => 15,
            threads     => 5,
            duration    => 10,
            quick       => 1,
            workers     => 16,
            rounds      => 4,
            essential   => [qw(hydrofoil starman starlet)],
            options     => {
                starman   => '--workers=16 --max-requests 10000 -E production',
                monoceros => '-E production --max-workers 16 --max-reqs-per-child 10000 --max-readahead-reqs 500',
                map { $_ => $keep } qw(hydrofoil starlet),
            },
        },
    ],
    targets => [
        { measure => 'close30',     figure => 'req_per_s', at_least => 1.0, than => 'best psgi' },
        { measure => 'keepalive15', figure => 'req_per_s', at_least => 1.0, than => 'best psgi' },
    ],
};
