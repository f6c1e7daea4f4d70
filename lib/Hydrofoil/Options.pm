package Hydrofoil::Options;
use strict;
use warnings;
use Hydrofoil::Error qw(usage_error);

# Each option: its names (the first is the canonical one), a type, what it is
# for, and optionally a default, a placeholder for its value in the help text,
# and whether it belongs to Plack::Runner ("plack") or is accepted without
# effect or as a mere variant of another ("hidden" keeps it out of the help).
my @GROUPS = (
    'Application' => [
        { names => [qw(app a)],     type => 'string', plack => 1, value => 'FILE', help => 'the application (app.psgi)' },
        { names => [qw(e)],         type => 'string', plack => 1, value => 'CODE', help => 'the application is this code' },
        { names => [qw(I)],         type => 'list',   plack => 1, value => 'DIR',  help => 'look for modules here too' },
        { names => [qw(M)],         type => 'list',   plack => 1, value => 'MODULE', help => 'load a module first' },
        { names => [qw(env E)],     type => 'string', plack => 1, value => 'NAME', help => 'PLACK_ENV (deployment)' },
        { names => [qw(path)],      type => 'string', plack => 1, value => 'PATH', help => 'mount the application there (/)' },
        { names => [qw(reload r)],  type => 'switch', plack => 1, help => 'restart when a file of the application changes' },
        { names => [qw(Reload R)],  type => 'string', plack => 1, value => 'PATHS', help => 'the same, watching these (comma separated)' },
        { names => [qw(loader L)],  type => 'string', plack => 1, value => 'CLASS', help => 'a Plack::Loader::CLASS' },
        { names => [qw(access-log)], type => 'string', plack => 1, value => 'FILE', help => 'append an access log to FILE' },
        { names => [qw(default-middleware)], type => 'flag', plack => 1, hidden => 1 },
        { names => [qw(server s)],  type => 'string', plack => 1, hidden => 1 },
        { names => [qw(preload-app)], type => 'flag', default => 1, negated => 1,
            help => 'each worker loads the application itself' },
        { names => [qw(accelerate)], type => 'flag', default => 0, help => 'run Plack\'s own modules in C' },
    ],
    'Listening' => [
        { names => [qw(host o)],    type => 'string', default => '', value => 'HOST', help => 'address (all IPv4 addresses)' },
        { names => [qw(port p)],    type => 'port',   default => 5000, value => 'N', help => 'TCP port; 0: any free one (5000)' },
        { names => [qw(listen l)],  type => 'list',   value => 'WHERE', help => 'host:port, :port, [v6]:port, a path; repeatable' },
        { names => [qw(socket S)],  type => 'string', value => 'PATH', help => 'a unix socket' },
        { names => [qw(backlog)],   type => 'count', default => 16384, least => 1, value => 'N',
            help => 'queue of connections to accept (16384)' },
        { names => [qw(reuseport)], type => 'flag', default => 0, help => 'a socket for each worker (SO_REUSEPORT)' },
    ],
    'Processes' => [
        { names => [qw(workers max-workers w)], type => 'count', default => 8, most => 10_000, value => 'N',
            help => 'workers; 0: serve in this process (8)' },
        { names => [qw(max-requests max-reqs-per-child)], type => 'count', default => 0, value => 'N',
            help => 'replace a worker after N requests (0: never)' },
        { names => [qw(min-requests min-reqs-per-child)], type => 'count', value => 'N',
            help => 'or after as few as N (nine tenths of the above)' },
        { names => [qw(max-memory)], type => 'size', default => 0, value => 'SIZE',
            help => 'replace a worker that is larger (0: never)' },
        { names => [qw(spawn-interval)], type => 'seconds', default => 0, value => 'S',
            help => 'pause between worker starts (0)' },
        { names => [qw(err-respawn-interval)], type => 'seconds', default => 1, value => 'S',
            help => 'first pause after a worker died at once (1)' },
        { names => [qw(shutdown-timeout)], type => 'seconds', default => 30, value => 'S',
            help => 'time for requests under way to end (30)' },
        { names => [qw(request-timeout)], type => 'seconds', default => 0, value => 'S',
            help => 'give up on a stuck request: 504 (0: never)' },
        { names => [qw(standby)], type => 'flag', default => 1, negated => 1,
            help => 'let requests wait for long ones' },
        { names => [qw(standby-grace)], type => 'seconds', default => 0.002, value => 'S',
            help => 'a request is long after this (0.002)' },
        { names => [qw(daemonize D)], type => 'flag', default => 0, help => 'go to the background' },
        { names => [qw(pid pid-file)], type => 'string', value => 'FILE', help => 'write the supervisor\'s process id there' },
        { names => [qw(user)],      type => 'string', value => 'NAME', help => 'run workers as this user' },
        { names => [qw(group)],     type => 'string', value => 'NAME', help => 'run workers as this group (the user\'s)' },
        { names => [qw(error-log)], type => 'string', value => 'FILE', help => 'messages go there (standard error)' },
        { names => [qw(quiet q)],   type => 'flag', default => 0, help => 'say nothing unless something is wrong' },
        { names => [qw(proctitle)], type => 'flag', default => 1, negated => 1, disable => 1,
            help => 'leave the process titles alone' },
    ],
    'HTTP' => [
        { names => [qw(keepalive)], type => 'flag', default => 1, negated => 1, disable => 1,
            help => 'one request for each connection' },
        { names => [qw(keepalive-timeout)], type => 'seconds', default => 75, value => 'S',
            help => 'close idle connections after this (75; 0: never)' },
        { names => [qw(max-keepalive-requests max-keepalive-reqs)], type => 'count', default => 0, value => 'N',
            help => 'requests for each connection (0: any)' },
        { names => [qw(header-timeout)], type => 'seconds', default => 30, value => 'S',
            help => 'time to send a request\'s headers (30)' },
        { names => [qw(read-timeout)], type => 'seconds', default => 60, value => 'S',
            help => 'longest silence within a request\'s body (60)' },
        { names => [qw(write-timeout)], type => 'seconds', default => 60, value => 'S',
            help => 'longest stall of a client that reads (60)' },
        { names => [qw(timeout)],   type => 'seconds', value => 'S', help => 'sets --read-timeout and --write-timeout' },
        { names => [qw(max-body)],  type => 'size', default => 1024 ** 3, value => 'SIZE',
            help => 'request body (1g; 0: any)' },
        { names => [qw(max-request-line)], type => 'size', default => 16384, least => 64, most => 2**31 - 1, value => 'SIZE',
            help => 'request line (16k)' },
        { names => [qw(max-header-size)], type => 'size', default => 65536, least => 256, most => 2**31 - 1, value => 'SIZE',
            help => 'all header fields of a request (64k)' },
        { names => [qw(max-header-fields)], type => 'count', default => 128, least => 1, value => 'N',
            help => 'number of header fields (128)' },
        { names => [qw(max-write-buffer)], type => 'size', default => 1024 ** 2, least => 4096, value => 'SIZE',
            help => 'memory for an answer to a slow client (1m)' },
        { names => [qw(tmpdir)],    type => 'string', value => 'DIR', help => 'for large request bodies (TMPDIR or /tmp)' },
        { names => [qw(server-name-header)], type => 'string', default => 'Hydrofoil', value => 'NAME',
            help => 'the Server header; empty: none (Hydrofoil)' },
        { names => [qw(max-readahead-reqs)], type => 'count', value => 'N', hidden => 1 },
    ],
    'Other' => [
        { names => [qw(help h ?)], type => 'switch', plack => 1, help => 'this text' },
        { names => [qw(version v)], type => 'switch', plack => 1, help => 'versions of the server and of what it runs on' },
    ],
);

# What Plack::Runner, Plack::Loader and frameworks hand to every handler.
my %INTERNAL = map { $_ => 1 } qw(server_ready server_software proto logger argv psgi_app_builder app_name);

my %BY_NAME;
my @SPECS;
for my $specs (grep { ref } @GROUPS) {
    for my $spec (@$specs) {
        push @SPECS, $spec;
        $BY_NAME{$_} = $spec for @{ $spec->{names} };
    }
}

sub specs { @SPECS }

sub defaults {
    my %settings;
    for my $spec (grep { exists $_->{default} } @SPECS) {
        $settings{ _key($spec) } = $spec->{default};
    }
    return \%settings;
}

sub parse_argv {
    my ($class, @argv) = @_;

    my %parsed = (given => {}, plack => [], arguments => []);
    while (defined(my $argument = shift @argv)) {
        if ($argument eq '--') {
            push @{ $parsed{arguments} }, splice @argv;
        }
        elsif ($argument =~ /^-[^-]/ || $argument =~ /^--./) {
            $class->_parse_option($argument, \@argv, \%parsed);
        }
        else {
            push @{ $parsed{arguments} }, $argument;
        }
    }
    return \%parsed;
}

sub settings {
    my ($class, $given) = @_;

    my %settings = (%{ $class->defaults }, %$given);
    if (defined(my $timeout = delete $settings{timeout})) {
        exists $given->{$_} or $settings{$_} = $timeout for qw(read_timeout write_timeout);
    }
    $class->_settle_requests(\%settings, $given);
    $class->_settle_listen(\%settings);
    usage_error('--request-timeout needs the standby thread: leave --no-standby out')
        if $settings{request_timeout} && !$settings{standby};
    usage_error('--request-timeout needs a worker that can be replaced: give --workers at least 1')
        if $settings{request_timeout} && !$settings{workers};
    usage_error('--max-memory needs /proc/self/statm, which is not here: limit workers by --max-requests')
        if $settings{max_memory} && !-r '/proc/self/statm';
    usage_error('--server-name-header must be printable ASCII')
        if $settings{server_name_header} =~ /[^\x20-\x7e]/;
    return \%settings;
}

# Plack::Runner turns what it does not know into pairs of a name and whatever
# argument came next, even for a flag that takes no value.
sub from_pairs {
    my ($class, @pairs) = @_;

    usage_error('the handler takes pairs of an option and its value') if @pairs % 2;

    my (%given, %internal);
    while (my ($name, $value) = splice @pairs, 0, 2) {
        if ($INTERNAL{$name}) {
            $internal{$name} = $value;
        }
        else {
            $class->_take_pair($name, $value, \%given);
        }
    }
    return ($class->settings(\%given), \%internal);
}

sub help_text {
    my $class = shift;

    my $text = "Usage: hydrofoil [options] [app.psgi]\n";
    my @groups = @GROUPS;
    while (my ($title, $specs) = splice @groups, 0, 2) {
        $text .= "\n$title:\n";
        $text .= _help_line($_) for grep { !$_->{hidden} } @$specs;
    }
    $text .= "\nSIZE takes k, m or g; S is seconds, fractions allowed; what happens without an\n"
        . "option is in parentheses. Options of starman, starlet and gazelle work too.\n"
        . "The whole manual: perldoc hydrofoil\n";
    return $text;
}

sub _parse_option {
    my ($class, $argument, $argv, $parsed) = @_;

    my ($name, $value) = _split_argument($argument);
    my ($spec, $negated) = _find($name);
    $class->_unknown($argument) if !$spec;

    if ($spec->{type} eq 'switch' || $spec->{type} eq 'flag') {
        $value = _flag_value($spec, $argument, $value, $negated);
    }
    elsif (!defined $value) {
        $value = shift @$argv;
        _needs_value($spec, $argument) if !defined $value;
    }

    if ($spec->{plack}) {
        push @{ $parsed->{plack} }, [ $spec->{names}[0], $value ];
    }
    else {
        _store($parsed->{given}, $spec, $value);
    }
    return;
}

# "--workers=8", "-workers=8", and the short forms "-Ilib", "-MFoo", "-w8", "-p80".
sub _split_argument {
    my $argument = shift;

    return ($1, $2) if $argument =~ /^-([IMe])(.+)/s && !_find(_name_of($argument));
    return ($1, $2) if $argument =~ /^-([wp])([0-9]+)$/;

    my (undef, $value) = split /=/, $argument, 2;
    return (_name_of($argument), $value);
}

sub _name_of {
    my ($name) = $_[0] =~ /^--?([^=]*)/;
    $name =~ tr/_/-/;
    return $name;
}

sub _find {
    my $name = shift;

    return ($BY_NAME{$name}, 0) if $BY_NAME{$name};
    if ($name =~ /^(no|disable|enable)-?(.+)/) {
        my $spec = $BY_NAME{$2};
        return ($spec, $1 ne 'enable') if $spec && $spec->{type} eq 'flag';
    }
    return;
}

sub _flag_value {
    my ($spec, $argument, $value, $negated) = @_;

    my $truth = _truth($value);
    usage_error("$argument: a switch takes no value") if !defined $truth;
    return $negated ? !$truth || 0 : $truth;
}

sub _truth {
    my $value = shift;
    return 1 if !defined $value || $value =~ /^(?:[1-9][0-9]*|on|yes|true)$/i;
    return 0 if $value =~ /^(?:0|off|no|false|)$/i;
    return;
}

sub _store {
    my ($given, $spec, $value) = @_;

    my $key = _key($spec);
    if ($spec->{type} eq 'list') {
        push @{ $given->{$key} }, ref $value ? @$value : $value;
        return;
    }
    $given->{$key} = _checked($spec, $value);
    return;
}

sub _key {
    my $key = $_[0]{names}[0];
    $key =~ tr/-/_/;
    return $key;
}

my %READ = (
    flag    => sub { $_[0] ? 1 : 0 },
    switch  => sub { $_[0] },
    string  => sub { $_[0] },
    count   => sub { $_[0] =~ /^[0-9]{1,15}$/ ? $_[0] + 0 : undef },
    port    => sub { $_[0] =~ /^[0-9]{1,5}$/ ? $_[0] + 0 : undef },
    seconds => sub { $_[0] =~ /^(?:[0-9]{1,9}(?:\.[0-9]*)?|\.[0-9]+)$/ ? $_[0] + 0 : undef },
    size    => \&_read_size,
);

# What the engine can count with: 32 bits, and 32 bits of milliseconds.
my %MOST = (count => 2**31 - 1, port => 65535, seconds => 4_000_000, size => 2**53, flag => 1);

my %EXPECTED = (
    count   => 'a whole number, LEAST to MOST',
    port    => 'a port, 0 to 65535',
    seconds => 'a number of seconds, 0 to MOST',
    size    => 'a size in bytes, like 65536, 64k, 1m or 1g',
);

sub _checked {
    my ($spec, $text) = @_;

    my $name = $spec->{names}[0];
    usage_error("--$name needs a value") if !defined $text;
    my $value = $READ{ $spec->{type} }->($text);
    return $value if defined $value && $spec->{type} eq 'string';

    my $least = $spec->{least} || 0;
    my $most  = $spec->{most}  || $MOST{ $spec->{type} };
    return $value if defined $value && $value >= $least && $value <= $most;

    my $expected = defined $value && $spec->{type} eq 'size' ? "$least to $most bytes" : $EXPECTED{ $spec->{type} };
    $expected =~ s/LEAST/$least/;
    $expected =~ s/MOST/$most/;
    my $example = exists $spec->{default} ? ", for example --$name=$spec->{default}" : '';
    usage_error("--$name: '$text' will not do; it takes $expected$example");
}

my %FACTOR = ('' => 1, k => 1024, m => 1024 ** 2, g => 1024 ** 3);

sub _read_size {
    my ($number, $suffix) = $_[0] =~ /^([0-9]{1,12})([kmg]?)(?:i?b)?$/i or return;
    return $number * $FACTOR{ lc $suffix };
}

sub _needs_value {
    my ($spec, $argument) = @_;
    usage_error("$argument needs a value: $argument $spec->{value}");
}

sub _take_pair {
    my ($class, $name, $value, $given) = @_;

    (my $dashed = $name) =~ tr/_/-/;
    return if ($dashed eq 'host' || $dashed eq 'socket' || $dashed eq 'port' || $dashed eq 'listen') && !defined $value;

    my ($spec, $negated) = _find($dashed);
    $class->_unknown(length $dashed == 1 ? "-$dashed" : "--$dashed") if !$spec || $spec->{plack};

    if ($spec->{names}[0] eq 'preload-app' && ($negated || defined _truth($value) && !_truth($value))) {
        usage_error('plackup has loaded the application before it starts a server: '
            . 'give it -L Delayed instead of --no-preload-app, or use the hydrofoil command');
    }
    if ($spec->{type} ne 'flag') {
        return _store($given, $spec, $value);
    }

    my $truth = _truth($value);
    if (!defined $truth) {
        $class->_take_swallowed($dashed, $value, $given);
        $truth = 1;
    }
    $given->{ _key($spec) } = $negated ? 1 - $truth : $truth;
    return;
}

# "plackup -s Hydrofoil --quiet --workers=2" arrives as quiet => '--workers=2'.
sub _take_swallowed {
    my ($class, $flag, $value, $given) = @_;

    my ($name, $swallowed) = $value =~ /^-/ ? _split_argument($value) : ();
    my ($spec) = defined $name ? _find($name) : ();
    if ($spec && ($spec->{type} eq 'flag' || defined $swallowed)) {
        return $class->_take_pair($name, $swallowed, $given);
    }
    usage_error("plackup took '$value' for the value of --$flag: write --$flag=1, or --$flag after everything else");
}

sub _settle_requests {
    my ($class, $settings, $given) = @_;

    my $max = $settings->{max_requests};
    my $min = $settings->{min_requests};
    $min = $max - int($max / 10) if !defined $min;
    $min = $max if $max && $min > $max;
    $settings->{min_requests} = $min;
    return;
}

# Afterwards "listen" says it all: Plack::Runner's own host and port are no use
# for "[::1]:5000", which it splits at the first colon.
sub _settle_listen {
    my ($class, $settings) = @_;

    my @listen = @{ $settings->{listen} || [] };
    if (!@listen) {
        my $host = $settings->{host};
        $host = "[$host]" if $host =~ /:/ && $host !~ /^\[/;
        @listen = defined $settings->{socket} ? "unix:$settings->{socket}" : "$host:$settings->{port}";
    }
    $settings->{listen} = \@listen;
    return;
}

sub _unknown {
    my ($class, $argument) = @_;

    my ($written) = $argument =~ /^([^=]*)/;
    my $closest = _closest(_name_of($argument));
    usage_error("unknown option $written; "
        . ($closest ? "did you mean $closest?" : 'hydrofoil --help lists them all'));
}

sub _closest {
    my $name = shift;

    my $most = length $name < 4 ? 1 : length $name < 8 ? 2 : 3;
    my @flags = map { @{ $_->{names} } } grep { $_->{type} eq 'flag' } @SPECS;
    my ($best, $distance);
    for my $candidate ((map { @{ $_->{names} } } @SPECS), map { ("no-$_", "disable-$_") } @flags) {
        next if length $candidate == 1;
        my $d = _distance($name, $candidate);
        ($best, $distance) = ($candidate, $d) if $d <= $most && (!defined $distance || $d < $distance);
    }
    return defined $best ? "--$best" : undef;
}

# Edit distance in which a swap of two neighbours is one edit (optimal string alignment).
sub _distance {
    my ($from, $to) = @_;

    my @a = split //, $from;
    my @b = split //, $to;
    my @d = ([ 0 .. @b ]);
    for my $i (1 .. @a) {
        $d[$i][0] = $i;
        for my $j (1 .. @b) {
            my $best = $d[ $i - 1 ][ $j - 1 ] + ($a[ $i - 1 ] ne $b[ $j - 1 ]);
            for my $other ($d[ $i - 1 ][$j] + 1, $d[$i][ $j - 1 ] + 1) {
                $best = $other if $other < $best;
            }
            if ($i > 1 && $j > 1 && $a[ $i - 1 ] eq $b[ $j - 2 ] && $a[ $i - 2 ] eq $b[ $j - 1 ]) {
                my $swap = $d[ $i - 2 ][ $j - 2 ] + 1;
                $best = $swap if $swap < $best;
            }
            $d[$i][$j] = $best;
        }
    }
    return $d[@a][@b];
}

sub _help_line {
    my $spec = shift;

    my ($name, @aliases) = grep { length > 1 } @{ $spec->{names} };
    my ($short) = grep { length == 1 && /\w/ } @{ $spec->{names} };
    $name = ($spec->{disable} ? 'disable-' : 'no-') . $name if defined $name && $spec->{negated};
    my $left = join ', ', (defined $short ? "-$short" : ()), (defined $name ? "--$name" : ());
    $left = "    $left" if !defined $short;
    $left .= " $spec->{value}" if defined $spec->{value};
    return length $left > 28
        ? sprintf("  %s\n%32s%s\n", $left, '', $spec->{help})
        : sprintf("  %-29s %s\n", $left, $spec->{help});
}

1;

__END__

=head1 NAME

Hydrofoil::Options - the one table of options, and all that is read from it

=head1 SYNOPSIS

    use Hydrofoil::Options;

    my $parsed   = Hydrofoil::Options->parse_argv('--workers=4', '-Ilib', 'app.psgi');
    my $settings = Hydrofoil::Options->settings($parsed->{given});
    print $settings->{workers};                # 4
    print $settings->{keepalive_timeout};      # 75

    my ($settings, $internal) = Hydrofoil::Options->from_pairs(max_workers => 4, listen => [':5000']);

=head1 DESCRIPTION

Names, aliases, types, defaults and help texts stand in one table, from which
the command line, plackup's list of pairs and C<--help> are served. The options
themselves are described in L<hydrofoil>.

Settings are a hash whose keys are the canonical names with C<_> for C<->.
Times are seconds, sizes are bytes, flags are 0 or 1.

=head1 METHODS

All are class methods. A mistake of the user ends in
L<Hydrofoil::Error/usage_error>.

=head2 parse_argv

    my $parsed = Hydrofoil::Options->parse_argv(@ARGV);

Reads a command line. Returns a hash reference: C<given>, the server's settings
that were given; C<plack>, a list of C<[name, value]> that belong to
L<Plack::Runner>; C<arguments>, what is not an option.

=head2 settings

    my $settings = Hydrofoil::Options->settings(\%given);

Adds the defaults and settles what depends on several options: C<listen> is
then the complete list of places to listen on.

=head2 from_pairs

    my ($settings, $internal) = Hydrofoil::Options->from_pairs(@pairs);

Reads what L<Plack::Runner> and L<Plack::Loader> hand to a handler: names with
C<_> or C<->, values as text, flags with whatever came after them on the
command line. C<$internal> has what is no option, such as C<server_ready>.

=head2 defaults

    my $settings = Hydrofoil::Options->defaults;

=head2 specs

    my @specs = Hydrofoil::Options->specs;

The table: hash references with C<names>, C<type>, C<help> and perhaps
C<default>, C<value>, C<plack>, C<hidden>.

=head2 help_text

    print Hydrofoil::Options->help_text;

=cut
