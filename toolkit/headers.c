/* headers.c - HTTP::Headers::Fast in C.
 *
 * An object stays what it is: a blessed hash from names in lower case to a value or an array of values. What is new is
 * the way to a key: names as applications write them are remembered with their keys, so that neither case nor hash value
 * is worked out again. The spelling that a name is shown in stays in %HTTP::Headers::Fast::standard_case.
 */
#include "headers.h"

#define CACHED_BYTES 62 /* of a name that is remembered */
#define N_CACHED 256    /* names, as they are written */
#define N_KNOWN 256     /* keys, by where Perl keeps their string */
#define MAX_FIELDS 64   /* of an object that is put in order here */
#define MAX_PAIRS 32    /* of header(), for names are compared with each other */
#define UNORDERED 999   /* the place of a name that has none of its own */

#define HF_NO_FIELD (-1)

typedef struct hf_cached_name {
    SV *key;        /* the string of a hash key; NULL: free */
    U8 len, translated;
    char bytes[CACHED_BYTES];
} hf_cached_name;

typedef struct hf_known_key {
    HEK *hek;
    SV *held;       /* keeps the HEK where it is */
    U32 place;
    SV *shown;      /* the spelling in %standard_case when it was last asked for, as a shared string; or NULL */
} hf_known_key;

typedef struct hf_field {
    HEK *hek;
    SV *value;
    U32 place;
} hf_field;

#define MY_CXT_KEY "Hydrofoil::Accelerate::headers" XS_VERSION
typedef struct {
    PerlInterpreter *owner;
    hf_cached_name *cached;
    hf_known_key *known;
    GV *standard_case, *translate; /* %standard_case, $TRANSLATE_UNDERSCORE */
} my_cxt_t;
START_MY_CXT

static void setup(pTHX_ my_cxt_t *c)
{
    c->owner = (PerlInterpreter *)aTHX;
    Newxz(c->cached, N_CACHED, hf_cached_name);
    Newxz(c->known, N_KNOWN, hf_known_key);
    c->standard_case = gv_fetchpvs("HTTP::Headers::Fast::standard_case", GV_ADDMULTI, SVt_PVHV);
    c->translate = gv_fetchpvs("HTTP::Headers::Fast::TRANSLATE_UNDERSCORE", GV_ADDMULTI, SVt_PV);
    (void)GvHVn(c->standard_case);
    (void)GvSVn(c->translate);
}

static my_cxt_t *context(pTHX)
{
    dMY_CXT;
#ifdef USE_ITHREADS
    if (UNLIKELY(MY_CXT.owner != aTHX)) { /* a thread that was cloned from another's */
        MY_CXT_CLONE;
        setup(aTHX_ &MY_CXT);
        return &MY_CXT;
    }
#endif
    return &MY_CXT;
}

#define ORIGINAL(name) do { hf_acc_original(aTHX_ "HTTP::Headers::Fast::" name, ax, items); return; } while (0)

/* --- names --- */

/* The order of RFC 2616's general, request, response and entity headers. */
static const char *const ordered[] = {
    "cache-control", "connection", "date", "pragma", "trailer", "transfer-encoding", "upgrade", "via", "warning",
    "accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "expect", "from", "host",
    "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "max-forwards",
    "proxy-authorization", "range", "referer", "te", "user-agent",
    "accept-ranges", "age", "etag", "location", "proxy-authenticate", "retry-after", "server", "vary", "www-authenticate",
    "allow", "content-encoding", "content-language", "content-length", "content-location", "content-md5", "content-range",
    "content-type", "expires", "last-modified",
};
#define N_ORDERED (sizeof ordered / sizeof ordered[0])
#define FIRST_ENTITY 37 /* "allow" */

static U32 place_of(const char *name, STRLEN len)
{
    for (U32 i = 0; i < N_ORDERED; i++)
        if (strlen(ordered[i]) == len && memEQ(ordered[i], name, len))
            return i + 1;
    return UNORDERED;
}

PERL_STATIC_INLINE char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

PERL_STATIC_INLINE bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* A name that can be worked on by bytes. */
PERL_STATIC_INLINE bool is_name(SV *sv)
{
    return (SvFLAGS(sv) & (SVf_POK | SVf_ROK | SVs_GMG | SVf_UTF8)) == SVf_POK && SvTYPE(sv) < SVt_PVGV;
}

/* The first spelling of a name, each word capitalised, is the one it is shown in. */
static void note_case(pTHX_ my_cxt_t *c, SV *key, const char *name, STRLEN len, bool translate)
{
    HE *he = hv_fetch_ent(GvHVn(c->standard_case), key, 1, SvSHARED_HASH(key));
    if (!he || SvOK(HeVAL(he)))
        return;
    SV *shown = HeVAL(he);
    sv_setpvn(shown, name, len);
    char *p = SvPVX(shown);
    bool in_word = false;
    for (STRLEN i = 0; i < len; i++) {
        if (translate && p[i] == '_')
            p[i] = '-';
        bool word = is_word(p[i]);
        if (word && !in_word && p[i] >= 'a' && p[i] <= 'z')
            p[i] = (char)(p[i] - 32);
        in_word = word;
    }
}

/* The hash key of a name: in lower case, with dashes for underscores. Names that begin with a colon are keys as they are.
 * Borrowed, good until the statement ends. */
static SV *key_of(pTHX_ my_cxt_t *c, const char *name, STRLEN len)
{
    SV *flag = GvSVn(c->translate);
    U8 translate = SvTRUE(flag) ? 1 : 0;
    hf_cached_name *cached = NULL;

    if (LIKELY(len > 0 && len <= CACHED_BYTES)) {
        U32 h = (U32)len * 31 + (U8)name[0] * 7 + (U8)name[len - 1] * 13 + (U8)name[len / 2] * 17 + (U8)name[len * 3 / 4] * 5;
        cached = &c->cached[h % N_CACHED];
        if (LIKELY(cached->key && cached->len == len && cached->translated == translate && memEQ(cached->bytes, name, len)))
            return cached->key;
    }

    SV *key;
    if (len > 0 && name[0] == ':')
        key = newSVpvn_share(name, (I32)len, 0);
    else {
        SV *work = sv_2mortal(newSVpvn(name, len));
        char *p = SvPVX(work);
        for (STRLEN i = 0; i < len; i++)
            p[i] = translate && p[i] == '_' ? '-' : lower(p[i]);
        key = newSVpvn_share(p, (I32)len, 0);
        note_case(aTHX_ c, key, name, len, translate);
    }
    if (!cached)
        return sv_2mortal(key);
    if (cached->key)
        sv_2mortal(cached->key);
    cached->key = key;
    cached->len = (U8)len;
    cached->translated = translate;
    memcpy(cached->bytes, name, len);
    return key;
}

PERL_STATIC_INLINE SV *key_of_sv(pTHX_ my_cxt_t *c, SV *name)
{
    return key_of(aTHX_ c, SvPVX_const(name), SvCUR(name));
}

static hf_known_key *known_key(pTHX_ my_cxt_t *c, HEK *hek)
{
    hf_known_key *known = &c->known[((PTR2UV(hek) >> 4) ^ (PTR2UV(hek) >> 12)) % N_KNOWN];
    if (LIKELY(known->hek == hek))
        return known;
    if (known->held)
        sv_2mortal(known->held);
    if (known->shown)
        sv_2mortal(known->shown);
    known->hek = NULL;
    known->shown = NULL;
    known->held = newSVhek(hek);
    if (SvPVX_const(known->held) == HEK_KEY(hek))
        known->hek = hek;
    known->place = place_of(HEK_KEY(hek), (STRLEN)HEK_LEN(hek));
    return known;
}

/* What a key is shown as: an element of %standard_case, or NULL for the key itself. Borrowed. */
static SV *shown_element(pTHX_ my_cxt_t *c, HEK *hek)
{
    HE *he = (HE *)hv_common(GvHVn(c->standard_case), NULL, HEK_KEY(hek), (STRLEN)HEK_LEN(hek), 0, 0, NULL, HEK_HASH(hek));
    SV *shown = he ? HeVAL(he) : NULL;
    return shown && SvTRUE(shown) ? shown : NULL;
}

static SV *shown(pTHX_ my_cxt_t *c, HEK *hek)
{
    SV *sv = shown_element(aTHX_ c, hek);
    if (!sv)
        return newSVhek(hek);
    if (UNLIKELY(!is_name(sv)))
        return hf_new_copy(aTHX_ sv);
    hf_known_key *known = known_key(aTHX_ c, hek);
    if (UNLIKELY(!known->shown || SvCUR(known->shown) != SvCUR(sv) || memNE(SvPVX_const(known->shown), SvPVX_const(sv), SvCUR(sv)))) {
        if (known->shown)
            sv_2mortal(known->shown);
        known->shown = newSVpvn_share(SvPVX_const(sv), (I32)SvCUR(sv), 0);
    }
    return newSVhek(SvSHARED_HEK_FROM_PV(SvPVX_const(known->shown)));
}

/* --- values --- */

PERL_STATIC_INLINE SV *value_at(pTHX_ HV *hv, SV *key)
{
    HE *he = hv_fetch_ent(hv, key, 0, SvSHARED_HASH(key));
    return he ? HeVAL(he) : NULL;
}

/* The array of `ref($value) eq 'ARRAY'`. */
PERL_STATIC_INLINE AV *array_of(SV *value)
{
    return SvROK(value) && SvTYPE(SvRV(value)) == SVt_PVAV && !SvOBJECT(SvRV(value)) ? (AV *)SvRV(value) : NULL;
}

PERL_STATIC_INLINE bool is_odd_array(SV *value)
{
    return SvROK(value) && SvTYPE(SvRV(value)) == SVt_PVAV && (SvOBJECT(SvRV(value)) || SvRMAGICAL(SvRV(value)));
}

/* May it be stored: no magic that would want to be read once and in its order? */
PERL_STATIC_INLINE bool is_storable(SV *value)
{
    return !SvGMAGICAL(value) && !is_odd_array(value);
}

PERL_STATIC_INLINE SV *element(pTHX_ AV *av, SSize_t i)
{
    SV **svp = av_fetch(av, i, 0);
    return svp && *svp ? *svp : &PL_sv_undef;
}

HV *hf_headers_hash(pTHX_ SV *self);

static void set(pTHX_ HV *hv, SV *key, SV *value)
{
    if (!SvOK(value)) {
        (void)hv_delete_ent(hv, key, G_DISCARD, SvSHARED_HASH(key));
        return;
    }
    AV *av = array_of(value);
    if (av && av_len(av) == 0)
        value = hf_mortal_copy(aTHX_ element(aTHX_ av, 0)); /* the array may be what is replaced */
    HE *he = hv_fetch_ent(hv, key, 1, SvSHARED_HASH(key));
    hf_assign(aTHX_ HeVAL(he), value);
}

/* The end of an array that values are pushed to; copies are made before, for it may be the same array. */
static void push_value(pTHX_ AV *to, SV *value)
{
    AV *av = array_of(value);
    if (!av) {
        av_push(to, hf_new_copy(aTHX_ value));
        return;
    }
    SSize_t n = av_len(av) + 1;
    for (SSize_t i = 0; i < n; i++)
        av_push(to, hf_new_copy(aTHX_ element(aTHX_ av, i)));
}

/* header() with a field a second time. */
static void push_again(pTHX_ HV *hv, SV *key, SV *value)
{
    HE *he = hv_fetch_ent(hv, key, 1, SvSHARED_HASH(key));
    SV *old = HeVAL(he);
    AV *av = array_of(old);
    if (av) {
        push_value(aTHX_ av, value);
        return;
    }
    AV *from = array_of(value);
    if (SvOK(old)) {
        AV *both = newAV();
        SV *rv = sv_2mortal(newRV_noinc((SV *)both));
        av_push(both, hf_new_copy(aTHX_ old));
        push_value(aTHX_ both, value);
        hf_assign(aTHX_ old, rv);
    }
    else if (from)
        sv_setiv(old, (IV)(av_len(from) + 1)); /* an array in scalar context */
    else
        hf_assign(aTHX_ old, value);
}

/* push_header(): always an array. */
static void push_to(pTHX_ HV *hv, SV *key, SV *value)
{
    HE *he = hv_fetch_ent(hv, key, 1, SvSHARED_HASH(key));
    SV *old = HeVAL(he);
    AV *av = array_of(old);
    if (!av) {
        av = newAV();
        SV *rv = sv_2mortal(newRV_noinc((SV *)av));
        if (SvOK(old))
            av_push(av, hf_new_copy(aTHX_ old));
        hf_assign(aTHX_ old, rv);
    }
    push_value(aTHX_ av, value);
}

/* Returns what a field has: all of it, the first, or (where not a list is wanted, for the original joins in void context
 * as well) the first of one and the sum of several. False if it cannot be joined here. */
static bool return_values(pTHX_ SV *value, I32 ax, bool join, SV **first)
{
    U8 gimme = GIMME_V;
    AV *av = value ? array_of(value) : NULL;
    SSize_t n = av ? av_len(av) + 1 : value && SvOK(value) ? 1 : 0;

    *first = NULL;
    if (gimme != G_LIST && n > 1 && join)
        for (SSize_t i = 0; i < n; i++)
            if (!hf_acc_is_plain(element(aTHX_ av, i)))
                return false;
    if (gimme == G_VOID) {
        PL_stack_sp = PL_stack_base + ax - 1;
        return true;
    }
    if (gimme == G_SCALAR && n > 1 && join) {
        SV *sum = sv_2mortal(newSVpvs(""));
        for (SSize_t i = 0; i < n; i++) {
            if (i)
                sv_catpvs(sum, ", ");
            sv_catsv(sum, element(aTHX_ av, i));
        }
        *first = sum;
        return true;
    }
    if (gimme == G_SCALAR) {
        *first = n == 0 ? &PL_sv_undef : hf_mortal_copy(aTHX_ av ? element(aTHX_ av, 0) : value);
        return true;
    }
    SV **sp = PL_stack_base + ax - 1;
    EXTEND(sp, n);
    for (SSize_t i = 0; i < n; i++)
        sp[1 + i] = hf_mortal_copy(aTHX_ av ? element(aTHX_ av, i) : value);
    PL_stack_sp = sp + n;
    return true;
}

/* Has the name at `i` been among those before it? */
static bool is_again(pTHX_ SV **pair, I32 i)
{
    for (I32 j = 0; j < i; j += 2)
        if (SvCUR(pair[j]) == SvCUR(pair[i]) && foldEQ(SvPVX_const(pair[j]), SvPVX_const(pair[i]), (I32)SvCUR(pair[i])))
            return true;
    return false;
}

/* May pairs be set here? Not with an undefined value in an array: the original may warn of it, for it joins what a field
 * had, wanted or not. */
static bool are_pairs(pTHX_ SV **pair, I32 n)
{
    if (n > 2 * MAX_PAIRS)
        return false;
    for (I32 i = 0; i < n; i += 2) {
        if (!is_name(pair[i]))
            return false;
        if (i + 1 == n)
            break;
        SV *value = pair[i + 1];
        if (!is_storable(value) || (!SvOK(value) && is_again(aTHX_ pair, i)))
            return false;
        AV *av = n > 2 ? array_of(value) : NULL;
        for (SSize_t j = 0; av && j <= av_len(av); j++)
            if (!SvOK(element(aTHX_ av, j)))
                return false;
    }
    return true;
}

/* --- methods --- */

static void header(pTHX_ I32 ax, I32 items)
{
    my_cxt_t *c = context(aTHX);
    HV *hv;
    SV *first;

    if (items < 2 || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("header");

    if (items == 2) {
        if (!is_name(ST(1)))
            ORIGINAL("header");
        SV *value = value_at(aTHX_ hv, key_of_sv(aTHX_ c, ST(1)));
        if (value && is_odd_array(value))
            ORIGINAL("header");
        if (!return_values(aTHX_ value, ax, true, &first))
            ORIGINAL("header");
        if (first) {
            ST(0) = first;
            XSRETURN(1);
        }
        return;
    }

    if (!are_pairs(aTHX_ &ST(1), items - 1))
        ORIGINAL("header");
    U8 gimme = GIMME_V;
    SV *keep = NULL; /* the last field's old values */
    if (gimme != G_LIST) {
        I32 last = items % 2 ? items - 2 : items - 1;
        SV *key = key_of_sv(aTHX_ c, ST(last));
        for (I32 i = 1; i < last; i += 2)
            if (SvPVX_const(key_of_sv(aTHX_ c, ST(i))) == SvPVX_const(key))
                ORIGINAL("header");
        if (!return_values(aTHX_ value_at(aTHX_ hv, key), ax, true, &first))
            ORIGINAL("header");
    }
    for (I32 i = 1; i < items; i += 2) {
        SV *key = key_of_sv(aTHX_ c, ST(i));
        SV *value = i + 1 < items ? ST(i + 1) : &PL_sv_undef;
        if (gimme != G_VOID && i + 2 >= items) {
            SV *old = value_at(aTHX_ hv, key);
            AV *av = old ? array_of(old) : NULL;
            if (av) { /* the array may be the one that is pushed to */
                AV *copy = newAV();
                keep = sv_2mortal(newRV_noinc((SV *)copy));
                push_value(aTHX_ copy, old);
            }
            else if (old)
                keep = hf_mortal_copy(aTHX_ old);
        }
        if (is_again(aTHX_ & ST(1), i - 1))
            push_again(aTHX_ hv, key, value);
        else
            set(aTHX_ hv, key, value);
    }
    (void)return_values(aTHX_ keep, ax, true, &first);
    if (first) {
        ST(0) = first;
        XSRETURN(1);
    }
}

static XS(headers_header)
{
    dXSARGS;
    header(aTHX_ ax, items);
}

/* _header_get, _header_set and _header_push, for methods that are still Perl. */
static XS(headers_get)
{
    dXSARGS;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    SV *first;
    if (items != 2 || GIMME_V == G_SCALAR || !is_name(ST(1)) || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("_header_get");
    SV *value = value_at(aTHX_ hv, key_of_sv(aTHX_ c, ST(1)));
    if (value && is_odd_array(value))
        ORIGINAL("_header_get");
    (void)return_values(aTHX_ value, ax, false, &first);
}

static XS(headers_set)
{
    dXSARGS;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    SV *first;
    if (items != 3 || GIMME_V != G_VOID || !is_name(ST(1)) || !is_storable(ST(2)) || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("_header_set");
    set(aTHX_ hv, key_of_sv(aTHX_ c, ST(1)), ST(2));
    (void)return_values(aTHX_ NULL, ax, false, &first);
}

static XS(headers_push_again)
{
    dXSARGS;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    if (items != 3 || GIMME_V != G_VOID || !is_name(ST(1)) || !is_storable(ST(2)) || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("_header_push");
    push_again(aTHX_ hv, key_of_sv(aTHX_ c, ST(1)), ST(2));
    XSRETURN(0);
}

static XS(headers_push)
{
    dXSARGS;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    if (items < 2 || !(items & 1) || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("push_header");
    for (I32 i = 1; i < items; i += 2)
        if (!is_name(ST(i)) || !is_storable(ST(i + 1)))
            ORIGINAL("push_header");
    for (I32 i = 1; i < items; i += 2)
        push_to(aTHX_ hv, key_of_sv(aTHX_ c, ST(i)), ST(i + 1));
    if (GIMME_V == G_SCALAR)
        XSRETURN_UNDEF;
    XSRETURN(0);
}

/* init_header() sets what is not there. */
static XS(headers_init)
{
    dXSARGS;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    if (items != 3 || GIMME_V != G_VOID || !is_name(ST(1)) || !is_storable(ST(2)) || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("init_header");
    SV *key = key_of_sv(aTHX_ c, ST(1));
    SV *old = value_at(aTHX_ hv, key);
    AV *av = old ? array_of(old) : NULL;
    if (old && (is_odd_array(old) || (av && av_len(av) < 0)))
        ORIGINAL("init_header");
    if (old && SvOK(old))
        XSRETURN(0);
    AV *from = SvOK(ST(2)) ? array_of(ST(2)) : NULL;
    if (from) /* a copy of the array, or what is in it */
        ORIGINAL("init_header");
    set(aTHX_ hv, key, ST(2));
    XSRETURN(0);
}

static XS(headers_remove)
{
    dXSARGS;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    char name[256];

    if (items < 1 || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("remove_header");
    for (I32 i = 1; i < items; i++)
        if (!is_name(ST(i)) || SvCUR(ST(i)) > sizeof name)
            ORIGINAL("remove_header");
    U8 gimme = GIMME_V;
    bool translate = SvTRUE(GvSVn(c->translate));
    AV *values = gimme == G_VOID ? NULL : (AV *)sv_2mortal((SV *)newAV());
    for (I32 i = 1; i < items; i++) {
        const char *p = SvPVX_const(ST(i));
        STRLEN len = SvCUR(ST(i));
        for (STRLEN j = 0; j < len; j++)
            name[j] = translate && p[j] == '_' && p[0] != ':' ? '-' : lower(p[j]);
        SV *value = hv_delete(hv, name, (I32)len, values ? 0 : G_DISCARD);
        if (value && SvOK(value))
            push_value(aTHX_ values, value);
    }
    if (!values)
        XSRETURN(0);
    SSize_t n = av_len(values) + 1;
    if (gimme == G_SCALAR) {
        ST(0) = sv_2mortal(newSViv((IV)n));
        XSRETURN(1);
    }
    SP -= items;
    EXTEND(SP, n);
    for (SSize_t i = 0; i < n; i++)
        SP[1 + i] = hf_mortal_copy(aTHX_ element(aTHX_ values, i));
    PL_stack_sp = SP + n;
}

static XS(headers_clear)
{
    dXSARGS;
    HV *hv;
    if (items < 1 || GIMME_V != G_VOID || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("clear");
    hv_clear(hv);
    XSRETURN(0);
}

static XS(headers_new)
{
    dXSARGS;
    if (items < 1 || !SvPOK(ST(0)) || SvROK(ST(0)) || SvGMAGICAL(ST(0)))
        ORIGINAL("new");
    HV *stash = gv_stashsv(ST(0), 0);
    if (!stash)
        ORIGINAL("new");
    SV *self = sv_bless(sv_2mortal(newRV_noinc((SV *)newHV())), stash);
    if (items > 1) {
        HV *hv = hf_headers_hash(aTHX_ self);
        if (!hv || !hf_headers_set_pairs(aTHX_ hv, &ST(1), items - 1))
            ORIGINAL("new");
    }
    ST(0) = self;
    XSRETURN(1);
}

/* The class says of itself that it is an HTTP::Headers. */
static XS(headers_isa)
{
    dXSARGS;
    if (items != 2 || !hf_acc_is_plain(ST(1)) || (SvROK(ST(0)) ? SvGMAGICAL(ST(0)) || !SvOBJECT(SvRV(ST(0))) : !hf_acc_is_plain(ST(0))))
        ORIGINAL("isa");
    bool is = SvROK(ST(0)) ? sv_eq(sv_ref(sv_newmortal(), SvRV(ST(0)), TRUE), ST(1)) : sv_eq(ST(0), ST(1));
    if (!is) {
        STRLEN len;
        const char *p = SvPV_const(ST(1), len);
        is = len == 13 && memEQ(p, "HTTP::Headers", 13);
    }
    ST(0) = sv_2mortal(newSViv(is ? 1 : 0));
    XSRETURN(1);
}

static XS(headers_standardize)
{
    dXSARGS;
    my_cxt_t *c = context(aTHX);
    if (items < 1 || !is_name(ST(0)) || (SvCUR(ST(0)) > 0 && SvPVX_const(ST(0))[0] == ':'))
        ORIGINAL("_standardize_field_name");
    SV *key = key_of_sv(aTHX_ c, ST(0));
    ST(0) = sv_2mortal(newSVpvn(SvPVX_const(key), SvCUR(key)));
    XSRETURN(1);
}

/* --- all fields --- */

PERL_STATIC_INLINE bool is_byte_key(HEK *hek)
{
    return !(HEK_FLAGS(hek) & (HVhek_UTF8 | HVhek_WASUTF8));
}

static bool comes_before(const hf_field *a, const hf_field *b)
{
    if (a->place != b->place)
        return a->place < b->place;
    I32 la = HEK_LEN(a->hek), lb = HEK_LEN(b->hek);
    int cmp = memcmp(HEK_KEY(a->hek), HEK_KEY(b->hek), (size_t)(la < lb ? la : lb));
    return cmp ? cmp < 0 : la < lb;
}

/* All fields, in the order of names. Their number, or HF_NO_FIELD if there are too many, or one has a wide name. */
static I32 sorted_fields(pTHX_ my_cxt_t *c, HV *hv, hf_field *list)
{
    I32 n = 0;
    if (HvUSEDKEYS(hv) > MAX_FIELDS)
        return HF_NO_FIELD;
    if (SvOOK((SV *)hv))
        hv_iterinit(hv); /* as keys() does */
    HE **bucket = HvARRAY(hv);
    for (STRLEN i = 0; bucket && i <= HvMAX(hv); i++) {
        for (HE *he = bucket[i]; he; he = HeNEXT(he)) {
            HEK *hek = HeKEY_hek(he);
            if (!is_byte_key(hek) || n == MAX_FIELDS)
                return HF_NO_FIELD;
            hf_field field = {hek, HeVAL(he), known_key(aTHX_ c, hek)->place};
            I32 at = n++;
            for (; at > 0 && comes_before(&field, &list[at - 1]); at--)
                list[at] = list[at - 1];
            list[at] = field;
        }
    }
    return n;
}

static I32 unsorted_fields(pTHX_ HV *hv, hf_field *list)
{
    I32 n = 0;
    HE *he;
    if (HvUSEDKEYS(hv) > MAX_FIELDS)
        return HF_NO_FIELD;
    hv_iterinit(hv);
    while ((he = hv_iternext(hv))) {
        if (n == MAX_FIELDS || !is_byte_key(HeKEY_hek(he))) {
            hv_iterinit(hv);
            return HF_NO_FIELD;
        }
        list[n].hek = HeKEY_hek(he);
        list[n].value = HeVAL(he);
        list[n++].place = 0;
    }
    return n;
}

/* Takes line breaks out of a value as the substitutions in Plack::Response do: a folded line becomes a space, others
 * vanish. A value without any stays what it is, be it a number or an object. */
static void clean_value(pTHX_ SV *value)
{
    STRLEN len;
    const char *from = SvPV_nomg_const(value, len);
    const char *end = from + len;
    if (!memchr(from, '\n', len) && !memchr(from, '\r', len))
        return;
    SV *work = sv_2mortal(newSV(len + 1));
    char *to = SvPVX(work);
    while (from < end) {
        if (*from == '\r' && end - from > 2 && from[1] == '\n' && (from[2] == ' ' || from[2] == '|' || from[2] == '\t')) {
            from += 2;
            while (from < end && (*from == ' ' || *from == '|' || *from == '\t'))
                from++;
            *to++ = ' ';
        }
        else if (*from == '\r' || *from == '\n')
            from++;
        else
            *to++ = *from++;
    }
    *to = 0;
    len = (STRLEN)(to - SvPVX(work));
    bool wide = cBOOL(SvUTF8(value)); /* of an object, its text */
    sv_setpvn(value, SvPVX(work), len);
    if (wide)
        SvUTF8_on(value);
    else
        SvUTF8_off(value);
}

/* Is it what clean_value() would leave as it is, flags and all? (Before Perl 5.36 a number that a pattern has looked at is a
 * string as well.) */
PERL_STATIC_INLINE bool is_clean(SV *value)
{
#if PERL_VERSION >= 36
    if (SvIOK(value) && !SvPOK(value))
        return true;
#endif
    if (!SvPOK(value) || SvROK(value))
        return false;
    const char *p = SvPVX_const(value), *end = p + SvCUR(value);
    for (; p < end; p++)
        if (*p == '\r' || *p == '\n')
            return false;
    return true;
}

/* Defined, and neither magical nor (where `objects` are not wanted) a reference. */
PERL_STATIC_INLINE bool is_writable_value(SV *value, bool objects)
{
    return SvOK(value) && !SvGMAGICAL(value) && (objects || !SvROK(value)) && SvTYPE(value) < SVt_PVGV;
}

bool hf_headers_flatten(pTHX_ HV *hv, AV *out, bool sorted, bool stored)
{
    my_cxt_t *c = context(aTHX);
    hf_field list[MAX_FIELDS];
    I32 n = sorted ? sorted_fields(aTHX_ c, hv, list) : unsorted_fields(aTHX_ hv, list);
    SSize_t total = 0;

    if (n < 0)
        return false;
    for (I32 i = 0; i < n; i++) {
        SV *value = list[i].value;
        AV *av = array_of(value);
        if (!av) {
            if (is_odd_array(value) || !is_writable_value(value, true))
                return false;
            total++;
            continue;
        }
        if (SvRMAGICAL((SV *)av))
            return false;
        SSize_t len = av_len(av) + 1;
        for (SSize_t j = 0; j < len; j++) {
            SV *one = AvARRAY(av)[j];
            if (!one || !is_writable_value(one, !stored || !SvAMAGIC(one)) || (stored && SvREADONLY(one)))
                return false;
        }
        total += len;
    }
    if (total == 0)
        return true;
    SSize_t first = AvFILLp(out) + 2;
    bool late = false; /* is there a value that has to be cleaned? */
    av_extend(out, AvFILLp(out) + 2 * total);
    SV **to = AvARRAY(out) + AvFILLp(out) + 1;
    for (I32 i = 0; i < n; i++) {
        HEK *hek = list[i].hek;
        if (HEK_LEN(hek) > 0 && HEK_KEY(hek)[0] == '_')
            continue;
        AV *av = array_of(list[i].value);
        SSize_t len = av ? AvFILLp(av) + 1 : 1;
        for (SSize_t j = 0; j < len; j++) {
            SV *one = av ? AvARRAY(av)[j] : list[i].value;
            if (av && stored)
                clean_value(aTHX_ one);
            *to++ = shown(aTHX_ c, hek);
            *to++ = hf_plain_copy(aTHX_ one);
            AvFILLp(out) += 2;
            late = late || !is_clean(one);
        }
    }
    /* Last, for objects among them run code of their own. */
    for (SSize_t i = first; late && i <= AvFILLp(out); i += 2)
        clean_value(aTHX_ AvARRAY(out)[i]);
    return true;
}

static XS(headers_flatten)
{
    dXSARGS;
    dXSI32;
    HV *hv;
    if (items == 1 && (hv = hf_headers_hash(aTHX_ ST(0)))) {
        AV *out = newAV();
        SV *rv = sv_2mortal(newRV_noinc((SV *)out));
        if (hf_headers_flatten(aTHX_ hv, out, ix == 0, true)) {
            ST(0) = rv;
            XSRETURN(1);
        }
    }
    if (ix == 0)
        ORIGINAL("psgi_flatten");
    ORIGINAL("psgi_flatten_without_sort");
}

static XS(headers_as_string)
{
    dXSARGS;
    dXSI32;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    hf_field list[MAX_FIELDS];
    I32 n;

    if (items < 1 || items > 2 || (items == 2 && SvOK(ST(1)) && !hf_acc_is_plain(ST(1))) || !(hv = hf_headers_hash(aTHX_ ST(0))))
        goto original;
    n = ix == 0 ? sorted_fields(aTHX_ c, hv, list) : unsorted_fields(aTHX_ hv, list);
    if (n < 0)
        goto original;
    {
        SV *endl = items == 2 && SvOK(ST(1)) ? ST(1) : sv_2mortal(newSVpvs("\n"));
        SV *text = sv_2mortal(newSV(256));
        sv_setpvs(text, "");
        for (I32 i = 0; i < n; i++) {
            HEK *hek = list[i].hek;
            if (HEK_LEN(hek) > 0 && HEK_KEY(hek)[0] == '_')
                continue;
            AV *av = array_of(list[i].value);
            if (is_odd_array(list[i].value))
                goto original;
            SSize_t len = av ? av_len(av) + 1 : 1;
            for (SSize_t j = 0; j < len; j++) {
                SV *one = av ? element(aTHX_ av, j) : list[i].value;
                if (!hf_acc_is_plain(one))
                    goto original;
                STRLEN l;
                const char *p = SvPV_nomg_const(one, l);
                if (memchr(p, '\n', l))
                    goto original;
                SV *name = shown_element(aTHX_ c, hek);
                if (name && SvUTF8(name))
                    goto original;
                STRLEN name_len = (STRLEN)HEK_LEN(hek);
                const char *name_p = name ? SvPV_nomg_const(name, name_len) : HEK_KEY(hek);
                if (name_len > 0 && name_p[0] == ':') {
                    name_p++;
                    name_len--;
                }
                if (SvUTF8(text))
                    sv_catsv_nomg(text, sv_2mortal(newSVpvn(name_p, name_len)));
                else
                    sv_catpvn_nomg(text, name_p, name_len);
                sv_catpvs_nomg(text, ": ");
                sv_catsv_nomg(text, one);
                sv_catsv_nomg(text, endl);
            }
        }
        ST(0) = text;
        XSRETURN(1);
    }
original:
    if (ix == 0)
        ORIGINAL("as_string");
    ORIGINAL("as_string_without_sort");
}

static XS(headers_scan)
{
    dXSARGS;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    hf_field list[MAX_FIELDS];
    I32 n;

    if (items != 2 || GIMME_V != G_VOID || !SvROK(ST(1)) || SvTYPE(SvRV(ST(1))) != SVt_PVCV || !(hv = hf_headers_hash(aTHX_ ST(0)))
        || (n = sorted_fields(aTHX_ c, hv, list)) < 0)
        ORIGINAL("scan");

    /* The callback may do anything to the object: what is walked is a list of keys, and each is looked up when its turn comes. */
    AV *keys = (AV *)sv_2mortal((SV *)newAV());
    SV *code = hf_mortal_copy(aTHX_ ST(1));
    (void)sv_2mortal(SvREFCNT_inc_simple_NN((SV *)hv));
    for (I32 i = 0; i < n; i++)
        av_push(keys, newSVhek(list[i].hek));
    for (I32 i = 0; i < n; i++) {
        SV *key = AvARRAY(keys)[i];
        HEK *hek = SvSHARED_HEK_FROM_PV(SvPVX_const(key));
        if (HEK_LEN(hek) > 0 && HEK_KEY(hek)[0] == '_')
            continue;
        SV *value = value_at(aTHX_ hv, key);
        AV *av = value ? array_of(value) : NULL;
        value = value ? hf_mortal_copy(aTHX_ value) : sv_newmortal(); /* holds the array, too */
        for (SSize_t j = 0; av ? j <= av_len(av) : j == 0; j++) {
            SV *one = value;
            if (av) {
                SV **svp = av_fetch(av, j, 1);
                one = svp ? *svp : &PL_sv_undef;
            }
            dSP;
            ENTER;
            SAVETMPS;
            SV *name = shown_element(aTHX_ c, hek);
            PUSHMARK(SP);
            EXTEND(SP, 2);
            PUSHs(name ? name : key);
            PUSHs(one);
            PUTBACK;
            call_sv(code, G_VOID | G_DISCARD);
            FREETMPS;
            LEAVE;
        }
    }
    XSRETURN(0);
}

static XS(headers_field_names)
{
    dXSARGS;
    dXSI32;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    hf_field list[MAX_FIELDS];
    I32 n;

    if (items != 1 || !(hv = hf_headers_hash(aTHX_ ST(0))) || (ix == 0 && GIMME_V != G_LIST)
        || (n = sorted_fields(aTHX_ c, hv, list)) < 0) {
        if (ix == 0)
            ORIGINAL("header_field_names");
        ORIGINAL("_sorted_field_names");
    }
    if (ix == 1) {
        AV *av = newAV();
        SV *rv = sv_2mortal(newRV_noinc((SV *)av));
        for (I32 i = 0; i < n; i++)
            av_push(av, newSVhek(list[i].hek));
        ST(0) = rv;
        XSRETURN(1);
    }
    SP -= items;
    EXTEND(SP, n);
    for (I32 i = 0; i < n; i++)
        SP[1 + i] = sv_2mortal(shown(aTHX_ c, list[i].hek));
    PL_stack_sp = SP + n;
}

static bool is_content(pTHX_ my_cxt_t *c, HEK *hek)
{
    U32 place = known_key(aTHX_ c, hek)->place;
    return (place > FIRST_ENTITY && place != UNORDERED) || (HEK_LEN(hek) >= 8 && memEQ(HEK_KEY(hek), "content-", 8));
}

static XS(headers_remove_content)
{
    dXSARGS;
    my_cxt_t *c = context(aTHX);
    HV *hv;
    hf_field list[MAX_FIELDS];
    I32 n;

    if (items != 1 || !(hv = hf_headers_hash(aTHX_ ST(0))) || (n = sorted_fields(aTHX_ c, hv, list)) < 0)
        ORIGINAL("remove_content_headers");
    HV *taken = GIMME_V == G_VOID ? NULL : newHV();
    SV *rv = taken ? sv_bless(sv_2mortal(newRV_noinc((SV *)taken)), SvSTASH((SV *)hv)) : NULL;
    AV *keys = (AV *)sv_2mortal((SV *)newAV());
    for (I32 i = 0; i < n; i++)
        if (is_content(aTHX_ c, list[i].hek))
            av_push(keys, newSVhek(list[i].hek));
    for (SSize_t i = 0; i <= av_len(keys); i++) {
        SV *key = AvARRAY(keys)[i];
        SV *value = hv_delete_ent(hv, key, taken ? 0 : G_DISCARD, SvSHARED_HASH(key));
        if (taken)
            (void)hv_store_ent(taken, key, value ? hf_new_copy(aTHX_ value) : newSV(0), SvSHARED_HASH(key));
    }
    if (!taken)
        XSRETURN(0);
    ST(0) = rv;
    XSRETURN(1);
}

/* What Storable copies without a second thought: a string or a number, and one of the two only. */
PERL_STATIC_INLINE bool is_cloneable(SV *value)
{
    U32 flags = SvFLAGS(value) & (SVf_POK | SVf_IOK | SVf_NOK | SVf_ROK | SVs_GMG | SVs_SMG | SVs_RMG | SVp_POK | SVp_IOK | SVp_NOK);
    return SvTYPE(value) < SVt_PVGV && (flags == (SVf_POK | SVp_POK) || flags == (SVf_IOK | SVp_IOK));
}

static const hf_term no_hooks[] = {
    {"STORABLE_freeze", NULL, 0}, {"STORABLE_thaw", NULL, 0}, {"STORABLE_attach", NULL, 0}, {NULL, NULL, 0}
};

static XS(headers_clone)
{
    dXSARGS;
    HV *hv;
    if (items != 1 || !(hv = hf_headers_hash(aTHX_ ST(0))) || !hf_class_keeps(aTHX_ SvSTASH((SV *)hv), no_hooks))
        ORIGINAL("clone");
    HV *copy = newHV();
    SV *rv = sv_2mortal(newRV_noinc((SV *)copy));
    HE **bucket = HvARRAY(hv);
    for (STRLEN i = 0; bucket && i <= HvMAX(hv); i++) {
        for (HE *he = bucket[i]; he; he = HeNEXT(he)) {
            SV *value = HeVAL(he), *twin;
            AV *av = array_of(value);
            if (!is_byte_key(HeKEY_hek(he)))
                ORIGINAL("clone");
            if (av) {
                if (SvREFCNT(av) != 1 || SvRMAGICAL((SV *)av) || SvMAGICAL(value))
                    ORIGINAL("clone");
                AV *twins = newAV();
                twin = newRV_noinc((SV *)twins);
                (void)hv_store(copy, HeKEY(he), HeKLEN(he), twin, HeHASH(he));
                for (SSize_t j = 0; j <= av_len(av); j++) {
                    SV *one = AvARRAY(av)[j];
                    if (!one || !is_cloneable(one) || SvREFCNT(one) != 1)
                        ORIGINAL("clone");
                    av_push(twins, hf_new_copy(aTHX_ one));
                }
                continue;
            }
            if (!is_cloneable(value) || SvREFCNT(value) != 1)
                ORIGINAL("clone");
            (void)hv_store(copy, HeKEY(he), HeKLEN(he), hf_new_copy(aTHX_ value), HeHASH(he));
        }
    }
    ST(0) = sv_bless(rv, SvSTASH((SV *)hv));
    XSRETURN(1);
}

/* --- single headers --- */

enum { CONTENT_LENGTH, CONTENT_LANGUAGE, CONTENT_ENCODING, TITLE, USER_AGENT, SERVER, FROM, WARNINGS, WWW_AUTHENTICATE,
       AUTHORIZATION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, N_ACCESSORS };

static const struct {
    const char *sub, *field, *original;
    STRLEN len;
} accessors[N_ACCESSORS] = {
#define ACCESSOR(sub, field) {"Headers::" sub, field, "HTTP::Headers::Fast::" sub, sizeof field - 1}
    ACCESSOR("content_length", "content-length"),
    ACCESSOR("content_language", "content-language"),
    ACCESSOR("content_encoding", "content-encoding"),
    ACCESSOR("title", "title"),
    ACCESSOR("user_agent", "user-agent"),
    ACCESSOR("server", "server"),
    ACCESSOR("from", "from"),
    ACCESSOR("warnings", "warnings"),
    ACCESSOR("www_authenticate", "www-authenticate"),
    ACCESSOR("authorization", "authorization"),
    ACCESSOR("proxy_authenticate", "proxy-authenticate"),
    ACCESSOR("proxy_authorization", "proxy-authorization"),
};

static void single(pTHX_ I32 ix, I32 ax, I32 items)
{
    my_cxt_t *c = context(aTHX);
    HV *hv = items >= 1 ? hf_headers_hash(aTHX_ ST(0)) : NULL;
    SV *old;

    if (!hv || (items >= 2 && !is_storable(ST(1)))) {
        hf_acc_original(aTHX_ accessors[ix].original, ax, items);
        return;
    }
    if (items == 1) {
        SV **svp = hv_fetch(hv, accessors[ix].field, (I32)accessors[ix].len, 0);
        old = svp ? *svp : &PL_sv_undef;
        AV *av = array_of(old);
        ST(0) = hf_mortal_copy(aTHX_ av ? element(aTHX_ av, 0) : old);
        XSRETURN(1);
    }
    SV *key = key_of(aTHX_ c, accessors[ix].field, accessors[ix].len);
    SV *result = NULL;
    if (GIMME_V != G_VOID) {
        old = value_at(aTHX_ hv, key);
        AV *av = old ? array_of(old) : NULL;
        if (av ? av_len(av) >= 0 : old && SvOK(old))
            result = hf_mortal_copy(aTHX_ av ? element(aTHX_ av, 0) : old);
    }
    set(aTHX_ hv, key, ST(1));
    if (!result && GIMME_V == G_LIST)
        XSRETURN(0);
    ST(0) = result ? result : &PL_sv_undef;
    XSRETURN(1);
}

static XS(headers_single)
{
    dXSARGS;
    dXSI32;
    single(aTHX_ ix, ax, items);
}

/* \s of a string of bytes: since Perl 5.18 with the vertical tab. */
PERL_STATIC_INLINE bool is_space(char c)
{
#if PERL_VERSION >= 18
    if (c == '\v')
        return true;
#endif
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* The media type of a content-type without blanks, in lower case, and what follows the first semicolon. */
static SV *media_type(pTHX_ const char *p, STRLEN len, const char **rest)
{
    const char *semicolon = (const char *)memchr(p, ';', len);
    STRLEN type_len = semicolon ? (STRLEN)(semicolon - p) : len;
    SV *type = sv_2mortal(newSV(type_len + 1));
    char *to = SvPVX(type);
    for (STRLEN i = 0; i < type_len; i++)
        if (!is_space(p[i]))
            *to++ = lower(p[i]);
    *to = 0;
    SvCUR_set(type, (STRLEN)(to - SvPVX(type)));
    SvPOK_only(type);
    *rest = NULL;
    if (semicolon) {
        semicolon++;
        while (semicolon < p + len && is_space(*semicolon))
            semicolon++;
        *rest = semicolon;
    }
    return type;
}

static void content_type(pTHX_ I32 ax, I32 items)
{
    HV *hv = items >= 1 ? hf_headers_hash(aTHX_ ST(0)) : NULL;
    if (!hv || (items >= 2 && SvGMAGICAL(ST(1))))
        ORIGINAL("content_type");

    U8 gimme = GIMME_V;
    SV *type = NULL;
    SV *rest_sv = NULL;
    HE *he = (HE *)hv_common(hv, NULL, "content-type", 12, 0, items >= 2 ? HV_FETCH_LVALUE : 0, NULL, 0);
    if (gimme != G_VOID && he && SvOK(HeVAL(he))) {
        SV *old = HeVAL(he);
        if (is_odd_array(old))
            ORIGINAL("content_type");
        AV *av = array_of(old);
        if (av)
            old = element(aTHX_ av, 0);
        if (SvOK(old)) {
            STRLEN len;
            const char *p, *rest;
            if (!hf_acc_is_plain(old) || SvUTF8(old))
                ORIGINAL("content_type");
            p = SvPV_const(old, len);
            if (len > 0) {
                type = media_type(aTHX_ p, len, &rest);
                if (rest && gimme == G_LIST)
                    rest_sv = sv_2mortal(newSVpvn(rest, (STRLEN)(p + len - rest)));
            }
        }
    }
    if (items >= 2)
        hf_assign(aTHX_ HeVAL(he), ST(1));
    if (gimme == G_VOID)
        XSRETURN(0);
    if (!type)
        type = sv_2mortal(newSVpvs(""));
    SV **sp = PL_stack_base + ax - 1;
    EXTEND(sp, 2);
    ST(0) = type;
    if (!rest_sv)
        XSRETURN(1);
    ST(1) = rest_sv;
    XSRETURN(2);
}

static XS(headers_content_type)
{
    dXSARGS;
    content_type(aTHX_ ax, items);
}

enum { IS_TEXT, IS_HTML, IS_XHTML, IS_XML };
static const char *const content_is_original[] = {
    "HTTP::Headers::Fast::content_is_text", "HTTP::Headers::Fast::content_is_html",
    "HTTP::Headers::Fast::content_is_xhtml", "HTTP::Headers::Fast::content_is_xml",
};

#define IS(text) (len == sizeof text - 1 && memEQ(p, text, sizeof text - 1))

static XS(headers_content_is)
{
    dXSARGS;
    dXSI32;
    HV *hv = items == 1 ? hf_headers_hash(aTHX_ ST(0)) : NULL;
    SV **svp;
    SV *value = NULL;
    const char *p = "", *rest;
    STRLEN len = 0;

    if (!hv)
        goto original;
    svp = hv_fetchs(hv, "content-type", 0);
    if (svp && is_odd_array(*svp))
        goto original;
    if (svp)
        value = array_of(*svp) ? element(aTHX_ array_of(*svp), 0) : *svp;
    if (value && SvOK(value)) {
        if (!hf_acc_is_plain(value) || SvUTF8(value))
            goto original;
        p = SvPV_const(value, len);
        SV *type = media_type(aTHX_ p, len, &rest);
        p = SvPVX_const(type);
        len = SvCUR(type);
    }
    {
        bool is;
        switch (ix) {
        case IS_TEXT:
            is = len >= 5 && memEQ(p, "text/", 5);
            if (!is && GIMME_V == G_LIST)
                XSRETURN(0);
            break;
        case IS_HTML:
            is = IS("text/html") || IS("application/xhtml+xml") || IS("application/vnd.wap.xhtml+xml");
            break;
        case IS_XHTML:
            is = IS("application/xhtml+xml") || IS("application/vnd.wap.xhtml+xml");
            break;
        default:
            is = IS("text/xml") || IS("application/xml") || (len >= 4 && memEQ(p + len - 4, "+xml", 4));
            ST(0) = sv_2mortal(newSViv(is ? 1 : 0));
            XSRETURN(1);
        }
        ST(0) = boolSV(is);
        XSRETURN(1);
    }
original:
    hf_acc_original(aTHX_ content_is_original[ix], ax, items);
}

/* Methods that are what they were, in the list of those that must not be overridden. */
enum { SLOW_HEADER, SLOW_AS_STRING, SLOW_FLATTEN };
static const char *const slow_original[] = {
    "HTTP::Headers::Fast::_header", "HTTP::Headers::Fast::_as_string", "HTTP::Headers::Fast::_psgi_flatten",
};

static XS(headers_slow)
{
    dXSARGS;
    dXSI32;
    hf_acc_original(aTHX_ slow_original[ix], ax, items);
}

static const hf_term methods[] = {
    {"header", headers_header, -1},
    {"_header_get", headers_get, -1},
    {"_header_set", headers_set, -1},
    {"_header_push", headers_push_again, -1},
    {"_header", headers_slow, SLOW_HEADER},
    {"_as_string", headers_slow, SLOW_AS_STRING},
    {"_psgi_flatten", headers_slow, SLOW_FLATTEN},
    {"_sorted_field_names", headers_field_names, 1},
    {"header_field_names", headers_field_names, 0},
    {"new", headers_new, -1},
    {"push_header", headers_push, -1},
    {"scan", headers_scan, -1},
    {"content_type", headers_content_type, -1},
    {"content_is_xhtml", headers_content_is, IS_XHTML},
    {"content_length", headers_single, CONTENT_LENGTH},
    {"content_encoding", headers_single, CONTENT_ENCODING},
    {NULL, NULL, 0}
};

HV *hf_headers_hash(pTHX_ SV *self)
{
    return hf_object_keeping(aTHX_ self, methods);
}

SV *hf_headers_new(pTHX)
{
    HV *stash = gv_stashpvs("HTTP::Headers::Fast", 0);
    if (!stash || !hf_class_keeps(aTHX_ stash, methods))
        return NULL;
    return sv_bless(newRV_noinc((SV *)newHV()), stash);
}

bool hf_headers_set_pairs(pTHX_ HV *hv, SV **pair, I32 n)
{
    my_cxt_t *c = context(aTHX);
    if (n < 2 || !are_pairs(aTHX_ pair, n))
        return false;
    for (I32 i = 0; i < n; i += 2) {
        SV *key = key_of_sv(aTHX_ c, pair[i]);
        SV *value = i + 1 < n ? pair[i + 1] : &PL_sv_undef;
        if (is_again(aTHX_ pair, i))
            push_again(aTHX_ hv, key, value);
        else
            set(aTHX_ hv, key, value);
    }
    return true;
}

void hf_headers_call(pTHX_ hf_headers_method method, I32 ax, I32 items)
{
    switch (method) {
    case HF_HEADERS_HEADER:
        header(aTHX_ ax, items);
        break;
    case HF_HEADERS_LENGTH:
        single(aTHX_ CONTENT_LENGTH, ax, items);
        break;
    case HF_HEADERS_ENCODING:
        single(aTHX_ CONTENT_ENCODING, ax, items);
        break;
    case HF_HEADERS_TYPE:
        content_type(aTHX_ ax, items);
        break;
    }
}

void hf_acc_boot_headers(pTHX)
{
    hf_acc_boot_contract(aTHX);
    MY_CXT_INIT;
    setup(aTHX_ &MY_CXT);

    static const struct {
        const char *name;
        XSUBADDR_t xsub;
        I32 ix;
    } subs[] = {
        {"Headers::new", headers_new, 0},
        {"Headers::isa", headers_isa, 0},
        {"Headers::header", headers_header, 0},
        {"Headers::clear", headers_clear, 0},
        {"Headers::push_header", headers_push, 0},
        {"Headers::init_header", headers_init, 0},
        {"Headers::remove_header", headers_remove, 0},
        {"Headers::remove_content_headers", headers_remove_content, 0},
        {"Headers::_standardize_field_name", headers_standardize, 0},
        {"Headers::_header_get", headers_get, 0},
        {"Headers::_header_set", headers_set, 0},
        {"Headers::_header_push", headers_push_again, 0},
        {"Headers::_header", headers_slow, SLOW_HEADER},
        {"Headers::_as_string", headers_slow, SLOW_AS_STRING},
        {"Headers::_psgi_flatten", headers_slow, SLOW_FLATTEN},
        {"Headers::_sorted_field_names", headers_field_names, 1},
        {"Headers::header_field_names", headers_field_names, 0},
        {"Headers::scan", headers_scan, 0},
        {"Headers::as_string", headers_as_string, 0},
        {"Headers::as_string_without_sort", headers_as_string, 1},
        {"Headers::psgi_flatten", headers_flatten, 0},
        {"Headers::psgi_flatten_without_sort", headers_flatten, 1},
        {"Headers::clone", headers_clone, 0},
        {"Headers::content_type", headers_content_type, 0},
        {"Headers::content_is_text", headers_content_is, IS_TEXT},
        {"Headers::content_is_html", headers_content_is, IS_HTML},
        {"Headers::content_is_xhtml", headers_content_is, IS_XHTML},
        {"Headers::content_is_xml", headers_content_is, IS_XML},
    };
    for (size_t i = 0; i < sizeof subs / sizeof subs[0]; i++)
        (void)hf_acc_sub(aTHX_ subs[i].name, subs[i].xsub, subs[i].ix);
    for (I32 i = 0; i < N_ACCESSORS; i++)
        (void)hf_acc_sub(aTHX_ accessors[i].sub, headers_single, i);
}
