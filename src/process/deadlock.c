/*
 * deadlock: noticing that nothing can ever run again, and saying who waits for what.
 *
 * Quiet means, under the idle lock: every worker sleeps, no timer is set, nothing outside the program can wake anybody, no thread
 * runs without a worker, nobody has a fiber in hand, nothing is queued, and every host waits without a deadline and has not been
 * woken. Whoever goes to sleep last checks. Nothing runs then, so the report may read every parked state.
 *
 * The order of the reads matters. Who is not counted as busy - a thread in the idle list, one that retires, one that gave
 * its worker away and is about to sleep, the monitor - raises `nmoving` before it takes a fiber out of a slot or the timers,
 * and lowers it when the fiber is queued, or the thread out of the idle list (for which it needs our lock). So if all workers
 * idle (then every slot is empty), timers are read before nmoving and nmoving before the queues, a fiber on its way is seen. So is a
 * process being born: live is read before nmoving.
 */
#include "process/rt.h"
#include "process/crew.h"

#include <lauxlib.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A host that was woken goes on counting as waiting until its thread runs. A fiber of it that waits where Lua can't yield stands on the
 * thread's stack, above the first one: then only that one counts, and gets the report.
 */
static int hosts_wait(mr_runtime *r) {
  for (mr_proc *h = r->host; h; h = h->live_next) {
    mr_fiber *f = h->fiber;
    if (atomic_load(&f->ticket) != f->wait.ticket) return 0;
    if (f == &h->main && mr_crew_state(h) > CREW_IDLE) return 0;
  }
  return 1;
}

static int quiet(mr_runtime *r) {
  if (atomic_load(&r->nidle) != atomic_load(&r->nactive)) return 0;
  if (atomic_load(&r->nhosts) == 0 && atomic_load(&r->live) == 0) return 0;   /* first of all: who spawns raises nmoving, then live */
  atomic_fetch_add(&r->nmoving, 0);              /* a full barrier: slots were found empty by relaxed loads */
  return atomic_load(&r->next_due) == UINT64_MAX && atomic_load(&r->noutside) == 0 && atomic_load(&r->nmoving) == 0 &&
         atomic_load(&r->ndetached) == 0 && !mr_anything_queued() && r->hosts_waiting == atomic_load(&r->nhosts) && hosts_wait(r) &&
         !atomic_load(&r->deadlocked) && !atomic_load(&r->stopping) && !atomic_load(&r->interrupted);
}

void mr_quiet_check(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->nidle) < atomic_load(&r->nactive)) return;
  mr_fiber *wake[16];
  int n = 0;
  port_acquire(&r->ilock);
  int found = quiet(r);
  if (found && atomic_load(&r->nhosts) == 0) {
    atomic_store(&r->deadlocked, 1);
  } else if (found) {
    char *report = mr_deadlock_report();
    for (mr_proc *h = r->host; h && n < 16; h = h->live_next) {
      if (!mr_wait_claim(&h->fiber->wait)) continue;
      free(h->text);
      h->text = report ? mr_text_copy(report) : NULL;
      wake[n++] = h->fiber;
    }
    free(report);
  }
  port_unlock(&r->ilock);
  if (found && n == 0) port_event_set(&r->done);
  for (int i = 0; i < n; i++) mr_ready(wake[i], MR_DEADLOCK, NULL);
}

void mr_settled(void) {
  atomic_fetch_sub(&mr_rt.nmoving, 1);
  mr_quiet_check();
}

/* ---- the report ---- */

#define SHOWN 40

typedef struct { char *text; size_t len, size; size_t count; } report;

static void say(report *o, const char *fmt, ...) {
  va_list ap;
  char line[512];
  va_start(ap, fmt);
  int n = vsnprintf(line, sizeof line, fmt, ap);
  va_end(ap);
  if (n < 0) return;
  if ((size_t)n >= sizeof line) n = sizeof line - 1;
  if (o->len + (size_t)n + 1 > o->size) {
    size_t size = (o->size + (size_t)n + 1) * 2;
    char *text = realloc(o->text, size);
    if (!text) return;
    o->text = text;
    o->size = size;
  }
  memcpy(o->text + o->len, line, (size_t)n + 1);
  o->len += (size_t)n;
}

static const char *who(const mr_proc *p, char *buf, size_t size) {
  if (p->kind == PROC_HOST) snprintf(buf, size, "the main script");
  else if (p->kind == PROC_MAIN) snprintf(buf, size, "main (#%llu)", (unsigned long long)p->id);
  else if (p->name) snprintf(buf, size, "'%.60s' (#%llu)", p->name, (unsigned long long)p->id);
  else snprintf(buf, size, "process #%llu", (unsigned long long)p->id);
  return buf;
}

static void where(report *o, lua_State *L) {
  lua_Debug ar;
  for (int level = 0; L && level < 10 && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline > 0) {
      say(o, " at %s:%d", ar.short_src, ar.currentline);
      return;
    }
  }
}

static void describe_fiber(mr_fiber *f, void *ud) {
  report *o = ud;
  mr_proc *p = f->proc;
  char name[96], fiber[96] = "", what[128] = "";
  if (o->count++ >= SHOWN) return;
  mr_fiber_describe(f, fiber, sizeof fiber);
  if (f->on && f->on->type && f->on->type == mr_proc_type) {
    char other[96];
    snprintf(what, sizeof what, " for %s", who((mr_proc *)f->on, other, sizeof other));
  } else if (f->on && mr_hooks.describe) {
    what[0] = ' ';
    what[1] = 0;
    mr_hooks.describe(f->on, what + 1, sizeof what - 1);
  }
  say(o, "  %s%s: %s%s", who(p, name, sizeof name), fiber, f->op ? f->op : "waits", what);
  where(o, f->parked_L);
  say(o, "\n");
}

static void describe(mr_proc *p, void *ud) {
  if (atomic_load(&p->status) < PROC_DONE) mr_crew_each(p, describe_fiber, ud);
}

/* Follows "waits for the end of" from every process; a walk longer than there are processes is in a cycle. */
static mr_proc *waits_for(mr_proc *p) {
  mr_fiber *f = &p->main;
  if (atomic_load(&p->status) >= PROC_DONE || !f->op || !f->on || f->on->type != mr_proc_type) return NULL;
  return (mr_proc *)f->on;
}

static void find_cycle(mr_proc *p, void *ud) {
  mr_proc **found = ud, *slow = p, *fast = p;
  if (*found) return;
  do {
    slow = waits_for(slow);
    fast = waits_for(fast);
    if (fast) fast = waits_for(fast);
  } while (fast && slow != fast);
  if (fast) *found = fast;
}

char *mr_deadlock_report(void) {
  report o = { NULL, 0, 0, 0 };
  char name[96];
  say(&o, "deadlock: every process waits and nothing can wake one\n");
  for (mr_proc *h = mr_rt.host; h; h = h->live_next) describe(h, &o);
  mr_proc_each(describe, &o);
  if (o.count > SHOWN) say(&o, "  … and %zu more\n", o.count - SHOWN);
  mr_proc *cycle = NULL;
  mr_proc_each(find_cycle, &cycle);
  if (cycle) {
    mr_proc *p = cycle;
    say(&o, "  cycle: ");
    do {
      say(&o, "%s -> ", who(p, name, sizeof name));
      p = waits_for(p);
    } while (p != cycle);
    say(&o, "%s\n", who(cycle, name, sizeof name));
  }
  return o.text;
}

void mr_report_print(const char *text) {
  fflush(stdout);
  fprintf(stderr, "mare: %s", text ? text : "deadlock\n");
}
