# What Plack itself costs: the published applications, whose time goes to Plack's modules, and these modules function by
# function, as they are and in C (Hydrofoil::Accelerate).
my $servers = [
    (map { ($_, "$_-accelerated") } qw(hydrofoil starman starlet)),
    qw(uwsgi twiggy feersum gazelle),
];

{
    summary  => "the published applications, and functions of Plack's modules, as they are and accelerated",
    servers  => $servers,
    measures => [
        {
            name        => 'app2013',
            title       => 'the application of 2013: AccessLog, Plack::Request->param, 12 bytes; 15 connections',
            app         => 'app2013',
            path        => '/foo?foo=bar&bar=baz&baz=hoge&hoge=foo',
            body        => "Hello World\n",
            connections => 15,
            accelerated => 1,
        },
        {
            name        => 'app2015',
            title       => 'the application of 2015: the same with Plack::Response and 4,000 bytes; 8 connections',
            app         => 'app2015',
            path        => '/foo?foo=bar&bar=baz&q=HTTP%3A%3ARequest%3A%3ACommon&ie=UTF-8&sourceid=chrome',
            body        => 'x' x 4000,
            connections => 8,
            accelerated => 1,
        },
        {
            name  => 'functions',
            title => 'functions, in one process',
            tool  => 'functions',
            essential => 1,
        },
    ],
    targets => [
        (map {
            my $app = $_;
            (
                { measure => $app, figure => 'req_per_s', at_least => 1.1, than => 'best psgi' },
                { measure => $app, figure => 'req_per_s', at_least => 5, than => 'best psgi', of => 'hydrofoil-accelerated' },
            );
        } qw(app2013 app2015)),
        { measure => 'functions', figure => 'times', of => 'parse_urlencoded',  at_least => 1.5 },
        { measure => 'functions', figure => 'times', of => 'Request param',     at_least => 8 },
        { measure => 'functions', figure => 'times', of => 'Response finalize', at_least => 8 },
        { measure => 'functions', figure => 'times', of => 'upload of 1 MB',    at_least => 10 },
        { measure => 'functions', figure => 'times', of => 'crush_cookie',      at_least => 5 },
        { measure => 'functions', figure => 'times', of => 'bake_cookie',       at_least => 5 },
    ],
};
