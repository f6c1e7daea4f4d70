use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Digest::MD5 qw(md5_hex);
use File::Temp ();
use Test::More;
use Hydrofoil::Test;

# Answer bodies that are complete when the application returns: the PSGI specification, "Body".

my $dir = File::Temp->newdir;
my $content = join '', map { md5_hex($_) } 1 .. 100_000;    # 3.2 MB
for my $file (['large', $content], ['small', "one\ntwo\nthree\n"], ['empty', '']) {
    open my $out, '>', "$dir/$file->[0]" or die $!;
    print {$out} $file->[1];
    close $out;
}

my $app = <<"END" . <<'END';
my \$dir = '$dir';
END
require IO::File;
require IO::Handle;
require Plack::Util;
my @text = ('Content-Type' => 'text/plain');
sub file { open my $fh, '<', "$dir/$_[0]" or die "$_[0]: $!"; $fh }
{
    package Lines;
    sub new { my ($class, $path, @lines) = @_; bless {path => $path, lines => [@lines]}, $class }
    sub getline {
        my $self = shift;
        my $size = ref $/ ? ${$/} : 'none';
        main::record("getline $size") if $self->{path} eq '/getline-size';
        my $line = shift @{ $self->{lines} };
        die "getline fails\n" if defined $line && $line eq 'die';
        $line;
    }
    sub close { main::record("close $_[0]{path}") }
    sub DESTROY { main::record("destroy $_[0]{path}") }
    package WithPath;
    our @ISA = ('Lines');
    sub path { $_[0]{file} }
}
my %page = (
    '/pid'         => sub { [200, [@text], [$$]] },
    '/empty'       => sub { [200, [@text], []] },
    '/blanks'      => sub { [200, [@text], ['', '', 'x', '']] },
    '/many'        => sub { [200, [@text], [map { "$_," } 1 .. 10_000]] },
    '/five-mb'     => sub { [200, [@text], ['a' x 1_000_000, map { chr(97 + $_) x 1_000_000 } 1 .. 4]] },
    '/numbers'     => sub { [200, [@text], [1, 2.5, -3]] },
    '/integers'    => sub { [200, [@text, map { ("X-$_" => $_) } 1 .. 20], [0, 1, 9, 10, 18446744073709551615, -7, map { $_ * 1000 } 1 .. 30]] },
    '/latin-utf8'  => sub { my $s = "caf\xe9"; utf8::upgrade($s); [200, [@text], [$s]] },
    '/constant'    => sub { [200, [@text], ['always the same']] },
    '/file'        => sub { [200, [@text], file('large')] },
    '/file-length' => sub { my $fh = file('large'); [200, [@text, 'Content-Length' => -s $fh], $fh] },
    '/io-file'     => sub { [200, [@text], IO::File->new("$dir/small", 'r')] },
    '/file-empty'  => sub { [200, [@text], file('empty')] },
    '/file-seek'   => sub { my $fh = file('large'); seek $fh, 1_000_000, 0; [200, [@text], $fh] },
    '/file-sysseek' => sub { my $fh = file('large'); sysseek $fh, 1_000_000, 0; [200, [@text], $fh] },
    '/file-read'   => sub { my $fh = file('large'); read $fh, my $x, 1_000; [200, [@text], $fh] },
    '/file-line'   => sub { my $fh = file('small'); my $x = <$fh>; [200, [@text], $fh] },
    '/file-end'    => sub { my $fh = file('small'); my @x = <$fh>; [200, [@text], $fh] },
    '/file-short'  => sub { [200, [@text, 'Content-Length' => 100_000], file('small')] },
    '/file-part'   => sub { [200, [@text, 'Content-Length' => 7], file('small')] },
    '/array-long'  => sub { [200, [@text, 'Content-Length' => 7], ["one\ntwo\n", 'three']] },
    '/getline-long' => sub { [200, [@text, 'Content-Length' => 7], Lines->new('/getline-long', "one\n", "two\n", 'three')] },
    '/file-range'  => sub { my $fh = file('large'); seek $fh, 10, 0; [206, [@text, 'Content-Length' => 20], $fh] },
    '/file-delayed' => sub { sub { $_[0]->([200, [@text], file('large')]) } },
    '/file-deleted' => sub {
        open my $out, '>', "$dir/gone"; print {$out} 'still here'; close $out;
        my $fh = file('gone'); unlink "$dir/gone"; [200, [@text], $fh]
    },
    '/file-path'   => sub { my $fh = file('small'); Plack::Util::set_io_path($fh, "$dir/small"); [200, [@text], $fh] },
    '/file-utf8'   => sub { open my $fh, '<:encoding(UTF-8)', \"caf\xc3\xa9" or die; [200, [@text], $fh] },
    '/file-raw-utf8' => sub {
        open my $out, '>', "$dir/utf8"; print {$out} "caf\xc3\xa9"; close $out;
        open my $fh, '<:utf8', "$dir/utf8" or die; [200, [@text], $fh]
    },
    '/file-crlf'   => sub { open my $fh, '<:crlf', "$dir/small" or die; [200, [@text], $fh] },
    '/memory'      => sub { open my $fh, '<', \$main::long or die; [200, [@text], $fh] },
    '/memory-length' => sub { open my $fh, '<', \"one\ntwo\n" or die; [200, [@text, 'Content-Length' => 8], $fh] },
    '/memory-part' => sub { open my $fh, '<', \"one\ntwo\n" or die; my $x = <$fh>; [200, [@text], $fh] },
    '/pipe'        => sub { open my $fh, '-|', $^X, '-e', 'print "from a pipe\n" for 1 .. 1000' or die; [200, [@text], $fh] },
    '/getline'     => sub { [200, [@text], Lines->new('/getline', "one\n", '', "two\n", 'three')] },
    '/getline-zero' => sub { [200, [@text], Lines->new('/getline-zero', '0', '', '0')] },
    '/getline-size' => sub { [200, [@text], Lines->new('/getline-size', 'x', 'y')] },
    '/getline-length' => sub { [200, [@text, 'Content-Length' => 6], Lines->new('/getline-length', 'one', 'two')] },
    '/getline-large' => sub { [200, [@text], Lines->new('/getline-large', map { chr(97 + $_) x 300_000 } 0 .. 9)] },
    '/getline-many' => sub { [200, [@text], Lines->new('/getline-many', map { "$_\n" } 1 .. 20_000)] },
    '/getline-dies' => sub { [200, [@text], Lines->new('/getline-dies', "one\n", 'die')] },
    '/path'        => sub { my $o = WithPath->new('/path', "one\n", "two\n"); $o->{file} = "$dir/small"; [200, [@text], $o] },
    '/path-gone'   => sub { my $o = WithPath->new('/path-gone', 'by getline'); $o->{file} = "$dir/nowhere"; [200, [@text], $o] },
    '/glob-object' => sub { my $fh = file('small'); bless $fh, 'IO::File'; [200, [@text], $fh] },
);
$main::long = join '', map { "line $_\n" } 1 .. 50_000;
my $call = sub { my $env = shift; ($page{ $env->{PATH_INFO} } || sub { [404, [@text], ['no such page']] })->($env) };
$call;
END

my $server = start_server(app => $app);

my %expected = (
    '/empty'          => '',
    '/blanks'         => 'x',
    '/many'           => join('', map { "$_," } 1 .. 10_000),
    '/five-mb'        => join('', map { chr(97 + $_) x 1_000_000 } 0 .. 4),
    '/numbers'        => '12.5-3',
    '/integers'       => '0191018446744073709551615-7' . join('', map { $_ * 1000 } 1 .. 30),
    '/latin-utf8'     => "caf\xe9",
    '/file'           => $content,
    '/file-length'    => $content,
    '/io-file'        => "one\ntwo\nthree\n",
    '/file-empty'     => '',
    '/file-seek'      => substr($content, 1_000_000),
    '/file-sysseek'   => substr($content, 1_000_000),
    '/file-read'      => substr($content, 1_000),
    '/file-line'      => "two\nthree\n",
    '/file-end'       => '',
    '/file-delayed'   => $content,
    '/file-deleted'   => 'still here',
    '/file-path'      => "one\ntwo\nthree\n",
    '/file-crlf'      => "one\ntwo\nthree\n",
    '/memory'         => join('', map { "line $_\n" } 1 .. 50_000),
    '/memory-length'  => "one\ntwo\n",
    '/memory-part'    => "two\n",
    '/pipe'           => "from a pipe\n" x 1000,
    '/getline'        => "one\ntwo\nthree",
    '/getline-zero'   => '00',
    '/getline-length' => 'onetwo',
    '/getline-large'  => join('', map { chr(97 + $_) x 300_000 } 0 .. 9),
    '/getline-many'   => join('', map { "$_\n" } 1 .. 20_000),
    '/path-gone'      => 'by getline',
    '/glob-object'    => "one\ntwo\nthree\n",
);

sub same {
    my ($got, $expected, $what) = @_;
    return is $got, $expected, $what if length $expected < 200;
    my $verdict = $got eq $expected ? 'the same' : sprintf '%d bytes, %d expected, equal for the first %d', length $got,
        length $expected, length +(($got ^ $expected) =~ /\A(\0*)/)[0];
    return is $verdict, 'the same', $what;
}

each_way 'every kind of body arrives whole' => sub {
    my @pages = sort keys %expected;
    my $client = $server->exchange(map { req("GET $_") } @pages);
    my @answers = $client->responses;
    is scalar @answers, scalar @pages, 'there are as many answers as requests';
    for my $i (0 .. $#answers) {
        same $answers[$i]->body, $expected{ $pages[$i] }, $pages[$i];
    }
    ok !$client->eof, 'and the connection is open';
};

each_way 'every kind of body arrives whole at a 1.0 client' => sub {
    for my $page (sort keys %expected) {
        my $client = $server->exchange(req("GET $page HTTP/1.0"));
        same $client->response->body, $expected{$page}, $page;
    }
} if $ENV{HYDROFOIL_TEST_LONG};

check 'HEAD sends no byte of any kind of body' => sub {
    my @pages = sort keys %expected;
    my $client = $server->exchange((map { req("HEAD $_") } @pages), req('GET /numbers'));
    is $client->response(-1)->body, '12.5-3', 'and the request after them is answered';
    is scalar($client->responses), @pages + 1, 'as are all';
};

each_way 'a real file has a Content-Length of what is left to read' => sub {
    my %length = ('/file' => length $content, '/io-file' => 14, '/file-empty' => 0, '/file-read' => length($content) - 1_000,
        '/file-line' => 10, '/file-seek' => length($content) - 1_000_000, '/file-end' => 0, '/file-delayed' => length $content);
    my @pages = sort keys %length;
    my $client = $server->exchange(map { req("GET $_") } @pages);
    my @told = map { my $length = $_->header('Content-Length'); defined $length ? $length : 'none' } $client->responses;
    is_deeply \@told, [@length{@pages}], 'told without the application saying it';
};

check 'a file shorter than its Content-Length cuts the connection' => sub {
    my $client = $server->connect;
    $client->send(req('GET /file-short') . req('GET /numbers'));
    my $got = $client->read_until_close;
    my ($head, $body) = split /\r\n\r\n/, $got, 2;
    like $head, qr/^Content-Length: 100000\r?$/m, 'the length is what the application said';
    is $body, "one\ntwo\nthree\n", 'what there is is sent, and nothing after it';
};

check 'a body longer than its Content-Length does not spill into the next answer' => sub {
    for my $page ('/file-part', '/file-range', '/array-long', '/getline-long') {
        my $client = $server->connect;
        $client->send(req("GET $page") . req('GET /numbers'));
        my $expected = $page eq '/file-range' ? substr($content, 10, 20) : "one\ntwo";
        is $client->read_response('GET')->body, $expected, "$page: as many bytes as were promised";
        my $next = $client->read_response('GET');
        ok $next ? $next->body eq '12.5-3' : $client->eof, "$page: then the next answer, or the end";
    }
};

check 'a handle with a decoding layer is not sent by bytes that the layer would change' => sub {
    my $client = $server->connect;
    # What the layer gives is characters below 256; as bytes that is Latin-1 (the PSGI specification: bytes only).
    is $client->ask('GET /file-utf8')->body, "caf\xe9", 'an in-memory handle with :encoding(UTF-8)';
    my $raw = $client->ask('GET /file-raw-utf8')->body;
    ok $raw eq "caf\xc3\xa9" || $raw eq "caf\xe9", 'a file with :utf8 arrives whole';
};

check 'close is called once and the object is let go' => sub {
    $server->forget_recorded;
    for my $page (qw(/getline /getline-length /getline-large)) {
        $server->get($page);
        ok poll_until(sub { grep { $_ eq "destroy $page" } $server->recorded }, 5), "$page is destroyed";
        is join(', ', grep { m{ $page\z} } $server->recorded), "close $page, destroy $page", 'after one close';
    }
    my $client = $server->connect;
    $client->ask('HEAD /getline');
    $server->forget_recorded;
    $client->ask('HEAD /getline');
    ok poll_until(sub { grep { $_ eq 'close /getline' } $server->recorded }, 5), 'for HEAD too';
};

check 'getline is called with a record size in $/' => sub {
    $server->forget_recorded;
    is $server->get('/getline-size')->body, 'xy', 'the body arrives';
    my ($size) = map { /^getline (.+)/ } $server->recorded;
    like $size, qr/\A[1-9]\d{3,}\z/, '$/ is a reference to a number of bytes';
};

check 'an object with a path is sent as that file or by its lines' => sub {
    my $body = $server->get('/path')->body;
    ok $body eq "one\ntwo\nthree\n" || $body eq "one\ntwo\n", 'in full, one or the other';
};

check 'a getline that dies cuts the answer so that the client can tell' => sub {
    my $client = $server->connect;
    $client->send(req('GET /getline-dies') . req('GET /numbers'));
    my $got = $client->read_until_close;
    unlike $got, qr/\r\n0\r\n\r\n/, 'no last chunk says that all is well';
    unlike $got, qr/12\.5-3/, 'and nothing else follows';
    ok $server->wait_for_log(qr/getline fails/), 'the log has the message';
    is $server->get('/numbers')->body, '12.5-3', 'the next client is served';
};

check 'a body is read no further ahead of a slow reader than buffers hold' => sub {
    my $slow = start_server(app => <<'END');
my ($asked, $closed) = (0, 0);
{
    package Endless;
    sub getline { $asked++; 'x' x 65_536 }
    sub close { $closed++ }
}
my $call = sub { [200, ['Content-Type' => 'text/plain'], $_[0]{PATH_INFO} eq '/' ? bless [], 'Endless' : ["$asked $closed"]] };
$call;
END
    my $client = $slow->connect(receive_buffer => 16_384);
    $client->send(req('GET /'));
    my $before = -1;
    my ($asked) = (0);
    ok poll_until(sub { sleep 0.3; ($before, $asked) = ($asked, $slow->get('/asked')->body =~ /^(\d+)/); $asked == $before }, 20),
        'it is left alone';
    cmp_ok $asked, '<', 200, 'after a few pieces';
    $client->read_at_least(65_536 * ($asked + 10));
    cmp_ok +($slow->get('/asked')->body =~ /^(\d+)/)[0], '>', $asked, 'goes on when the reader does';
    $client->abort;
    ok poll_until(sub { $slow->get('/asked')->body =~ / 1\z/ }, 20), 'and is closed when that has left';
};

check 'a file goes to many slow readers at once' => sub {
    my @clients = map { $server->connect(receive_buffer => 8_192) } 1 .. 5;
    $_->send(req('GET /file')) for @clients;
    is $server->get('/numbers')->body, '12.5-3', 'another client is answered meanwhile';
    same $_->read_response('GET')->body, $content, 'and every reader has the whole file' for @clients;
};

check 'descriptors of files are given back' => sub {
    my $pid = $server->worker_pid;
    my $client = $server->connect;
    $client->ask("GET $_") for qw(/file /file-seek /io-file /pipe /file-delayed);
    my $before = $server->descriptors($pid);
    for my $i (1 .. 30) {
        $client->ask("GET $_") for qw(/file /file-seek /io-file /file-path /file-delayed /path);
        my $gone = $server->connect;
        $gone->send(req('GET /file'));
        $gone->read_at_least(1);
        $gone->abort;
    }
    ok poll_until(sub { $server->descriptors($pid) <= $before }, 10), 'after answers whole and broken off';
};

check 'a constant body is not changed by being sent' => sub {
    my $client = $server->connect;
    is $client->ask('GET /constant')->body, 'always the same', "time $_" for 1 .. 3;
};

done_testing;
