#include "engine.h"

#include "runqueue.h"
#include "scan.h"
#include "standby.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

#define MAX_WAIT 1000 /* ms: the longest sleep, so that what is looked at once a second is */
#define POOLED_BUFS 256
#define TAKE_BATCH 16    /* connections taken from the run queue in one turn, if none of them has a request to run */
#define RESERVED_FDS 64  /* descriptors that accepted connections leave for others: half for the run queue, half for the rest */
#define COMPLAINT_INTERVAL 10000 /* ms between two lines in the log about them */
#define HANDOVER_RETRY 5 /* ms until a connection that found the run queue full is sent again */

const hf_config hf_config_default = {
    .limits = {.max_request_line = 16384, .max_head = 65536, .max_fields = 128},
    .max_body = UINT64_C(1) << 30,
    .body_memory = 65536,
    .max_write_buffer = 1 << 20,
    .keepalive = true,
    .keepalive_timeout = 75000,
    .header_timeout = 30000,
    .read_timeout = 60000,
    .write_timeout = 60000,
    .shutdown_timeout = 30000,
    .accept_batch = 16,
    .standby_grace = 2,
    .run_send_fd = -1,
    .run_receive_fd = -1,
    .server_name = "Hydrofoil",
    .tmpdir = "/tmp",
};

uint64_t hf_monotonic_ms(void)
{
    struct timespec ts;
#ifdef CLOCK_MONOTONIC_COARSE
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
#else
    clock_gettime(CLOCK_MONOTONIC, &ts);
#endif
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void hf_engine_refresh_date(hf_engine *e)
{
    struct timespec ts;
#ifdef CLOCK_REALTIME_COARSE
    clock_gettime(CLOCK_REALTIME_COARSE, &ts);
#else
    clock_gettime(CLOCK_REALTIME, &ts);
#endif
    if (HF_LIKELY(ts.tv_sec == e->date_second))
        return;
    e->date_second = ts.tv_sec;
    memcpy(e->date_block, "Date: ", 6);
    hf_format_date(e->date_block + 6, ts.tv_sec);
    memcpy(e->date_block + 6 + HF_DATE_LEN, "\r\n", 2);
    e->date_len = e->date_server_len = 8 + HF_DATE_LEN;
    if (e->config.server_name) {
        int n = snprintf(e->date_block + e->date_len, sizeof(e->date_block) - e->date_len, "Server: %.200s\r\n",
                         e->config.server_name);
        e->date_server_len += (uint32_t)n;
    }
}

/* What the poller hands back is a connection, or one of these: told apart by the two lowest bits. */
enum { TAG_CONNECTION = 0, TAG_LISTENER = 1, TAG_WAKE = 2, TAG_RUNQUEUE = 3 };

static void *tagged(void *ptr, unsigned tag)
{
    return (void *)((uintptr_t)ptr | tag);
}

static int open_wake(hf_engine *e)
{
#ifdef __linux__
    e->wake_fds[0] = e->wake_fds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->wake_fds[0] < 0)
        return -1;
#else
    if (pipe(e->wake_fds) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(e->wake_fds[i], F_SETFD, FD_CLOEXEC);
        fcntl(e->wake_fds[i], F_SETFL, O_NONBLOCK);
    }
#endif
    return hf_poller_add(e->poller, e->wake_fds[0], HF_POLL_IN, tagged(e, TAG_WAKE));
}

/* Descriptors are counted before they run out: the kernel wakes one worker for a connection, and nobody else if that one fails
 * to take it; a descriptor that comes by the run queue and finds no room is lost. What is accepted leaves room for what comes
 * by the queue, and that for the application. */
enum { NO_ROOM, ROOM_TO_TAKE, ROOM_TO_ACCEPT };

static unsigned room_for(const hf_engine *e)
{
    return e->n_conns < e->max_accepted ? ROOM_TO_ACCEPT : e->n_conns < e->max_taken ? ROOM_TO_TAKE : NO_ROOM;
}

static void count_descriptors(hf_engine *e)
{
    struct rlimit limit;
    e->max_accepted = e->max_taken = UINT32_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= UINT32_MAX)
        return;
    uint32_t n = (uint32_t)limit.rlim_cur, reserve = n / 4 < RESERVED_FDS ? n / 4 : RESERVED_FDS;
    e->max_accepted = n - reserve;
    e->max_taken = n - reserve / 2;
}

hf_engine *hf_engine_create(const hf_config *config)
{
    hf_engine *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    hf_scan_select(HF_SCAN_AVX2);
    e->config = *config;
    e->config.server_name = config->server_name ? strdup(config->server_name) : NULL;
    e->config.tmpdir = strdup(config->tmpdir ? config->tmpdir : "/tmp");
    if (!e->config.accept_batch)
        e->config.accept_batch = 1;
    if (e->config.limits.max_fields > HF_HTTP1_MAX_FIELDS)
        e->config.limits.max_fields = HF_HTTP1_MAX_FIELDS;
    e->scratch = malloc(HF_SCRATCH);
    e->poller = hf_poller_create();
    e->date_second = -1;
    e->wake_fds[0] = e->wake_fds[1] = -1;
    pthread_mutex_init(&e->mutex, NULL);
    pthread_mutex_init(&e->nap_mutex, NULL);
    pthread_cond_init(&e->nap, NULL);
    hf_buf_pool_init(&e->bufs, POOLED_BUFS);
    count_descriptors(e);
    e->room = room_for(e);
    e->clock = hf_monotonic_ms;
    e->now = e->clock();
    hf_wheel_init(&e->wheel, e->now);
    if (!e->poller || open_wake(e) < 0 || !e->scratch || !e->config.tmpdir || (config->server_name && !e->config.server_name)) {
        int why = errno;
        hf_engine_destroy(e);
        errno = why;
        return NULL;
    }
    return e;
}

static void bury(hf_engine *e)
{
    while (e->graveyard) {
        hf_conn *c = e->graveyard;
        e->graveyard = c->next;
        c->next = e->conn_pool;
        e->conn_pool = c;
    }
}

void hf_engine_close_all(hf_engine *e)
{
    while (e->conns)
        hf_conn_close(e->conns);
    e->backlog = e->turn_over = false;
    e->n_events = e->next_event = 0;
    bury(e);
}

void hf_engine_destroy(hf_engine *e)
{
    if (!e)
        return;
    hf_standby_stop(e);
    hf_engine_close_all(e);
    while (e->ready_head) {
        hf_request *r = e->ready_head;
        e->ready_head = r->next;
        hf_body_clear(&r->body);
        free(r);
    }
    while (e->listeners) {
        hf_listener *l = e->listeners;
        e->listeners = l->next;
        free(l->host);
        free(l->port);
        free(l);
    }
    while (e->conn_pool) {
        hf_conn *c = e->conn_pool;
        e->conn_pool = c->next;
        free(c);
    }
    while (e->request_pool) {
        hf_request *r = e->request_pool;
        e->request_pool = r->next;
        free(r);
    }
    while (e->released)
        hf_engine_released(e);
    while (e->item_pool) {
        hf_out_item *it = e->item_pool;
        e->item_pool = it->next;
        free(it);
    }
    hf_buf_pool_destroy(&e->bufs);
    hf_poller_destroy(e->poller);
    pthread_mutex_destroy(&e->mutex);
    pthread_mutex_destroy(&e->nap_mutex);
    pthread_cond_destroy(&e->nap);
    if (e->wake_fds[0] >= 0)
        close(e->wake_fds[0]);
    if (e->wake_fds[1] >= 0 && e->wake_fds[1] != e->wake_fds[0])
        close(e->wake_fds[1]);
    free(e->scratch);
    free((char *)(uintptr_t)e->config.server_name);
    free((char *)(uintptr_t)e->config.tmpdir);
    free(e);
}

void hf_engine_log(hf_engine *e, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    if (!e->config.log)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    e->config.log(e->config.log_arg, line);
}

/* --- listening --- */

static bool is_wildcard(const char *host)
{
    return !*host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0 ||
           strcmp(host, "0") == 0;
}

/* What is sent is complete as it is: waiting for the acknowledgement of what was sent before (RFC 896, Nagle), which the client
 * may put off for 40 ms, would delay the pieces of a stream, and answers to many pipelined requests. Accepted sockets inherit
 * it.
 * A connection is handed over by the kernel together with its first request, and after a second without one: else a worker would
 * wake twice for it, and put it into its poller between. */
static void tune(int fd)
{
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
#ifdef TCP_DEFER_ACCEPT
    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof(on)); /* seconds */
#endif
}

int hf_engine_listen(hf_engine *e, int fd, const char *host, const char *port)
{
    hf_listener *l = calloc(1, sizeof(*l));
    if (!l)
        return -1;
    l->engine = e;
    l->fd = fd;
    l->batch = e->config.accept_batch;
    l->is_unix = !*port;
    l->wildcard = !l->is_unix && is_wildcard(host);
    l->host = strdup(host);
    l->port = strdup(port);
    l->host_len = (uint32_t)strlen(host);
    l->port_len = (uint32_t)strlen(port);
    if (!l->host || !l->port || hf_poller_add(e->poller, fd, HF_POLL_IN | HF_POLL_EXCLUSIVE, tagged(l, TAG_LISTENER)) < 0) {
        free(l->host);
        free(l->port);
        free(l);
        return -1;
    }
    if (!l->is_unix)
        tune(fd);
    l->active = true;
    l->next = e->listeners;
    e->listeners = l;
    return 0;
}

/* Puts listeners and run queue into the poller, or takes them out, as it should be now. A worker whose application call
 * lasts accepts nothing and takes nothing from the others. */
static void update_listening(hf_engine *e)
{
    unsigned room = room_for(e);
    bool accept = room == ROOM_TO_ACCEPT && !e->standby_serves && !hf_engine_draining(e) && !e->accept_again;
    bool take = room != NO_ROOM && !e->standby_serves && !e->handover && e->config.run_receive_fd >= 0;
    e->listens_as_leader = !e->standby_serves;
    if (room < e->room && e->now >= e->next_fd_complaint) {
        hf_engine_log(e, "%u connections are open here, about as many as the limit of open files allows (ulimit -n): others wait",
                      e->n_conns);
        e->next_fd_complaint = e->now + COMPLAINT_INTERVAL;
    }
    e->room = room;
    for (hf_listener *l = e->listeners; l; l = l->next) {
        if (l->active == accept)
            continue;
        if (!accept)
            hf_poller_remove(e->poller, l->fd);
        l->active = accept && hf_poller_add(e->poller, l->fd, HF_POLL_IN | HF_POLL_EXCLUSIVE, tagged(l, TAG_LISTENER)) == 0;
    }
    if (e->taking != take) {
        if (take)
            hf_poller_add(e->poller, e->config.run_receive_fd, HF_POLL_IN | HF_POLL_EXCLUSIVE, tagged(e, TAG_RUNQUEUE));
        else
            hf_poller_remove(e->poller, e->config.run_receive_fd);
        e->taking = take;
    }
}

void hf_engine_rotate(hf_engine *e)
{
    e->rotation_due = false;
    if (e->config.run_receive_fd < 0)
        return; /* alone */
    for (hf_listener *l = e->listeners; l; l = l->next) {
        if (!l->accepted || !l->active)
            continue;
        l->accepted = false;
        hf_poller_remove(e->poller, l->fd);
        l->active = hf_poller_add(e->poller, l->fd, HF_POLL_IN | HF_POLL_EXCLUSIVE, tagged(l, TAG_LISTENER)) == 0;
    }
}

void hf_engine_pause_accepting(hf_engine *e, uint32_t ms)
{
    e->accept_again = e->now + ms;
    update_listening(e);
}

/* --- requests --- */

hf_request *hf_engine_request_get(hf_engine *e)
{
    hf_request *r = e->request_pool;
    if (HF_LIKELY(r != NULL))
        e->request_pool = r->next;
    else if (!(r = malloc(sizeof(*r))))
        return NULL;
    memset(r, 0, offsetof(hf_request, head));
    r->engine = e;
    r->refs = 1;
    hf_body_init(&r->body);
    hf_http1_head_reset(&r->head);
    return r;
}

void hf_engine_ready(hf_request *r, unsigned event, bool front)
{
    hf_engine *e = r->engine;
    r->events |= (uint8_t)event;
    if (r->queued)
        return;
    r->queued = true;
    r->in_burst = front;
    if (event == HF_REQ_RUN)
        r->ready_at = e->now;
    if (front || !e->ready_head) {
        r->next = e->ready_head;
        e->ready_head = r;
        if (!r->next)
            e->ready_tail = r;
    } else {
        r->next = NULL;
        e->ready_tail->next = r;
        e->ready_tail = r;
    }
}

void hf_engine_place(hf_request *r, uint64_t ready_at)
{
    hf_engine *e = r->engine;
    hf_request **at = &e->ready_head, *last = NULL;
    while (*at != r)
        last = *at, at = &last->next;
    *at = r->next;
    if (e->ready_tail == r)
        e->ready_tail = last;
    r->taken = true;
    r->ready_at = ready_at;
    for (last = NULL, at = &e->ready_head; *at && (*at)->ready_at < ready_at; at = &last->next)
        last = *at;
    r->next = *at;
    *at = r;
    if (!r->next)
        e->ready_tail = r;
}

/* One at a time: what waits in the queue can still go to whoever is idle first. */
static bool holds_taken(const hf_engine *e)
{
    for (const hf_request *r = e->ready_head; r; r = r->next)
        if (r->taken && (r->events & HF_REQ_RUN))
            return true;
    return false;
}

/* The next connection of this turn is looked at once nothing is left to run, or once the answer before is on its way and its
 * client at work again; never while pipelined requests are run in a row. */
static hf_request *next_ready(hf_engine *e)
{
    while (e->next_event < e->n_events && (!e->ready_head || (e->stepped && !e->ready_head->in_burst))) {
        const hf_event *event = &e->events[e->next_event++];
        hf_conn_on_event(event->data, event->events);
        e->stepped = false;
    }
    e->stepped = true;
    return e->ready_head;
}

hf_request *hf_engine_next(hf_engine *e, unsigned *events)
{
    for (;;) {
        hf_request *r = next_ready(e);
        if (!r || HF_UNLIKELY(e->turn_over))
            return NULL;
        e->ready_head = r->next;
        if (!e->ready_head)
            e->ready_tail = NULL;
        r->queued = false;
        *events = r->events;
        r->events = 0;
        if (!r->conn) { /* the client has left */
            if (r->running) {
                *events = HF_REQ_GONE;
                return r;
            }
            r->refs++; /* nobody has it: let it go as the last owner would */
            hf_request_unref(r);
            continue;
        }
        if (*events & HF_REQ_RUN) {
            r->running = true;
            hf_request_ref(r);
            e->turn_over = e->backlog;
            if (++e->n_requests == e->config.max_requests)
                hf_engine_begin_drain(e, HF_MAX_REQUESTS);
        }
        return r;
    }
}

void *hf_engine_released(hf_engine *e)
{
    hf_out_item *it = e->released;
    if (HF_LIKELY(!it))
        return NULL;
    void *owner = it->owner;
    e->released = it->next;
    it->next = e->item_pool;
    e->item_pool = it;
    return owner;
}

/* --- the loop --- */

void hf_engine_stop(hf_engine *e)
{
    e->stop_asked = 1;
    hf_engine_wake(e);
}

void hf_engine_drain(hf_engine *e)
{
    e->drain_asked = 1;
    hf_engine_wake(e);
}

void hf_engine_leave(hf_engine *e)
{
    e->leave_asked = 1;
    hf_engine_wake(e);
}

void hf_engine_wake(hf_engine *e)
{
    uint64_t one = 1;
    int why = errno;
    ssize_t n = write(e->wake_fds[1], &one, sizeof(one));
    (void)n; /* full: it is awake */
    errno = why;
}

void hf_engine_take_back(hf_engine *e)
{
    atomic_store(&e->want_back, true);
    hf_engine_wake(e);
    pthread_mutex_lock(&e->mutex);
    atomic_store(&e->want_back, false);
}

static void drain_conns(hf_engine *e)
{
    e->queue_full = false;
    for (hf_conn *c = e->conns, *next; c; c = next) {
        next = c->next;
        hf_conn_drain(c);
    }
}

void hf_engine_begin_drain(hf_engine *e, enum hf_finish why)
{
    bool whole_server = why == HF_DRAINED || why == HF_ORPHANED;
    if (hf_engine_draining(e)) {
        if (e->handover && whole_server) { /* the others leave as well */
            e->handover = false;
            update_listening(e);
            drain_conns(e);
        }
        return;
    }
    e->finish_as = why;
    e->drain_until = e->now + (e->config.shutdown_timeout ? e->config.shutdown_timeout : UINT32_MAX);
    e->accept_again = 0;
    e->handover = !whole_server && e->config.run_send_fd >= 0;
    if (whole_server) /* whoever got through to the kernel's queue is served: nobody else may be left to do it */
        for (hf_listener *l = e->listeners; l; l = l->next)
            for (uint64_t before = ~e->n_accepted; e->n_accepted != before;) {
                before = e->n_accepted;
                hf_listener_on_event(l);
            }
    update_listening(e);
    drain_conns(e);
}

/* When the whole server ends, the last one that looks must find the run queue empty: nobody else may be left to take what is
 * there. */
static bool serves_run_queue(const hf_engine *e)
{
    return e->config.run_receive_fd >= 0 && !e->handover;
}

enum hf_finish hf_engine_finished(const hf_engine *e)
{
    if (e->stopped)
        return HF_STOPPED;
    if (!hf_engine_draining(e) || e->ready_head)
        return HF_RUNNING;
    if (e->now >= e->drain_until || (!e->n_conns && (e->queue_was_empty || !serves_run_queue(e))))
        return e->finish_as;
    return HF_RUNNING;
}

static void on_deadline(void *arg, hf_timer *t)
{
    (void)arg;
    hf_conn_on_timeout((hf_conn *)t);
}

static void once_a_second(hf_engine *e)
{
    e->next_tick = e->now + 1000;
    if (e->config.parent_pid && getppid() != e->config.parent_pid)
        hf_engine_begin_drain(e, HF_ORPHANED);
}

static void drain_wake(hf_engine *e)
{
    char bytes[64];
    while (read(e->wake_fds[0], bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
        ;
}

static void obey(hf_engine *e)
{
    if (e->stop_asked)
        e->stopped = true;
    else if (e->drain_asked)
        hf_engine_begin_drain(e, HF_DRAINED);
    else if (e->leave_asked)
        hf_engine_begin_drain(e, HF_LEFT);
}

/* How long the poller may sleep, in ms. */
static int sleep_ms(const hf_engine *e, int max_wait)
{
    if ((e->ready_head && !e->standby_serves) || e->stop_asked || !max_wait)
        return 0;
    int wait = hf_wheel_timeout(&e->wheel, e->now, max_wait < 0 || max_wait > MAX_WAIT ? MAX_WAIT : max_wait);
    if (e->accept_again && e->accept_again <= e->now + (uint64_t)wait)
        wait = e->accept_again > e->now ? (int)(e->accept_again - e->now) : 0;
    if (HF_UNLIKELY(e->handover && e->queue_full && wait > HANDOVER_RETRY))
        wait = HANDOVER_RETRY;
    if (HF_UNLIKELY(hf_engine_draining(e) && !e->n_conns && !e->standby_serves))
        wait = 0;
    return wait;
}

/* Acts on what the poller has told: on the rest of the last turn, if the caller did not come to its end, and on a new look. When
 * that is about connections only, hf_engine_next() does so, a connection at a time. Returns whether the run queue has something. */
static bool look(hf_engine *e, int max_wait)
{
    uintptr_t tags = 0;
    bool take = false;
    if (HF_LIKELY(e->next_event == e->n_events)) {
        e->n_events = hf_poller_wait(e->poller, e->events, HF_MAX_EVENTS, sleep_ms(e, max_wait));
        e->next_event = 0;
    }
    e->now = e->clock();
    for (int i = e->next_event; i < e->n_events; i++)
        tags |= (uintptr_t)e->events[i].data;
    if (HF_LIKELY((tags & 3) == TAG_CONNECTION && !e->standby_serves && !e->stop_asked && !hf_engine_draining(e)))
        return false;
    while (e->next_event < e->n_events) {
        const hf_event *event = &e->events[e->next_event++];
        uintptr_t data = (uintptr_t)event->data;
        void *ptr = (void *)(data & ~(uintptr_t)3);
        switch (data & 3) {
        case TAG_CONNECTION:
            hf_conn_on_event(ptr, event->events);
            break;
        case TAG_LISTENER:
            hf_listener_on_event(ptr);
            break;
        case TAG_WAKE:
            drain_wake(e);
            break;
        case TAG_RUNQUEUE:
            take = true;
            break;
        }
    }
    return take;
}

void hf_engine_poll(hf_engine *e, int max_wait)
{
    e->queue_was_empty = false;
    if (e->next_event == e->n_events) { /* until then, what is closed may be among the events, or what keeps a deadline */
        hf_wheel_run(&e->wheel, e->now, on_deadline, e);
        bury(e);
    }
    if (HF_UNLIKELY(e->listens_as_leader == e->standby_serves || e->room != room_for(e)))
        update_listening(e);
    const bool take = look(e, max_wait);
    e->backlog = take;
    e->turn_over = false;
    if (HF_UNLIKELY(take && !holds_taken(e)))
        hf_runqueue_receive(e, TAKE_BATCH);
    if (e->next_event == e->n_events)
        hf_wheel_run(&e->wheel, e->now, on_deadline, e);
    if (HF_UNLIKELY(e->now >= e->next_tick))
        once_a_second(e);
    if (HF_UNLIKELY(e->stop_asked || e->drain_asked || e->leave_asked))
        obey(e);
    if (HF_UNLIKELY(hf_engine_draining(e))) {
        if (e->handover)
            drain_conns(e);
        else if (!e->n_conns && !e->standby_serves && serves_run_queue(e))
            e->queue_was_empty = hf_runqueue_receive(e, TAKE_BATCH) == 0;
    }
    if (HF_UNLIKELY(e->accept_again && e->now >= e->accept_again)) {
        e->accept_again = 0;
        update_listening(e);
    }
}

/* --- addresses --- */

size_t hf_address_text(const hf_address *a, char *dst)
{
    dst[0] = '\0';
    if (a->family == AF_INET) { /* at every request: inet_ntop(3) goes through printf */
        const unsigned char *byte = (const unsigned char *)&a->v4.sin_addr;
        char *p = dst;
        for (int i = 0; i < 4; i++) {
            p += hf_format_u64(p, byte[i]);
            *p++ = '.';
        }
        *--p = '\0';
        return (size_t)(p - dst);
    }
    if (a->family == AF_INET6)
        inet_ntop(AF_INET6, &a->v6.sin6_addr, dst, HF_ADDR_TEXT);
    return strlen(dst);
}

uint16_t hf_address_port(const hf_address *a)
{
    return a->family == AF_INET ? ntohs(a->v4.sin_port) : a->family == AF_INET6 ? ntohs(a->v6.sin6_port) : 0;
}
