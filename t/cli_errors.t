use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use IO::Socket::INET;
use IO::Socket::UNIX;
use Test::More;
use Hydrofoil::TestProcess qw(hydrofoil plackup finish free_port get write_file);

my $dir = tempdir(CLEANUP => 1);
my $app = write_file("$dir/app.psgi", 'sub { [ 200, [], ["fine"] ] }');

sub fails {
    my ($name, $expected_code, $pattern, @command) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $start = ref $command[0] eq 'CODE' ? shift @command : \&hydrofoil;
    my ($code, $output) = finish($start->(@command, { dir => $dir }));
    subtest $name => sub {
        is $code, $expected_code, 'exit code';
        like $output, $pattern, 'message';
        is scalar(() = $output =~ /\n/g), 1, 'in one line';
    };
    return;
}

my $unknown = qr/\Ahydrofoil: unknown option --max-worker; did you mean --max-workers\?\n\z/;
fails('a misspelt option is answered with the right one', 2, $unknown, '--max-worker', 3, $app);
fails('also with =',                  2, $unknown, '--max-worker=3', $app);
fails('also by plackup',              2, $unknown, \&plackup, '--max-worker', 3, '-a', $app);
fails('two letters swapped are found', 2, qr/--kepealive-timeout; did you mean --keepalive-timeout\?/, '--kepealive-timeout', 3);
fails('a negated flag is found',       2, qr/--no-preload-ap; did you mean --no-preload-app\?/, '--no-preload-ap');
fails('--request-timeout without standby', 2, qr/--request-timeout needs the standby thread/, '--request-timeout', 3, '--no-standby', $app);
fails('--request-timeout without workers', 2, qr/--request-timeout needs a worker that can be replaced/, '--request-timeout', 3, '-w', 0, $app);
fails('nothing is made up for nonsense', 2, qr/unknown option --xylophone-mode; hydrofoil --help lists/, '--xylophone-mode');
fails('an option without its value',   2, qr/--workers needs a value: --workers N/, '--workers');
fails('a value for a flag',            2, qr/--reuseport=maybe: a switch takes no value/, '--reuseport=maybe');
fails('a count that is none',          2, qr/--workers: 'abc' will not do; it takes a whole number/, '--workers=abc', $app);
fails('a port that is none',           2, qr/--port: '99999' will not do; it takes a port, 0 to 65535/, '--port', 99999, $app);
fails('a negative time',               2, qr/--keepalive-timeout: '-1' will not do; it takes a number of seconds/, '--keepalive-timeout', -1);
fails('a size that is none',           2, qr/--max-body: '1x' will not do; it takes a size/, '--max-body=1x');
fails('a limit that lets nothing through', 2, qr/--max-header-fields: '0' will not do/, '--max-header-fields=0');
fails('a port that is none, by plackup', 2, qr/--port: 'abc' will not do/, \&plackup, '--port=abc', $app);
fails('a number too large for the engine', 2, qr/--keepalive-timeout: '99999999' will not do; it takes a number of seconds, 0 to 4000000/, '--keepalive-timeout', 99999999);
fails('two applications',              2, qr/there is no use for 'more'/, $app, 'more');
fails('an address that is none',       2, qr/--listen: 'somewhere' will not do/, '--listen', 'somewhere', $app);
fails('a header value with a line end', 2, qr/--server-name-header must be printable/, "--server-name-header=a\nb", $app);
fails('another server',                2, qr/-s Starman: hydrofoil is the server/, '-s', 'Starman', $app);
fails('an unknown user',               2, qr/--user: there is no user 'nobody-of-that-name' here/, '--user', 'nobody-of-that-name', $app);
fails('an unknown group',              2, qr/--group: there is no group 'none-of-that-name' here/, '--group', 'none-of-that-name', $app);
fails('a directory that is not there', 2, qr/--tmpdir: .* is not a directory/, '--tmpdir', "$dir/none", $app);
fails('a file that is not there',      1, qr/there is no file none\.psgi/, 'none.psgi');
fails('a directory for an application', 1, qr/\Q$dir\E is a directory, not an application/, $dir);
fails('an error log that cannot be',   1, qr/--error-log: cannot open \Q$dir\E\/none\/log/, '--error-log', "$dir/none/log", $app);
fails('--no-preload-app by plackup',   2, qr/give it -L Delayed/, \&plackup, $app, '--no-preload-app');
fails('--daemonize with a restarter',  2, qr/--daemonize does not go with/, '-D', '-r', $app);
fails('no application at all', 2, qr/there is no app\.psgi in this directory/,
    sub { pop; hydrofoil('-p', 0, { dir => tempdir(CLEANUP => 1) }) });

subtest 'a port in use is told' => sub {
    my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp') or die $!;
    my $port  = $taken->sockport;
    for my $workers (0, 1) {
        fails("with --workers $workers", 1, qr/\Ahydrofoil: 127\.0\.0\.1:$port is already in use/,
            '--host', '127.0.0.1', '--port', $port, '--workers', $workers, $app);
    }
    fails('by plackup', 1, qr/\Ahydrofoil: 127\.0\.0\.1:$port is already in use/,
        \&plackup, '-E', 'test', '--host', '127.0.0.1', '--port', $port, $app);
    fails('as the second of two addresses', 1, qr/\Ahydrofoil: 127\.0\.0\.1:$port is already in use/,
        '--listen', '127.0.0.1:0', '--listen', "127.0.0.1:$port", $app);
};

subtest 'an address that this machine does not have is told' => sub {
    fails('an IP address', 1, qr/192\.0\.2\.1:5000: no interface of this machine has that address/, '--host', '192.0.2.1', $app);
};

subtest 'a port for root alone is told' => sub {
    plan skip_all => 'root may bind it' if $> == 0;
    plan skip_all => 'this system lets everybody bind it' if _unprivileged_start() < 1024;
    fails('port 1', 1, qr/127\.0\.0\.1:1: permission denied: ports below 1024 need root/, '--host', '127.0.0.1', '--port', 1, $app);
};

sub _unprivileged_start {
    open my $handle, '<', '/proc/sys/net/ipv4/ip_unprivileged_port_start' or return 1024;
    return <$handle> + 0;
}

subtest 'a unix socket that somebody listens on is told, a stale one is replaced' => sub {
    my $path   = "$dir/app.sock";
    my $taken  = IO::Socket::UNIX->new(Local => $path, Listen => 1) or die $!;
    fails('in use', 1, qr/\Q$path\E is already in use/, '--listen', $path, $app);
    close $taken;
    ok -S $path, 'the stale file is there';
    my $server = hydrofoil('--listen', $path, '--workers', 1, $app);
    ok $server->wait_for(qr/listens on unix:\Q$path\E/), 'and the server listens there';
    is $server->stop, 0, 'it stops';
    ok !-e $path, 'and removes its file';

    fails('a file that is no socket', 1, qr/exists and is not a socket/, '--listen', $app, $app);
    fails('a directory that is not there', 1, qr/the directory does not exist/, '--listen', "$dir/none/a.sock", $app);
    fails('a path that is too long', 2, qr/too long for a unix socket/, '--listen', "$dir/" . 'a' x 120, $app);
};

subtest 'an application that does not compile: its error, and nothing listens' => sub {
    my $broken = write_file("$dir/broken.psgi", "use strict;\nmy \$x = \$undeclared;\nsub { }\n");
    my $port   = free_port();
    for my $start ([ hydrofoil => \&hydrofoil ], [ '--no-preload-app' => \&hydrofoil, '--no-preload-app' ],
        [ 'workers=0' => \&hydrofoil, '--workers=0' ], [ plackup => \&plackup ])
    {
        my ($name, $code, @args) = @$start;
        my ($exit, $output) = finish($code->(@args, '-p', $port, $broken));
        isnt $exit, 0, "$name: exit code";
        like $output, qr/\$undeclared.*broken\.psgi line 2/, "$name: perl's error";
        unlike $output, qr/listens/, "$name: it did not listen";
    }
};

subtest 'a file that does not end in an application is told' => sub {
    my $file = write_file("$dir/number.psgi", "42;\n");
    fails('with preloading', 1, qr/the application is not a code reference/, '-p', 0, $file);
    my ($code, $output) = finish(hydrofoil('--no-preload-app', '-p', 0, $file));
    isnt $code, 0, 'without preloading: exit code';
    like $output, qr/the application is not a code reference/, 'without preloading: message';
};

subtest 'a pid file that names a live process is refused, a stale one is not' => sub {
    my $file = write_file("$dir/live.pid", getppid() . "\n");
    fails('live', 1, qr/\Q$file\E names process \d+, which is running/, '--pid', $file, '-p', 0, $app);

    my $gone = fork;
    exit 0 if !$gone;
    waitpid $gone, 0;
    write_file($file, "$gone\n");
    my $server = hydrofoil('--pid', $file, '--host', '127.0.0.1', '-p', 0, '-w', 1, $app);
    is get($server->port), 'fine', 'stale: it serves';
    open my $handle, '<', $file or die $!;
    is <$handle>, $server->pid . "\n", 'and the file names it';
    is $server->stop, 0, 'it stops';
    ok !-e $file, 'and removes the file';
};

done_testing;
