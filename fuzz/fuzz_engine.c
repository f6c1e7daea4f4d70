// sources: engine/body.c engine/buffer.c engine/chunked.c engine/connection.c engine/engine.c engine/header_names.c engine/http1.c engine/listener.c engine/output.c engine/poller_epoll.c engine/poller_poll.c engine/response.c engine/runqueue.c engine/scan.c engine/standby.c engine/status.c engine/timer.c engine/transport.c
// flags: -lpthread
/* fuzz_engine.c - the whole engine between clients on socket pairs and an application without Perl: what the clients
 * send, how it is cut, when they read, leave and are waited for, what the application does, and the clock, all come from
 * the input.
 *
 * The first eight bytes are the configuration (letters and digits will do), the rest is what the clients do: bytes below
 * 0xe0 are sent as they are, the others are commands (enum command). The application reads its orders from the path of the
 * request (see run()), so a seed is readable: "GET /s0w3uw3" answers 200, writes twice and suspends itself in between.
 *
 * What must hold, whatever comes:
 *  - the requests handed out are those that a plain reading of the bytes finds, with their bodies, in order;
 *  - each ends once; one whose client left is told; owners of bytes come back once; nothing leaks; no descriptor stays;
 *  - each client reads well-formed answers, one for each request in order, with the body that was given; an answer of the
 *    engine itself (an error) or one that says "close" is the last, and no request is handed out after it;
 *  - nobody is reset who did nothing to deserve it;
 *  - a connection that waits for its client has a deadline; an engine that has nothing to do does not spin;
 *  - an engine that drains ends without waiting for idle clients.
 */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { N_PEERS = 8, MAX_PROGRAM = 40, PERIOD = 251, FILE_LEN = 2 << 20, BUDGET = 6 << 20, MAX_PENDING = 1 << 20 };

enum command {
    PEER = 0xe0,         /* .. 0xe7: from here on this client; its first time opens its connection */
    SEND = 0xf0,         /* sends what has gathered */
    HALF_CLOSE = 0xf1,
    CLOSE = 0xf2,
    PAUSE = 0xf3,        /* the client stops reading, or goes on */
    TIME = 0xf4,         /* + n: lets time pass */
    POLL = 0xf5,
    RESUME = 0xf6,       /* the oldest suspended request goes on */
    BULK = 0xf7,         /* + n: 1024 * n bytes of 'x' */
    REPEAT = 0xf8,       /* + n: what has gathered, n times more */
    STOP = 0xf9,
    DRAIN = 0xfa,
    READ_SOME = 0xfb,    /* + n: a paused client reads 256 * n bytes */
};

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
    hf_listener listener;  /* tells its connection from the others */
    bytes sent, got, body;
    size_t read_up_to;     /* of `sent`, by requests that were handed out */
    ask *asks, **last;
} peer;

typedef struct owned {
    struct owned *next, **pprev;
    char bytes[];
} owned;

static hf_engine *e;
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

static void add(bytes *b, const char *p, size_t n)
{
    if (b->n + n + 1 > b->cap) {
        b->cap = (b->n + n) * 2 + 256;
        b->p = realloc(b->p, b->cap);
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

/* --- clients --- */

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
    for (hf_conn *c = e->conns; c; c = c->next)
        if (c->listener == &p->listener)
            return c;
    return NULL;
}

static void open_peer(peer *p, int sndbuf)
{
    int fds[2];
    static char host[] = "/test", port[] = "";
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (hf_engine_draining(e)) /* it accepts nothing more */
        return;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    if (sndbuf)
        setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf);
    p->fd = fds[1];
    p->opened = true;
    p->last = &p->asks;
    p->listener = (hf_listener){.engine = e, .fd = -1, .host = host, .port = port, .is_unix = true};
    hf_conn_open(e, fds[0], &p->listener, &hf_transport_plain, &nobody);
}

static void close_peer(peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    p->left = p->eof = p->excused = true;
}

/* --- the application --- */

static const size_t sizes[10] = {0, 1, 5, 100, 1000, 4096, 12289, 16384, 65536, 300000};
static const int statuses[10] = {200, 204, 304, 404, 500, 101, 201, 205, 299, 999};

static size_t size_of(char digit)
{
    size_t n = sizes[digit - '0'];
    return n > budget ? 1 : n;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int argument(ask *a)
{
    return is_digit(a->program[a->at]) ? a->program[a->at++] - '0' : 0;
}

/* What the orders from here on would write. */
static uint64_t total(const ask *a)
{
    uint64_t n = 0;
    for (const char *p = a->program + a->at; *p; p++)
        if ((*p == 'w' || *p == 'r' || *p == 'f') && is_digit(p[1]))
            n += sizes[p[1] - '0'];
    return n;
}

static bool drops_body(const ask *a)
{
    return a->head || a->status == 204 || a->status == 304;
}

static void begin(ask *a, char mode, unsigned extras)
{
    static const hf_field_out close_field = {"connection", "close", 10, 5}, upgrade = {"Connection", "upgrade", 10, 7},
                              date = {"Date", "yesterday", 4, 9}, server = {"sErver", "me", 6, 2},
                              chunked = {"Transfer-Encoding", "chunked", 17, 7}, other = {"X-Long", pattern, 6, 3000};
    hf_field_out fields[12];
    char text[24];
    size_t n = 0, bad;
    int64_t length = (int64_t)total(a);
    static char long_value[3000];

    memset(long_value, 'v', sizeof long_value);
    if (extras & 1)
        fields[n++] = close_field;
    if (extras & 2)
        fields[n++] = date;
    if (extras & 4)
        fields[n++] = server;
    if (extras & 8) {
        fields[n] = other;
        fields[n++].value = long_value;
    }
    if (a->status == 101 || extras & 16)
        fields[n++] = upgrade;
    bool by_field = mode == '3' || mode == '4' || mode == '5';
    if (by_field) {
        int64_t said = mode == '4' ? length + 10 : mode == '5' ? length / 2 : length;
        fields[n++] = (hf_field_out){"Content-Length", text, 14, (uint32_t)snprintf(text, sizeof text, "%lld", (long long)said)};
        if (a->status != 204 && a->status != 101)
            a->promised = said;
        length = HF_LENGTH_UNKNOWN;
    } else if ((mode == '6' || mode == '7') && !a->old && a->status != 204 && a->status != 101) {
        if (mode == '7' && extras & 2)
            fields[n++] = (hf_field_out){"Content-Length", "5", 14, 1};
        fields[n++] = chunked;
        if (mode == '7' && !(extras & 2))
            fields[n++] = (hf_field_out){"Content-Length", "5", 14, 1};
        a->framed_here = true;
        length = HF_LENGTH_UNKNOWN;
    } else if (mode == '1') {
        length = HF_LENGTH_UNKNOWN;
    } else if (mode == '2' && a->head) {
        length = HF_LENGTH_OMIT;
    }
    if (length >= 0 && a->status != 204 && a->status != 101 && a->status != 304)
        a->promised = length;
    a->said_close = extras & 1;
    a->begun = true;
    CHECK(!hf_response_check(a->status, fields, n, &bad));
    int rc = hf_response_begin(a->r, a->status, fields, n, length, length > 0 && length <= 4096 ? (size_t)length : 0);
    CHECK((rc < 0) == !a->r->conn);
}

/* Body bytes are a pattern that goes on from piece to piece, so that any two that change places are noticed. */
static const char *pattern_at(const ask *a)
{
    return pattern + (a->written + a->seed) % PERIOD;
}

static void write_piece(ask *a, char op, char digit)
{
    hf_request *r = a->r;
    size_t n = size_of(digit), left = n;
    int rc = 0;
    budget -= n < budget ? n : budget;
    if (a->framed_here && n && !drops_body(a)) {
        char frame[24];
        rc = hf_response_write(r, frame, (size_t)snprintf(frame, sizeof frame, "%zx\r\n", n));
    }
    if (op == 'f' && n) {
        int fd = fcntl(file_fd, F_DUPFD_CLOEXEC, 0);
        CHECK(fd >= 0);
        rc = hf_response_sendfile(r, fd, (int64_t)((a->written + a->seed) % PERIOD), n);
        a->written += n;
        left = 0;
    }
    while (left) {
        size_t piece = left < 65536 ? left : 65536;
        if (op == 'r') {
            owned *o = malloc(sizeof *o + piece);
            CHECK(o);
            memcpy(o->bytes, pattern_at(a), piece);
            o->next = owners;
            if (owners)
                owners->pprev = &o->next;
            o->pprev = &owners;
            owners = o;
            rc = hf_response_write_ref(r, o->bytes, piece, o);
        } else {
            rc = hf_response_write(r, pattern_at(a), piece);
        }
        a->written += piece;
        left -= piece;
    }
    if (a->framed_here && n && !drops_body(a))
        rc = hf_response_write(r, "\r\n", 2);
    CHECK(rc == 0 || !r->conn);
}

static void ended(ask *a)
{
    a->r = NULL;
    a->suspended = a->waits_writable = false;
}

/* The request as it was handed out is still readable. */
static void check_body(const ask *a)
{
    const hf_body *b = &a->r->body;
    CHECK(b->len == a->body_len);
    if (!b->len || (!a->r->conn && !b->cap && b->fd < 0))
        return; /* the connection has taken along what was borrowed from it */
    const char *want = a->peer->body.p + a->body_at;
    if (b->fd < 0) {
        CHECK(memcmp(b->mem, want, b->len) == 0);
        return;
    }
    char *copy = malloc(b->len);
    CHECK(copy && pread(b->fd, copy, b->len, 0) == (ssize_t)b->len);
    CHECK(memcmp(copy, want, b->len) == 0);
    free(copy);
}

/* Goes on with the orders of a request until they are done or it is suspended. */
static void run(ask *a)
{
    char mode = '1';
    unsigned extras = 0;
    a->suspended = a->waits_writable = false;
    check_body(a);
    while (a->r && a->program[a->at]) {
        hf_request *r = a->r;
        char op = a->program[a->at++];
        if (a->gone && a->ignores_gone && op != 'u')
            CHECK(!r->conn);
        switch (op) {
        case 's': /* the status */
            if (!a->begun)
                a->status = statuses[argument(a)];
            break;
        case 'l': /* how the length is told; 0: known, 1: not known, 2: omitted, 3..5: by a field, 4: wrong, 5: wrong, 6: chunked
                     by the application, 7: with a Content-Length beside that */
            mode = (char)('0' + argument(a));
            break;
        case 'h': /* more header fields */
            extras |= 1u << argument(a);
            break;
        case 'w': /* pieces of the body */
        case 'r':
        case 'f': {
            char digit = is_digit(a->program[a->at]) ? a->program[a->at] : '2';
            if (!a->begun) {
                a->at--;
                begin(a, mode, extras);
                a->at++;
            }
            if (is_digit(a->program[a->at]))
                a->at++;
            write_piece(a, op, digit);
            break;
        }
        case 'b':
            if (!a->begun)
                begin(a, mode, extras);
            break;
        case 'i': {
            static const hf_field_out fields[2] = {{"Link", "</style.css>; rel=preload", 4, 25},
                                                   {"Content-Length", "1", 14, 1}};
            int rc = hf_response_interim(r, 103, fields, 2);
            CHECK(rc >= -1 && rc <= 1 && (rc != -1 || a->begun || !r->conn) && (rc != 1 || a->old));
            break;
        }
        case 'x': {
            int64_t left = hf_response_flush(r);
            CHECK((left < 0) == !r->conn);
            break;
        }
        case 'u':
        case 'n':
            if (op == 'n')
                hf_request_notify_writable(r);
            a->waits_writable = op == 'n' && r->conn;
            a->suspended = true;
            hf_request_suspend(r);
            return;
        case 'g':
            a->ignores_gone = true;
            break;
        case 'q':
            r->flush_now = true;
            break;
        case 'R':
            if (!a->extra) {
                hf_request_ref(r);
                a->extra = r;
            }
            break;
        case 'E':
            if (hf_request_expose_io(r) >= 0)
                CHECK(r->conn);
            break;
        case 'T': /* takes its time */
            fake_now += 70000;
            for (int i = 0; i < N_PEERS; i++)
                peers[i].excused = peers[i].may_reset = true;
            break;
        case 'k':
            hf_engine_begin_drain(e, HF_HARAKIRI);
            break;
        case 'a':
            if (a->begun) {
                a->broken = a->short_of = r->chunked || r->length_left > 0 || a->framed_here;
                a->short_of &= !drops_body(a);
                a->said_close = true;
                a->peer->may_reset = a->broken = true;
                ended(a);
                hf_response_abort(r);
            }
            break;
        case 'D':
            a->peer->excused = a->peer->may_reset = a->broken = true;
            ended(a);
            hf_request_detach(r);
            break;
        case 'm':
            if (!a->begun) {
                a->status = 503;
                a->fixed_body = true;
                ended(a);
                hf_response_simple(r, 503);
            }
            break;
        default:
            break;
        }
    }
    if (!a->r)
        return;
    if (!a->begun)
        begin(a, mode, extras);
    hf_request *r = a->r;
    if (r->conn)
        check_body(a);
    if (a->framed_here && !drops_body(a))
        hf_response_write(r, "0\r\n\r\n", 5);
    bool here = r->conn != NULL;
    int64_t sent = (int64_t)a->written;
    ended(a);
    int rc = hf_response_end(r);
    if (here && a->promised >= 0 && !a->head && a->status != 304) {
        CHECK(rc == (sent < a->promised ? -1 : sent > a->promised ? 1 : 0));
        if (rc < 0)
            a->short_of = a->broken = a->said_close = true;
    }
}

/* Reads the request that the engine has handed out from the bytes that its client sent. */
static void check_request(peer *p, hf_request *r, ask *a)
{
    static hf_http1_head head;
    const char *text = p->sent.p + p->read_up_to;
    size_t len = p->sent.n - p->read_up_to;
    const char *base = hf_request_base(r);

    hf_http1_head_reset(&head);
    CHECK(len && hf_http1_parse(&head, text, len, &e->config.limits) == HF_PARSE_DONE);
    CHECK(head.head_len == r->head.head_len && memcmp(base, text, head.head_len) == 0);
    CHECK(!head_difference(&head, &r->head));
    p->read_up_to += head.head_len;
    text += head.head_len;
    len -= head.head_len;
    a->body_at = p->body.n;
    if (head.chunked) {
        hf_chunked decoder;
        size_t written, used;
        char *copy = malloc(len + 1);
        CHECK(copy);
        hf_chunked_init(&decoder);
        CHECK(hf_chunked_decode(&decoder, copy, text, len, &written, &used) == HF_CHUNKED_DONE);
        add(&p->body, copy, written);
        free(copy);
        p->read_up_to += used;
    } else if (head.content_length > 0) {
        CHECK((uint64_t)head.content_length <= len);
        add(&p->body, text, (size_t)head.content_length);
        p->read_up_to += (size_t)head.content_length;
    }
    a->body_len = p->body.n - a->body_at;
    CHECK(!e->config.max_body || a->body_len <= e->config.max_body);
    a->head = head.method.len == 4 && memcmp(base + head.method.off, "HEAD", 4) == 0;
    a->old = head.minor == 0;
    uint32_t n = 0;
    for (uint32_t i = 1; i < head.path.len && n < MAX_PROGRAM; i++)
        a->program[n++] = base[head.path.off + i];
}

static void on_run(hf_request *r)
{
    peer *p = NULL;
    CHECK(r->conn && r->running && r->conn->req == r);
    for (int i = 0; i < N_PEERS; i++)
        if (r->conn->listener == &peers[i].listener)
            p = &peers[i];
    CHECK(p);
    ask *a = calloc(1, sizeof *a);
    CHECK(a);
    a->peer = p;
    a->r = r;
    a->status = 200;
    a->promised = -1;
    a->seed = (unsigned)(p->read_up_to % 97);
    for (const ask *before = p->asks; before; before = before->next)
        CHECK(!before->r && !before->said_close); /* one at a time, and none after the last */
    *p->last = a;
    p->last = &a->next;
    r->user = a;
    check_request(p, r, a);
    run(a);
}

static void handle_ready(void)
{
    hf_request *r;
    unsigned events;
    while ((r = hf_engine_next(e, &events))) {
        if (events & HF_REQ_RUN) {
            CHECK(!(events & HF_REQ_GONE));
            on_run(r);
        } else {
            ask *a = r->user;
            CHECK(a && a->r == r && events);
            if (events & HF_REQ_GONE) {
                CHECK(!r->conn);
                a->gone = true;
                a->waits_writable = false;
                if (!a->ignores_gone)
                    run(a);
            } else if (a->waits_writable) {
                CHECK(events == HF_REQ_WRITABLE);
                CHECK(r->conn->out.bytes <= e->config.max_write_buffer / 2);
                run(a);
            }
        }
        owned *o;
        while ((o = hf_engine_released(e))) {
            *o->pprev = o->next; /* one that came back before is gone: the address sanitizer sees it */
            if (o->next)
                o->next->pprev = o->pprev;
            free(o);
        }
    }
    owned *o;
    while ((o = hf_engine_released(e))) {
        *o->pprev = o->next;
        if (o->next)
            o->next->pprev = o->pprev;
        free(o);
    }
}

static void turn(void)
{
    hf_engine_poll(e, 0);
    handle_ready();
    all_receive();
}

static bool resume_one(void)
{
    for (int i = 0; i < N_PEERS; i++)
        for (ask *a = peers[i].asks; a; a = a->next)
            if (a->r && a->suspended && !a->waits_writable) {
                run(a);
                return true;
            }
    return false;
}

/* --- the play --- */

static bool over(void)
{
    return hf_engine_finished(e) != HF_RUNNING;
}

static void send_pending(peer *p, bytes *pending)
{
    size_t at = 0;
    for (int tries = 0; p->fd >= 0 && at < pending->n && tries < 100 && !over();) {
        ssize_t n = send(p->fd, pending->p + at, pending->n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            add(&p->sent, pending->p + at, (size_t)n);
            at += (size_t)n;
            continue;
        }
        if (errno != EAGAIN)
            break;
        turn();
        tries++;
    }
    pending->n = 0;
}

static void pass_time(uint64_t ms)
{
    fake_now += ms;
    for (int i = 0; i < N_PEERS; i++) {
        const hf_conn *c = peers[i].opened ? conn_of(&peers[i]) : NULL;
        if (c && !hf_output_empty(&c->out)) /* it may have been told to wait no longer */
            peers[i].excused = true;
        peers[i].may_reset = true;
    }
}

/* What the input says, up to its end or to the engine's. */
static void play(const uint8_t *data, size_t size, int sndbuf)
{
    peer *p = &peers[0];
    bytes pending = {0};
    for (size_t i = 0; i < size && !over(); i++) {
        const uint8_t byte = data[i];
        if (byte < PEER) {
            if (pending.n < MAX_PENDING)
                add(&pending, (const char *)&byte, 1);
            continue;
        }
        const uint8_t n = i + 1 < size ? data[i + 1] : 0;
        if (!p->opened)
            open_peer(p, sndbuf);
        if (byte < PEER + N_PEERS) {
            send_pending(p, &pending);
            p = &peers[byte - PEER];
            continue;
        }
        switch (byte) {
        case SEND:
            send_pending(p, &pending);
            turn();
            break;
        case HALF_CLOSE:
            send_pending(p, &pending);
            if (p->fd >= 0)
                shutdown(p->fd, SHUT_WR);
            turn();
            break;
        case CLOSE:
            send_pending(p, &pending);
            close_peer(p);
            break;
        case PAUSE:
            p->paused = !p->paused;
            break;
        case TIME:
            i++;
            send_pending(p, &pending);
            pass_time(n < 128 ? n * 10u : n * 500u);
            turn();
            break;
        case POLL:
            turn();
            break;
        case RESUME:
            resume_one();
            break;
        case BULK:
            i++;
            for (unsigned k = 0; k < n && pending.n < MAX_PENDING; k++) {
                char block[1024];
                memset(block, 'x', sizeof block);
                add(&pending, block, sizeof block);
            }
            break;
        case REPEAT: {
            i++;
            size_t len = pending.n;
            for (unsigned k = 0; k < n && pending.n + len < MAX_PENDING / 8; k++) {
                char *copy = malloc(len + 1);
                CHECK(copy);
                memcpy(copy, pending.p ? pending.p : "", len);
                add(&pending, copy, len);
                free(copy);
            }
            break;
        }
        case STOP:
            hf_engine_stop(e);
            for (int k = 0; k < N_PEERS; k++)
                peers[k].excused = peers[k].may_reset = true;
            turn();
            break;
        case DRAIN:
            hf_engine_drain(e);
            for (int k = 0; k < N_PEERS; k++)
                peers[k].may_reset = true;
            turn();
            break;
        case READ_SOME:
            i++;
            receive(p, 256u * n);
            break;
        default:
            break;
        }
    }
    if (!p->opened)
        open_peer(p, sndbuf);
    send_pending(p, &pending);
    free(pending.p);
}

/* --- the end --- */

/* All clients read, all answers are completed: until nothing more happens. */
static void settle(void)
{
    for (int i = 0; i < N_PEERS; i++)
        peers[i].paused = false;
    for (int idle = 0, rounds = 0; idle < 4 && !over(); rounds++) {
        size_t before = 0, after = 0;
        for (int i = 0; i < N_PEERS; i++)
            before += peers[i].got.n + peers[i].read_up_to;
        bool resumed = resume_one();
        turn();
        for (int i = 0; i < N_PEERS; i++)
            after += peers[i].got.n + peers[i].read_up_to;
        idle = resumed || after != before ? 0 : idle + 1;
        CHECK(rounds < 100000);
    }
    if (over())
        return;
    hf_event events[8];
    CHECK(hf_poller_wait(e->poller, events, 8, 0) == 0); /* or it would spin */
    CHECK(!e->ready_head);
    for (const hf_conn *c = e->conns; c; c = c->next) {
        CHECK(!c->req || !c->req->running); /* all were answered */
        CHECK(hf_output_empty(&c->out));    /* and all clients read */
        CHECK(c->state != HF_CONN_BUSY && c->state != HF_CONN_CLOSED);
        CHECK(timeouts_off || c->timer.deadline);
        CHECK(c->state != HF_CONN_IDLE || (!c->in && !c->req));
    }
    for (int i = 0; i < N_PEERS; i++)
        for (const ask *a = peers[i].asks; a; a = a->next)
            CHECK(!a->r);
}

/* A drain leaves none that is idle. */
static void drain(void)
{
    hf_engine_drain(e);
    for (int i = 0; i < 4 && !over(); i++) {
        turn();
        pass_time(600);
    }
    if (over())
        CHECK(!e->n_conns || e->now >= e->drain_until || e->stopped);
    for (const hf_conn *c = e->conns; c; c = c->next)
        CHECK(c->state != HF_CONN_IDLE || !hf_output_empty(&c->out) || over());
}

static void check_answers(peer *p)
{
    const char *at = p->got.p ? p->got.p : "";
    size_t left = p->got.n;
    bool last = false;
    for (ask *a = p->asks; a; a = a->next) {
        answer got;
        enum answer_rc rc;
        CHECK(!last);
        while ((rc = answer_read(&got, at, left, p->eof, a->head)) == ANSWER_DONE && got.status < 200 && got.status != 101) {
            CHECK(got.status == 100 || (got.status == 103 && !a->old));
            at += got.used;
            left -= got.used;
            answer_free(&got);
        }
        if (rc == ANSWER_BAD)
            fprintf(stderr, "malformed: %s\n", got.why);
        CHECK(rc != ANSWER_BAD);
        if (got.head_len) {
            CHECK(got.status == a->status && (!a->old || !got.chunked));
            uint64_t expected = a->promised >= 0 && a->written > (uint64_t)a->promised ? (uint64_t)a->promised : a->written;
            if (drops_body(a))
                expected = 0;
            if (!a->fixed_body) {
                CHECK(rc == ANSWER_DONE && !got.until_end && !a->broken ? got.body_len == expected : got.body_len <= expected);
                for (size_t i = 0; i < got.body_len;) {
                    size_t n = got.body_len - i < 65536 ? got.body_len - i : 65536;
                    CHECK(memcmp(got.body + i, pattern + (i + a->seed) % PERIOD, n) == 0);
                    i += n;
                }
            }
            CHECK(!a->said_close || a->broken || got.close || a->status == 101);
            CHECK(a->old ? got.close || got.keep_alive || a->status == 101 : !got.keep_alive);
        }
        if (rc == ANSWER_MORE) { /* cut */
            CHECK(p->excused || a->broken);
            CHECK(p->eof || p->left);
            answer_free(&got);
            return;
        }
        CHECK(!a->short_of || got.until_end);
        at += got.used;
        left -= got.used;
        last = got.close || got.until_end || a->status == 101 || a->broken;
        if (last)
            CHECK(left == 0 && p->eof);
        answer_free(&got);
    }
    if (left && !last) { /* an answer of the engine */
        answer got;
        enum answer_rc rc;
        while ((rc = answer_read(&got, at, left, p->eof, false)) == ANSWER_DONE && got.status == 100) {
            at += got.used;
            left -= got.used;
            answer_free(&got);
        }
        if (rc == ANSWER_MORE && got.head_len && got.length > 0 && got.close) /* to a HEAD request */
            rc = ANSWER_DONE, got.used = got.head_len;
        CHECK(rc == ANSWER_DONE || p->excused || !left);
        if (rc == ANSWER_DONE && left)
            CHECK(got.status >= 400 && got.close && left == got.used);
        answer_free(&got);
    }
    CHECK(!p->reset || p->may_reset || p->excused);
}

static void ignore_line(void *arg, const char *line)
{
    (void)arg;
    CHECK(!strchr(line, '\n'));
}

static uint64_t pick(const uint8_t *data, size_t i, const uint64_t *from)
{
    return from[data[i] & 7];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t bodies[8] = {1 << 20, 0, 10, 100, 5000, 70000, 1 << 20, 300000},
                          memory[8] = {65536, 0, 1, 10, 1000, 20000, 65536, 1 << 20},
                          buffers[8] = {1 << 20, 0, 100, 5000, 70000, 200000, 1000, 1 << 20},
                          keepalives[8] = {0, 1, 2, 3, 10, 0, 0, 0}, requests[8] = {0, 1, 2, 5, 20, 0, 0, 0},
                          sndbufs[8] = {0, 1, 8000, 20000, 0, 0, 0, 0}, fields[8] = {128, 1, 3, 10, 256, 128, 128, 128},
                          heads[8] = {65536, 64, 200, 1000, 5000, 20000, 65536, 65536};
    if (size < 8 || size > 65536)
        return 0;
    if (file_fd < 0) {
        for (size_t i = 0; i < sizeof pattern; i++)
            pattern[i] = (char)(i % PERIOD);
        file_fd = memfd_create("pattern", MFD_CLOEXEC);
        CHECK(file_fd >= 0);
        for (size_t i = 0; i < FILE_LEN;) {
            ssize_t n = write(file_fd, pattern + i % PERIOD, 65536);
            CHECK(n > 0);
            i += (size_t)n;
        }
    }

    const unsigned before = open_descriptors();
    hf_config config = hf_config_default;
    config.max_body = pick(data, 0, bodies);
    config.body_memory = pick(data, 1, memory);
    config.max_write_buffer = pick(data, 2, buffers);
    config.max_keepalive_requests = (uint32_t)pick(data, 3, keepalives);
    config.max_requests = pick(data, 4, requests);
    config.limits.max_fields = (uint32_t)pick(data, 5, fields);
    config.limits.max_head = (uint32_t)pick(data, 6, heads);
    config.keepalive = !(data[5] & 8);
    timeouts_off = data[6] & 8;
    if (timeouts_off)
        config.keepalive_timeout = config.header_timeout = config.read_timeout = config.write_timeout = 0;
    if (data[0] & 8)
        config.server_name = NULL;
    config.log = ignore_line;
    e = hf_engine_create(&config);
    CHECK(e);
    fake_now = e->now;
    e->clock = fake_clock;
    budget = BUDGET;
    memset(peers, 0, sizeof peers);
    for (int i = 0; i < N_PEERS; i++)
        peers[i].fd = -1;

    hf_engine_lock(e);
    play(data + 8, size - 8, (int)pick(data, 7, sndbufs));
    if (!(data[7] & 8))
        settle();
    if (!(data[4] & 8) && !over())
        drain();
    all_receive();
    for (int i = 0; i < N_PEERS; i++) { /* those who have not been served by now are cut */
        hf_conn *c = peers[i].opened ? conn_of(&peers[i]) : NULL;
        if (c && ((c->req && c->req->running) || !hf_output_empty(&c->out) || e->ready_head))
            peers[i].excused = true;
        peers[i].may_reset |= c != NULL;
    }
    hf_engine_close_all(e);
    CHECK(e->n_conns == 0 && !e->conns);
    handle_ready();
    for (int i = 0; i < N_PEERS; i++) {
        peer *p = &peers[i];
        p->paused = false;
        receive(p, SIZE_MAX);
        CHECK(p->eof || !p->opened);
        for (ask *a = p->asks; a; a = a->next) {
            if (a->r) {
                CHECK(a->suspended && a->gone && a->ignores_gone); /* nobody was forgotten */
                run(a);
                while (a->r)
                    run(a);
            }
            if (a->extra) {
                CHECK(hf_response_interim(a->extra, 103, NULL, 0) == -1);
                hf_request_unref(a->extra);
            }
        }
    }
    handle_ready();
    CHECK(!owners);
    for (int i = 0; i < N_PEERS; i++) {
        peer *p = &peers[i];
        check_answers(p);
        if (p->fd >= 0)
            close(p->fd);
        for (ask *a = p->asks, *next; a; a = next) {
            next = a->next;
            free(a);
        }
        free(p->sent.p);
        free(p->got.p);
        free(p->body.p);
    }
    hf_engine_unlock(e);
    hf_engine_destroy(e);
    CHECK(open_descriptors() == before);
    return 0;
}

#include "standalone.h"
