/* header_names.c - the perfect hash of header_names.h.
 *
 * The hash is a product of the last four bytes and the length, which tell all names of the list apart. When the list
 * changes, run   cc -DHF_FIND_HASH -o find_hash header_names.c && ./find_hash   and paste what it prints.
 */
#include "header_names.h"

#include <string.h>

/* Padded to 32 bytes, so that an entry is one shift away. */
struct entry {
    char name[31];
    uint8_t len;
};

static const struct entry entries[HF_HDR_COUNT] = {
    [HF_HDR_OTHER] = {"", 0},
#define X(id, name) [HF_HDR_##id] = {name, sizeof name - 1},
    HF_HEADER_LIST(X)
#undef X
};

/* The bytes that are hashed, letters folded to lower case. `len` is at least 2. */
static inline uint32_t hash_input(const unsigned char *p, size_t len)
{
    uint32_t tail;

    if (HF_LIKELY(len >= 4)) {
        p += len - 4;
        tail = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    } else {
        tail = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[len - 1] << 16;
    }
    return (tail | 0x20202020) + (uint32_t)len * 0x01000193;
}

#ifndef HF_FIND_HASH
#define MULTIPLIER 0x24fc1f25u

static const uint8_t slots[256] = {
    50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 15, 0, 0, 0, 0, 0, 0, 0,
    0, 26, 0, 0, 0, 28, 0, 0, 44, 0, 0, 0, 0, 0, 0, 20, 0, 0, 46, 0, 35, 51, 0, 52,
    0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 24, 0, 0, 36,
    0, 0, 0, 41, 0, 0, 0, 32, 0, 0, 0, 0, 7, 0, 16, 0, 0, 0, 0, 0, 4, 12, 0, 0,
    0, 25, 0, 0, 0, 0, 0, 0, 27, 31, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 29, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0,
    0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 54, 21, 0, 14, 0, 8, 0, 0, 0, 0, 0,
    0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 53, 9, 0, 0, 43, 0, 0, 23, 0, 0, 0, 0,
    45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 37, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 11, 39, 10, 0, 0, 0, 0, 42, 34, 0, 0, 0, 17, 13, 0, 0, 0, 0, 30,
    0, 0, 0, 0, 0, 0, 38, 49, 0, 0, 0, 47, 19, 0, 18, 22,
};

static inline uint64_t load64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Whether 8 bytes are the same but for the case of letters. `ours` is a part of a name of the list; only letters have
 * 0x40 set there, and only they may differ in 0x20. */
static inline bool same64(uint64_t theirs, uint64_t ours)
{
    return ((theirs ^ ours) & ~((ours & 0x4040404040404040u) >> 1)) == 0;
}

uint8_t hf_header_lookup(const char *name, size_t len)
{
    if (HF_UNLIKELY(len < 2 || len > 30))
        return HF_HDR_OTHER;
    const uint8_t id = slots[hash_input((const unsigned char *)name, len) * MULTIPLIER >> 24];
    const struct entry *e = &entries[id];
    if (e->len != len)
        return HF_HDR_OTHER;

    /* Same length, so both are read in the same steps; the last step overlaps the one before. */
    if (HF_LIKELY(len >= 8)) {
        for (size_t i = 0; i + 8 < len; i += 8) {
            if (!same64(load64(name + i), load64(e->name + i)))
                return HF_HDR_OTHER;
        }
        return same64(load64(name + len - 8), load64(e->name + len - 8)) ? id : HF_HDR_OTHER;
    }
    char theirs[8] = {0};
    char ours[8] = {0};
    if (len >= 4) {
        memcpy(theirs, name, 4);
        memcpy(theirs + 4, name + len - 4, 4);
        memcpy(ours, e->name, 4);
        memcpy(ours + 4, e->name + len - 4, 4);
    } else {
        memcpy(theirs, name, 2);
        memcpy(theirs + 2, name + len - 2, 2);
        memcpy(ours, e->name, 2);
        memcpy(ours + 2, e->name + len - 2, 2);
    }
    return same64(load64(theirs), load64(ours)) ? id : HF_HDR_OTHER;
}

const char *hf_header_name(uint8_t id)
{
    return id < HF_HDR_COUNT ? entries[id].name : "";
}

#else /* HF_FIND_HASH: prints a multiplier without collisions and its table */

#include <stdio.h>

int main(void)
{
    uint32_t m = 0x9e3779b1;
    for (unsigned long tries = 0; tries < 100000000; tries++) {
        uint8_t table[256] = {0};
        int id = 1;
        for (; id < HF_HDR_COUNT; id++) {
            const struct entry *e = &entries[id];
            uint8_t *slot = &table[(uint32_t)(hash_input((const unsigned char *)e->name, e->len) * m) >> 24];
            if (*slot)
                break;
            *slot = (uint8_t)id;
        }
        if (id == HF_HDR_COUNT) {
            printf("#define MULTIPLIER 0x%08xu\n\nstatic const uint8_t slots[256] = {", m);
            for (int i = 0; i < 256; i++)
                printf("%s%d,", i % 24 == 0 ? "\n    " : " ", table[i]);
            printf("\n};\n");
            return 0;
        }
        m = m * 1664525 + 1013904223;
        m |= 1;
    }
    fprintf(stderr, "no multiplier found: hash other bytes\n");
    return 1;
}
#endif
