#include "output.h"

#include "connection.h"
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_IOV 16
#define SENDFILE_MAX (1u << 20) /* bytes of one sendfile(2) call, so that one fast reader does not hold up the others */

static hf_out_item *item_get(hf_engine *e, enum hf_out_kind kind)
{
    hf_out_item *it = e->item_pool;
    if (HF_LIKELY(it != NULL))
        e->item_pool = it->next;
    else if (!(it = malloc(sizeof(*it))))
        return NULL;
    it->next = NULL;
    it->kind = kind;
    it->fd = -1;
    return it;
}

static void item_put(hf_engine *e, hf_out_item *it)
{
    switch (it->kind) {
    case HF_OUT_DATA:
        hf_buf_put(&e->bufs, it->buf);
        break;
    case HF_OUT_FILE:
        close(it->fd);
        break;
    case HF_OUT_REF: /* goes to the pool when its owner has been told */
        it->next = e->released;
        e->released = it;
        return;
    }
    it->next = e->item_pool;
    e->item_pool = it;
}

static void push(hf_output *o, hf_out_item *it)
{
    if (o->tail)
        o->tail->next = it;
    else
        o->head = it;
    o->tail = it;
}

static void pop(hf_engine *e, hf_output *o)
{
    hf_out_item *it = o->head;
    o->head = it->next;
    if (!o->head)
        o->tail = NULL;
    item_put(e, it);
}

char *hf_output_room(hf_engine *e, hf_output *o, size_t n)
{
    hf_out_item *it = o->tail;
    if (it && it->kind == HF_OUT_DATA && it->buf->cap - it->buf->end >= n)
        return it->buf->data + it->buf->end;
    it = item_get(e, HF_OUT_DATA);
    if (!it)
        return NULL;
    it->buf = hf_buf_get(&e->bufs, n);
    if (!it->buf) {
        it->next = e->item_pool;
        e->item_pool = it;
        return NULL;
    }
    push(o, it);
    return it->buf->data;
}

void hf_output_commit(hf_output *o, size_t n)
{
    o->tail->buf->end += (uint32_t)n;
    o->bytes += n;
}

int hf_output_copy(hf_engine *e, hf_output *o, const char *data, size_t len)
{
    char *room = hf_output_room(e, o, len);
    if (!room)
        return -1;
    memcpy(room, data, len);
    hf_output_commit(o, len);
    return 0;
}

int hf_output_ref(hf_engine *e, hf_output *o, const char *data, size_t len, void *owner)
{
    hf_out_item *it = item_get(e, HF_OUT_REF);
    if (!it)
        return -1;
    it->ptr = data;
    it->left = len;
    it->owner = owner;
    push(o, it);
    o->bytes += len;
    return 0;
}

int hf_output_file(hf_engine *e, hf_output *o, int fd, int64_t offset, size_t len)
{
    hf_out_item *it = item_get(e, HF_OUT_FILE);
    if (!it) {
        close(fd);
        return -1;
    }
    it->fd = fd;
    it->offset = offset;
    it->left = len;
    push(o, it);
    return 0;
}

void hf_output_clear(hf_engine *e, hf_output *o)
{
    while (o->head)
        pop(e, o);
    o->bytes = 0;
}

/* Takes n bytes that were sent off the front. */
static void advance(hf_engine *e, hf_output *o, size_t n)
{
    o->bytes -= n;
    while (o->head && o->head->kind != HF_OUT_FILE) {
        hf_out_item *it = o->head;
        size_t left = it->kind == HF_OUT_DATA ? it->buf->end - it->buf->start : it->left;
        if (n < left) {
            if (it->kind == HF_OUT_DATA) {
                it->buf->start += (uint32_t)n;
            } else {
                it->ptr += n;
                it->left -= n;
            }
            return;
        }
        n -= left;
        pop(e, o);
    }
}

static int failure(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK ? HF_FLUSH_BLOCKED : HF_FLUSH_FAILED;
}

int hf_output_flush(hf_conn *c, hf_output *o, uint64_t *sent)
{
    hf_engine *e = c->engine;
    size_t files = 0;
    while (o->head) {
        if (o->head->kind == HF_OUT_FILE) {
            hf_out_item *it = o->head;
            if (files >= SENDFILE_MAX) /* let the others have a turn; the socket is writable, so this one comes back */
                return HF_FLUSH_BLOCKED;
            ssize_t n = 0;
            if (it->left) {
                n = c->transport->sendfile(c, it->fd, it->offset, it->left < SENDFILE_MAX ? it->left : SENDFILE_MAX);
                if (n < 0)
                    return failure();
                if (n == 0)
                    return HF_FLUSH_FAILED; /* the file became shorter than what was promised */
            }
            *sent += (uint64_t)n;
            files += (size_t)n;
            it->offset += n;
            it->left -= (size_t)n;
            if (!it->left)
                pop(e, o);
            continue;
        }
        struct iovec iov[MAX_IOV];
        int n_iov = 0;
        size_t total = 0;
        const hf_out_item *it = o->head;
        for (; it && n_iov < MAX_IOV && it->kind != HF_OUT_FILE; it = it->next) {
            iov[n_iov].iov_base = it->kind == HF_OUT_DATA ? it->buf->data + it->buf->start : (char *)(uintptr_t)it->ptr;
            iov[n_iov].iov_len = it->kind == HF_OUT_DATA ? it->buf->end - it->buf->start : it->left;
            total += iov[n_iov++].iov_len;
        }
        ssize_t n = c->transport->write(c, iov, n_iov, it != NULL);
        if (n < 0)
            return failure();
        *sent += (uint64_t)n;
        advance(e, o, (size_t)n);
        if ((size_t)n < total)
            return HF_FLUSH_BLOCKED;
    }
    return HF_FLUSH_DONE;
}
