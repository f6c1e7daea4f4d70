use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/../bench/lib";
use HydroBench::Report;
use HydroBench::Scenario;
use HydroBench::Stats qw(median spread ratio percentile);
use HydroBench::Wrk;

subtest 'the median is the middle value, or the mean of the two in the middle' => sub {
    is median(3, 1, 2), 2, 'odd';
    is median(10, 9, 1, 2), 5.5, 'even, sorted as numbers';
    is median(undef, 7, undef), 7, 'missing values do not count';
    is median(), undef, 'nothing has no median';
};

subtest 'the spread is the distance from smallest to largest as a part of the median' => sub {
    is spread(90, 100, 110), 0.2, 'three rounds';
    is spread(5), 0, 'one round';
    is spread(), undef, 'no rounds';
    is spread(0, 0), undef, 'a median of zero';
};

subtest 'a ratio with a missing side is missing, not an error' => sub {
    is ratio(3, 2), 1.5, 'both there';
    is ratio(undef, 2), undef, 'no value';
    is ratio(3, undef), undef, 'no base';
    is ratio(3, 0), undef, 'a base of zero';
};

subtest 'a percentile is the nearest rank' => sub {
    is percentile(50, 1 .. 10), 5, 'p50 of ten';
    is percentile(99, 1 .. 100), 99, 'p99 of a hundred';
    is percentile(99.9, 1 .. 100), 100, 'p99.9 of a hundred';
    is percentile(0, 4, 2), 2, 'p0 is the smallest';
    is percentile(100, 4, 2), 4, 'p100 is the largest';
    is percentile(50), undef, 'of nothing';
};

sub parse { return HydroBench::Wrk->parse(@_) }

my $QUIET = <<'WRK';
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

subtest 'the output of a quiet wrk run is read whole' => sub {
    my $result = parse($QUIET);
    is $result->{requests}, 162_719, 'requests';
    is $result->{seconds}, 2.1, 'seconds';
    is $result->{bytes}, 17.54 * 1024 * 1024, 'bytes';
    is $result->{req_per_s}, 81_339.82, 'requests per second';
    is $result->{errors}, 0, 'no errors';
    is_deeply $result->{latency},
        { mean => 196.05, max => 1210, p50 => 186, p75 => 230.5, p90 => 1020, p99 => 2_000_000 },
        'latencies, in microseconds';
};

subtest 'errors of every kind count' => sub {
    (my $text = $QUIET) =~ s/^(\s+\d+ requests.*\n)/$1  Socket errors: connect 1, read 20, write 300, timeout 4000\n/m;
    my $result = parse($text);
    is $result->{connect_errors}, 1, 'connect';
    is $result->{read_errors}, 20, 'read';
    is $result->{write_errors}, 300, 'write';
    is $result->{timeout_errors}, 4000, 'timeout';
    is $result->{errors}, 4321, 'their sum';

    $text =~ s/^(\s+Socket errors.*\n)/$1  Non-2xx or 3xx responses: 50000\n/m;
    $result = parse($text);
    is $result->{status_errors}, 50_000, 'answers that are errors';
    is $result->{errors}, 54_321, 'their sum with the others';
};

subtest 'a percentile that wrk could not tell is missing, not zero' => sub {
    (my $text = $QUIET) =~ s/99%    2.00s/99%    0.00us/;
    ok !exists parse($text)->{latency}{p99}, 'p99';
};

subtest 'output without a result is no result' => sub {
    is parse("unable to connect to 127.0.0.1:1 Connection refused\n"), undef, 'a refused connection';
    is parse(''), undef, 'nothing';
};

subtest 'small and large transfers keep their unit' => sub {
    for (['0.00B', 0], ['512.00B', 512], ['1.50KB', 1536], ['2.00GB', 2 * 1024**3]) {
        my ($printed, $bytes) = @$_;
        (my $text = $QUIET) =~ s/17\.54MB read/$printed read/;
        is parse($text)->{bytes}, $bytes, $printed;
    }
};

subtest 'the command line of wrk' => sub {
    is_deeply [HydroBench::Wrk->command(url => 'http://h/', connections => 16, duration => 5)],
        [qw(wrk -t 1 -c 16 -d 5s --latency http://h/)], 'plain';
    is_deeply [
        HydroBench::Wrk->command(url => 'http://h/', connections => 16, duration => 5, script => 'p.lua', script_args => [16])
        ],
        [qw(wrk -t 1 -c 16 -d 5s --latency -s p.lua http://h/ -- 16)], 'with a script and its arguments';
};

subtest 'a target is held against its figure' => sub {
    my %results = (
        hydrofoil       => { kind => 'psgi', req_per_s => 100, errors => 0 },
        'hydrofoil@old' => { kind => 'psgi', req_per_s => 99 },
        nginx           => { kind => 'web',  req_per_s => 80 },
        feersum         => { kind => 'psgi', req_per_s => 50 },
        starman         => { kind => 'psgi', req_per_s => 10 },
        broken          => { kind => 'psgi', problem   => 'died' },
    );
    my $judge = sub { HydroBench::Scenario->judge({ measure => 'm', @_ }, \%results, 'hydrofoil') };

    my $judged = $judge->(figure => 'req_per_s', at_least => 1.2, than => 'nginx');
    is $judged->{value}, 1.25, 'times another server';
    is $judged->{verdict}, 'pass', 'enough';
    is $judge->(figure => 'req_per_s', at_least => 1.3, than => 'nginx')->{verdict}, 'miss', 'not enough';
    is $judge->(figure => 'errors', at_most => 0)->{verdict}, 'pass', 'a figure of its own';

    $judged = $judge->(figure => 'req_per_s', at_least => 1.35, than => 'best psgi');
    is $judged->{against}, 'feersum', 'the best other PSGI server is neither itself nor another copy of itself';
    is $judged->{value}, 2, 'and the ratio is to that';

    is $judge->(figure => 'req_per_s', at_least => 1, than => 'broken')->{verdict}, 'not measured', 'a server that failed';
    is $judge->(figure => 'req_per_s', at_least => 1, than => 'absent')->{verdict}, 'not measured', 'a server that is absent';
    is $judge->(figure => 'cpu_us', at_most => 1.3, than => 'nginx')->{verdict}, 'not measured', 'a figure that is absent';
};

subtest 'rounds become medians, and their errors a sum' => sub {
    my $result = HydroBench::Scenario->summarize(
        { req_per_s => 10, errors => 1 }, { req_per_s => 30, errors => 0 }, { req_per_s => 20, errors => 2 });
    is $result->{req_per_s}, 20, 'median';
    is $result->{errors}, 3, 'sum';
    ok !exists $result->{cpu_us}, 'a figure nobody measured is absent';
};

subtest 'a server that failed appears as such, below the others and without figures' => sub {
    my $text = HydroBench::Report->measure({
        measure  => { name => 'm', title => 'a measure', tool => 'wrk' },
        left_out => { floor => 'does not serve that' },
        results  => {
            a     => { kind => 'psgi', problem => 'answered 9 of 10 with an error', errors => 9 },
            nginx => { kind => 'web', req_per_s => 123_456, errors => 0, keep_alive => 1 },
        },
    });
    like $text, qr/nginx\s+123,456.*\n\s+a\s+FAILED: answered 9 of 10 with an error\n/, 'failed';
    like $text, qr/left out: floor \(does not serve that\)/, 'left out by name';
};

done_testing;
