/*
 * mare.freeze: frozen tables (share/frozen.h) as userdata, one per part and state.
 *
 * A part is read in two ways. At first `__index` is a C function that searches the part in place: nothing of it is held here. A part of few
 * entries that has been read some times is *laid out*: its userdata gets a metatable of its own whose `__index` is a table of this state, which
 * Lua's own instructions read. What costs memory - parts, functions, long strings - comes into that table when it is asked for.
 *
 * What this state has made of a whole's functions and long strings lies in the whole's *home*, a table that each userdata of the whole has as its
 * user value, once there is one; so do the last parts that large ones have made, as numbers 1, 2, 3…: to make one and collect it costs more than all else. Homes are found by the whole's serial number, as another whole may come to lie at the same address.
 *
 * Invariant: an address in a whole is used only as long as the box of a part of it, checked before, is on the stack or among the upvalues.
 */
#include "module/module.h"
#include "share/frozen.h"
#include "transfer/code.h"

#define TNAME "frozen table"

enum {
  LAID_OUT = 64,                               /* entries; larger parts are always searched in place */
  OFTEN = 32,                                  /* reads before that is done */
  SHORT = 40,                                  /* bytes of strings that Lua itself keeps once */
  KEPT = 1024,                                 /* parts of large ones that stay here a while though nobody has them */
  LARGE = 1024,                                /* strings from this size on are kept at home, not made again */
  WORTH = 64 << 10                             /* bytes of a whole that the collector is told of */
};

static const mr_class class;

/* NULL: it is none. */
static inline mr_wide_box *box_to(lua_State *L, int idx) {
  if (lua_rawlen(L, idx) != sizeof(mr_wide_box)) return NULL;
  mr_wide_box *b = lua_touserdata(L, idx);
  if (!b || b->box.tag != (mr_secret ^ (uintptr_t)b->box.object) || !b->box.object || b->box.object->type != &class.share) return NULL;
  return b;
}

static mr_part *part_to(lua_State *L, int idx) {
  mr_wide_box *b = box_to(L, idx);
  return b ? (mr_part *)b->box.object : NULL;
}

const mr_part *mr_frozen_part(lua_State *L, int idx) { return part_to(L, idx); }

static PORT_NOINLINE mr_wide_box *no_box(lua_State *L, int idx) {
  mr_check_forked(L);
  mr_box *b = lua_rawlen(L, idx) == sizeof(mr_wide_box) ? lua_touserdata(L, idx) : NULL;
  if (b && !b->object) luaL_argerror(L, idx, "it was finalised already");      /* reached out of another object's finaliser */
  luaL_typeerror(L, idx, TNAME);
  return NULL;
}

static inline mr_wide_box *box_check(lua_State *L, int idx) {
  mr_wide_box *b = box_to(L, idx);
  return PORT_LIKELY(b != NULL) ? b : no_box(L, idx);
}

static mr_part *part_check(lua_State *L, int idx) { return (mr_part *)box_check(L, idx)->box.object; }

/* ---- values: each is pushed for the userdata at index `of`, a part of the same whole ---- */

static void push_value(lua_State *L, int of, mr_frozen_value v);

static char homes_key;

static void push_homes(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &homes_key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 1);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &homes_key);
}

static void push_home(lua_State *L, int of) {
  if (lua_getiuservalue(L, of, 1) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_Integer serial = (lua_Integer)mr_frozen_serial(part_check(L, of));
  push_homes(L);
  if (lua_rawgeti(L, -1, serial) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, serial);
  }
  lua_remove(L, -2);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, of, 1);
}

static void push_text(lua_State *L, const mr_frozen_string *s) { lua_pushlstring(L, s->bytes, s->length); }

static PORT_NOINLINE void push_large(lua_State *L, int of, const mr_frozen_string *s) {
  push_home(L, of);
  if (lua_rawgetp(L, -1, s) != LUA_TSTRING) {
    lua_pop(L, 1);
    push_text(L, s);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, s);
  }
  lua_remove(L, -2);
}

/*
 * Functions refer to each other, so those that are needed for one are made together: `made` (at home + 1) has each under its address, and the
 * addresses in order. Code is loaded first, upvalues are set one function after the other; only when all are complete do they come home.
 */
static void push_shell(lua_State *L, int home, const mr_frozen_function *f, lua_Integer *n) {
  if (lua_rawgetp(L, home, f) == LUA_TFUNCTION) return;
  lua_pop(L, 1);
  if (lua_rawgetp(L, home + 1, f) == LUA_TFUNCTION) return;
  lua_pop(L, 1);
  mr_code_load(L, f->code);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, home + 1, f);
  lua_pushlightuserdata(L, (void *)(uintptr_t)f);
  lua_rawseti(L, home + 1, ++*n);
}

static const mr_frozen_function *made_at(lua_State *L, int home, lua_Integer i) {
  lua_rawgeti(L, home + 1, i);
  const mr_frozen_function *f = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return f;
}

/* Stack: [..., function]. */
static void set_upvalue(lua_State *L, int of, int home, const mr_frozen_function *f, int k, lua_Integer *n) {
  const mr_frozen_upvalue *u = &f->up[k];
  if (u->tag == FROZEN_JOINED) {
    push_shell(L, home, (const mr_frozen_function *)(uintptr_t)u->word, n);
    lua_upvaluejoin(L, -2, k + 1, -1, u->which);
    lua_pop(L, 1);
    return;
  }
  if (u->tag == FROZEN_FUNCTION) push_shell(L, home, (const mr_frozen_function *)(uintptr_t)u->word, n);
  else push_value(L, of, (mr_frozen_value){ u->word, u->tag });
  lua_setupvalue(L, -2, k + 1);
}

/* First a place for each, then they go in, which allocates nothing: all come home, or none. What has come meanwhile, as a module ran, stays. */
static void bring_home(lua_State *L, int home, lua_Integer n) {
  for (int placed = 0; placed < 2; placed++)
    for (lua_Integer i = 1; i <= n; i++) {
      const mr_frozen_function *f = made_at(L, home, i);
      int there = lua_rawgetp(L, home, f) == LUA_TFUNCTION;
      lua_pop(L, 1);
      if (there) continue;
      if (placed) lua_rawgetp(L, home + 1, f);
      else lua_pushboolean(L, 0);
      lua_rawsetp(L, home, f);
    }
}

static void push_function(lua_State *L, int of, const mr_frozen_function *f) {
  lua_Integer n = 0;
  push_home(L, of);
  int home = lua_gettop(L);
  if (lua_rawgetp(L, home, f) != LUA_TFUNCTION) {
    lua_settop(L, home);
    lua_newtable(L);
    push_shell(L, home, f, &n);
    lua_settop(L, home + 1);
    for (lua_Integer i = 1; i <= n; i++) {
      const mr_frozen_function *g = made_at(L, home, i);
      lua_rawgetp(L, home + 1, g);
      for (int k = 0; k < (int)g->nup; k++) set_upvalue(L, of, home, g, k, &n);
      lua_settop(L, home + 1);
    }
    bring_home(L, home, n);
    lua_rawgetp(L, home, f);
  }
  lua_replace(L, home);
  lua_settop(L, home);
}

static void push_named(lua_State *L, const mr_frozen_name *name) {
  push_text(L, name->module);
  push_text(L, name->field);
  mr_push_cfunction(L);
}

static void push_module(lua_State *L, const mr_frozen_string *name) {
  push_text(L, name);
  mr_push_module(L, -1);
  lua_remove(L, -2);
}

static PORT_NOINLINE void push_other(lua_State *L, int of, mr_frozen_value v) {
  void *at = (void *)(uintptr_t)v.word;
  luaL_checkstack(L, 20, NULL);
  switch (v.tag) {
    case FROZEN_STRING: push_large(L, of, at); break;
    case FROZEN_FUNCTION: push_function(L, of, at); break;
    case FROZEN_CFUNCTION: push_named(L, at); break;
    case FROZEN_MODULE: push_module(L, at); break;
    case FROZEN_SHARED: ((mr_shared *)at)->type->push(L, at); break;
    case FROZEN_GLOBALS: lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS); break;
    default: lua_pushlightuserdata(L, at); break;
  }
}

static inline void push_value(lua_State *L, int of, mr_frozen_value v) {
  lua_Number n;
  switch (v.tag) {
    case RAW_FALSE: lua_pushboolean(L, 0); break;
    case RAW_TRUE: lua_pushboolean(L, 1); break;
    case RAW_INT: lua_pushinteger(L, (lua_Integer)v.word); break;
    case RAW_FLT: memcpy(&n, &v.word, sizeof n); lua_pushnumber(L, n); break;
    case FROZEN_PART: mr_shared_push(L, (mr_shared *)(uintptr_t)v.word, &class); break;
    case FROZEN_STRING:
      if (PORT_LIKELY(((const mr_frozen_string *)(uintptr_t)v.word)->length < LARGE)) {
        push_text(L, (const mr_frozen_string *)(uintptr_t)v.word);
        break;
      }  /* fall through */
    default:
      if (raw_isnil(v.tag)) lua_pushnil(L);
      else push_other(L, of, v);
  }
}

/* The part on top has just been made for the large one at `of`, whose box's `lazy` has no other use. */
static PORT_NOINLINE void keep(lua_State *L, int of) {
  mr_wide_box *b = lua_touserdata(L, of);
  push_home(L, of);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, b->lazy++ % KEPT + 1);
  lua_getiuservalue(L, -2, 1);
  int has = lua_istable(L, -1);
  lua_pop(L, 1);
  if (has) lua_pop(L, 1);
  else lua_setiuservalue(L, -2, 1);
}

/* The key at idx, no string, as the part has it; tag nil: no table has such a key. */
static mr_frozen_value key_at(lua_State *L, int idx, const mr_part *part) {
  mr_frozen_value k = { 0, RAW_NIL };
  mr_shared *o;
  lua_Number n;
  int exact;
  switch (lua_type(L, idx)) {
    case LUA_TNUMBER:
      k.word = (uint64_t)lua_tointegerx(L, idx, &exact);                       /* 2.0 is 2, as in any table */
      k.tag = RAW_INT;
      if (exact) break;
      n = lua_tonumber(L, idx);
      memcpy(&k.word, &n, sizeof n);
      k.tag = RAW_FLT;
      break;
    case LUA_TBOOLEAN: k.tag = lua_toboolean(L, idx) ? RAW_TRUE : RAW_FALSE; break;
    case LUA_TLIGHTUSERDATA:
      k.word = (uint64_t)(uintptr_t)lua_touserdata(L, idx);
      k.tag = RAW_LIGHT;
      break;
    case LUA_TUSERDATA: {
      mr_part *other = part_to(L, idx);
      o = other ? &other->shared : mr_shared_any(L, idx);
      k.word = (uint64_t)(uintptr_t)o;
      if (o) k.tag = other && other->whole == part->whole ? FROZEN_PART : FROZEN_SHARED;
    }
  }
  return k;
}

static inline mr_frozen_value find(lua_State *L, int idx, const mr_part *part) {
  size_t length;
  const char *text;
  switch (lua_type(L, idx)) {
    case LUA_TSTRING:
      text = lua_tolstring(L, idx, &length);
      return mr_part_string(part, text, length);
    case LUA_TNUMBER:
      if (lua_isinteger(L, idx)) return mr_part_integer(part, lua_tointeger(L, idx));
  }
  mr_frozen_value k = key_at(L, idx, part);
  if (k.tag == RAW_INT) return mr_part_integer(part, (lua_Integer)k.word);
  return raw_isnil(k.tag) ? k : mr_part_other(part, k);
}

/* ---- laying out ---- */

static int is_cheap(mr_frozen_value v) {
  if (v.tag == FROZEN_STRING) return ((const mr_frozen_string *)(uintptr_t)v.word)->length <= SHORT;
  return v.tag < FROZEN_STRING;
}

/* __index of the layout of the userdata that is its upvalue: (layout, key) -> what was too dear to be put there at once */
static int l_lazy(lua_State *L) {
  int of = lua_upvalueindex(1);
  mr_part *part = part_to(L, of);
  lua_settop(L, 2);
  if (!part) return 0;
  mr_frozen_value v = find(L, 2, part);
  push_value(L, of, v);
  if (raw_isnil(v.tag) || lua_type(L, 1) != LUA_TTABLE) return 1;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_rawset(L, 1);
  if (--((mr_wide_box *)lua_touserdata(L, of))->lazy == 0) {
    lua_pushnil(L);
    lua_setmetatable(L, 1);
  }
  return 1;
}

/* Pushes the layout of the userdata at 1; how much is left for later. */
static uint32_t push_layout(lua_State *L, const mr_part *part) {
  uint64_t at = 0;
  uint32_t lazy = 0;
  mr_frozen_value k, v;
  lua_createtable(L, (int)part->narr, (int)mr_part_nkeys(part));
  while (mr_part_next(part, &at, &k, &v)) {
    if (!is_cheap(v)) { lazy++; continue; }
    push_value(L, 1, k);
    push_value(L, 1, v);
    lua_rawset(L, -3);
  }
  if (!lazy) return 0;
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, l_lazy, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  return lazy;
}

/* The userdata at 1 gets its own metatable: the class's, but for __index. */
static PORT_NOINLINE void lay_out(lua_State *L, const mr_part *part) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 20, NULL);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &class);
  if (!lua_istable(L, -1)) { lua_settop(L, top); return; }
  lua_createtable(L, 0, 16);
  for (lua_pushnil(L); lua_next(L, top + 1);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, top + 2);
  }
  uint32_t lazy = push_layout(L, part);
  lua_setfield(L, top + 2, "__index");
  lua_setmetatable(L, 1);
  ((mr_wide_box *)lua_touserdata(L, 1))->lazy = lazy;
  lua_settop(L, top);
}

/* ---- metamethods ---- */

static int l_index(lua_State *L) {
  mr_wide_box *b = box_check(L, 1);
  mr_part *part = (mr_part *)b->box.object;
  mr_frozen_value v = find(L, 2, part);
  if (PORT_UNLIKELY(b->reads < OFTEN) && ++b->reads == OFTEN && part->narr + (uint64_t)mr_part_nkeys(part) <= LAID_OUT) lay_out(L, part);
  if (v.tag == FROZEN_PART && b->reads >= OFTEN) {
    if (mr_shared_push(L, (mr_shared *)(uintptr_t)v.word, &class)) keep(L, 1);
  } else push_value(L, 1, v);
  return 1;
}

static int l_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)part_check(L, 1)->border);
  return 1;
}

static int l_tostring(lua_State *L) {
  lua_pushfstring(L, TNAME ": %p", (void *)part_check(L, 1));
  return 1;
}

/* Is the key at idx the one of that place, which next has given? Loops ask for the one after the last. */
static int is_at(lua_State *L, int idx, const mr_part *part, uint64_t place) {
  size_t length;
  if (!place) return 0;
  mr_frozen_value k = mr_part_key_at(part, place);
  if (k.tag == FROZEN_STRING) {
    const mr_frozen_string *s = (const mr_frozen_string *)(uintptr_t)k.word;
    if (lua_type(L, idx) != LUA_TSTRING) return 0;
    const char *text = lua_tolstring(L, idx, &length);
    return length == s->length && memcmp(text, s->bytes, length) == 0;
  }
  return k.tag == RAW_INT && lua_isinteger(L, idx) && (uint64_t)lua_tointeger(L, idx) == k.word;
}

static uint64_t place_of(lua_State *L, int idx, const mr_part *part) {
  size_t length;
  if (lua_type(L, idx) == LUA_TSTRING) {
    const char *text = lua_tolstring(L, idx, &length);
    return mr_part_place_of(part, text, length);
  }
  mr_frozen_value k = key_at(L, idx, part);
  return raw_isnil(k.tag) ? 0 : mr_part_place(part, k);
}

/* (frozen, key) -> the next key and its value */
static int l_next(lua_State *L) {
  mr_wide_box *b = box_check(L, 1);
  mr_part *part = (mr_part *)b->box.object;
  mr_frozen_value k, v;
  uint64_t at = 0;
  if (!lua_isnoneornil(L, 2)) {
    at = is_at(L, 2, part, b->place) ? b->place : place_of(L, 2, part);
    if (!at) return luaL_error(L, "pairs: the table has no such key");
  }
  if (!mr_part_next(part, &at, &k, &v)) return lua_pushnil(L), 1;
  b->place = at;
  push_value(L, 1, k);
  push_value(L, 1, v);
  return 2;
}

static int l_pairs(lua_State *L) {
  part_check(L, 1);
  lua_pushcfunction(L, l_next);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

static const luaL_Reg meta[] = { { "__index", l_index }, { "__len", l_len }, { "__pairs", l_pairs }, { "__tostring", l_tostring }, { NULL, NULL } };
static const luaL_Reg methods[] = { { NULL, NULL } };
static void push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = {
  { .name = TNAME, .destroy = mr_part_destroy, .push = push, .constant = 1, .wide = 1, .hold = mr_part_hold }, TNAME, meta, methods, NULL, NULL
};

/* ---- freezing ---- */

static int is_constant(lua_State *L, int idx) {
  switch (lua_type(L, idx)) {
    case LUA_TTABLE: case LUA_TFUNCTION: case LUA_TTHREAD: return 0;
    case LUA_TUSERDATA: {
      mr_shared *o = part_to(L, idx) ? NULL : mr_shared_any(L, idx);
      return part_to(L, idx) || (o && !o->type->moves && !o->type->stays);
    }
  }
  return 1;
}

static int no_table(lua_State *L, int idx) {
  if (lua_isfunction(L, idx)) return luaL_error(L, "value: function cannot be frozen by itself; freeze a table that holds it");
  if (lua_isthread(L, idx)) return luaL_error(L, "value: coroutine cannot be frozen");
  return luaL_error(L, "value: userdata cannot be frozen");
}

/* Its bytes count in the budget of the process that makes it. */
static void charge(lua_State *L, mr_proc *p, mr_part *part) {
  char text[200];
  if (PORT_LIKELY(!p->budget)) return;
  mr_budget *over = mr_proc_take(L, p, p->budget, mr_frozen_size(part));
  if (!over) {
    mr_frozen_charge(part, p->budget);
    return;
  }
  mr_proc_over(over, text);
  mr_release(&part->shared);
  lua_pushstring(L, text);
  lua_error(L);
}

static int freeze(lua_State *L, int idx) {
  mr_check_forked(L);
  if (!lua_istable(L, idx)) {
    if (!is_constant(L, idx)) return no_table(L, idx);
    lua_pushvalue(L, idx);
    return 1;
  }
  mr_fiber *f = mr_self_fiber(L);
  mr_packer *packer = mr_packer_for(L, f);
  if (mr_frozen_pack(packer, L, idx)) return lua_error(L);
  mr_part *part = mr_frozen_new(packer, &class.share);
  if (!part) return mr_raise(L, MR_ENOMEM);
  size_t size = mr_frozen_size(part);
  charge(L, mr_proc_of(f), part);
  mr_shared_push_new(L, &part->shared);
  /* its userdata is small, what it holds is not: the collector works as if it had been allocated here */
  if (size >= WORTH && !mr_lua_in_finaliser(L) && lua_gc(L, LUA_GCISRUNNING) == 1) mr_lua_step(L, size);
  return 1;
}

/* freeze(value) -> the same, for ever */
static int l_call(lua_State *L) {
  if (lua_gettop(L) < 2) return luaL_error(L, "bad argument #1 to 'mare.freeze' (value expected)");
  lua_settop(L, 2);
  return freeze(L, 2);
}

/* freeze.is(value) -> boolean */
static int l_is(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, part_to(L, 1) != NULL);
  return 1;
}

/* freeze.size(frozen) -> bytes of all that was frozen together */
static int l_size(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_frozen_size(part_check(L, 1)));
  return 1;
}

/* ---- thawing. Stack: 1 value, 2 part -> table, 3 the parts in order ---- */

static void push_thawed(lua_State *L, const mr_part *part, lua_Integer *n) {
  if (lua_rawgetp(L, 2, part) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, part->narr < INT_MAX ? (int)part->narr : 0, (int)mr_part_nkeys(part));
  lua_pushvalue(L, -1);
  lua_rawsetp(L, 2, part);
  lua_pushlightuserdata(L, (void *)(uintptr_t)part);
  lua_rawseti(L, 3, ++*n);
}

/* Values of the part whose userdata is at 5, once it is needed. */
static void push_copy(lua_State *L, const mr_part *part, mr_frozen_value v, lua_Integer *n) {
  mr_shared *o = (mr_shared *)(uintptr_t)v.word;
  if (v.tag == FROZEN_PART || (v.tag == FROZEN_SHARED && o->type == &class.share)) {
    push_thawed(L, (const mr_part *)(uintptr_t)v.word, n);
    return;
  }
  if (v.tag == FROZEN_FUNCTION && lua_isnil(L, 5)) {
    mr_shared_push(L, (mr_shared *)(uintptr_t)&part->shared, &class);
    lua_replace(L, 5);
  }
  if (v.tag == FROZEN_STRING) push_text(L, (const mr_frozen_string *)(uintptr_t)v.word);
  else push_value(L, 5, v);
}

static void thaw(lua_State *L, const mr_part *part, lua_Integer *n) {
  uint64_t at = 0;
  mr_frozen_value k, v;
  lua_rawgetp(L, 2, part);
  lua_pushnil(L);
  while (mr_part_next(part, &at, &k, &v)) {
    push_copy(L, part, k, n);
    push_copy(L, part, v, n);
    lua_rawset(L, 4);
  }
  lua_settop(L, 3);
}

/* freeze.copy(value) -> tables like it that can be changed */
static int l_copy(lua_State *L) {
  lua_Integer n = 0;
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  mr_part *part = part_to(L, 1);
  if (!part) return 1;
  luaL_checkstack(L, 20, NULL);
  lua_newtable(L);
  lua_newtable(L);
  push_thawed(L, part, &n);
  lua_settop(L, 3);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 3, i);
    const mr_part *next = lua_touserdata(L, -1);
    lua_pop(L, 1);
    thaw(L, next, &n);
  }
  lua_rawgetp(L, 2, part);
  return 1;
}

static const luaL_Reg functions[] = { { "copy", l_copy }, { "is", l_is }, { "size", l_size }, { NULL, NULL } };

/* A table that can be called; a misspelt field raises, as in any module. */
int luaopen_mare_freeze(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 3);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  lua_createtable(L, 0, 2);
  lua_getmetatable(L, -2);
  lua_getfield(L, -1, "__index");
  lua_setfield(L, -3, "__index");
  lua_pop(L, 1);
  mr_function_push(L, l_call);
  lua_setfield(L, -2, "__call");
  lua_setmetatable(L, -2);
  return 1;
}
