/* standby.h - leader and follower: a thread that keeps the connections going while the application holds up the worker.
 *
 * Exactly one thread holds the engine lock. While an application call lasts no longer than the grace time, that is the
 * thread that runs the loop (the leader), and the standby thread only looks at a number every millisecond. Where no call has
 * lasted long for half a second it does so every 4 ms, or up to every 16 if several workers share a processor. When a call lasts longer, the standby thread takes the lock and runs the
 * same loop, with one difference: a request that is complete is not run but moved to another worker (runqueue.h). When the
 * call returns, the leader wakes it out of the poller and takes the lock back.
 *
 * A call lasts long when it has run or slept for that long. Time in which it only waited for a processor counts after
 * 20 ms: where more workers are busy than there are processors, moving requests about would cost more than it brings.
 *
 * It blocks all signals and calls nothing of the layer above but config.log and config.stuck.
 */
#ifndef HF_STANDBY_H
#define HF_STANDBY_H

#include "base.h"

struct hf_engine;
struct hf_request;

/* Starts the thread, if config.standby says so. 0, or -1 with errno set. */
int hf_standby_start(struct hf_engine *e);

/* Ends it. Without the lock. Does nothing if there is none. */
void hf_standby_stop(struct hf_engine *e);

/* The leader calls the application for r: releases the lock. */
void hf_standby_enter_app(struct hf_engine *e, struct hf_request *r);

/* The call has returned: takes the lock back. */
void hf_standby_leave_app(struct hf_engine *e);

/* Everything that can leave goes to the other workers, because this one is about to end. With the lock. */
void hf_standby_evacuate(struct hf_engine *e);

#endif
