/* headers.c - HTTP::Headers::Fast in C.
 *
 * An object stays what it is: a blessed hash from names in lower case to a value or an array of values. What is new is
 * the way to a key (headers_names.h). Here are the methods that read and write fields, and the class as a whole;
 * headers_fields.c has those that go through all fields, headers_single.c those that are named after one.
 */
#include "headers_parts.h"

#define MAX_PAIRS 32 /* of header(), for names are compared with each other */

/* --- values --- */

void hf_field_set(pTHX_ HV *hv, SV *key, SV *value)
{
    if (!SvOK(value)) {
        (void)hv_delete_ent(hv, key, G_DISCARD, SvSHARED_HASH(key));
        return;
    }
    AV *av = hf_value_array(value);
    if (av && av_len(av) == 0)
        value = hf_mortal_copy(aTHX_ hf_value_element(aTHX_ av, 0)); /* the array may be what is replaced */
    HE *he = hv_fetch_ent(hv, key, 1, SvSHARED_HASH(key));
    hf_assign(aTHX_ HeVAL(he), value);
}

/* The end of an array that values are pushed to; copies are made before, for it may be the same array. */
static void push_value(pTHX_ AV *to, SV *value)
{
    AV *av = hf_value_array(value);
    if (!av) {
        av_push(to, hf_new_copy(aTHX_ value));
        return;
    }
    SSize_t n = av_len(av) + 1;
    for (SSize_t i = 0; i < n; i++)
        av_push(to, hf_new_copy(aTHX_ hf_value_element(aTHX_ av, i)));
}

/* header() with a field a second time. */
static void push_again(pTHX_ HV *hv, SV *key, SV *value)
{
    HE *he = hv_fetch_ent(hv, key, 1, SvSHARED_HASH(key));
    SV *old = HeVAL(he);
    AV *av = hf_value_array(old);
    if (av) {
        push_value(aTHX_ av, value);
        return;
    }
    AV *from = hf_value_array(value);
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
    AV *av = hf_value_array(old);
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
    AV *av = value ? hf_value_array(value) : NULL;
    SSize_t n = av ? av_len(av) + 1 : value && SvOK(value) ? 1 : 0;

    *first = NULL;
    if (gimme != G_LIST && n > 1 && join)
        for (SSize_t i = 0; i < n; i++)
            if (!hf_acc_is_plain(hf_value_element(aTHX_ av, i)))
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
            sv_catsv(sum, hf_value_element(aTHX_ av, i));
        }
        *first = sum;
        return true;
    }
    if (gimme == G_SCALAR) {
        *first = n == 0 ? &PL_sv_undef : hf_mortal_copy(aTHX_ av ? hf_value_element(aTHX_ av, 0) : value);
        return true;
    }
    SV **sp = PL_stack_base + ax - 1;
    EXTEND(sp, n);
    for (SSize_t i = 0; i < n; i++)
        sp[1 + i] = hf_mortal_copy(aTHX_ av ? hf_value_element(aTHX_ av, i) : value);
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
        if (!hf_is_field_name(pair[i]))
            return false;
        if (i + 1 == n)
            break;
        SV *value = pair[i + 1];
        if (!hf_is_storable(value) || (!SvOK(value) && is_again(aTHX_ pair, i)))
            return false;
        AV *av = n > 2 ? hf_value_array(value) : NULL;
        for (SSize_t j = 0; av && j <= av_len(av); j++)
            if (!SvOK(hf_value_element(aTHX_ av, j)))
                return false;
    }
    return true;
}

/* --- methods --- */

static void header(pTHX_ I32 ax, I32 items)
{
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    SV *first;

    if (items < 2 || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("header");

    if (items == 2) {
        if (!hf_is_field_name(ST(1)))
            ORIGINAL("header");
        SV *value = hf_field_value(aTHX_ hv, hf_field_key_of(aTHX_ names, ST(1)));
        if (value && hf_is_odd_array(value))
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
        SV *key = hf_field_key_of(aTHX_ names, ST(last));
        for (I32 i = 1; i < last; i += 2)
            if (SvPVX_const(hf_field_key_of(aTHX_ names, ST(i))) == SvPVX_const(key))
                ORIGINAL("header");
        if (!return_values(aTHX_ hf_field_value(aTHX_ hv, key), ax, true, &first))
            ORIGINAL("header");
    }
    for (I32 i = 1; i < items; i += 2) {
        SV *key = hf_field_key_of(aTHX_ names, ST(i));
        SV *value = i + 1 < items ? ST(i + 1) : &PL_sv_undef;
        if (gimme != G_VOID && i + 2 >= items) {
            SV *old = hf_field_value(aTHX_ hv, key);
            AV *av = old ? hf_value_array(old) : NULL;
            if (av) { /* the array may be the one that is pushed to */
                AV *copy = newAV();
                keep = sv_2mortal(newRV_noinc((SV *)copy));
                push_value(aTHX_ copy, old);
            }
            else if (old)
                keep = hf_mortal_copy(aTHX_ old);
        }
        if (is_again(aTHX_ &ST(1), i - 1))
            push_again(aTHX_ hv, key, value);
        else
            hf_field_set(aTHX_ hv, key, value);
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
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    SV *first;
    if (items != 2 || GIMME_V == G_SCALAR || !hf_is_field_name(ST(1)) || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("_header_get");
    SV *value = hf_field_value(aTHX_ hv, hf_field_key_of(aTHX_ names, ST(1)));
    if (value && hf_is_odd_array(value))
        ORIGINAL("_header_get");
    (void)return_values(aTHX_ value, ax, false, &first);
}

static XS(headers_set)
{
    dXSARGS;
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    SV *first;
    if (items != 3 || GIMME_V != G_VOID || !hf_is_field_name(ST(1)) || !hf_is_storable(ST(2))
        || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("_header_set");
    hf_field_set(aTHX_ hv, hf_field_key_of(aTHX_ names, ST(1)), ST(2));
    (void)return_values(aTHX_ NULL, ax, false, &first);
}

static XS(headers_push_again)
{
    dXSARGS;
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    if (items != 3 || GIMME_V != G_VOID || !hf_is_field_name(ST(1)) || !hf_is_storable(ST(2))
        || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("_header_push");
    push_again(aTHX_ hv, hf_field_key_of(aTHX_ names, ST(1)), ST(2));
    XSRETURN(0);
}

static XS(headers_push)
{
    dXSARGS;
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    if (items < 2 || !(items & 1) || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("push_header");
    for (I32 i = 1; i < items; i += 2)
        if (!hf_is_field_name(ST(i)) || !hf_is_storable(ST(i + 1)))
            ORIGINAL("push_header");
    for (I32 i = 1; i < items; i += 2)
        push_to(aTHX_ hv, hf_field_key_of(aTHX_ names, ST(i)), ST(i + 1));
    if (GIMME_V == G_SCALAR)
        XSRETURN_UNDEF;
    XSRETURN(0);
}

/* init_header() sets what is not there. */
static XS(headers_init)
{
    dXSARGS;
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    if (items != 3 || GIMME_V != G_VOID || !hf_is_field_name(ST(1)) || !hf_is_storable(ST(2))
        || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("init_header");
    SV *key = hf_field_key_of(aTHX_ names, ST(1));
    SV *old = hf_field_value(aTHX_ hv, key);
    AV *av = old ? hf_value_array(old) : NULL;
    if (old && (hf_is_odd_array(old) || (av && av_len(av) < 0)))
        ORIGINAL("init_header");
    if (old && SvOK(old))
        XSRETURN(0);
    AV *from = SvOK(ST(2)) ? hf_value_array(ST(2)) : NULL;
    if (from) /* a copy of the array, or what is in it */
        ORIGINAL("init_header");
    hf_field_set(aTHX_ hv, key, ST(2));
    XSRETURN(0);
}

static XS(headers_remove)
{
    dXSARGS;
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    char name[256];

    if (items < 1 || !(hv = hf_headers_hash(aTHX_ ST(0))))
        ORIGINAL("remove_header");
    for (I32 i = 1; i < items; i++)
        if (!hf_is_field_name(ST(i)) || SvCUR(ST(i)) > sizeof name)
            ORIGINAL("remove_header");
    U8 gimme = GIMME_V;
    bool translate = hf_field_translates(aTHX_ names);
    AV *values = gimme == G_VOID ? NULL : (AV *)sv_2mortal((SV *)newAV());
    for (I32 i = 1; i < items; i++) {
        const char *p = SvPVX_const(ST(i));
        STRLEN len = SvCUR(ST(i));
        for (STRLEN j = 0; j < len; j++)
            name[j] = translate && p[j] == '_' && p[0] != ':' ? '-' : hf_lower(p[j]);
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
        SP[1 + i] = hf_mortal_copy(aTHX_ hf_value_element(aTHX_ values, i));
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
    SV *self = items >= 1 ? hf_new_object(aTHX_ ST(0)) : NULL;
    if (!self)
        ORIGINAL("new");
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
    if (items != 2 || !hf_acc_is_plain(ST(1))
        || (SvROK(ST(0)) ? SvGMAGICAL(ST(0)) || !SvOBJECT(SvRV(ST(0))) : !hf_acc_is_plain(ST(0))))
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
    hf_field_names *names = hf_field_names_here(aTHX);
    if (items < 1 || !hf_is_field_name(ST(0)) || (SvCUR(ST(0)) > 0 && SvPVX_const(ST(0))[0] == ':'))
        ORIGINAL("_standardize_field_name");
    SV *key = hf_field_key_of(aTHX_ names, ST(0));
    ST(0) = sv_2mortal(newSVpvn(SvPVX_const(key), SvCUR(key)));
    XSRETURN(1);
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

/* Methods that others pass over, as long as an object's class has them. */
static const hf_term relied_on[] = {
    {"header", headers_header, 0},
    {"_header_get", headers_get, 0},
    {"_header_set", headers_set, 0},
    {"_header_push", headers_push_again, 0},
    {"_header", headers_slow, SLOW_HEADER},
    {"_as_string", headers_slow, SLOW_AS_STRING},
    {"_psgi_flatten", headers_slow, SLOW_FLATTEN},
    {"_sorted_field_names", hf_headers_field_names, HF_NAMES_AS_KEYS},
    {"header_field_names", hf_headers_field_names, HF_NAMES_SHOWN},
    {"new", headers_new, 0},
    {"push_header", headers_push, 0},
    {"scan", hf_headers_scan, 0},
    {"content_type", hf_headers_content_type, 0},
    {"content_is_xhtml", hf_headers_content_is, HF_IS_XHTML},
    {"content_length", hf_headers_single, HF_CONTENT_LENGTH},
    {"content_encoding", hf_headers_single, HF_CONTENT_ENCODING},
    {NULL, NULL, 0}
};

static const hf_sub others[] = {
    {"isa", headers_isa, 0},
    {"clear", headers_clear, 0},
    {"init_header", headers_init, 0},
    {"remove_header", headers_remove, 0},
    {"_standardize_field_name", headers_standardize, 0},
    {"remove_content_headers", hf_headers_remove_content, 0},
    {"clone", hf_headers_clone, 0},
    {"as_string", hf_headers_as_string, HF_SORTED},
    {"as_string_without_sort", hf_headers_as_string, HF_UNSORTED},
    {"psgi_flatten", hf_headers_psgi_flatten, HF_SORTED},
    {"psgi_flatten_without_sort", hf_headers_psgi_flatten, HF_UNSORTED},
    {"content_is_text", hf_headers_content_is, HF_IS_TEXT},
    {"content_is_html", hf_headers_content_is, HF_IS_HTML},
    {"content_is_xml", hf_headers_content_is, HF_IS_XML},
    {"content_language", hf_headers_single, HF_CONTENT_LANGUAGE},
    {"title", hf_headers_single, HF_TITLE},
    {"user_agent", hf_headers_single, HF_USER_AGENT},
    {"server", hf_headers_single, HF_SERVER},
    {"from", hf_headers_single, HF_FROM},
    {"warnings", hf_headers_single, HF_WARNINGS},
    {"www_authenticate", hf_headers_single, HF_WWW_AUTHENTICATE},
    {"authorization", hf_headers_single, HF_AUTHORIZATION},
    {"proxy_authenticate", hf_headers_single, HF_PROXY_AUTHENTICATE},
    {"proxy_authorization", hf_headers_single, HF_PROXY_AUTHORIZATION},
    {NULL, NULL, 0}
};

HV *hf_headers_hash(pTHX_ SV *self)
{
    return hf_object_keeping(aTHX_ self, relied_on);
}

SV *hf_headers_new(pTHX)
{
    HV *stash = gv_stashpvs("HTTP::Headers::Fast", 0);
    if (!stash || !hf_class_keeps(aTHX_ stash, relied_on))
        return NULL;
    return sv_bless(newRV_noinc((SV *)newHV()), stash);
}

bool hf_headers_set_pairs(pTHX_ HV *hv, SV **pair, I32 n)
{
    hf_field_names *names = hf_field_names_here(aTHX);
    if (n < 2 || !are_pairs(aTHX_ pair, n))
        return false;
    for (I32 i = 0; i < n; i += 2) {
        SV *key = hf_field_key_of(aTHX_ names, pair[i]);
        SV *value = i + 1 < n ? pair[i + 1] : &PL_sv_undef;
        if (is_again(aTHX_ pair, i))
            push_again(aTHX_ hv, key, value);
        else
            hf_field_set(aTHX_ hv, key, value);
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
        hf_headers_call_single(aTHX_ HF_CONTENT_LENGTH, ax, items);
        break;
    case HF_HEADERS_ENCODING:
        hf_headers_call_single(aTHX_ HF_CONTENT_ENCODING, ax, items);
        break;
    case HF_HEADERS_TYPE:
        hf_headers_call_content_type(aTHX_ ax, items);
        break;
    }
}

void hf_acc_boot_headers(pTHX)
{
    hf_acc_boot_contract(aTHX);
    hf_field_names_boot(aTHX);
    hf_acc_subs(aTHX_ "Headers", relied_on);
    hf_acc_subs(aTHX_ "Headers", others);
}
