use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;
use Hydrofoil::Test;

# Where an answer ends, and the headers that the server adds: RFC 9112, section 6; RFC 9110, sections 6.6.1, 8.6, 10.2.4.

my $app = <<'END';
require Plack::Middleware::Chunked;
require Plack::Middleware::ContentLength;
my @text = ('Content-Type' => 'text/plain');
my %page = (
    '/array'    => sub { [200, [@text], ['Hello, ', 'World']] },
    '/empty'    => sub { [200, [@text], []] },
    '/length'   => sub { [200, [@text, 'Content-Length' => 5], ['Hello']] },
    '/lower'    => sub { [200, [@text, 'content-length' => 5], ['Hello']] },
    '/headers'  => sub { [200, [@text, 'X-One' => 1, 'Set-Cookie' => 'a=1', 'X-Two' => 2, 'Set-Cookie' => 'b=2'], ['x']] },
    '/date'     => sub { [200, [@text, Date => 'Thu, 01 Jan 1970 00:00:00 GMT'], ['x']] },
    '/server'   => sub { [200, [@text, Server => 'application'], ['x']] },
    '/close'    => sub { [200, [@text, Connection => 'close'], ['x']] },
    '/204'      => sub { [204, [], []] },
    '/204-body' => sub { [204, [], ['not to be sent']] },
    '/204-length' => sub { [204, ['Content-Length' => 0], []] },
    '/304'      => sub { [304, [ETag => '"x"'], []] },
    '/304-body' => sub { [304, [], ['not to be sent']] },
    '/404'      => sub { [404, [@text], ['nothing here']] },
    '/299'      => sub { [299, [@text], ['odd status']] },
    '/599'      => sub { [599, [@text], ['odd status']] },
    '/empty-value' => sub { [200, [@text, 'X-Empty' => ''], ['x']] },
    '/long-header' => sub { [200, [@text, 'X-Long' => 'v' x 60_000], ['x']] },
    '/many-headers' => sub { [200, [@text, map { ("X-Number-$_" => $_) } 1 .. 500], ['x']] },
    '/writer'   => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write($_) for 'Hello, ', '', 'World'; $w->close } },
    '/writer-length' => sub {
        sub { my $w = $_[0]->([200, [@text, 'Content-Length' => 12]]); $w->write($_) for 'Hello, ', 'World'; $w->close }
    },
    '/writer-empty' => sub { sub { my $w = $_[0]->([200, [@text]]); $w->close } },
    '/writer-204' => sub { sub { my $w = $_[0]->([204, []]); $w->close } },
    '/getline'  => sub { open my $fh, '<', \"one\ntwo\nthree" or die; [200, [@text], bless {fh => $fh}, 'Lines'] },
    '/getline-empty' => sub { open my $fh, '<', \'' or die; [200, [@text], bless {fh => $fh}, 'Lines'] },
    '/delayed'  => sub { sub { $_[0]->([200, [@text], ['Hello, ', 'World']]) } },
);
sub Lines::getline { my $line = readline $_[0]{fh}; $line }
sub Lines::close { close $_[0]{fh} }
my $chunked = Plack::Middleware::Chunked->wrap(sub { [200, [@text], ['Hello, ', 'World']] });
$page{'/chunked-by-app'} = $chunked;
$page{'/length-by-app'} = Plack::Middleware::ContentLength->wrap($page{'/array'});
sub {
    my $env = shift;
    my $make = $page{ $env->{PATH_INFO} } or return [404, [@text], ['no such page']];
    $make->($env);
};
END

my $server = start_server(app => $app);

each_way 'an array body gets its Content-Length' => sub {
    my $client = $server->exchange(map { req("GET $_") } qw(/array /empty /delayed /404 /299 /599));
    is_deeply [map { $_->framing } $client->responses], [('length') x 6], 'every answer has a length';
    is_deeply [map { scalar $_->header('Content-Length') } $client->responses], [12, 0, 12, 12, 10, 10], 'the right one';
    is_deeply [$client->bodies], ['Hello, World', '', 'Hello, World', 'nothing here', 'odd status', 'odd status'],
        'and the body is whole';
    is $client->statuses, '200 200 200 404 299 599', 'statuses are those of the application';
};

each_way 'a Content-Length by the application is kept and not doubled' => sub {
    my $client = $server->exchange(map { req("GET $_") } qw(/length /lower /length-by-app /writer-length));
    is_deeply [map { scalar $_->header('Content-Length') } $client->responses], [5, 5, 12, 12], 'the lengths';
    is_deeply [map { $_->framing } $client->responses], [('length') x 4], 'no chunks with a length';
    is_deeply [$client->bodies], ['Hello', 'Hello', 'Hello, World', 'Hello, World'], 'the bodies';
};

each_way 'a body of unknown length is chunked for a 1.1 client' => sub {
    my $client = $server->exchange(map { req("GET $_") } qw(/writer /getline /writer-empty /getline-empty /array));
    is_deeply [map { $_->framing } $client->responses], [('chunked') x 4, 'length'], 'four are chunked';
    is_deeply [$client->bodies], ['Hello, World', "one\ntwo\nthree", '', '', 'Hello, World'], 'the bodies are whole';
    ok !$client->eof, 'the connection stays open';
};

each_way 'a body of unknown length ends with the connection for a 1.0 client' => sub {
    for my $page (qw(/writer /getline)) {
        my $client = $server->exchange(req("GET $page HTTP/1.0"));
        is $client->response->framing, 'close', "$page has neither length nor chunks";
        is $client->response->body, $page eq '/writer' ? 'Hello, World' : "one\ntwo\nthree", 'its body is whole';
        $client = $server->exchange(req("GET $page HTTP/1.0", 'Connection: keep-alive'));
        is $client->response->framing, 'close', "$page with keep-alive asked for: the same";
        unlike $client->response->header('Connection') || '', qr/keep-alive/i, 'and the answer does not promise it';
    }
};

each_way 'a 1.0 client that asked for keep-alive keeps the connection where the length is known' => sub {
    my @keep = (' HTTP/1.0', 'Connection: keep-alive');
    my $client = $server->exchange(map { req("GET $_$keep[0]", $keep[1]) } qw(/array /length /writer-length /204 /304 /array));
    is $client->statuses, '200 200 200 204 304 200', 'all are answered on it';
};

each_way 'the answer to HEAD has the headers of GET and no body' => sub {
    for my $page (qw(/array /empty /length /headers /writer /getline /writer-length /404 /204 /304 /delayed)) {
        my $client = $server->exchange(req("GET $page"), req("HEAD $page"), req("GET /array"));
        my ($get, $head, $next) = $client->responses;
        ok $next && $next->body eq 'Hello, World', "$page: the next answer follows at once";
        my %get = map { $_ => [$get->header($_)] } grep { $_ ne 'date' } $get->header_names;
        my %head = map { $_ => [$head->header($_)] } grep { $_ ne 'date' } $head->header_names;
        # RFC 9110, 9.3.2: a server may leave out what it would know only by making the body. An empty body may be one
        # that the application did not make because it was asked for the head only.
        delete @$_{qw(transfer-encoding content-length)} for $get->framing eq 'chunked' ? (\%get, \%head) : ();
        delete $get{'content-length'} if $get->body eq '' && !$head{'content-length'};
        is_deeply \%head, \%get, "$page: the same headers";
        is $head->status, $get->status, "$page: the same status";
    }
};

each_way '204 and 304 have no body and no length' => sub {
    my @pages = qw(/204 /204-body /204-length /304 /304-body /writer-204);
    my $client = $server->exchange((map { req("GET $_") } @pages), req('GET /array'));
    is $client->statuses, '204 204 204 304 304 204 200', 'all are answered';
    for my $i (0 .. $#pages) {
        my @names = grep { /^(?:content-length|transfer-encoding)$/ } $client->response($i)->header_names;
        is "@names", '', "$pages[$i] has neither Content-Length nor Transfer-Encoding";
    }
    is $client->response(6)->body, 'Hello, World', 'the next answer follows at once';
};

each_way 'chunks made by the application are not chunked again' => sub {
    my $client = $server->exchange(req('GET /chunked-by-app'), req('GET /array'));
    is $client->response(0)->framing, 'chunked', 'the answer is chunked';
    is $client->response(0)->body, 'Hello, World', 'once';
    is $client->response(1)->body, 'Hello, World', 'and the next request is answered';
};

each_way 'an answer has one Date, in the form of RFC 9110' => sub {
    my $client = $server->exchange(req('GET /array'), req('GET /404'), req('GET /204'), req('GET /writer'), req('GET /date'));
    my $day = qr/Mon|Tue|Wed|Thu|Fri|Sat|Sun/;
    my $month = qr/Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec/;
    like $_->header('Date'), qr/\A$day, \d\d $month \d{4} \d\d:\d\d:\d\d GMT\z/, 'a date as it should be'
        for $client->responses;
    my @same = $client->response(4)->header('Date');
    is "@same", 'Thu, 01 Jan 1970 00:00:00 GMT', 'a Date by the application wins';
};

check 'the Date is that of now' => sub {
    require HTTP::Date;
    my $date = HTTP::Date::str2time(scalar $server->get('/array')->header('Date'));
    cmp_ok abs(time - $date), '<', 10, 'within seconds';
};

check 'headers keep their order, their case and their number' => sub {
    my $response = $server->get('/headers');
    my @own = grep { /^(?:Content-Type|X-One|X-Two|Set-Cookie)$/ } map { $_->[0] } @{ $response->{headers} };
    is "@own", 'Content-Type X-One Set-Cookie X-Two Set-Cookie', 'as the application gave them';
    is join(' ', $response->header('Set-Cookie')), 'a=1 b=2', 'two cookies are two header lines';
    is $server->get('/empty-value')->header('X-Empty'), '', 'an empty value is sent as one';
};

check 'many and long headers of an answer arrive' => sub {
    is length $server->get('/long-header')->header('X-Long'), 60_000, 'a long one';
    my $response = $server->get('/many-headers');
    is scalar(grep { /^x-number-/ } $response->header_names), 500, 'five hundred';
    is $response->header('X-Number-500'), 500, 'in full';
};

each_way 'Connection: close by the application closes' => sub {
    my $client = $server->exchange(req('GET /close'), req('GET /array'));
    my @connection = $client->response->header('Connection');
    is_deeply \@connection, ['close'], 'the answer says it once';
    is scalar($client->responses), 1, 'and the next request is not answered';
    ok $client->eof, 'the server closes';
};

check 'reason phrases are the usual ones' => sub {
    is $server->get('/array')->reason, 'OK', 'of 200';
    is $server->get('/404')->reason, 'Not Found', 'of 404';
    is $server->get('/304')->reason, 'Not Modified', 'of 304';
    is $server->get('/204')->reason, 'No Content', 'of 204';
};

check 'a Server header by the application is respected' => sub {
    my @own = $server->get('/server')->header('Server');
    is "@own", 'application', 'it is the only one';
};
undef $server;

check '--server-name-header says what Server is' => sub {
    my $named = start_server(app => $app, args => ['--server-name-header' => 'Zephyr/2']);
    my @name = $named->get('/array')->header('Server');
    is "@name", 'Zephyr/2', 'the name given';
    @name = $named->get('/server')->header('Server');
    is "@name", 'application', 'unless the application names one';
    @name = $named->raw("BROKEN\r\n\r\n") =~ /^Server: (.*)\r$/mg;
    is "@name", 'Zephyr/2', 'on an error answer too';
};

check 'an empty --server-name-header means no Server header' => sub {
    my $nameless = start_server(app => $app, args => ['--server-name-header=']);
    my @name = $nameless->get('/array')->header('Server');
    is scalar @name, 0, 'there is none';
    @name = $nameless->get('/server')->header('Server');
    is "@name", 'application', 'unless the application gives one';
};

done_testing;
