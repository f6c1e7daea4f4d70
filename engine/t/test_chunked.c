/* test_chunked.c - what the decoder of chunked bodies takes and refuses, whole, byte by byte and cut at every place.
 */
#include "chunked.h"

#include "guard.h"
#include "scan.h"
#include "tap.h"

#define MORE HF_CHUNKED_MORE
#define DONE HF_CHUNKED_DONE
#define ERROR HF_CHUNKED_ERROR

#define R(text) text, sizeof(text) - 1

static const struct test_case {
    const char *sentence;
    const char *text;
    size_t len;
    int outcome;
    const char *body; /* what was decoded until then */
    size_t body_len;
    size_t used;      /* DONE: bytes of text that belong to the body; ERROR: it is known after so many, 0: not tested */
} cases[] = {
    {"an empty body is done", R("0\r\n\r\n"), DONE, R(""), 5},
    {"one chunk is decoded", R("5\r\nhello\r\n0\r\n\r\n"), DONE, R("hello"), 15},
    {"several chunks are joined", R("5\r\nhello\r\n1\r\n,\r\n6\r\n world\r\n0\r\n\r\n"), DONE, R("hello, world"), 32},
    {"what follows the body is left alone", R("1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n"), DONE, R("a"), 11},
    {"data may hold any bytes", R("8\r\n\0\r\n0\r\n\r\n\r\n0\r\n\r\n"), DONE, R("\0\r\n0\r\n\r\n"), 18},
    {"sizes are hexadecimal, in lower case", R("a\r\n0123456789\r\n0\r\n\r\n"), DONE, R("0123456789"), 20},
    {"sizes are hexadecimal, in upper case", R("1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n"), DONE, R("abcdefghijklmnopqrstuvwxyz"), 37},
    {"every digit counts", R("9\r\n123456789\r\nF\r\n123456789abcdef\r\nf\r\n123456789abcdef\r\n0\r\n\r\n"), DONE, R("123456789123456789abcdef123456789abcdef"), 59},
    {"a size may have leading zeros", R("0005\r\nhello\r\n000\r\n\r\n"), DONE, R("hello"), 20},
    {"a size of 15 digits is taken", R("000000000000001\r\na\r\n0\r\n\r\n"), DONE, R("a"), 25},
    {"a size of 16 digits is refused", R("0000000000000001\r\na\r\n0\r\n\r\n"), ERROR, R(""), 16},
    {"a size that would overflow is refused", R("10000000000000005\r\nhello"), ERROR, R(""), 16},
    {"the largest size goes on and on", R("fffffffffffffff\r\nabc"), MORE, R("abc"), 0},

    {"nothing is not the end", R(""), MORE, R(""), 0},
    {"half a chunk is handed on at once", R("5\r\nhel"), MORE, R("hel"), 0},
    {"a chunk without the CRLF behind it is handed on", R("5\r\nhello"), MORE, R("hello"), 0},
    {"the last chunk alone is not the end", R("0\r\n"), MORE, R(""), 0},
    {"the last CR is not the end", R("0\r\n\r"), MORE, R(""), 0},

    {"an extension is skipped", R("5;name=value\r\nhello\r\n0;last\r\n\r\n"), DONE, R("hello"), 31},
    {"an extension may be quoted and have white space in it", R("1; a = \"b;c\\\"\td\" \r\nx\r\n0\r\n\r\n"), DONE, R("x"), 27},
    {"an empty extension is skipped", R("1;\r\nx\r\n0;\r\n\r\n"), DONE, R("x"), 13},
    {"digits in an extension are not a part of the size", R("1;5\r\nx\r\n0\r\n\r\n"), DONE, R("x"), 13},
    {"an extension may have bytes above 0x7f", R("1;a=\"\xc3\xa9\"\r\nx\r\n0\r\n\r\n"), DONE, R("x"), 18},
    {"LF in an extension is refused", R("1;a\nx\r\n0\r\n\r\n"), ERROR, R(""), 4},
    {"a bare CR in an extension is refused", R("1;a\rb\r\nx\r\n0\r\n\r\n"), ERROR, R(""), 5},
    {"NUL in an extension is refused", R("1;a\0\r\nx\r\n0\r\n\r\n"), ERROR, R(""), 4},
    {"a control character in an extension is refused", R("1;\x0b\r\nx\r\n0\r\n\r\n"), ERROR, R(""), 3},

    {"a chunk without a size is refused", R("\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 1},
    {"a later chunk without a size is refused", R("5\r\nhello\r\n\r\n0\r\n\r\n"), ERROR, R("hello"), 11},
    {"the characters next to the letters are no digits", R("@\r\n"), ERROR, R(""), 1},
    {"nor is a backtick", R("`\r\n"), ERROR, R(""), 1},
    {"nor is a slash, which comes before 0", R("/\r\n"), ERROR, R(""), 1},
    {"nor is a colon, which comes behind 9", R("1:\r\n"), ERROR, R(""), 2},
    {"a size that is only an extension is refused", R(";a\r\n0\r\n\r\n"), ERROR, R(""), 1},
    {"white space before the size is refused", R(" 5\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 1},
    {"white space behind the size is refused", R("5 \r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 2},
    {"a tab behind the size is refused", R("5\t\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 2},
    {"a sign before the size is refused", R("+5\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 1},
    {"a minus before the size is refused", R("-1\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 1},
    {"0x before the size is refused", R("0x5\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 2},
    {"a letter that is no digit is refused", R("5g\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 2},
    {"an underscore between digits is refused", R("1_0\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 2},
    {"NUL in a size is refused", R("5\0\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 2},
    {"a byte above 0x7f in a size is refused", R("5\xb5\r\nhello\r\n0\r\n\r\n"), ERROR, R(""), 2},
    {"a size line of LF alone is refused", R("5\nhello\r\n0\r\n\r\n"), ERROR, R(""), 2},
    {"a size line of CR alone is refused", R("5\rhello\r\n0\r\n\r\n"), ERROR, R(""), 3},
    {"data longer than the size is refused", R("4\r\nhello\r\n0\r\n\r\n"), ERROR, R("hell"), 8},
    {"data shorter than the size is refused", R("6\r\nhello\r\n0\r\n\r\n"), ERROR, R("hello\r"), 10},
    {"LF alone behind the data is refused", R("5\r\nhello\n0\r\n\r\n"), ERROR, R("hello"), 9},
    {"CR alone behind the data is refused", R("5\r\nhello\r0\r\n\r\n"), ERROR, R("hello"), 10},
    {"a second size before the next data is refused", R("5\r\nhello5\r\nhello\r\n0\r\n\r\n"), ERROR, R("hello"), 9},

    {"a trailer field is skipped", R("0\r\nExpires: never\r\n\r\n"), DONE, R(""), 21},
    {"several trailer fields are skipped", R("1\r\na\r\n0\r\nA: b\r\nC:\r\nD:\te f\t\r\n\r\nGET"), DONE, R("a"), 30},
    {"a length in the trailer changes nothing", R("0\r\nContent-Length: 99\r\n\r\nGET"), DONE, R(""), 25},
    {"a trailer line without a colon is refused", R("0\r\nabc\r\n\r\n"), ERROR, R(""), 7},
    {"a trailer line without a name is refused", R("0\r\n: a\r\n\r\n"), ERROR, R(""), 4},
    {"a space before the colon of a trailer field is refused", R("0\r\nA : b\r\n\r\n"), ERROR, R(""), 5},
    {"a folded trailer field is refused", R("0\r\nA: b\r\n c\r\n\r\n"), ERROR, R(""), 10},
    {"a request line in the place of the trailer is refused", R("0\r\nGET / HTTP/1.1\r\n\r\n"), ERROR, R(""), 7},
    {"LF alone behind a trailer field is refused", R("0\r\nA: b\n\r\n"), ERROR, R(""), 8},
    {"CR alone behind a trailer field is refused", R("0\r\nA: b\rC: d\r\n\r\n"), ERROR, R(""), 9},
    {"NUL in a trailer field is refused", R("0\r\nA: b\0\r\n\r\n"), ERROR, R(""), 8},
    {"LF alone for the last line is refused", R("0\r\n\n"), ERROR, R(""), 4},
    {"CR alone for the last line is refused", R("0\r\n\rG"), ERROR, R(""), 5},
};

static guard guarded;
static char body[GUARD_ROOM];

/* Feeds text in pieces that end at the places of `cuts`, each piece decoded in place, and collects the body. */
static int feed(const char *text, size_t len, const size_t *cuts, size_t n_cuts, size_t *body_len, size_t *used, const char **error)
{
    hf_chunked c;
    int rc = MORE;
    size_t from = 0;

    hf_chunked_init(&c);
    *body_len = *used = 0;
    *error = NULL;
    for (size_t i = 0; i <= n_cuts && rc == MORE; i++) {
        const size_t to = i < n_cuts ? cuts[i] : len;
        size_t written = 0, consumed = 0;
        char *piece = guard_copy(guarded, text + from, to - from);
        rc = hf_chunked_decode(&c, piece, piece, to - from, &written, &consumed);
        if (written > to - from || consumed > to - from || (rc == MORE && consumed != to - from)) {
            *error = "wrote or read more than there is, or less than it should";
            return -2;
        }
        memcpy(body + *body_len, piece, written);
        *body_len += written;
        *used += consumed;
        from = to;
    }
    if (rc == ERROR)
        *error = c.error;

    /* once it has ended, nothing more is read */
    if (rc != MORE) {
        size_t written = 1, consumed = 1;
        if (hf_chunked_decode(&c, body + *body_len, "5\r\nhello", 8, &written, &consumed) != rc || written || consumed) {
            *error = "reads on after the end";
            return -2;
        }
    }
    return rc;
}

static bool as_expected(const struct test_case *t, const char *how, const size_t *cuts, size_t n_cuts)
{
    size_t body_len, used;
    const char *error;
    const int rc = feed(t->text, t->len, cuts, n_cuts, &body_len, &used, &error);

    if (rc == t->outcome && body_len == t->body_len && memcmp(body, t->body, body_len) == 0 && (rc != DONE || used == t->used) &&
        (rc != ERROR || (error && *error)))
        return true;
    diag("%s: got %d (%s), expected %d; body of %zu bytes, expected %zu; used %zu, expected %zu", how, rc, error ? error : "",
         t->outcome, body_len, t->body_len, used, t->used);
    return false;
}

static void check(const char *scanner, const struct test_case *t)
{
    static size_t cuts[1024];
    bool held = as_expected(t, "whole", NULL, 0);

    for (size_t cut = 0; cut <= t->len && held; cut++)
        held = as_expected(t, "cut in two", &cut, 1);
    for (size_t i = 0; i < t->len; i++)
        cuts[i] = i + 1;
    held = held && as_expected(t, "byte by byte", cuts, t->len);

    if (held && t->outcome == ERROR && t->used) {
        size_t body_len, used;
        const char *error;
        held = feed(t->text, t->used - 1, NULL, 0, &body_len, &used, &error) == MORE &&
               feed(t->text, t->used, NULL, 0, &body_len, &used, &error) == ERROR;
        if (!held)
            diag("not known after exactly %zu bytes", t->used);
    }
    ok(held, "%s (%s)", t->sentence, scanner);
}

/* ---- limits, with texts that are built ---- */

static char big[GUARD_ROOM];

static size_t append(size_t at, const char *text)
{
    strcpy(big + at, text);
    return at + strlen(text);
}

static size_t append_many(size_t at, char c, size_t n)
{
    memset(big + at, c, n);
    return at + n;
}

/* The outcome of big[0..len), which must be the same whole and byte by byte. */
static int outcome(size_t len)
{
    static size_t cuts[GUARD_ROOM];
    size_t body_len, used;
    const char *error;
    const int whole = feed(big, len, NULL, 0, &body_len, &used, &error);

    for (size_t i = 0; i < len; i++)
        cuts[i] = i + 1;
    return feed(big, len, cuts, len, &body_len, &used, &error) == whole ? whole : -2;
}

static void check_limits(void)
{
    for (int more = 0; more <= 1; more++) {
        const int want = more ? ERROR : DONE;
        /* the size's digit and the ';' count as well */
        size_t len = append_many(append(0, "1;"), 'e', HF_CHUNKED_MAX_EXTENSION - 2 + (size_t)more);
        len = append(len, "\r\nx\r\n0\r\n\r\n");
        is_int(outcome(len), want, more ? "a size line one byte above the limit is refused" : "a size line of the limit is taken");

        len = append_many(append(0, "0\r\nA:"), 'v', HF_CHUNKED_MAX_TRAILER - 4 + (size_t)more);
        len = append(len, "\r\n\r\n");
        is_int(outcome(len), want, more ? "a trailer one byte above the limit is refused" : "a trailer of the limit is taken");

        len = append(0, "0\r\n");
        for (int i = 0; i < HF_CHUNKED_MAX_TRAILER / 16 + more; i++)
            len = append(len, "Name: 89012345\r\n");
        len = append(len, "\r\n");
        is_int(outcome(len), want, more ? "one trailer field more than fits is refused" : "many trailer fields are taken");
    }

    size_t len = append(0, "");
    for (int i = 0; i < 100; i++)
        len = append(append_many(append(len, "1;"), 'e', 1000), "\r\nx\r\n");
    len = append(len, "0\r\n\r\n");
    is_int(outcome(len), DONE, "the extensions of one chunk do not count for the next");

    len = append_many(append(0, "0\r\n"), 'n', HF_CHUNKED_MAX_TRAILER + 1);
    is_int(outcome(len), ERROR, "a trailer name without end is refused");
}

static void check_apart(void)
{
    const char text[] = "5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\nrest";
    char to[sizeof text];
    hf_chunked c;
    size_t written, consumed;

    hf_chunked_init(&c);
    const int rc = hf_chunked_decode(&c, to, guard_copy(guarded, text, sizeof text - 1), sizeof text - 1, &written, &consumed);
    ok(rc == DONE && written == 8 && memcmp(to, "helloabc", 8) == 0 && consumed == sizeof text - 1 - 4,
       "a body is decoded into another buffer as well");
}

int main(void)
{
    guarded = guard_new();
    for (int level = HF_SCAN_SCALAR; level <= HF_SCAN_AVX2; level++) {
        const hf_scanner *scan = hf_scan_select((enum hf_scan_level)level);
        if ((int)scan->level != level)
            continue;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check(scan->name, &cases[i]);
    }
    check_limits();
    check_apart();
    return done_testing();
}
