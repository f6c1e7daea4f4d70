package Hydrofoil::Test;
use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use File::Basename qw(dirname);
use File::Temp ();
use IO::Socket::INET;
use IO::Socket::UNIX;
use Scalar::Util qw(weaken);
use Test::More;
use Time::HiRes qw(time sleep);

our @EXPORT = qw(start_server check each_way how req poll_until every_n app_file);

our $ROOT = Cwd::realpath(dirname(__FILE__) . '/../../..');
our $PATIENCE = $ENV{HYDROFOIL_TEST_PATIENCE} || 1;    # a factor, for slow builds (sanitizers, valgrind)
our $DEADLINE = 20 * $PATIENCE;                        # seconds that any one answer may take
our $HOW = 'whole';

$SIG{PIPE} = 'IGNORE';

# What no server may ever say, whatever the test was about; then the file fails.
my $UNTHINKABLE = qr/AddressSanitizer|UndefinedBehaviorSanitizer|runtime error: |^panic: |Attempt to free|SIGSEGV|SIGABRT|SIGBUS/m;
my (@unthinkable, %servers);

sub look_for_the_unthinkable {
    my ($log) = @_;
    push @unthinkable, $log if $log =~ $UNTHINKABLE;
    return;
}

END {
    my $status = $?;
    $_->stop for grep { $_ && $_->{owner} == $$ } values %servers;
    $? = $status;
    if (@unthinkable) {
        diag("a server broke:\n$_") for @unthinkable;
        $? ||= 1;
    }
}

# Runs a block as one sub-test. It ends by itself, and what it dies of fails the sentence and not the file.
sub check {
    my ($sentence, $code) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    subtest $sentence => sub {
        local $SIG{ALRM} = sub { die "took longer than a minute\n" };
        alarm 60 * $PATIENCE;
        my $done = eval { $code->(); 1 };
        my $error = $@;
        alarm 0;
        fail "ended by itself: $error" unless $done;
        done_testing;
    };
    return;
}

# Runs a block once for each way in which the same bytes can arrive. Inside, exchange() sends that way and how() says
# which it is.
sub each_way {
    my ($sentence, $code) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my %words = (
        whole   => 'request by request',
        bytes   => 'one byte at a time',
        segment => 'all in one segment',
    );
    for my $how (qw(whole bytes segment)) {
        local $HOW = $how;
        check("$sentence ($words{$how})", $code);
    }
    return;
}

sub how { $HOW }

# True as soon as the block is; false after the deadline.
sub poll_until {
    my ($code, $seconds) = @_;
    my $end = time + ($seconds ? $seconds * $PATIENCE : $DEADLINE);
    while (1) {
        my $value = $code->();
        return $value if $value;
        return if time > $end;
        sleep 0.01;
    }
}

# Cuts a string into pieces of n bytes.
sub every_n {
    my ($n, $bytes) = @_;
    return unpack "(a$n)*", $bytes;
}

# Writes a request: its line, its header lines and, as a last reference to a string, its body, for which
# Content-Length is added unless a line speaks of the length. HTTP/1.1 and a Host are added where the line has no version.
sub req {
    my ($line, @lines) = @_;
    my $body = ref $lines[-1] ? ${ pop @lines } : undef;
    if ($line !~ m{ HTTP/[0-9.]+\z}) {
        $line .= ' HTTP/1.1';
        unshift @lines, 'Host: localhost' unless grep { /^host:/i } @lines;
    }
    push @lines, 'Content-Length: ' . length $body
        if defined $body && !grep { /^(?:content-length|transfer-encoding)\s*:/i } @lines;
    return join("\r\n", $line, @lines, '', '') . (defined $body ? $body : '');
}

sub app_file { "$ROOT/t/apps/$_[0]" }

sub free_port {
    my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => 0, Proto => 'tcp')
        or die "no free port: $!";
    return $socket->sockport;
}

# Starts a server and waits until it accepts. Options:
#   app    => Perl source of the application or the path of a .psgi file
#   args   => [more options of the command]; `--workers 1 -E test` unless they say otherwise
#   listen => 'tcp' (default) or 'unix'
#   lint   => 0 for applications that answer illegally on purpose
#   env    => {more environment}
# The source may call main::record($line), from its own package just record($line), to append a line to what
# $server->recorded returns.
sub start_server {
    my %option = (listen => 'tcp', lint => 1, args => [], env => {}, @_);
    for my $attempt (1 .. 5) {
        my $server = Hydrofoil::Test::Server->new(%option);
        if ($server->wait_until_ready) {
            weaken($servers{$server} = $server);
            return $server;
        }
        my $log = $server->log;
        next if $option{listen} eq 'tcp' && $log =~ /in use/i && $attempt < 5;
        die "the server does not start: $log\n";
    }
}

package Hydrofoil::Test::Server;
use strict;
use warnings;
use POSIX qw(WNOHANG);
use Time::HiRes qw(time sleep);

sub new {
    my ($class, %option) = @_;
    my $self = bless {%option, owner => $$}, $class;
    $self->{dir} = File::Temp->newdir('hydrofoil-test-XXXXXX', TMPDIR => 1);
    $self->{log_file} = "$self->{dir}/error.log";
    $self->{host} = '127.0.0.1';
    my @where;
    if ($option{listen} eq 'unix') {
        $self->{path} = "$self->{dir}/socket";
        @where = ('--listen' => $self->{path});
    }
    else {
        $self->{port} = Hydrofoil::Test::free_port();
        @where = ('--host' => $self->{host}, '--port' => $self->{port});
    }
    my @args = @{ $option{args} };
    unshift @args, '--workers', 1 unless grep { /^--(?:max-)?workers/ } @args;
    unshift @args, '-E', 'test' unless grep { $_ eq '-E' } @args;
    $self->{command} = [$self->program, @where, @args, $self->_app_file];
    $self->_launch;
    return $self;
}

# The command under test; HYDROFOIL_TEST_COMMAND puts another server in its place, to check the tests themselves.
sub program {
    return split ' ', $ENV{HYDROFOIL_TEST_COMMAND} if $ENV{HYDROFOIL_TEST_COMMAND};
    my $root = $Hydrofoil::Test::ROOT;
    return ($^X, "-I$root/blib/arch", "-I$root/blib/lib", "-I$root/lib", "$root/bin/hydrofoil");
}

sub _app_file {
    my ($self) = @_;
    my $source = $self->{app};
    if ($source =~ /\A\S+\.psgi\z/) {
        open my $in, '<', $source or die "$source: $!";
        local $/;
        $source = "#line 1 \"$source\"\n" . <$in>;
    }
    my $file = "$self->{dir}/app.psgi";
    open my $out, '>', $file or die "$file: $!";
    print {$out} <<"END";
use strict;
use warnings;
use Plack::Middleware::Lint;
sub main::record {
    open my \$fh, '>>', '$self->{dir}/recorded' or die \$!;
    syswrite \$fh, "\@_\\n";
    close \$fh;
}
BEGIN { *record = \\&main::record }
my \$application = do {
$source
};
@{[ $self->{lint} ? 'Plack::Middleware::Lint->wrap($application);' : '$application;' ]}
END
    close $out;
    return $file;
}

sub _launch {
    my ($self) = @_;
    my $pid = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        local %ENV = (%ENV, %{ $self->{env} });
        delete @ENV{qw(SERVER_STARTER_PORT PLACK_ENV PLACK_SERVER)};
        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', $self->{log_file} or POSIX::_exit(1);
        open STDERR, '>>', $self->{log_file} or POSIX::_exit(1);
        no warnings 'exec';
        exec { $self->{command}[0] } @{ $self->{command} } or do {
            syswrite STDERR, "$self->{command}[0]: $!\n";
            POSIX::_exit(127);
        };
    }
    $self->{pid} = $pid;
    return;
}

# A port that was free a moment ago may be somebody else's by now: no look at it before the server says that it is its own.
sub wait_until_ready {
    my ($self) = @_;
    my $ready;
    Hydrofoil::Test::poll_until(sub {
        $ready = ($ENV{HYDROFOIL_TEST_COMMAND} || $self->log =~ /listens on/) && $self->_try_connect;
        $ready || $self->exited;
    });
    return $ready && !$self->exited;
}

sub _try_connect {
    my ($self) = @_;
    return $self->{path}
        ? IO::Socket::UNIX->new(Peer => $self->{path})
        : IO::Socket::INET->new(PeerAddr => $self->{host}, PeerPort => $self->{port}, Proto => 'tcp', Timeout => 5);
}

sub connect {
    my ($self, %option) = @_;
    return Hydrofoil::Test::Client->new($self, %option);
}

sub url { "http://$_[0]{host}:$_[0]{port}" . (defined $_[1] ? $_[1] : '/') }

sub pid { $_[0]{pid} }

# True when the process that was started has ended; its wait status is then in $self->{status}.
sub exited {
    my ($self) = @_;
    return 1 unless $self->{pid};
    my $done = waitpid $self->{pid}, WNOHANG;
    return 0 unless $done;
    $self->{status} = $?;
    $self->{pid} = 0;
    Hydrofoil::Test::look_for_the_unthinkable($self->log);
    return 1;
}

sub signal {
    my ($self, $name) = @_;
    kill $name, $self->{pid} if $self->{pid};
    return;
}

# Ends the server with TERM. True if it went by itself.
sub stop {
    my ($self) = @_;
    return 1 if $self->exited;
    kill TERM => $self->{pid};
    return 1 if Hydrofoil::Test::poll_until(sub { $self->exited }, 15);
    Test::More::diag("the server did not end on TERM; killing it\n" . $self->log);
    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
    $self->{pid} = 0;
    return 0;
}

sub DESTROY {
    my ($self) = @_;
    return unless $self->{pid} && $self->{owner} == $$;
    local ($@, $!, $?);
    $self->stop;
}

sub _slurp {
    my ($file) = @_;
    open my $in, '<', $file or return '';
    local $/;
    my $all = <$in>;
    return defined $all ? $all : '';
}

sub log { _slurp($_[0]{log_file}) }

# Waits until the log matches, returns the match's line.
sub wait_for_log {
    my ($self, $pattern) = @_;
    return Hydrofoil::Test::poll_until(sub { (grep { $_ =~ $pattern } split /\n/, $self->log)[0] }, 10);
}

# What the application gave to record(), line by line.
sub recorded { split /\n/, _slurp("$_[0]{dir}/recorded") }

sub forget_recorded { unlink "$_[0]{dir}/recorded" }

# Sends requests the way each_way() says, over a fresh connection, and returns the client with the answers read.
# Stops at the first answer after which the connection cannot go on.
sub exchange {
    my ($self, @requests) = @_;
    my $client = $self->connect;
    $client->exchange(@requests);
    return $client;
}

# One request on its own connection; its answer, or an exception.
sub ask {
    my ($self, @request) = @_;
    my $client = $self->connect;
    return $client->ask(@request);
}

sub get {
    my ($self, $path, @lines) = @_;
    return $self->ask("GET $path", 'Connection: close', @lines);
}

# Sends bytes as they are and returns all that comes until the server closes.
sub raw {
    my ($self, $bytes) = @_;
    my $client = $self->connect;
    $client->send($bytes);
    return $client->read_until_close;
}

# The one worker's process id, as the application tells it at /pid.
sub worker_pid {
    my ($self) = @_;
    return $self->get('/pid')->body;
}

# Kilobytes of resident memory of a process.
sub rss {
    my ($self, $pid) = @_;
    return _slurp("/proc/$pid/status") =~ /^VmRSS:\s*(\d+)/m ? $1 : 0;
}

# The most that it ever was.
sub peak_rss {
    my ($self, $pid) = @_;
    return _slurp("/proc/$pid/status") =~ /^VmHWM:\s*(\d+)/m ? $1 : 0;
}

sub descriptors {
    my ($self, $pid) = @_;
    opendir my $dir, "/proc/$pid/fd" or return 0;
    return scalar grep { /^\d/ } readdir $dir;
}

package Hydrofoil::Test::Client;
use strict;
use warnings;
use Errno qw(EAGAIN EWOULDBLOCK EINTR);
use IO::Select;
use Socket qw(IPPROTO_TCP TCP_NODELAY SOL_SOCKET SO_LINGER SO_RCVBUF SHUT_WR SOCK_STREAM AF_INET pack_sockaddr_in
    inet_aton);
use Time::HiRes qw(time);

# Options: receive_buffer => bytes, for a reader that is slow on purpose.
sub new {
    my ($class, $server, %option) = @_;
    my $socket;
    if ($server->{path}) {
        $socket = IO::Socket::UNIX->new(Peer => $server->{path}) or die "connect: $!\n";
    }
    else {
        socket $socket, AF_INET, SOCK_STREAM, 0 or die "socket: $!\n";
        # Before connect(2), or the window is negotiated without it.
        setsockopt $socket, SOL_SOCKET, SO_RCVBUF, $option{receive_buffer} if $option{receive_buffer};
        connect $socket, pack_sockaddr_in($server->{port}, inet_aton($server->{host})) or die "connect: $!\n";
        setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;
        bless $socket, 'IO::Socket::INET';
    }
    $socket->blocking(0);
    return bless {socket => $socket, in => '', eof => 0, responses => [], unanswered => []}, $class;
}

sub socket { $_[0]{socket} }

sub response { $_[0]{responses}[ defined $_[1] ? $_[1] : 0 ] }
sub responses { @{ $_[0]{responses} } }
sub statuses { join ' ', map { $_->status } $_[0]->responses }
sub bodies { map { $_->body } $_[0]->responses }
sub eof { $_[0]{eof} }
sub reset { $_[0]{reset} }

# Waits for readability and, where asked, writability; reads what there is. True if it may be written.
sub _turn {
    my ($self, $want_write, $end) = @_;
    my $left = $end - time;
    die "no answer in time; read so far: " . _shown($self->{in}) . "\n" if $left <= 0;
    my ($read, $write) = ('', '');
    my $fd = fileno $self->{socket};
    vec($read, $fd, 1) = 1 unless $self->{eof} || $self->{not_reading};
    vec($write, $fd, 1) = 1 if $want_write;
    my $n = select $read, $write, undef, $left;
    return 0 if $n <= 0;
    $self->_fill if vec $read, $fd, 1;
    return $want_write && vec $write, $fd, 1;
}

sub _fill {
    my ($self) = @_;
    my $got = sysread $self->{socket}, $self->{in}, 262_144, length $self->{in};
    return if $got;
    if (defined $got) {
        $self->{eof} = 1;
    }
    elsif (!($!{EAGAIN} || $!{EWOULDBLOCK} || $!{EINTR})) {
        $self->{eof} = 1;
        $self->{reset} = 1;
    }
    return;
}

# Sends pieces, each with a send(2) of its own. Reads meanwhile, so that nobody waits for anybody. False once the server
# has closed.
sub send {
    my ($self, @pieces) = @_;
    my $end = time + $Hydrofoil::Test::DEADLINE;
    for my $piece (@pieces) {
        my $at = 0;
        while ($at < length $piece) {
            # A piece usually fits: try first, and look at the other direction only now and then.
            my $sent = syswrite $self->{socket}, $piece, length($piece) - $at, $at;
            if (defined $sent) {
                $at += $sent;
                next;
            }
            if ($!{EAGAIN} || $!{EWOULDBLOCK} || $!{EINTR}) {
                $self->_turn(1, $end);
                next;
            }
            $self->{send_failed} = 1;
            return 0;
        }
    }
    return 1;
}

sub half_close { shutdown $_[0]{socket}, SHUT_WR }

sub close {
    my ($self) = @_;
    close $self->{socket};
    return;
}

# Leaves with a reset, as a killed client does.
sub abort {
    my ($self) = @_;
    setsockopt $self->{socket}, SOL_SOCKET, SO_LINGER, pack 'll', 1, 0;
    return $self->close;
}

# Reads one final answer to a request of that method, with the informational ones before it. Undefined if the server
# closes before its first byte.
sub read_response {
    my ($self, $method, $minor) = @_;
    my $end = time + $Hydrofoil::Test::DEADLINE;
    my @informational;
    my $reader = Hydrofoil::Test::Response->new($method);
    while (1) {
        if ($reader->read(\$self->{in}, $self->{eof})) {
            $reader->{request_minor} = defined $minor ? $minor : 1;
            if ($reader->is_informational) {
                push @informational, $reader;
                $reader = Hydrofoil::Test::Response->new($method);
                next;
            }
            $reader->{informational} = \@informational;
            $reader->validate;
            push @{ $self->{responses} }, $reader;
            return $reader;
        }
        if ($self->{eof}) {
            return if $reader->is_empty && !length $self->{in};
            die "the answer ends too early: " . _shown($reader->{head} . $self->{in}) . "\n";
        }
        $self->_turn(0, $end);
    }
}

# Reads until the server closes; what came.
sub read_until_close {
    my ($self) = @_;
    my $end = time + $Hydrofoil::Test::DEADLINE;
    $self->_turn(0, $end) until $self->{eof};
    return $self->{in};
}

# True if the server closes without another byte.
sub closes {
    my ($self) = @_;
    my $rest = eval { $self->read_until_close };
    return defined $rest && $rest eq '';
}

# Reads at least n bytes, or until close.
sub read_at_least {
    my ($self, $n) = @_;
    my $end = time + $Hydrofoil::Test::DEADLINE;
    $self->_turn(0, $end) until $self->{eof} || length $self->{in} >= $n;
    return length $self->{in};
}

# Drains and forgets; number of bytes read until close.
sub discard_until_close {
    my ($self, $pause) = @_;
    my ($total, $end) = (0, time + $Hydrofoil::Test::DEADLINE);
    until ($self->{eof}) {
        $self->_turn(0, $end);
        $total += length $self->{in};
        $self->{in} = '';
    }
    return $total;
}

sub ask {
    my ($self, @request) = @_;
    my $bytes = @request == 1 && $request[0] =~ /\n/ ? $request[0] : Hydrofoil::Test::req(@request);
    $self->send($bytes);
    my $response = $self->read_response(_line($bytes));
    die "the server closed without an answer\n" unless $response;
    return $response;
}

# See Hydrofoil::Test::Server::exchange.
sub exchange {
    my ($self, @requests) = @_;
    my $how = $Hydrofoil::Test::HOW;
    if ($how eq 'whole') {
        for my $request (@requests) {
            $self->send($request);
            my $response = $self->read_response(_line($request)) or last;
            last if $response->closes;
        }
    }
    else {
        my $all = join '', @requests;
        $self->send($how eq 'bytes' ? split(//, $all) : $all);
        for my $request (@requests) {
            my $response = $self->read_response(_line($request)) or last;
            last if $response->closes;
        }
    }
    my $last = $self->{responses}[-1];
    if ($last && $last->closes) {
        my $rest = $self->read_until_close;
        die 'bytes after the last answer: ' . _shown($rest) . "\n" if length $rest;
    }
    return $self->responses;
}

# Method and minor version of a request's bytes, as far as they can be read.
sub _line {
    my ($bytes) = @_;
    my ($method) = $bytes =~ /\A\s*(\S+)/;
    my ($minor) = $bytes =~ m{\A\s*[^\r\n]*HTTP/1\.([01])\r?\n};
    return ($method, $minor);
}

sub _shown {
    my ($bytes) = @_;
    $bytes = '' unless defined $bytes;
    my $long = length $bytes > 400;
    $bytes = substr $bytes, 0, 400;
    $bytes =~ s/\r/\\r/g;
    $bytes =~ s/\n/\\n\n/g;
    $bytes =~ s/([^\n -~])/sprintf '\\x%02x', ord $1/ge;
    return $long ? "$bytes..." : $bytes;
}

package Hydrofoil::Test::Response;
use strict;
use warnings;

# A reader of answers that trusts nothing: RFC 9112, sections 4 to 7. It is fed a buffer again and again until it has
# taken one whole answer off its front.
sub new {
    my ($class, $method) = @_;
    return bless {
        method => defined $method ? $method : 'GET', head => '', body => '', headers => [], trailers => [], chunks => 0,
        state => 'head', informational => [],
    }, $class;
}

sub status { $_[0]{status} }
sub reason { $_[0]{reason} }
sub minor { $_[0]{minor} }
sub head { $_[0]{head} }
sub body { $_[0]{body} }
sub framing { $_[0]{framing} }       # none, length, chunked or close
sub chunks { $_[0]{chunks} }
sub informational { @{ $_[0]{informational} } }
sub is_informational { $_[0]{status} < 200 && $_[0]{status} != 101 }
sub is_empty { $_[0]{state} eq 'head' && $_[0]{head} eq '' }

# All values of a header in order; in scalar context the only or last one.
sub header {
    my ($self, $name) = @_;
    my @values = map { $_->[1] } grep { lc $_->[0] eq lc $name } @{ $self->{headers} };
    return wantarray ? @values : $values[-1];
}

sub header_names { map { lc $_->[0] } @{ $_[0]{headers} } }

# True if the connection ends with this answer.
sub closes {
    my ($self) = @_;
    my $connection = lc join ',', $self->header('Connection');
    return 1 if $connection =~ /\bclose\b/ || $self->{framing} eq 'close';
    return $self->{request_minor} == 0 && $connection !~ /\bkeep-alive\b/;
}

# Takes bytes off the front of $$buffer. True when the answer is complete; dies on what no client should have to read.
sub read {
    my ($self, $buffer, $eof) = @_;
    while ($self->{state} ne 'done') {
        my $step = "_read_$self->{state}";
        last unless $self->$step($buffer, $eof);
    }
    return $self->{state} eq 'done';
}

sub _read_head {
    my ($self, $buffer) = @_;
    my $end = index $$buffer, "\r\n\r\n";
    if ($end < 0) {
        die "malformed answer: no status line: " . Hydrofoil::Test::Client::_shown($$buffer) . "\n"
            if length $$buffer >= 7 && $$buffer !~ m{\AHTTP/1\.};
        return 0;
    }
    $self->{head} = substr $$buffer, 0, $end + 4, '';
    my ($line, @fields) = split /\r\n/, $self->{head};
    my $shown = Hydrofoil::Test::Client::_shown($self->{head});
    ($self->{minor}, $self->{status}, $self->{reason}) = $line =~ m{\AHTTP/1\.([01]) ([1-9]\d\d) ([\t -~\x80-\xff]*)\z}
        or die "malformed status line: $shown\n";
    for my $field (@fields) {
        my ($name, $value) = $field =~ /\A([-!#\$%&'*+.^_`|~0-9A-Za-z]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*\z/
            or die "malformed header line: $shown\n";
        push @{ $self->{headers} }, [$name, $value];
    }
    my @lengths = $self->header('Content-Length');
    my @codings = $self->header('Transfer-Encoding');
    die "more than one Content-Length: $shown\n" if @lengths > 1;
    die "Content-Length and Transfer-Encoding: $shown\n" if @lengths && @codings;
    die "Transfer-Encoding is not just chunked: $shown\n" if @codings && "@codings" !~ /\Achunked\z/i;
    die "malformed Content-Length: $shown\n" if @lengths && $lengths[0] !~ /\A(?:0|[1-9]\d*)\z/;
    my $status = $self->{status};
    if ($status < 200 || $status == 204) {
        die "an answer $status with a length: $shown\n" if @lengths || @codings;
    }
    die "an answer 304 with a transfer coding: $shown\n" if $status == 304 && @codings;
    if ($status < 200 || $status == 204 || $status == 304 || $self->{method} eq 'HEAD') {
        $self->{framing} = 'none';
        $self->{state} = 'done';
    }
    elsif (@codings) {
        $self->{framing} = 'chunked';
        $self->{state} = 'chunk_size';
    }
    elsif (@lengths) {
        $self->{framing} = 'length';
        $self->{state} = 'length_body';
        $self->{left} = $lengths[0];
    }
    else {
        $self->{framing} = 'close';
        $self->{state} = 'close_body';
    }
    return 1;
}

sub _read_length_body {
    my ($self, $buffer) = @_;
    return 0 if length $$buffer < $self->{left};
    $self->{body} = substr $$buffer, 0, $self->{left}, '';
    $self->{state} = 'done';
    return 1;
}

sub _read_close_body {
    my ($self, $buffer, $eof) = @_;
    return 0 unless $eof;
    $self->{body} = $$buffer;
    $$buffer = '';
    $self->{state} = 'done';
    return 1;
}

sub _read_chunk_size {
    my ($self, $buffer) = @_;
    my $end = index $$buffer, "\r\n";
    if ($end < 0) {
        die 'malformed chunk: ' . Hydrofoil::Test::Client::_shown($$buffer) . "\n" if length $$buffer > 4096;
        return 0;
    }
    my $line = substr $$buffer, 0, $end + 2, '';
    my ($size) = $line =~ /\A([0-9A-Fa-f]{1,15})\r\n\z/
        or die 'malformed chunk size: ' . Hydrofoil::Test::Client::_shown($line) . "\n";
    $self->{left} = hex $size;
    $self->{state} = $self->{left} ? 'chunk_data' : 'trailer';
    return 1;
}

sub _read_chunk_data {
    my ($self, $buffer) = @_;
    return 0 if length $$buffer < $self->{left} + 2;
    $self->{body} .= substr $$buffer, 0, $self->{left}, '';
    die "a chunk does not end with CRLF\n" if substr($$buffer, 0, 2, '') ne "\r\n";
    $self->{chunks}++;
    $self->{state} = 'chunk_size';
    return 1;
}

sub _read_trailer {
    my ($self, $buffer) = @_;
    my $end = index $$buffer, "\r\n";
    return 0 if $end < 0;
    my $line = substr $$buffer, 0, $end + 2, '';
    if ($line eq "\r\n") {
        $self->{state} = 'done';
    }
    else {
        push @{ $self->{trailers} }, $line;
    }
    return 1;
}

# What holds for every final answer, whatever the application did.
sub validate {
    my ($self) = @_;
    my $shown = Hydrofoil::Test::Client::_shown($self->{head});
    my @dates = $self->header('Date');
    die "not exactly one Date: $shown\n" if @dates != 1;
    die "more than one Server: $shown\n" if scalar(my @servers = $self->header('Server')) > 1;
    die "chunked for a 1.0 client: $shown\n" if $self->{request_minor} == 0 && $self->{framing} eq 'chunked';
    die "an answer that ends with the connection does not say so: $shown\n"
        if $self->{framing} eq 'close' && $self->{request_minor} == 1
        && join(',', $self->header('Connection')) !~ /\bclose\b/i;
    return;
}

1;
