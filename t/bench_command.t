use strict;
use warnings;
use Test::More;
use Cwd qw(abs_path);
use File::Temp;
use FindBin;
use POSIX ();
use Time::HiRes qw(sleep);
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../bench/lib";
use BenchClient qw(client_path);
use HydroBench::Proc qw(slurp tree);
use HydroBench::Results;
use HydroBench::Run;

# script/bench itself, with a client of a few lines in place of wrk.

my $root = abs_path("$FindBin::Bin/..");
plan skip_all => 'reads /proc' unless -e '/proc/self/stat';
plan skip_all => 'there is no blib' unless -e "$root/blib/lib/Hydrofoil.pm" && -d "$root/blib/arch/auto/Hydrofoil";
my $dir = File::Temp->newdir;
local $ENV{PATH} = client_path($dir);
delete $ENV{HF_BENCH_COPIES};

sub bench { return HydroBench::Run::output([$^X, "$root/script/bench", @_], 120) }

subtest 'several scenarios are one folder, and a server that is not there is skipped by name' => sub {
    my $text = bench(qw(--quick --rounds 1 --only keepalive16),
        '--servers' => 'hydrofoil,gazelle', '--results', "$dir/r", qw(hello standby));
    like $text, qr/^This takes about \d+ seconds/m, 'how long it takes comes first';
    like $text, qr/^  skipped: gazelle \(no built copy given \(--copy gazelle=DIR\)\)/m, 'skipped';
    like $text, qr/^hello: .*^standby: /ms, 'both scenarios';
    like $text, qr/^  hydrofoil +200 /m, 'a figure';
    unlike $text, qr/FAILED/, 'nothing failed';

    my $results = HydroBench::Results->load("$dir/r");
    is $results->{schema}, 2, 'schema';
    is_deeply [map { $_->{name} } @{ $results->{scenarios} }], [qw(hello standby)], 'scenarios';
    like $results->{skipped}{gazelle}, qr/no built copy/, 'skipped';
    like $results->{versions}{hydrofoil}, qr/^hydrofoil /, 'versions';
    like $results->{command}, qr/^script\/bench --quick .* hello standby$/, 'the command line';
    my ($hello) = @{ $results->{scenarios} };
    is_deeply [map { $_->{measure}{name} } @{ $hello->{measures} }], ['keepalive16'], 'measures';
    my $own = $hello->{measures}[0]{results}{hydrofoil};
    is $own->{requests}, 200, 'requests';
    like $own->{command}, qr{bin/hydrofoil .* --workers=1 }, 'how the server was started';
    my ($round) = @{ $own->{rounds} };
    like slurp("$dir/r/$round->{raw}"), qr/^\$ .*wrk .*\n  200 requests/, 'what the client printed';
    ok scalar(grep { $_->{measure} eq 'keepalive16' } @{ $hello->{targets} }), 'targets';
};

subtest 'what cannot be measured is refused, with what can' => sub {
    like bench('hallo'), qr/There is no scenario 'hallo', only: .*hello/, 'a scenario';
    like bench(qw(--only nothing hello)), qr/There is no measure 'nothing' in hello, only: keepalive16/, 'a measure';
    like bench(qw(--servers nothing hello)), qr/There is no server 'nothing'/, 'a server';
    like bench(qw(--servers gazelle hello), '--results', "$dir/none"), qr/No server is left to measure/, 'no server';
};

subtest 'interrupted, it ends with its servers' => sub {
    defined(my $pid = fork) or die "cannot fork: $!";
    if (!$pid) {
        open STDOUT, '>', "$dir/interrupted.txt";
        open STDERR, '>&', \*STDOUT;
        exec $^X, "$root/script/bench", qw(--quick --rounds 500 --servers hydrofoil --only keepalive16), '--results', "$dir/i", 'hello';
    }
    my @tree;
    wait_until(sub { -e "$dir/i/raw" && (@tree = tree($pid)) >= 3 }) or diag slurp("$dir/interrupted.txt");
    cmp_ok scalar @tree, '>=', 3, 'itself, a supervisor and a worker';
    kill INT => $pid;
    ok wait_until(sub { waitpid($pid, POSIX::WNOHANG()) == $pid }), 'it ends';
    is $? >> 8, 130, 'exit status';
    ok wait_until(sub { !grep { slurp("/proc/$_/cmdline") =~ /hydrofoil/ } @tree }), 'and so do they';
};

sub wait_until {
    my ($condition) = @_;
    for (1 .. 1500) {
        return 1 if $condition->();
        sleep 0.02;
    }
    return 0;
}

subtest 'the list names scenarios, measures and servers' => sub {
    my $text = bench('--list');
    like $text, qr/^workers: .*^  workers16 .*^servers:\n.*^  hydrofoil +here\n.*^  gazelle +no built copy/ms, 'all of them';
};

done_testing;
