/* test_scan.c - every scanner finds the same first byte, and none looks beyond the end. */
#include "scan.h"

#include "guard.h"
#include "tap.h"

typedef const char *(*scan_fn)(const char *p, const char *end);

static bool stops_value(int c)
{
    return (c < 0x20 && c != '\t') || c == 0x7f;
}

static bool stops_target(int c)
{
    return c <= 0x20 || c == 0x7f;
}

/* RFC 9110, 5.6.2, spelt out once more so that the table under test is checked against something. */
static bool stops_token(int c)
{
    return !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             (c > 0 && c < 0x80 && strchr("!#$%&'*+-.^_`|~", c)));
}

#define LONGEST 130 /* four vectors of 32 and something */

static void check(guard g, const char *scanner, const char *kind, scan_fn scan, bool (*stops)(int), char filler)
{
    unsigned wrong_class = 0, wrong_place = 0, wrong_none = 0, wrong_outside = 0;

    /* each byte value, at each place, in a buffer of each length */
    for (size_t len = 1; len <= LONGEST; len += len < 70 ? 1 : 7) {
        char *p = guard_end(g, len);
        memset(p, filler, len);
        for (size_t at = 0; at < len; at += len < 36 ? 1 : 5) {
            for (int c = 0; c < 256; c++) {
                p[at] = (char)c;
                const char *want = stops(c) ? p + at : p + len;
                if (scan(p, p + len) != want)
                    wrong_class++;
            }
            p[at] = filler;
        }
    }
    ok(wrong_class == 0, "%s: %s stops at the bytes that it should stop at and at no other", scanner, kind);

    /* the first of two */
    for (size_t len = 2; len <= LONGEST; len++) {
        char *p = guard_end(g, len);
        memset(p, filler, len);
        for (size_t at = 0; at + 1 < len; at++) {
            p[at] = '\r';
            p[len - 1] = '\n';
            if (scan(p, p + len) != p + at)
                wrong_place++;
            p[at] = p[len - 1] = filler;
        }
    }
    ok(wrong_place == 0, "%s: %s stops at the first of several", scanner, kind);

    for (size_t len = 0; len <= LONGEST; len++) {
        char *p = guard_end(g, len);
        memset(p, filler, len);
        if (scan(p, p + len) != p + len)
            wrong_none++;
        memset(g.room, filler, LONGEST + 1);
        g.room[len] = '\n'; /* directly behind the end */
        if (scan(g.room, g.room + len) != g.room + len)
            wrong_outside++;
    }
    ok(wrong_none == 0, "%s: %s that never stops ends at the end, also an empty one", scanner, kind);
    ok(wrong_outside == 0, "%s: %s does not see what stands behind the end or before the beginning", scanner, kind);
}

/* The highest level that this processor runs. */
static int best_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") ? HF_SCAN_AVX2 : __builtin_cpu_supports("sse4.2") ? HF_SCAN_SSE42 : HF_SCAN_SCALAR;
#else
    return HF_SCAN_SCALAR;
#endif
}

int main(void)
{
    const guard g = guard_new();
    const int best = best_level();

    unsetenv("HF_SCAN");
    is_str(hf_scan->name, "scalar", "until one is selected, the scalar scanner is in use");
    for (int level = HF_SCAN_SCALAR; level <= HF_SCAN_AVX2; level++) {
        const hf_scanner *s = hf_scan_select((enum hf_scan_level)level);
        ok(s == hf_scan && (int)s->level == (level < best ? level : best),
           "select(%d) puts the best scanner of at most that level in use", level);
        ok(hf_scan_select((enum hf_scan_level)level) == s, "selecting twice selects the same");
        if ((int)s->level != level) {
            diag("this processor does not have level %d", level);
            continue;
        }
        check(g, s->name, "a field value", s->value_end, stops_value, 'v');
        check(g, s->name, "a request target", s->target_end, stops_target, '/');
        check(g, s->name, "a token", s->token_end, stops_token, 't');
    }

    setenv("HF_SCAN", "scalar", 1);
    is_str(hf_scan_select(HF_SCAN_AVX2)->name, "scalar", "HF_SCAN=scalar in the environment lowers the level");
    setenv("HF_SCAN", "sse4.2", 1);
    ok(hf_scan_select(HF_SCAN_AVX2)->level <= HF_SCAN_SSE42, "HF_SCAN=sse4.2 does as well");
    is_str(hf_scan_select(HF_SCAN_SCALAR)->name, "scalar", "HF_SCAN never raises the level");
    return done_testing();
}
