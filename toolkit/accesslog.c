/* accesslog.c - Apache::LogFormat::Compiler and Plack::Middleware::AccessLog in C.
 *
 * The original compiles a format into Perl. Here it becomes a program besides: an array of Perl values, so that it is
 * freed, and copied into threads, as any value is. lib/Hydrofoil/Accelerate/AccessLog.pm translates formats. The sub that
 * runs a program also has the Perl code, and calls it for all that is unusual: values that are missing (it warns), tied,
 * or objects.
 *
 * What local time looks like is worked out once a second. The time zone is asked for when daylight saving begins or ends,
 * and at no other time, as in the original.
 */
#include "methods.h"
#include "util.h"

#include <time.h>

/* The elements of a program. */
enum {
    CODE,       /* the original's sub */
    OPS,        /* a letter for each step */
    CACHE,      /* the original code's own hash: tz_cache, and isdst_cache that it belongs to */
    ZONE,       /* the tz_cache and isdst_cache of TIME */
    ZONE_DST,
    SECOND,     /* that TIME and the results of 'S' steps belong to */
    TIME,       /* "[21/Nov/2026:21:17:39 +0000]" */
    TZ,         /* the environment's when they were made, undef if not set */
    HANDLERS,   /* has it steps that call subs of the user? */
    ARGUMENTS   /* of steps, from here on */
};

/* Steps, and what they take from the arguments. Other letters are those of the format. */
#define STEP_TEXT 'L'    /* text */
#define STEP_CHAR 'X'    /* handlers, letter */
#define STEP_BLOCK 'Y'   /* handlers, letter, what is in braces */
#define STEP_HEADER 'i'  /* key of the environment */
#define STEP_OUTPUT 'o'  /* header name in lower case */
#define STEP_STRFTIME 'S' /* format, result */

enum { REMOTE_ADDR, REMOTE_USER, REQUEST_METHOD, REQUEST_URI, SERVER_PROTOCOL, SERVER_NAME, HTTP_HOST, SERVER_PORT, PATH_INFO,
       QUERY_STRING, N_KEYS };

static struct {
    const char *name;
    I32 len;
    U32 hash;
} keys[N_KEYS] = {
#define KEY(name) {name, sizeof name - 1, 0}
    KEY("REMOTE_ADDR"), KEY("REMOTE_USER"), KEY("REQUEST_METHOD"), KEY("REQUEST_URI"), KEY("SERVER_PROTOCOL"), KEY("SERVER_NAME"),
    KEY("HTTP_HOST"), KEY("SERVER_PORT"), KEY("PATH_INFO"), KEY("QUERY_STRING"),
};

/* A line that is being written. */
typedef struct hf_line {
    SV *out;          /* NULL: only to see whether it can be */
    HV *env;
    SV *env_rv;
    SV *answer;       /* \[status, headers], NULL until a handler wants it */
    SV *status, *headers, *length, *reqtime;
    time_t time;
    bool committed;   /* a handler has run: the original may not run it again */
} hf_line;

static void put(pTHX_ SV *out, const char *bytes, STRLEN len)
{
    STRLEN cur;
    if (!out)
        return;
    if (UNLIKELY(SvUTF8(out))) {
        sv_catsv_nomg(out, sv_2mortal(newSVpvn(bytes, len)));
        return;
    }
    cur = SvCUR(out);
    if (SvLEN(out) < cur + len + 1)
        (void)SvGROW(out, 2 * (cur + len) + 64);
    Copy(bytes, SvPVX(out) + cur, len, char);
    SvCUR_set(out, cur + len);
}

#define PUT(text) put(aTHX_ line->out, text, sizeof text - 1)

PERL_STATIC_INLINE SV *value(pTHX_ hf_line *line, int key)
{
    SV **svp = (SV **)hv_common(line->env, NULL, keys[key].name, (STRLEN)keys[key].len, 0, HV_FETCH_JUST_SV, NULL, keys[key].hash);
    return svp ? *svp : NULL;
}

/* As it is. */
static bool raw(pTHX_ hf_line *line, SV *sv)
{
    if (!sv || !hf_acc_is_plain(sv)) {
        if (!line->committed)
            return false;
        if (sv && SvOK(sv) && line->out)
            sv_catsv(line->out, sv);
        return true;
    }
    if (!line->out)
        return true;
    if (SvPOK(sv) && !SvUTF8(sv))
        put(aTHX_ line->out, SvPVX_const(sv), SvCUR(sv));
    else
        sv_catsv_nomg(line->out, sv);
    return true;
}

/* $value || '-' */
static bool or_dash(pTHX_ hf_line *line, SV *sv)
{
    if (!sv || (!SvOK(sv) && !SvGMAGICAL(sv))) {
        PUT("-");
        return true;
    }
    if (hf_acc_is_plain(sv) && !SvTRUE(sv)) {
        PUT("-");
        return true;
    }
    return raw(aTHX_ line, sv);
}

PERL_STATIC_INLINE bool is_printable(char c)
{
    return (U8)c >= 0x20 && (U8)c < 0x7f;
}

/* With "\xNN" for what is not printable. */
static void escaped(pTHX_ SV *out, const char *p, STRLEN len)
{
    static const char hex[] = "0123456789abcdef";
    const char *end = p + len;
    while (out && p < end) {
        const char *from = p;
        while (p < end && is_printable(*p))
            p++;
        if (p > from)
            put(aTHX_ out, from, (STRLEN)(p - from));
        if (p < end) {
            char code[4] = {'\\', 'x', hex[(U8)*p >> 4], hex[(U8)*p & 15]};
            put(aTHX_ out, code, 4);
            p++;
        }
    }
}

/* What the original's own function makes of wide characters and objects. */
static void by_original(pTHX_ hf_line *line, const char *function, SV *sv)
{
    CV *cv = get_cv(function, 0);
    if (!line->out)
        return;
    if (!cv)
        croak("Undefined subroutine &%s called", function);
    dSP;
    PUSHMARK(SP);
    XPUSHs(sv);
    PUTBACK;
    call_sv((SV *)cv, G_SCALAR);
    SPAGAIN;
    SV *text = POPs;
    PUTBACK;
    sv_catsv(line->out, text);
}

static bool safe(pTHX_ hf_line *line, SV *sv)
{
    STRLEN len;
    const char *p;
    if (!sv || !hf_acc_is_plain(sv)) {
        if (!line->committed)
            return false;
        if (sv && SvOK(sv))
            by_original(aTHX_ line, "Apache::LogFormat::Compiler::_safe", sv);
        return true;
    }
    p = SvPV_const(sv, len);
    if (SvUTF8(sv))
        by_original(aTHX_ line, "Apache::LogFormat::Compiler::_safe", sv);
    else
        escaped(aTHX_ line->out, p, len);
    return true;
}

static bool string(pTHX_ hf_line *line, SV *sv)
{
    STRLEN len;
    const char *p;
    if (!sv || (!SvOK(sv) && !SvGMAGICAL(sv))) {
        PUT("-");
        return true;
    }
    if (!hf_acc_is_plain(sv) || SvUTF8(sv)) {
        by_original(aTHX_ line, "Apache::LogFormat::Compiler::_string", sv);
        return true;
    }
    p = SvPV_const(sv, len);
    if (len)
        escaped(aTHX_ line->out, p, len);
    else
        PUT("-");
    return true;
}

/* --- time --- */

/* POSIX::strftime::Compiler::strftime(FORMAT, @lt) */
static SV *strftime_of(pTHX_ SV *format, const struct tm *tm)
{
    int parts[9] = {tm->tm_sec, tm->tm_min, tm->tm_hour, tm->tm_mday, tm->tm_mon, tm->tm_year, tm->tm_wday, tm->tm_yday, tm->tm_isdst};
    CV *cv = get_cv("POSIX::strftime::Compiler::strftime", 0);
    dSP;
    if (!cv)
        croak("Undefined subroutine &POSIX::strftime::Compiler::strftime called");
    PUSHMARK(SP);
    EXTEND(SP, 10);
    PUSHs(format);
    for (int i = 0; i < 9; i++)
        mPUSHi(parts[i]);
    PUTBACK;
    call_sv((SV *)cv, G_SCALAR);
    SPAGAIN;
    SV *text = POPs;
    PUTBACK;
    return text;
}

/* Brings TIME up to date; local time of the second if anything has to be made anew. */
static hf_word tz_cache = {"tz_cache", 8, 0}, isdst_cache = {"isdst_cache", 11, 0};

static void tell_time(pTHX_ SV **program, time_t second)
{
    static const char month[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const char *tz = getenv("TZ");
    HV *cache = (HV *)SvRV(program[CACHE]);
    SV *zone = hf_word_fetch(aTHX_ cache, &tz_cache);
    SV *dst = hf_word_fetch(aTHX_ cache, &isdst_cache);
    struct tm tm;
    char text[64];

    if (LIKELY(SvIOK(program[SECOND]) && SvIVX(program[SECOND]) == (IV)second
               && (tz ? SvPOK(program[TZ]) && strEQ(SvPVX_const(program[TZ]), tz) : !SvOK(program[TZ]))
               && zone && dst && sv_eq(zone, program[ZONE]) && SvIV(dst) == SvIV(program[ZONE_DST])))
        return;

    tzset();
    localtime_r(&second, &tm);
    if (!zone || !dst || SvIV(dst) != tm.tm_isdst) {
        SV *format = sv_2mortal(newSVpvs("%z"));
        SV *now = strftime_of(aTHX_ format, &tm);
        zone = *hv_fetchs(cache, "tz_cache", 1);
        hf_assign(aTHX_ zone, now);
        sv_setiv(*hv_fetchs(cache, "isdst_cache", 1), tm.tm_isdst);
    }
    hf_assign(aTHX_ program[ZONE], zone);
    sv_setiv(program[ZONE_DST], tm.tm_isdst);
    my_snprintf(text, sizeof text, "[%02d/%s/%04d:%02d:%02d:%02d ", tm.tm_mday, month[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour,
                tm.tm_min, tm.tm_sec);
    sv_setpv(program[TIME], text);
    sv_catsv(program[TIME], program[ZONE]);
    sv_catpvs(program[TIME], "]");

    SV **argument = program + ARGUMENTS;
    STRLEN n;
    const char *ops = SvPV_const(program[OPS], n);
    for (STRLEN i = 0; i < n; i++) {
        switch (ops[i]) {
        case STEP_STRFTIME:
            (void)SvOK_off(argument[1]);
            argument += 2;
            break;
        case STEP_CHAR:
            argument += 2;
            break;
        case STEP_BLOCK:
            argument += 3;
            break;
        case STEP_TEXT:
        case STEP_HEADER:
        case STEP_OUTPUT:
            argument++;
            break;
        default:
            break;
        }
    }
    sv_setiv(program[SECOND], (IV)second);
    if (tz)
        sv_setpv(program[TZ], tz);
    else
        (void)SvOK_off(program[TZ]);
}

static void put_strftime(pTHX_ hf_line *line, SV **argument)
{
    if (!line->out)
        return;
    if (!SvOK(argument[1])) {
        struct tm tm;
        localtime_r(&line->time, &tm);
        SV *text = strftime_of(aTHX_ argument[0], &tm);
        sv_setpvs(argument[1], "[");
        sv_catsv(argument[1], text);
        sv_catpvs(argument[1], "]");
    }
    (void)raw(aTHX_ line, argument[1]);
}

/* --- steps --- */

/* The first value of a response header. False if the original has to look. */
static bool output_header(pTHX_ hf_line *line, SV *name)
{
    AV *av = SvROK(line->headers) ? (AV *)SvRV(line->headers) : NULL;
    if (!av || SvTYPE(av) != SVt_PVAV || SvOBJECT(av) || SvRMAGICAL(av))
        return line->committed;
    for (SSize_t i = 0; i <= AvFILLp(av); i += 2) {
        SV *one = AvARRAY(av)[i];
        if (!one || (SvFLAGS(one) & (SVf_POK | SVf_ROK | SVs_GMG | SVf_UTF8)) != SVf_POK)
            return line->committed;
        if (SvCUR(one) == SvCUR(name) && foldEQ(SvPVX_const(one), SvPVX_const(name), (I32)SvCUR(name)))
            return string(aTHX_ line, i < AvFILLp(av) ? AvARRAY(av)[i + 1] : NULL);
    }
    return string(aTHX_ line, NULL);
}

/* Status and headers of the answer, for as long as the line is written. False if it is none. */
static bool take_answer(pTHX_ hf_line *line)
{
    AV *answer = SvROK(line->answer) && !SvGMAGICAL(line->answer) ? (AV *)SvRV(line->answer) : NULL;
    if (!answer || SvTYPE(answer) != SVt_PVAV || SvRMAGICAL(answer) || SvOBJECT(answer))
        return false;
    line->status = AvFILLp(answer) >= 0 && AvARRAY(answer)[0] ? AvARRAY(answer)[0] : &PL_sv_undef;
    line->headers = AvFILLp(answer) >= 1 && AvARRAY(answer)[1] ? AvARRAY(answer)[1] : &PL_sv_undef;
    if (line->committed) {
        (void)sv_2mortal(SvREFCNT_inc_simple_NN(line->status));
        (void)sv_2mortal(SvREFCNT_inc_simple_NN(line->headers));
    }
    return true;
}

/* A handler of the user: handlers->{letter}->([block], env, answer, length, reqtime). */
static bool handled(pTHX_ hf_line *line, SV *handlers, SV *letter, SV *block)
{
    HV *hv = (HV *)SvRV(handlers);
    HE *he = hv_fetch_ent(hv, letter, 0, 0);
    SV *code = he ? HeVAL(he) : NULL;
    if (!code || !SvROK(code) || SvTYPE(SvRV(code)) != SVt_PVCV) {
        if (line->committed)
            croak("Not a CODE reference");
        return false;
    }
    if (!line->out)
        return true;
    if (!line->answer) {
        AV *av = newAV();
        line->answer = sv_2mortal(newRV_noinc((SV *)av));
        av_push(av, hf_new_copy(aTHX_ line->status));
        av_push(av, hf_new_copy(aTHX_ line->headers));
    }
    line->committed = true;
    dSP;
    PUSHMARK(SP);
    EXTEND(SP, 5);
    if (block)
        PUSHs(block);
    PUSHs(line->env_rv);
    PUSHs(line->answer);
    PUSHs(line->length ? line->length : sv_newmortal());
    PUSHs(line->reqtime ? line->reqtime : sv_newmortal());
    PUTBACK;
    I32 n = call_sv(code, G_LIST);
    SPAGAIN;
    SV *result = n > 0 ? SP[1 - n] : NULL;
    SP -= n;
    PUTBACK;
    take_answer(aTHX_ line); /* it may have been changed */
    return string(aTHX_ line, result);
}

/* Runs all steps. False if the original has to write this line. */
static bool run(pTHX_ hf_line *line, SV **program)
{
    SV **argument = program + ARGUMENTS;
    STRLEN n;
    const char *ops = SvPV_const(program[OPS], n);

    for (STRLEN i = 0; i < n; i++) {
        bool ok = true;
        SV *sv;
        switch (ops[i]) {
        case STEP_TEXT:
            ok = raw(aTHX_ line, *argument++);
            break;
        case 'h':
            ok = or_dash(aTHX_ line, value(aTHX_ line, REMOTE_ADDR));
            break;
        case 'u':
            ok = or_dash(aTHX_ line, value(aTHX_ line, REMOTE_USER));
            break;
        case 't':
            ok = raw(aTHX_ line, program[TIME]);
            break;
        case 'r':
            ok = safe(aTHX_ line, value(aTHX_ line, REQUEST_METHOD));
            PUT(" ");
            ok = ok && safe(aTHX_ line, value(aTHX_ line, REQUEST_URI));
            PUT(" ");
            ok = ok && raw(aTHX_ line, value(aTHX_ line, SERVER_PROTOCOL));
            break;
        case 's':
            ok = raw(aTHX_ line, line->status);
            break;
        case 'b':
            if (line->length && SvOK(line->length))
                ok = raw(aTHX_ line, line->length);
            else
                PUT("-");
            break;
        case 'T':
            if (!line->reqtime || !SvOK(line->reqtime))
                PUT("-");
            else if (!hf_acc_is_plain(line->reqtime) || !(SvIOK(line->reqtime) || SvNOK(line->reqtime)))
                ok = false;
            else {
                NV seconds = SvNV(line->reqtime) / 1000000;
                if (!(seconds > -1e15 && seconds < 1e15))
                    ok = false;
                else {
                    char text[32];
                    put(aTHX_ line->out, text, (STRLEN)my_snprintf(text, sizeof text, "%" IVdf, (IV)seconds));
                }
            }
            break;
        case 'D':
            if (line->reqtime && SvOK(line->reqtime))
                ok = raw(aTHX_ line, line->reqtime);
            else
                PUT("-");
            break;
        case 'v':
            ok = or_dash(aTHX_ line, value(aTHX_ line, SERVER_NAME));
            break;
        case 'V':
            sv = value(aTHX_ line, HTTP_HOST);
            if (sv && SvOK(sv) && !hf_acc_is_plain(sv))
                ok = raw(aTHX_ line, sv);
            else
                ok = or_dash(aTHX_ line, sv && SvTRUE(sv) ? sv : value(aTHX_ line, SERVER_NAME));
            break;
        case 'p':
            ok = raw(aTHX_ line, value(aTHX_ line, SERVER_PORT));
            break;
        case 'P':
            sv = get_sv("$", 0);
            SvGETMAGIC(sv);
            if (line->out)
                sv_catsv_nomg(line->out, sv);
            break;
        case 'm':
            ok = safe(aTHX_ line, value(aTHX_ line, REQUEST_METHOD));
            break;
        case 'U':
            ok = safe(aTHX_ line, value(aTHX_ line, PATH_INFO));
            break;
        case 'q':
            sv = value(aTHX_ line, QUERY_STRING);
            if (!sv || !hf_acc_is_plain(sv))
                ok = line->committed;
            else if (!SvPOK(sv) || SvCUR(sv)) {
                PUT("?");
                ok = safe(aTHX_ line, sv);
            }
            break;
        case 'H':
            ok = raw(aTHX_ line, value(aTHX_ line, SERVER_PROTOCOL));
            break;
        case STEP_HEADER: {
            HE *he = hv_fetch_ent(line->env, *argument, 0, SvSHARED_HASH(*argument));
            argument++;
            ok = string(aTHX_ line, he ? HeVAL(he) : NULL);
            break;
        }
        case STEP_OUTPUT:
            ok = output_header(aTHX_ line, *argument++);
            break;
        case STEP_STRFTIME:
            put_strftime(aTHX_ line, argument);
            argument += 2;
            break;
        case STEP_CHAR:
            ok = handled(aTHX_ line, argument[0], argument[1], NULL);
            argument += 2;
            break;
        case STEP_BLOCK:
            ok = handled(aTHX_ line, argument[0], argument[1], argument[2]);
            argument += 3;
            break;
        default:
            return false;
        }
        if (!ok)
            return false;
    }
    return true;
}

/* The line that a program writes, without its end: a mortal, or NULL if the original has to write it. Status and headers
 * may come as one reference (`answer`), or apart. */
static SV *write_line(pTHX_ AV *av, hf_line *line)
{
    SV **program = AvARRAY(av);

    if (line->time < 0 || line->time > 0x7fffffff) /* where Perl and the C library agree on local time */
        return NULL;
    (void)sv_2mortal(SvREFCNT_inc_simple_NN((SV *)av));
    tell_time(aTHX_ program, line->time); /* first: the original asks for the time zone in any case */
    if (!SvROK(line->env_rv) || SvGMAGICAL(line->env_rv) || SvTYPE(SvRV(line->env_rv)) != SVt_PVHV || SvRMAGICAL(SvRV(line->env_rv))
        || (SvOBJECT(SvRV(line->env_rv)) && SvAMAGIC(line->env_rv)))
        return NULL;
    line->env = (HV *)SvRV(line->env_rv);
    if (line->answer && !take_answer(aTHX_ line))
        return NULL;
    line->committed = false;
    line->out = NULL;
    if (SvTRUE(program[HANDLERS])) {
        if (!run(aTHX_ line, program))
            return NULL;
        (void)sv_2mortal(SvREFCNT_inc_simple_NN(line->status)); /* handlers may change the answer */
        (void)sv_2mortal(SvREFCNT_inc_simple_NN(line->headers));
    }
    line->out = sv_2mortal(newSV(256));
    SvPOK_only(line->out);
    SvCUR_set(line->out, 0);
    if (!run(aTHX_ line, program))
        return NULL;
    *SvEND(line->out) = 0;
    return line->out;
}

/* --- the sub that stands for a compiled format: (env, answer, length, reqtime, time) --- */

/* Fills a line from the arguments of the original's code. False if it has to be the original. */
static bool line_of(pTHX_ hf_line *line, SV **argument, I32 items)
{
    Zero(line, 1, hf_line);
    if (items < 2 || items > 5)
        return false;
    line->env_rv = argument[0];
    line->answer = argument[1];
    line->length = items > 2 ? argument[2] : NULL;
    line->reqtime = items > 3 ? argument[3] : NULL;
    if (items < 5) {
        line->time = time(NULL);
        return true;
    }
    if (!hf_acc_is_plain(argument[4]) || !looks_like_number(argument[4])) /* undef is replaced by the time, in place */
        return false;
    NV seconds = SvNV(argument[4]);
    line->time = seconds >= 0 && seconds <= 0x7fffffff ? (time_t)seconds : -1;
    return true;
}

static AV *program_of(pTHX_ CV *cv)
{
    SV *kept = hf_closed(aTHX_ cv);
    return kept && SvTYPE(kept) == SVt_PVAV ? (AV *)kept : NULL;
}

static XS(accesslog_code)
{
    dXSARGS;
    AV *program = program_of(aTHX_ cv);
    hf_line line;
    SV *text;
    if (!program)
        croak("Not a compiled format");
    if (line_of(aTHX_ &line, &ST(0), items) && (text = write_line(aTHX_ program, &line))) {
        ST(0) = text;
        XSRETURN(1);
    }
    SV *code = AvARRAY(program)[CODE];
    PL_stack_sp = PL_stack_base + ax + items - 1;
    PUSHMARK(PL_stack_base + ax - 1);
    call_sv(code, GIMME_V);
}

/* The program of an Apache::LogFormat::Compiler object, NULL if it has none. */
static AV *program_of_compiler(pTHX_ SV *self)
{
    AV *av = SvROK(self) && SvTYPE(SvRV(self)) == SVt_PVAV && !SvRMAGICAL(SvRV(self)) ? (AV *)SvRV(self) : NULL;
    SV *code = av && AvFILLp(av) >= 0 ? AvARRAY(av)[0] : NULL;
    if (!code || !SvROK(code) || SvTYPE(SvRV(code)) != SVt_PVCV || CvXSUB((CV *)SvRV(code)) != accesslog_code)
        return NULL;
    return program_of(aTHX_ (CV *)SvRV(code));
}

static void end_line(pTHX_ SV *text)
{
    sv_catpvs_nomg(text, "\n");
}

static XS(compiler_log_line)
{
    dXSARGS;
    AV *program = items >= 1 ? program_of_compiler(aTHX_ ST(0)) : NULL;
    hf_line line;
    SV *text;
    if (program && line_of(aTHX_ &line, &ST(1), items - 1) && (text = write_line(aTHX_ program, &line))) {
        end_line(aTHX_ text);
        ST(0) = text;
        XSRETURN(1);
    }
    hf_acc_original(aTHX_ "Apache::LogFormat::Compiler::log_line", ax, items);
}

static const hf_term compiler_terms[] = {
    {"log_line", compiler_log_line, -1},
    {NULL, NULL, 0}
};

/* compile(FORMAT, block handlers, character handlers): the original's code, and a program around it. An XSUB, for the
 * original's complaints to name the line that they name. */
static XS(compiler_compile)
{
    dXSARGS;
    CV *original = hf_acc_original_cv(aTHX_ "Apache::LogFormat::Compiler::compile");
    CV *translate = get_cv("Hydrofoil::Accelerate::AccessLog::translate", 0);
    AV *arguments = (AV *)sv_2mortal((SV *)newAV());
    if (!original || !translate || items != 3) {
        hf_acc_original(aTHX_ "Apache::LogFormat::Compiler::compile", ax, items);
        return;
    }
    for (I32 i = 0; i < items; i++)
        av_push(arguments, hf_new_copy(aTHX_ ST(i)));

    PUSHMARK(PL_stack_base + ax - 1);
    PL_stack_sp = PL_stack_base + ax + items - 1;
    I32 n = call_sv((SV *)original, G_LIST);
    SPAGAIN;
    if (n != 2)
        croak("Apache::LogFormat::Compiler::compile gives something else");
    SV *text = hf_mortal_copy(aTHX_ POPs);
    SV *code = hf_mortal_copy(aTHX_ POPs);

    PUSHMARK(SP);
    EXTEND(SP, 4);
    PUSHs(code);
    for (I32 i = 0; i < 3; i++)
        PUSHs(AvARRAY(arguments)[i]);
    PUTBACK;
    call_sv((SV *)translate, G_SCALAR);
    SPAGAIN;
    SV *fast = hf_mortal_copy(aTHX_ POPs);
    SP = PL_stack_base + ax - 1;
    EXTEND(SP, 2);
    PUSHs(fast);
    if (GIMME_V == G_LIST)
        PUSHs(text);
    PUTBACK;
}

/* program(CODE, OPS, HANDLERS, ARGUMENT, ...): a sub that runs it. */
static XS(accesslog_program)
{
    dXSARGS;
    if (items < 3)
        croak("Usage: program(code, ops, has_handlers, argument, ...)");
    AV *av = newAV();
    SV *kept = sv_2mortal((SV *)av);
    STRLEN n;
    SV *cache = SvROK(ST(0)) && SvTYPE(SvRV(ST(0))) == SVt_PVCV ? hf_closed_over(aTHX_ (CV *)SvRV(ST(0)), "$c") : NULL;
    if (!cache || !SvROK(cache) || SvTYPE(SvRV(cache)) != SVt_PVHV)
        XSRETURN(1); /* the code is not what we know: it stays */
    av_push(av, hf_new_copy(aTHX_ ST(0)));
    av_push(av, hf_new_copy(aTHX_ ST(1)));
    av_push(av, hf_new_copy(aTHX_ cache));
    for (int i = ZONE; i < HANDLERS; i++)
        av_push(av, newSV(0));
    av_push(av, hf_new_copy(aTHX_ ST(2)));
    const char *ops = SvPV_const(AvARRAY(av)[OPS], n);
    I32 at = 3;
    for (STRLEN i = 0; i < n; i++) {
        int arguments = 0;
        switch (ops[i]) {
        case STEP_TEXT:
        case STEP_OUTPUT:
        case STEP_HEADER:
            arguments = 1;
            break;
        case STEP_CHAR:
        case STEP_STRFTIME:
            arguments = 2;
            break;
        case STEP_BLOCK:
            arguments = 3;
            break;
        default:
            break;
        }
        for (int j = 0; j < arguments; j++, at++) {
            SV *argument = at < items ? ST(at) : &PL_sv_undef;
            STRLEN len;
            const char *p;
            if (ops[i] == STEP_HEADER) {
                p = SvPV_const(argument, len);
                av_push(av, newSVpvn_share(p, SvUTF8(argument) ? -(I32)len : (I32)len, 0));
                continue;
            }
            if ((ops[i] == STEP_CHAR || ops[i] == STEP_BLOCK) && j == 0
                && (!SvROK(argument) || SvTYPE(SvRV(argument)) != SVt_PVHV))
                croak("Handlers have to be in a hash");
            av_push(av, hf_new_copy(aTHX_ argument));
        }
    }
    ST(0) = sv_2mortal(hf_closure(aTHX_ accesslog_code, kept, 0));
    XSRETURN(1);
}

/* --- Plack::Middleware::AccessLog --- */

enum { LOGGER, FORMAT, COMPILED_FORMAT, CHAR_HANDLERS, BLOCK_HANDLERS, APP, N_FIELDS };
static struct {
    hf_word name;
    const char *original;
} fields[N_FIELDS] = {
#define FIELD(package, name) {{name, sizeof name - 1, 0}, package "::" name}
    FIELD("Plack::Middleware::AccessLog", "logger"),        FIELD("Plack::Middleware::AccessLog", "format"),
    FIELD("Plack::Middleware::AccessLog", "compiled_format"), FIELD("Plack::Middleware::AccessLog", "char_handlers"),
    FIELD("Plack::Middleware::AccessLog", "block_handlers"), FIELD("Plack::Middleware", "app"),
};

/* An accessor of Plack::Util::Accessor. */
static XS(middleware_accessor)
{
    dXSARGS;
    dXSI32;
    HV *hv = items >= 1 && SvROK(ST(0)) && SvTYPE(SvRV(ST(0))) == SVt_PVHV ? (HV *)SvRV(ST(0)) : NULL;
    if (!hv || SvGMAGICAL(ST(0)) || SvRMAGICAL(hv) || SvREADONLY(hv) || items > 2) {
        hf_acc_original(aTHX_ fields[ix].original, ax, items);
        return;
    }
    SV **svp = hv_fetch(hv, fields[ix].name.name, fields[ix].name.len, items == 2);
    if (items == 2) {
        hf_assign(aTHX_ *svp, ST(1));
        if (GIMME_V == G_VOID)
            XSRETURN(0);
    }
    ST(0) = svp ? hf_mortal_copy(aTHX_ *svp) : &PL_sv_undef;
    XSRETURN(1);
}

static XS(middleware_log_line);
static XS(middleware_call);

static const hf_term middleware_terms[] = {
    {"app", middleware_accessor, APP},
    {"logger", middleware_accessor, LOGGER},
    {"compiled_format", middleware_accessor, COMPILED_FORMAT},
    {"log_line", middleware_log_line, -1},
    {NULL, NULL, 0}
};

PERL_STATIC_INLINE SV *field(pTHX_ HV *hv, int which)
{
    SV *sv = hf_word_fetch(aTHX_ hv, &fields[which].name);
    return sv ? sv : &PL_sv_undef;
}

/* The program of the middleware's format, if nothing would notice that no method is called to run it. */
static AV *program_of_middleware(pTHX_ HV *hv)
{
    SV *compiler = field(aTHX_ hv, COMPILED_FORMAT);
    if (!SvROK(compiler) || !SvOBJECT(SvRV(compiler)) || !hf_class_keeps(aTHX_ SvSTASH(SvRV(compiler)), compiler_terms))
        return NULL;
    return program_of_compiler(aTHX_ compiler);
}

PERL_STATIC_INLINE bool is_sub(SV *code)
{
    return SvROK(code) && SvTYPE(SvRV(code)) == SVt_PVCV && (CvROOT((CV *)SvRV(code)) || CvXSUB((CV *)SvRV(code)));
}

/* The same for a format that was compiled before this was loaded, as under plackup: it is compiled again, once. */
static AV *adopted_program(pTHX_ SV *self, HV *hv)
{
    static const MGVTBL adopted;
    SV *compiler = field(aTHX_ hv, COMPILED_FORMAT);
    AV *av = SvROK(compiler) && SvTYPE(SvRV(compiler)) == SVt_PVAV && !SvRMAGICAL(SvRV(compiler)) ? (AV *)SvRV(compiler) : NULL;
    SV *code = av && AvFILLp(av) >= 0 ? AvARRAY(av)[0] : NULL;
    CV *adopt = get_cv("Hydrofoil::Accelerate::AccessLog::adopt", 0);
    if (!adopt || !code || !is_sub(code) || mg_findext(SvRV(code), PERL_MAGIC_ext, &adopted))
        return NULL;
    sv_magicext(SvRV(code), NULL, PERL_MAGIC_ext, &adopted, NULL, 0);

    dSP;
    PUSHMARK(SP);
    XPUSHs(self);
    PUTBACK;
    call_sv((SV *)adopt, G_VOID | G_DISCARD);
    return program_of_middleware(aTHX_ hv);
}

/* log_line(status, headers, env, { content_length, time }) */
static XS(middleware_log_line)
{
    dXSARGS;
    HV *hv = items == 5 ? hf_object_keeping(aTHX_ ST(0), middleware_terms) : NULL;
    AV *program = hv ? program_of_middleware(aTHX_ hv) : NULL;
    HV *options = program && SvROK(ST(4)) && SvTYPE(SvRV(ST(4))) == SVt_PVHV && !SvRMAGICAL(SvRV(ST(4))) ? (HV *)SvRV(ST(4)) : NULL;
    if (options && !SvGMAGICAL(ST(1)) && !SvGMAGICAL(ST(2))) {
        hf_line line;
        SV **svp, *text;
        Zero(&line, 1, hf_line);
        line.status = ST(1);
        line.headers = ST(2);
        line.env_rv = ST(3);
        svp = hv_fetchs(options, "content_length", 0);
        line.length = svp ? *svp : NULL;
        svp = hv_fetchs(options, "time", 0);
        line.reqtime = svp ? *svp : NULL;
        line.time = time(NULL);
        if ((text = write_line(aTHX_ program, &line))) {
            end_line(aTHX_ text);
            ST(0) = text;
            XSRETURN(1);
        }
    }
    hf_acc_original(aTHX_ "Plack::Middleware::AccessLog::log_line", ax, items);
}

/* Calls that may leave temporaries behind go without a scope of their own: what they return is wanted. */
static SV *call_scalar(pTHX_ SV *code, SV *argument)
{
    dSP;
    PUSHMARK(SP);
    XPUSHs(argument);
    PUTBACK;
    call_sv(code, G_SCALAR);
    SPAGAIN;
    SV *result = POPs;
    PUTBACK;
    return result;
}

/* Can a line be printed to it: a handle, or an object that has the method? */
static bool is_printable_to(pTHX_ SV *to)
{
    if (!to || !SvROK(to) || SvGMAGICAL(to))
        return false;
    if (SvOBJECT(SvRV(to)))
        return gv_fetchmeth_pvn(SvSTASH(SvRV(to)), "print", 5, 0, 0) != NULL;
    return SvTYPE(SvRV(to)) == SVt_PVGV && GvIOp((GV *)SvRV(to));
}

/* After the application: what `call` does with its answer, in Perl. */
static SV *finish_in_perl(pTHX_ SV *self, SV *env, SV *answer)
{
    CV *cv = get_cv("Hydrofoil::Accelerate::AccessLog::finish", 0);
    if (!cv)
        croak("Hydrofoil::Accelerate::AccessLog is not loaded");
    dSP;
    PUSHMARK(SP);
    EXTEND(SP, 3);
    PUSHs(self);
    PUSHs(env);
    PUSHs(answer);
    PUTBACK;
    call_sv((SV *)cv, G_SCALAR);
    SPAGAIN;
    SV *result = POPs;
    PUTBACK;
    return result;
}

#define MY_CXT_KEY "Hydrofoil::Accelerate::AccessLog" XS_VERSION
typedef struct {
    PerlInterpreter *owner;
    GV *content_length; /* where the original's code finds Plack::Util::content_length: its place, bound once as there */
} my_cxt_t;
START_MY_CXT

static GV *content_length_gv(pTHX)
{
    dMY_CXT;
    my_cxt_t *c = &MY_CXT;
#ifdef USE_ITHREADS
    if (UNLIKELY(c->owner != aTHX)) { /* a thread that was cloned from another's */
        MY_CXT_CLONE;
        c = &MY_CXT;
        c->owner = aTHX;
        c->content_length = NULL;
    }
#endif
    if (UNLIKELY(!c->content_length))
        c->content_length = (GV *)SvREFCNT_inc(gv_fetchpvs("Plack::Util::content_length", 0, SVt_PVCV));
    return c->content_length;
}

static XS(middleware_call)
{
    dXSARGS;
    HV *hv = items >= 2 ? hf_object_keeping(aTHX_ ST(0), middleware_terms) : NULL;
    SV *app = hv ? field(aTHX_ hv, APP) : NULL;
    if (!app || !is_sub(app) || SvGMAGICAL(ST(1))) {
        hf_acc_original(aTHX_ "Plack::Middleware::AccessLog::call", ax, items);
        return;
    }
    SV *self = hf_mortal_copy(aTHX_ ST(0));
    SV *env = hf_mortal_copy(aTHX_ ST(1));
    SV *answer = call_scalar(aTHX_ hf_mortal_copy(aTHX_ app), env);
    if (!SvTEMP(answer))
        answer = hf_mortal_copy(aTHX_ answer);

    /* The application may have changed anything. */
    hv = hf_object_keeping(aTHX_ self, middleware_terms);
    AV *program = hv ? program_of_middleware(aTHX_ hv) : NULL;
    if (hv && !program)
        program = adopted_program(aTHX_ self, hv);
    SV *logger = program ? field(aTHX_ hv, LOGGER) : NULL;
    GV *length_gv = content_length_gv(aTHX);
    AV *av = SvROK(answer) && SvTYPE(SvRV(answer)) == SVt_PVAV && !SvOBJECT(SvRV(answer)) && !SvRMAGICAL(SvRV(answer)) ? (AV *)SvRV(answer) : NULL;
    UV length = 0;
    SV *text = NULL, **errors = NULL;
    bool writable = logger && is_sub(logger);
    if (logger && !writable && !SvROK(logger) && !SvTRUE(logger) && SvROK(env) && SvTYPE(SvRV(env)) == SVt_PVHV
        && !SvRMAGICAL(SvRV(env))) {
        errors = hv_fetchs((HV *)SvRV(env), "psgi.errors", 0);
        writable = errors && is_printable_to(aTHX_ *errors);
    }
    if (av && writable && AvFILLp(av) >= 2 && AvARRAY(av)[0] && AvARRAY(av)[1] && AvARRAY(av)[2]
        && hf_function_is(length_gv, hf_util_content_length) && hf_util_sum(aTHX_ AvARRAY(av)[2], &length)) {
        hf_line line;
        Zero(&line, 1, hf_line);
        line.env_rv = env;
        line.status = AvARRAY(av)[0];
        line.headers = AvARRAY(av)[1];
        line.length = sv_2mortal(newSVuv(length));
        line.time = time(NULL);
        if (!SvGMAGICAL(line.status) && !SvGMAGICAL(line.headers))
            text = write_line(aTHX_ program, &line);
    }
    if (!text) {
        ST(0) = finish_in_perl(aTHX_ self, env, answer);
        XSRETURN(1);
    }
    end_line(aTHX_ text);

    SPAGAIN;
    if (SvROK(logger)) {
        logger = hf_mortal_copy(aTHX_ logger);
        PUSHMARK(SP);
        XPUSHs(text);
        PUTBACK;
        call_sv(logger, G_VOID | G_DISCARD);
    }
    else {
        PUSHMARK(SP);
        EXTEND(SP, 2);
        PUSHs(hf_mortal_copy(aTHX_ *errors));
        PUSHs(text);
        PUTBACK;
        call_method("print", G_VOID | G_DISCARD);
    }
    ST(0) = answer;
    XSRETURN(1);
}

void hf_acc_boot_accesslog(pTHX)
{
    for (int i = 0; i < N_KEYS; i++)
        PERL_HASH(keys[i].hash, keys[i].name, (STRLEN)keys[i].len);
    (void)hf_acc_sub(aTHX_ "AccessLog::program", accesslog_program, 0);
    (void)hf_acc_sub(aTHX_ "AccessLog::compile", compiler_compile, 0);
    (void)hf_acc_sub(aTHX_ "AccessLog::compiler_log_line", compiler_log_line, 0);
    (void)hf_acc_sub(aTHX_ "AccessLog::log_line", middleware_log_line, 0);
    (void)hf_acc_sub(aTHX_ "AccessLog::call", middleware_call, 0);
    for (I32 i = 0; i < N_FIELDS; i++)
        PERL_HASH(fields[i].name.hash, fields[i].name.name, (STRLEN)fields[i].name.len);
    PERL_HASH(tz_cache.hash, tz_cache.name, (STRLEN)tz_cache.len);
    PERL_HASH(isdst_cache.hash, isdst_cache.name, (STRLEN)isdst_cache.len);
    MY_CXT_INIT;
    MY_CXT.owner = (PerlInterpreter *)aTHX;
    MY_CXT.content_length = NULL;
    for (I32 i = 0; i < N_FIELDS; i++)
        (void)hf_acc_sub(aTHX_ Perl_form(aTHX_ "AccessLog::%s", fields[i].name.name), middleware_accessor, i);
}
