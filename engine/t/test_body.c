/* test_body.c - request bodies in memory and in temporary files. */
#include "body.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

static char tmpdir[64];
static char text[300000];

static unsigned names_in(const char *dir)
{
    DIR *d = opendir(dir);
    unsigned n = 0;
    if (!d)
        return 999;
    for (struct dirent *entry; (entry = readdir(d));)
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

static bool file_holds(int fd, size_t len)
{
    struct stat st;
    char *copy = malloc(len + 1);
    const bool same = copy && fstat(fd, &st) == 0 && (size_t)st.st_size == len &&
                      pread(fd, copy, len, 0) == (ssize_t)len && memcmp(copy, text, len) == 0;
    free(copy);
    return same;
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Adds text[0..total) in pieces; false when that fails. */
static bool append(hf_body *b, size_t total, size_t piece, uint64_t memory, uint64_t expected)
{
    for (size_t at = b->len; at < total;) {
        const size_t n = total - at < piece ? total - at : piece;
        if (hf_body_append(b, text + at, n, memory, expected, tmpdir) < 0)
            return false;
        at += n;
    }
    return true;
}

static void in_memory(void)
{
    hf_body b;

    hf_body_init(&b);
    ok(b.len == 0 && b.fd == -1 && hf_body_take_fd(&b) == -1, "a new body is empty");
    ok(append(&b, 1000, 7, 1000, 0), "bytes are added in pieces");
    ok(b.fd == -1 && b.len == 1000 && memcmp(b.mem, text, 1000) == 0, "as many as may be in memory stay there");
    ok(b.cap <= 1000, "and take no more memory than they may");
    hf_body_clear(&b);
    ok(b.len == 0 && !b.mem && b.fd == -1, "a body that is cleared is empty");

    ok(append(&b, 500, 50, 65536, 500) && b.fd == -1 && memcmp(b.mem, text, 500) == 0, "the final length may be known");
    is_int(b.cap, 500, "then there is room for just that");
    hf_body_clear(&b);
    ok(append(&b, 500, 100, 65536, 300) && b.len == 500 && memcmp(b.mem, text, 500) == 0, "it may turn out longer than expected");
    hf_body_clear(&b);
    hf_body_clear(&b);
    ok(true, "clearing twice is harmless");
}

static void in_a_file(void)
{
    hf_body b;
    const unsigned before = open_descriptors();

    hf_body_init(&b);
    ok(append(&b, 1000, 100, 1000, 0) && b.fd == -1, "as long as it is not above the limit it is in memory");
    ok(append(&b, 1001, 100, 1000, 0) && b.fd >= 0, "one byte more and it is in a file");
    ok(!b.mem && b.cap == 0, "its memory is given back");
    ok(append(&b, 250000, 65536, 1000, 0) && b.len == 250000 && file_holds(b.fd, 250000), "the file has all bytes");
    is_int(names_in(tmpdir), 0, "and no name");
    ok(fcntl(b.fd, F_GETFD) & FD_CLOEXEC, "programs that the application starts do not inherit it");
    struct stat st;
    ok(fstat(b.fd, &st) == 0 && (st.st_mode & 077) == 0, "nobody else may read it");
    is_int(lseek(b.fd, 0, SEEK_CUR), 250000, "its offset is at its end");
    hf_body_clear(&b);
    is_int(open_descriptors(), before, "clearing the body closes it");

    ok(append(&b, 10, 10, 1000, 5000) && b.fd >= 0 && file_holds(b.fd, 10),
       "a body that will be too large for memory is in a file from its first byte");
    hf_body_clear(&b);
    ok(append(&b, 3, 1, 0, 0) && b.fd >= 0 && file_holds(b.fd, 3), "with no memory allowed each body is in a file");
    const int fd = hf_body_take_fd(&b);
    ok(fd >= 0 && b.fd == -1, "the file can be taken away");
    hf_body_clear(&b);
    ok(file_holds(fd, 3), "and outlives the body");
    close(fd);
    is_int(open_descriptors(), before, "no descriptor is left over");
}

static void borrowed(void)
{
    hf_body b;
    char buffer[100];

    memcpy(buffer, text, sizeof buffer);
    hf_body_init(&b);
    hf_body_borrow(&b, buffer, 50);
    ok(b.mem == buffer && b.len == 50 && b.cap == 0, "borrowed bytes stay where they are");
    hf_body_clear(&b);
    ok(memcmp(buffer, text, sizeof buffer) == 0 && !b.mem, "and are not freed");
    hf_body_borrow(&b, buffer, 50);
    ok(append(&b, 80, 30, 1000, 0) && b.mem != buffer && memcmp(b.mem, text, 80) == 0, "a borrowed body that grows becomes a copy");
    memset(buffer, '!', sizeof buffer);
    ok(memcmp(b.mem, text, 80) == 0, "which no longer depends on the buffer");
    hf_body_clear(&b);
    memcpy(buffer, text, sizeof buffer);
    hf_body_borrow(&b, buffer, 50);
    ok(append(&b, 80, 30, 60, 0) && b.fd >= 0 && file_holds(b.fd, 80), "or a file, when that is too much for memory");
    hf_body_clear(&b);
}

static void failures(void)
{
    hf_body b;
    const unsigned before = open_descriptors();
    char name[2000];

    hf_body_init(&b);
    errno = 0;
    ok(hf_body_append(&b, text, 10, 0, 0, "/nonexistent/folder") == -1 && errno == ENOENT,
       "a folder that does not exist is an error with its reason");
    hf_body_clear(&b);
    memset(name, 'd', sizeof name);
    name[sizeof name - 1] = '\0';
    ok(hf_body_append(&b, text, 10, 0, 0, name) == -1 && errno == ENAMETOOLONG, "so is a name that is too long");
    hf_body_clear(&b);
    ok(append(&b, 10, 10, 100, 0), "after a body in memory");
    ok(hf_body_append(&b, text, 200, 100, 0, "/nonexistent/folder") == -1, "the move to a file may fail");
    ok(b.len == 10 && memcmp(b.mem, text, 10) == 0, "and leaves what was there");
    hf_body_clear(&b);
    is_int(open_descriptors(), before, "no descriptor is left over");
}

int main(void)
{
    strcpy(tmpdir, "/tmp/hydrofoil-test-XXXXXX");
    if (!mkdtemp(tmpdir)) {
        perror(tmpdir);
        return 2;
    }
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7 + i / 256);
    in_memory();
    in_a_file();
    borrowed();
    failures();
    rmdir(tmpdir);
    return done_testing();
}
