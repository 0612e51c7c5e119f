/*
 * rules: by which rule a userdata of another library travels. In this order:
 *
 *   1. the metatable's field __transfer (include/mare.h)
 *   2. the functions that this state was told by luaproc.regudata
 *   3. what the program was told by transfer_register, for the metatable's name
 *   4. a file of lua/mare/rules, of which list.lua has the names. Each is read once in the program.
 *   5. what luaproc.regudata was told of without functions: the block is copied
 *
 * A rule in Lua is a table: what is known of the layout of the block. No code of it runs when something is sent.
 */
#include "module/rules.h"
#include "base/embedded.h"
#include "state/chunk.h"
#include "process/names.h"
#include "transfer/cargo.h"

#include <stdio.h>
#include <string.h>

/* ---- files of io ---- */

/* "" : the words that any userdata without a rule gets. Standard streams belong to the program. */
static const char *file_busy(lua_State *L, int idx) {
  const luaL_Stream *s = lua_touserdata(L, idx);
  if (!s->closef) return "the file is closed";
  return s->f == stdin || s->f == stdout || s->f == stderr ? "" : NULL;
}

static const mare_transfer file_rule = { .version = MARE_TRANSFER_VERSION, .module = LUA_IOLIBNAME, .size = sizeof(luaL_Stream), .busy = file_busy };

/* ---- of a loop ---- */

static const char *loop_busy(lua_State *L, int idx) {
  (void)L;
  (void)idx;
  return "it belongs to the event loop of the process that made it; make it in the receiver, or send its descriptor";
}

static const mare_transfer loop_rule = { .version = MARE_TRANSFER_VERSION, .busy = loop_busy };

static const struct { const char *name; const mare_transfer *rule; } natives[] = { { "file", &file_rule }, { "loop", &loop_rule } };

/* ---- from a table to a rule ---- */

static uint32_t offset(lua_State *L, int table, lua_Integer i, const char *name, size_t size) {
  lua_rawgeti(L, table, i);
  lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (n < 0 || (size_t)n + sizeof(void *) > size) luaL_error(L, "rule for '%s': an offset is outside of the block", name);
  return (uint32_t)n;
}

/* [..., rule] */
static void read_inside(lua_State *L, const char *name, mr_layoutrule *l, size_t size) {
  enum { MOST = sizeof l->inside / sizeof *l->inside };
  if (lua_getfield(L, -1, "inside") == LUA_TTABLE) {
    lua_Integer n = luaL_len(L, -1);
    if (n > MOST) luaL_error(L, "rule for '%s': more than %d pointers", name, (int)MOST);
    for (lua_Integer i = 1; i <= n; i++) {
      lua_rawgeti(L, -1, i);
      luaL_checktype(L, -1, LUA_TTABLE);
      l->inside[i - 1] = (mr_inside){ offset(L, lua_gettop(L), 1, name, size), offset(L, lua_gettop(L), 2, name, size) };
      lua_pop(L, 1);
    }
    l->ninside = (uint32_t)n;
  }
  lua_pop(L, 1);
}

static void read_demands(lua_State *L, const char *name, mr_layoutrule *l, size_t size) {
  enum { MOST = sizeof l->demands / sizeof *l->demands };
  if (lua_getfield(L, -1, "demands") == LUA_TTABLE) {
    lua_Integer n = luaL_len(L, -1);
    if (n > MOST) luaL_error(L, "rule for '%s': more than %d demands", name, (int)MOST);
    for (lua_Integer i = 1; i <= n; i++) {
      mr_demand *d = &l->demands[i - 1];
      lua_rawgeti(L, -1, i);
      luaL_checktype(L, -1, LUA_TTABLE);
      d->at = offset(L, lua_gettop(L), 1, name, size);
      lua_rawgeti(L, -1, 2);
      lua_rawgeti(L, -2, 3);
      d->value = (int32_t)lua_tointeger(L, -2);
      snprintf(d->words, sizeof d->words, "%s", luaL_checkstring(L, -1));
      lua_pop(L, 3);
    }
    l->ndemands = (uint32_t)n;
  }
  lua_pop(L, 1);
}

/* [..., rule] */
static void read_tables(lua_State *L, const char *name, mr_layoutrule *l) {
  size_t used = 0;
  if (lua_getfield(L, -1, "tables") == LUA_TTABLE) {
    for (lua_Integer i = 1, n = luaL_len(L, -1); i <= n; i++) {
      lua_rawgeti(L, -1, i);
      size_t size = strlen(luaL_checkstring(L, -1)) + 1;
      if (used + size >= sizeof l->tables) luaL_error(L, "rule for '%s': too many tables", name);
      memcpy(l->tables + used, lua_tostring(L, -1), size);
      used += size;
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

static const mr_cargotype *native(lua_State *L, const char *name, const char *which) {
  for (size_t i = 0; i < sizeof natives / sizeof *natives; i++) {
    if (strcmp(natives[i].name, which) != 0) continue;
    const mr_cargotype *t = mr_cargotype_of_rule(name, natives[i].rule, 1);
    return t ? t : (mr_raise(L, MR_ENOMEM), NULL);
  }
  luaL_error(L, "rule for '%s': there is no native rule '%s'", name, which);
  return NULL;
}

/* rule on the top */
static const mr_cargotype *read_rule(lua_State *L, const char *name) {
  mare_transfer r = { .version = MARE_TRANSFER_VERSION };
  mr_layoutrule l = { .descriptor = -1 };
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (lua_getfield(L, -1, "native") == LUA_TSTRING) return native(L, name, lua_tostring(L, -1));
  lua_pop(L, 1);
  lua_getfield(L, -1, "size");
  r.size = (size_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (r.size < sizeof(void *)) luaL_error(L, "rule for '%s': its size is missing", name);
  read_inside(L, name, &l, r.size);
  read_demands(L, name, &l, r.size);
  read_tables(L, name, &l);
  if (lua_getfield(L, -1, "descriptor") == LUA_TNUMBER) l.descriptor = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  lua_getfield(L, -1, "module");
  r.module = lua_tostring(L, -1);
  const mr_cargotype *t = mr_cargotype_of_layout(name, &r, &l);
  return t ? t : (mr_raise(L, MR_ENOMEM), NULL);
}

/* ---- the files ---- */

/* Pushes what the file returns. It is of no use to anybody else, so no state keeps it. */
static void push_file(lua_State *L, const char *module) {
  const struct mr_embedded *e = mr_embedded_find(module);
  if (!e) luaL_error(L, "'%s' is not part of this library", module);
  if (mr_chunk_text(L, e->file, (const char *)e->code, e->size) != LUA_OK) lua_error(L);
  lua_call(L, 0, 1);
}

static const mr_cargotype *from_files(lua_State *L, const char *name) {
  push_file(L, "mare.rules.list");
  if (lua_getfield(L, -1, name) != LUA_TSTRING) return NULL;
  push_file(L, lua_tostring(L, -1));
  if (lua_getfield(L, -1, name) != LUA_TTABLE) return NULL;
  return read_rule(L, name);
}

/* ---- luaproc's ---- */

static char functions_key;                       /* registry: name -> { send = f, recv = f } */

static lua_CFunction function_of(lua_State *L, const char *field) {
  lua_pushstring(L, field);
  lua_rawget(L, -2);
  lua_CFunction f = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  return f;
}

/* `plain`: those that have no functions, and whose block is copied. */
static const mr_cargotype *from_luaproc(lua_State *L, const char *name, int plain) {
  const mr_cargotype *t = NULL;
  int top = lua_gettop(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key) == LUA_TTABLE && lua_getfield(L, -1, name) == LUA_TTABLE) {
    lua_CFunction send = function_of(L, "send"), receive = function_of(L, "recv");
    if ((send && receive) == plain) return lua_settop(L, top), NULL;
    t = mr_cargotype_of_functions(name, plain ? NULL : send, plain ? NULL : receive);
    if (!t) mr_raise(L, MR_ENOMEM);
  }
  lua_settop(L, top);
  return t;
}

static int told(lua_State *L, const char *text) {
  lua_pushnil(L);
  lua_pushstring(L, text);
  return 2;
}

/* Pushes the table of this state. */
static void push_functions(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 4);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &functions_key);
}

/* library -> true | nil, message: library.transffuncs() gives { [name] = { send = f, recv = f } }; all are registered, or none. */
int mr_rules_regudata(lua_State *L) {
  if (lua_type(L, 1) != LUA_TTABLE) return told(L, "the first parameter must be a table");
  lua_settop(L, 1);
  lua_getfield(L, 1, "transffuncs");
  if (!lua_isfunction(L, 2)) return told(L, "the table passed as a parameter has no function 'transffuncs'");
  lua_call(L, 0, 1);
  if (!lua_istable(L, 2)) return told(L, "the function 'transffuncs' must return a table");
  push_functions(L);
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) return told(L, "the table returned by 'transffuncs' must be indexed by names of metatables");
    lua_pushvalue(L, -2);
    if (lua_rawget(L, 3) != LUA_TNIL) {
      lua_pushnil(L);
      lua_pushfstring(L, "userdata - %s - already registered", lua_tostring(L, -4));
      return 2;
    }
    lua_pop(L, 1);
  }
  for (lua_pushnil(L); lua_next(L, 2);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, 3);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* () -> what luaproc.regudata(luaproc) registered: here it is known anyway, and the rules are mare's */
int mr_rules_transffuncs(lua_State *L) {
  static const char *const names[] = { LUA_FILEHANDLE, "tcp{master}", "tcp{client}", "tcp{server}" };
  lua_createtable(L, 0, sizeof names / sizeof *names);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    lua_createtable(L, 0, 0);
    lua_setfield(L, -2, names[i]);
  }
  return 1;
}

/* ---- finding ---- */

static void check_rule(lua_State *L, const char *name, const mare_transfer *r) {
  if (r->version != MARE_TRANSFER_VERSION)
    luaL_error(L, "rule for userdata '%s': version %d, and this mare knows %d", name, (int)r->version, MARE_TRANSFER_VERSION);
  if (r->way != MARE_MOVE && !(r->way == MARE_SHARE && r->pack && r->unpack && r->drop))
    luaL_error(L, "rule for userdata '%s': what is shared needs pack, unpack and drop", name);
}

static const mr_cargotype *from_field(lua_State *L, const char *name) {
  lua_pushliteral(L, MARE_TRANSFER_FIELD);
  int type = lua_rawget(L, -2);
  const mare_transfer *r = type == LUA_TLIGHTUSERDATA ? lua_touserdata(L, -1) : NULL;
  lua_pop(L, 1);
  if (!r) return NULL;
  check_rule(L, name, r);
  const mr_cargotype *t = mr_cargotype_of_rule(name, r, 0);
  return t ? t : (mr_raise(L, MR_ENOMEM), NULL);
}

static const mr_cargotype *find(lua_State *L, int ud, const char *name) {
  (void)ud;
  const mr_cargotype *t = from_field(L, name);
  if (!t) t = from_luaproc(L, name, 0);
  if (!t) t = mr_cargotype_named(name);
  if (!t) t = from_files(L, name);
  return t ? t : from_luaproc(L, name, 1);
}

void mr_rules_register(lua_State *L, const char *name, const mare_transfer *rule) {
  check_rule(L, name, rule);
  if (!mr_cargotype_of_rule(name, rule, 1)) mr_raise(L, MR_ENOMEM);
}

static void place(lua_State *L, char *text, size_t size) {
  mr_proc *p = mr_in_process(L) ? mr_proc_here(L) : mr_host_of(L);
  if (!p) snprintf(text, size, "another process");
  else if (p->kind == PROC_HOST) snprintf(text, size, "the main script");
  else mr_proc_describe(p, text, size);
}

void mr_rules_install(void) {
  mr_cargo_find = find;
  mr_cargo_place = place;
}
