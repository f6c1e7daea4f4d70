# The documents speak of options, files and command lines that exist.
use strict;
use warnings;

use File::Basename qw(dirname);
use File::Spec;
use Hydrofoil::Options;
use Plack::Runner;
use Test::More;

my $root = File::Spec->catdir(dirname(__FILE__), File::Spec->updir);

sub slurp {
    open my $in, '<', File::Spec->catfile($root, @_) or die "@_: $!";
    local $/;
    return scalar <$in>;
}

my @documents = grep { -e File::Spec->catfile($root, $_) } qw(README.md ARCHITECTURE.md docs/operating.md);
my %text      = map { $_ => slurp($_) } @documents;
my %known     = map { $_ => 1 } map { @{ $_->{names} } } Hydrofoil::Options->specs;

sub is_known {
    my $option = shift;
    return $known{$option} || $option =~ /^(?:no|disable|enable)-(.+)/ && $known{$1};
}

subtest 'README has a row for each option of the server' => sub {
    my ($table) = $text{'README.md'} =~ /^### Options\n(.*?)^## /ms;
    my @cells   = map { /^\| (.*?) \|/ ? $1 : () } split /\n/, $table;
    my %listed  = map { $_ => 1 } map { /`--([\w-]+)`/g } @cells;
    is_deeply [ grep { !is_known($_) } sort keys %listed ], [], 'no row names an option that there is not';
    for my $spec (grep { !$_->{plack} } Hydrofoil::Options->specs) {
        my $name = $spec->{names}[0];
        ok $listed{$name} || $listed{"disable-$name"} || $listed{"no-$name"}, "--$name is there";
    }
};

subtest 'the other documents name options that there are' => sub {
    for my $document (grep { $_ ne 'README.md' } @documents) {
        my %named = map { $_ => 1 } $text{$document} =~ /`--([a-z-]+)`/g;
        is_deeply [ grep { !is_known($_) } sort keys %named ], [], $document;
    }
};

subtest 'the command lines of README are ones that the server takes' => sub {
    my @lines = map { /^ {4}(?:start_server .*? -- )?((?:hydrofoil|plackup .*-s Hydrofoil) .*?)\s*(?:#.*)?$/ ? $1 : () }
        split /\n/, $text{'README.md'};
    ok @lines > 8, scalar(@lines) . ' of them';

    for my $line (@lines) {
        my ($command, @words) = map { s/^'(.*)'$/$1/s ? $_ : $_ } $line =~ /'[^']*'|[^\s']+/g;
        my $done = eval {
            if ($command eq 'hydrofoil') {
                Hydrofoil::Options->settings(Hydrofoil::Options->parse_argv(@words)->{given});
            }
            else {
                my $runner = Plack::Runner->new;
                $runner->parse_options(@words);
                my @pairs = @{ $runner->{options} };
                Hydrofoil::Options->from_pairs(@pairs);
            }
            1;
        };
        ok $done, $line or diag $@;
    }
};

subtest 'links lead to files that are there' => sub {
    for my $document (@documents) {
        my $folder = dirname($document);
        my @missing = grep { !-e File::Spec->catfile($root, $folder, $_) }
            grep { !/^https?:/ } $text{$document} =~ /\]\(([^)#]+)\)/g;
        is_deeply \@missing, [], $document;
    }
};

done_testing;
