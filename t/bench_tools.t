use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/../bench/lib";
use HydroBench::Ab;
use HydroBench::Body;
use HydroBench::H2load;
use HydroBench::Wrk;

# The sample outputs below are those of small runs, with figures changed so that each occurs once.

sub wrk    { HydroBench::Wrk->parse(@_) }
sub ab     { HydroBench::Ab->parse(@_) }
sub h2load { HydroBench::H2load->parse(@_) }

my $WRK = <<'WRK';
Running 2s test @ http://127.0.0.1:7105/
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   196.05us   48.23us   1.21ms   88.23%
    Req/Sec    81.94k     6.76k   88.53k    95.00%
  Latency Distribution
     50%  186.00us
     75%  230.50us
     90%    1.02ms
     99%    2.00s 
  162719 requests in 2.10s, 17.54MB read
Requests/sec:  81339.82
Transfer/sec:      8.77MB
WRK

my $WRK_EXACT = '{"requests":162719,"duration":2000484,"bytes":18396213,"connect":1,"read":20,"write":300,"timeout":4000,'
    . '"status":50000,"mean":196.047,"max":1212,"p50":186,"p75":230,"p90":1019,"p99":1100,"p99.9":1200}' . "\n";

subtest 'wrk: a quiet run is read whole' => sub {
    my $result = wrk($WRK);
    is $result->{requests}, 162_719, 'requests';
    is $result->{answers}, 162_719, 'answers';
    is $result->{bytes}, 17.54 * 1024 * 1024, 'bytes';
    cmp_ok abs($result->{req_per_s} - 81_339.82), '<', 0.01, 'requests per second';
    cmp_ok abs($result->{seconds} - 2.0005), '<', 0.001, 'seconds, less rounded than they are printed';
    is $result->{errors}, 0, 'no errors';
    is_deeply $result->{latency},
        { mean => 196.05, max => 1210, p50 => 186, p75 => 230.5, p90 => 1020, p99 => 2_000_000 },
        'latencies, in microseconds';
};

subtest 'wrk: errors of every class count, and answers that are errors are no requests' => sub {
    (my $text = $WRK) =~ s/^(\s+\d+ requests.*\n)/$1  Socket errors: connect 1, read 20, write 300, timeout 4000\n/m;
    my $result = wrk($text);
    is_deeply $result->{error_classes}, { connect => 1, read => 20, write => 300, timeout => 4000, status => 0 }, 'classes';
    is $result->{errors}, 4321, 'their sum';

    $text =~ s/^(\s+Socket errors.*\n)/$1  Non-2xx or 3xx responses: 50000\n/m;
    $result = wrk($text);
    is $result->{error_classes}{status}, 50_000, 'answers that are errors';
    is $result->{errors}, 54_321, 'the sum with them';
    is $result->{requests}, 112_719, 'the other answers';
    cmp_ok $result->{req_per_s}, '<', 56_400, 'are what is fast';
};

subtest 'wrk: the line of bench/wrk.lua is exact and has the percentiles that wrk does not print' => sub {
    my $result = wrk($WRK . $WRK_EXACT);
    is $result->{bytes}, 18_396_213, 'bytes';
    is $result->{seconds}, 2.000484, 'seconds';
    is $result->{latency}{'p99.9'}, 1200, 'p99.9';
    is $result->{latency}{p99}, 1100, 'p99';
    is $result->{latency}{mean}, 196.047, 'mean';
    is $result->{error_classes}{read}, 20, 'errors';
    is $result->{requests}, 112_719, 'requests';
};

subtest 'wrk: a percentile that it could not tell is missing, not zero' => sub {
    (my $text = $WRK) =~ s/99%    2.00s/99%    0.00us/;
    ok !exists wrk($text)->{latency}{p99}, 'as printed';
    (my $exact = $WRK_EXACT) =~ s/"p99":1100/"p99":0/;
    ok !exists wrk($WRK . $exact)->{latency}{p99}, 'in the exact line';
};

subtest 'wrk: a run without an answer is a result without requests' => sub {
    (my $text = $WRK) =~
        s/^  162719 requests in 2.10s, 17.54MB read\nRequests.*/  0 requests in 1.00s, 0.00B read\nRequests\/sec:      0.00/m;
    my $result = wrk("$text\n");
    is $result->{requests}, 0, 'requests';
    is $result->{req_per_s}, 0, 'per second';
};

subtest 'wrk: output without a result is no result' => sub {
    is wrk("unable to connect to 127.0.0.1:1 Connection refused\n"), undef, 'a refused connection';
    is wrk(''), undef, 'nothing';
};

subtest 'wrk: small and large transfers keep their unit' => sub {
    for (['0.00B', 0], ['512.00B', 512], ['1.50KB', 1536], ['2.00GB', 2 * 1024**3]) {
        my ($printed, $bytes) = @$_;
        (my $text = $WRK) =~ s/17\.54MB read/$printed read/;
        is wrk($text)->{bytes}, $bytes, $printed;
    }
};

subtest 'wrk: its command line' => sub {
    my @url = (url => 'http://h/', connections => 16, duration => 5);
    is_deeply [HydroBench::Wrk->command(@url)], [qw(wrk -t 1 -c 16 -d 5s --latency http://h/)], 'plain';
    is_deeply [HydroBench::Wrk->command(@url, threads => 4, script => 'w.lua', pipeline => 16)],
        [qw(wrk -t 4 -c 16 -d 5s --latency -s w.lua http://h/ -- pipeline=16)], 'threads, and requests in one write';
    is_deeply [HydroBench::Wrk->command(@url, script => 'w.lua', post_file => '/b', post_type => 'a/b; c=d')],
        [qw(wrk -t 1 -c 16 -d 5s --latency -s w.lua http://h/ -- file=/b), 'type=a/b; c=d'], 'a form';
};

my $AB = <<'AB';
This is ApacheBench, Version 2.3 <$Revision$>
Benchmarking 127.0.0.1 (be patient).....done


Server Software:        Hydrofoil
Server Hostname:        127.0.0.1
Server Port:            8899

Document Path:          /
Document Length:        11 bytes

Concurrency Level:      3
Time taken for tests:   0.145 seconds
Complete requests:      60
Failed requests:        0
Total transferred:      4560 bytes
HTML transferred:       660 bytes
Requests per second:    414.59 [#/sec] (mean)
Time per request:       7.236 [ms] (mean)
Time per request:       2.412 [ms] (mean, across all concurrent requests)
Transfer rate:          30.77 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.0      0       0
Processing:     3    7   0.7      7       8
Waiting:        0    5   0.7      5       5
Total:          3    7   0.6      7       8

Percentage of the requests served within a certain time (ms)
  50%      6
  66%      7
  75%      7
  80%      7
  90%      8
  95%      9
  98%     10
  99%     11
 100%     12 (longest request)
AB

subtest 'ab: a quiet run is read whole' => sub {
    my $result = ab($AB);
    is $result->{requests}, 60, 'requests';
    is $result->{seconds}, 0.145, 'seconds';
    is $result->{bytes}, 4560, 'bytes';
    cmp_ok abs($result->{req_per_s} - 60 / 0.145), '<', 0.01, 'requests per second';
    is $result->{errors}, 0, 'no errors';
    is $result->{latency}{mean}, 7236, 'mean, of a request and not across all';
    is $result->{latency}{p50}, 6000, 'p50';
    is $result->{latency}{p99}, 11_000, 'p99';
    is $result->{latency}{max}, 12_000, 'maximum';
    my $csv = "Percentage served,Time in ms\n0,2.770\n50,6.123\n99,10.999\n100,11\n";
    is ab($AB, $csv)->{latency}{p99}, 10_999, 'finer from its file';
};

subtest 'ab: failures of every class count, and an answer of the wrong status and length once' => sub {
    my $failed = "Failed requests:        22\n   (Connect: 1, Receive: 2, Length: 15, Exceptions: 4)\n";
    (my $text = $AB) =~ s/^Failed requests: .*\n/${failed}Write errors:           3\nNon-2xx responses:      10\n/m;
    my $result = ab($text);
    is_deeply $result->{error_classes},
        { connect => 1, read => 2, length => 5, exceptions => 4, write => 3, status => 10, timeout => 0 }, 'classes';
    is $result->{errors}, 25, 'their sum';
    is $result->{requests}, 60 - 2 - 5 - 4 - 10, 'the other answers';
};

subtest 'ab: a run that it gave up is no result' => sub {
    my ($begin) = $AB =~ /(.*?\(be patient\))/s;
    is ab("$begin...apr_socket_recv: Connection refused (111)\nTotal of 3 requests completed\n"), undef, 'refused connections';
    is ab("$begin...apr_pollset_poll: The timeout specified has expired (70007)\n"), undef, 'no answers';
};

subtest 'ab: its command line' => sub {
    is_deeply [HydroBench::Ab->command(url => 'http://h/', connections => 30, requests => 30_000, duration => 5)],
        [qw(ab -q -c 30 -n 30000 http://h/)], 'a number of requests';
    is_deeply [HydroBench::Ab->command(url => 'http://h/', connections => 1, duration => 5, keep_alive => 1, csv => 'f')],
        [qw(ab -q -c 1 -k -t 5 -n 1000000 -e f http://h/)], 'a time, keep-alive';
    is_deeply [HydroBench::Ab->command(url => 'http://h/', connections => 1, requests => 2, post_file => '/b', post_type => 'a/b')],
        [qw(ab -q -c 1 -n 2 -p /b -T a/b http://h/)], 'a form';
};

my $H2LOAD = <<'H2LOAD';
starting benchmark...
spawning thread #0: 3 total client(s). Timing-based test with 0s of warm-up time and 1s of main duration for measurements.
Application protocol: http/1.1

finished in 1.25s, 456.00 req/s, 33.84KB/s
requests: 500 total, 511 started, 500 done, 500 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 490 2xx, 10 3xx, 0 4xx, 0 5xx
traffic: 33.84KB (34656) total, 16.92KB (17328) headers (space savings 0.00%), 4.90KB (5016) data
                     min         max         mean         sd        +/- sd
time for request:      323us     50.52ms     25.98ms      3.61ms    94.96%
time for connect:        6us        29us        19us        11us    66.67%
time to 1st byte:      353us     44.01ms     20.71ms     21.98ms    66.67%
req/s           :     147.91      155.90      151.91        3.99    66.67%
H2LOAD

subtest 'h2load: a quiet run is read whole' => sub {
    my $result = h2load($H2LOAD);
    is $result->{requests}, 500, 'requests';
    is $result->{seconds}, 1.25, 'seconds';
    is $result->{req_per_s}, 400, 'requests per second';
    is $result->{bytes}, 34_656, 'bytes';
    is $result->{errors}, 0, 'no errors';
    is_deeply $result->{latency}, { mean => 25_980, max => 50_520 }, 'the latencies that it tells';
};

subtest 'h2load: answers that are errors, broken connections and timeouts count, each once' => sub {
    (my $text = $H2LOAD) =~
        s/^requests: .*/requests: 500 total, 511 started, 490 done, 470 succeeded, 30 failed, 10 errored, 3 timeout/m;
    $text =~ s/^status codes: .*/status codes: 470 2xx, 0 3xx, 5 4xx, 15 5xx/m;
    my $result = h2load($text);
    is_deeply $result->{error_classes}, { connect => 0, read => 7, write => 0, timeout => 3, status => 20 }, 'classes';
    is $result->{errors}, 30, 'as many as failed';
    is $result->{requests}, 470, 'the other answers';
};

subtest 'h2load: a server that refuses every connection is a result without requests' => sub {
    my $result = h2load(<<'H2LOAD');
finished in 664us, 0.00 req/s, 0B/s
requests: 60 total, 0 started, 0 done, 0 succeeded, 60 failed, 60 errored, 0 timeout
status codes: 0 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 0B (0) total, 0B (0) headers (space savings 0.00%), 0B (0) data
time for request:        0us         0us         0us         0us     0.00%
H2LOAD
    is $result->{requests}, 0, 'requests';
    is $result->{errors}, 60, 'errors';
    is_deeply $result->{latency}, {}, 'no latencies';
    is h2load("h2load: unknown option\n"), undef, 'and without its summary no result';
};

subtest 'h2load: its command line' => sub {
    is_deeply [HydroBench::H2load->command(url => 'http://h/', connections => 15, threads => 5, duration => 10)],
        [qw(h2load --h1 -t 5 -c 15 -D 10 http://h/)], 'a time';
    is_deeply [HydroBench::H2load->command(url => 'http://h/', connections => 1, requests => 9, pipeline => 16)],
        [qw(h2load --h1 -t 1 -c 1 -n 9 -m 16 http://h/)], 'a number of requests, several in flight';
};

subtest 'forms are encoded as browsers do it' => sub {
    my ($type, $bytes) = HydroBench::Body->encode({ urlencoded => [foo => 'a b', 'q&' => "\x{e9}=+~"] });
    is $type, 'application/x-www-form-urlencoded', 'type';
    is $bytes, 'foo=a+b&q%26=%E9%3D%2B%7E', 'names and values';

    ($type, $bytes) = HydroBench::Body->encode({
        multipart => [foo => 'bar', f => { filename => 'x.png', type => 'image/png', size => 9 }],
    });
    my ($boundary) = $type =~ m{^multipart/form-data; boundary=(\S+)$} or fail 'a boundary';
    my @parts = split /--\Q$boundary\E/, $bytes;
    is scalar @parts, 4, 'two parts, between boundaries';
    is $parts[1], qq{\r\nContent-Disposition: form-data; name="foo"\r\n\r\nbar\r\n}, 'a field';
    my $head = qq{\r\nContent-Disposition: form-data; name="f"; filename="x.png"\r\nContent-Type: image/png\r\n\r\n};
    like $parts[2], qr{\A\Q$head\E.{9}\r\n\z}s, 'an upload';
    is $parts[3], "--\r\n", 'the end';
};

done_testing;
