/*
 * control: who may end whom, and why one is to end.
 *
 * A *bond* ties two processes: a link, through which a failure of one ends the other, or ownership, through which the end of the owner, however
 * it comes, ends the owned. A process that *traps* is not ended through links: the handle of who has ended comes on a channel instead.
 *
 * Invariants (control lock held):
 *  - a bond is in the lists of both its processes, or in none; a process that is over has no bonds;
 *  - so who is in a list is alive, and its record may be retained.
 * `why` is set once, by the first who asks the process to end, before the process can learn of it; it lives as long as the process's record.
 *
 * A process has a control record from the first time that any of this is asked of it.
 */
#ifndef MR_CONTROL_H
#define MR_CONTROL_H

#include "process/process.h"

enum { TIE_LINKED = 1, TIE_OWNED = 2 };        /* bits of mr_spawn.ties */

/* Why a process is to end. */
enum { WHY_CANCELLED, WHY_LINKED, WHY_OWNER };
typedef struct mr_why {
  unsigned char kind;                          /* WHY_* */
  mr_mail reason;                              /* of CANCELLED: scalars or a message, owned; MAIL_NONE: none was given */
  mr_proc *dead;                               /* of LINKED: who failed; counted */
} mr_why;

/* What an error object is made of: of a fiber that is to end, or of a process that has ended without an error value of its own. */
typedef struct mr_cause {
  const char *kind, *message;
  const mr_why *why;                           /* or NULL */
  mr_proc *proc;
  mr_fiber *fiber;                             /* which is to end; NULL: proc has ended */
  int raised;                                  /* the error is raised where the program is; else somebody learns of it later */
} mr_cause;
void mr_cause_of_fiber(mr_fiber *f, mr_cause *c);
void mr_cause_of_process(mr_proc *p, mr_cause *c);     /* its result is MAIL_ENDED */

/* Takes `why` over, which may be NULL. 0: p had ended before. From any thread, with a reference to p. */
int  mr_cancel(mr_proc *p, mr_why *why, mr_fiber *near);
int  mr_control_ready(mr_proc *p);             /* 0: there is no memory, and mr_cancel would lose the reason */
int  mr_kill(mr_proc *p, mr_fiber *near);
mr_why *mr_why_new(int kind);                  /* NULL: no memory */
void mr_why_free(mr_why *w);

/*
 * Ties a and b: TIE_LINKED, or TIE_OWNED: a owns b. MR_OK; MR_ENOMEM; MR_ECLOSED: b is over. Two are linked once; an owned process gets no second
 * owner: MR_EOWNED.
 */
int  mr_tie(mr_proc *a, mr_proc *b, int kind);
int  mr_untie(mr_proc *a, mr_proc *b, int kind);       /* 1: they were tied so */
/* b, which a owns, gets another owner: as mr_tie; MR_EOWNED: a does not own it; MR_ECLOSED: the new owner is over. */
int  mr_give(mr_proc *a, mr_proc *b, mr_proc *to);
mr_proc *mr_owner(mr_proc *p);                 /* counted; NULL: none */
uint64_t mr_owner_id(mr_proc *p);              /* without a lock; 0: none */
size_t   mr_links(mr_proc *p, uint64_t *ids, size_t most);   /* whom it is linked to; how many there are */
/* From now on who ends among those p is linked to comes on a channel: this one, whose reference is taken, or the one that p has; *now, counted. */
int  mr_trap(mr_proc *p, mr_shared *channel, mr_shared **now);         /* 0 or MR_ENOMEM */
int  mr_trapping(mr_proc *p);
void mr_tell_over(mr_proc *q, mr_proc *p, mr_fiber *near);   /* q wanted to be linked to p, which is over */

/*
 * Called once a second while processes are to end. One that computes, and in whose hook nothing has been asked for a second (it is in a finaliser,
 * in a hook of the program's or in C), can't be ended: after some seconds stderr says so, once.
 */
void mr_ending_report(void);
enum { DEAF_NO, DEAF_ASKED, DEAF_REPORTED };   /* ASKED: since the last look */
static inline void mr_ending_heard(mr_proc *p) {
  if (atomic_load_explicit(&p->deaf, memory_order_relaxed) == DEAF_ASKED) atomic_store_explicit(&p->deaf, DEAF_NO, memory_order_relaxed);
}

/* ---- for process.c ---- */
int  mr_control_born(mr_proc *p, mr_proc *parent, unsigned ties);   /* before it runs; 0 or MR_ENOMEM */
void mr_control_ended(mr_proc *p, int failed, mr_fiber *near);      /* its end is published */
void mr_control_forget(mr_proc *p);            /* it was abandoned: it never ends */
void mr_control_free(mr_proc *p);              /* its record goes */

#endif
