/*
 * talk: see talk.h.
 *
 * One table for all threads, without locks: who finds a free place takes it by writing its key there, and alone writes the rest; others only add to its
 * count. It is read, and cleared, when nobody is inside: who counts says so first, and then asks whether it is still wanted.
 */
#include "run/body.h"
#include "run/talk.h"

#include <string.h>

enum { PROBES = 16 };

typedef struct place { _Atomic uint64_t key, n; mr_talk talk; } place;
static place places[MR_TALK_MOST];
static _Atomic uint64_t lost;
static atomic_uint inside;

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

/* The place with that key, perhaps made now; NULL: there is no room near. */
static place *place_of(uint64_t key, int *made) {
  *made = 0;
  for (unsigned i = 0; i < PROBES; i++) {
    place *p = &places[(key + i) % MR_TALK_MOST];
    uint64_t was = 0;
    if (atomic_compare_exchange_strong(&p->key, &was, key)) *made = 1;
    if (*made || was == key) return p;
  }
  return NULL;
}

/*
 * What a fiber waits for is written after it is queued, and stays until it goes on: once it is PARKED others may read it. In what it waits anybody may read;
 * where that is not written yet, it isn't known which of the two has sent.
 */
static void add(const mr_fiber *f, const mr_fiber *near) {
  int parked = atomic_load_explicit(&f->state, memory_order_acquire) == FIBER_PARKED, made;
  const char *waits = mr_fiber_op(f);
  const struct mr_shared *on = parked ? f->on : NULL;
  if (!waits) {
    atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
    return;
  }
  int back = strcmp(waits, "send") == 0;         /* it is the sender that waited: the message goes to who woke it */
  uint64_t from = back ? f->job->id : near->job->id, to = back ? near->job->id : f->job->id;
  place *p = place_of(mix(mix(mix(0, from), to), (uint64_t)(uintptr_t)on) | 1, &made);
  if (made) {
    p->talk = (mr_talk){ .from = from, .to = to, .waits = waits };
    if (on) mr_run_body.describe_on(f, p->talk.on, sizeof p->talk.on);
  }
  atomic_fetch_add_explicit(p ? &p->n : &lost, 1, memory_order_relaxed);
}

void mr_talk_woken(const mr_fiber *f, const mr_fiber *near) {
  atomic_fetch_add(&inside, 1);
  if (atomic_load(&mr_tracing) & MR_TRACING_TALK) add(f, near);
  atomic_fetch_sub(&inside, 1);
}

void mr_talk_begin(void) { atomic_fetch_or(&mr_tracing, MR_TRACING_TALK); }

unsigned mr_talk_end(mr_talk out[MR_TALK_MOST], uint64_t *left_out) {
  unsigned n = 0;
  atomic_fetch_and(&mr_tracing, ~MR_TRACING_TALK);
  while (atomic_load(&inside) > 0) port_sleep(10000);
  for (unsigned i = 0; i < MR_TALK_MOST; i++) {
    place *p = &places[i];
    if (!atomic_load(&p->key)) continue;
    out[n] = p->talk;
    out[n++].n = atomic_load(&p->n);
    atomic_store(&p->n, 0);
    atomic_store(&p->key, 0);
  }
  *left_out = atomic_exchange(&lost, 0);
  return n;
}
