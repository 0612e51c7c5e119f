/*
 * Images: clones are independent states, rewinding leaves nothing, and a template that can't be relocated is refused.
 */
#include "heap/image.h"
#include "heap/poison.h"
#include "lua/layout.h"
#include "port/test.h"

#include <stdlib.h>
#include <string.h>

/* ---- openers ---- */

static lua_State *open_bare(lua_Alloc f, void *ud) { return mr_lua_newstate(f, ud); }

/* (libs) */
static int l_open(lua_State *L) {
  for (const luaL_Reg *libs = lua_touserdata(L, 1); libs->func; libs++) luaL_requiref(L, libs->name, libs->func, 1);
  return 0;
}

static lua_State *open_with(lua_Alloc f, void *ud, const luaL_Reg *libs) {
  lua_State *L = mr_lua_newstate(f, ud);
  if (!L) return NULL;
  lua_pushcfunction(L, l_open);
  lua_pushlightuserdata(L, (void *)(uintptr_t)libs);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return L;
  lua_close(L);
  return NULL;
}

static lua_State *open_base(lua_Alloc f, void *ud) {
  static const luaL_Reg libs[] = {{"_G", luaopen_base}, {NULL, NULL}};
  lua_State *L = open_with(f, ud, libs);
  if (L) mr_lua_generational(L);
  return L;
}

static lua_State *open_strings(lua_Alloc f, void *ud) {
  static const luaL_Reg libs[] = {{"_G", luaopen_base}, {"string", luaopen_string}, {NULL, NULL}};
  return open_with(f, ud, libs);
}

static lua_State *open_package(lua_Alloc f, void *ud) {
  static const luaL_Reg libs[] = {{"_G", luaopen_base}, {"package", luaopen_package}, {"string", luaopen_string}, {NULL, NULL}};
  return open_with(f, ud, libs);
}

static lua_State *open_all(lua_Alloc f, void *ud) {
  lua_State *L = mr_lua_newstate(f, ud);
  if (!L) return NULL;
  luaL_openlibs(L);
  lua_settop(L, 0);
  return L;
}

/* ---- clones ---- */

static int runs(lua_State *L, const char *code, const char *result) {
  int ok = luaL_loadstring(L, code) == LUA_OK && lua_pcall(L, 0, 1, 0) == LUA_OK && lua_tostring(L, -1) &&
           strcmp(lua_tostring(L, -1), result) == 0;
  if (!ok) fprintf(stderr, "%s: %s\n", code, lua_tostring(L, -1));
  lua_settop(L, 0);
  return ok;
}

/* Tags share a word with bytes nobody wrote; a move must not change them, whatever these are. */
static void test_images_move_by_multiples_of_256(void) {
  mr_image *im = mr_image_new(open_base);
  CHECK(im && im->chunk % 256 == 0);
  mr_heap *h[40];
  for (int i = 0; i < 40; i++) {
    CHECK(mr_image_clone(im, &h[i]) != NULL);
    CHECK((uintptr_t)h[i] % 256 == 0);
  }
  for (int i = 0; i < 40; i++) mr_heap_drop(h[i]);
  mr_image_free(im);
}

static void test_every_usual_template_is_possible(void) {
  static const mr_opener openers[] = {open_bare, open_base, open_strings, open_package};
  for (size_t i = 0; i < sizeof openers / sizeof *openers; i++) {
    mr_image *im = mr_image_new(openers[i]);
    CHECK(im != NULL);
    if (im) mr_image_free(im);
  }
}

#ifdef PORT_TSAN
enum { MANY = 1000 };        /* ten times slower there */
#else
enum { MANY = 10000 };
#endif
static mr_heap *heaps[MANY];
static lua_State *states[MANY];

static void test_clones_share_nothing(void) {
  mr_image *im = mr_image_new(open_package);
  CHECK(im != NULL);
  char code[200], result[40];
  for (int i = 0; i < MANY; i++) {
    states[i] = mr_image_clone(im, &heaps[i]);
    CHECK(states[i] != NULL);
    snprintf(code, sizeof code, "assert(x == nil); x = %d; string.rep = nil; local t = {}; for i = 1, 20 do t[i] = {i} end y = t; return x", i);
    snprintf(result, sizeof result, "%d", i);
    if (i % 2 == 0) CHECK(runs(states[i], code, result));
  }
  for (int i = 0; i < MANY; i++) {
    snprintf(result, sizeof result, "%d:%s", i, "nil");
    CHECK(runs(states[i], "return x and x .. ':' .. tostring(string.rep) or ('ok'):rep(2)", i % 2 ? "okok" : result));
    if (i % 100 == 0) CHECK(mr_heap_check(heaps[i]) == 0);
    if (i % 3 == 0) {
      lua_close(states[i]);
      CHECK(mr_heap_used(heaps[i]) == 0);
    }
    mr_heap_drop(heaps[i]);
  }
  mr_image_free(im);
}

/* Not by memmem: the code under test must not be asked through the state. */
static int holds(const void *from, size_t size, const char *what) {
  size_t n = strlen(what);
  for (const char *p = from; (p = memchr(p, what[0], size - n - (size_t)(p - (const char *)from))) != NULL; p++)
    if (memcmp(p, what, n) == 0) return 1;
  return 0;
}

static void test_a_rewound_state_is_as_new(void) {
  mr_image *im = mr_image_new(open_package);
  CHECK(im != NULL);
  mr_heap *h;
  lua_State *L = mr_image_clone(im, &h);
  size_t used = mr_heap_used(h), reserved = mr_heap_reserved(h);
  char *first = malloc(im->size);
  MR_UNPOISON(h, im->size);                      /* between what is touched often there are free blocks */
  memcpy(first, h, im->size);
  for (int i = 0; i < MANY; i++) {
    mr_heap_limit(h, i % 2 ? 0 : 10 << 20);
    const char *code = i % 3 ? "secret = 'S3cr' .. 'et!x'; return 1"
      : "local t = {}; for i = 1, 20 do t[i] = ('S3cret!x'):rep(i * (1 + i % 13 * 40)) end; string.format = t; return #t // 20";
    CHECK(runs(L, code, "1"));
    if (i % 1000 == 0) CHECK(mr_heap_check(h) == 0);
    if (i % 5 == 0) {
      mr_heap_dying(h);
      lua_close(L);
    }
    mr_image_leave(h);
    mr_image_rewind(im, h);
    CHECK(mr_heap_used(h) == used && mr_heap_reserved(h) == reserved);
    if (i % 100 == 0) {
      MR_UNPOISON(h, im->chunk);
      CHECK(memcmp(first, h, im->size) == 0);
      CHECK(!holds(h, im->chunk, "S3cret!x"));
      CHECK(mr_heap_check(h) == 0);
    }
    CHECK(runs(L, "return secret == nil and string.format('%d', 7)", "7"));
  }
  free(first);
  mr_heap_drop(h);
  mr_image_free(im);
}

static void test_a_clone_obeys_its_limit(void) {
  mr_image *im = mr_image_new(open_strings);
  CHECK(im != NULL);
  mr_heap *h;
  lua_State *L = mr_image_clone(im, &h);
  mr_heap_limit(h, 100000);
  CHECK(runs(L, "return select(2, pcall(function() local t = {} while true do t[#t + 1] = ('x'):rep(100) .. #t end end))", "not enough memory"));
  CHECK(mr_heap_used(h) <= 100000);
  CHECK(runs(L, "collectgarbage() return 'on'", "on"));
  mr_heap_drop(h);
  mr_image_free(im);
}

static void test_a_clone_works_in_both_modes_of_the_collector(void) {
  mr_image *im = mr_image_new(open_base);
  CHECK(im != NULL);
  for (int i = 0; i < 2; i++) {
    mr_heap *h;
    lua_State *L = mr_image_clone(im, &h);
    CHECK(runs(L, i ? "collectgarbage('incremental') return 1" : "collectgarbage('generational') return 1", "1"));
    CHECK(runs(L, "local t for i = 1, 100000 do t = {t and t[1], i, tostring(i)} end return t[3]", "100000"));
    CHECK(mr_heap_used(h) < 1 << 20);
    CHECK(mr_heap_check(h) == 0);
    lua_close(L);
    CHECK(mr_heap_used(h) == 0);
    mr_heap_drop(h);
  }
  mr_image_free(im);
}

/* ---- what is touched often ---- */

/* A block of `size` bytes, of which `n` are touched often; with others before and behind it. */
static void keep_near(lua_State *L, const char *name, size_t size, size_t n) {
  for (int i = 0; i < 3; i++) {
    void *p = lua_newuserdatauv(L, size, 0);
    if (i == 1) mr_image_near(L, p, n);
    lua_setfield(L, LUA_REGISTRYINDEX, i == 1 ? name : i ? "behind" : "before");
  }
}

static lua_State *open_near(lua_Alloc f, void *ud) {
  lua_State *L = open_base(f, ud);
  keep_near(L, "small", 30, 24);
  keep_near(L, "long", 300, 100);
  keep_near(L, "other", 40, 48);
  mr_image_near(L, ud, 8);                       /* in no block */
  mr_image_near(L, NULL, 8);
  return L;
}

/* Where the block of a userdata begins. */
static uintptr_t named(lua_State *L, const char *name) {
  lua_getfield(L, LUA_REGISTRYINDEX, name);
  uintptr_t p = (uintptr_t)lua_touserdata(L, -1) - offsetof(raw_userdata, block);
  lua_pop(L, 1);
  return p;
}

static uintptr_t line_of(uintptr_t p) { return p / PORT_CACHELINE; }

static void test_what_is_touched_often_lies_side_by_side(void) {
  mr_image *im = mr_image_new(open_near);
  mr_heap *h;
  CHECK(im != NULL);
  lua_State *L = mr_image_clone(im, &h);
  uintptr_t from = (uintptr_t)h + im->near, end = (uintptr_t)h + im->size;
  uintptr_t small = named(L, "small"), longer = named(L, "long"), other = named(L, "other"), stack = (uintptr_t)raw_top(L);
  CHECK(from <= small && small < longer && longer < other && other < stack && stack < end);
  CHECK(named(L, "before") < from && named(L, "behind") < from);
  CHECK(line_of(small) == line_of(small + 23) && line_of(other) == line_of(other + 47) && longer % PORT_CACHELINE == 0);
  CHECK(mr_heap_check(h) == 0 && runs(L, "local t = {} for i = 1, 99 do t[i] = {i, i .. ''} end return #t", "99") && mr_heap_check(h) == 0);
  lua_close(L);
  CHECK(mr_heap_used(h) == 0 && mr_heap_check(h) == 0);
  mr_heap_drop(h);
  mr_image_free(im);
}

static void test_elsewhere_nothing_is_near(void) {
  mr_heap *h = mr_heap_new(0);
  lua_State *L = open_near(mr_heap_alloc, h);
  CHECK(L && mr_heap_check(h) == 0);
  lua_close(L);
  mr_heap_drop(h);
}

/* ---- images with more in them ---- */

/* Compiled before, as loading it takes little room beside it. */
typedef struct code { size_t n; char bytes[1024]; } code;

static int write_code(lua_State *L, const void *data, size_t n, void *ud) {
  code *c = ud;
  (void)L;
  CHECK(c->n + n <= sizeof c->bytes);
  memcpy(c->bytes + c->n, data, n);
  c->n += n;
  return 0;
}

static code compiled(const char *text) {
  code c = { 0 };
  lua_State *L = luaL_newstate();
  CHECK(luaL_loadbufferx(L, text, strlen(text), "=t", "t") == LUA_OK && mr_lua_dump(L, write_code, &c) == 0);
  lua_close(L);
  return c;
}

static int add_function(lua_State *L, void *ud) {
  code *c = ud;
  return luaL_loadbufferx(L, c->bytes, c->n, "t", "b") == LUA_OK;
}

static int add_nothing(lua_State *L, void *ud) { (void)L; (void)ud; return 0; }

static int add_a_count(lua_State *L, void *count) {
  lua_pushinteger(L, ++*(int *)count);
  return 1;
}

static int add_much(lua_State *L, void *ud) {
  (void)ud;
  lua_newuserdatauv(L, 9000, 0);
  return 1;
}

/* The second of two clones can't be made. */
static int add_and_use_up(lua_State *L, void *ud) {
  (void)ud;
  lua_pushboolean(L, 1);
  mr_pool_fail(0);
  return 1;
}

static int calls(lua_State *L, const char *argument, const char *result) {
  CHECK(lua_gettop(L) == 1);
  lua_pushstring(L, argument);
  int ok = lua_pcall(L, 1, 1, 0) == LUA_OK && strcmp(lua_tostring(L, -1), result) == 0;
  lua_settop(L, 0);
  return ok;
}

/* Its constants look like everything: text, numbers, and what could be an address. */
static const char greeting[] = "seen = ... return 'a text of more than forty bytes, so a long one: ' .. seen .. 0x7f5500000000 .. 0.5";
#define GREETED(a) "a text of more than forty bytes, so a long one: " a "1400030489477120.5"

static void test_an_image_with_a_function_gives_states_with_it(void) {
  code c = compiled(greeting);
  mr_image *im = mr_image_new(open_base), *more = mr_image_with(im, add_function, &c);
  CHECK(im && more && mr_image_size(more) > mr_image_size(im) && mr_image_used(more) > mr_image_used(im));
  mr_heap *h[3];
  lua_State *L[3];
  for (int i = 0; i < 3; i++) {
    CHECK((L[i] = mr_image_clone(more, &h[i])) != NULL && mr_heap_check(h[i]) == 0 && mr_heap_used(h[i]) == mr_image_used(more));
  }
  CHECK(calls(L[0], "x", GREETED("x")) && calls(L[1], "y", GREETED("y")));
  CHECK(runs(L[0], "collectgarbage() return seen", "x") && runs(L[1], "collectgarbage() return seen", "y"));
  CHECK(calls(L[2], "z", GREETED("z")));
  for (int i = 0; i < 3; i++) {
    lua_close(L[i]);
    CHECK(mr_heap_used(h[i]) == 0 && mr_heap_check(h[i]) == 0);
    mr_heap_drop(h[i]);
  }
  mr_image_free(more);
  mr_image_free(im);
}

static void test_a_state_is_rewound_to_one_image_and_to_another(void) {
  code c = compiled(greeting);
  mr_image *im = mr_image_new(open_base), *more = mr_image_with(im, add_function, &c);
  CHECK(im && more);
  mr_heap *h;
  lua_State *L = mr_image_clone(im, &h);
  for (int i = 0; i < 100; i++) {
    if (i % 2) CHECK(calls(L, "S3cret!x", GREETED("S3cret!x")));
    else CHECK(lua_gettop(L) == 0 && runs(L, "seen = {}; for i = 1, 500 do seen[i] = 'S3cret!x' .. i end return 1", "1"));
    mr_image_leave(h);
    mr_image_rewind(i % 2 ? im : more, h);
    MR_UNPOISON(h, im->chunk);
    CHECK(!holds(h, im->chunk, "S3cret!x"));
    CHECK(mr_heap_check(h) == 0 && mr_heap_used(h) == mr_image_used(i % 2 ? im : more));
  }
  mr_image_leave(h);
  mr_image_drop(h);
  mr_image_free(more);
  mr_image_free(im);
}

static void test_what_is_larger_gets_larger_chunks(void) {
  char text[2500] = "local a = ...; ";
  for (int i = 0; i < 8; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "local function f%d(x) if x then a = a .. 'named %d' .. x end return %d.5 end f%d(%d)\n", i, i, i, i, i);
  snprintf(text + strlen(text), sizeof text - strlen(text), "return a");
  code c = compiled(text);
  mr_image *im = mr_image_new(open_base), *more = mr_image_with(im, add_function, &c);
  CHECK(im && more && mr_image_kind(more) != mr_image_kind(im));
  mr_heap *h;
  lua_State *L = mr_image_clone(more, &h);
  CHECK(mr_image_kind_of(h) == mr_image_kind(more) && mr_heap_check(h) == 0);
  for (int i = 0; i < 10; i++) {
    CHECK(calls(L, "x", "xnamed 00named 11named 22named 33named 44named 55named 66named 77"));
    if (i % 2) CHECK(runs(L, "local t = {} for i = 1, 999 do t[i] = {i} end return #t", "999"));
    mr_image_leave(h);
    mr_image_rewind(more, h);
    CHECK(mr_heap_check(h) == 0 && mr_heap_used(h) == mr_image_used(more) && mr_heap_reserved(h) == more->chunk);
  }
  lua_close(L);
  CHECK(mr_heap_used(h) == 0 && mr_heap_check(h) == 0);
  mr_heap_drop(h);
  mr_image_free(more);
  mr_image_free(im);
}

static void test_what_cannot_be_done_twice_alike_gives_no_image(void) {
  code c = compiled(greeting);
  mr_image *im = mr_image_new(open_base);
  int count = 0;
  CHECK(im && !mr_image_with(im, add_nothing, NULL));
  CHECK(!mr_image_with(im, add_a_count, &count) && count == 2);
  CHECK(!mr_image_with(im, add_much, NULL));
  CHECK(!mr_image_with(im, add_and_use_up, NULL));
  CHECK(!mr_image_with(im, add_function, &c));
  mr_pool_fail(-1);
  mr_image *more = mr_image_with(im, add_function, &c);
  CHECK(more != NULL);
  mr_image_free(more);
  mr_image_free(im);
}

/* ---- templates that must be refused ---- */

static lua_State *open_nothing(lua_Alloc f, void *ud) { (void)f; (void)ud; return NULL; }

static lua_State *open_with_a_counter(lua_Alloc f, void *ud) {
  static int count;
  lua_State *L = open_base(f, ud);
  lua_pushinteger(L, ++count);
  lua_setglobal(L, "count");
  return L;
}

static lua_State *open_with_malloc(lua_Alloc f, void *ud) {
  static void *kept[64];
  static int n;
  lua_State *L = open_base(f, ud);
  lua_pushlightuserdata(L, kept[n++ % 64] = malloc(100));
  lua_setglobal(L, "outside");
  return L;
}

static lua_State *open_with_a_stack_pointer(lua_Alloc f, void *ud) {
  char here[8];
  lua_State *L = open_base(f, ud);
  lua_pushlightuserdata(L, here);
  lua_setglobal(L, "stack");
  return L;
}

static lua_State *open_leaving_a_value(lua_Alloc f, void *ud) {
  lua_State *L = open_base(f, ud);
  lua_pushinteger(L, 1);
  return L;
}

/* Keys that are tables, functions, threads, inside tables that only a metatable or an upvalue reaches. */
static lua_State *open_with_key(lua_Alloc f, void *ud, const char *code) {
  lua_State *L = open_base(f, ud);
  if (luaL_dostring(L, code) != LUA_OK) return NULL;
  lua_settop(L, 0);
  return L;
}

static lua_State *open_keyed_by_table(lua_Alloc f, void *ud) { return open_with_key(f, ud, "t = {[{}] = 1}"); }
static lua_State *open_keyed_by_function(lua_Alloc f, void *ud) { return open_with_key(f, ud, "local t = {[function() end] = 1}; function g() return t end"); }
static lua_State *open_keyed_in_metatable(lua_Alloc f, void *ud) { return open_with_key(f, ud, "t = setmetatable({}, {__index = {[_G] = 1}})"); }

static lua_State *open_keyed_by_userdata(lua_Alloc f, void *ud) {
  lua_State *L = open_base(f, ud);
  lua_newtable(L);
  lua_newuserdatauv(L, 20, 0);
  lua_pushvalue(L, -1);
  lua_rawset(L, -3);
  lua_setfield(L, LUA_REGISTRYINDEX, "objects");
  return L;
}

static void test_templates_that_cannot_move_are_refused(void) {
  static const mr_opener openers[] = {open_nothing, open_with_a_counter, open_with_malloc, open_with_a_stack_pointer,
    open_leaving_a_value, open_keyed_by_table, open_keyed_by_function, open_keyed_in_metatable, open_keyed_by_userdata};
  for (size_t i = 0; i < sizeof openers / sizeof *openers; i++) {
    mr_image *im = mr_image_new(openers[i]);
    if (im) fprintf(stderr, "opener %zu should have been refused\n", i);
    CHECK(im == NULL);
    if (im) mr_image_free(im);
  }
}

static void test_a_table_keyed_by_names_may_stay(void) {
  mr_image *im = mr_image_new(open_all);      /* the io library holds FILE pointers: the same at each opening */
  if (!im) return;
  mr_heap *h;
  lua_State *L = mr_image_clone(im, &h);
  CHECK(runs(L, "return math.floor(3.7) .. table.concat({1, 2}) .. type(io.stdout)", "312userdata"));
  mr_heap_drop(h);
  mr_image_free(im);
}

static void test_without_memory_there_is_no_image_and_no_clone(void) {
  mr_image *im = NULL;
  for (long n = 0; n < 1000 && !im; n++) {
    mr_pool_fail(n);
    im = mr_image_new(open_base);
    mr_pool_fail(-1);
    CHECK(!im || n > 4);
  }
  CHECK(im != NULL);
  mr_heap *h;
  mr_pool_fail(0);
  CHECK(mr_image_clone(im, &h) == NULL);
  mr_pool_fail(-1);
  mr_image_free(im);
}

int main(void) {
  test_images_move_by_multiples_of_256();
  test_every_usual_template_is_possible();
  test_clones_share_nothing();
  test_a_rewound_state_is_as_new();
  test_a_clone_obeys_its_limit();
  test_a_clone_works_in_both_modes_of_the_collector();
  test_what_is_touched_often_lies_side_by_side();
  test_elsewhere_nothing_is_near();
  test_an_image_with_a_function_gives_states_with_it();
  test_a_state_is_rewound_to_one_image_and_to_another();
  test_what_is_larger_gets_larger_chunks();
  test_what_cannot_be_done_twice_alike_gives_no_image();
  test_templates_that_cannot_move_are_refused();
  test_a_table_keyed_by_names_may_stay();
  test_without_memory_there_is_no_image_and_no_clone();
  mr_pool_trim();
  CHECK(mr_pool_reserved() == 0);
  return CHECK_RESULT();
}
