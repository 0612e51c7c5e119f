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

static void *system_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  (void)ud;
  (void)osize;
  if (nsize == 0) {
    free(ptr);
    return NULL;
  }
  return realloc(ptr, nsize);
}

typedef struct { size_t used, limit; } meter;

/* heap = "system" with a limit: the same contract over malloc. */
static void *metered_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  meter *m = ud;
  if (!ptr) osize = 0;
  if (nsize > osize && m->limit && m->used + (nsize - osize) > m->limit) return NULL;
  void *p = system_alloc(NULL, ptr, osize, nsize);
  if (p || nsize == 0) m->used += nsize - osize;
  return p;
}

static int system_state(mr_proc *p) {
  p->heap = NULL;
  if (p->limit) {
    meter *m = calloc(1, sizeof *m);
    if (!m) return MR_ENOMEM;
    p->main.L = mr_hooks.open(metered_alloc, m);
    if (!p->main.L) free(m);
    else m->limit = p->limit;
  } else {
    p->main.L = mr_hooks.open(system_alloc, NULL);
  }
  return p->main.L ? MR_OK : MR_ENOMEM;
}

static int opened_state(mr_proc *p) {
  p->heap = mr_heap_new(0);
  if (!p->heap) return MR_ENOMEM;
  p->main.L = mr_hooks.open(mr_heap_alloc, p->heap);
  if (p->main.L) return MR_OK;
  mr_heap_drop(p->heap);
  p->heap = NULL;
  return MR_ENOMEM;
}

int mr_state_get(mr_worker *w, mr_proc *p) {
  if (p->system_heap) {
    if (system_state(p) != MR_OK) return MR_ENOMEM;
  } else if (w->nkept > 0) {
    mr_spare *s = &w->kept[--w->nkept];
    p->main.L = s->L;
    p->heap = s->heap;
  } else if (image) {
    p->main.L = mr_image_clone(image, &p->heap);
    if (!p->main.L) return MR_ENOMEM;
  } else if (opened_state(p) != MR_OK) {
    return MR_ENOMEM;
  }
  *(mr_proc **)lua_getextraspace(p->main.L) = p;
  if (p->heap && p->limit) mr_heap_limit(p->heap, p->limit);
  return MR_OK;
}

static void close_system(lua_State *L) {
  void *ud;
  lua_Alloc f = lua_getallocf(L, &ud);
  lua_close(L);
  if (f == metered_alloc) free(ud);
}

/* Runs what has to run in the state at its end; after it the state is only bytes. */
void mr_state_close(mr_proc *p, mr_spare *left) {
  lua_State *L = p->main.L;
  int finalisers = p->finalisers || mr_hooks.finalisers(L);
  left->heap = p->heap;
  left->L = image ? L : NULL;                  /* NULL: can't be rewound */
  p->finalisers = 2;
  if (!p->heap) {
    close_system(L);
  } else if (finalisers) {
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
