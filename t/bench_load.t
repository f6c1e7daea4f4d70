use strict;
use warnings;
use Test::More;
use Cwd qw(abs_path);
use File::Temp;
use FindBin;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use lib "$FindBin::Bin/../bench/lib";
use HydroBench::Load;
use HydroBench::Run;
use HydroBench::Scenario;
use HydroBench::Servers;
use HydroBench::Stats qw(percentile);
use HydroBench::Syscalls;

plan skip_all => 'the load generator needs epoll' unless $^O eq 'linux';
my $cc = $ENV{CC} || HydroBench::Servers::find_program('cc') or plan skip_all => 'there is no C compiler';
my $root = abs_path("$FindBin::Bin/..");
my $dir  = File::Temp->newdir;
my $program = "$dir/load";
system(split(' ', $cc), qw(-std=c11 -O1 -Wall -Wextra -Werror -o), $program, "$root/bench/load.c", '-lm') == 0
    or plan skip_all => 'the load generator does not compile here';
local $SIG{ALRM} = sub { die "the test takes too long\n" };
alarm 120;

# A server of one process that answers whatever is readable in turn; what a path does is in its name.
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 64) or die "no port: $!";
my $port = $listener->sockport;
defined(my $server = fork) or die "cannot fork: $!";
if (!$server) {
    $SIG{PIPE} = 'IGNORE';
    alarm 120;
    my $select = IO::Select->new($listener);
    my ($stalled, %bytes);
    while (1) {
        for my $socket ($select->can_read) {
            if ($socket == $listener) { $select->add($listener->accept); next }
            if (!sysread $socket, $bytes{$socket}, 65536, length($bytes{$socket} || '')) {
                $select->remove($socket);
                delete $bytes{$socket};
                close $socket;
                next;
            }
            while ($bytes{$socket} =~ s{\AGET (/\w*)\?(\d+) .*?\r\n\r\n}{}s) {
                my ($path, $id) = ($1, $2);
                my $answer = sub { "HTTP/1.1 $_[0]\r\nContent-Length: 2\r\nX-Request: $_[1]\r\n$_[2]\r\nok" };
                select undef, undef, undef, 0.6 if $path eq '/stall' && $id > 3 && !$stalled++;
                next if $path eq '/never';
                my $text = $path eq '/twice' ? $answer->('200 OK', $id, '') x 2
                    : $path eq '/error'      ? $answer->('503 No', $id, '')
                    : $path eq '/other'      ? $answer->('200 OK', $id + 1, '')
                    : $path eq '/close'      ? $answer->('200 OK', $id, "Connection: close\r\n")
                    : $path eq '/short'      ? substr $answer->('200 OK', $id, ''), 0, -1
                    : $path eq '/reset'      ? ''
                    :                          $answer->('200 OK', $id, '');
                syswrite $socket, $text;
                if ($path =~ /short|reset|close/) {
                    $select->remove($socket);
                    delete $bytes{$socket};
                    close $socket;
                    last;
                }
            }
        }
    }
}
close $listener;
END { if ($server) { my $status = $?; kill KILL => $server; waitpid $server, 0; $? = $status } }

sub load {
    my (%options) = @_;
    my @command = HydroBench::Load->command(program => $program, port => $port, warm_up => 0, duration => 0.3, drain => 2, %options);
    my $text = HydroBench::Run::output(\@command, 30);
    my $result = HydroBench::Load->parse($text) or die "no result: $text\n";
    return $result;
}

sub records {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!";
    return map { chomp; my %r; @r{qw(group conn path fate due sent done)} = split /\t/; \%r } <$in>;
}

subtest 'a timetable is kept: as many requests as were due, each answered' => sub {
    my $group = load(duration => 0.5, groups => [{ name => 'g', connections => 5, every => 10 }])->{groups}[0];
    is $group->{count}, 250, 'count';
    is $group->{answered}, 250, 'answered';
    is $group->{connects}, 5, 'on five connections';
    is $group->{$_}, 0, $_ for qw(failed unanswered resets twice mismatched short_answers status_errors connect_errors starved);
};

subtest 'mean, percentiles and maximum are those of the requests it lists' => sub {
    my $group = load(records => "$dir/records", groups => [{ connections => 3, poisson => 5, path => ['/a', '/b'] }])->{groups}[0];
    my @records = records("$dir/records");
    my @us = map { $_->{done} - $_->{due} } @records;
    is $group->{count}, @us, 'count';
    my $sum = 0;
    $sum += $_ for @us;
    my $near = sub { abs($_[0] - $_[1]) < 0.01 };
    ok $near->($group->{mean_us}, $sum / @us), 'mean' or diag "$group->{mean_us}";
    ok $near->($group->{"p${_}_us"}, percentile($_, @us)), "p$_" for 50, 90, 99, 99.9;
    ok $near->($group->{max_us}, percentile(100, @us)), 'maximum';
    my %paths = map { $_->{path} => 1 } @records;
    is join(' ', sort keys %paths), '/a /b', 'both paths were asked for';
};

subtest 'latency counts from when a request was due, not from when it could be sent' => sub {
    my $group = load(duration => 0.8, records => "$dir/records", groups => [{ path => '/stall', every => 20 }])->{groups}[0];
    my @late = grep { $_->{done} - $_->{due} > 100_000 } records("$dir/records");
    cmp_ok scalar @late, '>=', 10, 'all that were due while the server stood still are late';
    cmp_ok $group->{max_us}, '>=', 500_000, 'the first by nearly all of it';
    ok !(grep { $_->{sent} < $_->{due} } @late), 'none was sent before it was due';
};

subtest 'requests without an answer count, with the time they waited' => sub {
    my $group = load(duration => 0.2, drain => 1.2, groups => [{ path => '/never', connections => 2, every => 50 }])->{groups}[0];
    is $group->{unanswered}, $group->{count}, 'none is answered';
    cmp_ok $group->{count}, '>=', 8, 'those in the queues count as well';
    cmp_ok $group->{p50_us}, '>=', 1_000_000, 'latency';
    is $group->{starved}, 2, 'both connections starved';
};

subtest 'what goes wrong is counted as what it is' => sub {
    my %groups = map { $_->{name} => $_ } @{
        load(groups => [map { { name => $_, path => "/$_", every => 50 } } qw(twice error other short reset close)])->{groups}
    };
    my $n = $groups{close}{count};
    cmp_ok $n, '>=', 5, 'requests';
    cmp_ok $groups{twice}{twice}, '>=', $n - 1, 'answered twice';
    is $groups{error}{status_errors}, $n, 'status';
    is $groups{other}{mismatched}, $n, 'the answer to another request';
    is $groups{short}{short_answers}, $n, 'cut short';
    is $groups{reset}{resets}, $n, 'closed without an answer';
    is $groups{reset}{failed}, $n, 'and so failed';
    is $groups{close}{answered}, $n, 'a connection that ends as announced is no error';
    is $groups{close}{failed} + $groups{close}{resets}, 0, 'at all';
};

subtest 'a port where nobody listens is an error for each request' => sub {
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1);
    my $closed = $socket->sockport;
    close $socket;
    my $group = load(port => $closed, drain => 0.5, groups => [{ every => 50 }])->{groups}[0];
    cmp_ok $group->{connect_errors}, '>', 0, 'connect errors';
    is $group->{answered}, 0, 'no answers';
};

subtest 'connections ask again as soon as they are answered, or are new for each request' => sub {
    my ($keep, $fresh) = @{ load(groups => [{ connections => 2 }, { every => 20, fresh => 1 }])->{groups} };
    cmp_ok $keep->{answered}, '>', 20, 'a loop';
    is $keep->{connects}, 2, 'on its connections';
    is $fresh->{answered}, $fresh->{count}, 'new ones are answered';
    cmp_ok $fresh->{connects}, '>=', $fresh->{count}, 'each has its own';
};

subtest 'the ideal queue serves first come, first served' => sub {
    my @service = (5, 50);
    my $group = load(duration => 1, records => "$dir/records",
        groups => [{ connections => 64, rate => 100, path => ['/a', '/b'], service => \@service, workers => 3 }])->{groups}[0];
    my @free = (0) x 3;
    my @us;
    my %service = ('/a' => 5_000, '/b' => 50_000);
    for my $r (sort { $a->{due} <=> $b->{due} } records("$dir/records")) {
        @free = sort { $a <=> $b } @free;
        my $start = $free[0] > $r->{due} ? $free[0] : $r->{due};
        $free[0] = $start + $service{ $r->{path} };
        push @us, $free[0] - $r->{due};
    }
    is $group->{ideal}{count}, @us, 'count';
    ok abs($group->{ideal}{p50_us} - percentile(50, @us)) < 0.1, 'p50';
    ok abs($group->{ideal}{max_us} - percentile(100, @us)) < 0.1, 'maximum';
    my $figures = HydroBench::Load->figures({ groups => [{ %$group, name => 'mix', mean_us => 3, ideal => { mean_us => 2, p99_us => 1 } }] });
    is $figures->{mix_mean_to_ideal}, 1.5, 'the ratio to it';
};

subtest 'of many rounds the worst counts where a promise is for each of them' => sub {
    my $result = HydroBench::Scenario->summarize(
        { errors => 0, worst => { fast_p99_us => 3, slow_per_s => 19.9, unanswered => 0 } },
        { errors => 0, worst => { fast_p99_us => 7, slow_per_s => 19.6, unanswered => 1 } },
        { errors => 0, worst => { fast_p99_us => 2, slow_per_s => 20.0, unanswered => 0 } });
    is $result->{fast_p99_us}, 7, 'the longest time';
    is $result->{slow_per_s}, 19.6, 'the lowest rate';
    is $result->{unanswered}, 1, 'the most without an answer';
};

subtest 'a plan that makes no sense is refused with the reason' => sub {
    for (['every=5,rate=5' => qr/one of every/], ['colour=red' => qr/no 'colour'/], ['path=x' => qr/path/], ['every=abc' => qr/no number/]) {
        my ($group, $why) = @$_;
        my $text = HydroBench::Run::output([$program, '--port', $port, $group], 10);
        like $text, $why, $group;
        is(HydroBench::Load->parse($text), undef, 'and is no result');
    }
};

subtest 'the table of strace is read whole' => sub {
    my $calls = HydroBench::Syscalls->parse(<<'TABLE');
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.01    0.100000           5     20000           write
 39.99    0.050000           5     10000        12 epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    0.150000           5     30000        12 total
TABLE
    is_deeply $calls, { write => 20_000, epoll_wait => 10_000, total => 30_000 }, 'with and without errors';
    is(HydroBench::Syscalls->parse('strace: attach: Operation not permitted'), undef, 'what is no table');
};

done_testing;
