/* fiber: jobs, from their beginning to their end; see fiber.h. */
#include "base/rank.h"
#include "run/rt.h"
#include "run/crew.h"
#include "run/traced.h"

void mr_fiber_init(mr_fiber *f, mr_job *j) {
  f->job = j;
  f->crew = j->first->crew;
  f->wait.fiber = f;
}

void mr_job_init(mr_job *j, mr_fiber *first, uint64_t id, int host) {
  port_lock_rank(&j->lock, MR_RANK_OBJECT);
  j->fiber = j->first = first;
  j->id = id;
  j->host = (unsigned char)host;
  mr_fiber_init(first, j);
}

/*
 * With no running fiber near, nobody is counted as busy until it is queued: so nmoving goes up, and before `live`: see quiet.c.
 */
void mr_job_start(mr_job *j, mr_fiber *near) {
  mr_fiber *f = j->first;
  f->fresh = 1;
  atomic_store_explicit(&f->state, FIBER_READY, memory_order_relaxed);
  if (mr_trace_on()) mr_traced_born(f);
  mr_share_born(j, near);
  if (!near) mr_moving();
  atomic_fetch_add(&mr_rt.live, 1);
  mr_enqueue(near ? near->thread->worker : NULL, f, 0);
  if (!near) mr_settled();
}

int mr_job_over(void) { return atomic_fetch_sub(&mr_rt.live, 1) == 1; }

size_t mr_job_count(void) { return atomic_load(&mr_rt.live); }

int mr_job_busy(mr_job *j) {
  int state = j->host ? -1 : mr_crew_state(j);       /* a host's first fiber is not run with the others */
  if (state >= 0) return state == CREW_IDLE ? JOB_IDLE : state == CREW_QUEUED ? JOB_READY : JOB_RUNS;
  unsigned first = atomic_load(&j->first->state);
  return first == FIBER_RUNNING ? JOB_RUNS : first == FIBER_READY ? JOB_READY : JOB_IDLE;
}
