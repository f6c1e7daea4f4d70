package GuestBook;
use Moose;
use namespace::autoclean;
use Catalyst;

extends 'Catalyst';

__PACKAGE__->config(
    name => 'GuestBook',
    home => $ENV{HYDROFOIL_TEST_APPDIR},
    root => "$ENV{HYDROFOIL_TEST_APPDIR}/root",
    encoding => 'UTF-8',
);
__PACKAGE__->log(Catalyst::Log->new('fatal'));
__PACKAGE__->setup;

1;
