/*
 * seat: jobs that take work from one source - processes that take connections from one server - share it by load.
 *
 * A *rota* belongs to the source; a job that takes from it gets a *seat* there, which counts what it has taken and not finished. Who is
 * about to take one more asks mr_seat_better first: is there a job with less to do that will come for it? Then that one is woken, if it
 * waits, and the asker waits too, but not for long: who computes for longer than PATIENCE, or finds no worker in some times that, is absent, and
 * nobody waits for it again until it has come. So a job that computes delays the others once.
 *
 * Ownership. A seat belongs to its job, except `count`. Seats are never freed but used again: a waiter's node points to the seat, and
 * who looks at the node may be late. What was taken keeps its seat until it is finished, also after the end of the job.
 * Locks: the rota's comes before a job's, which comes before a crew's.
 */
#ifndef MR_SEAT_H
#define MR_SEAT_H

#include "run/poll.h"

typedef struct mr_rota mr_rota;
struct mr_seat {
  atomic_uint count;                 /* twice what is taken and not finished; + 1 while the job is there */
  atomic_uchar absent;               /* others have waited for it in vain */
  uint64_t since;                    /* (owner) when it began to leave things to others, or to wait once more; 0: it does not */
  unsigned rounds;                   /* (owner) how often it has waited once more */
  mr_rota *rota;                     /* (owner) NULL: nobody's */
  mr_job *job;                       /* (rota's lock) */
  struct mr_seat *next, *prev;       /* (rota's lock) circular; next: in the list of unused ones too */
  struct mr_seat *more;              /* (owner) of the same job, at other rotas */
};

mr_rota *mr_rota_new(void);          /* NULL: no memory */
void     mr_rota_close(mr_rota *r);  /* the source is gone */
/* The seat of j, which runs on this thread, new if need be. NULL: no memory; then it takes without asking. */
mr_seat *mr_seat_of(mr_rota *r, mr_job *j);
void     mr_seat_take(mr_seat *s);   /* one more */
void     mr_seat_done(mr_seat *s);   /* one less; from any thread */
int      mr_seat_alone(mr_seat *s);  /* (owner, who would take now) 1: nobody can be better */
/*
 * (owner) Something is there to be taken, `deadline` is how long the caller could wait for it. 0: take it. Else when to come back: until then it
 * is left to others, of whom one that waits at w is woken. Who does not wait in the end, or not to the end, passes on what made him come.
 */
uint64_t mr_seat_better(mr_seat *s, uint64_t deadline, mr_watch *w, mr_fiber *near);
void     mr_seats_leave(mr_job *j);  /* j ends */
static inline unsigned mr_seat_load(mr_seat *s) { return atomic_load_explicit(&s->count, memory_order_relaxed) >> 1; }

#endif
