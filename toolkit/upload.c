/* upload.c - uploaded files that are written to disk when somebody wants to know where they are.
 *
 * HTTP::Entity::Parser makes a temporary directory for each request with a file and writes every file there. Most of the
 * time that takes is the file system's, and most small files are read once or not at all. Here a small file stays in
 * memory, and the scalar with its name carries magic that makes the directory and the file when it is read.
 *
 * The directory is removed with the object in $env->{'http.entity.parser.multipart.tempdir'}, as the original's; a name
 * that is asked for later is one of a file that is gone.
 */
#include "entity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file or a directory to be: what hf_upload and hf_tempdir begin with. */
typedef struct hf_entry {
    const struct hf_kind *kind; /* NULL in a copy in another thread, which knows the path only */
    size_t refs;
    char *path; /* NULL as long as it was not made */
} hf_entry;

/* What differs between them for the scalars that hold their paths. */
typedef struct hf_kind {
    bool (*make)(hf_entry *entry);                 /* false, with errno, when it could not */
    void (*complain)(pTHX_ const hf_entry *entry); /* dies: it could not */
    void (*clear)(hf_entry *entry);                /* frees what it has besides the path */
} hf_kind;

typedef struct hf_tempdir {
    hf_entry entry;
    pid_t owner;  /* the process that removes it */
    bool over;    /* was removed */
    char *parent; /* File::Spec->tmpdir */
} hf_tempdir;

struct hf_upload {
    hf_entry entry;
    hf_tempdir *dir;
    char *bytes;
    size_t len, capacity;
    bool spilled;
    int fd; /* while it is being written */
};

/* Gives up one reference. */
static void release(hf_entry *entry)
{
    if (!entry || --entry->refs > 0)
        return;
    if (entry->kind)
        entry->kind->clear(entry);
    free(entry->path);
    free(entry);
}

/* ---- directories ---- */

static char *join_path(const char *dir, const char *name)
{
    const size_t a = strlen(dir), b = strlen(name);
    char *path = malloc(a + b + 2);

    if (path) {
        memcpy(path, dir, a);
        path[a] = '/';
        memcpy(path + a + 1, name, b + 1);
    }
    return path;
}

static bool tempdir_make(hf_entry *entry)
{
    hf_tempdir *dir = (hf_tempdir *)entry;
    char *path;

    if (entry->path)
        return true;
    path = join_path(dir->parent, "XXXXXX");
    if (!path)
        return false;
    /* Of a directory that would have been removed there is only a name. */
    if (!dir->over && !mkdtemp(path)) {
        free(path);
        return false;
    }
    entry->path = path;
    dir->owner = getpid(); /* a child that was forked before it was made removes its own */
    return true;
}

/* What is left of it are directories that somebody else made in there. */
static bool tempdir_remove(hf_tempdir *dir)
{
    const int before = errno;
    DIR *list = opendir(dir->entry.path);
    struct dirent *entry;
    bool done;

    if (list) {
        while ((entry = readdir(list)))
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                (void)unlinkat(dirfd(list), entry->d_name, 0);
        closedir(list);
    }
    done = rmdir(dir->entry.path) == 0 || errno == ENOENT;
    errno = before;
    return done;
}

/* ---- files ---- */

void hf_upload_free(hf_upload *upload)
{
    release((hf_entry *)upload);
}

static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

static bool create(hf_upload *upload)
{
    char *path;

    if (upload->entry.path)
        return true;
    if (!tempdir_make(&upload->dir->entry))
        return false;
    path = join_path(upload->dir->entry.path, "XXXXXX");
    if (!path)
        return false;
    if (!upload->dir->over) {
        upload->fd = mkstemp(path);
        if (upload->fd < 0) {
            free(path);
            return false;
        }
        (void)fcntl(upload->fd, F_SETFD, FD_CLOEXEC);
    }
    upload->entry.path = path;
    return true;
}

bool hf_upload_spill(hf_upload *upload)
{
    if (upload->spilled)
        return true;
    if (!create(upload))
        return false;
    if (upload->fd >= 0 && !write_all(upload->fd, upload->bytes, upload->len)) {
        const int error = errno;
        (void)hf_upload_close(upload);
        (void)unlink(upload->entry.path);
        free(upload->entry.path);
        upload->entry.path = NULL;
        errno = error;
        return false;
    }
    free(upload->bytes);
    upload->bytes = NULL;
    upload->capacity = 0;
    upload->spilled = true;
    return true;
}

bool hf_upload_close(hf_upload *upload)
{
    const int fd = upload->fd;

    upload->fd = -1;
    return fd < 0 || close(fd) == 0;
}

static bool make_room(hf_upload *upload, size_t capacity)
{
    char *bytes = realloc(upload->bytes, capacity);

    if (!bytes)
        return false;
    upload->bytes = bytes;
    upload->capacity = capacity;
    return true;
}

void hf_upload_expect(hf_upload *upload, size_t n)
{
    if (n > upload->capacity && !upload->spilled)
        (void)make_room(upload, n);
}

bool hf_upload_append(hf_upload *upload, const char *bytes, size_t n)
{
    if (upload->spilled) {
        if (!write_all(upload->fd, bytes, n))
            return false;
    }
    else if (n > 0) {
        if (upload->capacity - upload->len < n && !make_room(upload, upload->len + n + upload->len / 2))
            return false;
        memcpy(upload->bytes + upload->len, bytes, n);
    }
    upload->len += n;
    return true;
}

size_t hf_upload_size(const hf_upload *upload)
{
    return upload->len;
}

bool hf_upload_in_memory(const hf_upload *upload)
{
    return !upload->spilled;
}

/* ---- what the scalars with their paths need of them ---- */

static bool upload_make(hf_entry *entry)
{
    hf_upload *upload = (hf_upload *)entry;

    return hf_upload_spill(upload) && hf_upload_close(upload);
}

static void upload_complain(pTHX_ const hf_entry *entry)
{
    PERL_UNUSED_ARG(entry);
    croak("Could not write to file handle: '%s'", Strerror(errno));
}

static void upload_clear(hf_entry *entry)
{
    hf_upload *upload = (hf_upload *)entry;

    if (upload->fd >= 0)
        close(upload->fd);
    release(&upload->dir->entry);
    free(upload->bytes);
}

static const hf_kind upload_kind = {upload_make, upload_complain, upload_clear};

static void tempdir_complain(pTHX_ const hf_entry *entry)
{
    croak("Could not make a temporary directory in %s: '%s'", ((const hf_tempdir *)entry)->parent, Strerror(errno));
}

static void tempdir_clear(hf_entry *entry)
{
    free(((hf_tempdir *)entry)->parent);
}

static const hf_kind tempdir_kind = {tempdir_make, tempdir_complain, tempdir_clear};

/* ---- the magic of a path: mg_ptr is a hf_entry until the path is known ---- */

/* Somebody gave it a value of his own, or it is gone. */
static int path_forget(pTHX_ SV *sv, MAGIC *mg)
{
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_ARG(sv);
    release((hf_entry *)mg->mg_ptr);
    mg->mg_ptr = NULL;
    return 0;
}

static int path_get(pTHX_ SV *sv, MAGIC *mg)
{
    hf_entry *entry = (hf_entry *)mg->mg_ptr;

    if (!entry)
        return 0;
    if (entry->kind && !entry->kind->make(entry))
        entry->kind->complain(aTHX_ entry);
    sv_setpv(sv, entry->path);
    return path_forget(aTHX_ sv, mg);
}

#ifdef USE_ITHREADS
/* A new thread gets copies of the scalars. Nothing is shared: what was in memory is written now, and the copy knows the
 * path only. The directory stays the first thread's to remove. */
static int path_dup(pTHX_ MAGIC *mg, CLONE_PARAMS *param)
{
    hf_entry *entry = (hf_entry *)mg->mg_ptr;

    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_ARG(param);
    mg->mg_ptr = NULL;
    if (entry && (!entry->kind || entry->kind->make(entry))) {
        hf_entry *copy = calloc(1, sizeof *copy);
        if (copy) {
            copy->refs = 1;
            copy->path = entry->path ? strdup(entry->path) : NULL;
            mg->mg_ptr = (char *)copy;
        }
    }
    return 0;
}

static int owner_dup(pTHX_ MAGIC *mg, CLONE_PARAMS *param)
{
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_ARG(param);
    mg->mg_ptr = NULL;
    return 0;
}
#define DUP(function) function
#else
#define DUP(function) NULL
#endif

static const MGVTBL path_vtbl = {path_get, path_forget, NULL, NULL, path_forget, NULL, DUP(path_dup), NULL};
static const MGVTBL owner_vtbl = {NULL, NULL, NULL, NULL, path_forget, NULL, DUP(owner_dup), NULL}; /* of the object */

/* Takes a reference to the entry over. */
static SV *with_magic(pTHX_ SV *sv, const MGVTBL *vtbl, hf_entry *entry)
{
    MAGIC *mg = sv_magicext(sv, NULL, PERL_MAGIC_ext, vtbl, NULL, 0);

    mg->mg_ptr = (char *)entry;
#ifdef USE_ITHREADS
    mg->mg_flags |= MGf_DUP;
#endif
    return sv;
}

SV *hf_upload_name(pTHX_ hf_upload *upload)
{
    if (upload->spilled)
        return newSVpv(upload->entry.path, 0);
    upload->entry.refs++;
    return with_magic(aTHX_ newSVpvs(""), &path_vtbl, &upload->entry);
}

SV *hf_upload_name_copy(pTHX_ SV *name)
{
    MAGIC *mg = SvTYPE(name) >= SVt_PVMG ? mg_findext(name, PERL_MAGIC_ext, &path_vtbl) : NULL;
    hf_entry *entry = mg ? (hf_entry *)mg->mg_ptr : NULL;

    if (entry && entry->kind == &upload_kind)
        return hf_upload_name(aTHX_ (hf_upload *)entry);
    return newSVsv(name);
}

hf_upload *hf_upload_new(pTHX_ SV *object)
{
    MAGIC *mg = mg_findext(SvRV(object), PERL_MAGIC_ext, &owner_vtbl);
    hf_upload *upload = (hf_upload *)calloc(1, sizeof *upload);

    if (!mg || !mg->mg_ptr || !upload)
        croak("Could not begin an uploaded file");
    upload->entry.kind = &upload_kind;
    upload->entry.refs = 1;
    upload->fd = -1;
    upload->dir = (hf_tempdir *)mg->mg_ptr;
    upload->dir->entry.refs++;
    return upload;
}

/* ---- the directory's object ---- */

static char *tmpdir(pTHX)
{
    char *copy;
    SV *answer;
    dSP;

    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    mXPUSHs(newSVpvs("File::Spec"));
    PUTBACK;
    call_method("tmpdir", G_SCALAR);
    SPAGAIN;
    answer = POPs;
    copy = strdup(SvPV_nolen(answer));
    PUTBACK;
    FREETMPS;
    LEAVE;
    return copy;
}

SV *hf_tempdir_new(pTHX)
{
    HV *self = newHV();
    SV *object = newRV_noinc((SV *)self);
    hf_tempdir *dir = (hf_tempdir *)calloc(1, sizeof *dir);

    if (!dir)
        croak("Out of memory");
    dir->entry.kind = &tempdir_kind;
    dir->entry.refs = 3;
    with_magic(aTHX_ (SV *)self, &owner_vtbl, &dir->entry);
    (void)hv_stores(self, "DIRNAME", with_magic(aTHX_ newSVpvs(""), &path_vtbl, &dir->entry));
    (void)hv_stores(self, "REALNAME", with_magic(aTHX_ newSVpvs(""), &path_vtbl, &dir->entry));
    (void)hv_stores(self, "CLEANUP", newSViv(1));
    (void)hv_stores(self, "LAUNCHPID", newSViv((IV)getpid()));
    sv_2mortal(object);
    dir->owner = getpid();
    dir->parent = tmpdir(aTHX);
    if (!dir->parent)
        croak("Out of memory");
    sv_bless(object, gv_stashpvs("Hydrofoil::Accelerate::Entity::Directory", GV_ADD));
    return SvREFCNT_inc_simple_NN(object);
}

/* As the original's, without a line of Perl in the usual case. */
XS(xs_tempdir_destroy)
{
    dXSARGS;
    HV *self;
    MAGIC *mg;
    hf_tempdir *dir;
    SV **cleanup, *keep;

    if (items != 1 || !SvROK(ST(0)) || SvTYPE(SvRV(ST(0))) != SVt_PVHV)
        XSRETURN_EMPTY;
    self = (HV *)SvRV(ST(0));
    mg = mg_findext((SV *)self, PERL_MAGIC_ext, &owner_vtbl);
    dir = mg ? (hf_tempdir *)mg->mg_ptr : NULL;
    cleanup = hv_fetchs(self, "CLEANUP", 0);
    keep = get_sv("File::Temp::KEEP_ALL", 0);
    if (!dir || dir->over || !cleanup || !SvTRUE(*cleanup) || (keep && SvTRUE(keep)))
        XSRETURN_EMPTY;
    if (!dir->entry.path)
        dir->over = true;
    else if (dir->owner == getpid()) {
        dir->over = true;
        if (!tempdir_remove(dir)) {
            CV *original = get_cv("File::Temp::Dir::DESTROY", 0);
            if (original) {
                PUSHMARK(SP);
                XPUSHs(ST(0));
                PUTBACK;
                call_sv((SV *)original, G_VOID | G_DISCARD | G_EVAL | G_KEEPERR);
            }
        }
    }
    XSRETURN_EMPTY;
}

void hf_acc_boot_upload(pTHX)
{
    newXS("Hydrofoil::Accelerate::Entity::Directory::DESTROY", xs_tempdir_destroy, "toolkit");
}
