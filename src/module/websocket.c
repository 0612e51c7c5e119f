/*
 * websocket: mare.http.frames - frames of WebSocket for Lua: those of clients taken from a connection, heads for those of the server. Which may follow
 * which, and what is answered, is lua/mare/http/websocket.lua's matter.
 */
#include "module/net.h"
#include "io/wsframe.h"
#include "cdr/text.h"

#include <string.h>

enum { SMALL = 1024 };                           /* bytes that are joined to their head: two pieces are two records of TLS */

static int64_t length(const char *p, size_t len, const char **why) {
  mr_wsframe f;
  int r = mr_wsframe_read(p, len, &f, why);
  return r <= 0 ? r : (int64_t)(f.head + f.length);
}

/* One of which a part has come is not waited for: from then on another limit of time holds. */
static int64_t length_at_once(const char *p, size_t len, const char **why) {
  int64_t n = length(p, len, why);
  if (n > 0 && (uint64_t)n <= len) return n;
  if (n >= 0) *why = "a part of it has come";
  return -1;
}

/* What the frame carries takes the place of the frame, which is on top; then its opcode, and whether the message ends with it. */
static int results(lua_State *L) {
  size_t len;
  mr_wsframe f;
  const char *why, *p = lua_tolstring(L, -1, &len);
  if (mr_wsframe_read(p, len, &f, &why) != 1 || f.head + f.length != len) return luaL_error(L, "what came is no frame");
  luaL_Buffer b;
  char *to = luaL_buffinitsize(L, &b, (size_t)f.length);
  mr_wsframe_mask(to, p + f.head, (size_t)f.length, f.mask);
  luaL_pushresultsize(&b, (size_t)f.length);
  lua_replace(L, -2);
  lua_pushinteger(L, f.opcode);
  lua_pushboolean(L, f.fin);
  return 2;
}

static const mr_framing framing = { .name = "WebSocket", .length = length, .results = results };
static const mr_framing framing_at_once = { .name = "WebSocket", .length = length_at_once, .results = results };

static int receive(lua_State *L, mr_fiber *f, const mr_framing *how) {
  mr_conn *c = mr_check_conn(L, 1);
  lua_Integer limit = luaL_checkinteger(L, 2);
  luaL_argcheck(L, limit >= WS_HEAD + WS_CONTROL && limit <= INT64_C(1) << 40, 2, "a frame has 139 bytes to 1 TiB");
  lua_settop(L, 3);
  return mr_read_frame(L, f, c, how, (size_t)limit, (size_t)limit, 3);
}

/*
 * receive(connection, limit, seconds) -> what it carries, opcode, whether it is the last of its message | nil, message, code
 * begin is the same, but "EPROTO" also when a part of a frame has come.
 */
static int l_receive(lua_State *L) { return receive(L, mr_self_fiber(L), &framing); }
static int l_process_receive(lua_State *L) { return receive(L, mr_fiber_here(L), &framing); }
static int l_begin(lua_State *L) { return receive(L, mr_self_fiber(L), &framing_at_once); }
static int l_process_begin(lua_State *L) { return receive(L, mr_fiber_here(L), &framing_at_once); }

/* parse(bytes) -> what it carries, opcode, last, how many bytes the frame has | nil, what is wrong | nil, "more" */
static int l_parse(lua_State *L) {
  size_t len;
  const char *why = "more", *p = luaL_checklstring(L, 1, &len);
  int64_t n = length(p, len, &why);
  if (n <= 0 || (uint64_t)n > len) {
    lua_pushnil(L);
    lua_pushstring(L, n < 0 ? why : "more");
    return 2;
  }
  lua_settop(L, 1);
  lua_pushlstring(L, p, (size_t)n);
  results(L);
  lua_pushinteger(L, (lua_Integer)n);
  return 4;
}

/* head(opcode, length[, data]) -> string: the head of a server's frame, and behind it the data when they are few */
static int l_head(lua_State *L) {
  char text[WS_HEAD + SMALL];
  size_t len = 0;
  lua_Integer opcode = luaL_checkinteger(L, 1), n = luaL_checkinteger(L, 2);
  const char *data = luaL_optlstring(L, 3, NULL, &len);
  luaL_argcheck(L, opcode >= 0 && opcode <= WS_PONG, 1, "an opcode is a number from 0 to 10");
  luaL_argcheck(L, n >= 0, 2, "a length can't be negative");
  luaL_argcheck(L, len <= SMALL, 3, "too long to be joined to its head");
  size_t at = mr_wsframe_write(text, (int)opcode, 1, (uint64_t)n);
  if (data) memcpy(text + at, data, len);
  lua_pushlstring(L, text, at + len);
  return 1;
}

/* accept(key) -> string: what a server answers to the key of a client */
static int l_accept(lua_State *L) {
  char text[WS_ACCEPT];
  size_t len;
  const char *key = luaL_checklstring(L, 1, &len);
  luaL_argcheck(L, len <= 64, 1, "a key has 24 bytes");
  if (!mr_wsframe_accept(key, len, text)) return luaL_error(L, "not enough memory");
  lua_pushlstring(L, text, sizeof text);
  return 1;
}

/* is_text(string) -> boolean: is it UTF-8? */
static int l_is_text(lua_State *L) {
  size_t len, i = 0, used;
  const char *s = luaL_checklstring(L, 1, &len);
  while (i < len) {
    uint64_t word;
    for (; len - i >= 8; i += 8) {
      memcpy(&word, s + i, 8);
      if (word & UINT64_C(0x8080808080808080)) break;
    }
    if (i == len) break;
    if (mr_text_read(s + i, len - i, &used) == UINT32_MAX) break;
    i += used;
  }
  lua_pushboolean(L, i == len);
  return 1;
}

static const luaL_Reg functions[] = { { "parse", l_parse }, { "head", l_head }, { "accept", l_accept }, { "is_text", l_is_text }, { NULL, NULL } };
static const luaL_Reg owned[] = { { "receive", l_receive }, { "begin", l_begin }, { NULL, NULL } };
static const luaL_Reg owned_fast[] = { { "receive", l_process_receive }, { "begin", l_process_begin }, { NULL, NULL } };

int luaopen_mare_http_frames(lua_State *L) {
  mr_host_ensure(L);
  luaL_newlib(L, functions);
  mr_set_functions(L, mr_in_process(L) ? owned_fast : owned);
  lua_pushinteger(L, SMALL);
  lua_setfield(L, -2, "SMALL");
  return 1;
}
