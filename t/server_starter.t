use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use HTTP::Tiny;
use IO::Socket::UNIX;
use Test::More;
use Hydrofoil::TestProcess qw(finish hydrofoil free_port get is_alive poll_until write_file $ROOT);

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';
my ($start_server) = grep { -x } map { "$_/start_server" } split /:/, $ENV{PATH};
plan skip_all => 'needs start_server of Server::Starter' if !$start_server;

my $dir = tempdir(CLEANUP => 1);
my $app = write_file("$dir/app.psgi", <<"APP");
sub {
    my \$env = shift;
    if (\$env->{PATH_INFO} eq '/slow') {
        print STDERR "slow request is in \$\$\\n";
        select undef, undef, undef, 0.05 while !-e '$dir/go';
    }
    return [ 200, [ 'Content-Type' => 'text/plain' ], [ \$ENV{SERVER_STARTER_GENERATION} ] ];
}
APP

sub start { Hydrofoil::TestProcess->start($start_server, @_) }

my @hydrofoil = ($^X, "$ROOT/bin/hydrofoil");

subtest 'its sockets are used, several and unix ones too' => sub {
    my ($one, $two) = (free_port(), free_port());
    my $path   = "$dir/starter.sock";
    my $server = start('--port', "127.0.0.1:$one", '--port', "127.0.0.1:$two", '--path', $path, '--', @hydrofoil, '-w', 1, $app);
    ok $server->wait_for(qr{listens on (?=.*http://127\.0\.0\.1:$one/)(?=.*http://127\.0\.0\.1:$two/)(?=.*unix:\Q$path\E)}), 'it tells so';
    is get($one), 1, 'the first port';
    is get($two), 1, 'the second port';
    is ask_unix($path), 1, 'the unix socket';
    is $server->stop, 0, 'it stops';
};

sub ask_unix {
    my $socket = IO::Socket::UNIX->new(Peer => $_[0]) or return "cannot connect: $!";
    print {$socket} "GET / HTTP/1.0\r\n\r\n";
    my $answer = do { local $/; <$socket> };
    $answer =~ s/.*\r\n\r\n//s;
    return $answer;
}

subtest 'the published command line works with the server\'s name changed' => sub {
    my $path   = "$dir/app.sock";
    my $server = start('--path', $path, '--backlog', 16384, '--', 'plackup', '-s', 'Hydrofoil', '-workers=8',
        '--max-reqs-per-child', 99999999, '--min-reqs-per-child', 99999999, '-E', 'production',
        '-e', q{sub { [ 200, [ "Content-Type" => "text/html" ], ["Hello World"] ] }});
    ok $server->wait_for(qr/with 8 workers.*listens on unix:\Q$path\E/s), 'it starts';
    is ask_unix($path), 'Hello World', 'it answers';
    is $server->stop, 0, 'it stops';
};

subtest 'HUP to start_server: every request is answered, on new connections and kept ones' => sub {
    my $port   = free_port();
    my $pid    = "$dir/hydrofoil.pid";
    my $server = start('--port', "127.0.0.1:$port", '--interval', 1, '--', @hydrofoil, '-w', 2, '--pid', $pid, $app);
    $server->wait_for(qr/listens on/);
    is get($port), 1, 'the first generation answers';
    my ($old) = $server->workers;
    my $kept  = HTTP::Tiny->new(keep_alive => 1);
    $server->signal('HUP');
    my ($bad, $seen) = (0, '');
    ok poll_until(sub {
        my $answer = $kept->get("http://127.0.0.1:$port/");
        $bad++ if !$answer->{success};
        $seen = get($port);
        $bad++ if $seen !~ /^[12]$/;
        return $answer->{content} eq 2 && $seen eq 2 && !is_alive($old);
    }), 'the second generation takes over, the first one leaves';
    is $bad, 0, 'no request failed';
    my ($new) = $server->wait_for_workers(1);
    open my $handle, '<', $pid or die "$pid: $!";
    is <$handle>, "$new\n", 'the pid file names the new supervisor';
    is $server->stop, 0, 'it stops';
};

subtest 'TERM of start_server is graceful' => sub {
    my $port   = free_port();
    my $server = start('--port', "127.0.0.1:$port", '--', @hydrofoil, '-w', 1, $app);
    pipe my $reader, my $writer or die $!;
    $server->wait_for(qr/listens on/);
    my $client = fork;
    die $! if !defined $client;
    if (!$client) { syswrite $writer, get($port, '/slow'); POSIX::_exit(0) }
    close $writer;
    $server->wait_for(qr/slow request is in/);
    $server->signal('TERM');
    ok $server->wait_for(qr/stopping when what is under way is finished/), 'the supervisor lets it finish';
    write_file("$dir/go", '');
    is do { local $/; <$reader> }, 1, 'the request is answered';
    waitpid $client, 0;
    is $server->wait_for_end, 0, 'it stops';
};

subtest 'sockets that are not there are told' => sub {
    for my $entry ('5000=99', '5000', '5000=1') {
        my ($code, $output) = finish(hydrofoil($app, { env => { SERVER_STARTER_PORT => $entry } }));
        is $code, 1, "$entry: exit code";
        like $output, qr/\Ahydrofoil: SERVER_STARTER_PORT .*\n\z/, "$entry: one line";
    }
};

done_testing;
