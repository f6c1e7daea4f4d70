# The same guest book in Mojolicious, served through PSGI.
package main;
use Mojolicious::Lite;
use Mojo::Server::PSGI;

app->home(Mojo::Home->new($ENV{HYDROFOIL_TEST_APPDIR}));
app->static->paths(["$ENV{HYDROFOIL_TEST_APPDIR}/public"]);
app->secrets(['for tests only']);
app->log->level('fatal');

my @entries;

get '/' => sub {
    my $c = shift;
    $c->stash(name => $c->param('name') || 'nobody', count => scalar @entries);
    $c->render(template => 'index');
};

get '/hello/:name' => sub { my $c = shift; $c->render(text => 'Hello, ' . $c->param('name')) };

post '/sign' => sub {
    my $c = shift;
    push @entries, $c->param('text');
    $c->redirect_to('/entries');
};

get '/entries' => sub { my $c = shift; $c->render(text => join "\n", @entries) };

post '/upload' => sub {
    my $c = shift;
    my $upload = $c->req->upload('file') or return $c->render(text => 'no file', status => 400);
    $c->render(text => join ' ', $upload->filename, $upload->size, $upload->headers->content_type, $c->param('comment'));
};

get '/visit' => sub {
    my $c = shift;
    my $visits = ($c->session('visits') || 0) + 1;
    $c->session(visits => $visits);
    $c->render(text => "visit $visits");
};

get '/stream' => sub {
    my $c = shift;
    my $i = 0;
    my $next;
    $next = sub {
        my $content = shift;
        $i++ < 5 ? $content->write_chunk("part $i\n", $next) : $content->write_chunk('');
    };
    $c->res->headers->content_type('text/plain');
    $next->($c);
    $c->rendered(200);
};

get '/file' => sub { shift->reply->static('data.txt') };

get '/dies' => sub { die "Mojolicious dies\n" };

put '/json' => sub {
    my $c = shift;
    my $data = $c->req->json;
    $c->render(json => {sum => $data->{a} + $data->{b}});
};

app->renderer->cache->max_keys(0);
push @{ app->renderer->paths }, "$ENV{HYDROFOIL_TEST_APPDIR}/templates";
app->mode('production');
Mojo::Server::PSGI->new(app => app)->to_psgi_app;
