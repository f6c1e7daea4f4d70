use strict;
use warnings;
use Test::More;
use Cwd qw(abs_path);
use File::Temp;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../bench/lib";
use BenchClient qw(client_path program);
use HydroBench::Client;
use HydroBench::Folder;
use HydroBench::Proc qw(slurp);
use HydroBench::Report;
use HydroBench::Results;
use HydroBench::Run;
use HydroBench::Server;

# What goes wrong with servers, told by real servers of a few lines and a client of a few lines in place of wrk.

plan skip_all => 'reads /proc' unless -e '/proc/self/stat';
my $root = abs_path("$FindBin::Bin/..");
my $dir  = File::Temp->newdir;
local $SIG{ALRM} = sub { die "the test takes too long\n" };
alarm 240;

local $ENV{PATH} = client_path($dir);

# $answer is what the server does with a request on $client; it can see $requests, of all, and $nth, of this connection.
sub small_server {
    my ($name, $answer) = @_;
    my $code = <<'PERL';
use strict; use warnings; use IO::Socket::INET;
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], Listen => 64, ReuseAddr => 1) or die;
sub answer {
    my ($body, $status) = (@_, '200 OK');
    return "HTTP/1.1 $status\r\nContent-Type: text/plain\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
}
my $hello = answer('Hello World');
my $requests = 0;
$SIG{PIPE} = 'IGNORE';
while (1) {
    my $client = $listener->accept or next;
    my ($bytes, $nth) = ('', 0);
    READ: while (sysread $client, $bytes, 65536, length $bytes) {
        while ($bytes =~ s/\A.*?\r\n\r\n//s) { $requests++; $nth++; %ANSWER% }
    }
}
PERL
    $code =~ s/%ANSWER%/$answer/;
    return { name => $name, kind => 'psgi', command => sub { ($^X, '-e', $code, $_[0]{port}) } };
}

my $GOOD = small_server('good', 'syswrite $client, $hello;');

# The results of a measure against these servers.
sub measured {
    my ($measure, @servers) = @_;
    my $run = HydroBench::Run->new(
        root => $root, servers => \@servers, copies => {}, rounds => 1, duration => 1, repeats => 0,
        results_dir => "$dir", scenario => 'try',
    );
    return $run->measure({ name => 'm', title => 't', app => 'hello', tool => 'wrk', connections => 1, %$measure });
}

my $done = measured({}, $GOOD,
    { name => 'absent', command => sub { ('/nonexistent/server') } },
    { name => 'broken', command => sub { ($^X, '-e', 'die "no such library\n"') } },
    small_server('dies', 'exit 3 if $requests > 20; syswrite $client, $hello;'),
    small_server('fails', q{syswrite $client, $requests > 20 ? answer('Sorry', '503 No') : $hello;}),
    small_server('sometimes', q{syswrite $client, $requests % 50 ? $hello : answer('Sorry', '503 No');}),
    small_server('changes', q{syswrite $client, $requests > 20 ? answer('Hello Wurld') : $hello;}),
    small_server('shortens', q{syswrite $client, $nth > 1 ? "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n" : $hello;}),
    small_server('hangs-up', 'if ($nth > 1) { close $client; last READ } syswrite $client, $hello;'),
);
my $results = $done->{results};

subtest 'a good server has figures, and every class of errors is zero' => sub {
    my $good = $results->{good};
    is $good->{problem}, undef, 'no problem';
    is $good->{requests}, 200, 'requests';
    is $good->{req_per_s}, 200, 'requests per second';
    is $good->{error_ratio}, 0, 'error ratio';
    cmp_ok $good->{cpu_us}, '>', 0, 'CPU per request';
};

my %problem = (
    absent    => qr/^did not start|^died \(exit status 127\)/,
    broken    => qr/no such library/,
    dies      => qr/^died \(exit status 3\)/,
    fails     => qr/^answered \d+ of \d+ with an error/,
    sometimes => qr/^answered 4 of 200 with an error/,
    changes   => qr/^wrong answer after the run: other bytes than expected/,
    shortens  => qr/^answers have \d+ bytes on average/,
);
for my $name (sort keys %problem) {
    subtest "the server that $name is told as such, and is never fast" => sub {
        like $results->{$name}{problem}, $problem{$name}, 'the problem';
        ok !exists $results->{$name}{$_}, "no $_" for qw(req_per_s cpu_us latency p50_us);
        like(HydroBench::Report->measure($done), qr/^  $name +FAILED: /m, 'in the table');
    };
}

subtest 'connections that a server breaks are errors, and as a part of all requests' => sub {
    my $result = $results->{'hangs-up'};
    is $result->{problem}, undef, 'it does answer';
    is $result->{requests}, 100, 'half of them';
    is $result->{error_classes}{read}, 100, 'read errors';
    is $result->{error_ratio}, 0.5, 'error ratio';
    like(HydroBench::Report->measure($done), qr/^  hangs-up .* 50% errors/m, 'in the table');
};

subtest 'where a measure tolerates some errors, only good answers make a server fast' => sub {
    my $server = small_server('sometimes', q{syswrite $client, $requests % 50 ? $hello : answer('Sorry', '503 No');});
    my $result = measured({ tolerates => 0.05 }, $server)->{results}{sometimes};
    is $result->{problem}, undef, 'no problem';
    is $result->{req_per_s}, 196, 'good answers per second';
    is $result->{error_classes}{status}, 4, 'the others';
    is $result->{error_ratio}, 4 / 200, 'error ratio';
};

subtest 'a server that keeps to some of its connections says so beside its figures' => sub {
    my $done = measured({ connections => 2 }, { %$GOOD, blocking => 1 }, { %$GOOD, name => 'other' });
    is $done->{results}{good}{serves}, 1, 'one of two';
    is $done->{results}{other}{serves}, undef, 'one that serves all says nothing';
    like(HydroBench::Report->measure($done), qr/^  good .* serves one connection at a time/m, 'in the table');
};

subtest 'a server that goes on working without clients is started anew, so that it does not disturb the others' => sub {
    my $spins = small_server('spins', 'if ($requests == 50 && !fork) { 1 while 1 } syswrite $client, $hello;');
    my $done = measured({}, { %$spins, stop_signal => 'KILL' });
    is $done->{results}{spins}{problem}, undef, 'no problem';
    is $done->{results}{spins}{anew}, 1, 'once, after its only round';
    like(HydroBench::Report->measure($done), qr/^  spins .* went on working after its clients had left, and was started anew\b/m,
        'in the table');
};

subtest 'a client that gives no result is a problem and no figure' => sub {
    my $wrk = slurp("$dir/bin/wrk");
    program("$dir/bin/wrk", 'print "wrk: something is wrong\n"; exit 1');
    my $result = measured({}, $GOOD)->{results}{good};
    is $result->{problem}, 'wrk gave no result: wrk: something is wrong', 'what it said';
    ok !exists $result->{req_per_s}, 'no figure';
    $wrk =~ s/\A.*\n//;
    program("$dir/bin/wrk", $wrk);
};

subtest 'what the client printed is kept under its command line' => sub {
    my ($round) = @{ $results->{good}{rounds} };
    like $round->{raw}, qr{^raw/try-m-good-\d+\.txt$}, 'a file of the folder';
    my $raw = slurp("$dir/$round->{raw}");
    like $raw, qr/\A\$ \Q$round->{command}\E\n/, 'its command line';
    like $raw, qr/^  200 requests in 1\.00s/m, 'its output';
};

subtest 'a folder is read again as it was written' => sub {
    HydroBench::Folder->write("$dir", { scenarios => [{ name => 'try', measures => [$done] }], machine => { cores => 2 } });
    my $read = HydroBench::Results->load("$dir");
    is $read->{schema}, 2, 'schema';
    my $again = $read->{scenarios}[0]{measures}[0]{results};
    is $again->{good}{req_per_s}, 200, 'a figure';
    is $again->{dies}{problem}, $results->{dies}{problem}, 'a problem';
};

subtest 'answers in chunks are put together, a form is posted' => sub {
    my $server = HydroBench::Server->new(small_server('chunks', <<'PERL'), { dir => "$dir", app => 'chunks' })->start;
        last if $bytes !~ s/\Aa=1//;
        syswrite $client, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n";
        select undef, undef, undef, 0.05;
        syswrite $client, "6;x=y\r\n World\r\n0\r\n\r\n";
PERL
    my $seen;
    my $form = { type => 'application/x-www-form-urlencoded', bytes => 'a=1' };
    ok $server->wait_ready('/', sub { $seen = $_[0]; undef }, $form), 'ready' or diag $server->problem;
    is $seen->{body}, 'Hello World', 'the body';
    is $seen->{keep_alive}, 1, 'the connection lives on';
    $server->stop;
};

done_testing;
