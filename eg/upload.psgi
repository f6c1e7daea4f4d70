# A form with a file, and what arrived: hydrofoil eg/upload.psgi
#
#     curl -F note=hello -F file=@README.md http://127.0.0.1:5000/
#
# The server reads the body to its end before it calls the application: into
# memory while it is small, into a temporary file after that. Plack::Request
# takes the form apart and keeps each uploaded file as a temporary file too.
use strict;
use warnings;

use Digest::SHA ();
use Plack::Request;

my $FORM = <<'HTML';
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Upload</title>
<form method="post" enctype="multipart/form-data">
  <p><label>A note <input name="note"></label></p>
  <p><label>A file <input type="file" name="file" required></label></p>
  <p><button>Send</button></p>
</form>
HTML

sub {
    my $request = Plack::Request->new(shift);
    return [ 200, [ 'Content-Type' => 'text/html; charset=utf-8' ], [$FORM] ]
        unless $request->method eq 'POST';

    my $file = $request->uploads->{file};
    return [ 400, [ 'Content-Type' => 'text/plain' ], ["Send a file in the field named file.\n"] ]
        unless $file;

    my $note   = $request->body_parameters->{note};
    my $report = sprintf "file    %s\nbytes   %d\nsha256  %s\nnote    %s\n",
        $file->filename, $file->size,
        Digest::SHA->new(256)->addfile($file->path, 'b')->hexdigest,
        defined $note && length $note ? $note : '-';
    return [ 200, [ 'Content-Type' => 'text/plain; charset=utf-8' ], [$report] ];
};
