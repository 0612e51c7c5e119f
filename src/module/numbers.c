/*
 * numbers: buffers as rows of numbers: get and set by index, and views, which look like lists.
 *
 * A view is a userdata with its type, whose user value is the buffer's: so it is as open, sealed or moved as that one is at the moment.
 */
#include "module/buflib.h"
#include "share/format.h"

#include <limits.h>
#include <string.h>

typedef struct view { uintptr_t tag; char type; unsigned char size; } view;
static const char view_tag;

static char type_arg(lua_State *L, int idx) {
  size_t len;
  const char *s = luaL_checklstring(L, idx, &len);
  if (len != 1 || !mr_number_size(*s))
    luaL_argerror(L, idx, lua_pushfstring(L, "a type of numbers expected, one of b B h H i I l L j J f d n; got \"%s\"", s));
  return *s;
}

/* Where element i is, from 1; SIZE_MAX: there is none. */
static size_t place_of(const mr_buffer *b, lua_Integer i, size_t size) {
  return i >= 1 && (lua_Unsigned)i <= b->length / size ? ((size_t)i - 1) * size : SIZE_MAX;
}

/* buffer:get(type, i) -> number | nil */
int mr_buffer_l_get(lua_State *L) {
  const mr_buffer *b = mr_buffer_arg(L, 1);
  char type = type_arg(L, 2);
  size_t at = place_of(b, luaL_checkinteger(L, 3), mr_number_size(type));
  if (at == SIZE_MAX) lua_pushnil(L);
  else mr_number_push(L, type, b->bytes + at);
  return 1;
}

/* buffer:set(type, i, number…) -> buffer */
int mr_buffer_l_set(lua_State *L) {
  char type = type_arg(L, 2);
  lua_Integer i = luaL_checkinteger(L, 3);
  size_t size = mr_number_size(type);
  int top = lua_gettop(L);
  luaL_checkany(L, 4);
  mr_number n;
  mr_buffer *b = mr_buffer_edit_all(L, 1);
  luaL_argcheck(L, place_of(b, i, size) != SIZE_MAX && place_of(b, i + (top - 4), size) != SIZE_MAX, 3, "outside of the buffer");
  for (int k = 4; k <= top; k++) {
    mr_number_check(L, k, type, &n);             /* runs nothing: a number's text is read in place */
    memcpy(mr_buffer_at(b, place_of(b, i + (k - 4), size)), n.bytes, size);
  }
  lua_settop(L, 1);
  return 1;
}

/* ---- views ---- */

static view *view_arg(lua_State *L) {
  view *v = lua_rawlen(L, 1) == sizeof *v ? lua_touserdata(L, 1) : NULL;
  if (PORT_UNLIKELY(!v || v->tag != ((uintptr_t)&view_tag ^ (uintptr_t)v))) luaL_typeerror(L, 1, "view of a buffer");
  return v;
}

char mr_view_buffer(lua_State *L, int idx) {
  view *v = lua_isuserdata(L, idx) && lua_rawlen(L, idx) == sizeof *v ? lua_touserdata(L, idx) : NULL;
  if (!v || v->tag != ((uintptr_t)&view_tag ^ (uintptr_t)v)) return 0;
  lua_getiuservalue(L, idx, 1);
  return v->type;
}

/* Pushes its buffer; where that is. */
static int push_buffer(lua_State *L) {
  lua_getiuservalue(L, 1, 1);
  return lua_gettop(L);
}

static int l_view_len(lua_State *L) {
  view *v = view_arg(L);
  lua_pushinteger(L, (lua_Integer)(mr_buffer_arg(L, push_buffer(L))->length / v->size));
  return 1;
}

/* view:buffer() -> buffer */
static int l_view_buffer(lua_State *L) {
  view_arg(L);
  push_buffer(L);
  return 1;
}

/* view:type() -> its letter */
static int l_view_type(lua_State *L) {
  char type[2] = { view_arg(L)->type, 0 };
  lua_pushstring(L, type);
  return 1;
}

/* What i and j, which may be left out, take of the elements: how many, and the first, from 0. */
static size_t elements(lua_State *L, const mr_buffer *b, const view *v, lua_Integer i, lua_Integer j, size_t *from) {
  (void)L;
  return mr_buffer_range(i, j, b->length / v->size, from);
}

/* view:table([i[, j]]) -> list of numbers */
static int l_view_table(lua_State *L) {
  view *v = view_arg(L);
  lua_Integer i = luaL_optinteger(L, 2, 1), j = luaL_optinteger(L, 3, -1);
  size_t from, n;
  lua_settop(L, 1);
  int at = push_buffer(L);
  n = elements(L, mr_buffer_arg(L, at), v, i, j, &from);
  if (n >= INT_MAX) mr_raise(L, MR_ENOMEM);
  lua_createtable(L, (int)n, 0);                 /* may run a finaliser, which may change the buffer */
  for (size_t k = 0; k < n; k++) {
    const mr_buffer *b = mr_buffer_arg(L, at);
    if ((from + k + 1) * v->size > b->length) break;
    mr_number_push(L, v->type, b->bytes + (from + k) * v->size);
    lua_rawseti(L, -2, (lua_Integer)k + 1);
  }
  return 1;
}

/* view:put(i, list[, first[, last]]) -> view: elements of the list stand there from i on */
static int l_view_put(lua_State *L) {
  view *v = view_arg(L);
  lua_Integer to = luaL_checkinteger(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  size_t from, n = mr_buffer_range(luaL_optinteger(L, 4, 1), luaL_optinteger(L, 5, -1), lua_rawlen(L, 3), &from);
  lua_settop(L, 3);
  int at = push_buffer(L);
  mr_buffer *b = mr_buffer_edit_all(L, at);
  luaL_argcheck(L, n == 0 || (place_of(b, to, v->size) != SIZE_MAX && n <= b->length / v->size - (size_t)(to - 1)), 2, "outside of the buffer");
  for (size_t k = 0; k < n; k++) {
    mr_number x;
    lua_rawgeti(L, 3, (lua_Integer)(from + k) + 1);
    if (lua_type(L, -1) != LUA_TNUMBER) luaL_error(L, "element %I is no number", (LUAI_UACINT)(from + k + 1));
    mr_number_check(L, at + 1, v->type, &x);
    memcpy(mr_buffer_at(b, ((size_t)to - 1 + k) * v->size), x.bytes, v->size);
    lua_settop(L, at);
  }
  lua_settop(L, 1);
  return 1;
}

/* view:fill(number[, i[, j]]) -> view */
static int l_view_fill(lua_State *L) {
  view *v = view_arg(L);
  mr_number x;
  mr_number_check(L, 2, v->type, &x);
  lua_Integer i = luaL_optinteger(L, 3, 1), j = luaL_optinteger(L, 4, -1);
  lua_settop(L, 1);
  mr_buffer *b = mr_buffer_edit_all(L, push_buffer(L));
  size_t from, n = elements(L, b, v, i, j, &from);
  unsigned char *p = n ? mr_buffer_at(b, from * v->size) : NULL;
  for (; n > 0; n--, p += v->size) memcpy(p, x.bytes, v->size);
  lua_settop(L, 1);
  return 1;
}

static const luaL_Reg view_methods[] = {
  { "buffer", l_view_buffer }, { "table", l_view_table }, { "put", l_view_put }, { "fill", l_view_fill }, { "type", l_view_type }, { NULL, NULL }
};

static int l_view_index(lua_State *L) {
  view *v = view_arg(L);
  if (PORT_LIKELY(lua_type(L, 2) == LUA_TNUMBER)) {
    int is;
    lua_Integer i = lua_tointegerx(L, 2, &is);
    lua_getiuservalue(L, 1, 1);
    const mr_buffer *b = mr_buffer_arg(L, -1);
    size_t at = is ? place_of(b, i, v->size) : SIZE_MAX;
    if (PORT_UNLIKELY(at == SIZE_MAX)) lua_pushnil(L);
    else mr_number_push(L, v->type, b->bytes + at);
    return 1;
  }
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  for (const luaL_Reg *m = view_methods; m->name; m++)
    if (strcmp(m->name, name) == 0) return lua_pushcfunction(L, m->func), 1;
  if (mr_may_miss(L, 2)) return 0;
  lua_newtable(L);
  mr_list_functions(L, view_methods);
  return mr_no_field(L, "view of a buffer", 2);
}

static int l_view_newindex(lua_State *L) {
  view *v = view_arg(L);
  mr_number n;
  lua_Integer i = luaL_checkinteger(L, 2);
  mr_number_check(L, 3, v->type, &n);
  lua_settop(L, 3);
  mr_buffer *b = mr_buffer_edit_all(L, push_buffer(L));
  size_t at = place_of(b, i, v->size);
  if (PORT_UNLIKELY(at == SIZE_MAX)) return luaL_error(L, "element %I is outside of the view, which has %I", (LUAI_UACINT)i, (LUAI_UACINT)(b->length / v->size));
  memcpy(mr_buffer_at(b, at), n.bytes, v->size);
  return 0;
}

static int l_view_tostring(lua_State *L) {
  view *v = view_arg(L);
  char type[2] = { v->type, 0 };
  const mr_buffer *b = mr_buffer_here(L, push_buffer(L));
  if (b) lua_pushfstring(L, "view \"%s\" of a buffer: %I numbers", type, (LUAI_UACINT)(b->length / v->size));
  else lua_pushfstring(L, "view \"%s\" of a buffer (moved)", type);
  return 1;
}

static const luaL_Reg view_meta[] = {
  { "__index", l_view_index }, { "__newindex", l_view_newindex }, { "__len", l_view_len }, { "__tostring", l_view_tostring }, { NULL, NULL }
};

#define VIEW_NAME "view of a buffer"

/* A view of the buffer at idx. */
void mr_view_push(lua_State *L, int idx, char type) {
  static const char key;
  idx = lua_absindex(L, idx);
  mr_buffer_arg(L, idx);
  view *v = lua_newuserdatauv(L, sizeof *v, 1);
  *v = (view){ (uintptr_t)&view_tag ^ (uintptr_t)v, type, (unsigned char)mr_number_size(type) };
  lua_pushvalue(L, idx);
  lua_setiuservalue(L, -2, 1);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 6);
    luaL_setfuncs(L, view_meta, 0);
    lua_pushliteral(L, VIEW_NAME);
    lua_setfield(L, -2, "__name");
    lua_pushliteral(L, VIEW_NAME);
    lua_setfield(L, -2, "__metatable");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
  }
  lua_setmetatable(L, -2);
}

static int push_view(lua_State *L, char type) {
  mr_view_push(L, 1, type);
  return 1;
}

/* buffer:view(type) -> a view of its bytes as numbers */
int mr_buffer_l_view(lua_State *L) { return push_view(L, type_arg(L, 2)); }
int mr_buffer_l_doubles(lua_State *L) { return push_view(L, 'd'); }
int mr_buffer_l_integers(lua_State *L) { return push_view(L, 'j'); }
