# A few pages for clients of all kinds.
my @text = ('Content-Type' => 'text/plain');
my $large = 'x' x 3_000_000;
my %page = (
    '/pid' => sub { [200, [@text], [$$]] },
    '/' => sub { [200, [@text], ['Hello World']] },
    '/echo' => sub {
        my $env = shift;
        my $body = '';
        while ($env->{'psgi.input'}->read(my $piece, 65_536)) { $body .= $piece }
        [200, [@text], ["$env->{REQUEST_METHOD} $env->{REQUEST_URI}\n", $body]];
    },
    '/version' => sub { [200, [@text], [$_[0]{SERVER_PROTOCOL}]] },
    '/port' => sub { [200, [@text], [$_[0]{REMOTE_PORT}]] },
    '/stream' => sub { sub { my $w = $_[0]->([200, [@text]]); $w->write("part $_\n") for 1 .. 10; $w->close } },
    '/large' => sub { [200, [@text], [$large]] },
    '/204' => sub { [204, [], []] },
    '/redirect' => sub { [302, [@text, Location => '/echo?redirected'], ['elsewhere']] },
    '/hints' => sub { $_[0]{'psgix.informational'}->(103, [Link => '</style.css>; rel=preload']); [200, [@text], ['hinted']] },
    '/dies' => sub { die "the application dies\n" },
);
my $clients_app = sub { my $env = shift; ($page{ $env->{PATH_INFO} } || sub { [404, [@text], ['no such page']] })->($env) };
$clients_app;
