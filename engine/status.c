#include "status.h"

#include <string.h>

#define STATUS_LIST(X)                        \
    X(100, "Continue")                        \
    X(101, "Switching Protocols")             \
    X(102, "Processing")                      \
    X(103, "Early Hints")                     \
    X(200, "OK")                              \
    X(201, "Created")                         \
    X(202, "Accepted")                        \
    X(203, "Non-Authoritative Information")   \
    X(204, "No Content")                      \
    X(205, "Reset Content")                   \
    X(206, "Partial Content")                 \
    X(207, "Multi-Status")                    \
    X(208, "Already Reported")                \
    X(226, "IM Used")                         \
    X(300, "Multiple Choices")                \
    X(301, "Moved Permanently")               \
    X(302, "Found")                           \
    X(303, "See Other")                       \
    X(304, "Not Modified")                    \
    X(305, "Use Proxy")                       \
    X(307, "Temporary Redirect")              \
    X(308, "Permanent Redirect")              \
    X(400, "Bad Request")                     \
    X(401, "Unauthorized")                    \
    X(402, "Payment Required")                \
    X(403, "Forbidden")                       \
    X(404, "Not Found")                       \
    X(405, "Method Not Allowed")              \
    X(406, "Not Acceptable")                  \
    X(407, "Proxy Authentication Required")   \
    X(408, "Request Timeout")                 \
    X(409, "Conflict")                        \
    X(410, "Gone")                            \
    X(411, "Length Required")                 \
    X(412, "Precondition Failed")             \
    X(413, "Content Too Large")               \
    X(414, "URI Too Long")                    \
    X(415, "Unsupported Media Type")          \
    X(416, "Range Not Satisfiable")           \
    X(417, "Expectation Failed")              \
    X(418, "I'm a teapot")                    \
    X(421, "Misdirected Request")             \
    X(422, "Unprocessable Content")           \
    X(423, "Locked")                          \
    X(424, "Failed Dependency")               \
    X(425, "Too Early")                       \
    X(426, "Upgrade Required")                \
    X(428, "Precondition Required")           \
    X(429, "Too Many Requests")               \
    X(431, "Request Header Fields Too Large") \
    X(451, "Unavailable For Legal Reasons")   \
    X(500, "Internal Server Error")           \
    X(501, "Not Implemented")                 \
    X(502, "Bad Gateway")                     \
    X(503, "Service Unavailable")             \
    X(504, "Gateway Timeout")                 \
    X(505, "HTTP Version Not Supported")      \
    X(506, "Variant Also Negotiates")         \
    X(507, "Insufficient Storage")            \
    X(508, "Loop Detected")                   \
    X(510, "Not Extended")                    \
    X(511, "Network Authentication Required")

enum { FIRST = 100, LAST = 511 };

static const struct {
    const char *reason;
    const char *line; /* of the answer, ready to be copied */
    size_t len;
} statuses[LAST - FIRST + 1] = {
#define X(code, text) [code - FIRST] = {text, "HTTP/1.1 " #code " " text "\r\n", sizeof("HTTP/1.1 " #code " " text "\r\n") - 1},
    STATUS_LIST(X)
#undef X
};

static bool is_registered(int status)
{
    return status >= FIRST && status <= LAST && statuses[status - FIRST].reason;
}

const char *hf_status_reason(int status)
{
    return is_registered(status) ? statuses[status - FIRST].reason : "Unknown";
}

size_t hf_status_line(char *dst, int status)
{
    if (HF_LIKELY(is_registered(status))) {
        memcpy(dst, statuses[status - FIRST].line, statuses[status - FIRST].len);
        return statuses[status - FIRST].len;
    }
    memcpy(dst, "HTTP/1.1 000 Unknown\r\n", 22);
    for (int i = 11; i > 8; i--, status /= 10)
        dst[i] = (char)('0' + status % 10);
    return 22;
}

static void two_digits(char *dst, int n)
{
    dst[0] = (char)('0' + n / 10 % 10);
    dst[1] = (char)('0' + n % 10);
}

void hf_format_date(char *dst, time_t when)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm;
    gmtime_r(&when, &tm);
    memcpy(dst, "Day, 00 Mon 0000 00:00:00 GMT", HF_DATE_LEN);
    memcpy(dst, days + 3 * tm.tm_wday, 3);
    two_digits(dst + 5, tm.tm_mday);
    memcpy(dst + 8, months + 3 * tm.tm_mon, 3);
    two_digits(dst + 12, (tm.tm_year + 1900) / 100);
    two_digits(dst + 14, (tm.tm_year + 1900) % 100);
    two_digits(dst + 17, tm.tm_hour);
    two_digits(dst + 20, tm.tm_min);
    two_digits(dst + 23, tm.tm_sec);
}

size_t hf_format_u64(char *dst, uint64_t n)
{
    char digits[20];
    size_t at = sizeof(digits);
    if (n < 10) {
        dst[0] = (char)('0' + n);
        return 1;
    }
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    memcpy(dst, digits + at, sizeof(digits) - at);
    return sizeof(digits) - at;
}
