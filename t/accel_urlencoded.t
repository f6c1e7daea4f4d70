use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Test::More;
use Hydrofoil::Accelerate ();
use Hydrofoil::TestAccelerate qw(differ_in resident_growth);
use Hydrofoil::UrlEncoded ();
use WWW::Form::UrlEncoded::PP ();

my @FUNCTIONS = qw(parse_urlencoded parse_urlencoded_arrayref build_urlencoded build_urlencoded_utf8);
my %here      = (PP => 1, XS => eval { require WWW::Form::UrlEncoded::XS; 1 });

# The originals, before they are replaced.
my %original = map { my $kind = $_; map { my $name = $_; ("$kind $name" => \&{"WWW::Form::UrlEncoded::${kind}::$name"}) } @FUNCTIONS }
    grep { $here{$_} } sort keys %here;
Hydrofoil::Accelerate->load(only => ['UrlEncoded']);
my %ours = map { my ($kind, $name) = split; ($_ => \&{"WWW::Form::UrlEncoded::${kind}::$name"}) } keys %original;

srand 20151104;
sub pick { $_[ rand @_ ] }

my @PIECES = ('&', ';', '; ', '& ', '=', '==', '+', '%', '%4', '%41', '%7e', '%E3%81%82', '%zz', '%%41', ' ', "\0", "\n",
    'a', 'foo', 'bar', "\xe9", 'x' x 15, 'y' x 16, 'z' x 17, 'long' x 20, '0', '!*\'()', '-_.~', '"<>', '/?:@', ',');

sub query { join '', map { pick(@PIECES) } 1 .. rand 12 }

sub word {
    my $word = join '', map { pick(@PIECES) } 1 .. rand 4;
    $word = pick("\x{3042}", "\xe9\x{100}", 'plain') . $word if rand() < 0.1;
    utf8::upgrade($word) if rand() < 0.1;
    return rand() < 0.05 ? undef : rand() < 0.1 ? int rand 1000 : rand() < 0.05 ? rand(10) / 7 : $word;
}

sub value { rand() < 0.15 ? [ map { word() } 1 .. rand 4 ] : word() }

for my $kind (grep { $here{$_} } qw(XS PP)) {
    my @status = grep { $_->{module} eq "WWW::Form::UrlEncoded::$kind" } Hydrofoil::Accelerate->status;
    SKIP: {
        skip "this version is not accelerated: $status[0]{version}", 1 if $status[0]{state} eq 'another version';

        subtest "parsing finds what WWW::Form::UrlEncoded::$kind finds" => sub {
            for my $name (qw(parse_urlencoded parse_urlencoded_arrayref)) {
                isnt $ours{"$kind $name"}, $original{"$kind $name"}, "$name is ours";
                my @inputs = (
                    (map { [$_] } undef, '', ' ', '&', '=', 0, 'a', ' a=b', 'a=b&', 'a=b& ', '&&', '; a', '%', '%4', 17.5, -3),
                    [], [ 'a=b', 'c=d' ], [ "\x{3042}=\x{3044}" ], [ [] ], [ \'a=b' ], [ qr/a=b/ ], [ *STDOUT ],
                    [ join '&', map { "key$_=value+$_" } 1 .. 5000 ],
                    map { [ query() ] } 1 .. 4000,
                );
                is differ_in($ours{"$kind $name"}, $original{"$kind $name"}, @inputs), '', "$name of everything";
            }
        };

        subtest "building writes what WWW::Form::UrlEncoded::$kind writes" => sub {
            for my $name (qw(build_urlencoded build_urlencoded_utf8)) {
                my @inputs = (
                    ($kind eq 'PP' ? [] : ()),
                    [ [] ], [ {} ], ['a'], [ 'a', undef ], [ undef, 'a' ], [ 'a', [] ], [ a => 1, ';' ], [ { a => 1 }, "\xe9" ],
                    [ [ a => 1, b => 2 ], ' and ' ], [ [ a => 1, 'b' ], undef ], [ a => [ 1, undef, 2 ] ], [ \'a', 'b' ],
                    [ "\x{3042}" => "\xe9" ], [ { "\xe9" => "\x{3042}", } ], [ [ a => 'b' ], "\x{3042}" ],
                    (map { [ map { (word(), value()) } 1 .. rand 5 ] } 1 .. 1500),
                    (map { [ [ map { (word(), value()) } 1 .. rand 5 ], rand() < 0.3 ? pick('&', ';', '', '&amp;') : () ] } 1 .. 1000),
                    (map { [ { map { my $key = word(); ((defined $key ? $key : ''), value()) } 1 .. rand 5 } ] } 1 .. 1000),
                );
                # The original reads the stack behind its arguments then.
                @inputs = grep { !($kind eq 'XS' && @$_ == 0) } @inputs;
                is differ_in($ours{"$kind $name"}, $original{"$kind $name"}, @inputs), '', "$name of everything";
            }
        };
    }
}

subtest 'Hydrofoil::UrlEncoded works without WWW::Form::UrlEncoded' => sub {
    is_deeply [ Hydrofoil::UrlEncoded::parse_urlencoded('foo=bar&baz=a+b%21; x') ], [ foo => 'bar', baz => 'a b!', x => '' ], 'parsing';
    is_deeply Hydrofoil::UrlEncoded::parse_urlencoded_arrayref(undef), [], 'parsing nothing';
    is Hydrofoil::UrlEncoded::build_urlencoded(foo => 'a b', baz => [ 1, undef, "\xe9" ]), 'foo=a+b&baz=1&baz=&baz=%E9', 'building';
    is Hydrofoil::UrlEncoded::build_urlencoded_utf8([ "\xe9" => "\x{3042}" ], ';'), '%C3%A9=%E3%81%82', 'building in UTF-8';
    is Hydrofoil::UrlEncoded::build_urlencoded(), '', 'building nothing';
    my $error = eval { Hydrofoil::UrlEncoded::parse_urlencoded(); 1 } ? '' : $@;
    like $error, qr/^Usage: parse_urlencoded\(STRING\) at \Q$0\E/, 'a wrong call is told where it is';
};

{
    package Shouting;
    use overload '""' => sub { $_[0]{asked}++; $_[0]{text} }, fallback => 1;
    package Tied;
    sub TIESCALAR { my ($class, @values) = @_; bless [@values], $class }
    sub FETCH { shift @{ $_[0] } }
}

subtest 'an object is asked for its string, and a tied variable for its value, once' => sub {
    for my $kind (grep { $here{$_} } qw(XS PP)) {
        my $object = bless { text => 'a=b' }, 'Shouting';
        is_deeply $ours{"$kind parse_urlencoded_arrayref"}->($object), [ a => 'b' ], "$kind, an object";
    }
    tie my $tied, 'Tied', 'c=d', 'e=f';
    is_deeply Hydrofoil::UrlEncoded::parse_urlencoded_arrayref($tied), [ c => 'd' ], 'a tied variable';
    my $object = bless { text => 'a b' }, 'Shouting';
    is Hydrofoil::UrlEncoded::build_urlencoded(x => $object), 'x=a+b', 'an object as a value';
    is $object->{asked}, 1, 'asked once';
};

subtest 'the strings that come out belong to the caller' => sub {
    my $input  = 'name=value&long=' . 'x' x 100;
    my $params = Hydrofoil::UrlEncoded::parse_urlencoded_arrayref($input);
    $_ .= 'more' for @$params;
    is_deeply $params, [ 'namemore', 'valuemore', 'longmore', 'x' x 100 . 'more' ], 'they can be changed';
    is $input, 'name=value&long=' . 'x' x 100, 'and the input is as it was';
    my ($first) = Hydrofoil::UrlEncoded::parse_urlencoded($input);
    undef $params;
    is $first, 'name', 'and they last';
};

subtest 'nothing is kept after 100,000 calls' => sub {
    my $text = 'foo=bar&bar=baz&q=HTTP%3A%3ARequest%3A%3ACommon&ie=UTF-8&sourceid=chrome';
    for my $name (grep { $ours{$_} } map { ("XS $_", "PP $_") } @FUNCTIONS) {
        my $code = $ours{$name};
        my @args = $name =~ /parse/ ? $text : (a => 'b c', d => [ "\xe9", 'x' x 200 ], undef, '/');
        cmp_ok resident_growth(100_000, sub { my @result = $code->(@args) }), '<', 2_000_000, $name;
    }
};

done_testing;
