/*
 * shared: objects outside all heaps as userdata, one per object and state (module.h tells how they are checked).
 *
 * The state's userdata are found through a weak table in the registry, keyed by address; so a channel that arrives twice is the same
 * value twice. The keys are integers, which Lua finds in half the instructions that light userdata take: addresses, scrambled by a
 * multiplication that keeps them apart.
 */
#include "base/rank.h"
#include "lua/layout.h"
#include "lua/probe.h"
#include "module/module.h"
#include "module/net.h"
#include "state/state.h"
#include "process/strand.h"
#include "run/replay.h"

#include <string.h>

uint64_t mr_secret;

static int is_size(size_t size) { return size == sizeof(mr_box) || size == sizeof(mr_wide_box); }

static int is_box(const void *block, size_t size) {
  const mr_box *b = block;
  if (!is_size(size)) return 0;
  if (!b->object) return 1;
  if (!MR_BOX_OURS(mr_box_rest(b))) return 0;
  return b->tag == mr_box_tag(b->object) ? 1 : -1;
}

int mr_is_husk(lua_State *L, int idx) {
  const mr_box *b = lua_touserdata(L, idx);
  return b && is_box(b, lua_rawlen(L, idx)) < 0;
}

/* In a forked child no object may be touched, as its lock may be held for ever: no tag is right any more. */
static void forked(void) { mr_secret = ~mr_secret; }

void mr_check_forked(lua_State *L) {
  if (PORT_UNLIKELY(mr_forked())) mr_raise(L, MR_EFORK);
}

mr_shared *mr_shared_check(lua_State *L, int idx, const mr_sharetype *type, const char *tname) {
  mr_shared *o = type->moves ? mr_movable_to(L, idx, type) : mr_shared_to(L, idx, type);
  if (PORT_UNLIKELY(!o)) {
    mr_check_forked(L);
    mr_box *b = lua_rawlen(L, idx) == sizeof(mr_box) ? lua_touserdata(L, idx) : NULL;
    if (b && !b->object) luaL_argerror(L, idx, "it was finalised already");   /* reached out of another object's finaliser */
    if (b && MR_BOX_OURS(mr_box_rest(b)) && b->object->type == type) luaL_error(L, "%s was moved to another process", tname);
    luaL_typeerror(L, idx, tname);
  }
  return o;
}

/* The tag of what was put but not shown. Any userdata may be asked, so what it has in the object's place is not followed. */
static uint64_t hidden_tag(const mr_shared *o) { return ~(mr_secret ^ (uintptr_t)o); }
static int is_hidden(const mr_box *b) { return b->object && b->tag == hidden_tag(b->object); }

static void finalise(mr_box *b) {
  if (!b->object || !(MR_BOX_OURS(mr_box_rest(b)) || is_hidden(b))) return;
  mr_shared *o = b->object;
  int own = b->tag == mr_box_tag(o);
  b->object = NULL;
  b->tag = 0;
  if (own && o->type->moves) o->type->dropped(o);
  mr_release(o);
}

static int l_gc(lua_State *L) {
  mr_box *b = lua_touserdata(L, 1);
  if (b && is_size(lua_rawlen(L, 1))) finalise(b);
  return 0;
}

/* ---- at the end of a state ---- */

/* The metatable's __gc is ours; a program may have changed it. */
static int has_our_gc(const raw_table *meta) {
  for (uint32_t i = 0; i < raw_nodes(meta); i++) {
    const raw_node *n = &meta->node[i];
    if (n->key_tt != RAW_SHORT || strcmp(((const raw_string *)(uintptr_t)n->key)->text, "__gc") != 0) continue;
    return n->tt == RAW_LIGHTC && (lua_CFunction)(uintptr_t)n->bits == l_gc;
  }
  return 0;
}

static int is_plain_box(const void *object) {
  const raw_userdata *u = object;
  return (u->tt | RAW_COLLECTABLE) == RAW_USERDATA && u->nuvalue == 0 && u->size == sizeof(mr_box) && u->metatable && has_our_gc(u->metatable);
}

static int finalise_box(const void *object) {
  finalise((mr_box *)(void *)(uintptr_t)((const raw_userdata *)object)->block);
  return 1;
}

/* If there are only such objects. Their order is lua_close's. */
static int let_go(lua_State *L) { return mr_finaliser_each(L, is_plain_box) && mr_finaliser_each(L, finalise_box); }

/* ---- metatables ---- */

/* As below, it is registered only when it is complete. */
void mr_meta_set(lua_State *L, const void *key, const char *event, lua_CFunction f) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, f);
    lua_setfield(L, -2, event);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
  }
  lua_setmetatable(L, -2);
}

void *mr_gc_own(lua_State *L, size_t size, lua_CFunction gc) {
  return !mr_forked() && mr_is_own(L, 1, size, gc) ? lua_touserdata(L, 1) : NULL;
}

static const luaL_Reg *find_method(const luaL_Reg *l, const char *name) {
  for (; l && l->name; l++)
    if (strcmp(l->name, name) == 0) return l;
  return NULL;
}

void mr_class_method(lua_State *L, int idx, const mr_class *class, const char *name) {
  const luaL_Reg *m = find_method(class->methods, name);
  idx = lua_absindex(L, idx);
  if (!m) {
    lua_pushnil(L);
    return;
  }
  if (mr_in_process(L)) {
    const luaL_Reg *fast = find_method(class->fast, name);
    mr_operation_function(L, fast ? fast->func : m->func);
  } else {
    mr_host_push(L);
    lua_pushcclosure(L, m->func, 1);
  }
  lua_pushstring(L, name);
  lua_pushvalue(L, -2);
  lua_rawset(L, idx);
}

int mr_class_missing(lua_State *L, const mr_class *class, const char *const *fields) {
  if (mr_may_miss(L, 2)) return 0;
  lua_newtable(L);
  for (; fields && *fields; fields++) mr_list_add(L, *fields);
  mr_list_functions(L, class->methods);
  return mr_no_field(L, class->tname, 2);
}

/* (metatable, name) -> method: __index of the metatable itself */
static int l_missing(lua_State *L) {
  lua_settop(L, 2);
  if (lua_type(L, 1) != LUA_TTABLE || lua_type(L, 2) != LUA_TSTRING) return 0;
  lua_pushliteral(L, "__share");
  if (lua_rawget(L, 1) != LUA_TLIGHTUSERDATA) return 0;
  const mr_class *class = lua_touserdata(L, 3);
  lua_rawgetp(L, LUA_REGISTRYINDEX, class);
  if (!lua_rawequal(L, 1, -1)) return 0;         /* a table of the program's */
  mr_class_method(L, 1, class, lua_tostring(L, 2));
  return lua_isnil(L, -1) ? mr_class_missing(L, class, NULL) : 1;
}

static void set_mode(lua_State *L, const char *field) {
  lua_createtable(L, 0, 1);
  if (*field == 'v') lua_pushstring(L, field);
  else lua_pushcfunction(L, l_missing);
  lua_setfield(L, -2, *field == 'v' ? "__mode" : "__index");
  lua_setmetatable(L, -2);
}

/* It is registered only when it is complete: a memory error may come at any point. */
static void push_metatable(lua_State *L, const mr_class *class) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, class) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 8);
  lua_pushlightuserdata(L, (void *)class);
  lua_setfield(L, -2, "__share");
  lua_pushstring(L, class->tname);
  lua_setfield(L, -2, "__name");
  lua_pushstring(L, class->tname);
  lua_setfield(L, -2, "__metatable");          /* nobody may put another __share there */
  lua_pushcfunction(L, l_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  luaL_setfuncs(L, class->meta, 0);
  set_mode(L, "__index");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, class);
}

#define WEAK_KEY (-0x6d617265)                   /* in the registry, where integers below 0 are nobody's */

static void push_weak(lua_State *L) {
  if (lua_rawgeti(L, LUA_REGISTRYINDEX, WEAK_KEY) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 1);
  set_mode(L, "v");
  lua_pushvalue(L, -1);
  lua_rawseti(L, LUA_REGISTRYINDEX, WEAK_KEY);
}

/* What sending and receiving look at, of a metatable with two methods: the name of __index, the table, its nodes. */
static void lay_near(lua_State *L, const mr_class *class) {
  push_metatable(L, class);
  const raw_table *meta = lua_topointer(L, -1);
  lua_pushliteral(L, "__index");
  mr_image_near(L, lua_tostring(L, -1) - offsetof(raw_string, text), offsetof(raw_string, length));
  mr_image_near(L, meta, offsetof(raw_table, lastfree));
  if (mr_layout) mr_image_near(L, meta->node, raw_nodes(meta) * sizeof(raw_node));
  lua_pop(L, 2);
}

void mr_shared_furnish(lua_State *L, const mr_class *class) {
  push_weak(L);
  lua_pop(L, 1);
  lay_near(L, class);
}

/* The process or host that L belongs to, also in functions without it as upvalue. */
static mr_proc *owner_of(lua_State *L) {
  if (mr_in_process(L)) return mr_proc_here(L);
  mr_host_push(L);
  mr_proc *p = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return p;
}

/* ---- what userdata hold ---- */

/*
 * The collector counts a userdata of some bytes where megabytes hang on it. So garbage is collected whenever a state has come to hold more outside
 * of its heap than OUTSIDE, and than it has in it: what that costs is then little beside what was made or received.
 *
 * Also what is only made and dropped, as the handles of processes are by whoever starts one after the other, must be told of. The weak table of
 * userdata has a place for each that was made since the last collection, the collector takes that table for what is alive, waits until as much
 * again has been made, and meets a table twice as large. So each new object counts OBJECT, more than it has, so that some 10 MiB of them are
 * collected.
 */
#define OUTSIDE ((size_t)32 << 20)
#define OBJECT  ((size_t)3 << 10)

static PORT_NOINLINE void collect_outside(lua_State *L, mr_proc *p) {
  if (mr_lua_in_finaliser(L) || p->outside < (size_t)lua_gc(L, LUA_GCCOUNT) << 10) return;
  p->outside = 0;
  mr_outside_collect(L);
}

void mr_outside_collect(lua_State *L) {
  if (!mr_lua_in_finaliser(L) && lua_gc(L, LUA_GCISRUNNING)) lua_gc(L, LUA_GCCOLLECT);
}

void mr_outside_held(lua_State *L, size_t n) {
  mr_proc *p = mr_in_process(L) ? mr_proc_here(L) : mr_host_of(L);
  if (!p) return;
  p->outside += n;
  if (PORT_UNLIKELY(p->outside >= OUTSIDE)) collect_outside(L, p);
}

/* ---- userdata ---- */

static lua_Integer key_of(const mr_shared *o) { return (lua_Integer)((lua_Unsigned)(uintptr_t)o * UINT64_C(0x9E3779B97F4A7C15)); }

static size_t size_of(const mr_sharetype *type) { return type->wide ? sizeof(mr_wide_box) : sizeof(mr_box); }

static mr_box *push_empty(lua_State *L, mr_proc *p, const mr_class *class) {
  size_t size = size_of(&class->share);
  if (p->finalisers == 0) p->finalisers = 1;
  mr_box *b = lua_newuserdatauv(L, size, class->share.wide);
  memset(b, 0, size);
  push_metatable(L, class);
  lua_setmetatable(L, -2);
  return b;
}

int mr_shared_push(lua_State *L, mr_shared *o, const mr_class *class) {
  mr_check_forked(L);
  luaL_checkstack(L, 8, NULL);
  push_weak(L);
  size_t size = size_of(o->type);
  int known = lua_rawgeti(L, -1, key_of(o)) == LUA_TUSERDATA;
  /* a program may have called its __gc: it stays in the table, and is not o, at whose address another object may be now */
  if (known && (lua_rawlen(L, -1) != size || ((mr_box *)lua_touserdata(L, -1))->object != o)) known = 0;
  if (o->type->moves) {
    atomic_fetch_add(&((mr_movable *)(void *)o)->epoch, 1);   /* only this userdata owns it now */
  } else if (known) {
    lua_remove(L, -2);
    return 0;
  }
  lua_pop(L, 1);
  mr_proc *p = owner_of(L);
  mr_box *b = push_empty(L, p, class);
  if (PORT_UNLIKELY(mr_late_keep(p, o) < 0)) mr_raise(L, MR_ENOMEM);
  if (o->type->hold) o->type->hold(o);
  else mr_retain(o);
  b->object = o;
  b->tag = mr_box_tag(o);
  lua_pushvalue(L, -1);
  lua_rawseti(L, -3, key_of(o));
  lua_remove(L, -2);
  return 1;
}

mr_box *mr_shared_push_empty(lua_State *L, const mr_class *class) {
  mr_check_forked(L);
  luaL_checkstack(L, 8, NULL);
  return push_empty(L, owner_of(L), class);
}

void mr_shared_put(lua_State *L, mr_box *b, mr_shared *o) {
  mr_assert(!o->type->moves && !o->type->hold);
  if (PORT_UNLIKELY(mr_late_keep(owner_of(L), o) < 0)) {
    mr_release(o);
    mr_raise(L, MR_ENOMEM);
  }
  b->object = o;
  b->tag = hidden_tag(o);
  push_weak(L);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, key_of(o));
  lua_pop(L, 1);
  mr_outside_held(L, OBJECT);
}

int mr_shared_show(mr_box *b) {
  if (!is_hidden(b)) return 0;
  b->tag = mr_box_tag(b->object);
  return 1;
}

void mr_shared_exchange(lua_State *L, int i, int j) {
  i = lua_absindex(L, i);
  j = lua_absindex(L, j);
  mr_box *a = lua_touserdata(L, i), *b = lua_touserdata(L, j), kept = *a;
  push_weak(L);
  lua_pushvalue(L, j);
  lua_rawseti(L, -2, key_of(a->object));
  lua_pushvalue(L, i);
  lua_rawseti(L, -2, key_of(b->object));
  lua_pop(L, 1);
  mr_late_exchange(owner_of(L), a->object, b->object);
  *a = *b;
  *b = kept;
}

static int l_push(lua_State *L) {
  mr_shared *o = lua_touserdata(L, 1);
  o->type->push(L, o);
  return 1;
}

int mr_shared_push_try(lua_State *L, mr_shared *o) {
  lua_pushcfunction(L, l_push);
  lua_pushlightuserdata(L, o);
  return lua_pcall(L, 1, 1, 0);
}

void mr_shared_push_new(lua_State *L, mr_shared *o) {
  int status = mr_shared_push_try(L, o);
  mr_release(o);
  if (status != LUA_OK) lua_error(L);
  mr_outside_held(L, OBJECT);
}

/* Its host, as upvalue for functions. */
void mr_host_push(lua_State *L) {
  mr_proc *h = mr_host_of(L);
  if (!h) luaL_error(L, "this state has no mare: it was closed, or require 'mare' did not come to its end");
  lua_pushlightuserdata(L, h);
}

void mr_set_functions(lua_State *L, const luaL_Reg *l) {
  if (mr_in_process(L) && PORT_LIKELY(!mr_replay_on)) {
    luaL_setfuncs(L, l, 0);
    return;
  }
  if (mr_in_process(L)) {
    for (; l->name; l++) {
      mr_operation_function(L, l->func);
      lua_setfield(L, -2, l->name);
    }
    return;
  }
  mr_host_push(L);
  luaL_setfuncs(L, l, 1);
}

int mr_handle_index(lua_State *L, const mr_class *class, uint64_t id, const char *name) {
  static const char *const fields[] = { "id", "name", NULL };
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "id") == 0) {
    lua_pushinteger(L, (lua_Integer)id);
  } else if (strcmp(key, "name") == 0) {
    lua_pushstring(L, name);
  } else {
    if (!lua_getmetatable(L, 1)) push_metatable(L, class);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, -2) == LUA_TNIL) mr_class_method(L, -2, class, key);
    if (lua_isnil(L, -1)) return mr_class_missing(L, class, fields);
  }
  return 1;
}

void mr_function_push(lua_State *L, lua_CFunction f) {
  if (mr_in_process(L)) {
    mr_operation_function(L, f);
    return;
  }
  mr_host_push(L);
  lua_pushcclosure(L, f, 1);
}

static void setup(void) {
  mr_secret = port_entropy() | 1;
  mr_state_install();
  mr_modules_setup();
  mr_share_valid = is_box;
  mr_hooks.forked = forked;
  mr_hooks.let_go = let_go;
  mr_rules_install();
}

/* Several hosts may come at once, each on its own thread. */
void mr_setup(void) {
  static port_lock lock = PORT_LOCK(MR_RANK_ONCE);
  static atomic_int done;
  if (atomic_load_explicit(&done, memory_order_acquire)) return;
  port_acquire(&lock);
  if (!atomic_load_explicit(&done, memory_order_relaxed)) setup();
  atomic_store_explicit(&done, 1, memory_order_release);
  port_unlock(&lock);
}

uint64_t mr_deadline(lua_State *L, int idx) {
  if (lua_isnoneornil(L, idx)) return UINT64_MAX;
  lua_Number s = luaL_checknumber(L, idx);
  luaL_argcheck(L, s == s, idx, "a number of seconds expected, got nan");
  if (s <= 0) return 0;
  if (s > 9e9) return UINT64_MAX;
  return port_now() + (uint64_t)(s * 1e9);
}
