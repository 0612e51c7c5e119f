/*
 * deadlock: what happens when nothing can ever run again (run/quiet.c notices), and the report of who waits for what.
 *
 * Under `mare run` the program ends; else every host, or the main process of an interactive session, gets the report as an error where it waits. Nothing runs then, so the report may read
 * every parked state.
 */
#include "process/rt.h"
#include "process/strand.h"
#include "process/text.h"
#include "base/embedded.h"
#include "base/show.h"
#include "observe/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

atomic_int mr_prompts;

static mr_proc *next_host(const mr_job *j) { return j ? mr_proc_of_job(j) : NULL; }

static void keep_report(mr_proc *p, const char *report) {
  free(p->text);
  p->text = report ? mr_text_copy(report) : NULL;
}

/* One whose wait was claimed already goes on by itself. */
static int tell_prompt(mr_fiber **told) {
  mr_fiber *f = &mr_all.main->main.fiber;
  if (!mr_fiber_claim(f)) return 0;
  char *report = mr_deadlock_report();
  keep_report(mr_all.main, report);
  free(report);
  told[0] = f;
  return 1;
}

/* There is a session whose first fiber may go on. */
static int prompts(void) { return atomic_load(&mr_prompts) && mr_all.main && atomic_load(&mr_all.main->main.fiber.state) != FIBER_DONE; }

/* (idle lock) */
int mr_deadlock(mr_fiber **told, int most) {
  int n = 0;
  mr_proc *h = next_host(mr_host_first());
  if (atomic_load(&mr_all.deadlocked)) return 0;
  if (!h && prompts()) return tell_prompt(told);
  if (!h) {
    atomic_store(&mr_all.deadlocked, 1);
    port_event_set(&mr_all.done);
    return 0;
  }
  char *report = mr_deadlock_report();
  for (; h && n < most; h = next_host(h->job.next)) {
    if (!mr_wait_claim(&h->job.fiber->wait)) continue;
    keep_report(h, report);
    told[n++] = h->job.fiber;
  }
  free(report);
  if (n == 0) port_event_set(&mr_all.done);
  return n;
}

/* ---- the report ---- */

enum { SHOWN = 40, LEVELS = 50 };            /* at most: fibers of the report, frames in which a line of the program is looked for */

typedef struct { mr_text text; size_t count; } report;

static const char *who(const mr_proc *p, char *buf, size_t size) {
  char name[64];
  if (p->kind == PROC_HOST) snprintf(buf, size, "the main script");
  else if (p->kind == PROC_MAIN) snprintf(buf, size, "main (#%llu)", (unsigned long long)p->job.id);
  else if (p->name) snprintf(buf, size, "'%s' (#%llu)", mr_show(name, sizeof name, p->name), (unsigned long long)p->job.id);
  else snprintf(buf, size, "process #%llu", (unsigned long long)p->job.id);
  return buf;
}

/* The innermost line of the program; of mare's own files only if there is no other. */
static void where(report *o, lua_State *L) {
  lua_Debug ar;
  char own[LUA_IDSIZE + 16] = "";
  for (int level = 0; L && level < LEVELS && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0) continue;
    if (!mr_own_source(ar.source)) {
      mr_say(&o->text, " at %s:%d", ar.short_src, ar.currentline);
      return;
    }
    if (!*own) snprintf(own, sizeof own, " at %s:%d", ar.short_src, ar.currentline);
  }
  mr_say(&o->text, "%s", own);
}

static void describe_fiber(mr_fiber *f, void *ud) {
  report *o = ud;
  mr_proc *p = mr_proc_of(f);
  char name[96], fiber[96] = "", what[128] = " ";
  if (o->count++ >= SHOWN) return;
  mr_fiber_describe(f, fiber, sizeof fiber);
  if (f->on && f->on->type == mr_proc_type) {
    char other[96];
    snprintf(what, sizeof what, " for %s", who((mr_proc *)f->on, other, sizeof other));
  } else if (!mr_describe_on(f, what + 1, sizeof what - 1)) {
    what[0] = 0;
  }
  mr_say(&o->text, "  %s%s: %s%s", who(p, name, sizeof name), fiber, mr_fiber_op(f) ? mr_fiber_op(f) : "waits", what);
  where(o, mr_lua_of(f)->parked_L);
  mr_say(&o->text, "\n");
}

static void describe(mr_proc *p, void *ud) {
  if (atomic_load(&p->status) < PROC_DONE) mr_crew_each(&p->job, describe_fiber, ud);
}

/* Follows "waits for the end of" from every process; a walk longer than there are processes is in a cycle. */
static mr_proc *waits_for(mr_proc *p) {
  mr_fiber *f = &p->main.fiber;
  if (atomic_load(&p->status) >= PROC_DONE || !mr_fiber_op(f) || !f->on || f->on->type != mr_proc_type) return NULL;
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
  report o = { .count = 0 };
  char name[96];
  mr_say(&o.text, "deadlock: every process waits and nothing can wake one\n");
  for (mr_proc *h = next_host(mr_host_first()); h; h = next_host(h->job.next)) describe(h, &o);
  mr_proc_each(describe, &o);
  if (o.count > SHOWN) mr_say(&o.text, "  … and %zu more\n", o.count - SHOWN);
  mr_proc *cycle = NULL;
  mr_proc_each(find_cycle, &cycle);
  if (cycle) {
    mr_proc *p = cycle;
    mr_say(&o.text, "  cycle: ");
    do {
      mr_say(&o.text, "%s -> ", who(p, name, sizeof name));
      p = waits_for(p);
    } while (p != cycle);
    mr_say(&o.text, "%s\n", who(cycle, name, sizeof name));
  }
  return o.text.at;
}

void mr_report_print(const char *text) {
  if (!text) text = "deadlock\n";
  fflush(stdout);
  if (!mr_log_says(MR_LOG_ERROR, 0, NULL, text)) fprintf(stderr, "mare: %s", text);
}
