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
    if ((was & JOB_OVER) >= how) return 0;
  } while (!atomic_compare_exchange_weak(&j->first->ends, &was, (unsigned char)(how | (was & JOB_LOOK))));
  if (!(was & JOB_OVER)) {
    atomic_store(&j->asked, port_now());
    atomic_fetch_add(&mr_rt.nending, 1);
  }
  return 1;
}

int mr_job_end(mr_job *j, int how, mr_fiber *near) {
  claimed all = { NULL };
  if (!ask(j, how)) return mr_job_ends(j) != JOB_OVER;
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
  if ((atomic_exchange(&j->first->ends, JOB_OVER) & JOB_OVER) != 0) atomic_fetch_sub(&mr_rt.nending, 1);
}

/* ---- looks ---- */

static void claim_one(mr_fiber *f, void *ud) {
  mr_fiber **one = ud;
  if (!*one && mr_fiber_claim(f)) *one = f;
}

/*
 * In this order: what opens a wait after the bit was set finds it as it parks, what had opened one before is claimed here. One of several is
 * enough: the thread that runs it answers for all. If one of them runs, or is ready, it comes by anyway; it costs little to wake another.
 */
int mr_job_look(mr_job *j, mr_fiber *near) {
  mr_fiber *one = NULL;
  unsigned char was = atomic_load(&j->first->ends);
  do {
    if ((was & JOB_OVER) == JOB_OVER) return 0;
  } while (!atomic_compare_exchange_weak(&j->first->ends, &was, (unsigned char)(was | JOB_LOOK)));
  mr_crew_each(j, claim_one, &one);
  if (one) mr_ready(one, MR_AGAIN, near);
  return 1;
}

void mr_job_looked(mr_job *j) { atomic_fetch_and(&j->first->ends, (unsigned char)~JOB_LOOK); }

void mr_looks_begin(void) {
  atomic_fetch_add(&mr_rt.nlooks, 1);
  mr_monitor_wake();
}

void mr_looks_end(void) { atomic_fetch_sub(&mr_rt.nlooks, 1); }
