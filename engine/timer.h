/* timer.h - deadlines for very many connections: a hashed timer wheel with lazy re-arming.
 *
 * Moving a deadline further away, which happens at every request, is a plain store: the timer stays in its old slot and
 * is put into its right one when that slot comes round.
 */
#ifndef HF_TIMER_H
#define HF_TIMER_H

#include "base.h"

#define HF_WHEEL_SLOTS 512u /* a power of two */
#define HF_WHEEL_TICK 64u   /* milliseconds of one slot: the wheel goes round in 32.8 s; longer deadlines go round again */

typedef struct hf_timer {
    struct hf_timer *next, **pprev; /* in a slot's list; pprev is NULL when the timer is in none */
    uint64_t deadline;              /* monotonic milliseconds; 0: none */
    uint64_t slot_tick;             /* the tick at which its slot is looked at */
} hf_timer;

typedef struct hf_wheel {
    uint64_t tick; /* the last tick that was looked at */
    uint64_t used[HF_WHEEL_SLOTS / 64]; /* a bit per slot that may have timers */
    hf_timer *slots[HF_WHEEL_SLOTS];
} hf_wheel;

void hf_wheel_init(hf_wheel *w, uint64_t now_ms);

/* Sets the deadline (monotonic ms; never earlier than one tick from now). */
void hf_timer_set(hf_wheel *w, hf_timer *t, uint64_t deadline_ms);

/* No deadline any more. Leaves the timer in its slot, where it is dropped in passing. */
static inline void hf_timer_clear(hf_timer *t)
{
    t->deadline = 0;
}

/* Takes the timer out of the wheel. Needed before its memory is freed. */
void hf_timer_remove(hf_timer *t);

/* Calls `expired` for every timer whose deadline has passed; by then it is out of the wheel and may be set again. */
void hf_wheel_run(hf_wheel *w, uint64_t now_ms, void (*expired)(void *arg, hf_timer *t), void *arg);

/* Milliseconds until the next slot with timers comes round, at most `max`. */
int hf_wheel_timeout(const hf_wheel *w, uint64_t now_ms, int max);

#endif
