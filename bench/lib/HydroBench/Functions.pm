package HydroBench::Functions;
use strict;
use warnings;
use HydroBench::Scenario;
use HydroBench::Stats qw(spread);

# A measure of functions rather than of servers: bench/functions.pl, once for each round. Returns what a measure of servers
# does, with a function's name in place of a server's.
sub measure {
    my ($class, $run, $measure) = @_;
    my $rounds = $measure->{rounds} || $run->{rounds};
    my (@order, %rounds, $problem);
    for my $round (1 .. $rounds) {
        $run->progress(sprintf('%s: round %d of %d', $measure->{name}, $round, $rounds), ($round - 1) / $rounds);
        my @command = $class->command($run, $measure);
        my $text  = HydroBench::Run::output(\@command, 300);
        my $raw   = $run->raw(undef, $measure, \@command, $text);
        my @lines = $class->parse($text);
        if (!@lines) {
            $problem = $text;
            last;
        }
        for my $line (@lines) {
            push @order, $line->{name} if !$rounds{ $line->{name} };
            push @{ $rounds{ $line->{name} } }, { %$line, raw => $raw };
        }
    }
    my %results;
    for my $name (@order) {
        my @own = @{ $rounds{$name} };
        $results{$name} = {
            %{ HydroBench::Scenario->summarize(@own) },
            kind     => 'function',
            original => $own[0]{original},
            spread   => spread(map { $_->{times} } @own),
            rounds   => \@own,
        };
    }
    if (defined $problem) {
        $problem =~ s/\s+\z//;
        $results{functions} = { kind => 'function', errors => 0, problem => $problem };
    }
    return { measure => { %$measure, order => \@order }, results => \%results, left_out => {} };
}

sub command {
    my ($class, $run, $measure) = @_;
    my $root = $run->{root};
    return (
        defined $run->{server_core} ? ('taskset', '-c', $run->{server_core}) : (),
        $^X, "-I$root/blib/lib", "-I$root/blib/arch", "$root/bench/functions.pl", ($run->{duration} > 1 ? 0.03 : 0.01),
        @{ $measure->{functions} || [] },
    );
}

# The lines of bench/functions.pl; other lines are messages of the modules.
sub parse {
    my ($class, $text) = @_;
    my @lines;
    for (split /\n/, $text) {
        my ($name, $original_us, $accelerated_us, $original) = /^([^\t]+)\t([0-9.]+)\t([0-9.]+)\t(\w+)$/ or next;
        push @lines, {
            name           => $name,
            original       => $original,
            original_us    => $original_us,
            accelerated_us => $accelerated_us,
            times          => $original_us / $accelerated_us,
        };
    }
    return @lines;
}

1;
__END__

=head1 NAME

HydroBench::Functions - functions of Plack's modules, as they are and accelerated

=head1 SYNOPSIS

    my $done = HydroBench::Functions->measure($run, { name => 'functions', tool => 'functions' });

=cut
