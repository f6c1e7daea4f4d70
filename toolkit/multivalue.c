/* multivalue.c - Hash::MultiValue in C. */
#include "acc.h"

void hf_acc_boot_multivalue(pTHX)
{
    PERL_UNUSED_CONTEXT;
}
