# A delayed response and the streaming writer: hydrofoil eg/streaming.psgi
#
#     curl --no-buffer 'http://127.0.0.1:5000/?count=5&pause=1'
#
# Each line arrives when it is written. There is no Content-Length, so the
# answer is chunked for HTTP/1.1 and ends with the connection for HTTP/1.0.
use strict;
use warnings;

use Plack::Request;
use Time::HiRes qw(sleep);

sub {
    my $env   = shift;
    my $query = Plack::Request->new($env)->query_parameters;
    my ($count) = ($query->{count} || '') =~ /\A([0-9]{1,3})\z/;
    my ($pause) = ($query->{pause} || '') =~ /\A([0-9](?:\.[0-9]+)?)\z/;
    $count = 5 unless defined $count;
    $pause = 1 unless defined $pause;

    # Returning a code reference instead of an array delays the response: the
    # server calls it with the responder, which takes status and headers and
    # gives back the writer.
    return sub {
        my $respond = shift;
        my $writer  = $respond->([ 200, [ 'Content-Type' => 'text/plain' ] ]);
        for my $left (reverse 1 .. $count) {
            $writer->write("$left\n");
            sleep $pause;
        }
        $writer->write("lift-off\n");
        $writer->close;
    };
};
