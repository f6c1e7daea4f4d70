/* entity.h - what the files that stand for HTTP::Entity::Parser share: entity.c (the parser of requests, url-encoded
 * and JSON bodies), multipart.c (multipart bodies) and upload.c (uploaded files). */
#ifndef HF_ENTITY_H
#define HF_ENTITY_H

#include "acc.h"
#include "core_multipart.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

void hf_acc_boot_multipart(pTHX);
void hf_acc_boot_upload(pTHX);

/* ---- multipart.c ---- */

typedef struct hf_form hf_form; /* what HTTP::Entity::Parser::MultiPart knows about a body */

/* Is this XSUB the "add" of multipart bodies? */
bool hf_form_is_add(pTHX_ CV *cv);

/* The form of a HTTP::Entity::Parser::MultiPart object, borrowed; NULL when it is one that the original made. */
hf_form *hf_form_of(pTHX_ SV *self);

/* Room for n bytes of the body, then how many there are and whether more will come of this piece. Commit dies with the
 * original's words when the body is wrong (or calls on_error). */
char *hf_form_reserve(pTHX_ hf_form *form, size_t n);
void hf_form_commit(pTHX_ hf_form *form, SV *self, size_t n, bool more);

/* How many bytes of body are still to come; what is reserved for files follows from it. 0: not known. */
void hf_form_expect(hf_form *form, size_t n);

/* ---- upload.c ---- */

typedef struct hf_upload hf_upload;

/* An object of a subclass of File::Temp::Dir, whose directory is made when it is needed, and removed with all that is in
 * it when the object is gone. New reference. */
SV *hf_tempdir_new(pTHX);

/* A file to be, in memory until it is spilled. `dir` is what hf_tempdir_new() gave. */
hf_upload *hf_upload_new(pTHX_ SV *dir);
void hf_upload_free(hf_upload *upload); /* gives up one reference */

/* Makes room at once for that many bytes in memory. */
void hf_upload_expect(hf_upload *upload, size_t n);

/* Each answers false, with errno, when it could not. Spill: from now on in a temporary file. */
bool hf_upload_append(hf_upload *upload, const char *bytes, size_t n);
bool hf_upload_spill(hf_upload *upload);
bool hf_upload_close(hf_upload *upload);

size_t hf_upload_size(const hf_upload *upload);
bool hf_upload_in_memory(const hf_upload *upload);

/* The name of the file, as a scalar: that of a file in memory is written to disk when somebody asks for the scalar's
 * value, which dies if it cannot be. New reference. */
SV *hf_upload_name(pTHX_ hf_upload *upload);

/* A copy of such a scalar that does not ask for its value; of any other, newSVsv. */
SV *hf_upload_name_copy(pTHX_ SV *name);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
