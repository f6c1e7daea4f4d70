use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use HTTP::Tiny;
use Test::More;
use Hydrofoil::TestProcess qw(hydrofoil plackup free_port get is_alive poll_until write_file);

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

my $dir = tempdir(CLEANUP => 1);

sub version {
    my ($name, $extra) = @_;
    return write_file("$dir/app.psgi", ($extra || '') . <<"APP");
sub {
    my \$env = shift;
    if (\$env->{PATH_INFO} eq '/slow') {
        print STDERR "slow request is in \$\$\\n";
        select undef, undef, undef, 0.05 while !-e '$dir/go';
    }
    return [ 200, [ 'Content-Type' => 'text/plain' ], [ '$name ' . \$\$ ] ];
}
APP
}

sub start { hydrofoil('--host', '127.0.0.1', '--port', 0, @_, "$dir/app.psgi") }

subtest 'HUP replaces the workers, and every request meanwhile is answered' => sub {
    version('one');
    my $server = start('-w', 2);
    my $port   = $server->port;
    my @before = $server->wait_for_workers(2);
    my $kept   = HTTP::Tiny->new(keep_alive => 1);
    $server->signal('HUP');
    my $bad = 0;
    poll_until(sub {
        $bad += !$kept->get("http://127.0.0.1:$port/")->{success};
        $bad += get($port) !~ /^one \d+$/;
        $server->output =~ /all workers are replaced/;
    });
    is $bad, 0, 'no request failed, new connection or old';
    ok poll_until(sub { !grep { is_alive($_) } @before }), 'the old workers are gone';
    is scalar $server->wait_for_workers(2), 2, 'there are two new ones';
    is $server->stop, 0, 'exit code';
};

for my $how ([ '--no-preload-app' => \&start, '--no-preload-app' ], [ 'plackup -L Delayed' => \&start_by_plackup, '-L', 'Delayed' ]) {
    my ($name, $start, @args) = @$how;
    subtest "$name: HUP loads the new code" => sub {
        version('one');
        my $server = $start->(@args, '-w', 2);
        my $port   = $server->port;
        my @before = $server->wait_for_workers(2);
        like get($port), qr/^one/, 'old code';
        version('two');
        like get($port), qr/^one/, 'still the old code';
        $server->signal('HUP');
        ok $server->wait_for(qr/all workers are replaced/), 'the log tells when it is done';
        ok poll_until(sub { !grep { is_alive($_) } @before }), 'the old workers leave';
        is scalar(grep { get($port) =~ /^two/ } 1 .. 10), 10, 'new code only';
        is $server->stop, 0, 'exit code';
    };
}

sub start_by_plackup {
    my $port = free_port();
    return plackup('-E', 'test', '--host', '127.0.0.1', '--port', $port, @_, "$dir/app.psgi");
}

subtest 'new code that does not compile leaves the old workers at work' => sub {
    version('one');
    my $server = start('-w', 2, '--no-preload-app');
    my $port   = $server->port;
    my @before = $server->wait_for_workers(2);
    get($port);
    version('two', "use strict; my \$x = \$undeclared;\n");
    $server->signal('HUP');
    ok $server->wait_for(qr/the new workers do not start .* the old ones serve on/), 'the log says so';
    like $server->output, qr/\$undeclared/, 'and why';
    is_deeply [ $server->wait_for_workers(2) ], \@before, 'the same workers';
    like get($port), qr/^one/, 'serve';

    version('three');
    $server->signal('HUP');
    ok poll_until(sub { get($port) =~ /^three/ }), 'the next HUP, with good code, works';
    ok poll_until(sub { !grep { is_alive($_) } @before }), 'and the old workers are gone';
    is $server->stop, 0, 'exit code';
};

subtest 'a request that is under way is answered by the old worker' => sub {
    version('one');
    my $server = start('-w', 1);
    my $port   = $server->port;
    pipe my $reader, my $writer or die $!;
    my $client = fork;
    die $! if !defined $client;
    if (!$client) { syswrite $writer, get($port, '/slow'); POSIX::_exit(0) }
    close $writer;
    my ($old) = $server->wait_for(qr/slow request is in (\d+)/);
    $server->signal('HUP');
    ok $server->wait_for(qr/all workers are replaced/), 'the new worker is ready';
    my $new = get($port);
    isnt $new, "one $old", 'and answers';
    write_file("$dir/go", '');
    is do { local $/; <$reader> }, "one $old", 'the slow request is answered';
    waitpid $client, 0;
    ok poll_until(sub { !is_alive($old) }), 'then the old worker is gone';
    is $server->stop, 0, 'exit code';
};

subtest 'HUP on HUP ends in one new generation' => sub {
    version('one');
    my $server = start('-w', 3, '--no-preload-app');
    my $port   = $server->port;
    my @before = $server->wait_for_workers(3);
    for (1 .. 5) {
        $server->signal('HUP');
        get($port);
    }
    ok poll_until(sub { !grep { is_alive($_) } @before }), 'the first workers are gone';
    is scalar $server->wait_for_workers(3), 3, 'three are there';
    like get($port), qr/^one/, 'it serves';
    is $server->stop, 0, 'exit code';
};

done_testing;
