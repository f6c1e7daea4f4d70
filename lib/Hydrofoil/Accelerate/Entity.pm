package Hydrofoil::Accelerate::Entity;
use 5.016;
use strict;
use warnings;

# Bytes of the files of one request that are kept in memory until their name is
# asked for; what is more goes to temporary files at once.
our $MEMORY_LIMIT;    # default: 1 MB, of 1024 * 1024 bytes

# What a multipart body may have; 0 or undef: no limit, as the original.
our $MAX_PARTS;
our $MAX_FIELD_SIZE;    # bytes of one field
our $MAX_FILE_SIZE;     # bytes of one file

# The size of an empty file, as -s gives it.
our $EMPTY = -s '/dev/null';

sub modules {
    my @of_parser = (version => 'HTTP::Entity::Parser', versions => ['0.25']);
    return (
        'HTTP::Entity::Parser' => { @of_parser, replace => { parse => \&parse }, on => \&_name_places },
        'HTTP::Entity::Parser::UrlEncoded' => {
            @of_parser,
            replace => { new => \&url_encoded_new, add => \&url_encoded_add, finalize => \&url_encoded_finalize },
        },
        'HTTP::Entity::Parser::JSON' => {
            @of_parser,
            replace => { new => \&json_new, add => \&json_add, finalize => \&json_finalize },
        },
        # The parser below decides what is accepted, so its version counts as well.
        _proven('HTTP::MultiPartParser', '0.02')
        ? ( 'HTTP::Entity::Parser::MultiPart' => {
                @of_parser,
                replace => { new => \&multipart_new, add => \&multipart_add, finalize => \&multipart_finalize },
            } )
        : (),
        'Plack::Request::Upload' => {
            version  => 'Plack::Request',
            versions => [ '1.0048', '1.0050', '1.0051' ],
            replace  => { new => \&upload_new },
        },
        'Plack::Request' => {
            versions => [ '1.0048', '1.0050', '1.0051' ],
            replace  => { _parse_request_body => \&parse_request_body },
        },
    );
}

sub _proven {
    my ($module, $version) = @_;

    (my $file = "$module.pm") =~ s{::}{/}g;
    local ($@, $SIG{__DIE__});
    eval { require $file; 1 } or return 0;
    no strict 'refs';
    my $found = ${"${module}::VERSION"};
    return 1 if defined $found && $found eq $version;
    $found = 'without a version' if !defined $found;
    Hydrofoil::Accelerate::_warn_once("HTTP::Entity::Parser::MultiPart is left as it is with $module $found: proven with $version");
    return 0;
}

# Exceptions tell where they come from, and carp looks who called whom: these subs
# stand for lines of the originals.
my @PLACES = (
    # sub, package, file, line, statement
    [ 'refuse_in_parser', 'HTTP::MultiPartParser', 'HTTP/MultiPartParser.pm', 122, 'Carp::croak($_[0])' ],
    [ 'refuse',     'HTTP::Entity::Parser::MultiPart', 'HTTP/Entity/Parser/MultiPart.pm', 152, __PACKAGE__ . '::refuse_in_parser($_[0])' ],
    [ 'refuse_end', 'HTTP::Entity::Parser::MultiPart', 'HTTP/Entity/Parser/MultiPart.pm', 157, __PACKAGE__ . '::refuse_in_parser($_[0])' ],
    [ 'die_disposition', 'HTTP::Entity::Parser::MultiPart', 'HTTP/Entity/Parser/MultiPart.pm', 86, 'die $_[0]' ],
    [ 'die_name',        'HTTP::Entity::Parser::MultiPart', 'HTTP/Entity/Parser/MultiPart.pm', 90, 'die $_[0]' ],
    [ 'die_write', 'HTTP::Entity::Parser::MultiPart', 'HTTP/Entity/Parser/MultiPart.pm', 117, q{die qq/Could not write to file handle: '$!'/} ],
    [ 'decode',        'HTTP::Entity::Parser::JSON', 'HTTP/Entity/Parser/JSON.pm', 22,  'scalar decode_json($_[0])' ],
    [ 'refuse_length', 'HTTP::Entity::Parser',       'HTTP/Entity/Parser.pm',      86,  'Carp::croak($_[0])' ],
    [ 'call_new',      'HTTP::Entity::Parser',       'HTTP/Entity/Parser.pm',      52,  '$_[0]->new($_[1], $_[2])' ],
    [ 'call_read',     'HTTP::Entity::Parser',       'HTTP/Entity/Parser.pm',      80,  '$_[0]->read($_[1], $_[2])' ],
    [ 'call_add',      'HTTP::Entity::Parser',       'HTTP/Entity/Parser.pm',      83,  '$_[0]->add($_[1])' ],
    [ 'call_finalize', 'HTTP::Entity::Parser',       'HTTP/Entity/Parser.pm',      128, '$_[0]->finalize' ],
    [ 'parse_request', 'Plack::Request',             'Plack/Request.pm',           255, '$_[0]->parse($_[1])' ],
);

my $named;

sub _name_places {
    return if $named++;
    require Carp;
    require File::Temp;
    @Hydrofoil::Accelerate::Entity::Directory::ISA = 'File::Temp::Dir';
    for my $place (@PLACES) {
        my ($sub, $package, $key, $line, $statement) = @$place;
        my $file = $INC{$key} || $key;
        my $code = "package $package;\nsub Hydrofoil::Accelerate::Entity::$sub {\n# line $line \"$file\"\n$statement\n}\n1;\n";
        eval $code or die $@;    ## no critic (StringyEval)
    }
    return;
}

1;

__END__

=head1 NAME

Hydrofoil::Accelerate::Entity - request bodies in C

=head1 SYNOPSIS

    use Hydrofoil::Accelerate only => ['Entity'];

    $Hydrofoil::Accelerate::Entity::MEMORY_LIMIT = 256 * 1024;
    $Hydrofoil::Accelerate::Entity::MAX_PARTS    = 1000;

=head1 DESCRIPTION

Stands for L<HTTP::Entity::Parser> and its parsers of url-encoded, multipart and JSON
bodies, and for the part of L<Plack::Request> that makes uploads of what they found.
A multipart body that L<HTTP::MultiPartParser> accepts is accepted, and what it
refuses is refused in the same words.

=head2 Uploaded files

A small file is in memory at first. It is written when its name is asked for, that is
when C<< $upload->path >>, C<tempname> or the hash element is read, into a directory
that goes away with C<< $env->{'http.entity.parser.multipart.tempdir'} >>, as always.
If it cannot be written then, that is when the exception comes.

=head1 VARIABLES

They are read at the beginning of each body. One that is undefined has its default.

=head2 $MEMORY_LIMIT

Bytes of the files of one request that are kept in memory. A file that would go beyond
it is written to a temporary file as it comes in. Default: 1048576. With 0 every file
is.

=head2 $MAX_PARTS, $MAX_FIELD_SIZE, $MAX_FILE_SIZE

The most parts of a multipart body, bytes of one field and bytes of one file. A body
that has more is refused with C<Number of parts exceeds maximum allowed>, C<Size of
field exceeds maximum allowed> or C<Size of file exceeds maximum allowed>, where
C<on_error> says. Default: 0, no limit, as the original has none.

=head1 SEE ALSO

L<Hydrofoil::Accelerate>

=cut
