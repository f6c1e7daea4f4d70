/* listener.h - listening sockets, shared by all workers, and accepting from them. */
#ifndef HF_LISTENER_H
#define HF_LISTENER_H

#include "base.h"

struct hf_engine;

typedef struct hf_listener {
    struct hf_engine *engine;
    struct hf_listener *next;
    int fd;          /* the caller's: not closed by the engine */
    char *host;      /* as configured; the path of a unix socket */
    char *port;      /* "" for a unix socket */
    uint32_t host_len, port_len;
    bool is_unix;
    bool wildcard;   /* no certain address: the local address of each connection is asked for when it is needed */
    bool active;     /* in the poller */
    uint32_t batch;  /* connections that are accepted in the next turn */
    bool accepted;   /* something since it was last moved to the end of the kernel's line */
} hf_listener;

/* Accepts what waits, up to the batch, which grows while more waits, and starts reading at once from each. */
void hf_listener_on_event(hf_listener *l);

#endif
