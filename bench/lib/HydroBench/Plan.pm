package HydroBench::Plan;
use strict;
use warnings;
use Time::HiRes qw(time);
use HydroBench::Machine;
use HydroBench::Scenario;
use HydroBench::Servers;

# The program that each tool needs, and the Debian package that brings it.
my %PROGRAM = (
    (map { $_ => 'wrk' } qw(wrk latency idle_active syscalls)), ab => 'ab', h2load => 'h2load',
);
my %PACKAGE = (wrk => 'wrk', ab => 'apache2-utils', h2load => 'nghttp2-client', taskset => 'util-linux');

my $QUICK_LIMIT = 165;      # seconds that --quick without a scenario may take, what is to be stopped and written then left out
my $GUESS       = 3_000;    # requests per second, where a number of requests ends a run
my $AROUND      = 0.6;      # seconds around every run: settling, checking, reading /proc

# What is to be run. $options: root, names (scenarios, all when empty), and from the command line: servers, only (lists),
# quick, rounds, duration, copies (a hash). Dies, with what to do, when something is asked for that is not there.
sub new {
    my ($class, %options) = @_;
    my $self = bless { %options, begin => time, done => 0, missing => {}, skipped => {} }, $class;
    my %known = map { $_ => 1 } HydroBench::Scenario->names($self->{root});
    for (@{ $self->{names} }) {
        die "There is no scenario '$_', only: @{[ sort keys %known ]}.\n" unless $known{$_};
    }
    my $all = !@{ $self->{names} };
    $self->{essentials} = $self->{quick} && $all && !@{ $self->{only} };
    $self->{names}      = [sort keys %known] if $all;
    $self->{rounds}   ||= $self->{essentials} ? 1 : $self->{quick} ? 3 : 5;
    $self->{seconds}    = $self->{duration} || ($self->{quick} ? 1 : 5);
    $self->{parts}      = [map { $self->_part($_) } @{ $self->{names} }];
    $self->_check_only;
    return $self;
}

# The scenarios of the plan: { scenario, measures, servers (descriptions of those that are here) }.
sub parts      { @{ $_[0]{parts} } }
sub rounds     { $_[0]{rounds} }
sub seconds    { $_[0]{seconds} }
sub essentials { $_[0]{essentials} }

# Servers that are not here, with the reason.
sub skipped { $_[0]{skipped} }

# Debian packages that bring what is not here.
sub packages { sort keys %{ $_[0]{missing} } }

sub _part {
    my ($self, $name) = @_;
    my $scenario = HydroBench::Scenario->load($self->{root}, $name);
    my %only     = map { $_ => 1 } @{ $self->{only} };
    my @measures = grep { !%only || $only{ $_->{name} } } @{ $scenario->{measures} };
    @measures = grep { $_->{essential} } @measures if $self->{essentials};
    for my $measure (@measures) {
        $measure->{seconds} = $self->{duration} || ($self->{quick} ? $measure->{quick} : $measure->{duration});
        my $asked_for = $self->{given_rounds} || $self->{essentials};
        $measure->{rounds} = $self->{rounds}
            if $measure->{rounds} && ($asked_for || ($self->{quick} && $measure->{rounds} > $self->{rounds}));
        if    ($self->{duration}) { delete $measure->{requests} }
        elsif ($self->{quick})    { $measure->{requests} = $measure->{quick_requests} if $measure->{quick_requests} }
        $measure->{note}    = $self->_crowd($measure) unless defined $measure->{note};
        $measure->{servers} = $measure->{essential}
            if $self->{essentials} && ref $measure->{essential} && !@{ $self->{servers} };
    }
    return { scenario => $scenario, measures => \@measures, servers => @measures ? $self->_servers($scenario) : [] };
}

# What a reader must know of a measure whose workers are more than this machine has cores for; undef where they are not.
sub _crowd {
    my ($self, $measure) = @_;
    my @cores   = HydroBench::Machine->cores;
    my $workers = $measure->{workers} || 1;
    return undef if $workers <= @cores;
    my $shared = HydroBench::Machine->placement($workers, $measure->{threads})->{shared};
    return sprintf '%d workers%s on %d cores: how they get along, not how they scale', $workers,
        $shared ? ' and their client' : '', scalar @cores;
}

# Those that can run; the others are noted with the reason.
sub _servers {
    my ($self, $scenario) = @_;
    my $copies = $self->{copies};
    my @names  = @{ $self->{servers} };
    if (!@names) {
        my @own = @{ $scenario->{servers} || [map { $_->{name} } grep { !$_->{variant} } HydroBench::Servers->all] };
        my %own = map { $_ => 1 } @own;
        @names = (@own, $scenario->{servers} ? () : grep { !$own{$_} } sort keys %$copies);
    }
    my @here;
    for my $name (@names) {
        my $server = HydroBench::Servers->named($name) or die "There is no server '$name'. Try script/bench --list.\n";
        die "Where is $name? --copy $name=DIR\n" if $name =~ /@/ && !defined $copies->{$name};
        my $missing = HydroBench::Servers->missing($server,
            { root => $self->{root}, copy => HydroBench::Servers->copy($server, $copies) });
        if (!defined $missing) { push @here, $server; next }
        $self->{skipped}{$name} = $server->{hint} ? "$missing; $server->{hint}" : $missing;
        $self->{missing}{$_} = 1 for @{ $server->{packages} || [] };
    }
    return \@here;
}

# A name after --only must be somewhere.
sub _check_only {
    my ($self) = @_;
    my %there = map { $_->{name} => 1 } map { @{ $_->{measures} } } $self->parts;
    my @absent = grep { !$there{$_} } @{ $self->{only} } or return;
    my @names = map { $_->{name} } map { @{ $_->{scenario}{measures} } } $self->parts;
    die "There is no measure '$absent[0]' in @{ $self->{names} }, only: @names.\n";
}

# Why a measure cannot be made at all, in words; undef when it can.
sub hindrance {
    my ($self, $part, $measure) = @_;
    my $program = $PROGRAM{ $measure->{tool} };
    if (defined $program && !HydroBench::Servers::find_program($program)) {
        $self->{missing}{ $PACKAGE{$program} } = 1;
        return "$program is not installed";
    }
    return undef unless $self->{essentials};
    my $left = $QUICK_LIMIT - (time - $self->{begin});
    return 'no time is left for it under --quick' if $self->measure_seconds($part, $measure) > $left;
    return undef;
}

# How long a measure will take, in seconds, when nothing disturbs it.
sub measure_seconds {
    my ($self, $part, $measure) = @_;
    my $tool    = $measure->{tool};
    my $rounds  = $measure->{rounds} || ($tool eq 'idle' ? 1 : $self->{rounds});
    my $seconds = $measure->{seconds} || $self->{seconds};
    $seconds = $measure->{min_duration} if ($measure->{min_duration} || 0) > $seconds;
    return $rounds * ($self->{seconds} > 1 ? 40 : 12) if $tool eq 'functions';
    my $servers = grep { (HydroBench::Scenario->takes_part($measure, $_))[0] } @{ $part->{servers} };
    my $once
        = $tool eq 'idle'                               ? 8
        : $tool eq 'idle_active'                        ? 2 * $seconds + 8
        : $tool eq 'syscalls'                           ? 3.5
        : $tool =~ /^(?:load|latency|restarts)$/        ? 1 + $seconds + ($measure->{drain} || 1)
        : $measure->{requests}                          ? $measure->{requests} / $GUESS
        :                                                 $seconds;
    my $first = ($tool eq 'latency' ? 2 : 0) + ($self->{quick} ? 0 : 1);
    return 1.5 + $servers * (0.3 + $first + $rounds * ($once + $AROUND));
}

sub total_seconds {
    my ($self) = @_;
    my $total = 0;
    for my $part ($self->parts) { $total += $self->measure_seconds($part, $_) for @{ $part->{measures} } }
    return $total;
}

# Where the run is: the part that is done, 0 to 1, and the seconds that are left, when $part of this measure is done.
sub where {
    my ($self, $measure, $done) = @_;
    my ($before, $total) = (0, $self->total_seconds || 1);
    PART: for my $part ($self->parts) {
        for (@{ $part->{measures} }) {
            if ($_ == $measure) { $before += $done * $self->measure_seconds($part, $_); last PART }
            $before += $self->measure_seconds($part, $_);
        }
    }
    my $gone = time - $self->{begin};
    my $pace = $before > 10 ? $gone / $before : 1;
    return ($before / $total, ($total - $before) * $pace);
}

1;
__END__

=head1 NAME

HydroBench::Plan - which measures are to be made against which servers, and how long that takes

=head1 SYNOPSIS

    my $plan = HydroBench::Plan->new(root => $root, names => ['hello'], servers => [], only => [], copies => {}, quick => 1);
    printf "%d minutes\n", $plan->total_seconds / 60;
    for my $part ($plan->parts) {
        for my $measure (@{ $part->{measures} }) {
            my $why_not = $plan->hindrance($part, $measure);
            ...
        }
    }

=cut
