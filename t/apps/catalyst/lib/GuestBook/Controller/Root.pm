package GuestBook::Controller::Root;
use Moose;
use namespace::autoclean;
use JSON::PP ();

BEGIN { extends 'Catalyst::Controller' }

__PACKAGE__->config(namespace => '');

my @entries;

sub text {
    my ($c, $text) = @_;
    $c->response->content_type('text/plain; charset=utf-8');
    $c->response->body($text);
    return;
}

sub index :Path :Args(0) {
    my ($self, $c) = @_;
    text($c, sprintf "Hello %s, there are %d entries.\n", $c->request->query_parameters->{name} || 'nobody', scalar @entries);
    return;
}

sub hello :Local :Args(1) { my ($self, $c, $name) = @_; text($c, "Hello, $name"); return }

sub sign :Local :Args(0) POST {
    my ($self, $c) = @_;
    push @entries, $c->request->body_parameters->{text};
    $c->response->redirect($c->uri_for('/entries'));
    return;
}

sub entries :Local :Args(0) { my ($self, $c) = @_; text($c, join "\n", @entries); return }

sub upload :Local :Args(0) POST {
    my ($self, $c) = @_;
    my $upload = $c->request->upload('file');
    text($c, join ' ', $upload->filename, $upload->size, $upload->type, $c->request->body_parameters->{comment});
    return;
}

sub visit :Local :Args(0) {
    my ($self, $c) = @_;
    my $cookie = $c->request->cookie('visits');
    my $visits = ($cookie ? $cookie->value : 0) + 1;
    $c->response->cookies->{visits} = {value => $visits};
    text($c, "visit $visits");
    return;
}

sub stream :Local :Args(0) {
    my ($self, $c) = @_;
    $c->response->content_type('text/plain');
    $c->response->write("part $_\n") for 1 .. 5;
    return;
}

sub file :Local :Args(0) {
    my ($self, $c) = @_;
    open my $fh, '<', $c->path_to('root', 'static', 'data.txt') or die $!;
    $c->response->content_type('text/plain');
    $c->response->body($fh);
    return;
}

sub dies :Local :Args(0) { die "Catalyst dies\n" }

sub json :Local :Args(0) PUT {
    my ($self, $c) = @_;
    my $data = $c->request->body_data;
    $c->response->content_type('application/json');
    $c->response->body(JSON::PP->new->encode({sum => $data->{a} + $data->{b}}));
    return;
}

sub default :Path {
    my ($self, $c) = @_;
    $c->response->status(404);
    text($c, 'nothing here');
    return;
}

__PACKAGE__->meta->make_immutable;

1;
