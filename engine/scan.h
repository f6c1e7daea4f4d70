/* scan.h - finding the first byte of a kind, many bytes at a time.
 *
 * One implementation each in plain C, SSE4.2 and AVX2; the best that the processor has is chosen at the first call of
 * hf_scan_select() (the engine calls it when it is created) and all give the same answers. They never read outside
 * [p, end).
 */
#ifndef HF_SCAN_H
#define HF_SCAN_H

#include "base.h"

enum hf_scan_level { HF_SCAN_SCALAR, HF_SCAN_SSE42, HF_SCAN_AVX2 };

/* A pointer to the first byte in [p, end) that stops the scan, or end. */
typedef struct hf_scanner {
    enum hf_scan_level level;
    const char *name; /* "scalar", "sse4.2", "avx2" */
    /* first byte that may not stand in a field value: a control character but HTAB (0x00-0x08, 0x0a-0x1f, 0x7f) */
    const char *(*value_end)(const char *p, const char *end);
    /* first byte that may not stand in a request target: 0x00-0x20 and 0x7f */
    const char *(*target_end)(const char *p, const char *end);
    /* first byte that is not a token character (RFC 9110, 5.6.2) */
    const char *(*token_end)(const char *p, const char *end);
} hf_scanner;

/* The scanner in use. Until hf_scan_select() was called it is the scalar one. */
extern const hf_scanner *hf_scan;

/* Chooses the best implementation of at most `max` that this processor runs, and returns it. Idempotent; call it before
 * threads are started. HF_SCAN=scalar|sse4.2|avx2 in the environment lowers `max` (for tests). */
const hf_scanner *hf_scan_select(enum hf_scan_level max);

#endif
