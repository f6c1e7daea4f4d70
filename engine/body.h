/* body.h - a request body on its way to the application: in memory while it is small, in an unlinked temporary file
 * above, never more memory than the limit whatever the client sends.
 */
#ifndef HF_BODY_H
#define HF_BODY_H

#include "base.h"

typedef struct hf_body {
    char *mem;       /* the bytes while they are in memory: ours (cap > 0), or part of the read buffer (cap == 0) */
    uint32_t cap;    /* bytes of room in mem; 0: not ours */
    int fd;          /* the temporary file, -1 if there is none; its offset is at its end */
    uint64_t len;    /* bytes so far */
} hf_body;

void hf_body_init(hf_body *b);

/* Adds bytes. `memory_max` is how much may stay in memory, `expected` the final length if it is known (0: not), `tmpdir`
 * where the temporary file is made. 0, or -1 with errno set when memory or disk is out. */
int hf_body_append(hf_body *b, const char *data, size_t len, uint64_t memory_max, uint64_t expected, const char *tmpdir);

/* Uses bytes that are in memory already and stay there as long as the body is used. Only for an empty body. */
void hf_body_borrow(hf_body *b, char *data, uint32_t len);

/* The temporary file's descriptor, which is the caller's from now on; -1 if there is none. */
int hf_body_take_fd(hf_body *b);

/* Frees memory and file. */
void hf_body_clear(hf_body *b);

#endif
