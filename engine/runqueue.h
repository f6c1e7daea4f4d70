/* runqueue.h - moving connections between workers.
 *
 * All workers share one SOCK_SEQPACKET socket pair. A message is a connection: its descriptor (SCM_RIGHTS), a record of who
 * the peer is and how far it has got, and the bytes that were read. The kernel is the queue: first in, first out, and
 * any idle worker takes the next. A worker that dies loses nothing that is in the queue.
 */
#ifndef HF_RUNQUEUE_H
#define HF_RUNQUEUE_H

#include "base.h"

struct hf_conn;
struct hf_engine;

/* Makes the pair: fds[0] is written to, fds[1] read from; non-blocking and close-on-exec. 0, or -1 with errno set. */
int hf_runqueue_create(int fds[2]);

/* Sends a connection away: one with a complete request that nobody runs yet (HF_CONN_BUSY, taken out of the ready queue by
 * the caller), one that is reading (HF_CONN_HEAD, HF_CONN_BODY) or one between requests (HF_CONN_IDLE). Its output must be
 * empty. Returns true when it is in the queue: the connection is closed here then, which nobody outside notices. False when
 * the connection cannot be moved, or the queue is full: e->queue_full is set then, and nothing is tried until whoever
 * tries again later clears it. */
bool hf_runqueue_send(struct hf_engine *e, struct hf_conn *c);

/* Takes connections from the queue until one has a request to run, or it is empty, at most `max`. Returns how many came. */
int hf_runqueue_receive(struct hf_engine *e, int max);

#endif
