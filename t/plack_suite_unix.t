use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use HTTP::Request;
use HTTP::Response;
use Plack::Test::Suite;
use Test::More;
use Hydrofoil::Test;

# Plack's suite once more, each case over a unix socket.

my $server = start_server(listen => 'unix', app => <<'END');
require Plack::Test::Suite;
Plack::Test::Suite->test_app_handler;
END

my $i = 0;
for my $case (@Plack::Test::Suite::TEST) {
    my ($name, $ask) = @$case;
    my $number = $i++;
    my $cb = sub {
        my $request = shift;
        # The suite looks at the port of the URI that was asked.
        $request->uri->port(80);
        my $uri = $request->uri->path_query;
        my @lines = ('Host: 127.0.0.1', 'Connection: close', "X-Plack-Test: $number");
        $request->headers->scan(sub { push @lines, "$_[0]: $_[1]" unless lc $_[0] eq 'content-length' });
        my $body = $request->content;
        push @lines, length $body || $request->method eq 'POST' ? \$body : ();
        my $answer = $server->ask($request->method . " $uri", @lines);
        my $response = HTTP::Response->new($answer->status, $answer->reason,
            [map { @$_ } @{ $answer->{headers} }], $answer->body);
        $response->request($request);
        return $response;
    };
    if ($name eq 'validate env') {
        check 'a unix socket has a SERVER_NAME and a SERVER_PORT' => sub {
            my %told = $cb->(HTTP::Request->new(GET => 'http://127.0.0.1/foo/?dankogai=kogaidan'))->content
                =~ /^(\w+):(.*)$/mg;
            is $told{PATH_INFO}, '/foo/', 'PATH_INFO is as ever';
            is $told{QUERY_STRING}, 'dankogai=kogaidan', 'so is QUERY_STRING';
            ok length $told{SERVER_NAME}, 'the name is not empty';
            ok length $told{SERVER_PORT}, 'nor is the port';
        };
        next;
    }
    check $name => sub { $ask->($cb) };
}

done_testing;
