# Read by script/bootstrap where there are no Debian packages (cpanm --installdeps .)
requires 'perl', '5.016';
requires 'Plack', '1.0030';

on configure => sub {
    requires 'ExtUtils::MakeMaker', '6.64';
};

on test => sub {
    requires 'CGI::Emulate::PSGI', '0';
    requires 'Catalyst', '5.9';
    requires 'Dancer2', '0.2';
    requires 'HTTP::Message', '0';
    requires 'HTTP::Tiny', '0';
    requires 'LWP::UserAgent', '6';
    requires 'Mojolicious', '8.0';
    requires 'Server::Starter', '0.12';
    requires 'Test::More', '0.98';
    requires 'Test::TCP', '2.0';
};
