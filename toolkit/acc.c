/* acc.c - what the parts of the accelerated toolkit share. */
#include "acc.h"

CV *hf_acc_sub(pTHX_ const char *name, XSUBADDR_t xsub, I32 ix)
{
    CV *cv = newXS(Perl_form(aTHX_ "Hydrofoil::Accelerate::%s", name), xsub, "toolkit");
    XSANY.any_i32 = ix;
    return cv;
}

void hf_acc_subs(pTHX_ const char *area, const hf_sub *table)
{
    for (; table->name; table++)
        (void)hf_acc_sub(aTHX_ Perl_form(aTHX_ "%s::%s", area, table->name), table->xsub, table->ix);
}

CV *hf_acc_original_cv(pTHX_ const char *name)
{
    return get_cv(Perl_form(aTHX_ "Hydrofoil::Accelerate::Original::%s", name), 0);
}

void hf_acc_original(pTHX_ const char *name, I32 ax, I32 items)
{
    CV *cv = hf_acc_original_cv(aTHX_ name);
    if (!cv)
        croak("Hydrofoil::Accelerate has not replaced %s", name);
    PL_stack_sp = PL_stack_base + ax + items - 1;
    PUSHMARK(PL_stack_base + ax - 1);
    call_sv((SV *)cv, GIMME_V);
}

SV *hf_acc_sub_named(pTHX_ const char *name)
{
    CV *cv = get_cv(name, 0);
    if (!cv)
        croak("Undefined subroutine &%s called", name);
    return (SV *)cv;
}

SV *hf_acc_call(pTHX_ SV *code, SV **arguments, I32 n)
{
    dSP;
    PUSHMARK(SP);
    EXTEND(SP, n);
    for (I32 i = 0; i < n; i++)
        PUSHs(arguments[i]);
    PUTBACK;
    call_sv(code, G_SCALAR);
    SPAGAIN;
    SV *result = POPs;
    PUTBACK;
    return result;
}
