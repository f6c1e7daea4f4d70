/* methods.h - whose code a class runs: the accelerated methods, or somebody's own.
 *
 * A method in C may do the work of the methods that the original calls only as long as the class has not put others in
 * their place. Asking for each of them every time would cost more than the work, so the answers are kept for each class
 * until a sub is defined in it or in one that it inherits from.
 */
#ifndef HF_METHODS_H
#define HF_METHODS_H

#include "acc.h"

#define HF_CLASSES 8 /* classes whose answers are kept */

typedef struct hf_method {
    const char *name;
    XSUBADDR_t xsub;
} hf_method;

/* When a class was looked at: as long as it is the same, so are its methods. */
typedef struct hf_generation {
    U32 global, cache, package;
} hf_generation;

typedef struct hf_class {
    HV *stash;
    const HEK *name;
    hf_generation generation;
    U64 methods;
} hf_class;

typedef struct hf_classes {
    hf_class kept[HF_CLASSES];
    unsigned next;
} hf_classes;

/* Subs of a module that is not ours: are they the module's own, or those that the toolkit put in their place? */
typedef struct hf_module {
    const char *package, *file; /* the file's key in %INC */
    const char *subs[8];        /* up to the first NULL */
} hf_module;

typedef struct hf_trust {
    HV *stash;
    hf_generation generation;
    bool trusted;
} hf_trust;

/* A key of a hash, whose hash value is known. */
typedef struct hf_word {
    const char *name;
    I32 len;
    U32 hash;
} hf_word;

/* Registers methods[i] as Hydrofoil::Accelerate::AREA::name with the index i. */
void hf_methods_register(pTHX_ const char *area, const hf_method *methods, unsigned n);

/* One bit for each of the n methods (at most 64) that objects of the class find where it was registered. */
U64 hf_methods_look_up(pTHX_ hf_classes *classes, HV *stash, const hf_method *methods, unsigned n);

/* The generation of a class. */
hf_generation hf_generation_of(pTHX_ HV *stash);

PERL_STATIC_INLINE U64 hf_methods(pTHX_ hf_classes *classes, HV *stash, const hf_method *methods, unsigned n)
{
    const hf_class *c = &classes->kept[0];
    const struct mro_meta *meta;
    if (LIKELY(c->stash == stash && SvOOK(stash) && (meta = HvAUX(stash)->xhv_mro_meta) != NULL
               && c->generation.global == PL_sub_generation && c->generation.cache == meta->cache_gen
               && c->generation.package == meta->pkg_gen && c->name == HvNAME_HEK(stash)))
        return c->methods;
    return hf_methods_look_up(aTHX_ classes, stash, methods, n);
}

bool hf_module_look_up(pTHX_ hf_trust *trust, const hf_module *module);

/* Are the module's subs its own? Loaded it must be. */
PERL_STATIC_INLINE bool hf_module_is_itself(pTHX_ hf_trust *trust, const hf_module *module)
{
    const struct mro_meta *meta;
    HV *stash = trust->stash;
    if (LIKELY(stash && SvOOK(stash) && (meta = HvAUX(stash)->xhv_mro_meta) != NULL
               && trust->generation.global == PL_sub_generation && trust->generation.cache == meta->cache_gen
               && trust->generation.package == meta->pkg_gen))
        return trust->trusted;
    return hf_module_look_up(aTHX_ trust, module);
}

/* The variable of an enclosing scope that a sub has closed over: "%keys". NULL if there is none. Borrowed. */
SV *hf_closed_over(pTHX_ CV *cv, const char *name);

/* Can the referent's elements be read and written without calling anything: a hash that is not tied, locked or magical,
 * and of no class that overloads? NULL if not. */
PERL_STATIC_INLINE HV *hf_plain_hash(pTHX_ SV *rv)
{
    HV *hv;
    if (UNLIKELY(!SvROK(rv)))
        return NULL;
    hv = (HV *)SvRV(rv);
    if (UNLIKELY(SvTYPE(hv) != SVt_PVHV || SvFLAGS(hv) & (SVs_GMG | SVs_SMG | SVs_RMG | SVf_READONLY)))
        return NULL;
    if (UNLIKELY(SvOBJECT(hv) && HvAMAGIC(SvSTASH(hv)) && Gv_AMG(SvSTASH(hv))))
        return NULL;
    return hv;
}

PERL_STATIC_INLINE AV *hf_plain_array(pTHX_ SV *rv)
{
    AV *av;
    if (UNLIKELY(!SvROK(rv)))
        return NULL;
    av = (AV *)SvRV(rv);
    if (UNLIKELY(SvTYPE(av) != SVt_PVAV || SvFLAGS(av) & (SVs_GMG | SVs_SMG | SVs_RMG | SVs_OBJECT)))
        return NULL;
    PERL_UNUSED_CONTEXT;
    return av;
}

/* The entry of a key in an ordinary hash, NULL if there is none: hv_common() decides a hundred things first that have been
 * decided here. A lookup takes most of the time of many a method. */
PERL_STATIC_INLINE HE *hf_word_entry(HV *hv, const hf_word *word)
{
    HE *he = HvARRAY(hv) ? HvARRAY(hv)[word->hash & HvMAX(hv)] : NULL;
    for (; he; he = HeNEXT(he))
        if (HeHASH(he) == word->hash && HeKLEN(he) == (I32)word->len && !HeKUTF8(he) && memEQ(HeKEY(he), word->name, word->len))
            break;
    return he && HeVAL(he) != &PL_sv_placeholder ? he : NULL;
}

PERL_STATIC_INLINE SV *hf_word_fetch(pTHX_ HV *hv, const hf_word *word)
{
    if (LIKELY(!(SvFLAGS(hv) & (SVs_GMG | SVs_SMG | SVs_RMG | SVf_READONLY)))) {
        HE *he = hf_word_entry(hv, word);
        return he ? HeVAL(he) : NULL;
    }
    SV **svp = (SV **)hv_common(hv, NULL, word->name, word->len, 0, HV_FETCH_JUST_SV, NULL, word->hash);
    return svp ? *svp : NULL;
}

/* Takes the reference to value over. */
PERL_STATIC_INLINE void hf_word_store(pTHX_ HV *hv, const hf_word *word, SV *value)
{
    (void)hv_common(hv, NULL, word->name, word->len, 0, HV_FETCH_ISSTORE | HV_FETCH_JUST_SV, value, word->hash);
}

PERL_STATIC_INLINE SV *hf_word_lvalue(pTHX_ HV *hv, const hf_word *word)
{
    HE *he = LIKELY(!(SvFLAGS(hv) & (SVs_GMG | SVs_SMG | SVs_RMG | SVf_READONLY))) ? hf_word_entry(hv, word) : NULL;
    if (he)
        return HeVAL(he);
    return *(SV **)hv_common(hv, NULL, word->name, word->len, 0, HV_FETCH_JUST_SV | HV_FETCH_LVALUE, NULL, word->hash);
}

/* newSVsv(), cheaper for what most values are: a plain string whose buffer can be shared. */
PERL_STATIC_INLINE SV *hf_copy(pTHX_ SV *sv)
{
#if defined(CowREFCNT) && defined(SV_COW_REFCNT_MAX) && !defined(PERL_DEBUG_READONLY_COW)
    const U32 flags = SvFLAGS(sv);
    if (LIKELY((flags & ~(U32)(SVf_IsCOW | SVf_UTF8 | SVs_TEMP)) == (SVt_PV | SVf_POK | SVp_POK))
        && (flags & SVf_IsCOW ? SvLEN(sv) && CowREFCNT(sv) < SV_COW_REFCNT_MAX : SvCUR(sv) + 1 < SvLEN(sv))) {
        SV *copy = newSV_type(SVt_PV);
        if (!(flags & SVf_IsCOW)) {
            SvIsCOW_on(sv);
            CowREFCNT(sv) = 0;
        }
        CowREFCNT(sv)++;
        SvPV_set(copy, SvPVX(sv));
        SvCUR_set(copy, SvCUR(sv));
        SvLEN_set(copy, SvLEN(sv));
        SvFLAGS(copy) |= SVf_POK | SVp_POK | SVf_IsCOW | (flags & SVf_UTF8);
        return copy;
    }
#endif
    return newSVsv(sv);
}

/* av_push() where av_extend() has made room. */
PERL_STATIC_INLINE void hf_append(AV *av, SV *sv)
{
    AvARRAY(av)[++AvFILLp(av)] = sv;
}

#endif
