package Hydrofoil::Privileges;
use strict;
use warnings;
use POSIX ();
use Hydrofoil::Error qw(fail usage_error);

sub new {
    my ($class, %args) = @_;

    my $self = bless {}, $class;
    $self->_look_up_user($args{user})   if defined $args{user};
    $self->_look_up_group($args{group}) if defined $args{group};
    $self->_refuse_without_root;
    return $self;
}

sub uid { $_[0]{uid} }

# Groups first: without root's rights they could not be changed any more.
sub drop {
    my $self = shift;

    return if $> != 0;
    if (defined $self->{gid}) {
        my @groups = @{ $self->{groups} };
        $) = join ' ', $self->{gid}, @groups;
        POSIX::setgid($self->{gid}) or fail("--group: cannot change to group $self->{gid}: $!");
        fail('--group: the system refused the groups ' . join ', ', @groups)
            if _set($self->{gid}, @groups) ne _set(split ' ', $));
    }
    if ($self->{uid}) {
        POSIX::setuid($self->{uid}) or fail("--user: cannot change to user $self->{uid}: $!");
        fail('--user: root\'s rights could be had back') if POSIX::setuid(0);
        @ENV{qw(USER LOGNAME HOME)} = @$self{qw(name name home)};
    }
    return;
}

sub _look_up_user {
    my ($self, $user) = @_;

    my @entry = getpwnam $user;
    @entry = getpwuid $user if !@entry && $user =~ /^[0-9]+$/;
    usage_error("--user: there is no user '$user' here") if !@entry;
    @$self{qw(name uid gid home)} = @entry[ 0, 2, 3, 7 ];
    $self->{groups} = [ $self->{gid}, _groups_with($self->{name}) ];
    return;
}

sub _look_up_group {
    my ($self, $group) = @_;

    my @entry = getgrnam $group;
    @entry = getgrgid $group if !@entry && $group =~ /^[0-9]+$/;
    usage_error("--group: there is no group '$group' here") if !@entry;
    $self->{gid} = $entry[2];
    $self->{groups} = [ $self->{gid}, grep { $_ != $self->{gid} } @{ $self->{groups} || [] } ];
    return;
}

sub _set {
    my %numbers = map { $_ => 1 } @_;
    return join ' ', sort { $a <=> $b } keys %numbers;
}

sub _groups_with {
    my $name = shift;

    my @groups;
    while (my (undef, undef, $gid, $members) = getgrent) {
        push @groups, $gid if grep { $_ eq $name } split ' ', $members;
    }
    endgrent;
    return @groups;
}

sub _refuse_without_root {
    my $self = shift;

    return if $> == 0;
    usage_error('--user: only root can run workers as another user')
        if defined $self->{uid} && $self->{uid} != $>;
    usage_error('--group: only root can run workers as another group')
        if defined $self->{gid} && $self->{gid} != (split ' ', $))[0];
    return;
}

1;

__END__

=head1 NAME

Hydrofoil::Privileges - the user and the groups that workers run as

=head1 SYNOPSIS

    use Hydrofoil::Privileges;

    my $privileges = Hydrofoil::Privileges->new(user => 'www-data');
    # in a forked worker:
    $privileges->drop;

=head1 DESCRIPTION

The supervisor keeps root's rights, so that it can reopen the error log, remove
its pid file and socket files, and bind a socket for one worker more. It does
not read from the network. Workers drop theirs for good before they serve.

With preloading (the default) the application is compiled by the supervisor,
that is as root; with C<--no-preload-app> each worker compiles it as the user.

=head1 METHODS

=head2 new

    my $privileges = Hydrofoil::Privileges->new(user => $name, group => $name);

Looks names (or numbers) up. Both are optional. An unknown one, or one that this
process may not become, ends in L<Hydrofoil::Error/usage_error>.

The group is the user's own unless given; the supplementary groups are the
user's. A group without a user comes alone.

=head2 uid

The user's number, or undef.

=head2 drop

Sets the supplementary groups, the group and the user, in that order, makes
sure there is no way back, and sets C<USER>, C<LOGNAME> and C<HOME>. Nothing
happens without root's rights.

=cut
