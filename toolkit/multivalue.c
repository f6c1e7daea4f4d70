/* multivalue.c - Hash::MultiValue in C: its methods. multivalue_lists.h says where the lists of an object are. */
#include "multivalue.h"

#include "multivalue_lists.h"

enum {
    NEW, CREATE, FROM_MIXED, GET, GET_ALL, GET_ONE, SET, ADD, MERGE_FLAT, MERGE_MIXED, REMOVE, CLEAR, CLONED, KEYS, VALUES,
    FLATTEN, LISTS, AS_HASHREF, AS_HASHREF_MIXED, AS_HASHREF_MULTI, STORABLE_FREEZE, STORABLE_THAW, N_METHODS
};

#define MY_CXT_KEY "Hydrofoil::Accelerate::MultiValue::_state"
typedef struct {
    HV *stash; /* of Hash::MultiValue; NULL while it is not replaced */
    hf_classes classes;
} my_cxt_t;
START_MY_CXT

static const hf_method methods[];

/* Calls the original with the running XSUB's arguments; its object, if it is one of ours, as one of the original's. */
static void original(pTHX_ const char *name, I32 ax, I32 items)
{
    SV *self = items > 0 ? ST(0) : NULL;
    if (self && SvROK(self) && SvTYPE(SvRV(self)) == SVt_PVHV)
        hf_lists_store(aTHX_ (HV *)SvRV(self));
    hf_acc_original(aTHX_ Perl_form(aTHX_ "Hash::MultiValue::%s", name), ax, items);
}

#define ORIGINAL(name)                                                                                                           \
    do {                                                                                                                         \
        original(aTHX_ name, ax, items);                                                                                         \
        return;                                                                                                                  \
    } while (0)

/* Are all these methods of the object's class ours? */
#define BIT(method) ((U64)1 << (method))

static bool has(pTHX_ HV *stash, U64 wanted)
{
    dMY_CXT;
    return (hf_methods(aTHX_ &MY_CXT.classes, stash, methods, N_METHODS) & wanted) == wanted;
}

/* --- what objects are made of --- */

static HV *object(pTHX_ SV *rv)
{
    HV *hv = hf_plain_hash(aTHX_ rv);
    return hv && SvOBJECT(hv) ? hv : NULL;
}

/* Can it be a key as it is: hashed and compared without warnings, nothing called? */
static bool is_key(SV *sv)
{
    return hf_acc_is_plain(sv);
}

static bool are_keys(AV *keys)
{
    SV **k = AvARRAY(keys);
    SSize_t n = AvFILLp(keys) + 1;
    while (n--)
        if (UNLIKELY(!k[n] || !is_key(k[n])))
            return false;
    return true;
}

static bool is_same(pTHX_ SV *a, SV *b)
{
    if (LIKELY(SvPOK(a) && SvPOK(b) && !((SvFLAGS(a) ^ SvFLAGS(b)) & SVf_UTF8)))
        return SvCUR(a) == SvCUR(b) && memEQ(SvPVX_const(a), SvPVX_const(b), SvCUR(a));
    return cBOOL(sv_eq(a, b));
}

static SV *element(pTHX_ AV *av, SSize_t i)
{
    SV *sv = i <= AvFILLp(av) ? AvARRAY(av)[i] : NULL;
    return sv ? sv : &PL_sv_undef;
}

/* The entry of a key, made if there is none: then without a value. An undefined key is an empty string. */
static HE *entry_of(pTHX_ HV *hv, SV *key)
{
    if (UNLIKELY(!SvOK(key)))
        return (HE *)hv_common(hv, NULL, "", 0, 0, HV_FETCH_LVALUE | HV_FETCH_EMPTY_HE, NULL, 0);
    return (HE *)hv_common(hv, key, NULL, 0, 0, HV_FETCH_LVALUE | HV_FETCH_EMPTY_HE, NULL, 0);
}

/* Something is about to be called that may empty or free the object: keeps what is at work here until later. */
static void keep(pTHX_ HV *hv)
{
    hf_lists l;
    sv_2mortal(SvREFCNT_inc_simple_NN((SV *)hv));
    if (hf_lists_of(aTHX_ hv, &l)) {
        sv_2mortal(SvREFCNT_inc_simple_NN((SV *)l.keys));
        sv_2mortal(SvREFCNT_inc_simple_NN((SV *)l.values));
    }
}

/* Assigns, and neither takes the value's buffer nor frees what was referred to before the statement is over. */
static void assign(pTHX_ SV *sv, SV *value)
{
    if (UNLIKELY(SvROK(sv)))
        (void)sv_2mortal(newSVsv(sv));
    sv_setsv_flags(sv, value, SV_GMAGIC | SV_NOSTEAL | SV_DO_COW_SVSETSV);
}

static HE *put(pTHX_ HV *hv, SV *key, SV *value)
{
    HE *he = entry_of(aTHX_ hv, key);
    SV *sv = HeVAL(he);
    if (!sv)
        HeVAL(he) = hf_copy(aTHX_ value);
    else if (UNLIKELY(SvMAGICAL(sv))) {
        keep(aTHX_ hv);
        sv_setsv_flags(sv, value, SV_GMAGIC | SV_NOSTEAL | SV_DO_COW_SVSETSV);
        SvSETMAGIC(sv);
    }
    else
        assign(aTHX_ sv, value);
    return he;
}

/* Without -w the original takes undefined keys in silence, whatever its callers think of them. */
static bool may_be_key(pTHX_ SV *sv)
{
    return is_key(sv) || (!SvOK(sv) && !SvGMAGICAL(sv) && !(PL_dowarn & G_WARN_ON));
}

static bool can_be_keys(pTHX_ AV *keys)
{
    SSize_t i;
    for (i = 0; i <= AvFILLp(keys); i++)
        if (!AvARRAY(keys)[i] || !may_be_key(aTHX_ AvARRAY(keys)[i]))
            return false;
    return true;
}

/* Can these be merged by copying? Keys are at even places of the list that starts with the n-th argument. */
static bool can_merge(pTHX_ SV **args, SSize_t n, SSize_t first)
{
    SSize_t i;
    for (i = 0; i < n; i++)
        if (UNLIKELY(!args[i] || SvGMAGICAL(args[i]) || (!((i + first) & 1) && !may_be_key(aTHX_ args[i]))))
            return false;
    return true;
}

/* Adds keys and values to an object that has none yet. A key that is a plain string shares the hash's own. */
static void fill(pTHX_ HV *hv, AV *keys, AV *values, SV **args, SSize_t n, SV *spare)
{
    SSize_t i;
    if (!n)
        return;
    av_extend(keys, AvFILLp(keys) + (n + 1) / 2);
    av_extend(values, AvFILLp(values) + (n + 1) / 2);
    for (i = 0; i < n; i += 2) {
        SV *key = args[i], *value = i + 1 < n ? args[i + 1] : spare;
        HE *he = put(aTHX_ hv, key, value ? value : &PL_sv_undef);
        const bool shares = (SvFLAGS(key) & (SVf_POK | SVf_IOK | SVf_NOK | SVf_UTF8)) == SVf_POK && HeKLEN(he) >= 0
                            && !(HeKFLAGS(he) & (HVhek_UTF8 | HVhek_WASUTF8));
        hf_append(keys, shares ? newSVhek(HeKEY_hek(he)) : hf_copy(aTHX_ key));
        if (value)
            hf_append(values, hf_copy(aTHX_ value));
    }
}

/* An object without keys. Its lists are made when they are asked for. */
static SV *make(pTHX_ HV *stash)
{
    HV *hv = newHV();
    SV *rv = newRV_noinc((SV *)hv);
    hf_lists_begin(aTHX_ hv);
    return sv_bless(rv, stash);
}

static SV *make_with(pTHX_ HV *stash, hf_lists *l)
{
    SV *rv = make(aTHX_ stash);
    hf_lists_of(aTHX_ (HV *)SvRV(rv), l);
    return rv;
}

static HV *class_of(pTHX_ SV *name)
{
    if (!hf_acc_is_plain(name) || !SvPOK(name) || !SvCUR(name))
        return NULL;
    return gv_stashsv(name, 0);
}

/* --- the methods --- */

XS_INTERNAL(mv_new)
{
    dXSARGS;
    HV *stash = items ? class_of(aTHX_ ST(0)) : NULL;
    hf_lists l;
    SV *self;
    if (!stash || !has(aTHX_ stash, BIT(CREATE) | BIT(MERGE_FLAT)) || !can_merge(aTHX_ &ST(1), items - 1, 0))
        ORIGINAL("new");
    if (items == 1)
        self = sv_2mortal(make(aTHX_ stash));
    else {
        self = sv_2mortal(make_with(aTHX_ stash, &l));
        fill(aTHX_ (HV *)SvRV(self), l.keys, l.values, &ST(1), items - 1, NULL);
    }
    ST(0) = self;
    XSRETURN(1);
}

XS_INTERNAL(mv_create)
{
    dXSARGS;
    HV *stash = items ? class_of(aTHX_ ST(0)) : NULL;
    if (!stash)
        ORIGINAL("create");
    ST(0) = sv_2mortal(make(aTHX_ stash));
    XSRETURN(1);
}

/* push @$keys, ($key) x @$value and so on, or one of each. */
static void merge_one(pTHX_ HV *hv, const hf_lists *l, SV *key, SV *value)
{
    AV *many = SvROK(value) && SvTYPE(SvRV(value)) == SVt_PVAV && !SvOBJECT(SvRV(value)) ? (AV *)SvRV(value) : NULL;
    if (many) {
        const SSize_t n = AvFILLp(many) + 1;
        SSize_t i;
        if (!n)
            return;
        for (i = 0; i < n; i++) {
            av_push(l->keys, hf_copy(aTHX_ key));
            av_push(l->values, hf_copy(aTHX_ element(aTHX_ many, i)));
        }
    }
    else {
        av_push(l->keys, hf_copy(aTHX_ key));
        av_push(l->values, hf_copy(aTHX_ value));
    }
    put(aTHX_ hv, key, element(aTHX_ l->values, AvFILLp(l->values)));
}

static bool can_merge_mixed(pTHX_ SV *key, SV *value)
{
    if (!may_be_key(aTHX_ key) || SvGMAGICAL(value))
        return false;
    if (SvROK(value) && SvTYPE(SvRV(value)) == SVt_PVAV) {
        AV *av = (AV *)SvRV(value);
        SSize_t i;
        if (SvOBJECT(av))
            return strNE(sv_reftype((SV *)av, 1), "ARRAY");
        if (SvRMAGICAL(av))
            return false;
        for (i = 0; i <= AvFILLp(av); i++)
            if (AvARRAY(av)[i] && SvGMAGICAL(AvARRAY(av)[i]))
                return false;
    }
    return true;
}

/* What the arguments are for merge_mixed: a list, or one hash. False if it takes the original. */
static bool can_merge_all(pTHX_ SV **args, SSize_t n, HV **hash)
{
    SSize_t i;
    *hash = NULL;
    if (n == 1) {
        U32 bucket;
        if (SvGMAGICAL(args[0]) || !(*hash = hf_plain_hash(aTHX_ args[0])))
            return false;
        if (!HvUSEDKEYS(*hash))
            return true;
        for (bucket = 0; bucket <= HvMAX(*hash); bucket++) {
            HE *he;
            for (he = HvARRAY(*hash) ? HvARRAY(*hash)[bucket] : NULL; he; he = HeNEXT(he))
                if (HeVAL(he) == &PL_sv_placeholder || !can_merge_mixed(aTHX_ &PL_sv_no, HeVAL(he)))
                    return false;
        }
        return true;
    }
    for (i = 0; i < n; i += 2)
        if (!can_merge_mixed(aTHX_ args[i], i + 1 < n ? args[i + 1] : &PL_sv_undef))
            return false;
    return true;
}

static void merge_all(pTHX_ HV *hv, const hf_lists *l, SV **args, SSize_t n, HV *hash)
{
    SSize_t i;
    if (hash) {
        HE *he;
        /* as each() goes on: from where it stands */
        while ((he = hv_iternext(hash)))
            merge_one(aTHX_ hv, l, hv_iterkeysv(he), HeVAL(he));
        return;
    }
    for (i = 0; i < n; i += 2)
        merge_one(aTHX_ hv, l, args[i], i + 1 < n ? args[i + 1] : &PL_sv_undef);
}

XS_INTERNAL(mv_from_mixed)
{
    dXSARGS;
    HV *stash = items ? class_of(aTHX_ ST(0)) : NULL, *hash;
    hf_lists l;
    SV *self;
    if (!stash || !has(aTHX_ stash, BIT(CREATE) | BIT(MERGE_MIXED)) || !can_merge_all(aTHX_ &ST(1), items - 1, &hash))
        ORIGINAL("from_mixed");
    self = sv_2mortal(make_with(aTHX_ stash, &l));
    merge_all(aTHX_ (HV *)SvRV(self), &l, &ST(1), items - 1, hash);
    ST(0) = self;
    XSRETURN(1);
}

XS_INTERNAL(mv_get)
{
    dXSARGS;
    HV *hv = items > 1 ? object(aTHX_ ST(0)) : NULL;
    HE *he;
    if (!hv || !is_key(ST(1)))
        ORIGINAL("get");
    he = hv_fetch_ent(hv, ST(1), 0, 0);
    ST(0) = he ? sv_mortalcopy(HeVAL(he)) : sv_newmortal();
    XSRETURN(1);
}

bool hf_mv_get_all(pTHX_ SV *self, SV *key, I32 ax)
{
    HV *hv = object(aTHX_ self);
    const U8 gimme = GIMME_V;
    hf_lists l;
    SV **sp, *last = NULL;
    SSize_t i;

    if (!hv || !has(aTHX_ SvSTASH(hv), BIT(GET_ALL)) || !is_key(key) || !hf_lists_of(aTHX_ hv, &l) || !are_keys(l.keys))
        return false;
    for (i = 0; i <= AvFILLp(l.values); i++)
        if (AvARRAY(l.values)[i] && SvGMAGICAL(AvARRAY(l.values)[i]))
            return false;

    sp = PL_stack_base + ax - 1;
    for (i = 0; i <= AvFILLp(l.keys); i++)
        if (is_same(aTHX_ AvARRAY(l.keys)[i], key)) {
            last = element(aTHX_ l.values, i);
            if (gimme == G_ARRAY)
                XPUSHs(sv_mortalcopy(last));
        }
    if (gimme == G_SCALAR)
        XPUSHs(last ? sv_mortalcopy(last) : sv_newmortal());
    PL_stack_sp = sp;
    return true;
}

XS_INTERNAL(mv_get_all)
{
    dXSARGS;
    if (items < 2 || !hf_mv_get_all(aTHX_ ST(0), ST(1), ax))
        ORIGINAL("get_all");
}

XS_INTERNAL(mv_get_one)
{
    dXSARGS;
    HV *hv = items > 1 ? object(aTHX_ ST(0)) : NULL;
    hf_lists l;
    SSize_t i, found = -1;
    if (!hv || !has(aTHX_ SvSTASH(hv), BIT(GET_ALL)) || !is_key(ST(1)) || !hf_lists_of(aTHX_ hv, &l) || !are_keys(l.keys))
        ORIGINAL("get_one");
    for (i = 0; i <= AvFILLp(l.keys); i++)
        if (is_same(aTHX_ AvARRAY(l.keys)[i], ST(1))) {
            if (found >= 0)
                ORIGINAL("get_one"); /* which says so */
            found = i;
        }
    if (found < 0)
        ORIGINAL("get_one");
    ST(0) = sv_mortalcopy(element(aTHX_ l.values, found));
    XSRETURN(1);
}

/* Can the lists be changed in step? */
static bool in_step(const hf_lists *l)
{
    SSize_t i;
    if (AvFILLp(l->keys) != AvFILLp(l->values) || SvREADONLY(l->keys) || SvREADONLY(l->values) || !are_keys(l->keys))
        return false;
    for (i = 0; i <= AvFILLp(l->values); i++)
        if (!AvARRAY(l->values)[i] || SvMAGICAL(AvARRAY(l->values)[i]) || SvREADONLY(AvARRAY(l->values)[i]))
            return false;
    return true;
}

/* The values of a key become these; what is left over goes, what is missing is added at the end. */
static void set(pTHX_ HV *hv, const hf_lists *l, SV *key, SV **args, SSize_t n)
{
    SSize_t i, to = 0, taken = 0;
    const SSize_t before = AvFILLp(l->keys) + 1;
    SV **k = AvARRAY(l->keys), **v = AvARRAY(l->values);

    key = sv_mortalcopy(key); /* it may be one that goes */
    for (i = 0; i < n; i++)
        args[i] = sv_mortalcopy(args[i]); /* likewise */

    for (i = 0; i < before; i++) {
        if (is_same(aTHX_ k[i], key)) {
            if (taken >= n) {
                sv_2mortal(k[i]);
                sv_2mortal(v[i]);
                continue;
            }
            assign(aTHX_ v[i], args[taken++]);
        }
        k[to] = k[i];
        v[to] = v[i];
        to++;
    }
    for (i = to; i < before; i++)
        k[i] = v[i] = NULL;
    AvFILLp(l->keys) = AvFILLp(l->values) = to - 1;

    for (; taken < n; taken++) {
        av_push(l->keys, hf_copy(aTHX_ key));
        av_push(l->values, hf_copy(aTHX_ args[taken]));
    }
    if (n)
        put(aTHX_ hv, key, args[n - 1]);
    else
        (void)hv_delete_ent(hv, key, G_DISCARD, 0);
}

static bool are_not_magical(pTHX_ SV **args, SSize_t n)
{
    SSize_t i;
    PERL_UNUSED_CONTEXT;
    for (i = 0; i < n; i++)
        if (args[i] && SvMAGICAL(args[i]))
            return false;
    return true;
}

XS_INTERNAL(mv_set)
{
    dXSARGS;
    HV *hv = items > 1 ? object(aTHX_ ST(0)) : NULL;
    hf_lists l;
    if (!hv || !is_key(ST(1)) || !are_not_magical(aTHX_ &ST(2), items - 2) || !hf_lists_of(aTHX_ hv, &l) || !in_step(&l))
        ORIGINAL("set");
    set(aTHX_ hv, &l, ST(1), &ST(2), items - 2);
    XSRETURN(1);
}

XS_INTERNAL(mv_remove)
{
    dXSARGS;
    HV *hv = items > 1 ? object(aTHX_ ST(0)) : NULL;
    hf_lists l;
    if (!hv || !has(aTHX_ SvSTASH(hv), BIT(SET)) || !is_key(ST(1)) || !hf_lists_of(aTHX_ hv, &l) || !in_step(&l))
        ORIGINAL("remove");
    set(aTHX_ hv, &l, ST(1), NULL, 0);
    XSRETURN(1);
}

XS_INTERNAL(mv_add)
{
    dXSARGS;
    HV *hv = items > 1 ? object(aTHX_ ST(0)) : NULL;
    hf_lists l;
    SSize_t i;
    if (!hv || !has(aTHX_ SvSTASH(hv), BIT(MERGE_MIXED)) || !may_be_key(aTHX_ ST(1)) || !are_not_magical(aTHX_ &ST(2), items - 2)
        || !hf_lists_of(aTHX_ hv, &l))
        ORIGINAL("add");
    for (i = 2; i < items; i++) {
        av_push(l.keys, hf_copy(aTHX_ ST(1)));
        av_push(l.values, hf_copy(aTHX_ ST(i)));
    }
    if (items > 2)
        put(aTHX_ hv, ST(1), ST(items - 1));
    XSRETURN(1);
}

XS_INTERNAL(mv_merge_flat)
{
    dXSARGS;
    HV *hv = items ? object(aTHX_ ST(0)) : NULL;
    hf_lists l;
    SSize_t i;
    if (!hv || !can_merge(aTHX_ &ST(1), items - 1, 0) || !hf_lists_of(aTHX_ hv, &l)
        || !can_be_keys(aTHX_ l.keys) || !are_not_magical(aTHX_ AvARRAY(l.values), AvFILLp(l.values) + 1))
        ORIGINAL("merge_flat");
    if (AvFILLp(l.keys) < 0 && AvFILLp(l.values) < 0 && !HvUSEDKEYS(hv))
        fill(aTHX_ hv, l.keys, l.values, &ST(1), items - 1, NULL);
    else {
        for (i = 1; i < items; i++)
            av_push(i & 1 ? l.keys : l.values, hf_copy(aTHX_ ST(i)));
        /* what is in the hash becomes what is in the lists, for the old keys too */
        for (i = 0; i <= AvFILLp(l.keys); i++)
            put(aTHX_ hv, AvARRAY(l.keys)[i], element(aTHX_ l.values, i));
    }
    XSRETURN(1);
}

XS_INTERNAL(mv_merge_mixed)
{
    dXSARGS;
    HV *hv = items ? object(aTHX_ ST(0)) : NULL, *hash;
    hf_lists l;
    if (!hv || !can_merge_all(aTHX_ &ST(1), items - 1, &hash) || hash == hv || !hf_lists_of(aTHX_ hv, &l))
        ORIGINAL("merge_mixed");
    merge_all(aTHX_ hv, &l, &ST(1), items - 1, hash);
    XSRETURN(1);
}

XS_INTERNAL(mv_clear)
{
    dXSARGS;
    HV *hv = items ? object(aTHX_ ST(0)) : NULL;
    if (!hv || !hf_lists_are_here(aTHX_ hv))
        ORIGINAL("clear");
    keep(aTHX_ hv);
    hv_clear(hv);
    hf_lists_attach(aTHX_ hv, newAV(), newAV());
    XSRETURN(1);
}

XS_INTERNAL(mv_clone)
{
    dXSARGS;
    HV *hv = items ? object(aTHX_ ST(0)) : NULL;
    hf_lists l, to;
    SV *copy;
    SSize_t i;
    if (!hv || !has(aTHX_ SvSTASH(hv), BIT(NEW) | BIT(CREATE) | BIT(MERGE_FLAT) | BIT(FLATTEN)) || !hf_lists_of(aTHX_ hv, &l)
        || !in_step(&l))
        ORIGINAL("clone");
    copy = sv_2mortal(make_with(aTHX_ SvSTASH(hv), &to));
    for (i = 0; i <= AvFILLp(l.keys); i++) {
        SV *pair[2];
        pair[0] = AvARRAY(l.keys)[i];
        pair[1] = AvARRAY(l.values)[i];
        fill(aTHX_ (HV *)SvRV(copy), to.keys, to.values, pair, 2, NULL);
    }
    ST(0) = copy;
    XSRETURN(1);
}

/* ->keys, ->values: copies, or how many */
static bool return_list(pTHX_ AV *av, I32 ax)
{
    const U8 gimme = GIMME_V;
    const SSize_t n = AvFILLp(av) + 1;
    SV **sp = PL_stack_base + ax - 1;
    SSize_t i;
    for (i = 0; i < n; i++)
        if (UNLIKELY(AvARRAY(av)[i] && SvGMAGICAL(AvARRAY(av)[i])))
            return false;
    if (gimme == G_ARRAY) {
        EXTEND(sp, n);
        for (i = 0; i < n; i++)
            PUSHs(sv_mortalcopy(element(aTHX_ av, i)));
    }
    else if (gimme == G_SCALAR)
        XPUSHs(sv_2mortal(newSViv((IV)n)));
    PL_stack_sp = sp;
    return true;
}

XS_INTERNAL(mv_list)
{
    dXSARGS;
    dXSI32;
    HV *hv = items ? object(aTHX_ ST(0)) : NULL;
    hf_lists l;
    if (!hv || !hf_lists_of(aTHX_ hv, &l) || !return_list(aTHX_ ix == KEYS ? l.keys : l.values, ax))
        ORIGINAL(methods[ix].name);
}

XS_INTERNAL(mv_flatten)
{
    dXSARGS;
    HV *hv = items ? object(aTHX_ ST(0)) : NULL;
    const U8 gimme = GIMME_V;
    hf_lists l;
    SSize_t i, n;
    if (!hv || !hf_lists_of(aTHX_ hv, &l) || !are_keys(l.keys))
        ORIGINAL("flatten");
    n = AvFILLp(l.keys) + 1;
    for (i = 0; i < n; i++)
        if (SvGMAGICAL(element(aTHX_ l.values, i)))
            ORIGINAL("flatten");
    SP -= items;
    if (gimme == G_ARRAY) {
        EXTEND(SP, 2 * n);
        for (i = 0; i < n; i++) {
            PUSHs(sv_mortalcopy(AvARRAY(l.keys)[i]));
            PUSHs(sv_mortalcopy(element(aTHX_ l.values, i)));
        }
    }
    else if (gimme == G_SCALAR)
        XPUSHs(sv_2mortal(newSViv((IV)(2 * n))));
    PUTBACK;
}

/* For ->each, whose loop is in Perl so that `last` in the callback ends it: the two lists themselves, or nothing. */
XS_INTERNAL(mv_lists)
{
    dXSARGS;
    HV *hv = items ? object(aTHX_ ST(0)) : NULL;
    hf_lists l;
    if (!hv || !hf_lists_of(aTHX_ hv, &l))
        XSRETURN_EMPTY;
    SP -= items;
    EXTEND(SP, 2);
    mPUSHs(newRV_inc((SV *)l.keys));
    mPUSHs(newRV_inc((SV *)l.values));
    PUTBACK;
}

XS_INTERNAL(mv_as_hashref)
{
    dXSARGS;
    HV *hv = items ? object(aTHX_ ST(0)) : NULL, *copy;
    HE *he;
    if (!hv)
        ORIGINAL("as_hashref");
    copy = newHV();
    ST(0) = sv_2mortal(newRV_noinc((SV *)copy));
    hv_iterinit(hv);
    while ((he = hv_iternext(hv))) {
        if (HeKLEN(he) < 0 || HeKFLAGS(he) & (HVhek_UTF8 | HVhek_WASUTF8))
            (void)hv_store_ent(copy, hv_iterkeysv(he), hf_copy(aTHX_ HeVAL(he)), 0);
        else
            (void)hv_common(copy, NULL, HeKEY(he), HeKLEN(he), 0, HV_FETCH_ISSTORE, hf_copy(aTHX_ HeVAL(he)), HeHASH(he));
    }
    XSRETURN(1);
}

/* A hash of arrays, or of single values where `single` says so. NULL if it takes the original. */
static SV *as_hash(pTHX_ SV *self, bool single)
{
    HV *hv = object(aTHX_ self), *hash;
    hf_lists l;
    SSize_t i;
    SV *rv;

    if (!hv || !hf_lists_of(aTHX_ hv, &l) || !can_be_keys(aTHX_ l.keys))
        return NULL;
    for (i = 0; i <= AvFILLp(l.keys); i++)
        if (SvGMAGICAL(element(aTHX_ l.values, i)))
            return NULL;
    hash = newHV();
    rv = sv_2mortal(newRV_noinc((SV *)hash));
    for (i = 0; i <= AvFILLp(l.keys); i++) {
        HE *he = entry_of(aTHX_ hash, AvARRAY(l.keys)[i]);
        SV *value = hf_copy(aTHX_ element(aTHX_ l.values, i)), *held;
        AV *av;
        if (!HeVAL(he)) {
            if (single) /* a reference to it, until it is known whether there is another */
                held = value;
            else {
                av = newAV();
                av_push(av, value);
                held = (SV *)av;
            }
            HeVAL(he) = newRV_noinc(held);
            continue;
        }
        held = SvRV(HeVAL(he));
        if (SvTYPE(held) != SVt_PVAV) {
            av = newAV();
            av_push(av, held);
            SvRV_set(HeVAL(he), (SV *)av);
        }
        else
            av = (AV *)held;
        av_push(av, value);
    }
    if (single) {
        HE *he;
        hv_iterinit(hash);
        while ((he = hv_iternext(hash))) {
            SV *ref = HeVAL(he), *held = SvRV(ref);
            if (SvTYPE(held) != SVt_PVAV) {
                HeVAL(he) = SvREFCNT_inc_simple_NN(held);
                SvREFCNT_dec_NN(ref);
            }
        }
    }
    return rv;
}

XS_INTERNAL(mv_as_hash)
{
    dXSARGS;
    dXSI32;
    SV *hash = items ? as_hash(aTHX_ ST(0), ix == AS_HASHREF_MIXED) : NULL;
    if (!hash)
        ORIGINAL(methods[ix].name);
    ST(0) = hash;
    XSRETURN(1);
}

XS_INTERNAL(mv_freeze)
{
    dXSARGS;
    HV *hv = items ? object(aTHX_ ST(0)) : NULL;
    hf_lists l;
    if (!hv || !hf_lists_of(aTHX_ hv, &l))
        ORIGINAL("STORABLE_freeze");
    SP -= items;
    EXTEND(SP, 3);
    mPUSHp("", 0);
    mPUSHs(newRV_inc((SV *)l.keys));
    mPUSHs(newRV_inc((SV *)l.values));
    PUTBACK;
}

XS_INTERNAL(mv_thaw)
{
    dXSARGS;
    HV *hv = items == 5 ? object(aTHX_ ST(0)) : NULL;
    AV *keys = hv ? hf_plain_array(aTHX_ ST(3)) : NULL;
    AV *values = hv ? hf_plain_array(aTHX_ ST(4)) : NULL;
    SSize_t i;
    if (!keys || !values || !are_keys(keys) || !are_not_magical(aTHX_ AvARRAY(values), AvFILLp(values) + 1))
        ORIGINAL("STORABLE_thaw");
    hf_lists_attach(aTHX_ hv, (AV *)SvREFCNT_inc_simple_NN((SV *)keys), (AV *)SvREFCNT_inc_simple_NN((SV *)values));
    for (i = 0; i <= AvFILLp(keys); i++)
        put(aTHX_ hv, AvARRAY(keys)[i], element(aTHX_ values, i));
    XSRETURN(1);
}

/* --- for Plack::Request --- */

SV *hf_mv_new(pTHX_ AV *first, AV *second)
{
    dMY_CXT;
    const U64 wanted = BIT(NEW) | BIT(CREATE) | BIT(MERGE_FLAT);
    const SSize_t n = first ? AvFILLp(first) + 1 : 0, m = second ? AvFILLp(second) + 1 : 0;
    hf_lists l;
    SV *self, *spare = NULL;

    if (!MY_CXT.stash || !has(aTHX_ MY_CXT.stash, wanted))
        return NULL;
    if (!n && !m)
        return make(aTHX_ MY_CXT.stash);
    if ((n && !can_merge(aTHX_ AvARRAY(first), n, 0)) || (m && !can_merge(aTHX_ AvARRAY(second), m, n)))
        return NULL;
    if (m && n & 1) /* a key here, its value there */
        spare = AvARRAY(second)[0];
    self = make_with(aTHX_ MY_CXT.stash, &l);
    if (n)
        fill(aTHX_ (HV *)SvRV(self), l.keys, l.values, AvARRAY(first), n, spare);
    if (m)
        fill(aTHX_ (HV *)SvRV(self), l.keys, l.values, AvARRAY(second) + (spare != NULL), m - (spare != NULL), NULL);
    return self;
}

SV *hf_mv_new_parsed(pTHX_ SV *source, bool skip_first)
{
    dMY_CXT;
    const U64 wanted = BIT(NEW) | BIT(CREATE) | BIT(MERGE_FLAT);
    HV *hv;
    SV *self;

    if (!MY_CXT.stash || !has(aTHX_ MY_CXT.stash, wanted))
        return NULL;
    hv = newHV();
    self = newRV_noinc((SV *)hv);
    hf_lists_begin_with(aTHX_ hv, source, skip_first);
    sv_bless(self, MY_CXT.stash);
    hf_acc_parse_urlencoded_into(aTHX_ hv, SvPVX_const(source), SvCUR(source), skip_first);
    return self;
}

bool hf_mv_is_unused(pTHX_ HV *hv)
{
    dMY_CXT;
    if (SvREFCNT(hv) != 1 || !SvOBJECT(hv) || SvSTASH(hv) != MY_CXT.stash
        || SvFLAGS(hv) & (SVs_GMG | SVs_SMG | SVs_RMG | SVf_READONLY) || HvTOTALKEYS(hv) || HvRITER_get(hv) != -1
        || (SvOOK(hv) && HvAUX(hv)->xhv_backreferences))
        return false;
    return hf_lists_are_unused(hv);
}

/* --- setting up and taking down --- */

static void look_at_class(pTHX)
{
    dMY_CXT;
    SvREFCNT_dec(MY_CXT.stash);
    MY_CXT.stash = (HV *)SvREFCNT_inc((SV *)gv_stashpvs("Hash::MultiValue", 0));
    Zero(&MY_CXT.classes, 1, hf_classes);
}

/* The original's subs have been replaced: objects that there are become ours. */
XS_INTERNAL(mv_on)
{
    dXSARGS;
    const bool found = hf_lists_find_stored(aTHX);
    PERL_UNUSED_VAR(items);
    look_at_class(aTHX);
    if (!found)
        croak("This Hash::MultiValue keeps its values in another way");
    hf_lists_take_all(aTHX);
    XSRETURN_EMPTY;
}

/* They have been put back: objects that there are become the original's. */
XS_INTERNAL(mv_off)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    hf_lists_store_all(aTHX);
    XSRETURN_EMPTY;
}

/* A new thread has variables of its own. */
XS_INTERNAL(mv_clone_thread)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    (void)hf_lists_find_stored_in_thread(aTHX);
    {
        MY_CXT_CLONE;
        MY_CXT.stash = NULL; /* the other thread's */
        look_at_class(aTHX);
    }
    XSRETURN_EMPTY;
}

static const hf_method methods[] = {
    [NEW] = {"new", mv_new},
    [CREATE] = {"create", mv_create},
    [FROM_MIXED] = {"from_mixed", mv_from_mixed},
    [GET] = {"get", mv_get},
    [GET_ALL] = {"get_all", mv_get_all},
    [GET_ONE] = {"get_one", mv_get_one},
    [SET] = {"set", mv_set},
    [ADD] = {"add", mv_add},
    [MERGE_FLAT] = {"merge_flat", mv_merge_flat},
    [MERGE_MIXED] = {"merge_mixed", mv_merge_mixed},
    [REMOVE] = {"remove", mv_remove},
    [CLEAR] = {"clear", mv_clear},
    [CLONED] = {"clone", mv_clone},
    [KEYS] = {"keys", mv_list},
    [VALUES] = {"values", mv_list},
    [FLATTEN] = {"flatten", mv_flatten},
    [LISTS] = {"lists", mv_lists},
    [AS_HASHREF] = {"as_hashref", mv_as_hashref},
    [AS_HASHREF_MIXED] = {"as_hashref_mixed", mv_as_hash},
    [AS_HASHREF_MULTI] = {"as_hashref_multi", mv_as_hash},
    [STORABLE_FREEZE] = {"STORABLE_freeze", mv_freeze},
    [STORABLE_THAW] = {"STORABLE_thaw", mv_thaw},
};

static const hf_sub subs[] = {
    {"on", mv_on, 0},
    {"off", mv_off, 0},
    {"CLONE", mv_clone_thread, 0},
    {NULL, NULL, 0}
};

void hf_acc_boot_multivalue(pTHX)
{
    HV *stash = gv_stashpvs("Hydrofoil::Accelerate::MultiValue", GV_ADD);
    MY_CXT_INIT;
    Zero(&MY_CXT, 1, my_cxt_t);
    hf_lists_boot(aTHX);
    hf_methods_register(aTHX_ "MultiValue", methods, N_METHODS);
    hf_acc_subs(aTHX_ "MultiValue", subs);
    /* Nothing is left to do when an object goes. Perl does not even call a constant. */
    newCONSTSUB(stash, "gone", newSV(0));
}
