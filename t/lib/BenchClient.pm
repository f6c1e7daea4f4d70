package BenchClient;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(client_path program);

# A client with the command line and the output of wrk: 200 requests, one after the other, on one connection while it lasts.
my $WRK = <<'PERL';
use strict; use warnings; use IO::Socket::INET;
my ($port) = "@ARGV" =~ m{http://127\.0\.0\.1:(\d+)/} or die "no url: @ARGV\n";
my ($requests, $bad, $reads, $bytes, $socket) = (0, 0, 0, 0);
$SIG{PIPE} = 'IGNORE';
for (1 .. 200) {
    $socket ||= IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 5) or last;
    syswrite $socket, "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    my $answer = '';
    until ($answer =~ /\A.*?\r\n\r\n/s && length($answer) - $+[0] >= ($answer =~ /Content-Length: (\d+)/)[0]) {
        sysread $socket, $answer, 65536, length $answer or last;
    }
    if ($answer !~ m{\AHTTP/1.1 (\d)}) { $reads++; undef $socket; next }
    $requests++;
    $bytes += length $answer;
    $bad++ if $1 ne '2';
}
printf "  %d requests in 1.00s, %.2fKB read\n", $requests, $bytes / 1024;
print "  Socket errors: connect 0, read $reads, write 0, timeout 0\n" if $reads;
print "  Non-2xx or 3xx responses: $bad\n" if $bad;
printf "Requests/sec: %d.00\n", $requests;
PERL

# A PATH in which that client, written into $dir, is what wrk is.
sub client_path {
    my ($dir) = @_;
    mkdir "$dir/bin" or die "$dir/bin: $!";
    program("$dir/bin/wrk", $WRK);
    return "$dir/bin:$ENV{PATH}";
}

# Writes a Perl program that can be run.
sub program {
    my ($path, $code) = @_;
    open my $file, '>', $path or die "$path: $!";
    print {$file} "#!$^X\n$code";
    close $file or die "$path: $!";
    chmod 0755, $path or die "$path: $!";
    return;
}

1;
