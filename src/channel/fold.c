/*
 * fold: what '+', 'max' and the others do with two contributions: two scalars, or two lists of the same length, element by element. As Lua does with
 * two values: integers wrap, an integer and a float give a float, 'max' and 'min' leave the value as it is. What can't be folded by an operation
 * (booleans by '+') is refused where it is given, not here.
 */
#include "channel/collective.h"

#include <stdlib.h>
#include <string.h>

const char *const mr_fold_names[FOLDS] = { "", "+", "*", "max", "min", "band", "bor", "bxor", "and", "or", "..", "function" };

enum { INTEGER = 0x10 | LUA_TNUMBER };

size_t mr_numbers_bytes(size_t n, int kind) {
  size_t each = kind == NUMBERS_MIXED ? sizeof(mr_scalar) : 8;
  return n > SIZE_MAX / 32 ? 0 : n ? n * each : each;
}

mr_numbers *mr_numbers_new(size_t n, int kind) {
  size_t bytes = mr_numbers_bytes(n, kind);
  mr_numbers *a = bytes ? malloc(sizeof *a + bytes) : NULL;
  if (!a) return NULL;
  a->bytes = bytes;
  a->n = n;
  a->kind = (unsigned char)kind;
  a->u.at = a + 1;
  return a;
}

void mr_given_drop(mr_given *g) {
  if (g->kind == GIVEN_NUMBERS) free(g->u.a);
  if (g->kind == GIVEN_MESSAGE) mr_message_free(g->u.m);
  g->kind = GIVEN_NOTHING;
}

int mr_given_copy(mr_given *to, const mr_given *g) {
  *to = *g;
  if (g->kind != GIVEN_NUMBERS) return 1;
  const mr_numbers *a = g->u.a;
  to->u.a = mr_numbers_new(a->n, a->kind);
  if (!to->u.a) return to->kind = GIVEN_NOTHING, 0;
  memcpy(to->u.a->u.at, a->u.at, mr_numbers_bytes(a->n, a->kind));
  return 1;
}

/* ---- two scalars ---- */

static lua_Integer wrap(uint64_t x) { return (lua_Integer)x; }

static lua_Integer fold_integers(int fold, lua_Integer a, lua_Integer b) {
  switch (fold) {
    case FOLD_ADD: return wrap((uint64_t)a + (uint64_t)b);
    case FOLD_MUL: return wrap((uint64_t)a * (uint64_t)b);
    case FOLD_MAX: return a < b ? b : a;
    case FOLD_MIN: return b < a ? b : a;
    case FOLD_BAND: return a & b;
    case FOLD_BOR: return a | b;
    default: return a ^ b;
  }
}

static lua_Number fold_floats(int fold, lua_Number a, lua_Number b) {
  switch (fold) {
    case FOLD_ADD: return a + b;
    case FOLD_MUL: return a * b;
    case FOLD_MAX: return a < b ? b : a;
    default: return b < a ? b : a;
  }
}

/* i < d, without rounding i. */
static int below(lua_Integer i, lua_Number d) {
  if (d >= 9223372036854775808.0) return 1;
  if (!(d > -9223372036854775808.0)) return 0;
  lua_Integer whole = (lua_Integer)d;
  return i < whole || (i == whole && d > (lua_Number)whole);
}
static int above(lua_Integer i, lua_Number d) {
  if (d < -9223372036854775808.0) return 1;
  if (!(d < 9223372036854775808.0)) return 0;
  lua_Integer whole = (lua_Integer)d;
  return i > whole || (i == whole && d < (lua_Number)whole);
}

static int less(const mr_scalar *a, const mr_scalar *b) {
  if (a->type == INTEGER) return b->type == INTEGER ? a->u.i < b->u.i : below(a->u.i, b->u.n);
  return b->type == INTEGER ? above(b->u.i, a->u.n) : a->u.n < b->u.n;
}

static lua_Number as_float(const mr_scalar *s) { return s->type == INTEGER ? (lua_Number)s->u.i : s->u.n; }

static void fold_scalars(int fold, mr_scalar *a, const mr_scalar *b) {
  if (fold == FOLD_AND || fold == FOLD_OR) {
    a->u.b = fold == FOLD_AND ? a->u.b && b->u.b : a->u.b || b->u.b;
  } else if (a->type == INTEGER && b->type == INTEGER) {
    a->u.i = fold_integers(fold, a->u.i, b->u.i);
  } else if (fold == FOLD_MAX || fold == FOLD_MIN) {
    if (fold == FOLD_MAX ? less(a, b) : less(b, a)) *a = *b;
  } else {
    a->u.n = fold_floats(fold, as_float(a), as_float(b));
    a->type = LUA_TNUMBER;
  }
}

/* ---- two lists ---- */

/* A loop each, so that the compiler can make vectors of them. */
#define EACH(type, expression) do { type *restrict l = a->u.at; const type *restrict r = b->u.at; \
    for (size_t i = 0; i < n; i++) l[i] = (expression); } while (0)

static void fold_integer_lists(int fold, mr_numbers *a, const mr_numbers *b, size_t n) {
  switch (fold) {
    case FOLD_ADD: EACH(uint64_t, l[i] + r[i]); break;
    case FOLD_MUL: EACH(uint64_t, l[i] * r[i]); break;
    case FOLD_MAX: EACH(lua_Integer, l[i] < r[i] ? r[i] : l[i]); break;
    case FOLD_MIN: EACH(lua_Integer, r[i] < l[i] ? r[i] : l[i]); break;
    case FOLD_BAND: EACH(uint64_t, l[i] & r[i]); break;
    case FOLD_BOR: EACH(uint64_t, l[i] | r[i]); break;
    default: EACH(uint64_t, l[i] ^ r[i]); break;
  }
}

static void fold_float_lists(int fold, mr_numbers *a, const mr_numbers *b, size_t n) {
  switch (fold) {
    case FOLD_ADD: EACH(lua_Number, l[i] + r[i]); break;
    case FOLD_MUL: EACH(lua_Number, l[i] * r[i]); break;
    case FOLD_MAX: EACH(lua_Number, l[i] < r[i] ? r[i] : l[i]); break;
    default: EACH(lua_Number, r[i] < l[i] ? r[i] : l[i]); break;
  }
}

static mr_scalar element(const mr_numbers *a, size_t i) {
  if (a->kind == NUMBERS_MIXED) return a->u.s[i];
  mr_scalar s = { .type = a->kind == NUMBERS_INTEGER ? INTEGER : LUA_TNUMBER };
  if (a->kind == NUMBERS_INTEGER) s.u.i = a->u.i[i];
  else s.u.n = a->u.d[i];
  return s;
}

static const char *fold_mixed(int fold, mr_given *left, const mr_numbers *b) {
  mr_numbers *a = left->u.a, *to = a->kind == NUMBERS_MIXED ? a : mr_numbers_new(a->n, NUMBERS_MIXED);
  if (!to) return "not enough memory";
  for (size_t i = 0; i < a->n; i++) {
    mr_scalar l = element(a, i), r = element(b, i);
    fold_scalars(fold, &l, &r);
    to->u.s[i] = l;
  }
  if (to != a) free(a);
  left->u.a = to;
  return NULL;
}

static const char *fold_lists(int fold, mr_given *left, const mr_numbers *b) {
  mr_numbers *a = left->u.a;
  if (a->n != b->n) return "lists of different lengths can't be folded";
  if (a->kind == NUMBERS_INTEGER && b->kind == NUMBERS_INTEGER) fold_integer_lists(fold, a, b, a->n);
  else if (a->kind == NUMBERS_FLOAT && b->kind == NUMBERS_FLOAT) fold_float_lists(fold, a, b, a->n);
  else return fold_mixed(fold, left, b);
  return NULL;
}

const char *mr_fold(int fold, mr_given *left, const mr_given *right) {
  if (left->kind != right->kind) return "a list and a single value can't be folded";
  if (left->kind == GIVEN_NUMBERS) return fold_lists(fold, left, right->u.a);
  fold_scalars(fold, &left->u.s, &right->u.s);
  return NULL;
}
