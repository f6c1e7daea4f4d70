#include "transport.h"

#include "connection.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sendfile.h>
#endif

#ifndef MSG_MORE
#define MSG_MORE 0
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* the bridge ignores SIGPIPE on such systems */
#endif

static ssize_t plain_read(hf_conn *c, char *dst, size_t len)
{
    ssize_t n;
    do
        n = recv(c->fd, dst, len, MSG_DONTWAIT);
    while (HF_UNLIKELY(n < 0 && errno == EINTR));
    return n;
}

static ssize_t plain_write(hf_conn *c, const struct iovec *iov, int n_iov, bool more)
{
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
    ssize_t n;
    if (HF_LIKELY(n_iov == 1)) {
        do
            n = send(c->fd, iov->iov_base, iov->iov_len, flags);
        while (HF_UNLIKELY(n < 0 && errno == EINTR));
        return n;
    }
    struct msghdr msg;
    memset(&msg, 0, sizeof(msg));
    msg.msg_iov = (struct iovec *)(uintptr_t)iov;
    msg.msg_iovlen = (size_t)n_iov;
    do
        n = sendmsg(c->fd, &msg, flags);
    while (HF_UNLIKELY(n < 0 && errno == EINTR));
    return n;
}

#ifdef __linux__
/* sendfile(2) has no flag against SIGPIPE, and ignoring the signal would be inherited by the programs that an application
 * starts. So it is blocked meanwhile, and taken back if it came. */
static ssize_t sendfile_quietly(int out, int in, int64_t offset, size_t len)
{
    sigset_t pipe_only, before;
    off_t at = (off_t)offset;
    ssize_t n;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    do
        n = sendfile(out, in, &at, len);
    while (n < 0 && errno == EINTR);
    int why = errno;
    if (n < 0 && why == EPIPE) {
        struct timespec none = {0};
        while (sigtimedwait(&pipe_only, NULL, &none) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return n;
}
#endif

static ssize_t plain_sendfile(hf_conn *c, int fd, int64_t offset, size_t len)
{
    ssize_t n;
#ifdef __linux__
    n = sendfile_quietly(c->fd, fd, offset, len);
    if (n >= 0 || (errno != EINVAL && errno != ENOSYS))
        return n;
#endif
    char chunk[32768]; /* a file system without sendfile(2) */
    do
        n = pread(fd, chunk, len < sizeof(chunk) ? len : sizeof(chunk), (off_t)offset);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        errno = EIO;
    if (n <= 0)
        return n;
    struct iovec iov = {.iov_base = chunk, .iov_len = (size_t)n};
    return plain_write(c, &iov, 1, (size_t)n < len);
}

const hf_transport hf_transport_plain = {
    .scheme = "http",
    .read = plain_read,
    .write = plain_write,
    .sendfile = plain_sendfile,
};
