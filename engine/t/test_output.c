/* test_output.c - what a connection still has to send: whole, in order, each owner told once, however the socket takes it. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tap.h"

#define FILE_LEN (3u << 20)

static hf_engine *e;
static hf_listener listener;
static char *text;          /* what is sent, at its place in the file as well */
static char file_name[] = "/tmp/hydrofoil-test-XXXXXX";

typedef struct ends {
    hf_conn *conn;
    int client;
} ends;

static ends connected(int sndbuf, const hf_transport *t)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0) {
        perror("socketpair");
        exit(2);
    }
    if (sndbuf)
        setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof sndbuf);
    return (ends){hf_conn_new(e, fds[0], &listener, t), fds[1]};
}

static void disconnect(ends *s)
{
    hf_conn_close(s->conn);
    close(s->client);
}

static unsigned n_released(void)
{
    unsigned n = 0;
    while (hf_engine_released(e))
        n++;
    return n;
}

/* Flushes and reads by turns; the number of bytes read into `got`, with the result of the last flush in *rc. */
static size_t pump(ends *s, hf_output *o, char *got, size_t room, uint64_t *sent, int *rc)
{
    size_t n = 0;
    for (int idle = 0; idle < 3;) {
        *rc = hf_output_flush(s->conn, o, sent);
        ssize_t k = recv(s->client, got + n, room - n < 30000 ? room - n : 30000, MSG_DONTWAIT);
        if (k > 0) {
            n += (size_t)k;
            idle = 0;
        } else {
            idle++;
        }
        if (*rc == HF_FLUSH_FAILED)
            idle += 3;
    }
    return n;
}

static int open_file(void)
{
    return open(file_name, O_RDONLY | O_CLOEXEC);
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void small_pieces(void)
{
    ends s = connected(0, &hf_transport_plain);
    hf_output o = {0};
    uint64_t sent = 0;
    char got[5000];
    unsigned items = 0;

    ok(hf_output_empty(&o), "a new output is empty");
    is_int(hf_output_flush(s.conn, &o, &sent), HF_FLUSH_DONE, "and all of it is sent");
    for (int i = 0; i < 1000; i++)
        hf_output_copy(e, &o, text + i * 3, 3);
    for (const hf_out_item *it = o.head; it; it = it->next)
        items++;
    is_int(items, 1, "a thousand small pieces are one item");
    is_int((long long)o.bytes, 3000, "their bytes are counted");
    char *room = hf_output_room(e, &o, 100);
    memcpy(room, text + 3000, 40);
    hf_output_commit(&o, 40);
    is_int(hf_output_flush(s.conn, &o, &sent), HF_FLUSH_DONE, "what fits the socket is sent at once");
    ok(hf_output_empty(&o) && o.bytes == 0 && sent == 3040, "then nothing is left and all bytes are counted");
    ok(recv(s.client, got, sizeof got, 0) == 3040 && memcmp(got, text, 3040) == 0, "the client has them, of the room only what was used");
    disconnect(&s);
}

/* All kinds in one output, of all sizes. Returns how long it is; *refs is how many owners there are. */
static size_t mixture(hf_output *o, unsigned *refs)
{
    static const size_t sizes[] = {1, 100, 0, 70000, 5, 16384, 3, 3, 200000, 1};
    size_t at = 0;
    for (unsigned i = 0; i < 60; i++) {
        size_t n = sizes[i % 10];
        switch (i % 4) {
        case 0:
            hf_output_copy(e, o, text + at, n);
            break;
        case 1:
        case 2:
            hf_output_ref(e, o, text + at, n, text + i);
            ++*refs;
            break;
        default:
            hf_output_file(e, o, open_file(), (int64_t)at, n);
        }
        at += n;
    }
    return at;
}

static void mixed(int sndbuf, const hf_transport *t, const char *how)
{
    ends s = connected(sndbuf, t);
    hf_output o = {0};
    uint64_t sent = 0;
    int rc = 0;
    unsigned refs = 0;
    const unsigned before = open_descriptors();
    const size_t len = mixture(&o, &refs);
    char *got = malloc(FILE_LEN);
    const size_t n = pump(&s, &o, got, FILE_LEN, &sent, &rc);

    ok(n == len && memcmp(got, text, n) == 0, "copies, references and files arrive whole and in order %s", how);
    ok(rc == HF_FLUSH_DONE && hf_output_empty(&o) && o.bytes == 0 && sent == len, "and nothing is left, %s", how);
    is_int(n_released(), refs, "each owner is released once");
    is_int(open_descriptors(), before, "each file is closed");
    free(got);
    disconnect(&s);
}

/* A socket that takes a few bytes at a time, and every third time none. */
static unsigned tiny_calls;

static ssize_t tiny_write(hf_conn *c, const struct iovec *iov, int n, bool more)
{
    tiny_calls++;
    size_t most = tiny_calls % 7 * 1000 + tiny_calls % 3;
    if (tiny_calls % 3 == 0 || !iov->iov_len || !most) {
        errno = EAGAIN;
        return iov->iov_len ? -1 : 0;
    }
    struct iovec one = {iov->iov_base, iov->iov_len < most ? iov->iov_len : most};
    (void)n;
    return hf_transport_plain.write(c, &one, 1, more);
}

static ssize_t tiny_sendfile(hf_conn *c, int fd, int64_t offset, size_t len)
{
    tiny_calls++;
    size_t most = tiny_calls % 5 * 1000 + 1;
    if (tiny_calls % 3 == 0) {
        errno = EAGAIN;
        return -1;
    }
    return hf_transport_plain.sendfile(c, fd, offset, len < most ? len : most);
}

static void owners(void)
{
    ends s = connected(1, &hf_transport_plain);
    hf_output o = {0};
    uint64_t sent = 0;
    int rc;
    char *got = malloc(FILE_LEN);

    hf_output_copy(e, &o, text, 10);
    hf_output_ref(e, &o, text + 10, 400000, text);
    is_int((long long)o.bytes, 400010, "bytes of owners are counted as waiting");
    is_int(hf_output_flush(s.conn, &o, &sent), HF_FLUSH_BLOCKED, "a client that does not read blocks");
    ok(sent > 0 && o.bytes == 400010 - sent, "after what fits the socket");
    is_int(n_released(), 0, "an owner is not released while bytes of it wait");
    const size_t n = pump(&s, &o, got, FILE_LEN, &sent, &rc);
    ok(rc == HF_FLUSH_DONE && n == 400010 && memcmp(got, text, n) == 0, "the client reads, and gets it all");
    ok(hf_engine_released(e) == text, "then its owner is released");
    ok(hf_engine_released(e) == NULL, "once");

    hf_output_ref(e, &o, text, 400000, text);
    hf_output_ref(e, &o, text, 400000, text + 1);
    hf_output_file(e, &o, open_file(), 0, 1000);
    hf_output_copy(e, &o, text, 1000);
    hf_output_flush(s.conn, &o, &sent);
    const unsigned before = open_descriptors();
    hf_output_clear(e, &o);
    ok(hf_output_empty(&o) && o.bytes == 0, "an output that is cleared is empty");
    is_int(n_released(), 2, "its owners are released, those that were half sent too");
    is_int(open_descriptors(), before - 1, "its files are closed");
    hf_output_clear(e, &o);
    is_int(n_released(), 0, "clearing again releases nobody");
    free(got);
    disconnect(&s);
}

static void files(void)
{
    ends s = connected(0, &hf_transport_plain);
    hf_output o = {0};
    uint64_t sent = 0;
    int rc = 0, fd;
    char *got = malloc(FILE_LEN);

    hf_output_file(e, &o, open_file(), 12345, FILE_LEN - 12345);
    is_int((long long)o.bytes, 0, "bytes of files do not count as memory");
    size_t n = pump(&s, &o, got, FILE_LEN, &sent, &rc);
    ok(rc == HF_FLUSH_DONE && n == FILE_LEN - 12345 && memcmp(got, text + 12345, n) == 0, "a large part of a file arrives whole");

    char name[] = "/tmp/hydrofoil-test-XXXXXX";
    fd = mkstemp(name);
    unlink(name);
    if (write(fd, text, 1000) != 1000 || ftruncate(fd, 600) != 0)
        ok(false, "a file can be made and cut");
    hf_output_copy(e, &o, "head", 4);
    hf_output_file(e, &o, fd, 0, 1000);
    sent = 0;
    n = pump(&s, &o, got, FILE_LEN, &sent, &rc);
    is_int(rc, HF_FLUSH_FAILED, "a file that became shorter than was promised is a failure");
    ok(n == 604 && memcmp(got, "head", 4) == 0 && memcmp(got + 4, text, 600) == 0, "what there is of it was sent");
    hf_output_clear(e, &o);

    fd = open_file();
    hf_output_file(e, &o, fd, 0, 0);
    hf_output_copy(e, &o, "behind", 6);
    n = pump(&s, &o, got, FILE_LEN, &sent, &rc);
    ok(rc == HF_FLUSH_DONE && n == 6 && fcntl(fd, F_GETFD) < 0, "nothing of a file is sent, and the file is closed");

    int pipe_fds[2];
    if (pipe(pipe_fds) == 0) {
        hf_output_file(e, &o, pipe_fds[0], 0, 10);
        pump(&s, &o, got, FILE_LEN, &sent, &rc);
        is_int(rc, HF_FLUSH_FAILED, "what is no file is a failure, not an endless loop");
        hf_output_clear(e, &o);
        close(pipe_fds[1]);
    }
    free(got);
    disconnect(&s);
}

static void gone(void)
{
    for (int kind = 0; kind < 3; kind++) {
        static const char *const what[] = {"copied bytes", "bytes of an owner", "a file"};
        ends s = connected(0, &hf_transport_plain);
        hf_output o = {0};
        uint64_t sent = 0;
        close(s.client);
        if (kind == 0)
            hf_output_copy(e, &o, text, 100);
        else if (kind == 1)
            hf_output_ref(e, &o, text, 100, text);
        else
            hf_output_file(e, &o, open_file(), 0, 100);
        int rc = hf_output_flush(s.conn, &o, &sent); /* and no SIGPIPE */
        ok(rc == HF_FLUSH_FAILED && sent == 0, "sending %s to a client that has left fails", what[kind]);
        hf_output_clear(e, &o);
        is_int(n_released(), kind == 1, "and leaves no owner behind");
        hf_conn_close(s.conn);
    }
}

int main(void)
{
    static const hf_transport tiny = {"http", NULL, tiny_write, tiny_sendfile};
    hf_config config = hf_config_default;

    alarm(120);
    e = hf_engine_create(&config);
    text = malloc(FILE_LEN);
    int fd = mkstemp(file_name);
    if (!e || !text || fd < 0)
        return 2;
    for (size_t i = 0; i < FILE_LEN; i++)
        text[i] = (char)(i * 31 + i / 256 * 7 + i / 65536);
    if (write(fd, text, FILE_LEN) != (ssize_t)FILE_LEN)
        return 2;
    close(fd);
    small_pieces();
    mixed(0, &hf_transport_plain, "through a socket");
    mixed(1, &hf_transport_plain, "through a socket with hardly any room");
    mixed(0, &tiny, "a few bytes at a time");
    owners();
    files();
    gone();
    unlink(file_name);
    hf_engine_destroy(e);
    free(text);
    return done_testing();
}
