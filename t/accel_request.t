use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
BEGIN {
    # HTTP_CONTENT_TYPE and CONTENT_TYPE become one header, in the order in which the environment's keys come.
    if (!defined $ENV{PERL_PERTURB_KEYS}) {
        local $ENV{PERL_PERTURB_KEYS} = 0;
        local $ENV{PERL_HASH_SEED}    = 0;
        exec $^X, map({"-I$_"} grep { !ref } @INC), $0;
    }
}
BEGIN {
    plan skip_all => 'Plack::Request is not installed' if !eval { require Plack::Request; 1 };
}
use Config;
use Data::Dumper ();
use Storable ();
use Hydrofoil::TestOriginal qw(second_copy outcome picture resident_size);

BEGIN {
    second_copy('Hash::MultiValue' => 'Original::MultiValue');
    second_copy('Plack::Request::Upload' => 'Original::Upload');
    second_copy('Plack::Request' => 'Original::Request', 'Hash::MultiValue' => 'Original::MultiValue', 'Plack::Request::Upload' => 'Original::Upload');
}
my %RENAME = (
    'Original::MultiValue' => 'Hash::MultiValue',
    'Original::Request'    => 'Plack::Request',
    'Original::Upload'     => 'Plack::Request::Upload',
    'Original::Sub'        => 'My::Sub',
);

use Hydrofoil::Accelerate only => ['MultiValue', 'Request'];

plan skip_all => 'this version of Plack::Request is left as it is'
    if !grep { $_->{module} eq 'Plack::Request' && $_->{state} eq 'accelerated' } Hydrofoil::Accelerate->status;

# Subclasses that override something in the middle, one pair for each.
my @PAIRS = ([ 'Plack::Request', 'Original::Request' ]);
my %OVERRIDES = (
    Env        => { env => sub { +{ %{ $_[0]{env} }, REMOTE_ADDR => '10.0.0.1', QUERY_STRING => 'over=ridden' } } },
    Base       => { _uri_base => sub { 'http://other.example/base' } },
    Query      => { _query_parameters => sub { [ always => 'this', always => 'that' ] } },
    Body       => { _body_parameters => sub { [ body => 1 ] } },
    Parameters => { parameters => sub { my $self = shift; $self->{merged} ||= ref($self->uploads)->new(one => 1, two => 2, two => 3) } },
    Uploads    => { uploads => sub { +{ file => 'none' } } },
    Parse      => { _parse_request_body => sub { my $env = $_[0]->env; $env->{'plack.request.body_parameters'} = [ parsed => 1 ]; $env->{'plack.request.upload'} = {}; 1 } },
    Parser     => { _build_body_parser => sub { my $parser = HTTP::Entity::Parser->new(buffer_length => 7); $parser->register('application/x-www-form-urlencoded', 'HTTP::Entity::Parser::UrlEncoded'); $parser } },
    Length     => { _buffer_length_for => sub { 11 } },
    Content    => { content => sub { wantarray ? 'list' : 'scalar' } },
    Input      => { input => sub { open my $fh, '<', \'somebody else' or die; $fh } },
    Headers    => { headers => sub { HTTP::Headers::Fast->new('User-Agent' => 'mine', 'X-List' => [ 1, 2 ]) } },
    Scheme     => { scheme => sub { 'https' } },
    New        => { new => sub { my ($class, $env) = @_; bless { env => $env, headers => undef }, $class } },
);
for my $name (sort keys %OVERRIDES) {
    my @classes = ("My::Sub::$name", "Original::Sub::$name");
    no strict 'refs';
    @{"$classes[0]::ISA"} = 'Plack::Request';
    @{"$classes[1]::ISA"} = 'Original::Request';
    for my $class (@classes) {
        *{"$class\::$_"} = $OVERRIDES{$name}{$_} for keys %{ $OVERRIDES{$name} };
    }
    push @PAIRS, \@classes;
}

srand 2013;
sub pick { $_[rand @_] }

{
    package My::Handle;    # an object that is no file handle
    sub new { my ($class, $text) = @_; bless { text => $text, at => 0 }, $class }
    sub seek { $_[0]{at} = $_[1]; 1 }
    sub read {
        my ($self, undef, $length, $offset) = @_;
        $_[1] = '' if !defined $_[1];
        my $got = substr $self->{text}, $self->{at}, $length;
        substr($_[1], $offset || 0) = $got;
        $self->{at} += length $got;
        return length $got;
    }
}

sub pair { pick(qw(foo bar a q), '', '%66oo', 'x+y', "b\xe9r") . pick('=', '=', '=', '') . pick('1', 'two', '%41%zz', 'a+b', '', '%E3%81%82', 'x' x 40) }

sub any_form { join pick('&', '&', ';', '&&'), map { pair() } 1 .. rand 6 }

sub any_environment {
    my $env = {
        REQUEST_METHOD    => pick(qw(GET POST)),
        REQUEST_URI       => '/as/it/came?x',
        PATH_INFO         => pick('/', '/', '', '/foo', 'foo', '/a b', '/%41', '/caf%C3%A9', "/\xe9\xff", "/a\nb", '/x?y#z', '/~me/[1]', '/a//b', '0', '//', "/\"<>\\^`{|}"),
        SCRIPT_NAME       => pick('', '', '', '/app', '/app/', 'app', '/a%7eb', '/0', '0', '/sp ace', "/new\n"),
        QUERY_STRING      => pick('', '0', any_form(), any_form(), any_form(), any_form(), 'a=%7e%2f%2F%zz', 'a="<>[]{}|^`\\', "a=\xe9", 'tail ', '#frag', '?x'),
        SERVER_NAME       => pick('localhost', 'localhost', '127.0.0.1', '', 'a_b'),
        SERVER_PORT       => pick(80, 5000, '', '443', undef),
        SERVER_PROTOCOL   => 'HTTP/1.1',
        REMOTE_ADDR       => '127.0.0.1',
        'psgi.url_scheme' => pick('http', 'http', 'https', 'HTTP', 'ftp', '', undef),
        'psgix.input.buffered' => pick(1, 1, 1, 0),
    };
    $env->{HTTP_HOST} = pick('localhost:5000', 'example.com', 'example.com', 'Example.COM', 'example.com:80', 'example.com:443', 'example.com:', 'example.com:080',
        '[::1]:5000', 'user@host', '0', 'a/b', "x\xe9y", 'under_score', 'a.b:99999999', '') if rand() < .9;
    delete $env->{QUERY_STRING} if rand() < .05;
    delete $env->{PATH_INFO}    if rand() < .05;
    utf8::upgrade($env->{PATH_INFO}) if defined $env->{PATH_INFO} && rand() < .05;
    utf8::upgrade($env->{QUERY_STRING}) if defined $env->{QUERY_STRING} && rand() < .05;
    $env->{HTTP_COOKIE} = pick('a=b; c=d', 'a=b', '', '0', 'x="y%20z"; x=2') if rand() < .7;
    $env->{ pick(qw(HTTP_USER_AGENT HTTP_ACCEPT HTTP_X_FOO_BAR HTTPS HTTPS_FOO http_lower HTTP_CONTENT_TYPE CONTENT_ENCODING HTTP_REFERER HTTP_X_1A_b),
        'HTTP_', 'HTTP_:odd', 'HTTP', "HTTP_\xe9", 'HTTP_FOO-BAR', 'CONTENTED', 'HTTP_TE') } = pick('value', '', 0, 1.5, 'x, y', undef) for 1 .. rand 6;
    $env->{REMOTE_USER} = 'me' if rand() < .3;
    $env->{'psgix.session'} = { a => 1 } if rand() < .2;
    $env->{HTTP_X_REF} = [ 1, 2 ] if rand() < .03;
    my $body = '';
    my $kind = rand;
    if ($kind < .35) {
        $body = any_form();
        $env->{CONTENT_TYPE} = pick('application/x-www-form-urlencoded', 'application/x-www-form-urlencoded; charset=utf-8');
        $env->{CONTENT_LENGTH} = length $body;
    }
    elsif ($kind < .5) {
        my $boundary = 'xYzZy';
        for my $i (1 .. rand 4) {
            $body .= "--$boundary\r\nContent-Disposition: form-data; name=\"" . pick('f', 'g', 'file') . '"'
                . (rand() < .6 ? qq{; filename="f$i.txt"\r\nContent-Type: text/plain} : '') . "\r\n\r\n" . ('data' x rand 30) . "\r\n";
        }
        $body .= "--$boundary--\r\n";
        $env->{CONTENT_TYPE}   = "multipart/form-data; boundary=$boundary";
        $env->{CONTENT_LENGTH} = length $body;
    }
    elsif ($kind < .6) {
        $body                  = pick('{"a":1}', 'whatever', '0');
        $env->{CONTENT_TYPE}   = pick('application/json', 'text/plain', '');
        $env->{CONTENT_LENGTH} = length $body;
    }
    elsif ($kind < .65) {
        $body = join '', map({ sprintf "%x\r\n%s\r\n", length, $_ } map { pair() . '&' } 1 .. 3), "0\r\n\r\n";
        $env->{HTTP_TRANSFER_ENCODING} = 'chunked';
        $env->{CONTENT_TYPE} = 'application/x-www-form-urlencoded';
    }
    elsif ($kind < .75) {
        $env->{CONTENT_TYPE} = pick('application/x-www-form-urlencoded', 'text/plain', '', '0');
        $env->{CONTENT_LENGTH} = pick(0, '', undef) if rand() < .5;
    }
    my $input = pick(qw(memory memory memory file object none));
    return sub {
        my %copy = %$env;
        if ($input eq 'memory') { open my $fh, '<', \(my $text = $body) or die; $copy{'psgi.input'} = $fh }
        elsif ($input eq 'file') {
            require IO::File;
            my $fh = IO::File->new_tmpfile;
            print $fh $body;
            seek $fh, 0, 0;
            $copy{'psgi.input'} = $fh;
        }
        elsif ($input eq 'object') { $copy{'psgi.input'} = My::Handle->new($body) }
        return \%copy;
    };
}

my @NAMES = qw(address remote_host protocol method port user request_uri path_info path query_string script_name scheme secure content_length content_type session
    session_options logger cookies content raw_body headers content_encoding referer user_agent query_parameters body_parameters parameters uploads
    uri base env request_body_parser _body_parameters _query_parameters _uri_base _build_body_parser _parse_request_body);

sub any_call {
    my $n = rand;
    return [ pick(@NAMES) ] if $n < .6;
    return [ param  => rand() < .2 ? () : pick(qw(foo bar a q always two), '', undef) ] if $n < .8;
    return [ upload => rand() < .3 ? () : pick(qw(f g file), undef) ] if $n < .85;
    return [ header => rand() < .1 ? () : pick('User-Agent', 'user_agent', 'X-Foo-Bar', 'Content-Type'), rand() < .1 ? 'set' : () ] if $n < .92;
    return [ new_response => 200, [ 'X-A' => 1 ], 'body' ] if $n < .94;
    return [ body_or_input => () ] if $n < .96;
    return [ poke => QUERY_STRING => pick(undef, 'a=b', '') ] if $n < .97;
    return [ poke => pick(qw(plack.request.query_parameters plack.request.merged plack.cookie.string HTTP_COOKIE plack.request.query)),
        pick(undef, 'a=b', [ foo => 1, foo => 2 ], [ 'odd' ], [ undef, undef ]) ];
}

sub call {
    my ($request, $call) = @_;
    my ($method, @args) = @$call;
    if ($method eq 'body_or_input') { return ref $request->body, ref $request->input }
    if ($method eq 'poke') {
        # [ odd ] or a string in the place of parameters is what nobody does; in its own place a list is
        $request->{env}{ $args[0] } = ref $args[1] ? [ @{ $args[1] } ] : $args[1] if $args[0] !~ /merged|query\z/ || !defined $args[1];
        return;
    }
    return $request->$method(@args);
}

sub scrub {
    my $text = shift;
    $text =~ s{"/[^"]*/\w{5,10}(?:/\w+)?(?:\.\w+)?"}{"(temporary file)"}g;
    $text =~ s{\\\*\{'::\$\w+'\}|\\\*Symbol::GEN\d+|\\\*\{"::\\\$\w+"\}}{(handle)}g;
    $text =~ s{_GEN_\d+}{_GEN}g;
    $text =~ s{(GLOB|HASH|ARRAY)\((?:0x[0-9a-f]+|address)\)}{$1}g;
    $text =~ s{ at \S+ line \d+(?:, <\S+> (?:line|chunk) \d+)?\.}{ at (somewhere).}g;
    return $text;
}

# What the request and its environment are afterwards, without the two that stand in the way.
sub state_of {
    my $request = shift;
    my %self = %$request;
    my %env  = %{ delete $self{env} };
    my $input = delete $env{'psgi.input'};
    return [ \%self, \%env, ref $input, map { $_ && $_->can('flatten') ? [ $_->flatten ] : () }
        grep { Scalar::Util::blessed($_) } @env{qw(plack.request.query plack.request.body plack.request.merged plack.request.upload)} ];
}

sub lives_alike {
    my ($rounds, @pairs) = @_;
    my $failed = 0;
    for my $pair (@pairs) {
        for (1 .. $rounds) {
            my $make     = any_environment();
            my @requests = map { $_->new($make->()) } @$pair;
            my @story;
            for (1 .. 8) {
                my $call    = any_call();
                my $context = pick(qw(list list scalar scalar void));
                my @pictures = map {
                    my $request = $_;
                    my $outcome = outcome($context, sub { call($request, $call) });
                    scrub(picture([ $outcome, state_of($request) ], %RENAME));
                } @requests;
                push @story, "$context " . join ' ', map { defined ? $_ : 'undef' } @$call;
                next if $pictures[0] eq $pictures[1];
                is $pictures[0], $pictures[1], "$pair->[0]: @story[-1 .. -1]";
                diag join "\n", 'after: ', @story;
                return 1 if ++$failed > 2;
                last;
            }
        }
    }
    return $failed;
}

subtest 'whatever is asked of a request, it answers and leaves the environment as the original does' => sub {
    is lives_alike(1_500, $PAIRS[0]), 0, '1,500 requests';
};

subtest 'so do requests of subclasses that override something in the middle' => sub {
    is lives_alike(60, @PAIRS[1 .. $#PAIRS]), 0, '60 requests of each';
};

subtest 'what makes no sense is refused in the same words' => sub {
    for my $args ([], [undef], ['Plack::Request'], [ 'Plack::Request', [] ], [ 'Plack::Request', bless {}, 'Foo' ], [ '', {} ], [ 'No::Such', {} ], [ [], {} ]) {
        my @answers = map {
            my $code = $_->can('new');
            scrub(picture(outcome('list', sub { $code->(map { ref eq 'HASH' ? {%$_} : $_ } @$args) }), %RENAME));
        } qw(Plack::Request Original::Request);
        is $answers[0], $answers[1], 'new';
    }
    my $failed = 0;
    for my $method (@NAMES, qw(new param upload header)) {
        for my $args ([], [undef], ['foo'], [ [], 1 ], [ {}, 1 ], [ { env => 1 } ], [ bless([], 'Some::Class') ], [ bless({}, 'Plack::Request') ], [ bless({ env => [] }, 'Plack::Request'), 'x' ]) {
            my @answers = map {
                my $code = $_->can($method);
                scrub(picture(outcome('list', sub { $code->(map { ref eq 'HASH' ? {%$_} : $_ } @$args) }), %RENAME));
            } qw(Plack::Request Original::Request);
            next if $answers[0] eq $answers[1];
            is $answers[0], $answers[1], "$method with " . picture($args);
            $failed++;
        }
    }
    is $failed, 0, 'methods of no requests';
};

subtest 'a tied environment is read and written through its tie' => sub {
    require Tie::Hash;
    our @log;
    {
        package Logged;
        our @ISA = 'Tie::ExtraHash';
        sub TIEHASH { my ($class, $hash) = @_; bless [$hash], $class }
        sub FETCH { push @main::log, $_[1]; $_[0][0]{ $_[1] } }
    }
    tie my %env, 'Logged', { QUERY_STRING => 'foo=1&foo=2', REMOTE_ADDR => '::1', 'psgix.input.buffered' => 1, 'psgi.input' => My::Handle->new('') };
    my $request = Plack::Request->new(\%env);
    is $request->address, '::1', 'address';
    is $request->query_string, 'foo=1&foo=2', 'query_string';
    $request->_parse_request_body;
    is_deeply [ $request->uploads->keys ], [], 'uploads';
    ok scalar(grep { $_ eq 'REMOTE_ADDR' } @log), 'through the tie';
};

subtest 'a sub that somebody replaces is called' => sub {
    my $env = sub { +{ QUERY_STRING => 'a=1', REMOTE_ADDR => '::1', PATH_INFO => '/', HTTP_COOKIE => 'a=b', HTTP_X => 1, HTTP_HOST => 'h', @_ } };
    no warnings qw(redefine once);
    Plack::Request->new($env->())->uri;
    Plack::Request->new($env->())->headers;
    {
        local *Plack::Request::parse_urlencoded_arrayref = sub { [ mine => 1 ] };
        is_deeply [ Plack::Request->new($env->())->query_parameters->keys ], ['mine'], 'the parser of query strings';
    }
    {
        local *Cookie::Baker::crush_cookie = sub { +{ mine => $_[0] } };
        is_deeply(Plack::Request->new($env->())->cookies, { mine => 'a=b' }, 'the parser of cookies');
    }
    {
        local *Plack::Request::env = sub { +{ REMOTE_ADDR => 'mine' } };
        is(Plack::Request->new($env->())->address, 'mine', 'env');
    }
    {
        my $new = \&HTTP::Headers::Fast::new;
        local *HTTP::Headers::Fast::new = sub { my $headers = $new->(@_); $headers->header(mine => 1); $headers };
        is(Plack::Request->new($env->())->header('mine'), 1, 'the class of headers');
    }
    {
        local *URI::http::canonical = sub { URI->new('http://mine/') };
        is(Plack::Request->new($env->())->uri, 'http://mine/', 'the class of URIs');
    }
    {
        local *Hash::MultiValue::new = sub { 'mine' };
        is(Plack::Request->new($env->())->query_parameters, 'mine', 'the class of parameters');
    }
    is(Plack::Request->new($env->())->address, '::1', 'and when it is put back');
    is(Plack::Request->new($env->())->uri, 'http://h/?a=1', 'address and URI are as before');
};

subtest 'parameters of one request are not those of another' => sub {
    my $env = sub { open my $in, '<', \'' or die; +{ QUERY_STRING => "a=$_[0]&a=x", 'psgi.input' => $in, 'psgix.input.buffered' => 1 } };
    my @requests = map { Plack::Request->new($env->($_)) } 1 .. 5;
    is_deeply [ map { $_->param('a') } @requests ], [ map { ($_, 'x') } 1 .. 5 ], 'of five at once';
    my %seen;
    $seen{ Scalar::Util::refaddr($_->uploads) }++, $seen{ Scalar::Util::refaddr($_->request_body_parser) }++, $seen{ Scalar::Util::refaddr($_->_body_parameters) }++ for @requests;
    is scalar(keys %seen), 15, 'no empty list, parser or upload is shared';
    $requests[0]->uploads->add(file => 1);
    push @{ $requests[0]->_body_parameters }, x => 1;
    $requests[0]->request_body_parser->register('text/x', 'HTTP::Entity::Parser::OctetStream');
    @requests = ();
    for my $round (1 .. 3) {
        my $request = Plack::Request->new($env->($round));
        is_deeply [ $request->param('a') ], [ $round, 'x' ], 'the next';
        is_deeply [ $request->uploads->keys ], [], 'has no uploads';
        is_deeply $request->_body_parameters, [], 'nor a body';
        is scalar @{ $request->request_body_parser->[0] }, 2, 'and a parser with two types';
        $request->uploads->add(file => $round);
        $request->uploads->remove('file');
        $request->request_body_parser->[0][0][0] = 'changed';
        push @{ $request->_body_parameters }, 1;
    }
    my $kept = do { my $request = Plack::Request->new($env->(1)); $request->param; $request->uploads };
    my $other = Plack::Request->new($env->(2))->uploads;
    isnt Scalar::Util::refaddr($kept), Scalar::Util::refaddr($other), 'uploads that are kept are not given again';
    my $parameters = Plack::Request->new($env->(3))->parameters;
    $parameters->add(a => 4);
    is_deeply [ $parameters->flatten ], [ a => 3, a => 'x', a => 4 ], 'parameters that are changed';
    is_deeply [ Plack::Request->new($env->(3))->param('a') ], [ 3, 'x' ], 'are those of that request';
    my $request = Plack::Request->new($env->(6));
    $request->parameters;
    $request->env->{'plack.request.query_parameters'}[1] = 'late';
    $request->env->{QUERY_STRING} = 'other=1';
    is_deeply [ $request->param('a') ], [ 6, 'x' ], 'what is changed where they came from comes too late';
};

subtest 'the list of a query string is parsed when somebody looks at it, however they do' => sub {
    my $key   = 'plack.request.query_parameters';
    my $fresh = sub {
        my $env = { QUERY_STRING => 'a=1&b=%41+x', 'psgix.input.buffered' => 1, 'psgi.input' => do { open my $fh, '<', \'' or die $!; $fh } };
        Plack::Request->new($env)->param('a');
        return $env;
    };
    is_deeply $fresh->()->{$key}, [ 'a', 1, 'b', 'A x' ], 'an element';
    is_deeply [ map { @$_ } @{ $fresh->() }{$key} ], [ 'a', 1, 'b', 'A x' ], 'a slice';
    is_deeply +{ %{ $fresh->() } }->{$key}, [ 'a', 1, 'b', 'A x' ], 'a copy of the environment';
    is_deeply [ grep { ref eq 'ARRAY' && @$_ } values %{ $fresh->() } ], [ [ 'a', 1, 'b', 'A x' ] ], 'values';
    is_deeply delete $fresh->()->{$key}, [ 'a', 1, 'b', 'A x' ], 'delete';
    is ref $fresh->()->{$key}, 'ARRAY', 'ref';
    ok exists $fresh->()->{$key}, 'exists';
    ok defined $fresh->()->{$key}, 'defined';
    ok !!$fresh->()->{$key}, 'truth';
    is $fresh->()->{$key}[3], 'A x', 'an element of it';
    my $dump = sub { my $text = Data::Dumper->new([shift])->Indent(0)->Terse(1)->Dump; $text =~ s/\b1\b/'1'/ if $text !~ /'1'/; $text };
    is $dump->($fresh->()->{$key}), q{['a','1','b','A x']}, 'Data::Dumper of it';
    like $dump->($fresh->()), qr/'\Q$key\E' => \['a','1','b','A x'\]/, 'and of the environment';
    is_deeply(Storable::dclone([ $fresh->()->{$key} ])->[0], [ 'a', 1, 'b', 'A x' ], 'Storable');
    my $env = $fresh->();
    push @{ $env->{$key} }, 'more', 2;
    is_deeply $env->{$key}, [ 'a', 1, 'b', 'A x', 'more', 2 ], 'something is added';
    $env = $fresh->();
    $env->{$key} = ['mine'];
    is_deeply $env->{$key}, ['mine'], 'something else is put there';
    is_deeply [ Plack::Request->new($env)->param('a') ], [1], 'after the parameters were made';
    { local $env->{$key} = 'here'; is $env->{$key}, 'here', 'for a while' }
    is_deeply $env->{$key}, ['mine'], 'and is back then';
    $env = $fresh->();
    { local $env->{$key}; is $env->{$key}, undef, 'nothing for a while' }
    is_deeply $env->{$key}, [ 'a', 1, 'b', 'A x' ], 'and the list then';
    $env = $fresh->();
    $env->{QUERY_STRING} = 'other=2';
    is_deeply $env->{$key}, [ 'a', 1, 'b', 'A x' ], 'it is of the string that there was';
    is $env->{$key}, $env->{$key}, 'and one list';
};

SKIP: {
    skip 'perl has no threads', 1 if !$Config{useithreads} || !eval { require threads; 1 };
    subtest 'it works in threads' => sub {
        my $env = { QUERY_STRING => 'a=1&a=2&b=3', 'psgix.input.buffered' => 1, HTTP_HOST => 'h', PATH_INFO => '/', HTTP_X_A => 1 };
        my $here = Plack::Request->new($env);
        my $first = $here->param('a');
        $here->uri;
        my @there = threads->create({ context => 'list' }, sub {
            my $request = Plack::Request->new({ QUERY_STRING => 'x=1&x=2', 'psgix.input.buffered' => 1, HTTP_HOST => 'h', PATH_INFO => '/', HTTP_X_A => 2 });
            return $here->param('a'), $request->param('x'), $request->uri . '', $request->header('X-A');
        })->join;
        is_deeply \@there, [ 1, 2, 1, 2, 'http://h/?x=1&x=2', 2 ], 'of both';
        is_deeply [ $here->param('a'), $here->header('X-A') ], [ 1, 2, 1 ], 'and here';
    };
}

subtest 'requests that come and go leave nothing behind' => sub {
    plan skip_all => 'no /proc' if !resident_size();
    my @environments = map { any_environment() } 1 .. 60;
    @environments = grep { my $env = $_->(); !$env->{HTTP_TRANSFER_ENCODING} && $env->{'psgix.input.buffered'} } @environments;
    my $boring = sub { +{ QUERY_STRING => 'foo=1&bar=2', HTTP_COOKIE => 'a=b', HTTP_HOST => 'localhost:5000', PATH_INFO => '/', HTTP_USER_AGENT => 'x', 'psgix.input.buffered' => 1 } };
    my $round = sub {
        my $request = Plack::Request->new($_[0]->());
        no warnings;
        local $SIG{__WARN__} = sub { };
        eval { my $x = $request->$_; my @x = $request->$_ } for @NAMES;
        eval { my $x = $request->param('foo'); my @x = $request->param('foo'); @x = $request->param; @x = $request->upload('f'); $x = $request->header('User-Agent') };
    };
    for my $round_of ($boring, $boring) { $round->($round_of) for 1 .. 1_000 }
    my $start = resident_size();
    $round->($boring) for 1 .. 5_000;
    my $grown = resident_size() - $start;
    cmp_ok $grown, '<', 300, 'pages, simple ones';
    for (1 .. 10) { $round->($_) for @environments }
    $start = resident_size();
    for (1 .. 20) { $round->($_) for @environments }
    cmp_ok resident_size() - $start, '<', 500, 'pages, all kinds';
};

Hydrofoil::Accelerate->unload;
Hydrofoil::Accelerate->load;
subtest 'with all of the toolkit it is the same' => sub {
    is lives_alike(500, $PAIRS[0]), 0, '500 requests';
    is lives_alike(10, @PAIRS[1 .. $#PAIRS]), 0, '10 requests of each subclass';
};

done_testing;
