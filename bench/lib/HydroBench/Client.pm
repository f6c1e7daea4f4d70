package HydroBench::Client;
use strict;
use warnings;
use IO::Socket::INET;
use Socket qw(SOL_SOCKET SO_RCVTIMEO SO_SNDTIMEO MSG_PEEK MSG_DONTWAIT);
use Errno qw(EAGAIN EWOULDBLOCK);

my $TIMEOUT = 5;    # seconds without a byte before a server counts as stuck

sub _connect {
    my ($port) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp', Timeout => $TIMEOUT)
        or return undef;
    my $timeval = pack 'l!l!', $TIMEOUT, 0;
    setsockopt $socket, SOL_SOCKET, SO_RCVTIMEO, $timeval;
    setsockopt $socket, SOL_SOCKET, SO_SNDTIMEO, $timeval;
    return $socket;
}

# One request on an open socket, with $post (type, bytes) a POST. Returns (answer, undef) or (undef, why not); the answer is
# a hash: status, headers (names in lower case), body, size (of all of it, in bytes), and keep_alive, whether the server lets
# the connection live on.
sub _exchange {
    my ($socket, $port, $path, $post) = @_;
    my $request = $post
        ? "POST $path HTTP/1.1\r\nHost: 127.0.0.1:$port\r\nContent-Type: $post->{type}\r\nContent-Length: "
            . length($post->{bytes}) . "\r\n\r\n$post->{bytes}"
        : "GET $path HTTP/1.1\r\nHost: 127.0.0.1:$port\r\n\r\n";
    local $SIG{PIPE} = 'IGNORE';
    while (length $request) {
        my $sent = syswrite $socket, $request;
        defined $sent or return (undef, "cannot send: $!");
        substr $request, 0, $sent, '';
    }

    my ($bytes, $head_end) = ('');
    while (($head_end = index $bytes, "\r\n\r\n") < 0) {
        my $got = sysread $socket, $bytes, 65536, length $bytes;
        return (undef, defined $got ? 'closed without an answer' : "no answer: $!") unless $got;
    }
    my ($status_line, @lines) = split /\r\n/, substr $bytes, 0, $head_end;
    my $head_size = $head_end + 4;
    substr $bytes, 0, $head_size, '';
    my ($version, $status) = $status_line =~ m{^HTTP/(1\.[01]) (\d{3})} or return (undef, "not HTTP: $status_line");
    my %headers = map { /^([^:]+):\s*(.*?)\s*$/ ? (lc $1 => $2) : () } @lines;

    my $length  = $headers{'content-length'};
    my $chunked = lc($headers{'transfer-encoding'} || '') eq 'chunked';
    my $body;
    while (1) {
        $body = $chunked ? _dechunked($bytes) : defined $length && length $bytes >= $length ? $bytes : undef;
        last if defined $body;
        my $got = sysread $socket, $bytes, 262_144, length $bytes;
        return (undef, "the body stopped: $!") unless defined $got;
        next if $got;
        return (undef, 'the body stopped') if $chunked || defined $length;
        $body = $bytes;
        last;
    }
    my $connection = lc($headers{connection} || '');
    my $keep_alive = ($chunked || defined $length)
        && ($version eq '1.1' ? $connection ne 'close' : $connection eq 'keep-alive');
    return ({
        status => $status, headers => \%headers, body => $body, size => $head_size + length $bytes,
        keep_alive => $keep_alive ? 1 : 0,
    }, undef);
}

# What the chunks hold (RFC 9112, 7.1), or undef when the last one is not there yet.
sub _dechunked {
    my ($bytes) = @_;
    my $body = '';
    while ($bytes =~ /\G([0-9A-Fa-f]+)[^\r\n]*\r\n/gc) {
        my ($size, $at) = (hex $1, pos $bytes);
        return $body if !$size && $bytes =~ /\G(?:[^\r\n]+\r\n)*\r\n/gc;
        return undef if !$size || length $bytes < $at + $size + 2;
        $body .= substr $bytes, $at, $size;
        pos($bytes) = $at + $size + 2;
    }
    return undef;
}

# One request on a connection of its own; with $post (type, bytes) a POST.
sub get {
    my ($class, $port, $path, $post) = @_;
    my $socket = _connect($port) or return (undef, "cannot connect: $!");
    return _exchange($socket, $port, $path, $post);
}

# Opens connections, makes one request on each and leaves them open. Returns the sockets and what went wrong first.
sub open_idle {
    my ($class, $port, $path, $count) = @_;
    my @sockets;
    while (@sockets < $count) {
        my $socket = _connect($port) or return (\@sockets, 'connection ' . (@sockets + 1) . ": $!");
        my ($answer, $error) = _exchange($socket, $port, $path);
        return (\@sockets, 'connection ' . (@sockets + 1) . ": $error") unless $answer;
        return (\@sockets, "answers $answer->{status}") unless $answer->{status} == 200;
        return (\@sockets, 'no keep-alive') unless $answer->{keep_alive};
        push @sockets, $socket;
    }
    return (\@sockets, undef);
}

# One more request on each of the sockets, one after the other. Returns how many were answered with 200.
sub ask_again {
    my ($class, $port, $path, @sockets) = @_;
    my $answered = 0;
    for my $socket (@sockets) {
        my ($answer) = _exchange($socket, $port, $path);
        $answered++ if $answer && $answer->{status} == 200;
    }
    return $answered;
}

# How many of the sockets the server has closed meanwhile.
sub closed_by_server {
    my ($class, @sockets) = @_;
    my $closed = 0;
    for my $socket (@sockets) {
        my $peeked = recv $socket, my $byte, 1, MSG_PEEK | MSG_DONTWAIT;
        next if !defined $peeked && ($! == EAGAIN || $! == EWOULDBLOCK);
        $closed++;
    }
    return $closed;
}

1;
__END__

=head1 NAME

HydroBench::Client - the small HTTP client that checks servers and holds idle connections

=head1 SYNOPSIS

    my ($answer, $error)  = HydroBench::Client->get($port, '/');
    my ($sockets, $error) = HydroBench::Client->open_idle($port, '/', 10_000);

=cut
