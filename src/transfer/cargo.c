/*
 * cargo: what becomes of userdata of other libraries at the sender and at the receiver (cargo.h says where it can be).
 *
 * A state keeps two tables of them. `tethers`: userdata -> tether, a userdata with the only reference that the state has to the cargo, and the
 * true metatable as its user value; weak keys, so a userdata that is gone takes its tether along. `homes`: cargo -> userdata, weak values. A third
 * one has for each type the metatables: true ones, and those of husks (husk.c).
 *
 * Packing allocates nothing, so all of that is made before, in mr_cargo_prepare: a pack that meets a userdata which is not ready for it ends, has
 * all such made ready, and begins again. Leaving, coming back and arriving only change what is there; so does the receiver's side once
 * mr_cargo_make has returned: until then nothing has happened, and after it nothing can fail.
 */
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include "transfer/packet.h"
#include "transfer/cargo.h"
#include "port/system.h"

const mr_cargotype *(*mr_cargo_find)(lua_State *L, int ud, const char *name);
void (*mr_cargo_place)(lua_State *L, char *text, size_t size);

static char tethers_key, homes_key, types_key;       /* in the registry */

/* ---- the record ---- */

static void cargo_destroy(mr_shared *o) {
  mr_cargo *c = (mr_cargo *)o;
  if (c->type && c->type->rule.way == MARE_SHARE && c->object && c->type->rule.drop) c->type->rule.drop(c->object);
  if (c->container) lua_close(c->container);
  free(c->marks);
  free(c->bytes);
  free(c);
}

const mr_sharetype mr_cargo_type = { .name = "cargo", .destroy = cargo_destroy };

static mr_cargo *cargo_new(const mr_cargotype *t, size_t size) {
  mr_cargo *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->shared.type = &mr_cargo_type;
  atomic_init(&c->shared.refs, 1);
  c->type = t;
  c->size = size;
  if ((c->bytes = malloc(size ? size : 1)) != NULL) return c;
  free(c);
  return NULL;
}

/* ---- the tables of a state ---- */

static void push_table(lua_State *L, const void *key, const char *mode) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 0);
  if (mode) {
    lua_createtable(L, 0, 1);
    lua_pushstring(L, mode);
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
  }
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

/* Pushes table[key], nil if there is no such table; no allocation. */
static int get(lua_State *L, const void *table, const void *key) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, table) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_pushnil(L);
    return LUA_TNIL;
  }
  int type = lua_rawgetp(L, -1, key);
  lua_remove(L, -2);
  return type;
}

/* The value on top is popped and becomes table[key]; may raise. */
static void set(lua_State *L, const void *table, const char *mode, const void *key) {
  push_table(L, table, mode);
  lua_insert(L, -2);
  lua_rawsetp(L, -2, key);
  lua_pop(L, 1);
}

void mr_type_metatable_keep(lua_State *L, const void *key) { set(L, &types_key, NULL, key); }
int  mr_type_metatable_push(lua_State *L, const void *key) { return get(L, &types_key, key) == LUA_TTABLE; }

typedef struct tether { mr_cargo *cargo; } tether;

/* Pushes the tether of the userdata at ud (absolute), or nil; no allocation. */
static tether *push_tether(lua_State *L, int ud) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &tethers_key) != LUA_TTABLE) return NULL;
  lua_pushvalue(L, ud);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  return lua_touserdata(L, -1);
}

mr_cargo *mr_cargo_of(lua_State *L, int ud) {
  tether *t = push_tether(L, lua_absindex(L, ud));
  lua_pop(L, 1);
  return t ? t->cargo : NULL;
}

static int l_tether_gc(lua_State *L) {
  tether *t = lua_touserdata(L, 1);
  if (!t || lua_rawlen(L, 1) != sizeof *t || !lua_getmetatable(L, 1) || lua_rawgetp(L, -1, &tethers_key) != LUA_TBOOLEAN) return 0;
  mr_cargo *c = t->cargo;
  t->cargo = NULL;
  if (c) mr_release(&c->shared);
  return 0;
}

static void push_tether_metatable(lua_State *L) {
  if (mr_type_metatable_push(L, &tethers_key)) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 2);
  lua_pushboolean(L, 1);
  lua_rawsetp(L, -2, &tethers_key);
  lua_pushcfunction(L, l_tether_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushvalue(L, -1);
  mr_type_metatable_keep(L, &tethers_key);
}

/* Pushes the tether of the userdata at ud (absolute); made, without cargo, if there is none. May raise. */
static tether *make_tether(lua_State *L, int ud) {
  tether *t = push_tether(L, ud);
  if (t) return t;
  lua_pop(L, 1);
  t = lua_newuserdatauv(L, sizeof *t, 1);
  t->cargo = NULL;
  push_tether_metatable(L);
  lua_setmetatable(L, -2);
  push_table(L, &tethers_key, "k");
  lua_pushvalue(L, ud);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 1);
  return t;
}

/* The userdata at ud (absolute) has this cargo, and its tether takes one more reference. */
static void tie(lua_State *L, int ud, mr_cargo *c) {
  tether *t = make_tether(L, ud);
  lua_pop(L, 1);
  lua_pushvalue(L, ud);
  set(L, &homes_key, "v", c);
  if (t->cargo == c) return;
  mr_retain(&c->shared);
  if (t->cargo) mr_release(&t->cargo->shared);
  t->cargo = c;
}

/* ---- making ready ---- */

/* The metatable on top: its name, if the registry has it under that; else NULL. Pushes one value that keeps the text. */
static const char *push_name(lua_State *L) {
  lua_pushliteral(L, "__name");
  if (lua_rawget(L, -2) != LUA_TSTRING) return NULL;
  lua_pushvalue(L, -1);
  lua_rawget(L, LUA_REGISTRYINDEX);
  int same = lua_rawequal(L, -1, -3);
  lua_pop(L, 1);
  return same ? lua_tostring(L, -1) : NULL;
}

static size_t marks_length(lua_State *L, int meta, char *to) {
  size_t length = 0;
  for (lua_pushnil(L); lua_next(L, meta); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || !lua_isboolean(L, -1) || !lua_toboolean(L, -1)) continue;
    size_t n = strlen(lua_tostring(L, -2)) + 1;
    if (to) memcpy(to + length, lua_tostring(L, -2), n);
    length += n;
  }
  return length;
}

/* What its finaliser will need, should nobody receive it. */
static void note_finaliser(lua_State *L, int meta, mr_cargo *c) {
  static atomic_uintptr_t pinned;                /* the last one; many of one kind are sent in turn */
  lua_pushliteral(L, "__gc");
  lua_rawget(L, meta);
  lua_CFunction f = lua_tocfunction(L, -1);
  if (f && lua_getupvalue(L, -1, 1)) {
    lua_pop(L, 1);
    f = NULL;
  }
  lua_pop(L, 1);
  if (f && atomic_exchange(&pinned, (uintptr_t)f) != (uintptr_t)f) port_pin((const void *)(size_t)f);
  c->gc = f;
  if (!c->gc) return;
  char *marks = malloc(marks_length(L, meta, NULL) + 1);
  if (!marks) mr_raise_memory(L);
  marks[marks_length(L, meta, marks)] = 0;
  free(c->marks);
  c->marks = marks;
}

enum { FROM_PROCESS = 3, TO_PROCESS = 4 };       /* what luaproc's functions are told: from a process to a container, and from there */

/* luaproc's function puts a copy of the userdata at ud into a state of its own, which is its container. */
static void fill_container(lua_State *L, int ud, mr_cargo *c) {
  int top = lua_gettop(L);
  if (c->container) lua_close(c->container);
  if ((c->container = mr_container_new()) == NULL) mr_raise_memory(L);
  lua_pushcfunction(L, c->type->send);
  lua_pushinteger(L, FROM_PROCESS);
  lua_pushvalue(L, ud);
  lua_pushlightuserdata(L, c->container);
  int status = lua_pcall(L, 3, LUA_MULTRET, 0);
  if (status == LUA_ERRMEM) lua_error(L);
  if (status != LUA_OK || lua_gettop(L) > top || lua_type(c->container, -1) != LUA_TUSERDATA)
    snprintf(c->problem, sizeof c->problem, "userdata '%.40s' cannot be sent: %.80s", c->type->name,
             lua_gettop(L) > top && lua_isstring(L, -1) ? lua_tostring(L, -1) : "its transfer function did not make it");
  else
    lua_rotate(c->container, 1, 1), lua_settop(c->container, 1);
  lua_settop(L, top);
}

static void share(lua_State *L, int ud, mr_cargo *c) {
  if (c->object) return;
  if (c->type->rule.pack(L, ud, &c->object) != 0) mr_raise_memory(L);
}

/* Why it can't, before its rule is asked; in c->problem. */
static void look_at(lua_State *L, int ud, mr_cargo *c) {
  const mare_transfer *r = &c->type->rule;
  c->problem[0] = 0;
  c->nvalues = 0;
  while (lua_getiuservalue(L, ud, c->nvalues + 1) != LUA_TNONE) {
    lua_pop(L, 1);
    c->nvalues++;
  }
  lua_pop(L, 1);
  if (r->size && r->size != c->size)
    snprintf(c->problem, sizeof c->problem, "userdata '%.40s' cannot be sent: it has %zu bytes, and %zu in the version of its library that is known",
             c->type->name, c->size, r->size);
  else if (c->nvalues > 255)
    snprintf(c->problem, sizeof c->problem, "userdata '%.40s' cannot be sent: it has more than 255 user values", c->type->name);
  else if (c->type->send)
    fill_container(L, ud, c);
  if (!c->problem[0] && !mr_cargo_reserve(c)) mr_raise_memory(L);
}

/* The metatable on top has a name, and the registry has it under that. */
static void prepare_type(lua_State *L, const mr_cargotype *t) {
  lua_pushvalue(L, -1);
  mr_type_metatable_keep(L, t);
  mr_husk_prepare(L, t);
}

/*
 * A tether that has the cargo of an earlier journey, or of another type, gets a new one. One that is HOME is used again: nobody else has it, but the
 * receivers of what is shared.
 */
void mr_cargo_prepare(lua_State *L, int ud, uint64_t serial) {
  int top = lua_gettop(L);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (!lua_getmetatable(L, ud)) return;
  int meta = lua_gettop(L);
  mr_cargo *old = mr_cargo_of(L, ud);
  if (old && old->type && mr_is_husk_of(L, meta, old->type)) {
    lua_settop(L, top);
    return;
  }
  const char *name = push_name(L);
  lua_pushvalue(L, meta);
  const mr_cargotype *t = name && mr_cargo_find ? mr_cargo_find(L, ud, name) : NULL;
  lua_settop(L, meta + 1);
  size_t size = lua_rawlen(L, ud);
  if (t && t->rule.way == MARE_SHARE && old && old->type == t && old->object) {       /* other states may have it */
    lua_settop(L, top);
    return;
  }
  mr_cargo *c = old;
  if (!c || c->type != t || c->size != size || atomic_load(&c->state) != CARGO_HOME) {
    tether *tie_to = make_tether(L, ud);
    lua_pop(L, 1);
    if (old) {
      lua_pushnil(L);
      set(L, &homes_key, "v", old);
    }
    if ((c = cargo_new(t, size)) == NULL) mr_raise_memory(L);
    tie_to->cargo = c;
    if (old) mr_release(&old->shared);
  }
  tie(L, ud, c);
  push_tether(L, ud);
  lua_pushvalue(L, meta);
  lua_setiuservalue(L, -2, 1);
  lua_pop(L, 1);
  if (t) {
    lua_pushvalue(L, meta);
    prepare_type(L, t);
    lua_settop(L, meta + 1);
    note_finaliser(L, meta, c);
    look_at(L, ud, c);
    if (t->rule.way == MARE_SHARE && !c->problem[0]) share(L, ud, c);
  }
  c->serial = serial;
  lua_settop(L, top);
}

/* ---- packing ---- */

/* Stack: [..., userdata]: remembered for mr_cargo_prepare, if there is room; the pack goes on only to meet the others. */
static int stranger(mr_packer *p) {
  p->nstrangers++;
  if (p->nwaiting < p->maxstrangers) {
    lua_pushvalue(p->L, -1);
    lua_rawseti(p->L, p->strangers, ++p->nwaiting);
  }
  lua_pop(p->L, 1);
  return 0;
}

static int refuse(mr_packer *p, uint32_t number, const mr_cargo *c, const char *why) {
  snprintf(p->words, sizeof p->words, "userdata '%.40s' cannot be sent: %.200s", c->type->name, why);
  return mr_fail(p, number, p->words);
}

static int moved(mr_packer *p, uint32_t number, const mr_cargo *c) {
  char how[MR_CARGO_WORDS];
  mr_cargo_words(c, how);
  snprintf(p->words, sizeof p->words, "userdata '%.40s' cannot be sent: it %.110s", c->type->name, how);
  return mr_fail(p, number, p->words);
}

enum { CONTAINER = 4096 };                       /* about what such a state takes */

static void define(mr_packer *p, mr_cargo *c) {
  mr_def *d = mr_take(p, &p->s[DEF], sizeof *d);
  memset(d, 0, sizeof *d);
  d->kind = KIND_CARGO;
  d->nup = (uint16_t)c->nvalues;
  d->u.object = &c->shared;
  *(mr_shared **)mr_take(p, &p->shared, sizeof(mr_shared *)) = &c->shared;
  p->ncargo++;
  p->cargosize += sizeof *c + c->size + (c->container ? CONTAINER : 0);
  p->needscode = p->moves = 1;
}

/* Stack: [..., userdata]. */
static int pack_values(mr_packer *p, const mr_cargo *c) {
  lua_State *L = p->L;
  int ud = lua_gettop(L), r = 0;
  if (!c->nvalues) return 0;
  mr_block b = mr_take_block(p, (size_t)c->nvalues);
  for (int i = 0; !r && i < c->nvalues; i++) {
    mr_value v;
    lua_getiuservalue(L, ud, i + 1);
    mr_read(p, lua_gettop(L), &v);
    r = mr_emit(p, &v, &b.tags[i], &b.words[i]);
    lua_pop(L, 1);
  }
  return r;
}

/* Stack: [..., userdata, metatable]; a userdata that is none of ours. */
int mr_pack_cargo(mr_packer *p, uint32_t number) {
  lua_State *L = p->L;
  int ud = lua_gettop(L) - 1;
  mr_cargo *c = mr_cargo_of(L, ud);
  if (c && c->type && mr_is_husk_of(L, ud + 1, c->type)) return moved(p, number, c);
  lua_pop(L, 1);
  const void *block = lua_touserdata(L, ud);       /* of ours, with a metatable that debug.setmetatable gave it */
  if (mr_share_valid && lua_rawlen(L, ud) >= sizeof block && *(void *const *)block && mr_share_valid(block, lua_rawlen(L, ud))) return mr_fail(p, number, NULL);
  int ready = c && c->type && !mr_cargo_moves(c) && c->object ? 1 : c && p->serial && c->serial == p->serial;
  if (!ready) return stranger(p);
  if (!c->type) return mr_fail(p, number, NULL);                           /* explain.c finds the words */
  if (c->problem[0]) return mr_fail(p, number, c->problem);
  if (mr_cargo_moves(c)) {
    if (p->section) return refuse(p, number, c, "it belongs to a class, which all its receivers keep");
    if (p->still) return mr_fail(p, number, p->still);
    if (p->stays) return refuse(p, number, c, "this is no message that one process receives");
    const char *why = mr_layout_problem(c->type, lua_touserdata(L, ud));
    if (why) return refuse(p, number, c, why);
  }
  const char *why = c->type->rule.busy ? c->type->rule.busy(L, ud) : NULL;
  if (why) return *why ? refuse(p, number, c, why) : mr_fail(p, number, NULL);
  define(p, c);
  int r = pack_values(p, c);
  lua_pop(L, 1);
  return r;
}

/* ---- the sender's side of the journey ---- */

/* Pushes the userdata that has, or had, the cargo; nil: it is gone. No allocation. */
static int push_home(lua_State *L, const mr_cargo *c) { return get(L, &homes_key, c) == LUA_TUSERDATA; }

int mr_cargo_leave(lua_State *L, mr_cargo *c) {
  if (!mr_cargo_moves(c)) return 1;
  if (!lua_checkstack(L, 8)) return 0;
  int top = lua_gettop(L), home = push_home(L, c);
  mr_assert(home);
  if (!home) return lua_settop(L, top), 0;
  void *block = lua_touserdata(L, -1);
  memcpy(c->bytes, block, c->size);
  c->object = c->bytes;
  if (c->type->rule.pack && c->type->rule.pack(L, top + 1, &c->object) != 0) {
    lua_settop(L, top);
    return 0;
  }
  memset(block, 0, c->size);
  mr_husk_set(L, top + 1, c->type);
  lua_settop(L, top);
  atomic_store(&c->state, CARGO_AWAY);
  return 1;
}

static int claim(mr_cargo *c, int state) {
  int away = CARGO_AWAY;
  return atomic_compare_exchange_strong(&c->state, &away, state);
}

void mr_cargo_back(lua_State *L, mr_cargo *c) {
  if (!mr_cargo_moves(c)) return;
  int top = lua_gettop(L);
  if (!lua_checkstack(L, 8) || !push_home(L, c)) {       /* collected meanwhile */
    lua_settop(L, top);
    mr_cargo_lose(c);
    return;
  }
  if (claim(c, CARGO_HOME)) {
    memcpy(lua_touserdata(L, -1), c->bytes, c->size);
    if (c->type->rule.back) c->type->rule.back(L, top + 1, c->object);
    push_tether(L, top + 1);
    lua_getiuservalue(L, -1, 1);
    lua_setmetatable(L, top + 1);
  }
  lua_settop(L, top);
}

void mr_cargo_lose(mr_cargo *c) {
  if (mr_cargo_moves(c) && claim(c, CARGO_LOST)) mr_cargo_finalise(c);
}

/* ---- the receiver's side ---- */

/* Pushes the metatable that this state has for the type. Its module is required first: it may have failed half-way, and left half a metatable. */
static void push_metatable(lua_State *L, const mr_cargotype *t) {
  if (t->rule.module) {
    lua_pushstring(L, t->rule.module);
    mr_push_module(L, -1);
    lua_pop(L, 2);
  }
  if (luaL_getmetatable(L, t->name) == LUA_TTABLE) return;
  if (t->rule.module) luaL_error(L, "cannot receive userdata '%s': module '%s' is another version here", t->name, t->rule.module);
  luaL_error(L, "cannot receive userdata '%s': its library is not loaded here; require it first", t->name);
}

/* What comes too late: another one who waited for the same result has it. */
static void make_husk(lua_State *L, mr_cargo *c) {
  lua_newuserdatauv(L, 0, 0);
  mr_husk_prepare(L, c->type);
  tie(L, lua_gettop(L), c);
  mr_husk_set(L, lua_gettop(L), c->type);
}

/* What the container had: a copy of the userdata, and the metatable for its finaliser. */
static int luaproc_keeps(const mr_cargo *c) { return c->gc ? 2 : 1; }

/* luaproc's function makes the userdata; it is finalised by nobody until it has arrived. */
static void make_by_function(lua_State *L, mr_cargo *c) {
  int top = lua_gettop(L), status;
  if (atomic_exchange(&c->received, 1)) {
    make_husk(L, c);
    return;
  }
  lua_pushcfunction(L, c->type->receive);
  lua_pushinteger(L, TO_PROCESS);
  lua_pushinteger(L, 1);
  lua_pushlightuserdata(L, c->container);
  status = lua_pcall(L, 3, LUA_MULTRET, 0);
  lua_settop(c->container, luaproc_keeps(c));
  atomic_store(&c->received, 0);
  if (status != LUA_OK) lua_error(L);
  if (lua_type(L, top + 1) != LUA_TUSERDATA || !lua_getmetatable(L, top + 1))
    luaL_error(L, "cannot receive userdata '%s': %s", c->type->name, lua_isstring(L, -1) ? lua_tostring(L, -1) : "its transfer function did not make it");
  mr_type_metatable_keep(L, c->type);
  lua_settop(L, top + 1);
  lua_pushnil(L);
  lua_setmetatable(L, top + 1);
}

static void make_empty(lua_State *L, mr_cargo *c) {
  push_metatable(L, c->type);
  mr_type_metatable_keep(L, c->type);
  void *block = lua_newuserdatauv(L, c->size, c->nvalues);
  memset(block, 0, c->size);
}

static void make_shared(lua_State *L, mr_cargo *c) {
  const mare_transfer *r = &c->type->rule;
  if (push_home(L, c) && mr_cargo_of(L, -1) == c) return;
  lua_pop(L, 1);
  make_empty(L, c);
  int ud = lua_gettop(L);
  if (r->ready) r->ready(L, ud, c->object);
  tie(L, ud, c);
  push_tether(L, ud);
  mr_type_metatable_push(L, c->type);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, -3, 1);
  if (r->unpack) r->unpack(L, ud, c->object);
  lua_setmetatable(L, ud);
  lua_settop(L, ud);
}

void mr_cargo_make(lua_State *L, mr_cargo *c) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (!mr_cargo_moves(c)) {
    make_shared(L, c);
    return;
  }
  if (atomic_load(&c->state) != CARGO_AWAY) {
    make_husk(L, c);
    return;
  }
  mr_husk_prepare(L, c->type);
  if (c->type->receive) {
    make_by_function(L, c);
    return;
  }
  make_empty(L, c);
  if (c->type->rule.ready) c->type->rule.ready(L, lua_gettop(L), c->object);
}

void mr_cargo_arrive(lua_State *L, int ud, mr_cargo *c) {
  if (!mr_cargo_moves(c)) return;
  if (lua_getmetatable(L, ud)) {                       /* a husk from the beginning */
    lua_pop(L, 1);
    return;
  }
  if (!claim(c, CARGO_TAKEN)) {
    mr_husk_set(L, ud, c->type);
    return;
  }
  if (!c->type->receive) {
    void *block = lua_touserdata(L, ud);
    if (!c->type->rule.pack) memcpy(block, c->bytes, c->size);
    mr_layout_mend(c->type, block);
    if (c->type->rule.unpack) c->type->rule.unpack(L, ud, c->object);
  }
  mr_type_metatable_push(L, c->type);
  lua_setmetatable(L, ud);
  if (mr_cargo_place) mr_cargo_place(L, c->where, sizeof c->where);
  atomic_store(&c->state, CARGO_GONE);
}
