package Hydrofoil::Accelerate::AccessLog;
use strict;
use warnings;

# No "use 5.016" here: uc() has to see bytes as Apache::LogFormat::Compiler's does, which has no unicode_strings.

my %known; # the code of letters that are known to do what the program's steps do

sub modules {
    return (
        'Apache::LogFormat::Compiler' => {
            versions => ['0.36'],
            replace  => { compile => \&compile, log_line => \&compiler_log_line },
            on       => \&_learn,
        },
        'Plack::Middleware' => {
            versions => [ '1.0048', '1.0050', '1.0051' ],
            version  => 'Plack',
            from     => ['Plack::Util::Accessor'],
            replace  => { app => \&app },
        },
        'Plack::Middleware::AccessLog' => {
            versions => [ '1.0048', '1.0050', '1.0051' ],
            version  => 'Plack',
            from     => ['Plack::Util::Accessor'],
            replace  => {
                call => \&call, log_line => \&log_line, logger => \&logger, format => \&format, compiled_format => \&compiled_format,
                char_handlers => \&char_handlers, block_handlers => \&block_handlers,
            },
        },
    );
}

my %without_prefix = (CONTENT_LENGTH => 1, CONTENT_TYPE => 1);
my %text           = ('%' => '%', l => '-');

# Letters are Perl code in a hash that anybody may change. A step stands for one as it is now, if it writes the same.
sub _learn {
    my %env = map { $_ => lc } qw(REMOTE_ADDR REMOTE_USER REQUEST_METHOD REQUEST_URI SERVER_PROTOCOL SERVER_NAME HTTP_HOST SERVER_PORT
      PATH_INFO QUERY_STRING);
    my @arguments = (\%env, [ 201, [] ], 4_000, 7_654_321, 1_700_000_000);

    %known = ();
    while (my ($letter, $perl) = each %Apache::LogFormat::Compiler::char_handler) {
        local $@;
        my $code = eval { Hydrofoil::Accelerate::Original::Apache::LogFormat::Compiler::compile("%$letter", {}, {}) } or next;
        $known{$letter} = $perl;
        my $program = translate($code, "%$letter", {}, {});
        my $same    = eval { $code->(@arguments) eq $program->(@arguments) };
        delete $known{$letter} if !$same;
    }
    return;
}

# The sub for a format that the original has compiled to $code: one that runs a program, or $code itself if the format has
# something that no program is made for. A step is a letter; toolkit/accesslog_format.c says which.
sub translate {
    my ($code, $format, $blocks, $chars) = @_;

    return $code if !defined $format || index($format, '\\') >= 0;   # which escapes in the original's quotes
    return $code if ref $blocks ne 'HASH' || ref $chars ne 'HASH' || tied %$blocks || tied %$chars;
    for my $name (qw(time localtime)) {                              # a clock that tests have set
        no strict 'refs';
        return $code if defined &{"CORE::GLOBAL::$name"} || defined &{"Apache::LogFormat::Compiler::$name"};
    }

    my (@steps, $handlers);
    my $text = sub {
        my $piece = shift;
        return if $piece eq '';
        if (@steps && $steps[-1][0] eq 'L') { $steps[-1][1] .= $piece }
        else                                { push @steps, [ 'L', $piece ] }
    };

    my $at = 0;
    while ($format =~ /%\{(.+?)\}([a-zA-Z])|%[<>]?([a-zA-Z%])/g) {
        my ($block, $type, $char) = ($1, $2, $3);
        $text->(substr $format, $at, $-[0] - $at);
        $at = $+[0];
        if (!defined $block) {
            my $builtin = $Apache::LogFormat::Compiler::char_handler{$char};
            if ($builtin) {
                return $code if !defined $known{$char} || $known{$char} ne $builtin;
                if (defined $text{$char}) { $text->($text{$char}) }
                else                      { push @steps, [$char] }
            }
            else {
                $handlers = 1;
                push @steps, [ 'X', $chars, $char ];
            }
            next;
        }
        return $code if index($block, q{'}) >= 0;
        $block =~ s/!/\\!/g;                                         # which stays escaped in single quotes
        if ($type eq 'i') {
            $block =~ tr/-/_/;
            $block = uc $block;
            push @steps, [ 'i', $without_prefix{$block} ? $block : "HTTP_$block" ];
        }
        elsif ($type eq 'o') {
            $block = lc $block;
            return $code if utf8::is_utf8($block);
            push @steps, [ 'o', $block ];
        }
        elsif ($type eq 't') {
            return $code if !_is_quiet($block);
            push @steps, [ 'S', $block, undef ];
        }
        else {
            $handlers = 1;
            push @steps, [ 'Y', $blocks, $type, $block ];
        }
    }
    $text->(substr $format, $at);
    return program($code, join('', map { $_->[0] } @steps), $handlers ? 1 : 0, map { @{$_}[ 1 .. $#$_ ] } @steps);
}

# A format that a middleware compiled before this was loaded: compiled anew it has a program, which its object gets if the
# Perl is the same.
sub adopt {
    my $self = shift;

    my $compiler = $self->{compiled_format};
    return if ref $compiler ne 'Apache::LogFormat::Compiler' || !defined $compiler->[1];
    local $@;
    local $SIG{__DIE__};
    my $again = eval {
        Apache::LogFormat::Compiler->new($self->{format} || 'combined',
            map { $_ => $self->{$_} || {} } qw(char_handlers block_handlers));
    };
    $compiler->[0] = $again->[0] if $again && $again->[1] eq $compiler->[1];
    return;
}

# Has a time that format without a warning? What is kept for a second is worked out once, and would warn once.
sub _is_quiet {
    my $format = shift;

    my $quiet = 1;
    local $@;
    local $SIG{__DIE__};
    local $SIG{__WARN__} = sub { $quiet = 0 };
    return 0 if !eval { POSIX::strftime::Compiler::strftime($format, gmtime $_) for 1_700_000_000, 1_700_040_000; 1 };
    return $quiet;
}

# The rest of Plack::Middleware::AccessLog's call() when the application has answered, for a delayed response and whatever
# else is out of the ordinary: the original is called, and finds an application that has the answer.
sub finish {
    my ($self, $env, $answer) = @_;

    my $app = $self->{app};
    $self->{app} = sub { $self->{app} = $app; return $answer };
    return Hydrofoil::Accelerate::Original::Plack::Middleware::AccessLog::call($self, $env);
}

1;

__END__

=head1 NAME

Hydrofoil::Accelerate::AccessLog - access logs in C

=head1 SYNOPSIS

    use Hydrofoil::Accelerate only => ['AccessLog'];

=head1 DESCRIPTION

Which subs of L<Plack::Middleware::AccessLog> and L<Apache::LogFormat::Compiler> run in C, and the versions that this was
proven with. A format whose literal text or names have a backslash or, in braces, a single quote stays in Perl, and so does
a clock or a letter that somebody has replaced. A custom handler should not change the environment that it is given: what of
it has been written is written.
L<Hydrofoil::Accelerate> puts them into place.

=cut
