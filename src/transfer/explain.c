/*
 * explain: the words for a value that can't travel: its path from the tuple, what it is, and the remedy.
 *
 * Only a failed pack comes here, so the path is found by searching each ancestor for its child. The text is written to
 * the packer's memory first: nothing may let the collector step while objects are read (see pack.c).
 */
#include <stdio.h>
#include <string.h>
#include <ctype.h>
#include <stdarg.h>
#include "transfer/packet.h"

static void say(mr_packer *p, const char *format, ...) {
  char buffer[128];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  if (n >= (int)sizeof buffer) n = sizeof buffer - 1;
  memcpy(mr_take(p, &p->dump, (size_t)n), buffer, (size_t)n);
}

static int is_identifier(const char *s, size_t n) {
  if (n == 0 || n > 60 || isdigit((unsigned char)s[0])) return 0;
  for (size_t i = 0; i < n; i++)
    if (!isalnum((unsigned char)s[i]) && s[i] != '_') return 0;
  return 1;
}

static void say_quoted(mr_packer *p, const char *s, size_t n) {
  say(p, "[\"");
  for (size_t i = 0; i < n && i < 60; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\') say(p, "\\%c", c);
    else if (isprint(c)) say(p, "%c", c);
    else say(p, "\\%03d", c);
  }
  say(p, n > 60 ? "...\"]" : "\"]");
}

/* The key at index at, as it is written behind a table. */
static void say_key(mr_packer *p, int at) {
  lua_State *L = p->L;
  size_t n;
  switch (lua_type(L, at)) {
    case LUA_TSTRING: {
      const char *s = lua_tolstring(L, at, &n);
      if (is_identifier(s, n)) say(p, ".%.*s", (int)n, s);
      else say_quoted(p, s, n);
      break;
    }
    case LUA_TNUMBER:
      if (lua_isinteger(L, at)) say(p, "[" LUA_INTEGER_FMT "]", lua_tointegerx(L, at, NULL));
      else say(p, "[" LUA_NUMBER_FMT "]", lua_tonumberx(L, at, NULL));
      break;
    case LUA_TBOOLEAN: say(p, lua_toboolean(L, at) ? "[true]" : "[false]"); break;
    default: say(p, "[<%s>]", lua_typename(L, lua_type(L, at))); break;
  }
}

/* Stack: [..., child, table]. */
static void say_in_table(mr_packer *p) {
  lua_State *L = p->L;
  int table = lua_gettop(L), child = table - 1;
  if (lua_getmetatable(L, table)) {
    int same = lua_rawequal(L, -1, child);
    lua_pop(L, 1);
    if (same) { say(p, ".<metatable>"); return; }
  }
  lua_pushnil(L);
  while (lua_next(L, table)) {
    int value = lua_rawequal(L, -1, child), key = lua_rawequal(L, -2, child);
    if (value) say_key(p, -2);
    else if (key) say(p, ".<key>");
    lua_pop(L, 1);
    if (value || key) { lua_pop(L, 1); return; }
  }
}

/* Stack: [..., child, function]. */
static void say_in_function(mr_packer *p) {
  lua_State *L = p->L;
  const char *name;
  for (int i = 1; (name = lua_getupvalue(L, -1, i)) != NULL; i++) {
    int same = lua_rawequal(L, -1, -3);
    lua_pop(L, 1);
    if (same) { say(p, ": upvalue '%s'", *name ? name : "?"); return; }
  }
}

static void say_root(mr_packer *p, int first, int n, const char *root) {
  int i = 0;
  while (i < n - 1 && !lua_rawequal(p->L, first + i, -1)) i++;
  say(p, "%s", root);
  if (n > 1) say(p, "[%d]", i + 1);
}

/* From the tuple down to `number`; ancestors are walked by inverting their links for the time being. */
static void say_path(mr_packer *p, int first, int n, const char *root) {
  uint32_t child = NOBODY, at = p->failed;
  while (at != NOBODY) {                       /* parent links now lead downwards */
    uint32_t up = p->objects[at].parent;
    p->objects[at].parent = child;
    child = at;
    at = up;
  }
  mr_push_object(p, child);
  say_root(p, first, n, root);
  lua_pop(p->L, 1);
  for (at = child; (child = p->objects[at].parent) != NOBODY; at = child) {
    mr_push_object(p, child);
    mr_push_object(p, at);
    if (p->objects[at].tt == RAW_FUNCTION) say_in_function(p);
    else say_in_table(p);
    lua_pop(p->L, 2);
  }
}

static void say_userdata(mr_packer *p) {
  mr_value meta, name;
  int named = 0;
  mr_push_object(p, p->failed);
  if (lua_getmetatable(p->L, -1)) {
    mr_read(p, lua_gettop(p->L), &meta);
    named = mr_field_find(p, &meta, "__name", &name) && (name.tt == RAW_SHORT || name.tt == RAW_LONG);
  }
  if (named) say(p, "userdata '%.*s' cannot be sent; ", (int)(name.length < 60 ? name.length : 60), (const char *)name.bits);
  else say(p, "userdata cannot be sent; ");
  if (named && name.length == 5 && memcmp((const char *)name.bits, "FILE*", 5) == 0)
    say(p, "close over its name and open it in the receiver");
  else say(p, "send what it is made from and make it in the receiver");
}

void mr_explain(mr_packer *p, int first, int n, const char *root) {
  p->dump.length = 0;
  say_path(p, first, n, root);
  say(p, ": ");
  if (p->problem) memcpy(mr_take(p, &p->dump, strlen(p->problem)), p->problem, strlen(p->problem));
  else say_userdata(p);
  lua_pushlstring(p->L, p->dump.at, p->dump.length);
}
