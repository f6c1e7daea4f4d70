# The same guest book in Catalyst.
use lib "$ENV{HYDROFOIL_TEST_APPDIR}/lib";
require GuestBook;
require Plack::Middleware::Static;
Plack::Middleware::Static->wrap(GuestBook->psgi_app, path => qr{^/static/}, root => "$ENV{HYDROFOIL_TEST_APPDIR}/root");
