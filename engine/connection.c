#include "connection.h"

#include "engine.h"
#include "runqueue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINGER_TOTAL 30000      /* ms that a refused client may go on sending */
#define LINGER_IDLE 5000        /* ms between two pieces of it */
#define MAX_BURST 32            /* pipelined requests that run in a row before their answers are sent */
#define MAX_CORKED 65536        /* bytes of answers that wait for the answers of further pipelined requests */
#define MIN_READ 2048           /* bytes of room that a read of a head should have */
#define READ_AHEAD 65536        /* bytes that are read while the answer before is not complete */
#define BODY_READS 8            /* reads of a body in one turn */
#define FIRST_REQUEST_GRACE 1000 /* ms that a connection which never asked anything is still kept when draining */

static void advance(hf_conn *c, bool pipelined);

/* --- life --- */

static void drop_input(hf_conn *c)
{
    hf_buf_put(&c->engine->bufs, c->in);
    c->in = NULL;
    c->in_pos = 0;
}

/* The connection no longer has a request. */
static void drop_request(hf_conn *c)
{
    hf_request *r = c->req;
    if (!r)
        return;
    c->req = NULL;
    r->conn = NULL;
    hf_request_unref(r);
}

hf_conn *hf_conn_new(hf_engine *e, int fd, const hf_listener *l, const hf_transport *t)
{
    hf_conn *c = e->conn_pool;
    if (c)
        e->conn_pool = c->next;
    else if (!(c = malloc(sizeof(*c)))) {
        close(fd);
        return NULL;
    }
    memset(c, 0, sizeof(*c));
    c->engine = e;
    c->listener = l;
    c->transport = t;
    c->fd = fd;
    c->next = e->conns;
    if (c->next)
        c->next->pprev = &c->next;
    c->pprev = &e->conns;
    e->conns = c;
    e->n_conns++;
    c->state = HF_CONN_IDLE;
    return c;
}

hf_conn *hf_conn_open(hf_engine *e, int fd, const hf_listener *l, const hf_transport *t, const struct sockaddr *peer)
{
    hf_conn *c = hf_conn_new(e, fd, l, t);
    if (!c)
        return NULL;
    if (peer->sa_family == AF_INET)
        memcpy(&c->peer.v4, peer, sizeof(c->peer.v4));
    else if (peer->sa_family == AF_INET6)
        memcpy(&c->peer.v6, peer, sizeof(c->peer.v6));
    if (e->config.header_timeout)
        hf_timer_set(&e->wheel, &c->timer, e->now + e->config.header_timeout);
    hf_conn_on_event(c, HF_POLL_IN); /* its first request is often here already */
    return c;
}

void hf_conn_close(hf_conn *c)
{
    hf_engine *e = c->engine;
    if (c->state == HF_CONN_CLOSED)
        return;
    c->state = HF_CONN_CLOSED;
    hf_timer_remove(&c->timer);
    hf_output_clear(e, &c->out);
    drop_input(c);
    if (c->req && c->req->suspended)
        hf_engine_ready(c->req, HF_REQ_GONE, false);
    drop_request(c);
    if (c->registered) /* not left to close(2): a child of the application may hold a copy of the descriptor */
        hf_poller_remove(e->poller, c->fd);
    close(c->fd);
    *c->pprev = c->next;
    if (c->next)
        c->next->pprev = c->pprev;
    c->next = e->graveyard;
    e->graveyard = c;
    e->n_conns--;
}

/* Closes in good order: the client sees the end even if a child of the application holds a copy of the descriptor. */
static void end(hf_conn *c)
{
    if (HF_UNLIKELY(c->copied || hf_engine_has_forked(c->engine)))
        shutdown(c->fd, SHUT_WR);
    hf_conn_close(c);
}

/* What the poller should watch for. */
static uint8_t wanted(const hf_conn *c)
{
    uint8_t out = hf_output_empty(&c->out) ? 0 : HF_POLL_OUT;
    switch (c->state) {
    case HF_CONN_IDLE:
    case HF_CONN_HEAD:
        if (out) /* a client that does not read its answers is not read from */
            return out;
        return c->level ? HF_POLL_IN : HF_POLL_IN | HF_POLL_EDGE;
    case HF_CONN_BODY:
        return (uint8_t)(out | HF_POLL_IN);
    case HF_CONN_LINGER:
        return HF_POLL_IN;
    default:
        if (c->req && c->req->suspended && !c->req->io_exposed && !c->eof && !c->reading_paused)
            out |= HF_POLL_IN;
        return out;
    }
}

void hf_conn_update_interest(hf_conn *c)
{
    hf_engine *e = c->engine;
    if (c->state == HF_CONN_CLOSED)
        return;
    uint8_t want = wanted(c);
    if (c->registered && want == c->interest)
        return;
    c->level |= !(want & HF_POLL_EDGE); /* once is enough: no change to and fro at every request */
    if (HF_UNLIKELY(e->rotation_due) && !c->registered)
        hf_engine_rotate(e);
    int rc = c->registered ? hf_poller_modify(e->poller, c->fd, want, c)
                           : hf_poller_add(e->poller, c->fd, want, c);
    if (rc < 0) {
        hf_engine_log(e, "cannot wait for a connection: %s", strerror(errno));
        hf_conn_close(c);
        return;
    }
    c->registered = true;
    c->interest = want;
}

static void set_deadline(hf_conn *c, uint32_t ms)
{
    if (ms)
        hf_timer_set(&c->engine->wheel, &c->timer, c->engine->now + ms);
    else
        hf_timer_clear(&c->timer);
}

/* --- the end --- */

static void discard(hf_conn *c)
{
    hf_engine *e = c->engine;
    for (int i = 0; i < BODY_READS; i++) {
        ssize_t n = c->transport->read(c, e->scratch, HF_SCRATCH);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) {
            hf_conn_close(c);
            return;
        }
        if (n < 0)
            break;
        if ((size_t)n < HF_SCRATCH)
            break;
    }
    uint64_t deadline = e->now + LINGER_IDLE;
    if (deadline > c->linger_until)
        deadline = c->linger_until;
    if (deadline <= e->now) {
        hf_conn_close(c);
        return;
    }
    hf_timer_set(&e->wheel, &c->timer, deadline);
    hf_conn_update_interest(c);
}

/* Everything is sent and the connection ends. Closing a socket with unread bytes makes the kernel send a reset, which can
 * overtake the answer; so half-close, and read until the client has seen it (RFC 9112, section 9.6). A client that thought
 * that the connection goes on may have sent something meanwhile: look. */
static void finish(hf_conn *c)
{
    if (c->may_send && !c->linger && !c->eof)
        c->linger = c->transport->read(c, c->engine->scratch, HF_SCRATCH) > 0;
    if (!c->linger || c->eof) {
        end(c);
        return;
    }
    drop_request(c);
    drop_input(c);
    shutdown(c->fd, SHUT_WR);
    c->state = HF_CONN_LINGER;
    c->linger_until = c->engine->now + LINGER_TOTAL;
    discard(c);
}

void hf_conn_refuse(hf_conn *c, int status)
{
    hf_engine *e = c->engine;
    const hf_request *r = c->req;
    const char *reason = hf_status_reason(status);
    char *room = hf_output_room(e, &c->out, sizeof(e->date_block) + 512);
    if (!room) {
        hf_conn_close(c);
        return;
    }
    char *p = room;
    bool head_only = r && c->in && r->head.method.len == 4 && c->in->end - c->in->start >= 4 + r->head.method.off &&
                     memcmp(c->in->data + c->in->start + r->head.method.off, "HEAD", 4) == 0;
    size_t body = strlen(reason) + 1;
    hf_engine_refresh_date(e);
    p += hf_status_line(p, status);
    memcpy(p, e->date_block, e->date_server_len);
    p += e->date_server_len;
    p += sprintf(p, "Content-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", body);
    if (!head_only)
        p += sprintf(p, "%s\n", reason);
    hf_output_commit(&c->out, (size_t)(p - room));
    drop_request(c);
    drop_input(c);
    c->state = HF_CONN_BUSY;
    c->closing = c->linger = true;
    hf_conn_flush(c);
}

void hf_conn_flush(hf_conn *c)
{
    hf_engine *e = c->engine;
    if (c->state == HF_CONN_CLOSED || c->state == HF_CONN_LINGER)
        return;
    if (!hf_output_empty(&c->out)) {
        uint64_t sent = 0;
        int rc = hf_output_flush(c, &c->out, &sent);
        if (HF_UNLIKELY(rc == HF_FLUSH_FAILED)) {
            hf_conn_close(c);
            return;
        }
        if (c->req && c->out.bytes < c->req->writable_below) {
            c->req->writable_below = 0;
            hf_engine_ready(c->req, HF_REQ_WRITABLE, false);
        }
        if (HF_UNLIKELY(rc == HF_FLUSH_BLOCKED)) {
            if (sent || !(c->interest & HF_POLL_OUT))
                set_deadline(c, e->config.write_timeout);
            hf_conn_update_interest(c);
            return;
        }
    }
    if (c->closing) {
        finish(c);
        return;
    }
    if (c->state == HF_CONN_IDLE) {
        set_deadline(c, e->config.keepalive_timeout);
        if (HF_UNLIKELY(e->handover)) { /* between two requests: the moment to leave */
            hf_conn_drain(c);
            if (c->state == HF_CONN_CLOSED)
                return;
        }
        if (c->in) {
            advance(c, false);
            return;
        }
        if (HF_UNLIKELY(hf_engine_draining(e))) /* its answer had begun before */
            hf_conn_drain(c);
    } else if (c->state == HF_CONN_BUSY) {
        hf_timer_clear(&c->timer);
    } else if (c->interest & HF_POLL_OUT) { /* until now the deadline was that of writing */
        set_deadline(c, c->state == HF_CONN_HEAD ? e->config.header_timeout : e->config.read_timeout);
    }
    hf_conn_update_interest(c);
}

/* --- reading requests --- */

/* The client has ended its side in the middle of a request. What was answered before still goes out. */
static void give_up_request(hf_conn *c)
{
    drop_request(c);
    drop_input(c);
    c->state = HF_CONN_BUSY;
    c->eof = c->closing = true;
}

static void request_complete(hf_conn *c, bool pipelined)
{
    c->state = HF_CONN_BUSY;
    hf_timer_clear(&c->timer);
    hf_engine_ready(c->req, HF_REQ_RUN, pipelined);
}

enum { FEED_MORE, FEED_COMPLETE, FEED_REFUSED };

/* Takes body bytes from src; *used says how many. After FEED_REFUSED the connection has been dealt with. */
static int feed_body(hf_conn *c, char *src, size_t len, size_t *used)
{
    hf_request *r = c->req;
    const hf_config *cf = &c->engine->config;
    size_t body_len, written;
    bool complete;
    if (r->head.chunked) {
        int rc = hf_chunked_decode(&r->decoder, src, src, len, &written, used);
        if (rc == HF_CHUNKED_ERROR) {
            hf_conn_refuse(c, 400);
            return FEED_REFUSED;
        }
        body_len = written;
        complete = rc == HF_CHUNKED_DONE;
        /* The size of a chunk that has only begun counts: no need to read it to refuse it. */
        const uint64_t announced = hf_chunked_left(&r->decoder);
        if (cf->max_body && (announced > cf->max_body || r->body.len + body_len + announced > cf->max_body)) {
            hf_conn_refuse(c, 413);
            return FEED_REFUSED;
        }
    } else {
        body_len = len < r->body_to_come ? len : (size_t)r->body_to_come;
        r->body_to_come -= body_len;
        *used = body_len;
        complete = r->body_to_come == 0;
    }
    uint64_t expected = r->head.chunked ? 0 : (uint64_t)r->head.content_length;
    if (body_len && hf_body_append(&r->body, src, body_len, cf->body_memory, expected, cf->tmpdir) < 0) {
        hf_engine_log(c->engine, "cannot keep a request body in %s: %s", cf->tmpdir, strerror(errno));
        hf_conn_refuse(c, 507);
        return FEED_REFUSED;
    }
    return complete ? FEED_COMPLETE : FEED_MORE;
}

/* The head has been read: what comes next? */
static void begin_body(hf_conn *c, bool pipelined)
{
    hf_engine *e = c->engine;
    hf_request *r = c->req;
    hf_buf *in = c->in;
    int64_t length = r->head.content_length;
    c->in_pos = r->head.head_len;
    if (HF_LIKELY(!r->head.chunked && length <= 0)) {
        request_complete(c, pipelined);
        return;
    }
    if (e->config.max_body && length > 0 && (uint64_t)length > e->config.max_body) {
        hf_conn_refuse(c, 413);
        return;
    }
    char *rest = in->data + in->start + c->in_pos;
    size_t n_rest = in->end - in->start - c->in_pos;
    if (r->head.chunked) {
        hf_chunked_init(&r->decoder);
    } else if ((uint64_t)length <= n_rest && (uint64_t)length <= e->config.body_memory) {
        hf_body_borrow(&r->body, rest, (uint32_t)length);
        c->in_pos += (uint32_t)length;
        request_complete(c, pipelined);
        return;
    } else {
        r->body_to_come = (uint64_t)length;
    }
    c->state = HF_CONN_BODY;
    if (n_rest) {
        size_t used = 0;
        int rc = feed_body(c, rest, n_rest, &used);
        if (rc == FEED_REFUSED)
            return;
        c->in_pos += (uint32_t)used;
        if (rc == FEED_COMPLETE) {
            request_complete(c, pipelined);
            return;
        }
    } else if (r->head.expect_continue) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        if (hf_output_copy(e, &c->out, go_on, sizeof(go_on) - 1) < 0) {
            hf_conn_close(c);
            return;
        }
    }
    if (!hf_output_empty(&c->out))
        hf_conn_flush(c);
    if (c->state != HF_CONN_BODY)
        return;
    set_deadline(c, e->config.read_timeout);
    hf_conn_update_interest(c);
}

/* Reads the next request out of the buffer. `pipelined`: straight after the one before, whose answer has not been sent. */
static void advance(hf_conn *c, bool pipelined)
{
    hf_engine *e = c->engine;
    hf_buf *in = c->in;
    if (!in || in->start == in->end) {
        drop_input(c);
        c->state = HF_CONN_IDLE;
        if (c->eof) {
            c->closing = true;
            if (!pipelined)
                hf_conn_flush(c);
            return;
        }
        if (!pipelined) {
            set_deadline(c, e->config.keepalive_timeout);
            hf_conn_update_interest(c);
        }
        return;
    }
    hf_request *r = c->req;
    if (!r) {
        r = c->req = hf_engine_request_get(e);
        if (!r) {
            hf_conn_close(c);
            return;
        }
        r->conn = c;
        c->state = HF_CONN_HEAD;
        set_deadline(c, e->config.header_timeout);
    }
    int rc = hf_http1_parse(&r->head, in->data + in->start, in->end - in->start, &e->config.limits);
    if (HF_LIKELY(rc == HF_PARSE_DONE)) {
        begin_body(c, pipelined);
    } else if (rc != HF_PARSE_MORE) {
        hf_conn_refuse(c, rc);
    } else if (c->eof) {
        give_up_request(c);
        if (!pipelined)
            hf_conn_flush(c);
    } else if (!pipelined) {
        hf_conn_update_interest(c);
    }
}

static void read_head(hf_conn *c)
{
    hf_engine *e = c->engine;
    if (!c->in) {
        c->in = hf_buf_get(&e->bufs, MIN_READ);
    } else {
        hf_buf *in = hf_buf_reserve(&e->bufs, c->in, MIN_READ);
        if (in)
            c->in = in;
    }
    hf_buf *in = c->in;
    if (!in || in->cap == in->end) {
        hf_conn_close(c); /* out of memory */
        return;
    }
    ssize_t n = c->transport->read(c, in->data + in->end, in->cap - in->end);
    if (HF_LIKELY(n > 0)) {
        in->end += (uint32_t)n;
        if (HF_UNLIKELY(in->end == in->cap))
            c->level = true;
        advance(c, false);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        if (in->start == in->end)
            drop_input(c);
        hf_conn_update_interest(c);
        return;
    }
    hf_conn_close(c);
}

/* Keeps bytes that were read behind the end of a body. */
static int keep_rest(hf_conn *c, const char *data, size_t len)
{
    hf_buf *in = hf_buf_reserve(&c->engine->bufs, c->in, len);
    if (!in)
        return -1;
    c->in = in;
    memcpy(in->data + in->end, data, len);
    in->end += (uint32_t)len;
    return 0;
}

static void read_body(hf_conn *c)
{
    hf_engine *e = c->engine;
    for (int i = 0; i < BODY_READS; i++) {
        ssize_t n = c->transport->read(c, e->scratch, HF_SCRATCH);
        if (n <= 0) {
            if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                break;
            if (n < 0) {
                hf_conn_close(c);
                return;
            }
            give_up_request(c);
            hf_conn_flush(c);
            return;
        }
        size_t used = 0;
        int rc = feed_body(c, e->scratch, (size_t)n, &used);
        if (rc == FEED_REFUSED)
            return;
        if (used < (size_t)n && keep_rest(c, e->scratch + used, (size_t)n - used) < 0) {
            hf_conn_close(c);
            return;
        }
        if (rc == FEED_COMPLETE) {
            request_complete(c, false);
            return;
        }
        set_deadline(c, e->config.read_timeout);
        if ((size_t)n < HF_SCRATCH)
            break;
    }
    hf_conn_update_interest(c);
}

/* While the answer is still being made: notices that the client leaves, and reads a little ahead. */
static void read_ahead(hf_conn *c)
{
    hf_engine *e = c->engine;
    hf_buf *in = c->in;
    if (!c->req || !c->req->suspended || c->req->io_exposed || c->eof) {
        hf_conn_update_interest(c); /* the application runs: only the standby thread gets here */
        return;
    }
    if (in->end - in->start - c->in_pos < READ_AHEAD) {
        in = hf_buf_reserve(&e->bufs, in, MIN_READ);
        if (!in) {
            hf_conn_close(c);
            return;
        }
        c->in = in;
        hf_body *body = &c->req->body;
        if (body->mem && !body->cap) /* borrowed: its bytes, which end where the request does, may have moved */
            body->mem = in->data + in->start + c->in_pos - body->len;
        ssize_t n = c->transport->read(c, in->data + in->end, in->cap - in->end);
        if (n > 0)
            in->end += (uint32_t)n;
        else if (n == 0)
            c->eof = true;
        else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            hf_conn_close(c);
            return;
        }
    }
    c->reading_paused = in->end - in->start - c->in_pos >= READ_AHEAD;
    hf_conn_update_interest(c);
}

static void on_readable(hf_conn *c)
{
    switch (c->state) {
    case HF_CONN_IDLE:
    case HF_CONN_HEAD:
        read_head(c);
        break;
    case HF_CONN_BODY:
        read_body(c);
        break;
    case HF_CONN_BUSY:
        read_ahead(c);
        break;
    case HF_CONN_LINGER:
        discard(c);
        break;
    default:
        break;
    }
}

void hf_conn_on_event(hf_conn *c, uint32_t events)
{
    if (c->state == HF_CONN_CLOSED)
        return;
    if (HF_UNLIKELY(events & HF_POLL_GONE) && !(events & wanted(c) & HF_POLL_IN)) {
        hf_conn_close(c);
        return;
    }
    if (HF_UNLIKELY(events & HF_POLL_END))
        c->level = true;
    if (HF_UNLIKELY(events & HF_POLL_OUT))
        hf_conn_flush(c);
    if (events & HF_POLL_IN)
        on_readable(c);
}

void hf_conn_on_timeout(hf_conn *c)
{
    /* A worker that was held up may find a deadline past though the bytes are there: look first. */
    uint64_t before = c->timer.deadline;
    if (!hf_output_empty(&c->out)) {
        hf_conn_flush(c);
        if (hf_output_empty(&c->out) || c->timer.deadline != before)
            return;
    }
    if (hf_output_empty(&c->out) && (c->state == HF_CONN_IDLE || c->state == HF_CONN_HEAD || c->state == HF_CONN_BODY)) {
        uint8_t state = c->state;
        uint32_t had = c->in ? c->in->end - c->in->start : 0;
        uint64_t body = c->req ? c->req->body.len : 0;
        on_readable(c);
        if (c->state != state || (c->in ? c->in->end - c->in->start : 0) != had || (c->req ? c->req->body.len : 0) != body ||
            c->timer.deadline != before) {
            if (c->state == HF_CONN_HEAD && !c->timer.deadline)
                hf_conn_refuse(c, 408); /* a head has one deadline, however often a byte of it comes */
            return;
        }
    }
    if ((c->state == HF_CONN_HEAD || c->state == HF_CONN_BODY) && hf_output_empty(&c->out))
        hf_conn_refuse(c, 408);
    else
        end(c);
}

void hf_conn_request_done(hf_conn *c)
{
    hf_engine *e = c->engine;
    hf_request *r = c->req;
    bool close = r->close, cork = !r->flush_now;
    c->may_send = r->head.keep_alive;
    e->now = e->clock();
    c->n_requests++;
    if (c->in) {
        c->in->start += c->in_pos;
        c->in_pos = 0;
        if (c->in->start == c->in->end)
            drop_input(c);
        else
            c->pipelines = true;
    }
    drop_request(c);
    c->reading_paused = false;
    if (close) {
        c->linger = c->pipelines || c->in;
        c->closing = true;
        hf_conn_flush(c);
        return;
    }
    c->state = HF_CONN_IDLE;
    if (c->in && cork && c->burst < MAX_BURST && c->out.bytes < MAX_CORKED) {
        advance(c, true);
        if (c->state == HF_CONN_BUSY && c->req) { /* the next one is complete: their answers leave together */
            c->burst++;
            return;
        }
    }
    c->burst = 0;
    hf_conn_flush(c);
}

void hf_conn_abandon(hf_conn *c)
{
    drop_request(c);
    drop_input(c);
    c->state = HF_CONN_BUSY;
    c->closing = true;
    hf_conn_flush(c);
}

bool hf_conn_adopted(hf_conn *c, uint32_t state, uint32_t deadline)
{
    if (c->req && state == HF_CONN_BUSY) {
        request_complete(c, true);
    } else if (c->req) {
        c->state = HF_CONN_BODY;
        set_deadline(c, deadline);
        hf_conn_update_interest(c);
    } else if (c->in) {
        c->state = HF_CONN_IDLE;
        advance(c, false);
        if (c->state == HF_CONN_HEAD)
            set_deadline(c, deadline);
    } else {
        c->state = HF_CONN_IDLE;
        set_deadline(c, deadline);
        hf_conn_update_interest(c);
        if (hf_engine_draining(c->engine))
            hf_conn_drain(c);
    }
    return c->state == HF_CONN_BUSY && c->req;
}

void hf_conn_drain(hf_conn *c)
{
    hf_engine *e = c->engine;
    if (!hf_output_empty(&c->out) || c->closing)
        return;
    if (e->handover) { /* somebody else goes on with it, wherever it is */
        if (c->state == HF_CONN_IDLE || c->state == HF_CONN_HEAD || c->state == HF_CONN_BODY)
            hf_runqueue_send(e, c);
        return;
    }
    if (c->state != HF_CONN_IDLE)
        return;
    if (!c->in)
        read_head(c); /* a request that is on its way is still answered */
    if (c->state != HF_CONN_IDLE)
        return;
    if (c->n_requests)
        end(c);
    else /* nobody connects to say nothing: its first request may be on the wire */
        set_deadline(c, FIRST_REQUEST_GRACE);
}
