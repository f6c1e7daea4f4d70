# The same file as file.psgi from an object that is no file to a server: it has getline, and no descriptor.
use strict;
use warnings;

my ($path, $size) = @ENV{qw(HF_BENCH_FILE HF_BENCH_FILE_SIZE)};

{
    package HydroBench::Lines;

    sub getline {
        my ($self) = @_;
        my $got = sysread $self->{file}, my $bytes, 65_536;
        return $got ? $bytes : undef;
    }

    sub close { close $_[0]{file} }
}

sub {
    open my $file, '<:raw', $path or return [500, ['Content-Type' => 'text/plain'], ["$path: $!\n"]];
    my $lines = bless { file => $file }, 'HydroBench::Lines';
    return [200, ['Content-Type' => 'application/octet-stream', 'Content-Length' => $size], $lines];
}
