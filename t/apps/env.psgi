# Answers with the request's environment as JSON: strings as they are, references as their type. A CONNECT is answered
# with 405, because its 2xx has no body.
use JSON::PP ();
my $env_app = sub {
    my $env = shift;
    return [200, ['Content-Type' => 'text/plain'], [$$]] if $env->{PATH_INFO} eq '/pid';
    my %plain = map { $_ => ref $env->{$_} ? 'ref ' . ref $env->{$_} : $env->{$_} } keys %$env;
    my $json = JSON::PP->new->latin1->canonical->encode(\%plain);
    return [$env->{REQUEST_METHOD} eq 'CONNECT' ? 405 : 200, ['Content-Type' => 'application/json'], [$json]];
};
$env_app;
