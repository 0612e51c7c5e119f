/*
 * replay: a scheduler whose every choice can be repeated.
 *
 * There is one worker, and what runs gives way at *points* only: where it waits, yields or ends, after each of mare's operations, and after a great
 * many instructions without any. Processes share nothing but what these operations do, so a switch anywhere else could not be seen. Whenever there is a
 * choice, *who goes on next*, it is made here: by a strategy drawn from a seed, or by a list. So are which case of select goes first, and when time
 * passes: when nothing is ready the clock jumps to the next timer (port/virtual.h). And how much of a read or a write of a socket goes through: sockets are those of
 * a network inside the program (port/simnet.h).
 *
 * A *unit* is what sits in run queues, named by its job's id: a process, as its fibers take turns in a fixed order. A choice is named by the unit that
 * ran last and by the number of its point: "process 3, after its point 7". That stays the same when what other processes did before is changed, so a
 * list of choices can be shortened. The *default* is that who runs goes on, and that of those who wait the one goes on that has waited longest. A
 * *deviation* is a choice that is not the default; the list of them is a schedule:
 *   17:1.4=2,3.7+1     seed 17; after point 4 of process 1 process 2 goes on; at point 7 of process 3 select begins with its second case
 *   17:2.5~3           at point 5 of process 2 only 3 bytes of a read or a write go through; the default is as many as there are
 * "17" alone: what the strategy of seed 17 chooses. "17:" and 0: never anything but the default. The seed also gives each process its random numbers.
 *
 * All of this happens on the one thread that runs something. Nothing of it is reached unless mr_replay_on is set before the start.
 */
#ifndef MR_REPLAY_H
#define MR_REPLAY_H

#include "run/fiber.h"
#include "run/worker.h"

enum { REPLAY_NEXT = '=', REPLAY_CASE = '+', REPLAY_CUT = '~', REPLAY_PLACE = 128 };
typedef struct mr_deviation { uint64_t unit, value; uint32_t point, kind; } mr_deviation;

/* A schedule, and what came of it. In memory that several OS processes may share. */
typedef struct mr_schedule {
  uint64_t seed;
  uint32_t listed;                     /* by the list, not by the seed's strategy */
  uint32_t given, most;                /* how long the list is; room for a record */
  uint32_t made, points;               /* deviations that were made - perhaps more than there is room for; points so far */
  mr_deviation *list, *record;
  uint32_t places;                     /* room in `where`; 0: nobody asks */
  char (*where)[REPLAY_PLACE];         /* of each deviation: the operation of the unit's that came before, as the body has said it */
} mr_schedule;

extern int mr_replay_on;

/* From text as above. NULL, or what is wrong. `room`: places in s->list. */
const char *mr_replay_parse(mr_schedule *s, const char *text, uint32_t room);
void mr_replay_text(const mr_deviation *d, char text[64]);
void mr_replay_begin(mr_schedule *s);  /* before the start; s stays */
void mr_replay_go(void);               /* whoever started it will do nothing more than wait: until then nothing runs */
void mr_replay_over(void);             /* the program ends: the true time again */
int  mr_replay_workers(int n);         /* what the program is told: n from now on, 0: only asks; 4 at first, whatever the machine has */

/* ---- for who runs: points. The caller's body is running f. ---- */
int  mr_replay_point(mr_fiber *f, int may_switch);         /* an operation is over. 1: f is to yield now, as if it were interrupted */
char *mr_replay_place(void);           /* where to say what the operation is that begins, REPLAY_PLACE bytes; NULL: nobody asks */
int  mr_replay_tick(mr_fiber *f, unsigned instructions);   /* so many are over. 1: likewise */
void mr_replay_yields(void);           /* it is about to say that others may go first */
void mr_replay_look(void);             /* its operation is a look at the clock */
unsigned mr_replay_case(unsigned n);   /* which of n things select asks first */

/* ---- for sched.c and idle.c ---- */
mr_fiber *mr_replay_find(mr_thread *t, mr_worker *w);      /* (holder) who runs next */
int  mr_replay_idle(void);             /* (holder) nothing is ready: 1: time has passed, something is due */

#endif
