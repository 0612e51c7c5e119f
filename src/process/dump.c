/*
 * dump: all that can be seen of the program, as a text for stderr: what SIGQUIT gives.
 *
 * The signal's handler only leaves a mark and wakes the monitor; that starts a thread, which may wait for answers - the monitor must not, as it is
 * who sends what runs the signals by which it answers. All processes that are shown are asked first and heard then: parked ones that have to
 * wait for a worker do so at the same time. Who does not answer in time is shown without its stack.
 *
 * In a run that can be repeated an answer would change what follows: who is woken, what malloc gives out. So a forked copy looks at itself, in which nothing
 * else runs; all stacks are read there as they are.
 */
#include "process/info.h"
#include "base/show.h"
#include "heap/pool.h"
#include "observe/trace.h"
#include "port/copies.h"
#include "process/rt.h"
#include "process/text.h"

#include <stdio.h>
#include <stdlib.h>

enum { SHOWN = 300, TRACED = 40, WHO = MR_INFO_NAME + 60 };
#define PATIENCE 2000000000u           /* ns for all answers together */

/* ---- who is shown ---- */

/* Those that run, then those that could, then the others, in the order of their birth. */
static int rank(const mr_info *i) {
  if (i->worker >= 0 || i->status[1] == 'u') return 0;         /* running */
  return i->status[0] == 'r' ? 1 : 2;                          /* ready */
}

static int by_rank(const void *x, const void *y) {
  const mr_info *a = x, *b = y;
  int ra = rank(a), rb = rank(b);
  if (ra != rb) return ra - rb;
  return a->id < b->id ? -1 : a->id > b->id;
}

static const char *who(const mr_info *i, char *buf, size_t size) {
  const char *kind = i->kind == PROC_HOST ? " the main script" : i->kind == PROC_MAIN ? " main" : "";
  char name[MR_INFO_NAME + 20];
  if (i->named) snprintf(buf, size, "#%llu '%s'%s", (unsigned long long)i->id, mr_show(name, sizeof name, i->name), kind);
  else snprintf(buf, size, "#%llu%s", (unsigned long long)i->id, kind);
  return buf;
}

/* ---- its parts ---- */

static void say_workers(mr_text *t, const mr_infos *all) {
  mr_worker_load load[MR_MAX_WORKERS];
  char name[WHO];
  uint64_t up = mr_run_up();
  for (unsigned i = 0, n = mr_worker_loads(load, MR_MAX_WORKERS); i < n; i++) {
    const mr_info *runs = NULL;
    for (size_t k = 0; k < all->n && !runs; k++)
      if (all->at[k].worker == (int)i) runs = &all->at[k];
    if (!load[i].active) continue;
    mr_say(t, "  worker %u: ", i + 1);
    if (runs) mr_say(t, "runs %s", who(runs, name, sizeof name));
    else mr_say(t, "runs nothing");
    if (!mr_replay_on) mr_say(t, ", %u queued, busy %.0f %% of the time", load[i].queued, up ? (double)load[i].busy * 100 / (double)up : 0);
    mr_say(t, "\n");
  }
}

static void say_process(mr_text *t, const mr_info *i, const mr_look *seen) {
  char name[WHO];
  int still = seen->state == LOOK_DONE && seen->status[0] == 'w' && rank(i) == 1;    /* the look before has woken it: it waits all the same */
  const char *waits = still ? seen->waits : i->waits;
  mr_say(t, "  %s: %s", who(i, name, sizeof name), still ? seen->status : i->status);
  if (waits) mr_say(t, " (%s%s%s)", waits, seen->on[0] ? ", " : "", seen->on);
  if (seen->where[0]) mr_say(t, " at %s", seen->where);
  if (seen->where[0] && seen->there > 1) mr_say(t, " (%u fibers there)", seen->there);
  else if (seen->state == LOOK_NEW) mr_say(t, ", has not begun");
  if (!mr_replay_on) mr_say(t, "; cpu %.3f s, ", (double)i->cpu * 1e-9);
  mr_say(t, "%sheap %zu KiB, sent %llu, received %llu", mr_replay_on ? "; " : "", i->heap / 1024, (unsigned long long)i->sent,
         (unsigned long long)i->received);
  if (i->fibers > 1) mr_say(t, ", %u fibers", i->fibers);
  if (i->restarts) mr_say(t, ", restarted %u time%s", i->restarts, i->restarts == 1 ? "" : "s");
  mr_say(t, "\n");
}

/* One that is being looked at is awake for that: what it did is what the look has found. */
typedef struct { mr_asked *asked; mr_look seen; } shown;

static void hear(mr_text *t, const mr_infos *all, shown *s, size_t n, uint64_t deadline) {
  for (size_t i = 0; i < n; i++) {
    if (!s[i].asked) continue;
    mr_asked_wait(s[i].asked, deadline);
    mr_asked_end(s[i].asked, all->at[i].proc, &s[i].seen);
  }
  for (size_t i = 0; i < n; i++) say_process(t, &all->at[i], &s[i].seen);
}

static void say_stacks(mr_text *t, const mr_infos *all, const shown *s, size_t n) {
  size_t traced = 0;
  for (size_t i = 0; i < n; i++) {
    if (rank(&all->at[i]) == 2 || !s[i].seen.text || traced++ >= TRACED) continue;
    mr_say(t, "\n");
    mr_say_text(t, s[i].seen.text);
    mr_say(t, "\n");
  }
  if (traced > TRACED) mr_say(t, "\n… and %zu more traceback%s\n", traced - TRACED, traced - TRACED == 1 ? "" : "s");
}

static int wanted(const mr_info *i) { return rank(i) == 2 ? LOOK_WHERE : LOOK_WHERE | LOOK_TRACE; }

static void ask_all(const mr_infos *all, shown *s, size_t n) {
  mr_moving();                         /* what is claimed is in no queue for a moment: see quiet.c */
  for (size_t i = 0; i < n; i++)
    if (all->at[i].proc) s[i].asked = mr_ask(all->at[i].proc, wanted(&all->at[i]), NULL);
  mr_settled();
}

static void read_all(const mr_infos *all, shown *s, size_t n) {
  mr_running_fiber on[16];             /* on one worker; others block their threads */
  const mr_fiber *running = NULL;
  for (unsigned i = 0, many = mr_running(on, 16); i < many; i++)
    if (on[i].worker >= 0) running = on[i].fiber;
  for (size_t i = 0; i < n; i++)
    if (all->at[i].proc) mr_look_still(all->at[i].proc, wanted(&all->at[i]), running, &s[i].seen);
}

char *mr_dump(void) {
  mr_text t = { .at = NULL };
  mr_infos all;
  mr_totals sum;
  if (mr_proc_infos(&all, 1) != MR_OK) return NULL;
  mr_totals_get(&sum);
  if (all.n) qsort(all.at, all.n, sizeof *all.at, by_rank);
  size_t n = all.n < SHOWN ? all.n : SHOWN;
  shown *s = calloc(n + 1, sizeof *s);
  mr_say(&t, "%zu process%s, up %.1f s; spawned %llu, ended %llu, of these failed %llu\n", sum.processes,
         sum.processes == 1 ? "" : "es", (double)sum.up * 1e-9,
         (unsigned long long)sum.spawned, (unsigned long long)sum.ended, (unsigned long long)sum.failed);
  say_workers(&t, &all);
  if (s) {
    if (mr_replay_on) read_all(&all, s, n);
    else ask_all(&all, s, n);
    mr_say(&t, "processes:\n");
    hear(&t, &all, s, n, port_now() + PATIENCE);
    if (all.n > n) mr_say(&t, "  … and %zu more\n", all.n - n);
    say_stacks(&t, &all, s, n);
    for (size_t i = 0; i < n; i++) free(s[i].seen.text);
  }
  free(s);
  mr_infos_free(&all);
  return t.at;
}

/* ---- SIGQUIT ---- */

static atomic_uint dumping;            /* 1: a thread is about it, 2: and is to do it once more */

static void dump(void *arg) {
  (void)arg;
  do {
    atomic_store(&dumping, 1);
    char *text = mr_dump();            /* stdout is left alone: perhaps it is what the program waits for */
    fprintf(stderr, "mare: SIGQUIT: %s", text ? text : "not enough memory\n");
    free(text);
    mr_trace_leave();                  /* what it woke by its looks is recorded, and what it released is in a cache of its own */
    mr_pool_thread_exit();
  } while (atomic_fetch_sub(&dumping, 1) > 1);
}

/* ---- in a run that can be repeated ---- */

void (*mr_dump_told)(const char *text);

static void dump_aside(void *arg) {
  (void)arg;
  char *text = mr_dump();
  if (mr_dump_told) mr_dump_told(text);
  else fprintf(stderr, "mare: SIGQUIT: %s", text ? text : "not enough memory\n");
}

static void copy_and_dump(void) {
  enum { LONGEST = 5 };                /* seconds */
  if (port_aside(dump_aside, NULL, LONGEST) == 0) return;
  if (!mr_dump_told) fprintf(stderr, "mare: SIGQUIT: it was in the middle of something and can't be looked at; try again\n");
}

void mr_dump_asked(void) {
  mr_run_report();
  if (mr_replay_on) port_event_set(&mr_all.done);
}

void mr_dump_late(void) {
  for (int i = 0; i < 100 && mr_run_reports(0) && mr_job_count() > 0; i++) port_sleep(10000000);
  if (mr_run_reports(0) && mr_run_reports(1)) copy_and_dump();
}

/* ---- by a thread of its own ---- */

/* One at a time; what is asked for while one is made comes after it, once. By the monitor alone. */
void mr_dump_print(void) {
  unsigned none = 0, one = 1;
  if (mr_replay_on) {
    copy_and_dump();
    return;
  }
  if (!atomic_compare_exchange_strong(&dumping, &none, 1)) {
    if (atomic_compare_exchange_strong(&dumping, &one, 2) || one == 2) return;
    atomic_store(&dumping, 1);         /* it has just ended */
  }
  if (port_thread_start(dump, NULL, "mare-dump") != 0) atomic_store(&dumping, 0);
}
