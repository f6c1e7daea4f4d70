use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;

BEGIN {
    for my $module (qw(Plack::Util Plack::Middleware Plack::Builder)) {
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
    sub new { my $class = shift; return bless { lines => [@_] }, $class }
    sub getline { return shift @{ $_[0]{lines} } }
    sub close { $_[0]{closed}++; return 1 }
}
{
    package Counting;
    use overload '&{}' => sub { my $self = shift; sub { $self->{calls}++; return scalar @_ } }, fallback => 1;
    sub new { return bless { calls => 0 }, shift }
}
{
    package Adds;
    our @ISA = ('Plack::Middleware');
    sub call { my ($self, $env) = @_; my $answer = $self->app->($env); return $self->response_cb($answer, sub { push @{ $_[0][1] }, 'X-Added' => 1; return }) }
}

my @names = qw(Content-Length content-length CONTENT-LENGTH X-Foo x-foo X-Bar Location);

sub name {
    return undef   if chance(60);
    return 42      if chance(60);
    return "X-\xe9" if chance(60);
    return "X-\x{263a}" if chance(60);
    return Text->new('X-Foo') if chance(60);
    return pick(@names);
}

sub value {
    return pick('a', '', 0, 42, 1.5, undef, "\x{263a}", [1], Text->new('text'), "caf\xe9");
}

sub headers {
    my @list = map { name(), value() } 1 .. number(6);
    push @list, name() if chance(12);
    return \@list;
}

sub body {
    return pick(
        [], ['one'], [ 'one', 'two' ], [ 'one', '', 'three' ], ["\x{263a}\x{263a}"], [ 42, 1.5 ], [ 'a', undef, 'b' ], [ Text->new('text') ], [ [] ],
        undef, 'text', {}, Lines->new('one', 'two'), bless([ 'a' ], 'List'),
    );
}

sub filter {
    my $seen = shift;
    return pick(
        sub { push @$seen, $_[0]; return },
        sub { push @$seen, $_[0]; return $_[0] },
        sub { push @$seen, $_[0]; return defined $_[0] ? uc $_[0] : undef },
        sub { push @$seen, $_[0]; return defined $_[0] ? uc $_[0] : 'rest' },
        sub { $_[0] = 'changed' if defined $_[0]; return 'new' },
        sub { return (1, 2, 3) },
    );
}

my @functions = (
    sub { my ($h, $n) = (headers(), name()); sub { [ Plack::Util::header_get($h, $n) ] } },
    sub { my ($h, $n) = (headers(), name()); sub { Plack::Util::header_get($h, $n) } },
    sub { my ($h, $n) = (headers(), name()); sub { Plack::Util::header_exists($h, $n) } },
    (sub { my ($h, $n, $v) = (headers(), name(), value()); (sub { Plack::Util::header_set($h, $n, $v) }, $h) }) x 2,
    sub { my ($h, $v) = (headers(), value()); (sub { Plack::Util::header_set($h, $h->[0], $v) }, $h) },
    sub { my ($h, $n, $v) = (headers(), name(), value()); (sub { Plack::Util::header_push($h, $n, $v) }, $h) },
    (sub { my ($h, $n) = (headers(), name()); (sub { Plack::Util::header_remove($h, $n) }, $h) }) x 2,
    sub { my $h = headers(); (sub { Plack::Util::header_remove($h, $h->[0]) }, $h) },
    sub { my $h = headers(); my @seen; (sub { Plack::Util::header_iter($h, sub { push @seen, [@_]; push @$h, 'x' if @$h < 20; $_[1] = 'changed' }) }, \@seen, $h) },
    sub {
        my ($h, $n, $v) = (headers(), name(), value());
        my $o = Plack::Util::headers($h);
        my $m = pick(qw(get exists remove set push headers iter nosuch));
        my @seen;
        my @arguments = $m eq 'set' || $m eq 'push' ? ($n, $v) : $m eq 'iter' ? (sub { push @seen, @_; return 5 }) : $m eq 'headers' ? () : ($n);
        (sub { $o->$m(@arguments) }, $h, \@seen, sort keys %$o);
    },
    sub { my $h = headers(); (sub { my $o = Plack::Util::headers($h); my @can = map { ref $o->can($_) } qw(get set nosuch); [ ref $o, \@can, ref $o->{get} ] }) },
    sub { my @a = (get => sub { [@_] }, pick('b', 'get', undef, "\x{263a}"), pick(sub { wantarray }, 'text', undef)); pop @a if chance(9); sub { my $o = Plack::Util::inline_object(@a); [ ref $o, [ sort keys %$o ], $o->get(1, 2) ] } },
    sub { my @a = (ctx => sub { wantarray ? 'list' : defined wantarray ? 'scalar' : 'void' }, dies => sub { die "dead\n" }, scalar => 'text'); my $m = pick(qw(ctx dies scalar nosuch)); sub { Plack::Util::inline_object(@a)->$m('a') } },
    sub { my $b = body(); sub { Plack::Util::content_length($b) } },
    sub { my ($b, @seen) = (body()); (sub { Plack::Util::foreach($b, sub { push @seen, $_[0]; push @$b, 'more' if ref $b eq 'ARRAY' && @$b == 1; return }); return }, \@seen, $b) },
    sub { my ($b, @seen) = (body()); (sub { Plack::Util::foreach($b, sub { push @seen, $_[0] }) }, \@seen) },
    sub { my $s = pick(100, 199, 200, 204, 304, 404, '204', '304x', undef, 204.0, 'text'); sub { Plack::Util::status_with_no_entity_body($s) } },
    sub {
        my @seen;
        my $answer = [ 200, headers(), body() ];
        pop @$answer if chance(6);
        my $f  = filter(\@seen);
        my $cb = pick(sub { push @seen, @_; return }, sub { return $f }, sub { return $f }, sub { $_[0][0] = 404; return 'text' }, sub { @{ $_[0] } = (500, [ 'content-length' => 1, A => 2 ], [ 'x', 'y' ]); return $f }, Counting->new, undef, 'text');
        (sub {
            my $got = Plack::Util::response_cb($answer, $cb);
            my $again = ref $got eq 'ARRAY' && ref $got->[2] && ref $got->[2] ne 'ARRAY' && eval { $got->[2]->can('getline') } && [ map { $got->[2]->getline } 1 .. 3 ];
            [ ref $got eq 'ARRAY' && $got == $answer, @{$got}[ 0, 1 ], ref $got->[2] eq 'Plack::Util::Prototype' ? 'object' : $got->[2], $again ];
        }, \@seen);
    },
    sub {
        my @seen;
        my $f       = filter(\@seen);
        my $answer  = [ 200, headers(), chance(2) ? body() : () ];
        my $delayed = sub { my $respond = shift; my $w = $respond->($answer); if ($w && @$answer == 2) { $w->write('a'); $w->write('b'); $w->close } return };
        my $cb      = pick(sub { return }, sub { return $f });
        my $respond = sub { push @seen, $_[0][0], $_[0][1]; return Plack::Util::inline_object(write => sub { push @seen, write => @_ }, close => sub { push @seen, 'close' }) };
        (sub { my $got = Plack::Util::response_cb($delayed, $cb); $got->($respond); return ref $got }, \@seen);
    },
    sub { my $r = pick(undef, 'text', {}, 42); sub { Plack::Util::response_cb($r, sub { die }) } },
    sub { my $app = Adds->wrap(sub { return [ 200, [ A => 1 ], ['x'] ] }); sub { [ ref $app, $app->({}) ] } },
    sub { my $m = Adds->new; my @a = (sub { [ 200, [ $_[0]{x} ], [] ] }); sub { my $app = $m->wrap(@a); $app->({ x => 5 }) } },
);

sub case {
    my @seen;
    for (1 .. 4) {
        my ($call, @watched) = pick(@functions)->();
        push @seen, attempt($call), @watched;
    }
    return \@seen;
}

same_with_and_without(name => 'Plack::Util', areas => ['Util'], count => 3_000, case => \&case);

is_deeply { map { $_->{module} => $_->{state} } Hydrofoil::Accelerate->status }, { 'Plack::Component' => 'accelerated', 'Plack::Util' => 'accelerated' },
  'all of it is accelerated';

{
    my @freed;
    sub Notes::DESTROY { push @freed, $_[0][0] }
    my $list = [ A => 1, B => bless([ 'b' ], 'Notes'), A => 2, C => bless([ 'c' ], 'Notes') ];
    Plack::Util::header_remove($list, 'b');
    is_deeply \@freed, ['b'], 'what is removed is freed';
    is_deeply [ @{$list}[ 0 .. 4 ] ], [ A => 1, A => 2, 'C' ], '... and the rest is there';
    undef $list;
    is_deeply \@freed, [ 'b', 'c' ], '... until the list is freed';
}
{
    my $freed = 0;
    sub Freed::DESTROY { $freed++ }
    my $headers = [ A => 1 ];
    {
        my $object = Plack::Util::headers($headers);
        $object->{get} = undef;
        is $object->exists('a'), 1, 'an object of headers does what it can';
    }
    push @$headers, B => bless([], 'Freed');
    { my $object = Plack::Util::headers($headers); undef $headers; is $freed, 0, 'it keeps the headers' }
    is $freed, 1, '... and lets them go';
}
sub with_arguments { Plack::Util::header_remove(\@_, 'x-a'); return [@_] }
is_deeply with_arguments('X-A' => 1, 'X-B' => 2), [ 'X-B' => 2 ], 'headers in @_';

no_leak('header functions and callbacks', 20_000, sub {
    my $h = [ 'Content-Length' => 5, 'X-A' => 1, 'X-A' => 2 ];
    Plack::Util::header_set($h, 'x-a', 3);
    Plack::Util::header_push($h, 'X-B', 4);
    my @got = (Plack::Util::header_get($h, 'x-a'), Plack::Util::header_exists($h, 'x-b'), Plack::Util::content_length([ 'a', 'b' ]));
    my $o = Plack::Util::headers($h);
    $o->set(a => 1);
    $o->remove('a');
    my $answer = Plack::Util::response_cb([ 200, $h, [ 'a', 'b' ] ], sub { sub { $_[0] } });
    Plack::Util::header_iter($h, sub { });
    Plack::Util::foreach([ 'a' ], sub { });
});

done_testing;
