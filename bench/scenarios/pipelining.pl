# Several requests in each write, which nginx and HTTP/1.1 clients of APIs do and browsers do not.
my $servers = [qw(hydrofoil floor nginx starman starlet feersum cacilheiro unit uwsgi)];

{
    summary  => 'hello world on 16 connections with 1, 4, 16 and 64 requests in each write',
    servers  => $servers,
    measures => [
        (map {
            {
                name        => "pipelined$_",
                title       => $_ == 1 ? 'one request in each write' : "$_ requests in each write",
                connections => 16,
                pipeline    => $_,
                many        => 1,
                series      => 'requests in each write',
                x           => $_,
                ($_ == 16 ? (essential => [qw(hydrofoil nginx floor)]) : ()),
            };
        } 1, 4, 16, 64),
        {
            name        => 'pipelined16-h2load',
            title       => '16 requests in flight by another client, h2load --h1 -m 16',
            tool        => 'h2load',
            connections => 16,
            pipeline    => 16,
            many        => 1,
        },
    ],
    targets => [
        { measure => 'pipelined16', figure => 'req_per_s', at_least => 3, than => 'nginx' },
    ],
};
