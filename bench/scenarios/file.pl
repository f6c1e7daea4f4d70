# An image of 2.4 MB from a file handle, as published in 2009 for Windows: there TransmitFile in place of read and write made
# 17.30 requests per second of 8.21. Here it is sendfile(2).
my %file = (app => 'file', file_bytes => 2_397_678, quick => 1);

{
    summary  => 'an image of 2.4 MB, one connection (ab) and four (wrk), by sendfile and by read and write',
    measures => [
        {
            %file,
            name           => 'ab1',
            title          => 'one connection, new for each request, ab -c 1',
            tool           => 'ab',
            connections    => 1,
            requests       => 2_000,
            quick_requests => 200,
            rounds         => 4,
            essential      => [qw(hydrofoil nginx starlet)],
        },
        {
            %file,
            name           => 'ab1-read',
            title          => 'the same from an object that is no file, so that it must be read and written',
            tool           => 'ab',
            app            => 'file-read',
            connections    => 1,
            requests       => 2_000,
            quick_requests => 200,
            rounds         => 4,
        },
        {
            %file,
            name        => 'keepalive4',
            title       => 'four keep-alive connections',
            connections => 4,
        },
    ],
    targets => [
        { measure => 'keepalive4', figure => 'mb_per_cpu_s', at_least => 0.9, than => 'nginx' },
    ],
    published => [
        {
            measure => 'ab1', figure => 'req_per_s', server => 'hydrofoil', than_measure => 'ab1-read', value => 2.11,
            unit    => 'times', source => '2009, Windows, TransmitFile, Plack::Handler::Standalone',
        },
    ],
};
