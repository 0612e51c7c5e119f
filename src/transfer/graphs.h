/*
 * graphs: random values for tests, and what they read as, in Lua. `generate(seed, plain)` returns some values that share a graph of up to 250 objects;
 * plain: of nothing but tables without metatables, besides scalars and strings. Every object carries a number, so a description can name it and identity
 * shows: `describe(...)` writes each object once, keys sorted, upvalues by identity, and complains when one number stands for two objects.
 */
#ifndef MR_TRANSFER_GRAPHS_H
#define MR_TRANSFER_GRAPHS_H

#include "transfer/test.h"

static const char *const library =
"local describe_value\n"
"function describe(...)\n"
"  local out, queue, seen, cells, ncells = {}, {}, {}, {}, 0\n"
"  local function uid(o)\n"
"    if type(o) == 'table' then return rawget(o, 'uid') end\n"
"    for i = 1, 255 do local n, v = debug.getupvalue(o, i) if not n then return '?' end if n == 'uid' then return v end end\n"
"  end\n"
"  local names = {}\n"
"  for _, m in ipairs{'string', 'table', 'math'} do names[package.loaded[m]] = m for k, f in pairs(package.loaded[m]) do if type(f) == 'function' then names[f] = m .. '.' .. k end end end\n"
"  names[_G] = '_G' names[print] = 'print'\n"
"  local function label(v)\n"
"    local t = math.type(v) or type(v)\n"
"    if t == 'float' then return v ~= v and 'nan' or string.format('%a', v) end\n"
"    if t == 'userdata' then return tostring(v):match('^%a+') end\n"
"    if names[v] then return names[v] end\n"
"    if t ~= 'table' and t ~= 'function' then return t .. ':' .. tostring(v) end\n"
"    return t .. tostring(uid(v)), true\n"
"  end\n"
"  local function name(v)\n"
"    local id, isobject = label(v)\n"
"    if not isobject then return id end\n"
"    if not seen[id] then seen[id] = v queue[#queue + 1] = v end\n"
"    if not rawequal(seen[id], v) then error('two objects are ' .. id) end\n"
"    return id\n"
"  end\n"
"  local function put(...) out[#out + 1] = table.concat({...}, ' ') end\n"
"  for i = 1, select('#', ...) do put('value', i, name((select(i, ...)))) end\n"
"  local at = 1\n"
"  while queue[at] do\n"
"    local o = queue[at] at = at + 1\n"
"    put('object', name(o))\n"
"    if type(o) == 'table' then\n"
"      local lines, keys = {}, {}\n"
"      for k in next, o do local n = label(k) if keys[n] ~= nil then error('two keys are ' .. n) end lines[#lines + 1] = n keys[n] = k end\n"
"      table.sort(lines)\n"
"      for _, n in ipairs(lines) do put(name(keys[n]), name(rawget(o, keys[n]))) end\n"
"      if getmetatable(o) then put('metatable', name(getmetatable(o))) end\n"
"    else\n"
"      for i = 1, 255 do\n"
"        local n, v = debug.getupvalue(o, i)\n"
"        if not n then break end\n"
"        local cell = debug.upvalueid(o, i)\n"
"        if not cells[cell] then ncells = ncells + 1 cells[cell] = ncells end\n"
"        put('upvalue', n, cells[cell], name(v))\n"
"      end\n"
"    end\n"
"  end\n"
"  return table.concat(out, '\\n')\n"
"end\n"
"local makers = {\n"
"  function(uid, a, b) return function() return uid, a, b end, function(x) a = x return uid end end,\n"
"  function(uid, a) local function f(n) if n == 0 then return a, uid end return f(n - 1) end return f, f end,\n"
"  function(uid, a, b) local function f() return print, uid, b end return f, function() return f, a, b end end,\n"
"}\n"
"function generate(seed, plain)\n"
"  math.randomseed(seed)\n"
"  local random = math.random\n"
"  local n, all = random(1, random(1, 250)), {}\n"
"  local keys = {'id', 'name', 'x', 'y', 'a longer key that is not short by any measure', 'k1', 'k2', 'k3'}\n"
"  local function scalar()\n"
"    local k = random(12)\n"
"    if k <= 3 then return random(-5, 100) elseif k == 4 then return random(0) elseif k == 5 then return random() elseif k == 6 then return 0/0\n"
"    elseif k == 7 then return -0.0 elseif k == 8 then return random(2) == 1 elseif k == 9 then return ('s'):rep(random(0, 60)) .. random(9)\n"
"    elseif k == 10 then return ('long'):rep(random(1, 400)) elseif k == 11 then return keys[random(#keys)] else return math.mininteger end\n"
"  end\n"
"  local named = {string, print, math.floor, table, _G, string.rep, thing}\n"
"  local function value()\n"
"    local k = random(10)\n"
"    if k <= 4 or k == 5 and plain then return scalar() elseif k == 5 then return named[random(#named)] else return all[random(#all)] or 1 end\n"
"  end\n"
"  local classes = {}\n"
"  for i = 1, n do\n"
"    local t = {uid = i}\n"
"    if random(20) == 1 and not plain then t.__index = t classes[#classes + 1] = t end\n"
"    all[#all + 1] = t\n"
"  end\n"
"  local uid = n\n"
"  for i = 1, plain and 0 or random(0, n // 3) do\n"
"    uid = uid + 1\n"
"    local f, g = makers[random(#makers)](uid, value(), value())\n"
"    all[#all + 1] = f\n"
"  end\n"
"  for i = 1, n do\n"
"    local t = all[i]\n"
"    for j = 1, random(0, random(0, 40)) do t[j] = value() end\n"
"    if random(4) == 1 then for j = 1, random(0, 10) do t[j] = nil end end\n"
"    for j = 1, random(0, 6) do\n"
"      local k = random(8)\n"
"      local key\n"
"      if k <= 5 then key = keys[random(#keys)] elseif k == 6 then key = scalar() elseif k == 7 then key = value() else key = 'key' .. random(1000) end\n"
"      if key ~= key then key = 1.5 end\n"
"      if key ~= 'uid' and key ~= nil then t[key] = value() end\n"
"    end\n"
"    if random(60) == 1 then for j = 1, 300 do t['big' .. j] = value() end end\n"
"    if random(12) == 1 then local x = random(3) == 1 and 1.5 or 1 for j = 1, random(40) do t[j] = j * x end end\n"
"    if random(8) == 1 then t[random(#t + 1)] = value() end\n"
"    if random(20) == 1 then for j = 1, random(12) do uid = uid + 1 t[#t + 1] = {uid = uid, id = j, name = scalar() or 1, x = j % 2 == 0 and value() or nil} end end\n"
"    if #classes > 0 and random(3) == 1 then setmetatable(t, classes[random(#classes)]) end\n"
"  end\n"
"  local roots = {}\n"
"  for i = 1, random(1, 4) do roots[i] = value() end\n"
"  return table.unpack(roots)\n"
"end\n";

static inline void load_library(lua_State *L) {
  if (luaL_dostring(L, library)) { fprintf(stderr, "%s\n", lua_tostring(L, -1)); abort(); }
}

/* [values] -> [values, description]; NULL after an error. */
static inline const char *describe(lua_State *L) {
  int n = lua_gettop(L);
  lua_getglobal(L, "describe");
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  if (lua_pcall(L, n, 1, 0)) return NULL;
  return lua_tostring(L, -1);
}

/* The values that the seed makes, on an empty stack. */
static inline void generate(lua_State *L, long seed, int plain) {
  lua_settop(L, 0);
  lua_getglobal(L, "generate");
  lua_pushinteger(L, seed);
  lua_pushboolean(L, plain);
  if (lua_pcall(L, 2, LUA_MULTRET, 0)) { fprintf(stderr, "%s\n", lua_tostring(L, -1)); abort(); }
}

#endif
