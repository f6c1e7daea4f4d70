/* status.h - reason phrases of the registered status codes, and the Date header. */
#ifndef HF_STATUS_H
#define HF_STATUS_H

#include "base.h"
#include <time.h>

/* The reason phrase (RFC 9110 section 15 and the IANA registry), "Unknown" for codes without one. */
const char *hf_status_reason(int status);

/* "HTTP/1.1 NNN Reason\r\n" of a status from 100 to 999 written to dst, which has room for HF_STATUS_LINE_MAX bytes.
 * Returns its length. */
#define HF_STATUS_LINE_MAX 64
size_t hf_status_line(char *dst, int status);

/* An IMF-fixdate (RFC 9110 section 5.6.7), 29 bytes, not terminated. */
#define HF_DATE_LEN 29
void hf_format_date(char *dst, time_t when);

/* Writes a number in decimal, without a terminator; returns the number of digits (at most 20). */
size_t hf_format_u64(char *dst, uint64_t n);

#endif
