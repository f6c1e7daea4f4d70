/* engine_clients.h - of fuzz_engine.c: what all of it knows, and its clients. */
#ifndef HF_FUZZ_ENGINE_CLIENTS_H
#define HF_FUZZ_ENGINE_CLIENTS_H

#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t/answers.h"
#include "t/http1_same.h"
#include "target.h"

enum { N_PEERS = 8, MAX_PROGRAM = 40, PERIOD = 251, FILE_LEN = 2 << 20, BUDGET = 2 << 20, MAX_PENDING = 1 << 20 };

/* A request as the application sees it. */
typedef struct ask {
    struct ask *next;
    struct peer *peer;
    hf_request *r;         /* NULL: ended */
    bool extra_ref;        /* and one more reference until the end of the run */
    hf_request *extra;
    char program[MAX_PROGRAM + 1];
    unsigned at;
    bool head, old;        /* HEAD; HTTP/1.0 */
    bool suspended, waits_writable, gone, ignores_gone;
    bool begun, framed_here, short_of, broken, said_close, fixed_body;
    int status;
    unsigned seed;
    int64_t promised;      /* Content-Length of its answer; -1: none */
    uint64_t written;
    size_t body_at, body_len; /* where its body is in bodies */
} ask;

typedef struct bytes {
    char *p;
    size_t n, cap;
} bytes;

/* A client. */
typedef struct peer {
    int fd;                /* its end; -1: not open (any more) */
    bool opened, paused, eof, reset;
    bool left;             /* closed by itself */
    bool excused;          /* its connection may be cut in the middle of an answer */
    bool may_reset;
    bytes sent, got, body;
    size_t read_up_to;     /* of `sent`, by requests that were handed out */
    ask *asks, **last;
} peer;

typedef struct owned {
    struct owned *next, **pprev;
    char bytes[];
} owned;

static hf_engine *engines[2]; /* two, if there is a run queue between them */
static unsigned n_engines;
static bool ended_engine[2];
static hf_listener listeners[2][N_PEERS]; /* they tell the connections of the clients from each other */
static peer peers[N_PEERS];
static owned *owners;
static uint64_t fake_now;
static size_t budget;
static int file_fd = -1;
static bool timeouts_off;
static char pattern[65536 + PERIOD];

static uint64_t fake_clock(void)
{
    return fake_now;
}

/* The engine's memory runs out when the input says so; that of the target itself (__real_) does not. */
static unsigned fails_in; /* allocations; 0: none fails */
static bool has_failed;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool fails(void)
{
    if (!fails_in || --fails_in)
        return false;
    has_failed = true;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

static void *allocate(size_t n)
{
    void *p = __real_malloc(n);
    CHECK(p);
    return p;
}

static void add(bytes *b, const char *p, size_t n)
{
    if (b->n + n + 1 > b->cap) {
        b->cap = (b->n + n) * 2 + 256;
        b->p = __real_realloc(b->p, b->cap);
        CHECK(b->p);
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void receive(peer *p, size_t most)
{
    char chunk[65536];
    while (p->fd >= 0 && !p->eof && most) {
        ssize_t n = recv(p->fd, chunk, most < sizeof chunk ? most : sizeof chunk, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            p->eof = true;
            p->reset = n < 0;
            return;
        }
        add(&p->got, chunk, (size_t)n);
        most -= (size_t)n;
    }
}

static void all_receive(void)
{
    for (int i = 0; i < N_PEERS; i++)
        if (!peers[i].paused)
            receive(&peers[i], SIZE_MAX);
}

static hf_conn *conn_of(const peer *p)
{
    for (unsigned k = 0; k < n_engines; k++)
        for (hf_conn *c = engines[k]->conns; c; c = c->next)
            if (c->listener == &listeners[k][p - peers])
                return c;
    return NULL;
}

static void open_peer(peer *p, int sndbuf, unsigned k)
{
    int fds[2];
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (hf_engine_draining(engines[k])) /* it accepts nothing more */
        return;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    if (sndbuf)
        setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf);
    p->fd = fds[1];
    p->opened = true;
    p->last = &p->asks;
    hf_conn_open(engines[k], fds[0], &listeners[k][p - peers], &hf_transport_plain, &nobody);
}

static void close_peer(peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    p->left = p->eof = p->excused = true;
}

#endif
