package Hydrofoil::TestStandby;
use strict;
use warnings;
use Exporter 'import';
use File::Temp ();
use Hydrofoil::Test;
use Test::More;
use Time::HiRes qw(time sleep);

our @EXPORT = qw(gated_app open_gate hold stick stick_all descriptors_of client_of spread facts fact workers_of is_open);

# Gates are files: the application waits for one, the test makes it. Nothing depends on how long anything takes.
our $GATES = File::Temp->newdir('hydrofoil-gates-XXXXXX', TMPDIR => 1);

END { open_gate('ALL') if $GATES && -d "$GATES" }

sub open_gate {
    my ($name) = @_;
    open my $out, '>', "$GATES/$name" or die "$GATES/$name: $!";
    close $out;
    return;
}

# The source of an application that answers /hold/GATE when that gate is open, after the line "held GATE PID" was recorded.
# Everything else it answers at once, with what it knows of the request, a line each: see facts(). `more` is code that may
# answer first: it finds $env, $path, $gate_is_open->($name) and $pass->($name).
sub gated_app {
    my (%option) = @_;
    my $more = defined $option{more} ? $option{more} : '';
    return <<"END";
use Digest::MD5 ();
use Time::HiRes ();
my \$gate_is_open = sub { -e "$GATES/\$_[0]" || -e "$GATES/ALL" || !-d "$GATES" };
my \$pass = sub {
    my (\$gate) = \@_;
    main::record("held \$gate \$\$");
    Time::HiRes::sleep(0.005) until \$gate_is_open->(\$gate);
};
sub {
    my \$env = shift;
    my \$path = \$env->{PATH_INFO};
$more
    \$pass->(\$1) if \$path =~ m{^/hold/(\\w+)};
    main::record("seen \$1 \$\$") if \$path =~ m{^/note/(\\w+)};
    my \$body = '';
    1 while \$env->{'psgi.input'}->read(\$body, 65536, length \$body);
    my %facts = (
        pid => \$\$, path => \$path, method => \$env->{REQUEST_METHOD}, scheme => \$env->{'psgi.url_scheme'},
        addr => \$env->{REMOTE_ADDR}, port => \$env->{REMOTE_PORT}, server_port => \$env->{SERVER_PORT},
        length => length \$body, md5 => Digest::MD5::md5_hex(\$body),
    );
    my \@lines = map { "\$_=" . (defined \$facts{\$_} ? \$facts{\$_} : '') . "\\n" } sort keys %facts;
    return [ 200, [ 'Content-Type' => 'text/plain' ], [ join '', \@lines ] ];
};
END
}

# What the application told of a request.
sub facts {
    my ($response) = @_;
    my %facts = map { /\A(\w+)=(.*)\z/ ? ($1, $2) : () } split /\n/, $response->body;
    return \%facts;
}

sub fact {
    my ($response, $name) = @_;
    return facts($response)->{$name};
}

# Asks on a connection for what waits for a gate, and waits until a worker is stuck with it. That worker's process id.
sub hold {
    my ($server, $client, $gate, @lines) = @_;
    $client->send(req("GET /hold/$gate", @lines));
    my $pid;
    poll_until(sub { ($pid) = map { /^held \Q$gate\E (\d+)$/ ? $1 : () } $server->recorded })
        or die "no worker is stuck at $gate\n" . $server->log;
    return $pid;
}

# Makes this worker stuck, until ->release, which returns the answer to the request that it was stuck with. A connection may
# have moved just before its request: then once more.
my $sticks = 0;
sub stick {
    my ($server, $pid, @lines) = @_;
    for (1 .. 20) {
        my $stuck = bless { client => scalar client_of($server, $pid), gate => 'stick' . ++$sticks }, 'Hydrofoil::TestStandby::Stuck';
        $stuck->{pid} = hold($server, $stuck->{client}, $stuck->{gate}, @lines);
        return $stuck if $stuck->{pid} == $pid;
        $stuck->release;
    }
    die "worker $pid does not get stuck\n";
}

# Makes all n workers stuck. One that is stuck takes nothing, so n requests do.
sub stick_all {
    my ($server, $n) = @_;
    my %at = spread($server, $n);
    my @stuck = map { bless { client => $_, gate => 'stick' . ++$sticks }, 'Hydrofoil::TestStandby::Stuck' } values %at;
    $_->{pid} = hold($server, $_->{client}, $_->{gate}) for @stuck;
    return @stuck;
}

# How many descriptors these stuck workers have: one less, at least, for each connection that has moved into the run queue.
sub descriptors_of {
    my ($server, @stuck) = @_;
    my $n = 0;
    $n += $server->descriptors($_->pid) for @stuck;
    return $n;
}

# Keep-alive connections, used once, that are with this worker (with any, without a pid); the first in scalar context.
sub client_of {
    my ($server, $pid, $n, %option) = @_;
    my (@found, @others);
    my $end = time + $Hydrofoil::Test::DEADLINE;
    while (@found < ($n || 1)) {
        die "no connection gets to worker $pid\n" if time > $end;
        my $client = $server->connect(%option);
        my $here = fact($client->ask('GET /pid'), 'pid');
        push @{ !defined $pid || $here == $pid ? \@found : \@others }, $client;
        splice @others, 0, 20 if @others > 50;
    }
    return wantarray ? @found : $found[0];
}

# One keep-alive connection at each of n workers: (pid => client, ...).
sub spread {
    my ($server, $n) = @_;
    my (%at, @others);
    my $end = time + $Hydrofoil::Test::DEADLINE;
    while (keys %at < $n) {
        die "no connection gets to some worker\n" if time > $end;
        my $client = $server->connect;
        my $here = fact($client->ask('GET /pid'), 'pid');
        if ($at{$here}) { push @others, $client }
        else            { $at{$here} = $client }
        splice @others, 0, 20 if @others > 50;
    }
    return %at;
}

# The processes that the supervisor has now.
sub workers_of {
    my ($server) = @_;
    my @children;
    for my $stat (glob '/proc/[0-9]*/stat') {
        open my $in, '<', $stat or next;
        my $line = <$in>;
        push @children, $1 if defined $line && $line =~ /^([0-9]+) \(.*\) [^Z] $server->{pid} /s;
    }
    @children = sort { $a <=> $b } @children;
    return @children;
}

# True if nothing has come on this connection so far, not even its end.
sub is_open {
    my ($client) = @_;
    $client->_turn(0, time + 0.05);
    return !$client->eof && $client->{in} eq '';
}

package Hydrofoil::TestStandby::Stuck;
use strict;
use warnings;

sub pid { $_[0]{pid} }
sub client { $_[0]{client} }

sub release {
    my ($self) = @_;
    Hydrofoil::TestStandby::open_gate($self->{gate});
    return $self->{client}->read_response('GET');
}

1;
