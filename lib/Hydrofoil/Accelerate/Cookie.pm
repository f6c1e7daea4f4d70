package Hydrofoil::Accelerate::Cookie;
use strict;
use warnings;

# Cookie::Baker's crush_cookie is its pp_crush_cookie, or that of Cookie::Baker::XS if it is installed.
sub modules {
    my %baker = (pp_crush_cookie => \&crush_cookie);
    $baker{bake_cookie} = \&bake_cookie if _escapes_as_known();
    return (
        'Cookie::Baker'     => { versions => ['0.11'], replace => \%baker },
        'Cookie::Baker::XS' => { versions => ['0.12'], replace => { crush_cookie => \&xs_crush_cookie } },
    );
}

# What bake_cookie writes depends on URI::Escape, whose set of characters has changed before.
sub _escapes_as_known {
    my $bytes    = join '', map { chr } 0 .. 255;
    my $expected = join '', map { chr =~ /[A-Za-z0-9._~-]/ ? chr : sprintf '%%%02X', $_ } 0 .. 255;
    local $@;
    local $SIG{__DIE__};
    return eval { require URI::Escape; URI::Escape::uri_escape($bytes) eq $expected };
}

1;
