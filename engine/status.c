#include "status.h"

#include <stdio.h>
#include <string.h>

const char *hf_status_reason(int status)
{
    switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 102: return "Processing";
    case 103: return "Early Hints";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 203: return "Non-Authoritative Information";
    case 204: return "No Content";
    case 205: return "Reset Content";
    case 206: return "Partial Content";
    case 207: return "Multi-Status";
    case 208: return "Already Reported";
    case 226: return "IM Used";
    case 300: return "Multiple Choices";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 305: return "Use Proxy";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 402: return "Payment Required";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 407: return "Proxy Authentication Required";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 418: return "I'm a teapot";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 423: return "Locked";
    case 424: return "Failed Dependency";
    case 425: return "Too Early";
    case 426: return "Upgrade Required";
    case 428: return "Precondition Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 451: return "Unavailable For Legal Reasons";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 506: return "Variant Also Negotiates";
    case 507: return "Insufficient Storage";
    case 508: return "Loop Detected";
    case 510: return "Not Extended";
    case 511: return "Network Authentication Required";
    default: return "Unknown";
    }
}

size_t hf_status_line(char *dst, int status)
{
    if (HF_LIKELY(status == 200)) {
        memcpy(dst, "HTTP/1.1 200 OK\r\n", 17);
        return 17;
    }
    int n = snprintf(dst, HF_STATUS_LINE_MAX, "HTTP/1.1 %03d %s\r\n", status % 1000, hf_status_reason(status));
    return n > 0 ? (size_t)n : 0;
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
