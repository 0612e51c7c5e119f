/*
 * given: what members of a group give and get, between Lua and mr_given; see given.h.
 *
 * Lists of numbers are read and written where they lie, if Lua's tables are laid out as src/lua/layout.c has found; else value by value.
 */
#include "module/given.h"
#include "lua/layout.h"
#include "module/buflib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- from Lua ---- */

static void no_room(lua_State *L, mr_budget *over) {
  char text[200];
  luaL_error(L, "%s", mr_proc_over(over, text));
}

void mr_given_back(lua_State *L, mr_given *g) {
  if (g->kind == GIVEN_MESSAGE) mr_message_back(L, g->u.m);
  else mr_given_drop(g);
  g->kind = GIVEN_NOTHING;
}

/* The value at idx. `several` will get it. */
void mr_given_value(lua_State *L, mr_fiber *f, int idx, const char *root, int several, mr_given *g) {
  g->kind = GIVEN_NOTHING;
  if (mr_scalar_get(L, idx, &g->u.s)) {
    g->kind = GIVEN_SCALAR;
    return;
  }
  mr_packer *p = mr_packer_for(L, f);
  mr_budget *over;
  if (mr_pack_still(p, L, idx, 1, root, several ? "object moves, and can't go to several members" : NULL) != 0) lua_error(L);
  mr_message *m = mr_proc_seal(L, mr_proc_of(f), p, &over);
  if (!m) no_room(L, over);
  g->u.m = m;
  g->kind = GIVEN_MESSAGE;
}

/* table, list, n, fiber */
static int l_give_list(lua_State *L) {
  mr_given *list = lua_touserdata(L, 2);
  int n = (int)lua_tointeger(L, 3);
  for (int i = 0; i < n; i++) {
    char root[32];
    snprintf(root, sizeof root, "list[%d]", i + 1);
    lua_rawgeti(L, 1, i + 1);
    mr_given_value(L, lua_touserdata(L, 4), lua_gettop(L), root, 0, &list[i]);
    lua_pop(L, 1);
  }
  return 0;
}

/* One of the list at 2 for each member. */
mr_given *mr_given_list(lua_State *L, mr_fiber *f, int n) {
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_argcheck(L, lua_rawlen(L, 2) <= (size_t)n, 2, lua_pushfstring(L, "a list of %d values expected, one for each member, got %d", n, (int)lua_rawlen(L, 2)));
  mr_given *list = calloc((size_t)n, sizeof *list);
  if (!list) mr_raise(L, MR_ENOMEM);
  lua_pushcfunction(L, l_give_list);
  lua_pushvalue(L, 2);
  lua_pushlightuserdata(L, list);
  lua_pushinteger(L, n);
  lua_pushlightuserdata(L, f);
  if (lua_pcall(L, 4, 0, 0) != LUA_OK) {
    for (int i = 0; i < n; i++) mr_given_back(L, &list[i]);
    free(list);
    lua_error(L);
  }
  return list;
}

/* ---- numbers ---- */

static int of_bits(int fold) { return fold == FOLD_BAND || fold == FOLD_BOR || fold == FOLD_BXOR; }
static int of_booleans(int fold) { return fold == FOLD_AND || fold == FOLD_OR; }

/* Can it be folded so? A float for an operation on bits becomes an integer, as in Lua. */
static int fits(int fold, mr_scalar *s) {
  if (of_booleans(fold)) return s->type == LUA_TBOOLEAN;
  if ((s->type & 15) != LUA_TNUMBER) return 0;
  if (!of_bits(fold) || s->type != LUA_TNUMBER) return 1;
  lua_Integer i;
  if (!lua_numbertointeger(s->u.n, &i) || (lua_Number)i != s->u.n) return 0;
  s->u.i = i;
  s->type = 0x10 | LUA_TNUMBER;
  return 1;
}

static const char *wanted(int fold) {
  return of_booleans(fold) ? "booleans" : of_bits(fold) ? "integers" : "numbers";
}

/* A view of doubles or of 64-bit integers: its numbers as they are now. */
static mr_numbers *read_view(lua_State *L, mr_member *m, int idx, int fold) {
  char type = mr_view_buffer(L, idx);
  if (!type) return NULL;
  int floats = type == 'd' || type == 'n';
  if (!floats && type != 'j') luaL_error(L, "views are folded of doubles and of integers with 64 bits, got type '%c'", type);
  if (of_booleans(fold) || (floats && of_bits(fold))) luaL_error(L, "'%s' takes %s, got a view of %s", mr_fold_names[fold], wanted(fold), floats ? "floats" : "integers");
  const mr_buffer *b = mr_buffer_arg(L, -1);
  mr_numbers *a = mr_comm_numbers(m, b->length / 8, floats ? NUMBERS_FLOAT : NUMBERS_INTEGER);
  if (!a) mr_raise(L, MR_ENOMEM);
  memcpy(a->u.at, b->bytes, a->n * 8);
  lua_pop(L, 1);
  return a;
}

/* All of one kind, read where they lie. NULL: they are not, or there is no memory. */
static mr_numbers *read_raw(lua_State *L, mr_member *m, int idx, size_t n) {
  const raw_table *t = lua_topointer(L, idx);
  if (!mr_layout || n == 0 || raw_arraysize(t) < n) return NULL;
  const raw_value *a = t->array;
  uint8_t tt = a[0].tt;
  if (tt != RAW_INT && tt != RAW_FLT) return NULL;
  mr_numbers *to = mr_comm_numbers(m, n, tt == RAW_INT ? NUMBERS_INTEGER : NUMBERS_FLOAT);
  if (!to) return NULL;
  uint64_t *words = to->u.at;
  uint8_t other = 0;
  for (size_t i = 0; i < n; i++) {
    words[i] = a[i].bits;
    other |= a[i].tt ^ tt;
  }
  if (!other) return to;
  free(to);
  return NULL;
}

/* table, fold, the contribution */
static int l_read(lua_State *L) {
  int fold = (int)lua_tointeger(L, 2), kinds = 0;
  mr_given *g = lua_touserdata(L, 3);
  size_t n = lua_rawlen(L, 1);
  mr_numbers *a = mr_numbers_new(n, NUMBERS_MIXED);
  if (!a) return mr_raise(L, MR_ENOMEM);
  g->u.a = a;
  g->kind = GIVEN_NUMBERS;
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    if (!mr_scalar_get(L, -1, &a->u.s[i]) || !fits(fold, &a->u.s[i]))
      return luaL_error(L, "'%s' takes %s; list[%d] is a %s", mr_fold_names[fold], wanted(fold), (int)i + 1, luaL_typename(L, -1));
    kinds |= a->u.s[i].type == (0x10 | LUA_TNUMBER) ? 1 : a->u.s[i].type == LUA_TNUMBER ? 2 : 4;
    lua_pop(L, 1);
  }
  if (kinds == 1) {
    a->kind = NUMBERS_INTEGER;
    for (size_t i = 0; i < n; i++) { lua_Integer x = a->u.s[i].u.i; memcpy((char *)a->u.at + 8 * i, &x, 8); }
  } else if (kinds == 2) {
    a->kind = NUMBERS_FLOAT;
    for (size_t i = 0; i < n; i++) { lua_Number x = a->u.s[i].u.n; memcpy((char *)a->u.at + 8 * i, &x, 8); }
  }
  return 0;
}

/* The value at idx, for this operation. */
void mr_given_numbers(lua_State *L, mr_member *m, int idx, int fold, mr_given *g) {
  g->kind = GIVEN_NOTHING;
  if (mr_scalar_get(L, idx, &g->u.s)) {
    if (!fits(fold, &g->u.s)) luaL_error(L, "'%s' takes %s, or lists of them, got %s", mr_fold_names[fold], wanted(fold), luaL_typename(L, idx));
    g->kind = GIVEN_SCALAR;
    return;
  }
  m->view = 0;
  mr_numbers *seen = lua_isuserdata(L, idx) ? read_view(L, m, idx, fold) : NULL;
  if (seen) {
    m->view = 1;
    g->u.a = seen;
    g->kind = GIVEN_NUMBERS;
    return;
  }
  if (!lua_istable(L, idx)) luaL_error(L, "'%s' takes %s, or lists of them, got %s", mr_fold_names[fold], wanted(fold), luaL_typename(L, idx));
  mr_numbers *a = of_booleans(fold) ? NULL : read_raw(L, m, idx, lua_rawlen(L, idx));
  if (a && of_bits(fold) && a->kind == NUMBERS_FLOAT) {
    free(a);
    a = NULL;
  }
  if (a) {
    g->u.a = a;
    g->kind = GIVEN_NUMBERS;
    return;
  }
  lua_pushcfunction(L, l_read);
  lua_pushvalue(L, idx);
  lua_pushinteger(L, fold);
  lua_pushlightuserdata(L, g);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) {
    mr_given_drop(g);
    lua_error(L);
  }
}

/* Into the table on top. */
static void write_numbers(lua_State *L, const mr_numbers *a) {
  const raw_table *t = lua_topointer(L, -1);
  if (mr_layout && a->n && a->kind != NUMBERS_MIXED && raw_arraysize(t) >= a->n) {       /* nothing that the collector knows is written */
    raw_value *to = t->array;
    const uint64_t *words = a->u.at;
    uint8_t tt = a->kind == NUMBERS_INTEGER ? RAW_INT : RAW_FLT;
    for (size_t i = 0; i < a->n; i++) {
      to[i].bits = words[i];
      to[i].tt = tt;
    }
    return;
  }
  for (size_t i = 0; i < a->n; i++) {
    if (a->kind == NUMBERS_INTEGER) lua_pushinteger(L, a->u.i[i]);
    else if (a->kind == NUMBERS_FLOAT) lua_pushnumber(L, a->u.d[i]);
    else mr_scalar_push(L, &a->u.s[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* ---- to Lua ---- */

/* The same into a view of as many numbers of that kind, at idx. */
static void write_view(lua_State *L, int idx, const mr_numbers *a) {
  char type = mr_view_buffer(L, idx);
  if (a->kind == NUMBERS_MIXED || (type != 'j') == (a->kind == NUMBERS_INTEGER)) luaL_error(L, "the result doesn't fit into a view of type '%c'", type);
  mr_buffer *b = mr_buffer_edit_all(L, lua_gettop(L));
  if (b->length / 8 != a->n) luaL_error(L, "the result has %d numbers, the view has %d", (int)a->n, (int)(b->length / 8));
  if (a->n) memcpy(mr_buffer_at(b, 0), a->u.at, a->n * 8);
  lua_pop(L, 1);
}

/* A view of a new buffer, which may be changed. */
static void push_view(lua_State *L, const mr_numbers *a) {
  mr_buffer_push_open(L, a->n * 8);
  mr_view_push(L, -1, a->kind == NUMBERS_INTEGER ? 'j' : 'd');
  write_view(L, lua_gettop(L), a);
  lua_remove(L, -2);
}

/* `into`: a table at that index, which a list is to be written into; 0: a new one. */
void mr_given_push(lua_State *L, const mr_given *g, int into, int view) {
  luaL_checkstack(L, 8, NULL);
  switch (g->kind) {
    case GIVEN_SCALAR: mr_scalar_push(L, &g->u.s); break;
    case GIVEN_NUMBERS:
      if (into && lua_isuserdata(L, into)) {
        write_view(L, into, g->u.a);
        lua_pushvalue(L, into);
        break;
      }
      if (!into && view && g->u.a->kind != NUMBERS_MIXED) {
        push_view(L, g->u.a);
        break;
      }
      if (into) lua_pushvalue(L, into);
      else lua_createtable(L, (int)g->u.a->n, 0);
      write_numbers(L, g->u.a);
      break;
    case GIVEN_MESSAGE: mr_unpack(L, g->u.m); break;
    default: lua_pushnil(L);
  }
}
