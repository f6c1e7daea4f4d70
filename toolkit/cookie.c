/* cookie.c - Cookie::Baker in C. */
#include "acc.h"

void hf_acc_boot_cookie(pTHX)
{
    PERL_UNUSED_CONTEXT;
}
