/* test_deadlines.c - connections whose time is up, and engines that drain or stop. */
#include "conversation.h"

/* --- deadlines --- */

/* More than the poller tells in one turn, so that some deadlines pass before their events are seen. */
static void many_held_up(void)
{
    enum { N = 200 };
    client *c[N];
    unsigned whole = 0, refused = 0;

    for (int i = 0; i < N; i++) {
        c[i] = dial_with(1);
        say(c[i], GET("/13k"));
    }
    settle(NULL);
    for (int i = 0; i < N; i++)
        listen_to(c[i], SIZE_MAX);
    now += 100000;
    turn();
    for (int i = 0; i < N; i++)
        whole += strncmp(told(c[i]), "200:13000", 9) == 0;
    is_int(whole, N, "however many readers were not served, none is cut off");
    for (int i = 0; i < N; i++)
        hang_up(c[i]);
    settle(NULL);

    for (int i = 0; i < N; i++) {
        c[i] = dial();
        say(c[i], "GET");
    }
    settle(NULL);
    for (int i = 0; i < N; i++)
        say(c[i], " ");
    now += 100000;
    turn();
    for (int i = 0; i < N; i++)
        refused += strcmp(told(c[i]), "408!:Request Timeout eof") == 0;
    is_int(refused, N, "however many heads are late, each is refused");
    for (int i = 0; i < N; i++)
        hang_up(c[i]);
    settle(NULL);
}

static void deadlines(void)
{
    config.keepalive_timeout = 5000;
    config.header_timeout = 10000;
    config.read_timeout = 20000;
    config.write_timeout = 30000;
    start();
    client *c = dial();
    pass(9000);
    is_str(told(c), "", "a new connection may wait for its first request");
    pass(1200);
    is_str(told(c), "eof", "but not longer than for a head");
    hang_up(c);

    c = dial();
    say(c, GET("/"));
    settle(c);
    pass(4000);
    say(c, GET("/"));
    settle(c);
    pass(4800);
    is_str(told(c), HELLO " " HELLO, "each request extends an idle connection's time");
    pass(400);
    is_str(told(c), HELLO " " HELLO " eof", "after it, it is closed without a word");
    hang_up(c);

    c = dial();
    for (int i = 0; i < 9; i++) {
        say_bytes(c, &"GET / HTTP"[i], 1);
        pass(1000);
    }
    ok(!c->eof && e->n_conns == 1, "a head may come slowly");
    say(c, "P");
    pass(2200);
    is_str(told(c), "408!:Request Timeout eof", "but has one deadline, however often a byte of it comes");
    hang_up(c);

    c = dial();
    say(c, GET("/"));
    settle(c);
    pass(4000);
    say(c, "GET");
    settle(c);
    pass(9500);
    say(c, " /" H "\r\n");
    is_str(told(c), HELLO " " HELLO, "the head of a later request has as much time");
    hang_up(c);

    c = dial();
    say(c, "POST /" H "Content-Length: 9\r\n\r\n");
    for (int i = 0; i < 4; i++) {
        pass(19000);
        say(c, "xy");
        turn();
    }
    is_str(told(c), "", "a body may take long as long as something comes");
    pass(20200);
    is_str(told(c), "408!:Request Timeout eof", "but not when nothing does");
    hang_up(c);

    c = dial();
    say(c, "POST /" H "Transfer-Encoding: chunked\r\n\r\n4");
    settle(c);
    pass(20200);
    is_str(told(c), "408!:Request Timeout eof", "nor in chunks");
    hang_up(c);

    c = dial_with(1);
    say(c, GET("/large"));
    for (int i = 0; i < 5; i++) {
        pass(29000);
        listen_to(c, 8192);
        turn();
    }
    is_int(e->n_conns, 1, "a slow reader is waited for as long as it takes something");
    pass(30200);
    is_int(e->n_conns, 0, "but not when it takes nothing");
    hang_up(c);

    c = dial_with(1);
    say(c, GET("/13k") "GET");
    settle(NULL);
    is_str(told(c), "200:13000", "a slow reader has its answer");
    pass(10200);
    is_str(told(c), "200:13000 408!:Request Timeout eof", "then its next head has the time of a head");
    hang_up(c);
    while (hf_engine_released(e))
        ;

    /* The worker was held up: what has come in time counts. */
    c = dial();
    client *d = dial(), *w = dial_with(1), *h = dial();
    say(c, GET("/"));
    settle(c);
    say(d, "POST /" H "Content-Length: 3\r\n\r\na");
    say(w, GET("/large"));
    say(h, "GET /");
    settle(d);
    say(c, GET("/"));
    say(d, "bc");
    say(h, H "\r\n");
    listen_to(w, 100000);
    now += 100000;
    is_str(told(c), HELLO " " HELLO, "a request that waited while the worker was held up is answered, though its deadline passed");
    is_str(told(d), HELLO, "so is one whose body waited");
    is_str(told(h), HELLO, "or the rest of whose head");
    is_str(told(w), "200:300000", "and a reader that was not served is not cut off");
    hang_up(c);
    hang_up(d);
    hang_up(w);
    hang_up(h);
    while (hf_engine_released(e))
        ;

    many_held_up();
    c = dial();
    say(c, GET("/later"));
    settle(c);
    pass(1000000);
    is_int(e->n_conns, 1, "the application may take its time");
    hello(parked);
    is_str(told(c), HELLO, "and answer after all");
    hang_up(c);
    finish();

    config.keepalive_timeout = config.header_timeout = config.read_timeout = config.write_timeout = 0;
    start();
    c = dial();
    d = dial();
    say(c, GET("/"));
    say(d, "GET");
    settle(c);
    pass(UINT64_C(100000000));
    is_int(e->n_conns, 2, "without deadlines everybody is waited for");
    hang_up(c);
    hang_up(d);
    finish();
}

/* --- draining and stopping --- */

static void drains(void)
{
    start();
    client *idle = dial(), *busy = dial(), *fresh = dial(), *head = dial(), *stream = dial(), *sent = dial();
    say(idle, GET("/"));
    say(stream, GET("/stream"));
    settle(idle);
    hf_request *streaming = parked;
    say(busy, GET("/later"));
    say(head, "GET /");
    say(sent, GET("/"));
    settle(sent);
    say(sent, GET("/"));
    hf_engine_drain(e);
    turn();
    is_str(told(idle), HELLO " eof", "a drain closes idle connections");
    is_str(told(sent), HELLO " 200!:hello eof", "but not before it has answered what was on its way");
    is_int(hf_engine_finished(e), HF_RUNNING, "it does not end before the others");
    say(head, H "\r\n");
    is_str(told(head), "200!:hello eof", "a request that had begun is answered");
    hello(parked);
    is_str(told(busy), "200!:hello eof", "so is one that the application has");
    hf_response_write(streaming, "lo", 2);
    hf_response_end(streaming);
    is_str(told(stream), "200:hello eof", "an answer that had begun is completed, and its connection closed");
    say(fresh, GET("/"));
    is_str(told(fresh), "200!:hello eof", "a new connection may still ask");
    is_int(hf_engine_finished(e), HF_DRAINED, "then it is drained");
    hang_up(idle), hang_up(busy), hang_up(fresh), hang_up(head), hang_up(stream), hang_up(sent);
    finish();

    start();
    fresh = dial();
    hf_engine_drain(e);
    turn();
    is_int(hf_engine_finished(e), HF_RUNNING, "a connection that has not asked yet is waited for");
    pass(1200);
    ok(hf_engine_finished(e) == HF_DRAINED, "for a second");
    hang_up(fresh);
    finish();

    start();
    idle = dial();
    say(idle, GET("/"));
    settle(idle);
    say(idle, GET("/"));
    hf_engine_begin_drain(e, HF_DRAINED);
    is_str(told(idle), HELLO " 200!:hello eof", "what has arrived but was not read is answered");
    hang_up(idle);
    finish();

    config.shutdown_timeout = 3000;
    start();
    busy = dial();
    say(busy, GET("/later"));
    settle(busy);
    hf_engine_drain(e);
    turn();
    pass(2900);
    is_int(hf_engine_finished(e), HF_RUNNING, "a drain waits for answers");
    pass(200);
    is_int(hf_engine_finished(e), HF_DRAINED, "but not for ever");
    hf_engine_close_all(e);
    turn();
    is_int(n_gone, 1, "those who are not done are told");
    hang_up(busy);
    finish();

    config.max_requests = 2;
    start();
    busy = dial();
    idle = dial();
    say(idle, GET("/"));
    settle(idle);
    say(busy, GET("/") GET("/"));
    is_str(told(busy), "200!:hello eof", "the last request of max_requests says close");
    is_str(told(idle), HELLO " eof", "and drains");
    hang_up(busy);
    hang_up(idle);
    settle(NULL);
    is_int(hf_engine_finished(e), HF_MAX_REQUESTS, "and says why");
    finish();

    config.parent_pid = (int)getpid(); /* nobody is his own parent */
    start();
    pass(1100);
    is_int(hf_engine_finished(e), HF_ORPHANED, "a worker whose parent is gone ends");
    finish();

    start();
    busy = dial();
    say(busy, GET("/later"));
    settle(busy);
    hf_engine_stop(e);
    turn();
    is_int(hf_engine_finished(e), HF_STOPPED, "a stop ends at once");
    hf_engine_close_all(e);
    turn();
    is_int(n_gone, 1, "and tells those who are not done");
    is_int(e->n_conns, 0, "no connection is left");
    hang_up(busy);
    finish();
}

int main(void)
{
    prepare();
    deadlines();
    drains();
    free(large);
    return done_testing();
}
