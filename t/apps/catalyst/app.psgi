# The same guest book in Catalyst.
use lib "$ENV{HYDROFOIL_TEST_APPDIR}/lib";
require GuestBook;
GuestBook->psgi_app;
