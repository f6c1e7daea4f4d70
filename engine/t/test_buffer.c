/* test_buffer.c - pooled buffers. */
#include "buffer.h"

#include <stdlib.h>

#include "tap.h"

static void fill(hf_buf *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b->data[b->end++] = (char)('a' + i % 26);
}

static bool holds(const hf_buf *b, size_t from, size_t n)
{
    if (b->end - b->start != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (b->data[b->start + i] != (char)('a' + (from + i) % 26))
            return false;
    return true;
}

static void pool_of_buffers(void)
{
    hf_buf_pool pool;

    hf_buf_pool_init(&pool, 2);
    hf_buf *a = hf_buf_get(&pool, 100), *b = hf_buf_get(&pool, 1), *c = hf_buf_get(&pool, 0);
    ok(a && a->start == 0 && a->end == 0 && a->cap >= 100, "a new buffer is empty and has the room that was asked for");
    is_int(a->cap + (long long)sizeof(hf_buf), HF_BUF_SIZE, "and all of a pooled buffer's room");
    hf_buf_put(&pool, a);
    hf_buf_put(&pool, b);
    is_int(pool.n_free, 2, "buffers that are given back are kept");
    hf_buf_put(&pool, c);
    is_int(pool.n_free, 2, "but no more than the pool may keep");
    hf_buf_put(&pool, NULL);
    is_int(pool.n_free, 2, "giving back nothing is allowed");
    fill(b, 10);
    hf_buf *again = hf_buf_get(&pool, 50);
    ok(again == b, "the one that was given back last is used first");
    ok(again->start == 0 && again->end == 0, "and is empty again");
    hf_buf *large = hf_buf_get(&pool, 100000);
    ok(large && large->cap >= 100000, "more room than a pooled buffer has can be had");
    hf_buf_put(&pool, large);
    is_int(pool.n_free, 1, "such a buffer is not kept");
    ok(!hf_buf_get(&pool, SIZE_MAX), "an impossible size is refused");
    ok(!hf_buf_get(&pool, UINT32_MAX), "and one that 32 bits do not count");
    hf_buf_put(&pool, again);
    hf_buf_pool_destroy(&pool);
    ok(!pool.free && pool.n_free == 0, "a pool that is destroyed has given everything back");
}

static void reserve(void)
{
    hf_buf_pool pool;

    hf_buf_pool_init(&pool, 4);
    hf_buf *b = hf_buf_get(&pool, 0);
    const uint32_t cap = b->cap;
    fill(b, 1000);
    ok(hf_buf_reserve(&pool, b, cap - 1000) == b && b->start == 0 && holds(b, 0, 1000), "room that is there needs no move");
    fill(b, cap - 1000);
    b->start = cap - 300;
    const uint32_t from = b->start;
    b->data[b->start] = 'a';
    for (uint32_t i = 0; i < 300; i++)
        b->data[from + i] = (char)('a' + i % 26);
    hf_buf *same = hf_buf_reserve(&pool, b, cap - 300);
    ok(same == b && b->start == 0 && holds(b, 0, 300), "what is wanted moves to the front when that makes enough room");

    b->end = b->start = 0;
    fill(b, cap);
    b->start = 100;
    hf_buf *bigger = hf_buf_reserve(&pool, b, 2048);
    ok(bigger && bigger != b && bigger->cap - bigger->end >= 2048 && holds(bigger, 100, cap - 100),
       "a full buffer is exchanged for a larger one with the same bytes");
    is_int(pool.n_free, 1, "and is given back");
    ok(!hf_buf_reserve(&pool, bigger, UINT32_MAX) && holds(bigger, 100, cap - 100),
       "when there is not as much memory the old one stays");
    hf_buf_put(&pool, bigger);

    bool right = true;
    b = hf_buf_get(&pool, 0);
    size_t n = 0;
    for (size_t i = 0; i < 300; i++) { /* grows as the head of a request does, piece by piece */
        hf_buf *next = hf_buf_reserve(&pool, b, 777);
        right &= next && next->cap - next->end >= 777;
        b = next;
        for (size_t k = 0; k < 777; k++)
            b->data[b->end++] = (char)('a' + n++ % 26);
    }
    ok(right && holds(b, 0, n), "a buffer grows piece by piece and loses nothing");
    ok(b->cap < 3 * n, "and does not take much more memory than it needs");
    hf_buf_put(&pool, b);
    hf_buf_pool_destroy(&pool);
}

int main(void)
{
    pool_of_buffers();
    reserve();
    return done_testing();
}
