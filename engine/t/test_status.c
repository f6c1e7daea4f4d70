/* test_status.c - status lines, dates and numbers. */
#include "status.h"

#include <stdlib.h>

#include "tap.h"

static void status_lines(void)
{
    char line[HF_STATUS_LINE_MAX + 1], want[128];
    bool same = true, fits = true;

    memset(line, '~', sizeof line);
    is_int((long long)hf_status_line(line, 200), 17, "the status line of 200 has 17 bytes");
    ok(memcmp(line, "HTTP/1.1 200 OK\r\n~", 18) == 0, "and reads HTTP/1.1 200 OK");
    for (int status = 100; status <= 999; status++) {
        memset(line, '~', sizeof line);
        const size_t n = hf_status_line(line, status);
        snprintf(want, sizeof want, "HTTP/1.1 %d %s\r\n", status, hf_status_reason(status));
        if (n != strlen(want) || memcmp(line, want, n) != 0) {
            diag("wrong: %d", status);
            same = false;
        }
        fits &= n <= HF_STATUS_LINE_MAX && line[n] == '~';
    }
    ok(same, "every status from 100 to 999 has a line with its number and its reason");
    ok(fits, "no line is longer than is promised, and nothing is written behind it");
}

static void reasons(void)
{
    is_str(hf_status_reason(100), "Continue", "the first registered status");
    is_str(hf_status_reason(413), "Content Too Large", "413 has the name of RFC 9110");
    is_str(hf_status_reason(511), "Network Authentication Required", "the last registered status");
    const int without[] = {-1, 0, 99, 104, 306, 419, 509, 512, 599, 999, 1000, 70000};
    bool unknown = true;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        unknown &= strcmp(hf_status_reason(without[i]), "Unknown") == 0;
    ok(unknown, "a status that is not registered has the reason Unknown");
}

static void is_date(time_t when, const char *want)
{
    char date[HF_DATE_LEN + 2];

    memset(date, '~', sizeof date);
    hf_format_date(date, when);
    const bool ends = date[HF_DATE_LEN] == '~';
    date[HF_DATE_LEN] = '\0';
    is_str(date, want, want);
    if (!ends)
        ok(false, "nothing is written behind the date");
}

static void dates(void)
{
    is_date(0, "Thu, 01 Jan 1970 00:00:00 GMT");
    is_date(784111777, "Sun, 06 Nov 1994 08:49:37 GMT"); /* the example of RFC 9110, section 5.6.7 */
    is_date(946684799, "Fri, 31 Dec 1999 23:59:59 GMT");
    is_date(946684800, "Sat, 01 Jan 2000 00:00:00 GMT");
    is_date(951782400, "Tue, 29 Feb 2000 00:00:00 GMT");
    is_date(1078012800, "Sun, 29 Feb 2004 00:00:00 GMT");
    is_date(1483228799, "Sat, 31 Dec 2016 23:59:59 GMT"); /* before a leap second that POSIX time does not have */
    is_date(2147483647, "Tue, 19 Jan 2038 03:14:07 GMT");
    if (sizeof(time_t) > 4) {
        is_date((time_t)2147483648, "Tue, 19 Jan 2038 03:14:08 GMT");
        is_date((time_t)4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"); /* 2100 is no leap year */
        is_date((time_t)253402300799, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    bool same = true;
    for (time_t when = 1700000000; when < 1700000000 + 366 * 86400; when += 40009) { /* a year, at all times of the day */
        char date[HF_DATE_LEN + 1] = "", want[64];
        struct tm tm;
        gmtime_r(&when, &tm);
        hf_format_date(date, when);
        strftime(want, sizeof want, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        same &= strcmp(date, want) == 0;
    }
    ok(same, "a year of dates is as strftime writes them");
}

static void numbers(void)
{
    char text[32], want[32];
    bool same = true;
    uint64_t n = 1;

    for (int i = 0; i < 20; i++, n *= 10)
        for (int d = -1; d <= 1; d++) {
            memset(text, '~', sizeof text);
            const size_t len = hf_format_u64(text, n + (uint64_t)d);
            snprintf(want, sizeof want, "%llu~", (unsigned long long)(n + (uint64_t)d));
            same &= len == strlen(want) - 1 && memcmp(text, want, len + 1) == 0;
        }
    ok(same, "numbers around the powers of ten are written in decimal");
    memset(text, '~', sizeof text);
    is_int((long long)hf_format_u64(text, UINT64_MAX), 20, "the largest number has 20 digits");
    ok(memcmp(text, "18446744073709551615~", 21) == 0, "and is written whole");
}

int main(void)
{
    status_lines();
    reasons();
    dates();
    numbers();
    return done_testing();
}
