use strict;
use warnings;
use Test::More;
use Config;
use Data::Dumper;
use File::Temp ();

BEGIN {
    plan skip_all => "needs $_" for grep { !eval "require $_; 1" } qw(HTTP::Entity::Parser HTTP::MultiPartParser Plack::Request);
}
use Hydrofoil::Accelerate only => [];

# The originals and ours in one process, on the same bodies.
my $seed = $ENV{HYDROFOIL_TEST_SEED} || 20260101;
srand $seed;
my $rounds = $ENV{HYDROFOIL_TEST_ROUNDS} || 500;

local $SIG{ALRM} = sub { die "took too long\n" };
alarm 600;
$Data::Dumper::Sortkeys = 1;
$Data::Dumper::Useqq    = 1;
$Data::Dumper::Indent   = 1;

# ---- running a body through either ----

sub pick { return $_[ rand @_ ] }

{
    package Trickle;    # gives what it is told to, a piece at each read
    sub new { my ($class, @pieces) = @_; return bless { all => [@pieces], left => [@pieces] }, $class }
    sub read {
        my $self = $_[0];
        my $piece = @{ $self->{left} } ? shift @{ $self->{left} } : '';
        unshift @{ $self->{left} }, substr $piece, $_[2], length($piece), '' if length $piece > $_[2];
        $_[1] = $piece;
        return length $piece;
    }
    sub seek { $_[0]{left} = [ @{ $_[0]{all} } ]; return 1 }
}

sub slurp {
    my $file = shift;
    open my $fh, '<:raw', $file or return "cannot open: $!";
    local $/;
    return scalar <$fh>;
}

sub parse {
    my ($body, $type, %with) = @_;

    my $input;
    if ($with{pieces}) {
        my ($at, @pieces) = (0);
        for my $length (@{ $with{pieces} }) {
            last if $at >= length $body;
            push @pieces, substr $body, $at, $length;
            $at += $length;
        }
        push @pieces, substr $body, $at if $at < length $body;
        $input = Trickle->new(grep { length } @pieces);
    }
    else {
        open $input, '<:raw', \$body or die $!;
    }
    my %env = (
        CONTENT_TYPE           => $type,
        CONTENT_LENGTH         => length $body,
        'psgi.input'           => $input,
        'psgix.input.buffered' => $with{unbuffered} ? 0 : 1,
        HTTP_TRANSFER_ENCODING => 'identity',
    );
    my $parser = HTTP::Entity::Parser->new(buffer_length => $with{buffer_length} || 65536);
    my @errors;
    my $opts = $with{on_error} ? { on_error => sub { push @errors, @_ } } : undef;
    $parser->register('application/x-www-form-urlencoded', 'HTTP::Entity::Parser::UrlEncoded');
    $parser->register('multipart/form-data',               'HTTP::Entity::Parser::MultiPart', $opts);
    $parser->register('application/json',                  'HTTP::Entity::Parser::JSON');
    local $Data::Dumper::Sortkeys = 1;
    my ($params, $uploads) = eval { $parser->parse(\%env) };
    my $died = $@;
    my @files;
    for my $i (0 .. $#{ $uploads || [] }) {
        my $upload = $uploads->[$i];
        next if ref $upload ne 'HASH';
        my %copy = %$upload;
        push @files, [ slurp($copy{tempname}), $copy{tempname} =~ m{^\Q${\File::Spec->tmpdir}\E/[^/]+/[^/]+\z} ? 1 : $copy{tempname} ];
        $copy{tempname} = 'named';
        $uploads->[$i] = \%copy;
    }
    # A hash has its keys in another order each time.
    if ($params && $type =~ /json/) {
        my %pairs = @$params;
        $params = [ map { ($_, $pairs{$_}) } sort keys %pairs ];
    }
    my $dirs = $env{'http.entity.parser.multipart.tempdir'};
    my $rest = do { my $now = $env{'psgi.input'}; my $rest = ''; $now->read($rest, 10) if !$died; $rest };
    return {
        params => $params, uploads => $uploads, died => $died, errors => \@errors, files => \@files,
        env    => [ sort keys %env ], dirs => [ map { ref && $_->isa('File::Temp::Dir') ? 1 : 0 } @{ $dirs || [] } ], rest => $rest,
    };
}

sub compare {
    my ($name, @call) = @_;

    Hydrofoil::Accelerate->unload;
    my $expected = parse(@call);
    Hydrofoil::Accelerate->load(only => ['Entity']);
    my $got = parse(@call);
    Hydrofoil::Accelerate->unload;
    return 1 if Dumper($got) eq Dumper($expected);
    is Dumper($got), Dumper($expected), "$name (seed $seed)";
    diag(Data::Dumper->new([ \@call ], ["call"])->Useqq(1)->Dump);
    return 0;
}

# ---- bodies ----

sub noise {
    my $length = shift;
    return join '', map { pick("\r", "\n", "\r\n", '-', '--', "\r\n--", 'a', chr rand 256) } 1 .. $length;
}

my @dispositions = (
    'form-data; name="%s"', 'form-data; name="%s"; filename="%s"', 'form-data; name="%s"; filename=""', 'form-data; name=%s',
    'FORM-DATA;name="%s";filename=%s', 'form-data; filename="%s"', 'form-data', 'attachment; name="%s"', 'form-data; name="%s',
    'form-data; name="a\\"%s"; filename="C:\\\\dir\\\\%s"', 'form-data; name="%s"; name="b"', 'form-data;  name="%s" ; x=y ; filename="%s"',
    "form-data; name=\"%s\"\nmore", 'form-data; name="%s";', '; name="%s"', 'form-data; name*=utf-8\'\'%s',
);

sub some_headers {
    my $kind = shift;
    (my $disposition = $kind) =~ s/%s/pick('a', 'b', "caf\xc3\xa9", '', "x y", "\xff")/ge;
    my @lines = "Content-Disposition: $disposition";
    push @lines, 'Content-Type: ' . pick('text/plain', '', 'image/png ; a = b', ":\t") if rand() < 0.5;
    push @lines, pick('X-Folded: one', 'X-Folded: one ') . pick("\r\n two", "\r\n\ttwo: three", "\r\n \r\n  two", "\r\n\t") if rand() < 0.2;
    push @lines, pick('no colon', "\tat first", ' a: b', ' ', "A\x01: b", "A : b", ': b', "X:\x00\n y", "A\x7f: b", "a:  b :c ") if rand() < 0.12;
    @lines = reverse @lines if rand() < 0.3;
    $lines[0] =~ s/Content-Disposition/pick('content-disposition', 'CONTENT-DISPOSITION', 'Content-Disposition ', 'X')/e if rand() < 0.2;
    return join "\r\n", @lines;
}

sub some_form {
    my $boundary = shift;
    my $usual = rand() < 0.6;
    my $body = rand() < 0.1 ? noise(rand 20) : '';
    for (1 .. rand 6) {
        my $kind = $usual ? $dispositions[ rand 3 ] : pick(@dispositions);
        $body .= "--$boundary\r\n" . some_headers($kind) . "\r\n\r\n" . noise(rand() < 0.1 ? rand 3000 : rand 20) . "\r\n";
    }
    $body .= "--$boundary--\r\n";
    if (!$usual) {
        $body =~ s/\r\n\z/pick('', "\r\n\r\n", "\n", '--')/e if rand() < 0.3;
        substr $body, rand length $body, rand 3, '' if rand() < 0.3;
        substr $body, rand length $body, 0, pick("\r", "\n", '-', "\0") if rand() < 0.3;
        $body = substr $body, 0, rand length $body if rand() < 0.2;
    }
    return $body;
}

subtest 'generated multipart bodies, well and badly formed, in pieces of any size' => sub {
    my $same = 0;
    for (1 .. $rounds) {
        my $boundary = pick('b', '----WebKitFormBoundary7MA4YWxk', '-', "a'()+_,-./:=?", 'x' x 70);
        my $type = 'multipart/form-data; ' . pick("boundary=$boundary", "boundary=\"$boundary\"", "charset=x; boundary=$boundary; a=b");
        my $body = some_form($boundary);
        my %with = (
            on_error      => rand() < 0.3,
            unbuffered    => rand() < 0.2,
            buffer_length => pick(1, 2, 3, 7, 40, 65536, 65536, 1 << 20),
            rand() < 0.4 ? (pieces => [ map { 1 + int rand pick(3, 80, 1000) } 1 .. 400 ]) : (),
        );
        local $Hydrofoil::Accelerate::Entity::MEMORY_LIMIT = pick(0, 5, 100, 1 << 20);
        $same += compare('multipart', $body, $type, %with) or last;
    }
    is $same, $rounds, "$rounds bodies";
};

subtest 'a body split at every byte' => sub {
    my $body = "pre\r\n--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n\"\r\n\r\n1\r\n--\r\n-b\r\n\r\r\n--b\r\n"
        . "Content-Disposition: form-data; name=\"g\"\r\n\r\n\r\n--b--\r\n";
    my $same = grep { compare("split at $_", $body, 'multipart/form-data; boundary=b', pieces => [$_]) } 1 .. length($body) - 1;
    is $same, length($body) - 1, 'every place';
    ok compare('bytes', $body, 'multipart/form-data; boundary=b', pieces => [ (1) x length $body ]), 'and at all of them';
};

subtest 'limits of the preamble and of the header are where they were' => sub {
    my $field = "Content-Disposition: form-data; name=\"f\"\r\n";
    for my $size (32767, 32768, 32769, 40000, 70000) {
        for my $piece (1000, 32768, 65536) {
            for my $on_error (0, 1) {
                my @with = ('multipart/form-data; boundary=b', buffer_length => $piece, on_error => $on_error);
                ok compare('preamble', ('x' x $size) . "--b\r\n$field\r\n1\r\n--b--\r\n", @with), "preamble of $size in pieces of $piece";
                ok compare('header', "--b\r\n${field}X: " . ('x' x $size) . "\r\n\r\n1\r\n--b--\r\n", @with), "header of $size in pieces of $piece";
                ok compare('open header', "--b\r\n${field}X: " . ('x' x $size), @with), "endless header of $size in pieces of $piece";
            }
        }
    }
};

subtest 'content types and boundaries' => sub {
    my $body = "--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n1\r\n--b--\r\n";
    for my $type ('boundary=b', 'boundary=', 'boundary=""', 'boundary="" boundary=b', 'boundary=b c', 'boundary="b', 'boundary="b;"',
        'Boundary=b', 'boundary=b"', "boundary=b\n", 'boundary=;boundary=b', '', "boundary=\xe9", "boundary=b\x{100}", 'boundary="b"x', "boundary=b\0")
    {
        ok compare($type, $body, "multipart/form-data; $type"), Data::Dumper->new([$type])->Useqq(1)->Indent(0)->Terse(1)->Dump;
    }
};

subtest 'url-encoded bodies' => sub {
    my $same = 0;
    for (1 .. $rounds / 5) {
        my $body = join '', map { pick('a', 'b=', '=', '&', ';', '+', '%', '%4', '%41', '%zz', "\xe9", ' ', "\0") } 1 .. rand 60;
        $same += compare('url-encoded', $body, pick('application/x-www-form-urlencoded', 'application/x-www-form-urlencoded; charset=UTF-8'),
            buffer_length => pick(1, 5, 65536), unbuffered => rand() < 0.3, rand() < 0.3 ? (pieces => [ (1) x 20 ]) : ()) or last;
    }
    is $same, int($rounds / 5), 'the same parameters';
};

subtest 'JSON bodies' => sub {
    my $value;
    $value = sub {
        my $depth = shift;
        my $kind = rand($depth > 3 ? 6 : 8);
        return $kind < 1 ? 'null' : $kind < 2 ? pick('true', 'false') : $kind < 3 ? pick(1, -2, 1.5, '1e3', 0, 12345678901234567890)
            : $kind < 6 ? '"' . join('', map { pick('a', "\xc3\xa9", '\\u00e9', '\\u20ac', '\\n', '\\"', '') } 1 .. rand 5) . '"'
            : $kind < 7 ? '[' . join(',', map { $value->($depth + 1) } 1 .. rand 4) . ']'
            : '{' . join(',', map { '"' . pick('a', 'b', 'c', "\xc3\xa9", '\\u20ac', '') . $_ . '":' . $value->($depth + 1) } 1 .. rand 4) . '}';
    };
    my $same = 0;
    for (1 .. $rounds / 5) {
        my $body = rand() < 0.8 ? '{"' . pick('a', "\xc3\xa9", '') . '":' . $value->(0) . '}' : $value->(0);
        $body = substr $body, 0, rand length $body if rand() < 0.1;
        $same += compare('JSON', $body, pick('application/json', 'application/json; charset=utf-8'), unbuffered => rand() < 0.3) or last;
    }
    is $same, int($rounds / 5), 'the same parameters and errors';
    ok compare('JSON', '', 'application/json'), 'an empty body';
};

subtest 'a client that goes away' => sub {
    for my $type ('multipart/form-data; boundary=b', 'application/x-www-form-urlencoded', 'application/json', 'text/plain', undef) {
        for my $pieces (undef, [ 1, 2 ]) {
            my @died = map {
                Hydrofoil::Accelerate->$_(only => ['Entity']);
                my $body = "--b\r\nContent-Disposition: form-data";
                my $input = $pieces ? Trickle->new('-', '-b') : do { open my $fh, '<', \$body or die $!; $fh };
                my $parser = HTTP::Entity::Parser->new;
                $parser->register('multipart/form-data', 'HTTP::Entity::Parser::MultiPart');
                $parser->register($_, 'HTTP::Entity::Parser::' . ($_ =~ /json/ ? 'JSON' : 'UrlEncoded'))
                    for 'application/x-www-form-urlencoded', 'application/json';
                my $env = { CONTENT_TYPE => $type, CONTENT_LENGTH => 1000, 'psgi.input' => $input, 'psgix.input.buffered' => 1 };
                eval { $parser->parse($env) };
                $@;
            } qw(unload load);
            like $died[0], qr/^Bad Content-Length/, 'is found out';
            is $died[1], $died[0], 'in the same words';
        }
    }
    Hydrofoil::Accelerate->unload;
};

subtest 'chunks, no body, no input' => sub {
    for my $case (
        [ 'chunked' => { HTTP_TRANSFER_ENCODING => 'Chunked' }, "3\r\na=1\r\n4;x\r\n&b=2\r\n0\r\n\r\n" ],
        [ 'nothing' => {}, '' ], [ 'a length of 0' => { CONTENT_LENGTH => 0 }, '' ], [ 'a length of 00' => { CONTENT_LENGTH => '00' }, '' ],
        [ 'a length of 3.0' => { CONTENT_LENGTH => '3.0' }, 'a=1' ], [ 'no input' => { 'psgi.input' => undef }, '' ],
        )
    {
        my ($name, $more, $body) = @$case;
        my @results = map {
            Hydrofoil::Accelerate->$_(only => ['Entity']);
            my $copy = $body;
            open my $fh, '<', \$copy or die $!;
            my %env = (CONTENT_TYPE => 'application/x-www-form-urlencoded', 'psgi.input' => $fh, %$more);
            my $parser = HTTP::Entity::Parser->new;
            $parser->register('application/x-www-form-urlencoded', 'HTTP::Entity::Parser::UrlEncoded');
            my @result = $parser->parse(\%env);
            $env{'psgi.input'} = ref $env{'psgi.input'};
            scalar Dumper(\@result, \%env);
        } qw(unload load);
        is $results[1], $results[0], $name;
    }
    Hydrofoil::Accelerate->unload;
};

# ---- Plack::Request ----

sub request {
    my ($body, $boundary) = @_;
    open my $fh, '<:raw', \$body or die $!;
    return {
        REQUEST_METHOD => 'POST', CONTENT_TYPE => "multipart/form-data; boundary=$boundary", CONTENT_LENGTH => length $body,
        QUERY_STRING => '', 'psgi.input' => $fh, 'psgix.input.buffered' => 1,
    };
}

my $form = join '', (map {"--b\r\nContent-Disposition: form-data; name=\"field$_\"\r\n\r\nvalue $_\r\n"} 1 .. 20),
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a b/c.txt\"\r\nContent-Type: text/plain; charset=utf-8\r\nX-More: 1\r\n\r\nThe file\r\n",
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"two\"\r\n\r\n\r\n--b--\r\n";

Hydrofoil::Accelerate->unload;
my $plain = Plack::Request->new(request($form, 'b'));
my @plain_uploads = $plain->uploads->get_all('file');
Hydrofoil::Accelerate->load(only => ['Entity']);

subtest 'Plack::Request finds the same uploads' => sub {
    my $req = Plack::Request->new(request($form, 'b'));
    is_deeply [ $req->body_parameters->flatten ], [ $plain->body_parameters->flatten ], 'parameters';
    isa_ok $req->uploads, 'Hash::MultiValue';
    my @uploads = $req->uploads->get_all('file');
    is scalar @uploads, 2, 'both files';
    for my $i (0, 1) {
        my ($upload, $original) = ($uploads[$i], $plain_uploads[$i]);
        is ref $upload, 'Plack::Request::Upload', 'an upload';
        is_deeply [ sort keys %$upload ], [ sort keys %$original ], 'has the same fields';
        for my $method (qw(filename size basename content_type type)) {
            is $upload->$method, $original->$method, $method;
        }
        is $upload->headers->as_string, $original->headers->as_string, 'headers';
        is slurp($upload->path), slurp($original->path), 'content';
        is $upload->path, $upload->tempname, 'one name';
        ok -f $upload->path, 'of a file';
        is +(stat _)[2] & 07777, 0600, 'that nobody else reads';
    }
    my ($dir) = @{ $req->env->{'http.entity.parser.multipart.tempdir'} };
    isa_ok $dir, 'File::Temp::Dir';
    my $path = "$dir";
    ok -d $path, 'the directory is there';
    is $dir->dirname, $path, 'under its name';
    undef $dir;
    undef $req;
    ok !-e $path, 'and not after the request';
    ok !-e $uploads[0]->path, 'nor are its files';
};

subtest 'the name of a file in memory is known to who asks' => sub {
    my $fresh = sub { my $req = Plack::Request->new(request($form, 'b')); return ($req, $req->uploads->get_all('file')) };

    my ($req, $upload) = $fresh->();
    like Dumper($upload), qr{"tempname" => "/.+/.+/}, 'Data::Dumper';
    ($req, $upload) = $fresh->();
    { local $Data::Dumper::Useperl = 1; like Dumper($upload), qr{"tempname" => "/.+/.+/}, 'Data::Dumper in Perl' }
    ($req, $upload) = $fresh->();
    my %copy = %$upload;
    is slurp($copy{tempname}), 'The file', 'a copy of the hash';
    is $upload->tempname, $copy{tempname}, 'has the name of the hash';
    ($req, $upload) = $fresh->();
    my ($name) = grep { defined && /\// && -e } values %$upload;
    is slurp($name), 'The file', 'values';
    ($req, $upload) = $fresh->();
    open my $fh, '<', $upload->{tempname} or die $!;
    is scalar <$fh>, 'The file', 'open';
    close $fh;
    ($req, $upload) = $fresh->();
    my $moved = File::Temp->newdir;
    ok rename($upload->path, "$moved/moved"), 'rename';
    is slurp("$moved/moved"), 'The file', 'moves it';
    ($req, $upload) = $fresh->();
    $upload->{tempname} = '/nowhere';
    is $upload->path, '/nowhere', 'another name can be given';
    my $late = do { my ($r, $u) = $fresh->(); undef $r; $u };
    ok defined $late->path && !-e $late->path, 'after the request there is no file';
};

# File::Spec remembers the directory; the upload is told by it.
sub in_place { my ($dir, $code) = @_; no warnings 'redefine'; local *File::Spec::Unix::tmpdir = sub { "$dir" }; return $code->() }

for my $areas (['Entity'], undef) {
    my $what = $areas ? "@$areas alone" : 'everything';
    subtest "with $what in C a small file is written when somebody asks for its name" => sub {
        Hydrofoil::Accelerate->unload;
        Hydrofoil::Accelerate->load($areas ? (only => $areas) : ());
        my $dir = File::Temp->newdir;
        my $req = in_place($dir, sub { my $req = Plack::Request->new(request($form, 'b')); $req->uploads; $req });
        is join(' ', glob "$dir/*"), '', 'not when it is parsed';
        my ($upload) = $req->uploads->get_all('file');
        is $upload->size, 8, 'nor for its size';
        is $upload->basename, 'c.txt', 'nor for the name that the client gave it';
        is join(' ', glob "$dir/*"), '', 'until here there is nothing';
        my $path = $upload->path;
        is slurp($path), 'The file', 'its path is that of a file';
        is join(' ', glob "$dir/*/*"), $path, 'which is the only one';
    };
}
Hydrofoil::Accelerate->unload;
Hydrofoil::Accelerate->load(only => ['Entity']);

subtest 'a child process asks for the name' => sub {
    my $req = Plack::Request->new(request($form, 'b'));
    my ($upload) = $req->uploads->get_all('file');
    pipe my $read, my $write or die $!;
    my $pid = fork;
    die "fork: $!" if !defined $pid;
    if (!$pid) {
        close $read;
        my $path = $upload->path;
        syswrite $write, slurp($path) . "\n$path\n";
        close $write;
        undef $req;
        undef $upload;
        require POSIX;
        POSIX::_exit(-e $path ? 1 : 0);
    }
    close $write;
    chomp(my @lines = <$read>);
    waitpid $pid, 0;
    is $lines[0], 'The file', 'and reads it';
    is $?, 0, 'and removes it';
    is slurp($upload->path), 'The file', 'the parent has its own';
    isnt $upload->path, $lines[1], 'elsewhere';
};

SKIP: {
    skip 'perl without threads', 1 if !$Config{useithreads} || !eval { require threads; 1 };
    subtest 'a thread asks for the name' => sub {
        my $req = Plack::Request->new(request($form, 'b'));
        my ($upload) = $req->uploads->get_all('file');
        my ($content, $path) = @{ threads->create(sub { [ slurp($upload->path), $upload->path ] })->join };
        is $content, 'The file', 'and reads it';
        is $upload->path, $path, 'the other has the same';
        is slurp($path), 'The file', 'which is still there';
    };
}

subtest 'a file that is not small goes to disk as it comes' => sub {
    local $Hydrofoil::Accelerate::Entity::MEMORY_LIMIT = 1000;
    my $big = join '', map { chr rand 256 } 1 .. 200_000;
    my $body = join '', map({"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f$_\"\r\n\r\n" . ($_ == 2 ? $big : 'small') . "\r\n"} 1 .. 3), "--b--\r\n";
    my $req = Plack::Request->new(request($body, 'b'));
    my @uploads = $req->uploads->get_all('f');
    is $uploads[1]->size, 200_000, 'size';
    ok slurp($uploads[1]->path) eq $big, 'content';
    is slurp($uploads[$_]->path), 'small', 'the others too' for 0, 2;
};

subtest 'limits that the original has not' => sub {
    my $count = sub { my $req = Plack::Request->new(request($form, 'b')); eval { $req->uploads }; return $@ };
    is $count->(), '', 'none by default';
    { local $Hydrofoil::Accelerate::Entity::MAX_PARTS = 22; is $count->(), '', 'as many parts as allowed' }
    { local $Hydrofoil::Accelerate::Entity::MAX_PARTS = 21; like $count->(), qr/^Number of parts exceeds maximum allowed at /, 'one more' }
    { local $Hydrofoil::Accelerate::Entity::MAX_FIELD_SIZE = 8; is $count->(), '', 'a field as long as allowed' }
    { local $Hydrofoil::Accelerate::Entity::MAX_FIELD_SIZE = 7; like $count->(), qr/^Size of field exceeds maximum allowed at /, 'a longer one' }
    { local $Hydrofoil::Accelerate::Entity::MAX_FILE_SIZE = 8; is $count->(), '', 'a file as long as allowed' }
    { local $Hydrofoil::Accelerate::Entity::MAX_FILE_SIZE = 7; like $count->(), qr/^Size of file exceeds maximum allowed at /, 'a longer one' }
};

subtest 'what cannot be written is said when the name is asked for' => sub {
    my $dir = File::Temp->newdir;
    mkdir "$dir/sub" or die $!;
    local $ENV{TMPDIR} = "$dir/sub";
    my $req = Plack::Request->new(request($form, 'b'));
    my ($upload) = $req->uploads->get_all('file');
    rmdir "$dir/sub" or die $!;
    ok !eval { my $path = $upload->path; 1 }, 'dies';
    like $@, qr/^Could not write to file handle: '.+' at /, 'and says why';
    mkdir "$dir/sub" or die $!;
    is slurp($upload->path), 'The file', 'and can be tried again';
};

subtest 'parsers of others' => sub {
    {
        package MyBody;
        sub new { my ($class, $env, $opts) = @_; return bless { opts => $opts, got => '' }, $class }
        sub add { $_[0]{got} .= "<$_[1]>"; return }
        sub finalize { return ([ got => $_[0]{got} ], [ $_[0]{opts} ]) }
        package MyForm;
        our @ISA = 'HTTP::Entity::Parser::MultiPart';
        sub finalize { my ($params, $uploads) = $_[0]->SUPER::finalize; return ([ @$params, more => 1 ], $uploads) }
        $INC{'MyBody.pm'} = $INC{'MyForm.pm'} = __FILE__;
    }
    my $parser = HTTP::Entity::Parser->new(buffer_length => 4);
    $parser->register('text/mine', 'MyBody', { x => 1 });
    $parser->register('multipart/form-data', 'MyForm');
    my $body = 'abcdefgh!';
    open my $fh, '<', \$body or die $!;
    is_deeply [ $parser->parse({ CONTENT_TYPE => 'text/mine', CONTENT_LENGTH => 9, 'psgi.input' => $fh, 'psgix.input.buffered' => 1 }) ],
        [ [ got => '<abcd><efgh><!>' ], [ { x => 1 } ] ], 'get the pieces';
    my ($params) = $parser->parse(request("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n", 'b'));
    is_deeply $params, [ a => 1, more => 1 ], 'and may be subclasses';

    my $direct = HTTP::Entity::Parser::MultiPart->new({ CONTENT_TYPE => 'multipart/form-data; boundary=b' });
    isa_ok $direct, 'HTTP::Entity::Parser::MultiPart';
    $direct->add($_) for "--b\r\nContent-Disposition: form-data; ", undef, '', "name=\"a\"\r\n\r\n", "1\r\n--b--\r\n";
    is_deeply [ $direct->finalize ], [ [ a => 1 ], [] ], 'used without the other parser';
    ok !eval { $direct->finalize; 1 }, 'which ends once';
    like $@, qr/^Can't call method "finish" on an undefined value/, 'and says so';
};

# ---- leaks ----

subtest 'memory does not grow' => sub {
    plan skip_all => 'needs /proc/self/statm' if !-r '/proc/self/statm';
    my $pages = sub { open my $fh, '<', '/proc/self/statm' or die $!; return (split ' ', scalar <$fh>)[1] };
    my $calls = $ENV{HYDROFOIL_TEST_LONG} ? 100_000 : 4000;
    my $broken = substr $form, 0, -3;
    my %kinds = (
        'multipart bodies with files in memory' => sub { my $req = Plack::Request->new(request($form, 'b')); $req->uploads },
        'broken ones' => sub { my $req = Plack::Request->new(request($broken, 'b')); eval { $req->uploads } },
        'url-encoded and JSON bodies' => sub {
            for (['application/x-www-form-urlencoded', 'a=1&b=2'], ['application/json', '{"a":[1,{"b":"c"}],"d":true}'], ['application/json', '{']) {
                my $parser = HTTP::Entity::Parser->new;
                $parser->register($_->[0], 'HTTP::Entity::Parser::' . ($_->[0] =~ /json/ ? 'JSON' : 'UrlEncoded'));
                open my $fh, '<', \$_->[1] or die $!;
                eval { $parser->parse({ CONTENT_TYPE => $_->[0], CONTENT_LENGTH => length $_->[1], 'psgi.input' => $fh }) };
            }
        },
    );
    for my $kind (sort keys %kinds) {
        $kinds{$kind}->() for 1 .. $calls / 2;
        my $before = $pages->();
        $kinds{$kind}->() for 1 .. $calls;
        my $grown = $pages->() - $before;
        cmp_ok $grown, '<', ($ENV{ASAN_OPTIONS} ? 8192 : 400), "$calls times $kind";
    }
};

done_testing;
