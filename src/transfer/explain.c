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
  else if (named && name.length == 16 && memcmp((const char *)name.bits, "view of a buffer", 16) == 0)
    say(p, "send the buffer and make the view in the receiver");
  else say(p, "send what it is made from and make it in the receiver");
}

/* The table on top has the text `name` as a key: pushes the value. No string may be made here, so keys are walked through. */
static int push_field(lua_State *L, const char *name) {
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), name) != 0) continue;
    lua_remove(L, -2);
    return 1;
  }
  return 0;
}

/* The key under which the table on top has the value at index `value`; NULL: it hasn't, or the key is no text. */
static const char *key_of(lua_State *L, int value) {
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || !lua_rawequal(L, -1, value)) continue;
    const char *name = lua_tostring(L, -2);            /* the table keeps it */
    lua_pop(L, 2);
    return name;
  }
  return NULL;
}

/* The name of the method at index `function` in the class whose metatable is on top, or in its table __index. */
static const char *method_of(lua_State *L, int function) {
  const char *name = key_of(L, function);
  if (name || !push_field(L, "__index")) return name;
  if (lua_istable(L, -1)) name = key_of(L, function);
  lua_pop(L, 1);
  return name;
}

/* Whose method is the C function on top? Classes of C libraries lie in the registry and have a name. */
static int say_method(mr_packer *p) {
  lua_State *L = p->L;
  int function = lua_gettop(L), said = 0;
  lua_pushvalue(L, LUA_REGISTRYINDEX);
  for (lua_pushnil(L); lua_next(L, function + 1); lua_pop(L, 1)) {
    if (said || !lua_istable(L, -1) || !push_field(L, "__name")) continue;
    const char *class = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    lua_pop(L, 1);
    const char *method = class ? method_of(L, function) : NULL;
    if (!method) continue;
    say(p, "method '%.40s' of '%.40s' cannot be sent by itself; ", method, class);
    said = 1;
  }
  lua_settop(L, function);
  return said;
}

static void say_cfunction(mr_packer *p) {
  mr_push_object(p, p->failed);
  if (lua_checkstack(p->L, 16) && say_method(p)) {
    say(p, "send a Lua function that calls it");
    return;
  }
  say(p, "C function cannot be sent, no module in package.loaded has it; get it in the receiver from what made it here");
}

void mr_explain(mr_packer *p, int first, int n, const char *root) {
  p->dump.length = 0;
  say_path(p, first, n, root);
  say(p, ": ");
  if (p->problem) memcpy(mr_take(p, &p->dump, strlen(p->problem)), p->problem, strlen(p->problem));
  else if (p->objects[p->failed].tt == RAW_LIGHTC || p->objects[p->failed].tt == RAW_CCLOSURE) say_cfunction(p);
  else say_userdata(p);
  lua_pushlstring(p->L, p->dump.at, p->dump.length);
}
