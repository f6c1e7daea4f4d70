# Graceful restarts that nobody notices: all workers are replaced once a second while clients keep asking.
{
    summary  => 'a graceful restart every second under keep-alive load',
    servers  => [qw(hydrofoil)],
    measures => [
        {
            name     => 'hup20',
            title    => 'a graceful restart every second: 8 busy, 28 steady, 2 slow and 4 ever new connections, 4 workers',
            tool     => 'restarts',
            app      => 'sleep',
            workers  => 4,
            duration => 20,
            quick    => 5,
            rounds   => 1,
            essential => 1,
            groups   => [
                { name => 'busy',   path => '/sleep/2',   connections => 8 },
                { name => 'steady', path => '/',          connections => 28, every => 20 },
                { name => 'slow',   path => '/sleep/300', connections => 2 },
                { name => 'new',    path => '/',          connections => 4, every => 20, fresh => 1 },
            ],
        },
    ],
    targets => [
        { measure => 'hup20', figure => 'failed',       at_most  => 0 },
        { measure => 'hup20', figure => 'resets',       at_most  => 0 },
        { measure => 'hup20', figure => 'twice',        at_most  => 0 },
        { measure => 'hup20', figure => 'errors',       at_most  => 0 },
        { measure => 'hup20', figure => 'unanswered',   at_most  => 0 },
        { measure => 'hup20', figure => 'workers_part', at_least => 0.9 },
    ],
};
