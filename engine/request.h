/* request.h - one request and its answer, whatever protocol it came by.
 *
 * The engine hands complete requests out (hf_engine_next); the layer above reads them, answers through the functions here
 * and lets them go with hf_response_end(). All functions want the engine lock held.
 */
#ifndef HF_REQUEST_H
#define HF_REQUEST_H

#include "base.h"
#include "body.h"
#include "chunked.h"
#include "http1.h"

struct hf_engine;
struct hf_conn;

/* Events that hf_engine_next() reports for a request. */
enum {
    HF_REQ_RUN = 1,      /* complete, with its body: call the application */
    HF_REQ_WRITABLE = 2, /* what was waiting to be sent has gone: go on with the body */
    HF_REQ_GONE = 4,     /* the client left before the answer was complete: give up what is kept for it */
};

typedef struct hf_request {
    struct hf_engine *engine;
    struct hf_conn *conn;         /* NULL once the client has left */
    struct hf_request *next;      /* in the ready queue, or in the pool */
    void *user;                   /* the layer above may keep something here while it answers later */
    uint32_t refs;
    uint8_t events;               /* HF_REQ_*: why it is in the ready queue */
    bool queued;                  /* it is in the ready queue */
    bool in_burst;                /* its answer leaves together with that of the request before it on its connection */
    bool running;                 /* handed out; its answer is not complete */
    bool suspended;               /* the layer above will answer later */
    bool io_exposed;              /* the application holds the socket itself */
    bool taken;                   /* it came from the run queue */
    size_t writable_below;        /* HF_REQ_WRITABLE is reported when less than so many bytes are pending; 0: it is not */
    uint64_t ready_at;            /* ms, when it was complete, in whichever worker that was */

    /* The answer. */
    bool begun;                   /* its head is in the output */
    bool chunked;                 /* we frame the body by chunks */
    bool no_body;                 /* HEAD, 204, 304: body bytes are dropped */
    bool close;                   /* the connection ends with this answer */
    bool flush_now;               /* it does not wait for the answers of further pipelined requests */
    bool overlong;                /* there was more body than Content-Length promised */
    int16_t status;
    int64_t length_left;          /* body bytes that Content-Length still promises; -1: no promise */
    uint64_t body_sent;           /* body bytes that were handed over */

    uint64_t body_to_come;        /* bytes of a Content-Length body that are not read yet */
    hf_chunked decoder;           /* of a chunked body */
    hf_body body;
    hf_http1_head head;           /* last: large */
} hf_request;

typedef struct hf_field_out {
    const char *name, *value;
    uint32_t name_len, value_len;
} hf_field_out;

/* Where the slices of request->head point to. Valid until the next call that lets the engine read (hf_engine_poll,
 * hf_engine_next). */
const char *hf_request_base(const hf_request *r);

/* Another owner: the struct stays until as many hf_request_unref(). */
void hf_request_ref(hf_request *r);
void hf_request_unref(hf_request *r);

/* What is wrong with this answer (a constant phrase), NULL if nothing. On error *bad is the index of the field. */
const char *hf_response_check(int status, const hf_field_out *fields, size_t n, size_t *bad);

enum { HF_LENGTH_UNKNOWN = -1, HF_LENGTH_OMIT = -2 };

/* The head of the answer. The fields must have passed hf_response_check(). `length` is the length of the body if it is
 * known and no Content-Length is among the fields; HF_LENGTH_UNKNOWN: find a framing for a body that comes in pieces;
 * HF_LENGTH_OMIT: say nothing about it (answers to HEAD). `follows` is the number of body bytes that will be copied right
 * behind the head, so that room is made for both at once. Returns 0; -1 if the client has left or memory is out. */
int hf_response_begin(hf_request *r, int status, const hf_field_out *fields, size_t n, int64_t length, size_t follows);

/* A part of the body, copied. Bytes beyond the promised Content-Length are dropped. Returns 0; -1 if the client has left or
 * memory is out. */
int hf_response_write(hf_request *r, const char *data, size_t len);

/* The same for large bodies, without a copy: the bytes stay where they are until `owner` comes back by
 * hf_engine_released(), which it does in any case. */
int hf_response_write_ref(hf_request *r, const char *data, size_t len, void *owner);

/* Part of a file. Takes over fd in any case. */
int hf_response_sendfile(hf_request *r, int fd, int64_t offset, size_t len);

/* The answer is complete. A body shorter than promised closes the connection. The caller's interest in r ends here, except
 * for references it holds. Returns 0, or -1 if the body was shorter or longer than its Content-Length. */
int hf_response_end(hf_request *r);

/* Something broke after the head had left: cuts the connection so that the client can tell. Ends the caller's interest. */
void hf_response_abort(hf_request *r);

/* A complete small answer: status, text/plain body of one line. For errors of the layer above. */
void hf_response_simple(hf_request *r, int status);

/* An interim answer (status 100 to 199 but 101), sent at once. 0; 1: not sent, the client speaks HTTP/1.0; -1: the
 * client has left, or the final answer has begun. */
int hf_response_interim(hf_request *r, int status, const hf_field_out *fields, size_t n);

/* Sends what can be sent now. Returns bytes still in memory, or -1 if the client has left. */
int64_t hf_response_flush(hf_request *r);

/* The layer above keeps r and will answer later. */
void hf_request_suspend(hf_request *r);

/* Reports HF_REQ_WRITABLE, once, when less than `below` bytes (at least 1) are pending; at the next poll if that is so
 * already. */
void hf_request_notify_writable(hf_request *r, size_t below);

/* The socket, for an application that wants it: the engine reads nothing more until the answer is complete. -1 if there is
 * none. The descriptor stays the engine's. */
int hf_request_expose_io(hf_request *r);

/* The application took the socket over and will never answer: forgets the connection without shutting it down. Ends the
 * caller's interest. */
void hf_request_detach(hf_request *r);

#endif
