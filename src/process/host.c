/*
 * host: a Lua state that somebody else made, on a thread that is not ours: plain lua5.4, or a C program.
 *
 * A host is a process record of kind PROC_HOST whose fiber never runs on a worker: its thread sleeps where a process
 * would park, and messages to it are always packed. All hosts share one scheduler. A host that closes while others are
 * open leaves at once; the last one waits for every process and then stops the scheduler.
 *
 * Ownership. The list of hosts, nhosts (in the list), nopen (not closing) and hosts_waiting are guarded by the idle lock. `life`
 * keeps a start and a stop apart. The record is counted like a process's, for its handles; its state holds one reference until the
 * state's last block is freed (mr_host_free), because finalisers may call mare after the host was closed: they get an error.
 */
#include "process/rt.h"
#include "process/crew.h"

#include <stdlib.h>

mr_proc *mr_host_open(lua_State *L, int *err) {
  mr_runtime *r = &mr_rt;
  *err = MR_ENOMEM;
  mr_proc *h = mr_proc_new(PROC_HOST, NULL);
  if (!h) return NULL;
  mr_thread *t = h->main.thread = mr_thread_new();
  h->main.L = h->main.top = L;
  atomic_store(&h->status, PROC_ALIVE);
  port_acquire(&r->life);
  if (t && (*err = mr_start()) == MR_OK) {
    port_acquire(&r->ilock);
    h->live_next = r->host;
    r->host = h;
    r->nhosts++;
    r->nopen++;
    port_unlock(&r->ilock);
  }
  port_unlock(&r->life);
  if (*err == MR_OK) {
    mr_hosts_notify();                         /* one that closes is no longer the last */
    return h;
  }
  if (t) mr_thread_free(t);
  free(h);
  return NULL;
}

/* Wakes the hosts that wait for no more than the end of all processes. */
void mr_hosts_notify(void) {
  mr_runtime *r = &mr_rt;
  mr_fiber *ready[16];
  int n;
  do {
    n = 0;
    port_acquire(&r->ilock);
    for (mr_proc *h = r->host; h && n < 16; h = h->live_next)
      if (atomic_load(&h->joining) && mr_wait_claim(&h->main.wait)) ready[n++] = &h->main;
    port_unlock(&r->ilock);
    for (int i = 0; i < n; i++) mr_ready(ready[i], MR_WOKEN, NULL);
  } while (n == 16);
}

static int joined(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 0;
}

/* `last`: only as long as no host is open. */
static int nothing_to_wait_for(mr_runtime *r, int last) {
  if (atomic_load(&r->live) == 0) return 1;
  if (!last) return 0;
  port_acquire(&r->ilock);
  int others = r->nopen > 0;
  port_unlock(&r->ilock);
  return others;
}

static int wait_for_all(mr_proc *h, int last) {
  mr_runtime *r = &mr_rt;
  mr_fiber *f = &h->main;
  int err;
  if (atomic_load(&r->dead)) return MR_EFORK;
  while (!nothing_to_wait_for(r, last)) {
    if ((err = mr_wait_open(f, f->L)) != MR_OK) return err;
    f->op = "wait for all processes";
    atomic_store(&h->joining, 1);
    if (nothing_to_wait_for(r, last)) mr_wait_abandon(f);
    else mr_park(f->L, f, UINT64_MAX, 0, joined);
    atomic_store(&h->joining, 0);
    if (mr_wake(f) == MR_DEADLOCK) return MR_EDEADLOCK;
  }
  return MR_OK;
}

int mr_host_join(mr_proc *h) { return wait_for_all(h, 0); }

void mr_host_leave(mr_proc *h) { atomic_store(&h->leaving, 1); }

static int unlist(mr_runtime *r, mr_proc *h) {
  port_acquire(&r->ilock);
  for (mr_proc **p = &r->host; *p; p = &(*p)->live_next)
    if (*p == h) {
      *p = h->live_next;
      break;
    }
  int last = --r->nhosts == 0 && !r->main;
  port_unlock(&r->ilock);
  return last;
}

void mr_host_close(mr_proc *h) {
  mr_runtime *r = &mr_rt;
  int leaving = atomic_load(&h->leaving);
  if (atomic_load(&r->dead) || atomic_load(&h->status) >= PROC_DONE) return;
  port_acquire(&r->ilock);
  r->nopen--;
  port_unlock(&r->ilock);
  mr_crew_abandon(h);                            /* its fibers end with the script: they don't run while it waits here */
  if (!leaving && wait_for_all(h, 1) == MR_EDEADLOCK) mr_report_print(h->text);
  if (h->main.held_from) mr_hooks.mail_back(&h->main);
  mr_proc_finish(h, PROC_DONE);
  port_acquire(&r->life);
  int last = unlist(r, h);
  if (last && !leaving) mr_close_down();
  port_unlock(&r->life);
  if (!last) mr_quiet_check();                  /* those who are left may all be waiting */
}

void mr_host_free(mr_proc *h) {
  if (atomic_load(&mr_rt.dead)) return;
  mr_late_drop(h);
  mr_thread_free(h->main.thread);
  h->main.thread = NULL;
  mr_release(&h->shared);
}
