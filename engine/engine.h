/* engine.h - the server without an application: sockets in, complete requests out.
 *
 *     hf_engine *e = hf_engine_create(&config);
 *     hf_engine_listen(e, fd, "127.0.0.1", "5000");
 *     hf_engine_lock(e);
 *     while (!hf_engine_finished(e)) {
 *         hf_engine_poll(e, -1);
 *         while ((r = hf_engine_next(e, &events)))
 *             ... answer r with the functions of request.h; release the lock while application code runs ...
 *         while ((owner = hf_engine_released(e)))
 *             ... it is no longer needed ...
 *     }
 *     hf_engine_unlock(e);
 *     hf_engine_destroy(e);
 *
 * One thread holds the engine at a time, by its lock. All state hangs off the struct, so that a process may run several.
 * Times are monotonic milliseconds, durations milliseconds, sizes bytes.
 */
#ifndef HF_ENGINE_H
#define HF_ENGINE_H

#include "base.h"
#include "buffer.h"
#include "connection.h"
#include "http1.h"
#include "listener.h"
#include "output.h"
#include "poller.h"
#include "request.h"
#include "status.h"
#include "timer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define HF_EXIT_STUCK 124 /* what a worker exits with after request_timeout */

typedef struct hf_config {
    hf_http1_limits limits;
    uint64_t max_body;               /* bytes of a request body; above: 413; 0: no limit */
    uint64_t body_memory;            /* bytes of a body that stay in memory; above: a temporary file */
    uint64_t max_write_buffer;       /* bytes of an answer that wait in memory for a slow reader */
    uint32_t max_keepalive_requests; /* per connection; 0: no limit */
    uint64_t max_requests;           /* of this engine, then it drains; 0: no limit */
    bool keepalive;
    uint32_t keepalive_timeout;      /* ms between two requests; 0: no limit, as for the others */
    uint32_t header_timeout;         /* ms for a whole request head */
    uint32_t read_timeout;           /* ms between two reads of a body */
    uint32_t write_timeout;          /* ms between two writes to a slow reader */
    uint32_t shutdown_timeout;       /* ms that draining may take */
    uint32_t accept_batch;           /* connections accepted in one go, at first: doubled while more wait */
    bool alone;                      /* no other worker could run what this one cannot: do not hurry to hand it over */
    bool standby;                    /* a standby thread keeps the connections going during long application calls */
    uint32_t standby_grace;          /* ms that a call may last before it does */
    uint32_t workers;                /* that share the run queue, this one included: with many, it looks more rarely */
    uint32_t request_timeout;        /* ms after which a call is given up and the process ends; 0: never. Needs standby */
    int run_send_fd, run_receive_fd; /* the run queue (runqueue.h); -1: there is none. The caller's, not closed */
    void (*stuck)(void *log_arg);    /* called by the standby thread a second before request_timeout; may be NULL */
    void (*given_up)(void *log_arg); /* and by then: the process is about to leave; may be NULL */
    const _Atomic unsigned *children; /* how often this process has forked: they may hold copies of connections. Or NULL */
    int parent_pid;                  /* stop when this is no longer the parent; 0: do not look */
    const char *server_name;         /* what the Server header says; NULL: no such header. Copied. */
    const char *tmpdir;              /* where large bodies go. Copied. */
    void (*log)(void *arg, const char *line); /* a line for the error log, without newline; lock held */
    void *log_arg;
} hf_config;

extern const hf_config hf_config_default;

enum hf_finish { HF_RUNNING = 0, HF_STOPPED, HF_DRAINED, HF_MAX_REQUESTS, HF_HARAKIRI, HF_ORPHANED, HF_LEFT, HF_MEMORY };

#define HF_MAX_EVENTS 128 /* that the poller tells of in one turn */

typedef struct hf_engine {
    hf_config config;
    hf_poller *poller;
    hf_wheel wheel;
    pthread_mutex_t mutex;
    uint64_t now;                 /* ms, as of the last poll */
    uint64_t (*clock)(void);      /* what `now` is read from: hf_monotonic_ms, or a test's own */
    time_t date_second;           /* what date_block was made for */
    char date_block[320];         /* "Date: ...\r\nServer: ...\r\n" */
    uint32_t date_len;            /* bytes of its Date line */
    uint32_t date_server_len;     /* bytes of all of it */

    hf_request *ready_head, *ready_tail; /* requests with events to report */
    hf_out_item *released;        /* items whose owners are to be reported */
    hf_listener *listeners;
    hf_conn *conns;               /* all that are open */
    hf_conn *graveyard;           /* closed in this turn */
    uint32_t n_conns;
    uint32_t max_accepted, max_taken; /* connections above which none is accepted, or taken from the run queue */
    unsigned room;                /* what the poller watches: what there is room for */

    hf_buf_pool bufs;
    hf_conn *conn_pool;
    hf_request *request_pool;
    hf_out_item *item_pool;
    char *scratch;                /* HF_SCRATCH bytes to read bodies into */

    /* Leader and follower (standby.h). */
    pthread_t standby, leader;
    int leader_tid;               /* on Linux */
    bool has_standby;
    bool standby_serves;          /* it runs the loop now */
    bool stuck_warned;            /* config.stuck was called for the running request */
    bool given_up;                /* the running request was stuck for too long; the process ends */
    hf_request *running;          /* what the application is busy with */
    uint64_t app_since;           /* ms: since when */
    _Atomic uint32_t app_call;    /* counts entries into the application and returns from it: odd inside */
    _Atomic bool want_back;       /* the leader waits for the lock */
    _Atomic bool standby_asleep, standby_quit;
    pthread_mutex_t nap_mutex;
    pthread_cond_t nap;
    int wake_fds[2];              /* interrupts the poller: [0] is read, [1] written (the same eventfd on Linux) */

    hf_event events[HF_MAX_EVENTS]; /* what the poller told last */
    int n_events, next_event;     /* how many, and the first that was not acted on yet */
    bool stepped;                 /* a request was handed out since the last of them was */

    bool handover;                /* draining gives connections to the other workers rather than ending them */
    bool taking;                  /* the run queue is in the poller */
    bool queue_was_empty;         /* at the end of the last turn, when draining with no connection left */
    bool listens_as_leader;       /* the poller watches what the leader should watch */
    bool backlog;                 /* the run queue had something when the poller looked last */
    bool turn_over;               /* look at the run queue before anything else is run */
    bool queue_full;              /* the run queue had no room when it was last tried in this turn */
    uint64_t n_moved_in, n_moved_out;

    uint64_t n_requests;          /* handed out */
    uint64_t n_accepted;
    uint64_t drain_until;         /* ms; 0: not draining */
    bool rotation_due;            /* hf_engine_rotate() has something to do */
    uint64_t accept_again;        /* ms: when to listen again after the descriptors ran out; 0: listening */
    uint64_t next_tick;           /* ms: the next look at what is looked at once a second */
    uint64_t next_fd_complaint;   /* ms: do not fill the log */
    enum hf_finish finish_as;     /* why it drains */
    _Atomic int stop_asked, drain_asked, leave_asked; /* set by hf_engine_stop/drain, seen by the next poll */
    bool stopped;
} hf_engine;

#define HF_SCRATCH 131072u

/* NULL with errno set. The config is copied. */
hf_engine *hf_engine_create(const hf_config *config);

/* Closes every connection. Listening sockets stay open: they are the caller's. Owners that were not reported yet must be
 * fetched with hf_engine_released() after hf_engine_close_all(). */
void hf_engine_close_all(hf_engine *e);
void hf_engine_destroy(hf_engine *e);

/* Takes the lock; interrupts the standby thread if that has it. */
void hf_engine_take_back(hf_engine *e);
static inline void hf_engine_lock(hf_engine *e)
{
    if (HF_UNLIKELY(pthread_mutex_trylock(&e->mutex) != 0))
        hf_engine_take_back(e);
}

static inline void hf_engine_unlock(hf_engine *e)
{
    pthread_mutex_unlock(&e->mutex);
}

/* Accepts from a listening, non-blocking socket. host and port are what the application will see as SERVER_NAME and
 * SERVER_PORT; for a unix socket its path and "". 0, or -1 with errno set. */
int hf_engine_listen(hf_engine *e, int fd, const char *host, const char *port);

/* The beginning of a turn: waits at most max_wait ms (never longer than a second), reads, parses, sends, keeps deadlines. It
 * comes back with the first request that is complete; hf_engine_next() goes on from there. */
void hf_engine_poll(hf_engine *e, int max_wait);

/* The next request with something to report (HF_REQ_*), or NULL: the turn is over, or it is time for hf_engine_poll() because
 * older requests may wait in the run queue. */
hf_request *hf_engine_next(hf_engine *e, unsigned *events);

/* The next owner of bytes that are no longer needed, or NULL. */
void *hf_engine_released(hf_engine *e);

/* Safe in a signal handler, without the lock. Stop: the loop ends as soon as it can. Drain: no new connections, what was
 * begun is finished, idle connections are closed, then the loop ends. */
void hf_engine_stop(hf_engine *e);
void hf_engine_drain(hf_engine *e);

/* The same, but connections go on in the other workers that share the run queue, and nobody is told to close. */
void hf_engine_leave(hf_engine *e);

/* Interrupts the poller, from any thread or signal handler. */
void hf_engine_wake(hf_engine *e);

/* Drains for a reason of its own: for HF_MAX_REQUESTS, HF_MEMORY and HF_HARAKIRI by handing over, if there is a run queue. With the
 * lock. */
void hf_engine_begin_drain(hf_engine *e, enum hf_finish why);

/* HF_RUNNING, or why the loop should end. */
enum hf_finish hf_engine_finished(const hf_engine *e);

/* A line for the error log. */
void hf_engine_log(hf_engine *e, const char *fmt, ...) HF_PRINTF(2, 3);

/* Internal to engine/: */
hf_request *hf_engine_request_get(hf_engine *e);
void hf_engine_ready(hf_request *r, unsigned event, bool front);

/* A request that is ready and came from the run queue takes its place among the others by when it was complete. */
void hf_engine_place(hf_request *r, uint64_t ready_at);
void hf_engine_pause_accepting(hf_engine *e, uint32_t ms);
/* The kernel wakes the first of those that wait for a listening socket: goes to the end of their queue, if this worker has accepted
 * something, so that connections which stay are spread over idle workers. */
void hf_engine_rotate(hf_engine *e);
static inline bool hf_engine_has_forked(const hf_engine *e)
{
    return e->config.children && *e->config.children;
}
static inline bool hf_engine_draining(const hf_engine *e)
{
    return e->drain_until != 0;
}
uint64_t hf_monotonic_ms(void);
void hf_engine_refresh_date(hf_engine *e);

/* The client's address and port as text, "" for a unix socket. `dst` has room for HF_ADDR_TEXT bytes. Returns the length. */
#define HF_ADDR_TEXT 48
size_t hf_address_text(const hf_address *a, char *dst);
uint16_t hf_address_port(const hf_address *a);

#endif
