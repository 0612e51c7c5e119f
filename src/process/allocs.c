/*
 * allocs: the heap profile (profile.h). States get another lua_Alloc, which passes everything on and takes a sample now and then; nothing is paid
 * where none is made.
 *
 * Which allocations. After a random number of bytes (exponentially distributed, `interval` on the average) the next one is taken. A block of n bytes is so
 * taken with the probability 1 - exp(-n / interval), and counts for as many blocks as that is the inverse of: sums are right on the average, whatever the
 * sizes. A thread begins with short intervals, which grow with what it has allocated, to `most`: so a short program has samples, too.
 * A block that grows is one that goes and one that comes.
 *
 * What is in use. A process keeps which of its blocks were taken, in a table by address; freed ones are found there. What is left of a process when it ends
 * goes with it, but for the main process, which is what it was at its end. Who frees a block may be another thread than the one in whose stacks it is counted;
 * so these have locks.
 *
 * Where. Lua keeps account of the running instruction only where it may fail, not where it makes a table, for example. Shortly before a sample is due
 * (`LEAD`) mr_hook_watch makes it keep account of each.
 */
#include "process/profile.h"
#include "process/rt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 512, PART = 64, LEAD = 8, LEAD_LEAST = 512, FIRST_SLOTS = 16 };

typedef struct { mr_stacks *in; double objects; size_t size; uint32_t node; } taken;
typedef struct mr_allocs {
  lua_Alloc alloc;                   /* what is below */
  void *ud;
  mr_proc *proc;
  size_t used, slots;                /* of the table; a power of two, or 0 */
  void **key;                        /* open addressing; NULL: free */
  taken *value;
} mr_allocs;

static double most;                  /* bytes */
/* When this thread takes the next sample. */
static PORT_TLS struct { ptrdiff_t left; ptrdiff_t rest; int watching; double interval, total; uint64_t seed; } due;

/* ---- which blocks were taken ---- */

static size_t slot_of(const mr_allocs *a, const void *p) {
  return (size_t)(((uint64_t)(uintptr_t)p * 0x9E3779B97F4A7C15u) >> 20) & (a->slots - 1);
}

static int grow(mr_allocs *a) {
  mr_allocs old = *a;
  size_t n = old.slots ? 2 * old.slots : FIRST_SLOTS;
  void **key = calloc(n, sizeof *key);
  taken *value = malloc(n * sizeof *value);
  if (!key || !value) {
    free(key);
    free(value);
    return 0;
  }
  a->key = key;
  a->value = value;
  a->slots = n;
  for (size_t i = 0; i < old.slots; i++) {
    if (!old.key[i]) continue;
    size_t at = slot_of(a, old.key[i]);
    while (key[at]) at = (at + 1) & (n - 1);
    key[at] = old.key[i];
    value[at] = old.value[i];
  }
  free(old.key);
  free(old.value);
  return 1;
}

static void keep(mr_allocs *a, void *p, const taken *v) {
  if (2 * (a->used + 1) > a->slots && !grow(a)) return;      /* no memory: it stays counted as in use */
  size_t at = slot_of(a, p);
  while (a->key[at]) at = (at + 1) & (a->slots - 1);
  a->key[at] = p;
  a->value[at] = *v;
  a->used++;
}

/* Those behind a free slot that would not be found any more move up. */
static void close_gap(mr_allocs *a, size_t gap) {
  size_t mask = a->slots - 1;
  for (size_t at = (gap + 1) & mask; a->key[at]; at = (at + 1) & mask) {
    size_t home = slot_of(a, a->key[at]);
    if (((at - home) & mask) < ((at - gap) & mask)) continue;
    a->key[gap] = a->key[at];
    a->value[gap] = a->value[at];
    gap = at;
  }
  a->key[gap] = NULL;
}

/* 1: p was taken, and is no longer kept; *v is what is known of it. */
static inline int take(mr_allocs *a, const void *p, taken *v) {
  if (!a->used) return 0;
  size_t at = slot_of(a, p);
  while (a->key[at] != p) {
    if (!a->key[at]) return 0;
    at = (at + 1) & (a->slots - 1);
  }
  *v = a->value[at];
  close_gap(a, at);
  a->used--;
  return 1;
}

/* ---- counting ---- */

static void in_use(const taken *v, double sign) {
  if (mr_run_dead()) return;                     /* a forked child: who had the lock is not there */
  port_acquire(&v->in->lock);
  v->in->node[v->node].value[2] += sign * v->objects;
  v->in->node[v->node].value[3] += sign * v->objects * (double)v->size;
  port_unlock(&v->in->lock);
}

/* ---- taking samples ---- */

/* In (0, 1). */
static double chance(void) {
  if (!due.seed) due.seed = port_entropy() | 1;
  due.seed ^= due.seed << 13;
  due.seed ^= due.seed >> 7;
  due.seed ^= due.seed << 17;
  return ((double)(due.seed >> 11) + 0.5) / 9007199254740992.0;
}

static void watch(const mr_thread *t, int on) {
  mr_fiber *f = t ? atomic_load_explicit(&t->current, memory_order_relaxed) : NULL;
  due.watching = on;
  if (f && mr_lua_of(f)->top) mr_hook_watch(mr_lua_of(f)->top, on);
}

static void plan(void) {
  double interval = due.total / PART;
  if (interval < LEAST) interval = LEAST;
  if (interval > most) interval = most;
  double next = -log(chance()) * interval, lead = interval / LEAD + LEAD_LEAST;
  due.interval = interval;
  due.left = (ptrdiff_t)(next > lead ? next - lead : 0);
  due.rest = (ptrdiff_t)(next > lead ? lead : next);
}

static uint32_t stack_of(const mr_allocs *a, mr_stacks *s, mr_thread *t) {
  mr_fiber *f = atomic_load_explicit(&t->current, memory_order_relaxed);
  if (!f || mr_proc_of(f) != a->proc)            /* what somebody else sends is unpacked there */
    return mr_stacks_enter(s, mr_profile_root(s, a->proc), mr_stacks_function(s, "", 0, -1, "(messages)"), -1);
  return mr_profile_stack(s, a->proc, f, mr_lua_of(f)->top);
}

/* due.left is below 0. 1: this allocation, of n bytes, is taken. Before it is made: the stack may be what moves. */
static PORT_NOINLINE int sample(const mr_allocs *a, size_t n, taken *v) {
  mr_thread *t = mr_this_thread;
  mr_own *o = t && !mr_run_dead() ? mr_kit_of(t)->own : NULL;
  int taken = 0;
  if (due.interval > 0) {
    if (!due.watching) {
      watch(t, 1);
      due.left += due.rest;
      if (due.left >= 0) return 0;
    }
    v->in = o ? o->stacks[PROFILE_HEAP] : NULL;
    if (v->in) {
      port_acquire(&v->in->lock);
      v->node = stack_of(a, v->in, t);
      port_unlock(&v->in->lock);
      v->size = n;
      v->objects = 1 / -expm1(-(double)n / due.interval);
      taken = 1;
    }
    due.total += due.interval;
  }
  plan();
  watch(t, due.left == 0);                       /* once more, if it goes on: what has fired is gone */
  return taken;
}

static void count(mr_allocs *a, void *p, const taken *v) {
  mr_stack_node *node = &v->in->node[v->node];
  port_acquire(&v->in->lock);
  node->value[0] += v->objects;
  node->value[1] += v->objects * (double)v->size;
  port_unlock(&v->in->lock);
  in_use(v, 1);
  keep(a, p, v);
}

/* ---- the allocator ---- */

/* Of a block that there is already, or with a sample. */
static PORT_NOINLINE void *change(mr_allocs *a, void *ptr, size_t osize, size_t nsize, const taken *new) {
  taken old;
  int known = ptr && take(a, ptr, &old);
  void *p = a->alloc(a->ud, ptr, osize, nsize);
  if (known && !p && nsize) {                    /* nothing has changed */
    keep(a, ptr, &old);
  } else if (known && nsize && nsize <= osize) { /* it has shrunk */
    in_use(&old, -1);
    old.size = nsize;
    in_use(&old, 1);
    keep(a, p, &old);
  } else if (known) {
    in_use(&old, -1);
  }
  if (new && p) count(a, p, new);
  return p;
}

static void *alloc_watched(void *ud, void *ptr, size_t osize, size_t nsize) {
  mr_allocs *a = ud;
  taken new;
  if (!ptr) {
    if (PORT_LIKELY((due.left -= (ptrdiff_t)nsize) >= 0) || !nsize || !sample(a, nsize, &new)) return a->alloc(a->ud, NULL, osize, nsize);
    return change(a, NULL, osize, nsize, &new);
  }
  if (!nsize && (!a->used || !a->key[slot_of(a, ptr)])) return a->alloc(a->ud, ptr, osize, 0);
  if (nsize > osize && PORT_UNLIKELY((due.left -= (ptrdiff_t)nsize) < 0) && sample(a, nsize, &new)) return change(a, ptr, osize, nsize, &new);
  return change(a, ptr, osize, nsize, NULL);
}

/* ---- processes ---- */

void mr_allocs_start(size_t bytes) { most = (double)bytes; }

void mr_allocs_watch(mr_proc *p) {
  mr_allocs *a = calloc(1, sizeof *a);
  if (!a) return;
  a->proc = p;
  a->alloc = lua_getallocf(p->main.L, &a->ud);
  lua_setallocf(p->main.L, alloc_watched, a);
}

void mr_allocs_leave(mr_proc *p) {
  void *ud;
  if (lua_getallocf(p->main.L, &ud) != alloc_watched) return;
  mr_allocs *a = ud;
  lua_setallocf(p->main.L, a->alloc, a->ud);
  for (size_t i = 0; i < a->slots && p->kind != PROC_MAIN; i++)
    if (a->key[i]) in_use(&a->value[i], -1);
  free(a->key);
  free(a->value);
  free(a);
}
