/* env.c - the PSGI environment (PSGI 1.1, "The Environment"), built fast. */
#include "bridge.h"

#include <arpa/inet.h>
#include <sys/socket.h>

/* Fixed keys; X(id, "name"). The first group changes with every request, the second never. */
#define VARIABLE_KEYS(X)                                                                                               \
    X(REQUEST_METHOD, "REQUEST_METHOD")                                                                                \
    X(SCRIPT_NAME, "SCRIPT_NAME")                                                                                      \
    X(PATH_INFO, "PATH_INFO")                                                                                          \
    X(REQUEST_URI, "REQUEST_URI")                                                                                      \
    X(QUERY_STRING, "QUERY_STRING")                                                                                    \
    X(SERVER_NAME, "SERVER_NAME")                                                                                      \
    X(SERVER_PORT, "SERVER_PORT")                                                                                      \
    X(SERVER_PROTOCOL, "SERVER_PROTOCOL")                                                                              \
    X(REMOTE_ADDR, "REMOTE_ADDR")                                                                                      \
    X(REMOTE_PORT, "REMOTE_PORT")                                                                                      \
    X(CONTENT_LENGTH, "CONTENT_LENGTH")                                                                                \
    X(CONTENT_TYPE, "CONTENT_TYPE")                                                                                    \
    X(URL_SCHEME, "psgi.url_scheme")
#define CONSTANT_KEYS(X)                                                                                               \
    X(VERSION, "psgi.version")                                                                                         \
    X(INPUT, "psgi.input")                                                                                             \
    X(ERRORS, "psgi.errors")                                                                                           \
    X(MULTITHREAD, "psgi.multithread")                                                                                 \
    X(MULTIPROCESS, "psgi.multiprocess")                                                                               \
    X(RUN_ONCE, "psgi.run_once")                                                                                       \
    X(STREAMING, "psgi.streaming")                                                                                     \
    X(NONBLOCKING, "psgi.nonblocking")                                                                                 \
    X(INPUT_BUFFERED, "psgix.input.buffered")                                                                          \
    X(IO, "psgix.io")                                                                                                  \
    X(HARAKIRI, "psgix.harakiri")                                                                                      \
    X(CLEANUP, "psgix.cleanup")                                                                                        \
    X(CLEANUP_HANDLERS, "psgix.cleanup.handlers")                                                                      \
    X(INFORMATIONAL, "psgix.informational")                                                                            \
    X(LOGGER, "psgix.logger")

enum key {
#define X(id, name) KEY_##id,
    VARIABLE_KEYS(X) CONSTANT_KEYS(X)
#undef X
        KEY_HEADERS, /* of header id n: KEY_HEADERS + n */
    KEY_LEARNED = KEY_HEADERS + HF_HDR_COUNT,
};

#define FIRST_CONSTANT KEY_VERSION

/* --- keys --- */

/* Where the number of that name is, or would be. */
static inline U32 hek_bucket(const hf_worker *w, const HEK *hek)
{
    U32 i = (U32)((uint64_t)PTR2UV(hek) * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (HF_HEK_BUCKETS - 1);
    while (w->key_of_hek[i] != HF_NO_KEY && w->keys[w->key_of_hek[i]].hek != hek)
        i = (i + 1) & (HF_HEK_BUCKETS - 1);
    return i;
}

static void add_key(pTHX_ hf_worker *w, U32 at, const char *name, STRLEN len)
{
    hf_key *k = &w->keys[at];
    k->name = newSVpvn_share(name, (I32)len, 0);
    k->hash = SvSHARED_HASH(k->name);
    k->hek = SvSHARED_HEK_FROM_PV(SvPVX_const(k->name));
    (void)hv_store(w->key_index, name, (I32)len, newSVuv(at), 0);
    w->key_of_hek[hek_bucket(w, k->hek)] = (U16)at;
}

/* The number of a key that a hash has; HF_NO_KEY for one that is not ours. Perl keeps every key but once. */
static inline U32 key_of(const hf_worker *w, const HEK *hek)
{
    return w->key_of_hek[hek_bucket(w, hek)];
}

/* "HTTP_" and the header's name in capitals with '-' as '_'. Returns the length. */
static STRLEN header_key(char *dst, const char *name, STRLEN len)
{
    STRLEN i;
    memcpy(dst, "HTTP_", 5);
    for (i = 0; i < len; i++) {
        char ch = name[i];
        dst[5 + i] = ch == '-' ? '_' : ch >= 'a' && ch <= 'z' ? (char)(ch - 32) : ch;
    }
    return len + 5;
}

/* Header names that are not in the engine's list, as they were sent, with the number of their key. Bounded: names beyond
 * are written the slow way. */
#define NAME_BUCKETS 1024u
#define NAME_MAX_LEN 64u
#define MAX_NAMES 768u

typedef struct hf_name_cache {
    U32 n;
    struct {
        U16 key; /* HF_NO_KEY: free */
        U8 len;
        char name[NAME_MAX_LEN];
    } bucket[NAME_BUCKETS];
} hf_name_cache;

static U32 name_hash(const char *name, STRLEN len)
{
    U32 h = 2166136261u;
    STRLEN i;
    for (i = 0; i < len; i++)
        h = (h ^ (U8)name[i]) * 16777619u;
    return h;
}

/* The key of a header that is not in the engine's list, HF_NO_KEY if it is not (to be) remembered. */
static U32 learned_key(pTHX_ hf_worker *w, const char *name, STRLEN len)
{
    hf_name_cache *cache = w->names;
    char key[NAME_MAX_LEN + 5];
    STRLEN key_len;
    SV **known;
    U32 at, i;
    if (len > NAME_MAX_LEN)
        return HF_NO_KEY;
    i = name_hash(name, len) & (NAME_BUCKETS - 1);
    for (; cache->bucket[i].key != HF_NO_KEY; i = (i + 1) & (NAME_BUCKETS - 1))
        if (cache->bucket[i].len == len && memcmp(cache->bucket[i].name, name, len) == 0)
            return cache->bucket[i].key;
    key_len = header_key(key, name, len);
    known = hv_fetch(w->key_index, key, (I32)key_len, 0);
    if (known) {
        at = (U32)SvUV(*known);
    } else {
        if (w->n_keys >= HF_MAX_KEYS || cache->n >= MAX_NAMES)
            return HF_NO_KEY;
        at = w->n_keys++;
        add_key(aTHX_ w, at, key, key_len);
    }
    if (cache->n >= MAX_NAMES)
        return at;
    cache->bucket[i].key = (U16)at;
    cache->bucket[i].len = (U8)len;
    memcpy(cache->bucket[i].name, name, len);
    cache->n++;
    return at;
}

/* --- setting values --- */

static SV *store(pTHX_ hf_worker *w, hf_env *env, U32 key, SV *value)
{
    const hf_key *k = &w->keys[key];
    (void)hv_common(env->hv, k->name, NULL, 0, 0, HV_FETCH_ISSTORE | HV_FETCH_JUST_SV, value, k->hash);
    env->slot[key] = value;
    env->n_slots++;
    env->exact = FALSE;
    if (key < FIRST_CONSTANT || key >= KEY_HEADERS)
        env->variable[env->n_variable++] = (U16)key;
    return value;
}

#define PLAIN_STRING (SVt_PV | SVf_POK | SVp_POK)

/* The buffer of a variable key's value, with room for len bytes; end_string() says how many were written. */
static char *begin_string(pTHX_ hf_worker *w, hf_env *env, U32 key, STRLEN len)
{
    SV *sv = env->slot[key];
    env->stamp[key] = env->request;
    if (HF_UNLIKELY(!sv))
        sv = store(aTHX_ w, env, key, newSV(len < 30 ? 31 : len + 1));
    else if (HF_UNLIKELY(SvFLAGS(sv) != PLAIN_STRING))
        sv_setpvn(sv, "", 0); /* its buffer may be shared with a copy that the application made */
    return SvGROW(sv, len + 1);
}

static void end_string(SV *sv, STRLEN len)
{
    SvCUR_set(sv, len);
    *SvEND(sv) = '\0';
    SvPOK_only(sv);
}

static inline void set_string(pTHX_ hf_worker *w, hf_env *env, U32 key, const char *bytes, STRLEN len)
{
    SV *sv = env->slot[key];
    if (HF_LIKELY(sv && SvFLAGS(sv) == PLAIN_STRING && SvLEN(sv) > len)) {
        char *dst = SvPVX(sv);
        env->stamp[key] = env->request;
        memcpy(dst, bytes, len);
        dst[len] = '\0';
        SvCUR_set(sv, len);
        return;
    }
    memcpy(begin_string(aTHX_ w, env, key, len), bytes, len);
    end_string(env->slot[key], len);
}

static void append_string(pTHX_ hf_env *env, U32 key, const char *joint, const char *bytes, STRLEN len)
{
    sv_catpvn(env->slot[key], joint, 2);
    sv_catpvn(env->slot[key], bytes, len);
}

/* Keys that no header may become, whatever the spelling of its name. */
static bool is_withheld(U32 key)
{
    return key == KEY_HEADERS + HF_HDR_PROXY || key == KEY_HEADERS + HF_HDR_TRANSFER_ENCODING ||
           key == KEY_HEADERS + HF_HDR_CONTENT_TYPE || key == KEY_HEADERS + HF_HDR_CONTENT_LENGTH;
}

/* A header that may be repeated: values are joined, as RFC 9110 section 5.3 allows, cookies by "; " (RFC 9113, 8.2.3). */
static void set_header(pTHX_ hf_worker *w, hf_env *env, const hf_field *f, const char *base, bool only_if_new)
{
    const char *value = base + f->value.off;
    U32 key;
    switch (f->id) {
    case HF_HDR_CONTENT_TYPE:
        key = KEY_CONTENT_TYPE;
        break;
    case HF_HDR_CONTENT_LENGTH:    /* from what was read */
    case HF_HDR_TRANSFER_ENCODING: /* the body is decoded; the field would lie about it */
    case HF_HDR_PROXY:             /* HTTP_PROXY configures HTTP clients of CGI programs ("httpoxy") */
        return;
    case HF_HDR_OTHER:
        key = learned_key(aTHX_ w, base + f->name.off, f->name.len);
        if (HF_UNLIKELY(key == HF_NO_KEY)) {
            char small[256];
            STRLEN len = (STRLEN)f->name.len + 5;
            char *name = len <= sizeof(small) ? small : (char *)safemalloc(len);
            SV **old;
            header_key(name, base + f->name.off, f->name.len);
            old = hv_fetch(env->hv, name, (I32)len, 0);
            if (!old)
                (void)hv_store(env->hv, name, (I32)len, newSVpvn(value, f->value.len), 0);
            else if (!only_if_new)
                sv_catpvf(*old, ", %.*s", (int)f->value.len, value);
            env->n_seen = 0; /* keys that nobody keeps track of: not to be reused */
            if (name != small)
                safefree(name);
            return;
        }
        if (is_withheld(key))
            return;
        break;
    default:
        key = KEY_HEADERS + f->id;
    }
    if (HF_LIKELY(!env->slot[key] || env->stamp[key] != env->request))
        set_string(aTHX_ w, env, key, value, f->value.len);
    else if (!only_if_new)
        append_string(aTHX_ env, key, f->id == HF_HDR_COOKIE ? "; " : ", ", value, f->value.len);
}

/* --- reuse --- */

/* Flags of a value that tell whether it was touched. A string is written anew for the next request, so it only has to be
 * an ordinary scalar of our own: of a type up to SVt_PVMG (0x07), no reference, without magic, not read-only. */
#define STRING_FLAGS (0xf8u | SVf_ROK | SVs_GMG | SVs_SMG | SVs_RMG | SVf_READONLY)
#define CONSTANT_FLAGS (SVTYPEMASK | SVf_ROK | SVf_IOK | SVf_NOK | SVf_POK | SVs_GMG | SVs_SMG | SVs_RMG | SVf_READONLY)

static inline UV body_of(const SV *sv)
{
    return SvROK(sv) ? PTR2UV(SvRV(sv)) : (UV)SvIVX(sv);
}

static inline hf_sv_head head_of(const SV *sv)
{
    hf_sv_head h;
    h.part.refs = SvREFCNT(sv);
    h.part.flags = SvFLAGS(sv);
    return h;
}

/* How a constant must look to be called untouched. */
static void remember_constant(hf_seen *seen, U32 key)
{
    const SV *sv = seen->value;
    seen->mask.part.flags = CONSTANT_FLAGS;
    seen->is.part.flags = SvFLAGS(sv) & CONSTANT_FLAGS;
    if (key == KEY_IO || key == KEY_INFORMATIONAL) {
        seen->is.part.refs = 2;
    } else if (key != KEY_INPUT) {
        seen->body_mask = ~(UV)0;
        seen->body = body_of(sv);
    }
}

/* Remembers what is in the hash, and how each value must look to be called untouched. */
static void remember(const hf_worker *w, hf_env *env)
{
    HE **buckets = HvARRAY(env->hv);
    STRLEN i;
    U32 n = 0;
    for (i = 0; i <= HvMAX(env->hv); i++) {
        HE **link;
        for (link = &buckets[i]; *link; link = &HeNEXT(*link)) {
            hf_seen *seen = &env->seen[n++];
            const U32 key = key_of(w, HeKEY_hek(*link));
            seen->link = link;
            seen->he = *link;
            seen->hek = HeKEY_hek(*link);
            seen->value = HeVAL(*link);
            seen->mask.part.refs = ~(U32)0;
            seen->mask.part.flags = STRING_FLAGS;
            seen->is.part.refs = 1;
            seen->is.part.flags = 0;
            seen->body_mask = seen->body = 0;
            if (key >= FIRST_CONSTANT && key < KEY_HEADERS)
                remember_constant(seen, key);
        }
    }
    env->buckets = buckets;
    env->hv_flags = SvFLAGS(env->hv);
    env->n_seen = n;
    env->exact = TRUE;
}

static inline bool value_holds(const hf_seen *seen)
{
    const SV *sv = seen->value;
    return (head_of(sv).both & seen->mask.both) == seen->is.both && (!seen->body_mask || body_of(sv) == seen->body);
}

/* Nobody else has the hash, and it is an ordinary one. */
static bool is_ours(const hf_env *env)
{
    HV *hv = env->hv;
    if (!env->exact || !env->n_seen || SvREFCNT(hv) != 1 || SvREFCNT(env->rv) != 1 || !SvROK(env->rv) ||
        SvRV(env->rv) != (SV *)hv || SvMAGICAL(hv) || SvREADONLY(hv) || SvOBJECT(hv) || AvFILLp(env->cleanup) >= 0 ||
        SvREFCNT(env->cleanup) != 2 || SvMAGICAL(env->cleanup))
        return FALSE;
    /* Neither is it in the middle of each(), nor has anybody a weak reference to it. */
    return !SvOOK(hv) || (HvRITER_get(hv) == -1 && !HvEITER_get(hv) && !HvAUX(hv)->xhv_backreferences);
}

bool hf_env_is_untouched(pTHX_ hf_worker *w, hf_env *env)
{
    HV *hv = env->hv;
    const hf_seen *seen = env->seen, *end = seen + env->n_seen;
    PERL_UNUSED_ARG(w);
    if (!is_ours(env) || HvTOTALKEYS(hv) != env->n_seen || HvARRAY(hv) != env->buckets)
        return FALSE;
    /* As many entries as there were, and each of them is where it was: the links are followed from the buckets on, so
     * that no pointer is used before it has been found to be the one that was seen. */
    for (; seen < end; seen++)
        if (*seen->link != seen->he || HeKEY_hek(seen->he) != seen->hek || HeVAL(seen->he) != seen->value || !value_holds(seen))
            return FALSE;
    return TRUE;
}

#define MAX_ADDED 64 /* more keys than that are not worth taking out */

/* Are all entries that were filled in still there, with the values they had? The names of all others are in added[0..*n),
 * to be freed. */
static bool find_added(pTHX_ const hf_worker *w, const hf_env *env, SV **added, U32 *n)
{
    HE **bucket = HvARRAY(env->hv), **const end = bucket + HvMAX(env->hv) + 1;
    U32 known = 0;
    *n = 0;
    for (; bucket < end; bucket++) {
        const HE *he;
        for (he = *bucket; he; he = HeNEXT(he)) {
            const U32 key = key_of(w, HeKEY_hek(he));
            if (HF_LIKELY(key != HF_NO_KEY && env->slot[key] && HeVAL(he) == env->slot[key]))
                known++;
            else if (*n < MAX_ADDED)
                added[(*n)++] = newSVpvn_share(HeKEY(he), HeKUTF8(he) ? -(I32)HeKLEN(he) : (I32)HeKLEN(he), HeHASH(he));
            else
                return FALSE;
        }
    }
    return known == env->n_slots;
}

bool hf_env_mend(pTHX_ hf_worker *w, hf_env *env)
{
    SV *added[MAX_ADDED];
    const hf_seen *seen;
    U32 n, i;
    bool whole;
    if (SvOOK(env->hv))
        (void)hv_iterinit(env->hv);
    if (!is_ours(env))
        return FALSE;
    whole = find_added(aTHX_ w, env, added, &n);
    for (i = 0; i < n; i++) {
        if (whole) /* a destructor may do anything: what it leaves is looked at below */
            (void)hv_delete_ent(env->hv, added[i], G_DISCARD, SvSHARED_HASH(added[i]));
        SvREFCNT_dec_NN(added[i]);
    }
    if (!whole)
        return FALSE;
    if (HF_LIKELY(hf_env_is_untouched(aTHX_ w, env)))
        return TRUE;
    /* The entries may have moved, when the hash grew. */
    if (!is_ours(env))
        return FALSE;
    whole = find_added(aTHX_ w, env, added, &n) && n == 0;
    while (n)
        SvREFCNT_dec_NN(added[--n]);
    if (!whole)
        return FALSE;
    for (seen = env->seen; seen < env->seen + env->n_seen; seen++)
        if (!value_holds(seen))
            return FALSE;
    env->exact = FALSE;
    return TRUE;
}

static hf_env *env_new(pTHX_ hf_worker *w)
{
    hf_env *env;
    Newx(env, 1, hf_env);
    Zero(env, offsetof(hf_env, variable), char);
    env->hv = newHV();
    hv_ksplit(env->hv, 63);
    env->rv = newRV_noinc((SV *)env->hv);
    env->cleanup = newAV();
    store(aTHX_ w, env, KEY_VERSION, newSVsv(w->version));
    store(aTHX_ w, env, KEY_INPUT, newSVsv(w->empty_input));
    store(aTHX_ w, env, KEY_ERRORS, newSVsv(w->errors));
    store(aTHX_ w, env, KEY_MULTITHREAD, newSViv(w->multithread));
    store(aTHX_ w, env, KEY_MULTIPROCESS, newSViv(w->multiprocess));
    store(aTHX_ w, env, KEY_RUN_ONCE, newSViv(0));
    store(aTHX_ w, env, KEY_STREAMING, newSViv(1));
    store(aTHX_ w, env, KEY_NONBLOCKING, newSViv(0));
    store(aTHX_ w, env, KEY_INPUT_BUFFERED, newSViv(1));
    env->io = hf_lazy_io_new(aTHX_ w, env);
    store(aTHX_ w, env, KEY_IO, SvREFCNT_inc(env->io));
    store(aTHX_ w, env, KEY_HARAKIRI, newSViv(w->harakiri));
    store(aTHX_ w, env, KEY_CLEANUP, newSViv(1));
    store(aTHX_ w, env, KEY_CLEANUP_HANDLERS, newRV_inc((SV *)env->cleanup));
    env->informational = hf_lazy_informational_new(aTHX_ w, env);
    store(aTHX_ w, env, KEY_INFORMATIONAL, SvREFCNT_inc(env->informational));
    if (w->logger)
        store(aTHX_ w, env, KEY_LOGGER, newSVsv(w->logger));
    return env;
}

static void env_free(pTHX_ hf_env *env)
{
    SvREFCNT_dec(env->rv);
    hf_lazy_free(aTHX_ env);
    SvREFCNT_dec(env->cleanup);
    Safefree(env);
}

void hf_env_finish(pTHX_ hf_worker *w, hf_env *env, bool untouched)
{
    SV *input = env->slot[KEY_INPUT]; /* may be gone unless untouched */
    env->request_of_lazy = NULL;
    if (!untouched || w->n_spare >= HF_SPARE_ENVS) {
        env_free(aTHX_ env);
        return;
    }
    if (HF_UNLIKELY(SvRV(input) != SvRV(w->empty_input)))
        sv_setsv(input, w->empty_input);
    env->next = w->spare;
    w->spare = env;
    w->n_spare++;
}

/* --- building --- */

/* REMOTE_ADDR of a client that is not on a unix socket. */
static void set_peer(pTHX_ hf_worker *w, hf_env *env, const hf_address *peer)
{
    if (HF_LIKELY(peer->family == AF_INET)) {
        if (HF_UNLIKELY(peer->v4.sin_addr.s_addr != w->last_peer || !w->last_peer_len)) {
            w->last_peer = peer->v4.sin_addr.s_addr;
            w->last_peer_len = (U32)hf_address_text(peer, w->last_peer_text);
        }
        set_string(aTHX_ w, env, KEY_REMOTE_ADDR, w->last_peer_text, w->last_peer_len);
    } else {
        char text[HF_ADDR_TEXT];
        STRLEN len = hf_address_text(peer, text);
        set_string(aTHX_ w, env, KEY_REMOTE_ADDR, text, len);
    }
}

static void set_addresses(pTHX_ hf_worker *w, hf_env *env, const hf_conn *c)
{
    const hf_listener *l = c->listener;
    char text[HF_ADDR_TEXT];
    STRLEN len;
    if (HF_UNLIKELY(l->is_unix)) {
        set_string(aTHX_ w, env, KEY_SERVER_NAME, "localhost", 9);
        set_string(aTHX_ w, env, KEY_SERVER_PORT, "0", 1);
        set_string(aTHX_ w, env, KEY_REMOTE_ADDR, "", 0);
        set_string(aTHX_ w, env, KEY_REMOTE_PORT, "", 0);
        return;
    }
    if (HF_UNLIKELY(l->wildcard)) {
        hf_address local;
        socklen_t size = sizeof(local);
        memset(&local, 0, sizeof(local));
        getsockname(c->fd, (struct sockaddr *)&local, &size);
        len = hf_address_text(&local, text);
        set_string(aTHX_ w, env, KEY_SERVER_NAME, len ? text : "localhost", len ? len : 9);
    } else {
        set_string(aTHX_ w, env, KEY_SERVER_NAME, l->host, l->host_len);
    }
    set_string(aTHX_ w, env, KEY_SERVER_PORT, l->port, l->port_len);
    set_peer(aTHX_ w, env, &c->peer);
    len = hf_format_u64(text, hf_address_port(&c->peer));
    set_string(aTHX_ w, env, KEY_REMOTE_PORT, text, len);
}

/* PATH_INFO decoded, REQUEST_URI as it came but without scheme and host, QUERY_STRING. False if the path has a NUL. */
static bool set_target(pTHX_ hf_worker *w, hf_env *env, const hf_http1_head *h, const char *base)
{
    const char *path = base + h->path.off;
    STRLEN len = h->path.len;
    char *dst;
    if (HF_UNLIKELY(!len && h->target_form == HF_TARGET_ABSOLUTE)) {
        path = "/";
        len = 1;
    }
    dst = begin_string(aTHX_ w, env, KEY_PATH_INFO, len);
    if (HF_UNLIKELY(h->path_encoded)) {
        ptrdiff_t n = hf_percent_decode(dst, path, len);
        if (n < 0) {
            end_string(env->slot[KEY_PATH_INFO], 0);
            return FALSE;
        }
        end_string(env->slot[KEY_PATH_INFO], (STRLEN)n);
    } else {
        memcpy(dst, path, len);
        end_string(env->slot[KEY_PATH_INFO], len);
    }
    if (HF_LIKELY(h->target_form != HF_TARGET_ABSOLUTE)) {
        set_string(aTHX_ w, env, KEY_REQUEST_URI, base + h->target.off, h->target.len);
    } else {
        set_string(aTHX_ w, env, KEY_REQUEST_URI, path, len);
        if (h->has_query) {
            sv_catpvn(env->slot[KEY_REQUEST_URI], "?", 1);
            sv_catpvn(env->slot[KEY_REQUEST_URI], base + h->query.off, h->query.len);
        }
    }
    set_string(aTHX_ w, env, KEY_QUERY_STRING, base + h->query.off, h->query.len);
    return TRUE;
}

static void set_input(pTHX_ hf_worker *w, hf_env *env, hf_request *r)
{
    SV *slot = env->slot[KEY_INPUT];
    if (HF_LIKELY(!r->head.chunked && r->head.content_length < 0)) {
        if (HF_UNLIKELY(!hf_input_is_usable(aTHX_ w->empty_input))) { /* an application closed it */
            SvREFCNT_dec(w->empty_input);
            w->empty_input = hf_input_empty(aTHX);
        }
    } else {
        char digits[20];
        STRLEN n = hf_format_u64(digits, r->body.len);
        set_string(aTHX_ w, env, KEY_CONTENT_LENGTH, digits, n);
        if (r->body.len) {
            SV *input = hf_input_new(aTHX_ &r->body);
            if (input) {
                sv_setsv(slot, input);
                SvREFCNT_dec(input);
                return;
            }
        }
    }
    if (HF_UNLIKELY(SvRV(slot) != SvRV(w->empty_input)))
        sv_setsv(slot, w->empty_input);
}

static void forget_absent(pTHX_ hf_worker *w, hf_env *env)
{
    U32 i, kept = 0;
    for (i = 0; i < env->n_variable; i++) {
        U32 key = env->variable[i];
        if (env->stamp[key] == env->request) {
            env->variable[kept++] = (U16)key;
            continue;
        }
        (void)hv_common(env->hv, w->keys[key].name, NULL, 0, 0, HV_DELETE | G_DISCARD, NULL, w->keys[key].hash);
        env->slot[key] = NULL;
        env->n_slots--;
        env->exact = FALSE;
    }
    env->n_variable = (U16)kept;
}

hf_env *hf_env_build(pTHX_ hf_worker *w, hf_request *r)
{
    const hf_http1_head *h = &r->head;
    const char *base = hf_request_base(r);
    hf_env *env = w->spare;
    U32 i, before;
    if (HF_LIKELY(env != NULL)) {
        w->spare = env->next;
        w->n_spare--;
    } else {
        env = env_new(aTHX_ w);
    }
    before = env->n_seen;
    env->n_seen = 1;
    env->request++;
    env->request_of_lazy = r;

    set_string(aTHX_ w, env, KEY_REQUEST_METHOD, base + h->method.off, h->method.len);
    set_string(aTHX_ w, env, KEY_SCRIPT_NAME, "", 0);
    set_string(aTHX_ w, env, KEY_SERVER_PROTOCOL, h->minor ? "HTTP/1.1" : "HTTP/1.0", 8);
    set_string(aTHX_ w, env, KEY_URL_SCHEME, r->conn->transport->scheme, strlen(r->conn->transport->scheme));
    set_addresses(aTHX_ w, env, r->conn);
    if (HF_UNLIKELY(!set_target(aTHX_ w, env, h, base))) {
        r->head.keep_alive = false;
        hf_response_simple(r, 400);
        env_free(aTHX_ env);
        return NULL;
    }
    for (i = 0; i < h->n_fields; i++)
        if (HF_LIKELY(!h->fields[i].underscore))
            set_header(aTHX_ w, env, &h->fields[i], base, FALSE);
    if (HF_UNLIKELY(h->any_underscore)) /* X_Real_IP must not stand in for, or add to, what a proxy put into X-Real-IP */
        for (i = 0; i < h->n_fields; i++)
            if (h->fields[i].underscore)
                set_header(aTHX_ w, env, &h->fields[i], base, TRUE);
    if (HF_UNLIKELY(h->target_form == HF_TARGET_ABSOLUTE)) /* RFC 9112, 3.2.2: Host is ignored then */
        set_string(aTHX_ w, env, KEY_HEADERS + HF_HDR_HOST, base + h->authority.off, h->authority.len);
    set_input(aTHX_ w, env, r);
    forget_absent(aTHX_ w, env);
    if (HF_UNLIKELY(!env->exact && env->n_seen))
        remember(w, env);
    else if (env->n_seen)
        env->n_seen = before;
    return env;
}

SV *hf_env_value(pTHX_ hf_env *env, const char *key)
{
    I32 len = (I32)strlen(key);
    SV **sv;
    if (SvRMAGICAL(env->hv) || (SvREADONLY(env->hv) && !hv_exists(env->hv, key, len))) /* fetching what a locked hash has not would die */
        return NULL;
    sv = hv_fetch(env->hv, key, len, 0);
    return sv ? *sv : NULL;
}

SV *hf_env_cleanup_handlers(pTHX_ hf_worker *w, hf_env *env)
{
    const hf_key *key = &w->keys[KEY_CLEANUP_HANDLERS];
    HE *he;
    if (SvRMAGICAL(env->hv))
        return NULL;
    he = hv_fetch_ent(env->hv, key->name, 0, key->hash);
    return he ? HeVAL(he) : NULL;
}

const char *hf_env_describe(pTHX_ hf_worker *w, hf_env *env)
{
    SV *method, *uri;
    PERL_UNUSED_ARG(w);
    if (!env)
        return "a request";
    method = hf_env_value(aTHX_ env, "REQUEST_METHOD");
    uri = hf_env_value(aTHX_ env, "REQUEST_URI");
    return SvPV_nolen(sv_2mortal(newSVpvf("%s %.200s", method && SvPOK(method) ? SvPVX(method) : "?",
                                          uri && SvPOK(uri) ? SvPVX(uri) : "?")));
}

void hf_env_setup(pTHX_ hf_worker *w)
{
    static const char *const fixed[] = {
#define X(id, name) name,
        VARIABLE_KEYS(X) CONSTANT_KEYS(X)
#undef X
    };
    AV *version = newAV();
    U32 i;
    w->key_index = newHV();
    for (i = 0; i < HF_HEK_BUCKETS; i++)
        w->key_of_hek[i] = HF_NO_KEY;
    for (i = 0; i < KEY_HEADERS; i++)
        add_key(aTHX_ w, i, fixed[i], strlen(fixed[i]));
    add_key(aTHX_ w, KEY_HEADERS, "HTTP_", 5); /* never used: header id 0 is "another one" */
    for (i = 1; i < HF_HDR_COUNT; i++) {
        char key[64];
        const char *name = hf_header_name((uint8_t)i);
        add_key(aTHX_ w, KEY_HEADERS + i, key, header_key(key, name, strlen(name)));
    }
    w->n_keys = KEY_LEARNED;
    Newx(w->names, 1, hf_name_cache);
    w->names->n = 0;
    for (i = 0; i < NAME_BUCKETS; i++)
        w->names->bucket[i].key = HF_NO_KEY;

    av_push(version, newSViv(1));
    av_push(version, newSViv(1));
    SvREADONLY_on(AvARRAY(version)[0]);
    SvREADONLY_on(AvARRAY(version)[1]);
    SvREADONLY_on((SV *)version);
    w->version = newRV_noinc((SV *)version);
    w->errors = newRV_inc((SV *)PL_stderrgv);
    w->empty_input = hf_input_empty(aTHX);
}

void hf_env_teardown(pTHX_ hf_worker *w)
{
    U32 i;
    while (w->spare) {
        hf_env *env = w->spare;
        w->spare = env->next;
        env_free(aTHX_ env);
    }
    for (i = 0; i < w->n_keys; i++)
        SvREFCNT_dec(w->keys[i].name);
    SvREFCNT_dec(w->key_index);
    SvREFCNT_dec(w->version);
    SvREFCNT_dec(w->errors);
    SvREFCNT_dec(w->empty_input);
    Safefree(w->names);
}
