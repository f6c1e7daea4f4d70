use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Hydrofoil::Test::GuestBook;

# A real application in Mojolicious, as its users would use it.

test_guest_book(mojolicious => 'Mojolicious');
