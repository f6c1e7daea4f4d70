/* conversation.h - an engine between clients on socket pairs and an application of a few lines, in one thread and with a
 * clock of its own. For tests.
 */
#ifndef HF_T_CONVERSATION_H
#define HF_T_CONVERSATION_H

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

static inline uint64_t test_clock(void)
{
    return now;
}

/* Counts the writes. */
static inline ssize_t counted_write(hf_conn *c, const struct iovec *iov, int n, bool more)
{
    n_writes++;
    return hf_transport_plain.write(c, iov, n, more);
}

static inline ssize_t plain_read(hf_conn *c, char *dst, size_t len)
{
    return hf_transport_plain.read(c, dst, len);
}

static inline ssize_t plain_sendfile(hf_conn *c, int fd, int64_t offset, size_t len)
{
    return hf_transport_plain.sendfile(c, fd, offset, len);
}

static const hf_transport counting = {"http", plain_read, counted_write, plain_sendfile};

static inline void start(void)
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

static inline void finish(void)
{
    hf_engine_close_all(e);
    hf_engine_unlock(e);
    hf_engine_destroy(e);
    config = hf_config_default;
}

static inline client *dial_with(int sndbuf)
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

static inline client *dial(void)
{
    return dial_with(0);
}

static inline void hang_up(client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    free(c->got);
    free(c);
}

static inline void say_bytes(client *c, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(c->fd, p, n, MSG_NOSIGNAL);
        if (k <= 0)
            return;
        p += k;
        n -= (size_t)k;
    }
}

static inline void say(client *c, const char *text)
{
    say_bytes(c, text, strlen(text));
}

/* Reads what is there, at most `most` bytes. */
static inline size_t listen_to(client *c, size_t most)
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

static inline void hello(hf_request *r)
{
    static const hf_field_out type = {"Content-Type", "text/plain", 12, 10};
    if (hf_response_begin(r, 200, &type, 1, 5, 5) == 0)
        hf_response_write(r, "hello", 5);
    hf_response_end(r);
}

static inline bool path_is(const hf_request *r, const char *path)
{
    return r->head.path.len == strlen(path) && memcmp(hf_request_base(r) + r->head.path.off, path, strlen(path)) == 0;
}

static inline void run(hf_request *r)
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

static inline void turn(void)
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
static inline void settle(client *c)
{
    for (int idle = 0; idle < 3;) {
        turn();
        idle = c && listen_to(c, SIZE_MAX) ? 0 : idle + 1;
    }
}

static inline void pass(uint64_t ms)
{
    now += ms;
    turn();
}

/* The poller has nothing to tell: the engine would sleep rather than spin. */
static inline bool sleeps(void)
{
    hf_event ev[4];
    return hf_poller_wait(e->poller, ev, 4, 0) == 0 && !e->ready_head;
}

/* What the client was told: "STATUS:BODY STATUS:BODY", with ! behind the status when that says "close", the length of a
 * body in place of a large one, "..." for one that is cut, and at last "eof" or "reset". */
static inline const char *told(client *c)
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

/* Prepares the above; first in main(). */
static inline void prepare(void)
{
    alarm(300);
    config = hf_config_default;
    large = malloc(LARGE);
    if (!large)
        exit(2);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)('a' + i % 23);
}

#endif
