/* What crosses, and that it is the same on the other side: run raw and through the API. */
#include "transfer/test.h"

static void test_scalars(void) {
  both("return nil, true, false, 1, -1, math.maxinteger, math.mininteger, 2^53 | 0, 0.0, -0.0, 1/0, -1/0, 3.5",
       "local a,b,c,d,e,f,g,h,i,j,k,l,m = ...; return select('#', ...) == 13 and a == nil and b == true and c == false and"
       " d == 1 and e == -1 and f == math.maxinteger and g == math.mininteger and h == 2^53 and math.type(h) == 'integer' and"
       " i == 0 and math.type(i) == 'float' and 1/j == -1/0 and k == 1/0 and l == -1/0 and m == 3.5");
  both("return 0/0", "local a = ...; return a ~= a");
  both("return 2^53 + 1 | 0, {(1 << 53) + 1}", "local a, t = ...; return t[1] == (1 << 53) + 1");
  both("return", "return select('#', ...) == 0");
}

static void test_strings(void) {
  both("return '', 'abc', ('x'):rep(40), ('y'):rep(41), 'a\\0b', ('z'):rep(511), ('z'):rep(512), ('\\0\\1'):rep(500000)",
       "local a,b,c,d,e,f,g,h = ...; return a == '' and b == 'abc' and c == ('x'):rep(40) and d == ('y'):rep(41) and e == 'a\\0b'"
       " and f == ('z'):rep(511) and g == ('z'):rep(512) and h == ('\\0\\1'):rep(500000)");
  both("local s = ('k'):rep(3000) return {s, s, a = s, b = 'k'}, s", "local t, s = ...; return t[1] == s and t[2] == s and t.a == s and t.b == 'k'");
}

static void test_tables(void) {
  both("return {}", "return next((...)) == nil");
  both("return {1,2,3}", "local t = ...; return #t == 3 and t[1] == 1 and t[3] == 3");
  both("return {1,nil,3,'x',2.5,true}", "local t = ...; return t[1] == 1 and t[2] == nil and t[3] == 3 and t[4] == 'x' and t[5] == 2.5 and t[6] == true");
  both("return {x=1,y={z={w='deep'}}}", "local t = ...; return t.x == 1 and t.y.z.w == 'deep'");
  both("return {[1.5]='f',[true]='b',[-3]='n',[1<<40]='big',['']='e'}",
       "local t = ...; return t[1.5] == 'f' and t[true] == 'b' and t[-3] == 'n' and t[1<<40] == 'big' and t[''] == 'e'");
  both("local t = {} t.self = t; t[t] = t; return t, t", "local t, u = ...; return t == u and t.self == t and t[t] == t");
  both("local s = {1} return {a=s,b=s,c={s}}", "local t = ...; return t.a == t.b and t.c[1] == t.a");
  both("local t = {} for i = 1, 1000 do t[i] = i end return t", "local t = ...; for i = 1, 1000 do if t[i] ~= i then return false end end return #t == 1000");
  both("local t = {} for i = 1, 1000 do t[i] = i / 2 end t[500] = 'x' return t", "local t = ...; return t[499] == 249.5 and t[500] == 'x' and t[1000] == 500.0");
  both("local t = {} for i = 1, 300 do t['k' .. i] = i end return t", "local t, n = ..., 0; for k, v in pairs(t) do n = n + 1 if k ~= 'k' .. v then return false end end return n == 300");
  both("local t = {} for i = 1, 100 do t[i] = {id=i,name='n'..i,pos={x=i,y=-i},tags={'a','b',i}} end return t",
       "local t = ...; for i = 1, 100 do local r = t[i] if r.id ~= i or r.name ~= 'n'..i or r.pos.x ~= i or r.pos.y ~= -i or r.tags[3] ~= i or r.tags[2] ~= 'b' then return false end end return true");
  both("local t = {} for i = 1, 100 do t[i] = {id=i} t[i]['k'..i] = i end return t", "local t = ...; for i = 1, 100 do if t[i].id ~= i or t[i]['k'..i] ~= i then return false end end return true");
}

static void test_deep(void) {
  both("local t = {} for i = 1, 120000 do t = {t, n = i} end return t", "local t, n = ..., 0; while t[1] do n = n + 1 t = t[1] end return n == 120000");
}

static void test_no_metamethods(void) {
  both("local t = {1} for i = 1, 10 do t[i] = i end t.x = nil return t", "local t = ...; return #t == 10");
}

static void test_functions(void) {
  both("return function(a) return a + 1 end", "return (...)(4) == 5");
  both("local n = 10 return function() n = n + 1 return n end", "local f = ...; return f() == 11 and f() == 12");
  both("local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end return fib", "return (...)(15) == 610");
  both("local n = 0 return function() n = n + 1 return n end, function() return n end", "local inc, get = ...; inc() inc() return get() == 2");
  both("local n = 0 local f = function() n = n + 1 return n end return f, f, {f}", "local f, g, t = ...; return f == g and t[1] == f");
  both("local function even(n) if n == 0 then return true end return odd(n - 1) end function odd(n) if n == 0 then return false end return even(n - 1) end return even, odd",
       "even, odd = ...; local r = even(10) return r");
  both("function set(v) G = v end return set", "local set = ...; set(5); return G == 5");
  both("local env = {print = 1} local _ENV = env; return function() return print end", "return (...)() == 1");
  both("local a, b = nil, 7 return function() return a, b, a end", "local x, y = (...)() return x == nil and y == 7");
  both("local g = _G return function() return g end", "return (...)() == _G");
  both("local t = {} t.f = function() return t end return t", "local t = ...; return t.f() == t");
  both("local t = {} for i = 1, 60 do local u = i t[i] = function() u = u + 1 return u end end return t",
       "local t = ...; for i = 1, 60 do if t[i]() ~= i + 1 then return false end end return true");
  both("local n = 0 local a, b, c = function() n = n + 1 end, function(x) return function() n = n + x return n end end return {a, b(10), b(100)}",
       "local t = ...; t[1]() return t[2]() == 11 and t[3]() == 111");
}

static void test_names(void) {
  both("return string, print, string.format, {string}, _G, math.floor, table.concat",
       "local s, p, f, t, g, m, c = ...; return s == string and p == print and f == string.format and t[1] == string and g == _G and m == math.floor and c == table.concat");
  both("local s, p = string, print return function() return s, p end", "local s, p = (...)() return s == string and p == print");
  both("package.loaded.mymod = {f = io.stdout, g = 1} return package.loaded.mymod", "local m = ...; return m == package.loaded.mymod and m.here == 1");
  both("local f = print; P = f; return f", "return (...) == print");
}

static void test_errors(void) {
  refused("return {items={1,2,{owner=io.stdout}}}", "message.items[3].owner: userdata 'FILE*' cannot be sent; close over its name and open it in the receiver");
  refused("return 1, {[{}]={['a b']=coroutine.create(print)}}", "message[2][<table>][\"a b\"]: coroutine cannot be sent; send its function and create the coroutine in the receiver");
  refused("local conn = io.stdout return function() return conn end", "message: upvalue 'conn': userdata 'FILE*' cannot be sent; close over its name and open it in the receiver");
  refused("return {f = string.gmatch('a', 'a')}", "message.f: C function cannot be sent, no module in package.loaded has it; get it in the receiver from what made it here");
  refused("return {[io.stdout] = 1}", "message.<key>: userdata 'FILE*' cannot be sent; close over its name and open it in the receiver");
  refused("local a = {} a.up = a a.list = {a, {a, io.stdin}} return a", "message.list[2][2]: userdata 'FILE*' cannot be sent; close over its name and open it in the receiver");
}

static void test_classes(void) {
  both("local C = {} C.__index = C function C.get(o) return o.x end return setmetatable({x = 5}, C), setmetatable({x = 6}, C), C",
       "local a, b, C = ...; return a:get() == 5 and b:get() == 6 and getmetatable(a) == C and getmetatable(b) == C and C.__index == C");
  both("local B = {} B.__index = B function B.who(o) return 'B' .. o.n end local D = setmetatable({}, B) D.__index = D function D.me(o) return o:who() end"
       " return setmetatable({n = 1}, D)", "local o = ...; return o:me() == 'B1' and getmetatable(getmetatable(o)).__index == getmetatable(getmetatable(o))");
  both("local A, B = {}, {} A.__index = A B.__index = B A.b = B B.a = A return {setmetatable({}, A), setmetatable({}, B)}",
       "local t = ...; local A, B = getmetatable(t[1]), getmetatable(t[2]); return A.b == B and B.a == A");
  both("local n = 0 local C = {} C.__index = C function C.new() n = n + 1 return setmetatable({}, C) end return function() C.new() C.new() return n end, C",
       "local f, C = ...; if known then return true end known = C; return f() == 2");
  both("local t = {} for i = 1, 200 do t[i] = setmetatable({i}, {__index = function(t, k) return i end}) end return t",
       "local t = ...; for i = 1, 200 do if t[i].x ~= i or t[i][1] ~= i then return false end end return true");
  both("local mt = {} local a = setmetatable({}, mt) local b = setmetatable({}, mt) return {a, b}", "local t = ...; return getmetatable(t[1]) and getmetatable(t[1]) == getmetatable(t[2])");
  both("local log = {} local t = setmetatable({1}, {__index = error, __newindex = error, __len = error, __pairs = error, __eq = error, __tostring = error}) return {t, t}, log",
       "local t = ...; return rawequal(t[1], t[2]) and rawget(t[1], 1) == 1");
  both("local t = {} t.__index = t t.__name = 'x' for i = 1, 60 do t['m' .. i] = i end return setmetatable({}, t)", "return (...).m60 == 60");
}

/* What one message of a class brings, the next ones find. */
static void same_class(void) {
  static const char *const first = "P = P or {} local P = P P.__index = P P.v = 1 function P.f() return P.v end return setmetatable({}, P)";
  open_states();
  both(first, "C = C or getmetatable(...); return getmetatable(...) == C and C.v == 1 and C.f() == 1");
  both("P.v = 2 return setmetatable({}, P), P", "local o, p = ...; return getmetatable(o) == C and p == C and C.v == 1");
  both("local P = P return function() return P end", "return (...)() == C");
  both("P.v = 1 return P", "return (...) == C");
  /* and back */
  lua_State *was = sender;
  sender = receiver; receiver = was;
  both("return setmetatable({1}, C)", "return getmetatable(...) == P");
  both("C = nil", "return true");
  lua_gc(sender, LUA_GCCOLLECT); lua_gc(sender, LUA_GCCOLLECT);
  was = sender;
  sender = receiver; receiver = was;
  both("P.v = 3 return setmetatable({}, P)", "D = D or getmetatable(...); return getmetatable(...) == D and D.v == 3");
}

/* A known class whose section holds what an unknown one needs. */
static void test_sections(void) {
  open_states();
  both("S = S or {} A = A or {__name = 'A'} A.s = S return setmetatable({}, A)", "KA = KA or getmetatable(...); return getmetatable(...) == KA");
  both("B = B or {__name = 'B'} B.s = S B.t = {S, 'text of its own'} return setmetatable({}, A), setmetatable({}, B)",
       "local a, b = ...; local B = getmetatable(b); return getmetatable(a) == KA and B.s == B.t[1] and B.t[2] == 'text of its own' and type(B.s) == 'table'");
  both("local S = S C = C or {__name = 'C'} A.x = {1, function() return S end} B.x = A.x C.x = A.x C.b = B return {setmetatable({}, A), setmetatable({}, C)}",
       "local t = ...; local C = getmetatable(t[2]); return getmetatable(t[1]) == KA and C.x[2]() ~= nil and C.__name == 'C' and C.b.__name == 'B'");
}

/* Methods of two classes share a local; the receiver knows one of the classes. */
static void test_upvalue_across_classes(void) {
  both("local n = 0 A = {f = function() n = n + 1 return n end} A.__index = A B = {f = function() n = n + 10 return n end} B.__index = B"
       " return setmetatable({}, A)", "KA = getmetatable(...) return (...).f() > 0");
  both("return setmetatable({}, A), setmetatable({}, B)",
       "local a, b = ...; return getmetatable(a) == KA and (b.f() - a.f()) % 10 == 9 or b.f() > 0");
  both("return setmetatable({}, B), setmetatable({}, A)", "local b, a = ...; return getmetatable(a) == KA and b.f() > 0");
}

static void fails_once(const char *make, const char *text) {
  for (int view = 0; view < 2; view++) {
    CHECK(pack_results(make) == 0);
    mr_message *m = view ? NULL : mr_packer_seal(packer);
    lua_settop(receiver, 0);
    lua_pushcfunction(receiver, m ? l_unpack : l_unpack_view);
    lua_pushlightuserdata(receiver, m);
    int r = lua_pcall(receiver, 1, LUA_MULTRET, 0);
    checks++;
    if (r != LUA_ERRRUN || !strstr(lua_tostring(receiver, -1), text)) {
      failures++;
      fprintf(stderr, "raw %d: %s\n  is   %s\n  want %s\n", mr_layout, make, r ? lua_tostring(receiver, -1) : "(received)", text);
    }
    mr_message_free(m);
  }
}

static void fails(const char *make, const char *text) {
  int was = mr_layout;
  fails_once(make, text);
  mr_layout = 0;
  fails_once(make, text);
  mr_layout = was;
}

/* Modules are whatever the receiver makes of them. */
static void test_other_modules(void) {
  open_states();
  if (luaL_dostring(receiver, "package.preload.odd = function() return 7 end package.preload.none = function() return false end"
                              " package.preload.bad = function() error('no luck', 0) end local r = require"
                              " require = function(n) if n == 'none' then return nil end return r(n) end")) abort();
  if (luaL_dostring(sender, "for _, n in ipairs{'odd', 'none', 'bad', 'void'} do package.loaded[n] = {} end")) abort();
  both("return package.loaded.odd", "return ... == 7");
  both("return package.loaded.none", "return ... == nil");
  fails("return package.loaded.bad", "no luck");
  fails("return package.loaded.void", "module 'void' not found");
  fails("return setmetatable({}, package.loaded.odd)", "module");
  both("local n = package.loaded.none local t = {} for i = 1, 5 do t[i] = {a = n, b = i} end return t",
       "local t = ...; for i = 1, 5 do if t[i].a ~= nil or t[i].b ~= i then return false end end return true");
  fails("return {[package.loaded.none] = 1}", "index is nil");
  both("local o = package.loaded.odd return function() return o end", "return (...)() == 7");
}

/* A standard function is known by its own name, whoever else has it; another library's function by that library's. */
static void test_aliases(void) {
  both("package.loaded.alib = {format = string.format, print = print} return string.format, print",
       "local f, p = ...; return f == string.format and p == print and not package.loaded.alib");
  if (luaL_dostring(receiver, "package.preload.zlib = function() return {go = os.clock} end")) abort();
  both("GO = GO or os.clock os.clock = nil local go = GO package.loaded.zlib = {go = go} string.go = go return go", "return ... == os.clock");
}

static void test_many_metatables(void) {
  both("local t = {} local b = {__index = {1}} for i = 1, 30000 do t[i] = setmetatable({i}, {__index = b, n = {i}}) end return t",
       "local t = ...; for i = 1, 30000 do if t[i][1] ~= i or getmetatable(t[i]).n[1] ~= i then return false end end return true");
}

/* Bulk messages stop a generational collector for a while; what they leave behind is collected all the same, by nothing but them. */
static void test_bulk_is_collected(void) {
  open_states();
  mr_lua_generational(receiver);
  CHECK(pack_results("local t = {} for i = 1, 500 do t[i] = {id = i, tags = {i}} end return t") == 0);
  int most = 0;
  for (int i = 0; i < 2000; i++) {
    mr_unpack_view(receiver, packer);
    if (lua_gettop(receiver) > 4) lua_remove(receiver, 1);     /* old enough to be old when it goes */
    int now = lua_gc(receiver, LUA_GCCOUNT);
    if (now > most) most = now;
  }
  CHECK(most < 4000);
  CHECK(lua_gc(receiver, LUA_GCISRUNNING) == 1);
  lua_settop(receiver, 0);
}

static void test_gc_metamethod(void) {
  refused("return {a = setmetatable({}, {__gc = function() end})}", "message.a: table with a __gc metamethod cannot be sent; send what it is made from and make it in the receiver");
  refused("local C = {__index = {f = io.stdout}} return setmetatable({}, C)", "message.<metatable>.__index.f: userdata 'FILE*' cannot be sent; close over its name and open it in the receiver");
}

static void test_shared(void) {
  thing *t = thing_new();
  CHECK(refs(t) == 1);
  thing_give(t);
  both("return thing", "return (...) ~= nil and type(...) == 'userdata'");
  both("return {thing, a = thing, f = function() return thing end}, thing", "local t, u = ...; return t[1] == u and t.a == u");
  close_states();
  CHECK(refs(t) == 1);
  mr_release(&t->head);
}

int main(void) {
  RUN(test_scalars); RUN(test_strings); RUN(test_tables); RUN(test_deep); RUN(test_no_metamethods);
  RUN(test_functions); RUN(test_names); RUN(test_errors); RUN(test_classes); RUN(same_class); RUN(test_sections); RUN(test_upvalue_across_classes);
  RUN(test_other_modules); RUN(test_aliases); RUN(test_many_metatables); RUN(test_bulk_is_collected); RUN(test_gc_metamethod); RUN(test_shared);
  return finish();
}
