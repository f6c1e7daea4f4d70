# Answers with what it was asked: "METHOD REQUEST_URI" and, after a line end, the request's body.
my $echo = sub {
    my $env = shift;
    record("$env->{REQUEST_METHOD} $env->{REQUEST_URI}");
    return [200, ['Content-Type' => 'text/plain'], [$$]] if $env->{PATH_INFO} eq '/pid';
    my $body = '';
    while ($env->{'psgi.input'}->read(my $piece, 65_536)) { $body .= $piece }
    return [200, ['Content-Type' => 'text/plain'], ["$env->{REQUEST_METHOD} $env->{REQUEST_URI}\n", $body]];
};
$echo;
