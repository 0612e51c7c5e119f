/* traced: see traced.h. */
#include "run/rt.h"
#include "run/traced.h"
#include "base/shared.h"
#include "observe/tracer.h"

/* Of the id the last 36 bits fit in a record. */
static uint64_t key_of(const mr_fiber *f, unsigned number) { return f->job->id << 16 | (number & 0xffff); }

static inline uint64_t key(const mr_fiber *f) {
  const char *name;
  return key_of(f, PORT_LIKELY(!f->crew) || f == f->job->first ? 0 : mr_run_body.describe(f, &name));
}

/* Its name, once in each epoch: a job's in its first fiber's, which stands for it. */
static PORT_NOINLINE void name(const mr_fiber *f, unsigned epoch) {
  const char *text = NULL;
  const mr_fiber *first = f->job->first;
  f->job->traced = (unsigned char)epoch;
  mr_run_body.describe(first, &text);
  if (text) mr_trace_named(key_of(first, 0), text);
}

static PORT_NOINLINE void begin_slowly(mr_fiber *f) {
  unsigned epoch = mr_trace_epoch();
  if (f->job->traced != epoch) name(f, epoch);
  mr_trace_run(key(f));
}

/* What happens rarely is in functions of its own, or the way of a hop would have to save registers for it. */
static inline void begin(mr_fiber *f) {
  if (PORT_UNLIKELY(f->crew != NULL) || PORT_UNLIKELY(f->job->traced != mr_trace_epoch()) || PORT_UNLIKELY(!mr_trace_run_passed(key_of(f, 0)))) begin_slowly(f);
}

void mr_traced_run(mr_fiber *f) { begin(f); }

/* What it waits for. It has been claimed, perhaps, but what it waits for stays until it goes on. */
static PORT_NOINLINE unsigned new_number(const mr_fiber *f) {
  char text[128] = "";
  mr_run_body.describe_on(f, text, sizeof text);
  unsigned traced = mr_trace_numbered(text);
  atomic_store_explicit(&f->on->traced, traced, memory_order_relaxed);
  return traced & 0xffff;
}

static inline unsigned known_number(const mr_fiber *f) {
  return f->on ? mr_trace_number(atomic_load_explicit(&f->on->traced, memory_order_relaxed)) : 0;
}

static void pause_in(const mr_fiber *f) {
  unsigned n = known_number(f);
  mr_trace_pause_in(f->op, n > 0xffff ? new_number(f) : n);
}

static PORT_NOINLINE int paused_slowly(const mr_fiber *f, int how) {
  if (how != BODY_YIELDS) mr_trace_pause(TRACE_ENDED);
  else if (f->sysyield == SYS_PARK) pause_in(f);
  else mr_trace_pause(f->sysyield == SYS_PREEMPTED ? TRACE_PREEMPTED : TRACE_GAVE_WAY);
  return how;
}

int mr_traced_resume(mr_fiber *f) {
  begin(f);
  int how = mr_run_body.resume(f);
  unsigned n;
  if (PORT_LIKELY(how == BODY_YIELDS) && PORT_LIKELY(f->sysyield == SYS_PARK) && PORT_LIKELY((n = known_number(f)) <= 0xffff) &&
      PORT_LIKELY(mr_trace_pause_again(f->op, n))) return BODY_YIELDS;
  return paused_slowly(f, how);
}

void mr_traced_left(void) {
  mr_trace_pause(TRACE_ENDED);
  mr_trace_idle();
}

void mr_traced_pause(const mr_fiber *f) {
  pause_in(f);
  mr_trace_idle();
}

static PORT_NOINLINE void woken_slowly(const mr_fiber *f, mr_reason why, int next) { mr_trace_woken(key(f), why, next); }

/* What a reason other than MR_WOKEN is is told at once. */
void mr_traced_woken(const mr_fiber *f, mr_reason why, int next) {
  next = next && why == MR_WOKEN;
  if (PORT_LIKELY(!f->crew)) mr_trace_woken(key_of(f, 0), why, next);
  else woken_slowly(f, why, next);
}

void mr_traced_born(const mr_fiber *f) {
  const char *text = NULL;
  unsigned number = mr_run_body.describe(f, &text);
  mr_trace_born(key_of(f, number));
  if (number && text) mr_trace_named(key_of(f, number), text);
}

void mr_traced_ended(const mr_fiber *f, int failed, const char *why) { mr_trace_ended(key(f), failed, why); }
