use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use Hydrofoil ();
use Hydrofoil::Accelerate ();
use Hydrofoil::TestProcess qw(free_port hydrofoil plackup get write_file $ROOT);
use Test::More;

# What perl prints, with the built modules; messages on standard error are part of it.
sub perl {
    my ($code, %env) = @_;
    local @ENV{ keys %env } = values %env;
    my @inc = map { "-I$_" } grep { !ref } @INC;
    open my $out, '-|', $^X, '-e', 'open STDERR, ">&STDOUT"; exec @ARGV', '--', $^X, @inc, '-we', $code or die $!;
    local $/;
    my $text = <$out>;
    # What is installed here beside WWW::Form::UrlEncoded may be of another version.
    $text =~ s/^Hydrofoil::Accelerate: (?!WWW::)\S+ \S+ is left as it is: .*\n//mg;
    return $text;
}

sub is_ours { my $code = shift; return "B::svref_2object($code)->XSUB && B::svref_2object($code)->GV->STASH->NAME =~ /^Hydrofoil/ ? 'ours' : 'original'" }

my $parse = is_ours('\&WWW::Form::UrlEncoded::PP::parse_urlencoded');

subtest 'the toolkit has the version of the server' => sub {
    is $Hydrofoil::Accelerate::VERSION, $Hydrofoil::VERSION, 'version';
};

subtest 'it works whether it is loaded before or after the modules' => sub {
    my $used = is_ours('\&main::parse_urlencoded');
    my $import = 'use B; BEGIN { $ENV{WWW_FORM_URLENCODED_PP} = 1 } ';
    is perl("$import use Hydrofoil::Accelerate; use WWW::Form::UrlEncoded qw(parse_urlencoded); print $used"), 'ours', 'before';
    is perl("$import use WWW::Form::UrlEncoded qw(parse_urlencoded); use Hydrofoil::Accelerate; print $used"), 'ours', 'after';
    is perl("$import use WWW::Form::UrlEncoded qw(parse_urlencoded); sub f { parse_urlencoded(' a') } f();
        require Hydrofoil::Accelerate; Hydrofoil::Accelerate->load; print \$used = $used; our \$used"), 'ours', 'after it was called';
};

subtest 'a program that only requires it stays as it is' => sub {
    is perl("use B; use WWW::Form::UrlEncoded::PP; use Hydrofoil::Accelerate (); print $parse"), 'original', 'use with nothing to import';
};

subtest 'it can be limited, and undone' => sub {
    is perl("use B; use Hydrofoil::Accelerate only => []; use WWW::Form::UrlEncoded::PP; print $parse"), 'original', 'only these: none';
    is perl("use B; use Hydrofoil::Accelerate; print $parse, ' '; Hydrofoil::Accelerate->unload; print $parse, ' ',
        scalar(() = Hydrofoil::Accelerate->status), ' '; Hydrofoil::Accelerate->load; print $parse"), 'ours original 0 ours', 'loaded, unloaded, loaded';
};

subtest 'another version of a module is left alone, and that is said once' => sub {
    my $output = perl("use B; use WWW::Form::UrlEncoded; BEGIN { require WWW::Form::UrlEncoded::PP; \$WWW::Form::UrlEncoded::VERSION = '7.5' }
        use Hydrofoil::Accelerate only => ['UrlEncoded']; Hydrofoil::Accelerate->unload; Hydrofoil::Accelerate->load(only => ['UrlEncoded']);
        print $parse, qq{\\n}, scalar Hydrofoil::Accelerate->status");
    like $output, qr/^original$/m, 'left alone';
    is scalar(() = $output =~ /^Hydrofoil::Accelerate: WWW::Form::UrlEncoded::PP 7\.5 is left as it is: proven with [0-9., ]+$/mg), 1, 'said once';
    like $output, qr/^WWW::Form::UrlEncoded::PP 7\.5: another version$/m, 'and in the status';
};

subtest 'the manual says which versions these are' => sub {
    my $file = "$ROOT/lib/Hydrofoil/Accelerate.pm";
    open my $in, '<', $file or die "$file: $!";
    my ($section) = do { local $/; <$in> } =~ /^=head1 VERSIONS\n(.*?)^=head1/ms;
    my @table = $section =~ /^ {4}(\w+ +\w+(?:::\w+)+ +[0-9].*)$/mg;
    s/ +/ /g for @table;

    my @rows;
    for my $area (map {m{(\w+)\.pm\z}} glob "$ROOT/lib/Hydrofoil/Accelerate/*.pm") {
        require "Hydrofoil/Accelerate/$area.pm";
        my @modules = "Hydrofoil::Accelerate::$area"->modules;
        while (my ($module, $spec) = splice @modules, 0, 2) {
            my $of = defined $spec->{version} && $spec->{version} ne $module ? " of $spec->{version}" : '';
            push @rows, "$area $module " . join(', ', @{ $spec->{versions} }) . $of;
        }
    }
    my @by_others = grep {/MultiPart/} @table;    # which depends on the version of another module
    @rows = ((grep { !/MultiPart/ } @rows), @by_others) if !grep {/MultiPart/} @rows;
    is_deeply [ sort @table ], [ sort @rows ], 'the table and the code are the same';
    cmp_ok scalar @table, '>=', 15, 'and it is all there';
};

subtest 'a sub that something else has replaced is left alone' => sub {
    my $output = perl("use B; use WWW::Form::UrlEncoded; require WWW::Form::UrlEncoded::PP; no warnings;
        *WWW::Form::UrlEncoded::PP::parse_urlencoded = sub { 'mine' }; require Hydrofoil::Accelerate; Hydrofoil::Accelerate->load(only => ['UrlEncoded']);
        print WWW::Form::UrlEncoded::PP::parse_urlencoded('a=b'), qq{\\n}, scalar Hydrofoil::Accelerate->status");
    like $output, qr/^mine$/m, 'it is still there';
    like $output, qr/^Hydrofoil::Accelerate: WWW::Form::UrlEncoded::PP: left as they are, for something else has replaced them: parse_urlencoded$/m, 'said';
    like $output, qr/PP \S+: in part \(build_urlencoded build_urlencoded_utf8 parse_urlencoded_arrayref\)$/m, 'the others are ours';
};

subtest 'it needs no module that it accelerates' => sub {
    my $output = perl('BEGIN { unshift @INC, sub { die "no $_[1]\n" if $_[1] =~ m{^(?:WWW|Cookie|Hash|HTTP|Plack|Apache)/} } }
        use Hydrofoil::Accelerate; print map { "$_->{state}\n" } Hydrofoil::Accelerate->status');
    is join(' ', sort keys %{ { map { $_ => 1 } split /\n/, $output } }), 'not installed', 'not installed';
};

subtest 'an area that there is not is an error' => sub {
    like perl('use Hydrofoil::Accelerate only => ["Nothing"]'), qr/^there is no area Nothing, only: UrlEncoded.* at -e line 1/, 'it dies';
};

subtest 'the server does it with --accelerate' => sub {
    my $dir = tempdir(CLEANUP => 1);
    write_file("$dir/app.psgi", "use B; use WWW::Form::UrlEncoded::PP; sub { [ 200, [], [ $parse ] ] }");
    for my $case (
        [ original => \&hydrofoil ],
        [ ours => \&hydrofoil, '--accelerate' ],
        [ ours => \&hydrofoil, '--accelerate', '--no-preload-app' ],
        [ ours => \&plackup, '--accelerate=1', '-E', 'production' ],
    ) {
        my ($expected, $start, @options) = @$case;
        my $server = $start->('--host', '127.0.0.1', '--port', free_port(), '--workers=1', @options, '-a', "$dir/app.psgi");
        is get($server->port), $expected, "@options";
        is $server->stop, 0, 'and stops';
    }
};

done_testing;
