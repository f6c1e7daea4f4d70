/* target.h - what every fuzz target begins with: the function that it is, CHECK() for what has to hold, and a main() for
 * machines without libFuzzer: with -DHF_FUZZ_STANDALONE it runs the files named on the command line, and all files in the
 * folders named there, once each.
 */
#ifndef HF_FUZZ_TARGET_H
#define HF_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* One input, of any bytes; may be called any number of times, and leaves nothing behind. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stops at a finding, where the sanitizers' report shows the stack. */
#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#ifdef HF_FUZZ_STANDALONE
#include <dirent.h>
#include <sys/stat.h>

static unsigned standalone_runs;

static void standalone_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t len = 0, n = 0;

    if (!f) {
        perror(path);
        exit(2);
    }
    do {
        len += n;
        data = realloc(data, len + 65536);
        if (!data)
            abort();
    } while ((n = fread(data + len, 1, 65536, f)) > 0);
    fclose(f);

    uint8_t *exact = malloc(len ? len : 1); /* so that the address sanitizer sees a read behind the end */
    if (!exact)
        abort();
    for (size_t i = 0; i < len; i++)
        exact[i] = data[i];
    free(data);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    standalone_runs++;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat st;
        DIR *dir;
        struct dirent *entry;

        if (stat(argv[i], &st) != 0 || !S_ISDIR(st.st_mode)) {
            standalone_file(argv[i]);
            continue;
        }
        if (!(dir = opendir(argv[i]))) {
            perror(argv[i]);
            return 2;
        }
        while ((entry = readdir(dir))) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
                standalone_file(path);
        }
        closedir(dir);
    }
    printf("%u inputs, no finding\n", standalone_runs);
    return 0;
}
#endif

#endif
