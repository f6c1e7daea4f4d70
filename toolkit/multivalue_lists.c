/* multivalue_lists.c - where the lists of keys and of values of a Hash::MultiValue object are. */
#include "multivalue_lists.h"

#define MY_CXT_KEY "Hydrofoil::Accelerate::MultiValue::_lists"
typedef struct {
    HV *keys, *values, *registry; /* the original's, under the address of an object; NULL while it is not replaced */
} my_cxt_t;
START_MY_CXT

static int forget_stored(pTHX_ SV *sv, MAGIC *mg);

static const MGVTBL here = {0};                                   /* mg_obj: keys, mg_ptr: values */
static const MGVTBL stored = {NULL, NULL, NULL, NULL, forget_stored, NULL, NULL, NULL}; /* in the original's hashes */

static I32 address_of(const void *sv, char *buf, size_t size)
{
    return (I32)my_snprintf(buf, size, "%" UVuf, PTR2UV(sv));
}

static int forget_stored(pTHX_ SV *sv, MAGIC *mg)
{
    dMY_CXT;
    char address[24];
    I32 len;
    PERL_UNUSED_ARG(mg);
    if (PL_dirty || !MY_CXT.keys)
        return 0;
    len = address_of(sv, address, sizeof address);
    (void)hv_delete(MY_CXT.keys, address, len, G_DISCARD);
    (void)hv_delete(MY_CXT.values, address, len, G_DISCARD);
    if (MY_CXT.registry)
        (void)hv_delete(MY_CXT.registry, address, len, G_DISCARD);
    return 0;
}

static MAGIC *magic_of(HV *hv)
{
    MAGIC *mg;
    for (mg = SvMAGIC(hv); mg; mg = mg->mg_moremagic)
        if (mg->mg_type == PERL_MAGIC_ext && (mg->mg_virtual == &here || mg->mg_virtual == &stored))
            return mg;
    return NULL;
}

static bool stored_lists(pTHX_ HV *hv, hf_lists *l)
{
    dMY_CXT;
    char address[24];
    I32 len = address_of(hv, address, sizeof address);
    SV **keys, **values;
    if (!MY_CXT.keys)
        return false;
    keys = hv_fetch(MY_CXT.keys, address, len, 0);
    values = hv_fetch(MY_CXT.values, address, len, 0);
    if (!keys || !values)
        return false;
    l->keys = hf_plain_array(aTHX_ *keys);
    l->values = hf_plain_array(aTHX_ *values);
    return l->keys && l->values;
}

/* An object that has always been empty comes without lists, one of a query string with that instead. */
static void with_lists(pTHX_ MAGIC *mg)
{
    SV *source = mg->mg_obj;
    AV *keys, *values;
    if (LIKELY(source && SvTYPE(source) == SVt_PVAV))
        return;
    keys = newAV();
    values = newAV();
    if (source) {
        AV *pairs = newAV();
        SSize_t i, n;
        hf_acc_parse_urlencoded(aTHX_ pairs, SvPVX_const(source), SvCUR(source), mg->mg_private != 0);
        n = AvFILLp(pairs) + 1;
        if (n) {
            av_extend(keys, n / 2 - 1);
            av_extend(values, n / 2 - 1);
            for (i = 0; i < n; i++)
                hf_append(i & 1 ? values : keys, AvARRAY(pairs)[i]);
            AvFILLp(pairs) = -1; /* they have moved */
        }
        SvREFCNT_dec_NN((SV *)pairs);
        SvREFCNT_dec_NN(source);
    }
    mg->mg_obj = (SV *)keys;
    mg->mg_flags |= MGf_REFCOUNTED;
    mg->mg_ptr = (char *)values;
    mg->mg_len = HEf_SVKEY;
}

/* Perl takes a hash with any magic for one that may be tied. This one's is not, as long as there is no other. */
static MAGIC *hang_on(pTHX_ HV *hv, const MGVTBL *how, AV *keys, AV *values)
{
    const bool other = SvMAGICAL(hv) || SvMAGIC(hv);
    MAGIC *mg = sv_magicext((SV *)hv, (SV *)keys, PERL_MAGIC_ext, how, (const char *)values, values ? HEf_SVKEY : 0);
    if (!other)
        SvRMAGICAL_off(hv);
    return mg;
}

bool hf_lists_of(pTHX_ HV *hv, hf_lists *l)
{
    const MAGIC *mg = magic_of(hv);
    if (!mg || mg->mg_virtual == &stored)
        return stored_lists(aTHX_ hv, l);
    with_lists(aTHX_ (MAGIC *)mg);
    l->keys = (AV *)mg->mg_obj;
    l->values = (AV *)mg->mg_ptr;
    return !SvRMAGICAL(l->keys) && !SvRMAGICAL(l->values);
}

void hf_lists_begin(pTHX_ HV *hv)
{
    hang_on(aTHX_ hv, &here, NULL, NULL);
}

void hf_lists_begin_with(pTHX_ HV *hv, SV *source, bool skip_first)
{
    MAGIC *mg = hang_on(aTHX_ hv, &here, NULL, NULL);
    mg->mg_obj = hf_copy(aTHX_ source);
    mg->mg_flags |= MGf_REFCOUNTED;
    mg->mg_private = skip_first;
}

bool hf_lists_are_here(pTHX_ HV *hv)
{
    const MAGIC *mg = magic_of(hv);
    PERL_UNUSED_CONTEXT;
    return mg && mg->mg_virtual == &here;
}

bool hf_lists_are_unused(HV *hv)
{
    const MAGIC *mg = SvMAGIC(hv);
    return mg && mg->mg_virtual == &here && !mg->mg_moremagic && !mg->mg_obj;
}

void hf_lists_attach(pTHX_ HV *hv, AV *keys, AV *values)
{
    MAGIC *mg = magic_of(hv);
    if (mg && mg->mg_virtual == &stored)
        (void)forget_stored(aTHX_ (SV *)hv, mg);
    if (mg)
        sv_unmagicext((SV *)hv, PERL_MAGIC_ext, (MGVTBL *)mg->mg_virtual);
    hang_on(aTHX_ hv, &here, keys, values);
    SvREFCNT_dec_NN(keys);
    SvREFCNT_dec_NN(values);
}

void hf_lists_store(pTHX_ HV *hv)
{
    dMY_CXT;
    MAGIC *mg = magic_of(hv);
    char address[24];
    I32 len;
    if (!mg || mg->mg_virtual == &stored || !MY_CXT.keys)
        return;
    with_lists(aTHX_ mg);
    len = address_of(hv, address, sizeof address);
    (void)hv_store(MY_CXT.keys, address, len, newRV_inc(mg->mg_obj), 0);
    (void)hv_store(MY_CXT.values, address, len, newRV_inc((SV *)mg->mg_ptr), 0);
    if (MY_CXT.registry) {
        SV *rv = newRV_inc((SV *)hv);
        (void)hv_store(MY_CXT.registry, address, len, rv, 0);
        sv_rvweaken(rv);
    }
    sv_unmagicext((SV *)hv, PERL_MAGIC_ext, (MGVTBL *)&here);
    hang_on(aTHX_ hv, &stored, NULL, NULL);
}

/* --- when the original is replaced, and put back --- */

static HV *closed_over_hash(pTHX_ const char *sub, const char *name)
{
    CV *cv = hf_acc_original_cv(aTHX_ Perl_form(aTHX_ "Hash::MultiValue::%s", sub));
    SV *sv = cv ? hf_closed_over(aTHX_ cv, name) : NULL;
    return sv && SvTYPE(sv) == SVt_PVHV ? (HV *)SvREFCNT_inc_simple_NN(sv) : NULL;
}

bool hf_lists_find_stored(pTHX)
{
    dMY_CXT;
    SvREFCNT_dec(MY_CXT.keys);
    SvREFCNT_dec(MY_CXT.values);
    SvREFCNT_dec(MY_CXT.registry);
    MY_CXT.keys = closed_over_hash(aTHX_ "create", "%keys");
    MY_CXT.values = closed_over_hash(aTHX_ "create", "%values");
    MY_CXT.registry = closed_over_hash(aTHX_ "create", "%registry");
    return MY_CXT.keys && MY_CXT.values;
}

bool hf_lists_find_stored_in_thread(pTHX)
{
    MY_CXT_CLONE;
    MY_CXT.keys = MY_CXT.values = MY_CXT.registry = NULL; /* the other thread's */
    return hf_lists_find_stored(aTHX);
}

/* Calls move() with every hash that has lists hanging on it, or may have them in the original's hashes. */
static void for_each_hash(pTHX_ bool with_magic, void (*move)(pTHX_ HV *hv))
{
    AV *found = newAV();
    SV *arena;
    for (arena = PL_sv_arenaroot; arena; arena = (SV *)SvANY(arena)) {
        const SV *end = &arena[SvREFCNT(arena)];
        SV *sv;
        for (sv = arena + 1; sv < end; sv++)
            if (SvTYPE(sv) == SVt_PVHV && SvREFCNT(sv) && SvOBJECT(sv) && (!with_magic || magic_of((HV *)sv)))
                av_push(found, SvREFCNT_inc_simple_NN(sv));
    }
    while (AvFILLp(found) >= 0) {
        SV *sv = av_pop(found);
        move(aTHX_ (HV *)sv);
        SvREFCNT_dec_NN(sv);
    }
    SvREFCNT_dec_NN(found);
}

/* Lists in the original's hashes, of an object that it made or that it was called with, come to hang on the object. */
static void take_lists(pTHX_ HV *hv)
{
    dMY_CXT;
    char address[24];
    I32 len = address_of(hv, address, sizeof address);
    hf_lists l;
    if (!hv_exists(MY_CXT.keys, address, len) || !stored_lists(aTHX_ hv, &l))
        return;
    SvREFCNT_inc_simple_void_NN((SV *)l.keys);
    SvREFCNT_inc_simple_void_NN((SV *)l.values);
    (void)hv_delete(MY_CXT.keys, address, len, G_DISCARD);
    (void)hv_delete(MY_CXT.values, address, len, G_DISCARD);
    if (MY_CXT.registry)
        (void)hv_delete(MY_CXT.registry, address, len, G_DISCARD);
    hf_lists_attach(aTHX_ hv, l.keys, l.values);
}

void hf_lists_take_all(pTHX)
{
    dMY_CXT;
    if (HvUSEDKEYS(MY_CXT.keys))
        for_each_hash(aTHX_ false, take_lists);
}

void hf_lists_store_all(pTHX)
{
    for_each_hash(aTHX_ true, hf_lists_store);
}

void hf_lists_boot(pTHX)
{
    MY_CXT_INIT;
    Zero(&MY_CXT, 1, my_cxt_t);
}
