/* poller.h - waiting for many descriptors: epoll(7) on Linux, poll(2) elsewhere. Level-triggered, unless HF_POLL_EDGE
 * asks for less.
 *
 * One backend per file behind these functions; -DHF_USE_POLL chooses poll(2) on Linux too.
 */
#ifndef HF_POLLER_H
#define HF_POLLER_H

#include "base.h"

enum {
    HF_POLL_IN = 1,
    HF_POLL_OUT = 2,
    HF_POLL_GONE = 4,       /* result only: an error or both directions closed */
    HF_POLL_EDGE = 16,      /* with IN: whoever reads all that is there each time need not be told again before there is more. A
                             * hint, which poll(2) ignores */
    HF_POLL_END = 32,       /* result only, with EDGE: the peer sends nothing more; behind the bytes, and not told again */
    HF_POLL_EXCLUSIVE = 8,  /* add only: wake one of the processes that wait for this shared listening socket */
};

typedef struct hf_event {
    void *data;
    uint32_t events;
} hf_event;

typedef struct hf_poller hf_poller;

/* NULL with errno set when the system has no more descriptors or memory. */
hf_poller *hf_poller_create(void);
void hf_poller_destroy(hf_poller *p);

/* 0, or -1 with errno set. `data` comes back with the events. Descriptors are removed before they are closed. */
int hf_poller_add(hf_poller *p, int fd, uint32_t events, void *data);
int hf_poller_modify(hf_poller *p, int fd, uint32_t events, void *data);
void hf_poller_remove(hf_poller *p, int fd);

/* Waits up to timeout_ms (0: only looks; -1: for ever) and fills in up to `max` events. Returns their number; 0 also when
 * a signal came. */
int hf_poller_wait(hf_poller *p, hf_event *events, int max, int timeout_ms);

/* A descriptor that is readable when an event waits, to put this poller into another event loop; -1 if the backend has
 * none. */
int hf_poller_fd(const hf_poller *p);

extern const char hf_poller_name[];

#endif
