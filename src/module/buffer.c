/*
 * mare.buffer: making buffers, and reading them; see share/buffer.h. They are changed in builder.c.
 *
 * Bytes of an open buffer are looked at only while nothing can run that may change it: every push, and every step of the collector, may run a
 * finaliser of the program. What has to outlast that works on a sealed one with the same store.
 */
#include "module/buflib.h"
#include "module/filelib.h"
#include "port/map.h"
#include "share/format.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define TNAME MR_BUFFER_TNAME

static const mr_class class;

mr_buffer *mr_buffer_refuse(lua_State *L, int idx) {
  mr_shared_check(L, idx, mr_buffer_open, TNAME);
  return NULL;
}

/* ---- memory ---- */

static mr_proc *here(lua_State *L) { return mr_in_process(L) ? mr_proc_here(L) : NULL; }

mr_budget *mr_store_afford(lua_State *L, size_t size) {
  char text[200];
  mr_proc *p = here(L);
  if (PORT_LIKELY(!p || !p->budget)) return NULL;
  mr_budget *over = mr_proc_take(L, p, p->budget, mr_store_cost(size));
  if (over) luaL_error(L, "%s", mr_proc_over(over, text));
  return p->budget;
}

mr_store *mr_store_make(lua_State *L, size_t size, int zeroed) {
  mr_budget *b = mr_store_afford(L, size);
  mr_store *s = mr_store_new(size, zeroed);
  if (!s && size <= MR_BUFFER_MOST) {
    mr_outside_collect(L);
    s = mr_store_new(size, zeroed);
  }
  if (!s) {
    if (b) mr_budget_give(b, mr_store_cost(size));
    mr_raise(L, MR_ENOMEM);
  }
  if (b) mr_store_charge(s, b, mr_store_cost(size));
  return s;
}

/* ---- making ---- */

/* A buffer with that store, or part of it; our reference to the store goes there, also when this raises. */
static void push_part(lua_State *L, mr_store *s, const void *bytes, size_t len) {
  mr_buffer *b = mr_buffer_part(s, bytes, len);
  mr_store_release(s);
  if (!b) mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, &b->base.shared);
}

static void push_opened(lua_State *L, mr_store *s, size_t len) {
  mr_buffer *b = mr_buffer_new();
  if (!b) {
    mr_store_release(s);
    mr_raise(L, MR_ENOMEM);
  }
  b->store = s;
  if (s) b->bytes = s->bytes;
  b->length = len;
  mr_shared_push_new(L, &b->base.shared);
}

void mr_buffer_push_copy(lua_State *L, const void *bytes, size_t len) {
  mr_store *s = mr_store_make(L, len, 0);        /* collects garbage at most: the caller keeps the bytes alive */
  if (len) memcpy(s->bytes, bytes, len);
  push_part(L, s, s->bytes, len);
}

void mr_buffer_push_open(lua_State *L, size_t len) { push_opened(L, len ? mr_store_make(L, len, 1) : NULL, len); }

typedef struct adopting { void *block, *bytes, *ud; size_t len; void (*drop)(mr_store *); mr_store *store; } adopting;

static int l_adopt(lua_State *L) {
  adopting *a = lua_touserdata(L, 1);
  mr_budget *b = mr_store_afford(L, a->len);
  a->store = mr_store_adopt(a->block, a->bytes, a->len, a->drop, a->ud);
  if (a->store && b) mr_store_charge(a->store, b, mr_store_cost(a->len));
  if (a->store) push_part(L, a->store, a->bytes, a->len);
  else if (b) mr_budget_give(b, mr_store_cost(a->len));
  return a->store ? 1 : mr_raise(L, MR_ENOMEM);
}

void mr_buffer_adopt_by(lua_State *L, void *block, void *bytes, size_t len, void (*drop)(mr_store *s), void *ud) {
  adopting a = { block, bytes, ud, len, drop, NULL };
  lua_pushcfunction(L, l_adopt);
  lua_pushlightuserdata(L, &a);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) return;
  mr_store s = { .block = block, .bytes = bytes, .size = len, .drop = drop, .ud = ud };
  if (!a.store) drop(&s);
  lua_error(L);
}

void mr_buffer_adopt(lua_State *L, void *block, void *bytes, size_t len) { mr_buffer_adopt_by(L, block, bytes, len, mr_store_free_block, NULL); }

/* ---- bytes of others ---- */

void mr_piece_check(lua_State *L, int idx) {
  if (lua_isstring(L, idx)) lua_tolstring(L, idx, NULL);
  else if (!mr_buffer_here(L, idx)) {
    if (mr_is_husk(L, idx)) mr_buffer_refuse(L, idx);
    luaL_typeerror(L, idx, "buffer or string");
  }
}

/* Pushes a sealed buffer with the store of the one at idx. */
static void push_slice(lua_State *L, const mr_buffer *b, size_t from, size_t len) {
  mr_buffer *s = mr_buffer_part(b->store, b->bytes + from, len);
  if (!s) mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, &s->base.shared);
}

void mr_piece_fix(lua_State *L, int idx) {
  mr_piece_check(L, idx);
  const mr_buffer *b = lua_isuserdata(L, idx) ? mr_buffer_here(L, idx) : NULL;
  if (!b || !mr_buffer_is_open(b)) return;
  luaL_checkstack(L, 10, NULL);
  push_slice(L, b, 0, b->length);
  lua_replace(L, idx);
}

mr_store *mr_piece_store(lua_State *L, int idx) {
  const mr_buffer *b = lua_isuserdata(L, idx) ? mr_buffer_here(L, idx) : NULL;
  if (!b || !b->store) return NULL;
  mr_store_retain(b->store);
  return b->store;
}

static size_t size_arg(lua_State *L, int idx) {
  lua_Integer n = luaL_checkinteger(L, idx);
  luaL_argcheck(L, n >= 0, idx, "a number of bytes can't be negative");
  if ((lua_Unsigned)n > MR_BUFFER_MOST) mr_raise(L, MR_ENOMEM);
  return (size_t)n;
}

/* buffer.new([bytes | string | buffer]) -> open buffer */
static int l_new(lua_State *L) {
  lua_settop(L, 1);
  if (lua_isnil(L, 1)) lua_pushinteger(L, 0), lua_replace(L, 1);
  if (lua_type(L, 1) == LUA_TNUMBER) {
    mr_buffer_push_open(L, size_arg(L, 1));
    return 1;
  }
  mr_piece_check(L, 1);
  const mr_buffer *from = mr_buffer_here(L, 1);
  if (from) {                                    /* it gets a copy of its own when it is changed */
    if (from->store) mr_store_retain(from->store);
    const unsigned char *bytes = from->bytes;
    size_t len = from->length;
    push_opened(L, from->store, 0);
    mr_buffer *b = mr_buffer_here(L, -1);
    b->bytes = bytes;
    b->length = len;
    return 1;
  }
  size_t len;
  const char *s = lua_tolstring(L, 1, &len);
  mr_store *store = len ? mr_store_make(L, len, 0) : NULL;
  if (len) memcpy(store->bytes, s, len);
  push_opened(L, store, len);
  return 1;
}

/* The pieces from idx to `last`, one behind the other; finalisers may have changed open ones since their lengths were added up: 0 then. */
static int join(lua_State *L, int idx, int last, unsigned char *to, size_t left) {
  for (size_t len; idx <= last; idx++, to += len, left -= len) {
    const char *s = mr_piece_get(L, idx, &len);
    if (!s || len > left) return 0;
    if (len) memcpy(to, s, len);
  }
  return left == 0;
}

static size_t total_of(lua_State *L, int idx, int last) {
  size_t total = 0, len;
  for (; idx <= last; idx++, total += len) {
    mr_piece_get(L, idx, &len);
    if (len > MR_BUFFER_MOST || total > MR_BUFFER_MOST) mr_raise(L, MR_ENOMEM);
  }
  return total;
}

/* buffer.of(string | buffer, …) -> sealed buffer with all of them, one behind the other */
static int l_of(lua_State *L) {
  int top = lua_gettop(L);
  if (top == 0) luaL_typeerror(L, 1, "buffer or string");
  for (int i = 1; i <= top; i++) mr_piece_fix(L, i);
  if (top == 1 && lua_isuserdata(L, 1)) return 1;
  size_t total = total_of(L, 1, top);
  mr_store *s = mr_store_make(L, total, 0);
  join(L, 1, top, s->bytes, total);              /* strings and sealed ones stay what they are */
  push_part(L, s, s->bytes, total);
  return 1;
}

static void unmap(mr_store *s) { port_map_part_close(s->block, s->size + (size_t)(s->bytes - (unsigned char *)s->block)); }

static int map_failed(lua_State *L, const char *path, int err) {
  if (err != ENOTSUP) return mr_file_fail(L, path, err);
  lua_pushnil(L);
  lua_pushfstring(L, "%s: a regular file is expected, whose size is known, not a pipe, a device or a file of /proc; read it", path);
  lua_pushliteral(L, "ENOTSUP");
  return 3;
}

/* buffer.map(path[, offset[, length]]) -> sealed buffer | nil, message, code */
static int l_map(lua_State *L) {
  const char *path = mr_check_name(L, 1);
  lua_Integer offset = luaL_optinteger(L, 2, 0), length = luaL_optinteger(L, 3, -1);
  luaL_argcheck(L, offset >= 0, 2, "an offset can't be negative");
  luaL_argcheck(L, length >= 0 || lua_isnoneornil(L, 3), 3, "a number of bytes can't be negative");
  mr_check_forked(L);
  port_part m;
  int err = port_map_part_open(&m, path, (uint64_t)offset, length < 0 ? UINT64_MAX : (uint64_t)length);
  if (err) return map_failed(L, path, err);
  if (m.len == 0) mr_buffer_push_copy(L, "", 0);
  else {
    mr_store *s = mr_store_adopt(m.at, m.bytes, m.len, unmap, NULL);
    if (!s) port_map_part_close(m.at, m.size);
    if (!s) mr_raise(L, MR_ENOMEM);
    push_part(L, s, m.bytes, m.len);
  }
  return 1;
}

/* buffer.is(value) -> "open" | "sealed" | false */
static int l_is(lua_State *L) {
  luaL_checkany(L, 1);
  const mr_buffer *b = mr_buffer_here(L, 1);
  if (b) lua_pushstring(L, mr_buffer_is_open(b) ? "open" : "sealed");
  else lua_pushboolean(L, 0);
  return 1;
}

/* ---- reading ---- */

/* buffer:len() -> bytes */
static int l_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_buffer_arg(L, 1)->length);
  return 1;
}

/* buffer:byte([i[, j]]) -> integer… */
static int l_byte(lua_State *L) {
  const mr_buffer *b = mr_buffer_arg(L, 1);
  lua_Integer i = luaL_optinteger(L, 2, 1);
  size_t from, n = mr_buffer_range(i, luaL_optinteger(L, 3, i), b->length, &from);
  if (PORT_LIKELY(n == 1)) return lua_pushinteger(L, b->bytes[from]), 1;
  if (n >= INT_MAX) return luaL_error(L, "too many results");
  luaL_checkstack(L, (int)n, "too many results");
  for (size_t k = 0; k < n; k++) lua_pushinteger(L, b->bytes[from + k]);
  return (int)n;
}

/* buffer:sub([i[, j]]) -> string */
static int l_sub(lua_State *L) {
  const mr_buffer *b = mr_buffer_arg(L, 1);
  size_t from, n = mr_buffer_range(luaL_optinteger(L, 2, 1), luaL_optinteger(L, 3, -1), b->length, &from);
  lua_pushlstring(L, (const char *)b->bytes + from, n);
  return 1;
}

/* buffer:slice([i[, j]]) -> sealed buffer, which shares the bytes */
static int l_slice(lua_State *L) {
  const mr_buffer *b = mr_buffer_arg(L, 1);
  size_t from, n = mr_buffer_range(luaL_optinteger(L, 2, 1), luaL_optinteger(L, 3, -1), b->length, &from);
  lua_settop(L, 1);
  if (n == b->length && !mr_buffer_is_open(b)) return 1;
  push_slice(L, b, from, n);
  return 1;
}

/* buffer:find(text[, init]) -> i, j | nil */
static int l_find(lua_State *L) {
  size_t len, from;
  mr_piece_check(L, 2);
  lua_Integer init = luaL_optinteger(L, 3, 1);
  const mr_buffer *b = mr_buffer_arg(L, 1);
  const char *what = mr_piece_get(L, 2, &len);
  mr_buffer_range(init, -1, b->length, &from);
  const unsigned char *p = from > b->length || init > (lua_Integer)b->length + 1 ? NULL
                           : mr_buffer_find(b->bytes + from, b->length - from, what, len);
  if (!p) return lua_pushnil(L), 1;
  lua_pushinteger(L, (lua_Integer)(p - b->bytes) + 1);
  lua_pushinteger(L, (lua_Integer)((size_t)(p - b->bytes) + len));
  return 2;
}

/* buffer:unpack(format[, position]) -> value…, position behind them */
static int l_unpack(lua_State *L) {
  const mr_buffer *b = mr_buffer_arg(L, 1);
  const char *format = luaL_checkstring(L, 2);
  lua_Integer pos = luaL_optinteger(L, 3, 1);
  size_t len = b->length;
  if (pos < 0) pos = pos < -(lua_Integer)len ? 0 : (lua_Integer)len + pos + 1;
  if (pos < 1) pos = 1;
  luaL_argcheck(L, (lua_Unsigned)pos - 1 <= len, 3, "initial position out of string");
  if (mr_buffer_is_open(b) && strpbrk(format, "szc")) {       /* a string that is pushed may run a finaliser */
    push_slice(L, b, 0, len);
    b = mr_buffer_here(L, -1);
  }
  return mr_format_unpack(L, format, b->bytes, b->length, (size_t)pos - 1);
}

/* buffer:sealed() -> boolean */
static int l_sealed(lua_State *L) {
  lua_pushboolean(L, !mr_buffer_is_open(mr_buffer_arg(L, 1)));
  return 1;
}

static int l_tostring(lua_State *L) {
  if (mr_is_husk(L, 1)) {
    lua_pushliteral(L, "buffer (moved)");
    return 1;
  }
  const mr_buffer *b = mr_buffer_arg(L, 1);
  lua_pushlstring(L, (const char *)b->bytes, b->length);
  return 1;
}

static int l_eq(lua_State *L) {
  const mr_buffer *a = mr_buffer_here(L, 1), *b = mr_buffer_here(L, 2);
  lua_pushboolean(L, a && b && a->length == b->length && (a->bytes == b->bytes || memcmp(a->bytes, b->bytes, a->length) == 0));
  return 1;
}

static const luaL_Reg meta[] = { { "__len", l_len }, { "__eq", l_eq }, { "__tostring", l_tostring }, { NULL, NULL } };
static const luaL_Reg methods[] = {
  { "len", l_len },       { "byte", l_byte },     { "sub", l_sub },       { "slice", l_slice },     { "find", l_find },   { "unpack", l_unpack },
  { "sealed", l_sealed }, { "get", mr_buffer_l_get }, { "set", mr_buffer_l_set },
  { "doubles", mr_buffer_l_doubles }, { "integers", mr_buffer_l_integers }, { "view", mr_buffer_l_view },
  { "append", mr_buffer_l_append }, { "pack", mr_buffer_l_pack }, { "put", mr_buffer_l_put }, { "fill", mr_buffer_l_fill },
  { "resize", mr_buffer_l_resize }, { "reserve", mr_buffer_l_reserve }, { "clear", mr_buffer_l_clear }, { "seal", mr_buffer_l_seal },
  { NULL, NULL }
};

/* What the collector should know of: many slices of one store hold it together. */
static void buffer_push(lua_State *L, mr_shared *o) {
  if (!mr_shared_push(L, o, &class)) return;
  const mr_buffer *b = (mr_buffer *)o;
  size_t sharers = b->store ? atomic_load_explicit(&b->store->refs, memory_order_relaxed) : 1;
  mr_outside_held(L, b->length / sharers);
}

static const mr_class class = {
  .share = { .name = "buffer", .destroy = mr_buffer_destroy, .push = buffer_push }, .tname = TNAME, .meta = meta, .methods = methods
};
static const mr_sharetype open_type = {
  .name = "buffer", .destroy = mr_buffer_destroy, .push = buffer_push, .moves = 1, .dropped = mr_buffer_dropped
};

void mr_buffer_setup(void) {
  mr_buffer_sealed = &class.share;
  mr_buffer_open = &open_type;
}

static const luaL_Reg functions[] = { { "new", l_new }, { "of", l_of }, { "map", l_map }, { "is", l_is }, { NULL, NULL } };

int luaopen_mare_buffer(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 5);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}
