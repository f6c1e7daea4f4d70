/* request.c - Plack::Request in C. */
#include "acc.h"

void hf_acc_boot_request(pTHX)
{
    PERL_UNUSED_CONTEXT;
}
