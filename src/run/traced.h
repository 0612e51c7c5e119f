/*
 * traced: what a trace (observe/trace.h) says of fibers. Called only while one is on.
 *
 * A fiber's key: its job's id, and 16 bits of its number among the job's fibers, 0 the first.
 */
#ifndef MR_TRACED_H
#define MR_TRACED_H

#include "observe/trace.h"
#include "run/fiber.h"

int  mr_traced_resume(mr_fiber *f);                    /* the body's resume, with when it began and how it stopped */
void mr_traced_woken(const mr_fiber *f, mr_reason why, int next);   /* by the calling thread, into its worker's slot if `next`; before it is READY */
void mr_traced_born(const mr_fiber *f);                /* before it is READY */
void mr_traced_ended(const mr_fiber *f, int failed, const char *why);   /* why: NULL or a text */
/* A thread that keeps its fiber while that waits. */
void mr_traced_pause(const mr_fiber *f);
void mr_traced_run(mr_fiber *f);
void mr_traced_left(void);                             /* the calling thread has ended what it ran, and runs nothing */

#endif
