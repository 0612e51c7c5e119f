/*
 * group: processes of one kind, which can be waited for together. luaproc's are one.
 *
 * Who waits is a member itself or an outsider. Outsiders wait until no member is left; a member until each of the others has ended or
 * waits here too, so that two that wait for each other both go on. A member counts until its finalisers have run and its failure is printed.
 *
 * Invariant (lock held): `nmembers` is how many processes have fibers in `members`; mr_proc.group_waits tells how many each has.
 */
#ifndef MR_GROUP_H
#define MR_GROUP_H

#include "process/process.h"

typedef struct mr_group {
  luaL_Reg library;                  /* what members find as a global, made when it is first used */
  const char *failed[2];             /* what is printed before and behind an error and its traceback */
  port_lock lock;
  size_t alive, nmembers;
  mr_wait members, outsiders;        /* heads; next == NULL: nobody has waited yet */
} mr_group;

void mr_group_enter(mr_group *g);
void mr_group_leave(mr_group *g, mr_fiber *near);
void mr_group_forget(mr_group *g);                        /* no thread is left, so none of its members */
/* 1: there is nobody to wait for; 0: w is queued, park with mr_group_wait_end as clean-up. */
int  mr_group_wait(mr_group *g, mr_wait *w, int member);
void mr_group_wait_end(mr_group *g, mr_wait *w, int member);
#ifdef MR_CHECKS
void mr_group_check(const mr_group *g);                   /* check.c; (lock held) */
#else
#define mr_group_check(g) ((void)0)
#endif

#endif
