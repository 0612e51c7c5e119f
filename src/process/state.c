/*
 * state: where a process's lua_State comes from and where it goes.
 *
 * A new state is cloned from the image if there is one, else opened. At the end a state in which nothing can have a
 * finaliser, or only shared objects have one, is dropped as it is; otherwise lua_close runs the finalisers while frees are no-ops. Then, if it came from the
 * image, it is rewound and kept by the worker for the next process, which finds nothing of the last one.
 *
 * What is kept for a worker belongs to its holder; a thread that lost its worker drops its state instead.
 */
#include "process/rt.h"
#include "process/profile.h"
#include "lua/probe.h"

#include <stdlib.h>

mr_state_hooks mr_hooks;
atomic_int mr_recycle = MR_KEEP;
static mr_image *image;
static struct { _Alignas(PORT_CACHELINE) int n; mr_spare state[MR_KEEP]; } kept[MR_MAX_WORKERS];   /* by worker: rewound states, hottest last */

void mr_state_setup(void) {
  if (!image && !getenv("MARE_NO_IMAGE")) image = mr_image_new(mr_hooks.open);
}

static int open_state(mr_proc *p, lua_Alloc alloc) {
  p->heap = mr_heap_new(0);
  if (!p->heap) return MR_ENOMEM;
  p->main.L = mr_hooks.open(alloc, p->heap);
  if (p->main.L) return MR_OK;
  mr_heap_drop(p->heap);
  p->heap = NULL;
  return MR_ENOMEM;
}

static int limit(mr_proc *p) {
  if (!p->budget) {
    mr_heap_limit(p->heap, p->limit);
    return MR_OK;
  }
  p->charged -= MR_HEAP_BYTES;                   /* they are the heap's now */
  if (mr_heap_budget(p->heap, p->budget, MR_HEAP_BYTES, p->limit)) return MR_OK;
  if (p->system_heap) lua_close(p->main.L);
  mr_heap_drop(p->heap);
  p->main.L = NULL;
  p->heap = NULL;
  return MR_ENOMEM;
}

static int get(unsigned worker, mr_proc *p) {
  if (p->system_heap) {
    if (open_state(p, mr_heap_alloc_system) != MR_OK) return MR_ENOMEM;
  } else if (kept[worker].n > 0) {
    mr_spare *s = &kept[worker].state[--kept[worker].n];
    p->main.L = s->L;
    p->heap = s->heap;
  } else if (image) {
    p->main.L = mr_image_clone(image, &p->heap);
    if (!p->main.L) return MR_ENOMEM;
  } else if (open_state(p, mr_heap_alloc) != MR_OK) {
    return MR_ENOMEM;
  }
  *mr_lua_word(p->main.L) = (uintptr_t)p;
  mr_heap_show(p->heap, &p->held);
  if (p->limit) return limit(p);
  return MR_OK;
}

int mr_state_get(unsigned worker, mr_proc *p) {
  int err = get(worker, p);
  if (PORT_UNLIKELY(mr_profiling & 1 << PROFILE_HEAP) && !err) mr_allocs_watch(p);
  return err;
}

/* Nearly all have only shared objects, which can be let go of at once: lua_close looks at every object of the state three times, one by one. */
static int must_close(const mr_proc *p, lua_State *L) {
  if (p->system_heap) return 1;                  /* blocks from malloc are freed one by one */
  if (!p->finalisers && !mr_hooks.finalisers(L)) return 0;
  return !mr_hooks.let_go || !mr_hooks.let_go(L);
}

/* Runs what has to run in the state at its end; after it the state is only bytes. */
void mr_state_close(mr_proc *p, int killed, mr_spare *left) {
  lua_State *L = p->main.L;
  if (PORT_UNLIKELY(mr_profiling & 1 << PROFILE_HEAP)) mr_allocs_leave(p);
  if (killed) mr_finaliser_mute(L);
  left->heap = p->heap;
  left->L = image && !p->system_heap ? L : NULL;   /* NULL: can't be rewound */
  int closes = must_close(p, L);
  p->finalisers = 2;
  if (closes) {
    if (!p->budget) mr_heap_limit(p->heap, 0);
    mr_heap_dying(p->heap);
    lua_close(L);
  }
  if (PORT_UNLIKELY(p->budget != NULL)) mr_heap_unbudget(p->heap);
  mr_heap_show(p->heap, NULL);
  atomic_store_explicit(&p->held, 0, memory_order_relaxed);
  p->main.L = NULL;
  p->heap = NULL;
  if (PORT_UNLIKELY(p->late != NULL)) mr_late_drop(p);
}

void mr_state_keep(unsigned worker, mr_spare *s) {
  int keep = atomic_load_explicit(&mr_recycle, memory_order_relaxed), n = kept[worker].n;
  if (s->L && n < keep && n < MR_KEEP) {
    mr_image_rewind(image, s->heap);
    kept[worker].state[kept[worker].n++] = *s;
  } else {
    mr_heap_drop(s->heap);
  }
}

void mr_state_drop(mr_spare *s) { mr_heap_drop(s->heap); }

void mr_state_flush(unsigned worker) {
  while (kept[worker].n > 0) mr_heap_drop(kept[worker].state[--kept[worker].n].heap);
}

/* A state that is no clone is elsewhere: then a few lines come for nothing, which costs less than to look. */
void mr_state_prefetch(const mr_lua *l) {
  const char *L = (const char *)l->L, *stack = l->hint;
  for (int i = 0; i < 4; i++) PORT_PREFETCH(L + i * PORT_CACHELINE);
  for (int i = 0; stack && i < 4; i++) PORT_PREFETCH(stack + i * PORT_CACHELINE);
  if (image) mr_image_prefetch(image, l->L);
}
