/* fold: two contributions into one, as Lua would. */
#include "channel/collective.h"
#include "port/test.h"

#include <stdint.h>
#include <string.h>

static mr_given integer(lua_Integer i) { return (mr_given){ .kind = GIVEN_SCALAR, .u.s = { .u.i = i, .type = 0x10 | LUA_TNUMBER } }; }
static mr_given number(lua_Number n) { return (mr_given){ .kind = GIVEN_SCALAR, .u.s = { .u.n = n, .type = LUA_TNUMBER } }; }
static mr_given boolean(int b) { return (mr_given){ .kind = GIVEN_SCALAR, .u.s = { .u.b = b, .type = LUA_TBOOLEAN } }; }

static int is_integer(int fold, mr_given a, mr_given b, lua_Integer i) {
  return mr_fold(fold, &a, &b) == NULL && a.u.s.type == (0x10 | LUA_TNUMBER) && a.u.s.u.i == i;
}
static int is_number(int fold, mr_given a, mr_given b, lua_Number n) {
  return mr_fold(fold, &a, &b) == NULL && a.u.s.type == LUA_TNUMBER && a.u.s.u.n == n;
}
static int is_boolean(int fold, int a, int b, int wanted) {
  mr_given l = boolean(a), r = boolean(b);
  return mr_fold(fold, &l, &r) == NULL && l.u.s.type == LUA_TBOOLEAN && !l.u.s.u.b == !wanted;
}

static void test_scalars(void) {
  CHECK(is_integer(FOLD_ADD, integer(INT64_MAX), integer(1), INT64_MIN));
  CHECK(is_integer(FOLD_MUL, integer(INT64_MAX), integer(2), -2));
  CHECK(is_number(FOLD_ADD, integer(1), number(0.5), 1.5));
  CHECK(is_integer(FOLD_BAND, integer(12), integer(10), 8) && is_integer(FOLD_BOR, integer(12), integer(10), 14));
  CHECK(is_integer(FOLD_BXOR, integer(12), integer(10), 6));
  CHECK(is_boolean(FOLD_AND, 1, 0, 0) && is_boolean(FOLD_AND, 1, 1, 1) && is_boolean(FOLD_OR, 0, 1, 1) && is_boolean(FOLD_OR, 0, 0, 0));
}

/* An integer and a float are compared without rounding the integer. */
static void test_extremes(void) {
  lua_Integer large = (INT64_C(1) << 53) + 1;
  CHECK(is_integer(FOLD_MAX, integer(large), number(9007199254740992.0), large));
  CHECK(is_number(FOLD_MIN, integer(large), number(9007199254740992.0), 9007199254740992.0));
  CHECK(is_number(FOLD_MAX, integer(INT64_MAX), number(9223372036854775808.0), 9223372036854775808.0));
  CHECK(is_integer(FOLD_MIN, number(9223372036854775808.0), integer(INT64_MAX), INT64_MAX));
  CHECK(is_integer(FOLD_MIN, integer(INT64_MIN), number(-1.5), INT64_MIN) && is_number(FOLD_MIN, integer(-1), number(-1.5), -1.5));
  CHECK(is_integer(FOLD_MAX, integer(INT64_MIN), number(-9223372036854775808.0), INT64_MIN));      /* equal: the left one */
}

static mr_given list(int kind, size_t n, const void *elements) {
  mr_given g = { .kind = GIVEN_NUMBERS, .u.a = mr_numbers_new(n, kind) };
  memcpy(g.u.a->u.at, elements, n * 8);
  return g;
}

static void test_lists(void) {
  const lua_Integer i[] = { 1, 2, 3 };
  const lua_Number d[] = { 0.5, 2.0, 9.5 };
  mr_given a = list(NUMBERS_INTEGER, 3, i), b = list(NUMBERS_INTEGER, 3, i), c = list(NUMBERS_FLOAT, 3, d), e = list(NUMBERS_FLOAT, 2, d);
  CHECK(mr_fold(FOLD_ADD, &a, &b) == NULL && a.u.a->kind == NUMBERS_INTEGER && a.u.a->u.i[2] == 6);
  CHECK(mr_fold(FOLD_MAX, &a, &c) == NULL && a.u.a->kind == NUMBERS_MIXED);
  CHECK(a.u.a->u.s[0].type == (0x10 | LUA_TNUMBER) && a.u.a->u.s[0].u.i == 2 && a.u.a->u.s[2].type == LUA_TNUMBER && a.u.a->u.s[2].u.n == 9.5);
  CHECK(mr_fold(FOLD_ADD, &e, &b) != NULL && e.u.a->n == 2);
  mr_given one = integer(1);
  CHECK(mr_fold(FOLD_ADD, &one, &b) != NULL && one.u.s.u.i == 1);
  mr_given copy;
  CHECK(mr_given_copy(&copy, &a) && copy.u.a != a.u.a && copy.u.a->n == 3 && copy.u.a->u.s[0].u.i == 2);
  mr_given_drop(&a);
  mr_given_drop(&b);
  mr_given_drop(&c);
  mr_given_drop(&e);
  mr_given_drop(&copy);
  CHECK(mr_numbers_new(SIZE_MAX / 4, NUMBERS_FLOAT) == NULL);
}

int main(void) {
  test_scalars();
  test_extremes();
  test_lists();
  return CHECK_RESULT();
}
