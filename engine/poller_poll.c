#include "poller.h"

#if !defined(__linux__) || defined(HF_USE_POLL)

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

const char hf_poller_name[] = "poll";

struct hf_poller {
    struct pollfd *fds; /* the first n are in use, in no order */
    void **data;        /* beside fds */
    int n, cap;
    int *index;         /* descriptor -> place in fds, or -1 */
    int n_index;
    int next;           /* where the next wait begins to look, so that no descriptor is always last */
};

hf_poller *hf_poller_create(void)
{
    return calloc(1, sizeof(hf_poller));
}

void hf_poller_destroy(hf_poller *p)
{
    if (!p)
        return;
    free(p->fds);
    free(p->data);
    free(p->index);
    free(p);
}

static short to_poll(uint32_t events)
{
    return (short)((events & HF_POLL_IN ? POLLIN : 0) | (events & HF_POLL_OUT ? POLLOUT : 0));
}

static int grow_index(hf_poller *p, int fd)
{
    int want = p->n_index ? p->n_index : 64;
    while (want <= fd)
        want *= 2;
    int *index = realloc(p->index, (size_t)want * sizeof(*index));
    if (!index)
        return -1;
    for (int i = p->n_index; i < want; i++)
        index[i] = -1;
    p->index = index;
    p->n_index = want;
    return 0;
}

int hf_poller_add(hf_poller *p, int fd, uint32_t events, void *data)
{
    if (fd < 0 || (fd >= p->n_index && grow_index(p, fd) < 0)) {
        errno = fd < 0 ? EBADF : ENOMEM;
        return -1;
    }
    if (p->index[fd] >= 0) {
        errno = EEXIST;
        return -1;
    }
    if (p->n == p->cap) {
        int cap = p->cap ? p->cap * 2 : 64;
        struct pollfd *fds = realloc(p->fds, (size_t)cap * sizeof(*fds));
        if (fds)
            p->fds = fds;
        void **more = realloc(p->data, (size_t)cap * sizeof(*more));
        if (more)
            p->data = more;
        if (!fds || !more) {
            errno = ENOMEM;
            return -1;
        }
        p->cap = cap;
    }
    p->fds[p->n] = (struct pollfd){.fd = fd, .events = to_poll(events)};
    p->data[p->n] = data;
    p->index[fd] = p->n++;
    return 0;
}

int hf_poller_modify(hf_poller *p, int fd, uint32_t events, void *data)
{
    if (fd < 0 || fd >= p->n_index || p->index[fd] < 0) {
        errno = ENOENT;
        return -1;
    }
    p->fds[p->index[fd]].events = to_poll(events);
    p->data[p->index[fd]] = data;
    return 0;
}

void hf_poller_remove(hf_poller *p, int fd)
{
    if (fd < 0 || fd >= p->n_index || p->index[fd] < 0)
        return;
    int at = p->index[fd];
    p->index[fd] = -1;
    if (at != --p->n) {
        p->fds[at] = p->fds[p->n];
        p->data[at] = p->data[p->n];
        p->index[p->fds[at].fd] = at;
    }
}

int hf_poller_wait(hf_poller *p, hf_event *events, int max, int timeout_ms)
{
    int found = 0, left = poll(p->fds, (nfds_t)p->n, timeout_ms);
    if (p->next >= p->n)
        p->next = 0;
    for (int seen = 0, i = p->next; left > 0 && found < max && seen < p->n; seen++, i = (i + 1) % p->n) {
        short got = p->fds[i].revents;
        if (!got)
            continue;
        left--;
        events[found].data = p->data[i];
        events[found++].events = (got & POLLIN ? HF_POLL_IN : 0u) | (got & POLLOUT ? HF_POLL_OUT : 0u) |
                                 (got & (POLLERR | POLLHUP | POLLNVAL) ? HF_POLL_GONE : 0u);
        p->next = i + 1;
    }
    return found;
}

int hf_poller_fd(const hf_poller *p)
{
    (void)p;
    return -1;
}

#else
typedef int hf_poller_poll_is_empty;
#endif
