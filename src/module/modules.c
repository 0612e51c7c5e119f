/*
 * modules: one table of all of mare's modules, made from two lists: modules.def, of those in C, and the files that tools/embed.lua has found.
 * Constant once there are threads; main.c adds its own before.
 */
#include "base/embedded.h"
#include "module/module.h"
#include "state/chunk.h"

#include <string.h>

enum { HIDDEN, FIELD };
static const struct { const char *name; lua_CFunction open; int kind; void (*setup)(void); } in_c[] = {
#define C_MODULE(opener, name, kind, setup) { name, luaopen_##opener, kind, setup },
#include "module/modules.def"
#undef C_MODULE
};
enum { IN_C = sizeof in_c / sizeof *in_c };

static luaL_Reg known[IN_C + 2] = {              /* what processes can require; one more may be added; ends with NULL */
#define C_MODULE(opener, name, kind, setup) { name, luaopen_##opener },
#include "module/modules.def"
#undef C_MODULE
};

void mr_no_setup(void) {}

void mr_modules_setup(void) {
  mr_builtins = known;
  for (int i = 0; i < IN_C; i++) in_c[i].setup();
}

void mr_modules_add(const char *name, lua_CFunction open) { known[IN_C] = (luaL_Reg){ name, open }; }

/* ---- fields of the table mare ---- */

/* "noun" of "mare.noun", else NULL. */
static const char *noun_of(const char *name) { return strncmp(name, "mare.", 5) == 0 && !strchr(name + 5, '.') ? name + 5 : NULL; }

int mr_modules_field(const char *noun, lua_CFunction *open) {
  const char *n;
  *open = NULL;
  for (int i = 0; i < IN_C; i++)
    if (in_c[i].kind == FIELD && strcmp(noun_of(in_c[i].name), noun) == 0) return *open = in_c[i].open, 1;
  for (const struct mr_embedded *e = mr_embedded; e->name; e++)
    if ((n = noun_of(e->name)) != NULL && strcmp(n, noun) == 0) return 1;
  return 0;
}

void mr_modules_list(lua_State *L) {
  for (int i = 0; i < IN_C; i++)
    if (in_c[i].kind == FIELD) mr_list_add(L, noun_of(in_c[i].name));
  for (const struct mr_embedded *e = mr_embedded; e->name; e++)
    if (noun_of(e->name)) mr_list_add(L, noun_of(e->name));
}

/* ---- modules in Lua, where plain Lua looks for them: as functions of mare.so. So one file is all there is to install and to find. ---- */

/* What require gave (name, file) is the chunk's `…`, as of any file. */
static int open_embedded(lua_State *L, const char *name) {
  mr_lua_check(L);
  int top = lua_gettop(L);
  const struct mr_embedded *e = mr_embedded_find(name);
  if (!e) return luaL_error(L, "'%s' is not part of this library", name);
  if (mr_chunk_text(L, e->file, (const char *)e->code, e->size) != LUA_OK) return lua_error(L);
  lua_insert(L, 1);
  lua_call(L, top, 1);
  return 1;
}

#define LUA_MODULE(function, name) \
  MR_EXPORT int luaopen_##function(lua_State *L); \
  int luaopen_##function(lua_State *L) { return open_embedded(L, name); }
#include "module/lua_modules.def"
