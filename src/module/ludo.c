/* ludo: mare.ludo.core - messages of LuDO for Lua: taken from a connection, made and read. See ludo.h; what they mean is lua/mare/ludo's matter. */
#include "module/ludo.h"
#include "module/net.h"
#include "lua/layout.h"

static int64_t length(const char *p, size_t len, const char **why) {
  if (len < LUDO_HEAD) return 0;
  uint32_t n = mr_ludo_word(p), type = mr_ludo_word(p + 8);
  if (n >= LUDO_HEAD && type >= LUDO_CALL && type <= LUDO_LAST) return n;
  *why = n < LUDO_HEAD ? "it is shorter than its head" : "there is no such type";
  return -1;
}

static const mr_framing framing = { .name = "LuDO", .length = length };

static int receive(lua_State *L, mr_fiber *f) {
  mr_conn *c = mr_check_conn(L, 1);
  lua_Integer limit = luaL_checkinteger(L, 2), room = luaL_optinteger(L, 4, limit);
  luaL_argcheck(L, limit >= LUDO_HEAD, 2, "a message has 12 bytes at least");
  luaL_argcheck(L, room >= LUDO_HEAD, 4, "a message has 12 bytes at least");
  return mr_read_frame(L, f, c, &framing, (size_t)limit, (size_t)room, 3);
}

/*
 * receive(connection, limit[, seconds[, room]]) -> message | nil, message, code
 * What is within the limit but beyond the room stays in the socket: nil, its size, "ENOBUFS".
 */
static int l_receive(lua_State *L) { return receive(L, mr_self_fiber(L)); }
static int l_process_receive(lua_State *L) { return receive(L, mr_fiber_here(L)); }

/* head(message) -> type, id */
static int l_head(lua_State *L) {
  size_t len;
  const char *p = luaL_checklstring(L, 1, &len);
  luaL_argcheck(L, len >= LUDO_HEAD, 1, "a message has a head");
  lua_pushinteger(L, (lua_Integer)mr_ludo_word(p + 8));
  lua_pushinteger(L, (lua_Integer)mr_ludo_word(p + 4));
  return 2;
}

static const luaL_Reg functions[] = { { "head", l_head }, { "message", mr_ludo_message }, { "values", mr_ludo_values }, { NULL, NULL } };
static const luaL_Reg owned[] = { { "receive", l_receive }, { NULL, NULL } };
static const luaL_Reg owned_fast[] = { { "receive", l_process_receive }, { NULL, NULL } };

int luaopen_mare_ludo_core(lua_State *L) {
  static const struct { const char *name; int value; } numbers[] = { { "CALL", LUDO_CALL }, { "REPLY", LUDO_REPLY }, { "RAISED", LUDO_RAISED },
                                                                     { "CANCEL", LUDO_CANCEL }, { "CLOSE", LUDO_CLOSE } };
  mr_host_ensure(L);
  mr_layout_check();
  luaL_newlib(L, functions);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    lua_pushinteger(L, numbers[i].value);
    lua_setfield(L, -2, numbers[i].name);
  }
  mr_set_functions(L, mr_ludo_calling);
  mr_set_functions(L, mr_ludo_serving);
  mr_set_functions(L, mr_in_process(L) ? owned_fast : owned);
  return 1;
}
