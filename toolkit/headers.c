/* headers.c - HTTP::Headers::Fast in C. */
#include "acc.h"

void hf_acc_boot_headers(pTHX)
{
    PERL_UNUSED_CONTEXT;
}
