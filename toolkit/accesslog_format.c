/* accesslog_format.c - an access log's format as a program: how it is made, and how it writes a line.
 *
 * A step that meets what it was not made for, a value that is missing (the original warns), tied, or an object, gives the
 * whole line back to the original.
 *
 * What local time looks like is worked out once a second. The time zone is asked for when daylight saving begins or ends,
 * and at no other time, as in the original.
 */
#include "accesslog_format.h"

#include "methods.h"

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

/* How many arguments that is. */
static const U8 n_arguments[256] = {
    [STEP_TEXT] = 1, [STEP_HEADER] = 1, [STEP_OUTPUT] = 1, [STEP_CHAR] = 2, [STEP_STRFTIME] = 2, [STEP_BLOCK] = 3,
};
#define N_ARGUMENTS(step) n_arguments[(U8)(step)]

enum { REMOTE_ADDR, REMOTE_USER, REQUEST_METHOD, REQUEST_URI, SERVER_PROTOCOL, SERVER_NAME, HTTP_HOST, SERVER_PORT, PATH_INFO,
       QUERY_STRING, N_KEYS };

static hf_word keys[N_KEYS] = {
#define KEY(name) {name, sizeof name - 1, 0}
    KEY("REMOTE_ADDR"), KEY("REMOTE_USER"), KEY("REQUEST_METHOD"), KEY("REQUEST_URI"), KEY("SERVER_PROTOCOL"), KEY("SERVER_NAME"),
    KEY("HTTP_HOST"), KEY("SERVER_PORT"), KEY("PATH_INFO"), KEY("QUERY_STRING"),
};
static hf_word tz_cache = {"tz_cache", 8, 0}, isdst_cache = {"isdst_cache", 11, 0};

void hf_log_boot(pTHX)
{
    for (int i = 0; i < N_KEYS; i++)
        PERL_HASH(keys[i].hash, keys[i].name, (STRLEN)keys[i].len);
    PERL_HASH(tz_cache.hash, tz_cache.name, (STRLEN)tz_cache.len);
    PERL_HASH(isdst_cache.hash, isdst_cache.name, (STRLEN)isdst_cache.len);
}

/* --- programs --- */

AV *hf_log_program(pTHX_ SV **given, I32 n)
{
    SV *code = given[0];
    SV *cache = SvROK(code) && SvTYPE(SvRV(code)) == SVt_PVCV ? hf_closed_over(aTHX_ (CV *)SvRV(code), "$c") : NULL;
    if (!cache || !SvROK(cache) || SvTYPE(SvRV(cache)) != SVt_PVHV)
        return NULL;
    AV *av = newAV();
    SV *held = sv_2mortal((SV *)av); /* for what may die below */
    av_push(av, hf_new_copy(aTHX_ code));
    av_push(av, hf_new_copy(aTHX_ given[1]));
    av_push(av, hf_new_copy(aTHX_ cache));
    for (int i = ZONE; i < HANDLERS; i++)
        av_push(av, newSV(0));
    av_push(av, hf_new_copy(aTHX_ given[2]));

    STRLEN steps;
    const char *ops = SvPV_const(AvARRAY(av)[OPS], steps);
    I32 at = 3;
    for (STRLEN i = 0; i < steps; i++)
        for (int j = 0; j < N_ARGUMENTS(ops[i]); j++, at++) {
            SV *argument = at < n ? given[at] : &PL_sv_undef;
            if (ops[i] == STEP_HEADER) {
                STRLEN len;
                const char *p = SvPV_const(argument, len);
                av_push(av, newSVpvn_share(p, SvUTF8(argument) ? -(I32)len : (I32)len, 0));
                continue;
            }
            if ((ops[i] == STEP_CHAR || ops[i] == STEP_BLOCK) && j == 0
                && (!SvROK(argument) || SvTYPE(SvRV(argument)) != SVt_PVHV))
                croak("Handlers have to be in a hash");
            av_push(av, hf_new_copy(aTHX_ argument));
        }
    return (AV *)SvREFCNT_inc_simple_NN(held);
}

SV *hf_log_code(AV *program)
{
    return AvARRAY(program)[CODE];
}

/* --- values --- */

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

PERL_STATIC_INLINE SV *value(pTHX_ hf_log_line *line, int key)
{
    return hf_word_fetch(aTHX_ line->env, &keys[key]);
}

/* As it is. */
static bool raw(pTHX_ hf_log_line *line, SV *sv)
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
static bool or_dash(pTHX_ hf_log_line *line, SV *sv)
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
static void by_original(pTHX_ hf_log_line *line, const char *function, SV *sv)
{
    if (line->out)
        sv_catsv(line->out, hf_acc_call(aTHX_ hf_acc_sub_named(aTHX_ function), &sv, 1));
}

static bool safe(pTHX_ hf_log_line *line, SV *sv)
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

static bool string(pTHX_ hf_log_line *line, SV *sv)
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
    SV *argument[] = {
        format, sv_2mortal(newSViv(tm->tm_sec)), sv_2mortal(newSViv(tm->tm_min)), sv_2mortal(newSViv(tm->tm_hour)),
        sv_2mortal(newSViv(tm->tm_mday)), sv_2mortal(newSViv(tm->tm_mon)), sv_2mortal(newSViv(tm->tm_year)),
        sv_2mortal(newSViv(tm->tm_wday)), sv_2mortal(newSViv(tm->tm_yday)), sv_2mortal(newSViv(tm->tm_isdst)),
    };
    return hf_acc_call(aTHX_ hf_acc_sub_named(aTHX_ "POSIX::strftime::Compiler::strftime"), argument, C_ARRAY_LENGTH(argument));
}

/* Brings TIME up to date, and forgets what 'S' steps have made in another second. */
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
        if (ops[i] == STEP_STRFTIME)
            (void)SvOK_off(argument[1]);
        argument += N_ARGUMENTS(ops[i]);
    }
    sv_setiv(program[SECOND], (IV)second);
    if (tz)
        sv_setpv(program[TZ], tz);
    else
        (void)SvOK_off(program[TZ]);
}

static void put_strftime(pTHX_ hf_log_line *line, SV **argument)
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
static bool output_header(pTHX_ hf_log_line *line, SV *name)
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
static bool take_answer(pTHX_ hf_log_line *line)
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
static bool handled(pTHX_ hf_log_line *line, SV *handlers, SV *letter, SV *block)
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
static bool run(pTHX_ hf_log_line *line, SV **program)
{
    SV **argument = program + ARGUMENTS;
    STRLEN n;
    const char *ops = SvPV_const(program[OPS], n);

    for (STRLEN i = 0; i < n; i++) {
        bool ok = true;
        SV *sv;
        switch (ops[i]) {
        case STEP_TEXT:
            ok = raw(aTHX_ line, argument[0]);
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
            HE *he = hv_fetch_ent(line->env, argument[0], 0, SvSHARED_HASH(argument[0]));
            ok = string(aTHX_ line, he ? HeVAL(he) : NULL);
            break;
        }
        case STEP_OUTPUT:
            ok = output_header(aTHX_ line, argument[0]);
            break;
        case STEP_STRFTIME:
            put_strftime(aTHX_ line, argument);
            break;
        case STEP_CHAR:
            ok = handled(aTHX_ line, argument[0], argument[1], NULL);
            break;
        case STEP_BLOCK:
            ok = handled(aTHX_ line, argument[0], argument[1], argument[2]);
            break;
        default:
            return false;
        }
        if (!ok)
            return false;
        argument += N_ARGUMENTS(ops[i]);
    }
    return true;
}

SV *hf_log_write(pTHX_ AV *av, hf_log_line *line)
{
    SV **program = AvARRAY(av);

    if (line->time < 0 || line->time > 0x7fffffff) /* where Perl and the C library agree on local time */
        return NULL;
    (void)sv_2mortal(SvREFCNT_inc_simple_NN((SV *)av));
    tell_time(aTHX_ program, line->time); /* first: the original asks for the time zone in any case */
    if (!SvROK(line->env_rv) || SvGMAGICAL(line->env_rv) || SvTYPE(SvRV(line->env_rv)) != SVt_PVHV
        || SvRMAGICAL(SvRV(line->env_rv)) || (SvOBJECT(SvRV(line->env_rv)) && SvAMAGIC(line->env_rv)))
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
