# The page that script/server serves: what a PSGI server can do, shown live.
#
#     hydrofoil eg/demo.psgi          then open http://127.0.0.1:5000
#
# Everything in here is plain PSGI, so any server runs it (plackup -s Starman
# eg/demo.psgi) and the page tells which one answered. Each route is one sub
# that takes the environment and returns a PSGI response; eg/demo/ holds the
# page itself. Shorter examples: hello.psgi, streaming.psgi and upload.psgi.
use strict;
use warnings;

use Digest::SHA ();
use File::Basename qw(dirname);
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use Plack::Builder;
use Plack::Request;
use Time::HiRes qw(sleep time);

my $MIB  = 1024 * 1024;
my $json = JSON::PP->new->utf8->canonical;

# ------------------------------------------------------------- the routes

my %route = (
    'GET /ping'    => \&ping,
    'GET /stream'  => \&stream,
    'POST /upload' => \&upload,
    'GET /hints'   => \&hints,
    'GET /file'    => \&file,
    'GET /env'     => \&environment,
    'GET /wire'    => \&wire,
);

sub dispatch {
    my $env = shift;
    my $method = $env->{REQUEST_METHOD} eq 'HEAD' ? 'GET' : $env->{REQUEST_METHOD};
    my $handler = $route{"$method $env->{PATH_INFO}"};
    return $handler->($env) if $handler;

    my @allowed = map { /^(\S+) \Q$env->{PATH_INFO}\E\z/ ? $1 : () } sort keys %route;
    return text(405, "This page takes @allowed.\n", Allow => join ', ', @allowed) if @allowed;
    return text(404, "There is nothing here. The demonstration starts at /\n");
}

# As small an answer as there is. It tells which worker answered, how many of
# these that worker has answered, and the client's port: the page counts the
# different ports to know how many connections carried its requests.
my $pings = 0;

sub ping {
    my $env = shift;
    return text(200, join(' ', $$, ++$pings, $env->{REMOTE_PORT} || 0) . "\n");
}

# One line at a time through the streaming writer. Each write leaves at once:
# the page shows the time between lines as the browser saw it.
sub stream {
    my $env   = shift;
    my $query = Plack::Request->new($env)->query_parameters;
    my $lines = clamp($query->{lines}, 1, 100, 12);
    my $pause = clamp($query->{pause}, 0, 1,   0.25);

    return text(501, "This server has no psgi.streaming.\n") unless $env->{'psgi.streaming'};
    return sub {
        my $respond = shift;
        my $writer  = $respond->([ 200, [ plain(), 'X-Accel-Buffering' => 'no' ] ]);
        my $started = time;
        for my $line (1 .. $lines) {
            sleep $pause if $line > 1;
            $writer->write(sprintf "line %d, after %.0f ms\n", $line, 1000 * (time - $started));
        }
        $writer->close;
    };
}

# The server has read the whole body before this is called, if it says so in
# psgix.input.buffered, so a slow upload does not occupy a worker.
sub upload {
    my $env     = shift;
    my $input   = $env->{'psgi.input'};
    my $left    = $env->{CONTENT_LENGTH};
    my $digest  = Digest::SHA->new(256);
    my $bytes   = 0;
    my $started = time;

    # Without Content-Length the body came chunked and ends at end of file.
    while (!defined $left || $bytes < $left) {
        my $got = $input->read(my $piece, 64 * 1024);
        return text(400, "The body ended early.\n") unless defined $got;
        last unless $got;
        $digest->add($piece);
        $bytes += $got;
    }
    return answer({
        bytes       => $bytes,
        sha256      => $digest->hexdigest,
        buffered    => $env->{'psgix.input.buffered'} ? JSON::PP::true : JSON::PP::false,
        app_seconds => 0 + sprintf('%.6f', time - $started),
        worker      => $$,
    });
}

# 103 Early Hints (RFC 8297): the client may fetch the style sheet while the
# application still works on the answer.
sub hints {
    my $env = shift;
    my @link = (Link => '</demo/demo.css>; rel=preload; as=style');

    $env->{'psgix.informational'}->(103, [@link]) if $env->{'psgix.informational'};
    sleep 0.3;
    return text(200, "An answer that took 300 ms to think about.\n", @link);
}

# An open file as the body: a server that can, sends it with sendfile(2). The
# file is sparse and has no name, so it takes no space and leaves nothing.
sub file {
    my $env  = shift;
    my $size = $MIB * int clamp(Plack::Request->new($env)->query_parameters->{mib}, 1, 512, 64);

    open my $fh, '+>', undef or die "No temporary file: $!\n";
    truncate $fh, $size or die "Temporary file of $size bytes: $!\n";
    return [ 200, [
        'Content-Type'        => 'application/octet-stream',
        'Content-Disposition' => 'attachment; filename="zeros.bin"',
        'Content-Length'      => $size,
        'Cache-Control'       => 'no-store',
    ], $fh ];
}

# What the server handed to the application for this very request. Only keys
# that PSGI defines: under CGI the environment also holds that of the process.
sub environment {
    my $env = shift;
    my %instead = (
        (map { $_ => '(not shown)' } qw(HTTP_AUTHORIZATION HTTP_COOKIE HTTP_PROXY_AUTHORIZATION)),
        'psgix.io' => 'the socket',    # some servers make it only when it is looked at
    );
    my @keys = grep { /^(?:(?:REQUEST|SERVER|REMOTE|CONTENT|HTTP)_|SCRIPT_NAME|PATH_INFO|QUERY_STRING|psgix?\.)/ }
        sort keys %$env;

    return answer({
        server => $env->{SERVER_SOFTWARE} || handler(),
        env    => [ map { [ $_, $instead{$_} || describe($env->{$_}) ] } @keys ],
    });
}

# ---------------------------------------------------------- the wire view
#
# Browsers hide early hints, chunk sizes and pipelining. So this route talks
# to its own server as a client, over a connection of its own, and returns
# each piece of bytes that went over the wire, with the time when it did.
# Only the dialogues listed here can be had.

my %dialogue = (
    hints    => [ message('GET /hints') ],
    chunked  => [ message('GET /stream?lines=4&pause=0.1') ],
    pipeline => [ join '', map { message('GET /ping', $_ < 4 ? (Connection => undef) : ()) } 1 .. 4 ],
    continue => [ message('POST /upload', 'Content-Length' => 12, Expect => '100-continue'), 'Hello, wire!' ],
    refused  => [ message('POST /upload', 'Content-Length' => 3, 'Transfer-Encoding' => 'chunked') . "0\r\n\r\n" ],
);

sub wire {
    my $env  = shift;
    my $name = Plack::Request->new($env)->query_parameters->{show} || 'hints';
    my $says = $dialogue{$name} or return text(404, "No such dialogue.\n");

    # The only worker there is would wait for itself.
    return answer({ problem => 'This view needs a server with at least two workers.' })
        unless $env->{'psgi.multiprocess'} || $env->{'psgi.multithread'};

    # Always this server: the address comes from the server, not the client.
    my $host   = $env->{SERVER_NAME} =~ /\A(?!0\.)\d+(?:\.\d+){3}\z/ ? $env->{SERVER_NAME} : '127.0.0.1';
    my $socket = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $env->{SERVER_PORT}, Timeout => 2)
        or return answer({ problem => 'The server cannot be reached by a connection of its own.' });
    return answer({ events => converse($socket, @$says) });
}

# Sends the first message, each further one when something was answered, and
# reads to the end of the connection, for five seconds at most.
sub converse {
    my ($socket, @messages) = @_;
    my $readable = IO::Select->new($socket);
    my $started  = time;
    my @events;
    my $note = sub { push @events, { from => $_[0], bytes => $_[1], ms => 0 + sprintf '%.2f', 1000 * (time - $started) } };

    local $SIG{PIPE} = 'IGNORE';
    while (time - $started < 5) {
        if (defined(my $message = shift @messages)) {
            $socket->syswrite($message);
            $note->(client => $message);
        }
        last unless $readable->can_read(5 - (time - $started));
        last unless $socket->sysread(my $bytes, 64 * 1024);
        $note->(server => $bytes);
    }
    return \@events;
}

# A request to this server; the last on its connection unless told otherwise.
sub message {
    my ($line, %header) = @_;
    %header = (Host => 'localhost', Connection => 'close', %header);
    return join "\r\n", "$line HTTP/1.1", (map { "$_: $header{$_}" } grep { defined $header{$_} } sort keys %header), '', '';
}

# ---------------------------------------------------------------- helpers

sub plain { return ('Content-Type' => 'text/plain; charset=utf-8', 'Cache-Control' => 'no-store') }

sub text {
    my ($status, $body, @headers) = @_;
    return [ $status, [ plain(), 'Content-Length' => length $body, @headers ], [$body] ];
}

sub answer {
    my $body = $json->encode(shift);
    return [ 200, [
        'Content-Type' => 'application/json', 'Content-Length' => length $body, 'Cache-Control' => 'no-store',
    ], [$body] ];
}

# A number from the query string, within bounds; the default for anything else.
sub clamp {
    my ($value, $min, $max, $default) = @_;
    return $default unless defined $value && $value =~ /\A[0-9]+(?:\.[0-9]+)?\z/;
    return $value < $min ? $min : $value > $max ? $max : $value;
}

# The server's name in Plack, for servers that do not introduce themselves.
sub handler {
    my ($name) = map { m{\APlack/Handler/(.+)\.pm\z} ? $1 : () } sort keys %INC;
    return $name;
}

# A value of the environment in a few characters.
sub describe {
    my $value = shift;
    return 'undef' unless defined $value;
    return '[' . join(', ', @$value) . ']' if ref $value eq 'ARRAY';
    return lc(ref $value) . ' reference' if ref $value && ref $value =~ /\A[A-Z]+\z/;
    return ref $value if ref $value;
    return $value eq '' ? '(empty)' : "$value";
}

builder {
    enable 'Static',
        path => sub { $_ = '/demo/index.html' if $_ eq '/'; m{\A/demo/} },
        root => dirname(__FILE__);
    \&dispatch;
};
