/*
 * typecode_out: types as TypeCodes (CORBA 3.3 part 2, 9.3.5.1).
 *
 * A TypeCode's bytes depend on nothing around them but that they begin at a multiple of 4, so they are kept as strings, one per type and byte
 * order (ENV_WRITTEN: a table per order, weak keys). A type inside itself is an indirection. One that is merely met again is written again, as
 * peers expect it, unless that makes the whole large: then it is an indirection, too.
 *
 * While bytes are written nothing steps the collector, as in encode.c; metamethods of types run with the buffer put aside. What is read here was
 * compiled before, but the program may have changed it since: nothing is believed that memory depends on.
 *
 * TypeCodes inside TypeCodes are written by a loop: each one that is open has a frame. On Lua's stack it has its type's table and, while its
 * members are written, their list and the member whose type is being written.
 */
#include <stdlib.h>
#include "cdr/typecode.h"
#include "cdr/frames.h"
#include "cdr/text.h"

enum { LARGE = 1 << 16 };

typedef struct writer {
  mr_out o;
  lua_State *L;
  int fields, seen;                            /* stack index of: type's table -> where its TypeCode begins */
  int share;
  size_t most;                                 /* with more bytes than that it is given up */
  mr_frames open;
} writer;

typedef struct frame {
  int kind;
  uint32_t i, n;                               /* parts that were begun; how many there are. A union's first one is its discriminator, a value's its base. */
  size_t mark;                                 /* for mr_out_close */
  const mr_type *t;                            /* a union's, which its table keeps */
} frame;

/* ---- pieces; the type's table is on top ---- */

static PORT_NORETURN void changed(writer *w) {
  luaL_error(w->L, "bad type: it was changed after it had been used");
  abort();
}

/* f(the n values on top), which may collect garbage and run anything: its one result replaces them. */
static void call(writer *w, lua_CFunction f, int n) {
  lua_State *L = w->L;
  lua_pushcfunction(L, f);
  lua_insert(L, -n - 1);
  mr_out_leave(&w->o);
  int status = lua_pcall(L, n, 1, 0);
  mr_out_return(&w->o);
  if (status != LUA_OK) lua_error(L);
}

/* Pushes a field of the table on top, and returns its type. */
static int push_field(writer *w, const char *name) {
  lua_State *L = w->L;
  if (!lua_istable(L, -1)) changed(w);
  if (!lua_getmetatable(L, -1)) return lua_getfield(L, -1, name);
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_pushlightuserdata(L, (void *)(uintptr_t)name);
  call(w, mr_index, 2);
  return lua_type(L, -1);
}

static void put_text(writer *w, const char *name) {
  size_t n = 0;
  push_field(w, name);
  const char *s = lua_type(w->L, -1) == LUA_TSTRING ? lua_tolstring(w->L, -1, &n) : "";
  mr_out_text(&w->o, s, n);
  lua_pop(w->L, 1);
}

static void put_names(writer *w) {
  put_text(w, "id");
  put_text(w, "name");
}

static uint32_t number(writer *w, const char *name) {
  push_field(w, name);
  uint32_t n = (uint32_t)lua_tointeger(w->L, -1);
  lua_pop(w->L, 1);
  return n;
}

/* Pushes the list and returns its length. */
static uint32_t put_count(writer *w, const char *name) {
  if (push_field(w, name) != LUA_TTABLE) changed(w);
  uint32_t n = (uint32_t)lua_rawlen(w->L, -1);
  mr_out_u32(&w->o, n);
  return n;
}

static void put_labels(writer *w) {
  size_t length;
  uint32_t n = put_count(w, "labels");
  for (uint32_t i = 1; i <= n; i++) {
    lua_rawgeti(w->L, -1, i);
    const char *s = lua_type(w->L, -1) == LUA_TSTRING ? lua_tolstring(w->L, -1, &length) : NULL;
    if (!s) changed(w);
    mr_out_text(&w->o, s, length);
    lua_pop(w->L, 1);
  }
  lua_pop(w->L, 1);
}

/* A wchar as in GIOP 1.2: the bytes are the same for all versions. */
static void put_label(writer *w, const mr_type *t, int64_t label) {
  switch (t->kind) {
    case TK_BOOLEAN: case TK_CHAR: case TK_OCTET: mr_out_u8(&w->o, (unsigned)label & 255); break;
    case TK_SHORT: case TK_USHORT: mr_out_u16(&w->o, (uint16_t)label); break;
    case TK_LONGLONG: case TK_ULONGLONG: mr_out_u64(&w->o, (uint64_t)label); break;
    case TK_WCHAR: {
      char unit[3] = { 2, (char)(label >> 8), (char)label };
      mr_out_bytes(&w->o, unit, 3);
      break;
    }
    default: mr_out_u32(&w->o, (uint32_t)label); break;
  }
}

/* ---- one TypeCode ---- */

static int flag(writer *w, const char *name) {
  push_field(w, name);
  int yes = lua_toboolean(w->L, -1);
  lua_pop(w->L, 1);
  return yes;
}

static int kind_of(writer *w) {
  lua_State *L = w->L;
  if (!lua_istable(L, -1)) luaL_error(L, "bad type: type expected, got %s", luaL_typename(L, -1));
  int kind = push_field(w, "kind") == LUA_TSTRING ? mr_kind_of(lua_tostring(L, -1)) : -1;
  if (kind < 0) luaL_error(L, "bad type: no kind is called '%s'", luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  if (kind == TK_INT8) return TK_OCTET;
  if (kind != TK_OBJREF) return kind;
  return flag(w, "abstract") ? TK_ABSTRACT : flag(w, "local") ? TK_LOCAL : TK_OBJREF;
}

/* 1: it has been written already, and an indirection to it now. */
static int put_indirection(writer *w) {
  lua_State *L = w->L;
  lua_pushvalue(L, -1);
  lua_rawget(L, w->seen);
  int known = lua_isinteger(L, -1);
  int64_t at = lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (!known) return 0;
  mr_out_u32(&w->o, TK_INDIRECTION);
  mr_out_align(&w->o, 4);
  mr_out_u32(&w->o, (uint32_t)(at - (int64_t)mr_out_length(&w->o)));
  return 1;
}

static void note(writer *w, int64_t at) {
  lua_pushvalue(w->L, -1);
  if (at < 0) lua_pushnil(w->L);
  else lua_pushinteger(w->L, at);
  lua_rawset(w->L, w->seen);
}

static void put_short(writer *w, int kind) {
  mr_out_u32(&w->o, (uint32_t)kind);
  if (kind != TK_FIXED) { mr_out_u32(&w->o, number(w, "bound")); return; }
  mr_out_u16(&w->o, (uint16_t)number(w, "digits"));
  mr_out_u16(&w->o, (uint16_t)number(w, "scale"));
}

/* Every value is a ValueBase, which nothing but its Lua table calls abstract. */
static unsigned modifier(writer *w) {
  push_field(w, "id");
  int base = lua_type(w->L, -1) == LUA_TSTRING && strcmp(lua_tostring(w->L, -1), MR_VALUEBASE_ID) == 0;
  lua_pop(w->L, 1);
  if (base) return MR_VM_NONE;
  return flag(w, "custom") ? MR_VM_CUSTOM : flag(w, "abstract") ? MR_VM_ABSTRACT : flag(w, "truncatable") ? MR_VM_TRUNCATABLE : MR_VM_NONE;
}

static void begin_content(writer *w, frame *f) {
  if (f->kind == TK_SEQUENCE || f->kind == TK_ARRAY) { f->n = 1; return; }
  put_names(w);
  switch (f->kind) {
    case TK_STRUCT: case TK_EXCEPT: f->n = put_count(w, "members"); break;
    case TK_ALIAS: case TK_VALUEBOX: f->n = 1; break;
    case TK_VALUE:
      mr_out_u16(&w->o, (uint16_t)modifier(w));
      f->n = 1;
      break;
    case TK_ENUM: put_labels(w); break;
    case TK_UNION:
      f->t = mr_type_known(w->L, w->fields, -1);
      if (!f->t || f->t->kind != TK_UNION) changed(w);
      f->n = f->t->n + 1;
      break;
    default: break;                            /* the kinds of interfaces */
  }
}

/* The type's table is on top; a frame for it. */
static void begin_long(writer *w, int kind) {
  lua_State *L = w->L;
  frame f = { .kind = kind };
  if (w->open.n == MR_MAX_TYPE_DEPTH) luaL_error(L, "bad type: nested more than %d levels deep", MR_MAX_TYPE_DEPTH);
  if (w->open.n == w->open.room) {
    lua_pushvalue(L, w->open.index);
    lua_pushinteger(L, (lua_Integer)w->open.size);
    call(w, mr_frames_more, 2);
    lua_replace(L, w->open.index);
    mr_frames_moved(L, &w->open);
  }
  mr_out_align(&w->o, 4);
  note(w, (int64_t)mr_out_length(&w->o));
  mr_out_u32(&w->o, (uint32_t)kind);
  f.mark = mr_out_open(&w->o);
  begin_content(w, &f);
  *(frame *)mr_frames_new(&w->open) = f;
}

/* Writes the TypeCode of the type whose table is on top, or begins to. 1: that was all of it; 0: it has a frame now. */
static int write_code(writer *w) {
  luaL_checkstack(w->L, 12, "a type nested too deeply");
  int kind = kind_of(w);
  if (mr_kind_is_basic((uint32_t)kind)) mr_out_u32(&w->o, (uint32_t)kind);
  else if (kind == TK_STRING || kind == TK_WSTRING || kind == TK_FIXED) put_short(w, kind);
  else if (!put_indirection(w)) { begin_long(w, kind); return 0; }
  return 1;
}

/* ---- a TypeCode's parts ---- */

static int has_first(const frame *f) { return f->kind == TK_UNION || f->kind == TK_VALUE; }
static int has_members(const frame *f) { return f->kind == TK_STRUCT || f->kind == TK_EXCEPT || has_first(f); }

/* What stands behind a union's discriminator, or a value's base; its list stays. */
static void begin_members(writer *w, frame *f) {
  if (f->kind == TK_VALUE) { f->n = 1 + put_count(w, "state"); return; }
  mr_out_u32(&w->o, (uint32_t)f->t->fallback);
  if (put_count(w, "members") != f->t->n) changed(w);
}

/* The one whose state a value has, too; or null. */
static void push_base(writer *w) {
  lua_State *L = w->L;
  if (push_field(w, "bases") == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1);
    lua_replace(L, -2);
    if (lua_istable(L, -1) && !flag(w, "abstract")) return;
  }
  lua_pop(L, 1);
  mr_push_basic(L, w->fields, TK_NULL);
}

/* Pushes the table of the next part; 0: there is no other. */
static int next_part(writer *w, frame *f) {
  if (f->i == f->n) return 0;
  uint32_t i = f->i++;
  if (!has_members(f)) push_field(w, f->kind == TK_ALIAS || f->kind == TK_VALUEBOX ? "type" : "element");
  else if (f->kind == TK_UNION && i == 0) push_field(w, "discriminator");
  else if (f->kind == TK_VALUE && i == 0) push_base(w);
  else {
    lua_rawgeti(w->L, -1, f->i - has_first(f));
    if (f->kind == TK_UNION) put_label(w, f->t->element, f->t->members[i - 1].label);   /* the default's is 0, and means nothing */
    put_text(w, "name");
    push_field(w, "type");
  }
  return 1;
}

/* The part on top has been written. */
static void leave_part(writer *w, frame *f) {
  lua_pop(w->L, 1);
  if (f->kind == TK_SEQUENCE || f->kind == TK_ARRAY) mr_out_u32(&w->o, number(w, f->kind == TK_ARRAY ? "length" : "bound"));
  else if (has_first(f) && f->i == 1) begin_members(w, f);
  else if (has_members(f)) {
    if (f->kind == TK_VALUE) mr_out_u16(&w->o, (uint16_t)flag(w, "public"));
    lua_pop(w->L, 1);
  }
}

static void end(writer *w, const frame *f) {
  if (has_members(f)) lua_pop(w->L, 1);
  mr_out_close(&w->o, f->mark);
  if (!w->share) note(w, -1);
  w->open.n--;
}

/* The type's table is on top. */
static void write_all(writer *w) {
  int whole = write_code(w);
  while (w->open.n && (w->share || mr_out_length(&w->o) <= w->most)) {
    frame *f = mr_frames_last(&w->open);
    if (whole) leave_part(w, f);
    whole = !next_part(w, f);
    if (whole) end(w, f);
    else whole = write_code(w);
  }
}

static void write_whole(writer *w, int idx, int little) {
  lua_createtable(w->L, 0, 4);
  w->seen = lua_gettop(w->L);
  mr_frames_begin(w->L, &w->open, sizeof(frame));
  mr_out_begin(&w->o, w->L, little);
  lua_pushvalue(w->L, idx);
  write_all(w);
  lua_settop(w->L, w->seen - 1);
}

/* nil where there are more than `most`, but for types that are LARGE anyhow. */
static void push_bytes(lua_State *L, mr_cdr_env *env, int fields, int idx, int little, size_t most) {
  writer w = { .L = L, .fields = fields, .most = most < LARGE ? most : LARGE };
  luaL_checkstack(L, 20, NULL);
  idx = lua_absindex(L, idx);
  mr_env_table(L, fields, ENV_WRITTEN);
  mr_env_table(L, lua_gettop(L), 1 + !!little);
  lua_pushvalue(L, idx);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushvalue(L, idx);
    mr_type_get(L, env, fields, -1);            /* so that it is sound: a table, no cycle but through sequences */
    lua_pop(L, 1);
    write_whole(&w, idx, little);
    int large = mr_out_length(&w.o) > w.most;
    if (large && most <= LARGE) {
      mr_out_end();
      lua_pushnil(L);
    } else {
      w.share = large;
      if (large) write_whole(&w, idx, little);
      mr_out_push(&w.o);
      lua_pushvalue(L, idx);
      lua_pushvalue(L, -2);
      lua_rawset(L, -4);
    }
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
}

void mr_typecode_bytes(lua_State *L, mr_cdr_env *env, int fields, int idx, int little) { push_bytes(L, env, fields, idx, little, SIZE_MAX); }

int mr_typecode_same(lua_State *L, mr_cdr_env *env, int fields, int ours, int theirs) {
  push_bytes(L, env, fields, ours, CDR_LITTLE, SIZE_MAX);
  push_bytes(L, env, fields, theirs, CDR_LITTLE, lua_rawlen(L, -1));
  int same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}
