package Hydrofoil::TestProcess;
use strict;
use warnings;
use Cwd qw(realpath);
use Exporter 'import';
use File::Basename qw(dirname);
use File::Temp ();
use HTTP::Tiny;
use IO::Socket::INET;
use POSIX qw(WNOHANG);
use Time::HiRes qw(time sleep);

our @EXPORT_OK = qw(hydrofoil plackup finish free_port get is_alive poll_until write_file $ROOT);

our $ROOT     = realpath(dirname(__FILE__) . '/../../..');
our $DEADLINE = 30 * ($ENV{HYDROFOIL_TEST_PATIENCE} || 1);    # seconds for anything to happen

# A test that hangs ends here, and takes its servers along.
my %running;
$SIG{ALRM} = sub { die "the test took too long\n" };
alarm 6 * $DEADLINE;
END { local $?; kill KILL => map { _tree($_) } grep { $running{$_} == $$ } keys %running }

$ENV{PERL5LIB} = join ':', "$ROOT/lib", "$ROOT/blib/lib", "$ROOT/blib/arch", grep { length } $ENV{PERL5LIB} || '';
delete @ENV{qw(PLACK_ENV PLACK_SERVER SERVER_STARTER_PORT)};

# Starts the command; a reference to a hash as the last argument: env, dir.
sub hydrofoil { __PACKAGE__->start($^X, "$ROOT/bin/hydrofoil", @_) }

sub plackup { __PACKAGE__->start(_program('plackup'), '-s', 'Hydrofoil', @_) }

# Starts it and waits for its end: (exit code, output).
sub finish {
    my $process = shift;
    my $status  = $process->wait_for_end;
    return ($status >> 8, $process->output);
}

sub start {
    my ($class, @command) = @_;

    my %option = ref $command[-1] ? %{ pop @command } : ();
    my $log = File::Temp->new(TEMPLATE => 'hydrofoil-XXXXXX', TMPDIR => 1);
    my $pid = fork;
    die "fork: $!" if !defined $pid;
    if (!$pid) {
        my $run = sub {
            @ENV{ keys %{ $option{env} } } = values %{ $option{env} } if $option{env};
            chdir $option{dir} or die "chdir: $!" if $option{dir};
            open STDIN,  '<',   '/dev/null';
            open STDOUT, '>>&', $log;
            open STDERR, '>>&', $log;
            POSIX::setsid() if $option{session};
            exec { $command[0] } @command;
        };
        $run->();
        POSIX::_exit(127);
    }
    $running{$pid} = $$;
    return bless { pid => $pid, log => $log, owner => $$ }, $class;
}

sub pid { $_[0]{pid} }

sub output {
    my $self = shift;
    open my $handle, '<', "$self->{log}" or die "$self->{log}: $!";
    local $/;
    return scalar <$handle>;
}

# Returns what the pattern captured, once the output matches it.
sub wait_for {
    my ($self, $pattern) = @_;
    my @found;
    poll_until(sub { @found = $self->output =~ $pattern or $self->has_ended }) ;
    @found = $self->output =~ $pattern if !@found;
    return @found;
}

sub port {
    my $self = shift;
    my ($port) = $self->wait_for(qr{listens on .*?http://\S+:([0-9]+)/});
    die 'the server does not start: ' . $self->output if !$port;
    return $port;
}

sub workers {
    my $pid = ref $_[0] ? $_[0]{pid} : $_[0];
    my @children;
    for my $stat (glob '/proc/[0-9]*/stat') {
        open my $handle, '<', $stat or next;
        my $line = <$handle>;
        push @children, $1 if defined $line && $line =~ /^([0-9]+) \(.*\) [^Z] $pid /s;
    }
    @children = sort { $a <=> $b } @children;
    return @children;
}

sub wait_for_workers {
    my ($self, $count) = @_;
    my @workers;
    poll_until(sub { (@workers = $self->workers) == $count });
    return @workers;
}

sub signal {
    my ($self, $signal) = @_;
    kill $signal => $self->{pid};
    return;
}

sub has_ended {
    my $self = shift;
    if (!defined $self->{status} && waitpid($self->{pid}, WNOHANG) == $self->{pid}) {
        $self->{status} = $?;
        delete $running{ $self->{pid} };
    }
    return defined $self->{status};
}

# The status as in $?, or undef if it goes on for too long.
sub wait_for_end {
    my $self = shift;
    poll_until(sub { $self->has_ended });
    return $self->{status};
}

sub stop {
    my ($self, $signal) = @_;
    $self->signal($signal || 'TERM');
    return $self->wait_for_end;
}

sub DESTROY {
    my $self = shift;
    return if $self->{owner} != $$ || $self->has_ended;
    local ($@, $?);
    kill KILL => _tree($self->{pid});
    waitpid $self->{pid}, 0;
    delete $running{ $self->{pid} };
    return;
}

sub get {
    my ($port, $path) = @_;
    my $answer = HTTP::Tiny->new(timeout => $DEADLINE, keep_alive => 0)
        ->get("http://127.0.0.1:$port" . (defined $path ? $path : '/'));
    return $answer->{success} ? $answer->{content} : "$answer->{status} $answer->{content}";
}

sub free_port {
    my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp') or die "no port: $!";
    return $socket->sockport;
}

sub is_alive {
    my $pid = shift;
    open my $handle, '<', "/proc/$pid/stat" or return 0;
    my $line = <$handle>;
    return defined $line && $line =~ /\) [^ZX] / ? 1 : 0;
}

sub poll_until {
    my $code = shift;
    my $end  = time + $DEADLINE;
    while (time < $end) {
        my $value = $code->();
        return $value if $value;
        sleep 0.01;
    }
    return;
}

sub write_file {
    my ($path, $text) = @_;
    open my $handle, '>', "$path.new" or die "$path: $!";
    print {$handle} $text;
    close $handle or die "$path: $!";
    rename "$path.new", $path or die "$path: $!";
    return $path;
}

sub _tree {
    my $pid = shift;
    return ($pid, map { _tree($_) } workers($pid));
}

sub _program {
    my $name = shift;
    for my $dir (split /:/, $ENV{PATH}) {
        return "$dir/$name" if -x "$dir/$name";
    }
    die "no $name here";
}

1;

__END__

=head1 NAME

Hydrofoil::TestProcess - starts commands and watches them, for the tests of the control plane

=head1 SYNOPSIS

    my $server = hydrofoil('--port', 0, '--workers', 2, 'app.psgi');
    print get($server->port, '/');
    $server->wait_for_workers(2);
    my $status = $server->stop('QUIT');

    my ($code, $output) = finish(hydrofoil('--misspelt'));

=cut
