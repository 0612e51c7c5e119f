/*
 * trace: the traceback of a process that failed, read from its dead stack; the same of one that does not run.
 *
 * A thread that ended with an error can't be called into (Lua asserts so), and there may be no memory left in its heap. So this
 * only reads, writes to malloc'd memory and can't raise; the text is luaL_traceback's. As there, a function that stands in a loaded module, or is
 * global, has its name there ("table.sort"); the tables are read as they are, without metamethods, and not without end.
 */
#include "process/rt.h"
#include "process/text.h"

#include <string.h>

enum { FIRST = 10, LAST = 11 };

static int depth(lua_State *L) {
  lua_Debug ar;
  int low = 1, high = 1;
  while (lua_getstack(L, high, &ar)) {
    low = high;
    high *= 2;
  }
  while (low < high) {
    int middle = (low + high) / 2;
    if (lua_getstack(L, middle, &ar)) low = middle + 1;
    else high = middle;
  }
  return high - 1;
}

enum { SEARCHED = 20000 };             /* fields that are looked at for the names of one stack */

/* Is there a field of the table on top that is the function at f? Then its name is on top of that. */
static int find_field(lua_State *L, int f, int *left) {
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (--*left < 0) {
      lua_pop(L, 2);
      return 0;
    }
    if (lua_type(L, -2) != LUA_TSTRING || !lua_rawequal(L, -1, f)) continue;
    lua_pop(L, 1);
    return 1;
  }
  return 0;
}

/* The function on top is in a table of the one below, loaded modules: says so. Leaves the stack as it was. */
static int say_field(mr_text *t, lua_State *L, int *left) {
  int f = lua_gettop(L), found = 0;
  for (lua_pushnil(L); !found && *left > 0 && lua_next(L, f - 1); lua_settop(L, found || *left <= 0 ? f : f + 1)) {
    if (lua_type(L, f + 1) != LUA_TSTRING) continue;
    const char *module = lua_tostring(L, f + 1);
    if (lua_rawequal(L, f + 2, f)) {
      mr_say(t, "function '%s'", module);
      found = 1;
    } else if (lua_istable(L, f + 2) && find_field(L, f, left)) {
      int global = strcmp(module, LUA_GNAME) == 0;
      mr_say(t, "function '%s%s%s'", global ? "" : module, global ? "" : ".", lua_tostring(L, -1));
      found = 1;
    }
  }
  return found;
}

/*
 * May something be pushed for a moment? Not on a coroutine that was interrupted in a Lua function: lua_checkstack would raise that function's own limit
 * for good, at each look.
 */
static int has_room(lua_State *L) {
  lua_Debug ar;
  if (lua_status(L) == LUA_YIELD && lua_getstack(L, 0, &ar) && lua_getinfo(L, "S", &ar) && *ar.what != 'C') return 0;
  return lua_checkstack(L, 8);
}

static int say_loaded(mr_text *t, lua_State *L, lua_Debug *ar, int *left) {
  int top = lua_gettop(L), found = 0;
  if (*left <= 0) return 0;
  if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) == LUA_TTABLE) {    /* it has that name already: nothing is allocated */
    lua_getinfo(L, "f", ar);
    found = say_field(t, L, left);
  }
  lua_settop(L, top);
  return found;
}

static void say_function(mr_text *t, lua_State *L, lua_Debug *ar, int *left) {
  if (say_loaded(t, L, ar, left)) return;
  if (strcmp(ar->namewhat, "global") == 0) mr_say(t, "function '%s'", ar->name);
  else if (*ar->namewhat) mr_say(t, "%s '%s'", ar->namewhat, ar->name);
  else if (*ar->what == 'm') mr_say(t, "main chunk");
  else if (*ar->what == 'C') mr_say(t, "?");
  else mr_say(t, "function <%s:%d>", ar->short_src, ar->linedefined);
}

void mr_trace_levels(mr_text *t, lua_State *L) {
  lua_Debug ar;
  int last = depth(L), skip = last - FIRST - LAST, left = has_room(L) ? SEARCHED : 0;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    if (level == FIRST && skip > 1) {
      mr_say(t, "\n\t...\t(skipping %d levels)", skip);
      level += skip - 1;
      continue;
    }
    lua_getinfo(L, "Slnt", &ar);
    if (ar.currentline > 0) mr_say(t, "\n\t%s:%d: in ", ar.short_src, ar.currentline);
    else mr_say(t, "\n\t%s: in ", ar.short_src);
    say_function(t, L, &ar, &left);
    if (ar.istailcall) mr_say(t, "\n\t(...tail calls...)");
  }
}

char *mr_trace(lua_State *L) {
  mr_text t = { .at = NULL };
  mr_say(&t, "stack traceback:");
  mr_trace_levels(&t, L);
  return t.at;
}
