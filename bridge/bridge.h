/* bridge.h - the only place where C meets Perl: turns an engine's request into a PSGI environment, calls the application,
 * and turns its answer into the engine's output.
 *
 * The bridge owns every SV. It holds the engine lock while it talks to the engine and never while Perl code of the
 * application runs; no call into Perl is made outside an eval, so nothing jumps over C that holds the lock.
 */
#ifndef HF_BRIDGE_H
#define HF_BRIDGE_H

#define PERL_NO_GET_CONTEXT
/* The engine's headers come first: Perl's redefine names of the C library. */
#include "../engine/engine.h"

#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"

#ifndef SvREFCNT_dec_NN
#define SvREFCNT_dec_NN(sv) SvREFCNT_dec(sv)
#endif

#define HF_MAX_KEYS 512   /* environment keys that are remembered: fixed ones, known headers, and headers that were seen */
#define HF_HEK_BUCKETS 2048 /* a power of two, several times that many */
#define HF_NO_KEY 0xffffu
#define HF_SPARE_ENVS 8   /* environments that are kept for reuse */
#define HF_SMALL_BODY 12288 /* bytes of an answer that are copied behind its head */
#define HF_LARGE_PART 16384 /* bytes from which a part of a body is sent from where it is */
#define HF_SMALL_FILE 32768 /* bytes of a file that are read rather than sent by sendfile(2) */
#define HF_NUMBERS 16       /* numbers among an answer's fields that are written without making a string of each */
#define HF_PULL_SIZE 65536  /* bytes that are asked of a file handle at a time */
#define HF_PULL_AHEAD (2 * HF_PULL_SIZE) /* no more are asked for while so many wait for the reader, who has the socket's buffer */

typedef struct hf_worker hf_worker;
typedef struct hf_call hf_call;

/* A copy that shares its bytes with the original (copy on write, perl 5.20 and up), or takes over those of a temporary. Neither
 * newSVsv() does that nor sv_setsv() outside perl itself: whoever has such a copy must not write to its bytes. */
static inline SV *hf_share(pTHX_ SV *sv)
{
    SV *copy = newSV(0);
    sv_setsv_flags(copy, sv, SV_GMAGIC | SV_COW_SHARED_HASH_KEYS);
    return copy;
}

/* --- env.c --- */

/* A key of the environment: its name as a shared hash key, and what is kept of it between requests. */
typedef struct hf_key {
    SV *name;
    HEK *hek;
    U32 hash;
} hf_key;

/* One entry of an environment as a walk through the hash found it. */
typedef union hf_sv_head {
    struct {
        U32 refs, flags; /* as they lie in the head of an SV */
    } part;
    uint64_t both;
} hf_sv_head;

typedef struct hf_seen {
    HE **link;           /* what points to the entry: its bucket, or the entry before it */
    HE *he;
    HEK *hek;
    SV *value;
    hf_sv_head mask, is; /* of the value's head, what must be as it is here */
    UV body_mask, body;  /* of a constant: its referent, or its integer */
} hf_seen;

/* An environment. Reused when the application left it as it was, or only added keys, which are taken out again: then only
 * values that differ are written, and neither keys nor values are allocated or freed. `seen` is what a walk through the hash
 * found after it was filled; a second walk when the request is over tells whether anything was added, deleted, replaced or
 * kept. The first three arrays begin as zero. */
typedef struct hf_env {
    struct hf_env *next;
    HV *hv;
    SV *rv;               /* the reference that applications are called with */
    SV *slot[HF_MAX_KEYS]; /* the value that belongs to a key, NULL if it is not in the hash */
    U32 stamp[HF_MAX_KEYS]; /* the request that wrote it */
    U16 n_variable;
    U16 n_slots;          /* how many of `slot` are not NULL */
    U32 request;          /* number of the request, for stamp */
    U32 n_seen;
    bool exact;           /* slots and hash are in step: it may be reused */
    HE **buckets;         /* HvARRAY and flags when the hash was walked */
    U32 hv_flags;
    AV *cleanup;          /* psgix.cleanup.handlers */
    SV *io, *informational; /* the values of psgix.io and psgix.informational, made when they are looked at */
    hf_request *request_of_lazy; /* what psgix.io and psgix.informational stand for, NULL when over */
    U16 variable[HF_MAX_KEYS];   /* n_variable keys that come and go with requests; from here on nothing begins as zero */
    hf_seen seen[HF_MAX_KEYS];   /* n_seen of them */
} hf_env;

/* The environment of a request, with the engine lock held. NULL when the request has been answered with an error already. */
hf_env *hf_env_build(pTHX_ hf_worker *w, hf_request *r);

/* Did the application leave it as it was: nothing added, deleted, replaced or kept? */
bool hf_env_is_untouched(pTHX_ hf_worker *w, hf_env *env);

/* Takes out what the application added. True when the environment then is as it was, false when something was deleted,
 * replaced or kept as well. Runs destructors: without the lock. */
bool hf_env_mend(pTHX_ hf_worker *w, hf_env *env);

/* The request is over: keeps an untouched environment for the next one, lets go of others. Without the lock. */
void hf_env_finish(pTHX_ hf_worker *w, hf_env *env, bool untouched);

void hf_env_setup(pTHX_ hf_worker *w);
void hf_env_teardown(pTHX_ hf_worker *w);

/* The value of a key, NULL if there is none (or the application has tied the hash). */
SV *hf_env_value(pTHX_ hf_env *env, const char *key);

/* The value of psgix.cleanup.handlers as the application left it, NULL if there is none. The hash is not locked. */
SV *hf_env_cleanup_handlers(pTHX_ hf_worker *w, hf_env *env);

/* "METHOD /uri" for log lines, as a mortal. */
const char *hf_env_describe(pTHX_ hf_worker *w, hf_env *env);

/* --- env_lazy.c --- */

/* The values of psgix.io and psgix.informational, which cost more to make than a whole request. New references. */
SV *hf_lazy_io_new(pTHX_ hf_worker *w, hf_env *env);
SV *hf_lazy_informational_new(pTHX_ hf_worker *w, hf_env *env);

/* Lets go of env's two. */
void hf_lazy_free(pTHX_ hf_env *env);

/* --- worker.c --- */

struct hf_worker {
    hf_engine *engine;
    U32 refs;
    SV *app;
    SV *logger;           /* psgix.logger, or NULL */
    bool multiprocess, multithread, harakiri;
    bool running;
    pthread_t thread;     /* that runs it */
    unsigned forks;       /* of the process when the worker was made; others mean that this is a child */
    int report_fd;        /* the supervisor listens there; -1: there is none */
    uint64_t max_memory;  /* resident bytes of the process, above which it leaves; 0: no limit */
    uint64_t memory_due;  /* when they are looked at next, by the engine's clock */
    SV *on_drain;         /* is told, once, why the engine has stopped accepting; NULL: nobody is */

    hf_key keys[HF_MAX_KEYS];
    U16 key_of_hek[HF_HEK_BUCKETS]; /* the number of a key by the address of its name, HF_NO_KEY where there is none */
    U32 n_keys;
    HV *key_index;        /* name of a key -> its number */
    struct hf_name_cache *names; /* header name -> number of its key */
    hf_env *spare;
    U32 n_spare;
    SV *version;          /* [1, 1] */
    SV *errors;           /* \*STDERR */
    SV *empty_input;      /* a handle at its end, for requests without a body */

    hf_field_out *fields; /* of the answer that is being gathered */
    size_t cap_fields;
    struct hf_part *parts;
    size_t cap_parts;
    char numbers[HF_NUMBERS][24]; /* n_numbers of its fields and parts that were numbers, as text */
    U32 n_numbers;
    in_addr_t last_peer;  /* the IPv4 address that was written last, and its text: most clients come by one proxy */
    U32 last_peer_len;
    char last_peer_text[HF_ADDR_TEXT];
    char *file_space;     /* HF_SMALL_FILE bytes */
    SV *pull_size;        /* \65536, for $/ */
};

typedef struct hf_part {
    const char *bytes;
    STRLEN len;
    SV *sv;
} hf_part;

hf_worker *hf_worker_new(pTHX_ HV *options);
/* Closes everything and gives up the owner's reference. What the application keeps (responders, writers,
 * psgix.informational) holds further ones. */
void hf_worker_close(pTHX_ hf_worker *w);
void hf_worker_unref(pTHX_ hf_worker *w);

/* Lets go of the scalars whose bytes have been sent. With the lock. in_app: during a call into the application, which may send
 * more in one call than fits into memory; otherwise between two. */
void hf_worker_release(pTHX_ hf_worker *w, bool in_app);
const char *hf_worker_run(pTHX_ hf_worker *w);

/* Once in the process. */
void hf_worker_setup(void);

/* Is this a process that the application forked? It has no standby thread, shares the worker's poller and sockets, and the
 * lock may have been held by a thread that it has not: it must leave the engine alone. */
bool hf_in_child(const hf_worker *w);

/* In a process that came back from a call into Perl as if it were the worker: says so and ends it. */
void hf_end_child(pTHX_ hf_worker *w, hf_env *env);

/* After every call into code of the application, which may have forked, before the engine is touched. */
static inline void hf_check_process(pTHX_ hf_worker *w, hf_env *env)
{
    if (HF_UNLIKELY(hf_in_child(w)))
        hf_end_child(aTHX_ w, env);
}

/* A line for the error log, without the lock. */
void hf_worker_log(pTHX_ hf_worker *w, const char *fmt, ...);

/* Runs `code` with `arg` (may be NULL) in an eval. Returns true if it did not die; otherwise $@ has been logged, unless it
 * is the bridge's own "the client has left", with `what` in front of it. Without the lock. */
bool hf_call_guarded(pTHX_ hf_worker *w, SV *code, SV *arg, const char *what, hf_env *env);

/* --- input.c --- */

/* A file handle (a reference to a glob) to read the body from, and the handle of bodies that are empty. */
SV *hf_input_new(pTHX_ hf_body *body);
SV *hf_input_empty(pTHX);
bool hf_input_is_usable(pTHX_ SV *rv);

/* --- answer.c --- */

/* What is known of a request while it is answered: on the stack as long as the application answers at once, kept when it
 * answers later. */
struct hf_call {
    hf_worker *w;
    hf_request *r;        /* NULL once it is answered */
    hf_env *env;          /* NULL once the books are closed */
    SV *body;             /* the handle that is being read */
    U32 refs;             /* of a kept struct: the responder, the writer, a frame on the C stack, being parked */
    bool kept;            /* on the heap */
    bool parked;          /* the engine has the request and reports to r->user when something happens */
    bool responder_alive; /* the application may still answer */
    bool responded;       /* it did */
    bool streaming;       /* a writer was handed out and is open */
    bool dropped;         /* the writer was let go without close while in_app */
    bool in_app;          /* below the application's own call, which decides when it returns */
    bool told_gone;       /* the application knows that its client has left */
};

/* Answers with what the application returned or gave to its responder. `streaming` allows an answer without a body, for a
 * writer. Returns true if a writer is wanted now. Without the lock. */
bool hf_answer(pTHX_ hf_call *call, SV *answer, bool streaming);

/* Reads on from a handle, until it ends or the client is too slow. Without the lock. */
void hf_answer_pull(pTHX_ hf_call *call);

/* 500, if nothing of the answer has left, else an end that the client can tell from a complete answer. */
void hf_answer_fail(pTHX_ hf_call *call);

/* The answer is complete. Without the lock. */
void hf_answer_end(pTHX_ hf_call *call);

/* The handle is done with: calls its close. */
void hf_answer_close_body(pTHX_ hf_call *call);

/* --- stream.c --- */

void hf_stream_setup(pTHX);

/* Calls the code that the application returned, with a responder. */
void hf_stream_delayed(pTHX_ hf_call *on_stack, SV *code);

/* A call that outlives the C stack: moves it to the heap, with one reference for the caller; one that is there already
 * gets one more. */
hf_call *hf_call_keep(pTHX_ hf_call *call);
void hf_call_unref(pTHX_ hf_call *call);

/* The engine goes on with this request for now. With the lock. */
void hf_call_park(pTHX_ hf_call *call);

/* If the request is answered: closes its books (cleanup handlers, harakiri, the environment). Without the lock. */
void hf_call_settle(pTHX_ hf_call *call);

/* The value of psgix.informational. */
SV *hf_stream_informational(pTHX_ hf_worker *w, hf_request *r);

#endif
