use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use Test::More;
use Hydrofoil::Options;
use Hydrofoil::TestProcess qw(hydrofoil plackup finish free_port get write_file $ROOT);

my $dir = tempdir(CLEANUP => 1);
write_file("$dir/app.psgi", 'sub { [ 200, [ "Content-Type", "text/plain" ], [ "answer of $ENV{PLACK_ENV}" ] ] }');

sub settings {
    my $parsed = Hydrofoil::Options->parse_argv(@_);
    return Hydrofoil::Options->settings($parsed->{given});
}

sub error_of(&) {
    my $code = shift;
    return eval { $code->(); 1 } ? 'no error' : $@;
}

subtest 'an option has its default until it is given' => sub {
    my $settings = settings();
    is $settings->{workers}, 8, 'workers';
    is $settings->{keepalive_timeout}, 75, 'keep-alive timeout';
    is $settings->{max_body}, 1024**3, 'body limit';
    is $settings->{preload_app}, 1, 'preloading';
    is_deeply $settings->{listen}, [':5000'], 'address';
};

subtest 'an option has the names that other servers give it' => sub {
    for my $spelling (['--workers=3'], ['--workers', 3], ['--max-workers', 3], ['-w', 3], ['-w3'], ['-workers=3'], ['--max_workers=3']) {
        is settings(@$spelling)->{workers}, 3, "@$spelling";
    }
    is settings('--max-reqs-per-child', 9)->{max_requests}, 9, '--max-reqs-per-child';
    is settings('--max-keepalive-reqs', 9)->{max_keepalive_requests}, 9, '--max-keepalive-reqs';
    is settings('--disable-keepalive')->{keepalive}, 0, '--disable-keepalive';
    is settings('--no-keepalive')->{keepalive}, 0, '--no-keepalive';
    is settings('--enable-keepalive')->{keepalive}, 1, '--enable-keepalive';
    is settings('--no-preload-app')->{preload_app}, 0, '--no-preload-app';
    is settings('--max-readahead-reqs', 500)->{workers}, 8, '--max-readahead-reqs does nothing';
};

subtest 'sizes take suffixes and times take fractions' => sub {
    is settings('--max-body=64k')->{max_body}, 65536, '64k';
    is settings('--max-body=2M')->{max_body}, 2 * 1024**2, '2M';
    is settings('--max-body=0')->{max_body}, 0, '0';
    is settings('--header-timeout=.5')->{header_timeout}, 0.5, '.5 seconds';
};

subtest '--timeout sets the read and the write timeout, unless they are given' => sub {
    my $settings = settings('--read-timeout=7', '--timeout=20');
    is $settings->{read_timeout}, 7, 'read';
    is $settings->{write_timeout}, 20, 'write';
};

subtest 'workers do not all leave after the same number of requests' => sub {
    is settings('--max-requests=1000')->{min_requests}, 900, 'nine tenths by default';
    is settings('--max-requests=1')->{min_requests}, 1, 'but at least one';
    is settings('--max-requests=10', '--min-reqs-per-child=4')->{min_requests}, 4, 'or as told';
    is settings('--max-requests=10', '--min-reqs-per-child=40')->{min_requests}, 10, 'and not above the maximum';
};

subtest 'addresses add up to one list' => sub {
    is_deeply settings('--listen', ':80', '-l', '[::1]:81')->{listen}, [':80', '[::1]:81'], '--listen twice';
    is_deeply settings('-o', '::1', '-p', 82)->{listen}, ['[::1]:82'], 'an IPv6 host';
    is_deeply settings('-S', 'app')->{listen}, ['unix:app'], 'a socket';
};

subtest 'what is no option of the server goes to Plack' => sub {
    my $parsed = Hydrofoil::Options->parse_argv('-Ilib', '-MFoo', '-e', '-1', '-r', 'app.psgi', '--', '-x');
    is_deeply $parsed->{plack}, [ [ I => 'lib' ], [ M => 'Foo' ], [ e => '-1' ], [ reload => 1 ] ], 'options';
    is_deeply $parsed->{arguments}, ['app.psgi', '-x'], 'arguments';
};

subtest 'plackup hands over pairs, and flags with whatever came next' => sub {
    my ($settings) = Hydrofoil::Options->from_pairs(
        quiet => '--max-workers=2', keepalive => '', reuseport => undef,
        listen => ['[::1]:5000'], socket => undef, host => undef, port => 5000,
    );
    is $settings->{quiet}, 1, 'a flag that swallowed an option is on';
    is $settings->{workers}, 2, 'and so is the option';
    is $settings->{keepalive}, 0, 'disable-keepalive';
    is $settings->{reuseport}, 1, 'a flag at the end';
    is_deeply $settings->{listen}, ['[::1]:5000'], 'the list of addresses counts';

    like error_of { Hydrofoil::Options->from_pairs(quiet => 'other.psgi') },
        qr/plackup took 'other\.psgi' for the value of --quiet: write --quiet=1/, 'a swallowed file is told';
};

subtest '--help fits two screens, and the manual has every option and its default' => sub {
    my ($code, $help) = finish(hydrofoil('--help'));
    is $code, 0, 'exit code';
    my @lines = split /\n/, $help;
    cmp_ok scalar @lines, '<=', 80, 'lines';
    is_deeply [ grep { length > 80 } @lines ], [], 'no line is too wide';

    open my $handle, '<', "$ROOT/bin/hydrofoil" or die $!;
    my $manual = do { local $/; <$handle> };
    for my $spec (Hydrofoil::Options->specs) {
        my $name = $spec->{names}[0];
        my $option = length $name == 1 ? "-$name" : "--$name";
        my ($item) = $manual =~ /^=item [^\n]*(?<![\w-])\Q$option\E(?![\w-])(.*?)^=(?:item|back)/ms;
        ok defined $item, "$option is in the manual" or next;
        next if $spec->{hidden} || $spec->{type} eq 'flag' || !exists $spec->{default};
        like $item, qr/Default:/, "$option tells its default";
    }
};

subtest '--version names the server, its engine, perl and Plack' => sub {
    my ($code, $output) = finish(hydrofoil('--version'));
    is $code, 0, 'exit code';
    like $output, qr/^hydrofoil [0-9.]+$/m, 'hydrofoil';
    like $output, qr/^engine .*poller \w+.*scanner \w+/m, 'engine';
    like $output, qr/^perl \Q@{[ sprintf '%vd', $^V ]}\E/m, 'perl';
    like $output, qr/^Plack [0-9.]+/m, 'Plack';
};

subtest 'starting says where, with how many workers, and which application, in two lines' => sub {
    my $server = hydrofoil('--host', '127.0.0.1', '--port', 0, '--workers', 2, "$dir/app.psgi");
    my $port   = $server->port;
    is get($port), 'answer of deployment', 'it serves, as deployment';
    like $server->output,
        qr{\Ahydrofoil \S+: serving \Q$dir\E/app\.psgi \(deployment\) with 2 workers, pid \d+\nhydrofoil listens on http://127\.0\.0\.1:$port/\n\z},
        'two lines';
    is $server->stop, 0, 'exit code';
};

subtest '--quiet says nothing' => sub {
    my $port   = free_port();
    my $server = hydrofoil('--quiet', '--host', '127.0.0.1', '--port', $port, "$dir/app.psgi", { env => { PLACK_ENV => 'test' } });
    like get_when_up($port), qr/answer of test/, 'it serves, as PLACK_ENV says';
    is $server->stop, 0, 'exit code';
    is $server->output, '', 'no output';
};

my $ok = q{sub{[200,[],["OK"]]}};
my @published = (
    [ 'starman (1)',    hydrofoil => qw(--preload-app --workers=16 --max-requests=50000 -a app.psgi) ],
    [ 'Starlet (1)',    plackup => qw(-E production --max-workers=16 --max-reqs-per-child=50000 -a app.psgi) ],
    [ 'Starman (2)',    plackup => qw(-E production --workers=16 --max-requests 10000 -a app.psgi) ],
    [ 'Starlet (2)',    plackup => qw(-E production --max-workers 16 --max-keepalive-reqs 10000 --max-reqs-per-child 10000 -a app.psgi) ],
    [ 'Monoceros (2)',  plackup => qw(-E production --max-workers 16 --max-reqs-per-child 10000 --max-readahead-reqs 500 -a app.psgi) ],
    [ 'Starman -e (2)', plackup => qw(-E production --workers=16 --max-requests 10000 -e), $ok ],
    [ 'Gazelle (3)',    plackup => qw(-E production --max-workers=10 --max-reqs-per-child=5000000 -a app.psgi) ],
    [ 'Cacilheiro (4)', plackup => qw(-E prod --max-workers 8 --max-reqs-per-child 99999999 --max-keepalive-reqs 99999999 -e), $ok ],
    [ 'Gazelle (4)',    plackup => qw(-workers=8 --max-reqs-per-child 99999999 --min-reqs-per-child 99999999 -E production -e), $ok ],
);
for my $line (@published) {
    my ($name, $command, @args) = @$line;
    subtest "the published command line of $name works with the server's name changed" => sub {
        my $port    = free_port();
        my $workers = "@args" =~ /workers[= ]([0-9]+)/ ? $1 : die;
        for my $start ($command eq 'plackup' ? (\&plackup, \&hydrofoil) : \&hydrofoil) {
            my $server = $start->(@args, '--port', $port, { dir => $dir });
            like get_when_up($port), qr/^(?:OK|answer of (?:production|deployment))$/, 'it answers';
            is scalar $server->wait_for_workers($workers), $workers, "with $workers workers";
            is $server->stop, 0, 'and stops';
        }
    };
}

sub get_when_up {
    my $port = shift;
    my $answer;
    Hydrofoil::TestProcess::poll_until(sub { ($answer = get($port)) !~ /^599/ });
    return $answer;
}

done_testing;
