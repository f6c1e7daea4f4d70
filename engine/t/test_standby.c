/* test_standby.c - several engines in one process, each with its leader and its standby thread, that share a listening socket
 * and a run queue, under clients that keep connections, pipeline, upload, dawdle and hang up. Every answer is checked, and
 * every request is counted where it runs. Made to be run under ThreadSanitizer ("make check-tsan").
 */
#include "engine.h"
#include "runqueue.h"
#include "standby.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tap.h"

#define N_ENGINES 4         /* at first; one of them leaves while all are busy, and one more takes its place */
#define N_CLIENTS 8
#define SECONDS 3
#define MAX_IDS 1000000
#define LARGE 200000
#define PATIENCE 20         /* s for any one answer */

static hf_engine *engines[N_ENGINES + 1];
static int port;
static _Atomic unsigned char runs[MAX_IDS]; /* how often each request ran */
static _Atomic unsigned next_id = 1, n_answers, n_wrong, n_hung_up;
static _Atomic bool over;
static char *large;

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void print_line(void *arg, const char *line)
{
    (void)arg;
    printf("# %s\n", line);
}

/* --- the application --- */

typedef struct asked { /* what is taken from a request while the lock is held */
    char what[16];
    unsigned id;
    uint64_t n_body, sum;
} asked;

static uint64_t sum_of(const unsigned char *p, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = sum * 31 + p[i];
    return sum;
}

static asked look_at(hf_request *r)
{
    asked a = {.n_body = r->body.len};
    char target[64] = "";
    size_t len = r->head.target.len < 63 ? r->head.target.len : 63;
    memcpy(target, hf_request_base(r) + r->head.target.off, len);
    sscanf(target, "/%15[a-z]/%u", a.what, &a.id);
    if (r->body.len) {
        unsigned char *copy = malloc((size_t)r->body.len);
        if (r->body.fd < 0)
            memcpy(copy, r->body.mem, (size_t)r->body.len);
        else if (pread(r->body.fd, copy, (size_t)r->body.len, 0) != (ssize_t)r->body.len)
            die("pread");
        a.sum = sum_of(copy, (size_t)r->body.len);
        free(copy);
    }
    return a;
}

static const hf_field_out text = {"Content-Type", "text/plain", 12, 10};

/* "what id n_body sum", and more for some. With the lock. */
static void answer(hf_request *r, const asked *a)
{
    char line[128];
    int n = snprintf(line, sizeof(line), "%s %u %llu %llu\n", a->what, a->id, (unsigned long long)a->n_body,
                     (unsigned long long)a->sum);
    if (strcmp(a->what, "large") == 0) {
        char *owned = malloc(LARGE);
        memcpy(owned, large, LARGE);
        memcpy(owned, line, (size_t)n);
        if (hf_response_begin(r, 200, &text, 1, LARGE, 0) == 0)
            hf_response_write_ref(r, owned, LARGE, owned);
        else
            free(owned);
    } else if (hf_response_begin(r, 200, &text, 1, n, (size_t)n) == 0) {
        hf_response_write(r, line, (size_t)n);
    }
    hf_response_end(r);
}

/* In pieces, with the lock let go of between them, as a streaming writer does. */
static void stream(hf_engine *e, hf_request *r, const asked *a)
{
    char line[128];
    int n = snprintf(line, sizeof(line), "%s %u %llu %llu\n", a->what, a->id, (unsigned long long)a->n_body,
                     (unsigned long long)a->sum);
    hf_engine_lock(e);
    hf_response_begin(r, 200, &text, 1, HF_LENGTH_UNKNOWN, 0);
    hf_response_write(r, line, (size_t)n);
    hf_engine_unlock(e);
    for (int i = 0; i < 4; i++) {
        usleep(2000);
        hf_engine_lock(e);
        hf_response_write(r, "more\n", 5);
        hf_response_flush(r);
        hf_engine_unlock(e);
    }
    hf_engine_lock(e);
    hf_response_end(r);
    hf_engine_unlock(e);
}

static void run(hf_engine *e, hf_request *r, asked *later, hf_request **parked)
{
    asked a = look_at(r);
    if (a.id && a.id < MAX_IDS)
        runs[a.id]++;
    hf_standby_enter_app(e, r);
    if (strcmp(a.what, "slow") == 0)
        usleep(3000 + a.id % 10 * 1000);
    if (strcmp(a.what, "stream") == 0) {
        stream(e, r, &a);
    } else {
        hf_engine_lock(e);
        if (strcmp(a.what, "later") == 0 && !*parked) {
            *later = a;
            *parked = r;
            hf_request_suspend(r);
        } else {
            answer(r, &a);
        }
        hf_engine_unlock(e);
    }
    hf_standby_leave_app(e);
}

static void *lead(void *arg)
{
    hf_engine *e = arg;
    hf_request *r, *parked = NULL;
    asked later;
    unsigned events;
    void *owner;
    if (hf_standby_start(e) < 0)
        die("standby");
    hf_engine_lock(e);
    while (!hf_engine_finished(e)) {
        hf_engine_poll(e, parked ? 1 : -1);
        while ((r = hf_engine_next(e, &events)))
            if (events & HF_REQ_RUN)
                run(e, r, &later, &parked);
        if (parked) { /* in a later turn, and its client may have left */
            hf_request *p = parked;
            parked = NULL;
            answer(p, &later);
        }
        while ((owner = hf_engine_released(e)))
            free(owner);
    }
    hf_engine_unlock(e);
    hf_standby_stop(e);
    hf_engine_lock(e);
    hf_engine_close_all(e);
    while (hf_engine_next(e, &events))
        ;
    while ((owner = hf_engine_released(e)))
        free(owner);
    hf_engine_unlock(e);
    return NULL;
}

/* --- clients --- */

typedef struct client {
    unsigned seed;
    int fd;
    size_t n, at;
    char in[65536];
} client;

static unsigned dice(client *c, unsigned n)
{
    return (unsigned)rand_r(&c->seed) / 7 % n;
}

static void dial(client *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    struct timeval patience = {.tv_sec = PATIENCE};
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    c->n = c->at = 0;
}

static bool say(client *c, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(c->fd, p, n, MSG_NOSIGNAL);
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static int get_byte(client *c)
{
    if (c->at == c->n) {
        ssize_t k = recv(c->fd, c->in, sizeof(c->in), 0);
        if (k <= 0)
            return -1;
        c->n = (size_t)k;
        c->at = 0;
    }
    return (unsigned char)c->in[c->at++];
}

static bool get_line(client *c, char *line, size_t size)
{
    size_t n = 0;
    for (;;) {
        int byte = get_byte(c);
        if (byte < 0 || n + 1 >= size)
            return false;
        if (byte == '\n')
            break;
        line[n++] = (char)byte;
    }
    line[n && line[n - 1] == '\r' ? n - 1 : n] = '\0';
    return true;
}

/* The next answer's body; its length, or -1. */
static long get_answer(client *c, char *body, size_t size)
{
    char line[512];
    long length = 0, n = 0;
    bool chunked = false;
    if (!get_line(c, line, sizeof(line)) || strncmp(line, "HTTP/1.1 200", 12) != 0)
        return -1;
    while (get_line(c, line, sizeof(line)) && *line) {
        sscanf(line, "Content-Length: %ld", &length);
        chunked |= strncmp(line, "Transfer-Encoding: chunked", 26) == 0;
        if (strncmp(line, "Connection: close", 17) == 0)
            return -1; /* nobody has asked for that */
    }
    do {
        if (chunked && (!get_line(c, line, sizeof(line)) || sscanf(line, "%lx", (unsigned long *)&length) != 1))
            return -1;
        for (long i = 0; i < length; i++) {
            int byte = get_byte(c);
            if (byte < 0 || (size_t)n + 1 >= size)
                return -1;
            body[n++] = (char)byte;
        }
        if (chunked && !get_line(c, line, sizeof(line)))
            return -1;
    } while (chunked && length);
    body[n] = '\0';
    return n;
}

static void wrong(const char *what, const char *expected, const char *body)
{
    if (n_wrong++ < 10)
        printf("# %s: expected %.60s, got %.60s\n", what, expected, body);
}

static void *ask(void *arg)
{
    static const char *const whats[] = {"fast", "fast", "fast", "fast", "slow", "slow", "stream", "later", "large", "sum", "sum"};
    client *c = arg;
    char *batch = malloc(1 << 20), *body = malloc(LARGE + 4096);
    dial(c);
    while (!over) {
        unsigned ids[4], n = 1 + (dice(c, 3) == 0 ? dice(c, 4) : 0);
        char expected[4][128];
        const char *what[4];
        size_t len = 0;
        for (unsigned i = 0; i < n; i++) {
            ids[i] = next_id++;
            what[i] = whats[dice(c, sizeof(whats) / sizeof(*whats))];
            size_t n_body = strcmp(what[i], "sum") ? 0 : 1 + dice(c, dice(c, 4) ? 2000 : 60000);
            bool chunked = n_body && dice(c, 2);
            uint64_t sum = 0;
            len += (size_t)sprintf(batch + len, "%s /%s/%u HTTP/1.1\r\nHost: a\r\n", n_body ? "POST" : "GET", what[i], ids[i]);
            if (chunked)
                len += (size_t)sprintf(batch + len, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", n_body);
            else if (n_body)
                len += (size_t)sprintf(batch + len, "Content-Length: %zu\r\n\r\n", n_body);
            else
                len += (size_t)sprintf(batch + len, "\r\n");
            for (size_t k = 0; k < n_body; k++)
                batch[len + k] = (char)(ids[i] + k);
            sum = sum_of((unsigned char *)batch + len, n_body);
            len += n_body;
            if (chunked)
                len += (size_t)sprintf(batch + len, "\r\n0\r\n\r\n");
            snprintf(expected[i], sizeof(expected[i]), "%s %u %zu %llu\n", what[i], ids[i], n_body, (unsigned long long)sum);
        }
        size_t cut = dice(c, 3) ? len : dice(c, (unsigned)len + 1);
        say(c, batch, cut);
        if (dice(c, 50) == 0) { /* hangs up: whatever ran, nobody is told */
            struct linger reset = {.l_onoff = (int)dice(c, 2)};
            setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
            close(c->fd);
            n_hung_up++;
            dial(c);
            continue;
        }
        if (cut < len) {
            usleep(dice(c, 8000));
            say(c, batch + cut, len - cut);
        }
        for (unsigned i = 0; i < n; i++) {
            if (what[i][0] == 'l' && dice(c, 4) == 0)
                usleep(dice(c, 5000)); /* a slow reader */
            long got = get_answer(c, body, LARGE + 4096);
            size_t n_expected = strlen(expected[i]);
            if (got < 0) {
                wrong("no answer", expected[i], errno == EAGAIN ? "silence" : "the end");
                close(c->fd);
                dial(c);
                break;
            }
            long whole = strcmp(what[i], "large") == 0    ? LARGE
                         : strcmp(what[i], "stream") == 0 ? (long)n_expected + 20
                                                          : (long)n_expected;
            if (got != whole || memcmp(body, expected[i], n_expected) != 0)
                wrong("another answer", expected[i], body);
            if (ids[i] < MAX_IDS && runs[ids[i]] != 1)
                wrong("not run just once", expected[i], body);
            n_answers++;
        }
    }
    close(c->fd);
    free(batch);
    free(body);
    return NULL;
}

/* --- */

static int listening(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 128) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        die("listen");
    port = ntohs(at.sin_port);
    return fd;
}

int main(void)
{
    pthread_t leaders[N_ENGINES + 1], threads[N_CLIENTS];
    int fd = listening(), queue[2];
    uint64_t in = 0, out = 0;
    char port_text[8];
    alarm(120); /* in case that it hangs */
    signal(SIGPIPE, SIG_IGN);
    large = malloc(LARGE);
    memset(large, 'x', LARGE);
    if (hf_runqueue_create(queue) < 0)
        die("run queue");
    snprintf(port_text, sizeof(port_text), "%d", port);
    hf_config config = hf_config_default;
    config.standby = true;
    config.standby_grace = 1;
    config.body_memory = 8192;
    config.max_write_buffer = 1 << 24;
    config.accept_batch = 1;
    config.run_send_fd = queue[0];
    config.run_receive_fd = queue[1];
    config.log = print_line;
    for (int i = 0; i <= N_ENGINES; i++) {
        engines[i] = hf_engine_create(&config);
        if (!engines[i] || hf_engine_listen(engines[i], fd, "127.0.0.1", port_text) < 0)
            die("engine");
    }
    for (int i = 0; i < N_ENGINES; i++)
        pthread_create(&leaders[i], NULL, lead, engines[i]);
    client *clients = calloc(N_CLIENTS, sizeof(*clients));
    for (int i = 0; i < N_CLIENTS; i++) {
        clients[i].seed = (unsigned)i + 1;
        pthread_create(&threads[i], NULL, ask, &clients[i]);
    }
    usleep(SECONDS * 500000);
    pthread_create(&leaders[N_ENGINES], NULL, lead, engines[N_ENGINES]);
    hf_engine_leave(engines[0]);
    pthread_join(leaders[0], NULL);
    ok(hf_engine_finished(engines[0]) == HF_LEFT, "an engine leaves while all are busy");
    usleep(SECONDS * 500000);
    over = true;
    for (int i = 0; i < N_CLIENTS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i <= N_ENGINES; i++)
        hf_engine_drain(engines[i]);
    for (int i = 1; i <= N_ENGINES; i++)
        pthread_join(leaders[i], NULL);
    for (int i = 0; i <= N_ENGINES; i++) {
        in += engines[i]->n_moved_in;
        out += engines[i]->n_moved_out;
    }
    diag("%u answers, %u clients hung up, %llu connections moved", (unsigned)n_answers, (unsigned)n_hung_up, (unsigned long long)out);
    ok(n_answers > 100, "the clients had answers");
    ok(n_wrong == 0, "each to its own request, once, with all of its bytes");
    ok(out > 10, "connections moved");
    ok(in == out, "as many arrived as left");
    for (int i = 1; i <= N_ENGINES; i++)
        ok(hf_engine_finished(engines[i]) == HF_DRAINED, "engine %d has drained", i);
    for (int i = 0; i <= N_ENGINES; i++)
        hf_engine_destroy(engines[i]);
    close(fd);
    close(queue[0]);
    close(queue[1]);
    free(clients);
    free(large);
    return done_testing();
}
