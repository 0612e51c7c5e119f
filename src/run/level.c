/*
 * level: a job's priority, at any time.
 *
 * Invariants.
 *  - The level stands in the job's first fiber. HEED_LEVEL, in what sits in run queues for the job (its fiber or its crew's token), is
 *    set whenever it is not the normal one; both change under the job's lock.
 *  - Levels are looked at where a fiber is put or taken. One that waits for its turn already is looked for and put where it belongs now; one that
 *    is on its way in this moment may have one more turn by the old level.
 */
#include "run/rt.h"
#include "run/crew.h"

static void mark(mr_fiber *f, int level) {
  if (level != LEVEL_NORMAL) atomic_fetch_or(&f->heed, HEED_LEVEL);
  else atomic_fetch_and(&f->heed, (unsigned char)~HEED_LEVEL);
}

/* Out of whatever row it waits in. It may be gone, so only its address is looked for; if another has that by now, it is put back all the same. */
static int remove_from_rows(mr_fiber *f) {
  mr_runtime *r = &mr_rt;
  if (mr_share_remove(f) || mr_queue_remove(&r->queue, f)) return 1;
  for (unsigned i = 0, n = atomic_load(&r->nused); i < n; i++)
    if (mr_queue_remove(&r->worker[i].queue, f)) return 1;
  return 0;
}

int mr_job_level(mr_job *j, int level) {
  port_acquire(&j->lock);
  int before = mr_fiber_level(j->first);
  mr_fiber *unit = j->first->crew ? &j->first->crew->token : j->first;
  if (level >= 0 && level != before) {
    atomic_store(&mr_rt.levels, 1);
    atomic_store(&j->first->level, (unsigned char)level);
    mark(j->first, level);                       /* also with a crew: see mr_crew_of */
    if (unit != j->first) mark(unit, level);
  }
  port_unlock(&j->lock);
  if (level < 0 || level == before || mr_job_busy(j) != JOB_READY) return before;
  mr_moving();
  if (remove_from_rows(unit)) mr_enqueue(NULL, unit, 0);
  mr_settled();
  return before;
}
