/* tap.h - just enough of the Test Anything Protocol for the engine's own tests, which need no Perl.
 *
 * Each assertion prints one line and returns whether it held. End main() with `return done_testing();`. Strings are
 * printed with control characters escaped, so that a request in a message stays on its line.
 */
#ifndef HF_T_TAP_H
#define HF_T_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static unsigned tap_run, tap_failed;

static void tap_print_escaped(const char *s)
{
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c == 0x7f)
            printf("\\x%02x", c);
        else if (c == '#')
            printf("\\#"); /* an unescaped one begins a TAP directive */
        else
            putchar(c);
    }
}

__attribute__((unused, format(printf, 2, 3))) static bool ok(bool held, const char *name, ...)
{
    char text[1024];
    va_list args;

    va_start(args, name);
    vsnprintf(text, sizeof text, name, args);
    va_end(args);
    printf("%sok %u - ", held ? "" : "not ", ++tap_run);
    tap_print_escaped(text);
    putchar('\n');
    if (!held)
        tap_failed++;
    return held;
}

/* A comment line. */
__attribute__((unused, format(printf, 1, 2))) static void diag(const char *text, ...)
{
    char line[2048];
    va_list args;

    va_start(args, text);
    vsnprintf(line, sizeof line, text, args);
    va_end(args);
    printf("# ");
    tap_print_escaped(line);
    putchar('\n');
}

__attribute__((unused)) static bool is_int(long long got, long long want, const char *name)
{
    const bool held = ok(got == want, "%s", name);
    if (!held)
        diag("got %lld, expected %lld", got, want);
    return held;
}

__attribute__((unused)) static bool is_str(const char *got, const char *want, const char *name)
{
    const bool held = ok(strcmp(got, want) == 0, "%s", name);
    if (!held)
        diag("got '%s', expected '%s'", got, want);
    return held;
}

__attribute__((unused)) static int done_testing(void)
{
    printf("1..%u\n", tap_run);
    if (tap_failed)
        diag("%u of %u failed", tap_failed, tap_run);
    return tap_failed != 0;
}

#endif
