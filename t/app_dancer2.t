use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Hydrofoil::Test::GuestBook;

# A real application in Dancer2, as its users would use it.

test_guest_book(dancer2 => 'Dancer2');
