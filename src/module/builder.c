/*
 * builder: what changes open buffers; see buffer.c.
 *
 * Arguments are read first, and made strings where they are numbers; then the buffer is made ready (mr_buffer_edit), which may collect garbage and so
 * run the program's finalisers: only behind that it is looked at, and changed without calling Lua.
 */
#include "module/buflib.h"
#include "share/format.h"

#include <string.h>

static mr_buffer *open_arg(lua_State *L, int idx) {
  mr_buffer *b = mr_buffer_arg(L, idx);
  if (PORT_UNLIKELY(!mr_buffer_is_open(b))) luaL_error(L, "buffer is sealed: it can't be changed any more; buffer.new(b) makes one that can");
  return b;
}

static void grow(lua_State *L, int idx, size_t size) {
  mr_outside_held(L, size);
  mr_budget *budget = mr_store_afford(L, size);
  mr_buffer *b = mr_buffer_here(L, idx);
  int done = b && mr_buffer_is_open(b) && b->length <= size ? mr_buffer_grow(b, size) : -1;   /* -1: a finaliser came in between */
  if (!done) {
    mr_outside_collect(L);
    b = mr_buffer_here(L, idx);
    done = b && mr_buffer_is_open(b) && b->length <= size ? mr_buffer_grow(b, size) : -1;
  }
  if (done > 0) mr_store_charge(b->store, budget, budget ? mr_store_cost(size) : 0);
  else if (budget) mr_budget_give(budget, mr_store_cost(size));
  if (!done) mr_raise(L, MR_ENOMEM);
}

mr_buffer *mr_buffer_edit(lua_State *L, int idx, size_t total) {
  for (;;) {
    mr_buffer *b = open_arg(L, idx);
    size_t least = total > b->length ? total : b->length;
    if (PORT_LIKELY(mr_buffer_alone(b, least))) return b;
    if (least > MR_BUFFER_MOST) mr_raise(L, MR_ENOMEM);
    grow(L, idx, mr_buffer_growth(b, least > 0 ? least : 1));
  }
}

mr_buffer *mr_buffer_edit_more(lua_State *L, int idx, size_t more) {
  if (more > MR_BUFFER_MOST) mr_raise(L, MR_ENOMEM);
  for (;;) {
    mr_buffer *b = open_arg(L, idx);
    if (PORT_LIKELY(mr_buffer_alone(b, b->length + more))) return b;
    mr_buffer_edit(L, idx, b->length + more);
  }
}

mr_buffer *mr_buffer_edit_all(lua_State *L, int idx) { return mr_buffer_edit(L, idx, 0); }

/* ---- appending ---- */

/* buffer:append(string | number | buffer, …) -> buffer */
int mr_buffer_l_append(lua_State *L) {
  int top = lua_gettop(L);
  open_arg(L, 1);
  for (int i = 2; i <= top; i++) mr_piece_check(L, i);
  for (int i = 2; i <= top; i++) {
    size_t len;
    if (PORT_UNLIKELY(!mr_piece_get(L, i, &len))) mr_buffer_refuse(L, i);    /* a finaliser has sent it away */
    if (len == 0) continue;
    mr_buffer *b = mr_buffer_edit_more(L, 1, len);
    size_t now;
    const char *s = mr_piece_get(L, i, &now);    /* it may be the buffer itself */
    if (!s || now < len) len = s ? now : 0;
    memcpy(mr_buffer_at(b, b->length), s, len);
    b->length += len;
  }
  lua_settop(L, 1);
  return 1;
}

static unsigned char *room(lua_State *L, void *ud, size_t done, size_t n) {
  (void)ud;
  mr_buffer *b = mr_buffer_edit_more(L, 1, done + n);
  return mr_buffer_at(b, b->length + done);
}

/* buffer:pack(format, value…) -> buffer */
int mr_buffer_l_pack(lua_State *L) {
  open_arg(L, 1);
  size_t n = mr_format_pack(L, luaL_checkstring(L, 2), 3, room, NULL);
  mr_buffer *b = mr_buffer_edit_more(L, 1, n);   /* nothing is left to do, unless a finaliser has changed it meanwhile */
  b->length += n;
  lua_settop(L, 1);
  return 1;
}

/* ---- in place ---- */

/* buffer:put(position, string | buffer[, i[, j]]) -> buffer: that part of it stands there then */
int mr_buffer_l_put(lua_State *L) {
  size_t len, from;
  lua_Integer at = luaL_checkinteger(L, 2), i = luaL_optinteger(L, 4, 1), j = luaL_optinteger(L, 5, -1);
  mr_piece_check(L, 3);
  mr_buffer *b = mr_buffer_edit_all(L, 1);
  const char *s = mr_piece_get(L, 3, &len);
  size_t n = s ? mr_buffer_range(i, j, len, &from) : 0;
  if (at < 0 && at >= -(lua_Integer)b->length) at += (lua_Integer)b->length + 1;
  luaL_argcheck(L, at >= 1 && (lua_Unsigned)at - 1 <= b->length, 2, "position outside of the buffer");
  luaL_argcheck(L, n <= b->length - (size_t)(at - 1), 3, "it does not fit into what is left of the buffer behind that position");
  if (n) memmove(mr_buffer_at(b, (size_t)at - 1), s + from, n);
  lua_settop(L, 1);
  return 1;
}

/* buffer:fill(byte[, i[, j]]) -> buffer */
int mr_buffer_l_fill(lua_State *L) {
  lua_Integer byte = luaL_checkinteger(L, 2), i = luaL_optinteger(L, 3, 1), j = luaL_optinteger(L, 4, -1);
  luaL_argcheck(L, byte >= 0 && byte <= 255, 2, "a byte is from 0 to 255");
  mr_buffer *b = mr_buffer_edit_all(L, 1);
  size_t from, n = mr_buffer_range(i, j, b->length, &from);
  if (n) memset(mr_buffer_at(b, from), (int)byte, n);
  lua_settop(L, 1);
  return 1;
}

static size_t size_arg(lua_State *L, int idx) {
  lua_Integer n = luaL_checkinteger(L, idx);
  luaL_argcheck(L, n >= 0, idx, "a number of bytes can't be negative");
  if ((lua_Unsigned)n > MR_BUFFER_MOST) mr_raise(L, MR_ENOMEM);
  return (size_t)n;
}

/* buffer:resize(bytes) -> buffer: what is new of it is zero */
int mr_buffer_l_resize(lua_State *L) {
  size_t n = size_arg(L, 2);
  mr_buffer *b = open_arg(L, 1);
  if (n > b->length) {
    b = mr_buffer_edit(L, 1, n);
    if (n > b->length) memset(mr_buffer_at(b, b->length), 0, n - b->length);
  }
  b->length = n;
  lua_settop(L, 1);
  return 1;
}

/* buffer:reserve(bytes) -> buffer: there is room for so many more */
int mr_buffer_l_reserve(lua_State *L) {
  mr_buffer_edit_more(L, 1, size_arg(L, 2));
  lua_settop(L, 1);
  return 1;
}

/* buffer:clear() -> buffer: empty; its memory is kept for what comes */
int mr_buffer_l_clear(lua_State *L) {
  open_arg(L, 1)->length = 0;
  lua_settop(L, 1);
  return 1;
}

void mr_buffer_seal_at(lua_State *L, int idx) {
  if (!mr_buffer_is_open(mr_buffer_arg(L, idx))) return;
  mr_buffer *s = mr_buffer_part(NULL, NULL, 0);
  if (!s) mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, &s->base.shared);
  mr_buffer_hand_over(open_arg(L, idx), s);
  mr_shared_exchange(L, idx, -1);                /* the new one is empty, open, and nobody's */
  lua_pop(L, 1);
}

/* buffer:seal() -> buffer, which never changes again */
int mr_buffer_l_seal(lua_State *L) {
  lua_settop(L, 1);
  mr_buffer_seal_at(L, 1);
  return 1;
}
