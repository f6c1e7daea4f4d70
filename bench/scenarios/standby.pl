# What the standby thread costs where it has nothing to do: nothing.
{
    summary  => 'hello world with and without the standby thread',
    servers  => [qw(hydrofoil hydrofoil-no-standby)],
    measures => [
        {
            name        => 'keepalive16',
            title       => '16 keep-alive connections',
            connections => 16,
            switches    => 1,
            essential   => 1,
        },
        {
            name        => 'syscalls16',
            title       => '16 keep-alive connections, under strace -c',
            tool        => 'syscalls',
            connections => 16,
            rounds      => 3,
        },
    ],
    targets => [
        { measure => 'keepalive16', figure => 'req_per_s', at_least => 0.98, than => 'hydrofoil-no-standby' },
        { measure => 'keepalive16', figure => 'cpu_us',    at_most  => 1.02, than => 'hydrofoil-no-standby' },
        { measure => 'syscalls16',  figure => 'syscalls',  at_most  => 1.02, than => 'hydrofoil-no-standby' },
        { measure => 'syscalls16',  figure => 'sleeps_per_s', at_most => 1000 },
    ],
};
