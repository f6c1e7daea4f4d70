package HydroBench::Serialize;
use strict;
use warnings;
use Net::Server::PreForkSimple;

# starman -MHydroBench::Serialize=HOW: a lock around accept(2), or none (HOW is flock, semaphore, pipe or none, as in
# Net::Server). Starman has no option for it.
sub import {
    my ($class, $how) = @_;
    return unless defined $how;
    my $bound = \&Net::Server::PreForkSimple::post_bind;
    no warnings 'redefine';
    *Net::Server::PreForkSimple::post_bind = sub {
        $_[0]{server}{serialize} = $how;
        goto &$bound;
    };
    return;
}

1;
__END__

=head1 NAME

HydroBench::Serialize - chooses how the workers of Starman take turns to accept connections

=cut
