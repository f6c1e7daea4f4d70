/* entity.c - HTTP::Entity::Parser in C. */
#include "acc.h"

void hf_acc_boot_entity(pTHX)
{
    PERL_UNUSED_CONTEXT;
}
