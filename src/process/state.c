/*
 * state: where a process's lua_State comes from and where it goes.
 *
 * A new state is cloned from the image if there is one, else opened. At the end a state in which nothing can have a
 * finaliser, or only shared objects have one, is dropped as it is; otherwise lua_close runs the finalisers while frees are no-ops.
 * Then, if it came from the image, it is kept by the worker for the next process, for which it is rewound: that finds nothing of the last one.
 *
 * Most processes run one of a few functions. So a worker counts what its processes start with, and makes images that hold the functions which
 * come often, each on the stack of the state: they are known by their code, to which the worker has a reference, and needn't be loaded again.
 * There are FUNCTIONS such images at most, for a function that isn't met any more gives way to others.
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

enum { FUNCTIONS = 4, OFTEN = 8, MOST = 64 };

/* `worth`: how often it was met, MOST at most, less what others needed its place. */
typedef struct function { mr_shared *code; mr_image *image; unsigned char worth, unfit; } function;

/* By worker: states that were left, hottest last, those with larger chunks apart; the functions, and which of those is asked next to give way. */
static struct {
  _Alignas(PORT_CACHELINE) int n[2];
  unsigned next;
  function function[FUNCTIONS];
  mr_spare state[2][MR_KEEP];
} kept[MR_MAX_WORKERS];

static int is_larger(unsigned kind) { return kind != mr_image_kind(image); }

void mr_state_setup(void) {
  if (!image && !getenv("MARE_NO_IMAGE")) image = mr_image_new(mr_hooks.open);
}

/* ---- functions that are started often ---- */

static void forget(function *f) {
  if (f->image) mr_image_free(f->image);
  if (f->code) mr_release(f->code);
  *f = (function){ 0 };
}

static int load(lua_State *L, void *code) { return mr_function_load(L, code); }

/* f was met once more, by p. A process that may not hold what is in its image is to fail while it loads the function. */
static const mr_image *met(function *f, const mr_proc *p) {
  if (f->worth < MOST) f->worth++;
  if (!f->image && f->worth >= OFTEN && !f->unfit) {
    f->image = mr_image_with(image, load, f->code);
    f->unfit = !f->image;
  }
  return f->image && (!p->limit || p->limit >= mr_image_used(f->image)) ? f->image : image;
}

static const mr_image *met_first(unsigned worker, mr_shared *code) {
  function *f = &kept[worker].function[kept[worker].next++ % FUNCTIONS];
  if (f->worth > 0) {
    f->worth--;
    return image;
  }
  forget(f);
  mr_retain(code);
  f->code = code;
  f->worth = 1;
  return image;
}

/* For a process that starts with a message. */
static const mr_image *image_for(unsigned worker, const mr_proc *p) {
  mr_shared *code = p->start ? mr_message_function(p->start) : NULL;
  if (!code) return image;
  for (int i = 0; i < FUNCTIONS; i++)
    if (kept[worker].function[i].code == code) return met(&kept[worker].function[i], p);
  return met_first(worker, code);
}

/* ---- birth ---- */

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

/* From an image; 0: no memory. */
static int take(unsigned worker, mr_proc *p) {
  const mr_image *from = image_for(worker, p);
  int larger = is_larger(mr_image_kind(from));
  if (kept[worker].n[larger] == 0) return (p->main.L = mr_image_clone(from, &p->heap)) != NULL;
  mr_spare *s = &kept[worker].state[larger][--kept[worker].n[larger]];
  p->main.L = s->L;
  p->heap = s->heap;
  mr_image_rewind(from, p->heap);
  return 1;
}

static int get(unsigned worker, mr_proc *p) {
  if (p->system_heap) {
    if (open_state(p, mr_heap_alloc_system) != MR_OK) return MR_ENOMEM;
  } else if (image) {
    if (!take(worker, p)) return MR_ENOMEM;
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
  if (PORT_UNLIKELY(mr_profile_heap()) && !err) mr_allocs_watch(p);
  return err;
}

/* ---- end ---- */

/* Nearly all have only shared objects, which can be let go of at once: lua_close looks at every object of the state three times, one by one. */
static int must_close(const mr_proc *p, lua_State *L) {
  if (p->system_heap) return 1;                  /* blocks from malloc are freed one by one */
  if (!p->finalisers && !mr_hooks.finalisers(L)) return 0;
  return !mr_hooks.let_go || !mr_hooks.let_go(L);
}

/* Runs what has to run in the state at its end; after it the state is only bytes. */
void mr_state_close(mr_proc *p, int killed, mr_spare *left) {
  lua_State *L = p->main.L;
  if (PORT_UNLIKELY(mr_profile_heap())) mr_allocs_leave(p);
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

static void drop_kept(unsigned worker, int larger) { mr_image_drop(kept[worker].state[larger][--kept[worker].n[larger]].heap); }

/* Where there is no more room, one of the others goes: they may be of no use any more. */
void mr_state_keep(unsigned worker, mr_spare *s) {
  int keep = atomic_load_explicit(&mr_recycle, memory_order_relaxed), *n = kept[worker].n;
  int larger = s->L && is_larger(mr_image_kind_of(s->heap)), full = n[0] + n[1] >= keep;
  if (!s->L || keep == 0 || (full && n[!larger] == 0)) {
    mr_heap_drop(s->heap);
    return;
  }
  if (full) drop_kept(worker, !larger);
  mr_image_leave(s->heap);
  kept[worker].state[larger][n[larger]++] = *s;
}

void mr_state_drop(mr_spare *s) { mr_heap_drop(s->heap); }

void mr_state_flush(unsigned worker) {
  for (int larger = 0; larger < 2; larger++)
    while (kept[worker].n[larger] > 0) drop_kept(worker, larger);
  for (int i = 0; i < FUNCTIONS; i++) forget(&kept[worker].function[i]);
}

/* A state that is no clone is elsewhere: then a few lines come for nothing, which costs less than to look. */
void mr_state_prefetch(const mr_lua *l) {
  const char *L = (const char *)l->L, *stack = l->hint;
  for (int i = 0; i < 4; i++) PORT_PREFETCH(L + i * PORT_CACHELINE);
  for (int i = 0; stack && i < 4; i++) PORT_PREFETCH(stack + i * PORT_CACHELINE);
  if (image) mr_image_prefetch(image, l->L);
}
