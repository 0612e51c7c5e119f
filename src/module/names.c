/* mare.process, its names: register, unregister, whereis. They are in the table of functions of process.c. */
#include "module/module.h"
#include "process/names.h"

#include <string.h>

static const char *name_arg(lua_State *L, size_t *len) {
  luaL_checktype(L, 1, LUA_TSTRING);
  const char *name = lua_tolstring(L, 1, len);
  luaL_argcheck(L, memchr(name, 0, *len) == NULL, 1, "a name can't contain a zero byte");
  mr_check_forked(L);
  return name;
}

/* process.register(name [, handle]) */
int mr_name_l_register(lua_State *L) {
  size_t len;
  char text[160];
  const char *name = name_arg(L, &len);
  mr_proc *p = lua_isnoneornil(L, 2) ? mr_self(L) : (mr_proc *)mr_shared_check(L, 2, mr_proc_type, "process");
  switch (mr_name_give(p, name, len, text)) {
    case NAME_NOMEM: return mr_raise(L, MR_ENOMEM);
    case NAME_TAKEN: return luaL_error(L, "the name '%s' is taken by %s", name, text);
    case NAME_ENDED:
      mr_proc_describe(p, text, sizeof text);
      return luaL_error(L, "%s has ended, so it can't be called '%s'", text, name);
  }
  return 0;
}

/* process.unregister(name) -> somebody had it */
int mr_name_l_unregister(lua_State *L) {
  size_t len;
  const char *name = name_arg(L, &len);
  lua_pushboolean(L, mr_name_take(name, len));
  return 1;
}

/* process.whereis(name) -> handle | nil */
int mr_name_l_whereis(lua_State *L) {
  size_t len;
  const char *name = name_arg(L, &len);
  mr_proc *p = mr_name_find(name, len);
  if (p) mr_shared_push_new(L, &p->shared);
  else lua_pushnil(L);
  return 1;
}
