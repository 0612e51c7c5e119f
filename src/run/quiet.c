/*
 * quiet: noticing that nothing can ever run again.
 *
 * Quiet means, under the idle lock: every worker sleeps, no timer is set, nothing outside the program can wake anybody, no thread
 * runs without a worker, nobody has a fiber in hand, nothing is queued, and every host waits without a deadline and has not been
 * woken. Whoever goes to sleep last checks. What to do then, the body decides, which may read every parked state: nothing runs.
 *
 * The order of the reads matters. Who is not counted as busy - a thread in the idle list, one that retires, one that gave
 * its worker away and is about to sleep, the monitor - raises `nmoving` before it takes a fiber out of a slot or the timers,
 * and lowers it when the fiber is queued, or the thread out of the idle list (for which it needs our lock). So if all workers
 * idle (then every slot is empty), timers are read before nmoving and nmoving before the queues, a fiber on its way is seen. So is a
 * job being born: live is read before nmoving.
 */
#include "run/rt.h"
#include "run/crew.h"

enum { TOLD = 16 };                  /* fibers at a time */

/*
 * A host that was woken goes on counting as waiting until its thread runs. A fiber of it that waits where its body can't yield stands on the
 * thread's stack, above the first one: then only that one counts.
 */
static int hosts_wait(mr_runtime *r) {
  for (mr_job *h = r->host; h; h = h->next) {
    mr_fiber *f = h->fiber;
    if (atomic_load(&f->ticket) != f->wait.ticket) return 0;
    if (f == h->first && !h->barred && mr_crew_state(h) > CREW_IDLE) return 0;
  }
  return 1;
}

static int quiet(mr_runtime *r) {
  if (atomic_load(&r->nidle) != atomic_load(&r->nactive)) return 0;
  if (atomic_load(&r->nhosts) == 0 && atomic_load(&r->live) == 0) return 0;   /* first of all: who spawns raises nmoving, then live */
  atomic_fetch_add(&r->nmoving, 0);              /* a full barrier: slots were found empty by relaxed loads */
  return atomic_load(&r->next_due) == UINT64_MAX && atomic_load(&r->noutside) == 0 && atomic_load(&r->nmoving) == 0 &&
         atomic_load(&r->ndetached) == 0 && !mr_anything_queued() && r->hosts_waiting == atomic_load(&r->nhosts) && hosts_wait(r) &&
         !atomic_load(&r->stopping) && !atomic_load(&r->interrupted);
}

void mr_quiet_check(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->nidle) < atomic_load(&r->nactive)) return;
  mr_fiber *told[TOLD];
  port_acquire(&r->ilock);
  int n = quiet(r) ? mr_run_body.deadlock(told, TOLD) : 0;
  port_unlock(&r->ilock);
  for (int i = 0; i < n; i++) mr_ready(told[i], MR_DEADLOCK, NULL);
}

void mr_moving(void) { atomic_fetch_add(&mr_rt.nmoving, 1); }

void mr_settled(void) {
  atomic_fetch_sub(&mr_rt.nmoving, 1);
  mr_quiet_check();
}
