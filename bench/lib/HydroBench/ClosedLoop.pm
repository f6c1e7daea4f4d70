package HydroBench::ClosedLoop;
use strict;
use warnings;
use Time::HiRes qw(sleep time);
use HydroBench::Ab;
use HydroBench::H2load;
use HydroBench::Proc qw(busy_seconds context_switches slurp);
use HydroBench::Wrk;

my %CLIENTS = (wrk => 'HydroBench::Wrk', ab => 'HydroBench::Ab', h2load => 'HydroBench::H2load');

my $SETTLE = 0.3;    # seconds between two runs: the last one's connections are to be gone
my $PATIENCE = 120;  # seconds that a run may take which ends after a number of requests

# A run during which other processes used more than this much of a core is made again, at most so many times, and the
# least disturbed one counts. The choice looks at the others' CPU only, never at the figures.
my $DISTURBED = 0.15;
my $REPEATS   = 1;

# One round of a client that asks again as soon as it is answered, as HydroBench::Run wants it.
sub round {
    my ($class, $run, $server, $measure, $round) = @_;
    my $repeats = defined $run->{repeats} ? $run->{repeats} : $REPEATS;
    my @runs;
    for (0 .. $repeats) {
        my $one = $class->_once($run, $server, $measure, $round) or return undef;
        push @runs, $one;
        last if defined $server->problem || $one->{foreign_cpu} <= $DISTURBED;
        $round++;    # warmed up
    }
    my ($best) = sort { $a->{foreign_cpu} <=> $b->{foreign_cpu} } @runs;
    return { %$best, repeated => $#runs };
}

# The command line of the measure's client.
sub _command {
    my ($run, $server, $measure, $duration) = @_;
    my ($type, $file) = $run->post_file($measure);
    return (
        $run->pin_client($measure),
        $CLIENTS{ $measure->{tool} }->command(
            url         => 'http://127.0.0.1:' . $server->port . ($measure->{path} || '/'),
            connections => $measure->{connections},
            threads     => $measure->{threads},
            duration    => $duration,
            requests    => $measure->{requests},
            pipeline    => $measure->{pipeline},
            keep_alive  => $measure->{keep_alive},
            post_type   => $type,
            post_file   => $file,
            script      => "$run->{root}/bench/wrk.lua",
            csv         => "$run->{dir}/ab.csv",
        ),
    );
}

sub _once {
    my ($class, $run, $server, $measure, $round) = @_;
    my $client   = $CLIENTS{ $measure->{tool} } || $CLIENTS{wrk};
    my $duration = $run->duration($measure);
    my $timeout  = ($measure->{requests} ? $PATIENCE : $duration) + 30;
    if ($round == 1 && $run->{warm_up}) {
        my %short = (%$measure, $measure->{requests} ? (requests => 1000) : ());
        HydroBench::Run::output([_command($run, $server, \%short, 1)], 60);
    }
    sleep $SETTLE;

    my @command = _command($run, $server, $measure, $duration);
    unlink "$run->{dir}/ab.csv";
    my $started = time;
    my ($busy, $cpu, $own) = (busy_seconds(), $server->cpu_seconds, _children_seconds());
    my $switches = context_switches($server->{pid});
    my $text = HydroBench::Run::output(\@command, $timeout);
    my $seconds = time - $started;
    my $raw = $run->raw($server, $measure, \@command, $text);
    return undef unless $server->alive;
    $_ = -$_ for $busy, $cpu, $own;
    $cpu  += $server->cpu_seconds;
    $busy += busy_seconds();
    $own  += _children_seconds();

    my $result = $client->parse($text, slurp("$run->{dir}/ab.csv"));
    if (!$result) {
        my ($last) = grep { /\S/ } reverse split /\n/, $text;
        $server->fail("$measure->{tool} gave no result: " . (defined $last ? substr $last, 0, 200 : 'it said nothing'));
        return undef;
    }
    my $foreign = $busy - $cpu - $own;
    my %figures = (
        %$result,
        command     => join(' ', @command),
        raw         => $raw,
        cpu_seconds => $cpu,
        p50_us      => $result->{latency}{p50},
        p99_us      => $result->{latency}{p99},
        server_cpu  => $cpu / $seconds,
        client_cpu  => $own / $seconds,
        foreign_cpu => $foreign > 0 ? $foreign / $seconds : 0,
    );
    my $problem = $class->_problem($result, $measure, _least_bytes($run, $server, $measure)) || $server->check_again;
    if (defined $problem) {
        $server->fail($problem);
        return \%figures;
    }
    my $answers = $result->{answers};
    $figures{cpu_us} = $cpu / $answers * 1e6;
    $figures{switches} = (context_switches($server->{pid}) - $switches) / $answers;
    $figures{mb_per_cpu_s} = $answers * $measure->{file_bytes} / 1e6 / $cpu if $measure->{file_bytes} && $cpu > 0;
    return \%figures;
}

# Why a result says nothing about how fast the server is, in words; undef when it does. A measure can tolerate a part of
# the answers being errors, because a published figure had them; without that it is none.
sub _problem {
    my ($class, $result, $measure, $least_bytes) = @_;
    my ($answers, $bad) = ($result->{answers}, $result->{answers} - $result->{requests});
    return 'answered nothing' unless $answers;
    return "answered $bad of $answers with an error" if $bad > $answers * ($measure->{tolerates} || 0);
    return 'answered nothing but errors' unless $result->{requests};
    my $each = $result->{bytes} / $answers;
    return sprintf 'answers have %d bytes on average, not at least %d', $each, $least_bytes if $each < $least_bytes && !$bad;
    return undef;
}

# How many bytes an answer must have on average, head and body. wrk and h2load ask as the check did that found the answer
# right; ab asks in HTTP/1.0, which makes another head, but looks at the length of every body itself.
sub _least_bytes {
    my ($run, $server, $measure) = @_;
    return 0.98 * $server->{answer_size} unless $measure->{tool} eq 'ab';
    return length $run->wanted($measure);
}

# CPU time of the load generators that have ended.
sub _children_seconds {
    my (undef, undef, $user, $system) = times;
    return $user + $system;
}

1;
__END__

=head1 NAME

HydroBench::ClosedLoop - one round with wrk, ab or h2load

=head1 DESCRIPTION

These clients keep a number of connections busy: each asks again as soon as it is answered. That tells what a server can
do at most; while it stands still they are silent, so for latencies see C<latency> in L<HydroBench::Load>.

=cut
