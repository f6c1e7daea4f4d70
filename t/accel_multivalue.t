use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
BEGIN {
    plan skip_all => 'Hash::MultiValue is not installed' if !eval { require Hash::MultiValue; 1 };
}
use B ();
use Config;
use Scalar::Util qw(weaken);
use Storable ();
use Hydrofoil::TestOriginal qw(second_copy outcome picture resident_size);

BEGIN { second_copy('Hash::MultiValue' => 'Original::MultiValue') }
my $before = Hash::MultiValue->new(foo => 1, bar => 2, foo => 3);

use Hydrofoil::Accelerate only => ['MultiValue'];

plan skip_all => 'this version of Hash::MultiValue is left as it is'
    if !grep { $_->{module} eq 'Hash::MultiValue' && $_->{state} eq 'accelerated' } Hydrofoil::Accelerate->status;

{
    package Shouting;
    use overload '""' => sub { uc ${ $_[0] } }, fallback => 1;
    sub new { my $text = $_[1]; bless \$text }
}
{
    package My::Sub;
    our @ISA = 'Hash::MultiValue';
    package Original::Sub;
    our @ISA = 'Original::MultiValue';
    for my $class (qw(My::Sub Original::Sub)) {
        no strict 'refs';
        *{"$class\::get_all"}     = sub { my $self = shift; map {"<$_>"} grep {defined} _up($class)->can('get_all')->($self, @_) };
        *{"$class\::merge_mixed"} = sub { my $self = shift; _up($class)->can('merge_mixed')->($self, @_); $self->{seen}++; $self };
        *{"$class\::merge_flat"}  = sub { my $self = shift; _up($class)->can('merge_flat')->($self, map { defined && !ref ? "$_$_" : $_ } @_) };
        *{"$class\::set"}         = sub { my ($self, $key, @values) = @_; _up($class)->can('set')->($self, $key, reverse @values) };
    }
    sub _up { $_[0] eq 'My::Sub' ? 'Hash::MultiValue' : 'Original::MultiValue' }
    *My::Sub::_up = \&_up;
}

srand 20161;
my $made = 0;

# Generated values come in two equal copies, for either side.
sub pick { $_[rand @_] }

sub any_key {
    my $kind = rand;
    return [ plain => pick(qw(a b c foo bar A), '', 0, 1, 10, 1.5, "\xe9", "\x{263a}", "a\0b", 'x' x 30) ] if $kind < .9;
    return [ upgraded => pick("\xe9", 'a', 'foo') ] if $kind < .95;
    return [ undef => undef ]                       if $kind < .97;
    return [ shouting => pick(qw(a foo)) ]          if $kind < .985;
    return [ tied => pick(qw(a foo)) ];
}

sub any_value {
    my $kind = rand;
    return [ plain => pick('v', 'w', '', 0, 1, 42, -1.5, "\xff", "\x{3042}", 'long' x 10) ] if $kind < .7;
    return [ undef => undef ]                                          if $kind < .8;
    return [ array => [ map { int rand 9 } 1 .. rand 4 ] ]             if $kind < .9;
    return [ hash  => { k => int rand 9 } ]                            if $kind < .95;
    return [ shouting => 'v' ]                                         if $kind < .97;
    return [ upgraded => "\xe9" ]                                      if $kind < .99;
    return [ blessed  => [1] ];
}

{
    package Counting;
    sub TIESCALAR { my $value = $_[1]; bless \$value }
    sub FETCH     { ${ $_[0] } }
}

sub real {
    my ($kind, $value) = @{ $_[0] };
    return $value if $kind eq 'plain' || $kind eq 'undef';
    return Shouting->new($value) if $kind eq 'shouting';
    return bless [@$value], 'Some::Class' if $kind eq 'blessed';
    return [@$value] if $kind eq 'array';
    return {%$value} if $kind eq 'hash';
    if ($kind eq 'upgraded') { utf8::upgrade(my $copy = $value); return $copy }
    return $value;
}

# [ method, arguments ]; a tied scalar must be the argument itself
sub any_call {
    my $n = rand;
    return [ pick(qw(keys values flatten as_hashref as_hashref_mixed as_hashref_multi mixed multi clone STORABLE_freeze)) ] if $n < .25;
    return [ pick(qw(get get_all get_one remove)), any_key() ]          if $n < .5;
    return [ set => any_key(), map { any_value() } 1 .. rand 4 ]        if $n < .65;
    return [ add => any_key(), map { any_value() } 1 .. rand 4 ]        if $n < .8;
    return [ merge_flat => map({ (any_key(), any_value()) } 1 .. rand 4), rand() < .1 ? any_key() : () ] if $n < .87;
    return [ merge_mixed => map({ (any_key(), any_value()) } 1 .. rand 4), rand() < .1 ? any_key() : () ] if $n < .92;
    return [ merge_mixed => [ hash => { map { pick(qw(a b c)) => pick(1, undef, 'x') } 1 .. rand 2 } ] ] if $n < .94;
    return [ clear => () ]                                                if $n < .95;
    return [ pick(qw(get get_all set add remove get_one)) ]               if $n < .955;
    return [ each => () ]                                                 if $n < .98;
    return [ poke => any_key(), any_value() ];
}

sub call {
    my ($object, $call) = @_;
    my ($method, @args) = @$call;
    my @real = map { real($_) } @args;
    for my $i (0 .. $#args) {
        tie $real[$i], 'Counting', $args[$i][1] if $args[$i][0] eq 'tied';
    }
    if ($method eq 'each') {
        my @seen;
        my $returned = $object->each(sub { push @seen, @_; $_[1] .= 'x' if defined $_[1] && !ref $_[1] && @seen < 4 });
        return @seen, ref $returned;
    }
    if ($method eq 'poke') {
        no warnings 'uninitialized';
        $object->{ $real[0] } = $real[1];
        return;
    }
    return $object->$method(@real);
}

my %RENAME = ('Original::MultiValue' => 'Hash::MultiValue', 'Original::Sub' => 'My::Sub');

sub same_life {
    my ($ours, $theirs, $rounds) = @_;
    my @story;
    for (1 .. $rounds) {
        my $call    = any_call();
        my $context = pick(qw(list list scalar void));
        local $^W = rand() < .1;
        my @pictures = map {
            my $object  = $_;
            my $outcome = outcome($context, sub { call($object, $call) });
            picture([ $outcome, $object, outcome('list', sub { $object->flatten }) ], %RENAME);
        } $ours, $theirs;
        push @story, [ $context, $call ];
        next if $pictures[0] eq $pictures[1];
        is $pictures[0], $pictures[1], 'the same result';
        diag "after $context " . picture($call), 'and ', scalar @story, ' calls';
        return 0;
    }
    return 1;
}

subtest 'whatever is done to an object, it answers as the original does' => sub {
    my $failed = 0;
    for my $pair ([ 'Hash::MultiValue', 'Original::MultiValue' ], [ 'My::Sub', 'Original::Sub' ]) {
        for (1 .. 600) {
            my $how  = pick(qw(new new from_mixed create));
            my @args = $how eq 'create' ? () : map { any_key(), any_value() } 1 .. rand 6;
            push @args, any_key() if $how eq 'new' && rand() < .05;
            my @objects = map {
                my $class = $_;
                my $outcome = outcome('scalar', sub { call($class, [ $how, @args ]) });
                $outcome->{error} ? $outcome : $outcome->{result}[0];
            } @$pair;
            is picture($objects[0]), picture($objects[1], %RENAME), 'made alike' or $failed++
                if picture($objects[0]) ne picture($objects[1], %RENAME);
            next if ref $objects[0] eq 'HASH';
            $failed++ if !same_life(@objects, 20);
            last if $failed;
        }
    }
    is $failed, 0, '1,200 lives of 20 calls';
};

subtest 'objects that were there before work on, and after it is put back those that were made since' => sub {
    is_deeply [ $before->flatten ], [ foo => 1, bar => 2, foo => 3 ], 'before';
    my $during = Hash::MultiValue->new(foo => 1, foo => 2);
    my $stored = Hash::MultiValue->new(foo => 5);
    eval { $stored->get_one('missing') };    # the original has seen it
    Hydrofoil::Accelerate->unload;
    is_deeply [ $during->get_all('foo') ], [ 1, 2 ], 'made while it was loaded';
    $during->add(foo => 3);
    is_deeply [ $before->get_all('foo') ], [ 1, 3 ], 'made before';
    is_deeply [ $stored->flatten ], [ foo => 5 ], 'known to both';
    my $after = Hash::MultiValue->new(foo => 9);
    Hydrofoil::Accelerate->load(only => ['MultiValue']);
    is_deeply [ $during->get_all('foo') ], [ 1, 2, 3 ], 'loaded again';
    is_deeply [ $after->flatten ],  [ foo => 9 ], 'made in between';
    is_deeply [ $stored->flatten ], [ foo => 5 ], 'known to both';
};

subtest 'code that looks inside finds an ordinary hash' => sub {
    my $object = Hash::MultiValue->new(foo => 'a', foo => 'b', bar => undef);
    isa_ok $object, 'Hash::MultiValue';
    is ref $object, 'Hash::MultiValue', 'ref';
    is Scalar::Util::reftype($object), 'HASH', 'reftype';
    is_deeply {%$object}, { foo => 'b', bar => undef }, 'its elements';
    ok !tied %$object, 'is not tied';
    $object->{direct} = 1;
    is $object->get('direct'), 1, 'an element that was assigned';
    is_deeply [ $object->get_all('direct') ], [], 'is not among the values, as ever';
    delete $object->{direct};
    my $copy = Storable::dclone($object);
    is_deeply [ $copy->flatten ], [ $object->flatten ], 'Storable::dclone';
    my $thawed = Storable::thaw(Storable::freeze({ a => $object, b => $object }));
    is_deeply [ $thawed->{a}->flatten ], [ $object->flatten ], 'thaw(freeze())';
    is $thawed->{a}, $thawed->{b}, 'one object stays one object';
};

subtest 'the last of a loop over each pair ends it' => sub {
    my $object = Hash::MultiValue->new(map { ($_ => 1) } 1 .. 5);
    my $seen = 0;
    no warnings 'exiting';
    $object->each(sub { last if ++$seen == 2 });
    is $seen, 2, 'two pairs were seen';
};

subtest 'methods that change the object in the middle of another one do no harm' => sub {
    my $object = Hash::MultiValue->new(map { ($_ % 3 => $_) } 1 .. 30);
    my $calls  = 0;
    $object->each(sub { $calls++; $object->remove($_[0]) if $calls == 3; $object->set($_[0], $_[1], $_[1]) if $calls == 7 && defined $_[0] });
    ok $calls >= 7, 'each, remove, set';

    {
        package Bomb;
        sub new { my ($class, $code) = @_; bless [$code], $class }
        sub DESTROY { $_[0][0]->() }
    }
    my $victim = Hash::MultiValue->new;
    weaken(my $weak = $victim);
    $victim->add(foo => 1, Bomb->new(sub { $weak->clear if $weak }), 2);
    $victim->set(foo => 5 .. 9);
    ok 1, 'a value whose destructor empties the object';
    my $other = Hash::MultiValue->new;
    weaken(my $weak_other = $other);
    $other->add(foo => Bomb->new(sub { $weak_other->add(foo => 1 .. 100) if $weak_other }));
    $other->clear;
    ok 1, 'and one whose destructor fills it';

    {
        package Clearing;
        sub TIESCALAR { my ($class, $object) = @_; bless [$object], $class }
        sub FETCH { 1 }
        sub STORE { $_[0][0]->clear if $_[0][0] }
    }
    my $tied = Hash::MultiValue->new(foo => 1, bar => 2);
    tie $tied->{foo}, 'Clearing', $tied;
    weaken((tied $tied->{foo})->[0]);
    $tied->merge_flat(a => 1, foo => 3, b => 2);
    $tied->merge_mixed(foo => [ 1, 2 ], b => 3);
    $tied->set(foo => 1, 2, 3);
    ok 1, 'an element that is tied to something that empties the object';
};

subtest 'a tied hash, a locked hash and a foreign object are left to the original' => sub {
    require Tie::Hash;
    my $object = Hash::MultiValue->new(foo => 1);
    tie %$object, 'Tie::StdHash';
    $object->add(bar => 2);
    is_deeply [ $object->flatten ], [ foo => 1, bar => 2 ], 'tied';
    is $object->get('bar'), 2, 'and read through the tie';
    require Hash::Util;
    my $locked = Hash::MultiValue->new(foo => 1);
    Hash::Util::lock_ref_keys($locked);
    ok !eval { $locked->add(bar => 2); 1 }, 'locked';
    like $@, qr/disallowed/, 'says why';
    my $foreign = bless { foo => 1 }, 'Hash::MultiValue';
    is $foreign->get('foo'), 1, 'blessed by somebody else';
    ok !eval { $foreign->keys; 1 }, 'it has no lists';
    for my $method (qw(new create from_mixed get get_all get_one set add merge_flat merge_mixed remove clear clone keys values
        flatten each as_hashref mixed multi STORABLE_freeze STORABLE_thaw)) {
        for my $args ([], [undef], ['foo'], [ 'foo', 'bar' ], [ [], 1 ], [ {}, 1 ], [ bless([], 'Some::Class'), 1, 2 ], [''], [ 'No::Such', 1, 2 ]) {
            my @answers = map {
                my $code = $_->can($method);
                picture(outcome('list', sub { $code->(@$args) }), 'Original::MultiValue' => 'Hash::MultiValue');
            } qw(Hash::MultiValue Original::MultiValue);
            next if $answers[0] eq $answers[1];
            is $answers[0], $answers[1], "$method with " . picture($args);
        }
    }
    pass 'arguments that make no sense';
};

subtest 'a method that somebody puts in the place of ours is called' => sub {
    my $object = Hash::MultiValue->new(foo => 1, foo => 2);
    no warnings 'redefine';
    local *Hash::MultiValue::set = sub { my ($self, $key) = @_; $self->{"set $key"} = 1; $self };
    $object->remove('foo');
    is $object->{'set foo'}, 1, 'remove calls set';
    local *Hash::MultiValue::merge_mixed = sub { $_[0]{merged} = 1; $_[0] };
    $object->add(foo => 1);
    is $object->{merged}, 1, 'add calls merge_mixed';
};

SKIP: {
    skip 'perl has no threads', 1 if !$Config{useithreads} || !eval { require threads; 1 };
    subtest 'a thread has copies of its own' => sub {
        my $object = Hash::MultiValue->new(foo => 1, foo => 2);
        my $seen   = Hash::MultiValue->new(bar => 1);
        eval { $seen->get_one('missing') };
        my ($in_thread) = threads->create({ context => 'list' }, sub {
            $object->add(foo => 3);
            $seen->add(bar => 2);
            my $new = Hash::MultiValue->new(x => 1, x => 2);
            return join ',', $object->flatten, $seen->flatten, $new->get_all('x'), eval { $new->get_one('x') } || 'many';
        })->join;
        is $in_thread, 'foo,1,foo,2,foo,3,bar,1,bar,2,1,2,many', 'in the thread';
        is_deeply [ $object->flatten, $seen->flatten ], [ foo => 1, foo => 2, bar => 1 ], 'here they are as they were';
    };
}

subtest 'objects that come and go leave nothing behind' => sub {
    plan skip_all => 'no /proc' if !resident_size();
    my $round = sub {
        my $object = Hash::MultiValue->new(foo => 'a' x 50, bar => 2, foo => [1], foo => undef);
        my $other  = Hash::MultiValue->from_mixed(foo => [ 1, 2 ], bar => 3);
        $object->set(foo => 1, 2);
        $object->add(bar => 5, 6, 7);
        $object->merge_mixed({ x => [ 1, 2, 3 ] });
        $object->merge_flat(y => 1, y => 2);
        $object->remove('x');
        my @all = ($object->get('foo'), $object->get_all('foo'), $object->keys, $object->values, $object->flatten);
        my @hashes = ($object->mixed, $object->multi, $object->as_hashref, $object->clone);
        $object->each(sub { });
        eval { $object->get_one('missing') } if rand() < .1;
        $other->clear;
        my $clone = rand() < .1 ? Storable::dclone($object) : ();
        return scalar @all;
    };
    $round->() for 1 .. 2_000;
    my $start = resident_size();
    $round->() for 1 .. 20_000;
    cmp_ok resident_size() - $start, '<', ($ENV{ASAN_OPTIONS} ? 8192 : 300), 'pages';
};

subtest 'long values are shared, not copied' => sub {
    plan skip_all => 'perl copies them here' if $] < 5.020 || !B->can('SVf_IsCOW');
    my $shared = sub { B::svref_2object($_[0])->FLAGS & B::SVf_IsCOW() };
    my $long   = 'x' x 100_000;
    my $object = Hash::MultiValue->new(long => $long);
    $object->add(more => $long);
    my ($got, $all, $key, $value) = ($object->get('long'), $object->get_all('long'), $object->flatten);
    my $subscript = $object->{more};
    my $from = Hash::MultiValue->from_mixed({ long => $long })->get('long');
    my %values = (get => \$got, get_all => \$all, flatten => \$value, add => \$subscript, from_mixed => \$from);
    ok $shared->($values{$_}), $_ for sort keys %values;
    $got .= 'y';
    is $object->get('long'), $long, 'and who writes to one writes to a copy';
};

done_testing;
