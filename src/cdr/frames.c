/* frames: see frames.h. */
#include <string.h>
#include "cdr/frames.h"

enum { FIRST = 8 };

int mr_frames_more(lua_State *L) {
  size_t size = lua_rawlen(L, 1);              /* of nil: 0 */
  void *to = lua_newuserdatauv(L, size ? 2 * size : FIRST * (size_t)lua_tointeger(L, 2), 0);
  if (size) memcpy(to, lua_touserdata(L, 1), size);
  return 1;
}

void mr_frames_grow(lua_State *L, mr_frames *f) {
  lua_pushcfunction(L, mr_frames_more);
  lua_pushvalue(L, f->index);
  lua_pushinteger(L, (lua_Integer)f->size);
  lua_call(L, 2, 1);
  lua_replace(L, f->index);
  mr_frames_moved(L, f);
}
