# What Plack's modules cost on an application of 4,000 bytes, as published in November 2015; and the same when the parameters
# come in the body of a POST.
my $form = [foo => 'bar', bar => 'baz', q => 'HTTP::Request::Common', ie => 'UTF-8', sourceid => 'chrome'];

my %measure = (
    app         => 'app2015',
    path        => '/foo?foo=bar&bar=baz&q=HTTP%3A%3ARequest%3A%3ACommon&ie=UTF-8&sourceid=chrome',
    connections => 8,
    threads     => 2,
    workers     => 10,
    rounds      => 4,
    quick       => 1,
);

my %published = (    # req/s with Plack 1.0037, 1.0038, and what came next, with the parser of query strings in Perl and XS
    gazelle => [17_086, 17_366, 18_204, 20_494],
    starlet => [14_683, 14_866, 15_569, 17_222],
);
my $source = '2015-11, 12 cores, 10 workers';

{
    summary  => 'the application of 2015: AccessLog, Plack::Request and Plack::Response, 4,000 bytes; GET and POST, 10 workers',
    servers  => [qw(hydrofoil hydrofoil-accelerated starman starlet starlet-accelerated gazelle feersum uwsgi)],
    options  => { map { $_ => '-E production --max-workers=10 --max-reqs-per-child=5000000' } qw(hydrofoil starlet gazelle) },
    measures => [
        {
            %measure,
            name      => 'get',
            title     => 'GET with a query, wrk -t 2 -c 8 -d 30',
            duration  => 30,
            essential => [qw(hydrofoil hydrofoil-accelerated starlet)],
        },
        {
            %measure,
            name      => 'get-perl',
            title     => 'the same with the parser of query strings in Perl',
            env       => { WWW_FORM_URLENCODED_PP => 1 },
            duration  => 30,
        },
        {
            %measure,
            name     => 'post-urlencoded',
            title    => 'POST of the same parameters, application/x-www-form-urlencoded',
            path     => '/foo',
            post     => { urlencoded => $form },
            duration => 10,
        },
        {
            %measure,
            name      => 'post-multipart',
            title     => 'POST of the same parameters and an upload of 20,000 bytes, multipart/form-data',
            path      => '/foo',
            post      => { multipart => [@$form, image => { filename => 'image.png', type => 'image/png', size => 20_000 }] },
            duration  => 10,
            essential => [qw(hydrofoil hydrofoil-accelerated starlet)],
        },
    ],
    targets => [
        map { { measure => $_, figure => 'req_per_s', at_least => 1.0, than => 'best psgi' } }
            qw(get get-perl post-urlencoded post-multipart),
    ],
    published => [
        (map {
            my $server = $_;
            my @of = ('Plack 1.0037', 'Plack 1.0038', 'Plack after 1.0038, parser in Perl', 'Plack after 1.0038, parser in XS');
            map {
                {
                    measure => $_ == 3 ? 'get' : 'get-perl', figure => 'req_per_s', server => $server, unit => 'req/s',
                    value => $published{$server}[$_], source => "$source, $of[$_]",
                };
            } 0 .. 3;
        } qw(gazelle starlet)),
        {
            measure => 'get', figure => 'req_per_s', server => 'gazelle', than => 'starlet', value => 1.19, unit => 'times',
            source  => $source,
        },
        (map {
            {
                measure => 'get', figure => 'req_per_s', server => $_, than_measure => 'get-perl', unit => 'times',
                value => sprintf('%.2f', $published{$_}[3] / $published{$_}[2]) + 0, source => "$source, parser in XS and in Perl",
            };
        } qw(gazelle starlet)),
    ],
};
