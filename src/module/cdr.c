/*
 * cdr: mare.orb.cdr - environments and marshalling programs. What they do is in src/cdr.
 *
 * An environment is a userdata whose user value is the list of its fields (type.h), which Lua sees by their names. A program is a userdata with a
 * copy of that list as its user value, and behind it what the program needs: the environment, its types and names.
 */
#include "module/orb.h"
#include "cdr/message.h"
#include "cdr/bulk.h"
#include "cdr/typecode.h"

static const char env_tag, program_tag;        /* their addresses tell our userdata from others' */

mr_program *mr_program_at(lua_State *L, int idx) {
  mr_program *p = lua_rawlen(L, idx) >= sizeof *p ? (mr_program *)lua_touserdata(L, idx) : NULL;
  return p && p->tag == ((uintptr_t)&program_tag ^ (uintptr_t)p) ? p : NULL;
}

static inline mr_program *check_program(lua_State *L) {
  mr_program *p = mr_program_at(L, 1);
  if (!p) luaL_argerror(L, 1, "marshalling program expected");
  return p;
}

/* The integer at idx of so many arguments. */
static inline lua_Integer integer_arg(lua_State *L, int idx, int top) {
  const raw_value *v = raw_top(L) - top + idx - 1;
  return PORT_LIKELY(mr_layout && idx <= top && v->tt == RAW_INT) ? (lua_Integer)v->bits : luaL_checkinteger(L, idx);
}

static int check_codec(lua_State *L, int idx, int top) {
  lua_Integer n = integer_arg(L, idx, top);
  luaL_argcheck(L, n >= 0 && n <= CDR_ALL && (n & CDR_MINOR) != CDR_MINOR && (n & (CDR_AS_IS | CDR_FROM_LATIN)) != (CDR_AS_IS | CDR_FROM_LATIN), idx,
                "no codec");
  return (int)n;
}

/* program:encode(codec, …) -> bytes */
static int l_encode(lua_State *L) {
  mr_program *p = check_program(L);
  int top = lua_gettop(L), codec = check_codec(L, 2, top);
  mr_program_encode(L, p, codec, 3, top - 2);
  return 1;
}

/* program:decode(bytes, at, codec) -> …; `bytes` may be a long message (bulk.h), which is freed if the codec says that this was the last look */
static int l_decode(lua_State *L) {
  size_t n;
  mr_program *p = check_program(L);
  const char *s = mr_bulk_bytes(L, 2, &n);
  if (PORT_UNLIKELY(!s)) s = luaL_checklstring(L, 2, &n);
  int top = lua_gettop(L);
  lua_Integer at = PORT_LIKELY(!lua_isnoneornil(L, 3)) ? integer_arg(L, 3, top) : 1;
  int codec = check_codec(L, 4, top);
  if (PORT_UNLIKELY(top > 4)) lua_settop(L, 4);
  luaL_argcheck(L, at >= 1, 3, "positions count from 1");
  mr_bulk *b = PORT_UNLIKELY(n >= MR_BULK_FROM) ? mr_bulk_at(L, 2) : NULL;
  if (PORT_UNLIKELY(b != NULL)) b->uses++;       /* what decoding calls may want to decode it, too */
  int results = mr_program_decode(L, p, codec & ~CDR_BULK, s, n, (lua_Unsigned)at > n ? n : (size_t)at - 1);
  if (PORT_LIKELY(b == NULL)) return results;
  mr_assert(b->uses > 0 && b->p == s);            /* nobody has freed it meanwhile */
  b->uses--;
  if (codec & CDR_BULK) mr_bulk_free(b);
  return results;
}

/* program:request(head, idat, id, codec, …) -> message */
static int l_request(lua_State *L) {
  size_t n;
  mr_program *p = check_program(L);
  const char *head = luaL_checklstring(L, 2, &n);
  int top = lua_gettop(L);
  lua_Integer idat = integer_arg(L, 3, top), id = integer_arg(L, 4, top);
  int codec = check_codec(L, 5, top);
  luaL_argcheck(L, n >= 12, 2, "no head of a message");
  luaL_argcheck(L, idat >= 12 && (lua_Unsigned)idat + 4 <= n, 3, "outside of the head");
  mr_program_request(L, p, &(mr_head){ { head, n }, (size_t)idat }, (uint32_t)id, codec, 6, top - 5);
  return 1;
}

/* program:reply(id, codec, status, contexts, …) -> message */
static int l_reply(lua_State *L) {
  mr_program *p = check_program(L);
  int top = lua_gettop(L);
  lua_Integer id = integer_arg(L, 2, top), status = integer_arg(L, 4, top);
  int codec = check_codec(L, 3, top);
  if (top < 5) lua_settop(L, 5);
  luaL_argcheck(L, lua_isnil(L, 5) || lua_istable(L, 5), 5, "list of service contexts or nil expected");
  mr_program_reply(L, p, (uint32_t)id, codec, (uint32_t)status, 5, 6, lua_gettop(L) - 5);
  return 1;
}

static const luaL_Reg program_methods[] = {
  { "encode", l_encode }, { "decode", l_decode }, { "request", l_request }, { "reply", l_reply }, { NULL, NULL },
};

/* ---- environments ---- */

static const char *const field_names[] = { "proxies", "iors", "reference_in", "reference_out", "fail", "resolve", "reference_type", NULL };

static mr_cdr_env *check_env(lua_State *L, int idx) {
  mr_cdr_env *env = lua_rawlen(L, idx) >= sizeof *env ? (mr_cdr_env *)lua_touserdata(L, idx) : NULL;
  if (!env || env->tag != ((uintptr_t)&env_tag ^ (uintptr_t)env)) luaL_argerror(L, idx, "marshalling environment expected");
  return env;
}

/* Stack: the list of types at 2, of names at 3, the program's list at `fields`. */
static void compile_all(lua_State *L, mr_program *p, int fields) {
  lua_Integer at = ENV_FIELDS + 1;
  for (uint32_t i = 0; i < p->n; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    p->types[i] = mr_type_get(L, p->env, fields, -1);
    lua_rawseti(L, fields, ++at);
    if (!p->names) continue;
    if (lua_rawgeti(L, 3, (lua_Integer)i + 1) != LUA_TSTRING) luaL_argerror(L, 3, "a name for each type expected");
    p->names[i] = lua_tostring(L, -1);
    lua_rawseti(L, fields, ++at);
  }
}

/* Pushes the list of a program of the environment at 1, with n more places. */
static void push_list(lua_State *L, const mr_cdr_env *env, int n) {
  mr_fields_push(L, 1, env->fields, ENV_FIELDS, env->seal);
  lua_createtable(L, ENV_FIELDS + 1 + n, 0);
  for (int i = 1; i <= ENV_FIELDS; i++) {
    lua_rawgeti(L, -2, i);
    lua_rawseti(L, -2, i);
  }
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, ENV_FIELDS + 1);
  lua_remove(L, -2);
}

/* env:program(types[, names[, label]]) -> program; errors of encoding begin with the label */
static int l_program(lua_State *L) {
  mr_cdr_env *env = check_env(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 4);
  if (!lua_isnil(L, 4)) luaL_checktype(L, 4, LUA_TSTRING);
  uint32_t n = (uint32_t)lua_rawlen(L, 2);
  int named = !lua_isnil(L, 3);
  luaL_argcheck(L, n <= 250, 2, "too many types");
  if (named) luaL_checktype(L, 3, LUA_TTABLE);
  mr_program *p = lua_newuserdatauv(L, sizeof *p + n * sizeof *p->types + n * sizeof *p->names, 1);
  p->tag = 0;
  p->env = env;
  p->n = n;
  p->types = (const mr_type **)(void *)(p + 1);
  p->names = named ? (const char **)(void *)(p->types + n) : NULL;
  uint32_t own = ENV_FIELDS + 1 + n * (1 + (uint32_t)named);
  push_list(L, env, (int)n * (1 + named) + 1);
  compile_all(L, p, 6);
  p->fields = lua_topointer(L, 6);
  p->seal = mr_seal_of(L, own);
  lua_pushvalue(L, 4);
  lua_rawseti(L, 6, own + 1);                    /* is no part of the seal: it is asked for when something fails */
  lua_setiuservalue(L, 5, 1);
  p->tag = (uintptr_t)&program_tag ^ (uintptr_t)p;
  mr_metatable_set(L, "mare.orb.cdr.program");
  return 1;
}

/* env:typecode(T[, big-endian]) -> the bytes of its TypeCode */
static int l_typecode(lua_State *L) {
  mr_cdr_env *env = check_env(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 3);
  mr_fields_push(L, 1, env->fields, ENV_FIELDS, env->seal);
  mr_typecode_bytes(L, env, 4, 2, !lua_toboolean(L, 3));
  return 1;
}

/* env.name: a method, or one of its fields */
static int l_env_index(lua_State *L) {
  check_env(L, 1);
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(name, "program") == 0) { lua_pushcfunction(L, l_program); return 1; }
  if (strcmp(name, "classes") == 0 && lua_getiuservalue(L, 1, 1) == LUA_TTABLE) { lua_rawgeti(L, -1, ENV_CLASSES); return 1; }
  if (strcmp(name, "typecode") == 0) { lua_pushcfunction(L, l_typecode); return 1; }
  for (int i = 0; field_names[i]; i++)
    if (strcmp(field_names[i], name) == 0) {
      if (lua_getiuservalue(L, 1, 1) != LUA_TTABLE) return 0;     /* debug.setuservalue */
      lua_rawgeti(L, -1, i + 1);
      return 1;
    }
  return 0;
}

/* fail(name, minor, text) where the environment gives none */
static int l_fail(lua_State *L) { return luaL_error(L, "%s: %s", luaL_checkstring(L, 1), luaL_checkstring(L, 3)); }

static void push_weak(lua_State *L, const char *mode) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}

static void take_function(lua_State *L, int fields, const char *name, int at) {
  int type = lua_getfield(L, 1, name);
  if (type != LUA_TNIL && type != LUA_TFUNCTION) luaL_error(L, "option '%s' must be a function", name);
  if (type == LUA_TNIL) lua_pushboolean(L, 0);
  lua_rawseti(L, fields, at);
  lua_pop(L, type == LUA_TNIL);
}

/* The kinds without parameters, and unbounded strings: a table each. Others have them already when the IDL compiler is there. */
static void make_basic(lua_State *L, int fields) {
  static const char *const names[TK_KINDS] = {
    "null", "void", "short", "long", "ushort", "ulong", "float", "double", "boolean", "char", "octet", "any", "TypeCode", "null",
    [TK_STRING] = "string", [TK_LONGLONG] = "longlong", "ulonglong", "longdouble", "wchar", "wstring",
  };
  int top = lua_gettop(L);
  lua_createtable(L, TK_KINDS, 0);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "mare.orb.idl.basic");
  if (!lua_istable(L, -1)) lua_newtable(L);
  int known = lua_gettop(L);
  for (int i = 0; i < TK_KINDS; i++) {
    if (!names[i]) continue;
    if (lua_getfield(L, known, names[i]) != LUA_TTABLE) {
      lua_createtable(L, 0, 1);
      lua_pushstring(L, names[i]);
      lua_setfield(L, -2, "kind");
    }
    lua_rawseti(L, top + 1, i + 1);
    lua_settop(L, known);
  }
  lua_settop(L, top + 1);
  lua_rawseti(L, fields, ENV_BASIC);
}

/* A type whose tables have these fields, to read and build such by it; the list keeps it. */
static const mr_type *make_own(lua_State *L, mr_cdr_env *env, int fields, int which, const char *a, const char *b, const char *c) {
  const char *names[] = { a, b, c };
  lua_createtable(L, 0, 2);
  lua_pushliteral(L, "struct");
  lua_setfield(L, -2, "kind");
  lua_newtable(L);
  for (int i = 0; i < 3 && names[i]; i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, names[i]);
    lua_setfield(L, -2, "name");
    lua_rawgeti(L, fields, ENV_BASIC);
    lua_rawgeti(L, -1, TK_NULL + 1);
    lua_setfield(L, -3, "type");
    lua_pop(L, 1);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "members");
  const mr_type *t = mr_type_get(L, env, fields, -1);
  lua_rawseti(L, fields, which);
  return t;
}

static void make_tables(lua_State *L, int fields) {
  static const struct { int at; const char *mode; } weak[] = {
    { ENV_PROXIES, "v" }, { ENV_IORS, "k" }, { ENV_TYPES, "k" }, { ENV_ADDRESSES, "v" },
  };
  for (size_t i = 0; i < sizeof weak / sizeof *weak; i++) {
    push_weak(L, weak[i].mode);
    lua_rawseti(L, fields, weak[i].at);
  }
  lua_createtable(L, 2, 0);
  for (int i = 1; i <= 2; i++) {
    push_weak(L, "k");
    lua_rawseti(L, -2, i);
  }
  lua_rawseti(L, fields, ENV_WRITTEN);
  lua_newtable(L); lua_rawseti(L, fields, ENV_READ);
  lua_newtable(L); lua_rawseti(L, fields, ENV_RECENT);
  lua_newtable(L); lua_rawseti(L, fields, ENV_CLASSES);
  lua_pushliteral(L, "n"); lua_rawseti(L, fields, ENV_N);
  make_basic(L, fields);
}

/* environment(options) -> env */
static int l_environment(lua_State *L) {
  if (lua_isnone(L, 1)) lua_newtable(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mr_cdr_env *env = lua_newuserdatauv(L, sizeof *env, 1);
  memset(env, 0, sizeof *env);
  lua_createtable(L, ENV_FIELDS, 0);
  take_function(L, 3, "reference_in", ENV_IN);
  take_function(L, 3, "reference_out", ENV_OUT);
  take_function(L, 3, "resolve", ENV_RESOLVE);
  take_function(L, 3, "reference_type", ENV_ASK);
  take_function(L, 3, "custom_out", ENV_WRITE);
  take_function(L, 3, "custom_in", ENV_READER);
  take_function(L, 3, "fail", ENV_FAIL);
  if (lua_rawgeti(L, 3, ENV_FAIL) != LUA_TFUNCTION) { lua_pushcfunction(L, l_fail); lua_rawseti(L, 3, ENV_FAIL); }
  lua_settop(L, 3);
  lua_getfield(L, 1, "buffers");
  env->buffers = lua_toboolean(L, -1);
  lua_settop(L, 3);
  make_tables(L, 3);
  env->any = make_own(L, env, 3, ENV_ANY, "_anytype", "_anyval", NULL);
  env->choice = make_own(L, env, 3, ENV_CHOICE, "_switch", "_field", "_value");
  env->own = make_own(L, env, 3, ENV_OWN, "_repid", "_value", NULL);
  lua_createtable(L, MR_KEPT, 0);
  env->kept = (raw_table *)(uintptr_t)lua_topointer(L, -1);
  lua_rawseti(L, 3, ENV_KEPT);
  lua_settop(L, 3);
  env->fields = lua_topointer(L, 3);
  env->seal = mr_seal_of(L, ENV_FIELDS);
  lua_setiuservalue(L, 2, 1);
  env->tag = (uintptr_t)&env_tag ^ (uintptr_t)env;
  mr_metatable_set(L, "mare.orb.cdr.environment");
  return 1;
}

static const luaL_Reg functions[] = { { "environment", l_environment }, { NULL, NULL } };

int luaopen_mare_orb_cdr(lua_State *L) {
  mr_lua_check(L);
  mr_layout_check();
  mr_metatable_new(L, "mare.orb.cdr.program");
  luaL_newlib(L, program_methods);
  lua_setfield(L, -2, "__index");
  mr_metatable_new(L, "mare.orb.cdr.environment");
  lua_pushcfunction(L, l_env_index);
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  return 1;
}
