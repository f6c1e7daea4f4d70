# for t/supervisor_crash.t, before done_testing (needs on_drain.patch):
subtest 'a worker that leaves but still has a slow client is replaced meanwhile' => sub {
    my $file   = write_file("$dir/big.psgi", 'sub { [ 200, [], [ $_[0]{PATH_INFO} eq "/big" ? "x" x 20_000_000 : $$ ] ] }');
    my $server = start('-w', 1, '--max-requests', 1, $file);
    my $port   = $server->port;
    my $slow   = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die $!;
    my ($old)  = $server->wait_for_workers(1);
    print {$slow} "GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n";
    sysread $slow, my $first, 1;
    like get($port), qr/^\d+$/, 'another worker answers';
    ok is_alive($old), 'while the old one is still sending';
    my $length = 1;
    while (my $n = sysread $slow, my $bytes, 65536) { $length += $n }
    cmp_ok $length, '>', 20_000_000, 'all of it';
    is $server->stop, 0, 'exit code';
};
