package HydroBench::Run;
use strict;
use warnings;
use File::Path qw(make_path);
use File::Temp ();
use POSIX ();
use Time::HiRes qw(sleep time);
use HydroBench::Body qw(random_bytes);
use HydroBench::Client;
use HydroBench::ClosedLoop;
use HydroBench::Functions;
use HydroBench::Load;
use HydroBench::Machine;
use HydroBench::Proc qw(slurp);
use HydroBench::Scenario;
use HydroBench::Server;
use HydroBench::Stats qw(spread);
use HydroBench::Syscalls;

# What a measure's `tool` can be: how one round of one server is made, from ($run, $server, $measure, $round) to a hash of
# figures, or undef with the server's problem set.
my %TOOLS = (
    (map { $_ => sub { HydroBench::ClosedLoop->round(@_) } } qw(wrk ab h2load)),
    idle        => \&_idle,
    latency     => sub { HydroBench::Load->latency(@_) },
    load        => sub { HydroBench::Load->round(@_) },
    restarts    => sub { HydroBench::Load->restarts(@_) },
    idle_active => \&_idle_active,
    syscalls    => sub { HydroBench::Syscalls->round(@_) },
);

# What must be done before the first round, from ($run, the servers that are ready, $measure).
my %PREPARE = (latency => sub { HydroBench::Load->prepare(@_) });

# The right answers of the applications.
my %BODY = (hello => 'Hello World', sleep => 'Hello World', ok => 'OK', app2013 => "Hello World\n", app2015 => 'x' x 4000);
$BODY{'app2013-chunked'} = $BODY{app2013};

my $SETTLE = 0.3;    # seconds between two runs: the last one's connections are to be gone

# A server is calm when it uses less than this part of a core for so many seconds. After a round it has some seconds to get
# there; one that does not would share the others' core in their rounds, and is started anew.
my ($CALM, $LOOK, $PATIENCE) = (0.2, 0.1, 3);

# $options: root, measures, servers (descriptions that are present), copies (name => directory), rounds, duration
# (seconds), warm_up (true: a second of load before the first round), repeats (how often a disturbed round is made again,
# where that is not each tool's own number), results_dir and scenario (where raw output goes, and the beginning of its names;
# without it is not kept), progress (called with the measure, what is running now, and which part of the measure is done, 0 to 1).
sub new {
    my ($class, %options) = @_;
    my $self = bless {%options}, $class;
    $self->{server_core} = HydroBench::Machine->placement(1)->{server};
    undef $self->{server_core} unless HydroBench::Servers::find_program('taskset');
    $self->{dir} = File::Temp->newdir('hydrobench-XXXXXX', TMPDIR => 1);
    chmod 0755, "$self->{dir}";    # servers that change their user read the served file there
    return $self;
}

# Runs all measures; returns a list of { measure, results => { server => result }, left_out => { server => why },
# pinned => see HydroBench::Machine }.
sub run {
    my ($self) = @_;
    return map { $self->measure($_) } @{ $self->{measures} };
}

sub measure {
    my ($self, $measure) = @_;
    $self->{measuring} = $measure;
    return HydroBench::Functions->measure($self, $measure) if $measure->{tool} eq 'functions';
    my (@servers, %left_out, %results, %rounds, %anew);
    for my $description (@{ $self->{servers} }) {
        my ($takes_part, $why_not) = HydroBench::Scenario->takes_part($measure, $description);
        if ($takes_part) { push @servers, $self->_server($description, $measure) }
        else             { $left_out{ $description->{name} } = $why_not }
    }
    $self->{running} = \@servers;

    $self->progress("$measure->{name}: starting", 0);
    $_->start for @servers;
    my ($type, undef, $bytes) = $self->post_file($measure);
    $_->wait_ready($measure->{path} || '/', $self->_check($measure), defined $type ? { type => $type, bytes => $bytes } : undef)
        for @servers;
    if ($measure->{tool} eq 'h2load') {
        my @closing = grep { !defined $_->problem && !$_->{keep_alive} } @servers;
        $left_out{ $_->name } = 'closes each connection, and h2load -D does not end then' for @closing;
        $_->stop for @closing;
        @servers = grep { !$left_out{ $_->name } } @servers;
    }
    if (my $prepare = $PREPARE{ $measure->{tool} }) {
        $self->progress("$measure->{name}: preparing", 0);
        $prepare->($self, [grep { !defined $_->problem } @servers], $measure);
    }

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
            next if !$server->alive || _calms_down($server);
            $anew{ $server->name }++;
            $server->restart;
        }
        push @ready, shift @ready;    # nobody is always first after the pause
    }
    for my $server (@servers) {
        my $name = $server->name;
        my @own  = @{ $rounds{$name} || [] };
        my $result = HydroBench::Scenario->summarize(@own);
        my $figure = $measure->{file_bytes} ? 'mb_per_cpu_s' : $measure->{tool} eq 'latency' ? 'p99_us' : 'req_per_s';
        $results{$name} = {
            (defined $server->problem ? (problem => $server->problem, %{ HydroBench::Scenario->errors(@own) }) : %$result),
            kind       => $server->{kind},
            spread     => spread(map { $_->{$figure} } @own),
            keep_alive => $server->{keep_alive},
            serves     => $self->_serves($server, $measure),
            anew       => $anew{$name},
            command    => join(' ', @{ $server->command }),
            rounds     => \@own,
            log        => _tail(slurp($server->{log})),
        };
    }
    $_->stop for @servers;
    $self->{running} = [];
    return { measure => $measure, results => \%results, left_out => \%left_out, pinned => $self->placement($measure) };
}

# How many connections a server serves at a time where that is less than the client has: a worker that keeps to one connection
# is fast for that one, and no client counts the others as errors. undef where there are enough.
sub _serves {
    my ($self, $server, $measure) = @_;
    my $workers = $measure->{workers} || 1;
    my $keeps   = $measure->{tool} ne 'ab' || $measure->{keep_alive};
    return $server->{blocking} && $server->{keep_alive} && $keeps && ($measure->{connections} || 0) > $workers ? $workers : undef;
}

# Does the server come to rest, now that its clients have left?
sub _calms_down {
    my ($server) = @_;
    my $deadline = time + $PATIENCE;
    while (1) {
        my $before = $server->cpu_seconds;
        sleep $LOOK;
        return 1 if $server->cpu_seconds - $before < $CALM * $LOOK;
        return 0 if time > $deadline;
    }
}

# Ends every server that still runs, for whoever interrupts a run.
sub stop { $_->stop for @{ $_[0]{running} || [] } }

sub _server {
    my ($self, $description, $measure) = @_;
    return HydroBench::Server->new($description, {
        root    => $self->{root},
        dir     => "$self->{dir}",
        cores   => $self->placement($measure)->{server},
        app     => $measure->{app},
        workers => $measure->{workers} || 1,
        options => [HydroBench::Servers->options($description, $measure)],
        env     => $measure->{env},
        copy    => HydroBench::Servers->copy($description, $self->{copies}),
        file    => $measure->{file_bytes} ? $self->_file($measure->{file_bytes}) : undef,
    });
}

# Where the servers of a measure and their client run: see HydroBench::Machine.
sub placement {
    my ($self, $measure) = @_;
    my $placement = HydroBench::Machine->placement($measure->{workers}, $measure->{threads});
    return $placement if HydroBench::Servers::find_program('taskset');
    return { server => undef, client => undef, shared => 1 };
}

# The bytes of the right answer.
sub wanted {
    my ($self, $measure) = @_;
    return slurp($self->_file($measure->{file_bytes})) if $measure->{file_bytes};
    return defined $measure->{body} ? $measure->{body} : $BODY{ $measure->{app} };
}

# A check gets an answer and says what is wrong with it, or undef.
sub _check {
    my ($self, $measure) = @_;
    my $wanted = $self->wanted($measure);
    my $app    = $measure->{app};
    return sub {
        my ($answer) = @_;
        return "status $answer->{status}" unless $answer->{status} == 200;
        return 'a body of ' . length($answer->{body}) . ' bytes, not the expected ' . length $wanted
            unless length $answer->{body} == length $wanted;
        return 'other bytes than expected' unless $answer->{body} eq $wanted;
        return 'Content-Type is missing' unless defined $answer->{headers}{'content-type'} || $app eq 'ok';
        return undef;
    };
}

# A file of that size whose bytes look random but are the same each time.
sub _file {
    my ($self, $size) = @_;
    my $path = "$self->{dir}/file-$size.bin";
    return -e $path ? $path : _write_file($path, random_bytes($size));
}

# The form that a measure posts: (its content type, a file with its bytes, the bytes), or nothing.
sub post_file {
    my ($self, $measure) = @_;
    return () unless $measure->{post};
    my ($type, $bytes) = HydroBench::Body->encode($measure->{post});
    return ($type, _write_file("$self->{dir}/post.bin", $bytes), $bytes);
}

sub _write_file {
    my ($path, $bytes) = @_;
    open my $file, '>:raw', $path or die "$path: $!\n";
    print {$file} $bytes;
    close $file or die "$path: $!\n";
    return $path;
}

# Keeps what a command printed, under the command itself, beside the results. Returns the name of that file as seen from there,
# or undef where nothing is kept.
sub raw {
    my ($self, $server, $measure, $command, $text) = @_;
    return undef unless defined $self->{results_dir};
    make_path("$self->{results_dir}/raw");
    my $base = join '-', grep { defined } $self->{scenario}, $measure->{name}, $server ? $server->name : undef;
    my $number = 1;
    $number++ while -e "$self->{results_dir}/raw/$base-$number.txt";
    my $name = "raw/$base-$number.txt";
    _write_file("$self->{results_dir}/$name", '$ ' . join(' ', @$command) . "\n" . $text);
    return $name;
}

# How long one run of the measure takes, in whole seconds.
sub duration {
    my ($self, $measure) = @_;
    my $duration = $measure->{seconds} || $self->{duration};
    my $least    = $measure->{min_duration} || 0;
    return $duration < $least ? $least : $duration;
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
    my $alone  = HydroBench::ClosedLoop->round($self, $server, { %$measure, tool => 'wrk' }, $round) or return undef;
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
    my $beside = HydroBench::ClosedLoop->round($self, $server, { %$measure, tool => 'wrk' }, 0) or return undef;
    return $beside if defined $server->problem;
    my $answered = HydroBench::Client->ask_again($server->port, '/', @$sockets);
    return {
        alone_per_s => $alone->{req_per_s},
        req_per_s   => $beside->{req_per_s},
        requests    => $alone->{requests} + $beside->{requests},
        errors      => $alone->{errors} + $beside->{errors},
        error_classes => {
            map { $_ => $alone->{error_classes}{$_} + $beside->{error_classes}{$_} } keys %{ $alone->{error_classes} },
        },
        latency     => $beside->{latency},
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

# The cores the client is to run on, as the beginning of a command line; nothing where servers use them, too.
sub pin_client {
    my ($self, $measure) = @_;
    my $client = $self->placement($measure)->{client};
    return defined $client ? ('taskset', '-c', $client) : ();
}

sub _tail {
    my ($text, $length) = @_;
    $length ||= 4000;
    return length $text > $length ? substr $text, -$length : $text;
}

# Says what is running, and which part of the measure is done, 0 to 1.
sub progress {
    my ($self, $what, $part) = @_;
    $self->{progress}->($self->{measuring}, $what, $part) if $self->{progress};
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
