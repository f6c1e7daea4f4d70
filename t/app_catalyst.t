use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Hydrofoil::Test::GuestBook;

# A real application in Catalyst, as its users would use it.

test_guest_book(catalyst => 'Catalyst');
