/*
 * profile: see profile.h.
 *
 * CPU time. run/profiler.c raises what a thread owes and sends it the preemption signal; the handler arms a hook (hook.c), and that comes by mr_profile_take.
 * So a long call of a C function weighs what it lasted, although nobody can look into it. A fiber that waits or ends before a hook fired pays when it has
 * stopped: it never leaves its time to the next one.
 *
 * Which coroutines are below the running one is not kept anywhere: each that has resumed another is in a C function that has that one as its first argument,
 * or its first upvalue (state/coroutine.c), and so they are found from the fiber's first upwards.
 */
#include "process/profile.h"
#include "process/rt.h"
#include "process/strand.h"
#include "lua/calls.h"
#include "port/errors.h"
#include "port/system.h"
#include "run/profiler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 128, LINKS = 32, NODES = 1 << 15, ALL_NODES = 1 << 18 };

atomic_int mr_profiling;
static atomic_uint session;                      /* of profiles that begin and end: what a signal has left from an earlier one is not of this one */
static int files;                                /* those that are written at the end: 1 << PROFILE_… */
static _Atomic(mr_own *) owns;
static struct { FILE *out; const char *name; } file[PROFILES];
static mr_stack_kind kinds[PROFILES] = {
  { .n = 2, .shown = 1, .scale = 1000, .type = { "samples", "cpu" }, .unit = { "count", "nanoseconds" },
    .period_type = "cpu", .period_unit = "nanoseconds", .period = 1e9 / 200 },
  { .n = 4, .shown = 1, .scale = 1, .type = { "alloc_objects", "alloc_space", "inuse_objects", "inuse_space" },
    .unit = { "count", "bytes", "count", "bytes" }, .period_type = "space", .period_unit = "bytes" },
};

mr_own *mr_own_new(void) {
  mr_own *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  for (int i = 0; i < PROFILES; i++)
    if (mr_profile_on() & 1 << i) o->stacks[i] = mr_stacks_new(NODES);
  o->every = atomic_load(&owns);
  while (!atomic_compare_exchange_weak(&owns, &o->every, o)) { }
  return o;
}

/* ---- what a call is named ---- */

/* 0: a C function without a name: those between Lua and us. */
static uint32_t function_of(mr_stacks *s, lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "Sl", ar);
  if (*ar->what == 'C') {
    char name[80];
    lua_getinfo(L, "n", ar);
    if (!ar->name) return 0;
    snprintf(name, sizeof name, "[C] %s", ar->name);
    return mr_stacks_function(s, "", 0, -1, name);
  }
  const char *source = *ar->source == '@' || *ar->source == '=' ? ar->source + 1 : ar->short_src;
  uint32_t i = mr_stacks_function(s, source, strlen(source), ar->linedefined, "");
  if (i && ar->linedefined > 0 && mr_stacks_nameless(s, i)) {
    lua_getinfo(L, "n", ar);
    mr_stacks_name(s, i, ar->name && *ar->name != '?' ? ar->name : NULL);   /* a debug hook's is "?" */
  }
  return i;
}

/* ---- reading a stack ---- */

static unsigned this_session(void) { return atomic_load_explicit(&session, memory_order_relaxed); }

typedef struct { mr_stacks *s; int n, cut; struct { uint32_t function; int line; } call[DEPTH]; } path;

static void add_call(path *w, lua_State *L, lua_Debug *ar) {
  const mr_own *o = mr_kit_of(mr_this_thread)->own;
  int first = w->n == 0;
  uint32_t function = function_of(w->s, L, ar);
  if (!function && *ar->what == 'C') return;
  w->call[w->n].function = function;
  w->call[w->n].line = ar->currentline;
  if (first && o && o->in_c.L == L && o->in_c.session == this_session() && o->in_c.call == (const void *)ar->i_ci) w->call[w->n].line = mr_call_line(L, ar, o->in_c.saved);
  w->n++;
}

/* The calls of one coroutine, the innermost first. */
static void add_calls(path *w, lua_State *L) {
  lua_Debug ar;
  int more = lua_getstack(L, 0, &ar);
  if (more && mr_call_moves(L, &ar)) return;
  for (int level = 1; more && !w->cut; level++) {
    if (w->n == DEPTH) w->cut = 1;
    else add_call(w, L, &ar);
    more = mr_call_below(L, level, &ar);
  }
}

/* The coroutine that L has resumed, and waits for. Needs a place or two on its stack, which every stack has. */
static lua_State *resumed(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 0, &ar) || mr_call_moves(L, &ar)) return NULL;
  lua_getinfo(L, "S", &ar);
  if (*ar.what != 'C') return NULL;
  lua_State *co = NULL;
  if (lua_getlocal(L, &ar, 1)) {
    co = lua_tothread(L, -1);
    lua_pop(L, 1);
  }
  if (co) return co;
  lua_getinfo(L, "f", &ar);
  if (lua_getupvalue(L, -1, 1)) {
    co = lua_tothread(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return co;
}

/* Is co, which a function of f's has at hand, above it, while f is parked? Its word says so: see state/coroutine.c. */
static int is_parked(lua_State *co) { return (int)(*mr_lua_word(co) & 1); }

/* From the fiber's first coroutine to the one that runs (`top`; NULL: that yielded). How many; 0: more than can be looked at, only `top` then. */
static int chain(const mr_fiber *f, lua_State *top, lua_State *co[LINKS]) {
  lua_State *L = mr_lua_seen(f)->L;
  int n = 0;
  while (L && L != top && n < LINKS - 1) {
    co[n++] = L;
    L = resumed(L);
    if (!top && L && !is_parked(L)) L = NULL;
  }
  if (top) co[n++] = top;
  return n;
}

uint32_t mr_profile_root(mr_stacks *s, const mr_proc *p) {
  char name[120];
  if (p->kind == PROC_MAIN) snprintf(name, sizeof name, "main");
  else if (p->name) snprintf(name, sizeof name, "process '%.100s'", p->name);
  else snprintf(name, sizeof name, "process");
  return mr_stacks_enter(s, STACK_NONE, mr_stacks_function(s, "", 0, -1, name), -1);
}

static uint32_t beginning(mr_stacks *s, const mr_proc *p, mr_fiber *f) {
  uint32_t node = mr_profile_root(s, p);
  if (!f || f == f->job->first || !mr_strand_at(f)->name) return node;
  char name[120];
  snprintf(name, sizeof name, "fiber '%.100s'", mr_strand_at(f)->name);
  return mr_stacks_enter(s, node, mr_stacks_function(s, "", 0, -1, name), -1);
}

uint32_t mr_profile_stack(mr_stacks *s, const mr_proc *p, mr_fiber *f, lua_State *L) {
  lua_State *co[LINKS];
  path w;
  uint32_t node = beginning(s, p, f);
  if (!f) return node;
  w.s = s;
  w.n = w.cut = 0;
  for (int i = chain(f, L, co); i-- > 0;) add_calls(&w, co[i]);
  if (w.cut) node = mr_stacks_enter(s, node, mr_stacks_function(s, "", 0, -1, "(deeper)"), -1);
  while (w.n-- > 0) node = mr_stacks_enter(s, node, w.call[w.n].function, w.call[w.n].line);
  return node;
}

/* ---- CPU time ---- */

/*
 * In the signal's handler. What an earlier one has seen stands for as long as the hook has not read it: another signal may come in between, when the C
 * function has just returned.
 */
void mr_profile_kicked(lua_State *L) {
  const void *call, *saved;
  mr_own *o = mr_kit_of(mr_this_thread)->own;
  if (!o) return;
  int in_c = mr_call_in_c(L, &call, &saved);
  if (!in_c && o->in_c.L == L && o->in_c.session == this_session() && mr_call_is_after(L, o->in_c.call, o->in_c.saved)) return;
  o->in_c.L = NULL;
  if (!in_c) return;
  o->in_c.call = call;
  o->in_c.saved = saved;
  o->in_c.session = this_session();
  o->in_c.L = L;
}

/* This thread may be older than the profile. */
static mr_stacks *own_stacks(mr_kit *k) {
  if (PORT_UNLIKELY(!k->own)) k->own = mr_own_new();
  if (PORT_UNLIKELY(!k->own)) return NULL;
  if (PORT_UNLIKELY(!k->own->stacks[PROFILE_CPU])) k->own->stacks[PROFILE_CPU] = mr_stacks_new(NODES);
  return k->own->stacks[PROFILE_CPU];
}

static void count(mr_fiber *f, lua_State *L, int reads, uint64_t ns) {
  mr_stacks *s = own_stacks(mr_kit_of(f->thread));
  if (!s || mr_run_dead()) return;
  const mr_proc *p = mr_proc_of(f);
  port_acquire(&s->lock);
  uint32_t node = reads ? mr_profile_stack(s, p, f, L) : beginning(s, p, f);
  s->node[node].value[0] += (double)ns / kinds[PROFILE_CPU].period;
  s->node[node].value[1] += (double)ns;
  port_unlock(&s->lock);
  mr_kit_of(f->thread)->own->in_c.L = NULL;
}

void mr_profile_take(mr_fiber *f, lua_State *L) {
  uint64_t ns = f->thread == mr_this_thread ? mr_profiler_take(f->thread) : 0;
  if (ns) count(f, L, 1, ns);
}

void mr_profile_stopped(mr_fiber *f, int yields) {
  uint64_t ns = mr_profiler_take(f->thread);
  if (ns) count(f, NULL, yields, ns);
}

/* ---- files ---- */

static int ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n > m && strcmp(name + n - m, end) == 0;
}

mr_stacks *mr_profile_all(int kind) {
  mr_stacks *all = mr_stacks_new(ALL_NODES);
  for (mr_own *o = all ? atomic_load(&owns) : NULL; o; o = o->every) {
    mr_stacks *s = o->stacks[kind];
    if (!s) continue;
    port_acquire(&s->lock);
    mr_stacks_merge(all, s);
    port_unlock(&s->lock);
  }
  return all;
}

/* What threads owe that have not come back from C: where they are nobody else can read. */
static void add_owed(mr_stacks *all) {
  uint64_t ns = mr_profiler_left();
  if (!ns) return;
  uint32_t node = mr_stacks_enter(all, STACK_NONE, mr_stacks_function(all, "", 0, -1, "(in C until the end)"), -1);
  all->node[node].value[0] += (double)ns / kinds[PROFILE_CPU].period;
  all->node[node].value[1] += (double)ns;
}

static int encode(int kind, mr_bytes *b) {
  mr_stacks *all = mr_profile_all(kind);
  mr_bytes plain = { 0 };
  int zipped = ends_with(file[kind].name, ".gz");
  if (!all) return 0;
  if (kind == PROFILE_CPU) add_owed(all);
  if (zipped || ends_with(file[kind].name, ".pprof") || ends_with(file[kind].name, ".pb")) mr_pprof(zipped ? &plain : b, all, &kinds[kind]);
  else mr_folded(b, all, &kinds[kind]);
  if (zipped) mr_gzip(b, &plain);
  free(plain.at);
  mr_stacks_free(all);
  return !b->failed;
}

static void write_file(int kind) {
  mr_bytes b = { 0 };
  kinds[kind].lasted = port_wall() - kinds[kind].began;
  int ok = encode(kind, &b);
  ok = ok && fwrite(b.at ? b.at : "", 1, b.length, file[kind].out) == b.length;
  if (fflush(file[kind].out) != 0) ok = 0;
  if (!ok) fprintf(stderr, "mare: the profile '%s' could not be written\n", file[kind].name);
  free(b.at);
}

void mr_profile_write(void) {
  static atomic_int state;                       /* 1: somebody writes, 2: it is done */
  int none = 0;
  if (!files || mr_run_dead()) return;
  if (atomic_compare_exchange_strong(&state, &none, 1)) {
    for (int i = 0; i < PROFILES; i++)
      if (files & 1 << i) write_file(i);
    atomic_store(&state, 2);
  } else {
    for (int i = 0; i < 10000 && atomic_load(&state) == 1; i++) port_sleep(1000000);
  }
}

/* ---- of a program that runs ---- */

static void clear(void) {
  for (mr_own *o = atomic_load(&owns); o; o = o->every) {
    mr_stacks *s = o->stacks[PROFILE_CPU];
    if (!s) continue;
    port_acquire(&s->lock);
    mr_stacks_clear(s);
    port_unlock(&s->lock);
  }
}

const char *mr_profile_begin(uint64_t until) {
  if (files & 1 << PROFILE_CPU) return "it is profiled already, by mare run --profile";
  if (mr_profile_on() & 1 << PROFILE_CPU) return "a profile is being made already";
  mr_calls_check();
  clear();
  atomic_fetch_add(&session, 1);
  int err = mr_profiler_begin(until);
  if (err) return mr_err_text(err);
  atomic_fetch_or(&mr_profiling, 1 << PROFILE_CPU);
  return NULL;
}

mr_stacks *mr_profile_end(void) {
  if ((files | ~mr_profile_on()) & 1 << PROFILE_CPU) return NULL;
  mr_profiler_end();
  atomic_fetch_and(&mr_profiling, ~(1 << PROFILE_CPU));
  mr_stacks *all = mr_profile_all(PROFILE_CPU);
  if (all) add_owed(all);
  return all;
}

/* ---- start and end ---- */

static int open_file(int kind, const char *name, char error[200]) {
  if (!name) return 0;
  char *copy = mr_text_copy(name);
  file[kind].name = copy ? copy : "";
  file[kind].out = copy ? fopen(name, "wbe") : NULL;
  kinds[kind].began = port_wall();
  if (file[kind].out) return 1 << kind;
  char reason[64];
  snprintf(error, 200, "can't write the profile '%.100s': %s", name, port_error_text(copy ? errno : ENOMEM, reason, sizeof reason));
  return -1;
}

int mr_profile_start(const mr_profile_wish *wish, char error[200]) {
  int made = 0;
  if (wish->file[PROFILE_CPU] && wish->file[PROFILE_HEAP] && strcmp(wish->file[PROFILE_CPU], wish->file[PROFILE_HEAP]) == 0) {
    snprintf(error, 200, "two profiles can't go into one file, '%.100s'", wish->file[PROFILE_CPU]);
    return 1;
  }
  for (int i = 0; i < PROFILES; i++) {
    int bit = open_file(i, wish->file[i], error);
    if (bit < 0) return 1;
    made |= bit;
  }
  if (!made) return 0;
  kinds[PROFILE_CPU].period = 1e9 / wish->hz;
  kinds[PROFILE_HEAP].period = (double)wish->bytes;
  mr_calls_check();
  files = made;
  mr_profiling = made;
  if (made & 1 << PROFILE_HEAP) mr_allocs_start(wish->bytes);
  int err = made & 1 << PROFILE_CPU ? mr_profiler_start(wish->hz) : MR_OK;
  if (err) snprintf(error, 200, "%s", mr_err_text(err));
  return err != MR_OK;
}
