package HydroBench::Server;
use strict;
use warnings;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw(sleep time);
use HydroBench::Client;
use HydroBench::Proc qw(tree slurp);
use HydroBench::Servers;

my $START_TIMEOUT = 15;    # seconds
my $STOP_TIMEOUT  = 5;
my $CALM_TIMEOUT  = 15;    # for an answer after a run, of which some requests may still be in the queues

# $description: one entry of HydroBench::Servers. $context: root, dir (scratch, exists), cores (a list for taskset; undef: not
# pinned), app, workers, options (the measure's own, instead of the description's), env (more environment), file (path of the
# file that is served), copy (directory of a built copy, if the server is one).
sub new {
    my ($class, $description, $context) = @_;
    return bless { %$description, context => $context, problem => undef, pid => undef }, $class;
}

sub name    { $_[0]{name} }
sub problem { $_[0]{problem} }
sub port    { $_[0]{port} }
sub command { $_[0]{started_as} }

# Returns at once; wait_ready tells whether it came up.
sub start {
    my ($self) = @_;
    my $context = $self->{context};
    $self->{port} = _free_port();
    $self->{log}  = "$context->{dir}/$self->{name}-$self->{port}.log";

    my @command = HydroBench::Servers->command($self, { %$context, port => $self->{port} });
    unshift @command, 'taskset', '-c', $context->{cores} if defined $context->{cores};
    $self->{started_as} = [@command];

    defined(my $pid = fork) or die "cannot fork: $!\n";
    if (!$pid) {
        setpgrp 0, 0;
        open STDIN,  '<',  '/dev/null';
        open STDOUT, '>>', $self->{log};
        open STDERR, '>&', \*STDOUT;
        @ENV{ keys %{ $context->{env} } } = values %{ $context->{env} } if $context->{env};
        $ENV{HF_BENCH_FILE}      = $context->{file};
        $ENV{HF_BENCH_FILE_SIZE} = -s $context->{file} if defined $context->{file};
        exec { $command[0] } @command or POSIX::_exit(127);
    }
    $self->{pid} = $pid;
    return $self;
}

# Waits until the server answers $path, then checks the answer: true, or false with problem() set. $check gets an answer and
# says what is wrong with it; with $post (type, bytes) the request is a POST.
sub wait_ready {
    my ($self, $path, $check, $post) = @_;
    @$self{qw(path check post)} = ($path, $check, $post);
    my $deadline = time + $START_TIMEOUT;
    while (1) {
        return $self->fail('did not start: ' . $self->_last_words) unless $self->alive;
        last if IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port}, Proto => 'tcp');
        return $self->fail("does not listen after $START_TIMEOUT s: " . $self->_last_words) if time > $deadline;
        sleep 0.05;
    }
    for my $attempt (1 .. 3) {
        my ($answer, $error) = $self->_ask;
        return $self->fail("wrong answer: $error") if defined $error;
        @$self{qw(keep_alive answer_size)} = @$answer{qw(keep_alive size)};
    }
    return 1;
}

# A new one in the place of this one, checked as it was. What it was started with before is forgotten.
sub restart {
    my ($self) = @_;
    $self->stop;
    $self->start;
    return $self->wait_ready(@$self{qw(path check post)});
}

# The same request once more: undef, or in words what is wrong with the answer now.
sub check_again {
    my ($self) = @_;
    my $deadline = time + $CALM_TIMEOUT;
    while (1) {
        my ($answer, $error) = $self->_ask;
        return undef unless defined $error;
        return "wrong answer after the run: $error" if $answer || time > $deadline || !$self->alive;
        sleep 0.1;
    }
}

# (answer, undef), (answer, what is wrong with it), or (undef, why there is none).
sub _ask {
    my ($self) = @_;
    my ($answer, $error) = HydroBench::Client->get($self->{port}, $self->{path}, $self->{post});
    return ($answer, $answer ? $self->{check}->($answer) : $error);
}

# False once the process we started is gone; problem() then says so.
sub alive {
    my ($self) = @_;
    my $pid = $self->{pid} or return 0;
    return 1 if waitpid($pid, POSIX::WNOHANG()) == 0;
    my $how = $? & 127 ? 'killed by signal ' . ($? & 127) : 'exit status ' . ($? >> 8);
    delete $self->{pid};
    kill KILL => -$pid;    # its children
    $self->fail("died ($how): " . $self->_last_words);
    return 0;
}

sub cpu_seconds { HydroBench::Proc::cpu_seconds($_[0]{pid}) }
sub private_kib { HydroBench::Proc::private_kib($_[0]{pid}) }

# Ends the whole tree: politely, then not.
sub stop {
    my ($self) = @_;
    my $pid  = delete $self->{pid} or return;
    my @tree = tree($pid);
    kill $self->{stop_signal} || 'TERM', $pid;
    my $deadline = time + $STOP_TIMEOUT;
    while (waitpid($pid, POSIX::WNOHANG()) == 0) {
        if (time > $deadline) {
            kill KILL => @tree;
            waitpid $pid, 0;
            last;
        }
        sleep 0.02;
    }
    kill KILL => -$pid;    # what is left of its process group
    return;
}

# The first problem is the one that is told. Returns false.
sub fail {
    my ($self, $problem) = @_;
    $self->{problem} = $problem unless defined $self->{problem};
    return 0;
}

sub _last_words {
    my ($self) = @_;
    my @lines = grep { /\S/ } split /\n/, slurp($self->{log});
    return @lines ? $lines[-1] : 'it said nothing';
}

# A port that the kernel does not give to outgoing connections, so that it is still free when the server gets there.
sub _free_port {
    my ($first) = slurp('/proc/sys/net/ipv4/ip_local_port_range') =~ /^(\d+)/;
    my @ports = $first && $first > 20_000 ? map { 10_000 + int rand($first - 10_000) } 1 .. 100 : ();
    for my $port (@ports, 0) {
        my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 1, Proto => 'tcp') or next;
        return $socket->sockport;
    }
    die "no free port: $!\n";
}

1;
__END__

=head1 NAME

HydroBench::Server - one running server: start, check, what it costs, stop

=head1 SYNOPSIS

    my $server = HydroBench::Server->new($description, { dir => $scratch, cores => 0, app => 'hello', root => $root });
    $server->start;
    $server->wait_ready('/', sub { $_[0]{body} eq 'Hello World' ? undef : 'not hello' })
        or warn $server->name, ': ', $server->problem, "\n";
    my $cpu = $server->cpu_seconds;
    $server->stop;

=cut
