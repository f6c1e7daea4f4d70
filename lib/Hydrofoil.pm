package Hydrofoil;

use strict;
use warnings;
use 5.016;

our $VERSION = '0.01';

use IO::File ();          # methods on file handles, psgi.input among them
use PerlIO::scalar ();    # small request bodies are files in memory
use XSLoader ();

XSLoader::load('Hydrofoil', $VERSION);

# The rest of this file is called by the bridge, in an eval.

# psgix.io: a socket object of its own on the connection, so that closing it does not close the server's.
sub _io_handle {
  my ($fd, $family) = @_;
  my $class = $family eq 'unix' ? 'IO::Socket::UNIX' : $family eq 'inet6' ? 'IO::Socket::IP' : 'IO::Socket::INET';
  eval "require $class; 1" or $class = 'IO::Socket::INET';
  require IO::Socket::INET;
  open my $dup, '+<&', $fd or return undef;
  my $io = $class->new_from_fd(fileno($dup), '+<') or return undef;
  $io->autoflush(1);
  return $io;
}

# The elements of an array as plain strings: overloading and ties run here and nowhere else.
sub _strings {
  my ($list) = @_;
  return [map { defined $_ ? "$_" : undef } @$list];
}

# What can be said of an exception that is an object.
sub _error_text {
  my ($error) = @_;
  my $text = eval {"$error"};
  return defined $text ? $text : 'an exception object (' . ref($error) . ') that cannot be turned into a string';
}

1;

__END__

=encoding utf8

=head1 NAME

Hydrofoil - a PSGI application server that is fast and fair

=head1 SYNOPSIS

  hydrofoil app.psgi
  hydrofoil --listen :8080 --listen /run/app.sock --workers 16 app.psgi
  plackup -s Hydrofoil -E production app.psgi

=head1 DESCRIPTION

Hydrofoil runs L<PSGI> applications (L<Plack>, L<Mojolicious>, L<Dancer2>, L<Catalyst>, plain code) over HTTP/1.1,
directly on the network or behind a proxy. A C engine reads, parses, buffers and sends; the application is called in
place, by the thread that read the request. When a call lasts, another thread of the worker keeps its other connections
going, and gives requests that are ready to workers that are idle.

The command, with all its options, is described in L<hydrofoil>; the handler for C<plackup> and L<Plack::Loader> in
L<Plack::Handler::Hydrofoil>.

=head1 THE ENVIRONMENT

All keys of PSGI 1.1 are there. Of the extensions:

=over 4

=item psgi.input, psgix.input.buffered

A real file handle. The body is read completely before the application is called, in memory up to 64 KiB, in an unlinked
temporary file above; so it can be read more than once, and a slow upload occupies no worker. The body of a chunked
request comes decoded, with its length in C<CONTENT_LENGTH>.

=item psgi.streaming

Delayed responses and the streaming writer. C<< $writer->write >> returns true, or false when the client has left; an
application that writes on all the same is stopped by an exception. When more than C<--max-write-buffer> waits for a slow
reader, it blocks.

=item psgix.io

The client's socket, made when it is first looked at. An application that lets go of the responder of a delayed response
without calling it has taken the connection over.

=item psgix.informational

C<< $env->{'psgix.informational'}->(103, [Link => '</style.css>; rel=preload']) >> sends an interim answer. Returns true;
false if the client speaks HTTP/1.0, has left, or has its final answer already.

=item psgix.cleanup, psgix.cleanup.handlers

Code references that are pushed here are called with the environment once the answer has been sent.

=item psgix.harakiri

With a true C<psgix.harakiri.commit> the worker leaves after this request and is replaced. Its connections go to the
other workers.

=item psgix.logger

The code reference given to L<Plack::Handler::Hydrofoil> as C<logger>.

=back

Repeated headers are joined with C<", ">, cookies with C<"; ">. A header whose name has an underscore does not add to or
replace one that is spelt with dashes. C<HTTP_PROXY> is never set ("httpoxy").

=head1 APPLICATIONS THAT FORK OR EXIT

C<system>, pipes, C<fork> with C<exec> or C<exit>, and C<alarm> work as they do anywhere. A forked child has the
client's socket like every other descriptor, but cannot answer the request: that is the worker's, and responders and
writers die in a child. A child that returns from the application as if it were the worker is ended.

An application that calls C<exit> ends its worker. The client is answered with 500, unless its answer has begun; the
worker's other connections go on in other workers.

=head1 FUNCTIONS

For the server's own use: C<Hydrofoil::run_queue()> makes the queue by which workers give each other connections, and
returns its two descriptors; C<Hydrofoil::raise_open_files()> raises the limit of open files to the hard limit, and
returns it; C<Hydrofoil::engine_info()> returns a hash reference that tells how the engine polls and scans.

=head1 SEE ALSO

L<hydrofoil>, L<Plack::Handler::Hydrofoil>, L<PSGI>, L<Plack>

=head1 LICENSE

This library is free software; you can redistribute it and/or modify it under the same terms as Perl itself.

=cut
