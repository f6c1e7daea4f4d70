/* test_engine.c - the engine between a client on a socket pair and an application of a few lines: connections, deadlines,
 * drains and the ends of things. The clock is the test's own.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "answers.h"
#include "tap.h"

#define H " HTTP/1.1\r\nHost: a\r\n"
#define GET(path) "GET " path H "\r\n"
#define HELLO "200:hello"

typedef struct client {
    int fd;
    bool to_head; /* it asks HEAD only */
    bool eof, reset;
    char *got;
    size_t n;
} client;

static hf_engine *e;
static hf_config config;
static hf_listener listener;
static uint64_t now;
static hf_request *parked;       /* what /later left */
static unsigned n_gone, n_writable, n_run, n_writes;
static char *large;              /* 300,000 bytes */
static char body_seen[64];       /* the body of the last request */

#define LARGE 300000

static uint64_t test_clock(void)
{
    return now;
}

/* Counts the writes. */
static ssize_t counted_write(hf_conn *c, const struct iovec *iov, int n, bool more)
{
    n_writes++;
    return hf_transport_plain.write(c, iov, n, more);
}

static ssize_t plain_read(hf_conn *c, char *dst, size_t len)
{
    return hf_transport_plain.read(c, dst, len);
}

static ssize_t plain_sendfile(hf_conn *c, int fd, int64_t offset, size_t len)
{
    return hf_transport_plain.sendfile(c, fd, offset, len);
}

static const hf_transport counting = {"http", plain_read, counted_write, plain_sendfile};

static void start(void)
{
    e = hf_engine_create(&config);
    if (!e) {
        perror("engine");
        exit(2);
    }
    now = e->now;
    e->clock = test_clock;
    listener.engine = e;
    parked = NULL;
    n_gone = n_writable = n_run = n_writes = 0;
    hf_engine_lock(e);
}

static void finish(void)
{
    hf_engine_close_all(e);
    hf_engine_unlock(e);
    hf_engine_destroy(e);
    config = hf_config_default;
}

static client *dial_with(int sndbuf)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    client *c = calloc(1, sizeof *c);
    int fds[2];
    if (!c || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0) {
        perror("socketpair");
        exit(2);
    }
    if (sndbuf)
        setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf);
    c->fd = fds[1];
    hf_conn_open(e, fds[0], &listener, &counting, &nobody);
    return c;
}

static client *dial(void)
{
    return dial_with(0);
}

static void hang_up(client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    free(c->got);
    free(c);
}

static void say_bytes(client *c, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(c->fd, p, n, MSG_NOSIGNAL);
        if (k <= 0)
            return;
        p += k;
        n -= (size_t)k;
    }
}

static void say(client *c, const char *text)
{
    say_bytes(c, text, strlen(text));
}

/* Reads what is there, at most `most` bytes. */
static size_t listen_to(client *c, size_t most)
{
    size_t before = c->n;
    while (!c->eof && most) {
        c->got = realloc(c->got, c->n + 65537);
        ssize_t k = recv(c->fd, c->got + c->n, most < 65536 ? most : 65536, MSG_DONTWAIT);
        if (k < 0 && errno == EAGAIN)
            break;
        if (k <= 0) {
            c->eof = true;
            c->reset = k < 0;
            break;
        }
        c->n += (size_t)k;
        most -= (size_t)k;
        c->got[c->n] = '\0';
    }
    return c->n - before;
}

/* --- the application --- */

static void hello(hf_request *r)
{
    static const hf_field_out type = {"Content-Type", "text/plain", 12, 10};
    if (hf_response_begin(r, 200, &type, 1, 5, 5) == 0)
        hf_response_write(r, "hello", 5);
    hf_response_end(r);
}

static bool path_is(const hf_request *r, const char *path)
{
    return r->head.path.len == strlen(path) && memcmp(hf_request_base(r) + r->head.path.off, path, strlen(path)) == 0;
}

static void run(hf_request *r)
{
    n_run++;
    size_t n = r->body.len < sizeof body_seen - 1 ? r->body.len : sizeof body_seen - 1;
    if (r->body.fd >= 0)
        n = pread(r->body.fd, body_seen, n, 0) == (ssize_t)n ? n : 0;
    else if (n)
        memcpy(body_seen, r->body.mem, n);
    body_seen[n] = '\0';
    if (path_is(r, "/later") || path_is(r, "/stream")) {
        if (path_is(r, "/stream") && hf_response_begin(r, 200, NULL, 0, HF_LENGTH_UNKNOWN, 0) == 0)
            hf_response_write(r, "hel", 3);
        parked = r;
        hf_request_suspend(r);
    } else if (path_is(r, "/large")) {
        if (hf_response_begin(r, 200, NULL, 0, LARGE, 0) == 0)
            hf_response_write_ref(r, large, LARGE, large);
        hf_response_end(r);
    } else if (path_is(r, "/13k")) {
        if (hf_response_begin(r, 200, NULL, 0, 13000, 0) == 0)
            hf_response_write(r, large, 13000);
        hf_response_end(r);
    } else if (path_is(r, "/abort")) {
        if (hf_response_begin(r, 200, NULL, 0, HF_LENGTH_UNKNOWN, 0) == 0)
            hf_response_write(r, "part", 4);
        hf_response_abort(r);
    } else if (path_is(r, "/nothing")) {
        hf_response_end(r);
    } else {
        hello(r);
    }
}

static void turn(void)
{
    hf_request *r;
    unsigned events;
    hf_engine_poll(e, 0);
    while ((r = hf_engine_next(e, &events))) {
        if (events & HF_REQ_RUN) {
            run(r);
            continue;
        }
        n_writable += !!(events & HF_REQ_WRITABLE);
        if (events & HF_REQ_GONE) {
            n_gone++;
            if (r == parked)
                parked = NULL;
            hf_response_end(r);
        }
    }
}

/* Until nothing happens any more. */
static void settle(client *c)
{
    for (int idle = 0; idle < 3;) {
        turn();
        idle = c && listen_to(c, SIZE_MAX) ? 0 : idle + 1;
    }
}

static void pass(uint64_t ms)
{
    now += ms;
    turn();
}

/* The poller has nothing to tell: the engine would sleep rather than spin. */
static bool sleeps(void)
{
    hf_event ev[4];
    return hf_poller_wait(e->poller, ev, 4, 0) == 0 && !e->ready_head;
}

/* What the client was told: "STATUS:BODY STATUS:BODY", with ! behind the status when that says "close", the length of a
 * body in place of a large one, "..." for one that is cut, and at last "eof" or "reset". */
static const char *told(client *c)
{
    static char text[4096];
    char *p = text;
    size_t at = 0;

    settle(c);
    while (at < c->n && p < text + sizeof text - 200) {
        answer a;
        const enum answer_rc rc = answer_read(&a, c->got + at, c->n - at, c->eof, c->to_head);
        if (rc == ANSWER_BAD) {
            p += sprintf(p, "malformed (%s) ", a.why);
            answer_free(&a);
            break;
        }
        p += sprintf(p, "%d%s:", a.status, a.close ? "!" : "");
        p += a.body_len > 40 ? sprintf(p, "%zu", a.body_len) : sprintf(p, "%s", a.body && a.body_len ? a.body : "");
        if (p[-1] == '\n')
            p--;
        p += sprintf(p, rc == ANSWER_MORE ? "... " : " ");
        at += a.used ? a.used : c->n;
        answer_free(&a);
        if (rc == ANSWER_MORE)
            break;
    }
    if (c->eof)
        p += sprintf(p, c->reset ? "reset " : "eof ");
    if (p > text)
        p[-1] = '\0';
    else
        *p = '\0';
    return text;
}

/* --- requests and answers --- */

static void keep_alive(void)
{
    start();
    client *c = dial();
    say(c, GET("/"));
    is_str(told(c), HELLO, "a request is answered, and the connection stays open");
    say(c, GET("/"));
    is_str(told(c), HELLO " " HELLO, "so is the next one on the same connection");
    ok(sleeps(), "then the engine sleeps");
    say(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    is_str(told(c), HELLO " " HELLO " 200!:hello eof", "until the client asks for its end");
    is_int(e->n_conns, 0, "then the engine has no connection");
    hang_up(c);

    c = dial();
    say(c, "GET / HTTP/1.0\r\n\r\n");
    is_str(told(c), "200!:hello eof", "HTTP/1.0 is answered and closed");
    hang_up(c);
    c = dial();
    say(c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    is_str(told(c), HELLO, "unless it asks for keep-alive");
    ok(strstr(c->got, "Connection: keep-alive\r\n") != NULL, "which is granted explicitly");
    hang_up(c);
    c = dial();
    c->to_head = true;
    say(c, "HEAD /" H "\r\nHEAD /large" H "\r\n");
    is_str(told(c), "200: 200:", "HEAD is answered without a body");
    ok(strstr(c->got, "Content-Length: 300000\r\n") != NULL, "but with its length");
    hang_up(c);
    finish();

    config.keepalive = false;
    start();
    c = dial();
    say(c, GET("/") GET("/"));
    is_str(told(c), "200!:hello eof", "without keep-alive one request is answered, and no other");
    is_int(n_run, 1, "nor is the application called for it");
    hang_up(c);
    finish();

    config.max_keepalive_requests = 3;
    start();
    c = dial();
    say(c, GET("/") GET("/") GET("/") GET("/"));
    is_str(told(c), HELLO " " HELLO " 200!:hello eof", "a limit of three requests ends with the third");
    hang_up(c);
    finish();
}

static void cut_anywhere(void)
{
    static const char text[] = "POST /x" H "Content-Length: 5\r\n\r\n12345"
                               "POST /y" H "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nabcde\r\n0\r\nT: v\r\n\r\n" GET("/");
    bool same = true, bodies = true;
    start();
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        client *c = dial();
        say_bytes(c, text, cut);
        settle(c);
        say_bytes(c, text + cut, sizeof text - 1 - cut);
        same &= strcmp(told(c), HELLO " " HELLO " " HELLO) == 0;
        hang_up(c);
    }
    client *c = dial();
    for (size_t i = 0; i < sizeof text - 1; i++) {
        say_bytes(c, text + i, 1);
        turn();
        if (n_run % 3 == 1)
            bodies &= strcmp(body_seen, "12345") == 0;
        if (n_run % 3 == 2)
            bodies &= strcmp(body_seen, "abcde") == 0;
    }
    same &= strcmp(told(c), HELLO " " HELLO " " HELLO) == 0;
    hang_up(c);
    ok(same, "requests are answered the same wherever they are cut, and byte by byte");
    ok(bodies, "and their bodies are the same");
    finish();
}

static void repeat(char *dst, const char *text, unsigned times)
{
    for (*dst = '\0'; times--; dst += strlen(text))
        strcpy(dst, text);
}

static void pipelining(void)
{
    static char text[20000], want[3000];

    start();
    client *c = dial();
    repeat(text, GET("/"), 20);
    repeat(want, HELLO " ", 20);
    want[strlen(want) - 1] = '\0';
    say(c, text);
    is_str(told(c), want, "twenty pipelined requests are answered");
    is_int(n_writes, 1, "with one write");
    hang_up(c);

    c = dial();
    n_writes = 0;
    repeat(text, GET("/"), 200);
    say(c, text);
    settle(c);
    unsigned answers = 0;
    for (const char *p = c->got; (p = strstr(p, "hello")); p++)
        answers++;
    is_int(answers, 200, "two hundred are answered as well");
    ok(n_writes > 1 && n_writes <= 20, "not all of them wait for the last one, and not each is sent alone");
    hang_up(c);

    c = dial();
    n_writes = 0;
    repeat(text, GET("/13k"), 12);
    say(c, text);
    settle(c);
    ok(n_writes >= 2 && n_writes <= 8, "answers that wait for others take a bounded amount of memory");
    hang_up(c);

    c = dial();
    say(c, GET("/") GET("/later") GET("/"));
    is_str(told(c), HELLO, "an answer does not wait for one that comes later");
    hello(parked);
    is_str(told(c), HELLO " " HELLO " " HELLO, "nor overtakes it");
    hang_up(c);

    c = dial();
    say(c, GET("/") "GET / HTTP");
    is_str(told(c), HELLO, "an answer does not wait for a request that is not complete");
    say(c, "/1.1\r\nHost: a\r\n\r\n");
    is_str(told(c), HELLO " " HELLO, "which is answered when it is");
    say(c, GET("/") "POST /" H "Content-Length: 3\r\n\r\na");
    is_str(told(c), HELLO " " HELLO " " HELLO, "nor for a body");
    hang_up(c);

    /* others have their turn */
    c = dial();
    client *other = dial();
    n_run = 0;
    repeat(text, GET("/"), 150);
    say(c, text);
    say(other, GET("/"));
    turn();
    listen_to(other, SIZE_MAX);
    ok(other->n > 0, "a client that pipelines a lot does not keep others waiting for all of it");
    hang_up(c);
    hang_up(other);
    finish();
}

static void errors(void)
{
    start();
    client *c = dial();
    say(c, GET("/") "GET / HTTP/1.1\r\nHost : a\r\n\r\n" GET("/"));
    is_str(told(c), HELLO " 400!:Bad Request eof", "a malformed request is refused and the connection ends");
    is_int(n_run, 1, "what comes behind it is not taken for a request");
    say(c, GET("/"));
    settle(c);
    is_int(n_run, 1, "not later either");
    hang_up(c);

    c = dial();
    say(c, "POST /" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello?" GET("/"));
    is_str(told(c), "400!:Bad Request eof", "a malformed chunked body is refused");
    hang_up(c);
    c = dial();
    say(c, "POST /" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET("/"));
    is_str(told(c), "400!:Bad Request eof", "a body of two lengths is refused");
    hang_up(c);
    c = dial();
    c->to_head = true;
    say(c, "HEAD / HTTP/1.1\r\n\r\n");
    is_str(told(c), "400!: eof", "a refusal of HEAD has no body");
    hang_up(c);
    finish();

    config.max_body = 10;
    start();
    c = dial();
    say(c, "POST /" H "Content-Length: 11\r\nExpect: 100-continue\r\n\r\n");
    is_str(told(c), "413!:Content Too Large eof", "a body that will be too large is refused before it is sent");
    hang_up(c);
    c = dial();
    say(c, "POST /" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\nworlds\r\n0\r\n\r\n");
    is_str(told(c), "413!:Content Too Large eof", "one that becomes too large is refused then");
    hang_up(c);
    c = dial();
    say(c, "POST /" H "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n");
    is_str(told(c), "100:", "a client that expects it is told to go on");
    say(c, "0123456789");
    is_str(told(c), "100: " HELLO, "and answered when it has");
    is_str(body_seen, "0123456789", "the application has the body");
    say(c, "POST /" H "Content-Length: 2\r\nExpect: 100-continue\r\n\r\nab");
    is_str(told(c), "100: " HELLO " " HELLO, "it is not told to go on when it has not waited");
    hang_up(c);
    finish();

    config.body_memory = 4;
    start();
    c = dial();
    say(c, "POST /" H "Content-Length: 9\r\n\r\n01234");
    settle(c);
    say(c, "5678" GET("/"));
    is_str(told(c), HELLO " " HELLO, "a body may be too large for memory");
    hang_up(c);
    config.tmpdir = "/nonexistent/folder";
    finish();
    config.tmpdir = "/nonexistent/folder";
    config.body_memory = 4;
    start();
    c = dial();
    say(c, "POST /" H "Content-Length: 9\r\n\r\n012345678");
    is_str(told(c), "507!:Insufficient Storage eof", "when there is no place for it the client is told");
    hang_up(c);
    finish();
}

/* --- framing --- */

static hf_field_out field(const char *name, const char *value)
{
    return (hf_field_out){name, value, (uint32_t)strlen(name), (uint32_t)strlen(value)};
}

/* Answers "request" with these fields and a body of "hello"; what the client was told. */
static const char *framed(client *c, const char *request, int status, const hf_field_out *fields, size_t n, int64_t length)
{
    say(c, request);
    settle(c);
    if (!parked)
        return "no request";
    if (hf_response_begin(parked, status, fields, n, length, 0) == 0)
        hf_response_write(parked, "hello", 5);
    hf_response_end(parked);
    parked = NULL;
    return told(c);
}

static void framing(void)
{
    hf_field_out f[3];

    start();
    client *c = dial();
    is_str(framed(c, GET("/later"), 200, NULL, 0, HF_LENGTH_UNKNOWN), HELLO, "a body of unknown length is sent in chunks");
    ok(strstr(c->got, "Transfer-Encoding: chunked\r\n") != NULL, "to a client of HTTP/1.1");
    hang_up(c);
    c = dial();
    is_str(framed(c, "GET /later HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, NULL, 0, HF_LENGTH_UNKNOWN),
           "200!:hello eof", "to one of HTTP/1.0 it ends with the connection");
    hang_up(c);
    c = dial();
    is_str(framed(c, GET("/later"), 204, NULL, 0, 5), "204:", "204 has no body");
    is_str(framed(c, GET("/later"), 304, NULL, 0, 5), "204: 304:", "nor has 304");
    ok(!strstr(c->got, "204 No Content\r\nContent-Length"), "and 204 no length");
    hang_up(c);

    c = dial();
    f[0] = field("Content-Length", "3");
    is_str(framed(c, GET("/later"), 200, f, 1, HF_LENGTH_UNKNOWN), "200:hel", "more body than was promised is dropped");
    f[0] = field("Content-Length", "9");
    is_str(framed(c, GET("/later"), 200, f, 1, HF_LENGTH_UNKNOWN), "200:hel 200:hello... eof",
           "less of it ends the connection, so that the client can tell");
    hang_up(c);

    c = dial();
    f[0] = field("Content-Length", "5");
    f[1] = field("Transfer-Encoding", "chunked");
    say(c, GET("/later"));
    settle(c);
    hf_response_begin(parked, 200, f, 2, HF_LENGTH_UNKNOWN, 0);
    hf_response_write(parked, "5\r\nhello\r\n0\r\n\r\n", 15);
    hf_response_end(parked);
    is_str(told(c), HELLO, "Content-Length is dropped beside the application's own chunks");
    f[1] = field("Content-Length", "5");
    f[0] = field("Transfer-Encoding", "chunked");
    say(c, GET("/later"));
    settle(c);
    hf_response_begin(parked, 200, f, 2, HF_LENGTH_UNKNOWN, 0);
    hf_response_write(parked, "5\r\nhello\r\n0\r\n\r\n", 15);
    hf_response_end(parked);
    is_str(told(c), HELLO " " HELLO, "in either order");
    hang_up(c);
    c = dial();
    f[0] = field("Transfer-Encoding", "gzip");
    framed(c, GET("/later"), 200, f, 1, HF_LENGTH_UNKNOWN);
    ok(c->eof && strstr(c->got, "Connection: close\r\n"), "another coding of its own ends with the connection");
    hang_up(c);

    c = dial();
    f[0] = field("Connection", "upgrade");
    is_str(framed(c, "GET /later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 426, f, 1, 5), "426!:hello eof",
           "close is said beside an upgrade that the application asks for");
    hang_up(c);
    c = dial();
    f[1] = field("Upgrade", "x");
    say(c, GET("/later") "more");
    settle(c);
    hf_response_begin(parked, 101, f, 2, HF_LENGTH_UNKNOWN, 0);
    hf_response_write(parked, "raw", 3);
    hf_response_end(parked);
    is_str(told(c), "101:raw eof", "what comes after 101 is another protocol");
    ok(!strstr(c->got, "Connection: close") && !strstr(c->got, "Transfer-Encoding"), "and 101 is not framed");
    is_int(n_run, 11, "what the client sends behind it is not taken for a request");
    hang_up(c);

    c = dial();
    parked = NULL;
    say(c, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n" GET("/"));
    is_str(told(c), "200!:hello eof", "2xx to CONNECT ends the connection: what comes after is for the tunnel");
    hang_up(c);

    c = dial();
    say(c, GET("/later"));
    settle(c);
    f[0] = field("Content-Length", "5");
    f[1] = field("Link", "</a>");
    is_int(hf_response_interim(parked, 103, f, 2), 0, "an interim answer is sent");
    is_str(told(c), "103:", "at once, without a length");
    hello(parked);
    is_str(told(c), "103: " HELLO, "before the final one");
    hang_up(c);

    c = dial();
    say(c, GET("/") GET("/nothing") GET("/"));
    is_str(told(c), HELLO " eof", "an application that does not answer ends the connection; the answers before arrive");
    hang_up(c);
    c = dial();
    say(c, GET("/") GET("/abort") GET("/"));
    is_str(told(c), HELLO " 200:part... eof", "an answer that breaks off is not closed properly; those before it arrive");
    hang_up(c);
    c = dial();
    say(c, GET("/") "GET /abort HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    is_str(told(c), HELLO " 200!:part eof", "those before it arrive in any framing");
    hang_up(c);
    finish();
}

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
    hf_request_notify_writable(r);
    turn();
    is_int(n_writable, 0, "the application is not asked for more as long as too much waits");
    for (int i = 0; i < 2000 && !n_writable; i++) {
        listen_to(c, 4000);
        turn();
    }
    is_int(n_writable, 1, "when half of the limit is left it is asked, once");
    ok(e->conns && e->conns->out.bytes <= 50000 && e->conns->out.bytes > 0, "not only when all is sent");
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

/* --- deadlines --- */

/* More than the poller tells in one turn, so that some deadlines pass before their events are seen. */
static void many_held_up(void)
{
    enum { N = 200 };
    client *c[N];
    unsigned whole = 0, refused = 0;

    for (int i = 0; i < N; i++) {
        c[i] = dial_with(1);
        say(c[i], GET("/13k"));
    }
    settle(NULL);
    for (int i = 0; i < N; i++)
        listen_to(c[i], SIZE_MAX);
    now += 100000;
    turn();
    for (int i = 0; i < N; i++)
        whole += strncmp(told(c[i]), "200:13000", 9) == 0;
    is_int(whole, N, "however many readers were not served, none is cut off");
    for (int i = 0; i < N; i++)
        hang_up(c[i]);
    settle(NULL);

    for (int i = 0; i < N; i++) {
        c[i] = dial();
        say(c[i], "GET");
    }
    settle(NULL);
    for (int i = 0; i < N; i++)
        say(c[i], " ");
    now += 100000;
    turn();
    for (int i = 0; i < N; i++)
        refused += strcmp(told(c[i]), "408!:Request Timeout eof") == 0;
    is_int(refused, N, "however many heads are late, each is refused");
    for (int i = 0; i < N; i++)
        hang_up(c[i]);
    settle(NULL);
}

static void deadlines(void)
{
    config.keepalive_timeout = 5000;
    config.header_timeout = 10000;
    config.read_timeout = 20000;
    config.write_timeout = 30000;
    start();
    client *c = dial();
    pass(9000);
    is_str(told(c), "", "a new connection may wait for its first request");
    pass(1200);
    is_str(told(c), "eof", "but not longer than for a head");
    hang_up(c);

    c = dial();
    say(c, GET("/"));
    settle(c);
    pass(4000);
    say(c, GET("/"));
    settle(c);
    pass(4800);
    is_str(told(c), HELLO " " HELLO, "each request extends an idle connection's time");
    pass(400);
    is_str(told(c), HELLO " " HELLO " eof", "after it, it is closed without a word");
    hang_up(c);

    c = dial();
    for (int i = 0; i < 9; i++) {
        say_bytes(c, &"GET / HTTP"[i], 1);
        pass(1000);
    }
    ok(!c->eof && e->n_conns == 1, "a head may come slowly");
    say(c, "P");
    pass(2200);
    is_str(told(c), "408!:Request Timeout eof", "but has one deadline, however often a byte of it comes");
    hang_up(c);

    c = dial();
    say(c, GET("/"));
    settle(c);
    pass(4000);
    say(c, "GET");
    settle(c);
    pass(9500);
    say(c, " /" H "\r\n");
    is_str(told(c), HELLO " " HELLO, "the head of a later request has as much time");
    hang_up(c);

    c = dial();
    say(c, "POST /" H "Content-Length: 9\r\n\r\n");
    for (int i = 0; i < 4; i++) {
        pass(19000);
        say(c, "xy");
        turn();
    }
    is_str(told(c), "", "a body may take long as long as something comes");
    pass(20200);
    is_str(told(c), "408!:Request Timeout eof", "but not when nothing does");
    hang_up(c);

    c = dial();
    say(c, "POST /" H "Transfer-Encoding: chunked\r\n\r\n4");
    settle(c);
    pass(20200);
    is_str(told(c), "408!:Request Timeout eof", "nor in chunks");
    hang_up(c);

    c = dial_with(1);
    say(c, GET("/large"));
    for (int i = 0; i < 5; i++) {
        pass(29000);
        listen_to(c, 8192);
        turn();
    }
    is_int(e->n_conns, 1, "a slow reader is waited for as long as it takes something");
    pass(30200);
    is_int(e->n_conns, 0, "but not when it takes nothing");
    hang_up(c);

    c = dial_with(1);
    say(c, GET("/13k") "GET");
    settle(NULL);
    is_str(told(c), "200:13000", "a slow reader has its answer");
    pass(10200);
    is_str(told(c), "200:13000 408!:Request Timeout eof", "then its next head has the time of a head");
    hang_up(c);
    while (hf_engine_released(e))
        ;

    /* The worker was held up: what has come in time counts. */
    c = dial();
    client *d = dial(), *w = dial_with(1), *h = dial();
    say(c, GET("/"));
    settle(c);
    say(d, "POST /" H "Content-Length: 3\r\n\r\na");
    say(w, GET("/large"));
    say(h, "GET /");
    settle(d);
    say(c, GET("/"));
    say(d, "bc");
    say(h, H "\r\n");
    listen_to(w, 100000);
    now += 100000;
    is_str(told(c), HELLO " " HELLO, "a request that waited while the worker was held up is answered, though its deadline passed");
    is_str(told(d), HELLO, "so is one whose body waited");
    is_str(told(h), HELLO, "or the rest of whose head");
    is_str(told(w), "200:300000", "and a reader that was not served is not cut off");
    hang_up(c);
    hang_up(d);
    hang_up(w);
    hang_up(h);
    while (hf_engine_released(e))
        ;

    many_held_up();
    c = dial();
    say(c, GET("/later"));
    settle(c);
    pass(1000000);
    is_int(e->n_conns, 1, "the application may take its time");
    hello(parked);
    is_str(told(c), HELLO, "and answer after all");
    hang_up(c);
    finish();

    config.keepalive_timeout = config.header_timeout = config.read_timeout = config.write_timeout = 0;
    start();
    c = dial();
    d = dial();
    say(c, GET("/"));
    say(d, "GET");
    settle(c);
    pass(UINT64_C(100000000));
    is_int(e->n_conns, 2, "without deadlines everybody is waited for");
    hang_up(c);
    hang_up(d);
    finish();
}

/* --- draining and stopping --- */

static void drains(void)
{
    start();
    client *idle = dial(), *busy = dial(), *fresh = dial(), *head = dial(), *stream = dial(), *sent = dial();
    say(idle, GET("/"));
    say(stream, GET("/stream"));
    settle(idle);
    hf_request *streaming = parked;
    say(busy, GET("/later"));
    say(head, "GET /");
    say(sent, GET("/"));
    settle(sent);
    say(sent, GET("/"));
    hf_engine_drain(e);
    turn();
    is_str(told(idle), HELLO " eof", "a drain closes idle connections");
    is_str(told(sent), HELLO " 200!:hello eof", "but not before it has answered what was on its way");
    is_int(hf_engine_finished(e), HF_RUNNING, "it does not end before the others");
    say(head, H "\r\n");
    is_str(told(head), "200!:hello eof", "a request that had begun is answered");
    hello(parked);
    is_str(told(busy), "200!:hello eof", "so is one that the application has");
    hf_response_write(streaming, "lo", 2);
    hf_response_end(streaming);
    is_str(told(stream), "200:hello eof", "an answer that had begun is completed, and its connection closed");
    say(fresh, GET("/"));
    is_str(told(fresh), "200!:hello eof", "a new connection may still ask");
    is_int(hf_engine_finished(e), HF_DRAINED, "then it is drained");
    hang_up(idle), hang_up(busy), hang_up(fresh), hang_up(head), hang_up(stream), hang_up(sent);
    finish();

    start();
    fresh = dial();
    hf_engine_drain(e);
    turn();
    is_int(hf_engine_finished(e), HF_RUNNING, "a connection that has not asked yet is waited for");
    pass(1200);
    ok(hf_engine_finished(e) == HF_DRAINED, "for a second");
    hang_up(fresh);
    finish();

    start();
    idle = dial();
    say(idle, GET("/"));
    settle(idle);
    say(idle, GET("/"));
    hf_engine_begin_drain(e, HF_DRAINED);
    is_str(told(idle), HELLO " 200!:hello eof", "what has arrived but was not read is answered");
    hang_up(idle);
    finish();

    config.shutdown_timeout = 3000;
    start();
    busy = dial();
    say(busy, GET("/later"));
    settle(busy);
    hf_engine_drain(e);
    turn();
    pass(2900);
    is_int(hf_engine_finished(e), HF_RUNNING, "a drain waits for answers");
    pass(200);
    is_int(hf_engine_finished(e), HF_DRAINED, "but not for ever");
    hf_engine_close_all(e);
    turn();
    is_int(n_gone, 1, "those who are not done are told");
    hang_up(busy);
    finish();

    config.max_requests = 2;
    start();
    busy = dial();
    idle = dial();
    say(idle, GET("/"));
    settle(idle);
    say(busy, GET("/") GET("/"));
    is_str(told(busy), "200!:hello eof", "the last request of max_requests says close");
    is_str(told(idle), HELLO " eof", "and drains");
    hang_up(busy);
    hang_up(idle);
    settle(NULL);
    is_int(hf_engine_finished(e), HF_MAX_REQUESTS, "and says why");
    finish();

    config.parent_pid = (int)getpid(); /* nobody is his own parent */
    start();
    pass(1100);
    is_int(hf_engine_finished(e), HF_ORPHANED, "a worker whose parent is gone ends");
    finish();

    start();
    busy = dial();
    say(busy, GET("/later"));
    settle(busy);
    hf_engine_stop(e);
    turn();
    is_int(hf_engine_finished(e), HF_STOPPED, "a stop ends at once");
    hf_engine_close_all(e);
    turn();
    is_int(n_gone, 1, "and tells those who are not done");
    is_int(e->n_conns, 0, "no connection is left");
    hang_up(busy);
    finish();
}

/* --- over TCP --- */

static int tcp_port;

static int tcp_listener(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 16) < 0 ||
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
    alarm(300);
    config = hf_config_default;
    large = malloc(LARGE);
    if (!large)
        return 2;
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)('a' + i % 23);
    keep_alive();
    cut_anywhere();
    pipelining();
    errors();
    framing();
    half_closed();
    gone();
    slow_reader();
    read_ahead();
    exposed_in_order();
    deadlines();
    drains();
    lingering();
    out_of_descriptors();
    free(large);
    return done_testing();
}
