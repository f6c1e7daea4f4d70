use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../t/lib";
use POSIX ();
use Test::More;
use Time::HiRes qw(time sleep);
use Hydrofoil::Test;
use Hydrofoil::TestStandby;

# Kills a random worker every 200 ms under load and accounts for every request: it is answered, or its connection broke
# because a worker died. HYDROFOIL_FAULT_SECONDS says how long (30), HYDROFOIL_FAULT_SEED which workers.

plan skip_all => 'needs /proc' if !-r '/proc/self/stat';

my $seconds = $ENV{HYDROFOIL_FAULT_SECONDS} || 30;
my $seed = $ENV{HYDROFOIL_FAULT_SEED} || $$;
my $workers = 4;
my $processes = 4;
my $connections = 5;    # of each process

srand $seed;
note "HYDROFOIL_FAULT_SEED=$seed";

my $server = start_server(lint => 0, args => [ '--workers', $workers, '--err-respawn-interval', 0 ], app => <<'END');
use Digest::MD5 ();
use Time::HiRes ();
my $call = sub {
    my $env = shift;
    my ($what, $id) = $env->{PATH_INFO} =~ m{^/(\w+)/(\w+)};
    main::record("$id $$");
    Time::HiRes::sleep(0.001 * (3 + rand 40)) if $what eq 'slow';
    my ($length, $body) = (0, '');
    $length += $env->{'psgi.input'}->read($body, 65_536, length $body) || 0 while $length < ($env->{CONTENT_LENGTH} || 0);
    my $said = "$id $$ $length " . Digest::MD5::md5_hex($body) . "\n";
    if ($what eq 'stream') {
        return sub {
            my $writer = $_[0]->([ 200, [ 'Content-Type' => 'text/plain' ] ]);
            $writer->write($said);
            for (1 .. 5) { Time::HiRes::sleep(0.002); $writer->write('.' x 1000) }
            $writer->close;
        };
    }
    $said .= 'x' x 300_000 if $what eq 'large';
    return [ 200, [ 'Content-Type' => 'text/plain' ], [$said] ];
};
$call;
END

my $upload = join '', map { "line $_\n" } 1 .. 20_000;
my @kinds = qw(fast fast fast slow slow stream large upload);

# One process of clients. A line for each request: its id, when it was sent, when it was over, how it ended, and the worker
# that the connection was with before.
sub clients {
    my ($number, $file, $until) = @_;
    open my $out, '>', $file or POSIX::_exit(1);
    my $n = 0;
    my @clients = map { { } } 1 .. $connections;
    while (time < $until) {
        for my $client (@clients) {
            if (!$client->{open}) {
                $client->{open} = $server->connect;
                $client->{pid} = 0;
            }
            my $kind = $kinds[ rand @kinds ];
            $client->{id} = "c${number}n" . ++$n;
            $client->{kind} = $kind;
            $client->{sent} = time;
            my $request = $kind eq 'upload' ? req("POST /$kind/$client->{id}", \$upload) : req("GET /$kind/$client->{id}");
            eval { $client->{open}->send($request); 1 };    # if it fails, there is no answer, either
        }
        for my $client (@clients) {
            my $answer = eval { $client->{open}->read_response('GET') };
            my $error = $@;
            my ($id, $pid, $length) = $answer ? split / /, $answer->body : ();
            my $end = !$answer ? ($error =~ /in time/ ? 'unanswered' : $error =~ /^(?:malformed|a chunk )/ ? 'malformed' : 'broken')
                : $answer->status != 200 ? 'status' . $answer->status
                : $id ne $client->{id} ? 'confused'
                : $client->{kind} eq 'upload' && $length != length $upload ? 'wrong'
                : $answer->closes ? 'closing'
                : 'answered';
            printf {$out} "%s %.6f %.6f %s %d %s\n", $client->{id}, $client->{sent}, time, $end, $client->{pid}, $client->{kind};
            if ($answer) { $client->{pid} = $pid }
            else         { delete $client->{open} }
        }
    }
    close $out;
    POSIX::_exit(0);
}

my $dir = "$server->{dir}";
my $until = time + $seconds;
my %process;
for my $number (1 .. $processes) {
    my $pid = fork;
    die $! if !defined $pid;
    if (!$pid) { srand $seed + $number; eval { clients($number, "$dir/clients$number", $until) }; print STDERR $@; POSIX::_exit(1) }
    $process{$pid} = $number;
}

my %killed;
while (time < $until) {
    sleep 0.2;
    my @workers = grep { !$killed{$_} } workers_of($server) or next;
    my $victim = $workers[ rand @workers ];
    $killed{$victim} = time;
    kill KILL => $victim;
}
for my $pid (keys %process) {
    waitpid $pid, 0;
    is $?, 0, "the clients of process $process{$pid} have come to their end";
}

my (%started, %ends, @bad);
for ($server->recorded) {
    my ($id, $pid) = split / /;
    push @{ $started{$id} }, $pid;
}
my @kills = values %killed;
my %excused = (runner => 0, holder => 0, on_the_way => 0);
for my $number (1 .. $processes) {
    open my $in, '<', "$dir/clients$number" or die $!;
    while (my $line = <$in>) {
        my ($id, $sent, $over, $end, $holder, $kind) = split ' ', $line;
        $ends{$end}++;
        my @runners = @{ $started{$id} || [] };
        push @bad, "ran more than once: $line" if @runners > 1;
        push @bad, "answered but not run: $line" if $end eq 'answered' && !@runners;
        next if $end eq 'answered';
        if ($end ne 'broken') { push @bad, $line }
        # It ran in a worker that was killed.
        elsif (@runners) { $killed{ $runners[0] } ? $excused{runner}++ : push @bad, "its worker lives: $line" }
        # The worker that its connection was with was killed before it could run.
        elsif ($killed{$holder}) { $excused{holder}++ }
        # It was with a worker that nobody outside knows, having just connected or just moved: then one was killed meanwhile.
        elsif (grep { $_ >= $sent - 0.1 && $_ <= $over } @kills) { $excused{on_the_way}++ }
        else { push @bad, "no worker died: $line" }
    }
}

note "$_: $ends{$_}" for sort keys %ends;
note scalar(@kills), ' workers were killed; of the broken requests ', join ', ', map { "$excused{$_} $_" } sort keys %excused;
cmp_ok scalar(@kills), '>=', $seconds * 2, 'many workers were killed';
cmp_ok $ends{answered} || 0, '>', 50 * $seconds, 'many requests were answered';
is scalar(@bad), 0, 'every request is accounted for' or diag join '', @bad > 20 ? @bad[0 .. 19] : @bad;

ok poll_until(sub { workers_of($server) == $workers }), 'all workers are back';
is $server->get("/fast/z$_")->status, 200, 'the server serves on' for 1 .. 20;
ok $server->stop, 'it stops';

done_testing;
