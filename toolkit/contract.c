/* contract.c - does a class still do what its accelerated methods take for granted? */
#include "contract.h"

#define N_MEMOS 32
#define N_PLACES 4 /* of the table in which an answer may be */

typedef struct hf_memo {
    HV *stash;   /* held, so that no other class comes to lie where it is */
    const hf_term *list;
    U32 package, cache, all; /* Perl's generation numbers when it was looked at */
    bool ours;
} hf_memo;

#define MY_CXT_KEY "Hydrofoil::Accelerate::contract" XS_VERSION
typedef struct {
    PerlInterpreter *owner;
    hf_memo *memos;
} my_cxt_t;
START_MY_CXT

static void setup(pTHX_ my_cxt_t *c)
{
    c->owner = HF_INTERPRETER;
    Newxz(c->memos, N_MEMOS, hf_memo);
}

static bool resolves(pTHX_ HV *stash, const hf_term *list)
{
    for (; list->name; list++) {
        GV *gv = gv_fetchmeth_pvn(stash, list->name, strlen(list->name), 0, 0);
        CV *cv = gv && isGV_with_GP(gv) ? GvCV(gv) : NULL;
        if (!list->xsub) {
            if (cv)
                return false;
        }
        else if (!cv || CvXSUB(cv) != list->xsub || (list->ix >= 0 && CvXSUBANY(cv).any_i32 != list->ix))
            return false;
    }
    return true;
}

PERL_STATIC_INLINE bool is_about(const hf_memo *memo, const HV *stash, const hf_term *list)
{
    return memo->stash == stash && memo->list == list;
}

/* Where an answer is, or may be put, if it is not in its first place. Addresses say which that is, so which answers would
 * share one is chance: they do not push each other out. */
static hf_memo *other_place(hf_memo *memos, unsigned first, const HV *stash, const hf_term *list)
{
    for (unsigned i = 0; i < N_PLACES; i++) {
        hf_memo *memo = &memos[(first + i) % N_MEMOS];
        if (!memo->stash || is_about(memo, stash, list))
            return memo;
    }
    return &memos[first];
}

bool hf_class_keeps(pTHX_ HV *stash, const hf_term *list)
{
    dMY_CXT;
    my_cxt_t *c = &MY_CXT;
#ifdef USE_ITHREADS
    if (UNLIKELY(c->owner != HF_INTERPRETER)) { /* a thread that was cloned from another's: memos are its own */
        MY_CXT_CLONE;
        c = &MY_CXT;
        setup(aTHX_ c);
    }
#endif
    if (!SvOOK((SV *)stash))
        return false;
    const unsigned first = ((PTR2UV(stash) >> 4) ^ (PTR2UV(list) >> 4)) % N_MEMOS;
    hf_memo *memo = &c->memos[first];
    if (UNLIKELY(!is_about(memo, stash, list)))
        memo = other_place(c->memos, first, stash, list);
    const struct mro_meta *meta = HvAUX(stash)->xhv_mro_meta;
    if (LIKELY(is_about(memo, stash, list) && meta && memo->package == meta->pkg_gen
               && memo->cache == meta->cache_gen && memo->all == PL_sub_generation))
        return memo->ours;

    bool ours = resolves(aTHX_ stash, list);
    meta = HvAUX(stash)->xhv_mro_meta;
    if (!meta)
        return ours;
    HV *old = memo->stash;
    memo->stash = (HV *)SvREFCNT_inc_simple_NN((SV *)stash);
    memo->list = list;
    memo->package = meta->pkg_gen;
    memo->cache = meta->cache_gen;
    memo->all = PL_sub_generation;
    memo->ours = ours;
    SvREFCNT_dec((SV *)old);
    return ours;
}

HV *hf_object_keeping(pTHX_ SV *self, const hf_term *list)
{
    if (!SvROK(self) || SvGMAGICAL(self))
        return NULL;
    HV *hv = (HV *)SvRV(self);
    if (SvTYPE((SV *)hv) != SVt_PVHV || !SvOBJECT((SV *)hv) || SvRMAGICAL((SV *)hv) || SvREADONLY((SV *)hv) || !HvSHAREKEYS(hv))
        return NULL;
    return hf_class_keeps(aTHX_ SvSTASH((SV *)hv), list) ? hv : NULL;
}

SV *hf_new_object(pTHX_ SV *name)
{
    HV *stash = SvPOK(name) && !SvROK(name) && !SvGMAGICAL(name) ? gv_stashsv(name, 0) : NULL;
    return stash ? sv_bless(sv_2mortal(newRV_noinc((SV *)newHV())), stash) : NULL;
}

void hf_acc_boot_contract(pTHX)
{
    MY_CXT_INIT;
    setup(aTHX_ &MY_CXT);
}
