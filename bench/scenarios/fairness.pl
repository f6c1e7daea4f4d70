# No request waits behind a stuck one. Every latency counts from when the request was due, and each promise is for the
# worst of all rounds.
my @slow = ({ name => 'slow', path => '/sleep/200', connections => 4 });
my @fast = ({ name => 'fast', path => '/', connections => 28, every => 20 });

{
    summary  => 'fast pages beside slow ones, beside stuck workers, and against the ideal queue',
    servers  => [qw(hydrofoil hydrofoil-no-standby floor)],
    measures => [
        {
            name     => 'alone',
            title    => '28 connections, a fast page every 20 ms and nothing else: what this machine can tell',
            tool     => 'load',
            app      => 'hello',
            workers  => 8,
            duration => 5,
            quick    => 2,
            rounds   => 2,
            groups   => [@fast],
        },
        {
            name     => 'slow4',
            title    => 'the same beside 4 connections that keep calling a page of 200 ms, 8 workers',
            tool     => 'load',
            app      => 'sleep',
            workers  => 8,
            duration => 10,
            quick    => 3,
            groups   => [@slow, @fast],
            essential => [qw(hydrofoil)],
        },
        {
            name     => 'stuck7',
            title    => 'the same beside 7 connections that keep calling a page of 5 s, 8 workers',
            tool     => 'load',
            app      => 'sleep',
            workers  => 8,
            duration => 10,
            quick    => 3,
            drain    => 5.5,
            groups   => [{ name => 'slow', path => '/sleep/5000', connections => 7 }, @fast],
        },
        {
            name     => 'mix',
            title    => '80% load of 8 workers by pages of 5 and 50 ms, random arrivals, against one ideal queue (M/G/8)',
            tool     => 'load',
            app      => 'sleep',
            workers  => 8,
            duration => 10,
            quick    => 4,
            groups   => [
                {
                    name => 'mix', path => ['/sleep/5', '/sleep/50'], service => [5, 50], workers => 8, connections => 128,
                    rate => 0.8 * 8 / 0.0275,
                },
            ],
        },
    ],
    targets => [
        { measure => 'slow4',  figure => 'fast_p99_us',       at_most  => 5_000 },
        { measure => 'slow4',  figure => 'fast_max_us',       at_most  => 50_000 },
        { measure => 'slow4',  figure => 'unanswered',        at_most  => 0 },
        { measure => 'slow4',  figure => 'errors',            at_most  => 0 },
        { measure => 'slow4',  figure => 'slow_per_s',        at_least => 19.5 },
        { measure => 'stuck7', figure => 'fast_p99_us',       at_most  => 5_000 },
        { measure => 'stuck7', figure => 'fast_max_us',       at_most  => 50_000 },
        { measure => 'stuck7', figure => 'unanswered',        at_most  => 0 },
        { measure => 'stuck7', figure => 'errors',            at_most  => 0 },
        { measure => 'mix',    figure => 'mix_mean_to_ideal', at_most  => 1.15 },
        { measure => 'mix',    figure => 'mix_p99_to_ideal',  at_most  => 1.15 },
        { measure => 'mix',    figure => 'unanswered',        at_most  => 0 },
    ],
};
