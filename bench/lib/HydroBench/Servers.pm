package HydroBench::Servers;
use strict;
use warnings;
use Config qw(%Config);
use File::Path qw(make_path);
use JSON::PP ();
use POSIX ();
use HydroBench::Proc qw(slurp);

# A server is a hash:
#
#   name        what --servers and the tables call it
#   kind        psgi: runs bench/apps/*.psgi; accelerated: the same, with Hydrofoil::Accelerate; web: serves the same bytes
#               without Perl; floor: the yardstick
#   apps        the apps it can serve, where that is not all of them
#   blocking    true when a worker serves one connection at a time: many connections then say nothing about it
#   needs       what must be there: program => names, module => Perl modules, copy => 1 (a built copy named by --copy),
#               file => paths below the checkout
#   packages    the Debian packages that bring it
#   hint        what to do about it where a package does not
#   unframed    true when it cannot say where an answer without Content-Length ends, other than by closing
#   single      true when it has one worker and no option for more
#   variant     true when it takes part only where a scenario or --servers names it
#   base        of a variant: the server whose copy and whose options in a scenario are also its own
#   reload      the signal that replaces its workers without losing requests
#   options     its options where a scenario does not say others, as one text; {workers} is the number of workers
#   command     makes the command line from a context: port or socket (a path), app, dir (scratch), root, copy, file, workers,
#               options (a list)
#   version     prints its version: a command line
#   stop_signal TERM by default

my $FOREVER = 1_000_000_000;    # requests, where a server wants a limit

sub all {
    my @servers = _plain();
    my %named   = map { $_->{name} => $_ } @servers;
    return (
        @servers,
        (map { _accelerated($named{$_}) } qw(hydrofoil starman starlet)),
        (map { _behind_nginx($named{$_}) } qw(hydrofoil starlet gazelle)),
        (map { _locked($named{starman}, $_) } qw(flock semaphore)),
    );
}

# The same server with Plack's modules in C.
sub _accelerated {
    my ($server) = @_;
    my ($command, $needs) = @$server{qw(command needs)};
    return {
        %$server,
        name    => "$server->{name}-accelerated",
        kind    => 'accelerated',
        variant => 1,
        base    => $server->{name},
        needs   => { %$needs, file => [qw(blib/lib/Hydrofoil/Accelerate.pm blib/arch/auto/Hydrofoil/Accelerate)] },
        command => sub {
            my ($c) = @_;
            my $root    = $c->{copy} || $c->{root};
            my @command = $command->($c);
            return (@command, '--accelerate') if $server->{name} eq 'hydrofoil';
            # Before the application: it is the last option.
            splice @command, -2, 0, "-I$root/blib/lib", "-I$root/blib/arch", '-MHydrofoil::Accelerate';
            return @command;
        },
    };
}

# The same server on a unix socket that Server::Starter listens on, and nginx in front of it.
sub _behind_nginx {
    my ($server) = @_;
    my ($command, $needs) = @$server{qw(command needs)};
    return {
        %$server,
        name     => "$server->{name}-nginx",
        kind     => 'proxied',
        variant  => 1,
        base     => $server->{name},
        blocking => 0,
        reload   => undef,
        needs    => { %$needs, program => [@{ $needs->{program} || [] }, qw(start_server nginx)] },
        packages => [@{ $server->{packages} || [] }, qw(libserver-starter-perl nginx-light)],
        command  => sub {
            my ($c) = @_;
            my $socket = "$c->{dir}/$server->{name}.sock";
            return (
                $^X, "$c->{root}/bench/behind_nginx.pl", $socket, 'nginx', '-p' => "$c->{dir}/", '-e' => 'stderr',
                '-c' => _nginx_config($c, $socket), '--',
                'start_server', '--path' => $socket, '--backlog' => _somaxconn(), '--', $command->({ %$c, socket => $socket }),
            );
        },
    };
}

# Starman with a lock around accept(2), which it had until 0.4015 and later versions leave out on Linux.
sub _locked {
    my ($server, $how) = @_;
    my $command = $server->{command};
    return {
        %$server,
        name    => "$server->{name}-$how",
        variant => 1,
        base    => $server->{name},
        command => sub {
            my ($c) = @_;
            my @command = $command->($c);
            splice @command, -2, 0, "-I$c->{root}/bench/lib", "-MHydroBench::Serialize=$how";
            return @command;
        },
    };
}

sub _plain {
    return (
        {
            name     => 'hydrofoil',
            kind     => 'psgi',
            needs    => { file => [qw(bin/hydrofoil blib/lib blib/arch)] },
            hint     => 'build it first: perl Makefile.PL && make',
            reload   => 'HUP',
            options  => '--workers={workers} --backlog=16384 --max-keepalive-reqs=0 --keepalive-timeout=65 -E production',
            command  => sub { (_hydrofoil($_[0]), _app($_[0])) },
            version  => \&_hydrofoil_version,
        },
        {
            name     => 'hydrofoil-no-standby',
            variant  => 1,
            base     => 'hydrofoil',
            kind     => 'psgi',
            needs    => { file => [qw(bin/hydrofoil blib/lib blib/arch)] },
            hint     => 'build it first: perl Makefile.PL && make',
            reload   => 'HUP',
            options  => '--workers={workers} --backlog=16384 --max-keepalive-reqs=0 --keepalive-timeout=65 -E production',
            command  => sub { (_hydrofoil($_[0]), '--no-standby', _app($_[0])) },
            version  => \&_hydrofoil_version,
        },
        {
            name     => 'floor',
            kind     => 'floor',
            apps     => ['hello'],
            single   => 1,
            needs    => { file => ['build/bench/floor'] },
            hint     => 'it needs a C compiler',
            packages => ['gcc', 'libc6-dev'],
            command  => sub { ("$_[0]{root}/build/bench/floor", $_[0]{port}) },
        },
        {
            name     => 'nginx',
            kind     => 'web',
            apps     => ['hello', 'ok', 'file'],
            reload   => 'HUP',
            needs    => { program => ['nginx'] },
            packages => ['nginx-light'],
            command  => sub {
                my ($c) = @_;
                return ('nginx', '-p' => "$c->{dir}/", '-e' => 'stderr', '-c' => _nginx_config($c));
            },
            version => sub { ('nginx', '-v') },
        },
        {
            name     => 'starman',
            kind     => 'psgi',
            blocking => 1,
            reload   => 'HUP',
            needs    => { program => ['starman'] },
            packages => ['starman'],
            options  => "--workers={workers} --max-requests=$FOREVER --preload-app -E production",
            command  => sub {
                my ($c) = @_;
                return ('starman', '--listen' => "127.0.0.1:$c->{port}", @{ $c->{options} }, _app($c));
            },
            version => sub { ($^X, '-MStarman', '-e', 'print "Starman $Starman::VERSION\n"') },
        },
        {
            name     => 'starlet',
            kind     => 'psgi',
            blocking => 1,
            needs    => { program => ['plackup'], module => ['Plack::Handler::Starlet'] },
            packages => ['starlet'],
            options  => "-E production --max-workers={workers} --max-keepalive-reqs=10000 --max-reqs-per-child=$FOREVER",
            command  => sub { (_plackup($_[0], 'Starlet'), _app($_[0])) },
            version  => sub { ($^X, '-MStarlet', '-e', 'print "Starlet $Starlet::VERSION\n"') },
        },
        {
            name     => 'twiggy',
            kind     => 'psgi',
            single   => 1,
            needs    => { program => ['plackup'], module => ['Plack::Handler::Twiggy'] },
            packages => ['twiggy'],
            options  => '-E production --backlog=16384',
            command  => sub { (_plackup($_[0], 'Twiggy'), _app($_[0])) },
            version  => sub { ($^X, '-MTwiggy', '-MAnyEvent', '-e', 'print "Twiggy $Twiggy::VERSION\n"') },
        },
        {
            name     => 'uwsgi',
            kind     => 'psgi',
            blocking => 1,
            unframed => 1,
            needs    => { program => ['uwsgi'], psgi_plugin => 1 },
            packages => ['uwsgi-core', 'uwsgi-plugin-psgi'],
            stop_signal => 'INT',    # TERM reloads it
            options  => '--master --processes={workers} --disable-logging --need-app',
            command  => sub {
                my ($c) = @_;
                return (
                    'uwsgi', '--plugin' => 'psgi', '--http11-socket' => "127.0.0.1:$c->{port}", '--psgi' => _app_path($c),
                    '--listen' => _somaxconn(), @{ $c->{options} },
                );
            },
            version => sub { ('uwsgi', '--version') },
        },
        {
            name    => 'feersum',
            kind    => 'psgi',
            needs   => { program => ['plackup'], copy => 1 },
            options => '-E production --keepalive=1',
            command => sub {
                my ($c) = @_;
                my $workers = $c->{workers} || 1;
                return (_plackup($c, 'Feersum'), ($workers > 1 ? ('--pre-fork' => $workers) : ()), _app($c));
            },
            version => sub { _copy_version($_[0], 'Feersum') },
        },
        {
            name     => 'gazelle',
            kind     => 'psgi',
            blocking => 1,
            needs    => { program => ['plackup'], copy => 1 },
            options  => "-E production --max-workers={workers} --max-reqs-per-child=$FOREVER",
            command  => sub { (_plackup($_[0], 'Gazelle'), _app($_[0])) },
            version  => sub { _copy_version($_[0], 'Gazelle') },
        },
        {
            name    => 'monoceros',
            kind    => 'psgi',
            needs   => { program => ['plackup'], copy => 1 },
            options => "-E production --max-workers={workers} --max-reqs-per-child=$FOREVER",
            command => sub { (_plackup($_[0], 'Monoceros'), _app($_[0])) },
            version => sub { _copy_version($_[0], 'Monoceros') },
        },
        {
            name    => 'cacilheiro',
            kind    => 'psgi',
            needs   => { program => ['plackup'], copy => 1 },
            options => "-E production --max-workers={workers} --max-reqs-per-child=$FOREVER --max-keepalive-reqs=$FOREVER",
            command => sub { (_plackup($_[0], 'Cacilheiro'), _app($_[0])) },
        },
        {
            name    => 'unit',
            kind    => 'psgi',
            needs   => { copy => 1, unitd => 1 },
            hint    => 'DIR holds NGINX Unit as make built or installed it, with its Perl module',
            command => sub { _unit($_[0]) },
            version => sub { (_unitd($_[0]{copy}), '--version') },
        },
    );
}

# The options of a server in a measure, as a list: those that the measure has for it, or its own.
sub options {
    my ($class, $server, $measure) = @_;
    my ($name) = $server->{name} =~ /^([^@]+)/;
    my $of   = $measure->{options} || {};
    my $text = defined $of->{$name} ? $of->{$name} : defined $server->{base} ? $of->{ $server->{base} } : undef;
    $text = $server->{options} unless defined $text;
    return () unless defined $text;
    my $workers = $measure->{workers} || 1;
    $text =~ s/\{workers\}/$workers/g;
    return split ' ', $text;
}

# The command line of a server in a context, as a list.
sub command {
    my ($class, $server, $context) = @_;
    my $options = $context->{options} || [$class->options($server, { workers => $context->{workers} })];
    return $server->{command}->({ %$context, options => $options });
}

# The directory of its built copy, if it has one.
sub copy {
    my ($class, $server, $copies) = @_;
    return defined $copies->{ $server->{name} } ? $copies->{ $server->{name} }
        : defined $server->{base}               ? $copies->{ $server->{base} }
        :                                         undef;
}

# The description of a server by its name. NAME@LABEL is the same server from another copy, under that longer name.
sub named {
    my ($class, $name) = @_;
    my ($base) = $name =~ /^([^@]+)/;
    my ($found) = grep { $_->{name} eq $base } $class->all;
    return $found ? { %$found, name => $name } : undef;
}

# What keeps this server from running here, in words; undef when nothing does.
sub missing {
    my ($class, $server, $context) = @_;
    my $needs = $server->{needs};
    return 'no built copy given (--copy ' . ($server->{base} || $server->{name}) . '=DIR)'
        if $needs->{copy} && !defined $context->{copy};
    return "no such directory: $context->{copy}" if defined $context->{copy} && !-d $context->{copy};
    for my $program (@{ $needs->{program} || [] }) {
        return "$program is not installed" unless find_program($program);
    }
    for my $module (@{ $needs->{module} || [] }) {
        return "$module is not installed" unless _find_module($module);
    }
    for my $file (@{ $needs->{file} || [] }) {
        my $path = ($context->{copy} || $context->{root}) . "/$file";
        return "$file is not there" unless -e $path;
    }
    return "there is no unitd with a Perl module in $context->{copy}"
        if $needs->{unitd} && !(_unitd($context->{copy}) && _unit_modules($context->{copy}));
    my ($plugin) = glob '/usr/lib*/uwsgi/plugins/psgi_plugin.so';
    return 'its psgi plugin is not installed' if $needs->{psgi_plugin} && !defined $plugin;
    return undef;
}

sub find_program {
    my ($program) = @_;
    my ($found) = grep { -x && !-d } map { "$_/$program" } split(/:/, $ENV{PATH}), '/usr/sbin', '/sbin';
    return $found;
}

sub _find_module {
    my ($module) = @_;
    (my $file = "$module.pm") =~ s{::}{/}g;
    my ($found) = grep { -e "$_/$file" } @INC;
    return $found;
}

sub _app_path { "$_[0]{root}/bench/apps/$_[0]{app}.psgi" }
sub _app      { ('-a' => _app_path($_[0])) }

sub _hydrofoil {
    my ($c) = @_;
    my $root = $c->{copy} || $c->{root};
    return ($^X, "-I$root/blib/lib", "-I$root/blib/arch", "$root/bin/hydrofoil", _where($c), @{ $c->{options} });
}

sub _hydrofoil_version {
    my ($c) = @_;
    my $root = $c->{copy} || $c->{root};
    return ($^X, "-I$root/blib/lib", "-I$root/blib/arch", "$root/bin/hydrofoil", '--version');
}

# Where to listen; under Server::Starter that is its affair.
sub _where {
    my ($c) = @_;
    return defined $c->{socket} ? () : ('--host' => '127.0.0.1', '--port' => $c->{port});
}

# A copy may be a distribution that was built, or a directory that cpanm installed to (--local-lib-contained).
sub _copy_includes {
    my ($c) = @_;
    return () unless defined $c->{copy};
    return map { ('-I' => $_) } grep { -d }
        map { "$c->{copy}/$_" } qw(blib/lib blib/arch lib), "lib/perl5/$Config{archname}", 'lib/perl5';
}

sub _plackup {
    my ($c, $handler) = @_;
    return ('plackup', _copy_includes($c), '-s' => $handler, _where($c), @{ $c->{options} });
}

sub _copy_version {
    my ($c, $module) = @_;
    return ($^X, _copy_includes($c), "-M$module", '-e', "print qq($module \$$module\::VERSION\\n)");
}

sub _somaxconn {
    my ($limit) = slurp('/proc/sys/net/core/somaxconn') =~ /(\d+)/;
    return $limit && $limit < 16_384 ? $limit : 16_384;
}

# As many open files as a server may have that would otherwise take fewer.
sub _open_files {
    my $limit = POSIX::sysconf(POSIX::_SC_OPEN_MAX());
    return $limit && $limit < 40_000 ? $limit : 40_000;
}

# Writes nginx's configuration for the app, or as a proxy for what listens on $socket. Returns its path.
sub _nginx_config {
    my ($c, $socket) = @_;
    my ($folder, $file) = defined $c->{file} ? $c->{file} =~ m{^(.*)/([^/]+)$} : ();
    my $location = defined $socket ? "location / { proxy_pass http://unix:$socket; proxy_set_header Host \$http_host; }"
        : $c->{app} eq 'file'
        ? "location = / { root $folder; try_files /$file =404; default_type application/octet-stream; }"
        : $c->{app} eq 'ok' ? 'location / { default_type text/plain; return 200 "OK"; }'
        :                     'location / { default_type text/plain; return 200 "Hello World"; }';
    my $temporary = join "\n    ", map { "${_}_temp_path $c->{dir}/nginx-$_;" } qw(client_body proxy fastcgi uwsgi scgi);
    my $path = "$c->{dir}/nginx-$c->{port}.conf";
    _write($path, <<"CONF");
daemon off;
worker_processes @{[ $c->{workers} || 1 ]};
worker_rlimit_nofile @{[ _open_files() ]};
pid $c->{dir}/nginx-$c->{port}.pid;
error_log stderr @{[ defined $socket ? 'crit' : 'error' ]};
events { worker_connections @{[ defined $socket ? 32_768 : 16_384 ]}; }
http {
    access_log off;
    keepalive_requests $FOREVER;
    keepalive_timeout 65;
    sendfile on;
    tcp_nopush on;
    $temporary
    server {
        listen 127.0.0.1:$c->{port} backlog=16384;
        $location
    }
}
CONF
    return $path;
}

# NGINX Unit takes its configuration from a file in its state directory when it starts.
sub _unit {
    my ($c) = @_;
    my $state = "$c->{dir}/unit-$c->{port}";
    make_path($state);
    _write("$state/conf.json", JSON::PP->new->canonical->encode({
        listeners    => { "127.0.0.1:$c->{port}" => { pass => 'applications/bench' } },
        applications => { bench => { type => 'perl', script => _app_path($c), processes => ($c->{workers} || 1) + 0 } },
        settings     => { http => { server_version => JSON::PP::false() } },
    }));
    return (
        _unitd($c->{copy}), '--no-daemon', '--statedir' => $state, '--control' => "unix:$state/control.sock",
        '--pid' => "$state/pid", '--log' => '/dev/stderr', '--tmpdir' => $state, '--modulesdir' => _unit_modules($c->{copy}),
    );
}

sub _unitd {
    my ($copy) = @_;
    my ($found) = grep { -x && !-d } map { "$copy/$_" } qw(sbin/unitd build/sbin/unitd unitd);
    return $found;
}

sub _unit_modules {
    my ($copy) = @_;
    my ($found) = grep { -e "$_/perl.unit.so" } map { "$copy/$_" } qw(modules build/lib/unit/modules lib/unit/modules);
    return $found;
}

sub _write {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "$path: $!\n";
    print {$file} $text;
    close $file or die "$path: $!\n";
    return;
}

1;
__END__

=head1 NAME

HydroBench::Servers - the servers that the benchmark knows, each a small description

=head1 SYNOPSIS

    for my $server (HydroBench::Servers->all) {
        my $why_not = HydroBench::Servers->missing($server, { root => $root, copy => $copies{$server->{name}} });
        print "$server->{name}: skipped, $why_not\n" if defined $why_not;
    }

To add a server, add one hash to C<all>; its keys are explained above it.

=cut
