#!perl
# The engine's parser and an independent one (Python's h11) take and refuse the same requests and read the same out of
# them, over 30,000 generated and mutated ones. Where the two differ on purpose is the list @DIVERGENCES below; each
# entry looks at the request itself, and how often each was needed is printed.
#
# Environment: HF_SEED, another series of requests; HF_REQUESTS, how many.
use strict;
use warnings;

use Config;
use File::Spec::Functions qw(catfile);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

my $ROOT     = catfile($FindBin::Bin, '..');
my $SEED     = $ENV{HF_SEED}     || 20240917;
my $REQUESTS = $ENV{HF_REQUESTS} || 30_000;

my ($python) = grep { system("$_ -c 'import h11' >/dev/null 2>&1") == 0 } '/usr/bin/python3', 'python3';
plan skip_all => 'needs the Python module h11 (Debian: apt-get install python3-h11)' unless $python;

local $SIG{ALRM} = sub { BAIL_OUT('still not done after five minutes') };
alarm 300;

# ---- a random generator of our own: the same series on every perl ----

my $state = $SEED & 0x7fffffff;

# An integer from 0 to $n - 1.
sub any {
    my ($n) = @_;
    $state = ($state * 1103515 + 12345) % 2147483648 for 1 .. 2;
    return ($state >> 8) % $n;
}

sub one_of { return $_[any(scalar @_)] }

sub chance { return any(100) < $_[0] }

# ---- requests ----

my @NAMES = (
    qw(Accept Cookie User-Agent X-Forwarded-For x-y X_Y Referer ETag If-None-Match a Upgrade),
    q(!#$%&'*+-.^_`|~0), 'Accept-Encoding', 'content-type', 'Long-' . 'name-' x 12,
);
my @VALUES = (
    '', 'a', 'text/html, */*;q=0.8', "tab\tinside", 'colon: inside', "caf\xc3\xa9", "\xff\x80", 'x' x 100,
    'gzip, deflate', '"quoted \\" string"', ',,,', '=',
);
my @TARGETS = (
    '/', '/index.html', '/a/b?c=d&e=%20', '/%2e%2e/', '//two', '/a?', '/?q?r', '/' . 'long/' x 40, '/~!$&\'()*+,;=:@',
);
my @ODD_TARGETS = (
    '*', 'a', '?', 'http://example.org/', 'http://example.org', 'HTTPS://a:8443/b?c', 'http://[::1]:80/', 'http://',
    'http:///a', 'http://u@a/', 'http://a:b/', 'ftp://a/', 'a:80', '[::1]:443', 'a:', ':80', '/a#b', "/\xc3\xa9",
    'http://a?b', 'http:/a', '/a"<>\\^`{|}',
);
my @HOSTS = ('a', 'localhost:5000', 'example.org', '', '127.0.0.1:80', '[::1]', '[2001:db8::1]:443', 'a:');
my @ODD_HOSTS = ('a b', 'a,b', 'a/b', 'u@a', ':80', 'a:b', 'a:99999', '[::1', '[]', 'a:1:2', "\xc3\xa9", 'a?b', 'a#b');
my @LENGTHS     = (0, 1, 5, 42, 1234567890, '007');
my @ODD_LENGTHS = ('+5', '-5', '5, 5', '5, 6', '5,', '', '0x5', '5 5', '5.0', '05, 5', '9' x 18, '9' x 19, '1' . '0' x 25);
my @ODD_CODINGS = ('gzip', 'gzip, chunked', 'chunked, gzip', 'chunked, chunked', '', 'identity', 'chunked;a=b', 'xchunked', 'chunked,');
my @ODD_BYTES   = map { chr } 0, 1, 8, 9, 10, 11, 12, 13, 27, 31, 32, 34, 35, 40, 44, 47, 58, 59, 64, 91, 92, 127, 128, 255;

sub any_case {
    my ($word) = @_;
    return $word unless chance(25);
    return join '', map { chance(50) ? uc : lc } split //, $word;
}

# One field line without its end.
sub field {
    my ($name, $value) = @_;
    return any_case($name) . ':' . one_of(' ', ' ', ' ', '', "\t", '  ') . $value . one_of(('') x 6, ' ', "\t ");
}

sub request {
    my $method  = one_of(qw(GET GET GET POST PUT HEAD OPTIONS CONNECT DELETE PATCH M-SEARCH x), 'LONG' x 8);
    $method = 'LONG' x 9 if chance(1);
    my $target  = one_of(chance(85) ? @TARGETS : @ODD_TARGETS);
    my $version = chance(97) ? one_of(qw(1.1 1.1 1.1 1.0)) : one_of(qw(1.2 1.9 2.0 0.9 3.0 1. 1 1.10 11.1 1.x));
    $target = one_of('example.org:443', '[::1]:443', 'a', 'a:0') if $method eq 'CONNECT' && chance(80);
    $target = '*' if $method eq 'OPTIONS' && chance(50);

    my @fields = map { field(one_of(@NAMES), one_of(@VALUES)) } 1 .. any(6);
    push @fields, field('Host', one_of(chance(92) ? @HOSTS : @ODD_HOSTS)) if chance(97);
    push @fields, field('Host', one_of(@HOSTS)) if chance(2);
    push @fields, field('Content-Length', one_of(chance(85) ? @LENGTHS : @ODD_LENGTHS)) if chance(25);
    push @fields, field('Content-Length', one_of(@LENGTHS)) if chance(3);
    push @fields, field('Transfer-Encoding', chance(85) ? any_case('chunked') : one_of(@ODD_CODINGS)) if chance(15);
    push @fields, field('Connection', any_case(one_of('close', 'keep-alive', 'upgrade', 'x, close', 'keep-alive,close', 'closed', '', ',')))
        for 1 .. any(3);
    push @fields, field('Expect', any_case(chance(80) ? '100-continue' : one_of('', '200-ok', '100-continue, x'))) if chance(5);

    for my $i (reverse 1 .. $#fields) {
        my $j = any($i + 1);
        @fields[$i, $j] = @fields[$j, $i];
    }
    my $text = join '', map { "$_\r\n" } "$method $target HTTP/$version", @fields, '';
    $text = "\r\n" x (1 + any(9)) . $text if chance(2);
    return $text;
}

# Something went wrong on the way.
sub mutate {
    my ($text) = @_;
    my $at = any(1 + length $text);
    my $kind = any(9);
    if ($kind == 0) {
        substr($text, $at, 1) = one_of(@ODD_BYTES) if $at < length $text;
    }
    elsif ($kind == 1) { substr($text, $at, 0) = one_of(@ODD_BYTES) }
    elsif ($kind == 2) { substr($text, $at, 1) = '' if $at < length $text }
    elsif ($kind == 3) { substr($text, $at, 0) = chr any(256) }
    elsif ($kind == 4) {    # another end of line
        my @lines = split /\r\n/, $text, -1;
        my $n = any(scalar @lines);
        $lines[$n] .= one_of("\n", "\r", "\r\r\n", "\n\r", "\r\n ", "\r\n\t", " \r\n", "\0");
        $text = $lines[0] . join '', map { ($_ - 1 == $n ? '' : "\r\n") . $lines[$_] } 1 .. $#lines;
    }
    elsif ($kind == 5) {    # a line twice, or elsewhere
        my @lines = split /\r\n/, $text, -1;
        splice @lines, any(scalar @lines), 0, one_of(@lines);
        $text = join "\r\n", @lines;
    }
    elsif ($kind == 6) { $text =~ s/:/ :/ }
    elsif ($kind == 7) { substr($text, $at, 1) ^= chr(1 << any(8)) if $at < length $text }
    else               { $text = substr($text, 0, $at) . substr(request(), any(20)) }
    return $text;
}

# ---- what the two are known to see differently ----

# The text as the peer cuts it: the head ends at the first empty line, however its lines end.
sub lines_of {
    my ($text) = @_;
    my ($head) = $text =~ /\A(.*?\n)\r?\n/s or return;
    return split /\r?\n/, $head;
}

sub values_of {
    my ($text, $name) = @_;
    my (undef, @lines) = lines_of($text);
    return map { /\A\Q$name\E:[ \t]*(.*?)[ \t]*\z/is ? $1 : () } @lines;
}

sub version_of {
    my ($line) = lines_of($_[0]);
    return $line =~ m{ HTTP/(\d\.\d)\z} ? $1 : '';
}

my $PORT = qr/(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[0-5]?\d{1,4})/;
my $NAME = qr/(?:\[[0-9A-Fa-f:.]{2,}\]|[-A-Za-z0-9._~%!\$&'()*+;=]+)/;
my $HOST = qr/$NAME(?::$PORT?)?/;

sub is_target {
    my ($method, $target) = @_;
    return 0 if $target =~ /#/;
    return $target =~ /\A$NAME:$PORT\z/ if $method eq 'CONNECT';
    return 1 if $target =~ m{\A/};
    return 1 if $target eq '*' && $method eq 'OPTIONS';
    return $target =~ m{\Ahttps?://$HOST(?:[/?].*)?\z}is;
}

# [name and source, ours, theirs, sub of the request's text]: which outcomes it explains, and when.
my @DIVERGENCES = (
    ['a line that ends with LF alone is refused (a recipient MAY take it: RFC 9112, 2.2)', 'refuse', 'accept',
        sub { join('', $_[0] =~ /\A(.*?\n\r?\n)/s) =~ /(?<!\r)\n/ }],
    ['a folded field is refused (a server MUST refuse or unfold: RFC 9112, 5.2)', 'refuse', 'accept',
        sub { my (undef, @lines) = lines_of($_[0]); grep { /\A[ \t]/ } @lines }],
    ['a control character in a field value is refused (RFC 9110, 5.5)', 'refuse', 'accept',
        sub { my (undef, @lines) = lines_of($_[0]); grep { /[\x01-\x08\x0e-\x1f\x7f]/ } @lines }],
    ['a major version other than 1 is refused (RFC 9110, 15.6.6)', 'refuse', 'accept', sub { version_of($_[0]) =~ /\A[^1]/ }],
    ['a target that has none of the four forms is refused (RFC 9112, 3.2)', 'refuse', 'accept',
        sub { my ($line) = lines_of($_[0]); my ($method, $target) = split / /, $line; !is_target($method, $target) }],
    ['a malformed Host is refused (RFC 9112, 3.2)', 'refuse', 'accept',
        sub { grep { !/\A(?:$HOST)?\z/ } values_of($_[0], 'Host') }],
    ['HTTP/1.2 and up needs Host as 1.1 does (RFC 9110, 2.5)', 'refuse', 'accept',
        sub { version_of($_[0]) =~ /\A1\.[2-9]/ && !values_of($_[0], 'Host') }],
    ['Content-Length with Transfer-Encoding is refused (RFC 9112, 6.3)', 'refuse', 'accept',
        sub { values_of($_[0], 'Content-Length') && values_of($_[0], 'Transfer-Encoding') }],
    ['Transfer-Encoding in HTTP/1.0 is refused (RFC 9112, 6.1: the framing is faulty)', 'refuse', 'accept',
        sub { version_of($_[0]) eq '1.0' && values_of($_[0], 'Transfer-Encoding') }],
    ['a Content-Length of more than 18 digits is refused (RFC 9110, 8.6: prevent overflows)', 'refuse', 'accept',
        sub { grep { /\d{19}/ } values_of($_[0], 'Content-Length') }],
    ['an unknown expectation is answered with 417 (RFC 9110, 10.1.1)', 'refuse', 'accept',
        sub { version_of($_[0]) ne '1.0' && grep { lc ne '100-continue' } values_of($_[0], 'Expect') }],
    ['a method of more than 32 bytes is refused (a limit of ours; RFC 9112, 3 leaves it open)', 'refuse', 'accept',
        sub { $_[0] =~ /\A[^ ]{33}/ }],
    ['empty lines before the request line are skipped (a server SHOULD: RFC 9112, 2.2)', 'accept', 'refuse',
        sub { $_[0] =~ /\A(?:\r\n){1,8}[^\r\n]/ }],
    ['bytes above 0x7f in a target are taken (clients send them; RFC 9112, 3 lets a server refuse)', 'accept', 'refuse',
        sub { my ($line) = lines_of($_[0]); my (undef, $target) = split / /, $line; $target =~ /[\x80-\xff]/ }],
    ['the same length in other digits is the same length (RFC 9110, 8.6: the same decimal value)', 'accept', 'refuse',
        sub {
            my %spelling = map { $_ => 1 } map { split /[ \t]*,[ \t]*/ } values_of($_[0], 'Content-Length');
            my %number = map { $_ + 0 => 1 } keys %spelling;
            keys %spelling > 1 && keys %number == 1;
        }],
    ['HTTP/1.0 with keep-alive is kept alive (RFC 9112, 9.3)', 'keep', 'close',
        sub { version_of($_[0]) eq '1.0' && grep { /(?:\A|,)[ \t]*keep-alive[ \t]*(?:,|\z)/i } values_of($_[0], 'Connection') }],
);
my @explained = (0) x @DIVERGENCES;

sub is_known {
    my ($text, $ours, $theirs) = @_;
    for my $i (0 .. $#DIVERGENCES) {
        my (undef, $our_side, $their_side, $test) = @{ $DIVERGENCES[$i] };
        next unless $our_side eq $ours && $their_side eq $theirs && $test->($text);
        $explained[$i]++;
        return 1;
    }
    return 0;
}

# ---- the comparison ----

# The framing fields are compared as framing; the peer rewrites them.
sub without_framing {
    my ($fields) = @_;
    my ($length, $coding) = map { unpack 'H*', $_ } 'content-length', 'transfer-encoding';
    return join ',', grep { !/\A(?:$length|$coding):/ } split /,/, $fields;
}

# What is wrong with a pair of lines; undef if nothing is.
sub difference {
    my ($text, $our_line, $their_line) = @_;
    my ($ours,   @ours)   = split / /, $our_line,   -1;
    my ($theirs, @theirs) = split / /, $their_line, -1;
    if ($ours ne $theirs) {
        return is_known($text, $ours, $theirs) ? undef : 'the outcome';
    }
    return undef if $ours ne 'accept';

    my @what = qw(method target version framing keep-alive head_len fields);
    $theirs[2] = '1.1' if $theirs[2] =~ /\A1\.[2-9]/;    # a higher minor version is read as 1.1 (RFC 9110, 2.5)
    $theirs[3] += 0 if $theirs[3] =~ /\A0\d/;
    $_ = without_framing($_) for $ours[6], $theirs[6];
    $theirs[4] = 1 if $ours[4] && !$theirs[4] && is_known($text, 'keep', 'close');
    for my $i (0 .. $#what) {
        return $what[$i] if $ours[$i] ne $theirs[$i];
    }
    return undef;
}

sub printable {
    my ($text) = @_;
    $text =~ s/([^\x20-\x7e])/sprintf '\\x%02x', ord $1/ge;
    return $text;
}

my $dir  = tempdir(CLEANUP => 1);
my $dump = catfile($dir, 'http1_dump');
my @build = (
    split(' ', $Config{cc}), qw(-std=gnu11 -O1), "-I$ROOT/engine", '-o', $dump, "$ROOT/engine/t/http1_dump.c",
    map { "$ROOT/engine/$_.c" } qw(http1 scan header_names),
);
ok(system(@build) == 0, 'the engine\'s parser builds by itself') or BAIL_OUT("failed: @build");

diag("HF_SEED=$SEED, $REQUESTS requests, peer: " . `$python -c 'import h11; print("h11", h11.__version__, end="")'`);
my @requests;
open my $out, '>:raw', catfile($dir, 'requests') or die "requests: $!";
for (1 .. $REQUESTS) {
    my $text = request();
    if (chance(50)) { $text = mutate($text) for 1 .. 1 + any(2) }
    $text .= "\r\n\r\n";    # so that no head is just incomplete, which the peer only learns at its end
    push @requests, $text;
    print {$out} pack('N/a*', $text) or die "requests: $!";
}
close $out or die "requests: $!";

for my $command (["$dump", 'ours'], ["$python $FindBin::Bin/parser_differential.py", 'theirs']) {
    my ($program, $to) = @$command;
    is(system("$program < $dir/requests > $dir/$to"), 0, "$to: all requests were read");
}

my %seen = (accept => 0, refuse => 0);
my @unexplained;
open my $ours,   '<', catfile($dir, 'ours')   or die "ours: $!";
open my $theirs, '<', catfile($dir, 'theirs') or die "theirs: $!";
for my $text (@requests) {
    my ($our_line, $their_line) = (scalar <$ours>, scalar <$theirs>);
    die 'a line of output is missing' unless defined $our_line && defined $their_line;
    chomp($our_line, $their_line);
    my ($mine) = split / /, $our_line;
    my ($other) = split / /, $their_line;
    $seen{$mine}++ if $mine eq $other;
    my $what = difference($text, $our_line, $their_line) or next;
    push @unexplained, [$what, $text, $our_line, $their_line];
}

is(scalar @unexplained, 0, 'both parsers agree on every request but for the known divergences');
for my $case (@unexplained[0 .. ($#unexplained > 9 ? 9 : $#unexplained)]) {
    my ($what, $text, $our_line, $their_line) = @$case;
    diag("$what differs:\n  " . printable($text) . "\n  ours:   $our_line\n  theirs: $their_line");
}

my $explained = 0;
$explained += $_ for @explained;
diag(sprintf '%6d taken by both', $seen{accept});
diag(sprintf '%6d refused by both', $seen{refuse});
diag(sprintf '%6d %s', $explained[$_], $DIVERGENCES[$_][0]) for 0 .. $#DIVERGENCES;
cmp_ok($seen{accept}, '>=', $REQUESTS * 0.3, 'many of the requests are good ones');
cmp_ok($seen{refuse}, '>=', $REQUESTS * 0.1, 'many are bad ones for both');
cmp_ok($explained, '<=', $REQUESTS * 0.4, 'the known divergences are the smaller part');
done_testing;
