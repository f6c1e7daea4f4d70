/* test_engine.c - requests in, answers out: keep-alive, pipelining, refusals and framing. */
#include "conversation.h"

/* What a new client is told when it says this, and nothing after. */
static void exchange(const char *text, const char *want, const char *name)
{
    client *c = dial();
    say(c, text);
    is_str(told(c), want, name);
    hang_up(c);
}

/* The same in two parts: the engine has seen the first when the rest comes. */
static void exchange_in_two(const char *first, const char *rest, const char *want, const char *name)
{
    client *c = dial();
    say(c, first);
    settle(c);
    say(c, rest);
    is_str(told(c), want, name);
    hang_up(c);
}

/* --- requests and answers --- */

static void keep_alive(void)
{
    start();
    client *c = dial();
    say(c, GET("/"));
    is_str(told(c), HELLO, "a request is answered, and the connection stays open");
    say(c, GET("/"));
    is_str(told(c), HELLO " " HELLO, "so is the next one on the same connection");
    ok(sleeps(), "then the engine sleeps");
    say(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    is_str(told(c), HELLO " " HELLO " 200!:hello eof", "until the client asks for its end");
    is_int(e->n_conns, 0, "then the engine has no connection");
    hang_up(c);

    exchange("GET / HTTP/1.0\r\n\r\n", "200!:hello eof", "HTTP/1.0 is answered and closed");
    c = dial();
    say(c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    is_str(told(c), HELLO, "unless it asks for keep-alive");
    ok(strstr(c->got, "Connection: keep-alive\r\n") != NULL, "which is granted explicitly");
    hang_up(c);
    c = dial();
    c->to_head = true;
    say(c, "HEAD /" H "\r\nHEAD /large" H "\r\n");
    is_str(told(c), "200: 200:", "HEAD is answered without a body");
    ok(strstr(c->got, "Content-Length: 300000\r\n") != NULL, "but with its length");
    hang_up(c);
    finish();

    config.keepalive = false;
    start();
    c = dial();
    say(c, GET("/") GET("/"));
    is_str(told(c), "200!:hello eof", "without keep-alive one request is answered, and no other");
    is_int(n_run, 1, "nor is the application called for it");
    hang_up(c);
    finish();

    config.max_keepalive_requests = 3;
    start();
    exchange(GET("/") GET("/") GET("/") GET("/"),
             HELLO " " HELLO " 200!:hello eof", "a limit of three requests ends with the third");
    finish();
}

static void cut_anywhere(void)
{
    static const char text[] = "POST /x" H "Content-Length: 5\r\n\r\n12345"
                               "POST /y" H "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nabcde\r\n0\r\nT: v\r\n\r\n" GET("/");
    bool same = true, bodies = true;
    start();
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        client *c = dial();
        say_bytes(c, text, cut);
        settle(c);
        say_bytes(c, text + cut, sizeof text - 1 - cut);
        same &= strcmp(told(c), HELLO " " HELLO " " HELLO) == 0;
        hang_up(c);
    }
    client *c = dial();
    for (size_t i = 0; i < sizeof text - 1; i++) {
        say_bytes(c, text + i, 1);
        turn();
        if (n_run % 3 == 1)
            bodies &= strcmp(body_seen, "12345") == 0;
        if (n_run % 3 == 2)
            bodies &= strcmp(body_seen, "abcde") == 0;
    }
    same &= strcmp(told(c), HELLO " " HELLO " " HELLO) == 0;
    hang_up(c);
    ok(same, "requests are answered the same wherever they are cut, and byte by byte");
    ok(bodies, "and their bodies are the same");
    finish();
}

static void repeat(char *dst, const char *text, unsigned times)
{
    for (*dst = '\0'; times--; dst += strlen(text))
        strcpy(dst, text);
}

static void pipelining(void)
{
    static char text[20000], want[3000];

    start();
    client *c = dial();
    repeat(text, GET("/"), 20);
    repeat(want, HELLO " ", 20);
    want[strlen(want) - 1] = '\0';
    say(c, text);
    is_str(told(c), want, "twenty pipelined requests are answered");
    is_int(n_writes, 1, "with one write");
    hang_up(c);

    c = dial();
    n_writes = 0;
    repeat(text, GET("/"), 200);
    say(c, text);
    settle(c);
    unsigned answers = 0;
    for (const char *p = c->got; (p = strstr(p, "hello")); p++)
        answers++;
    is_int(answers, 200, "two hundred are answered as well");
    ok(n_writes > 1 && n_writes <= 20, "not all of them wait for the last one, and not each is sent alone");
    hang_up(c);

    c = dial();
    n_writes = 0;
    repeat(text, GET("/13k"), 12);
    say(c, text);
    settle(c);
    ok(n_writes >= 2 && n_writes <= 8, "answers that wait for others take a bounded amount of memory");
    hang_up(c);

    c = dial();
    say(c, GET("/") GET("/later") GET("/"));
    is_str(told(c), HELLO, "an answer does not wait for one that comes later");
    hello(parked);
    is_str(told(c), HELLO " " HELLO " " HELLO, "nor overtakes it");
    hang_up(c);

    c = dial();
    say(c, GET("/") "GET / HTTP");
    is_str(told(c), HELLO, "an answer does not wait for a request that is not complete");
    say(c, "/1.1\r\nHost: a\r\n\r\n");
    is_str(told(c), HELLO " " HELLO, "which is answered when it is");
    say(c, GET("/") "POST /" H "Content-Length: 3\r\n\r\na");
    is_str(told(c), HELLO " " HELLO " " HELLO, "nor for a body");
    hang_up(c);

    /* others have their turn */
    c = dial();
    client *other = dial();
    n_run = 0;
    repeat(text, GET("/"), 150);
    say(c, text);
    say(other, GET("/"));
    turn();
    listen_to(other, SIZE_MAX);
    ok(other->n > 0, "a client that pipelines a lot does not keep others waiting for all of it");
    hang_up(c);
    hang_up(other);
    finish();
}

static void errors(void)
{
    start();
    client *c = dial();
    say(c, GET("/") "GET / HTTP/1.1\r\nHost : a\r\n\r\n" GET("/"));
    is_str(told(c), HELLO " 400!:Bad Request eof", "a malformed request is refused and the connection ends");
    is_int(n_run, 1, "what comes behind it is not taken for a request");
    say(c, GET("/"));
    settle(c);
    is_int(n_run, 1, "not later either");
    hang_up(c);

    exchange("POST /" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello?" GET("/"),
             "400!:Bad Request eof", "a malformed chunked body is refused");
    exchange("POST /" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET("/"),
             "400!:Bad Request eof", "a body of two lengths is refused");
    c = dial();
    c->to_head = true;
    say(c, "HEAD / HTTP/1.1\r\n\r\n");
    is_str(told(c), "400!: eof", "a refusal of HEAD has no body");
    hang_up(c);
    finish();

    config.max_body = 10;
    start();
    exchange("POST /" H "Content-Length: 11\r\nExpect: 100-continue\r\n\r\n",
             "413!:Content Too Large eof", "a body that will be too large is refused before it is sent");
    exchange("POST /" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\nworlds\r\n0\r\n\r\n",
             "413!:Content Too Large eof", "one that becomes too large is refused then");
    exchange_in_two("POST /" H "Transfer-Encoding: chunked\r\n\r\nb", "\r\n",
                    "413!:Content Too Large eof", "and so is one whose chunk will be too large, at the end of its size line");
    exchange_in_two("POST /" H "Transfer-Encoding: chunked\r\n\r\nff", "g",
                    "400!:Bad Request eof", "for until then it may be malformed, however it was split");
    c = dial();
    say(c, "POST /" H "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n");
    is_str(told(c), "100:", "a client that expects it is told to go on");
    say(c, "0123456789");
    is_str(told(c), "100: " HELLO, "and answered when it has");
    is_str(body_seen, "0123456789", "the application has the body");
    say(c, "POST /" H "Content-Length: 2\r\nExpect: 100-continue\r\n\r\nab");
    is_str(told(c), "100: " HELLO " " HELLO, "it is not told to go on when it has not waited");
    hang_up(c);
    finish();

    config.body_memory = 4;
    start();
    exchange_in_two("POST /" H "Content-Length: 9\r\n\r\n01234", "5678" GET("/"),
                    HELLO " " HELLO, "a body may be too large for memory");
    config.tmpdir = "/nonexistent/folder";
    finish();
    config.tmpdir = "/nonexistent/folder";
    config.body_memory = 4;
    start();
    exchange("POST /" H "Content-Length: 9\r\n\r\n012345678",
             "507!:Insufficient Storage eof", "when there is no place for it the client is told");
    finish();
}

/* --- framing --- */

static hf_field_out field(const char *name, const char *value)
{
    return (hf_field_out){name, value, (uint32_t)strlen(name), (uint32_t)strlen(value)};
}

/* Answers "request" with these fields and a body of "hello"; what the client was told. */
static const char *framed(client *c, const char *request, int status, const hf_field_out *fields, size_t n, int64_t length)
{
    say(c, request);
    settle(c);
    if (!parked)
        return "no request";
    if (hf_response_begin(parked, status, fields, n, length, 0) == 0)
        hf_response_write(parked, "hello", 5);
    hf_response_end(parked);
    parked = NULL;
    return told(c);
}

static void framing(void)
{
    hf_field_out f[3];

    start();
    client *c = dial();
    is_str(framed(c, GET("/later"), 200, NULL, 0, HF_LENGTH_UNKNOWN), HELLO, "a body of unknown length is sent in chunks");
    ok(strstr(c->got, "Transfer-Encoding: chunked\r\n") != NULL, "to a client of HTTP/1.1");
    hang_up(c);
    c = dial();
    is_str(framed(c, "GET /later HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, NULL, 0, HF_LENGTH_UNKNOWN),
           "200!:hello eof", "to one of HTTP/1.0 it ends with the connection");
    hang_up(c);
    c = dial();
    is_str(framed(c, GET("/later"), 204, NULL, 0, 5), "204:", "204 has no body");
    is_str(framed(c, GET("/later"), 304, NULL, 0, 5), "204: 304:", "nor has 304");
    ok(!strstr(c->got, "204 No Content\r\nContent-Length"), "and 204 no length");
    hang_up(c);

    c = dial();
    f[0] = field("Content-Length", "3");
    is_str(framed(c, GET("/later"), 200, f, 1, HF_LENGTH_UNKNOWN), "200:hel", "more body than was promised is dropped");
    f[0] = field("Content-Length", "9");
    is_str(framed(c, GET("/later"), 200, f, 1, HF_LENGTH_UNKNOWN), "200:hel 200:hello... eof",
           "less of it ends the connection, so that the client can tell");
    hang_up(c);

    c = dial();
    f[0] = field("Content-Length", "5");
    f[1] = field("Transfer-Encoding", "chunked");
    say(c, GET("/later"));
    settle(c);
    hf_response_begin(parked, 200, f, 2, HF_LENGTH_UNKNOWN, 0);
    hf_response_write(parked, "5\r\nhello\r\n0\r\n\r\n", 15);
    hf_response_end(parked);
    is_str(told(c), HELLO, "Content-Length is dropped beside the application's own chunks");
    f[1] = field("Content-Length", "5");
    f[0] = field("Transfer-Encoding", "chunked");
    say(c, GET("/later"));
    settle(c);
    hf_response_begin(parked, 200, f, 2, HF_LENGTH_UNKNOWN, 0);
    hf_response_write(parked, "5\r\nhello\r\n0\r\n\r\n", 15);
    hf_response_end(parked);
    is_str(told(c), HELLO " " HELLO, "in either order");
    hang_up(c);
    c = dial();
    f[0] = field("Transfer-Encoding", "gzip");
    framed(c, GET("/later"), 200, f, 1, HF_LENGTH_UNKNOWN);
    ok(c->eof && strstr(c->got, "Connection: close\r\n"), "another coding of its own ends with the connection");
    hang_up(c);

    c = dial();
    f[0] = field("Connection", "upgrade");
    is_str(framed(c, "GET /later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 426, f, 1, 5), "426!:hello eof",
           "close is said beside an upgrade that the application asks for");
    hang_up(c);
    c = dial();
    f[1] = field("Upgrade", "x");
    say(c, GET("/later") "more");
    settle(c);
    hf_response_begin(parked, 101, f, 2, HF_LENGTH_UNKNOWN, 0);
    hf_response_write(parked, "raw", 3);
    hf_response_end(parked);
    is_str(told(c), "101:raw eof", "what comes after 101 is another protocol");
    ok(!strstr(c->got, "Connection: close") && !strstr(c->got, "Transfer-Encoding"), "and 101 is not framed");
    is_int(n_run, 11, "what the client sends behind it is not taken for a request");
    hang_up(c);

    c = dial();
    parked = NULL;
    say(c, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n" GET("/"));
    is_str(told(c), "200!:hello eof", "2xx to CONNECT ends the connection: what comes after is for the tunnel");
    hang_up(c);

    c = dial();
    say(c, GET("/later"));
    settle(c);
    f[0] = field("Content-Length", "5");
    f[1] = field("Link", "</a>");
    is_int(hf_response_interim(parked, 103, f, 2), 0, "an interim answer is sent");
    is_str(told(c), "103:", "at once, without a length");
    hello(parked);
    is_str(told(c), "103: " HELLO, "before the final one");
    hang_up(c);

    exchange(GET("/") GET("/nothing") GET("/"),
             HELLO " eof", "an application that does not answer ends the connection; the answers before arrive");
    exchange(GET("/") GET("/abort") GET("/"),
             HELLO " 200:part... eof", "an answer that breaks off is not closed properly; those before it arrive");
    exchange(GET("/") "GET /abort HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
             HELLO " 200!:part eof", "those before it arrive in any framing");
    finish();
}

int main(void)
{
    prepare();
    keep_alive();
    cut_anywhere();
    pipelining();
    errors();
    framing();
    free(large);
    return done_testing();
}
