# The price of a request: what a server costs when the application costs nothing.
#
# measures  what is run, in this order, each against every server that can take part
# targets   what Hydrofoil promises: a figure of its own (at_most, at_least), or times that of another server (than)
#
# What one server does in a second here and what it does in the next lie up to a fifth apart on a machine that others share.
# Many short rounds, in which the servers take turns, meet the same good and bad times.
my %turns = (rounds => 25, duration => 1);

{
    summary  => 'hello world over keep-alive, pipelined and on many connections, a file, idle connections',
    measures => [
        {
            %turns,
            name        => 'keepalive16',
            title       => '16 keep-alive connections',
            connections => 16,
            essential   => [qw(hydrofoil floor nginx starlet)],
        },
        {
            %turns,
            name        => 'keepalive256',
            title       => '256 keep-alive connections',
            connections => 256,
            many        => 1,
        },
        {
            rounds       => 9,
            duration     => 3,
            name         => 'keepalive8192',
            title        => '8,192 keep-alive connections',
            connections  => 8192,
            many         => 1,
            min_duration => 3,
        },
        {
            %turns,
            name        => 'pipelined',
            title       => '16 connections, 16 pipelined requests in each write',
            connections => 16,
            pipeline    => 16,
            many        => 1,
        },
        {
            name        => 'file',
            title       => 'a file of 2.4 MB from a file handle, 4 connections',
            app         => 'file',
            connections => 4,
            file_bytes  => 2_397_678,
        },
        {
            name        => 'idle',
            title       => '10,000 idle keep-alive connections, memory of the server\'s own for each',
            tool        => 'idle',
            connections => 10_000,
            many        => 1,
        },
    ],
    targets => [
        { measure => 'keepalive16',   figure => 'req_per_s',       at_least => 1.00, than => 'nginx' },
        { measure => 'keepalive16',   figure => 'cpu_us',          at_most  => 1.30, than => 'floor' },
        { measure => 'pipelined',     figure => 'req_per_s',       at_least => 3.00, than => 'nginx' },
        { measure => 'keepalive256',  figure => 'req_per_s',       at_least => 0.95, than => 'nginx' },
        { measure => 'keepalive8192', figure => 'req_per_s',       at_least => 0.90, than => 'nginx' },
        { measure => 'keepalive8192', figure => 'errors',          at_most  => 0 },
        { measure => 'keepalive16',   figure => 'req_per_s',       at_least => 1.35, than => 'best psgi' },
        { measure => 'file',          figure => 'mb_per_cpu_s',    at_least => 0.90, than => 'nginx' },
        { measure => 'idle',          figure => 'bytes_per_connection', at_most => 1024 },
    ],
};
