/* multivalue_lists.h - where the lists of keys and of values of a Hash::MultiValue object are.
 *
 * The original keeps them in hashes of its own, under the address of the object, with a weak reference for threads: three
 * entries to make and to delete for each object. Here they hang on the object itself, as extension magic without callbacks,
 * which a hash does not notice: it goes with the hash when it is freed, and perl copies it when a thread is made. Before the
 * original's code gets to see such an object its lists are moved to where that looks for them.
 */
#ifndef HF_ACC_MULTIVALUE_LISTS_H
#define HF_ACC_MULTIVALUE_LISTS_H

#include "methods.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* The lists of an object. Of keys there may be one more than values: new('a'). */
typedef struct hf_lists {
    AV *keys, *values;
} hf_lists;

/* Borrowed. False if there are none that can be read without calling anything. */
bool hf_lists_of(pTHX_ HV *hv, hf_lists *l);

/* A new object begins with empty lists, or with those of the query string `source` (hf_acc_parse_urlencoded() with
 * `skip_first`), which it keeps. They are made when they are asked for. */
void hf_lists_begin(pTHX_ HV *hv);
void hf_lists_begin_with(pTHX_ HV *hv, SV *source, bool skip_first);

/* Gives an object other lists, and takes the references to them over. */
void hf_lists_attach(pTHX_ HV *hv, AV *keys, AV *values);

/* Do they hang on the object? */
bool hf_lists_are_here(pTHX_ HV *hv);

/* Do they, and has nobody asked for them, and is there no other magic? */
bool hf_lists_are_unused(HV *hv);

/* Moves the lists of an object to the original's hashes. */
void hf_lists_store(pTHX_ HV *hv);

/* Finds the original's hashes: when its subs have been replaced, and in a new thread. False if it keeps its lists in another
 * way. */
bool hf_lists_find_stored(pTHX);
bool hf_lists_find_stored_in_thread(pTHX);

/* The lists of all objects that there are come from the original's hashes, or go there. */
void hf_lists_take_all(pTHX);
void hf_lists_store_all(pTHX);

void hf_lists_boot(pTHX);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
