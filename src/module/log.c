/*
 * mare.log.core: what lua/mare/log.lua stands on: a call becomes a record for observe/log.c, which makes the line and has it written.
 *
 * A level that is off costs the call and two loads. Otherwise all values become texts or numbers on the stack first - their metamethods may run, and
 * raise - and only then is anything made outside of Lua, so an error loses nothing.
 */
#include "module/log.h"
#include "io/signal.h"
#include "module/filelib.h"
#include "module/json.h"
#include "observe/log.h"
#include "port/system.h"
#include "process/leave.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS = 64 };                            /* of a line: more are left out */

typedef struct fields { lua_State *L; mr_log_field at[FIELDS]; size_t n; } fields;

/* ---- values ---- */

static int l_json(lua_State *L) {
  static const mr_json_writing o = { .depth = 32, .sorted = 1, .null_numbers = 1, .other = 1 };
  mr_json_write(L, 1, &o, 0);
  return 1;
}

/* The table on top becomes a text in its place: of JSON; else, if JSON has none for it, what tostring gives. 1: JSON. */
static int text_of_table(lua_State *L) {
  if (luaL_getmetafield(L, -1, "__tostring") != LUA_TNIL) {
    lua_pop(L, 1);
  } else {
    lua_pushcfunction(L, l_json);
    lua_pushvalue(L, -2);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK) {
      lua_replace(L, -2);
      return 1;
    }
    lua_pop(L, 1);
  }
  luaL_tolstring(L, -1, NULL);
  lua_replace(L, -2);
  return 0;
}

/* The value on top, which stays there as long as the record is used. */
static void take_value(lua_State *L, mr_log_field *f) {
  f->kind = MR_LOG_VALUE;
  switch (lua_type(L, -1)) {
    case LUA_TNUMBER:
      f->kind = lua_isinteger(L, -1) ? MR_LOG_INTEGER : MR_LOG_NUMBER;
      f->integer = lua_tointeger(L, -1);
      f->number = lua_tonumber(L, -1);
      return;
    case LUA_TBOOLEAN:
      f->text = lua_toboolean(L, -1) ? "true" : "false";
      f->length = strlen(f->text);
      return;
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(L, -1)) break;          /* json.null */
      f->text = "null";
      f->length = 4;
      return;
    case LUA_TTABLE:
      if (!text_of_table(L)) f->kind = MR_LOG_STRING;
      f->text = lua_tolstring(L, -1, &f->length);
      return;
    case LUA_TSTRING: break;
  }
  if (lua_type(L, -1) != LUA_TSTRING) {
    luaL_tolstring(L, -1, NULL);
    lua_replace(L, -2);
  }
  f->kind = MR_LOG_STRING;
  f->text = lua_tolstring(L, -1, &f->length);
}

/* ---- fields ---- */

static int by_name(const void *a, const void *b) {
  const mr_log_field *x = a, *y = b;
  size_t n = x->name_length < y->name_length ? x->name_length : y->name_length;
  int order = memcmp(x->name, y->name, n);
  return order ? order : (x->name_length > y->name_length) - (x->name_length < y->name_length);
}

static mr_log_field *named(fields *all, const char *name, size_t n) {
  for (size_t i = 0; i < all->n; i++)
    if (all->at[i].name_length == n && memcmp(all->at[i].name, name, n) == 0) return &all->at[i];
  return NULL;
}

/* Those of the table at idx, sorted by name, behind what there is; a name that is there gets the new value. Names and values stay on the stack. */
static void take_fields(lua_State *L, int idx, fields *all) {
  size_t before = all->n;
  lua_pushnil(L);
  while (all->n < FIELDS && lua_next(L, idx) != 0) {
    int key = lua_gettop(L) - 1;
    mr_log_field f = { .length = 0 };
    luaL_checkstack(L, 8, NULL);
    if (lua_type(L, key) == LUA_TSTRING) {
      f.name = lua_tolstring(L, key, &f.name_length);
    } else {
      f.name = luaL_tolstring(L, key, &f.name_length);
      lua_insert(L, -2);
    }
    take_value(L, &f);
    mr_log_field *same = named(all, f.name, f.name_length);
    if (same) *same = f;
    else all->at[all->n++] = f;
    lua_pushvalue(L, key);
  }
  qsort(all->at + before, all->n - before, sizeof *all->at, by_name);
}

/* ---- a call ---- */

static const char *const functions_of[] = { "", "log.trace", "log.debug", "log.info", "log.warn", "log.error" };

static PORT_NOINLINE int emit(lua_State *L, mr_proc *p, int level) {
  fields all = { .n = 0 };
  mr_log_record r = { .level = level, .process = p->kind == PROC_HOST ? 0 : p->job.id, .process_name = p->name };
  if (!p->log_level && level < mr_log_level()) return 0;
  lua_settop(L, 2);
  luaL_checkstack(L, 16, NULL);
  r.message = luaL_tolstring(L, 1, &r.length);
  if (PORT_UNLIKELY(p->log_fields) && mr_fiber_log_fields(L, mr_self_fiber(L)) == LUA_TTABLE) take_fields(L, lua_gettop(L), &all);
  if (lua_type(L, 2) == LUA_TTABLE) take_fields(L, 2, &all);
  r.field = all.at;
  r.fields = all.n;
  mr_leave_logged();
  mr_log_write(&r);
  return 0;
}

static PORT_NOINLINE int bad_fields(lua_State *L, int level) {
  return luaL_error(L, "%s: fields are a table of names and values, as { user = 7 }; got %s", functions_of[level], luaL_typename(L, 2));
}

static PORT_NOINLINE int no_message(lua_State *L, int level) {
  return luaL_error(L, "%s: a message expected, as %s(\"it happened\", { user = 7 })", functions_of[level], functions_of[level]);
}

static inline int call(lua_State *L, int level) {
  mr_proc *p = mr_self(L);
  int least = p->log_level, type = lua_type(L, 2);
  if (!least) least = atomic_load_explicit(&mr_log_least, memory_order_relaxed);
  if (PORT_UNLIKELY(type > LUA_TNIL && type != LUA_TTABLE)) return bad_fields(L, level);
  if (PORT_UNLIKELY(lua_type(L, 1) == LUA_TNONE || lua_type(L, 1) == LUA_TTABLE) && lua_type(L, 2) == LUA_TNONE) return no_message(L, level);
  return level < least ? 0 : emit(L, p, level);
}

/* log.trace(message[, fields]), and so on */
static int l_trace(lua_State *L) { return call(L, MR_LOG_TRACE); }
static int l_debug(lua_State *L) { return call(L, MR_LOG_DEBUG); }
static int l_info(lua_State *L) { return call(L, MR_LOG_INFO); }
static int l_warn(lua_State *L) { return call(L, MR_LOG_WARN); }
static int l_error(lua_State *L) { return call(L, MR_LOG_ERROR); }

/* ---- levels ---- */

static int level_at(lua_State *L, int idx, const char *who) {
  const char *word = lua_type(L, idx) == LUA_TSTRING ? lua_tostring(L, idx) : "";
  for (int i = MR_LOG_TRACE; i <= MR_LOG_OFF; i++)
    if (strcmp(word, mr_log_levels[i]) == 0) return i;
  return luaL_error(L, "%s: a level is \"trace\", \"debug\", \"info\", \"warn\", \"error\" or \"off\", got %s", who,
                    *word ? lua_pushfstring(L, "\"%s\"", word) : luaL_typename(L, idx));
}

static int least_of(const mr_proc *p) { return p->log_level ? p->log_level : mr_log_level(); }

/* log.level([level]) -> the level of this process, until now; `false`: the program's from now on */
static int l_level(lua_State *L) {
  mr_proc *p = mr_self(L);
  lua_settop(L, 1);
  int before = least_of(p);
  if (lua_isboolean(L, 1) && !lua_toboolean(L, 1)) p->log_level = 0;
  else if (!lua_isnil(L, 1)) p->log_level = (unsigned char)level_at(L, 1, "log.level");
  lua_pushstring(L, mr_log_levels[before]);
  return 1;
}

/* log.enabled(level) -> boolean: would a line of it be written? */
static int l_enabled(lua_State *L) {
  int level = level_at(L, 1, "log.enabled");
  lua_pushboolean(L, level >= least_of(mr_self(L)) && level < MR_LOG_OFF);
  return 1;
}

/* ---- for log.lua ---- */

/* core.set(level | nil, format | nil, file | nil, queue | nil) -> true | nil, message, code */
static int l_set(lua_State *L) {
  static const char *const formats[] = { "auto", "text", "colour", "json", NULL };
  mr_check_forked(L);                            /* who has the log's lock may not be there */
  mr_log_plan plan = { .file = luaL_optstring(L, 3, NULL), .queue = (size_t)luaL_optinteger(L, 4, 0) };
  if (!lua_isnil(L, 1)) plan.level = level_at(L, 1, "log.setup");
  if (!lua_isnil(L, 2)) plan.format = luaL_checkoption(L, 2, NULL, formats);
  int err = mr_log_set(&plan);
  mr_leave_logged();
  if (err) return mr_file_fail(L, plan.file, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* core.hang_up() -> true | nil, message, code: HUP reopens the file from now on */
static int l_hang_up(lua_State *L) {
  int err = mr_signal_tell(port_signal_number("HUP"), mr_log_reopen);
  if (err) return mr_file_fail(L, "HUP", err);
  lua_pushboolean(L, 1);
  return 1;
}

static int l_reopen(lua_State *L) {
  mr_check_forked(L);
  mr_log_reopen();
  return 0;
}

/* core.numbers() -> lines, lost, failed, bytes that wait */
static int l_numbers(lua_State *L) {
  mr_log_numbers n;
  mr_check_forked(L);
  mr_log_count(&n);
  lua_pushinteger(L, (lua_Integer)n.lines);
  lua_pushinteger(L, (lua_Integer)n.lost);
  lua_pushinteger(L, (lua_Integer)n.failed);
  lua_pushinteger(L, (lua_Integer)n.queued);
  return 4;
}

/* core.mark() -> integer;  core.written(mark) -> boolean */
static int l_mark(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_log_mark());
  return 1;
}

static int l_written(lua_State *L) {
  lua_pushboolean(L, mr_log_written((uint64_t)luaL_checkinteger(L, 1)));
  return 1;
}

/* core.keeps(): fibers of this process have fields from now on */
static int l_keeps(lua_State *L) {
  mr_self(L)->log_fields = 1;
  return 0;
}

/* core.says(text) -> boolean: it is in the log, as an error; else no log is in use */
static int l_says(lua_State *L) {
  mr_proc *p = mr_self(L);
  lua_pushboolean(L, mr_log_says(MR_LOG_ERROR, p->kind == PROC_HOST ? 0 : p->job.id, p->name, luaL_checkstring(L, 1)));
  return 1;
}

static const luaL_Reg functions[] = {
  { "trace", l_trace }, { "debug", l_debug }, { "info", l_info }, { "warn", l_warn }, { "error", l_error }, { "level", l_level },
  { "enabled", l_enabled }, { "set", l_set }, { "hang_up", l_hang_up }, { "reopen", l_reopen }, { "numbers", l_numbers }, { "mark", l_mark },
  { "written", l_written }, { "keeps", l_keeps }, { "says", l_says }, { NULL, NULL }
};

int luaopen_mare_log_core(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, sizeof functions / sizeof *functions);
  mr_set_functions(L, functions);
  lua_pushliteral(L, MR_LOG_FIELDS);
  lua_setfield(L, -2, "FIELDS");
  return 1;
}
