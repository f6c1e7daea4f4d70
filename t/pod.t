# Every module and command that is installed has documentation that perldoc can show.
use strict;
use warnings;

use File::Basename qw(dirname);
use File::Find qw(find);
use File::Spec;
use Test::More;

plan skip_all => 'needs Test::Pod' if !eval { require Test::Pod; Test::Pod->VERSION('1.41'); 1 };

my $root = File::Spec->catdir(dirname(__FILE__), File::Spec->updir);
my @files = File::Spec->catfile($root, 'bin', 'hydrofoil');
find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.p(?:m|od)$/ } }, File::Spec->catdir($root, 'lib'));

for my $file (sort @files) {
    my $name = File::Spec->abs2rel($file, $root);
    Test::Pod::pod_file_ok($file, "$name: the POD is well-formed");

    open my $in, '<', $file or die "$file: $!";
    my %section = map { $_ => 1 } map { /^=head1 (.+?)\s*$/ ? $1 : () } <$in>;
    ok $section{$_}, "$name has $_" for qw(NAME SYNOPSIS);
}

done_testing;
