/* test_timer.c - the timer wheel: no deadline is early, none is late by more than a tick, whatever is moved when. */
#include "timer.h"

#include <stdlib.h>

#include "tap.h"

#define START UINT64_C(1000037)
#define ROUND ((uint64_t)HF_WHEEL_SLOTS * HF_WHEEL_TICK)

typedef struct entry {
    hf_timer timer; /* first */
    uint64_t at;    /* when it ran out; 0: it has not */
    unsigned times;
} entry;

typedef struct run {
    hf_wheel *wheel;
    uint64_t now;
    entry *closes;     /* removed by the first that expires */
    uint64_t sets_again; /* ms after which whatever expires is to expire again; 0: not */
} run;

static void expired(void *arg, hf_timer *t)
{
    run *r = arg;
    entry *e = (entry *)t;

    e->at = r->now;
    e->times++;
    if (r->closes && r->closes != e)
        hf_timer_remove(&r->closes->timer);
    r->closes = NULL;
    if (r->sets_again)
        hf_timer_set(r->wheel, t, r->now + r->sets_again);
}

static void advance(run *r, uint64_t ms)
{
    r->now += ms;
    hf_wheel_run(r->wheel, r->now, expired, r);
}

static void waits(void)
{
    const uint64_t delays[] = {1, 63, 64, 65, 1000, ROUND - 1, ROUND, ROUND + 1, 75000, 10 * ROUND};
    bool early = false, late = false;

    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++)
        for (uint64_t step = 1; step <= 1000; step = step * 7 + 3) {
            hf_wheel wheel;
            entry e = {.at = 0};
            run r = {&wheel, START, NULL, 0};
            hf_wheel_init(&wheel, START);
            hf_timer_set(&wheel, &e.timer, START + delays[i]);
            while (!e.at && r.now < START + delays[i] + 5000)
                advance(&r, step);
            early |= e.at && e.at < START + delays[i];
            late |= !e.at || e.at > START + delays[i] + 2 * HF_WHEEL_TICK + step;
        }
    ok(!early, "no timer runs out before its deadline, however far away it is");
    ok(!late, "none later than two ticks behind it");
}

static void moved(void)
{
    hf_wheel wheel;
    entry e = {.at = 0};
    run r = {&wheel, START, NULL, 0};

    hf_wheel_init(&wheel, START);
    hf_timer_set(&wheel, &e.timer, START + 1000);
    for (int i = 0; i < 100; i++) { /* as a connection that is used all the time */
        advance(&r, 500);
        hf_timer_set(&wheel, &e.timer, r.now + 1000);
    }
    ok(e.times == 0, "a deadline that is moved away again and again never runs out");
    advance(&r, 900);
    ok(e.times == 0, "nor does it early after the last time");
    advance(&r, 300);
    ok(e.times == 1, "then it does, once");

    e = (entry){.at = 0};
    hf_timer_set(&wheel, &e.timer, r.now + 60000);
    hf_timer_set(&wheel, &e.timer, r.now + 200);
    advance(&r, 400);
    ok(e.times == 1, "a deadline that is moved nearer runs out at the nearer time");
    advance(&r, 100000);
    ok(e.times == 1, "and not at the farther one as well");

    e = (entry){.at = 0};
    hf_timer_set(&wheel, &e.timer, r.now + 200);
    hf_timer_clear(&e.timer);
    advance(&r, 1000);
    ok(e.times == 0, "a deadline that is cleared does not run out");
    hf_timer_set(&wheel, &e.timer, r.now + 200);
    hf_timer_clear(&e.timer);
    hf_timer_set(&wheel, &e.timer, r.now + 5000);
    advance(&r, 1000);
    ok(e.times == 0, "nor when it is set again to a later time");
    advance(&r, 5000);
    ok(e.times == 1, "but then");

    e = (entry){.at = 0};
    hf_timer_set(&wheel, &e.timer, r.now > 100 ? r.now - 100 : 0);
    advance(&r, 2 * HF_WHEEL_TICK);
    ok(e.times == 1, "a deadline in the past runs out with the next tick");
    hf_timer_remove(&e.timer);
    hf_timer_remove(&e.timer);
    ok(e.timer.deadline == 0 && !e.timer.pprev, "a timer that is in no wheel may be removed");
}

static void during_expiry(void)
{
    hf_wheel wheel;
    entry a = {.at = 0}, b = {.at = 0}, c = {.at = 0};
    run r = {&wheel, START, NULL, 0};

    hf_wheel_init(&wheel, START);
    hf_timer_set(&wheel, &a.timer, START + 100);
    hf_timer_set(&wheel, &b.timer, START + 100);
    hf_timer_set(&wheel, &c.timer, START + 100);
    r.closes = &b; /* the middle one of the slot's list, whichever end it begins at */
    advance(&r, 200);
    ok(a.times == 1 && c.times == 1 && b.times == 0, "a timer that runs out may take its neighbour out");

    a = b = c = (entry){.at = 0};
    hf_timer_set(&wheel, &a.timer, r.now + 100);
    r.sets_again = 1;
    advance(&r, 10 * HF_WHEEL_TICK);
    ok(a.times >= 1, "a timer may be set again while it runs out");
    const unsigned before = a.times;
    advance(&r, 10 * HF_WHEEL_TICK);
    ok(a.times > before && a.times < before + 12, "and runs out again, at most once a tick");
    r.sets_again = ROUND; /* into the very slot that is being looked at */
    advance(&r, 2 * HF_WHEEL_TICK);
    const unsigned then = a.times;
    r.sets_again = 0;
    advance(&r, ROUND / 2);
    ok(a.times == then, "one that is set a round ahead does not run out in this one");
    advance(&r, ROUND);
    ok(a.times == then + 1, "but in the next");
}

static void long_sleep(void)
{
    hf_wheel wheel;
    entry many[700];
    run r = {&wheel, START, NULL, 0};
    unsigned out = 0;

    memset(many, 0, sizeof many);
    hf_wheel_init(&wheel, START);
    for (size_t i = 0; i < 700; i++)
        hf_timer_set(&wheel, &many[i].timer, START + i * HF_WHEEL_TICK + 1);
    advance(&r, 100 * ROUND);
    for (size_t i = 0; i < 700; i++)
        out += many[i].times;
    is_int(out, 700, "after a sleep of many rounds all timers run out, once each");
}

static void timeouts(void)
{
    hf_wheel wheel;
    entry e = {.at = 0};

    hf_wheel_init(&wheel, START);
    is_int(hf_wheel_timeout(&wheel, START, 1000), 1000, "an empty wheel lets sleep as long as is allowed");
    is_int(hf_wheel_timeout(&wheel, START, 0), 0, "or not at all");
    bool right = true;
    for (uint64_t now = START; now < START + 2 * ROUND; now += 997)
        for (uint64_t delay = 1; delay < 3000; delay = delay * 2 + 1) {
            run r = {&wheel, now, NULL, 0};
            hf_wheel_init(&wheel, now);
            e = (entry){.at = 0};
            hf_timer_set(&wheel, &e.timer, now + delay);
            int turns = 0;
            while (!e.at && turns++ < 20)
                advance(&r, (uint64_t)hf_wheel_timeout(&wheel, r.now, 1000));
            right &= e.at >= now + delay && e.at <= now + delay + 2 * HF_WHEEL_TICK && turns < 8;
            hf_timer_remove(&e.timer);
        }
    ok(right, "sleeping as long as the wheel says, a timer is never missed and not slept past");
}

/* A plain list of deadlines beside the wheel: both must say the same, whatever is done. */
static void random_moves(void)
{
    enum { N = 200 };
    static hf_wheel wheel;
    static entry entries[N];
    static uint64_t deadline[N];
    run r = {&wheel, START, NULL, 0};
    bool early = false, late = false, twice = false;
    unsigned seed = 7;

    hf_wheel_init(&wheel, START);
    for (int turn = 0; turn < 20000; turn++) {
        seed = seed * 1103515245u + 12345u;
        const unsigned i = seed / 65536 % N, what = seed / 4096 % 8, far = seed / 256 % 65536;
        if (what < 5) {
            hf_timer_set(&wheel, &entries[i].timer, deadline[i] = r.now + far);
        } else if (what == 5) {
            hf_timer_clear(&entries[i].timer);
            deadline[i] = 0;
        } else if (what == 6) {
            hf_timer_remove(&entries[i].timer);
            deadline[i] = 0;
        }
        for (int k = 0; k < N; k++)
            entries[k].times = 0;
        advance(&r, far % 300);
        for (int k = 0; k < N; k++) {
            twice |= entries[k].times > 1;
            if (entries[k].times) {
                early |= !deadline[k] || deadline[k] > r.now;
                deadline[k] = 0;
            }
            late |= deadline[k] && deadline[k] + 2 * HF_WHEEL_TICK + 300 < r.now;
        }
    }
    ok(!early && !late && !twice, "20,000 random settings, removals and waits: each runs out once, in time");
}

int main(void)
{
    waits();
    moved();
    during_expiry();
    long_sleep();
    timeouts();
    random_moves();
    return done_testing();
}
