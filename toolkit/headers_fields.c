/* headers_fields.c - what HTTP::Headers::Fast does with all fields of an object: names, text, lists, copies. */
#include "headers_parts.h"

#define MAX_FIELDS 64 /* of an object that is put in order here */
#define NO_FIELD (-1)

typedef struct hf_field {
    HEK *hek;
    SV *value;
    U32 place;
} hf_field;

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

/* All fields, in the order of names. Their number, or NO_FIELD if there are too many, or one has a wide name. */
static I32 sorted_fields(pTHX_ hf_field_names *names, HV *hv, hf_field *list)
{
    I32 n = 0;
    if (HvUSEDKEYS(hv) > MAX_FIELDS)
        return NO_FIELD;
    if (SvOOK((SV *)hv))
        hv_iterinit(hv); /* as keys() does */
    HE **bucket = HvARRAY(hv);
    for (STRLEN i = 0; bucket && i <= HvMAX(hv); i++) {
        for (HE *he = bucket[i]; he; he = HeNEXT(he)) {
            HEK *hek = HeKEY_hek(he);
            if (!is_byte_key(hek) || n == MAX_FIELDS)
                return NO_FIELD;
            hf_field field = {hek, HeVAL(he), hf_field_place(aTHX_ names, hek)};
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
        return NO_FIELD;
    hv_iterinit(hv);
    while ((he = hv_iternext(hv))) {
        if (n == MAX_FIELDS || !is_byte_key(HeKEY_hek(he))) {
            hv_iterinit(hv);
            return NO_FIELD;
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
    hf_field_names *names = hf_field_names_here(aTHX);
    hf_field list[MAX_FIELDS];
    I32 n = sorted ? sorted_fields(aTHX_ names, hv, list) : unsorted_fields(aTHX_ hv, list);
    SSize_t total = 0;

    if (n < 0)
        return false;
    for (I32 i = 0; i < n; i++) {
        SV *value = list[i].value;
        AV *av = hf_value_array(value);
        if (!av) {
            if (hf_is_odd_array(value) || !is_writable_value(value, true))
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
        AV *av = hf_value_array(list[i].value);
        SSize_t len = av ? AvFILLp(av) + 1 : 1;
        for (SSize_t j = 0; j < len; j++) {
            SV *one = av ? AvARRAY(av)[j] : list[i].value;
            if (av && stored)
                clean_value(aTHX_ one);
            *to++ = hf_field_shown(aTHX_ names, hek);
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

void hf_headers_psgi_flatten(pTHX_ CV *cv)
{
    dXSARGS;
    dXSI32;
    HV *hv;
    if (items == 1 && (hv = hf_headers_hash(aTHX_ ST(0)))) {
        AV *out = newAV();
        SV *rv = sv_2mortal(newRV_noinc((SV *)out));
        if (hf_headers_flatten(aTHX_ hv, out, ix == HF_SORTED, true)) {
            ST(0) = rv;
            XSRETURN(1);
        }
    }
    if (ix == HF_SORTED)
        ORIGINAL("psgi_flatten");
    ORIGINAL("psgi_flatten_without_sort");
}

void hf_headers_as_string(pTHX_ CV *cv)
{
    dXSARGS;
    dXSI32;
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    hf_field list[MAX_FIELDS];
    I32 n;

    if (items < 1 || items > 2 || (items == 2 && SvOK(ST(1)) && !hf_acc_is_plain(ST(1)))
        || !(hv = hf_headers_hash(aTHX_ ST(0))))
        goto original;
    n = ix == HF_SORTED ? sorted_fields(aTHX_ names, hv, list) : unsorted_fields(aTHX_ hv, list);
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
            AV *av = hf_value_array(list[i].value);
            if (hf_is_odd_array(list[i].value))
                goto original;
            SSize_t len = av ? av_len(av) + 1 : 1;
            for (SSize_t j = 0; j < len; j++) {
                SV *one = av ? hf_value_element(aTHX_ av, j) : list[i].value;
                if (!hf_acc_is_plain(one))
                    goto original;
                STRLEN l;
                const char *p = SvPV_nomg_const(one, l);
                if (memchr(p, '\n', l))
                    goto original;
                SV *name = hf_field_spelling(aTHX_ names, hek);
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
    if (ix == HF_SORTED)
        ORIGINAL("as_string");
    ORIGINAL("as_string_without_sort");
}

void hf_headers_scan(pTHX_ CV *cv)
{
    dXSARGS;
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    hf_field list[MAX_FIELDS];
    I32 n;

    if (items != 2 || GIMME_V != G_VOID || !SvROK(ST(1)) || SvTYPE(SvRV(ST(1))) != SVt_PVCV
        || !(hv = hf_headers_hash(aTHX_ ST(0))) || (n = sorted_fields(aTHX_ names, hv, list)) < 0)
        ORIGINAL("scan");

    /* The callback may do anything to the object: what is walked is a list of keys, and each is looked up when its turn
     * comes. */
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
        SV *value = hf_field_value(aTHX_ hv, key);
        AV *av = value ? hf_value_array(value) : NULL;
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
            SV *name = hf_field_spelling(aTHX_ names, hek);
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

void hf_headers_field_names(pTHX_ CV *cv)
{
    dXSARGS;
    dXSI32;
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    hf_field list[MAX_FIELDS];
    I32 n;

    if (items != 1 || !(hv = hf_headers_hash(aTHX_ ST(0))) || (ix == HF_NAMES_SHOWN && GIMME_V != G_LIST)
        || (n = sorted_fields(aTHX_ names, hv, list)) < 0) {
        if (ix == HF_NAMES_SHOWN)
            ORIGINAL("header_field_names");
        ORIGINAL("_sorted_field_names");
    }
    if (ix == HF_NAMES_AS_KEYS) {
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
        SP[1 + i] = sv_2mortal(hf_field_shown(aTHX_ names, list[i].hek));
    PL_stack_sp = SP + n;
}

void hf_headers_remove_content(pTHX_ CV *cv)
{
    dXSARGS;
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv;
    hf_field list[MAX_FIELDS];
    I32 n;

    if (items != 1 || !(hv = hf_headers_hash(aTHX_ ST(0))) || (n = sorted_fields(aTHX_ names, hv, list)) < 0)
        ORIGINAL("remove_content_headers");
    HV *taken = GIMME_V == G_VOID ? NULL : newHV();
    SV *rv = taken ? sv_bless(sv_2mortal(newRV_noinc((SV *)taken)), SvSTASH((SV *)hv)) : NULL;
    AV *keys = (AV *)sv_2mortal((SV *)newAV());
    for (I32 i = 0; i < n; i++)
        if (hf_field_is_entity(aTHX_ names, list[i].hek))
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
    U32 flags = SvFLAGS(value)
                & (SVf_POK | SVf_IOK | SVf_NOK | SVf_ROK | SVs_GMG | SVs_SMG | SVs_RMG | SVp_POK | SVp_IOK | SVp_NOK);
    return SvTYPE(value) < SVt_PVGV && (flags == (SVf_POK | SVp_POK) || flags == (SVf_IOK | SVp_IOK));
}

static const hf_term no_hooks[] = {
    {"STORABLE_freeze", NULL, 0}, {"STORABLE_thaw", NULL, 0}, {"STORABLE_attach", NULL, 0}, {NULL, NULL, 0}
};

void hf_headers_clone(pTHX_ CV *cv)
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
            AV *av = hf_value_array(value);
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
