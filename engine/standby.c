#include "standby.h"

#include "engine.h"
#include "runqueue.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_NS 1000000  /* between two looks at whether the application is still in the same call */
#define IDLE_TICKS 20    /* looks at an idle worker, after which it is no longer looked at until it is busy again */
#define RETRY_FIRST 2    /* ms until requests that found the run queue full are sent again, at first */
#define RETRY_LAST 16    /* and when it stays full */
#define LAST_WORDS 1000  /* ms that a worker with a stuck request goes on sending what it has, before it ends */

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* --- the leader's side --- */

void hf_standby_enter_app(hf_engine *e, hf_request *r)
{
    e->running = r;
    e->app_since = e->now;
    e->stuck_warned = false;
    atomic_store(&e->app_call, atomic_load_explicit(&e->app_call, memory_order_relaxed) + 1); /* odd: in the application */
    pthread_mutex_unlock(&e->mutex);
    if (HF_UNLIKELY(atomic_load(&e->standby_asleep))) {
        pthread_mutex_lock(&e->nap_mutex);
        atomic_store(&e->standby_asleep, false);
        pthread_cond_signal(&e->nap);
        pthread_mutex_unlock(&e->nap_mutex);
    }
}

void hf_standby_leave_app(hf_engine *e)
{
    hf_engine_lock(e);
    atomic_store(&e->app_call, atomic_load_explicit(&e->app_call, memory_order_relaxed) + 1);
    e->running = NULL;
}

/* --- the standby's side --- */

/* Nobody has the request any more: lets it go as its last owner would. */
static void drop(hf_request *r)
{
    r->queued = false;
    hf_request_ref(r);
    hf_request_unref(r);
}

/* Sends complete requests away. Returns how many could not leave yet. */
static unsigned move_ready(hf_engine *e)
{
    unsigned stay = 0;
    hf_request *r = e->ready_head, *next;
    e->ready_head = e->ready_tail = NULL;
    e->queue_full = false;
    for (; r; r = next) {
        next = r->next;
        if (r->conn && r->events == HF_REQ_RUN && e->config.run_send_fd >= 0) {
            if (!hf_output_empty(&r->conn->out))
                hf_conn_flush(r->conn); /* earlier answers of the same connection go first */
            if (r->conn && !hf_runqueue_send(e, r->conn))
                stay++;
        }
        if (!r->conn && !r->running) {
            drop(r);
            continue;
        }
        r->next = NULL;
        if (e->ready_tail)
            e->ready_tail->next = r;
        else
            e->ready_head = r;
        e->ready_tail = r;
    }
    return stay;
}

void hf_standby_evacuate(hf_engine *e)
{
    move_ready(e);
    for (hf_conn *c = e->conns, *next; c; c = next) {
        next = c->next;
        if (c->state == HF_CONN_IDLE || c->state == HF_CONN_HEAD || c->state == HF_CONN_BODY)
            hf_runqueue_send(e, c);
    }
}

static bool anything_left(const hf_engine *e)
{
    for (const hf_conn *c = e->conns; c; c = c->next)
        if (c->state != HF_CONN_LINGER)
            return true;
    return e->n_conns != 0;
}

/* The request is stuck: its client gets an answer, all others get another worker, and this one ends. */
static void give_up(hf_engine *e)
{
    hf_request *r = e->running;
    uint64_t until = e->now + LAST_WORDS;
    char what[300] = "a call whose client has left, or has its answer";
    if (r && r->conn) {
        hf_conn *c = r->conn;
        const char *base = hf_request_base(r);
        snprintf(what, sizeof(what), "%.*s %.*s", (int)(r->head.method.len < 32 ? r->head.method.len : 32),
                 base + r->head.method.off, (int)(r->head.target.len < 200 ? r->head.target.len : 200), base + r->head.target.off);
        if (r->begun)
            hf_conn_abandon(c); /* the end of what was sent tells the client */
        else
            hf_conn_refuse(c, 504);
    }
    hf_engine_log(e, "%s: stuck for %.1f s (--request-timeout): the client is told 504, the worker is replaced", what,
                  (double)(e->now - e->app_since) / 1000);
    do {
        hf_standby_evacuate(e);
        hf_engine_poll(e, 5);
    } while (anything_left(e) && e->now < until);
    _exit(HF_EXIT_STUCK);
}

/* With the lock: runs the loop until the leader wants it back, or its call has returned. */
static void serve(hf_engine *e, uint32_t call)
{
    uint32_t timeout = e->config.request_timeout;
    bool warned = e->stuck_warned;
    int retry = RETRY_FIRST;
    e->standby_serves = true;
    if (e->running && e->running->conn)
        hf_conn_flush(e->running->conn); /* answers that waited for this one, and what a stream has written */
    e->now = hf_monotonic_ms();
    while (!atomic_load(&e->want_back) && !atomic_load(&e->standby_quit) && atomic_load(&e->app_call) == call) {
        int wait = -1;
        if (!move_ready(e)) {
            retry = RETRY_FIRST;
        } else {
            wait = retry;
            retry = retry * 2 < RETRY_LAST ? retry * 2 : RETRY_LAST;
        }
        if (timeout) {
            uint64_t spent = e->now - e->app_since;
            if (spent >= timeout)
                give_up(e);
            if (!warned && spent + 1000 >= timeout) { /* a second before the end: where is it? */
                warned = e->stuck_warned = true;
                if (e->config.stuck)
                    e->config.stuck(e->config.log_arg);
            }
            uint64_t left = !warned && timeout > 1000 ? timeout - 1000 - spent : timeout - spent;
            if (wait < 0 || left < (uint64_t)wait)
                wait = (int)left + 1;
        }
        hf_engine_poll(e, wait);
    }
    e->standby_serves = false;
}

/* The worker has had nothing to do for a while: stop looking at it until it has. */
static void nap(hf_engine *e, uint32_t seen)
{
    pthread_mutex_lock(&e->nap_mutex);
    atomic_store(&e->standby_asleep, true);
    if (atomic_load(&e->app_call) != seen) /* it became busy just now and may not have seen that we sleep */
        atomic_store(&e->standby_asleep, false);
    while (atomic_load(&e->standby_asleep) && !atomic_load(&e->standby_quit))
        pthread_cond_wait(&e->nap, &e->nap_mutex);
    atomic_store(&e->standby_asleep, false);
    pthread_mutex_unlock(&e->nap_mutex);
}

static void *standby_main(void *arg)
{
    hf_engine *e = arg;
    uint64_t grace = (uint64_t)e->config.standby_grace * 1000000, since = 0;
    uint32_t last = atomic_load(&e->app_call);
    unsigned idle = 0;
    while (!atomic_load(&e->standby_quit)) {
        struct timespec tick = {.tv_nsec = TICK_NS};
        if (idle >= IDLE_TICKS) {
            nap(e, last);
            idle = 0;
        }
        nanosleep(&tick, NULL);
        uint32_t call = atomic_load(&e->app_call);
        if (call != last) {
            last = call;
            since = now_ns();
            idle = 0;
            continue;
        }
        if (!(call & 1)) {
            idle++;
            continue;
        }
        idle = 0;
        if (now_ns() - since + TICK_NS < grace)
            continue;
        pthread_mutex_lock(&e->mutex);
        if (atomic_load(&e->app_call) == call && !atomic_load(&e->want_back))
            serve(e, call);
        pthread_mutex_unlock(&e->mutex);
    }
    return NULL;
}

int hf_standby_start(hf_engine *e)
{
    sigset_t all, before;
    if (!e->config.standby || e->has_standby)
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&e->standby_quit, false);
    int rc = pthread_create(&e->standby, NULL, standby_main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    e->has_standby = rc == 0;
    errno = rc;
    return rc ? -1 : 0;
}

void hf_standby_stop(hf_engine *e)
{
    if (!e->has_standby)
        return;
    pthread_mutex_lock(&e->nap_mutex);
    atomic_store(&e->standby_quit, true);
    pthread_cond_signal(&e->nap);
    pthread_mutex_unlock(&e->nap_mutex);
    hf_engine_wake(e);
    pthread_join(e->standby, NULL);
    e->has_standby = false;
}
