#include "listener.h"

#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_PAUSE 500        /* ms without accepting when descriptors or memory have run out */
#define MAX_BATCH 1024          /* connections accepted in one turn while more wait each time */
#define COMPLAINT_INTERVAL 10000 /* ms between two lines in the log about it */

static int accept_one(int fd, struct sockaddr *peer, socklen_t *len)
{
#if defined(__linux__) || defined(__FreeBSD__) || defined(__OpenBSD__) || defined(__NetBSD__)
    return accept4(fd, peer, len, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
    int conn = accept(fd, peer, len);
    if (conn >= 0) {
        fcntl(conn, F_SETFD, FD_CLOEXEC);
        fcntl(conn, F_SETFL, fcntl(conn, F_GETFL) | O_NONBLOCK);
    }
    return conn;
#endif
}

/* Takes the next connection; false if there is none, or none can be taken. */
static bool take(hf_listener *l)
{
    hf_engine *e = l->engine;
    union {
        struct sockaddr sa;
        struct sockaddr_storage space;
    } peer;
    socklen_t len = sizeof(peer);
    peer.sa.sa_family = AF_UNSPEC;
    int fd = accept_one(l->fd, &peer.sa, &len);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (e->now >= e->next_fd_complaint) {
                hf_engine_log(e, "cannot accept: %s; %u connections are open, raise the limit of open files (ulimit -n)",
                              strerror(errno), e->n_conns);
                e->next_fd_complaint = e->now + COMPLAINT_INTERVAL;
            }
            hf_engine_pause_accepting(e, ACCEPT_PAUSE);
            return false;
        }
        return errno == ECONNABORTED || errno == EINTR; /* else EAGAIN: another worker was first */
    }
    e->n_accepted++;
    l->accepted = e->rotation_due = true;
    hf_conn_open(e, fd, l, &hf_transport_plain, &peer.sa);
    return true;
}

/* With thousands of busy connections a turn for each of them lies between two looks at the listening socket. So the batch grows
 * as long as more wait than fit in. */
void hf_listener_on_event(hf_listener *l)
{
    const hf_engine *e = l->engine;
    for (uint32_t i = 0; i < l->batch; i++) {
        if (e->n_conns >= e->max_accepted || !take(l)) {
            l->batch = e->config.accept_batch;
            return;
        }
    }
    if (l->batch < MAX_BATCH)
        l->batch *= 2;
}
