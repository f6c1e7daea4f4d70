/* buffer.h - byte buffers, borrowed from a pool while bytes are pending.
 *
 * A connection that waits for its next request holds no buffer. The pool is a stack, so the buffer that was used last,
 * and is still in the processor's cache, is the next one used.
 */
#ifndef HF_BUFFER_H
#define HF_BUFFER_H

#include "base.h"

#define HF_BUF_SIZE 16384u /* bytes of memory behind a pooled buffer, its header included */

typedef struct hf_buf {
    struct hf_buf *next; /* in the pool's stack, or in an owner's list */
    uint32_t cap;        /* bytes of room in data */
    uint32_t start;      /* first byte that is still wanted */
    uint32_t end;        /* one past the last byte that is filled */
    char data[];
} hf_buf;

typedef struct hf_buf_pool {
    hf_buf *free;
    uint32_t n_free;
    uint32_t max_free; /* more than this many are given back to malloc(3) */
} hf_buf_pool;

void hf_buf_pool_init(hf_buf_pool *pool, uint32_t max_free);
void hf_buf_pool_destroy(hf_buf_pool *pool);

/* An empty buffer with room for at least `room` bytes: a pooled one if that is enough. NULL when memory is out. */
hf_buf *hf_buf_get(hf_buf_pool *pool, size_t room);

/* Gives a buffer back. NULL is allowed. */
void hf_buf_put(hf_buf_pool *pool, hf_buf *buf);

/* Makes room for `room` more bytes after buf->end, by moving what is between start and end to the front or to a larger
 * buffer. Returns the buffer, which may be another one now, or NULL when memory is out (the old one is kept). Offsets
 * relative to buf->start stay true. */
hf_buf *hf_buf_reserve(hf_buf_pool *pool, hf_buf *buf, size_t room);

#endif
