/* core_multipart.h - a streaming parser of multipart/form-data bodies (RFC 7578; the syntax is RFC 2046, 5.1). No Perl.
 *
 * It accepts and refuses what HTTP::MultiPartParser 0.02 does when both are fed the same pieces, in the same words: lines
 * end with CRLF only, the boundary has nothing after it in its line, the last one ends with CRLF and nothing follows.
 *
 * A body part is handed on as it comes, so memory is one piece and a boundary's length, whatever the size of the part.
 * Nothing here is global; a parser belongs to one thread at a time.
 */
#ifndef HF_CORE_MULTIPART_H
#define HF_CORE_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#define HF_MULTIPART_MAX_PREAMBLE (32 * 1024) /* bytes before the first boundary, as HTTP::MultiPartParser's default */
#define HF_MULTIPART_MAX_HEADER (32 * 1024)   /* bytes of the header of one part, likewise */

/* What finds out about the parts. Each answers true to go on; false ends the parsing: hf_multipart_failed() is then true
 * and hf_multipart_error() NULL. Neither may feed the parser. The bytes are only there during the call. */
typedef struct hf_multipart_sink {
    /* The header of the next part, with the empty line that ends it. */
    bool (*on_header)(void *user, const char *block, size_t len);
    /* Some more bytes of its body, perhaps none; `final` with the last ones. */
    bool (*on_body)(void *user, const char *bytes, size_t len, bool final);
} hf_multipart_sink;

enum hf_multipart_state {
    HF_MULTIPART_PREAMBLE,
    HF_MULTIPART_BOUNDARY,
    HF_MULTIPART_HEADER,
    HF_MULTIPART_BODY,
    HF_MULTIPART_EPILOGUE
};

typedef struct hf_multipart {
    const hf_multipart_sink *sink;
    void *user;
    char *delimiter;      /* CR LF - - boundary; owned */
    size_t delimiter_len;
    char *buffer;         /* owned; what was not used up yet is in [start, end) */
    size_t start, end, capacity;
    size_t searched;      /* bytes from start on in which what is looked for is known not to begin */
    size_t max_preamble, max_header;
    const char *error;
    enum hf_multipart_state state;
    bool failed;
} hf_multipart;

/* May it be a boundary? HTTP::MultiPartParser's idea of it: characters of RFC 2046 but the space, at least one. */
bool hf_multipart_is_boundary(const char *boundary, size_t len);

/* Begins a body. The boundary is copied. False when there is no memory. `user` is handed to the sink. */
bool hf_multipart_init(hf_multipart *mp, const char *boundary, size_t len, const hf_multipart_sink *sink, void *user);

/* Frees what it holds, not *mp itself. A zeroed one may be freed. */
void hf_multipart_free(hf_multipart *mp);

/* Room for n bytes, to be filled and then given to hf_multipart_commit(). NULL when there is no memory. */
char *hf_multipart_reserve(hf_multipart *mp, size_t n);

/* Parses the n bytes put into what hf_multipart_reserve() gave. `more`: the piece is not whole yet, limits on the
 * preamble and the header are applied when it is. False once the parser has failed; what comes then is ignored. */
bool hf_multipart_commit(hf_multipart *mp, size_t n, bool more);

/* Parses a piece that is elsewhere. */
bool hf_multipart_feed(hf_multipart *mp, const char *bytes, size_t n);

/* The body is over. False if it was not complete. */
bool hf_multipart_finish(hf_multipart *mp);

/* Has it ended early: an error in the body, or the sink's wish? */
static inline bool hf_multipart_failed(const hf_multipart *mp)
{
    return mp->failed;
}

/* What was wrong with the body, a constant; NULL if nothing was. */
static inline const char *hf_multipart_error(const hf_multipart *mp)
{
    return mp->error;
}

/* The first place in [p, p + n) where needle is, or NULL. needle_len is at least 1. */
const char *hf_multipart_find(const char *p, size_t n, const char *needle, size_t needle_len);

#endif
