/*
 * ending: a job is asked to end, by anybody, at any moment.
 *
 * `ends` of its first fiber says so from then on. Each wait asks it as it opens, after which its ticket can be claimed; so a wait is either
 * claimed here, or refused. What runs is not waited for: while there is a job that was asked and is not over, the monitor asks all running
 * fibers to come back, each round, and the body finds out whether it is meant. That needs no pointer to a job which may be over.
 */
#include "run/rt.h"
#include "run/crew.h"

typedef struct { mr_fiber *first; } claimed;

/* Claimed, it is ours until mr_ready, and in no queue: `next` is free. */
static void claim(mr_fiber *f, void *ud) {
  claimed *all = ud;
  if (!mr_fiber_claim(f)) return;
  f->next = all->first;
  all->first = f;
}

/* 1: it was asked less before. The job counts as ending from the first time. */
static int ask(mr_job *j, int how) {
  unsigned char was = atomic_load(&j->first->ends);
  do {
    if (was >= how) return 0;
  } while (!atomic_compare_exchange_weak(&j->first->ends, &was, (unsigned char)how));
  if (!was) {
    atomic_store(&j->asked, port_now());
    atomic_fetch_add(&mr_rt.nending, 1);
  }
  return 1;
}

int mr_job_end(mr_job *j, int how, mr_fiber *near) {
  claimed all = { NULL };
  if (!ask(j, how)) return atomic_load(&j->first->ends) != JOB_OVER;
  mr_crew_each(j, claim, &all);
  while (all.first) {
    mr_fiber *f = all.first;
    all.first = f->next;
    mr_ready(f, f->masked && how == JOB_CANCELLED ? MR_AGAIN : MR_STOPPED, near);
  }
  mr_monitor_wake();
  return 1;
}

void mr_job_settle(mr_job *j) {
  if (atomic_exchange(&j->first->ends, JOB_OVER) != 0) atomic_fetch_sub(&mr_rt.nending, 1);
}
