/*
 * json_read: the value of a text, by yyjson.
 *
 * yyjson checks the whole text first and leaves a row of its values in the order of the text, members' names among them; then they become Lua values, one
 * after the other, without recursion. Its memory is a place on the C stack where the text is short, else the state's own, so it counts in the process's
 * limits; it is given back however that ends. A text of n bytes needs 13 n at most; one that is no JSON may need 26 n until that is seen.
 */
#include "module/json.h"

/* The rest of the file is for a build with yyjson; without, what is missing is told (at its end). */
#ifdef MARE_YYJSON

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>
#include "base/json.h"

const int mr_json_reads = 1;
void mr_json_no_reader(lua_State *L) { (void)L; }

enum {
  PLACE = 4096,
  SHORT = (PLACE - 512) / 13,                  /* bytes of a text for which the place is large enough */
  LEVELS = SHORT / 2 + 2,                      /* in which there can't be more of them */
  SLOTS = 8
};

typedef struct level { size_t left; lua_Integer i; int object; } level;   /* an array or object whose values are being made; `left`: values to come */

typedef struct reader {
  lua_State *L;
  mr_json_reading o;
  const char *text;
  size_t length, line;
  yyjson_alc alc;
  yyjson_doc *doc;
  level *levels;                               /* in `first`, or the state's memory */
  size_t n, room;
  level first[LEVELS];
} reader;

/* ---- places in the text ---- */

/* nil and "line 3, column 14: what" */
static int refuse(reader *r, size_t at, const char *what) {
  size_t line = r->line, from = 0, column = 1;
  if (at > r->length) at = r->length;
  for (const char *p = r->text, *end = r->text + at; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) {
    line++;
    from = (size_t)(p - r->text) + 1;
  }
  for (size_t i = from; i < at; i++) column += ((unsigned char)r->text[i] & 0xc0) != 0x80;
  lua_pushnil(r->L);
  char place[80];
  snprintf(place, sizeof place, "line %zu, column %zu: ", line, column);
  lua_pushfstring(r->L, "%s%s", place, what);
  return 2;
}

static size_t end_of_string(const char *s, size_t i, size_t n) {
  for (i++; i < n && s[i] != '"'; i++) i += s[i] == '\\';
  return i + 1;
}

/* Where the value begins that is the `which`th in the text, which is right, counted from 0: yyjson does not keep that. */
static size_t place_of(const reader *r, size_t which) {
  const char *s = r->text;
  size_t i = 0, n = r->length;
  for (;;) {
    while (i < n && strchr(" \t\r\n,:]}", s[i]) && s[i]) i++;
    if (i >= n || which-- == 0) return i;
    if (s[i] == '"') i = end_of_string(s, i, n);
    else if (s[i] == '[' || s[i] == '{') i++;
    else while (i < n && !strchr(" \t\r\n,:]}", s[i])) i++;
  }
}

static int refuse_value(reader *r, yyjson_val *v, const char *what) {
  return refuse(r, place_of(r, (size_t)(v - yyjson_doc_get_root(r->doc))), what);
}

/* ---- values ---- */

static void push_null(reader *r) {
  if (r->o.null_as_nil) lua_pushnil(r->L);
  else if (r->o.null) lua_pushvalue(r->L, r->o.null);
  else lua_pushlightuserdata(r->L, NULL);
}

/* An integer that 64 bits with a sign don't hold. 0, or the results of what is wrong. */
static int push_big(reader *r, yyjson_val *v) {
  char text[MR_JSON_NUMBER];
  const char *s = text;
  size_t n;
  if (yyjson_is_raw(v)) s = yyjson_get_raw(v), n = yyjson_get_len(v);
  else n = (size_t)(mr_json_natural(text, yyjson_get_uint(v)) - text);
  if (yyjson_is_raw(v) && (memchr(s, '.', n) || memchr(s, 'e', n) || memchr(s, 'E', n))) return refuse_value(r, v, "the number is too large");
  if (r->o.big == MR_JSON_EXACT) return refuse_value(r, v, "the integer does not fit 64 bits with a sign");
  if (r->o.big == MR_JSON_STRING) lua_pushlstring(r->L, s, n);
  else lua_pushnumber(r->L, (lua_Number)yyjson_get_uint(v));
  return 0;
}

static int push_number(reader *r, yyjson_val *v) {
  if (yyjson_is_real(v)) lua_pushnumber(r->L, yyjson_get_real(v));
  else if (yyjson_is_uint(v) && yyjson_get_uint(v) > INT64_MAX) return push_big(r, v);
  else lua_pushinteger(r->L, (lua_Integer)yyjson_get_sint(v));
  return 0;
}

static int grown(reader *r) {
  if (r->n < r->room) return 1;
  int fixed = r->levels == r->first;
  level *more = r->alc.realloc(r->alc.ctx, fixed ? NULL : r->levels, fixed ? 0 : r->room * sizeof *more, r->room * 2 * sizeof *more);
  if (!more) return 0;
  if (fixed) memcpy(more, r->first, sizeof r->first);
  r->levels = more;
  r->room *= 2;
  return 1;
}

/* An array or object: its table, and a level unless it is empty, which is a value already. */
static int push_container(reader *r, yyjson_val *v, int *open) {
  char text[80];
  lua_State *L = r->L;
  int object = yyjson_is_obj(v);
  size_t n = yyjson_get_len(v);
  if (r->n >= (size_t)r->o.depth) {
    snprintf(text, sizeof text, "more than %d arrays and objects in each other (depth)", r->o.depth);
    return refuse_value(r, v, text);
  }
  luaL_checkstack(L, SLOTS, NULL);
  int size = n < INT_MAX ? (int)n : INT_MAX;
  lua_createtable(L, object ? 0 : size, object ? size : 0);
  *open = n > 0;
  if (n == 0) {
    if (object) mr_json_set_mark(L, MR_JSON_OBJECT);
    return 0;
  }
  if (!grown(r)) mr_raise(L, MR_ENOMEM);
  r->levels[r->n++] = (level){ object ? 2 * n : n, 0, object };
  return 0;
}

static int push_value(reader *r, yyjson_val *v, int *open) {
  *open = 0;
  switch (yyjson_get_type(v)) {
    case YYJSON_TYPE_STR: lua_pushlstring(r->L, yyjson_get_str(v), yyjson_get_len(v)); return 0;
    case YYJSON_TYPE_NUM: return push_number(r, v);
    case YYJSON_TYPE_BOOL: lua_pushboolean(r->L, yyjson_get_bool(v)); return 0;
    case YYJSON_TYPE_RAW: return push_big(r, v);
    case YYJSON_TYPE_ARR: case YYJSON_TYPE_OBJ: return push_container(r, v, open);
    default: push_null(r); return 0;
  }
}

/* The name on top, which the object below may have. 1: there is such a member already. */
static int is_known(lua_State *L) {
  lua_pushvalue(L, -1);
  int known = lua_rawget(L, -3) != LUA_TNIL;
  lua_pop(L, 1);
  return known;
}

/* A name is pushed, its value comes next. Of two members of one name the first is kept by giving the second a place where nobody sees it. */
static int push_name(reader *r, yyjson_val *v) {
  lua_State *L = r->L;
  lua_pushlstring(L, yyjson_get_str(v), yyjson_get_len(v));
  if (PORT_LIKELY(r->o.duplicates == MR_JSON_LAST) || !is_known(L)) return 0;
  if (r->o.duplicates == MR_JSON_ONCE) {
    enum { MOST = 20 };
    char text[MOST * MR_JSON_WIDEST + 60], shown[MOST * MR_JSON_WIDEST + 1];
    size_t n = yyjson_get_len(v);
    shown[mr_json_escape(shown, yyjson_get_str(v), n < MOST ? n : MOST, MR_JSON_MARK)] = 0;
    snprintf(text, sizeof text, "the object has the name \"%s%s\" already", shown, n < MOST ? "" : "…");
    return refuse_value(r, v, text);
  }
  lua_pop(L, 1);
  lua_pushnil(L);
  return 0;
}

/* The value on top goes where it belongs. 1: it is the whole. */
static int attach(reader *r) {
  lua_State *L = r->L;
  for (;;) {
    if (r->n == 0) return 1;
    level *l = &r->levels[r->n - 1];
    if (!l->object) lua_rawseti(L, -2, ++l->i);
    else if (PORT_LIKELY(lua_type(L, -2) == LUA_TSTRING)) lua_rawset(L, -3);
    else lua_pop(L, 2);                        /* a second one of that name */
    if (--l->left > 0) return 0;
    r->n--;                                    /* the table is a value now */
  }
}

static int build(reader *r) {
  yyjson_val *v = yyjson_doc_get_root(r->doc);
  for (;; v++) {
    int open, bad;
    level *l = r->n ? &r->levels[r->n - 1] : NULL;
    if (l && l->object && !(l->left & 1)) {
      if ((bad = push_name(r, v)) != 0) return bad;
      l->left--;
      continue;
    }
    if ((bad = push_value(r, v, &open)) != 0) return bad;
    if (!open && attach(r)) return 1;
  }
}

/* ---- memory: the state's, with the size before each block ---- */

typedef struct head { uint64_t size; } head;   /* the state's blocks are aligned for words, which is what yyjson keeps */

static void *state_realloc(void *L, void *p, size_t was, size_t n) {
  void *ud;
  lua_Alloc f = lua_getallocf(L, &ud);
  head *h = p ? (head *)p - 1 : NULL;
  (void)was;
  if (n > SIZE_MAX - sizeof *h) return NULL;
  h = f(ud, h, h ? (size_t)h->size : 0, n + sizeof *h);
  if (!h) return NULL;
  h->size = n + sizeof *h;
  return h + 1;
}

static void *state_malloc(void *L, size_t n) { return state_realloc(L, NULL, 0, n); }

static void state_free(void *L, void *p) {
  void *ud;
  lua_Alloc f = lua_getallocf(L, &ud);
  head *h = p ? (head *)p - 1 : NULL;
  if (h) f(ud, h, (size_t)h->size, 0);
}

/* ---- reading ---- */

static const yyjson_read_flag flags_of[] = { [MR_JSON_FLOAT] = 0, [MR_JSON_STRING] = YYJSON_READ_BIGNUM_AS_RAW, [MR_JSON_EXACT] = YYJSON_READ_BIGNUM_AS_RAW };

static void parse(reader *r, yyjson_read_err *err) {
  r->doc = yyjson_read_opts((char *)(uintptr_t)r->text, r->length, flags_of[r->o.big], &r->alc, err);   /* not written to without another flag */
}

/* What yyjson says, in the words of this module where it has some. */
static int refuse_text(reader *r, const yyjson_read_err *err) {
  switch (err->code) {
    case YYJSON_READ_ERROR_EMPTY_CONTENT: case YYJSON_READ_ERROR_UNEXPECTED_END:
      return refuse(r, r->length, "the text ends too early");
    case YYJSON_READ_ERROR_UNEXPECTED_CONTENT: return refuse(r, err->pos, "the end of the text expected");
    default: return refuse(r, err->pos, err->msg ? err->msg : "no JSON");
  }
}

/* Arguments: the reader, and what null becomes. */
static int l_build(lua_State *L) {
  reader *r = lua_touserdata(L, 1);
  if (r->o.null) r->o.null = 2;
  return build(r);
}

/* Whatever comes of it, the memory goes back. */
static int read_long(reader *r) {
  lua_State *L = r->L;
  yyjson_read_err err = { 0 };
  int top = lua_gettop(L);
  r->alc = (yyjson_alc){ state_malloc, state_realloc, state_free, L };
  parse(r, &err);
  if (!r->doc && err.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) {
    mr_outside_collect(L);
    parse(r, &err);
    if (!r->doc && err.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) mr_raise(L, MR_ENOMEM);
  }
  if (!r->doc) return refuse_text(r, &err);
  lua_pushcfunction(L, l_build);               /* neither this nor the next two allocates: there is room on the stack */
  lua_pushlightuserdata(L, r);
  if (r->o.null) lua_pushvalue(L, r->o.null);
  else lua_pushnil(L);
  int status = lua_pcall(L, 2, LUA_MULTRET, 0);
  yyjson_doc_free(r->doc);
  if (r->levels != r->first) state_free(L, r->levels);
  if (status != LUA_OK) lua_error(L);
  return lua_gettop(L) - top;
}

int mr_json_read(lua_State *L, const char *text, size_t length, size_t line, const mr_json_reading *o) {
  reader r;                                    /* not all of it is made 0: that would cost as much as a short text */
  char place[PLACE];
  yyjson_read_err err = { 0 };
  luaL_checkstack(L, SLOTS, NULL);
  r.L = L;
  r.o = *o;
  r.text = text;
  r.length = length;
  r.line = line;
  r.levels = r.first;
  r.n = 0;
  r.room = LEVELS;
  if (length == 0) return refuse(&r, 0, "the text ends too early");
  if (length > SHORT) return read_long(&r);
  if (!yyjson_alc_pool_init(&r.alc, place, sizeof place)) mr_raise(L, MR_ENOMEM);
  parse(&r, &err);
  if (!r.doc && err.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) return read_long(&r);   /* a text that is not right may need more: "[[[[" */
  return r.doc ? build(&r) : refuse_text(&r, &err);
}

#else

const int mr_json_reads = 0;

void mr_json_no_reader(lua_State *L) {
  luaL_error(L, "this mare was built without yyjson, which mare.json needs: install libyyjson-dev, or run tools/fetch-yyjson (with a network, or the folder "
                "where its package lies), and build mare again");
}

int mr_json_read(lua_State *L, const char *text, size_t length, size_t line, const mr_json_reading *o) {
  (void)text, (void)length, (void)line, (void)o;
  mr_json_no_reader(L);
  return 0;
}

#endif
