#include "body.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void hf_body_init(hf_body *b)
{
    *b = (hf_body){.fd = -1};
}

void hf_body_borrow(hf_body *b, char *data, uint32_t len)
{
    b->mem = data;
    b->cap = 0;
    b->len = len;
}

int hf_body_take_fd(hf_body *b)
{
    int fd = b->fd;
    b->fd = -1;
    return fd;
}

void hf_body_clear(hf_body *b)
{
    if (b->cap)
        free(b->mem);
    if (b->fd >= 0)
        close(b->fd);
    hf_body_init(b);
}

/* An open file without a name in `dir`. */
static int open_unlinked(const char *dir)
{
#ifdef O_TMPFILE
    int tmp = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (tmp >= 0)
        return tmp;
#endif
    char name[1024];
    int n = snprintf(name, sizeof(name), "%s/hydrofoil-body-XXXXXX", dir);
    if (n < 0 || (size_t)n >= sizeof(name)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    mode_t old = umask(077);
    int fd = mkstemp(name);
    umask(old);
    if (fd < 0)
        return -1;
    unlink(name);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static int spill(hf_body *b, const char *tmpdir)
{
    b->fd = open_unlinked(tmpdir);
    if (b->fd < 0 || write_all(b->fd, b->mem, b->len) < 0)
        return -1;
    if (b->cap)
        free(b->mem);
    b->mem = NULL;
    b->cap = 0;
    return 0;
}

int hf_body_append(hf_body *b, const char *data, size_t len, uint64_t memory_max, uint64_t expected, const char *tmpdir)
{
    uint64_t total = b->len + len;
    if (b->fd < 0 && (total > memory_max || expected > memory_max) && spill(b, tmpdir) < 0)
        return -1;
    if (b->fd >= 0) {
        if (write_all(b->fd, data, len) < 0)
            return -1;
        b->len = total;
        return 0;
    }
    if (total > b->cap) {
        uint64_t want = expected >= total ? expected : b->cap * UINT64_C(2) > total ? b->cap * UINT64_C(2) : total + 1024;
        if (want > memory_max)
            want = memory_max;
        char *mem = b->cap ? realloc(b->mem, want) : malloc(want);
        if (!mem)
            return -1;
        if (!b->cap && b->len) /* what was borrowed becomes ours */
            memcpy(mem, b->mem, b->len);
        b->mem = mem;
        b->cap = (uint32_t)want;
    }
    memcpy(b->mem + b->len, data, len);
    b->len = total;
    return 0;
}
