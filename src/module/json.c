/*
 * mare.json: values as JSON, and JSON as values.
 *
 * `mare.json` is there if the build has yyjson, which reads; the writer is mare's own, and always there: the command line uses it through
 * `mare.json.core`, which needs nothing of the runtime, so the observer's state and the search of mare explore can have it, too.
 *
 * Options are read in one pass over their table, so one that does not exist is an error and costs nothing more.
 */
#include "module/json.h"
#include "module/buflib.h"

#include <string.h>

/* ---- marks ---- */

static char array_key, object_key;             /* registry: the metatables */

int mr_json_mark(lua_State *L, int idx) {
  int mark = MR_JSON_NO_MARK;
  if (PORT_LIKELY(!lua_getmetatable(L, idx))) return mark;
  lua_pushliteral(L, "__jsontype");
  if (lua_rawget(L, -2) == LUA_TSTRING) {
    const char *s = lua_tostring(L, -1);
    mark = strcmp(s, "array") == 0 ? MR_JSON_ARRAY : strcmp(s, "object") == 0 ? MR_JSON_OBJECT : MR_JSON_NO_MARK;
  }
  lua_pop(L, 2);
  return mark;
}

void mr_json_set_mark(lua_State *L, int mark) {
  const char *key = mark == MR_JSON_ARRAY ? &array_key : &object_key;
  if (PORT_UNLIKELY(lua_rawgetp(L, LUA_REGISTRYINDEX, key) != LUA_TTABLE)) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 2);
    lua_pushstring(L, mark == MR_JSON_ARRAY ? "array" : "object");
    lua_setfield(L, -2, "__jsontype");
    lua_pushstring(L, mark == MR_JSON_ARRAY ? "json.array" : "json.object");
    lua_setfield(L, -2, "__name");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
  }
  lua_setmetatable(L, -2);
}

static int marked(lua_State *L, int mark) {
  if (lua_isnoneornil(L, 1)) {
    lua_settop(L, 0);
    lua_createtable(L, 0, 0);
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  if (lua_getmetatable(L, 1)) {
    lua_pop(L, 1);
    luaL_argcheck(L, mr_json_mark(L, 1) != MR_JSON_NO_MARK, 1, "the table has a metatable; give that a field __jsontype = \"array\" or \"object\"");
  }
  mr_json_set_mark(L, mark);
  return 1;
}

/* json.array([table]) -> table */
static int l_array(lua_State *L) { return marked(L, MR_JSON_ARRAY); }
/* json.object([table]) -> table */
static int l_object(lua_State *L) { return marked(L, MR_JSON_OBJECT); }

/* ---- options ---- */

typedef struct option {
  const char *name;
  enum { YES_NO, NUMBER, WORD, VALUE } type;
  size_t at;                                   /* in the record: a byte, or an int */
  int least, most;
  const char *words[4];                        /* their numbers are the values */
} option;

static int bad_option(lua_State *L, const char *who, const option *o) {
  luaL_Buffer b;
  const char *type = luaL_typename(L, -1), *got = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : type;
  luaL_buffinit(L, &b);
  if (o->type == YES_NO) luaL_addstring(&b, "true or false");
  if (o->type == NUMBER) {
    lua_pushfstring(L, "a whole number from %d to %d", o->least, o->most);
    luaL_addvalue(&b);
  }
  for (int i = 0; o->type == WORD && o->words[i]; i++) {
    if (i > 0) luaL_addstring(&b, o->words[i + 1] ? ", " : " or ");
    lua_pushfstring(L, "\"%s\"", o->words[i]);
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
  return luaL_error(L, "%s: '%s' must be %s, got %s", who, o->name, lua_tostring(L, -1), got);
}

/* The value is on top. */
static void take(lua_State *L, const char *who, const option *o, char *record) {
  int is;
  lua_Integer n = lua_tointegerx(L, -1, &is);
  const char *word;
  switch (o->type) {
    case YES_NO:
      if (!lua_isboolean(L, -1)) bad_option(L, who, o);
      *(uint8_t *)(record + o->at) = (uint8_t)lua_toboolean(L, -1);
      return;
    case NUMBER:
      if (!is || lua_type(L, -1) != LUA_TNUMBER || n < o->least || n > o->most) bad_option(L, who, o);
      *(int *)(void *)(record + o->at) = (int)n;
      return;
    case WORD:
      word = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
      for (int i = 0; o->words[i]; i++)
        if (strcmp(word, o->words[i]) == 0) {
          *(uint8_t *)(record + o->at) = (uint8_t)i;
          return;
        }
      bad_option(L, who, o);
      return;
    case VALUE: return;                        /* the caller asks for it */
  }
}

static void take_all(lua_State *L, int idx, const char *who, const option *options, char *record) {
  if (lua_isnoneornil(L, idx)) return;
  luaL_checktype(L, idx, LUA_TTABLE);
  for (lua_pushnil(L); lua_next(L, idx); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    const option *o = options;
    while (name && o->name && strcmp(o->name, name) != 0) o++;
    if (name && o->name) {
      take(L, who, o, record);
      continue;
    }
    lua_newtable(L);
    for (o = options; o->name; o++) mr_list_add(L, o->name);
    lua_pushvalue(L, -3);
    lua_insert(L, -2);
    mr_no_field(L, who, lua_gettop(L) - 1);
  }
}

#define W(field) offsetof(mr_json_writing, field)
static const option writing[] = {
  { "depth", NUMBER, W(depth), 1, MR_JSON_DEEPEST, { NULL } }, { "indent", NUMBER, W(indent), 0, 16, { NULL } },
  { "sorted", YES_NO, W(sorted), 0, 0, { NULL } }, { "empty", WORD, W(empty_object), 0, 0, { "array", "object" } },
  { "nonfinite", WORD, W(null_numbers), 0, 0, { "error", "null" } }, { "invalid", WORD, W(other), 0, 0, { "error", "latin1", "mark" } },
  { "into", VALUE, 0, 0, 0, { NULL } }, { NULL, VALUE, 0, 0, 0, { NULL } }
};
#define R(field) offsetof(mr_json_reading, field)
static const option reading[] = {
  { "depth", NUMBER, R(depth), 1, MR_JSON_DEEPEST, { NULL } }, { "duplicates", WORD, R(duplicates), 0, 0, { "last", "first", "error" } },
  { "big", WORD, R(big), 0, 0, { "float", "string", "error" } }, { "null_as_nil", YES_NO, R(null_as_nil), 0, 0, { NULL } },
  { "null", VALUE, 0, 0, 0, { NULL } }, { NULL, VALUE, 0, 0, 0, { NULL } }
};

/* Pushes what null becomes, and nil if that is not said. */
void mr_json_read_options(lua_State *L, int idx, mr_json_reading *o) {
  *o = (mr_json_reading){ .depth = MR_JSON_DEPTH };
  take_all(L, idx, "json.decode", reading, (char *)o);
  if (!lua_istable(L, idx)) lua_pushnil(L);
  else {
    lua_pushliteral(L, "null");
    lua_rawget(L, idx);
  }
  o->null = lua_isnil(L, -1) ? 0 : lua_gettop(L);
}

/* ---- encode and decode ---- */

/* json.encode(value[, options]) -> string, or the buffer that options.into names */
static int l_encode(lua_State *L) {
  mr_json_writing o = { .depth = MR_JSON_DEPTH };
  int into = 0;
  luaL_checkany(L, 1);
  lua_settop(L, 2);
  if (!lua_isnil(L, 2)) {
    take_all(L, 2, "json.encode", writing, (char *)&o);
    lua_pushliteral(L, "into");
    if (lua_rawget(L, 2) != LUA_TNIL) {
      into = lua_gettop(L);
      if (!mr_buffer_here(L, into)) return luaL_error(L, "json.encode: 'into' must be a buffer, got %s", luaL_typename(L, into));
      mr_buffer_edit_more(L, into, 0);
    }
  }
  mr_json_write(L, 1, &o, into);
  return 1;
}

/* json.decode(string | buffer[, options]) -> value | nil, message */
static int l_decode(lua_State *L) {
  mr_json_reading o = { .depth = MR_JSON_DEPTH };
  size_t n;
  lua_settop(L, 2);
  if (PORT_UNLIKELY(lua_type(L, 1) != LUA_TSTRING)) mr_piece_fix(L, 1);
  if (!lua_isnil(L, 2)) mr_json_read_options(L, 2, &o);
  const char *s = mr_piece_get(L, 1, &n);
  if (!s) return luaL_argerror(L, 1, "the buffer was moved meanwhile");
  return mr_json_read(L, s, n, 1, &o);
}

/* ---- the modules ---- */

static const luaL_Reg functions[] = {
  { "encode", l_encode }, { "decode", l_decode }, { "lines", mr_json_l_lines }, { "array", l_array }, { "object", l_object }, { NULL, NULL }
};

int luaopen_mare_json(lua_State *L) {
  mr_host_ensure(L);
  mr_json_no_reader(L);
  lua_createtable(L, 0, 6);
  luaL_setfuncs(L, functions, 0);
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  mr_module_guard(L);
  return 1;
}

/* core.text(value) -> what the command line and the tools of a program write: names in order, and nothing is refused that has any text */
static int l_text(lua_State *L) {
  static const mr_json_writing o = { .depth = MR_JSON_DEPTH, .sorted = 1, .null_numbers = 1, .other = 1 };
  lua_settop(L, 1);
  mr_json_write(L, 1, &o, 0);
  return 1;
}

int luaopen_mare_json_core(lua_State *L) {
  static const luaL_Reg core[] = { { "text", l_text }, { NULL, NULL } };
  mr_lua_check(L);
  luaL_newlib(L, core);
  lua_pushboolean(L, mr_json_reads);
  lua_setfield(L, -2, "reads");
  return 1;
}
