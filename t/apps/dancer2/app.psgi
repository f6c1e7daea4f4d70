# A guest book in Dancer2: forms, uploads, cookies, redirects, static files, streaming.
package GuestBook;
use Dancer2;

set appdir  => $ENV{HYDROFOIL_TEST_APPDIR};
set public_dir => "$ENV{HYDROFOIL_TEST_APPDIR}/public";
set views   => "$ENV{HYDROFOIL_TEST_APPDIR}/views";
set template => 'tiny';
set layout  => undef;
set charset => 'UTF-8';
set logger  => 'null';
set static_handler => 1;

my @entries;

get '/' => sub { template 'index.tt', {name => query_parameters->get('name') || 'nobody', count => scalar @entries} };

get '/hello/:name' => sub { 'Hello, ' . route_parameters->get('name') };

post '/sign' => sub {
    push @entries, body_parameters->get('text');
    redirect '/entries';
};

get '/entries' => sub { join "\n", @entries };

post '/upload' => sub {
    my $upload = upload('file') or send_error('no file', 400);
    join ' ', $upload->filename, $upload->size, $upload->type, body_parameters->get('comment');
};

get '/visit' => sub {
    my $cookie = cookies->{visits};
    my $visits = ($cookie ? $cookie->value : 0) + 1;
    cookie visits => $visits;
    "visit $visits";
};

get '/stream' => sub {
    delayed {
        flush;
        content "part $_\n" for 1 .. 5;
        done;
    };
};

get '/file' => sub { send_file 'data.txt' };

get '/dies' => sub { die "Dancer dies\n" };

put '/json' => sub {
    content_type 'application/json';
    my $data = from_json(request->body);
    to_json({sum => $data->{a} + $data->{b}});
};

GuestBook->to_app;
