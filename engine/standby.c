#include "standby.h"

#include "engine.h"
#include "runqueue.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#endif
#include <unistd.h>

#define TICK_NS 1000000  /* between two looks at whether the application is still in the same call */
#define CALM_TICKS 500   /* looks without anything to do, after which they may be rarer: with many workers they add up */
#define CALM_NS 4000000  /* between two of those */
#define MAX_CROWD 4      /* workers that share a processor: looks are rarer by as much, so that they do not add up */
#define CROWDED_NS 4000000 /* until the next look at a call that waits for a processor */
#define CROWDED_GRACE_NS 10000000 /* that a call may run or sleep when processors are short, however short the grace time is */
#define CROWDED_MAX_NS 20000000 /* that it may last then, waits for a processor included */
#define IDLE_TICKS 20    /* looks at an idle worker, after which it is no longer looked at until it is busy again */
#define RETRY_FIRST 2    /* ms until requests that found the run queue full are sent again, at first */
#define RETRY_LAST 16    /* and when it stays full */
#define ALONE_GRACE 100  /* ms that a call lasts before the only worker puts requests where its successor would find them */

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
            if (r->conn && hf_output_empty(&r->conn->out) && !hf_runqueue_send(e, r->conn))
                stay++; /* the others are tried again when their client has read on */
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

/* The running request is stuck: its client gets an answer, all others another worker. This process ends when it has nothing
 * left that only it can do: the rest of answers that are being sent. Should the call return before that, the worker leaves
 * in peace. */
static void give_up(hf_engine *e)
{
    hf_request *r = e->running;
    char what[300] = "a call whose client has left, or has its answer";
    const char *told = "";
    if (r && r->conn) {
        hf_conn *c = r->conn;
        const char *base = hf_request_base(r);
        snprintf(what, sizeof(what), "%.*s %.*s", (int)(r->head.method.len < 32 ? r->head.method.len : 32),
                 base + r->head.method.off, (int)(r->head.target.len < 200 ? r->head.target.len : 200), base + r->head.target.off);
        told = r->begun ? "the answer had begun and is cut short, " : "the client is told 504, ";
        if (r->begun)
            hf_conn_abandon(c); /* the end of what was sent tells the client */
        else
            hf_conn_refuse(c, 504);
    }
    hf_engine_log(e, "%s: stuck for %.1f s (--request-timeout): %sthe worker is replaced", what,
                  (double)(e->now - e->app_since) / 1000, told);
    e->given_up = true;
    if (e->config.given_up)
        e->config.given_up(e->config.log_arg);
    for (hf_conn *c = e->conns, *next; c; c = next) { /* what the application wanted to answer later */
        next = c->next;
        if (c->state != HF_CONN_BUSY || !c->req || !c->req->suspended)
            continue;
        if (c->req->begun)
            hf_conn_abandon(c);
        else
            hf_conn_refuse(c, 503);
    }
    hf_engine_begin_drain(e, HF_LEFT);
}

/* How long serve() may sleep because of the request timeout, which it acts on; -1: for ever. */
static int watch(hf_engine *e)
{
    uint64_t timeout = e->config.request_timeout, spent = e->now - e->app_since;
    if (!timeout)
        return -1;
    if (!e->stuck_warned && spent + 1000 >= timeout) { /* a second before the end: where is it? */
        e->stuck_warned = true;
        if (e->config.stuck)
            e->config.stuck(e->config.log_arg);
    }
    if (!e->given_up && spent >= timeout)
        give_up(e);
    if (e->given_up) {
        if (!e->n_conns || e->now >= e->drain_until)
            _exit(HF_EXIT_STUCK);
        return -1;
    }
    return (int)((e->stuck_warned ? timeout : timeout - 1000) - spent) + 1;
}

/* With the lock: runs the loop until the leader wants it back, or its call has returned. */
static void serve(hf_engine *e, uint32_t call)
{
    int retry = RETRY_FIRST;
    e->standby_serves = true;
    if (e->running && e->running->conn)
        hf_conn_flush(e->running->conn); /* answers that waited for this one, and what a stream has written */
    e->now = e->clock();
    while (!atomic_load(&e->want_back) && !atomic_load(&e->standby_quit) && atomic_load(&e->app_call) == call) {
        int wait = -1, due;
        uint64_t spent = e->now > e->app_since ? e->now - e->app_since : 0;
        if (e->config.alone && spent < ALONE_GRACE) { /* moving would most likely be a detour back to here */
            wait = (int)(ALONE_GRACE - spent);
        } else if (!move_ready(e)) {
            retry = RETRY_FIRST;
        } else {
            wait = retry;
            retry = retry * 2 < RETRY_LAST ? retry * 2 : RETRY_LAST;
        }
        due = watch(e);
        hf_engine_poll(e, due >= 0 && (wait < 0 || due < wait) ? due : wait);
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

/* What the leader, whose thread it is, has done since a moment: it ran, it slept, or it waited for a processor that others had.
 * Elsewhere than on Linux it never waits. */
typedef struct leader {
    bool begun;        /* the figures below are those of the call that is looked at */
    uint64_t since;    /* ns: when that began, as far as it is known */
    uint64_t at;       /* when they were taken */
    uint64_t active;   /* ns that it ran or slept between these two */
#ifdef __linux__
    clockid_t clock;
    uint64_t ran;      /* ns, by its clock */
    uint64_t waited;   /* ns that it was runnable and did not run, without those since it last ran */
    int stat_fd;       /* -1: not to be had */
    int schedstat_fd;
#endif
} leader;

#ifdef __linux__
static int open_of(const hf_engine *e, const char *file)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", e->leader_tid, file);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void leader_open(leader *l, const hf_engine *e)
{
    memset(l, 0, sizeof(*l));
    l->stat_fd = l->schedstat_fd = -1;
    if (pthread_getcpuclockid(e->leader, &l->clock) != 0)
        return;
    l->stat_fd = open_of(e, "stat");
    l->schedstat_fd = open_of(e, "schedstat");
}

static void leader_close(leader *l)
{
    if (l->stat_fd >= 0)
        close(l->stat_fd);
    if (l->schedstat_fd >= 0)
        close(l->schedstat_fd);
}

static uint64_t ran_ns(const leader *l)
{
    struct timespec ts;
    if (l->stat_fd < 0 || clock_gettime(l->clock, &ts) < 0)
        return 0;
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t waited_ns(const leader *l)
{
    char text[96]; /* "RAN WAITED TIMESLICES" */
    ssize_t n = l->schedstat_fd >= 0 ? pread(l->schedstat_fd, text, sizeof(text) - 1, 0) : -1;
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *space = strchr(text, ' ');
    return space ? strtoull(space + 1, NULL, 10) : 0;
}

static bool is_runnable(const leader *l)
{
    char text[128]; /* "PID (NAME) STATE ...": names have at most 15 bytes, and may contain ')' */
    ssize_t n = l->stat_fd >= 0 ? pread(l->stat_fd, text, sizeof(text) - 1, 0) : -1;
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'R';
}

static void leader_begin(leader *l, uint64_t now)
{
    l->begun = true;
    l->since = l->at = now;
    l->active = 0;
    l->ran = ran_ns(l);
    l->waited = waited_ns(l);
}

static void leader_look(leader *l, uint64_t now)
{
    const uint64_t ran = ran_ns(l), waited = waited_ns(l), past = now - l->at;
    if (is_runnable(l)) /* it may be waiting right now, and for how long is not told before it runs */
        l->active += ran - l->ran;
    else if (past > waited - l->waited)
        l->active += past - (waited - l->waited);
    l->at = now;
    l->ran = ran;
    l->waited = waited;
}
#else
static void leader_open(leader *l, const hf_engine *e)
{
    (void)e;
    memset(l, 0, sizeof(*l));
}

static void leader_close(leader *l)
{
    (void)l;
}

static void leader_begin(leader *l, uint64_t now)
{
    l->begun = true;
    l->since = l->at = now;
    l->active = 0;
}

static void leader_look(leader *l, uint64_t now)
{
    l->active += now - l->at;
    l->at = now;
}
#endif

/* Brings its figures up to date. Has it waited for a processor for a good part of its call? */
static bool leader_waits(leader *l, uint64_t now)
{
    leader_look(l, now);
    return l->active < (now - l->since) / 8 * 7;
}

/* How many workers share a processor. */
static long crowd(const hf_engine *e)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        processors = CPU_COUNT(&allowed);
#endif
    const long each = processors > 0 ? ((long)e->config.workers + processors - 1) / processors : 1;
    return each < 1 ? 1 : each < MAX_CROWD ? each : MAX_CROWD;
}

static void *standby_main(void *arg)
{
    hf_engine *e = arg;
    const long each = crowd(e);
    const uint64_t grace = (uint64_t)e->config.standby_grace * 1000000;
    uint64_t since = 0;
    uint32_t last = atomic_load(&e->app_call);
    unsigned idle = 0, calm = 0;
    bool crowded = false; /* the leader has to wait for a processor: looks, and what they lead to, have others wait longer */
    long sleep_ns = TICK_NS;
    leader l;
    leader_open(&l, e);
    while (!atomic_load(&e->standby_quit)) {
        struct timespec tick = {.tv_nsec = sleep_ns};
        if (idle >= IDLE_TICKS) {
            nap(e, last);
            idle = 0;
        }
        nanosleep(&tick, NULL);
        uint32_t call = atomic_load(&e->app_call);
        const long tick_ns = crowded ? TICK_NS * each : TICK_NS;
        sleep_ns = calm < CALM_TICKS ? tick_ns : CALM_NS * each;
        calm++;
        if (call != last) {
            last = call;
            since = now_ns();
            l.begun = false;
            if (calm < CALM_TICKS)
                leader_begin(&l, since);
            idle = 0;
            continue;
        }
        if (!(call & 1)) {
            idle++;
            continue;
        }
        idle = 0;
        const uint64_t now = now_ns(), spent = now - since;
        if (spent + TICK_NS < grace) {
            sleep_ns = tick_ns;
            continue;
        }
        if (!l.begun) { /* in calm times nothing is asked of the kernel before there is reason to */
            leader_begin(&l, now);
            sleep_ns = TICK_NS;
            continue;
        }
        /* It has lasted long. Has it run or slept for long, or has it only waited for a processor, as it would in any other
         * worker? With more busy workers than processors, moving their requests about is all that would be gained, and each of
         * them would leave the processor to another one more often. */
        crowded = leader_waits(&l, now);
        const uint64_t enough = crowded && grace < CROWDED_GRACE_NS ? CROWDED_GRACE_NS : grace;
        if (spent < CROWDED_MAX_NS && l.active + TICK_NS < enough) {
            sleep_ns = crowded ? CROWDED_NS : tick_ns;
            continue;
        }
        calm = 0;
        sleep_ns = tick_ns;
        pthread_mutex_lock(&e->mutex);
        if (atomic_load(&e->app_call) == call && !atomic_load(&e->want_back))
            serve(e, call);
        pthread_mutex_unlock(&e->mutex);
    }
    leader_close(&l);
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
    e->leader = pthread_self();
#ifdef __linux__
    e->leader_tid = (int)syscall(SYS_gettid);
#endif
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
