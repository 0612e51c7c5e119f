/*
 * host: a Lua state that somebody else made, on a thread that is not ours: plain lua5.4, or a C program.
 *
 * A host is a process record of kind PROC_HOST whose fiber never runs on a worker: its thread sleeps where a process
 * would park, and messages to it are always packed. All hosts share one scheduler; the last one to close stops it.
 * The list of hosts, nhosts and hosts_waiting are guarded by the idle lock.
 */
#include "process/rt.h"

#include <stdlib.h>

mr_proc *mr_host_open(lua_State *L, int *err) {
  mr_runtime *r = &mr_rt;
  if ((*err = mr_start()) != MR_OK) return NULL;
  mr_proc *h = mr_proc_new(PROC_HOST, NULL);
  mr_thread *t = h ? mr_thread_new() : NULL;
  if (!t) {
    free(h);
    *err = MR_ENOMEM;
    return NULL;
  }
  h->main.L = h->main.top = L;
  h->main.thread = t;
  atomic_store(&h->status, PROC_ALIVE);
  port_acquire(&r->ilock);
  h->live_next = r->host;
  r->host = h;
  r->nhosts++;
  port_unlock(&r->ilock);
  return h;
}

/* A joining host waits for nothing but this: `on` is itself. */
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

int mr_host_join(mr_proc *h) {
  mr_runtime *r = &mr_rt;
  mr_fiber *f = &h->main;
  if (atomic_load(&r->dead)) return MR_OK;
  while (atomic_load(&r->live) > 0) {
    if (mr_wait_open(f, f->L) != MR_OK) return MR_OK;
    f->op = "wait for all processes";
    atomic_store(&h->joining, 1);
    if (atomic_load(&r->live) == 0) mr_wait_abandon(f);
    else mr_park(f->L, f, UINT64_MAX, 0, joined);
    atomic_store(&h->joining, 0);
    if (mr_wake(f) == MR_DEADLOCK) return MR_EDEADLOCK;
  }
  return MR_OK;
}

void mr_host_close(mr_proc *h) {
  mr_runtime *r = &mr_rt;
  int err = mr_host_join(h);
  if (atomic_load(&r->dead)) return;
  if (err == MR_EDEADLOCK) mr_report_print(h->text);
  if (h->main.held_from) mr_hooks.mail_back(&h->main);
  port_acquire(&r->ilock);
  for (mr_proc **p = &r->host; *p; p = &(*p)->live_next)
    if (*p == h) {
      *p = h->live_next;
      break;
    }
  int last = --r->nhosts == 0 && !r->main;
  port_unlock(&r->ilock);
  mr_thread_free(h->main.thread);
  free(h->text);
  free(h);
  if (last) mr_stop();
}
