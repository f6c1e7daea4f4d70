package GuestBook;
use Moose;
use namespace::autoclean;
use Catalyst qw(Static::Simple);

extends 'Catalyst';

__PACKAGE__->config(
    name => 'GuestBook',
    home => $ENV{HYDROFOIL_TEST_APPDIR},
    root => "$ENV{HYDROFOIL_TEST_APPDIR}/root",
    encoding => 'UTF-8',
    'Plugin::Static::Simple' => {dirs => ['static'], debug => 0, logging => 0},
);
__PACKAGE__->log(Catalyst::Log->new('fatal'));
__PACKAGE__->setup;

1;
