/*
 * Every allocation fails once: the sender's, the receiver's, and transfer's own. Whatever fails, the error is the memory
 * error, the packer and both states go on working, the same message can be packed or unpacked again, and nothing leaks
 * (references of a shared object come back to where they were; the sanitizer build sees the rest).
 */
#include "transfer/failing.h"

static int generational;

static void open_failing(void) {
  for (int i = 0; i < 2; i++) {
    lua_State *L = owners[i].L = mr_lua_newstate(allocate, &owners[i]);
    luaL_openlibs(L);
    if (generational) mr_lua_generational(L);
    if (i) receiver = L; else sender = L;
  }
  if (luaL_dostring(receiver, "package.preload.mymod = function() return {here = 1} end")) abort();
  if (!packer) packer = mr_packer_new();
}

/* ---- protected steps ---- */

static char last_error[200];                   /* of a refused pack */

static int l_pack(lua_State *L) {
  int r = mr_pack(packer, L, 1, lua_gettop(L), "message");
  last_error[0] = 0;
  if (r) snprintf(last_error, sizeof last_error, "%s", lua_tostring(L, -1));
  lua_pushinteger(L, r);
  return 1;
}

static int pack_protected(const char *make, int *r) {
  lua_settop(sender, 0);
  lua_pushcfunction(sender, l_pack);
  if (luaL_loadstring(sender, make)) abort();
  failing = NULL;
  int status = lua_pcall(sender, 0, LUA_MULTRET, 0);
  if (status) { fprintf(stderr, "%s\n", lua_tostring(sender, -1)); abort(); }
  failing = sender;
  status = lua_pcall(sender, lua_gettop(sender) - 1, 1, 0);
  failing = NULL;
  if (!status) *r = (int)lua_tointeger(sender, -1);
  return status;
}

static int unpack_protected(mr_message *m) {
  lua_settop(receiver, 0);
  lua_pushcfunction(receiver, m ? l_unpack : l_unpack_view);
  lua_pushlightuserdata(receiver, m);
  failing = receiver;
  int status = lua_pcall(receiver, 1, LUA_MULTRET, 0);
  failing = NULL;
  return status;
}

static void no_more_failures(void) { lua_left = c_left = -1; failed = 0; }

static void must_receive(const char *make, const char *test, mr_message *m) {
  no_more_failures();
  CHECK(lua_gc(receiver, LUA_GCISRUNNING) == 1);
  CHECK(unpack_protected(m) == LUA_OK);
  judge(make, test, m ? "message" : "view");
}

typedef struct sample { const char *make, *test; } sample;
static const sample samples[] = {
  { "return 1, 'text', nil", "local a, b = ...; return a == 1 and b == 'text'" },
  { "return ('long'):rep(1000), {('x'):rep(600)}", "local a, t = ...; return #a == 4000 and #t[1] == 600" },
  { "local t = {} for i = 1, 60 do t[i] = {id = i, name = 'n' .. i, tags = {1, 'a'}} end t[t] = t return t", "local t = ...; return t[60].name == 'n60' and t[t] == t" },
  { "local t = {} for i = 1, 2000 do t[i] = i end return t", "return #(...) == 2000" },
  { "local n = 0 return function() n = n + 1 return n end, function() return n end, thing", "local f, g = ...; f() return g() == 1" },
  { "return string, string.format, {print}", "local s, f, t = ...; return s == string and f == string.format and t[1] == print" },
  { "package.loaded.mymod = package.loaded.mymod or {} return package.loaded.mymod", "return (...).here == 1" },
  { "local C = {} C.__index = C function C.f(o) return o.x end D = {__index = C} return {setmetatable({x = 1}, C), setmetatable({thing = thing}, D)}, C",
    "local t, C = ...; return t[1]:f() == 1 and t[2].f == C.f" },
  { "local t = {} for i = 1, 200 do t = {t, n = i} end return t", "local t, n = ..., 0; while t[1] do n = n + 1 t = t[1] end return n == 200" },
  { "local t = {} for i = 1, 300 do t['k' .. i] = -i end t[1.5] = _G t[true] = {t} return t", "local t = ...; return t.k300 == -300 and t[1.5] == _G and t[true][1] == t" },
  { "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end return fib, {fib}", "local f, t = ...; return f(10) == 55 and t[1] == f" },
  { "local t = {} for i = 1, 30 do local u = i t[i] = function() u = u + 1 return u, print end end return t", "local t = ...; local a, b = t[30]() return a == 31 and b == print" },
  { "KNOWN = KNOWN or {__name = 'K', list = {1}, __index = function(o, k) return k end} OTHER = OTHER or {__index = KNOWN.__index, list = KNOWN.list}"
    " return setmetatable({}, KNOWN), setmetatable({}, OTHER)",
    "local a, b = ...; K = K or getmetatable(a) return K == getmetatable(a) and b.x == 'x' and getmetatable(b).list[1] == 1" },
  { "local t = {} for i = 1, 70 do t[i] = setmetatable({i}, {__index = function() return i end}) end return t", "local t = ...; return t[70].x == 70 and t[1].y == 1" },
};

/* The n-th allocation of `left` fails while `make` is packed. */
static void fail_packing(const sample *s, long *left) {
  for (long n = 0, again = 1; again; n++) {
    int r = 1;
    no_more_failures();
    *left = n;
    int status = pack_protected(s->make, &r);
    again = failed;
    CHECK(status == LUA_OK ? r == 0 : failed && status == LUA_ERRMEM);       /* a full collection may have helped */
    no_more_failures();
    if (status) CHECK(pack_protected(s->make, &r) == LUA_OK);
    CHECK(r == 0);
    must_receive(s->make, s->test, NULL);
  }
}

static void fail_unpacking(const sample *s, long *left) {
  int r = 1;
  CHECK(pack_protected(s->make, &r) == LUA_OK && r == 0);
  mr_message *m = mr_packer_seal(packer);
  for (int view = 0; view < 2; view++)
    for (long n = 0, again = 1; again; n++) {
      no_more_failures();
      *left = n;
      int status = unpack_protected(view ? NULL : m);
      again = failed;
      CHECK(status == LUA_OK || (failed && status == LUA_ERRMEM));
      must_receive(s->make, s->test, view ? NULL : m);
    }
  mr_message_free(m);
}

#ifdef OWN_MALLOC
static void fail_sealing(const sample *s) {
  int r = 1;
  CHECK(pack_protected(s->make, &r) == LUA_OK && r == 0);
  c_left = 0;
  mr_message *none = mr_packer_seal(packer);
  int was = failed;
  no_more_failures();
  CHECK(!was || none == NULL);
  mr_message_free(none);
  must_receive(s->make, s->test, NULL);
}
#endif

/* Inside a budget: each allocation fails, then the budget ends here and there. What is taken is what the message keeps, and comes back with it. */
static void seal_in(const sample *s, mr_budget *b, long n) {
  mr_budget *over = NULL, *outer = b->outer;
  c_left = n;
  mr_message *m = mr_packer_seal_in(packer, b, &over);
  int was = failed;
  no_more_failures();
  CHECK(m || over || was);
  CHECK(!over || over == b || over == outer);
  size_t used = mr_budget_used(b);
  CHECK(m && !over ? used >= mr_message_size(m) : used == 0);
  CHECK(mr_budget_used(outer) == used);
  if (m && over) CHECK(mr_message_count(m) == over);
  if (m && !over) must_receive(s->make, s->test, m);
  mr_message_free(m);
  CHECK(mr_budget_used(b) == 0 && mr_budget_used(outer) == 0);
  must_receive(s->make, s->test, NULL);
}

static void fail_sealing_in_a_budget(const sample *s) {
  int r = 1;
  size_t large = (size_t)1 << 30;
  CHECK(pack_protected(s->make, &r) == LUA_OK && r == 0);
  for (size_t limit = 1; limit <= large; limit *= 4)
    for (int inner = 0; inner < 2; inner++)
      for (long n = -1; n < 4; n++) {
        mr_budget *outer = mr_budget_new(inner ? large : limit, NULL), *b = mr_budget_new(inner ? limit : large, outer);
        seal_in(s, b, n);
        mr_budget_release(b);
        mr_budget_release(outer);
      }
}

static void fail_refusing(void) {
  for (long n = 0, again = 1; again; n++) {
    int r = 0;
    no_more_failures();
    lua_left = n;
    int status = pack_protected("return {a = {io.stdout}}", &r);
    again = failed;
    CHECK(status == LUA_ERRMEM || (r == 1 && strstr(last_error, "message.a[1]: userdata 'FILE*'")));
  }
  no_more_failures();
}

static void everything(void) {
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    thing *t = thing_new();
    for (once = 0; once < 2; once++) {
      open_failing();
      thing_give(t);
      fail_packing(&samples[i], &lua_left);
      fail_unpacking(&samples[i], &lua_left);
      if (!once) fail_sealing_in_a_budget(&samples[i]);
      close_states();
    }
    once = 0;
#ifdef OWN_MALLOC
    open_failing();
    thing_give(t);
    fail_packing(&samples[i], &c_left);
    fail_unpacking(&samples[i], &c_left);
    fail_sealing(&samples[i]);
    close_states();
#endif
    CHECK(refs(t) == 1);
    mr_release(&t->head);
  }
  open_failing();
  fail_refusing();
}

static void test_raw(void) { everything(); }
static void test_generational(void) { generational = 1; everything(); generational = 0; }
static void test_api(void) {
  int was = mr_layout;
  mr_layout = 0;
  everything();
  mr_layout = was;
}

#if defined(PORT_TSAN)
enum { ALL = 0 };                              /* one thread: nothing more to see there, and slow */
#else
enum { ALL = 1 };
#endif

int main(void) {
  RUN(test_raw);
  if (ALL) RUN(test_generational);
  if (ALL) RUN(test_api);
  return finish();
}
