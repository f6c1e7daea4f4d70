#include "runqueue.h"

#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC 0x48663101u
#define INLINE_MAX 16384u         /* bytes that travel in the message itself; more go by an unlinked file */
#define QUEUE_BYTES (4u << 20)    /* asked of the kernel as room for the queue; it may grant less */
#define MAX_FDS 3

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0
#endif

enum { HAS_BODY = 1, BODY_IN_FILE = 2, BYTES_IN_FILE = 4, AT_EOF = 8, PIPELINES = 16, COPIED = 32 };

/* What a connection is, beside its descriptor and its bytes. Both ends are the same program. */
typedef struct move_record {
    uint32_t magic;
    uint32_t flags;
    uint32_t state;        /* enum hf_conn_state */
    uint32_t listener;     /* number of the listener, in the order of hf_engine_listen() */
    uint32_t n_requests;
    uint32_t deadline;     /* ms from now; 0: none */
    uint32_t n_bytes;      /* of the head, and of what follows the body */
    uint32_t n_body;       /* bytes of the body in the message, behind the others */
    uint64_t body_to_come; /* of a Content-Length body that is still being read */
    hf_chunked decoder;    /* of a chunked one; its `error` means nothing over there */
    uint64_t ready_at;     /* ms, when its request was complete; 0: it is not */
    hf_address peer;
} move_record;

int hf_runqueue_create(int fds[2])
{
    int size = (int)QUEUE_BYTES;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    }
    return 0;
}

/* --- sending --- */

static int file_of(const struct iovec *iov, int n)
{
#ifdef __linux__
    int fd = memfd_create("hydrofoil-move", MFD_CLOEXEC);
#else
    char name[] = "/tmp/hydrofoil-move-XXXXXX";
    int fd = mkstemp(name);
    if (fd >= 0)
        unlink(name);
#endif
    for (int i = 0; fd >= 0 && i < n; i++)
        for (size_t done = 0; done < iov[i].iov_len;) {
            ssize_t got = write(fd, (char *)iov[i].iov_base + done, iov[i].iov_len - done);
            if (got < 0 && errno == EINTR)
                continue;
            if (got <= 0) {
                close(fd);
                return -1;
            }
            done += (size_t)got;
        }
    return fd;
}

static uint32_t number_of(const hf_engine *e, const hf_listener *wanted)
{
    uint32_t n = 0;
    for (const hf_listener *l = e->listeners; l && l != wanted; l = l->next)
        n++;
    return n;
}

static bool send_message(int queue, struct iovec *iov, int n_iov, const int *fds, int n_fds)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * MAX_FDS)];
    } control;
    struct msghdr msg;
    memset(&msg, 0, sizeof(msg));
    memset(&control, 0, sizeof(control));
    msg.msg_iov = iov;
    msg.msg_iovlen = (size_t)n_iov;
    msg.msg_control = control.space;
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
    memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * (size_t)n_fds);
    ssize_t n;
    do
        n = sendmsg(queue, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n >= 0;
}

/* No room, or too many descriptors on their way (ETOOMANYREFS): passes by itself. */
static bool is_full(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS;
}

bool hf_runqueue_send(hf_engine *e, hf_conn *c)
{
    hf_request *r = c->req;
    const hf_buf *in = c->in;
    int fds[MAX_FDS] = {c->fd}, n_fds = 1, n_iov = 1, file = -1;
    struct iovec iov[4];
    move_record rec;

    if (e->config.run_send_fd < 0 || e->queue_full || !hf_output_empty(&c->out) || c->closing || c->transport != &hf_transport_plain)
        return false;
    memset(&rec, 0, sizeof(rec));
    rec.magic = MAGIC;
    rec.state = c->state;
    rec.listener = number_of(e, c->listener);
    rec.n_requests = c->n_requests;
    rec.peer = c->peer;
    rec.flags = (c->eof ? AT_EOF : 0u) | (c->pipelines ? PIPELINES : 0u) | (c->copied || hf_engine_has_forked(e) ? COPIED : 0u);
    if (r && c->state == HF_CONN_BUSY)
        rec.ready_at = r->ready_at;
    if (c->timer.deadline)
        rec.deadline = c->timer.deadline > e->now ? (uint32_t)(c->timer.deadline - e->now) : 1;
    /* A body that is not as it came, because it was decoded or put together from several reads, goes along beside. */
    bool apart = r && (c->state == HF_CONN_BODY || (c->state == HF_CONN_BUSY && (r->body.cap || r->body.fd >= 0 || r->head.chunked)));
    if (in) {
        const char *start = in->data + in->start;
        uint32_t all = in->end - in->start, head = apart ? r->head.head_len : all;
        iov[n_iov++] = (struct iovec){.iov_base = (char *)(uintptr_t)start, .iov_len = head};
        if (all > (apart ? c->in_pos : head))
            iov[n_iov++] = (struct iovec){.iov_base = (char *)(uintptr_t)start + c->in_pos, .iov_len = all - c->in_pos};
        for (int i = 1; i < n_iov; i++)
            rec.n_bytes += (uint32_t)iov[i].iov_len;
    }
    if (apart) {
        rec.flags |= HAS_BODY;
        rec.body_to_come = r->body_to_come;
        rec.decoder = r->decoder;
        rec.decoder.error = NULL;
        if (r->body.fd >= 0) {
            rec.flags |= BODY_IN_FILE;
        } else if (r->body.len) {
            rec.n_body = (uint32_t)r->body.len;
            iov[n_iov++] = (struct iovec){.iov_base = r->body.mem, .iov_len = rec.n_body};
        }
    }
    if (rec.n_bytes + rec.n_body > INLINE_MAX) {
        file = file_of(iov + 1, n_iov - 1);
        if (file < 0)
            return false;
        rec.flags |= BYTES_IN_FILE;
        fds[n_fds++] = file;
        n_iov = 1;
    }
    if (rec.flags & BODY_IN_FILE)
        fds[n_fds++] = r->body.fd;
    iov[0] = (struct iovec){.iov_base = &rec, .iov_len = sizeof(rec)};
    bool sent = send_message(e->config.run_send_fd, iov, n_iov, fds, n_fds);
    if (!sent && is_full())
        e->queue_full = true;
    if (file >= 0)
        close(file);
    if (sent) {
        e->n_moved_out++;
        hf_conn_close(c); /* our descriptor of it; no shutdown(2), so the peer sees nothing */
    }
    return sent;
}

/* --- receiving --- */

static bool read_file(int fd, char *dst, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, dst + done, len - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* The body that came beside the head. Takes over *body_fd if it uses it. */
static bool attach_body(hf_conn *c, const move_record *rec, const char *body, int *body_fd)
{
    hf_engine *e = c->engine;
    hf_request *r = c->req = hf_engine_request_get(e);
    if (!r)
        return false;
    r->conn = c;
    if (!c->in || hf_http1_parse(&r->head, c->in->data, c->in->end, &e->config.limits) != HF_PARSE_DONE)
        return false;
    c->in_pos = r->head.head_len;
    r->body_to_come = rec->body_to_come;
    r->decoder = rec->decoder;
    if (rec->flags & BODY_IN_FILE) {
        off_t len = lseek(*body_fd, 0, SEEK_END);
        if (len < 0)
            return false;
        r->body.fd = *body_fd;
        r->body.len = (uint64_t)len;
        *body_fd = -1;
        return true;
    }
    return !rec->n_body || hf_body_append(&r->body, body, rec->n_body, rec->n_body, rec->n_body, e->config.tmpdir) == 0;
}

/* Builds the connection anew. Returns true if it has a request to run. */
static bool adopt(hf_engine *e, const move_record *rec, const char *bytes, int fd, int *body_fd)
{
    const hf_listener *l = e->listeners;
    for (uint32_t n = rec->listener; l && n; n--)
        l = l->next;
    hf_conn *c = l ? hf_conn_new(e, fd, l, &hf_transport_plain) : NULL;
    if (!c) {
        if (!l)
            close(fd);
        return false;
    }
    c->peer = rec->peer;
    c->n_requests = rec->n_requests;
    c->eof = rec->flags & AT_EOF;
    c->copied = rec->flags & COPIED;
    c->pipelines = rec->flags & PIPELINES;
    if (rec->n_bytes) {
        c->in = hf_buf_get(&e->bufs, rec->n_bytes);
        if (c->in) {
            memcpy(c->in->data, bytes, rec->n_bytes);
            c->in->end = rec->n_bytes;
        }
    }
    if ((rec->n_bytes && !c->in) || (rec->flags & HAS_BODY && !attach_body(c, rec, bytes + rec->n_bytes, body_fd))) {
        hf_engine_log(e, "out of memory: a connection from the run queue is lost");
        hf_conn_close(c);
        return false;
    }
    bool runnable = hf_conn_adopted(c, rec->state, rec->deadline);
    if (runnable && rec->ready_at && c->req->queued)
        hf_engine_place(c->req, rec->ready_at);
    return runnable;
}

static int receive_one(hf_engine *e, bool *runnable)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * MAX_FDS)];
    } control;
    move_record rec;
    char *space = e->scratch; /* HF_SCRATCH > INLINE_MAX */
    struct iovec iov[2] = {{.iov_base = &rec, .iov_len = sizeof(rec)}, {.iov_base = space, .iov_len = INLINE_MAX}};
    struct msghdr msg;
    int fds[MAX_FDS] = {-1, -1, -1}, n_fds = 0;
    ssize_t n;
    memset(&msg, 0, sizeof(msg));
    msg.msg_iov = iov;
    msg.msg_iovlen = 2;
    msg.msg_control = control.space;
    msg.msg_controllen = sizeof(control.space);
    do
        n = recvmsg(e->config.run_receive_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return 0;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
        if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS) {
            n_fds = (int)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(fds, CMSG_DATA(cmsg), sizeof(int) * (size_t)(n_fds < MAX_FDS ? n_fds : MAX_FDS));
        }
    int want = n < (ssize_t)sizeof(rec) ? 0 : 1 + !!(rec.flags & BYTES_IN_FILE) + !!(rec.flags & BODY_IN_FILE);
    if (!want || rec.magic != MAGIC || n_fds != want || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        hf_engine_log(e, "a message in the run queue cannot be understood; its connection is lost");
        for (int i = 0; i < n_fds; i++)
            close(fds[i]);
        return 1;
    }
    int bytes_fd = rec.flags & BYTES_IN_FILE ? fds[1] : -1, body_fd = rec.flags & BODY_IN_FILE ? fds[n_fds - 1] : -1;
    char *bytes = space, *large = NULL;
    bool ok = true;
    if (bytes_fd >= 0) {
        size_t len = (size_t)rec.n_bytes + rec.n_body;
        bytes = large = malloc(len);
        ok = large && read_file(bytes_fd, large, len);
        close(bytes_fd);
    } else {
        ok = (size_t)n == sizeof(rec) + rec.n_bytes + rec.n_body;
    }
    if (ok) {
        e->n_moved_in++;
        *runnable = adopt(e, &rec, bytes, fds[0], &body_fd);
    } else {
        hf_engine_log(e, "cannot take a connection from the run queue: %s", strerror(errno));
        close(fds[0]);
    }
    if (body_fd >= 0)
        close(body_fd);
    free(large);
    return 1;
}

int hf_runqueue_receive(hf_engine *e, int max)
{
    int n = 0;
    bool runnable = false;
    while (n < max && !runnable && receive_one(e, &runnable))
        n++;
    return n;
}
