/*
 * mare.process, what is seen of processes: list, totals; info and traceback of handles. What is behind them: process/info.h.
 *
 * A list may have a hundred thousand entries, so its keys and words are strings on the stack, and its records are read before the first table is made: no
 * process is looked at while Lua allocates.
 */
#include "module/look.h"
#include "process/control.h"
#include "process/info.h"
#include "process/names.h"

#include <stdlib.h>
#include <string.h>

/* ---- records as tables ---- */

enum { ID = 1, NAME, STATUS, WAITS, PRIORITY, CPU, HEAP, SENT, RECEIVED, PARENT, OWNER, FIBERS, RESTARTS, KIND, HANDLE, KEYS };
static const char *const keys[] = { [ID] = "id", [NAME] = "name", [STATUS] = "status", [WAITS] = "waits", [PRIORITY] = "priority", [CPU] = "cpu",
                                    [HEAP] = "heap", [SENT] = "sent", [RECEIVED] = "received", [PARENT] = "parent", [OWNER] = "owner",
                                    [FIBERS] = "fibers", [RESTARTS] = "restarts", [KIND] = "kind", [HANDLE] = "handle" };

/*
 * Keys, and words that come again and again - what a process does and waits in, its priority -, stand on the stack from `base` on; a word from when it
 * comes first. Words are constants, so they are known by their addresses.
 */
enum { WORDS = 24 };
typedef struct words { int base, n; const char *of[WORDS]; } words;

static void push_words(lua_State *L, words *w) {
  w->base = lua_gettop(L);
  w->n = 0;
  luaL_checkstack(L, KEYS + WORDS + 12, NULL);
  for (int i = 1; i < KEYS; i++) lua_pushstring(L, keys[i]);
  lua_settop(L, w->base + KEYS + WORDS - 1);
}

static void push_word(lua_State *L, words *w, const char *s) {
  int i = 0, at = w->base + KEYS;
  while (i < w->n && w->of[i] != s) i++;
  if (i < w->n) {
    lua_pushvalue(L, at + i);
    return;
  }
  lua_pushstring(L, s);
  if (i == WORDS) return;
  lua_copy(L, -1, at + i);
  w->of[w->n++] = s;
}

static void set_integer(lua_State *L, int key, uint64_t n) {
  lua_pushvalue(L, key);
  lua_pushinteger(L, (lua_Integer)n);
  lua_rawset(L, -3);
}

static void set_word(lua_State *L, words *w, int key, const char *s) {
  lua_pushvalue(L, w->base + key);
  push_word(L, w, s);
  lua_rawset(L, -3);
}

static void push_record(lua_State *L, words *w, const mr_info *i) {
  int base = w->base;
  lua_createtable(L, 0, 10 + i->named + (i->waits != NULL) + (i->owner != 0) + (i->parent != 0) + (i->kind != PROC_PLAIN) + (i->proc != NULL));
  set_integer(L, base + ID, i->id);
  if (i->named) {
    lua_pushvalue(L, base + NAME);
    lua_pushstring(L, i->name);
    lua_rawset(L, -3);
  }
  set_word(L, w, STATUS, i->status);
  if (i->waits) set_word(L, w, WAITS, i->waits);
  set_word(L, w, PRIORITY, mr_level_names[i->level]);
  lua_pushvalue(L, base + CPU);
  lua_pushnumber(L, (lua_Number)i->cpu * 1e-9);
  lua_rawset(L, -3);
  set_integer(L, base + HEAP, i->heap);
  set_integer(L, base + SENT, i->sent);
  set_integer(L, base + RECEIVED, i->received);
  if (i->parent) set_integer(L, base + PARENT, i->parent);
  if (i->owner) set_integer(L, base + OWNER, i->owner);
  set_integer(L, base + FIBERS, i->fibers);
  set_integer(L, base + RESTARTS, i->restarts);
  if (i->kind != PROC_PLAIN) set_word(L, w, KIND, i->kind == PROC_MAIN ? "main" : "host");
  if (!i->proc) return;
  lua_pushvalue(L, base + HANDLE);
  i->proc->shared.type->push(L, &i->proc->shared);
  lua_rawset(L, -3);
}

/* ---- list ---- */

/* In a userdata, so that an error on the way loses nothing. */
typedef struct listing { mr_infos all; struct place *order; } listing;
typedef struct place { uint64_t key; size_t at; } place;

static void drop_listing(listing *l) {
  mr_infos_free(&l->all);
  free(l->order);
  l->order = NULL;
}

static int l_listing_gc(lua_State *L) {
  listing *l = mr_gc_own(L, sizeof *l, l_listing_gc);
  if (l) drop_listing(l);
  return 0;
}

static listing *push_listing(lua_State *L) {
  static const char key;
  mr_proc *p = mr_self(L);
  if (p->finalisers == 0) p->finalisers = 1;
  listing *l = lua_newuserdatauv(L, sizeof *l, 0);
  memset(l, 0, sizeof *l);
  mr_meta_set(L, &key, "__gc", l_listing_gc);
  return l;
}

/* The least comes first. */
static uint64_t key_of(const mr_info *i, const char *sort) {
  switch (*sort) {
    case 'i': return i->id;
    case 'c': return ~i->cpu;
    case 'h': return ~(uint64_t)i->heap;
    case 'm': return ~(i->sent + i->received);
    case 's': return ~i->sent;
    default: return ~(strcmp(sort, "received") == 0 ? i->received : i->restarts);
  }
}

static int by_key(const void *x, const void *y) {
  const place *a = x, *b = y;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->at < b->at ? -1 : a->at > b->at;
}

static void sift(place *heap, size_t n, size_t i) {
  for (size_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && by_key(&heap[child + 1], &heap[child]) > 0) child++;
    if (by_key(&heap[i], &heap[child]) >= 0) return;
    place p = heap[i];
    heap[i] = heap[child];
    heap[child] = p;
  }
}

/* The first `most` in the order of by_key come first, unsorted: a heap of them with the last on top, which each other has to beat. */
static void choose(place *all, size_t n, size_t most) {
  if (most == 0) return;
  for (size_t i = most / 2; i-- > 0;) sift(all, most, i);
  for (size_t i = most; i < n; i++) {
    if (by_key(&all[i], &all[0]) >= 0) continue;
    all[0] = all[i];
    sift(all, most, 0);
  }
}

/*
 * By key, those of one key as they stand: digit by digit from the last, each time into the other of two arrays. Digits that all have in common are
 * left out, so ids that lie near one another take two rounds. The order is in `all` then.
 */
enum { DIGIT = 11, VALUES = 1 << DIGIT };
static void sort_digits(place *all, place *other, size_t n) {
  uint64_t differ = 0;
  place *from = all, *to = other;
  for (size_t i = 1; i < n; i++) differ |= all[i].key ^ all[0].key;
  for (unsigned shift = 0; shift < 64; shift += DIGIT) {
    size_t next[VALUES] = { 0 }, sum = 0;
    if ((differ >> shift & (VALUES - 1)) == 0) continue;
    for (size_t i = 0; i < n; i++) next[from[i].key >> shift & (VALUES - 1)]++;
    for (int v = 0; v < VALUES; v++) {
      size_t count = next[v];
      next[v] = sum;
      sum += count;
    }
    for (size_t i = 0; i < n; i++) to[next[from[i].key >> shift & (VALUES - 1)]++] = from[i];
    place *was = from;
    from = to;
    to = was;
  }
  if (from != all) memcpy(all, from, n * sizeof *all);
}

/* 0: no memory. At most `most` are left. */
static int put_in_order(listing *l, const char *sort, size_t *most) {
  size_t n = l->all.n;
  int part = *most < n;
  if (!part) *most = n;
  l->order = malloc((part ? n : 2 * n + 1) * sizeof *l->order);
  if (!l->order) return 0;
  for (size_t i = 0; i < n; i++) l->order[i] = (place){ key_of(&l->all.at[i], sort), i };
  if (!part) {
    sort_digits(l->order, l->order + n, n);
    return 1;
  }
  choose(l->order, n, *most);
  qsort(l->order, *most, sizeof *l->order, by_key);
  return 1;
}

static const char *sort_field(lua_State *L) {
  static const char *const known[] = { "id", "cpu", "heap", "messages", "sent", "received", "restarts", NULL };
  const char *sort = lua_getfield(L, 1, "sort") == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  int usual = lua_isnil(L, -1), i = 0;
  while (sort && known[i] && strcmp(sort, known[i]) != 0) i++;
  if (!usual && (!sort || !known[i])) luaL_error(L, "list: 'sort' must be \"id\", \"cpu\", \"heap\", \"messages\", \"sent\", \"received\" or \"restarts\"");
  lua_pop(L, 1);
  return usual ? known[0] : known[i];
}

static size_t limit_field(lua_State *L) {
  int is, type = lua_getfield(L, 1, "limit");
  lua_Integer n = lua_tointegerx(L, -1, &is);
  if (type != LUA_TNIL && (type != LUA_TNUMBER || !is || n < 0)) luaL_error(L, "list: 'limit' must be a whole number, 0 or more");
  lua_pop(L, 1);
  return type == LUA_TNIL ? SIZE_MAX : (size_t)n;
}

static void check_fields(lua_State *L) {
  static const char *const known[] = { "sort", "limit", "handles", NULL };
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    int ok = 0;
    for (int i = 0; known[i] && !ok; i++) ok = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), known[i]) == 0;
    if (!ok) luaL_error(L, "list: unknown field '%s'; there are sort, limit, handles", luaL_tolstring(L, -2, NULL));
  }
}

/* Records lie in another order than they are listed in. */
static void prefetch(const mr_info *i) {
  for (size_t at = 0; at < sizeof *i; at += PORT_CACHELINE) PORT_PREFETCH((const char *)i + at);
}

/* (listing, n as light userdata) -> { record… } */
static int l_records(lua_State *L) {
  enum { AHEAD = 2 };
  const listing *l = lua_touserdata(L, 1);
  size_t n = (size_t)(uintptr_t)lua_touserdata(L, 2);
  words w;
  push_words(L, &w);
  lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
  for (size_t i = 0; i < n; i++) {
    if (i + AHEAD < n) prefetch(&l->all.at[l->order[i + AHEAD].at]);
    push_record(L, &w, &l->all.at[l->order[i].at]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/*
 * Tables that all stay: the collector would walk through them again and again. Where memory ends Lua collects all the same; where there is none even
 * then, the collector goes on before the error does. The listing is on top.
 */
static void push_list(lua_State *L, size_t n) {
  int collects = lua_gc(L, LUA_GCISRUNNING, 0), host = !mr_in_process(L);
  if (host) mr_host_push(L);
  lua_pushcclosure(L, l_records, host);
  lua_pushvalue(L, -2);
  lua_pushlightuserdata(L, (void *)(uintptr_t)n);
  if (collects) lua_gc(L, LUA_GCSTOP, 0);
  int status = lua_pcall(L, 2, 1, 0);
  if (collects) lua_gc(L, LUA_GCRESTART, 0);
  if (status != LUA_OK) lua_error(L);
}

/* process.list([{ sort = …, limit = n, handles = true }]) -> { record… } */
int mr_process_list(lua_State *L) {
  size_t most = SIZE_MAX;
  const char *sort = "id";
  int handles = 0;
  mr_check_forked(L);
  lua_settop(L, 1);
  if (!lua_isnil(L, 1)) {
    luaL_checktype(L, 1, LUA_TTABLE);
    check_fields(L);
    sort = sort_field(L);
    most = limit_field(L);
    handles = mr_boolean_field(L, 1, "list", "handles", 0);
  }
  listing *l = push_listing(L);
  if (mr_proc_infos(&l->all, handles) != MR_OK || !put_in_order(l, sort, &most)) return mr_raise(L, MR_ENOMEM);
  push_list(L, most);
  drop_listing(l);
  return 1;
}

/* ---- totals ---- */

static void count(lua_State *L, const char *name, uint64_t n) {
  lua_pushinteger(L, (lua_Integer)n);
  lua_setfield(L, -2, name);
}

static void seconds(lua_State *L, const char *name, uint64_t ns) {
  lua_pushnumber(L, (lua_Number)ns * 1e-9);
  lua_setfield(L, -2, name);
}

/* process.totals() -> { … } */
int mr_process_totals(lua_State *L) {
  mr_totals t;
  mr_worker_load load[MR_MAX_WORKERS];
  mr_check_forked(L);
  mr_totals_get(&t);
  unsigned n = mr_worker_loads(load, MR_MAX_WORKERS);
  lua_createtable(L, 0, 20);
  seconds(L, "up", t.up);
  seconds(L, "cpu", t.cpu);
  seconds(L, "busy", t.busy);
  count(L, "spawned", t.spawned);
  count(L, "ended", t.ended);
  count(L, "failed", t.failed);
  count(L, "processes", t.processes);
  count(L, "hosts", t.hosts);
  count(L, "sent", t.sent);
  count(L, "received", t.received);
  count(L, "dispatches", t.dispatches);
  count(L, "steals", t.steals);
  count(L, "threads", t.threads);
  count(L, "blocked", t.blocked);
  count(L, "memory", t.memory);
  lua_createtable(L, (int)n, 0);
  for (unsigned i = 0, at = 0; i < n; i++) {
    if (!load[i].active) continue;
    lua_createtable(L, 0, 5);
    count(L, "id", load[i].id + 1);
    count(L, "dispatches", load[i].dispatches);
    count(L, "steals", load[i].steals);
    count(L, "queued", load[i].queued);
    seconds(L, "busy", load[i].busy);
    lua_rawseti(L, -2, ++at);
  }
  lua_setfield(L, -2, "workers");
  return 1;
}

/* ---- looks ---- */

/* A request, in a userdata. */
typedef struct look { mr_asked *asked; mr_proc *proc; mr_look seen; int what; } look;
#define SECONDS UINT64_C(1000000000)           /* how long it is waited for where nothing else is said */

static void let_go(look *k) {
  if (k->asked) mr_asked_end(k->asked, k->proc, &k->seen);
  k->asked = NULL;
  free(k->seen.text);
  k->seen.text = NULL;
}

static int l_look_gc(lua_State *L) {
  look *k = mr_gc_own(L, sizeof *k, l_look_gc);
  if (!k) return 0;
  let_go(k);
  if (k->proc) mr_release(&k->proc->shared);
  k->proc = NULL;
  return 0;
}

static look *push_look(lua_State *L, mr_proc *p, int what) {
  static const char key;
  mr_proc *self = mr_self(L);
  if (self->finalisers == 0) self->finalisers = 1;
  look *k = lua_newuserdatauv(L, sizeof *k, 0);
  memset(k, 0, sizeof *k);
  mr_meta_set(L, &key, "__gc", l_look_gc);
  k->what = what;
  mr_retain(&p->shared);
  k->proc = p;
  return k;
}

/* The text; nil, "timeout"; of one that has ended: the trace of its failure, or nil. */
static int push_traceback(lua_State *L, const mr_look *seen) {
  if (seen->state == LOOK_NOMEM) return mr_raise(L, MR_ENOMEM);
  if (seen->text) return lua_pushstring(L, seen->text), 1;
  lua_pushnil(L);
  return 1;
}

static void push_ids(lua_State *L, const uint64_t *ids, size_t n) {
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushinteger(L, (lua_Integer)ids[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

enum { LINKS = 1000, NAMES = 4000 };

static void push_bonds(lua_State *L, mr_proc *p) {
  uint64_t ids[LINKS];
  char names[NAMES];
  size_t n = mr_links(p, ids, LINKS), bytes = mr_names_list(p, names, sizeof names);
  push_ids(L, ids, n < LINKS ? n : LINKS);
  lua_setfield(L, -2, "links");
  lua_newtable(L);
  lua_Integer at = 0;
  for (size_t i = 0; i < bytes; i += strlen(names + i) + 1) {
    lua_pushstring(L, names + i);
    lua_rawseti(L, -2, ++at);
  }
  lua_setfield(L, -2, "names");
}

static int push_info(lua_State *L, mr_proc *p, const mr_look *seen) {
  mr_info i;
  mr_proc_info(p, &i);
  if (seen->status) {                            /* as it was found: to be asked has woken it */
    i.status = seen->status;
    i.waits = seen->waits;
  }
  words w;
  push_words(L, &w);
  push_record(L, &w, &i);
  push_bonds(L, p);
  if (seen->state == LOOK_DONE && seen->used) count(L, "memory", seen->used);
  if (seen->where[0]) lua_pushstring(L, seen->where), lua_setfield(L, -2, "where");
  if (seen->there > 0) lua_pushinteger(L, (lua_Integer)seen->there), lua_setfield(L, -2, "there");
  if (seen->on[0]) lua_pushstring(L, seen->on), lua_setfield(L, -2, "on");
  return 1;
}

static int push_seen(lua_State *L, look *k) {
  int n = k->what & LOOK_TRACE ? push_traceback(L, &k->seen) : push_info(L, k->proc, &k->seen);
  let_go(k);
  return n;
}

static int look_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  look *k = o;
  (void)w;
  if (why != MR_WOKEN && !mr_event_is_set(mr_asked_event(k->asked))) return -1;
  mr_asked_end(k->asked, k->proc, &k->seen);
  k->asked = NULL;
  return push_seen(L, k);
}

/* Without an answer there is what can be told from outside. Of one that runs that is all there is; else the time was too short. */
static int look_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  look *k = o;
  (void)w;
  mr_asked_end(k->asked, k->proc, &k->seen);
  k->asked = NULL;
  if (why != MR_TIMEOUT) return let_go(k), 0;
  if ((k->what & LOOK_TRACE) && k->seen.state == LOOK_BUSY && mr_job_busy(&k->proc->job) != JOB_RUNS) return let_go(k), MR_AWAIT_TIMEOUT;
  return push_seen(L, k);
}

static int look_link(void *o, mr_wait *w) { return mr_event_wait(mr_asked_event(((look *)o)->asked), w); }
static void look_unlink(void *o, mr_wait *w) { mr_event_unwait(mr_asked_event(((look *)o)->asked), w); }

static const mr_waitclass looking = { .run = { .op = "look", .link = look_link, .unlink = look_unlink }, .take = look_take, .give_up = look_give_up };

static int look_at(lua_State *L, int what) {
  mr_proc *p = (mr_proc *)mr_shared_check(L, 1, mr_proc_type, "process");
  mr_fiber *f = mr_self_fiber(L);
  uint64_t deadline = lua_isnoneornil(L, 2) ? port_now() + SECONDS : mr_deadline(L, 2);
  lua_settop(L, 1);
  look *k = push_look(L, p, what);
  if (p == mr_proc_of(f)) {
    mr_look_own(L, p, what, &k->seen);
    return push_seen(L, k);
  }
  if ((k->asked = mr_ask(p, what, f)) == NULL) return mr_raise(L, MR_ENOMEM);
  return mr_await(L, f, &looking, k, deadline);
}

/* handle:info([seconds]) -> record, with where, on, memory, links, names */
int mr_process_info(lua_State *L) { return look_at(L, LOOK_WHERE); }

/* handle:traceback([seconds]) -> text | nil, "timeout" | nil (it has ended, and did not fail) */
int mr_process_traceback(lua_State *L) { return look_at(L, LOOK_TRACE); }
