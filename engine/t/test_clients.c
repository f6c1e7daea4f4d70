/* test_clients.c - clients that leave, are slow, or do not stop sending; sockets that run out. */
#include "conversation.h"

#include <netinet/tcp.h>

/* --- clients that leave, or are slow --- */

static void half_closed(void)
{
    start();
    client *c = dial();
    say(c, GET("/") GET("/later") GET("/"));
    shutdown(c->fd, SHUT_WR);
    settle(c);
    ok(sleeps(), "a client that has half-closed and waits costs nothing");
    is_int(n_gone, 0, "and is not gone");
    hello(parked);
    is_str(told(c), HELLO " " HELLO " " HELLO " eof", "it has all its answers, then the connection ends");
    hang_up(c);

    c = dial();
    say(c, GET("/later") GET("/") "GET / HT");
    shutdown(c->fd, SHUT_WR);
    settle(c);
    hello(parked);
    is_str(told(c), HELLO " " HELLO " eof", "so it has when it ends in the middle of a request");
    hang_up(c);

    c = dial_with(1);
    say(c, GET("/large") "POST /" H "Content-Length: 9\r\n\r\n123");
    shutdown(c->fd, SHUT_WR);
    for (int i = 0; i < 5; i++) /* it does not read yet */
        turn();
    is_str(told(c), "200:300000 eof", "or in the middle of a body, however slowly it reads");
    hang_up(c);
    while (hf_engine_released(e))
        ;
    finish();
}

/* A request that fills the buffer it is read into hides that more has come; the poller, asked for edges, would not say so
 * again. Whatever the length of the first, the second is answered. */
static void full_reads(bool ends)
{
    enum { SHORTEST = HF_BUF_SIZE - 150, LONGEST = HF_BUF_SIZE + 50 };
    static char text[LONGEST + 200];
    unsigned answered = 0, tried = 0;

    start();
    for (int n = SHORTEST; n <= LONGEST; n++) {
        client *c = dial();
        say(c, GET("/"));
        settle(c);
        const int begin = sprintf(text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
        memset(text + begin, 'x', (size_t)(n - begin - 4));
        sprintf(text + n - 4, "\r\n\r\n%s", GET("/"));
        say(c, text);
        if (ends)
            shutdown(c->fd, SHUT_WR);
        answered += strcmp(told(c), ends ? HELLO " " HELLO " " HELLO " eof" : HELLO " " HELLO " " HELLO) == 0;
        tried++;
        hang_up(c);
    }
    is_int(answered, tried, ends ? "and so is the end behind it" : "after a request of whatever length the next one is seen");
    finish();
}

static void gone(void)
{
    start();
    client *c = dial();
    say(c, GET("/later"));
    settle(c);
    hang_up(c);
    settle(NULL);
    is_int(n_gone, 1, "when a client leaves whose answer comes later, that is told once");
    is_int(e->n_conns, 0, "and its connection is closed");

    c = dial();
    say(c, GET("/stream"));
    settle(c);
    close(c->fd);
    c->fd = -1;
    const char *data = large;
    int64_t rc = 0;
    for (int i = 0; i < 5 && rc >= 0; i++) {
        hf_response_write_ref(parked, data, 1000, large);
        rc = hf_response_flush(parked);
    }
    ok(rc < 0, "writing to a client that has left is told to the writer");
    unsigned owners = 0;
    while (hf_engine_released(e))
        owners++;
    ok(owners > 0, "and the bytes come back to their owner");
    hf_response_end(parked);
    settle(NULL);
    hang_up(c);

    c = dial();
    say(c, GET("/later"));
    settle(c);
    hf_request *r = parked;
    hf_request_ref(r);
    hello(r);
    is_int(hf_response_interim(r, 103, NULL, 0), -1, "who still holds a request that is answered cannot write to it");
    hf_request_unref(r);
    settle(c);
    hang_up(c);
    finish();
}

static void slow_reader(void)
{
    config.max_write_buffer = 100000;
    start();
    client *c = dial_with(1);
    say(c, GET("/stream"));
    turn();
    hf_request *r = parked;
    hf_response_write_ref(r, large, LARGE, large);
    ok(hf_response_flush(r) > 100000, "what a slow reader has not taken is told");
    hf_request_notify_writable(r, 50000);
    turn();
    is_int(n_writable, 0, "the application is not asked for more as long as too much waits");
    for (int i = 0; i < 2000 && !n_writable; i++) {
        listen_to(c, 4000);
        turn();
    }
    is_int(n_writable, 1, "when less is left than it said it is asked, once");
    ok(e->conns && e->conns->out.bytes < 50000 && e->conns->out.bytes > 0, "not only when all is sent");
    hf_response_end(r);
    is_str(told(c), "200:300003", "the client has it all");
    ok(hf_engine_released(e) == large && !hf_engine_released(e), "and the owner its bytes, once");
    hang_up(c);
    finish();
}

static void read_ahead(void)
{
    static char much[200000];

    start();
    client *c = dial();
    say(c, "POST /later" H "Content-Length: 5\r\n\r\nhello");
    settle(c);
    const hf_body *body = &parked->body;
    ok(body->fd < 0 && !body->cap && body->len == 5, "a small body stays in the read buffer");
    memset(much, 'x', sizeof much);
    for (int i = 0; i < 40; i++) {
        send(c->fd, much, 5000, MSG_NOSIGNAL | MSG_DONTWAIT);
        turn();
    }
    const hf_buf *in = e->conns->in;
    ok(body->mem > in->data && body->mem < in->data + in->end && memcmp(body->mem, "hello", 5) == 0,
       "and is still there after much was read ahead");
    ok(e->conns->in->end - e->conns->in->start < 200000, "which has a limit");
    ok(sleeps(), "above which the engine sleeps");
    hello(parked);
    is_str(told(c), HELLO " 400!:Bad Request eof", "then it is looked at");
    hang_up(c);

    c = dial();
    say(c, GET("/") GET("/later"));
    settle(c);
    const int fd = hf_request_expose_io(parked);
    ok(fd >= 0, "an application may have the socket");
    say(c, "for the application");
    settle(c);
    ok(sleeps(), "what is sent to it then does not wake the engine");
    char got[64];
    ok(recv(fd, got, sizeof got, MSG_DONTWAIT) == 19, "and is left to the application");
    hf_request_detach(parked);
    hang_up(c);
    finish();
}

static void exposed_in_order(void)
{
    start();
    client *c = dial();
    say(c, GET("/") GET("/") GET("/later"));
    hf_engine_poll(e, 0);
    unsigned events;
    hf_request *r;
    while ((r = hf_engine_next(e, &events)) && !path_is(r, "/later"))
        hello(r);
    if (ok(r != NULL, "behind two answers that wait to be sent together")) {
        const int fd = hf_request_expose_io(r);
        ok(send(fd, "HTTP/1.1 204 No Content\r\n\r\n", 27, MSG_NOSIGNAL) == 27, "the application writes to the socket itself");
        hf_request_detach(r);
    }
    is_str(told(c), HELLO " " HELLO " 204: eof", "and what it writes does not overtake them");
    hang_up(c);
    finish();
}

/* --- over TCP --- */

static int tcp_port;

static int tcp_listener(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 256) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0) {
        perror("listen");
        exit(2);
    }
    tcp_port = ntohs(at.sin_port);
    return fd;
}

static client *dial_tcp(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)tcp_port)};
    client *c = calloc(1, sizeof *c);
    if (!c || (c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0 || connect(c->fd, (struct sockaddr *)&at, sizeof at) < 0) {
        perror("connect");
        exit(2);
    }
    return c;
}

/* Waits for no acknowledgement: a client may put that off for 40 ms. */
static void at_once(void)
{
    const int fd = tcp_listener();
    int on = 0;
    socklen_t len = sizeof on;

    start();
    ok(hf_engine_listen(e, fd, "127.0.0.1", "80") == 0, "a listening socket");
    client *c = dial_tcp();
    for (int i = 0; i < 5000 && !e->conns; i++) {
        turn();
        usleep(1000);
    }
    ok(e->conns && getsockopt(e->conns->fd, IPPROTO_TCP, TCP_NODELAY, &on, &len) == 0 && on, "its connections send each piece at once");
    hang_up(c);
    finish();
    close(fd);
}

/* The network takes its time: turns until the client has `n` bytes, or the end of the connection, or 5 s have passed. */
static void until(client *c, size_t n, bool end)
{
    for (int i = 0; i < 5000 && (c->n < n || (end && !c->eof)); i++) {
        turn();
        if (!listen_to(c, SIZE_MAX))
            usleep(1000);
    }
}

static void until_none(void)
{
    for (int i = 0; i < 5000 && e->n_conns; i++) {
        turn();
        usleep(1000);
    }
}

static void lingering(void)
{
    static char much[65536];
    const int fd = tcp_listener();

    config.max_body = 10;
    config.max_keepalive_requests = 2;
    start();
    hf_engine_listen(e, fd, "127.0.0.1", "1");
    client *c = dial_tcp();
    say(c, "POST /" H "Content-Length: 1000000\r\n\r\n");
    memset(much, 'x', sizeof much);
    for (int i = 0; i < 10; i++) { /* it does not look at what it is told before it is done */
        for (size_t at = 0; at < sizeof much;) {
            ssize_t k = send(c->fd, much + at, sizeof much - at, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (k > 0)
                at += (size_t)k;
            else if (k < 0 && errno != EAGAIN)
                break;
            turn();
        }
    }
    until(c, 50, true);
    is_str(told(c), "413!:Content Too Large eof", "a client that is still sending gets its refusal, and no reset");
    close(c->fd);
    c->fd = -1;
    until_none();
    is_int(e->n_conns, 0, "when it leaves, its connection is gone");
    hang_up(c);

    c = dial_tcp();
    say(c, GET("/"));
    until(c, 10, false);
    say(c, GET("/later"));
    for (int i = 0; i < 5000 && !parked; i++) {
        turn();
        usleep(1000);
    }
    for (int i = 0; i < 3; i++)
        say(c, GET("/")); /* beyond the limit of two, while the application has the second */
    usleep(20000);
    hello(parked);
    until(c, 200, true);
    is_str(told(c), HELLO " 200!:hello eof", "nor is one reset that sends its next request before it knows that it is the last");
    hang_up(c);

    c = dial_tcp();
    say(c, GET("/") GET("/"));
    until(c, 0, true);
    say(c, GET("/")); /* sent before it read the above */
    usleep(20000);
    settle(NULL);
    int error = 0;
    socklen_t len = sizeof error;
    ok(getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0, "nor one that pipelines, while its next request is on its way");
    hang_up(c);
    until_none();

    c = dial_tcp();
    say(c, "GET nothing\r\n\r\n");
    until(c, 50, true);
    is_int(e->n_conns, 1, "a refused client that stays");
    pass(4000);
    say(c, "x");
    usleep(20000);
    pass(4000);
    is_int(e->n_conns, 1, "is waited for as long as it sends");
    pass(5200);
    is_int(e->n_conns, 0, "and some seconds longer");
    hang_up(c);
    c = dial_tcp();
    say(c, "GET nothing\r\n\r\n");
    until(c, 50, true);
    for (int i = 0; i < 12 && e->n_conns; i++) {
        say(c, "x");
        usleep(20000);
        pass(3000);
    }
    is_int(e->n_conns, 0, "but not for ever");
    hang_up(c);
    finish();
    close(fd);
}

static char log_line[256];

static void keep_line(void *arg, const char *line)
{
    (void)arg;
    snprintf(log_line, sizeof log_line, "%s", line);
}

/* A turn may be long where many connections are busy: those that wait to be accepted must not wait for one each. */
static void many_at_once(void)
{
    enum { MANY = 150 };
    const int fd = tcp_listener();
    client *c[MANY];
    int turns = 0;

    config.accept_batch = 4;
    start();
    hf_engine_listen(e, fd, "127.0.0.1", "1");
    for (int i = 0; i < MANY; i++) {
        c[i] = dial_tcp();
        say(c[i], GET("/"));
    }
    turn();
    ok(e->n_accepted <= 4, "one worker does not take all at once, others may be idle");
    while (e->n_accepted < MANY && turns++ < 1000)
        turn();
    ok(turns < 12, "but the more wait, the more it takes in a turn");
    for (int i = 0; i < MANY; i++)
        hang_up(c[i]);
    until_none();

    e->max_accepted = 100;
    for (int i = 0; i < MANY; i++)
        c[i] = dial_tcp(), say(c[i], GET("/"));
    for (int i = 0; i < 50; i++)
        turn();
    is_int(e->n_conns, 100, "though never more than leaves descriptors for others");
    for (int i = 0; i < MANY; i++)
        hang_up(c[i]);
    until_none();
    finish();
    close(fd);
}

static void out_of_descriptors(void)
{
    const int fd = tcp_listener();
    int taken[512], n = 0;
    struct rlimit before, few;

    config.log = keep_line;
    start();
    hf_engine_listen(e, fd, "127.0.0.1", "1");
    client *c = dial_tcp();
    say(c, GET("/"));
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &few);
    while (n < 512 && (taken[n] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
        n++;
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        turn();
    }
    ok(strstr(log_line, "cannot accept") != NULL, "when there are no descriptors left it says so");
    ok(sleeps(), "and does not spin");
    while (n > 0)
        close(taken[--n]);
    setrlimit(RLIMIT_NOFILE, &before);
    pass(600);
    until(c, 50, false);
    is_str(told(c), HELLO, "the connection that had to wait is served when there are some again");
    hang_up(c);
    finish();
    close(fd);
}

int main(void)
{
    prepare();
    half_closed();
    full_reads(false);
    full_reads(true);
    gone();
    slow_reader();
    read_ahead();
    exposed_in_order();
    at_once();
    lingering();
    many_at_once();
    out_of_descriptors();
    free(large);
    return done_testing();
}
