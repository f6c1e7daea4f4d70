package Hydrofoil::Listener;
use strict;
use warnings;
use Errno qw(EACCES EADDRINUSE EADDRNOTAVAIL ENOENT);
use Fcntl qw(F_GETFD F_SETFD FD_CLOEXEC);
use File::Spec;
use IO::Handle;
use Socket qw(:all);
use Hydrofoil::Error qw(fail usage_error);

use constant MAX_UNIX_PATH => 107;    # sun_path is 108 bytes with its NUL, unix(7)

sub open_all {
    my ($class, %args) = @_;

    return $class->_inherit_all if $class->under_server_starter;
    my @listeners = map { $class->_new_for($_, \%args) } @{ $args{listen} };
    $_->_open for @listeners;
    return @listeners;
}

sub under_server_starter {
    return length($ENV{SERVER_STARTER_PORT} || '') > 0;
}

sub host { $_[0]{host} }
sub port { $_[0]{port} }
sub path { $_[0]{path} }

sub url {
    my $self = shift;
    return "unix:$self->{path}" if defined $self->{path};
    return 'http://' . $self->_address . '/';
}

sub handle_for {
    my ($self, $number) = @_;

    return $self->{handles}[0] if !$self->{reuseport};
    return $self->{handles}[ $number - 1 ] ||= $self->_bind_tcp;
}

# A copy of another worker's socket would keep it alive after that worker's end.
sub keep_only {
    my ($self, $number) = @_;

    return if !$self->{reuseport};
    $self->{handles}[$_] = undef for grep { $_ != $number - 1 } 0 .. $#{ $self->{handles} };
    return;
}

sub forget {
    my ($self, $number) = @_;
    $self->{handles}[ $number - 1 ] = undef if $self->{reuseport} && $number > 1;
    return;
}

sub close {
    my $self = shift;

    $self->{handles} = [];
    my $bound = delete $self->{bound} or return;
    my $there = $bound->{process} == $$ ? _identity($self->{path}) : '';
    unlink $self->{path} if $there eq $bound->{identity};
    return;
}

sub _new_for {
    my ($class, $where, $args) = @_;
    my $self = bless {
        backlog   => $args->{backlog} || SOMAXCONN,
        reuseport => $args->{reuseport},
        handles   => [],
        %{ _parse($where) },
    }, $class;
    $self->{reuseport} = 0 if defined $self->{path};
    return $self;
}

sub _parse {
    my $where = shift;

    return { path => _absolute($1) } if $where =~ /^unix:(.+)/s;
    return { host => '0.0.0.0', port => _port($where, $where) } if $where =~ /^[0-9]+$/;
    return { host => $1, port => _port($2, $where) } if $where =~ m{^\[([0-9A-Fa-f:.%\w]+)\]:([0-9]+)$};
    return { host => length $1 ? $1 : '0.0.0.0', port => _port($2, $where) }
        if $where =~ m{^([^:/\[\]]*):([0-9]+)$};
    return { path => _absolute($where) } if $where =~ m{/|\.sock(?:et)?$};
    usage_error("--listen: '$where' will not do; it takes host:port, :port, [v6 address]:port "
        . 'or the path of a unix socket with a slash in it');
}

sub _port {
    my ($port, $where) = @_;
    usage_error("--listen: '$where': a port is 0 to 65535") if length $port > 5 || $port > 65535;
    return $port + 0;
}

sub _absolute {
    my $path = File::Spec->rel2abs($_[0]);
    usage_error("--listen: '$path' is too long for a unix socket (" . MAX_UNIX_PATH . ' bytes at most)')
        if length $path > MAX_UNIX_PATH;
    return $path;
}

sub _address {
    my $self = shift;
    return ($self->{host} =~ /:/ ? "[$self->{host}]" : $self->{host}) . ":$self->{port}";
}

sub _open {
    my $self = shift;
    $self->{handles}[0] = defined $self->{path} ? $self->_bind_unix : $self->_bind_tcp;
    return;
}

sub _bind_tcp {
    my $self = shift;

    my $info = $self->_resolve;
    socket my $socket, $info->{family}, SOCK_STREAM, IPPROTO_TCP
        or fail($self->_address . ": cannot make a socket: $!");
    setsockopt $socket, SOL_SOCKET, SO_REUSEADDR, pack('i', 1);
    # Without this "[::]:80" would collide with "0.0.0.0:80".
    setsockopt $socket, IPPROTO_IPV6, IPV6_V6ONLY, pack('i', 1) if $info->{family} == AF_INET6;
    $self->_share_port($socket) if $self->{reuseport};
    bind $socket, $info->{addr} or $self->_cannot_bind;
    listen $socket, $self->{backlog} or $self->_cannot_bind;
    $self->{port} ||= _port_of($socket);
    $socket->blocking(0);
    return $socket;
}

sub _share_port {
    my ($self, $socket) = @_;
    my $option = eval { SO_REUSEPORT() };
    return if defined $option && setsockopt $socket, SOL_SOCKET, $option, pack('i', 1);
    fail('--reuseport: this system has no SO_REUSEPORT; start without it');
}

sub _resolve {
    my $self = shift;

    my ($error, @found) = getaddrinfo($self->{host}, $self->{port},
        { flags => AI_PASSIVE | AI_NUMERICSERV, socktype => SOCK_STREAM, protocol => IPPROTO_TCP });
    fail("--listen: cannot find the address of '$self->{host}': $error") if $error || !@found;
    my ($ipv4) = grep { $_->{family} == AF_INET } @found;
    return $ipv4 || $found[0];
}

sub _cannot_bind {
    my $self = shift;

    my $error = $!;
    my $code  = $! + 0;
    my $where = defined $self->{path} ? $self->{path} : $self->_address;
    my $other = defined $self->{path} ? 'give another --listen' : 'give another --port';
    fail("$where is already in use: stop the server that listens there, or $other") if $code == EADDRINUSE;
    fail("$where: no interface of this machine has that address; $other") if $code == EADDRNOTAVAIL;
    fail("$where: the directory does not exist; make it, or $other") if $code == ENOENT;
    if ($code == EACCES) {
        fail("$where: permission denied: ports below 1024 need root or CAP_NET_BIND_SERVICE; $other")
            if !defined $self->{path};
        fail("$where: permission denied: the directory must be writable; $other");
    }
    fail("$where: cannot listen: $error");
}

sub _bind_unix {
    my $self = shift;

    $self->_remove_stale;
    socket my $socket, AF_UNIX, SOCK_STREAM, 0 or fail("$self->{path}: cannot make a socket: $!");
    bind $socket, pack_sockaddr_un($self->{path}) or $self->_cannot_bind;
    $self->{bound} = { process => $$, identity => _identity($self->{path}) };
    listen $socket, $self->{backlog} or $self->_cannot_bind;
    $socket->blocking(0);
    return $socket;
}

# A socket file outlives the process that made it. Nobody accepts there any
# more if connecting is refused.
sub _remove_stale {
    my $self = shift;

    my $path = $self->{path};
    return if !lstat $path;
    fail("$path exists and is not a socket; remove it, or give another --listen") if !-S _;

    socket my $probe, AF_UNIX, SOCK_STREAM, 0 or fail("$path: cannot make a socket: $!");
    $probe->blocking(0);
    if (connect($probe, pack_sockaddr_un($path)) || $!{EAGAIN}) {
        $! = EADDRINUSE;
        $self->_cannot_bind;
    }
    unlink $path or $self->_cannot_bind;
    return;
}

sub _identity {
    my @stat = lstat $_[0];
    return @stat ? "$stat[0]:$stat[1]" : '';
}

# SERVER_STARTER_PORT is "host:port=fd;port=fd;/path=fd", see Server::Starter.
sub _inherit_all {
    my $class = shift;
    return map { $class->_inherit($_) } split /;/, $ENV{SERVER_STARTER_PORT};
}

sub _inherit {
    my ($class, $entry) = @_;

    my ($name, $fd) = $entry =~ /^(.*)=([0-9]+)$/
        or fail("SERVER_STARTER_PORT has '$entry', which is not NAME=DESCRIPTOR");
    my $socket = IO::Handle->new_from_fd($fd, 'r+');
    my $listens = $socket && getsockopt $socket, SOL_SOCKET, SO_ACCEPTCONN;
    fail("SERVER_STARTER_PORT names descriptor $fd for $name, which is not a listening socket; "
        . 'unset it unless start_server runs this')
        if !$listens || !unpack 'i', $listens;

    fcntl $socket, F_SETFD, fcntl($socket, F_GETFD, 0) | FD_CLOEXEC;
    $socket->blocking(0);
    return bless { handles => [$socket], reuseport => 0, %{ _name_of($socket) } }, $class;
}

sub _name_of {
    my $socket = shift;

    my $address = getsockname $socket;
    my $family  = sockaddr_family($address);
    return { path => unpack_sockaddr_un($address) } if $family == AF_UNIX;
    my ($error, $host, $port) = getnameinfo($address, NI_NUMERICHOST | NI_NUMERICSERV);
    return { host => $host, port => $port };
}

sub _port_of {
    return _name_of($_[0])->{port};
}

1;

__END__

=head1 NAME

Hydrofoil::Listener - a place to accept connections

=head1 SYNOPSIS

    use Hydrofoil::Listener;

    my @listeners = Hydrofoil::Listener->open_all(listen => [ '127.0.0.1:5000', '/run/app.sock' ]);
    for my $listener (@listeners) {
        print 'listening on ', $listener->url, "\n";
        $engine->listen(fileno $listener->handle_for(1), $listener->host, $listener->port);
    }
    $_->close for @listeners;

=head1 DESCRIPTION

A listener is one address with its listening socket, or, with C<reuseport>, with
a socket for every worker, all bound before the workers are forked: what waits
in a socket's queue survives the worker.

The socket file of a unix listener is removed first when nobody accepts there
any more, and when the listener is closed by the process that made it. Its
permissions follow the umask.

Sockets are non-blocking and closed on exec. An IPv6 address takes no IPv4
connections (C<IPV6_V6ONLY>); list both to have both. A host name with several
addresses listens on its first IPv4 one.

=head1 METHODS

=head2 open_all

    my @listeners = Hydrofoil::Listener->open_all(%options);

Binds and listens. Under L<Server::Starter>, which is told from the environment
variable C<SERVER_STARTER_PORT>, its sockets are taken over as they are and the
options do not count. What cannot be had ends in L<Hydrofoil::Error/fail> with
the address and what to do.

=over 4

=item listen

A reference to a list of C<host:port>, C<:port>, C<port>, C<[v6]:port>,
C<unix:path>, or a path that has a slash or ends in C<.sock>. Port 0 has the
kernel choose.

=item backlog

How many connections may wait for accept(2), default C<SOMAXCONN>; the kernel
has its own upper limit.

=item reuseport

Give each worker its own TCP socket, default 0. Unix sockets are shared anyway.

=back

=head2 under_server_starter

True if L<Server::Starter> runs this process.

=head2 handle_for

    my $handle = $listener->handle_for($worker_number);

The socket for a worker, numbered from 1.

=head2 keep_only

    $listener->keep_only($worker_number);

For a worker: closes its copies of the others' sockets; only with C<reuseport>.

=head2 forget

    $listener->forget($worker_number);

Closes the socket of a worker that will not come back; only with C<reuseport>.

=head2 close

Closes all sockets and removes the socket file if this process made it.

=head2 host, port, path

The address: C<host> and C<port>, or C<path>; the others are undefined.

=head2 url

C<http://host:port/> or C<unix:path>.

=cut
