#include "engine.h"

#include "scan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_WAIT 1000 /* ms: the longest sleep, so that what is looked at once a second is */
#define MAX_EVENTS 128 /* events of one turn */
#define POOLED_BUFS 256

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
    pthread_mutex_init(&e->mutex, NULL);
    hf_buf_pool_init(&e->bufs, POOLED_BUFS);
    e->clock = hf_monotonic_ms;
    e->now = e->clock();
    hf_wheel_init(&e->wheel, e->now);
    if (!e->poller || !e->scratch || !e->config.tmpdir || (config->server_name && !e->config.server_name)) {
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
    bury(e);
}

void hf_engine_destroy(hf_engine *e)
{
    if (!e)
        return;
    hf_engine_close_all(e);
    while (e->ready_head) {
        hf_request *r = e->ready_head;
        e->ready_head = r->next;
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

/* What the poller hands back is a connection, or a listener with the lowest bit set. */
static void *tag(hf_listener *l)
{
    return (void *)((uintptr_t)l | 1);
}

static bool is_wildcard(const char *host)
{
    return !*host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0 ||
           strcmp(host, "0") == 0;
}

int hf_engine_listen(hf_engine *e, int fd, const char *host, const char *port)
{
    hf_listener *l = calloc(1, sizeof(*l));
    if (!l)
        return -1;
    l->engine = e;
    l->fd = fd;
    l->is_unix = !*port;
    l->wildcard = !l->is_unix && is_wildcard(host);
    l->host = strdup(host);
    l->port = strdup(port);
    if (!l->host || !l->port || hf_poller_add(e->poller, fd, HF_POLL_IN | HF_POLL_EXCLUSIVE, tag(l)) < 0) {
        free(l->host);
        free(l->port);
        free(l);
        return -1;
    }
    l->active = true;
    l->next = e->listeners;
    e->listeners = l;
    return 0;
}

static void listen_again(hf_engine *e)
{
    e->accept_again = 0;
    for (hf_listener *l = e->listeners; l; l = l->next)
        if (!l->active)
            l->active = hf_poller_add(e->poller, l->fd, HF_POLL_IN | HF_POLL_EXCLUSIVE, tag(l)) == 0;
}

static void stop_listening(hf_engine *e)
{
    for (hf_listener *l = e->listeners; l; l = l->next) {
        if (l->active)
            hf_poller_remove(e->poller, l->fd);
        l->active = false;
    }
}

void hf_engine_pause_accepting(hf_engine *e, uint32_t ms)
{
    stop_listening(e);
    e->accept_again = e->now + ms;
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

hf_request *hf_engine_next(hf_engine *e, unsigned *events)
{
    for (;;) {
        hf_request *r = e->ready_head;
        if (!r)
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
}

void hf_engine_drain(hf_engine *e)
{
    e->drain_asked = 1;
}

void hf_engine_begin_drain(hf_engine *e, enum hf_finish why)
{
    if (hf_engine_draining(e))
        return;
    e->finish_as = why;
    e->drain_until = e->now + (e->config.shutdown_timeout ? e->config.shutdown_timeout : UINT32_MAX);
    stop_listening(e);
    e->accept_again = 0;
    for (hf_conn *c = e->conns, *next; c; c = next) {
        next = c->next;
        hf_conn_drain(c);
    }
}

enum hf_finish hf_engine_finished(const hf_engine *e)
{
    if (e->stopped)
        return HF_STOPPED;
    if (hf_engine_draining(e) && !e->ready_head && (!e->n_conns || e->now >= e->drain_until))
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

void hf_engine_poll(hf_engine *e, int max_wait)
{
    hf_event events[MAX_EVENTS];
    int wait = 0;
    if (!e->ready_head && !e->stop_asked && !e->drain_asked && max_wait) {
        wait = max_wait < 0 || max_wait > MAX_WAIT ? MAX_WAIT : max_wait;
        wait = hf_wheel_timeout(&e->wheel, e->now, wait);
        if (e->accept_again && e->accept_again <= e->now + (uint64_t)wait)
            wait = e->accept_again > e->now ? (int)(e->accept_again - e->now) : 0;
    }
    int n = hf_poller_wait(e->poller, events, MAX_EVENTS, wait);
    e->now = e->clock();
    for (int i = 0; i < n; i++) {
        uintptr_t data = (uintptr_t)events[i].data;
        if (HF_UNLIKELY(data & 1))
            hf_listener_on_event((hf_listener *)(data & ~(uintptr_t)1));
        else
            hf_conn_on_event((hf_conn *)data, events[i].events);
    }
    hf_wheel_run(&e->wheel, e->now, on_deadline, e);
    if (HF_UNLIKELY(e->now >= e->next_tick))
        once_a_second(e);
    if (HF_UNLIKELY(e->stop_asked))
        e->stopped = true;
    else if (HF_UNLIKELY(e->drain_asked))
        hf_engine_begin_drain(e, HF_DRAINED);
    if (HF_UNLIKELY(e->accept_again && e->now >= e->accept_again && !hf_engine_draining(e)))
        listen_again(e);
    bury(e);
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
