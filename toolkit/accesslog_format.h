/* accesslog_format.h - an access log's format as a program, and the lines that it writes.
 *
 * A program is an array of Perl values, so that it is freed, and copied into threads, as any value is: the sub that
 * Apache::LogFormat::Compiler made of the format, a letter for each step, what the steps take, and what local time looks
 * like in the second of the last line. lib/Hydrofoil/Accelerate/AccessLog.pm translates formats into steps.
 */
#ifndef HF_ACC_ACCESSLOG_FORMAT_H
#define HF_ACC_ACCESSLOG_FORMAT_H

#include "contract.h"

#include <time.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* A line to write. All values are borrowed. */
typedef struct hf_log_line {
    SV *env_rv;
    SV *answer;            /* \[status, headers], or NULL if these come apart; a handler of the user gets one made then */
    SV *status, *headers;
    SV *length, *reqtime;  /* of the body, in characters; of the request, in microseconds; NULL: not known */
    time_t time;
    /* while it is written: */
    SV *out;               /* NULL: only to see whether it can be */
    HV *env;
    bool committed;        /* a handler has run: the original may not run it again */
} hf_log_line;

/* The program of (CODE, OPS, HANDLERS, ARGUMENT, ...): a new array, or NULL if the code is not what we know. Dies of
 * handlers that are not in a hash. */
AV *hf_log_program(pTHX_ SV **given, I32 n);

/* The sub that the original made of a program's format. Borrowed. */
SV *hf_log_code(AV *program);

/* The line that a program writes, without its end: a mortal, or NULL if the original has to write it. */
SV *hf_log_write(pTHX_ AV *program, hf_log_line *line);

void hf_log_boot(pTHX);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
