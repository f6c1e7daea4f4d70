use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use IO::Socket::INET;
use POSIX ();
use Test::More;
use Hydrofoil::TestProcess qw(hydrofoil plackup finish free_port get is_alive poll_until write_file);

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

my $dir = tempdir(CLEANUP => 1);
my $app = write_file("$dir/app.psgi", 'sub { [ 200, [], [$$] ] }');

sub content {
    open my $handle, '<', $_[0] or return '';
    local $/;
    my $text = <$handle>;
    return defined $text ? $text : '';
}

sub session_of {
    return (split ' ', (content("/proc/$_[0]/stat") =~ /\) (.*)/s)[0])[3];
}

sub end_daemon {
    my $pid = shift;
    kill TERM => $pid;
    return poll_until(sub { !is_alive($pid) });
}

for my $how ([ hydrofoil => \&hydrofoil ], [ 'plackup' => \&plackup, '-E', 'test' ], [ 'without workers' => \&hydrofoil, '-w', 0 ],
    [ '--no-preload-app' => \&hydrofoil, '--no-preload-app' ])
{
    my ($name, $start, @args) = @$how;
    subtest "--daemonize returns when the server serves ($name)" => sub {
        my $port = free_port();
        my ($pid_file, $log) = ("$dir/$$.pid", "$dir/$name.log");
        my ($code, $output) = finish($start->(
            @args, '--daemonize', '--pid', $pid_file, '--error-log', $log, '--host', '127.0.0.1', '--port', $port, $app));
        is $code, 0, 'exit code';
        like $output, qr{listens on http://127\.0\.0\.1:$port/}, 'the terminal is told where it listens';
        my ($pid) = content($pid_file) =~ /^(\d+)\n\z/ or return fail 'the pid file names the daemon';
        ok is_alive($pid), 'the pid file names the daemon';
        like get($port), qr/^\d+$/, 'it serves';
        isnt session_of($pid), session_of($$), 'in a session of its own';
        isnt session_of($pid), $pid, 'which it does not lead';
        is readlink "/proc/$pid/fd/0", '/dev/null', 'without standard input';
        is readlink "/proc/$pid/fd/2", $log, 'with its messages in the error log';
        like content($log), qr/listens on/, 'where the start is told too';
        ok end_daemon($pid), 'it stops';
        ok !-e $pid_file, 'and removes its pid file';
    };
}

subtest 'a daemon that cannot start says why and returns an error' => sub {
    my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp') or die $!;
    my $port  = $taken->sockport;
    my ($code, $output) = finish(hydrofoil('--daemonize', '--host', '127.0.0.1', '--port', $port, $app));
    is $code, 1, 'port in use: exit code';
    like $output, qr/\Ahydrofoil: 127\.0\.0\.1:$port is already in use[^\n]*\n\z/, 'port in use: message';

    my $broken = write_file("$dir/broken.psgi", "die 'broken as ordered';\n");
    for my $option ('--preload-app', '--no-preload-app') {
        ($code, $output) = finish(hydrofoil('--daemonize', $option, '--host', '127.0.0.1', '--port', 0, $broken));
        isnt $code, 0, "broken application, $option: exit code";
        like $output, qr/broken as ordered/, "broken application, $option: message";
    }

    my $mark = "$dir/mark";
    my $once = write_file("$dir/once.psgi", qq{die "only once\\n" if -e '$mark';\nopen my \$m, '>', '$mark';\nsub { [ 200, [], [] ] }\n});
    ($code, $output) = finish(hydrofoil('--daemonize', '--no-preload-app', '--host', '127.0.0.1', '--port', 0, $once));
    is $code, 1, 'no worker starts: exit code';
    like $output, qr/no worker could start/, 'no worker starts: message';
};

done_testing;
