use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;

BEGIN {
    for my $module (qw(HTTP::Headers::Fast URI HTTP::Date)) {
        eval "require $module" or plan skip_all => "needs $module";
    }
}
use Hydrofoil::Test::Differential;

{
    package Text;
    use overload '""' => sub { $_[0]{text} }, fallback => 1;
    sub new { my ($class, $text) = @_; return bless { text => $text }, $class }
}
{
    package Tied;
    sub TIESCALAR { my ($class, $value) = @_; return bless \$value, $class }
    sub FETCH { return ${ $_[0] } }
    sub STORE { ${ $_[0] } = $_[1]; return }
}
{
    package Overriding;
    our @ISA = ('HTTP::Headers::Fast');
    sub _header_set { my ($self, $name, $value) = @_; return $self->SUPER::_header_set("X-$name", $value) }
}
{
    package ScansLess;
    our @ISA = ('HTTP::Headers::Fast');
    sub _sorted_field_names { return [ grep { !/^x/ } @{ $_[0]->SUPER::_sorted_field_names } ] }
}
{
    package Inheriting;
    our @ISA = ('HTTP::Headers::Fast');
    sub greet { return 'hello' }
}

my @names = (
    qw(Content-Type content-type CONTENT_TYPE Content-Length content_length Location X-Foo x-foo X_FOO x_Foo Set-Cookie Host
      Date Expires Last-Modified Server Title title Zebra aardvark a b c_d ETag Content-Foo _private :colon :Under_score), '', 'with space',
    "caf\xe9", 'über', 'x.y-z', 'x' x 70, 'Y' x 300, '0', 'a-b_c.d', 'Authorization',
);

sub name {
    return 42 if chance(80);
    return undef if chance(120);
    return pick(@names);
}

sub simple {
    return pick(
        'text/html', 'Text/HTML ; charset=utf-8', 'application/atom+xml', ' text / plain;', ';', '', '0', 0, 42, 4_000, 1.5, -3, 'a b',
        "folded\r\n value", "a\r\n\r\n\tb", "cr\ronly", "lf\nonly", "\r\n", "a\r\n|b", "tail\r\n", "tail \n", "a\n\nb\n c", "caf\xe9", 'smørrebrød',
        "wide\x{263a}\r\n face", 'http://example.com/#there', 'Basic dXNlcjpwYXNz', 'Sat, 21 Nov 2026 21:17:39 GMT', 'x' x 500,
        "\x0btext/xml", 'text/html; charset="utf-8"; a=b', 'application/xhtml+xml', 'text/xml', "nul\0",
    );
}

sub value {
    my $kind = number(30);
    return undef                              if $kind == 0;
    return [ map { simple() } 1 .. number(4) ] if $kind < 5;
    return Text->new(simple())                if $kind == 5;
    return URI->new('http://example.com/x#f') if $kind == 6;
    return { a => 1 }                         if $kind == 7;
    return [ simple(), undef ]                if $kind == 8;
    return bless [ 'blessed' ], 'List'        if $kind == 9;
    return simple();
}

sub pairs { return map { name(), value() } 1 .. $_[0] }

sub object {
    my $class = chance(12) ? pick(qw(Overriding ScansLess Inheriting)) : 'HTTP::Headers::Fast';
    return $class->new if chance(6);
    return $class->new(pairs(1 + number(8)));
}

my @methods = (
    sub { my @name = name(); my ($h) = @_; sub { $h->header(@name) } },
    sub { my @pair = pairs(1); my ($h) = @_; sub { $h->header(@pair) } },
    sub { my @pairs = pairs(1 + number(6)); push @pairs, name() if chance(8); my ($h) = @_; sub { $h->header(@pairs) } },
    sub { my ($h) = @_; my ($n, $v) = pairs(1); tie my $tied, 'Tied', $v; sub { $h->header($n => $tied) } },
    sub { my ($h) = @_; 'match me' =~ /(\w+) (\w+)/; my $n = name(); sub { 'match me' =~ /(\w+)/; $h->header($n => $1) } },
    sub { my ($h) = @_; sub { $h->header } },
    sub { my ($h) = @_; my @p = pairs(number(3)); push @p, name() if chance(9); sub { $h->push_header(@p) } },
    sub { my ($h) = @_; my @p = pairs(1); sub { $h->init_header(@p) } },
    sub { my ($h) = @_; my @n = map { name() } 1 .. number(4); sub { $h->remove_header(@n) } },
    sub { my ($h) = @_; sub { $h->remove_content_headers } },
    sub { my ($h) = @_; sub { [ sort { lc $a cmp lc $b } $h->header_field_names ] } },
    sub { my ($h) = @_; sub { $h->header_field_names } },
    sub { my ($h) = @_; sub { my @seen; $h->scan(sub { push @seen, @_ }); return \@seen } },
    sub { my ($h) = @_; sub { my @seen; my @r = $h->scan(sub { push @seen, @_; $_[1] = 'changed' }); return \@seen } },
    sub { my ($h) = @_; my $n = name(); sub { $h->scan(sub { $h->remove_header($n); $h->header('X-New' => 'during') }); return } },
    sub { my ($h) = @_; sub { $h->as_string } },
    sub { my ($h) = @_; my $e = pick("\r\n", '', undef, "\x{263a}", 7); sub { $h->as_string($e) } },
    sub { my ($h) = @_; sub { join "\n", sort split /\n/, $h->as_string_without_sort } },
    sub { my ($h) = @_; sub { $h->psgi_flatten } },
    sub { my ($h) = @_; sub { my $l = $h->psgi_flatten_without_sort; my $i = 0; my @p = map { [ @{$l}[ 2 * $_, 2 * $_ + 1 ] ] } 0 .. @$l / 2 - 1; [ sort { "@{[map { $_ // 'undef' } @$a]}" cmp "@{[map { $_ // 'undef' } @$b]}" } @p ] } },
    sub { my ($h) = @_; sub { $h->clone } },
    sub { my ($h) = @_; my @v = chance(2) ? value() : (); sub { $h->content_type(@v) } },
    sub { my ($h) = @_; my $m = pick(qw(content_is_text content_is_html content_is_xhtml content_is_xml content_type_charset)); sub { $h->$m } },
    sub {
        my ($h) = @_;
        my $m = pick(qw(content_length content_language content_encoding title user_agent server from warnings www_authenticate authorization proxy_authenticate proxy_authorization));
        my @v = chance(2) ? value() : ();
        sub { $h->$m(@v) };
    },
    sub { my ($h) = @_; my $m = pick(qw(date expires last_modified if_modified_since client_date)); my @v = chance(2) ? 1_700_000_000 : (); sub { $h->$m(@v) } },
    sub { my ($h) = @_; my @v = chance(2) ? value() : (); sub { $h->referer(@v) } },
    sub { my ($h) = @_; my @v = chance(2) ? ('user', 'pass') : (); sub { $h->authorization_basic(@v) } },
    sub { my ($h) = @_; my $c = pick('HTTP::Headers', 'HTTP::Headers::Fast', 'Inheriting', 'UNIVERSAL', ''); sub { $h->isa($c) } },
    sub { my ($h) = @_; my $m = pick(qw(_header _header_set _header_push)); my ($n, $v) = pairs(1); sub { $h->$m($n, $v) } },
    sub { my ($h) = @_; my $n = name(); sub { $h->_header_get($n) } },
    sub { my ($n) = name(); sub { HTTP::Headers::Fast::_standardize_field_name($n) } },
    sub { my ($h) = @_; sub { $h->clear } },
    sub { my ($h) = @_; my @a = (name(), [ 'a', 'b' ]); sub { $h->header(@a); $h->push_header($a[0], 'c'); $h->header(@a); $a[1] } },
);
# Emptying methods come less often.
@methods = (@methods[ 0 .. $#methods ], @methods[ 0 .. 6, 12, 15, 18, 21, 23 ]);

sub case {
    my @seen;
    my $underscore = !chance(10);
    local $HTTP::Headers::Fast::TRANSLATE_UNDERSCORE = $underscore;
    my $h;
    my $first = attempt(sub { $h = object(); return });
    return $first if !$h;
    for (1 .. 6) {
        my $call = pick(@methods)->($h);
        push @seen, attempt($call);
    }
    return [ $first, \@seen, $h ];
}

same_with_and_without(
    name  => 'HTTP::Headers::Fast',
    areas => ['Headers'],
    count => 4_000,
    case  => \&case,
    last  => sub { return \%HTTP::Headers::Fast::standard_case },
);

my ($area) = Hydrofoil::Accelerate->status;
is $area->{state}, 'accelerated', 'all of it is accelerated';

{
    my $h = HTTP::Headers::Fast->new('X-Late' => 1);
    no warnings 'redefine';
    my $original = \&HTTP::Headers::Fast::_header_get;
    local *HTTP::Headers::Fast::_header_get = sub { my @got = $original->(@_); return map { "<$_>" } @got };
    is $h->header('X-Late'), '<1>', 'a method that somebody replaces afterwards is called';
}
is(HTTP::Headers::Fast->new('X-Late' => 1)->header('X-Late'), 1, '... until it is put back');

tie my %tied, 'TiedHash';
{
    package TiedHash;
    our $stored = 0;
    sub TIEHASH { return bless {}, shift }
    sub FETCH { return $_[0]{ $_[1] } }
    sub STORE { $stored++; return $_[0]{ $_[1] } = $_[2] }
    sub EXISTS { return exists $_[0]{ $_[1] } }
    sub DELETE { return delete $_[0]{ $_[1] } }
    sub FIRSTKEY { my @k = sort keys %{ $_[0] }; return $k[0] }
    sub NEXTKEY { my ($self, $last) = @_; return (grep { $_ gt $last } sort keys %$self)[0] }
}
my $tied = bless \%tied, 'HTTP::Headers::Fast';
$tied->header('X-Tied' => 'yes', 'Host' => 'here');
is $TiedHash::stored, 2, 'a tied object stores through its tie';
is $tied->as_string, "Host: here\nX-Tied: yes\n", '... and is read through it';

{
    my %many = map { ("X-Generated-$_" => $_) } 1 .. 200;
    my $h = HTTP::Headers::Fast->new(%many);
    is scalar(() = $h->header_field_names), 200, 'hundreds of fields';
    is $h->header("X-GENERATED-$_"), $_, "... one of them" for 1, 100, 200;
}

no_leak('set, get, flatten, clone', 20_000, sub {
    my $h = HTTP::Headers::Fast->new('Content-Type' => 'text/plain', 'X-A' => [ 1, 2 ], 'X-A' => 3);
    $h->push_header('X-B' => 'b', 'X-B' => 'c');
    my @got = ($h->header('X-A'), $h->content_type, scalar $h->header('X-B'));
    $h->content_length(10);
    my $flat = $h->psgi_flatten;
    my $copy = $h->clone;
    my $text = $copy->as_string;
    $copy->scan(sub { });
    my @gone = $copy->remove_header('X-A');
    my $content = $copy->remove_content_headers;
});
my $unique = 0;
no_leak('names that are never seen again', 5_000, sub {
    my $h = bless {}, 'HTTP::Headers::Fast';
    my $name = 'x-' . ++$unique;
    $h->header($name => 1);
    my $flat = $h->psgi_flatten;
    delete $HTTP::Headers::Fast::standard_case{$name};
});

done_testing;
