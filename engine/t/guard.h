/* guard.h - buffers that end, or begin, at a page which must not be touched: an access outside is a crash at once, in any
 * build. The sanitizers see small overruns as well, but only in memory that came from malloc(3).
 */
#ifndef HF_T_GUARD_H
#define HF_T_GUARD_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD_ROOM (256 * 1024) /* the largest buffer, bytes */

typedef struct guard {
    char *room; /* GUARD_ROOM bytes with a forbidden page on either side */
} guard;

__attribute__((unused)) static guard guard_new(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, GUARD_ROOM + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || mprotect(p + page, GUARD_ROOM, PROT_READ | PROT_WRITE) != 0) {
        perror("mmap");
        exit(2);
    }
    return (guard){p + page};
}

/* A place for `len` bytes of which the last is the last that may be touched. */
__attribute__((unused)) static char *guard_end(guard g, size_t len)
{
    return g.room + GUARD_ROOM - len;
}

/* A copy of `data` there. */
__attribute__((unused)) static char *guard_copy(guard g, const char *data, size_t len)
{
    return memcpy(guard_end(g, len), data, len);
}

#endif
