use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use Test::More;
use Cookie::Baker ();
use Hydrofoil::Accelerate ();
use Hydrofoil::TestAccelerate qw(differ_in resident_growth);

my $with_xs = eval { require Cookie::Baker::XS; 1 };
my %original = (
    bake_cookie  => \&Cookie::Baker::bake_cookie,
    crush_cookie => \&Cookie::Baker::pp_crush_cookie,
    $with_xs ? (xs_crush_cookie => \&Cookie::Baker::XS::crush_cookie) : (),
);
Hydrofoil::Accelerate->load(only => ['Cookie']);
my %state = map { $_->{module} => $_->{state} } Hydrofoil::Accelerate->status;
plan skip_all => "Cookie::Baker $Cookie::Baker::VERSION is not accelerated" if $state{'Cookie::Baker'} ne 'accelerated';
my %ours = (
    bake_cookie  => \&Cookie::Baker::bake_cookie,
    crush_cookie => \&Cookie::Baker::pp_crush_cookie,
    $state{'Cookie::Baker::XS'} eq 'accelerated' ? (xs_crush_cookie => \&Cookie::Baker::XS::crush_cookie) : (),
);

srand 20130827;
sub pick { $_[ rand @_ ] }

my @PIECES = (';', '; ', ';  ', '=', ' = ', '"', '""', '%', '%4', '%41', '%7e', '%E3%81%82', '%zz', '%%41', ' ', "\t", "\n", "\r\n",
    "\0", "\x0b", "\x0c", "\xa0", "\x85", "\xe9", 'a', 'foo', 'bar', '"quoted"', '0', '+', ',', '&', 'a=', 'a=b; ', 'x' x 140);
sub cookies { join '', map { pick(@PIECES) } 1 .. rand 14 }

subtest 'reading cookies finds what Cookie::Baker finds' => sub {
    for my $name (grep { /crush/ } sort keys %ours) {
        isnt $ours{$name}, $original{$name}, "$name is ours";
        my @inputs = (
            (map { [$_] } undef, '', 0, '0.0', 1, ' ', ';', '=', 'a', 'a=', '=b', 'a=b', 'a="b', 'a="', 'a=""', qq{a="b\nc"}, ' a = b ;', 'a=b; a=c',
                "\x{3042}=b", 'a=b' . ';' x 100, join('; ', map { "c$_=%41$_" } 1 .. 3000)),
            ($name =~ /xs/ ? () : ([], [ 'a=b', 'c=d' ])),
            [ [] ], [ {} ], [ \'a=b' ], [ qr/a=b/ ], [ *STDOUT ],
            (map { [ cookies() ] } 1 .. 6000),
            (map { my $text = cookies(); utf8::upgrade($text); [$text] } 1 .. 500),
        );
        is differ_in($ours{$name}, $original{$name}, @inputs), '', "$name of everything";
    }
};

sub word { join '', map { pick('a', 'session', '9', ' ', '%', '-._~', "!*'()", "\xe9", ';', '=', '"', "\0", '/', '+', 'x' x 40) } 1 .. rand 4 }
sub odd { rand() < 0.05 ? pick(undef, '', 0, '0', '0.0', "\x{3042}", \'a', [], 0.5) : $_[0] }
sub expiry {
    return pick('now', 'now ', 'Wed, 03-Nov-2010 20:54:16 GMT', '', ' 1', '+', '-', '.', '+.5d', '1.5h', "12\n", "+1d\n", '12 ', 'd', 'soon', '+-1',
        1e10, 253402300799, 253402300800, '1' x 11, '1' x 12, '1' x 30, '00', -1, 1e30, 951782400, 951868799, 951868800, 4107542399, 4107542400,
        int rand 253402300799, int rand 2**31, int rand 1000, (map { pick('', '+', '-') . int(rand 10**pick(1, 2, 4, 9, 10)) . pick('', qw(s m h d M y x S hours)) } 1 .. 12));
}
sub attributes {
    my %args = (value => odd(word()));
    delete $args{value} if rand() < 0.02;
    $args{domain}    = odd(pick('example.com', '.example.com'))     if rand() < 0.4;
    $args{path}      = odd(pick('/', '/a b;c', word()))             if rand() < 0.5;
    $args{expires}   = odd(expiry())                                if rand() < 0.6;
    $args{'max-age'} = odd(pick(0, 3600, '3600', -1, 'x'))          if rand() < 0.3;
    $args{samesite}  = odd(pick(qw(lax Lax LAX strict sTRICT none None laxer nonesuch other), '', 'none; ', 'none;', 'none ', "none\n")) if rand() < 0.5;
    $args{secure}    = odd(pick(0, 1, '', 'yes', \'x'))             if rand() < 0.4;
    $args{httponly}  = odd(pick(0, 1, '', 'yes', [], undef))        if rand() < 0.4;
    $args{partitioned} = odd(pick(0, 1, '', 'yes', [], undef))      if rand() < 0.3;
    $args{ pick(qw(domain path max-age)) } = pick('SameSite=None', 'SameSite=None; ', 'x; SameSite=None; y', 'S') if rand() < 0.1;
    $args{other}     = 'x'                                          if rand() < 0.1;
    return \%args;
}

# Many are relative to the clock: should it move on between the two calls, they are made again.
sub differ_at_one_time {
    my @inputs = @_;
    my $difference = '';
    for my $input (@inputs) {
        for (1 .. 20) {
            my $time = time;
            $difference = differ_in($ours{bake_cookie}, $original{bake_cookie}, $input);
            last if $difference eq '' || $time == time;
        }
        return $difference if $difference ne '';
    }
    return '';
}

subtest 'writing cookies writes what Cookie::Baker writes' => sub {
    isnt $ours{bake_cookie}, $original{bake_cookie}, 'bake_cookie is ours';
    is differ_at_one_time([], ['a'], [ 'a', undef ], [ undef, 'b' ], [ undef, undef ], [ 'a', 'b', 'c' ], [ 'a', [] ], [ 'a', \'b' ], [ 'a', *STDOUT ],
        [ 'a', {} ], [ "\x{e9}", "\x{3042}" ], [ "\x{3042}", 'b' ], [ 17, 0.5 ], [ '', '' ]), '', 'odd calls';
    is differ_at_one_time(map { [ odd(word()), odd(word()) ] } 1 .. 2000), '', 'names and values';
    is differ_at_one_time(map { [ odd(word()), attributes() ] } 1 .. 6000), '', 'attributes';
    is differ_at_one_time(map { [ 'a', { value => 'b', expires => $_ * 86400 - ($_ % 2) } ] } map { 28 * $_ } 0 .. 4000), '', 'dates of three centuries';
};

{
    package Shouting;
    use overload '""' => sub { $_[0]{asked}++; $_[0]{text} }, fallback => 1;
    package TiedHash;
    require Tie::Hash;
    our @ISA = 'Tie::ExtraHash';
}

subtest 'objects and tied hashes are read by the original' => sub {
    my $object = bless { text => 'a=b' }, 'Shouting';
    is_deeply $ours{crush_cookie}->($object), $original{crush_cookie}->($object), 'an object to read';
    $object = bless { text => 'a b', value => 'v', path => '/' }, 'Shouting';
    is $ours{bake_cookie}->($object, { value => $object, domain => $object }), 'a%20b=a%20b; domain=a b', 'objects to write';
    is $ours{bake_cookie}->('c', $object), $original{bake_cookie}->('c', $object), 'an object as the attributes';
    tie my %tied, 'TiedHash', {};
    @tied{qw(value path)} = ('v', '/');
    is $ours{bake_cookie}->('c', \%tied), 'c=v; path=/', 'a tied hash';
};

subtest 'a replaced clock is respected' => sub {
    my @parts = ('BEGIN { *CORE::GLOBAL::time = sub () { 86400 } }', 'use Hydrofoil::Accelerate;', 'use Cookie::Baker; print bake_cookie(a => { value => 1, expires => q(+1d) })');
    my @inc = map { "-I$_" } grep { !ref } @INC;
    for my $code (join(' ', @parts), join(' ', @parts[1, 0, 2])) {
        open my $out, '-|', $^X, @inc, '-e', $code or die $!;
        is scalar <$out>, 'a=1; expires=Sat, 03-Jan-1970 00:00:00 GMT', 'time of 1970';
    }
};

subtest 'nothing is kept after 100,000 calls' => sub {
    my %args = (
        bake_cookie  => [ 'a b', { value => "\xe9" x 30, domain => '.example.com', path => '/', expires => '+1d', samesite => 'lax', secure => 1 } ],
        crush_cookie => [ 'a=b; %41=%42; a=c; long=' . 'x%20' x 100 . '; "x"="y"; ' . '%61' x 60 . '=z' ],
    );
    for my $name (sort keys %ours) {
        my $args = $args{$name} || $args{crush_cookie};
        my $code = $ours{$name};
        cmp_ok resident_growth(100_000, sub { my $result = $code->(@$args) }), '<', 2_000_000, $name;
    }
};

done_testing;
