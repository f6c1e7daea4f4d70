# Ten thousand connections that do nothing, each answered once before, and what they cost those that do something.
{
    summary  => '64 active connections beside 10,000 idle ones, which are all asked again afterwards',
    servers  => [qw(hydrofoil)],
    measures => [
        {
            name        => 'idle10000',
            title       => '64 active connections without and with 10,000 idle ones',
            tool        => 'idle_active',
            connections => 64,
            idle        => 10_000,
            many        => 1,
            duration    => 3,
            quick       => 1,
            rounds      => 5,
            essential   => 1,
        },
    ],
    targets => [
        { measure => 'idle10000', figure => 'active_part',     at_least => 0.9 },
        { measure => 'idle10000', figure => 'idle_unanswered', at_most  => 0 },
        { measure => 'idle10000', figure => 'each_bytes',      at_most  => 1024 },
    ],
};
