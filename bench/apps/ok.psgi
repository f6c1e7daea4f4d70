# As short as an application gets.
sub { [200, [], ['OK']] }
