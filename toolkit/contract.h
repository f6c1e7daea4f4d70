/* contract.h - does a class still do what its accelerated methods take for granted?
 *
 * An accelerated method skips the calls that the original makes of other methods. It may do so only while these would
 * reach our own XSUBs: not in a subclass that overrides one of them, nor when somebody has replaced one. The answer is
 * remembered by class until Perl's own method cache of that class is invalidated.
 */
#ifndef HF_ACC_CONTRACT_H
#define HF_ACC_CONTRACT_H

#include "acc.h"

#ifndef G_LIST
#define G_LIST G_ARRAY
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* A method that a class has to have: this XSUB with this `ix`, -1 if any will do. A name without an XSUB must not resolve
 * to anything. */
typedef hf_sub hf_term;

/* Do all methods of a list, which lives as long as the process, resolve to our XSUBs in this class? */
bool hf_class_keeps(pTHX_ HV *stash, const hf_term *list);

/* The hash behind `self` if it is an object of such a class, and neither tied nor locked; NULL otherwise. */
HV *hf_object_keeping(pTHX_ SV *self, const hf_term *list);

/* What a constructor begins with: an empty hash, blessed into the class of that name. A mortal reference, or NULL if it is not
 * a plain string, or there is no such class. */
SV *hf_new_object(pTHX_ SV *name);

/* Runs an XSUB as if it had been called in place of the one that is running, with the arguments that lie on the stack
 * from ST(0) on. */
PERL_STATIC_INLINE void hf_go(pTHX_ CV *cv, I32 ax, I32 items)
{
    PL_stack_sp = PL_stack_base + ax + items - 1;
    PUSHMARK(PL_stack_base + ax - 1);
    if (CvISXSUB(cv))
        CvXSUB(cv)(aTHX_ cv);
    else
        call_sv((SV *)cv, GIMME_V);
}

/* To assign and copy as Perl itself does, where a string is shared until one of its holders is written to. sv_setsv(),
 * newSVsv() and sv_mortalcopy() do not do that for extensions. */
#define HF_SHARING (SV_COW_SHARED_HASH_KEYS | SV_COW_OTHER_PVS)

PERL_STATIC_INLINE void hf_assign(pTHX_ SV *to, SV *from)
{
    sv_setsv_flags(to, from, SV_GMAGIC | SV_NOSTEAL | HF_SHARING);
}

PERL_STATIC_INLINE SV *hf_new_copy(pTHX_ SV *sv)
{
    SV *copy = newSV(0);
    hf_assign(aTHX_ copy, sv);
    return copy;
}

/* A copy of a value whose magic has been read. A new reference. */
PERL_STATIC_INLINE SV *hf_plain_copy(pTHX_ SV *sv)
{
    if ((SvFLAGS(sv) & (SVf_ROK | SVf_POK | SVf_NOK | SVf_IOK | SVp_POK | SVp_NOK | SVp_IOK | SVf_IVisUV)) == (SVf_IOK | SVp_IOK))
        return newSViv(SvIVX(sv));
    SV *copy = newSV(0);
    sv_setsv_flags(copy, sv, SV_NOSTEAL | HF_SHARING);
    return copy;
}

PERL_STATIC_INLINE SV *hf_mortal_copy(pTHX_ SV *sv)
{
    SV *copy = sv_newmortal();
    sv_setsv_flags(copy, sv, SV_GMAGIC | SV_NOSTEAL | HF_SHARING);
    return copy;
}

/* A function of another module that somebody may have replaced: is it still the XSUB that we put there? */
PERL_STATIC_INLINE bool hf_function_is(GV *gv, XSUBADDR_t xsub)
{
    return gv && isGV_with_GP(gv) && GvCV(gv) && CvXSUB(GvCV(gv)) == xsub;
}

void hf_acc_boot_contract(pTHX);
void hf_acc_boot_util(pTHX);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
