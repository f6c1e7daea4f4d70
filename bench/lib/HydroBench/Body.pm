package HydroBench::Body;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(random_bytes);

my $BOUNDARY = '----hydrobench7d1f0c3a';

# A form as the body of a POST: its content type and its bytes. $post has one of
#
#   urlencoded   names and values, a list
#   multipart    the same; a value that is a hash is an upload: filename, type (application/octet-stream), size in bytes
sub encode {
    my ($class, $post) = @_;
    return ('application/x-www-form-urlencoded', _urlencoded(@{ $post->{urlencoded} })) if $post->{urlencoded};
    return ("multipart/form-data; boundary=$BOUNDARY", _multipart(@{ $post->{multipart} })) if $post->{multipart};
    die "post: neither urlencoded nor multipart\n";
}

sub _urlencoded {
    my @texts = @_;
    for (@texts) {
        s/([^A-Za-z0-9_.* -])/sprintf '%%%02X', ord $1/ge;
        tr/ /+/;
    }
    my @pairs;
    while (my ($name, $value) = splice @texts, 0, 2) { push @pairs, "$name=$value" }
    return join '&', @pairs;
}

sub _multipart {
    my @fields = @_;
    my $bytes = '';
    while (my ($name, $value) = splice @fields, 0, 2) {
        $bytes .= qq{--$BOUNDARY\r\nContent-Disposition: form-data; name="$name"};
        if (ref $value) {
            my $type = $value->{type} || 'application/octet-stream';
            $bytes .= qq{; filename="$value->{filename}"\r\nContent-Type: $type};
            $value = random_bytes($value->{size});
        }
        $bytes .= "\r\n\r\n$value\r\n";
    }
    return "$bytes--$BOUNDARY--\r\n";
}

# So many bytes that look random but are the same each time.
sub random_bytes {
    my ($size) = @_;
    my ($state, $bytes) = (1, '');
    while (length $bytes < $size) {
        $state = ($state * 1_103_515_245 + 12_345) & 0x7fffffff;
        $bytes .= pack 'V', $state;
    }
    return substr $bytes, 0, $size;
}

1;
__END__

=head1 NAME

HydroBench::Body - the forms that the benchmark posts

=head1 SYNOPSIS

    my ($type, $bytes) = HydroBench::Body->encode({ urlencoded => [foo => 'bar', text => 'two words'] });
    my ($type, $bytes) = HydroBench::Body->encode({
        multipart => [foo => 'bar', file => { filename => 'a.png', type => 'image/png', size => 20_000 }],
    });

=cut
