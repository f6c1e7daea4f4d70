use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use File::Temp qw(tempdir);
use HTTP::Tiny;
use Hydrofoil::TestProcess qw(free_port poll_until write_file $ROOT);
use Test::More;

# Other servers gain from it as well: an application answers the same with it and without.

eval { require Plack::Request; require Plack::Builder; require Plack::Response; 1 } or plan skip_all => 'Plack is not installed';
my ($plackup) = grep {-x} map {"$_/plackup"} split /:/, $ENV{PATH} or plan skip_all => 'there is no plackup';

my $dir = tempdir(CLEANUP => 1);
my $app = write_file("$dir/app.psgi", <<'END');
use strict;
use warnings;
use Data::Dumper ();
use Plack::Builder;
use Plack::Request;
use Plack::Response;

my $log = $ENV{HYDROFOIL_TEST_LOG};
my @of_a_request = qw(address method protocol path path_info script_name query_string content_type content_length content secure
    user_agent referer content_encoding);

sub dump_of {
    local $Data::Dumper::Sortkeys = 1;
    local $Data::Dumper::Indent   = 1;
    local $Data::Dumper::Useqq    = 1;
    return Data::Dumper::Dumper(@_);
}

sub bytes_of {
    my $upload = shift;
    open my $fh, '<', $upload->path or die $!;
    local $/;
    return [ $upload->filename, $upload->content_type, $upload->size, scalar <$fh> ];
}

builder {
    enable 'AccessLog', format => '%h "%r" %>s %b "%{User-Agent}i" %{X-Two}o', logger => sub {
        open my $out, '>>', $log or die "$log: $!";
        print {$out} @_;
    };
    sub {
        my $env     = shift;
        my $request = Plack::Request->new($env);
        return [ 200, [], [ Hydrofoil::Accelerate->can('status') ? scalar Hydrofoil::Accelerate->status : 'not loaded' ] ]
            if $request->path_info eq '/accelerated';
        return sub {
            my $writer = shift->([ 200, [ 'Content-Type' => 'text/plain' ] ]);
            $writer->write($_) for 'a' .. 'e';
            $writer->close;
        } if $request->path_info eq '/stream';

        my %seen = map { $_ => scalar $request->$_ } @of_a_request;
        $seen{$_} = [ map { $_ => [ $request->parameters->get_all($_) ] } sort $request->parameters->keys ] for 'parameters';
        $seen{uri}     = $request->uri->path_query;
        $seen{cookies} = $request->cookies;
        $seen{query}   = $request->query_parameters->as_hashref_multi;
        $seen{body}    = $request->body_parameters->as_hashref_multi;
        $seen{uploads} = { map { $_ => [ map { bytes_of($_) } $request->uploads->get_all($_) ] } keys %{ $request->uploads } };
        my $response = $request->new_response($request->param('code') || 200, [ 'X-One' => 1 ], dump_of(\%seen));
        $response->header('X-Two' => [ 'a', "b\r\n c" ]);
        $response->content_type('text/plain; charset=utf-8');
        $response->cookies->{sid}  = { value => 'a b', path => '/', secure => 1, samesite => 'Lax' };
        $response->cookies->{lang} = 'en';
        $response->redirect($request->param('to')) if defined $request->param('to');
        return $response->finalize;
    };
};
END

my $form = 'application/x-www-form-urlencoded';
my $multipart = join "\r\n", '--xYz', 'Content-Disposition: form-data; name="a"', '', "caf\xe9", '--xYz',
    'Content-Disposition: form-data; name="file"; filename="one.txt"', 'Content-Type: text/plain', '', 'x' x 70_000, '--xYz',
    'Content-Disposition: form-data; name="file"; filename="two.txt"', '', '', '--xYz--', '';
my @requests = (
    [ GET => '/' ],
    [ GET => '/a%20b/c?foo=bar&foo=b+z&q=%E3%81%82;x&=y&%zz', headers => { Cookie => 'sid=abc; lang="en%20US"; sid=2', Referer => 'http://there/' } ],
    [ GET => '/?code=404' ],
    [ GET => '/?to=/there' ],
    [ HEAD => '/?a=1' ],
    [ POST => '/form?a=1', headers => { 'Content-Type' => $form }, content => 'a=2&b=%E9&c' ],
    [ POST => '/form', headers => { 'Content-Type' => $form }, content => 'text=' . 'long+' x 30_000 ],
    [ POST => '/upload', headers => { 'Content-Type' => 'multipart/form-data; boundary=xYz' }, content => $multipart ],
    [ POST => '/cut-short', headers => { 'Content-Type' => 'multipart/form-data; boundary=xYz' }, content => substr $multipart, 0, -20 ],
    [ PUT => '/json', headers => { 'Content-Type' => 'application/json', 'Content-Encoding' => 'identity' }, content => '{"a":1}' ],
    [ GET => '/stream' ],
);

# What a server answers, as text, and what it has written to its access log.
sub answers {
    my ($server, @options) = @_;

    my $log = write_file("$dir/log", '');
    my $port = free_port();
    my $process = Hydrofoil::TestProcess->start($^X, $plackup, @options, '-s', $server, '-E', 'production', '--host', '127.0.0.1',
        '--port', $port, $server eq 'Starlet' ? '--max-workers=1' : '--workers=1', '-a', $app, { env => { HYDROFOIL_TEST_LOG => $log } });
    my $client = HTTP::Tiny->new(timeout => 30, keep_alive => 0, max_redirect => 0);
    my $status;
    poll_until(sub { ($status = $client->get("http://127.0.0.1:$port/accelerated"))->{success} || $process->has_ended });
    return ('does not start: ' . $process->output) x 2 if !$status->{success};

    write_file($log, '');
    my @answers;
    for my $request (@requests) {
        my ($method, $path, %with) = @$request;
        my $answer  = $client->request($method, "http://127.0.0.1:$port$path", \%with);
        my $headers = $answer->{headers};
        delete $headers->{date};
        my @headers = map { "$_: " . (ref $headers->{$_} ? join '|', sort @{ $headers->{$_} } : $headers->{$_}) } sort keys %$headers;
        push @answers, join "\n", "$method $path", "$answer->{status} $answer->{reason}", @headers, '', defined $answer->{content} ? $answer->{content} : '', '';
    }
    open my $in, '<', $log or die "$log: $!";
    my $lines = do { local $/; <$in> };
    $process->stop;
    s/:$port\b/:PORT/g for @answers;
    return ($status->{content}, @answers, $lines);
}

for my $server (qw(Starman Starlet)) {
    subtest $server => sub {
        plan skip_all => "$server is not installed" if !eval "require Plack::Handler::$server; 1";
        my ($none, @original) = answers($server);
        my ($status, @accelerated) = answers($server, '-MHydrofoil::Accelerate');
        is $none, 'not loaded', 'without';
        like $status, qr/: accelerated \(/, 'and with it';
        is scalar @original, @requests + 1, 'it answers';
        is_deeply [ map {/^(\d+) /m} @original[ 0 .. $#requests ] ], [ 200, 200, 404, 302, 200, 200, 200, 200, 500, 200, 200 ], 'as it should';
        is $accelerated[$_], $original[$_], "$requests[$_][0] $requests[$_][1]" for 0 .. $#requests;
        is $accelerated[-1], $original[-1], 'and the access log';
        is scalar(() = $original[-1] =~ /\n/g), @requests - 1, 'which has a line for each request but the one of an upload cut short';
    };
}

done_testing;
