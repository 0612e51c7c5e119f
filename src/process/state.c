/*
 * state: where a process's lua_State comes from and where it goes.
 *
 * A new state is cloned from the image if there is one, else opened. At the end a state in which nothing can have a
 * finaliser is dropped as it is; otherwise lua_close runs the finalisers while frees are no-ops. Then, if it came from the
 * image, it is rewound and kept by the worker for the next process, which finds nothing of the last one.
 *
 * kept[] belongs to the worker's holder; a thread that lost its worker drops its state instead.
 */
#include "process/rt.h"

#include <stdlib.h>

mr_state_hooks mr_hooks;
atomic_int mr_recycle = MR_KEEP;
static mr_image *image;

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

int mr_state_get(mr_worker *w, mr_proc *p) {
  if (p->system_heap) {
    if (open_state(p, mr_heap_alloc_system) != MR_OK) return MR_ENOMEM;
  } else if (w->nkept > 0) {
    mr_spare *s = &w->kept[--w->nkept];
    p->main.L = s->L;
    p->heap = s->heap;
  } else if (image) {
    p->main.L = mr_image_clone(image, &p->heap);
    if (!p->main.L) return MR_ENOMEM;
  } else if (open_state(p, mr_heap_alloc) != MR_OK) {
    return MR_ENOMEM;
  }
  *(mr_proc **)lua_getextraspace(p->main.L) = p;
  if (p->limit) mr_heap_limit(p->heap, p->limit);
  return MR_OK;
}

/* Runs what has to run in the state at its end; after it the state is only bytes. */
void mr_state_close(mr_proc *p, mr_spare *left) {
  lua_State *L = p->main.L;
  int finalisers = p->finalisers || mr_hooks.finalisers(L);
  left->heap = p->heap;
  left->L = image && !p->system_heap ? L : NULL;   /* NULL: can't be rewound */
  p->finalisers = 2;
  if (finalisers || p->system_heap) {            /* blocks from malloc are freed one by one */
    mr_heap_limit(p->heap, 0);
    mr_heap_dying(p->heap);
    lua_close(L);
  }
  p->main.L = NULL;
  p->heap = NULL;
  if (PORT_UNLIKELY(p->late != NULL)) mr_late_drop(p);
}

void mr_state_recycle(mr_worker *w, mr_spare *s) {
  if (!s->heap) return;
  int keep = atomic_load_explicit(&mr_recycle, memory_order_relaxed);
  if (w && s->L && w->nkept < keep && w->nkept < MR_KEEP) {
    mr_image_rewind(image, s->heap);
    w->kept[w->nkept++] = *s;
  } else {
    mr_heap_drop(s->heap);
  }
  s->heap = NULL;
}

void mr_state_flush(mr_worker *w) {
  while (w->nkept > 0) mr_heap_drop(w->kept[--w->nkept].heap);
}

/*
 * A hand-over touches some 35 cache lines of the receiver. With thousands of processes none of them is in a near cache; asked for
 * when the receiver becomes ready, they come together while the sender goes on, instead of one by one afterwards.
 */
void mr_state_prefetch(const mr_fiber *f) {
  const char *L = (const char *)f->L, *stack = f->hint;
  for (int i = 0; i < 4; i++) PORT_PREFETCH(L + i * PORT_CACHELINE);
  for (int i = 0; i < 3; i++) PORT_PREFETCH(stack + i * PORT_CACHELINE);
  if (image && !f->proc->system_heap) mr_image_prefetch(image, f->proc->heap);
}

/* Where the stack of a running function is; only ever used to prefetch, which can't fault. */
const char *mr_state_hint(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 0, &ar) || !ar.i_ci) return (const char *)L;
  const char *func = *(const char *const *)(const void *)ar.i_ci;
  return func - 2 * PORT_CACHELINE;
}
