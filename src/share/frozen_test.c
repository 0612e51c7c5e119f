/* Frozen tables without userdata: what is found in them, by which keys, and that a whole lives exactly as long as somebody refers to a part of it. */
#include "transfer/test.h"
#include "share/hash.h"

static void push_nothing(lua_State *L, mr_shared *o) { lua_pushlightuserdata(L, o); }
static const mr_sharetype type = { .name = "frozen table", .destroy = mr_part_destroy, .push = push_nothing, .constant = 1, .hold = mr_part_hold };

/* What the chunk gives, frozen. */
static mr_part *frozen(const char *make) {
  open_states();
  lua_settop(sender, 0);
  if (luaL_dostring(sender, make)) { fprintf(stderr, "%s: %s\n", make, lua_tostring(sender, -1)); abort(); }
  if (mr_frozen_pack(packer, sender, 1)) { fprintf(stderr, "%s: %s\n", make, lua_tostring(sender, -1)); abort(); }
  mr_part *p = mr_frozen_new(packer, &type);
  CHECK(p && packer->nobjects == 0 && lua_gettop(sender) == 1);
  return p;
}

static mr_frozen_value get(const mr_part *p, const char *name) { return mr_part_string(p, name, strlen(name)); }
static const mr_part *part(const mr_part *p, const char *name) { return (const mr_part *)(uintptr_t)get(p, name).word; }

static const mr_part *item(const mr_part *p, lua_Integer i) { return (const mr_part *)(uintptr_t)mr_part_integer(p, i).word; }

static void drop(mr_part *p) { mr_release(&p->shared); }

static void found(void) {
  mr_part *p = frozen("return {10, 2.5, 'three', nil, 5, name = 'x', [true] = 1, [2.5] = 'float', [-1] = 'minus', [1 << 40] = 'far', sub = {7}}");
  CHECK(mr_part_integer(p, 1).tag == RAW_INT && mr_part_integer(p, 1).word == 10);
  CHECK(mr_part_integer(p, 2).tag == RAW_FLT);
  CHECK(mr_part_integer(p, 4).tag == RAW_NIL && mr_part_integer(p, 0).tag == RAW_NIL && mr_part_integer(p, 6).tag == RAW_NIL);
  CHECK(mr_part_integer(p, -1).tag == FROZEN_STRING && mr_part_integer(p, (lua_Integer)1 << 40).tag == FROZEN_STRING);
  const mr_frozen_string *s = (const mr_frozen_string *)(uintptr_t)get(p, "name").word;
  CHECK(s->length == 1 && strcmp(s->bytes, "x") == 0);
  CHECK(get(p, "nam").tag == RAW_NIL && get(p, "names").tag == RAW_NIL && get(p, "").tag == RAW_NIL);
  CHECK(mr_part_other(p, (mr_frozen_value){ 0, RAW_TRUE }).word == 1 && mr_part_other(p, (mr_frozen_value){ 0, RAW_FALSE }).tag == RAW_NIL);
  CHECK(mr_part_integer(part(p, "sub"), 1).word == 7);
  drop(p);
}

/* Each pair comes once, and its place is found again by its key. */
static void walked(void) {
  mr_part *p = frozen("local t = {1, nil, 3} for i = 1, 1000 do t['k' .. i] = i t[i * 1000] = i t[i + 0.5] = i end return t");
  uint64_t at = 0, n = 0;
  mr_frozen_value k, v;
  while (mr_part_next(p, &at, &k, &v)) {
    const mr_frozen_string *s = (const mr_frozen_string *)(uintptr_t)k.word;
    CHECK(at == (k.tag == FROZEN_STRING ? mr_part_place_of(p, s->bytes, s->length) : mr_part_place(p, k)));
    n++;
  }
  CHECK(n == 3002);
  CHECK(mr_part_place(p, (mr_frozen_value){ 2, RAW_INT }) == 0 && mr_part_place_of(p, "k1001", 5) == 0);
  drop(p);
}

/* Equal strings are one, and tables with the same keys share them, also when they came in another order. */
static void shared_keys(void) {
  mr_part *p = frozen("local a, b, c = {}, {}, {} a.x, a.y, a.z = 1, 2, 3 b.z, b.y, b.x = 6, 5, 4 c.x, c.y = 7, 8"
                      " a.t, b.t = ('l'):rep(100) .. 1, ('l'):rep(100) .. 1 return {a, b, c}");
  const mr_part *a = item(p, 1), *b = item(p, 2), *c = item(p, 3);
  CHECK(a->keys == b->keys && a->keys != c->keys);
  CHECK(get(a, "x").word == 1 && get(b, "x").word == 4 && get(b, "z").word == 6 && get(c, "y").word == 8 && get(c, "z").tag == RAW_NIL);
  CHECK(get(a, "t").word == get(b, "t").word);
  drop(p);
}

static void counted(void) {
  thing *t = thing_new();
  thing_give(t);
  mr_part *p = frozen("return {thing, a = {thing, b = {}}, c = {}}"), *a = (mr_part *)(uintptr_t)part(p, "a"), *b = (mr_part *)(uintptr_t)part(a, "b");
  lua_settop(sender, 0);
  size_t before = refs(t);
  CHECK(atomic_load(&a->shared.refs) == 0 && atomic_load(&p->whole->refs) == 1);
  mr_part_hold(&b->shared);
  mr_part_hold(&b->shared);
  CHECK(atomic_load(&p->whole->refs) == 2);
  drop(p);
  drop(b);
  CHECK(refs(t) == before && mr_frozen_size(b) > 0);
  mr_part_hold(&a->shared);
  drop(b);
  CHECK(refs(t) == before && (mr_shared *)(uintptr_t)mr_part_integer(a, 1).word == &t->head);
  drop(a);
  CHECK(refs(t) < before);
  close_states();
  CHECK(refs(t) == 1);
  mr_release(&t->head);
}

/* Threads take and drop parts, each by way of one that it has; in the end nobody has any. */
enum { THREADS = 4, TURNS = 3000 };
typedef struct reader { mr_part *mine; port_thread thread; } reader;

static void read_parts(void *arg) {
  reader *r = arg;
  mr_part *mine = r->mine;
  for (int i = 0; i < TURNS; i++) {
    mr_part *next = (mr_part *)(uintptr_t)get(mine, "next").word;
    mr_part_hold(&next->shared);
    drop(mine);
    mine = next;
  }
  drop(mine);
}

static void raced(void) {
  thing *t = thing_new();
  thing_give(t);
  reader readers[THREADS];
  for (int round = 0; round < 5; round++) {
    mr_part *p = frozen("local a, b, c = {thing}, {}, {} a.next, b.next, c.next = b, c, a return a");
    lua_settop(sender, 0);
    for (int i = 0; i < THREADS; i++) {
      readers[i].mine = p;
      mr_part_hold(&p->shared);
    }
    for (int i = 0; i < THREADS; i++) CHECK(port_thread_fork(&readers[i].thread, read_parts, &readers[i], "reader") == 0);
    drop(p);
    for (int i = 0; i < THREADS; i++) port_thread_join(&readers[i].thread);
  }
  close_states();
  CHECK(refs(t) == 1);
  mr_release(&t->head);
}

/* One refers to the next, the last reference goes: no recursion. */
static void chained(void) {
  thing *t = thing_new();
  mr_part *last = NULL;
  open_states();
  for (int i = 0; i < 60000; i++) {
    thing_push(sender, last ? &last->shared : &t->head);
    lua_setglobal(sender, "thing");
    mr_part *p = frozen("return {thing}");
    lua_pushnil(sender);
    lua_setglobal(sender, "thing");
    if (last) drop(last);
    last = p;
    if (i % 1000 == 0) lua_gc(sender, LUA_GCCOLLECT);
  }
  close_states();
  drop(last);
  CHECK(refs(t) == 1);
  mr_release(&t->head);
}

static void refused_whole(void) {
  open_states();
  luaL_dostring(sender, "local cache = {} return {a = {f = function() return cache end}}");
  CHECK(mr_frozen_pack(packer, sender, 1) == 1 && packer->nobjects == 0);
  CHECK(strncmp(lua_tostring(sender, -1), "value.a.f: upvalue 'cache': table outside the value", 50) == 0);
  lua_settop(sender, 0);
  luaL_dostring(sender, "local M = {} function M.f() return M.g() end function M.g() return M end return M");
  CHECK(mr_frozen_pack(packer, sender, 1) == 0);
  lua_settop(sender, 0);
}

static void all(void) {
  found();
  walked();
  shared_keys();
  RUN(counted);
  refused_whole();
  close_states();
}

int main(void) {
  mr_layout_check();
  int was = mr_layout;
  all();
  mr_layout = 0;
  all();
  mr_layout = was;
  RUN(raced);
  RUN(chained);
  return finish();
}
