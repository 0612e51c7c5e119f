rockspec_format = "3.0"
package = "mare"
version = "scm-1"
source = { url = "git+file://." } -- `make rock` packs a copy with the place of this folder in it, and with the version of a tag
description = {
  summary = "Lua processes on all cores, with channels",
  detailed = "Isolated Lua states with heaps of their own, scheduled on all cores, that talk through channels.",
  license = "MIT",
}
dependencies = { "lua ~> 5.4" }
external_dependencies = { OPENSSL = { header = "openssl/ssl.h", library = "ssl" } }
build = {
  type = "command",
  build_command = "tools/fetch-llhttp || true; tools/fetch-yyjson || true; cmake -S . -B build/rock -DMARE_CONFIG=rock -DMARE_LUA_INCLUDE=$(LUA_INCDIR) -DMARE_LUA_LIB=$(LUA_LIBDIR) -DMARE_HOST_LUA=$(LUA) -DOPENSSL_ROOT_DIR=$(OPENSSL_DIR) && cmake --build build/rock --parallel 2",
  install_command = "cmake -DBIN=$(BINDIR) -DLIB=$(LIBDIR) -DLUA=$(LUADIR) -P cmake/rock-install.cmake",
  copy_directories = { "docs", "examples", "include", "types" },
}
