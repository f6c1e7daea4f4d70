use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../blib/arch", "$FindBin::Bin/../blib/lib";
use Test::More;
use Plack::Test::Suite;

# Plack's own suite for servers, as Plack::Loader starts them.

Plack::Test::Suite->run_server_tests('Hydrofoil', undef, undef, workers => 1, quiet => 1);

done_testing;
