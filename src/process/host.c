/*
 * host: a Lua state that somebody else made, on a thread that is not ours: plain lua5.4, or a C program.
 *
 * A host is a process record of kind PROC_HOST whose fiber never runs on a worker: its thread sleeps where a process
 * would park, and messages to it are always packed. All hosts share one scheduler. A host that closes while others are
 * open leaves at once; the last one waits for every process and then stops the scheduler.
 *
 * Ownership. `hosts` and `known` are lists with a lock of their own, `nopen` counts the hosts that do not close yet; `life`
 * keeps a start and a stop apart. The record is counted like a process's, for its handles; its state holds one reference until the
 * state's last block is freed (mr_host_free), because finalisers may call mare after the host was closed: they get an error.
 */
#include "process/control.h"
#include "process/limit.h"
#include "process/rt.h"
#include "process/strand.h"
#include "run/seat.h"

#include <stdlib.h>

static port_lock listing;            /* no other is taken under it */
static mr_proc *hosts;               /* (listing) those that are not closed, by live_next */
static mr_proc *known;               /* (listing) those whose state is not freed, by live_prev; the newest first */
static unsigned nopen;               /* (listing) */

/* Known by its registry's address, as a program can reach whatever is in there. */
mr_proc *mr_host_of(lua_State *L) {
  const void *registry = lua_topointer(L, LUA_REGISTRYINDEX);
  port_acquire(&listing);
  mr_proc *h = known;
  while (h && h->lazy[0] != registry) h = h->live_prev;
  port_unlock(&listing);
  return h;
}

static void forget(mr_proc *h) {
  port_acquire(&listing);
  mr_proc **at = &known;
  while (*at && *at != h) at = &(*at)->live_prev;
  if (*at) *at = h->live_prev;
  port_unlock(&listing);
}

/* With a start, if this is the first. */
static int enlist(mr_proc *h, lua_State *L) {
  port_acquire(&mr_all.life);
  int err = mr_start();
  if (err == MR_OK) {
    port_acquire(&listing);
    h->live_next = hosts;
    hosts = h;
    h->lazy[0] = lua_topointer(L, LUA_REGISTRYINDEX);
    h->live_prev = known;
    known = h;
    nopen++;
    port_unlock(&listing);
    mr_host_enter(&h->job);
  }
  port_unlock(&mr_all.life);
  return err;
}

mr_proc *mr_host_open(lua_State *L, int *err) {
  *err = MR_ENOMEM;
  mr_proc *h = mr_proc_new(PROC_HOST, NULL);
  if (!h) return NULL;
  mr_thread *t = h->main.fiber.thread = mr_thread_new();
  if (t) port_thread_self(&t->host);
  h->main.L = h->main.top = L;
  atomic_store(&h->status, PROC_ALIVE);
  mr_leaving left = { 0 };
  while (t && (*err = enlist(h, L)) == MR_ESTOPPED && mr_stop_goes_on(&left)) port_sleep(1000000);
  if (*err == MR_OK) {
    mr_hosts_notify();                         /* one that closes is no longer the last */
    return h;
  }
  if (t) mr_thread_free(t);
  mr_proc_free(h);
  return NULL;
}

typedef struct { void (*fn)(mr_proc *p, void *ud); void *ud; } visit;

static void visit_host(mr_job *j, void *ud) {
  const visit *v = ud;
  v->fn(mr_proc_of_job(j), v->ud);
}

void mr_hosts_each(void (*fn)(mr_proc *p, void *ud), void *ud) {
  visit v = { fn, ud };
  mr_host_each(visit_host, &v);
}

/* Wakes the hosts that wait for no more than the end of all processes. */
void mr_hosts_notify(void) {
  mr_fiber *ready[16];
  int n;
  do {
    n = 0;
    port_acquire(&listing);
    for (mr_proc *h = hosts; h && n < 16; h = h->live_next)
      if (atomic_load(&h->joining) && mr_wait_claim(&h->main.fiber.wait)) ready[n++] = &h->main.fiber;
    port_unlock(&listing);
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
static int nothing_to_wait_for(int last) {
  if (mr_job_count() == 0) return 1;
  if (!last) return 0;
  port_acquire(&listing);
  int others = nopen > 0;
  port_unlock(&listing);
  return others;
}

/*
 * Under the lock under which mr_hosts_notify looks and claims. Else that could still have seen that h joins, and claim through the same node
 * what h waits for next: which is in a queue and would stay there.
 */
static void joins_no_more(mr_proc *h) {
  port_acquire(&listing);
  atomic_store(&h->joining, 0);
  port_unlock(&listing);
}

static int wait_for_all(mr_proc *h, int last) {
  mr_fiber *f = &h->main.fiber;
  int err;
  if (mr_run_dead()) return MR_EFORK;
  while (!nothing_to_wait_for(last)) {
    if ((err = mr_wait_open(f, h->main.L)) != MR_OK) return err;
    mr_fiber_in(f, "wait for all processes");
    atomic_store(&h->joining, 1);
    if (nothing_to_wait_for(last)) mr_wait_abandon(f);
    else mr_park(h->main.L, f, UINT64_MAX, 0, joined);
    joins_no_more(h);
    if (mr_lua_wake(f) == MR_DEADLOCK) return MR_EDEADLOCK;
  }
  return MR_OK;
}

int mr_host_join(mr_proc *h) { return wait_for_all(h, 0); }

void mr_host_leave(mr_proc *h) { atomic_store(&h->leaving, 1); }

/* 1: it was the last of all. */
static int unlist(mr_proc *h) {
  port_acquire(&listing);
  for (mr_proc **p = &hosts; *p; p = &(*p)->live_next)
    if (*p == h) {
      *p = h->live_next;
      break;
    }
  port_unlock(&listing);
  return mr_host_exit(&h->job) == 0 && !mr_all.main;
}

void mr_host_close(mr_proc *h) {
  int leaving = atomic_load(&h->leaving);
  if (mr_run_dead() || atomic_load(&h->status) >= PROC_DONE) return;
  port_acquire(&listing);
  nopen--;
  port_unlock(&listing);
  mr_control_ended(h, 0, NULL);                  /* before it waits for what it owns */
  mr_limits_forget(&h->main);                    /* os.exit may have been called inside one */
  mr_strands_abandon(h);                         /* its fibers end with the script: they don't run while it waits here */
  if (!leaving && wait_for_all(h, 1) == MR_EDEADLOCK) mr_report_print(h->text);
  if (h->main.held_from) mr_hooks.mail_back(&h->main.fiber);
  mr_proc_finish(h, PROC_DONE);
  port_acquire(&mr_all.life);
  int last = unlist(h);
  if (last && !leaving) mr_close_down();
  port_unlock(&mr_all.life);
  if (!last) mr_quiet_check();                  /* those who are left may all be waiting */
}

void mr_host_free(mr_proc *h) {
  if (mr_run_dead()) return;
  forget(h);
  mr_late_drop(h);
  if (h->known) mr_known_drop(h);
  mr_seats_leave(&h->job);
  mr_thread_free(h->main.fiber.thread);
  h->main.fiber.thread = NULL;
  mr_release(&h->shared);
  mr_pool_thread_exit();                         /* what this thread kept of records that it gave back */
}
