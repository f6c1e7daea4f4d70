/* null_server.c - the engine with an application of one C function: "null_server PORT". For load tests, profiles and
 * sanitizer runs without Perl. With port 0 it takes a free one and says which. */
#include "engine.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_engine *engine;

static void on_term(int sig)
{
    (void)sig;
    hf_engine_stop(engine);
}

static void print_line(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *port = argc > 1 ? argv[1] : "5000";
    at.sin_port = htons((uint16_t)atoi(port));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 4096) < 0) {
        perror(port);
        return 1;
    }
    socklen_t len = sizeof(at);
    if (at.sin_port == 0 && getsockname(fd, (struct sockaddr *)&at, &len) == 0) {
        printf("port %d\n", ntohs(at.sin_port));
        fflush(stdout);
    }
    hf_config config = hf_config_default;
    config.log = print_line;
    engine = hf_engine_create(&config);
    if (!engine || hf_engine_listen(engine, fd, "127.0.0.1", port) < 0) {
        perror("engine");
        return 1;
    }
    signal(SIGTERM, on_term);
    signal(SIGINT, on_term);
    hf_engine_lock(engine);
    while (!hf_engine_finished(engine)) {
        hf_request *r;
        unsigned events;
        hf_engine_poll(engine, -1);
        while ((r = hf_engine_next(engine, &events))) {
            static const hf_field_out type = {"Content-Type", "text/plain", 12, 10};
            hf_engine_unlock(engine);
            hf_engine_lock(engine);
            if (hf_response_begin(r, 200, &type, 1, 11, 11) == 0)
                hf_response_write(r, "Hello World", 11);
            hf_response_end(r);
        }
    }
    hf_engine_unlock(engine);
    hf_engine_destroy(engine);
    return 0;
}
