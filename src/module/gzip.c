/* gzip: mare.http.deflate - bytes made shorter by zlib, as gzip has them, for answers of mare.http. A mare that was built without zlib says so. */
#include "module/buflib.h"

#ifndef MR_ZLIB

int luaopen_mare_http_deflate(lua_State *L) {
  return luaL_error(L, "this mare was built without zlib, which gzip needs: install its headers (Debian: zlib1g-dev), then build again");
}

#else
#include <limits.h>
#include <zlib.h>

#define TNAME "mare.http.deflate"

typedef struct stream { z_stream z; int open; } stream;

static int l_gc(lua_State *L) {
  stream *s = luaL_checkudata(L, 1, TNAME);
  if (s->open) deflateEnd(&s->z);
  s->open = 0;
  return 0;
}

/* new(level) -> stream: of gzip, with level 1 (fast) to 9 (short) */
static int l_new(lua_State *L) {
  lua_Integer level = luaL_checkinteger(L, 1);
  luaL_argcheck(L, level >= 1 && level <= 9, 1, "a level is a number from 1 to 9");
  stream *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (stream){ .open = 0 };
  luaL_setmetatable(L, TNAME);
  if (deflateInit2(&s->z, (int)level, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return luaL_error(L, "not enough memory");
  s->open = 1;
  return 1;
}

/* stream(string or buffer, last) -> string: all that can be read of what was given so far; after the last the stream is over */
static int l_call(lua_State *L) {
  stream *s = luaL_checkudata(L, 1, TNAME);
  int how = lua_toboolean(L, 3) ? Z_FINISH : Z_SYNC_FLUSH, result;
  size_t len;
  lua_settop(L, 2);
  mr_piece_fix(L, 2);
  const char *p = mr_piece_get(L, 2, &len);
  luaL_argcheck(L, p && len <= UINT_MAX / 2, 2, "a string or a buffer of at most 2 GiB");
  if (!s->open) return luaL_error(L, "the stream is over");
  luaL_Buffer b;
  size_t room = deflateBound(&s->z, (uLong)len) + 64;
  s->z.next_in = (Bytef *)(uintptr_t)p;
  s->z.avail_in = (uInt)len;
  luaL_buffinit(L, &b);
  do {
    if (room > (size_t)1 << 18) room = (size_t)1 << 18;
    s->z.next_out = (Bytef *)luaL_prepbuffsize(&b, room);
    s->z.avail_out = (uInt)room;
    result = deflate(&s->z, how);
    luaL_addsize(&b, room - s->z.avail_out);
  } while (result == Z_OK && (s->z.avail_out == 0 || how == Z_FINISH));
  if (result != Z_STREAM_END && result != Z_OK && result != Z_BUF_ERROR) return luaL_error(L, "zlib: error %d", result);
  if (how == Z_FINISH) {
    deflateEnd(&s->z);
    s->open = 0;
  }
  luaL_pushresult(&b);
  return 1;
}

int luaopen_mare_http_deflate(lua_State *L) {
  static const luaL_Reg functions[] = { { "new", l_new }, { NULL, NULL } };
  static const luaL_Reg meta[] = { { "__gc", l_gc }, { "__call", l_call }, { NULL, NULL } };
  if (luaL_newmetatable(L, TNAME)) luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  return 1;
}
#endif
