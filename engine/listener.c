#include "listener.h"

#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_PAUSE 500        /* ms without accepting when descriptors or memory have run out */
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

void hf_listener_on_event(hf_listener *l)
{
    hf_engine *e = l->engine;
    for (uint32_t i = 0; i < e->config.accept_batch; i++) {
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
                return;
            }
            if (errno == ECONNABORTED || errno == EINTR)
                continue;
            return; /* EAGAIN: another worker was first */
        }
        e->n_accepted++;
        l->accepted = e->rotation_due = true;
        hf_conn_open(e, fd, l, &hf_transport_plain, &peer.sa);
    }
}
