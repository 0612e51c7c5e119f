/*
 * strand: a fiber other than its process's first one.
 *
 * It runs a coroutine of its own. Its record lives until it has ended and its handle is collected; so long the registry's table of strands
 * (key: the coroutine; module/fiber.c) holds that, on whose stack the results stay. Who runs when is the crew's matter (run/crew.h).
 */
#ifndef MR_STRAND_H
#define MR_STRAND_H

#include "process/process.h"
#include "run/crew.h"
#include "run/waitable.h"

typedef struct mr_strand {
  mr_lua lua;                        /* first */
  mr_shared shared;                  /* one reference while it lives, one for its handle */
  mr_event ended;
  unsigned char done, failed, observed;
  int nres;                          /* results, on top of the coroutine's stack */
  uint64_t id;                       /* in its process */
  mr_bounds bounds;                  /* (owner) */
  char *name;                        /* owned, or NULL */
  char *trace;                       /* of a failure; owned */
} mr_strand;

/* A strand that will run co, whose stack holds a function and its arguments. One reference; NULL: no memory. */
mr_strand *mr_strand_new(mr_crew *c, lua_State *co, const char *name, const mr_sharetype *type);
void       mr_strand_start(mr_strand *s);             /* on the thread that runs its process */
void       mr_strand_free(mr_strand *s);              /* ended, and nobody holds its handle: by the type's destroy */
static inline mr_strand *mr_strand_of(void *shared) { return (mr_strand *)(void *)((char *)shared - offsetof(mr_strand, shared)); }
static inline mr_strand *mr_strand_at(mr_fiber *f) { return (mr_strand *)(void *)f; }   /* not the first fiber */
void       mr_fiber_describe(const mr_fiber *f, char *buf, size_t size);    /* ", fiber #3 'name'", or nothing for the first */
void       mr_fiber_relieve(mr_fiber *f);             /* wakes who is to go on while f waits */
int        mr_fiber_unrelief(mr_fiber *f);            /* 0: there was nobody, or not any more */

/* ---- for the bodies (body.c) ---- */
int        mr_strand_resume(mr_lua *l);               /* one of several fibers, perhaps the first one */
int        mr_strand_ended(mr_thread *t, mr_fiber *f, int status);   /* 1: the process is gone */
void       mr_strands_abandon(mr_proc *host);         /* its state closes: its fibers never go on */
void       mr_strands_free(mr_crew *c);               /* all fibers have ended: the records, and the crew */

#endif
