use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;
use Hydrofoil::Test;

# Perl's own clients, HTTP::Tiny and LWP.

delete @ENV{qw(http_proxy HTTP_PROXY no_proxy)};
my $server = start_server(app => app_file('clients.psgi'));

SKIP: {
    skip 'HTTP::Tiny is not installed', 1 unless eval { require HTTP::Tiny; 1 };
    check 'HTTP::Tiny with and without keep-alive' => sub {
        for my $keep (1, 0) {
            my $http = HTTP::Tiny->new(keep_alive => $keep, timeout => 20);
            my $wrong = grep { $http->get($server->url("/echo?$_"))->{content} ne "GET /echo?$_\n" } 1 .. 50;
            is $wrong, 0, "keep_alive => $keep: GET";
            my $body = 'posted ' x 20_000;
            is $http->post($server->url('/echo'), {content => $body})->{content}, "POST /echo\n$body", 'POST with a length';
            my @pieces = map { "piece $_ " } 1 .. 100;
            my $whole = join '', @pieces;
            is $http->post($server->url('/echo'), {content => sub { shift @pieces }})->{content}, "POST /echo\n$whole",
                'POST in chunks';
            is $http->get($server->url('/stream'))->{content}, join('', map { "part $_\n" } 1 .. 10), 'an answer in chunks';
            is $http->head($server->url('/echo'))->{status}, 200, 'HEAD';
            is $http->get($server->url('/204'))->{status}, 204, 'an answer without content';
            is length $http->get($server->url('/large'))->{content}, 3_000_000, 'a large answer';
            is $http->get($server->url('/dies'))->{status}, 500, 'a 500';
            my $got = 0;
            $http->get($server->url('/stream'), {data_callback => sub { $got += length $_[0] }});
            is $got, 71, 'a stream by its pieces';
        }
    };
}

SKIP: {
    skip 'LWP is not installed', 1 unless eval { require LWP::UserAgent; require HTTP::Request; 1 };
    check 'LWP with and without keep-alive' => sub {
        for my $keep (4, 0) {
            my $ua = LWP::UserAgent->new(keep_alive => $keep, timeout => 20);
            my $wrong = grep { $ua->get($server->url("/echo?$_"))->content ne "GET /echo?$_\n" } 1 .. 50;
            is $wrong, 0, "keep_alive => $keep: GET";
            my $body = 'posted ' x 20_000;
            is $ua->post($server->url('/echo'), Content => $body)->content, "POST /echo\n$body", 'POST';
            my @pieces = map { "piece $_ " } 1 .. 100;
            my $whole = join '', @pieces;
            my $request = HTTP::Request->new(PUT => $server->url('/echo'), [], sub { my $p = shift @pieces; defined $p ? $p : '' });
            is $ua->request($request)->content, "PUT /echo\n$whole", 'PUT in chunks';
            is $ua->get($server->url('/stream'))->content, join('', map { "part $_\n" } 1 .. 10), 'an answer in chunks';
            is $ua->head($server->url('/echo'))->code, 200, 'HEAD';
            is $ua->get($server->url('/204'))->code, 204, 'an answer without content';
            is length $ua->get($server->url('/large'))->content, 3_000_000, 'a large answer';
            is $ua->get($server->url('/dies'))->code, 500, 'a 500';
        }
    };
}

done_testing;
