use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use POSIX ();
use Test::More;
use Hydrofoil::Test;

# Random conversations, many at once, cut anywhere: the sum of what the other tests look at one by one.
# HYDROFOIL_TEST_SEED repeats a run, HYDROFOIL_TEST_ROUNDS makes it longer.

my $seed = $ENV{HYDROFOIL_TEST_SEED} || 20_130_806;
my $rounds = $ENV{HYDROFOIL_TEST_ROUNDS} || 30;
srand $seed;

my $server = start_server(args => ['--max-write-buffer' => 65_536], app => <<'END');
my @text = ('Content-Type' => 'text/plain');
my %kept;
my $call = sub {
    my $env = shift;
    my ($kind, $n) = $env->{PATH_INFO} =~ m{^/(\w+)/(\d+)};
    return [200, [@text], [$$]] if $kind eq 'pid';
    my $body = '';
    if ($kind ne 'unread') { while ($env->{'psgi.input'}->read(my $piece, 10_000)) { $body .= $piece } }
    my $answer = "$env->{REQUEST_METHOD} $env->{REQUEST_URI} " . ($env->{HTTP_X_TAG} || '') . " $body";
    return sub {
        my $w = $_[0]->([200, [@text]]);
        $w->write($_) for unpack '(a1000)*', $answer;
        $w->close;
    } if $kind eq 'stream';
    return sub { $_[0]->([200, [@text], [$answer]]) } if $kind eq 'delayed';
    if ($kind eq 'later') {
        # Answered by whichever request comes next to this worker and is not of this kind.
        return sub { $kept{$n} = [$_[0], $answer] };
    }
    for my $id (keys %kept) {
        my ($respond, $text) = @{ delete $kept{$id} };
        if ($id % 2) { $respond->([200, [@text], [$text]]) }
        else { my $w = $respond->([200, [@text]]); $w->write($text); $w->close }
    }
    return [200, [@text], [map { $answer } 1 .. $n % 50]] if $kind eq 'many';
    if ($kind eq 'handle') { open my $fh, '<', \$answer or die; return [200, [@text], $fh] }
    return [204, [], []] if $kind eq 'empty';
    die "dies\n" if $kind eq 'dies';
    [200, [@text], [$answer]];
};
$call;
END

my $number = 0;

# A random request and what its answer has to be: [bytes, method, status, body, says close].
sub random_request {
    my $n = ++$number;
    my $kind = (qw(plain plain plain stream delayed many handle empty dies unread later))[rand 11];
    my $method = (qw(GET GET GET HEAD POST POST PUT OPTIONS))[rand 8];
    my $uri = "/$kind/$n" . ('', '?a=b', '?' . 'q' x rand 500)[rand 3];
    my @lines;
    my $tag = '';
    if (rand() < 0.5) {
        $tag = 't' x (1 + rand 50);
        push @lines, "X-Tag: $tag";
    }
    push @lines, "X-Random-$n: " . 'r' x rand 2_000 if rand() < 0.3;
    my $body = '';
    my @body;
    if ($method =~ /^P/) {
        my $size = (0, 5, 100, 5_000, 70_000)[rand 5];
        $body = join '', map { chr 97 + rand 26 } 1 .. ($size > 1_000 ? 100 : $size);
        $body x= $size / 100 if $size > 1_000;
        if (rand() < 0.4) {
            push @lines, 'Transfer-Encoding: chunked';
            my $chunks = join '', map { sprintf "%x%s\r\n%s\r\n", length, (rand() < 0.2 ? ';ext' : ''), $_ }
                $body eq '' ? () : every_n(1 + int rand 3_000, $body);
            push @body, \($chunks . "0\r\n" . (rand() < 0.2 ? "X-Trailer: x\r\n" : '') . "\r\n");
        }
        else {
            push @body, \$body;
        }
    }
    my $close = 0;
    my $bytes;
    my $dice = rand;
    if ($dice < 0.02) {
        push @lines, 'Connection: close';
        $close = 1;
    }
    elsif ($dice < 0.03) {
        return ["$method $uri HTTP/1.1\r\nX: y\r\n\r\n", $method, 400, undef, 1];
    }
    $bytes = req("$method $uri", @lines, @body);
    my $answer = "$method $uri $tag " . ($kind eq 'unread' ? '' : $body);
    my ($status, $expected) = $kind eq 'empty' ? (204, '') : $kind eq 'dies' ? (500, undef)
        : (200, $kind eq 'many' ? $answer x ($n % 50) : $answer);
    $expected = '' if $method eq 'HEAD';
    return [$bytes, $method, $status, $expected, $close];
}

# One conversation under way: sends a random piece, reads what there is.
sub conversation {
    my @requests = map { random_request() } 1 .. 1 + rand 12;
    my $bytes = join '', map { $_->[0] } @requests;
    my ($step, $least) = ((1, 7, 200, 5_000, 100_000)[rand 5], length($bytes) / 500);
    return {client => $server->connect, bytes => $bytes, expected => \@requests, step => $step > $least ? $step : $least};
}

sub go_on {
    my ($talk) = @_;
    my $client = $talk->{client};
    if (length $talk->{bytes}) {
        my $piece = substr $talk->{bytes}, 0, 1 + int rand $talk->{step}, '';
        $client->send($piece) or $talk->{bytes} = '';
    }
    return length $talk->{bytes};
}

# Reads all its answers; what is wrong with them.
sub verdict {
    my ($talk) = @_;
    my $i = 0;
    for my $expected (@{ $talk->{expected} }) {
        my ($bytes, $method, $status, $body, $close) = @$expected;
        $i++;
        my $answer = eval { $talk->{client}->read_response($method) };
        my $what = "answer $i to " . substr $bytes, 0, index $bytes, "\r\n";
        return "$what: $@" if $@;
        return "$what: none" unless $answer;
        return "$what: status " . $answer->status . ", not $status" if $answer->status != $status;
        return "$what: a body of " . length($answer->body) . ' bytes, not ' . length $body
            if defined $body && $answer->body ne $body;
        if ($close) {
            return "$what: does not say close" if !$answer->closes;
            return "$what: something follows" if !$talk->{client}->closes;
            return '';
        }
    }
    return '';
}

check "conversations at random, with seed $seed" => sub {
    my $pid = $server->get('/pid/0')->body;
    # What is answered later waits for other requests: another client makes them, all the time.
    my $other = fork;
    die "fork: $!" unless defined $other;
    if (!$other) {
        my $client = $server->connect;
        eval { $client->ask('GET /plain/0'), @{ $client->{responses} } = (), select undef, undef, undef, 0.002 for 1 .. 30_000 };
        POSIX::_exit(0);
    }
    my $wrong = 0;
    for my $round (1 .. $rounds) {
        my @talks = map { conversation() } 1 .. 1 + rand 15;
        my @talking = @talks;
        while (@talking) {
            my $i = int rand @talking;
            go_on($talking[$i]) or splice @talking, $i, 1;
        }
        for my $talk (@talks) {
            my $problem = verdict($talk);
            is $problem, '', "round $round" if $problem ne '';
            $wrong++ if $problem ne '';
        }
        last if $wrong > 3;
    }
    kill TERM => $other;
    waitpid $other, 0;
    is $wrong, 0, "in $rounds rounds, $number requests";
    is $server->get('/pid/0')->body, $pid, 'one worker served them all';
};

done_testing;
