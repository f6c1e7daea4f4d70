#include "timer.h"

#include <string.h>

void hf_wheel_init(hf_wheel *w, uint64_t now_ms)
{
    memset(w, 0, sizeof(*w));
    w->tick = now_ms / HF_WHEEL_TICK;
}

static void insert(hf_wheel *w, hf_timer *t)
{
    uint64_t tick = t->deadline / HF_WHEEL_TICK + 1; /* the first tick at which the deadline has surely passed */
    if (tick <= w->tick)
        tick = w->tick + 1;
    if (tick > w->tick + HF_WHEEL_SLOTS)
        tick = w->tick + HF_WHEEL_SLOTS;
    uint32_t slot = (uint32_t)(tick & (HF_WHEEL_SLOTS - 1));
    t->slot_tick = tick;
    t->next = w->slots[slot];
    if (t->next)
        t->next->pprev = &t->next;
    t->pprev = &w->slots[slot];
    w->slots[slot] = t;
    w->used[slot / 64] |= UINT64_C(1) << (slot % 64);
}

void hf_timer_remove(hf_timer *t)
{
    if (t->pprev) {
        *t->pprev = t->next;
        if (t->next)
            t->next->pprev = t->pprev;
        t->pprev = NULL;
    }
    t->deadline = 0;
}

void hf_timer_set(hf_wheel *w, hf_timer *t, uint64_t deadline_ms)
{
    if (t->pprev) {
        if (deadline_ms / HF_WHEEL_TICK + 1 >= t->slot_tick) { /* looked at early enough where it is */
            t->deadline = deadline_ms;
            return;
        }
        hf_timer_remove(t);
    }
    t->deadline = deadline_ms;
    insert(w, t);
}

void hf_wheel_run(hf_wheel *w, uint64_t now_ms, void (*expired)(void *arg, hf_timer *t), void *arg)
{
    uint64_t now_tick = now_ms / HF_WHEEL_TICK;
    if (now_tick <= w->tick)
        return;
    if (now_tick - w->tick > HF_WHEEL_SLOTS) /* slept for more than a round: every slot once is enough */
        w->tick = now_tick - HF_WHEEL_SLOTS;
    while (w->tick < now_tick) {
        uint32_t slot = (uint32_t)(++w->tick & (HF_WHEEL_SLOTS - 1));
        uint64_t bit = UINT64_C(1) << (slot % 64);
        if (!(w->used[slot / 64] & bit))
            continue;
        w->used[slot / 64] &= ~bit;
        /* Detached first: `expired` and re-insertion may add to any slot, this one included. */
        hf_timer *list = w->slots[slot];
        w->slots[slot] = NULL;
        if (list)
            list->pprev = &list;
        while (list) {
            hf_timer *t = list;
            uint64_t deadline = t->deadline;
            hf_timer_remove(t);
            if (!deadline)
                continue;
            if (deadline <= now_ms) {
                expired(arg, t);
            } else {
                t->deadline = deadline;
                insert(w, t);
            }
        }
    }
}

int hf_wheel_timeout(const hf_wheel *w, uint64_t now_ms, int max)
{
    uint64_t last = (now_ms + (uint64_t)max) / HF_WHEEL_TICK + 1;
    for (uint64_t tick = w->tick + 1; tick <= last && tick <= w->tick + HF_WHEEL_SLOTS;) {
        uint32_t slot = (uint32_t)(tick & (HF_WHEEL_SLOTS - 1));
        uint64_t word = w->used[slot / 64] >> (slot % 64); /* a word of slots at a time */
        if (!word) {
            tick += 64 - slot % 64;
            continue;
        }
        while (!(word & 1)) {
            word >>= 1;
            tick++;
        }
        uint64_t at = tick * HF_WHEEL_TICK;
        return at <= now_ms ? 0 : at - now_ms < (uint64_t)max ? (int)(at - now_ms) : max;
    }
    return max;
}
