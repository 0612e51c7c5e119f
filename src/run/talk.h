/*
 * talk: who wakes whom, and where the other one waited: for those who look at a program that runs. While nobody counts this costs nothing: the word
 * that says so is the trace's (observe/trace.h), which each wake-up asks in any case.
 *
 * A message that finds nobody waiting is not seen. Where it is the receiver that waits, or the sender at a full channel, each is.
 */
#ifndef MR_TALK_H
#define MR_TALK_H

#include "observe/trace.h"
#include "run/fiber.h"

/* A direction that messages took between two jobs, by id. `on`: "channel 'jobs'", or ""; waits: in what the woken one waited, a constant. */
typedef struct mr_talk { uint64_t from, to, n; const char *waits; char on[80]; } mr_talk;

static inline int mr_talk_on(void) { return atomic_load_explicit(&mr_tracing, memory_order_relaxed) & MR_TRACING_TALK; }
/* `near`, which runs on the calling thread, has claimed f and wakes it: before f is READY. */
void mr_talk_woken(const mr_fiber *f, const mr_fiber *near);

/* For one thread at a time, which runs no fiber: begins to count; ends it and gives all that was counted, *left_out: wake-ups of which that isn't known, or for which there was no room. */
enum { MR_TALK_MOST = 2048 };
void     mr_talk_begin(void);
unsigned mr_talk_end(mr_talk out[MR_TALK_MOST], uint64_t *left_out);

#endif
