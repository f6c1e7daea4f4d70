/*
 * load: asks a server for pages by a timetable, and counts from when each request was due.
 *
 * A client that waits for an answer before it asks again is silent exactly while the server is slow, and its percentiles
 * leave out those that would have suffered (coordinated omission). Here the times of all requests are fixed before the
 * first is sent. A request that is due while its connection is busy waits in the connection's queue, and its latency
 * counts from when it was due. One that has no answer at the end counts with the time it has waited until then.
 *
 *     load --port N [--host 127.0.0.1] [--warm-up S] [--duration S] [--drain S] [--seed N] [--records FILE] GROUP...
 *
 * A group is KEY=VALUE, separated by commas:
 *
 *     name=TEXT        what the result calls it
 *     path=/A|/B       what is asked for; of several, each time one of them, all equally likely
 *     connections=N    keep-alive connections (1)
 *     every=MS         each connection asks at this interval, from a random moment of the first one
 *     poisson=MS       each connection asks at random moments, so often on average
 *     rate=N           the group asks N times a second at random moments; each request takes the connection that has been
 *                      free for longest, or the first that becomes free
 *                      (none of the three: each connection asks again as soon as it is answered)
 *     fresh=1          a connection for each request
 *     service=MS|MS    how long each path takes: beside a rate, the result has what an ideal queue in front of `workers`
 *     workers=N        workers, first come, first served, makes of the same requests
 *
 * Every request carries its number as the query; a server that sends it back as X-Request is held to it. Requests count
 * that were due within `duration` seconds after `warm_up` seconds; then nothing more is asked, and answers are waited for
 * during `drain` seconds. The result is JSON on standard output. Exit status: 0, or 1 with a message.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { GROUPS_MAX = 16, PATHS_MAX = 8, EVENTS_MAX = 256, IN_MAX = 16384, NONE = -1 };

static const int64_t SECOND = 1000000000, MILLISECOND = 1000000;
static const int64_t STARVED_AFTER = 1000000000; /* ns that a connection is owed an answer without getting any */
static const int64_t RETRY_AFTER = 10000000;     /* ns until a connection that could not be opened is tried again */
static const int64_t HEAD_START = 200000000;     /* ns for opening all connections before the timetable begins */

enum fate { DUE, SENT, ANSWERED, FAILED };
enum state { CLOSED, CONNECTING, FREE, BUSY };

struct request {
    int64_t due, sent, done; /* ns; 0: not yet */
    int32_t group, conn;     /* conn: NONE until a group's request has one */
    int32_t next;            /* in the queue of its connection or group */
    uint8_t path, fate;
    bool at_once; /* its connection was free when it was due: then sent - due is this program's own delay */
};

struct queue {
    int32_t head, tail;
};

struct conn {
    int fd;
    enum state state;
    int32_t group, request; /* the request under way, or NONE */
    struct queue queue;
    int32_t newer, older; /* in the group's list of free connections */
    bool listed;
    int64_t retry_at;   /* CLOSED with something to send: when to connect again */
    int64_t owed_since; /* since when something is owed without any answer; 0: nothing */
    bool starved;
    /* the answer */
    bool in_body, until_close, closes;
    int64_t body_left;
    size_t len;
    char *in;
};

struct group {
    const char *name;
    int connections, n_paths, n_services, workers;
    char *paths[PATHS_MAX];
    double service[PATHS_MAX]; /* ms */
    double every, poisson, rate;
    bool fresh;
    int first;           /* its first connection */
    struct queue queue;  /* of a rate: requests that no connection was free for */
    int32_t oldest, newest;
    uint64_t connects, connect_errors, resets, short_answers, status_errors, twice, mismatched, closed_free;
};

static struct group groups[GROUPS_MAX];
static int n_groups, n_conns, epoll, timer;
static struct conn *conns;
static struct request *requests;
static int32_t n_requests, requests_room, n_planned;
static struct sockaddr_in server;
static int64_t begin, window_start, window_end, drain_end;
static int64_t now;
static int64_t armed;
static uint64_t random_state = 1;
static int outstanding;

static void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("load: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

static void *allocate(void *old, size_t size)
{
    void *p = realloc(old, size);
    if (!p)
        die("out of memory");
    return p;
}

static int64_t clock_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * SECOND + ts.tv_nsec;
}

/* xorshift64*: the same numbers for the same seed on every machine. */
static uint64_t random_number(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

/* Above 0, and at most 1. */
static double random_part(void)
{
    return ((double)(random_number() >> 11) + 1) / 9007199254740992.0;
}

/* --- the timetable --- */

static int32_t new_request(int64_t due, int group, int32_t conn)
{
    if (n_requests == requests_room) {
        requests_room = requests_room ? requests_room * 2 : 65536;
        requests = allocate(requests, (size_t)requests_room * sizeof(*requests));
    }
    struct request *r = &requests[n_requests];
    memset(r, 0, sizeof(*r));
    r->due = due;
    r->group = group;
    r->conn = conn;
    r->next = NONE;
    r->path = groups[group].n_paths > 1 ? (uint8_t)(random_number() >> 33) % (uint8_t)groups[group].n_paths : 0;
    return n_requests++;
}

static int by_due(const void *a, const void *b)
{
    int64_t x = ((const struct request *)a)->due, y = ((const struct request *)b)->due;
    return (x > y) - (x < y);
}

static void plan(void)
{
    for (int g = 0; g < n_groups; g++) {
        struct group *group = &groups[g];
        double gap = group->rate ? 1000 / group->rate : group->poisson ? group->poisson : group->every;
        int clocks = group->rate ? 1 : group->connections;
        if (gap <= 0)
            continue;
        gap *= (double)MILLISECOND;
        for (int i = 0; i < clocks; i++) {
            int32_t conn = group->rate ? NONE : group->first + i;
            double at = group->every ? gap * random_part() : -log(random_part()) * gap;
            while (begin + (int64_t)at < window_end) {
                new_request(begin + (int64_t)at, g, conn);
                at += group->every ? gap : -log(random_part()) * gap;
            }
        }
    }
    qsort(requests, (size_t)n_requests, sizeof(*requests), by_due);
    n_planned = n_requests;
}

static void push(struct queue *q, int32_t i)
{
    requests[i].next = NONE;
    if (q->head == NONE)
        q->head = i;
    else
        requests[q->tail].next = i;
    q->tail = i;
}

static int32_t pop(struct queue *q)
{
    int32_t i = q->head;
    if (i != NONE)
        q->head = requests[i].next;
    return i;
}

/* --- free connections of a group with a rate --- */

static void list_free(struct conn *c)
{
    struct group *g = &groups[c->group];
    int32_t me = (int32_t)(c - conns);
    if (c->listed)
        return;
    c->listed = true;
    c->newer = NONE;
    c->older = g->newest;
    if (g->newest == NONE)
        g->oldest = me;
    else
        conns[g->newest].newer = me;
    g->newest = me;
}

static void unlist_free(struct conn *c)
{
    struct group *g = &groups[c->group];
    if (!c->listed)
        return;
    c->listed = false;
    *(c->newer == NONE ? &g->newest : &conns[c->newer].older) = c->older;
    *(c->older == NONE ? &g->oldest : &conns[c->older].newer) = c->newer;
}

/* --- connections --- */

static void next_request(struct conn *c);

static void close_conn(struct conn *c)
{
    unlist_free(c);
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->state = CLOSED;
    c->len = 0;
    c->in_body = false;
}

/* The request under way comes to nothing. */
static void fail_request(struct conn *c)
{
    if (c->request == NONE)
        return;
    requests[c->request].fate = FAILED;
    requests[c->request].done = now;
    c->request = NONE;
    outstanding--;
}

static void send_request(struct conn *c)
{
    char text[512];
    struct group *g = &groups[c->group];
    struct request *r = &requests[c->request];
    int len = snprintf(text, sizeof(text), "GET %s?%d HTTP/1.1\r\nHost: %s:%d\r\n%s\r\n", g->paths[r->path],
                       (int)c->request, inet_ntoa(server.sin_addr), ntohs(server.sin_port),
                       g->fresh ? "Connection: close\r\n" : "");
    c->state = BUSY;
    c->len = 0;
    c->in_body = c->until_close = c->closes = false;
    r->sent = clock_now();
    r->fate = SENT;
    if (send(c->fd, text, (size_t)len, MSG_NOSIGNAL) != len) {
        g->resets++;
        fail_request(c);
        close_conn(c);
        c->retry_at = now + RETRY_AFTER;
    }
}

static void open_conn(struct conn *c)
{
    int yes = 1;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u32 = (uint32_t)(c - conns)};
    c->retry_at = 0;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        die("socket: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    c->state = CONNECTING;
    groups[c->group].connects++;
    if (connect(c->fd, (struct sockaddr *)&server, sizeof(server)) < 0 && errno != EINPROGRESS) {
        groups[c->group].connect_errors++;
        fail_request(c);
        close_conn(c);
        c->retry_at = now + RETRY_AFTER;
        return;
    }
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

/* Something is due on a connection that has no request under way. */
static void begin_request(struct conn *c, int32_t i)
{
    unlist_free(c);
    requests[i].conn = (int32_t)(c - conns);
    c->request = i;
    if (!c->owed_since)
        c->owed_since = requests[i].due;
    if (c->state == FREE)
        send_request(c);
    else if (c->state == CLOSED && !c->retry_at)
        open_conn(c);
}

/* The connection can take the next one: of its queue, of its group's, or the same again. */
static void next_request(struct conn *c)
{
    struct group *g = &groups[c->group];
    int32_t i = pop(&c->queue);
    if (i == NONE)
        i = pop(&g->queue);
    if (i == NONE && !g->rate && !g->every && !g->poisson && now < window_end) {
        i = new_request(now, c->group, (int32_t)(c - conns));
        requests[i].at_once = c->state == FREE;
        outstanding++;
    }
    if (i != NONE) {
        begin_request(c, i);
    } else if (c->state == CLOSED && !c->retry_at && !g->fresh && now < window_end) {
        open_conn(c); /* to be ready, as a browser or a proxy would be */
    } else if (g->rate && (c->state == FREE || g->fresh)) {
        list_free(c);
    }
}

static void became_due(int32_t i)
{
    struct request *r = &requests[i];
    struct group *g = &groups[r->group];
    outstanding++;
    if (r->conn == NONE) {
        if (g->oldest == NONE) {
            push(&g->queue, i);
            return;
        }
        r->at_once = conns[g->oldest].state == FREE;
        begin_request(&conns[g->oldest], i);
        return;
    }
    struct conn *c = &conns[r->conn];
    if (c->request != NONE) {
        push(&c->queue, i);
        return;
    }
    r->at_once = c->state == FREE;
    begin_request(c, i);
}

/* --- answers --- */

static void note_starvation(struct conn *c)
{
    if (c->owed_since && now - c->owed_since > STARVED_AFTER)
        c->starved = true;
}

static void answered(struct conn *c)
{
    struct request *r = &requests[c->request];
    r->done = now;
    r->fate = ANSWERED;
    outstanding--;
    c->request = NONE;
    note_starvation(c);
    c->owed_since = c->queue.head != NONE ? now : 0;
    if (c->closes || groups[c->group].fresh)
        close_conn(c);
    else
        c->state = FREE;
}

/* The connection ends before its request is answered, or in between. */
static void broken(struct conn *c, uint64_t *counter)
{
    if (c->request != NONE) {
        ++*counter;
        fail_request(c);
    }
    close_conn(c);
}

static const char *field(const char *head, const char *end, const char *name, size_t *len)
{
    size_t n = strlen(name);
    for (const char *line = memchr(head, '\n', (size_t)(end - head)); line && ++line < end;
         line = memchr(line, '\n', (size_t)(end - line))) {
        if ((size_t)(end - line) <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
            continue;
        const char *value = line + n + 1, *stop = memchr(value, '\r', (size_t)(end - value));
        while (*value == ' ' || *value == '\t')
            value++;
        *len = (size_t)((stop ? stop : end) - value);
        return value;
    }
    return NULL;
}

/* Reads the head in front of c->in: false when it is none that this program understands. */
static bool read_head(struct conn *c, size_t head_len)
{
    struct group *g = &groups[c->group];
    const char *head = c->in, *end = c->in + head_len, *value;
    size_t len;
    if (head_len < 13 || memcmp(head, "HTTP/1.", 7) != 0)
        return false;
    int status = atoi(head + 9);
    if (status < 200 || status > 299)
        g->status_errors++;
    c->closes = head[7] == '0';
    if ((value = field(head, end, "Connection", &len)))
        c->closes = len == 10 && strncasecmp(value, "keep-alive", 10) == 0 ? false
            : len == 5 && strncasecmp(value, "close", 5) == 0              ? true
                                                                           : c->closes;
    if (field(head, end, "Transfer-Encoding", &len))
        return false;
    value = field(head, end, "Content-Length", &len);
    c->until_close = !value;
    c->body_left = value ? atoll(value) : 0;
    if (c->until_close)
        c->closes = true;
    value = field(head, end, "X-Request", &len);
    if (value && len && atoll(value) != c->request)
        g->mismatched++;
    c->in_body = true;
    return true;
}

/* What is in c->in: false when the connection was closed over it. */
static bool parse(struct conn *c)
{
    struct group *g = &groups[c->group];
    if (!c->in_body) {
        char *blank = memmem(c->in, c->len, "\r\n\r\n", 4);
        if (!blank && c->len < IN_MAX)
            return true;
        size_t head_len = blank ? (size_t)(blank - c->in) + 4 : 0;
        if (!blank || !read_head(c, head_len)) {
            broken(c, &g->short_answers);
            return false;
        }
        memmove(c->in, c->in + head_len, c->len - head_len);
        c->len -= head_len;
    }
    if (c->until_close) {
        c->len = 0;
        return true;
    }
    size_t take = (int64_t)c->len < c->body_left ? c->len : (size_t)c->body_left;
    c->body_left -= (int64_t)take;
    memmove(c->in, c->in + take, c->len - take);
    c->len -= take;
    if (c->body_left)
        return true;
    bool more = c->len > 0;
    answered(c);
    if (more) { /* another answer that nobody asked for */
        g->twice++;
        close_conn(c);
        return false;
    }
    return c->state != CLOSED;
}

static void on_readable(struct conn *c)
{
    struct group *g = &groups[c->group];
    for (;;) {
        if (c->len == IN_MAX)
            c->len = 0; /* cannot be: parse() takes or refuses a full buffer */
        ssize_t n = recv(c->fd, c->in + c->len, IN_MAX - c->len, 0);
        now = clock_now();
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n > 0 && c->request == NONE) {
            g->twice++;
            close_conn(c);
            break;
        }
        if (n > 0) {
            c->len += (size_t)n;
            if (!parse(c))
                break;
            continue;
        }
        if (n == 0 && c->request != NONE && c->in_body && c->until_close) {
            answered(c);
            break;
        }
        if (c->request == NONE)
            g->closed_free++;
        broken(c, c->len || c->in_body ? &g->short_answers : &g->resets);
        break;
    }
    if (c->request == NONE)
        next_request(c);
}

static void on_event(struct conn *c, uint32_t events)
{
    if (c->fd < 0)
        return;
    if (c->state == CONNECTING && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
        int error = 0;
        socklen_t len = sizeof(error);
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error) {
            groups[c->group].connect_errors++;
            fail_request(c);
            close_conn(c);
            c->retry_at = now + RETRY_AFTER;
            return;
        }
        c->state = FREE;
        if (c->request != NONE)
            send_request(c);
        else
            next_request(c);
    }
    if (c->fd >= 0 && (events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)))
        on_readable(c);
}

/* --- the run --- */

static void arm(int64_t at)
{
    struct itimerspec spec = {.it_value = {.tv_sec = at / SECOND, .tv_nsec = at % SECOND}};
    if (at == armed)
        return;
    armed = at;
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

static int64_t retry(void)
{
    int64_t soonest = INT64_MAX;
    for (int i = 0; i < n_conns; i++) {
        struct conn *c = &conns[i];
        if (c->state != CLOSED || !c->retry_at)
            continue;
        if (c->retry_at <= now) {
            c->retry_at = 0;
            if (c->request != NONE)
                open_conn(c);
            else
                next_request(c);
        }
        if (c->retry_at && c->retry_at < soonest)
            soonest = c->retry_at;
    }
    return soonest;
}

static void run(void)
{
    struct epoll_event events[EVENTS_MAX], timer_event = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    int32_t next = 0;
    bool started = false;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &timer_event) < 0)
        die("epoll_ctl: %s", strerror(errno));
    for (int i = 0; i < n_conns; i++) {
        if (groups[conns[i].group].fresh) {
            if (groups[conns[i].group].rate)
                list_free(&conns[i]);
        } else {
            open_conn(&conns[i]);
        }
    }
    for (;;) {
        now = clock_now();
        if (!started && now >= begin) {
            started = true;
            for (int i = 0; i < n_conns; i++)
                if (conns[i].request == NONE && conns[i].state != CONNECTING)
                    next_request(&conns[i]);
        }
        while (next < n_planned && requests[next].due <= now)
            became_due(next++);
        int64_t wake = started ? drain_end : begin, again = retry();
        if (next < n_planned && requests[next].due < wake)
            wake = requests[next].due;
        else if (now < window_end && window_end < wake)
            wake = window_end;
        if (again < wake)
            wake = again;
        if (now >= drain_end || (now >= window_end && !outstanding))
            return;
        arm(wake);
        int n = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (n < 0 && errno != EINTR)
            die("epoll_wait: %s", strerror(errno));
        now = clock_now();
        for (int i = 0; i < n; i++) {
            if (events[i].data.u32 != UINT32_MAX) {
                on_event(&conns[events[i].data.u32], events[i].events);
                continue;
            }
            uint64_t ticks;
            armed = 0;
            if (read(timer, &ticks, sizeof(ticks)) < 0 && errno != EAGAIN)
                die("timerfd: %s", strerror(errno));
        }
    }
}

/* --- the result --- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile(const int64_t *sorted, int n, double percent)
{
    int rank = (int)ceil(percent / 100 * n);
    return n ? (double)sorted[rank < 1 ? 0 : rank - 1] / 1000 : 0;
}

/* Prints latencies in microseconds; sorts them. */
static void print_latencies(int64_t *ns, int n)
{
    static const double percents[] = {50, 75, 90, 99, 99.9};
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)ns[i];
    qsort(ns, (size_t)n, sizeof(*ns), by_value);
    printf("\"count\":%d,\"mean_us\":%.3f,\"max_us\":%.3f", n, n ? sum / n / 1000 : 0, n ? (double)ns[n - 1] / 1000 : 0);
    for (size_t i = 0; i < sizeof(percents) / sizeof(*percents); i++)
        printf(",\"p%g_us\":%.3f", percents[i], percentile(ns, n, percents[i]));
}

static bool counts(const struct request *r)
{
    return r->due >= window_start && r->due < window_end;
}

/* First come, first served: what the best of all queues makes of the requests of the group, in the order they were due. */
static int ideal(int group, int64_t *latencies)
{
    const struct group *g = &groups[group];
    int64_t *free_at = calloc((size_t)g->workers, sizeof(*free_at));
    int n = 0;
    if (!free_at)
        die("out of memory");
    for (int32_t i = 0; i < n_planned; i++) {
        const struct request *r = &requests[i];
        int soonest = 0;
        if (r->group != group)
            continue;
        for (int w = 1; w < g->workers; w++)
            if (free_at[w] < free_at[soonest])
                soonest = w;
        int64_t start = free_at[soonest] > r->due ? free_at[soonest] : r->due;
        free_at[soonest] = start + (int64_t)(g->service[r->path] * (double)MILLISECOND);
        if (counts(r))
            latencies[n++] = free_at[soonest] - r->due;
    }
    free(free_at);
    return n;
}

static void print_group(int group, int64_t *latencies)
{
    struct group *g = &groups[group];
    int n = 0, n_answered = 0, unanswered = 0, failed = 0, starved = 0;
    double work = 0;
    for (int32_t i = 0; i < n_requests; i++) {
        struct request *r = &requests[i];
        if (r->group != group)
            continue;
        if (r->fate == ANSWERED) { /* as much of it as lies within the window */
            int64_t from = r->sent > window_start ? r->sent : window_start, to = r->done < window_end ? r->done : window_end;
            if (to > from)
                work += (double)(to - from) / (double)(r->done - r->sent);
        }
        if (!counts(r))
            continue;
        n_answered += r->fate == ANSWERED;
        failed += r->fate == FAILED;
        unanswered += r->fate == DUE || r->fate == SENT;
        latencies[n++] = (r->done ? r->done : now) - r->due;
    }
    for (int i = g->first; i < g->first + g->connections; i++) {
        note_starvation(&conns[i]);
        starved += conns[i].starved;
    }
    printf("{\"name\":\"%s\",\"connections\":%d,", g->name, g->connections);
    print_latencies(latencies, n);
    printf(",\"answered\":%d,\"failed\":%d,\"unanswered\":%d,\"per_s\":%.3f,\"starved\":%d,\"connects\":%" PRIu64, n_answered,
           failed, unanswered, work / ((double)(window_end - window_start) / 1e9), starved, g->connects);
    printf(",\"connect_errors\":%" PRIu64 ",\"resets\":%" PRIu64 ",\"short_answers\":%" PRIu64 ",\"status_errors\":%" PRIu64
           ",\"twice\":%" PRIu64 ",\"mismatched\":%" PRIu64 ",\"closed_free\":%" PRIu64,
           g->connect_errors, g->resets, g->short_answers, g->status_errors, g->twice, g->mismatched, g->closed_free);
    if (g->rate && g->workers && g->n_services == g->n_paths) {
        printf(",\"ideal\":{");
        print_latencies(latencies, ideal(group, latencies));
        putchar('}');
    }
    putchar('}');
}

static void print_result(void)
{
    int64_t *latencies = allocate(NULL, ((size_t)n_requests + 1) * sizeof(*latencies));
    int n = 0;
    printf("{\"seconds\":%.3f,\"groups\":[", (double)(window_end - window_start) / 1e9);
    for (int g = 0; g < n_groups; g++) {
        if (g)
            putchar(',');
        print_group(g, latencies);
    }
    for (int32_t i = 0; i < n_requests; i++)
        if (counts(&requests[i]) && requests[i].at_once && requests[i].sent)
            latencies[n++] = requests[i].sent - requests[i].due;
    printf("],\"own_delay\":{");
    print_latencies(latencies, n);
    puts("}}");
    free(latencies);
}

/* One line per request: group, connection, path, fate, and in microseconds since the first could be due: due, sent, done. */
static void write_records(const char *path)
{
    static const char *const fates[] = {"due", "sent", "answered", "failed"};
    FILE *file = fopen(path, "w");
    if (!file)
        die("%s: %s", path, strerror(errno));
    for (int32_t i = 0; i < n_requests; i++) {
        struct request *r = &requests[i];
        fprintf(file, "%s\t%d\t%s\t%s\t%.3f\t%.3f\t%.3f\n", groups[r->group].name, (int)r->conn, groups[r->group].paths[r->path],
                fates[r->fate], (double)(r->due - begin) / 1000, r->sent ? (double)(r->sent - begin) / 1000 : 0,
                r->done ? (double)(r->done - begin) / 1000 : 0);
    }
    if (fclose(file))
        die("%s: %s", path, strerror(errno));
}

/* --- the command line --- */

static double number(const char *what, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (!*text || *end || value < 0 || value > 1e9)
        die("%s: '%s' is no number from 0 to 1e9", what, text);
    return value;
}

static void read_group(char *text)
{
    static char top[] = "/";
    if (n_groups == GROUPS_MAX)
        die("more than %d groups", GROUPS_MAX);
    struct group *g = &groups[n_groups++];
    *g = (struct group){.name = "load", .connections = 1, .queue = {NONE, NONE}, .oldest = NONE, .newest = NONE};
    for (char *rest = text, *item; (item = strsep(&rest, ","));) {
        char *value = strchr(item, '=');
        if (!value)
            die("'%s' is not KEY=VALUE", item);
        *value++ = '\0';
        if (!strcmp(item, "name")) {
            if (strpbrk(value, "\"\\"))
                die("name: no quotes and backslashes, please");
            g->name = value;
        } else if (!strcmp(item, "path")) {
            for (char *path; (path = strsep(&value, "|"));) {
                if (g->n_paths == PATHS_MAX || *path != '/' || strlen(path) > 200)
                    die("path: at most %d, each from /, at most 200 characters", PATHS_MAX);
                g->paths[g->n_paths++] = path;
            }
        } else if (!strcmp(item, "service")) {
            for (char *ms; (ms = strsep(&value, "|")) && g->n_services < PATHS_MAX;)
                g->service[g->n_services++] = number("service", ms);
        } else if (!strcmp(item, "connections")) {
            g->connections = (int)number(item, value);
        } else if (!strcmp(item, "workers")) {
            g->workers = (int)number(item, value);
        } else if (!strcmp(item, "every")) {
            g->every = number(item, value);
        } else if (!strcmp(item, "poisson")) {
            g->poisson = number(item, value);
        } else if (!strcmp(item, "rate")) {
            g->rate = number(item, value);
        } else if (!strcmp(item, "fresh")) {
            g->fresh = number(item, value) != 0;
        } else {
            die("there is no '%s' in a group", item);
        }
    }
    if (!g->n_paths)
        g->paths[g->n_paths++] = top;
    if (g->connections < 1)
        die("connections: at least 1");
    if (!!g->every + !!g->poisson + !!g->rate > 1)
        die("one of every, poisson and rate");
}

static void make_conns(void)
{
    struct rlimit limit;
    for (int g = 0; g < n_groups; g++) {
        groups[g].first = n_conns;
        n_conns += groups[g].connections;
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if ((rlim_t)n_conns + 16 > limit.rlim_cur)
        die("%d connections need a limit of open files (ulimit -Hn) of %d, not %d", n_conns, n_conns + 16, (int)limit.rlim_cur);
    conns = allocate(NULL, (size_t)n_conns * sizeof(*conns));
    char *in = allocate(NULL, (size_t)n_conns * IN_MAX);
    for (int i = 0, g = 0; i < n_conns; i++) {
        while (i >= groups[g].first + groups[g].connections)
            g++;
        conns[i] = (struct conn){.fd = -1, .group = g, .request = NONE, .queue = {NONE, NONE}, .newer = NONE, .older = NONE,
                                 .in = in + (size_t)i * IN_MAX};
    }
}

int main(int argc, char **argv)
{
    const char *host = "127.0.0.1", *records = NULL;
    double port = 0, warm_up = 1, duration = 10, drain = 2, seed = 1;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            read_group(argv[i]);
            continue;
        }
        if (i + 1 == argc)
            die("%s takes a value", argv[i]);
        const char *name = argv[i], *value = argv[++i];
        if (!strcmp(name, "--port"))
            port = number(name, value);
        else if (!strcmp(name, "--host"))
            host = value;
        else if (!strcmp(name, "--warm-up"))
            warm_up = number(name, value);
        else if (!strcmp(name, "--duration"))
            duration = number(name, value);
        else if (!strcmp(name, "--drain"))
            drain = number(name, value);
        else if (!strcmp(name, "--seed"))
            seed = number(name, value);
        else if (!strcmp(name, "--records"))
            records = value;
        else
            die("there is no option %s", name);
    }
    server.sin_family = AF_INET;
    server.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, host, &server.sin_addr) != 1 || port < 1 || port > 65535)
        die("--host takes an IPv4 address, --port a number from 1 to 65535");
    if (!n_groups || duration <= 0)
        die("nothing to do: there is no group, or no time");
    random_state = (uint64_t)seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (int i = 0; i < 8; i++)
        random_number();
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
    make_conns();
    epoll = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (epoll < 0 || timer < 0)
        die("%s", strerror(errno));
    begin = clock_now() + HEAD_START;
    window_start = begin + (int64_t)(warm_up * 1e9);
    window_end = window_start + (int64_t)(duration * 1e9);
    drain_end = window_end + (int64_t)(drain * 1e9);
    plan();
    run();
    print_result();
    if (records)
        write_records(records);
    return 0;
}
