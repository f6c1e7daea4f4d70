use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;

BEGIN {
    for my $module (qw(Plack::Response HTTP::Headers URI)) {
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
    package Lines;
    sub new { return bless { lines => [ 'a', 'b' ] }, shift }
    sub getline { return shift @{ $_[0]{lines} } }
    sub close { return 1 }
}
{
    package TextAndLines;
    our @ISA = ('Lines');
    use overload '""' => sub { 'text' }, fallback => 1;
}
{
    package OtherStatus;
    our @ISA = ('Plack::Response');
    sub status { my $self = shift; return @_ ? $self->SUPER::status(@_) : "1" . ($self->SUPER::status() || "") }
}
{
    package OtherBody;
    our @ISA = ('Plack::Response');
    sub _body { return ['other'] }
}
{
    package Inheriting;
    our @ISA = ('Plack::Response');
}
{
    package ScansLess;
    our @ISA = ('HTTP::Headers::Fast');
    sub _sorted_field_names { return [ grep { !/^x/ } @{ $_[0]->SUPER::_sorted_field_names } ] }
}

my @names = qw(Content-Type content-length X-Foo x_foo Location X-Many ETag _private);

sub text {
    return pick(
        'plain', '', 0, '0', 42, 1.5, "a\r\n b", "c\r\nd", "e\n", "caf\xe9", "\x{263a}", "\x{263a}\r\n x", 'http://example.com/', 'text/html; charset=utf-8', 'x' x 3_000,
    );
}

sub value {
    my $kind = number(16);
    return undef                               if $kind == 0;
    return [ map { text() } 1 .. number(4) ]   if $kind < 3;
    return URI->new('http://example.com/a?b#c') if $kind == 3;
    return Text->new(text())                   if $kind == 4;
    return [ URI->new('http://example.com/'), text() ] if $kind == 5;
    return text();
}

sub pairs { return map { pick(@names), value() } 1 .. $_[0] }

sub headers {
    my $kind = number(10);
    return undef if $kind == 0;
    return { map { $_ => value() } grep { chance(3) } @names[ 0, 2, 4 ] } if $kind == 1;
    return HTTP::Headers::Fast->new(pairs(3)) if $kind == 2;
    return HTTP::Headers->new('X-Foo' => 'a', 'Content-Type' => 'text/plain') if $kind == 3;
    return ScansLess->new(pairs(3)) if $kind == 4;
    return [ pairs(2), 'X-Odd' ] if $kind == 5;
    return [ pairs(number(5)) ];
}

sub body {
    my $kind = number(12);
    return undef                        if $kind == 0;
    return [ map { text() } 0 .. number(3) ] if $kind < 4;
    return Lines->new                   if $kind == 4;
    return Text->new(text())            if $kind == 5;
    return TextAndLines->new            if $kind == 6;
    return { a => 1 }                   if $kind == 7;
    return sub { 'code' }               if $kind == 8;
    return text();
}

sub cookie {
    return pick(
        'value', 'needs escaping; =', undef, '', "\xe9",
        { value => 'v', path => '/', domain => '.example.com', expires => 1_700_000_000, secure => 1, httponly => 1, samesite => 'lax', 'max-age' => 30 },
        { value => 'v', expires => 'Thu, 01-Jan-1970 00:00:00 GMT' },
    );
}

# Set-Cookie comes in the order of a hash: put in order here, and counted.
sub in_order {
    my $answer = shift;
    my @list   = @{ $answer->[1] };
    my (@fields, @cookies);
    while (my ($name, $value) = splice @list, 0, 2) {
        if (defined $name && $name eq 'Set-Cookie') { push @cookies, $value } else { push @fields, $name, $value }
    }
    return [ $answer->[0], \@fields, [ sort @cookies ], @{$answer}[ 2 .. $#$answer ] ];
}

my @methods = (
    (sub { my ($r) = @_; sub { in_order(scalar $r->finalize) } }) x 8,
    sub { my ($r) = @_; my @v = chance(2) ? pick(200, 404, '200', undef, 0, '', 99.5) : (); sub { $r->status(@v) } },
    sub { my ($r) = @_; sub { $r->status(200, 201) } },
    sub { my ($r) = @_; my @v = chance(2) ? body() : (); my $m = pick(qw(body content)); sub { $r->$m(@v) } },
    sub { my ($r) = @_; my @v = chance(2) ? 500 : (); sub { $r->code(@v) } },
    sub { my ($r) = @_; my @v = chance(3) ? headers() : (); sub { $r->headers(@v) } },
    sub { my ($r) = @_; my @v = chance(8) ? {} : (); sub { $r->cookies(@v) } },
    sub { my ($r) = @_; my ($n, $v) = (pick('a', 'b c', "\xe9"), cookie()); sub { $r->cookies->{$n} = $v; return } },
    sub { my ($r) = @_; my @v = (pick(@names), chance(2) ? value() : ()); sub { $r->header(@v) } },
    sub { my ($r) = @_; my @v = pairs(number(4)); sub { $r->header(@v) } },
    sub { my ($r) = @_; my @v = chance(2) ? value() : (); my $m = pick(qw(content_type content_length content_encoding location)); sub { $r->$m(@v) } },
    sub { my ($r) = @_; my @v = (value(), chance(2) ? pick(301, 303, undef, 0) : ()); @v = () if chance(4); sub { $r->redirect(@v) } },
    sub { my ($r) = @_; my ($v) = pairs(1); sub { $r->headers->push_header(X => $v); return } },
    sub { my ($r) = @_; sub { in_order($r->to_app->({})) } },
);

sub case {
    my (@seen, $r);
    my $class = chance(10) ? pick(qw(OtherStatus OtherBody Inheriting)) : 'Plack::Response';
    my @args  = chance(3) ? () : (pick(200, 200, 404, '500', undef), chance(2) ? () : (headers(), chance(2) ? () : body()));
    push @seen, attempt(sub { $r = $class->new(@args); return });
    return \@seen if !$r;
    for (1 .. 6) {
        my $call = pick(@methods)->($r);
        push @seen, attempt($call);
    }
    return [ \@seen, $r ];
}

same_with_and_without(name => 'Plack::Response', areas => [ 'Headers', 'Response' ], count => 3_000, case => \&case);

is join(' ', map { "$_->{module}: $_->{state}" } Hydrofoil::Accelerate->status), 'HTTP::Headers::Fast: accelerated Plack::Response: accelerated',
  'all of it is accelerated';

{
    my $r = Plack::Response->new(200);
    $r->cookies->{$_} = 'v' for 'a' .. 'z';
    my $answer = $r->finalize;
    is_deeply [ map { /^(.)=v\z/ } @{ $answer->[1] } ], [ keys %{ $r->cookies } ], 'cookies come in the order of their hash';
}
{
    my $r = Plack::Response->new(200);
    no warnings 'redefine';
    local *HTTP::Headers::Fast::scan = sub { $_[1]->('X-Scanned' => 1); return };
    is_deeply $r->finalize, [ 200, [ 'X-Scanned' => 1 ], [] ], 'a scan() that somebody put in place afterwards is used';
}
{
    my $r    = Plack::Response->new(200, [ 'X-List' => [ "a\r\n b", 'c' ] ]);
    $r->finalize;
    is_deeply [ $r->header('X-List') ], [ "a\r\n b", 'c' ], 'finalize leaves the headers as they are';
}
{
    my $text = 'x' x 10_000;
    my $r    = Plack::Response->new(200, [], $text);
    my $answer = $r->finalize;
    $answer->[2][0] .= 'more';
    is length $r->body, 10_000, 'an answer does not share its body with the response';
}

no_leak('a response', 20_000, sub {
    my $r = Plack::Response->new(200, [ 'X-A' => 1, 'X-A' => 2 ], 'body');
    $r->content_type('text/plain');
    $r->content_length(4);
    $r->cookies->{a} = { value => 'b' };
    $r->redirect('http://example.com/', 301);
    my @seen = ($r->location, $r->headers, $r->status, $r->content_type);
    my $answer = $r->finalize;
    $r->headers([ 'X-B' => 3 ]);
    my $again = $r->finalize;
});

done_testing;
