# A file handle as the body. HF_BENCH_FILE names the file, HF_BENCH_FILE_SIZE its size in bytes.
use strict;
use warnings;

my ($path, $size) = @ENV{qw(HF_BENCH_FILE HF_BENCH_FILE_SIZE)};

sub {
    open my $file, '<:raw', $path or return [500, ['Content-Type' => 'text/plain'], ["$path: $!\n"]];
    return [200, ['Content-Type' => 'application/octet-stream', 'Content-Length' => $size], $file];
}
