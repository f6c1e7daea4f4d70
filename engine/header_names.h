/* header_names.h - the header field names that requests really carry, as small numbers.
 *
 * A name is looked up once, while the request is parsed; from then on the engine and the layers above compare numbers.
 * Lookup is a perfect hash over length and a few letters, with one final case-insensitive compare.
 */
#ifndef HF_HEADER_NAMES_H
#define HF_HEADER_NAMES_H

#include "base.h"

/* X(id, "Canonical-Name"): the list is the single source of the enum, of hf_header_name() and of any table that a
 * layer above keeps per name. Order is free; 0 is "not in the list". */
#define HF_HEADER_LIST(X)                                                                                              \
    X(HOST, "Host")                                                                                                    \
    X(CONNECTION, "Connection")                                                                                        \
    X(CONTENT_LENGTH, "Content-Length")                                                                                \
    X(TRANSFER_ENCODING, "Transfer-Encoding")                                                                          \
    X(EXPECT, "Expect")                                                                                                \
    X(CONTENT_TYPE, "Content-Type")                                                                                    \
    X(UPGRADE, "Upgrade")                                                                                              \
    X(KEEP_ALIVE, "Keep-Alive")                                                                                        \
    X(PROXY, "Proxy")                                                                                                  \
    X(TE, "TE")                                                                                                        \
    X(TRAILER, "Trailer")                                                                                              \
    X(ACCEPT, "Accept")                                                                                                \
    X(ACCEPT_CHARSET, "Accept-Charset")                                                                                \
    X(ACCEPT_ENCODING, "Accept-Encoding")                                                                              \
    X(ACCEPT_LANGUAGE, "Accept-Language")                                                                              \
    X(AUTHORIZATION, "Authorization")                                                                                  \
    X(CACHE_CONTROL, "Cache-Control")                                                                                  \
    X(CONTENT_ENCODING, "Content-Encoding")                                                                            \
    X(COOKIE, "Cookie")                                                                                                \
    X(DATE, "Date")                                                                                                    \
    X(DNT, "DNT")                                                                                                      \
    X(FORWARDED, "Forwarded")                                                                                          \
    X(FROM, "From")                                                                                                    \
    X(IF_MATCH, "If-Match")                                                                                            \
    X(IF_MODIFIED_SINCE, "If-Modified-Since")                                                                          \
    X(IF_NONE_MATCH, "If-None-Match")                                                                                  \
    X(IF_RANGE, "If-Range")                                                                                            \
    X(IF_UNMODIFIED_SINCE, "If-Unmodified-Since")                                                                      \
    X(ORIGIN, "Origin")                                                                                                \
    X(PRAGMA, "Pragma")                                                                                                \
    X(PRIORITY, "Priority")                                                                                            \
    X(RANGE, "Range")                                                                                                  \
    X(REFERER, "Referer")                                                                                              \
    X(SEC_CH_UA, "Sec-CH-UA")                                                                                          \
    X(SEC_CH_UA_MOBILE, "Sec-CH-UA-Mobile")                                                                            \
    X(SEC_CH_UA_PLATFORM, "Sec-CH-UA-Platform")                                                                        \
    X(SEC_FETCH_DEST, "Sec-Fetch-Dest")                                                                                \
    X(SEC_FETCH_MODE, "Sec-Fetch-Mode")                                                                                \
    X(SEC_FETCH_SITE, "Sec-Fetch-Site")                                                                                \
    X(SEC_FETCH_USER, "Sec-Fetch-User")                                                                                \
    X(SEC_WEBSOCKET_EXTENSIONS, "Sec-WebSocket-Extensions")                                                            \
    X(SEC_WEBSOCKET_KEY, "Sec-WebSocket-Key")                                                                          \
    X(SEC_WEBSOCKET_PROTOCOL, "Sec-WebSocket-Protocol")                                                                \
    X(SEC_WEBSOCKET_VERSION, "Sec-WebSocket-Version")                                                                  \
    X(UPGRADE_INSECURE_REQUESTS, "Upgrade-Insecure-Requests")                                                          \
    X(USER_AGENT, "User-Agent")                                                                                        \
    X(VIA, "Via")                                                                                                      \
    X(X_FORWARDED_FOR, "X-Forwarded-For")                                                                              \
    X(X_FORWARDED_HOST, "X-Forwarded-Host")                                                                            \
    X(X_FORWARDED_PORT, "X-Forwarded-Port")                                                                            \
    X(X_FORWARDED_PROTO, "X-Forwarded-Proto")                                                                          \
    X(X_REAL_IP, "X-Real-IP")                                                                                          \
    X(X_REQUEST_ID, "X-Request-ID")                                                                                    \
    X(X_REQUESTED_WITH, "X-Requested-With")

enum hf_header_id {
    HF_HDR_OTHER = 0,
#define X(id, name) HF_HDR_##id,
    HF_HEADER_LIST(X)
#undef X
        HF_HDR_COUNT
};

/* The id of a field name (any case), HF_HDR_OTHER if it is not in the list. `len` may be 0. Never reads past `len`. */
uint8_t hf_header_lookup(const char *name, size_t len);

/* The canonical spelling of an id, "" for HF_HDR_OTHER or an id out of range. */
const char *hf_header_name(uint8_t id);

#endif
