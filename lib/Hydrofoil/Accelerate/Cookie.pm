package Hydrofoil::Accelerate::Cookie;
use strict;
use warnings;

# Cookie::Baker's crush_cookie is its pp_crush_cookie, or that of Cookie::Baker::XS if it is installed.
sub modules {
    return (
        'Cookie::Baker'     => { versions => [ '0.11', '0.12' ], replace => \&_of_baker },
        # 0.11 keeps spaces around "=", and reads beyond the ends of short values.
        'Cookie::Baker::XS' => { versions => ['0.12'], replace => { crush_cookie => \&xs_crush_cookie } },
    );
}

# 0.12 knows "partitioned", and makes what has SameSite=None secure.
sub _of_baker {
    my $version = shift;

    my %subs = (pp_crush_cookie => \&crush_cookie);
    $subs{bake_cookie} = $version eq '0.11' ? \&bake_cookie : \&bake_cookie_since_0_12 if _escapes_as_known();
    return \%subs;
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

__END__

=head1 NAME

Hydrofoil::Accelerate::Cookie - Cookie::Baker in C

=head1 SYNOPSIS

    use Hydrofoil::Accelerate only => ['Cookie'];

=head1 DESCRIPTION

Which subs of L<Cookie::Baker> run in C (bake_cookie and crush_cookie), and the versions that this was proven with.
L<Hydrofoil::Accelerate> puts them into place.

=cut
