# The smallest answer there is: what remains is the server's own cost.
sub { [200, ['Content-Type' => 'text/plain', 'Content-Length' => 11], ['Hello World']] }
