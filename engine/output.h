/* output.h - what a connection still has to send: bytes of its own, bytes that somebody else owns, parts of files.
 *
 * Small pieces are copied together into pooled buffers, so that many of them leave in one system call. Large ones are
 * sent from where they are; their owner is told through the engine's list of released owners.
 */
#ifndef HF_OUTPUT_H
#define HF_OUTPUT_H

#include "base.h"
#include "buffer.h"

struct hf_conn;
struct hf_engine;

enum hf_out_kind { HF_OUT_DATA, HF_OUT_REF, HF_OUT_FILE };

typedef struct hf_out_item {
    struct hf_out_item *next;
    enum hf_out_kind kind;
    hf_buf *buf;      /* DATA: ours */
    const char *ptr;  /* REF: next byte */
    void *owner;      /* REF: handed to hf_engine_released() when the bytes are no longer needed */
    size_t left;      /* REF, FILE: bytes that are still to be sent */
    int64_t offset;   /* FILE: next byte */
    int fd;           /* FILE: ours, closed when it is sent */
} hf_out_item;

typedef struct hf_output {
    hf_out_item *head, *tail;
    size_t bytes; /* in memory and not sent yet: DATA and REF */
} hf_output;

static inline bool hf_output_empty(const hf_output *o)
{
    return o->head == NULL;
}

/* Room for n contiguous bytes at the end; write there, then commit what was written. NULL when memory is out. */
char *hf_output_room(struct hf_engine *e, hf_output *o, size_t n);
void hf_output_commit(hf_output *o, size_t n);

/* The following return 0, or -1 when memory is out (nothing was added then). */
int hf_output_copy(struct hf_engine *e, hf_output *o, const char *data, size_t len);
/* The bytes stay where they are until `owner` is released (also after a failure of the connection, not after -1). */
int hf_output_ref(struct hf_engine *e, hf_output *o, const char *data, size_t len, void *owner);
/* Takes over fd, also when it returns -1. */
int hf_output_file(struct hf_engine *e, hf_output *o, int fd, int64_t offset, size_t len);

enum { HF_FLUSH_DONE = 0, HF_FLUSH_BLOCKED = 1, HF_FLUSH_FAILED = -1 };

/* Sends as much as the peer takes. HF_FLUSH_FAILED: the peer is gone, or a file became shorter than was promised. Adds
 * the bytes that were sent to *sent. */
int hf_output_flush(struct hf_conn *c, hf_output *o, uint64_t *sent);

/* Throws everything away: owners are released, files closed. */
void hf_output_clear(struct hf_engine *e, hf_output *o);

#endif
