/* test_poller.c - the poller, the one that it was built with: epoll(7), or poll(2) with -DHF_USE_POLL. */
#include "poller.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tap.h"

static hf_poller *p;

static void pair(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0) {
        perror("socketpair");
        exit(2);
    }
}

/* The events of `data` now; 0: none. */
static uint32_t events_of(const void *data)
{
    hf_event ev[64];
    const int n = hf_poller_wait(p, ev, 64, 0);
    for (int i = 0; i < n; i++)
        if (ev[i].data == data)
            return ev[i].events;
    return 0;
}

static void one_socket(void)
{
    int fds[2], mark;
    char c;
    hf_event ev[4];

    pair(fds);
    is_int(hf_poller_add(p, fds[0], HF_POLL_IN, &mark), 0, "a descriptor is added");
    is_int(hf_poller_wait(p, ev, 4, 0), 0, "nothing happens to it at first");
    ok(write(fds[1], "ab", 2) == 2, "bytes are sent to it");
    is_int(hf_poller_wait(p, ev, 4, 5000), 1, "there is one event");
    ok(ev[0].data == &mark && ev[0].events == HF_POLL_IN, "it can be read, and its data comes back");
    ok(read(fds[0], &c, 1) == 1 && events_of(&mark) == HF_POLL_IN, "as long as something is left to be read it is told again");
    ok(read(fds[0], &c, 1) == 1 && events_of(&mark) == 0, "then no more");
    is_int(hf_poller_modify(p, fds[0], HF_POLL_OUT, &mark), 0, "what is waited for is changed");
    is_int(events_of(&mark), HF_POLL_OUT, "it can be written to");
    hf_poller_modify(p, fds[0], HF_POLL_IN | HF_POLL_OUT, fds);
    ok(write(fds[1], "a", 1) == 1 && events_of(fds) == (HF_POLL_IN | HF_POLL_OUT), "both at once, under other data");
    hf_poller_modify(p, fds[0], 0, &mark);
    is_int(events_of(&mark), 0, "nothing is told while nothing is waited for");
    close(fds[1]);
    is_int(events_of(&mark), HF_POLL_GONE, "but that the other side is gone");
    hf_poller_modify(p, fds[0], HF_POLL_IN, &mark);
    ok((events_of(&mark) & HF_POLL_IN), "what it left can still be read");
    hf_poller_remove(p, fds[0]);
    is_int(events_of(&mark), 0, "after it is removed nothing is told");
    hf_poller_remove(p, fds[0]);
    ok(true, "removing it again is harmless");
    close(fds[0]);
}

static void edges(void)
{
    int fds[2], mark;
    char c[8];
    const bool all = hf_poller_fd(p) < 0; /* poll(2) knows levels only: it tells more often than it has to */

    pair(fds);
    hf_poller_add(p, fds[0], HF_POLL_IN | HF_POLL_EDGE, &mark);
    ok(write(fds[1], "ab", 2) == 2 && events_of(&mark) == HF_POLL_IN, "bytes are told where edges are asked for");
    is_int(events_of(&mark), all ? HF_POLL_IN : 0, "but not again before there are more");
    ok(write(fds[1], "c", 1) == 1 && events_of(&mark) == HF_POLL_IN, "more are");
    hf_poller_modify(p, fds[0], HF_POLL_IN, &mark);
    is_int(events_of(&mark), HF_POLL_IN, "when levels are asked for instead, what was left is told");
    is_int(events_of(&mark), HF_POLL_IN, "and again");
    ok(read(fds[0], c, sizeof c) == 3 && events_of(&mark) == 0, "until it is read");
    hf_poller_modify(p, fds[0], HF_POLL_IN | HF_POLL_EDGE, &mark);
    ok(write(fds[1], "d", 1) == 1 && shutdown(fds[1], SHUT_WR) == 0, "a byte and then the end are sent");
    is_int(events_of(&mark), all ? HF_POLL_IN : HF_POLL_IN | HF_POLL_END, "the end behind the byte is told with it");
    hf_poller_remove(p, fds[0]);
    close(fds[0]);
    close(fds[1]);
}

static void mistakes(void)
{
    int fds[2], mark;

    pair(fds);
    hf_poller_add(p, fds[0], HF_POLL_IN, &mark);
    errno = 0;
    ok(hf_poller_add(p, fds[0], HF_POLL_IN, &mark) == -1 && errno == EEXIST, "adding a descriptor twice is an error");
    errno = 0;
    ok(hf_poller_modify(p, fds[1], HF_POLL_IN, &mark) == -1 && errno == ENOENT, "changing one that was not added is an error");
    ok(hf_poller_add(p, -1, HF_POLL_IN, &mark) == -1, "adding none is an error");
    hf_poller_remove(p, fds[0]);
    ok(hf_poller_add(p, fds[0], HF_POLL_IN | HF_POLL_EXCLUSIVE, &mark) == 0, "a removed one can be added again, exclusively");
    hf_poller_remove(p, fds[0]);
    close(fds[0]);
    close(fds[1]);
}

static void many(void)
{
    enum { N = 150 };
    static int fds[N][2];
    unsigned told[N] = {0};
    bool ours = true, others = false, all = true;
    hf_event ev[16];

    for (int i = 0; i < N; i++) {
        pair(fds[i]);
        hf_poller_add(p, fds[i][0], HF_POLL_IN, fds[i]);
        if (i % 2 && write(fds[i][1], "x", 1) != 1)
            ok(false, "a byte can be sent");
    }
    for (int turn = 0; turn < 40; turn++) {
        const int n = hf_poller_wait(p, ev, 16, 1000);
        ours &= n > 0 && n <= 16;
        for (int k = 0; k < n; k++)
            told[(int(*)[2])ev[k].data - fds]++;
    }
    for (int i = 0; i < N; i++) {
        all &= i % 2 == 0 || told[i];
        others |= i % 2 == 0 && told[i];
    }
    ok(ours, "never more events than there is room for");
    ok(all, "each of many descriptors has its turn, none is always last");
    ok(!others, "the others are not told");
    for (int i = 1; i < N; i += 2) /* from the middle of the tables */
        hf_poller_remove(p, fds[i][0]);
    is_int(hf_poller_wait(p, ev, 16, 0), 0, "when those are removed there is nothing left to tell");
    for (int i = 0; i < N; i += 2)
        if (write(fds[i][1], "x", 1) != 1)
            ok(false, "a byte can be sent");
    memset(told, 0, sizeof told);
    for (int turn = 0; turn < 40; turn++) {
        const int n = hf_poller_wait(p, ev, 16, 0);
        for (int k = 0; k < n; k++)
            told[(int(*)[2])ev[k].data - fds]++;
    }
    all = true;
    for (int i = 0; i < N; i++)
        all &= (i % 2 == 0) == (told[i] > 0);
    ok(all, "and the remaining ones are told under their own data");
    for (int i = 0; i < N; i++) {
        hf_poller_remove(p, fds[i][0]);
        close(fds[i][0]);
        close(fds[i][1]);
    }
}

static void on_alarm(int sig)
{
    (void)sig;
}

static void waiting(void)
{
    hf_event ev[4];
    struct sigaction sa = {.sa_handler = on_alarm}, before;
    struct itimerval soon = {.it_value.tv_usec = 50000, .it_interval.tv_usec = 50000}, never = {.it_value.tv_sec = 0};

    is_int(hf_poller_wait(p, ev, 4, 20), 0, "a wait ends with its time");
    sigaction(SIGALRM, &sa, &before);
    setitimer(ITIMER_REAL, &soon, NULL);
    is_int(hf_poller_wait(p, ev, 4, 60000), 0, "a signal ends a wait");
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    alarm(60);
}

static void in_another_loop(void)
{
    int fds[2], mark, own = hf_poller_fd(p);
    struct pollfd outer = {.fd = own, .events = POLLIN};

    if (own < 0) {
        ok(strcmp(hf_poller_name, "poll") == 0, "poll(2) has no descriptor of its own");
        return;
    }
    pair(fds);
    hf_poller_add(p, fds[0], HF_POLL_IN, &mark);
    is_int(poll(&outer, 1, 0), 0, "its own descriptor is quiet while nothing happens");
    ok(write(fds[1], "x", 1) == 1 && poll(&outer, 1, 5000) == 1, "and readable when something did");
    hf_poller_remove(p, fds[0]);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    alarm(60);
    diag("%s", hf_poller_name);
    p = hf_poller_create();
    ok(p != NULL, "a poller is made");
    one_socket();
    edges();
    mistakes();
    many();
    waiting();
    in_another_loop();
    hf_poller_destroy(p);
    hf_poller_destroy(NULL);
    return done_testing();
}
