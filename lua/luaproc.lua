-- For plain Lua's require: luaproc is a part of mare.so, which has it under this name.
local name = "mare.luaproc"
local before = package.loaded[name]
local luaproc = require(name)
package.loaded[name] = before     -- a function's errors name it by what it is found under: luaproc.send
return luaproc
