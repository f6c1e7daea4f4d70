use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use File::Temp ();
use Test::More;
use Hydrofoil::Test;

# The psgix.* keys (PSGI::Extensions) and what the psgi.* keys say of the server.

my $gate = File::Temp->newdir;
my $app = <<'END';
use Scalar::Util qw(openhandle);
my @text = ('Content-Type' => 'text/plain');
my %page = (
    '/pid'   => sub { [200, [@text], [$$]] },
    '/plain' => sub { [200, [@text], ['plain']] },
    '/keys'  => sub {
        my $env = shift;
        [200, [@text], [join '', map { "$_=" . ($env->{$_} ? 'true' : 'false') . "\n" } grep { /^psgix?\./ } sort keys %$env]]
    },
    '/version' => sub { [200, [@text], [join '.', @{ $_[0]{'psgi.version'} }]] },
    '/io'    => sub {
        my $io = $_[0]{'psgix.io'};
        my @told = (defined fileno $io ? 'has a descriptor' : 'has none', -S $io ? 'is a socket' : 'is no socket');
        push @told, eval { join ':', 'peer', $io->peerhost, $io->peerport } || "no peer: $@";
        push @told, eval { join ':', 'local', $io->sockhost, $io->sockport } || "no local: $@";
        [200, [@text], [join "\n", @told]]
    },
    '/io-often' => sub { my $io = $_[0]{'psgix.io'} for 1 .. 10; undef $_[0]{'psgix.io'}; [200, [@text], ['plain']] },
    '/put' => sub {
        my $env = shift;
        my @keys = qw(psgix.io psgix.informational);
        $env->{$_} = "my $_" for @keys;
        my @told = @$env{@keys};
        { local $env->{$_} = 'while' for @keys }
        [200, [@text], [join ', ', @told, @$env{@keys}]];
    },
    '/io-keep' => sub { $main::io = $_[0]{'psgix.io'}; [200, [@text], ['plain']] },
    '/harakiri' => sub { $_[0]{'psgix.harakiri.commit'} = 1; [200, [@text], ["last words of $$"]] },
    '/harakiri-stream' => sub {
        my $env = shift;
        sub { my $w = $_[0]->([200, [@text]]); $w->write('last '); $env->{'psgix.harakiri.commit'} = 1; $w->write('words'); $w->close }
    },
    '/harakiri-delete' => sub {
        my $env = shift;
        delete $env->{HTTP_HOST};
        $env->{'psgix.harakiri.commit'} = 1;
        [200, [@text], ["last words of $$"]]
    },
    '/harakiri-not' => sub { $_[0]{'psgix.harakiri.commit'} = 0; [200, [@text], ['plain']] },
    '/cleanup' => sub {
        my $env = shift;
        push @{ $env->{'psgix.cleanup.handlers'} },
            sub { for (1 .. 1000) { last if -e "$ENV{HYDROFOIL_TEST_GATE}/go"; select undef, undef, undef, 0.01 } },
            sub { my $e = shift; main::record("cleanup $e->{PATH_INFO} one") },
            sub { main::record("cleanup $_[0]{PATH_INFO} two") };
        [200, [@text], ['answered']]
    },
    '/cleanup-set' => sub {
        $_[0]{'psgix.cleanup.handlers'} = [sub { main::record("cleanup $_[0]{PATH_INFO}") }];
        [200, [@text], ['answered']]
    },
    '/cleanup-dies' => sub {
        push @{ $_[0]{'psgix.cleanup.handlers'} }, sub { die "cleanup dies\n" }, sub { main::record('cleanup goes on') };
        [200, [@text], ['answered']]
    },
    '/cleanup-after-die' => sub {
        push @{ $_[0]{'psgix.cleanup.handlers'} }, sub { main::record('cleanup after an exception') };
        die "the application dies\n";
    },
    '/cleanup-stream' => sub {
        my $env = shift;
        push @{ $env->{'psgix.cleanup.handlers'} }, sub { main::record('cleanup of a stream') };
        sub { my $w = $_[0]->([200, [@text]]); $w->write('x'); main::record('before close'); $w->close }
    },
    '/hints' => sub {
        my $env = shift;
        my @told = eval { $env->{'psgix.informational'}->(103, [Link => '</style.css>; rel=preload', 'X-Hint' => 'one']); 'sent' } || $@;
        $env->{'psgix.informational'}->(103, [Link => '</script.js>; rel=preload']);
        wait_for_gate('hint') if $env->{QUERY_STRING} eq 'wait';
        [200, [@text], ["after the hints: @told"]]
    },
    '/hints-stream' => sub {
        my $env = shift;
        sub {
            my $respond = shift;
            $env->{'psgix.informational'}->(103, [Link => '</style.css>']);
            my $w = $respond->([200, [@text]]); $w->write('streamed'); $w->close;
        }
    },
    '/hints-bad' => sub {
        my $env = shift;
        for my $bad ([200, []], [99, []], [101, []], [103, ['X-Odd']], [103, ['X-Split' => "a\r\nb"]], [103, ["X\n" => 'a']]) {
            eval { $env->{'psgix.informational'}->(@$bad); main::record('accepted') } or main::record('refused');
        }
        [200, [@text], ['plain']]
    },
    '/logger' => sub { [200, [@text], [ref $_[0]{'psgix.logger'} || 'none']] },
);
sub wait_for_gate { for (1 .. 1000) { return if -e "$ENV{HYDROFOIL_TEST_GATE}/$_[0]"; select undef, undef, undef, 0.01 } }
my $call = sub { my $env = shift; ($page{ $env->{PATH_INFO} } || sub { [404, [@text], ['no such page']] })->($env) };
$call;
END

my $server = start_server(app => $app, env => {HYDROFOIL_TEST_GATE => "$gate"});

check 'the environment tells what the server is' => sub {
    my %is = $server->get('/keys')->body =~ /^(\S+)=(true|false)$/mg;
    is $is{'psgi.multithread'}, 'false', 'a worker runs one request at a time';
    is $is{'psgi.run_once'}, 'false', 'again and again';
    is $is{'psgi.nonblocking'}, 'false', 'the application may block';
    is $is{'psgi.streaming'}, 'true', 'and stream';
    is $is{'psgix.input.buffered'}, 'true', 'the input is buffered';
    is $is{'psgix.harakiri'}, 'true', 'it may ask for its end';
    is $is{'psgix.cleanup'}, 'true', 'and clean up';
    ok exists $is{$_}, "$_ is there" for qw(psgix.io psgix.informational psgix.cleanup.handlers psgi.multiprocess);
    is $server->get('/version')->body, '1.1', 'the version is 1.1';
};

check 'psgix.io is the socket of the client' => sub {
    my $client = $server->connect;
    my $told = $client->ask('GET /io')->body;
    like $told, qr/^has a descriptor\nis a socket$/m, 'a real one';
    my ($host, $port) = ($client->socket->sockhost, $client->socket->sockport);
    like $told, qr/^peer:$host:$port$/m, 'its peer is this client';
    like $told, qr/^local:127\.0\.0\.1:$server->{port}$/m, 'its own end is the server';
    is $client->ask('GET /plain')->body, 'plain', 'looking at it changes nothing';
};

check 'what middleware puts in the place of psgix.io is what the application finds' => sub {
    my $client = $server->connect;
    is $client->ask('GET /put')->body, join(', ', ('my psgix.io', 'my psgix.informational') x 2), 'also of psgix.informational' for 1 .. 2;
    like $client->ask('GET /io')->body, qr/^is a socket$/m, 'the next request has its own';
};

check 'psgix.io costs no descriptors' => sub {
    my $pid = $server->worker_pid;
    my $client = $server->connect;
    $client->ask('GET /io-often');
    my $before = $server->descriptors($pid);
    $client->ask('GET /io-often') for 1 .. 20;
    is $client->ask('GET /plain')->body, 'plain', 'the connection goes on when the application lets it go';
    cmp_ok $server->descriptors($pid), '<=', $before, 'no descriptor is left over';
    $client->ask('GET /io-keep');
    is $client->ask('GET /plain')->body, 'plain', 'or keeps it';
    $client->close;
    is $server->get('/plain')->body, 'plain', 'other clients are served';
};

check 'psgix.harakiri.commit replaces the worker after the answer' => sub {
    for my $page (qw(/harakiri /harakiri-stream /harakiri-delete)) {
        my $pid = $server->worker_pid;
        my $client = $server->connect;
        my $answer = $client->ask("GET $page");
        like $answer->body, qr/\Alast words/, "$page: the answer arrives whole";
        my $next = poll_until(sub { my $now = eval { $server->worker_pid }; $now && $now != $pid && $now });
        ok $next, "$page: another worker serves";
        ok poll_until(sub { !kill 0, $pid }), "$page: the first is gone";
    }
    my $pid = $server->worker_pid;
    $server->get('/harakiri-not') for 1 .. 3;
    is $server->worker_pid, $pid, 'a false value asks for nothing';
};

check 'cleanup handlers run after the answer has left' => sub {
    $server->forget_recorded;
    my $client = $server->connect;
    is $client->ask('GET /cleanup')->body, 'answered', 'the answer is here';
    is join(', ', $server->recorded), '', 'while the handlers have not run';
    open my $go, '>', "$gate/go" or die $!;
    ok poll_until(sub { $server->recorded == 2 }), 'then they run';
    is join(', ', $server->recorded), 'cleanup /cleanup one, cleanup /cleanup two', 'in order, with the environment';
    is $client->ask('GET /plain')->body, 'plain', 'and the connection goes on';
};

check 'cleanup handlers do not hold up an answer with another request behind it' => sub {
    unlink "$gate/go";
    $server->forget_recorded;
    my $client = $server->connect;
    $client->send(req('GET /cleanup') . req('GET /plain'));
    is $client->read_response('GET')->body, 'answered', 'the answer is here';
    is join(', ', $server->recorded), '', 'while the handlers have not run';
    open my $go, '>', "$gate/go" or die $!;
    is $client->read_response('GET')->body, 'plain', 'then the next answer';
    ok poll_until(sub { $server->recorded == 2 }), 'and the handlers';
};

check 'an array of handlers may be set anew' => sub {
    $server->forget_recorded;
    is $server->get('/cleanup-set')->body, 'answered', 'the answer';
    ok poll_until(sub { grep { $_ eq 'cleanup /cleanup-set' } $server->recorded }), 'and the handler';
};

check 'a handler that dies is logged and stops no other' => sub {
    is $server->get('/cleanup-dies')->body, 'answered', 'the answer';
    ok $server->wait_for_log(qr/cleanup dies/), 'the message';
    ok poll_until(sub { grep { $_ eq 'cleanup goes on' } $server->recorded }), 'the next handler';
    is $server->get('/plain')->body, 'plain', 'the next client';
};

check 'handlers run after a 500 too' => sub {
    is $server->get('/cleanup-after-die')->status, 500, 'the answer';
    ok poll_until(sub { grep { $_ eq 'cleanup after an exception' } $server->recorded }), 'and the handler';
};

check 'handlers of a stream run after its close' => sub {
    $server->forget_recorded;
    is $server->get('/cleanup-stream')->body, 'x', 'the answer';
    ok poll_until(sub { $server->recorded == 2 }), 'and the handler';
    is join(', ', $server->recorded), 'before close, cleanup of a stream', 'in this order';
};

check 'handlers of pipelined requests all run' => sub {
    $server->forget_recorded;
    my $client = $server->connect;
    $client->send(join '', map { req('GET /cleanup-set') } 1 .. 20);
    is $client->read_response('GET')->body, 'answered', "answer $_" for 1 .. 20;
    ok poll_until(sub { $server->recorded == 20 }), 'once for each';
};

each_way '103 comes before the answer with its headers' => sub {
    my $client = $server->exchange(req('GET /hints'), req('GET /plain'), req('GET /hints-stream'));
    is $client->statuses, '200 200 200', 'three final answers';
    my @hints = $client->response->informational;
    is scalar @hints, 2, 'two hints before the first';
    is $hints[0] && $hints[0]->status, 103, 'status 103';
    is $hints[0] && $hints[0]->reason, 'Early Hints', 'its reason phrase';
    is $hints[0] && $hints[0]->header('Link'), '</style.css>; rel=preload', 'the Link header';
    is $hints[0] && $hints[0]->header('X-Hint'), 'one', 'and the other';
    is $hints[1] && $hints[1]->header('Link'), '</script.js>; rel=preload', 'the second one too';
    is $client->response->body, 'after the hints: sent', 'then the answer';
    is scalar($client->response(1)->informational), 0, 'the next answer has none';
    is scalar($client->response(2)->informational), 1, 'a stream may have them too';
};

check '103 is sent at once' => sub {
    my $client = $server->connect;
    $client->send(req('GET /hints?wait'));
    $client->read_at_least(20);
    like $client->{in}, qr{\AHTTP/1\.1 103 }, 'while the application is still thinking';
    open my $go, '>', "$gate/hint" or die $!;
    is $client->read_response('GET')->status, 200, 'and the answer comes later';
};

check '1.0 clients get no 103' => sub {
    my $client = $server->exchange(req('GET /hints HTTP/1.0'));
    is scalar($client->response->informational), 0, 'none';
    is $client->response->body, 'after the hints: sent', 'the application need not care';
};

check 'an informational answer that breaks the rules is not sent' => sub {
    $server->forget_recorded;
    my $client = $server->connect;
    my $answer = $client->ask('GET /hints-bad');
    is scalar($answer->informational), 0, 'none is';
    is $answer->body, 'plain', 'and the answer arrives';
    is join(' ', $server->recorded), join(' ', ('refused') x 6), 'the application is told';
};

check 'psgix.logger is there where one is given' => sub {
    is $server->get('/logger')->body, 'none', 'not by default';
    undef $server;
    my $file = "$gate/embedded.pl";
    open my $out, '>', $file or die $!;
    print {$out} <<'END';
use strict;
use warnings;
use Plack::Loader;
my %left;
while (my $name = shift @ARGV) { $left{$name} = shift @ARGV }
Plack::Loader->load('Hydrofoil', host => $left{'--host'}, port => $left{'--port'}, workers => 1,
    logger => sub { print STDERR "logger: $_[0]{level}: $_[0]{message}\n" })->run(sub {
    my $env = shift;
    $env->{'psgix.logger'}->({level => 'warn', message => 'a message of the application'}) if $env->{'psgix.logger'};
    [200, ['Content-Type' => 'text/plain'], [ref $env->{'psgix.logger'}]];
});
END
    close $out;
    my $root = $Hydrofoil::Test::ROOT;
    local $ENV{HYDROFOIL_TEST_COMMAND} = "$^X -I$root/blib/arch -I$root/blib/lib -I$root/lib $file";
    my $embedded = start_server(app => 'sub { }', lint => 0, args => ['--app']);
    is $embedded->get('/')->body, 'CODE', 'the application sees it';
    ok $embedded->wait_for_log(qr/logger: warn: a message of the application/), 'and it is what was given';
};

done_testing;
