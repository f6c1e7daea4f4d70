/* http1_same.h - whether two parsed heads say the same; shared by the unit test and the fuzz target. */
#ifndef HF_T_HTTP1_SAME_H
#define HF_T_HTTP1_SAME_H

#include "http1.h"

static inline bool same_slice(hf_slice a, hf_slice b)
{
    return a.off == b.off && a.len == b.len;
}

/* NULL if all results are the same, else the name of the first that differs. */
static inline const char *head_difference(const hf_http1_head *a, const hf_http1_head *b)
{
#define VALUE(member)                                                                                                  \
    if (a->member != b->member)                                                                                        \
        return #member;
#define SLICE(member)                                                                                                  \
    if (!same_slice(a->member, b->member))                                                                             \
        return #member;
    VALUE(head_len)
    SLICE(method)
    SLICE(target)
    SLICE(authority)
    SLICE(path)
    SLICE(query)
    SLICE(host)
    VALUE(target_form)
    VALUE(minor)
    VALUE(has_query)
    VALUE(path_encoded)
    VALUE(chunked)
    VALUE(keep_alive)
    VALUE(expect_continue)
    VALUE(has_connection_upgrade)
    VALUE(any_underscore)
    VALUE(content_length)
    VALUE(n_fields)
    VALUE(error) /* constants, so the same phrase is the same pointer */
    for (uint32_t i = 0; i < a->n_fields; i++) {
        SLICE(fields[i].name)
        SLICE(fields[i].value)
        VALUE(fields[i].id)
        VALUE(fields[i].underscore)
    }
#undef VALUE
#undef SLICE
    return NULL;
}

#endif
