/* engine_app.h - of fuzz_engine.c: the application, which takes its orders from the path of a request, and what it checks. */
#ifndef HF_FUZZ_ENGINE_APP_H
#define HF_FUZZ_ENGINE_APP_H

#include "engine_clients.h"
#include "runqueue.h"
#include "standby.h"

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
            owned *o = allocate(sizeof *o + piece);
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
    char *copy = allocate(b->len);
    CHECK(pread(b->fd, copy, b->len, 0) == (ssize_t)b->len);
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
                hf_request_notify_writable(r, (size_t)r->engine->config.max_write_buffer / 2 + 1);
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
            hf_engine_begin_drain(engines[0], HF_HARAKIRI);
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
    CHECK(len && hf_http1_parse(&head, text, len, &r->engine->config.limits) == HF_PARSE_DONE);
    CHECK(head.head_len == r->head.head_len && memcmp(base, text, head.head_len) == 0);
    CHECK(!head_difference(&head, &r->head));
    p->read_up_to += head.head_len;
    text += head.head_len;
    len -= head.head_len;
    a->body_at = p->body.n;
    if (head.chunked) {
        hf_chunked decoder;
        size_t written, used;
        char *copy = allocate(len + 1);
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
    CHECK(!r->engine->config.max_body || a->body_len <= r->engine->config.max_body);
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
    for (int i = 0; i < 2 * N_PEERS; i++)
        if (r->conn->listener == &listeners[i / N_PEERS][i % N_PEERS])
            p = &peers[i % N_PEERS];
    CHECK(p);
    ask *a = allocate(sizeof *a);
    memset(a, 0, sizeof *a);
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

static void take_back(hf_engine *e)
{
    owned *o;
    while ((o = hf_engine_released(e))) {
        *o->pprev = o->next; /* one that came back before is gone: the address sanitizer sees it */
        if (o->next)
            o->next->pprev = o->pprev;
        free(o);
    }
}

static void handle_ready(hf_engine *e)
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
                CHECK(r->conn->out.bytes <= r->engine->config.max_write_buffer / 2);
                run(a);
            }
        }
        take_back(e);
    }
    take_back(e);
}

/* The end of an engine: those whom it has not served by now are cut. */
static void end_engine(unsigned k)
{
    hf_engine *e = engines[k];
    if (ended_engine[k])
        return;
    ended_engine[k] = true;
    for (int i = 0; i < N_PEERS; i++)
        for (const hf_conn *c = e->conns; c; c = c->next)
            if (c->listener == &listeners[k][i]) {
                peers[i].excused |= (c->req && c->req->running) || !hf_output_empty(&c->out) || e->ready_head;
                peers[i].may_reset = true;
            }
    hf_engine_close_all(e);
    CHECK(e->n_conns == 0 && !e->conns);
    handle_ready(e);
}

static void turn(void)
{
    for (unsigned k = 0; k < n_engines; k++) {
        if (ended_engine[k])
            continue;
        hf_engine_poll(engines[k], 0);
        handle_ready(engines[k]);
        if (hf_engine_finished(engines[k]) != HF_RUNNING)
            end_engine(k);
    }
    all_receive();
}

/* As when an application call holds up an engine: what is complete goes to the other one. */
static void turn_as_standby(unsigned k)
{
    if (!ended_engine[k]) {
        engines[k]->standby_serves = true;
        hf_engine_poll(engines[k], 0);
        hf_standby_evacuate(engines[k]);
        engines[k]->standby_serves = false;
    }
    turn();
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

#endif
