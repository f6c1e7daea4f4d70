package HydroBench::Servers;
use strict;
use warnings;
use HydroBench::Proc qw(slurp);

# A server is a hash:
#
#   name        what --servers and the tables call it
#   kind        psgi: runs bench/apps/*.psgi; accelerated: the same, with Hydrofoil::Accelerate; web: serves the same bytes
#               without Perl; floor: the yardstick
#   apps        the apps it can serve, where that is not all of them
#   blocking    true when a worker serves one connection at a time: many connections then say nothing about it
#   needs       what must be there: program => name, module => Perl module, copy => 1 (a built copy named by --copy),
#               file => path below the checkout
#   packages    the Debian packages that bring it
#   hint        what to do about it where a package does not
#   single      true when it has one worker and no option for more
#   variant     true when it takes part only where a scenario or --servers names it
#   reload      the signal that replaces its workers without losing requests
#   command     makes the command line from a context: port, app, dir (scratch), root, copy, file, workers
#   version     prints its version: a command line
#   stop_signal TERM by default

my $FOREVER = 1_000_000_000;    # requests, where a server wants a limit

sub all {
    my @servers = _plain();
    my %named   = map { $_->{name} => $_ } @servers;
    return (@servers, map { _accelerated($named{$_}) } qw(hydrofoil starman starlet));
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

sub _plain {
    return (
        {
            name     => 'hydrofoil',
            kind     => 'psgi',
            needs    => { file => [qw(bin/hydrofoil blib/lib blib/arch)] },
            hint     => 'build it first: perl Makefile.PL && make',
            reload   => 'HUP',
            command  => sub { (_hydrofoil($_[0]), _app($_[0])) },
            version  => \&_hydrofoil_version,
        },
        {
            name     => 'hydrofoil-no-standby',
            variant  => 1,
            kind     => 'psgi',
            needs    => { file => [qw(bin/hydrofoil blib/lib blib/arch)] },
            hint     => 'build it first: perl Makefile.PL && make',
            reload   => 'HUP',
            command  => sub { (_hydrofoil($_[0]), '--no-standby', _app($_[0])) },
            version  => \&_hydrofoil_version,
        },
        {
            name     => 'floor',
            kind     => 'floor',
            apps     => ['hello'],
            needs    => { file => ['build/bench/floor'] },
            hint     => 'it needs a C compiler',
            packages => ['gcc', 'libc6-dev'],
            command  => sub { ("$_[0]{root}/build/bench/floor", $_[0]{port}) },
        },
        {
            name     => 'nginx',
            kind     => 'web',
            apps     => ['hello', 'file'],
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
            command  => sub {
                my ($c) = @_;
                return (
                    'starman', '--listen' => "127.0.0.1:$c->{port}", '--workers' => $c->{workers} || 1, '--max-requests' => $FOREVER,
                    '--preload-app', '-E' => 'production', _app($c),
                );
            },
            version => sub { ($^X, '-MStarman', '-e', 'print "Starman $Starman::VERSION\n"') },
        },
        {
            name     => 'starlet',
            kind     => 'psgi',
            blocking => 1,
            needs    => { program => ['plackup'], module => ['Plack::Handler::Starlet'] },
            packages => ['starlet'],
            command  => sub {
                my ($c) = @_;
                return (
                    _plackup($c, 'Starlet'), '--max-workers' => $c->{workers} || 1, '--max-keepalive-reqs' => 10_000,
                    '--max-reqs-per-child' => $FOREVER, _app($c),
                );
            },
            version => sub { ($^X, '-MStarlet', '-e', 'print "Starlet $Starlet::VERSION\n"') },
        },
        {
            name     => 'twiggy',
            kind     => 'psgi',
            single   => 1,
            needs    => { program => ['plackup'], module => ['Plack::Handler::Twiggy'] },
            packages => ['twiggy'],
            command  => sub { (_plackup($_[0], 'Twiggy'), '--backlog' => 16_384, _app($_[0])) },
            version  => sub { ($^X, '-MTwiggy', '-MAnyEvent', '-e', 'print "Twiggy $Twiggy::VERSION\n"') },
        },
        {
            name     => 'uwsgi',
            kind     => 'psgi',
            blocking => 1,
            needs    => { program => ['uwsgi'], psgi_plugin => 1 },
            packages => ['uwsgi-core', 'uwsgi-plugin-psgi'],
            stop_signal => 'INT',    # TERM reloads it
            command  => sub {
                my ($c) = @_;
                return (
                    'uwsgi', '--plugin' => 'psgi', '--http11-socket' => "127.0.0.1:$c->{port}", '--psgi' => _app_path($c),
                    '--master', '--processes' => $c->{workers} || 1, '--disable-logging', '--listen' => _somaxconn(), '--need-app',
                );
            },
            version => sub { ('uwsgi', '--version') },
        },
        {
            name    => 'feersum',
            kind    => 'psgi',
            needs   => { program => ['plackup'], copy => 1 },
            command => sub {
                my ($c) = @_;
                my $workers = $c->{workers} || 1;
                return (_plackup($c, 'Feersum'), '--keepalive' => 1, ($workers > 1 ? ('--pre-fork' => $workers) : ()), _app($c));
            },
            version => sub { _copy_version($_[0], 'Feersum') },
        },
        {
            name     => 'gazelle',
            kind     => 'psgi',
            blocking => 1,
            needs    => { program => ['plackup'], copy => 1 },
            command  => sub {
                my ($c) = @_;
                return (
                    _plackup($c, 'Gazelle'), '--max-workers' => $c->{workers} || 1, '--max-reqs-per-child' => $FOREVER, _app($c),
                );
            },
            version => sub { _copy_version($_[0], 'Gazelle') },
        },
        {
            name    => 'cacilheiro',
            kind    => 'psgi',
            needs   => { program => ['plackup'], copy => 1 },
            command => sub { (_plackup($_[0], 'Cacilheiro'), '--max-workers' => $_[0]{workers} || 1, _app($_[0])) },
        },
    );
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
    return 'no built copy given (--copy ' . $server->{name} . '=DIR)' if $needs->{copy} && !defined $context->{copy};
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
    return 'its psgi plugin is not installed' if $needs->{psgi_plugin} && !glob '/usr/lib*/uwsgi/plugins/psgi_plugin.so';
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
    return (
        $^X, "-I$root/blib/lib", "-I$root/blib/arch", "$root/bin/hydrofoil",
        '--host' => '127.0.0.1', '--port' => $c->{port}, '--workers' => $c->{workers} || 1, '--backlog' => 16_384,
        '--max-keepalive-reqs' => 0, '--keepalive-timeout' => 65, '-E' => 'production',
    );
}

sub _hydrofoil_version {
    my ($c) = @_;
    my $root = $c->{copy} || $c->{root};
    return ($^X, "-I$root/blib/lib", "-I$root/blib/arch", "$root/bin/hydrofoil", '--version');
}

sub _copy_includes {
    my ($c) = @_;
    return () unless defined $c->{copy};
    return map { ('-I' => $_) } grep { -d } map { "$c->{copy}/$_" } qw(blib/lib blib/arch lib);
}

sub _plackup {
    my ($c, $handler) = @_;
    return (
        'plackup', _copy_includes($c), '-s' => $handler, '-E' => 'production', '--host' => '127.0.0.1',
        '--port' => $c->{port},
    );
}

sub _copy_version {
    my ($c, $module) = @_;
    return ($^X, _copy_includes($c), "-M$module", '-e', "print qq($module \$$module\::VERSION\\n)");
}

sub _somaxconn {
    my ($limit) = slurp('/proc/sys/net/core/somaxconn') =~ /(\d+)/;
    return $limit && $limit < 16_384 ? $limit : 16_384;
}

sub _nginx_config {
    my ($c) = @_;
    my ($folder, $file) = defined $c->{file} ? $c->{file} =~ m{^(.*)/([^/]+)$} : ();
    my $location = $c->{app} eq 'file'
        ? "location = / { root $folder; try_files /$file =404; default_type application/octet-stream; }"
        : 'location = / { default_type text/plain; return 200 "Hello World"; }';
    my $temporary = join "\n    ", map { "${_}_temp_path $c->{dir}/nginx-$_;" } qw(client_body proxy fastcgi uwsgi scgi);
    my $path = "$c->{dir}/nginx-$c->{app}.conf";
    open my $config, '>', $path or die "$path: $!\n";
    print {$config} <<"CONF";
daemon off;
worker_processes @{[ $c->{workers} || 1 ]};
worker_rlimit_nofile 19000;
pid $c->{dir}/nginx-$c->{app}.pid;
error_log stderr;
events { worker_connections 16384; }
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
    close $config or die "$path: $!\n";
    return $path;
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
