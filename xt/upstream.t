use strict;
use warnings;
use Cwd qw(getcwd);
use File::Basename qw(basename dirname);
use File::Find ();
use File::Path qw(make_path remove_tree);
use FindBin;
use IPC::Open3 ();
use TAP::Harness;
use Test::More;

# What the modules that are accelerated promise is in their own tests. These come from Debian's source packages of just
# the versions that are installed, and run twice: as they are, and with the accelerator. A file that passes the first
# time passes the second time.
#
#   prove -b xt/upstream.t
#   prove -b xt/upstream.t :: libplack-perl t/Plack-Request      only these packages, and files with this in their path
#
# HYDROFOIL_UPSTREAM, a directory, has the sources already: PACKAGE_VERSION.dsc and what it names. Without Debian's part of
# them, which mirrors drop first, PACKAGE_VERSION.orig.tar.gz does. JOBS: files at a time (default 2).

my $root = dirname($FindBin::Bin);
my $keep = "$root/build/upstream";
my @packages = qw(
    libplack-perl libhttp-headers-fast-perl libhash-multivalue-perl libwww-form-urlencoded-perl
    libhttp-entity-parser-perl libhttp-multipartparser-perl libcookie-baker-perl libapache-logformat-compiler-perl
);

my %chosen = map { $_ => 1 } grep {/^lib.+-perl\z/} @ARGV;
my @paths = grep { !/^lib.+-perl\z/ } @ARGV;
@packages = grep { $chosen{$_} } @packages if %chosen;

for my $program (qw(apt-get dpkg-query dpkg-source timeout)) {
    plan skip_all => "needs $program, of Debian" if !grep { -x "$_/$program" } split /:/, $ENV{PATH};
}
-e "$root/blib/arch/auto/Hydrofoil/Accelerate/Accelerate.so" or plan skip_all => 'build first: script/build';

# ---- getting the sources ----

sub output_of {
    my @command = @_;
    open my $null, '<', '/dev/null' or die $!;
    my $pid = IPC::Open3::open3('<&' . fileno $null, my $out, undef, @command);
    my $text = do { local $/; <$out> };
    waitpid $pid, 0;
    return ($? == 0, defined $text ? $text : '');
}

# apt with lists of its own: the system's sources as deb-src. What the system has set up otherwise holds.
my @apt;

sub apt {
    my @arguments = @_;
    if (!@apt) {
        my $dir = "$keep/apt";
        make_path("$dir/sources", "$dir/lists/partial", "$dir/cache/archives/partial");
        my ($ok, $config) = output_of('apt-config', 'shell', 'LIST', 'Dir::Etc::sourcelist/f', 'PARTS', 'Dir::Etc::sourceparts/d');
        my ($list)  = $config =~ /^LIST='(.*)'/m;
        my ($parts) = $config =~ /^PARTS='(.*)'/m;
        my $number = 0;
        for my $file (grep { defined && -f } $list, defined $parts ? (glob("$parts/*.list"), glob("$parts/*.sources")) : ()) {
            my $text = do { local (@ARGV, $/) = $file; <> };
            my ($kind) = $file =~ /\.(list|sources)\z/;
            if   ($kind eq 'sources') { $text =~ s/^Types:.*$/Types: deb-src/mg }
            else                      { $text = join '', map {"$_\n"} map { s/^\s*deb(?=\s)/deb-src/ ? $_ : () } split /\n/, $text }
            open my $copy, '>', "$dir/sources/" . $number++ . ".$kind" or die "$dir: $!";
            print {$copy} $text;
            close $copy or die "$dir: $!";
        }
        return (0, 'the system names no sources of packages') if !$number;
        @apt = (
            'apt-get', '-q', map { ('-o', $_) } 'Dir::Etc::sourcelist=/dev/null', "Dir::Etc::sourceparts=$dir/sources",
            "Dir::State::lists=$dir/lists", "Dir::Cache=$dir/cache", 'Dir::Cache::pkgcache=', 'Dir::Cache::srcpkgcache=',
            'Acquire::Retries=2', 'Acquire::Languages=none', $> == 0 ? 'APT::Sandbox::User=root' : (),
        );
        my $why;
        ($ok, $why) = output_of(@apt, 'update');
        return (0, "apt-get update: $why") if !$ok;
    }
    return output_of(@apt, @arguments);
}

# The directory with the sources of the version that is installed, or undef and why not.
sub sources_of {
    my $package = shift;

    my ($ok, $answer) = output_of('dpkg-query', '-W', '-f', '${db:Status-Status} ${source:Package} ${source:Version}', $package);
    my ($source, $version) = $ok ? $answer =~ /^installed (\S+) (\S+)\z/ : ();
    return (undef, 'is not installed from a package') if !defined $version;

    (my $name = "${source}_$version") =~ s/_\d+:/_/;
    my $tree = "$keep/$name";
    return $tree if -d "$tree/t";

    my $from = defined $ENV{HYDROFOIL_UPSTREAM} ? $ENV{HYDROFOIL_UPSTREAM} : $keep;
    (my $original = "$from/$name") =~ s/-[^-]*\z/.orig.tar.gz/;
    my $why = "$from/$name.dsc is not there";
    if (!-e "$from/$name.dsc" && !defined $ENV{HYDROFOIL_UPSTREAM}) {
        my $here = getcwd();
        make_path($keep);
        chdir $keep or die "$keep: $!";
        (my $got, $why) = apt('source', '--download-only', "$source=$version");
        chdir $here or die "$here: $!";
    }
    remove_tree($tree);
    if (-e "$from/$name.dsc") {
        ($ok, $why) = output_of('dpkg-source', '--no-check', '-x', "$from/$name.dsc", $tree);
    }
    return $tree if -d "$tree/t";
    return (undef, "has no source: $why") if !-e $original;
    make_path($tree);
    ($ok, $why) = output_of('tar', '-xzf', $original, '-C', $tree, '--strip-components=1');
    return (undef, "cannot unpack its source: $why") if !$ok;
    return (undef, 'has no tests') if !-d "$tree/t";
    return $tree;
}

# ---- running the tests ----

my @with = ("$root/lib", "$root/blib/arch");

# file => { ok, tests, why }. The modules are those that are installed, not the ones beside the tests.
sub run {
    my ($accelerated, @files) = @_;

    local $ENV{PERL5LIB} = join ':', $accelerated ? @with : (), defined $ENV{PERL5LIB} ? $ENV{PERL5LIB} : ();
    local $ENV{PERL5OPT} = $accelerated ? '-MHydrofoil::Accelerate' : '';
    local $ENV{HARNESS_ACTIVE}     = 1;
    local $ENV{AUTOMATED_TESTING}  = 1;
    local $ENV{NO_NETWORK_TESTING} = 1;
    local $ENV{PLACK_ENV};
    delete local $ENV{HYDROFOIL_DEVEL};
    open my $silence, '>', '/dev/null' or die $!;
    my $harness = TAP::Harness->new({
        verbosity => -3, jobs => $ENV{JOBS} || 2, stdout => $silence, merge => 1, exec => [ 'timeout', '-k', 5, 120, $^X ],
    });
    my (%result, %failed);
    $harness->callback(
        made_parser => sub {
            my ($parser, $job) = @_;
            my $file = ref $job eq 'ARRAY' ? $job->[1] : $job->description;
            my @last;
            $parser->callback(ALL => sub { push @last, $_[0]->raw if $_[0]->raw =~ /^\s*(?:not ok|#)|^[^\s\do1]/; shift @last if @last > 30 });
            $failed{$file} = \@last;
        });
    my $aggregate = $harness->runtests(@files);
    for my $parser_name ($aggregate->descriptions) {
        my ($parser) = $aggregate->parsers($parser_name);
        $result{$parser_name} = {
            ok    => !$parser->has_problems,
            tests => scalar $parser->passed,
            why   => join("\n", @{ $failed{$parser_name} || [] }),
            skip  => $parser->skip_all,
        };
    }
    return \%result;
}

sub tests_in {
    my $tree = shift;
    my @files;
    File::Find::find({ no_chdir => 1, wanted => sub { push @files, substr $_, 1 + length $tree if /\.t\z/ } }, "$tree/t");
    @files = grep { my $file = $_; grep { index($file, $_) >= 0 } @paths } @files if @paths;
    return sort @files;
}

{
    local $ENV{PERL5LIB} = join ':', @with;
    local $ENV{PERL5OPT} = '-MHydrofoil::Accelerate';
    my ($ok, $status) = output_of($^X, '-e', 'print scalar Hydrofoil::Accelerate->status');
    ok $ok && $status =~ /accelerated/, 'the accelerator is there' or diag $status;
    note $status;
}

my $here = getcwd();
for my $package (@packages) {
    my ($tree, $why) = sources_of($package);
    if (!$tree) {
        $why =~ s/\s+/ /g;
        SKIP: { skip "$package $why", 1 }
        next;
    }
    subtest basename($tree) => sub {
        my @files = tests_in($tree);
        plan skip_all => 'no such tests' if !@files;
        chdir $tree or die "$tree: $!";
        my $without = run(0, @files);
        my $with = run(1, @files);
        chdir $here or die "$here: $!";

        my (%count, @lost);
        for my $file (@files) {
            my ($before, $now) = ($without->{$file}, $with->{$file});
            if (!$before->{ok}) {
                $count{ $now->{ok} ? 'fail only without' : 'fail either way' }++;
                diag "$package: $file fails without the accelerator" . ($now->{ok} ? ', and passes with it' : ' too');
                diag $before->{why} if $ENV{TEST_VERBOSE};
                next;
            }
            $count{ $before->{skip} ? 'skipped' : 'pass' }++;
            if (!ok $now->{ok}, $before->{skip} ? "$file (skipped: $before->{skip})" : $file) {
                diag $now->{why};
                next;
            }
            if ($now->{skip} && !$before->{skip}) {
                diag "$package: $file skips itself with the accelerator: $now->{skip}";
                next;
            }
            is $now->{tests}, $before->{tests}, "$file: as many tests" if $now->{tests} != $before->{tests};
        }
        note join ', ', map {"$count{$_} $_"} sort keys %count;
        diag "$package: " . join ', ', map {"$count{$_} $_"} sort keys %count;
        pass 'no test passes without the accelerator' if !$count{pass} && !$count{skipped};
        done_testing;
    };
}

done_testing;
