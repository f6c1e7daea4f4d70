#include "buffer.h"

#include <stdlib.h>
#include <string.h>

#define POOLED_CAP (HF_BUF_SIZE - (uint32_t)sizeof(hf_buf))

void hf_buf_pool_init(hf_buf_pool *pool, uint32_t max_free)
{
    *pool = (hf_buf_pool){.max_free = max_free};
}

void hf_buf_pool_destroy(hf_buf_pool *pool)
{
    while (pool->free) {
        hf_buf *buf = pool->free;
        pool->free = buf->next;
        free(buf);
    }
    pool->n_free = 0;
}

hf_buf *hf_buf_get(hf_buf_pool *pool, size_t room)
{
    hf_buf *buf;
    if (HF_LIKELY(room <= POOLED_CAP)) {
        buf = pool->free;
        if (HF_LIKELY(buf != NULL)) {
            pool->free = buf->next;
            pool->n_free--;
        } else {
            buf = malloc(HF_BUF_SIZE);
            if (!buf)
                return NULL;
            buf->cap = POOLED_CAP;
        }
    } else {
        if (room > UINT32_MAX / 2)
            return NULL;
        buf = malloc(sizeof(*buf) + room);
        if (!buf)
            return NULL;
        buf->cap = (uint32_t)room;
    }
    buf->next = NULL;
    buf->start = buf->end = 0;
    return buf;
}

void hf_buf_put(hf_buf_pool *pool, hf_buf *buf)
{
    if (!buf)
        return;
    if (buf->cap != POOLED_CAP || pool->n_free >= pool->max_free) {
        free(buf);
        return;
    }
    buf->next = pool->free;
    pool->free = buf;
    pool->n_free++;
}

hf_buf *hf_buf_reserve(hf_buf_pool *pool, hf_buf *buf, size_t room)
{
    size_t used = buf->end - buf->start;
    if (buf->cap - buf->end >= room)
        return buf;
    if (buf->cap - used >= room) {
        memmove(buf->data, buf->data + buf->start, used);
        buf->start = 0;
        buf->end = (uint32_t)used;
        return buf;
    }
    size_t want = (size_t)buf->cap * 2;
    if (want < used + room)
        want = used + room;
    hf_buf *bigger = hf_buf_get(pool, want);
    if (!bigger)
        return NULL;
    memcpy(bigger->data, buf->data + buf->start, used);
    bigger->end = (uint32_t)used;
    hf_buf_put(pool, buf);
    return bigger;
}
