#include "poller.h"

#if defined(__linux__) && !defined(HF_USE_POLL)

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28)
#endif
#define MAX_EVENTS 128

const char hf_poller_name[] = "epoll";

struct hf_poller {
    int fd;
    struct epoll_event events[MAX_EVENTS];
};

hf_poller *hf_poller_create(void)
{
    hf_poller *p = malloc(sizeof(*p));
    if (!p)
        return NULL;
    p->fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->fd < 0) {
        free(p);
        return NULL;
    }
    return p;
}

void hf_poller_destroy(hf_poller *p)
{
    if (!p)
        return;
    close(p->fd);
    free(p);
}

static uint32_t to_epoll(uint32_t events)
{
    return (events & HF_POLL_IN ? EPOLLIN : 0u) | (events & HF_POLL_OUT ? EPOLLOUT : 0u) |
           (events & HF_POLL_EDGE ? EPOLLET | EPOLLRDHUP : 0u) | (events & HF_POLL_EXCLUSIVE ? EPOLLEXCLUSIVE : 0u);
}

int hf_poller_add(hf_poller *p, int fd, uint32_t events, void *data)
{
    struct epoll_event ev = {.events = to_epoll(events), .data.ptr = data};
    if (epoll_ctl(p->fd, EPOLL_CTL_ADD, fd, &ev) == 0)
        return 0;
    if (errno == EINVAL && (events & HF_POLL_EXCLUSIVE)) { /* Linux before 4.5 */
        ev.events &= ~(uint32_t)EPOLLEXCLUSIVE;
        return epoll_ctl(p->fd, EPOLL_CTL_ADD, fd, &ev);
    }
    return -1;
}

int hf_poller_modify(hf_poller *p, int fd, uint32_t events, void *data)
{
    struct epoll_event ev = {.events = to_epoll(events), .data.ptr = data};
    return epoll_ctl(p->fd, EPOLL_CTL_MOD, fd, &ev);
}

void hf_poller_remove(hf_poller *p, int fd)
{
    struct epoll_event ev = {0}; /* not NULL: Linux before 2.6.9 wants one */
    epoll_ctl(p->fd, EPOLL_CTL_DEL, fd, &ev);
}

int hf_poller_wait(hf_poller *p, hf_event *events, int max, int timeout_ms)
{
    int n = epoll_wait(p->fd, p->events, max < MAX_EVENTS ? max : MAX_EVENTS, timeout_ms);
    for (int i = 0; i < n; i++) {
        uint32_t got = p->events[i].events;
        events[i].data = p->events[i].data.ptr;
        events[i].events = (got & EPOLLIN ? HF_POLL_IN : 0u) | (got & EPOLLOUT ? HF_POLL_OUT : 0u) |
                           (got & EPOLLRDHUP ? HF_POLL_END : 0u) | (got & (EPOLLERR | EPOLLHUP) ? HF_POLL_GONE : 0u);
    }
    return n < 0 ? 0 : n;
}

int hf_poller_fd(const hf_poller *p)
{
    return p->fd;
}

#else
typedef int hf_poller_epoll_is_empty;
#endif
