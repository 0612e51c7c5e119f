-- OiL's module: docs/oil.md. It is mare.oil; plain Lua looks for it under this name.
return require "mare.oil"
