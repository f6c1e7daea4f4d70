/* transport.h - the layer under a connection that moves bytes: a plain socket here, TLS beside it.
 *
 * All calls are non-blocking. They return the number of bytes moved; 0 from read at the end of the stream; -1 with errno
 * set, EAGAIN when nothing can be moved now.
 */
#ifndef HF_TRANSPORT_H
#define HF_TRANSPORT_H

#include "base.h"

#include <sys/types.h>
#include <sys/uio.h>

struct hf_conn;

typedef struct hf_transport {
    const char *scheme; /* "http" or "https" */
    ssize_t (*read)(struct hf_conn *c, char *dst, size_t len);
    /* `more`: something follows at once; the segment may wait for it */
    ssize_t (*write)(struct hf_conn *c, const struct iovec *iov, int n, bool more);
    /* returns 0 with nothing sent when the file ended early */
    ssize_t (*sendfile)(struct hf_conn *c, int fd, int64_t offset, size_t len);
} hf_transport;

extern const hf_transport hf_transport_plain;

#endif
