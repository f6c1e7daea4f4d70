// sources: engine/body.c engine/buffer.c engine/chunked.c engine/connection.c engine/engine.c engine/header_names.c engine/http1.c engine/listener.c engine/output.c engine/poller_epoll.c engine/poller_poll.c engine/response.c engine/runqueue.c engine/scan.c engine/standby.c engine/status.c engine/timer.c engine/transport.c
// flags: -lpthread -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
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
 *  - an engine that drains ends without waiting for idle clients;
 *  - all of this also when connections move to a second engine at any time, and, but for connections that are cut, when
 *    memory runs out.
 */
#include "engine_app.h"

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
    STANDBY = 0xfc,      /* what is complete in the first engine goes to the second */
    LEAVE = 0xfd,        /* the first engine hands over to the second and ends */
    OTHER = 0xfe,        /* clients connect to the other engine */
    NO_MEMORY = 0xff,    /* + n: the engine's n'th allocation from here on fails */
};

/* --- the play --- */

static bool over(void)
{
    return ended_engine[0] && (n_engines == 1 || ended_engine[1]);
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
    unsigned k = 0;
    for (size_t i = 0; i < size && !over(); i++) {
        const uint8_t byte = data[i];
        if (byte < PEER) {
            if (pending.n < MAX_PENDING)
                add(&pending, (const char *)&byte, 1);
            continue;
        }
        const uint8_t n = i + 1 < size ? data[i + 1] : 0;
        if (!p->opened)
            open_peer(p, sndbuf, k);
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
            for (unsigned times = 0; times < n && pending.n < MAX_PENDING; times++) {
                char block[1024];
                memset(block, 'x', sizeof block);
                add(&pending, block, sizeof block);
            }
            break;
        case REPEAT: {
            i++;
            size_t len = pending.n;
            for (unsigned times = 0; times < n && pending.n + len < MAX_PENDING / 8; times++) {
                char *copy = allocate(len + 1);
                memcpy(copy, pending.p ? pending.p : "", len);
                add(&pending, copy, len);
                free(copy);
            }
            break;
        }
        case STOP:
            for (unsigned n = 0; n < n_engines; n++)
                hf_engine_stop(engines[n]);
            for (int n = 0; n < N_PEERS; n++)
                peers[n].excused = peers[n].may_reset = true;
            turn();
            break;
        case DRAIN:
            for (unsigned n = 0; n < n_engines; n++)
                hf_engine_drain(engines[n]);
            for (int n = 0; n < N_PEERS; n++)
                peers[n].may_reset = true;
            turn();
            break;
        case STANDBY:
            if (n_engines > 1) {
                send_pending(p, &pending);
                turn_as_standby(0);
            }
            break;
        case LEAVE:
            if (n_engines > 1) {
                send_pending(p, &pending);
                hf_engine_leave(engines[0]);
                turn();
            }
            break;
        case OTHER:
            k = (k + 1) % n_engines;
            break;
        case NO_MEMORY:
            i++;
            fails_in = n + 1u;
            break;
        case READ_SOME:
            i++;
            receive(p, 256u * n);
            break;
        default:
            break;
        }
    }
    if (!p->opened && !ended_engine[k])
        open_peer(p, sndbuf, k);
    send_pending(p, &pending);
    fails_in = 0;
    for (int n = 0; n < N_PEERS; n++)
        peers[n].excused |= has_failed;
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
    for (unsigned k = 0; k < n_engines; k++) {
        hf_engine *e = engines[k];
        if (ended_engine[k])
            continue;
        hf_event events[8];
        CHECK(hf_poller_wait(e->poller, events, 8, 0) == 0); /* or it would spin */
        CHECK(!e->ready_head);
        for (const hf_conn *c = e->conns; c; c = c->next) {
            CHECK(!c->req || !c->req->running); /* all were answered */
            CHECK(hf_output_empty(&c->out));    /* and all clients read */
            CHECK(c->state != HF_CONN_BUSY && c->state != HF_CONN_CLOSED);
            CHECK(timeouts_off || c->timer.deadline);
            CHECK(c->state != HF_CONN_IDLE || (!c->in && !c->req));
            CHECK(!e->handover || c->state == HF_CONN_LINGER);
        }
    }
    if (over())
        return;
    for (int i = 0; i < N_PEERS; i++)
        for (const ask *a = peers[i].asks; a; a = a->next)
            CHECK(!a->r);
}

/* A drain leaves none that is idle. */
static void drain(void)
{
    for (unsigned k = 0; k < n_engines; k++)
        hf_engine_drain(engines[k]);
    for (int i = 0; i < 4 && !over(); i++) {
        turn();
        pass_time(600);
    }
    for (unsigned k = 0; k < n_engines; k++)
        for (const hf_conn *c = engines[k]->conns; c; c = c->next)
            CHECK(c->state != HF_CONN_IDLE || !hf_output_empty(&c->out));
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
    int queue[2] = {-1, -1};
    n_engines = data[1] & 8 && hf_runqueue_create(queue) == 0 ? 2 : 1;
    config.run_send_fd = queue[0];
    config.run_receive_fd = queue[1];
    for (unsigned k = 0; k < n_engines; k++) {
        static char host[] = "/test", port[] = "";
        engines[k] = hf_engine_create(&config);
        CHECK(engines[k]);
        config.max_requests = 0; /* the second one stays */
        ended_engine[k] = false;
        for (int i = N_PEERS; i-- > 0; engines[k]->listeners = &listeners[k][i])
            listeners[k][i] = (hf_listener){.engine = engines[k], .next = engines[k]->listeners, .fd = -1, .host = host, .port = port,
                                            .host_len = (uint32_t)strlen(host), .port_len = (uint32_t)strlen(port), .is_unix = true,
                                            .active = true};
        fake_now = engines[k]->now;
        engines[k]->clock = fake_clock;
        hf_engine_lock(engines[k]);
    }
    budget = BUDGET;
    has_failed = false;
    memset(peers, 0, sizeof peers);
    for (int i = 0; i < N_PEERS; i++)
        peers[i].fd = -1;

    play(data + 8, size - 8, (int)pick(data, 7, sndbufs));
    if (!(data[7] & 8))
        settle();
    if (!(data[4] & 8) && !over())
        drain();
    all_receive();
    for (unsigned k = 0; k < n_engines; k++)
        end_engine(k);
    if (n_engines > 1) { /* with whatever is still in it */
        close(queue[0]);
        close(queue[1]);
    }
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
    for (unsigned k = 0; k < n_engines; k++)
        handle_ready(engines[k]);
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
    for (unsigned k = 0; k < n_engines; k++) {
        engines[k]->listeners = NULL;
        hf_engine_unlock(engines[k]);
        hf_engine_destroy(engines[k]);
    }
    CHECK(open_descriptors() == before);
    return 0;
}
