/*
 * Every allocation fails once while programs are compiled and run: Lua's, and the scratch buffer's. What comes is the memory error; afterwards the
 * same environment does the same work, and nothing leaks (the sanitizer build sees that). Raw and through the API. One thread does it all.
 * needs: plain or asan
 * runs first
 */
#define FAILING 1
#include "module/failing.h"
#include "lua/layout.h"

/* work() with an environment of its own, again() with one that is kept */
static const char script[] =
  "local cdr = require 'mare.orb.cdr'\n"
  "local T = function(k) return { kind = k } end\n"
  "local function types()\n"
  "  local E = { kind = 'enum', id = 'IDL:E:1.0', name = 'E', labels = { 'a', 'b' } }\n"
  "  local S = { kind = 'struct', id = 'IDL:S:1.0', name = 'S', members = { { name = 'n', type = T 'long' }, { name = 's', type = T 'string' },\n"
  "    { name = 'e', type = E }, { name = 'a', type = T 'any' }, { name = 'o', type = { kind = 'interface', id = '', name = 'O' } } } }\n"
  "  S.members[6] = { name = 'next', type = { kind = 'sequence', element = S } }\n"
  "  S.members[7] = { name = 'last', type = { kind = 'array', length = 2, element = T 'wchar' } }\n"
  "  local U = { kind = 'union', id = 'IDL:U:1.0', name = 'U', discriminator = E, members = { { name = 'x', label = 'b', type = S } } }\n"
  "  return { U, T 'wstring', T 'any' }, S\n"
  "end\n"
  "local ior = '\\1\\0\\0\\0\\2\\0\\0\\0A\\0\\0\\0\\0\\0\\0\\0'\n"
  "local function environment()\n"
  "  return cdr.environment { reference_in = function(i) return { i } end, reference_out = function(v) return ('%s'):format(v[1]) end }\n"
  "end\n"
  "local function run(env, list, S, tag)\n"
  "  local p = env:program(list, { 'one', 'two', 'three' })\n"
  "  local function value(depth)\n"
  "    return setmetatable({ n = depth, s = ('text'):rep(20), a = { _anytype = { kind = 'sequence', element = S }, _anyval = {} }, o = { ior }, last = { 'v', 'w' },\n"
  "      next = depth > 0 and { value(depth - 1) } or {} }, { __index = function(_, k) return k == 'e' and 'b' or nil end })\n"
  "  end\n"
  "  local x, w, a\n"
  "  for codec = 28, 29 do\n"
  "    local bytes = p:encode(codec, { x = value(3) }, 'w\\u{e9}' .. tag, { _anytype = list[1], _anyval = { x = value(1) } })\n"
  "    x, w, a = p:decode(bytes, 1, codec)\n"
  "    assert(x._value.next[1].next[1].n == 1 and x._value.last[2] == 'w' and x._field == 'x' and w == 'w\\u{e9}' .. tag and x._value.o[1] == ior)\n"
  "    assert(a._anyval._value.next[1].s == ('text'):rep(20) and a._anytype.kind == 'union')\n"
  "  end\n"
  "  local ok, e = pcall(p.encode, p, 29, { x = 5 })\n"
  "  if ok or (e ~= 'not enough memory' and e ~= 'BAD_PARAM: one.x: S expected, got 5') then error(e, 0) end\n"
  "  if e == 'not enough memory' then error(e, 0) end\n"
  "end\n"
  "local kept, list, S = environment(), types()\n"
  /* Two TypeCodes that share a place among those read lately. */
  "local any = kept:program { T 'any' }\n"
  "local function code(i)\n"
  "  local X = { kind = 'struct', id = 'IDL:X' .. i .. ':1.0', name = 'X', members = { { name = 'm' .. i, type = T 'long' } } }\n"
  "  return kept:typecode(X) .. '\\5\\0\\0\\0'\n"
  "end\n"
  "local function read(bytes) return any:decode(bytes, 1, 29) end\n"
  "local A, i, B = code(1), 1\n"
  "repeat\n"
  "  i = i + 1\n"
  "  B = code(i)\n"
  "  local before = read(A)._anytype\n"
  "  read(B)\n"
  "until read(A)._anytype ~= before\n"
  "function collide()\n"
  "  for _ = 1, 2 do assert(read(A)._anyval.m1 == 5) assert(read(B)._anyval['m' .. i] == 5) end\n"
  "end\n"
  /* Deeper than functions call themselves, and than the first frames. */
  "function nested()\n"
  "  local v = 7\n"
  "  for _ = 1, 110 do v = { _anytype = list[3], _anyval = v } end\n"
  "  v = any:decode(any:encode(29, v), 1, 29)\n"
  "  for _ = 1, 110 do v = v._anyval end\n"
  "  assert(v._anyval == 7)\n"
  "end\n"
  /* Types in each other, deeper than the first frames, that the environment has not met. */
  "local round = 0\n"
  "function types_nested()\n"
  "  round = round + 1\n"
  "  local t = { kind = 'struct', id = '', name = 'N' .. round, members = { { name = 'm', type = T 'long' } } }\n"
  "  for i = 1, 11 do\n"
  "    t = i % 2 == 0 and { kind = 'sequence', element = t } or\n"
  "      { kind = 'union', id = '', name = '', discriminator = T 'long', members = { { name = 'u', label = i, type = t } } }\n"
  "  end\n"
  "  local a = any:decode(any:encode(28, { _anytype = t, _anyval = { _switch = 0 } }), 1, 28)._anytype\n"
  "  for i = 11, 1, -1 do a = a.element or a.members[1].type end\n"
  "  assert(a.name == 'N' .. round)\n"
  "end\n"
  /* Whole messages, in pieces, too. */
  "local core, octets = require 'mare.orb.giop.core', kept:program { T 'string', { kind = 'sequence', element = T 'octet' } }\n"
  "local large, contexts = ('x'):rep(1 << 16), { { 1, ('a'):rep(600) }, { 7, 'b' } }\n"
  "function messages()\n"
  "  local head, idat = core.head(2, true, 3, 'key', 'op', contexts)\n"
  "  local small, pieces = octets:request(head, idat, 5, 29, 's', 'abc'), octets:request(head, idat, 5, 29 | 64, 's', large)\n"
  "  assert(#pieces == #small - 3 + #large and #tostring(pieces) == #pieces)\n"
  "  local kind, _, _, id, _, key, op, at, c = core.parse(small)\n"
  "  assert(kind == 0 and id == 5 and key == 'key' and op == 'op' and c[1] == contexts[1][2] and c[7] == 'b')\n"
  "  local s, o = octets:decode(small, at, 29)\n"
  "  assert(s == 's' and o == 'abc')\n"
  "  assert(octets:reply(5, 29, 0, contexts, 's', 'abc'):sub(-3) == 'abc')\n"
  "  assert(core.reply(2, true, 5, 0, contexts, 'body'):sub(-4) == 'body')\n"
  "  local half = '\\1\\0\\0\\0' .. ('y'):rep(2044)\n"
  "  assert(#core.join { 'GIOP\\1\\2\\3\\0' .. ('<s4'):pack(half), 'GIOP\\1\\2\\1\\7' .. ('<s4'):pack(half) } == 12 + 2048 + 2044)\n"
  "end\n"
  /* Values: shared, in a circle, truncatable and so in chunks, boxed, custom, in an any. */
  "local function valuetypes()\n"
  "  local V = { kind = 'value', id = 'IDL:V:1.0', name = 'V', scoped = 'V', bases = {}, state = { { name = 'n', type = T 'long' } } }\n"
  "  V.state[2] = { name = 'next', type = V }\n"
  "  local W = { kind = 'value', id = 'IDL:W:1.0', name = 'W', scoped = 'W', bases = { V }, truncatable = true, state = { { name = 's', type = T 'string' } } }\n"
  "  local B = { kind = 'valuebox', id = 'IDL:B:1.0', name = 'B', scoped = 'B', type = { kind = 'sequence', element = T 'long' } }\n"
  "  local O = { kind = 'value', id = 'IDL:O:1.0', name = 'O', scoped = 'O', bases = {}, custom = true, state = {} }\n"
  "  local all = { [V.id] = V, [W.id] = W, [B.id] = B, [O.id] = O }\n"
  "  local env = cdr.environment { resolve = function(id) return all[id] end,\n"
  "    custom_out = function(v) return { n = 2, T 'string', v.s, V, v.v } end,\n"
  "    custom_in = function(v, next) v.s, v.v = next(T 'string'), next(V) end }\n"
  "  local class, other = {}, {}\n"
  "  class.__index, other.__index = class, other\n"
  "  env.classes[class], env.classes[W.id], env.classes[other], env.classes[O.id] = W, class, O, other\n"
  "  return env, env:program { V, { kind = 'sequence', element = V }, B, O, T 'any' }, W, class, other\n"
  "end\n"
  "local function turn(p, W, class, other)\n"
  "  local circle = { n = 1, next = { n = 2 } }\n"
  "  circle.next.next = circle\n"
  "  local w = setmetatable({ n = 3, next = circle, s = ('text'):rep(30) }, class)\n"
  "  for codec = 28, 29 do\n"
  "    local bytes = p:encode(codec, w, { circle, w }, { 1, 2 }, setmetatable({ s = 'odd', v = circle }, other), { _anytype = W, _anyval = w })\n"
  "    local v, list, box, odd, any = p:decode(bytes, 1, codec)\n"
  "    assert(getmetatable(v) == class and v.s == w.s and v == list[2] and v.next == list[1] and list[1].next.next == list[1])\n"
  "    assert(box[2] == 2 and odd.s == 'odd' and odd.v == list[1] and any._anyval == v)\n"
  "  end\n"
  "end\n"
  "local env, program, W, class, other = valuetypes()\n"
  "function values() turn(program, W, class, other) end\n"
  "function fresh_values()\n"
  "  local _, p, w, c, o = valuetypes()\n"
  "  turn(p, w, c, o)\n"
  "end\n"
  "function work() local l, s = types() run(environment(), l, s, 'x') end\n"
  "function again() run(kept, list, S, 'y') end\n"
  "function fresh() local l, s = types() run(kept, l, s, 'z') end\n";

static int call(lua_State *L, const char *name) {
  lua_settop(L, 0);
  lua_getglobal(L, name);
  active = 1;
  int status = lua_pcall(L, 0, 0, 0);
  active = 0;
  return status;
}

static void each_allocation(lua_State *L, const char *name, const char *then) {
  for (long n = 0, more = 1; more; n++) {
    left = n;
    failed = 0;
    int status = call(L, name);
    more = failed;
    left = -1;
    if (status != LUA_OK && strcmp(lua_tostring(L, -1), "not enough memory") != 0) fprintf(stderr, "%s, %ld: %s\n", name, n, lua_tostring(L, -1));
    CHECK(status == LUA_OK || (failed && strcmp(lua_tostring(L, -1), "not enough memory") == 0));
    if (call(L, then) != LUA_OK) fprintf(stderr, "%s, %ld, %s: %s\n", name, n, then, lua_tostring(L, -1));
    CHECK(lua_gettop(L) == 0);
  }
}

static void test(int generational) {
  lua_State *L = mr_lua_newstate(allocate, NULL);
  luaL_openlibs(L);
  luaL_requiref(L, "mare.near", luaopen_mare_near, 0);
  luaL_requiref(L, "mare.orb.cdr", luaopen_mare_orb_cdr, 0);
  luaL_requiref(L, "mare.orb.giop.core", luaopen_mare_orb_giop_core, 0);
  if (generational) mr_lua_generational(L);
  if (luaL_dostring(L, script)) { fprintf(stderr, "%s\n", lua_tostring(L, -1)); abort(); }
  for (once = 0; once < 2; once++) {
    each_allocation(L, "again", "again");
    if (!once) each_allocation(L, "collide", "collide");
    if (!once) each_allocation(L, "messages", "messages");
    if (!once) each_allocation(L, "nested", "nested");
    if (!once) each_allocation(L, "types_nested", "types_nested");
    if (!once) each_allocation(L, "values", "values");
    if (!once) each_allocation(L, "fresh_values", "values");
    each_allocation(L, "fresh", "again");
    each_allocation(L, "work", "again");
  }
  lua_close(L);
}

int main(void) {
  test(0);
  test(1);
  mr_layout = 0;
  test(0);
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
