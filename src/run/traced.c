/* traced: see traced.h. */
#include "run/rt.h"
#include "run/traced.h"

static uint64_t key_of(const mr_fiber *f, unsigned number) {
  return (f->job->id & ((UINT64_C(1) << (MR_TRACE_KEY - 16)) - 1)) << 16 | (number & 0xffff);
}

static uint64_t key(const mr_fiber *f) {
  const char *name;
  return key_of(f, PORT_LIKELY(f == f->job->first) ? 0 : mr_run_body.describe(f, &name));
}

/* Its name, once in each epoch: a job's in its first fiber's, which stands for it. */
static PORT_NOINLINE void name(const mr_fiber *f, unsigned epoch) {
  const char *text = NULL;
  const mr_fiber *first = f->job->first;
  f->job->traced = (unsigned char)epoch;
  mr_run_body.describe(first, &text);
  if (text) mr_trace_named(key_of(first, 0), text);
}

void mr_traced_run(mr_fiber *f) {
  unsigned epoch = mr_trace_epoch();
  if (PORT_UNLIKELY(f->job->traced != epoch)) name(f, epoch);
  mr_trace_run(key(f));
}

static unsigned how(const mr_fiber *f) {
  switch (f->sysyield) {
    case SYS_PARK: return mr_trace_op(f->op);
    case SYS_PREEMPTED: return TRACE_PREEMPTED;
    default: return TRACE_GAVE_WAY;
  }
}

int mr_traced_resume(mr_fiber *f) {
  mr_traced_run(f);
  int r = mr_run_body.resume(f);
  mr_trace_pause(r == BODY_YIELDS ? how(f) : TRACE_ENDED);
  return r;
}

void mr_traced_pause(const mr_fiber *f) {
  mr_trace_pause(mr_trace_op(f->op));
  mr_trace_idle();
}

void mr_traced_woken(const mr_fiber *f, mr_reason why) { mr_trace_woken(key(f), why); }

void mr_traced_born(const mr_fiber *f) {
  const char *text = NULL;
  unsigned number = mr_run_body.describe(f, &text);
  mr_trace_born(key_of(f, number));
  if (number && text) mr_trace_named(key_of(f, number), text);
}

void mr_traced_ended(const mr_fiber *f, int failed, const char *why) { mr_trace_ended(key(f), failed, why); }
