# How long a request takes when it comes at a time of its own, and not when the last answer is there: requests at random
# moments, at the same rate for every server, half of what the slowest can do. Every latency counts from when the request was
# due, so that those that wait because an earlier one is late count as well.
{
    summary  => 'latencies at a fixed rate that all servers can bear, percentiles up to 99.9',
    measures => [
        {
            name        => 'one-worker',
            title       => '64 keep-alive connections, one worker',
            tool        => 'latency',
            connections => 64,
            part        => 0.5,
            many        => 1,
            duration    => 10,
            quick       => 2,
            rounds      => 4,
        },
        {
            name        => 'sixteen-workers',
            title       => '16 keep-alive connections, 16 workers',
            tool        => 'latency',
            connections => 16,
            workers     => 16,
            part        => 0.5,
            duration    => 10,
            quick       => 2,
            rounds      => 4,
            essential   => [qw(hydrofoil starlet nginx)],
        },
    ],
    targets => [
        { measure => 'one-worker',      figure => 'errors', at_most => 0 },
        { measure => 'sixteen-workers', figure => 'errors', at_most => 0 },
    ],
};
