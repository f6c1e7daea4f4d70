/* cookie.c - Cookie::Baker in C: its bake_cookie, its crush_cookie, and that of Cookie::Baker::XS. */
#include "acc.h"

#include <time.h>

#ifndef isSPACE_A
#define isSPACE_A(ch) isSPACE(ch)
#endif

#define BAKE "Cookie::Baker::bake_cookie"
enum { BEFORE_0_12, SINCE_0_12 }; /* versions of Cookie::Baker */
static const char *const crush_names[] = {"Cookie::Baker::pp_crush_cookie", "Cookie::Baker::XS::crush_cookie"};
enum { OF_PP, OF_XS };

/* --- crush_cookie --- */

static int hex_digit(char ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    ch |= 0x20;
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* Decodes "%XX" from src to dst, which may be the same. Returns the length of the result. */
static STRLEN unescape(char *dst, const char *src, STRLEN len)
{
    const char *const end = src + len;
    char *d = dst;
    while (src < end) {
        int high, low;
        if (*src == '%' && end - src >= 3 && (high = hex_digit(src[1])) >= 0 && (low = hex_digit(src[2])) >= 0) {
            *d++ = (char)(high << 4 | low);
            src += 3;
        } else {
            *d++ = *src++;
        }
    }
    return (STRLEN)(d - dst);
}

/* The first of several cookies with the same name counts. */
static void add_cookie(pTHX_ HV *hv, const char *name, STRLEN name_len, const char *value, STRLEN value_len)
{
    SV **at;
    if (memchr(name, '%', name_len)) {
        char small[128], *copy = small;
        if (name_len > sizeof small) {
            copy = (char *)SvPVX(sv_2mortal(newSV(name_len)));
        }
        name_len = unescape(copy, name, name_len);
        at = hv_fetch(hv, copy, (I32)name_len, 1);
    } else {
        at = hv_fetch(hv, name, (I32)name_len, 1);
    }
    if (!at || SvOK(*at))
        return;
    sv_setpvn(*at, value, value_len);
    if (memchr(value, '%', value_len)) {
        SvCUR_set(*at, unescape(SvPVX(*at), SvPVX(*at), value_len));
        *SvEND(*at) = '\0';
    }
}

/* Cut at ";" with or without a space behind it; white space around each is left out, and quotes around its value. */
static void crush_as_pp(pTHX_ HV *hv, const char *p, const char *end)
{
    for (;;) {
        const char *stop = memchr(p, ';', (size_t)(end - p));
        const char *e = stop ? stop : end, *equals;
        while (p < e && isSPACE_A((U8)*p))
            p++;
        while (p < e && isSPACE_A((U8)e[-1]))
            e--;
        equals = memchr(p, '=', (size_t)(e - p));
        if (equals) {
            const char *value = equals + 1;
            if (e - value >= 2 && *value == '"' && e[-1] == '"' && !memchr(value, '\n', (size_t)(e - value)))
                add_cookie(aTHX_ hv, p, (STRLEN)(equals - p), value + 1, (STRLEN)(e - value - 2));
            else
                add_cookie(aTHX_ hv, p, (STRLEN)(equals - p), value, (STRLEN)(e - value));
        }
        if (!stop)
            return;
        p = stop + 1;
    }
}

/* Cut at ";"; spaces around names and values are left out, and quotes around a value. */
static void crush_as_xs(pTHX_ HV *hv, const char *p, const char *end)
{
    while (p < end) {
        const char *stop, *e, *equals;
        while (p < end && (*p == ' ' || *p == ';'))
            p++;
        if (p == end)
            return;
        stop = memchr(p, ';', (size_t)(end - p));
        e = stop ? stop : end;
        equals = memchr(p, '=', (size_t)(e - p));
        if (equals) {
            const char *value = equals + 1, *name_end = equals;
            while (name_end > p && name_end[-1] == ' ')
                name_end--;
            while (value < e && *value == ' ')
                value++;
            while (value < e && e[-1] == ' ')
                e--;
            if (e - value >= 2 && *value == '"' && e[-1] == '"')
                add_cookie(aTHX_ hv, p, (STRLEN)(name_end - p), value + 1, (STRLEN)(e - value - 2));
            else
                add_cookie(aTHX_ hv, p, (STRLEN)(name_end - p), value, (STRLEN)(e - value));
        }
        if (!stop)
            return;
        p = stop + 1;
    }
}

HV *hf_acc_crush_cookie(pTHX_ const char *text, STRLEN len)
{
    HV *hv = newHV();
    crush_as_pp(aTHX_ hv, text, text + len);
    return hv;
}

XS_INTERNAL(crush_cookie)
{
    dXSARGS;
    dXSI32;
    SV *text = items ? ST(0) : NULL;
    const char *p = "";
    STRLEN len = 0;
    HV *hv;

    if ((ix == OF_XS && items != 1) || (text && (SvGMAGICAL(text) || (SvOK(text) && !hf_acc_is_plain(text))))) {
        hf_acc_original(aTHX_ crush_names[ix], ax, items);
        return;
    }
    if (text && SvOK(text)) {
        if (ix == OF_PP && SvUTF8(text)) {
            hf_acc_original(aTHX_ crush_names[ix], ax, items);
            return;
        }
        p = SvPV_nomg_const(text, len);
        if (len > I32_MAX)
            croak("The cookies are too long");
    }
    hv = newHV();
    if (items == 0)
        EXTEND(SP, 1);
    ST(0) = sv_2mortal(newRV_noinc((SV *)hv));
    if (ix == OF_PP)
        crush_as_pp(aTHX_ hv, p, p + len);
    else
        crush_as_xs(aTHX_ hv, p, p + len);
    XSRETURN(1);
}

/* --- bake_cookie --- */

typedef struct part {
    const char *p;
    STRLEN len;
} part;

typedef struct attributes {
    part value, domain, path, expires, max_age, samesite;
    bool has_domain, has_path, has_expires, has_max_age, has_samesite, secure, http_only;
    bool strict, partitioned; /* since 0.12: SameSite=None makes it secure; CHIPS */
} attributes;

/* Hashes of the names of attributes: made once, and the same in every thread. */
static struct {
    const char *name;
    I32 len;
    U32 hash;
} keys[] = {
    {"value", 5, 0},    {"domain", 6, 0},   {"path", 4, 0},   {"expires", 7, 0},
    {"max-age", 7, 0},  {"samesite", 8, 0}, {"secure", 6, 0}, {"httponly", 8, 0}, {"partitioned", 11, 0},
};
enum { VALUE, DOMAIN, PATH, EXPIRES, MAX_AGE, SAMESITE, SECURE, HTTP_ONLY, PARTITIONED };

/* The bytes of a plain string; false if it is anything else. */
static bool plain(pTHX_ SV *sv, part *out)
{
    if (!hf_acc_is_plain(sv) || SvUTF8(sv))
        return false;
    out->p = SvPV_nomg_const(sv, out->len);
    return out->len < I32_MAX / 8;
}

static SV *attribute(pTHX_ HV *hv, int which)
{
    SV **at = (SV **)hv_common_key_len(hv, keys[which].name, keys[which].len, HV_FETCH_JUST_SV, NULL, keys[which].hash);
    return at ? *at : NULL;
}

/* Is the attribute true? -1: neither is known without running code. */
static int truth(pTHX_ HV *hv, int which)
{
    SV *sv = attribute(aTHX_ hv, which);
    if (!sv)
        return 0;
    if (SvGMAGICAL(sv) || SvROK(sv) || SvTYPE(sv) >= SVt_PVGV)
        return -1;
    return SvTRUE_nomg(sv) ? 1 : 0;
}

static bool starts(pTHX_ const part *text, const char *word)
{
    return text->len >= strlen(word) && foldEQ(text->p, word, strlen(word));
}

/* Reads the attributes; false if the original has to. */
static bool gather(pTHX_ HV *hv, attributes *a)
{
    SV *sv;
    int yes;
    if (SvRMAGICAL(hv) || SvOBJECT(hv))
        return false;
    if (!(sv = attribute(aTHX_ hv, VALUE)) || !plain(aTHX_ sv, &a->value))
        return false;
    if ((yes = truth(aTHX_ hv, DOMAIN)) < 0 || (yes && !plain(aTHX_ attribute(aTHX_ hv, DOMAIN), &a->domain)))
        return false;
    a->has_domain = yes;
    if ((yes = truth(aTHX_ hv, PATH)) < 0 || (yes && !plain(aTHX_ attribute(aTHX_ hv, PATH), &a->path)))
        return false;
    a->has_path = yes;
    if ((sv = attribute(aTHX_ hv, EXPIRES)) && (SvGMAGICAL(sv) || SvOK(sv))) {
        if (!plain(aTHX_ sv, &a->expires))
            return false;
        a->has_expires = true;
    }
    if ((sv = attribute(aTHX_ hv, MAX_AGE))) {
        if (!plain(aTHX_ sv, &a->max_age))
            return false;
        a->has_max_age = true;
    }
    if ((sv = attribute(aTHX_ hv, SAMESITE))) {
        if (!plain(aTHX_ sv, &a->samesite))
            return false;
        a->has_samesite = starts(aTHX_ &a->samesite, "lax") || starts(aTHX_ &a->samesite, "strict") || starts(aTHX_ &a->samesite, "none");
    }
    if ((yes = truth(aTHX_ hv, SECURE)) < 0)
        return false;
    a->secure = yes;
    if ((yes = truth(aTHX_ hv, HTTP_ONLY)) < 0)
        return false;
    a->http_only = yes;
    if (a->strict) {
        if ((yes = truth(aTHX_ hv, PARTITIONED)) < 0)
            return false;
        a->partitioned = yes;
    }
    if (a->partitioned) {
        a->samesite.p = "none";
        a->samesite.len = 4;
        a->has_samesite = a->secure = true;
    }
    return true;
}

static char *put(char *d, const char *p, STRLEN len)
{
    memcpy(d, p, len);
    return d + len;
}
#define PUTS(d, literal) put(d, literal, sizeof literal - 1)

/* "%XX" for all but the unreserved characters of RFC 3986, 2.3, as URI::Escape does. */
static char *put_escaped(char *d, const part *text)
{
    static const char digits[] = "0123456789ABCDEF";
    STRLEN i;
    for (i = 0; i < text->len; i++) {
        const U8 ch = (U8)text->p[i];
        if ((ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '-' || ch == '.' ||
            ch == '_' || ch == '~') {
            *d++ = (char)ch;
        } else {
            *d++ = '%';
            *d++ = digits[ch >> 4];
            *d++ = digits[ch & 15];
        }
    }
    return d;
}

#define DATE_LEN 29

/* "Sun, 06-Nov-1994 08:49:37 GMT" of seconds since 1970, of a year with four digits. */
static char *put_date(char *d, int64_t seconds)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec", days[] = "ThuFriSatSunMonTueWed";
    const int64_t day = seconds / 86400;
    const int rest = (int)(seconds % 86400);
    /* The civil calendar by eras of 400 years that begin with March. */
    const int64_t shifted = day + 719468;
    const int64_t era = shifted / 146097;
    const int of_era = (int)(shifted % 146097);
    const int year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int month_from_march = (5 * of_year + 2) / 153;
    const int of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    const int month = month_from_march < 10 ? month_from_march + 2 : month_from_march - 10;
    const int year = (int)(era * 400) + year_of_era + (month < 2);
    char text[64];
    my_snprintf(text, sizeof text, "%.3s, %02d-%.3s-%04d %02d:%02d:%02d GMT", days + day % 7 * 3, of_month,
                months + month * 3, year, rest / 3600, rest / 60 % 60, rest % 60);
    return put(d, text, DATE_LEN);
}

/* The time, in seconds. A module may have taken the place of perl's time(), as those for tests do; it is asked even if it
 * came later than Cookie::Baker, since without us that would have been loaded when it was needed. */
static int64_t now(pTHX)
{
    GV *gv = gv_fetchpvs("CORE::GLOBAL::time", 0, SVt_PVCV);
    CV *cv = gv && isGV(gv) ? GvCVu(gv) : NULL;
    int64_t at;
    dSP;

    if (!cv)
        return (int64_t)time(NULL);
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    PUTBACK;
    call_sv((SV *)cv, G_SCALAR);
    SPAGAIN;
    {
        SV *answer = POPs;
        const NV seconds = SvNV(answer);
        at = seconds >= 0 && seconds < 253402300800.0 ? (int64_t)seconds : -1;
    }
    PUTBACK;
    FREETMPS;
    LEAVE;
    return at;
}

/* What an expiry means: 1 a time in *at, 0 a text to copy, -1 something for the original. */
static int expiry(pTHX_ const part *text, int64_t *at)
{
    const char *p = text->p, *const end = p + text->len;
    int sign = 1;
    int64_t n = 0, unit = 1;
    const char *digits;
    if (text->len == 3 && memcmp(p, "now", 3) == 0) {
        *at = now(aTHX);
        return 0 <= *at ? 1 : -1;
    }
    if (p < end && (*p == '+' || *p == '-'))
        sign = *p++ == '-' ? -1 : 1;
    if (p < end && *p == '.')
        return -1;
    digits = p;
    while (p < end && isDIGIT(*p)) {
        if (p - digits >= 11)
            return -1;
        n = n * 10 + (*p++ - '0');
    }
    if (p == digits)
        return 0;
    if (p < end && *p == '\n')
        return -1;
    if (p == end && digits == text->p) {
        *at = n;
    } else {
        if (p < end) {
            switch (*p) {
            case 'm': unit = 60; break;
            case 'h': unit = 3600; break;
            case 'd': unit = 86400; break;
            case 'M': unit = 86400 * 30; break;
            case 'y': unit = 86400 * 365; break;
            }
        }
        if (n > 1000000000)
            return -1;
        *at = now(aTHX);
        if (*at < 0)
            return -1;
        *at += sign * n * unit;
    }
    return *at >= 0 && *at < INT64_C(253402300800) ? 1 : -1; /* 1970 to 9999 */
}

/* Has a cookie "SameSite=None" with its "; ", anywhere? The original looks for it in all that it has written, a path too. */
static bool says_none(const char *cookie, char *end)
{
    static const char wanted[] = "SameSite=None; ";
    const char *p = cookie;
    end = PUTS(end, "; ");
    while (end - p >= (ptrdiff_t)sizeof wanted - 1 && (p = memchr(p, 'S', (size_t)(end - p) - (sizeof wanted - 2)))) {
        if (memcmp(p, wanted, sizeof wanted - 1) == 0)
            return true;
        p++;
    }
    return false;
}

static SV *bake(pTHX_ const part *name, const attributes *a)
{
    int64_t at = 0;
    const int expires = a->has_expires ? expiry(aTHX_ & a->expires, &at) : 0;
    bool secure = a->secure;
    SV *sv;
    char *d;
    if (expires < 0)
        return NULL;
    sv = newSV((name->len + a->value.len) * 3 + a->domain.len + a->path.len + a->expires.len + a->max_age.len +
               a->samesite.len + DATE_LEN + 100);
    d = put_escaped(SvPVX(sv), name);
    *d++ = '=';
    d = put_escaped(d, &a->value);
    if (a->has_domain)
        d = put(PUTS(d, "; domain="), a->domain.p, a->domain.len);
    if (a->has_path)
        d = put(PUTS(d, "; path="), a->path.p, a->path.len);
    if (a->has_expires) {
        d = PUTS(d, "; expires=");
        d = expires ? put_date(d, at) : put(d, a->expires.p, a->expires.len);
    }
    if (a->has_max_age)
        d = put(PUTS(d, "; max-age="), a->max_age.p, a->max_age.len);
    if (a->has_samesite) {
        STRLEN i;
        d = PUTS(d, "; SameSite=");
        *d++ = (char)toUPPER(a->samesite.p[0]);
        for (i = 1; i < a->samesite.len; i++)
            *d++ = (char)toLOWER(a->samesite.p[i]);
        if (a->strict && says_none(SvPVX(sv), d))
            secure = true;
    }
    if (secure)
        d = PUTS(d, "; secure");
    if (a->http_only)
        d = PUTS(d, "; HttpOnly");
    if (a->partitioned)
        d = PUTS(d, "; Partitioned");
    *d = '\0';
    SvCUR_set(sv, d - SvPVX(sv));
    SvPOK_only(sv);
    return sv;
}

XS_INTERNAL(bake_cookie)
{
    dXSARGS;
    dXSI32;
    SV *value = items > 1 ? ST(1) : NULL, *cookie = NULL;
    attributes a;
    part name;

    if (value && SvGMAGICAL(value))
        goto original;
    if (!value || !SvOK(value)) {
        if (items == 0)
            EXTEND(SP, 1);
        ST(0) = sv_2mortal(newSVpvs(""));
        XSRETURN(1);
    }
    Zero(&a, 1, attributes);
    a.strict = ix == SINCE_0_12;
    if (!plain(aTHX_ ST(0), &name))
        goto original;
    if (SvROK(value)) {
        if (SvTYPE(SvRV(value)) != SVt_PVHV || !gather(aTHX_ (HV *)SvRV(value), &a))
            goto original;
    } else if (!plain(aTHX_ value, &a.value)) {
        goto original;
    }
    cookie = bake(aTHX_ & name, &a);
    if (cookie) {
        ST(0) = sv_2mortal(cookie);
        XSRETURN(1);
    }
original:
    hf_acc_original(aTHX_ BAKE, ax, items);
}

void hf_acc_boot_cookie(pTHX)
{
    unsigned i;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        PERL_HASH(keys[i].hash, keys[i].name, keys[i].len);
    hf_acc_sub(aTHX_ "Cookie::bake_cookie", bake_cookie, BEFORE_0_12);
    hf_acc_sub(aTHX_ "Cookie::bake_cookie_since_0_12", bake_cookie, SINCE_0_12);
    hf_acc_sub(aTHX_ "Cookie::crush_cookie", crush_cookie, OF_PP);
    hf_acc_sub(aTHX_ "Cookie::xs_crush_cookie", crush_cookie, OF_XS);
}
