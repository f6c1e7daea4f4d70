use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/../bench/lib";
use HydroBench::Report;
use HydroBench::Scenario;
use HydroBench::Stats qw(median spread ratio percentile);

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

subtest 'errors are told by class, and as a part of all requests' => sub {
    my $result = HydroBench::Scenario->summarize(
        { requests => 90, errors => 6, error_classes => { read => 5, timeout => 1 }, latency => { p50 => 10, 'p99.9' => 70 } },
        { requests => 100, errors => 4, error_classes => { read => 4, timeout => 0 }, latency => { p50 => 30, 'p99.9' => 90 } });
    is $result->{requests}, 190, 'requests that were answered well';
    is_deeply $result->{error_classes}, { read => 9, timeout => 1 }, 'classes';
    is $result->{error_ratio}, 10 / 200, 'errors / (requests + errors)';
    is_deeply $result->{latency}, { p50 => 20, 'p99.9' => 80 }, 'latencies are medians';
};

subtest 'what was published stands beside what was measured' => sub {
    my $measure = sub {
        my ($x, $starman, $starlet) = @_;
        return {
            measure => { name => "w$x", series => 'workers', x => $x },
            results => { starman => $starman, starlet => { req_per_s => $starlet, latency => { mean => 7 } } },
        };
    };
    my @done = (
        $measure->(1, { req_per_s => 10 }, 12),
        $measure->(6, { req_per_s => 40 }, 50),
        $measure->(16, { problem => 'died', error_ratio => 0.5 }, 100),
    );
    my $measured = sub { (HydroBench::Scenario->published([{ value => 1, @_ }], @done))[0]{measured} };
    my @starlet = (figure => 'req_per_s', server => 'starlet');
    is $measured->(measure => 'w6', @starlet), 50, 'a figure';
    is $measured->(measure => 'w6', server => 'starlet', figure => 'latency.mean'), 7, 'a latency';
    is $measured->(measure => 'w6', @starlet, than => 'starman'), 1.25, 'a ratio to another server';
    is $measured->(measure => 'w16', @starlet, than_measure => 'w6'), 2, 'a ratio to another measure';
    is $measured->(measure => 'w16', @starlet, peak => 'workers'), 16, 'where a curve is highest';
    is $measured->(measure => 'w16', figure => 'req_per_s', server => 'starman', peak => 'workers'), 6, 'without the point that failed';
    is $measured->(measure => 'w16', @starlet, than => 'starman'), undef, 'no ratio to a server that failed';
    is $measured->(measure => 'w16', server => 'starman', figure => 'error_ratio'), 0.5, 'which has errors all the same';
    is $measured->(measure => 'w1', figure => 'req_per_s', server => 'gazelle'), undef, 'a server that is not there';
    my $text = HydroBench::Report->published([HydroBench::Scenario->published(
        [{ measure => 'w6', @starlet, than => 'starman', value => 2, source => '2013-08' }], @done)]);
    like $text, qr/w6 +2\.00 +1\.25 +starlet req_per_s times that of starman: 2013-08/, 'as text';
    is(HydroBench::Report->published([]), '', 'nothing published, nothing said');
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
