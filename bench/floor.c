/*
 * The floor: the least that any HTTP server on epoll must do, and so the least CPU a request can cost here.
 *
 * One thread, level-triggered epoll, one read and one write per batch of requests, a fixed answer. It does not parse:
 * a request ends where "\r\n\r\n" ends, so it is a yardstick for GET requests without a body and not a server.
 *
 *     floor PORT        serves http://127.0.0.1:PORT/ until it is killed
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER                                                                                                         \
    "HTTP/1.1 200 OK\r\n"                                                                                              \
    "Server: floor\r\n"                                                                                                \
    "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"                                                                          \
    "Content-Type: text/plain\r\n"                                                                                     \
    "Content-Length: 11\r\n"                                                                                           \
    "\r\n"                                                                                                             \
    "Hello World"

enum { ANSWER_LEN = sizeof(ANSWER) - 1, BATCH_MAX = 512, READ_SIZE = 16384, EVENTS_MAX = 512, FD_MAX = 1 << 17 };

static char batch[BATCH_MAX * ANSWER_LEN]; /* the answer, BATCH_MAX times over: pipelined requests leave in one write */
static unsigned char matched[FD_MAX];      /* per descriptor: how many bytes of "\r\n\r\n" the last read ended with */

/* How many requests end within the bytes just read; *state carries a terminator that was cut by the read. */
static size_t count_requests(const char *bytes, size_t len, unsigned char *state)
{
    size_t requests = 0;
    unsigned have = *state;

    for (size_t i = 0; i < len; i++) {
        char want = (have & 1) ? '\n' : '\r';
        if (bytes[i] == want)
            have++;
        else
            have = bytes[i] == '\r';
        if (have == 4) {
            requests++;
            have = 0;
        }
    }
    *state = (unsigned char)have;
    return requests;
}

/* 0, or -1 when the connection is to be closed. A peer that does not read its answers is dropped, not waited for. */
static int answer(int fd, size_t requests)
{
    while (requests > 0) {
        size_t now = requests < BATCH_MAX ? requests : BATCH_MAX;
        ssize_t len = (ssize_t)(now * ANSWER_LEN);
        if (send(fd, batch, (size_t)len, MSG_NOSIGNAL) != len)
            return -1;
        requests -= now;
    }
    return 0;
}

static int serve(int fd)
{
    char bytes[READ_SIZE];
    ssize_t got = read(fd, bytes, sizeof bytes);

    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (got == 0)
        return -1;
    return answer(fd, count_requests(bytes, (size_t)got, &matched[fd]));
}

static void accept_all(int epoll_fd, int listener)
{
    for (;;) {
        int one = 1;
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

        if (fd < 0)
            return;
        if (fd >= FD_MAX || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        matched[fd] = 0;
    }
}

static int listen_on(int port)
{
    int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((in_port_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16384) < 0) {
        perror("floor: listen");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS_MAX];
    int port = argc == 2 ? atoi(argv[1]) : 0;

    if (port <= 0 || port > 65535) {
        fprintf(stderr, "usage: floor PORT\n");
        return 2;
    }
    for (int i = 0; i < BATCH_MAX; i++)
        memcpy(batch + i * ANSWER_LEN, ANSWER, ANSWER_LEN);

    int listener = listen_on(port);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event) < 0) {
        perror("floor: epoll");
        return 1;
    }

    for (;;) {
        int ready = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener)
                accept_all(epoll_fd, listener);
            else if (serve(fd) < 0)
                close(fd);
        }
    }
}
