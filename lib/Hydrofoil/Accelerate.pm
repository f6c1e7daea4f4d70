package Hydrofoil::Accelerate;
use 5.016;
use strict;
use warnings;
use B ();
use Carp ();
use Scalar::Util qw(refaddr set_prototype);
use XSLoader ();

our $VERSION = '0.01';

XSLoader::load('Hydrofoil::Accelerate', $VERSION);

# Each is a module Hydrofoil::Accelerate::NAME, whose "modules" says what it can replace:
#
#   sub modules {
#       return (
#           'Some::Module' => {
#               versions => ['0.11', '0.12'],          # that it was proven with
#               version  => 'Other::Module',           # optional: whose $VERSION counts
#               replace  => { name => \&xsub, ... },   # subs of Some::Module; or a sub that returns them for a version
#               from     => ['Another::Module'],       # optional: packages that the subs may come from
#               on       => sub { ... },               # optional: called when the subs have been replaced
#               off      => sub { ... },               # optional: called when they have been put back
#           },
#       );
#   }
my @AREAS = qw(UrlEncoded Cookie MultiValue Headers Response Util Entity Request AccessLog);

my %loaded;      # area => 1
my @modules;     # { area, module, version, state, subs } for status
my @replaced;    # [ glob, original, replacement, name ]
my %warned;

sub import {
    my ($class, @args) = @_;
    $class->load(@args);
    return;
}

sub unimport {
    my $class = shift;
    $class->unload;
    return;
}

sub load {
    my ($class, %args) = @_;

    my @there = grep { _is_there($_) } @AREAS;
    my @areas = $args{only} ? @{ $args{only} } : @there;
    for my $area (@areas) {
        Carp::croak("there is no area $area, only: @there") if !grep { $_ eq $area } @there;
    }
    my (%code, @on);
    for my $area (grep { !$loaded{$_} } @areas) {
        my $package = "Hydrofoil::Accelerate::$area";
        require "Hydrofoil/Accelerate/$area.pm";
        $loaded{$area} = 1;
        my @specs = $package->modules;
        while (my ($module, $spec) = splice @specs, 0, 2) {
            my $state = _prepare($module, $spec, \%code);
            push @modules, { area => $area, module => $module, version => _version($module, $spec), %$state };
            push @on, $spec->{on} if $spec->{on} && @{ $state->{subs} };
            $modules[-1]{off} = $spec->{off};
        }
    }
    _replace(\%code) if %code;
    $_->() for @on;
    return;
}

sub unload {
    for my $entry (reverse splice @replaced) {
        my ($glob, $original, $replacement, $name) = @$entry;
        my $now = *$glob{CODE};
        _assign($glob, $original) if $now && $now == $replacement;
    }
    my @done = splice @modules;
    %loaded = ();
    for my $module (@done) {
        $module->{off}->() if $module->{off} && @{ $module->{subs} };
    }
    return;
}

sub status {
    my @list = map { +{ %$_, subs => [ @{ $_->{subs} } ] } } @modules;
    delete $_->{off} for @list;
    return @list if wantarray;
    return join '', map {
        my $version = defined $_->{version} ? " $_->{version}" : '';
        "$_->{module}$version: $_->{state}" . (@{ $_->{subs} } ? ' (' . join(' ', @{ $_->{subs} }) . ')' : '') . "\n"
    } @list;
}

sub _is_there {
    my $area = shift;
    return grep { !ref && -e "$_/Hydrofoil/Accelerate/$area.pm" } @INC;
}

sub _version {
    my ($module, $spec) = @_;

    no strict 'refs';
    my $version = ${ ($spec->{version} || $module) . '::VERSION' };
    return defined $version ? "$version" : undef;
}

# Notes in %$code, by the address of the original, what is to be replaced by what.
sub _prepare {
    my ($module, $spec, $code) = @_;

    for my $name (defined $spec->{version} ? $spec->{version} : (), $module) {
        (my $file = "$name.pm") =~ s{::}{/}g;
        next if $INC{$file};
        my $there = do { local $@; local $SIG{__DIE__}; eval { require $file; 1 } };
        return { state => 'not installed', subs => [] } if !$there;
    }

    my $version = _version($module, $spec);
    if (!grep { defined $version && $_ eq $version } @{ $spec->{versions} }) {
        my $which = defined $version ? $version : 'without a version';
        _warn_once("$module $which is left as it is: proven with " . join(', ', @{ $spec->{versions} }));
        return { state => 'another version', subs => [] };
    }

    my $replace = ref $spec->{replace} eq 'CODE' ? $spec->{replace}->($version) : $spec->{replace};
    my (@subs, @foreign);
    for my $name (sort keys %$replace) {
        no strict 'refs';
        my $original = defined &{"$module\::$name"} ? \&{"$module\::$name"} : undef;
        if ($original && _is_original($original, $module, $spec)) {
            push @subs, $name;
            my $replacement = _as_replacement($replace->{$name}, $original);
            $code->{ refaddr $original } = [ $original, $replacement ];
            no warnings 'redefine';
            *{"Hydrofoil::Accelerate::Original::$module\::$name"} = $original;
        }
        else {
            push @foreign, $name;
        }
    }
    _warn_once("$module: left as they are, for something else has replaced them: @foreign") if @foreign;
    return { state => @foreign ? @subs ? 'in part' : 'replaced by something else' : 'accelerated', subs => \@subs };
}

sub _as_replacement {
    my ($replacement, $original) = @_;

    my $prototype = prototype $original;
    &set_prototype($replacement, $prototype) if defined $prototype;
    return $replacement;
}

# Does the sub come from the module's own file (or, written in C, from its package)?
sub _is_original {
    my ($code, $module, $spec) = @_;

    my $cv   = B::svref_2object($code);
    my @from = ($module, @{ $spec->{from} || [] });
    my $gv   = $cv->can('GV') && $cv->GV;
    return 0 if !$gv || !$gv->can('STASH');
    my $package = $gv->STASH->NAME;
    return 0 if !grep { $_ eq $package } @from;
    return 1 if $cv->XSUB;

    my $file = $cv->FILE;
    return 1 if $file =~ /^\(eval /;
    for my $name (@from) {
        (my $path = "$name.pm") =~ s{::}{/}g;
        return 1 if defined $INC{$path} && $INC{$path} eq $file || $file =~ m{(?:^|/)\Q$path\E\z};
    }
    return 0;
}

# Functions get around by export, and methods by aliases: a sub is replaced wherever a glob holds it.
sub _replace {
    my $code = shift;

    my %seen;
    my @packages = ('main::');
    while (defined(my $package = pop @packages)) {
        no strict 'refs';
        my $stash = \%{$package};
        next if $seen{ refaddr $stash }++ || $package =~ /^Hydrofoil::Accelerate::/;
        for my $name (keys %$stash) {
            my $full = $package eq 'main::' ? $name : "$package$name";
            if ($name =~ /::\z/) {
                push @packages, $full if $name ne 'main::';
                next;
            }
            my $entry = \$stash->{$name};
            next if ref $entry ne 'GLOB';
            my $now   = *{$entry}{CODE} or next;
            my $found = $code->{ refaddr $now } or next;
            push @replaced, [ $entry, @$found, $full ];
            _assign($entry, $found->[1]);
        }
    }
    return;
}

sub _assign {
    my ($glob, $code) = @_;

    no strict 'refs';
    no warnings qw(redefine prototype);
    *$glob = $code;
    return;
}

sub _warn_once {
    my $text = shift;
    warn "Hydrofoil::Accelerate: $text\n" if !$warned{$text}++;
    return;
}

1;

__END__

=head1 NAME

Hydrofoil::Accelerate - Plack's own modules in C, with the same results

=head1 SYNOPSIS

    hydrofoil --accelerate app.psgi
    plackup -s Hydrofoil --accelerate=1 app.psgi
    starman -MHydrofoil::Accelerate app.psgi

    use Hydrofoil::Accelerate;
    use Hydrofoil::Accelerate only => [qw(UrlEncoded Cookie)];

    print scalar Hydrofoil::Accelerate->status;
    Hydrofoil::Accelerate->unload;

=head1 DESCRIPTION

From C<use> on, subs of modules that Plack applications spend their time in run in
C, under any server: also for code that was compiled, or has imported them,
before. What they return is what the originals return, and a call that is out of
the ordinary (a tied hash, an object with overloading, a subclass that overrides
what is underneath) is handed to the original.

A module is accelerated in the versions that this was proven with. Another version
is left as it is, and so is a sub that something else has replaced; either is said
once, in a warning of one line.

=head1 METHODS

=head2 load

    Hydrofoil::Accelerate->load;
    Hydrofoil::Accelerate->load(only => \@areas);

What C<use> does. Loads the modules that are installed. Areas are UrlEncoded, Cookie,
MultiValue, Headers, Response, Util, Entity, Request and AccessLog. Default: all. Dies if
there is no such area.

=head2 unload

    Hydrofoil::Accelerate->unload;

Puts the originals back. So does C<no Hydrofoil::Accelerate>.

=head2 status

    my @modules = Hydrofoil::Accelerate->status;
    print scalar Hydrofoil::Accelerate->status;

What became of each module: hashes with C<area>, C<module>, C<version>, C<state>
(C<accelerated>, C<in part>, C<not installed>, C<another version> or
C<replaced by something else>) and C<subs>, the names of its accelerated subs. In
scalar context a line of text for each.

=head1 VERSIONS

What each area accelerates, and in which versions it was proven: the modules' own tests pass as they do without, and
on generated input each sub returns, warns and dies as the original does. On perl 5.32, 5.36 and 5.40, with the
versions of Debian 11, 12 and 13.

    Area        Module                            Versions
    UrlEncoded  WWW::Form::UrlEncoded::XS         0.26, 0.28
    UrlEncoded  WWW::Form::UrlEncoded::PP         0.26 of WWW::Form::UrlEncoded
    Cookie      Cookie::Baker                     0.11, 0.12
    Cookie      Cookie::Baker::XS                 0.12
    MultiValue  Hash::MultiValue                  0.16
    Headers     HTTP::Headers::Fast               0.22
    Response    Plack::Response                   1.0048, 1.0050, 1.0051
    Util        Plack::Util                       1.0048, 1.0050, 1.0051 of Plack
    Util        Plack::Component                  1.0048, 1.0050, 1.0051 of Plack
    Entity      HTTP::Entity::Parser              0.25
    Entity      HTTP::Entity::Parser::UrlEncoded  0.25 of HTTP::Entity::Parser
    Entity      HTTP::Entity::Parser::JSON        0.25 of HTTP::Entity::Parser
    Entity      HTTP::Entity::Parser::MultiPart   0.25 of HTTP::Entity::Parser
    Entity      Plack::Request::Upload            1.0048, 1.0050, 1.0051 of Plack::Request
    Entity      Plack::Request                    1.0048, 1.0050, 1.0051
    Request     Plack::Request                    1.0048, 1.0050, 1.0051
    AccessLog   Apache::LogFormat::Compiler       0.36
    AccessLog   Plack::Middleware                 1.0048, 1.0050, 1.0051 of Plack
    AccessLog   Plack::Middleware::AccessLog      1.0048, 1.0050, 1.0051 of Plack

HTTP::Entity::Parser::MultiPart is accelerated with HTTP::MultiPartParser 0.02 only. What Plack::Request takes for
headers, what bake_cookie knows and how URI escapes differs between these versions; each does what it does
unaccelerated.

=head1 SEE ALSO

L<hydrofoil>, L<Hydrofoil::UrlEncoded>

=cut
