/* headers_names.c - the names of header fields: the hash keys they stand for, how they are shown, and their order. */
#include "headers_names.h"

#define CACHED_BYTES 62 /* of a name that is remembered */
#define N_CACHED 256    /* names, as they are written */
#define N_KNOWN 256     /* keys, by where Perl keeps their string */

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

struct hf_field_names {
    PerlInterpreter *owner;
    hf_cached_name *cached;
    hf_known_key *known;
    GV *standard_case, *translate; /* %standard_case, $TRANSLATE_UNDERSCORE */
};

#define MY_CXT_KEY "Hydrofoil::Accelerate::headers" XS_VERSION
typedef hf_field_names my_cxt_t;
START_MY_CXT

static void setup(pTHX_ hf_field_names *names)
{
    names->owner = HF_INTERPRETER;
    Newxz(names->cached, N_CACHED, hf_cached_name);
    Newxz(names->known, N_KNOWN, hf_known_key);
    names->standard_case = gv_fetchpvs("HTTP::Headers::Fast::standard_case", GV_ADDMULTI, SVt_PVHV);
    names->translate = gv_fetchpvs("HTTP::Headers::Fast::TRANSLATE_UNDERSCORE", GV_ADDMULTI, SVt_PV);
    (void)GvHVn(names->standard_case);
    (void)GvSVn(names->translate);
}

hf_field_names *hf_field_names_here(pTHX)
{
    dMY_CXT;
#ifdef USE_ITHREADS
    if (UNLIKELY(MY_CXT.owner != HF_INTERPRETER)) { /* a thread that was cloned from another's */
        MY_CXT_CLONE;
        setup(aTHX_ &MY_CXT);
        return &MY_CXT;
    }
#endif
    return &MY_CXT;
}

void hf_field_names_boot(pTHX)
{
    MY_CXT_INIT;
    setup(aTHX_ &MY_CXT);
}

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
#define FIRST_ENTITY 38U /* the place of "allow" */
#define UNORDERED 999U   /* of a name that has none of its own */

static U32 place_of(const char *name, STRLEN len)
{
    for (U32 i = 0; i < N_ORDERED; i++)
        if (strlen(ordered[i]) == len && memEQ(ordered[i], name, len))
            return i + 1;
    return UNORDERED;
}

PERL_STATIC_INLINE bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* The first spelling of a name, each word capitalised, is the one it is shown in. */
static void note_case(pTHX_ hf_field_names *names, SV *key, const char *name, STRLEN len, bool translate)
{
    HE *he = hv_fetch_ent(GvHVn(names->standard_case), key, 1, SvSHARED_HASH(key));
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

PERL_STATIC_INLINE bool translates(pTHX_ hf_field_names *names)
{
    SV *flag = GvSVn(names->translate);
    return SvTRUE(flag);
}

bool hf_field_translates(pTHX_ hf_field_names *names)
{
    return translates(aTHX_ names);
}

SV *hf_field_key(pTHX_ hf_field_names *names, const char *name, STRLEN len)
{
    U8 translate = translates(aTHX_ names) ? 1 : 0;
    hf_cached_name *cached = NULL;

    if (LIKELY(len > 0 && len <= CACHED_BYTES)) {
        U32 h = (U32)len * 31 + (U8)name[0] * 7 + (U8)name[len - 1] * 13 + (U8)name[len / 2] * 17 + (U8)name[len * 3 / 4] * 5;
        cached = &names->cached[h % N_CACHED];
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
            p[i] = translate && p[i] == '_' ? '-' : hf_lower(p[i]);
        key = newSVpvn_share(p, (I32)len, 0);
        note_case(aTHX_ names, key, name, len, translate);
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

/* Puts a key where another may be. */
static void learn_key(pTHX_ hf_known_key *known, HEK *hek)
{
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
}

PERL_STATIC_INLINE hf_known_key *known_key(pTHX_ hf_field_names *names, HEK *hek)
{
    hf_known_key *known = &names->known[((PTR2UV(hek) >> 4) ^ (PTR2UV(hek) >> 12)) % N_KNOWN];
    if (UNLIKELY(known->hek != hek))
        learn_key(aTHX_ known, hek);
    return known;
}

U32 hf_field_place(pTHX_ hf_field_names *names, HEK *hek)
{
    return known_key(aTHX_ names, hek)->place;
}

bool hf_field_is_entity(pTHX_ hf_field_names *names, HEK *hek)
{
    U32 place = hf_field_place(aTHX_ names, hek);
    return (place >= FIRST_ENTITY && place != UNORDERED) || (HEK_LEN(hek) >= 8 && memEQ(HEK_KEY(hek), "content-", 8));
}

SV *hf_field_spelling(pTHX_ hf_field_names *names, HEK *hek)
{
    HE *he = (HE *)hv_common(GvHVn(names->standard_case), NULL, HEK_KEY(hek), (STRLEN)HEK_LEN(hek), 0, 0, NULL, HEK_HASH(hek));
    SV *shown = he ? HeVAL(he) : NULL;
    return shown && SvTRUE(shown) ? shown : NULL;
}

SV *hf_field_shown(pTHX_ hf_field_names *names, HEK *hek)
{
    SV *sv = hf_field_spelling(aTHX_ names, hek);
    if (!sv)
        return newSVhek(hek);
    if (UNLIKELY(!hf_is_field_name(sv)))
        return hf_new_copy(aTHX_ sv);
    hf_known_key *known = known_key(aTHX_ names, hek);
    if (UNLIKELY(!known->shown || SvCUR(known->shown) != SvCUR(sv)
                 || memNE(SvPVX_const(known->shown), SvPVX_const(sv), SvCUR(sv)))) {
        if (known->shown)
            sv_2mortal(known->shown);
        known->shown = newSVpvn_share(SvPVX_const(sv), (I32)SvCUR(sv), 0);
    }
    return newSVhek(SvSHARED_HEK_FROM_PV(SvPVX_const(known->shown)));
}
