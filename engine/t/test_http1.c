/* test_http1.c - what the request head parser takes, what it refuses, and that neither depends on how the bytes arrive.
 *
 * Each case is parsed whole, one byte at a time, and cut in two at every place, with every scanner, from a buffer behind
 * whose last byte nothing may be read.
 */
#include "http1.h"

#include "guard.h"
#include "http1_same.h"
#include "scan.h"
#include "tap.h"

#define MORE HF_PARSE_MORE
#define DONE HF_PARSE_DONE

typedef struct test_case {
    const char *sentence;
    const char *text;
    size_t len;
    int outcome;      /* of the whole text: MORE, DONE or a status */
    const char *want; /* key=value pairs, see value_of(); NULL: none */
    size_t at;        /* the outcome is known after this many bytes; 0: not tested */
} test_case;

#define R(text) text, sizeof(text) - 1
#define GET11 "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"
#define END "\r\n"
#define DIGITS16 "0123456789abcdef"
#define DIGITS64 DIGITS16 DIGITS16 DIGITS16 DIGITS16

static const test_case cases[] = {
    /* the request line */
    {"the smallest request is taken", R("GET / HTTP/1.0\r\n\r\n"), DONE, "method=GET target=/ path=/ minor=0 head_len=18 n_fields=0 form=0 cl=-1", 18},
    {"an HTTP/1.1 request with Host is taken", R(GET11 HOST END), DONE, "method=GET path=/ minor=1 host=a ka=1 chunked=0 cl=-1 expect=0 upgrade=0", 0},
    {"bytes behind the head belong to the body or to the next request", R("GET / HTTP/1.0\r\n\r\nGET /2"), DONE, "head_len=18", 18},
    {"the body's bytes are not judged", R("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\n\0\n"), DONE, "cl=2", 0},
    {"nothing is not yet a request", R(""), MORE, NULL, 0},
    {"half a request line is not yet a request", R("GET /inde"), MORE, NULL, 0},
    {"a request line without its LF is not yet a request", R("GET / HTTP/1.1\r"), MORE, NULL, 0},
    {"a head without its empty line is not yet a request", R(GET11 HOST), MORE, NULL, 0},
    {"a head without the LF of its empty line is not yet a request", R(GET11 HOST "\r"), MORE, NULL, 0},
    {"an unusual method is taken as it is", R("M-SEARCH!#$%&'*+.^_`|~ / HTTP/1.0\r\n\r\n"), DONE, "method=M-SEARCH!#$%&'*+.^_`|~", 0},
    {"a lower-case method is another method, and taken", R("get / HTTP/1.0\r\n\r\n"), DONE, "method=get", 0},
    {"a method of one letter is taken", R("X / HTTP/1.0\r\n\r\n"), DONE, "method=X", 0},
    {"a method of 32 letters is taken", R("ABCDEFGHIJKLMNOPABCDEFGHIJKLMNOP / HTTP/1.0\r\n\r\n"), DONE, "method=ABCDEFGHIJKLMNOPABCDEFGHIJKLMNOP", 0},
    {"a method of 33 letters is refused as soon as it is that long", R("ABCDEFGHIJKLMNOPABCDEFGHIJKLMNOPQ / HTTP/1.0\r\n\r\n"), 400, NULL, 33},
    {"a request line without a method is refused", R(" / HTTP/1.1\r\n\r\n"), 400, NULL, 1},
    {"a method that is not a token is refused", R("GE(T / HTTP/1.1\r\n\r\n"), 400, NULL, 3},
    {"a method with a byte above 0x7f is refused", R("G\xc3\x89T / HTTP/1.1\r\n\r\n"), 400, NULL, 2},
    {"a tab instead of a space is refused", R("GET\t/ HTTP/1.1\r\n\r\n"), 400, NULL, 4},
    {"a TLS handshake is refused at its first byte", R("\x16\x03\x01\x02"), 400, NULL, 1},
    {"a request line without a target is refused", R("GET HTTP/1.1\r\n\r\n"), 400, NULL, 13},
    {"an empty target is refused", R("GET  HTTP/1.1\r\n\r\n"), 400, NULL, 5},
    {"two spaces before the target are refused", R("GET  / HTTP/1.1\r\n\r\n"), 400, NULL, 5},
    {"two spaces behind the target are refused", R("GET /  HTTP/1.1\r\n\r\n"), 400, NULL, 7},
    {"a space behind the version is refused", R("GET / HTTP/1.1 \r\n\r\n"), 400, NULL, 15},
    {"a space in the target is refused", R("GET /a b HTTP/1.1\r\n\r\n"), 400, NULL, 8},
    {"a control character in the target is refused", R("GET /a\x01 HTTP/1.1\r\n\r\n"), 400, NULL, 7},
    {"NUL in the target is refused", R("GET /a\0b HTTP/1.1\r\n\r\n"), 400, NULL, 7},
    {"a tab in the target is refused", R("GET /a\tb HTTP/1.1\r\n\r\n"), 400, NULL, 7},
    {"DEL in the target is refused", R("GET /a\x7f HTTP/1.1\r\n\r\n"), 400, NULL, 7},
    {"a fragment in the target is refused", R("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 9},
    {"a fragment in the query is refused", R("GET /a?b#c HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"bytes above 0x7f in the target are taken as they are", R("GET /\xc3\xa9 HTTP/1.0\r\n\r\n"), DONE, "path=/\xc3\xa9", 0},
    {"a target that ends with the line (HTTP/0.9) is refused", R("GET /\r\n"), 400, NULL, 6},
    {"a request line that ends with LF alone is refused", R("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400, NULL, 15},
    {"a request line that ends with CR alone is refused", R("GET / HTTP/1.1\rHost: a\r\n\r\n"), 400, NULL, 16},
    {"HTTP/1.2 is read as 1.1", R("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), DONE, "minor=1 ka=1", 0},
    {"HTTP/1.9 is read as 1.1", R("GET / HTTP/1.9\r\nHost: a\r\n\r\n"), DONE, "minor=1", 0},
    {"HTTP/2.0 is answered with 505", R("GET / HTTP/2.0\r\n\r\n"), 505, NULL, 14},
    {"HTTP/3.1 is answered with 505", R("GET / HTTP/3.1\r\n\r\n"), 505, NULL, 14},
    {"HTTP/0.9, spelt out, is answered with 505", R("GET / HTTP/0.9\r\n\r\n"), 505, NULL, 14},
    {"a version without a minor digit is refused", R("GET / HTTP/1\r\n\r\n"), 400, NULL, 13},
    {"a version of two digits is refused", R("GET / HTTP/1.10\r\n\r\n"), 400, NULL, 15},
    {"a major version of two digits is refused", R("GET / HTTP/11.1\r\n\r\n"), 400, NULL, 13},
    {"a version in lower case is refused", R("GET / http/1.1\r\n\r\n"), 400, NULL, 7},
    {"another protocol's name is refused", R("GET / HTCP/1.1\r\n\r\n"), 400, NULL, 9},
    {"a letter for a digit in the version is refused", R("GET / HTTP/1.x\r\n\r\n"), 400, NULL, 14},
    {"a letter for the major digit is refused", R("GET / HTTP/x.1\r\n\r\n"), 400, NULL, 12},

    /* empty lines before it */
    {"an empty line before the request line is skipped", R("\r\nGET / HTTP/1.0\r\n\r\n"), DONE, "head_len=20 method=GET", 0},
    {"eight empty lines before the request line are skipped", R("\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n"), DONE, "head_len=34 method=GET path=/", 0},
    {"a ninth is refused", R("\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n"), 400, NULL, 18},
    {"empty lines alone are not yet a request", R("\r\n\r\n"), MORE, NULL, 0},
    {"a bare LF before the request line is refused", R("\nGET / HTTP/1.0\r\n\r\n"), 400, NULL, 1},
    {"a bare LF after an empty line is refused", R("\r\n\nGET / HTTP/1.0\r\n\r\n"), 400, NULL, 3},
    {"a bare CR before the request line is refused", R("\rGET / HTTP/1.0\r\n\r\n"), 400, NULL, 2},
    {"a space before the method is refused", R("\r\n GET / HTTP/1.0\r\n\r\n"), 400, NULL, 3},

    /* the forms of the target */
    {"path and query are told apart at the first question mark", R("GET /a/b?c=d?e HTTP/1.0\r\n\r\n"), DONE, "target=/a/b?c=d?e path=/a/b query=c=d?e has_query=1 encoded=0 form=0", 0},
    {"an empty query is a query", R("GET /a? HTTP/1.0\r\n\r\n"), DONE, "path=/a query= has_query=1", 0},
    {"no question mark, no query", R("GET /a HTTP/1.0\r\n\r\n"), DONE, "query= has_query=0", 0},
    {"a percent sign in the path is noticed", R("GET /a%20b HTTP/1.0\r\n\r\n"), DONE, "path=/a%20b encoded=1", 0},
    {"a percent sign in the query is none in the path", R("GET /a?b%20c HTTP/1.0\r\n\r\n"), DONE, "encoded=0", 0},
    {"two slashes begin a path, not an authority", R("GET //a/b HTTP/1.0\r\n\r\n"), DONE, "path=//a/b form=0 authority=", 0},
    {"a target that is no path, URI or asterisk is refused", R("GET a HTTP/1.0\r\n\r\n"), 400, NULL, 6},
    {"a target that is only a query is refused", R("GET ?a HTTP/1.0\r\n\r\n"), 400, NULL, 0},
    {"OPTIONS * is taken", R("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, "form=3 target=* path= query= authority=", 0},
    {"GET * is refused", R("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 6},
    {"an asterisk with another method of seven letters is refused", R("REFRESH * HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 10},
    {"OPTIONS ** is refused", R("OPTIONS ** HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"OPTIONS with a path is taken", R("OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, "form=0 path=/a", 0},
    {"an absolute URI is taken apart", R("GET http://example.org:81/a?b HTTP/1.1\r\nHost: x\r\n\r\n"), DONE, "form=1 authority=example.org:81 path=/a query=b host=x target=http://example.org:81/a?b", 0},
    {"an absolute URI may have no path", R("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, "form=1 authority=a path= has_query=0", 0},
    {"an absolute URI may have a query and no path", R("GET http://a?b HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, "authority=a path= query=b has_query=1", 0},
    {"a scheme is read in any case", R("GET HtTpS://a/%41 HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, "form=1 authority=a path=/%41 encoded=1", 0},
    {"an absolute URI's host may be an IPv6 address", R("GET http://[::1]:80/ HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, "authority=[::1]:80 path=/", 0},
    {"an absolute URI with an empty authority is refused", R("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"an absolute URI with a user is refused", R("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"an absolute URI with a user and password is refused", R("GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"an absolute URI with letters in the port is refused", R("GET http://a:8o/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"an absolute URI without its second slash is refused", R("GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"an absolute URI with a letter for its first slash is refused", R("GET http:x/a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"an absolute URI with a letter for its second slash is refused", R("GET http:/xa/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"a scheme alone is refused", R("GET http: HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"another scheme is refused", R("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"CONNECT with host and port is taken", R("CONNECT example.org:443 HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, "form=2 authority=example.org:443 path= query=", 0},
    {"CONNECT with an IPv6 address and port is taken", R("CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, "form=2 authority=[2001:db8::1]:443", 0},
    {"CONNECT without a port is refused", R("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"CONNECT with an empty port is refused", R("CONNECT a: HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"CONNECT with an empty host is refused", R("CONNECT :80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"CONNECT with a path is refused", R("CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"CONNECT with an absolute URI is refused", R("CONNECT http://a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"CONNECT with a user is refused", R("CONNECT u@a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},
    {"host:port with another method is refused", R("GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 0},

    /* fields */
    {"fields come in order, with names as sent and values without white space around them", R("GET / HTTP/1.0\r\nAccept:a\r\nX-y: \t b c\t \r\n\r\n"), DONE, "n_fields=2 name0=Accept value0=a id0=Accept name1=X-y value1=b_c id1=", 0},
    {"a value may be empty", R("GET / HTTP/1.0\r\nA:\r\nB: \t\r\n\r\n"), DONE, "n_fields=2 value0= value1=", 0},
    {"a value may have tabs and bytes above 0x7f in it", R("GET / HTTP/1.0\r\nA: x\t\xe9\x80\xff\r\n\r\n"), DONE, "value0=x_\xe9\x80\xff", 0},
    {"a value may have colons and commas in it", R("GET / HTTP/1.0\r\nA: b:c,:d:\r\n\r\n"), DONE, "value0=b:c,:d:", 0},
    {"the same field may come twice", R("GET / HTTP/1.0\r\nA: 1\r\na: 2\r\n\r\n"), DONE, "n_fields=2 name1=a value1=2", 0},
    {"a field name of one character is taken", R("GET / HTTP/1.0\r\n!: 1\r\n\r\n"), DONE, "name0=! id0=", 0},
    {"a known name is known in any case", R("GET / HTTP/1.0\r\nuSER-aGENT: x\r\n\r\n"), DONE, "id0=User-Agent name0=uSER-aGENT underscore=0", 0},
    {"a name with an underscore is marked", R("GET / HTTP/1.0\r\nA: 1\r\nUser_Agent: x\r\nB: 2\r\n\r\n"), DONE, "id1= underscore=1 underscore0=0 underscore1=1 underscore2=0", 0},
    {"an underscore in a value marks nothing", R("GET / HTTP/1.0\r\nA: b_c\r\n\r\n"), DONE, "underscore=0 underscore0=0", 0},
    {"a long name and a long value arrive whole", R("GET / HTTP/1.0\r\n" DIGITS64 "X: " DIGITS64 DIGITS64 "y\r\n\r\n"), DONE, "name0=" DIGITS64 "X value0=" DIGITS64 DIGITS64 "y", 0},
    {"a space before the colon is refused", R(GET11 "Host : a\r\n\r\n"), 400, "error=space_before_the_colon_of_a_header_field", 21},
    {"a tab before the colon is refused", R(GET11 "Host\t: a\r\n\r\n"), 400, NULL, 21},
    {"an empty field name is refused", R(GET11 HOST ": a\r\n\r\n"), 400, "error=header_field_without_a_name", 26},
    {"a line without a colon is refused", R(GET11 HOST "nonsense\r\n\r\n"), 400, "error=malformed_header_field_name", 34},
    {"a name that is not a token is refused", R(GET11 HOST "a(b: c\r\n\r\n"), 400, NULL, 27},
    {"a name with a byte above 0x7f is refused", R(GET11 HOST "\xc3\xa9: c\r\n\r\n"), 400, NULL, 26},
    {"NUL in a name is refused", R(GET11 HOST "a\0b: c\r\n\r\n"), 400, NULL, 27},
    {"a folded value is refused", R(GET11 HOST "A: b\r\n c\r\n\r\n"), 400, "error=folded_header_field", 32},
    {"a value folded with a tab is refused", R(GET11 HOST "A: b\r\n\tc\r\n\r\n"), 400, NULL, 32},
    {"white space before the first field is refused", R(GET11 " Host: a\r\n\r\n"), 400, NULL, 17},
    {"a value that ends with LF alone is refused", R(GET11 "Host: a\n\r\n"), 400, "error=bare_LF_in_a_header_field", 24},
    {"a value that ends with CR alone is refused", R(GET11 "Host: a\rA: b\r\n\r\n"), 400, NULL, 25},
    {"two CR before the LF are refused", R(GET11 "Host: a\r\r\n\r\n"), 400, NULL, 25},
    {"an empty line of LF alone is refused", R(GET11 HOST "\n"), 400, NULL, 26},
    {"an empty line of CR alone is refused", R(GET11 HOST "\rX"), 400, NULL, 27},
    {"NUL in a value is refused", R(GET11 HOST "A: b\0c\r\n\r\n"), 400, "error=NUL_in_a_header_field", 30},
    {"a control character in a value is refused", R(GET11 HOST "A: b\x1f\r\n\r\n"), 400, "error=control_character_in_a_header_field", 30},
    {"ESC in a long value is refused", R(GET11 HOST "A: " DIGITS64 "\x1b[31m\r\n\r\n"), 400, NULL, 93},
    {"DEL in a value is refused", R(GET11 HOST "A: b\x7f\r\n\r\n"), 400, NULL, 30},

    /* Host */
    {"HTTP/1.1 without Host is refused", R(GET11 "A: b\r\n\r\n"), 400, NULL, 24},
    {"HTTP/1.1 without any field is refused", R(GET11 "\r\n"), 400, NULL, 18},
    {"HTTP/1.1 with an absolute URI still needs Host", R("GET http://a/ HTTP/1.1\r\n\r\n"), 400, NULL, 0},
    {"HTTP/1.0 without Host is taken", R("GET / HTTP/1.0\r\nA: b\r\n\r\n"), DONE, "host=", 0},
    {"two Host fields are refused", R(GET11 HOST HOST END), 400, NULL, 34},
    {"two Host fields are refused from HTTP/1.0, too", R("GET / HTTP/1.0\r\nHost: a\r\nhOST: b\r\n\r\n"), 400, NULL, 34},
    {"an empty Host is taken", R(GET11 "Host:\r\n\r\n"), DONE, "host= n_fields=1", 0},
    {"two empty Host fields are still two", R(GET11 "Host:\r\nHost:\r\n\r\n"), 400, NULL, 0},
    {"a host with a port is taken", R(GET11 "Host: example.org:5000\r\n\r\n"), DONE, "host=example.org:5000", 0},
    {"a host with an empty port is taken", R(GET11 "Host: a:\r\n\r\n"), DONE, "host=a:", 0},
    {"the highest port is taken", R(GET11 "Host: a:65535\r\n\r\n"), DONE, "host=a:65535", 0},
    {"a port above the highest is refused", R(GET11 "Host: a:65536\r\n\r\n"), 400, NULL, 0},
    {"a port of six digits is refused", R(GET11 "Host: a:000080\r\n\r\n"), 400, NULL, 0},
    {"an IPv4 address is a host", R(GET11 "Host: 127.0.0.1:80\r\n\r\n"), DONE, "host=127.0.0.1:80", 0},
    {"an IPv6 address in brackets is a host", R(GET11 "Host: [::1]\r\n\r\n"), DONE, "host=[::1]", 0},
    {"the shortest IPv6 address is a host", R(GET11 "Host: [::]\r\n\r\n"), DONE, "host=[::]", 0},
    {"an IPv6 address may have all the hexadecimal digits", R(GET11 "Host: [0123:4567:89ab:cdef::ABCD:EF]\r\n\r\n"), DONE, "host=[0123:4567:89ab:cdef::ABCD:EF]", 0},
    {"other letters in an IPv6 address are refused", R(GET11 "Host: [::g]\r\n\r\n"), 400, NULL, 0},
    {"another letter in the place of the closing bracket is refused", R(GET11 "Host: [::g:80\r\n\r\n"), 400, NULL, 0},
    {"an IPv6 address with an IPv4 tail and a port is a host", R(GET11 "Host: [::FFFF:1.2.3.4]:80\r\n\r\n"), DONE, "host=[::FFFF:1.2.3.4]:80", 0},
    {"an underscore in a host is taken", R(GET11 "Host: my_host\r\n\r\n"), DONE, "host=my_host", 0},
    {"a port without a host is refused", R(GET11 "Host: :80\r\n\r\n"), 400, NULL, 0},
    {"letters in the port are refused", R(GET11 "Host: a:b\r\n\r\n"), 400, NULL, 0},
    {"two ports are refused", R(GET11 "Host: a:1:2\r\n\r\n"), 400, NULL, 0},
    {"a space in Host is refused", R(GET11 "Host: a b\r\n\r\n"), 400, NULL, 0},
    {"a tab in Host is refused", R(GET11 "Host: a\tb\r\n\r\n"), 400, NULL, 0},
    {"a comma in Host is refused", R(GET11 "Host: a,b\r\n\r\n"), 400, NULL, 0},
    {"a slash in Host is refused", R(GET11 "Host: a/b\r\n\r\n"), 400, NULL, 0},
    {"a user in Host is refused", R(GET11 "Host: u@a\r\n\r\n"), 400, NULL, 0},
    {"a question mark in Host is refused", R(GET11 "Host: a?b\r\n\r\n"), 400, NULL, 0},
    {"a fragment in Host is refused", R(GET11 "Host: a#b\r\n\r\n"), 400, NULL, 0},
    {"a quote in Host is refused", R(GET11 "Host: \"a\"\r\n\r\n"), 400, NULL, 0},
    {"a byte above 0x7f in Host is refused", R(GET11 "Host: \xc3\xa9\r\n\r\n"), 400, NULL, 0},
    {"an open bracket in Host is refused", R(GET11 "Host: [::1\r\n\r\n"), 400, NULL, 0},
    {"empty brackets in Host are refused", R(GET11 "Host: []\r\n\r\n"), 400, NULL, 0},
    {"a name in brackets is refused", R(GET11 "Host: [host]\r\n\r\n"), 400, NULL, 0},
    {"something between bracket and port is refused", R(GET11 "Host: [::1]x:80\r\n\r\n"), 400, NULL, 0},

    /* Content-Length */
    {"Content-Length is read", R("POST / HTTP/1.0\r\nContent-Length: 1234567890\r\n\r\n"), DONE, "cl=1234567890", 0},
    {"Content-Length 0 is not the same as none", R("POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n"), DONE, "cl=0", 0},
    {"leading zeros do not change a length", R("POST / HTTP/1.0\r\nContent-Length: 0005\r\n\r\n"), DONE, "cl=5", 0},
    {"18 digits of Content-Length are read", R("POST / HTTP/1.0\r\nContent-Length: 999999999999999999\r\n\r\n"), DONE, "cl=999999999999999999", 0},
    {"19 digits are refused", R("POST / HTTP/1.0\r\nContent-Length: 1000000000000000000\r\n\r\n"), 400, NULL, 0},
    {"a length beyond 64 bits is refused", R("POST / HTTP/1.0\r\nContent-Length: 18446744073709551621\r\n\r\n"), 400, NULL, 0},
    {"an empty Content-Length is refused", R("POST / HTTP/1.0\r\nContent-Length:\r\n\r\n"), 400, NULL, 0},
    {"a sign in Content-Length is refused", R("POST / HTTP/1.0\r\nContent-Length: +5\r\n\r\n"), 400, NULL, 0},
    {"a negative Content-Length is refused", R("POST / HTTP/1.0\r\nContent-Length: -5\r\n\r\n"), 400, NULL, 0},
    {"a hexadecimal Content-Length is refused", R("POST / HTTP/1.0\r\nContent-Length: 0x5\r\n\r\n"), 400, NULL, 0},
    {"a fraction in Content-Length is refused", R("POST / HTTP/1.0\r\nContent-Length: 5.0\r\n\r\n"), 400, NULL, 0},
    {"a space in Content-Length is refused", R("POST / HTTP/1.0\r\nContent-Length: 5 0\r\n\r\n"), 400, NULL, 0},
    {"the same Content-Length twice is taken as one", R("POST / HTTP/1.0\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n"), DONE, "cl=5 n_fields=2", 0},
    {"a list of the same lengths is taken as one", R("POST / HTTP/1.0\r\nContent-Length: 5, 5,\t5\r\n\r\n"), DONE, "cl=5", 0},
    {"differing Content-Lengths are refused", R("POST / HTTP/1.0\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"), 400, NULL, 55},
    {"a list of differing lengths is refused", R("POST / HTTP/1.0\r\nContent-Length: 5, 6\r\n\r\n"), 400, NULL, 0},
    {"a length that differs from 0 is refused as well", R("POST / HTTP/1.0\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n"), 400, NULL, 0},
    {"0 after another length is refused", R("POST / HTTP/1.0\r\nContent-Length: 5, 0\r\n\r\n"), 400, NULL, 0},
    {"an empty member in Content-Length is refused", R("POST / HTTP/1.0\r\nContent-Length: 5,\r\n\r\n"), 400, NULL, 0},
    {"an empty first member in Content-Length is refused", R("POST / HTTP/1.0\r\nContent-Length: ,5\r\n\r\n"), 400, NULL, 0},

    /* Transfer-Encoding */
    {"chunked is the framing", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), DONE, "chunked=1 cl=-1", 0},
    {"chunked is read in any case", R("POST / HTTP/1.1\r\nHost: a\r\ntRANSFER-eNCODING: cHuNKed\r\n\r\n"), DONE, "chunked=1", 0},
    {"chunked in a word is not chunked", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n"), 501, NULL, 0},
    {"chunked with another first letter is not chunked", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xhunked\r\n\r\n"), 501, NULL, 0},
    {"chunked with another last letter is not chunked", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunkex\r\n\r\n"), 501, NULL, 0},
    {"chunked with a parameter is not chunked", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n"), 501, NULL, 0},
    {"quoted chunked is not chunked", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n"), 501, NULL, 0},
    {"chunked behind a vertical tab is refused", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \vchunked\r\n\r\n"), 400, NULL, 0},
    {"identity is not a coding that is known", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n"), 501, NULL, 0},
    {"gzip alone is not a coding that is known", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"), 501, NULL, 0},
    {"gzip before chunked is not a coding that is known", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), 501, NULL, 0},
    {"chunked before gzip is refused", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n"), 400, NULL, 0},
    {"chunked before gzip in another field is refused", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n"), 400, NULL, 0},
    {"chunked twice in a list is refused", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n"), 400, NULL, 0},
    {"chunked twice in two fields is refused", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"an empty Transfer-Encoding is refused", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \r\n\r\n"), 400, NULL, 0},
    {"an empty member in Transfer-Encoding is refused", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n"), 400, NULL, 0},
    {"Transfer-Encoding in HTTP/1.0 is refused", R("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"Transfer-Encoding after Content-Length is refused", R("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},
    {"Content-Length after Transfer-Encoding is refused", R("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"), 400, NULL, 0},
    {"Content-Length 0 with Transfer-Encoding is refused", R("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, NULL, 0},

    /* Connection */
    {"HTTP/1.1 is kept alive", R(GET11 HOST END), DONE, "ka=1", 0},
    {"HTTP/1.1 with close is not", R(GET11 HOST "Connection: close\r\n\r\n"), DONE, "ka=0", 0},
    {"HTTP/1.0 is not kept alive", R("GET / HTTP/1.0\r\n\r\n"), DONE, "ka=0", 0},
    {"HTTP/1.0 with keep-alive is", R("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), DONE, "ka=1", 0},
    {"options are read in any case", R("GET / HTTP/1.0\r\nconnection: Keep-ALIVE\r\n\r\n"), DONE, "ka=1", 0},
    {"close wins over keep-alive", R(GET11 HOST "Connection: keep-alive, close\r\n\r\n"), DONE, "ka=0", 0},
    {"close wins over keep-alive from HTTP/1.0", R("GET / HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n"), DONE, "ka=0", 0},
    {"options are collected from all Connection fields", R(GET11 HOST "Connection: x\r\nConnection: , upgrade ,y,\tclose\t\r\n\r\n"), DONE, "ka=0 upgrade=1", 0},
    {"close as a part of an option is not close", R(GET11 HOST "Connection: closed, not-close, clos\r\n\r\n"), DONE, "ka=1", 0},
    {"upgrade is noticed", R(GET11 HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), DONE, "ka=1 upgrade=1", 0},
    {"Upgrade alone is not a Connection option", R(GET11 HOST "Upgrade: websocket\r\n\r\n"), DONE, "upgrade=0", 0},
    {"an empty Connection says nothing", R(GET11 HOST "Connection:\r\n\r\n"), DONE, "ka=1", 0},

    /* Expect */
    {"100-continue is noticed", R("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n"), DONE, "expect=1", 0},
    {"100-continue is read in any case", R("POST / HTTP/1.1\r\nHost: a\r\nexpect: 100-CONTINUE\r\n\r\n"), DONE, "expect=1", 0},
    {"another expectation is answered with 417", R("POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-maybe\r\n\r\n"), 417, NULL, 0},
    {"100-continue with something more is answered with 417", R("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, x\r\n\r\n"), 417, NULL, 0},
    {"an empty expectation is answered with 417", R("POST / HTTP/1.1\r\nHost: a\r\nExpect:\r\n\r\n"), 417, NULL, 0},
    {"Expect from HTTP/1.0 is ignored", R("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"), DONE, "expect=0", 0},
    {"any Expect from HTTP/1.0 is ignored", R("POST / HTTP/1.0\r\nExpect: miracles\r\n\r\n"), DONE, "expect=0", 0},
};

static guard guarded;

static void copy_slice(char *to, const char *buf, hf_slice s)
{
    for (uint32_t i = 0; i < s.len; i++)
        *to++ = buf[s.off + i] == ' ' || buf[s.off + i] == '\t' ? '_' : buf[s.off + i];
    *to = 0;
}

/* The value of a key of test_case.want, as text; white space in it is shown as '_'. */
static void value_of(const hf_http1_head *h, const char *buf, const char *key, char *to)
{
#define SLICE(k, member)                                                                                               \
    if (strcmp(key, k) == 0) {                                                                                         \
        copy_slice(to, buf, h->member);                                                                                \
        return;                                                                                                        \
    }
#define NUMBER(k, member)                                                                                              \
    if (strcmp(key, k) == 0) {                                                                                         \
        sprintf(to, "%lld", (long long)h->member);                                                                     \
        return;                                                                                                        \
    }
    SLICE("method", method)
    SLICE("target", target)
    SLICE("authority", authority)
    SLICE("path", path)
    SLICE("query", query)
    SLICE("host", host)
    NUMBER("form", target_form)
    NUMBER("minor", minor)
    NUMBER("head_len", head_len)
    NUMBER("n_fields", n_fields)
    NUMBER("cl", content_length)
    NUMBER("chunked", chunked)
    NUMBER("ka", keep_alive)
    NUMBER("expect", expect_continue)
    NUMBER("upgrade", has_connection_upgrade)
    NUMBER("has_query", has_query)
    NUMBER("encoded", path_encoded)
    NUMBER("underscore", any_underscore)
#undef SLICE
#undef NUMBER
    if (strcmp(key, "error") == 0) {
        const char *error = h->error ? h->error : "";
        copy_slice(to, error, (hf_slice){0, (uint32_t)strlen(error)});
        return;
    }
    const size_t n = strlen(key) - 1;
    const hf_field *f = &h->fields[key[n] - '0'];
    if (strncmp(key, "name", n) == 0)
        copy_slice(to, buf, f->name);
    else if (strncmp(key, "value", n) == 0)
        copy_slice(to, buf, f->value);
    else if (strncmp(key, "id", n) == 0)
        strcpy(to, hf_header_name(f->id));
    else if (strncmp(key, "underscore", n) == 0)
        sprintf(to, "%d", f->underscore);
    else
        strcpy(to, "no such key in this test");
}

/* NULL if the head says everything in `want`, else a message. */
static const char *wrong_value(const hf_http1_head *h, const char *buf, const char *want)
{
    static char message[1024];
    char pairs[512], got[512];

    snprintf(pairs, sizeof pairs, "%s", want);
    for (char *pair = strtok(pairs, " "); pair; pair = strtok(NULL, " ")) {
        char *value = strchr(pair, '=');
        *value++ = 0;
        value_of(h, buf, pair, got);
        if (strcmp(got, value) != 0) {
            snprintf(message, sizeof message, "%s is '%s', expected '%s'", pair, got, value);
            return message;
        }
    }
    return NULL;
}

static int parse(hf_http1_head *h, const char *text, size_t len, const hf_http1_limits *limits)
{
    return hf_http1_parse(h, guard_copy(guarded, text, len), len, limits);
}

/* Parses in every way; NULL if all is as expected and the same, else a message. `whole` is left with the result. */
static const char *parse_every_way(hf_http1_head *whole, const test_case *t, const hf_http1_limits *limits)
{
    static hf_http1_head h;
    static char message[1024];
    const char *difference;

    hf_http1_head_reset(whole);
    int rc = parse(whole, t->text, t->len, limits);
    if (rc != t->outcome) {
        snprintf(message, sizeof message, "whole: got %d (%s), expected %d", rc, whole->error ? whole->error : "", t->outcome);
        return message;
    }

    hf_http1_head_reset(&h);
    size_t at = 0;
    for (rc = MORE, at = 0; rc == MORE && at < t->len;)
        rc = parse(&h, t->text, ++at, limits);
    difference = rc == MORE ? NULL : head_difference(whole, &h);
    if (rc != t->outcome || difference) {
        snprintf(message, sizeof message, "byte by byte: got %d (%s), %s differs", rc, h.error ? h.error : "",
                 difference ? difference : "the outcome");
        return message;
    }
    if (t->at && t->at != at) {
        snprintf(message, sizeof message, "known after %zu bytes, expected after %zu", at, t->at);
        return message;
    }

    for (size_t cut = 0; cut <= t->len; cut++) {
        hf_http1_head_reset(&h);
        rc = parse(&h, t->text, cut, limits);
        if (rc == MORE)
            rc = parse(&h, t->text, t->len, limits);
        difference = rc == MORE ? NULL : head_difference(whole, &h);
        if (rc != t->outcome || difference) {
            snprintf(message, sizeof message, "cut after %zu: got %d (%s), %s differs", cut, rc, h.error ? h.error : "",
                     difference ? difference : "the outcome");
            return message;
        }
    }

    /* asked once more, it says the same once more */
    if (t->outcome != MORE && parse(&h, t->text, t->len, limits) != t->outcome)
        return "another outcome when called again";
    return NULL;
}

static void check(const char *scanner, const test_case *t, const hf_http1_limits *limits)
{
    static hf_http1_head whole;
    const char *wrong = parse_every_way(&whole, t, limits);

    if (!wrong && t->outcome > DONE && (!whole.error || !*whole.error))
        wrong = "refused without saying why";
    if (!wrong && t->want)
        wrong = wrong_value(&whole, guard_copy(guarded, t->text, t->len), t->want);
    if (!ok(!wrong, "%s (%s)", t->sentence, scanner)) {
        diag("%.*s", (int)t->len, t->text);
        diag("%s", wrong);
    }
}

/* ---- the limits, with texts that are built ---- */

static char big[200 * 1024];

/* A copy of `c` `n` times, then `tail`, behind what is in `big` already. */
static size_t fill(size_t at, char c, size_t n, const char *tail)
{
    memset(big + at, c, n);
    strcpy(big + at + n, tail);
    return at + n + strlen(tail);
}

static void check_limits(const char *scanner)
{
    const hf_http1_limits line = {.max_request_line = 20, .max_head = 1000, .max_fields = 10};
    const test_case line_cases[] = {
        {"a request line as long as the limit is taken", R("GET /789 HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, NULL, 0},
        {"a request line of exactly the limit is taken", R("GET /67890a HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, "path=/67890a", 0},
        {"one byte more is answered with 414", R("GET /67890ab HTTP/1.1\r\nHost: a\r\n\r\n"), 414, NULL, 21},
        {"a target that does not end is answered with 414 at the first byte too many", R("GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), 414, NULL, 21},
        {"a method that does not end is answered with 414 when the limit is that low", R("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 414, NULL, 21},
        {"a version beyond the limit is answered with 414", R("GET /67890abcde HTTP/1.1\r\nHost: a\r\n\r\n"), 414, NULL, 21},
        {"a malformed line within the limit is still malformed", R("GET a67890abcde HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL, 16},
        {"a line without a version, as long as the limit, is malformed", R("GET /67890abcdefghij\r\n"), 400, NULL, 21},
        {"empty lines before the request line are not a part of it", R("\r\n\r\nGET /67890a HTTP/1.1\r\nHost: a\r\n\r\n"), DONE, NULL, 0},
    };
    for (size_t i = 0; i < sizeof line_cases / sizeof *line_cases; i++)
        check(scanner, &line_cases[i], &line);

    const hf_http1_limits head = {.max_request_line = 100, .max_head = 40, .max_fields = 10};
    const test_case head_cases[] = {
        {"a head of exactly the limit is taken", R("GET / HTTP/1.1\r\nHost: a\r\nA: 12345678\r\n\r\nbody"), DONE, "head_len=40", 40},
        {"a head one byte larger is answered with 431", R("GET / HTTP/1.1\r\nHost: a\r\nA: 123456789\r\n\r\n"), 431, NULL, 41},
        {"a field that does not end is answered with 431", R("GET / HTTP/1.1\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), 431, NULL, 41},
        {"a name that does not end is answered with 431", R("GET / HTTP/1.1\r\nAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), 431, NULL, 41},
        {"what is malformed beyond the limit is too large", R("GET / HTTP/1.1\r\nHost: a\r\nA: 1234567890123\n\r\n"), 431, NULL, 41},
        {"what is malformed at the limit is malformed", R("GET / HTTP/1.1\r\nHost: a\r\nA: 12345678901\n\r\n"), 400, NULL, 40},
        {"empty lines before the request line count", R("\r\nGET / HTTP/1.1\r\nHost: a\r\nA: 1234567\r\n\r\n"), 431, NULL, 41},
        {"a request line beyond the limit of the head is answered with 431", R("GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n"), 431, NULL, 41},
    };
    for (size_t i = 0; i < sizeof head_cases / sizeof *head_cases; i++)
        check(scanner, &head_cases[i], &head);

    const hf_http1_limits fields = {.max_request_line = 100, .max_head = 1000, .max_fields = 3};
    const test_case field_cases[] = {
        {"as many fields as the limit are taken", R(GET11 HOST "A: 1\r\nB: 2\r\n\r\n"), DONE, "n_fields=3", 0},
        {"one more is answered with 431 at its first byte", R(GET11 HOST "A: 1\r\nB: 2\r\nC: 3\r\n\r\n"), 431, NULL, 38},
    };
    for (size_t i = 0; i < sizeof field_cases / sizeof *field_cases; i++)
        check(scanner, &field_cases[i], &fields);

    /* the defaults, and the bound of the array */
    static hf_http1_head h;
    const hf_http1_limits usual = HF_HTTP1_LIMITS_DEFAULT;
    size_t len = fill(fill(0, 0, 0, "GET /"), 'a', 16384 - 14, " HTTP/1.1\r\nHost: a\r\n\r\n");
    hf_http1_head_reset(&h);
    ok(parse(&h, big, len, &usual) == DONE, "a request line of 16384 bytes is taken by default (%s)", scanner);
    len = fill(fill(0, 0, 0, "GET /"), 'a', 16384 - 13, " HTTP/1.1\r\nHost: a\r\n\r\n");
    hf_http1_head_reset(&h);
    ok(parse(&h, big, len, &usual) == 414, "one of 16385 bytes is not (%s)", scanner);
    len = fill(fill(0, 0, 0, "GET / HTTP/1.1\r\nHost: a\r\nA: "), 'a', 65536 - 32, "\r\n\r\n");
    hf_http1_head_reset(&h);
    ok(parse(&h, big, len, &usual) == DONE && h.head_len == 65536, "a head of 64 KiB is taken by default (%s)", scanner);
    len = fill(fill(0, 0, 0, "GET / HTTP/1.1\r\nHost: a\r\nA: "), 'a', 65536 - 31, "\r\n\r\n");
    hf_http1_head_reset(&h);
    ok(parse(&h, big, len, &usual) == 431, "one byte more is not (%s)", scanner);

    const hf_http1_limits wide = {.max_request_line = 100, .max_head = 65536, .max_fields = 1000000};
    for (int n = HF_HTTP1_MAX_FIELDS; n <= HF_HTTP1_MAX_FIELDS + 1; n++) {
        len = fill(0, 0, 0, "GET / HTTP/1.0\r\n");
        for (int i = 0; i < n; i++)
            len = fill(len, 0, 0, "X: 1\r\n");
        len = fill(len, 0, 0, "\r\n");
        hf_http1_head_reset(&h);
        ok(parse(&h, big, len, &wide) == (n == HF_HTTP1_MAX_FIELDS ? DONE : 431),
           "%d fields are %s, whatever the limit says (%s)", n, n == HF_HTTP1_MAX_FIELDS ? "taken" : "too many", scanner);
    }
}

/* Work, not time, is what a byte-wise head must not multiply; the bytes scanned can be counted. */
static unsigned long long scanned;

static const hf_scanner *real;

static const char *counting_value_end(const char *p, const char *end)
{
    const char *stop = real->value_end(p, end);
    scanned += (unsigned long long)(stop - p) + 1;
    return stop;
}

static const char *counting_target_end(const char *p, const char *end)
{
    const char *stop = real->target_end(p, end);
    scanned += (unsigned long long)(stop - p) + 1;
    return stop;
}

static const char *counting_token_end(const char *p, const char *end)
{
    const char *stop = real->token_end(p, end);
    scanned += (unsigned long long)(stop - p) + 1;
    return stop;
}

static void check_work(void)
{
    static hf_http1_head h;
    const hf_http1_limits usual = HF_HTTP1_LIMITS_DEFAULT;
    const hf_scanner counting = {HF_SCAN_SCALAR, "counting", counting_value_end, counting_target_end, counting_token_end};
    const struct {
        const char *what, *before, *after;
        size_t n;
    } heads[] = {
        {"value", "GET / HTTP/1.1\r\nHost: a\r\nA: ", "\r\n\r\n", 60000},
        {"field name", "GET / HTTP/1.1\r\nHost: a\r\nA", ": a\r\n\r\n", 60000},
        {"target", "GET /", " HTTP/1.1\r\nHost: a\r\n\r\n", 16000},
    };

    real = hf_scan;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const size_t len = fill(fill(0, 0, 0, heads[i].before), 'a', heads[i].n, heads[i].after);
        int rc = MORE;
        hf_scan = &counting;
        scanned = 0;
        hf_http1_head_reset(&h);
        for (size_t n = 1; n <= len && rc == MORE; n++)
            rc = hf_http1_parse(&h, big, n, &usual);
        hf_scan = real;
        ok(rc == DONE && scanned < len * 4, "a %s of %zu bytes that comes byte by byte is not scanned over and over", heads[i].what,
           heads[i].n);
    }
}

/* ---- names ---- */

static void check_names(void)
{
    unsigned wrong = 0, wrong_case = 0, wrong_byte = 0, wrong_length = 0;

    for (int id = 1; id < HF_HDR_COUNT; id++) {
        const char *name = hf_header_name((uint8_t)id);
        const size_t len = strlen(name);
        char *p = guard_copy(guarded, name, len);
        if (hf_header_lookup(p, len) != id)
            wrong++;
        for (unsigned bits = 0; bits < 64; bits++) {
            for (size_t i = 0; i < len; i++) {
                if (((name[i] | 0x20) >= 'a') && (bits >> i % 6 & 1))
                    p[i] = name[i] ^ 0x20;
                else
                    p[i] = name[i];
            }
            if (hf_header_lookup(p, len) != id)
                wrong_case++;
        }
        memcpy(p, name, len);
        for (size_t i = 0; i < len; i++) {
            for (int c = 0; c < 256; c++) {
                const char was = p[i];
                const bool same = c == (unsigned char)was || (((was | 0x20) >= 'a') && (c ^ 0x20) == (unsigned char)was);
                p[i] = (char)c;
                const uint8_t got = hf_header_lookup(p, len);
                if ((got == id) != same)
                    wrong_byte++;
                p[i] = was;
            }
        }
        for (size_t cut = 0; cut < len; cut++) {
            const uint8_t got = hf_header_lookup(guard_copy(guarded, name, cut), cut);
            if (got && (strlen(hf_header_name(got)) != cut || memcmp(hf_header_name(got), name, cut) != 0))
                wrong_length++;
        }
        char longer[40] = {0};
        memcpy(longer, name, len);
        longer[len] = 's';
        if (hf_header_lookup(guard_copy(guarded, longer, len + 1), len + 1))
            wrong_length++;
    }
    ok(wrong == 0, "each name of the list has its own number");
    ok(wrong_case == 0, "each name is found in any mix of cases");
    ok(wrong_byte == 0, "a name with one byte changed, be it only in a bit, is another name");
    ok(wrong_length == 0, "a name with its end cut off or something added is another name");
    is_int(hf_header_lookup("", 0), HF_HDR_OTHER, "the empty name is not in the list");
    is_str(hf_header_name(HF_HDR_OTHER), "", "no number, no name");
    is_str(hf_header_name(HF_HDR_COUNT), "", "a number out of range has no name");
    is_str(hf_header_name(255), "", "nor has the highest number");
    is_str(hf_header_name(HF_HDR_CONTENT_LENGTH), "Content-Length", "names are spelt as usual");
    memset(big, 'a', 300);
    is_int(hf_header_lookup(big, 300), HF_HDR_OTHER, "a very long name is not in the list");
    is_int(hf_header_lookup(big, 258), HF_HDR_OTHER, "nor is one whose length modulo 256 is a short one");
}

/* ---- percent-decoding ---- */

static void check_percent(void)
{
    static const struct {
        const char *sentence, *from;
        size_t from_len;
        const char *to; /* NULL: refused */
        size_t to_len;
    } decode[] = {
        {"nothing decodes to nothing", R(""), R("")},
        {"plain text stays", R("/a/b.c"), R("/a/b.c")},
        {"an escape is decoded", R("/a%20b"), R("/a b")},
        {"an escape alone is decoded", R("%41"), R("A")},
        {"hexadecimal digits may have either case", R("%c3%A9%Ff"), R("\xc3\xa9\xff")},
        {"escapes are decoded once only", R("%2541%25"), R("%41%")},
        {"a slash is decoded like anything else", R("a%2Fb"), R("a/b")},
        {"a plus sign stays a plus sign", R("a+b"), R("a+b")},
        {"a lone percent sign stays", R("100%"), R("100%")},
        {"an escape that is cut short stays", R("a%4"), R("a%4")},
        {"an escape that is not hexadecimal stays", R("%zz%4g%g4"), R("%zz%4g%g4")},
        {"a percent sign before an escape stays and the escape is decoded", R("%%41"), R("%A")},
        {"a percent sign and a digit before an escape stay", R("%4%41"), R("%4A")},
        {"an escaped NUL is refused", R("/a%00b"), NULL, 0},
        {"an escaped NUL is refused at the end as well", R("%41%00"), NULL, 0},
        {"a NUL that is cut short is none", R("%0"), R("%0")},
        {"control characters are decoded", R("%0d%0a%01"), R("\r\n\x01")},
        {"bytes above 0x7f stay", R("\xc3\xa9%"), R("\xc3\xa9%")},
    };

    for (size_t i = 0; i < sizeof decode / sizeof *decode; i++) {
        const size_t len = decode[i].from_len;
        char *src = guard_copy(guarded, decode[i].from, len);
        char other[64];
        const ptrdiff_t want = decode[i].to ? (ptrdiff_t)decode[i].to_len : -1;
        const ptrdiff_t apart = hf_percent_decode(other, src, len);
        const ptrdiff_t in_place = hf_percent_decode(src, src, len);
        ok(apart == want && in_place == want &&
               (want < 0 || (memcmp(other, decode[i].to, (size_t)want) == 0 && memcmp(src, decode[i].to, (size_t)want) == 0)),
           "%s", decode[i].sentence);
    }
}

int main(void)
{
    const hf_http1_limits usual = HF_HTTP1_LIMITS_DEFAULT;

    guarded = guard_new();
    for (int level = HF_SCAN_SCALAR; level <= HF_SCAN_AVX2; level++) {
        const hf_scanner *scan = hf_scan_select((enum hf_scan_level)level);
        if ((int)scan->level != level)
            continue;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check(scan->name, &cases[i], &usual);
        check_limits(scan->name);
    }
    check_work();
    check_names();
    check_percent();
    return done_testing();
}
