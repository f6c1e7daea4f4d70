/* connection.h - one client connection: its life, its deadlines, and HTTP/1 on it.
 *
 * An idle keep-alive connection is this struct and nothing else: the read buffer, the request and the output are borrowed
 * from pools while they are needed.
 */
#ifndef HF_CONNECTION_H
#define HF_CONNECTION_H

#include "base.h"
#include "buffer.h"
#include "output.h"
#include "request.h"
#include "timer.h"
#include "transport.h"

#include <netinet/in.h>
#include <sys/socket.h>

struct hf_engine;
struct hf_listener;

enum hf_conn_state {
    HF_CONN_IDLE,   /* nothing of a request is here */
    HF_CONN_HEAD,   /* reading a head */
    HF_CONN_BODY,   /* reading a body */
    HF_CONN_BUSY,   /* a complete request waits, runs or is being answered */
    HF_CONN_LINGER, /* the last answer is sent; what still comes is thrown away so that the answer arrives (RFC 9112 9.6) */
    HF_CONN_CLOSED, /* waiting in the graveyard for the end of the turn */
};

/* Addresses as they are needed: 4 or 6, or nothing for a unix socket. */
typedef union hf_address {
    sa_family_t family;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} hf_address;

typedef struct hf_conn {
    hf_timer timer; /* first: a timer is its connection */
    struct hf_engine *engine;
    const struct hf_listener *listener;
    const hf_transport *transport;
    void *transport_state;
    struct hf_conn *next, **pprev; /* all connections of the engine; next also in the graveyard and the pool */
    hf_buf *in;            /* bytes read and not used up, NULL if there are none */
    uint32_t in_pos;       /* bytes after in->start that belong to the current request */
    int fd;
    hf_request *req;       /* the current request, NULL between two */
    hf_output out;
    uint64_t linger_until; /* ms: the end of lingering, whatever the client does */
    uint32_t n_requests;   /* requests that were answered */
    uint8_t state;         /* enum hf_conn_state */
    uint8_t interest;      /* HF_POLL_IN, OUT, EDGE as the poller knows it */
    bool level;            /* watched for levels: a read did not take all, the end comes, or it had a body or output to wait for */
    bool registered;       /* the poller knows it; not before it is waited for */
    uint8_t burst;         /* pipelined requests run in a row without a flush */
    bool eof;              /* the client sends nothing more */
    bool closing;          /* close when the output is sent */
    bool linger;           /* and linger then */
    bool pipelines;        /* the client has sent a request before it had the answer to the one before */
    bool may_send;         /* the client expects the connection to go on: its next request may be on the way */
    bool reading_paused;   /* enough was read ahead */
    bool copied;           /* it was with a worker whose children may hold copies of its descriptor */
    hf_address peer;
} hf_conn;

/* A new connection on an accepted descriptor (non-blocking, close-on-exec); owned by the engine from now on. NULL when
 * memory is out (the descriptor is closed then). */
hf_conn *hf_conn_open(struct hf_engine *e, int fd, const struct hf_listener *l, const hf_transport *t,
                      const struct sockaddr *peer);

/* The same for the run queue: neither deadline nor peer are set, nothing is read. */
hf_conn *hf_conn_new(struct hf_engine *e, int fd, const struct hf_listener *l, const hf_transport *t);

/* A connection that was moved here, rebuilt as far as it had got elsewhere (`state`: enum hf_conn_state; if it has a
 * request, that one's head is parsed and its body is what is to be used). Goes on with it; `deadline` is ms from now, 0:
 * none. Returns true if it has a request to run, which is put in front of all others. */
bool hf_conn_adopted(hf_conn *c, uint32_t state, uint32_t deadline);

/* The current request will not be answered to its end: sends what there is, then closes. */
void hf_conn_abandon(hf_conn *c);

void hf_conn_on_event(hf_conn *c, uint32_t events);
void hf_conn_on_timeout(hf_conn *c);

/* Ends the connection now. Its request, if the layer above has it, reports HF_REQ_GONE. The struct stays until the end of
 * the turn. */
void hf_conn_close(hf_conn *c);

/* Between requests, or about to be: close without hurting an answer. For graceful shutdown. */
void hf_conn_drain(hf_conn *c);

/* Sends pending output, and moves on in the connection's life when all of it is sent. */
void hf_conn_flush(hf_conn *c);

/* The answer to the current request is complete in the output. */
void hf_conn_request_done(hf_conn *c);

/* Refuses whatever the client is sending with this status, and closes, lingering. */
void hf_conn_refuse(hf_conn *c, int status);

/* Registers with the poller what the connection waits for. */
void hf_conn_update_interest(hf_conn *c);

#endif
