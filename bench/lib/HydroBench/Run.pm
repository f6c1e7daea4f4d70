package HydroBench::Run;
use strict;
use warnings;
use File::Temp ();
use POSIX ();
use Time::HiRes qw(sleep time);
use HydroBench::Client;
use HydroBench::Functions;
use HydroBench::Load;
use HydroBench::Machine;
use HydroBench::Proc qw(busy_seconds context_switches slurp);
use HydroBench::Scenario;
use HydroBench::Server;
use HydroBench::Stats qw(spread);
use HydroBench::Syscalls;
use HydroBench::Wrk;

# What a measure's `tool` can be: how one round of one server is made, from ($run, $server, $measure, $round) to a hash of
# figures, or undef with the server's problem set.
my %TOOLS = (
    wrk         => \&_wrk,
    idle        => \&_idle,
    load        => sub { HydroBench::Load->round(@_) },
    restarts    => sub { HydroBench::Load->restarts(@_) },
    idle_active => \&_idle_active,
    syscalls    => sub { HydroBench::Syscalls->round(@_) },
);

my $HELLO  = 'Hello World';
my $SETTLE = 0.3;    # seconds between two runs: the last one's connections are to be gone

# A run during which other processes used more than this much of a core is made again, at most so many times, and the
# least disturbed one counts. The choice looks at the others' CPU only, never at the figures.
my $DISTURBED = 0.15;
my $REPEATS   = 1;

# $options: root, measures, servers (descriptions that are present), copies (name => directory), rounds, duration
# (seconds), warm_up (true: a second of load before the first round), progress (called with what is running now, and with the part that is done, 0 to 1).
sub new {
    my ($class, %options) = @_;
    my $self = bless {%options}, $class;
    ($self->{server_core}, $self->{client_core}) = HydroBench::Machine->pinning;
    undef $self->{server_core} unless HydroBench::Servers::find_program('taskset');
    $self->{dir} = File::Temp->newdir('hydrobench-XXXXXX', TMPDIR => 1);
    chmod 0755, "$self->{dir}";    # servers that change their user read the served file there
    return $self;
}

# Runs all measures; returns a list of { measure, results => { server => result }, left_out => { server => why } }.
sub run {
    my ($self) = @_;
    my $measures = $self->{measures};
    my @done;
    for my $measure (@$measures) {
        $self->{share} = [@done / @$measures, 1 / @$measures];
        push @done, $self->_measure($measure);
    }
    return @done;
}

sub _measure {
    my ($self, $measure) = @_;
    return HydroBench::Functions->measure($self, $measure) if $measure->{tool} eq 'functions';
    my (@servers, %left_out, %results, %rounds);
    for my $description (@{ $self->{servers} }) {
        my ($takes_part, $why_not) = HydroBench::Scenario->takes_part($measure, $description);
        if ($takes_part) { push @servers, $self->_server($description, $measure) }
        else             { $left_out{ $description->{name} } = $why_not }
    }
    $self->{running} = \@servers;

    $self->progress("$measure->{name}: starting", 0);
    $_->start for @servers;
    $_->wait_ready($measure->{path} || '/', $self->_check($measure)) for @servers;

    my @ready  = grep { !defined $_->problem } @servers;
    my $rounds = $measure->{rounds} || ($measure->{tool} eq 'idle' ? 1 : $self->{rounds});
    my $total  = $rounds * @ready || 1;
    my $count  = 0;
    for my $round (1 .. $rounds) {
        for my $server (@ready) {
            $self->progress(sprintf('%s: round %d of %d, %s', $measure->{name}, $round, $rounds, $server->name),
                $count++ / $total);
            next if defined $server->problem || !$server->alive;
            my $result = $TOOLS{ $measure->{tool} }->($self, $server, $measure, $round);
            push @{ $rounds{ $server->name } }, $result if $result;
            $server->alive;
        }
        push @ready, shift @ready;    # nobody is always first after the pause
    }
    for my $server (@servers) {
        my $name = $server->name;
        my @own  = @{ $rounds{$name} || [] };
        my $result = HydroBench::Scenario->summarize(@own);
        my $figure = $measure->{file_bytes} ? 'mb_per_cpu_s' : 'req_per_s';
        $results{$name} = {
            (defined $server->problem ? (problem => $server->problem, errors => $result->{errors}) : %$result),
            kind       => $server->{kind},
            spread     => spread(map { $_->{$figure} } @own),
            keep_alive => $server->{keep_alive},
            command    => join(' ', @{ $server->command }),
            rounds     => \@own,
            log        => _tail(slurp($server->{log})),
        };
    }
    $_->stop for @servers;
    $self->{running} = [];
    return { measure => $measure, results => \%results, left_out => \%left_out };
}

# Ends every server that still runs, for whoever interrupts a run.
sub stop { $_->stop for @{ $_[0]{running} || [] } }

sub _server {
    my ($self, $description, $measure) = @_;
    return HydroBench::Server->new($description, {
        root => $self->{root},
        dir  => "$self->{dir}",
        core => ($measure->{workers} || 1) > 1 ? undef : $self->{server_core},    # several workers share all cores
        app  => $measure->{app},
        workers => $measure->{workers} || 1,
        copy => $self->{copies}{ $description->{name} },
        file => $measure->{file_bytes} ? $self->_file($measure->{file_bytes}) : undef,
    });
}

# A check gets an answer and says what is wrong with it, or undef.
sub _check {
    my ($self, $measure) = @_;
    my $wanted = $measure->{file_bytes} ? slurp($self->_file($measure->{file_bytes}))
        : defined $measure->{body} ? $measure->{body} : $HELLO;
    return sub {
        my ($answer) = @_;
        return "status $answer->{status}" unless $answer->{status} == 200;
        return 'a body of ' . length($answer->{body}) . ' bytes, not the expected ' . length $wanted
            unless length $answer->{body} == length $wanted;
        return 'other bytes than expected' unless $answer->{body} eq $wanted;
        return 'Content-Type is missing' unless defined $answer->{headers}{'content-type'};
        return undef;
    };
}

# A file of that size whose bytes look random but are the same each time.
sub _file {
    my ($self, $size) = @_;
    my $path = "$self->{dir}/file-$size.bin";
    return $path if -e $path;
    open my $file, '>:raw', $path or die "$path: $!\n";
    my ($state, $bytes) = (1, '');
    while (length $bytes < $size) {
        $state = ($state * 1_103_515_245 + 12_345) & 0x7fffffff;
        $bytes .= pack 'V', $state;
    }
    print {$file} substr $bytes, 0, $size;
    close $file or die "$path: $!\n";
    return $path;
}

# How long one run of the measure takes, in whole seconds.
sub duration {
    my ($self, $measure) = @_;
    my $duration = $measure->{seconds} || $self->{duration};
    my $least    = $measure->{min_duration} || 0;
    return $duration < $least ? $least : $duration;
}

sub _wrk {
    my ($self, $server, $measure, $round) = @_;
    my @runs;
    for (0 .. $REPEATS) {
        my $run = $self->_wrk_once($server, $measure, $round) or return undef;
        push @runs, $run;
        last if defined $server->problem || $run->{foreign_cpu} <= $DISTURBED;
        $round++;    # warmed up
    }
    my ($best) = sort { $a->{foreign_cpu} <=> $b->{foreign_cpu} } @runs;
    return { %$best, repeated => $#runs };
}

sub _wrk_once {
    my ($self, $server, $measure, $round) = @_;
    my $duration = $self->duration($measure);
    my @command = HydroBench::Wrk->command(
        url         => 'http://127.0.0.1:' . $server->port . ($measure->{path} || '/'),
        connections => $measure->{connections},
        duration    => $duration,
        $measure->{pipeline}
        ? (script => "$self->{root}/bench/pipeline.lua", script_args => [$measure->{pipeline}])
        : (),
    );
    unshift @command, $self->pin_client($measure);
    if ($round == 1 && $self->{warm_up}) {
        my @warm_up = map { $_ eq "${duration}s" ? '1s' : $_ } @command;
        output(\@warm_up, 30);
    }
    sleep $SETTLE;

    my $started = time;
    my ($busy, $cpu, $client) = (busy_seconds(), $server->cpu_seconds, _children_seconds());
    my $switches = context_switches($server->{pid});
    my $text = output(\@command, $duration + 30);
    return undef unless $server->alive;
    my $seconds = time - $started;
    $_ = -$_ for $busy, $cpu, $client;
    $cpu    += $server->cpu_seconds;
    $busy   += busy_seconds();
    $client += _children_seconds();

    my $result = HydroBench::Wrk->parse($text);
    if (!$result) {
        $server->fail('wrk gave no result: ' . _tail($text, 200));
        return undef;
    }
    my $foreign = $busy - $cpu - $client;
    my %figures = (
        %$result,
        command     => join(' ', @command),
        output      => $text,
        cpu_seconds => $cpu,
        p50_us      => $result->{latency}{p50},
        p99_us      => $result->{latency}{p99},
        server_cpu  => $cpu / $seconds,
        client_cpu  => $client / $seconds,
        foreign_cpu => $foreign > 0 ? $foreign / $seconds : 0,
    );
    my $requests = $result->{requests};
    if (!$requests || $result->{status_errors}) {
        $server->fail($requests ? "answered $result->{status_errors} of $requests with an error" : 'answered nothing');
        return \%figures;
    }
    $figures{cpu_us} = $cpu / $requests * 1e6;
    $figures{switches} = (context_switches($server->{pid}) - $switches) / $requests;
    $figures{mb_per_cpu_s} = $requests * $measure->{file_bytes} / 1e6 / $cpu if $measure->{file_bytes} && $cpu > 0;
    return \%figures;
}

sub _idle {
    my ($self, $server, $measure) = @_;
    return { errors => 0 } unless $server->{keep_alive};

    # Some connections first, so that what a server allocates once does not count.
    my ($warm_up) = HydroBench::Client->open_idle($server->port, '/', 50);
    undef $warm_up;
    sleep $SETTLE;

    my $limit = POSIX::sysconf(POSIX::_SC_OPEN_MAX()) - 100;
    my $count = $measure->{connections} < $limit ? $measure->{connections} : $limit;
    my $before = $server->private_kib;
    my ($sockets, $error) = HydroBench::Client->open_idle($server->port, '/', $count);
    sleep $SETTLE;
    my $after  = $server->private_kib;
    my $closed = HydroBench::Client->closed_by_server(@$sockets);
    my $open   = @$sockets - $closed;
    if (defined $error) {
        $server->fail("idle connections: $error");
        return undef;
    }
    return {
        errors      => $closed,
        connections => scalar @$sockets,
        before_kib  => $before,
        after_kib   => $after,
        ($open > 0 ? (bytes_per_connection => ($after - $before) * 1024 / $open) : ()),
    };
}

# Active connections alone, then the same with many idle ones beside them, which are all asked again in the end.
sub _idle_active {
    my ($self, $server, $measure, $round) = @_;
    my $limit = POSIX::sysconf(POSIX::_SC_OPEN_MAX());
    my $count = $measure->{idle};
    if ($limit < $count + $measure->{connections} + 100) {
        $server->fail(sprintf 'needs a limit of open files of %d (now %d): raise it with ulimit -Hn, or LimitNOFILE in a unit',
            $count + $measure->{connections} + 100, $limit);
        return undef;
    }
    my $alone  = $self->_wrk($server, $measure, $round) or return undef;
    return $alone if defined $server->problem;
    sleep $SETTLE;
    my $before = $server->private_kib;
    my ($sockets, $error) = HydroBench::Client->open_idle($server->port, '/', $count);
    if (defined $error) {
        $server->fail("idle connections: $error");
        return undef;
    }
    sleep $SETTLE;
    my $bytes = ($server->private_kib - $before) * 1024 / $count;
    my $beside = $self->_wrk($server, $measure, 0) or return undef;
    my $answered = HydroBench::Client->ask_again($server->port, '/', @$sockets);
    return {
        alone_per_s => $alone->{req_per_s},
        req_per_s   => $beside->{req_per_s},
        errors      => $alone->{errors} + $beside->{errors},
        alone       => $alone,
        beside      => $beside,
        foreign_cpu => $beside->{foreign_cpu},
        bytes_per_connection => $bytes,
        active_part => $beside->{req_per_s} / $alone->{req_per_s},
        active_cpu  => $beside->{cpu_us} / $alone->{cpu_us},
        worst       => {
            idle_unanswered => $count - $answered,
            each_bytes      => $bytes,
        },
    };
}

# What a command prints, both channels; it is killed after $timeout seconds.
sub output {
    my ($command, $timeout) = @_;
    my $pid = open my $out, '-|';
    die "cannot fork: $!\n" unless defined $pid;
    if (!$pid) {
        open STDERR, '>&', \*STDOUT;
        exec { $command->[0] } @$command or POSIX::_exit(127);
    }
    my $text = '';
    local $SIG{ALRM} = sub { kill KILL => $pid };
    alarm $timeout;
    while (1) {
        my $got = sysread $out, $text, 65536, length $text;
        next if !defined $got && $!{EINTR};
        last unless $got;
    }
    alarm 0;
    close $out;
    return $text;
}

# The processor the client is to run on, as the beginning of a command line; nothing where servers use all processors.
sub pin_client {
    my ($self, $measure) = @_;
    return () if !defined $self->{server_core} || ($measure->{workers} || 1) > 1;
    return ('taskset', '-c', $self->{client_core});
}

# CPU time of the load generators that have ended.
sub _children_seconds {
    my (undef, undef, $user, $system) = times;
    return $user + $system;
}

sub _tail {
    my ($text, $length) = @_;
    $length ||= 4000;
    return length $text > $length ? substr $text, -$length : $text;
}

# Says what is running, and which part of the measure is done, 0 to 1.
sub progress {
    my ($self, $what, $part) = @_;
    my ($from, $share) = @{ $self->{share} };
    $self->{progress}->($what, $from + $share * $part) if $self->{progress};
}

1;
__END__

=head1 NAME

HydroBench::Run - runs the measures of a scenario, servers side by side, rounds interleaved

=head1 SYNOPSIS

    my $run  = HydroBench::Run->new(root => $root, measures => \@measures, servers => \@descriptions, copies => {},
        rounds => 5, duration => 5, progress => sub { warn "$_[0]\n" });
    my @done = $run->run;

For each measure all servers are started, checked for the right answer and warmed up; then each is loaded once per
round, in an order that changes. A server that does not start, answers wrongly or dies has a C<problem> and no figures.

=cut
