/* base.h - the few words every part of the engine uses.
 *
 * The engine is plain C11 with POSIX underneath and knows nothing of Perl. All state hangs off one `hf_engine`, so that
 * a process can run several.
 */
#ifndef HF_BASE_H
#define HF_BASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HF_LIKELY(x) __builtin_expect(!!(x), 1)
#define HF_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define HF_COLD __attribute__((cold, noinline))
#else
#define HF_LIKELY(x) (x)
#define HF_UNLIKELY(x) (x)
#define HF_PRINTF(fmt, args)
#define HF_COLD
#endif

/* A run of bytes inside a buffer that may move: offset and length, so it survives a realloc(3) of the buffer. */
typedef struct hf_slice {
    uint32_t off; /* bytes from the start of the buffer */
    uint32_t len; /* bytes */
} hf_slice;

#endif
