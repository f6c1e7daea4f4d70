use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Config;
use Test::More;
use Hydrofoil::Test;
use Hydrofoil::TestStandby;

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

# What applications do with processes, signals and threads, all while the standby thread serves the worker's other
# connections. Each piece of code lasts longer than the grace time; what it returns is the answer's text.
my @codes = (
    [ 'a child that calls exit', 'status 768', <<'CODE' ],
        my $pid = fork;
        if (!$pid) { $nap->(); exit 3 }
        waitpid $pid, 0;
        "status $?";
CODE
    [ 'a child that calls POSIX::_exit', 'status 1024', <<'CODE' ],
        my $pid = fork;
        if (!$pid) { $nap->(); POSIX::_exit(4) }
        waitpid $pid, 0;
        "status $?";
CODE
    [ 'a child that execs', 'status 1792', <<'CODE' ],
        my $pid = fork;
        if (!$pid) { $nap->(); exec '/bin/sh', '-c', 'exit 7' }
        waitpid $pid, 0;
        "status $?";
CODE
    [ 'a child that returns from the application', 'status 256', <<'CODE' ],
        my $pid = fork;
        if (!$pid) { $nap->(); return 'from the child' }
        waitpid $pid, 0;
        "status $?";
CODE
    [ 'a child that dies', 'status 256', <<'CODE' ],
        my $pid = fork;
        if (!$pid) { $nap->(); die "in the child\n" }
        waitpid $pid, 0;
        "status $?";
CODE
    [ 'a child that forks', 'status 512 from 1280', <<'CODE' ],
        pipe my $reader, my $writer;
        my $pid = fork;
        if (!$pid) {
            my $grandchild = fork;
            if (!$grandchild) { $nap->(); exit 5 }
            waitpid $grandchild, 0;
            syswrite $writer, $?;
            exit 2;
        }
        close $writer;
        my $said = <$reader>;
        waitpid $pid, 0;
        "status $? from $said";
CODE
    [ 'ten children at a time, reaped in any order', 'ten of 45', <<'CODE' ],
        my %children;
        for my $n (0 .. 9) {
            my $pid = fork;
            if (!$pid) { Time::HiRes::sleep(0.002 * (10 - $n)); POSIX::_exit($n) }
            $children{$pid} = $n;
        }
        my $sum = 0;
        while (%children) {
            my $pid = waitpid -1, 0;
            last if $pid < 0;
            $sum += $? >> 8 if defined delete $children{$pid};
        }
        keys %children ? 'some are left' : "ten of $sum";
CODE
    [ 'system()', 'status 1280', q{ system 'sleep 0.05; exit 5'; "status $?" } ],
    [ 'backticks', 'hello', q{ my $said = `sleep 0.05; echo hello`; chomp $said; $said } ],
    [ 'open "-|" with a command', 'one two, 768', <<'CODE' ],
        open my $in, '-|', '/bin/sh', '-c', 'echo one; sleep 0.05; echo two; exit 3' or die $!;
        chomp(my @lines = <$in>);
        close $in;
        "@lines, $?";
CODE
    [ 'open "|-" with a command', '768', <<'CODE' ],
        open my $out, '|-', '/bin/sh', '-c', 'read line; sleep 0.05; test "$line" = go && exit 3' or die $!;
        print {$out} "go\n";
        close $out;
        $?;
CODE
    [ 'open "-|" that forks', 'from the child', <<'CODE' ],
        my $pid = open my $in, '-|';
        if (!$pid) { $nap->(); print 'from the child'; exit 0 }
        my $said = <$in>;
        close $in;
        $said;
CODE
    [ 'alarm() and die in its handler', "timed out\n", <<'CODE' ],
        my $left = eval {
            local $SIG{ALRM} = sub { die "timed out\n" };
            Time::HiRes::alarm(0.1);
            select undef, undef, undef, 30;
            1;
        };
        $left ? 'not interrupted' : $@;
CODE
    [ 'alarm() in a loop', "timed out\n", <<'CODE' ],
        eval {
            local $SIG{ALRM} = sub { die "timed out\n" };
            Time::HiRes::alarm(0.1);
            my $until = time + 30;
            1 while time < $until;
            1;
        } ? 'not interrupted' : $@;
CODE
    [ 'a sleep that nothing interrupts', 'whole', <<'CODE' ],
        my $start = Time::HiRes::time();
        sleep 1;
        Time::HiRes::time() - $start > 0.9 ? 'whole' : 'interrupted';
CODE
    [ 'a select that nothing interrupts', '0', q{ my $n = select undef, undef, undef, 0.2; $n } ],
    [ 'local $SIG{TERM}', 'caught TERM', <<'CODE' ],
        my $caught = 'nothing';
        local $SIG{TERM} = sub { $caught = "caught $_[0]" };
        $nap->();
        kill TERM => $$;
        $nap->();
        $caught;
CODE
    [ 'local $SIG{CHLD}', 'caught 3', <<'CODE' ],
        my $caught = 0;
        local $SIG{CHLD} = sub { $caught++ while waitpid(-1, POSIX::WNOHANG()) > 0 };
        for (1 .. 3) {
            my $pid = fork;
            POSIX::_exit(0) if !$pid;
        }
        my $until = time + 20;
        Time::HiRes::sleep(0.01) while $caught < 3 && time < $until;
        "caught $caught";
CODE
    [ 'local $SIG{CHLD} = "IGNORE"', 'no child is left: -1', <<'CODE' ],
        local $SIG{CHLD} = 'IGNORE';
        my $pid = fork;
        POSIX::_exit(0) if !$pid;
        $nap->();
        'no child is left: ' . waitpid $pid, 0;
CODE
    [ 'SIGCHLD, which the server has not ignored', 'status 512', <<'CODE' ],
        my $pid = fork;
        POSIX::_exit(2) if !$pid;
        $nap->();
        waitpid $pid, 0;
        "status $?";
CODE
    [ 'signals in programs that it runs', 'PIPE is not ignored, 0 are blocked', <<'CODE' ],
        $nap->();
        my $status = `cat /proc/self/status`;
        my ($ignored) = $status =~ /^SigIgn:\s*([0-9a-f]+)/m;
        my ($blocked) = $status =~ /^SigBlk:\s*0*([0-9a-f]+)/m;
        'PIPE is ' . (hex(substr $ignored, -4) & 1 << 12 ? '' : 'not ') . "ignored, $blocked are blocked";
CODE
    [ 'a pipe whose reader goes away', 'ended by signal 13', <<'CODE' ],
        $nap->();
        open my $in, '-|', 'yes' or die $!;
        sysread $in, my $piece, 10;
        close $in;
        "ended by signal " . ($? & 127);
CODE
    [ 'descriptors in programs that it runs', 'none but its own', <<'CODE' ],
        $nap->();
        my $links = `ls -l /proc/self/fd`;
        my @left = grep { / (\d+) -> / && !$inherited{$1} && !m{ -> /proc/\d+/fd$} } split /\n/, $links;
        @left ? "left open: @left" : 'none but its own';
CODE
    [ 'descriptors in a program that a child execs', 'none but its own', <<'CODE' ],
        open my $in, '-|' or do { exec 'ls', '-l', '/proc/self/fd' };
        my @left = grep { / (\d+) -> / && !$inherited{$1} && !m{ -> /proc/\d+/fd$} } <$in>;
        $nap->();
        @left ? "left open: @left" : 'none but its own';
CODE
    [ 'a flood of signals', '1000', <<'CODE' ],
        my $n = 0;
        local $SIG{USR2} = sub { $n++ };
        for (1 .. 1000) { kill USR2 => $$; Time::HiRes::usleep(50) if $_ % 10 == 0 }
        $n;
CODE
);

push @codes, [ 'DBI with SQLite', '500000500000 of 1000000, 3 rows', <<'CODE' ] if eval { require DBI; require DBD::SQLite; 1 };
        require DBI;
        my $db = DBI->connect('dbi:SQLite:dbname=:memory:', '', '', { RaiseError => 1 });
        my ($sum, $n) = $db->selectrow_array('WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 1000000)
            SELECT sum(x), count(*) FROM c');
        $db->do('CREATE TABLE t (x)');
        $db->do('INSERT INTO t VALUES (?)', undef, $_) for 1 .. 3;
        $nap->();
        "$sum of $n, " . $db->selectrow_array('SELECT count(*) FROM t') . ' rows';
CODE

push @codes, [ 'DBI', '3 rows', <<'CODE' ] if eval { require DBI; require DBD::Mem; 1 };
        require DBI;
        my $db = DBI->connect('dbi:Mem:', '', '', { RaiseError => 1 });
        $db->do('CREATE TABLE t (x INTEGER)');
        $db->do("INSERT INTO t VALUES ($_)") for 1 .. 3;
        $nap->();
        my $rows = $db->selectall_arrayref('SELECT x FROM t');
        $db->do('DROP TABLE t');
        scalar(@$rows) . ' rows';
CODE

push @codes, [ 'threads', '42 and 43', <<'CODE' ] if $Config{useithreads};
        require threads;
        my @threads = map { my $n = $_; threads->create(sub { $nap->(); 40 + $n }) } 2, 3;
        join ' and ', map { $_->join } @threads;
CODE

my $cases = join '', map { "    sub {\n$codes[$_][2]\n    },\n" } 0 .. $#codes;

# What this test was started with and hands on.
my %inherited = map { $_ => 1 } `ls -l /proc/self/fd` =~ m{ (\d+) -> (?!/proc/\d+/fd$)}mg;
my $app = 'my %inherited = map { $_ => 1 } qw(' . join(' ', keys %inherited) . ");\n"
    . "use POSIX ();\nmy \$nap = sub { Time::HiRes::sleep(0.05) };\nmy \@cases = (\n$cases);\n" . gated_app(more => <<'END');
    if ($path =~ m{^/case/(\d+)}) {
        return [ 200, [ 'Content-Type' => 'text/plain', 'X-Pid' => $$ ], [ $cases[$1]->() ] ];
    }
    if ($path =~ m{^/delayed/(\d+)}) {
        my $case = $cases[$1];
        return sub {
            my $responder = shift;
            my $writer = $responder->([ 200, [ 'Content-Type' => 'text/plain', 'X-Pid' => $$ ] ]);
            $writer->write($case->());
            $writer->close;
        };
    }
    if ($path eq '/background') {
        my $child = fork;
        if (!$child) {
            Time::HiRes::sleep(0.01) until $gate_is_open->('background');
            POSIX::_exit(0);
        }
        return [ 200, [ 'Content-Type' => 'text/plain' ], [ "$$ $child" ] ];
    }
    if ($path eq '/threads') {
        require threads;
        return sub {
            my $responder = shift;
            my $writer = $responder->([ 200, [ 'Content-Type' => 'text/plain' ] ]);
            for my $round (1 .. 3) {
                my @threads = map {
                    my $n = $_;
                    threads->create(sub {
                        $nap->();
                        my $seen = join ' ', map { defined $env->{$_} ? 'defined' : 'undef' } qw(psgix.io psgix.informational);
                        my $answered = eval { $responder->([ 500, [], [] ]); 1 } || eval { $writer->write('from a thread'); 1 };
                        $seen . ($answered ? ', answered' : '') . ", $n";
                    });
                } 1, 2;
                $writer->write(join('; ', map { $_->join } @threads) . "\n");
            }
            $writer->close;
        };
    }
    exit 0 if $path eq '/exit';
END

{
    my $server = start_server(app => $app, lint => 0, args => [ '--workers', 2 ]);

    for my $n (0 .. $#codes) {
        my ($what, $expected) = @{ $codes[$n] };
        check $what => sub {
            my $pid = fact($server->ask('GET /'), 'pid');
            my ($client, @others) = client_of($server, $pid, 3);
            $client->send(req("GET /case/$n"));
            # Bytes for the standby thread to do something with meanwhile.
            my @asked = map { my $i = $_; $_->send(req("GET /$i")); $_ } @others;
            is $_->read_response('GET')->status, 200, 'another connection of the worker is served' for @asked;
            my $answer = $client->read_response('GET');
            is $answer->body, $expected, 'it works';
            is $client->ask('GET /')->status, 200, 'the connection goes on';
            $answer = $client->ask("GET /delayed/$n");
            is $answer->body, $expected, 'in a delayed response, too';
            is $client->ask('GET /')->status, 200, 'the connection goes on';
            my $alive = poll_until(sub { kill(0, $answer->header('X-Pid')) && fact($server->ask('GET /'), 'pid') });
            ok $alive, 'so does the worker';
        };
    }

    check 'threads that start while a delayed response is under way have no part in it' => sub {
        plan skip_all => 'this perl has no threads' if !$Config{useithreads};
        my $client = $server->connect;
        for (1 .. 3) {
            my $answer = $client->ask('GET /threads');
            is $answer->body, "undef undef, 1; undef undef, 2\n" x 3, 'each has ended well';
            is $client->ask('GET /')->status, 200, 'the connection goes on';
        }
    };

    check 'the application calls exit: a 500, and nobody else notices' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my ($client, @others) = client_of($server, $pid, 3);
        my $answer = $client->ask('GET /exit');
        is $answer->status, 500, 'the answer';
        is $_->ask('GET /')->status, 200, 'another connection goes on' for @others;
        ok poll_until(sub { 2 == grep { $_ != $pid } workers_of($server) }), 'the worker is replaced';
    };

    check 'a child that lives on keeps no connection open that the worker has closed' => sub {
        my $pid = fact($server->ask('GET /'), 'pid');
        my ($client, $closing, $moving) = client_of($server, $pid, 3);
        my ($worker, $child) = split / /, $client->ask('GET /background')->body;
        is $worker, $pid, 'a child of the worker has a copy of each descriptor';
        is $closing->ask('GET /', 'Connection: close')->status, 200, 'an answer that is the last';
        ok $closing->closes, 'the client sees the end';
        my $stuck = stick($server, $pid);
        isnt fact($moving->ask('GET /'), 'pid'), $pid, 'a connection that moves to another worker';
        is $moving->ask('GET /', 'Connection: close')->status, 200, 'goes on there';
        ok $moving->closes, 'and ends there';
        is $stuck->release->status, 200, 'the stuck one';
        ok kill(0, $child), 'the child is alive';
        open_gate('background');
    };

    my @known = grep { !/a forked process returned|A forked process cannot answer|in the child/ } split /\n/, $server->log;
    is scalar(grep { /killed by|Attempt|panic|cannot|lost/ } @known), 0, 'the log has nothing to complain of' or diag $server->log;
    ok $server->stop, 'it stops';
}

done_testing;
