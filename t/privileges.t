use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use Test::More;
use Hydrofoil::TestProcess qw(hydrofoil finish get poll_until write_file);

my $dir = tempdir(CLEANUP => 1);
chmod 0755, $dir;
my $app = write_file("$dir/app.psgi", <<'APP');
my $loaded_by = $>;
sub { [ 200, [], [ join ' ', $<, $>, $( + 0, "loaded by $loaded_by,", 'groups', sort { $a <=> $b } split ' ', $) ] ] }
APP
chmod 0644, $app;

sub start { hydrofoil('--host', '127.0.0.1', '--port', 0, '-w', 1, @_, $app) }

subtest 'who is not root cannot run workers as another user' => sub {
    plan skip_all => 'root can' if $> == 0;
    my ($code, $output) = finish(start('--user', 'root'));
    is $code, 2, 'exit code';
    like $output, qr/\Ahydrofoil: --user: only root can[^\n]*\n\z/, 'one line';
};

SKIP: {
    skip 'needs root', 1 if $> != 0;
    my @nobody = getpwnam 'nobody' or skip 'needs the user nobody', 1;
    my ($uid, $gid) = @nobody[ 2, 3 ];
    my $other = getgrnam 'daemon';

    subtest '--user: workers are that user, with its groups alone' => sub {
        my $server = start('--user', 'nobody');
        is get($server->port), "$uid $uid $gid loaded by 0, groups $gid $gid", 'a worker';
        my ($owner) = (stat '/proc/' . $server->pid)[4];
        is $owner, 0, 'the supervisor stays root';
        is $server->stop, 0, 'it stops them';
    };

    subtest '--user with --no-preload-app: the user loads the application' => sub {
        my $server = start('--user', $uid, '--no-preload-app');
        like get($server->port), qr/^$uid $uid $gid loaded by $uid,/, 'a worker';
        is $server->stop, 0, 'exit code';
    };

    subtest '--group: workers are in that group' => sub {
        plan skip_all => 'needs the group daemon' if !defined $other;
        my $server = start('--user', 'nobody', '--group', 'daemon');
        like get($server->port), qr/^$uid $uid $other /, 'with --user';
        $server->stop;
        $server = start('--group', $other);
        is get($server->port), "0 0 $other loaded by 0, groups $other $other", 'alone';
        is $server->stop, 0, 'exit code';
    };

    subtest 'the error log can be reopened by workers that are not root' => sub {
        my $logs = "$dir/logs";
        mkdir $logs or die $!;
        my $server = start('--user', 'nobody', '--error-log', "$logs/log", '-e', "warn 'loaded'; Plack::Util::load_psgi('$app')");
        ok poll_until(sub { -s "$logs/log" }), 'the log is there';
        is +(stat "$logs/log")[4], $uid, 'and belongs to the user';
        rename "$logs/log", "$logs/old" or die $!;
        $server->signal('USR1');
        ok poll_until(sub { -e "$logs/log" }), 'it is made anew';
        my ($worker) = $server->wait_for_workers(1);
        ok poll_until(sub { readlink("/proc/$worker/fd/2") eq "$logs/log" }), 'the worker has opened it';
        is $server->stop, 0, 'exit code';
    };
}

done_testing;
