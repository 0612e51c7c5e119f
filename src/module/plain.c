/*
 * plain: mare's modules that are written in Lua, where plain Lua looks for them: as functions of mare.so. So that one file is all there is
 * to install and to find. `mare` itself and the states of processes have a searcher of their own (require.c).
 */
#include <string.h>
#include "base/embedded.h"
#include "module/chunk.h"
#include "module/module.h"

/* What require gave (name, file) is the chunk's `…`, as of any file. */
static int run_embedded(lua_State *L, const char *name) {
  int top = lua_gettop(L);
  const struct mr_embedded *e = mr_embedded;
  while (e->name && strcmp(e->name, name) != 0) e++;
  if (!e->name) return luaL_error(L, "'%s' is not part of this library", name);
  if (mr_chunk_text(L, e->file, (const char *)e->code, e->size) != LUA_OK) return lua_error(L);
  lua_insert(L, 1);
  lua_call(L, top, 1);
  return 1;
}

MR_EXPORT int luaopen_mare_tls(lua_State *L);
MR_EXPORT int luaopen_mare_socket(lua_State *L);
MR_EXPORT int luaopen_mare_socket_common(lua_State *L);
MR_EXPORT int luaopen_mare_socket_tcp(lua_State *L);
MR_EXPORT int luaopen_mare_socket_udp(lua_State *L);
MR_EXPORT int luaopen_mare_orb_giop_codesets(lua_State *L);
MR_EXPORT int luaopen_mare_orb_giop_connection(lua_State *L);
MR_EXPORT int luaopen_mare_orb_giop_ior(lua_State *L);
MR_EXPORT int luaopen_mare_orb_giop_corbaloc(lua_State *L);
MR_EXPORT int luaopen_mare_orb_giop_pcap(lua_State *L);

int luaopen_mare_tls(lua_State *L) { return run_embedded(L, "mare.tls"); }
int luaopen_mare_socket(lua_State *L) { return run_embedded(L, "mare.socket"); }
int luaopen_mare_socket_common(lua_State *L) { return run_embedded(L, "mare.socket.common"); }
int luaopen_mare_socket_tcp(lua_State *L) { return run_embedded(L, "mare.socket.tcp"); }
int luaopen_mare_socket_udp(lua_State *L) { return run_embedded(L, "mare.socket.udp"); }
int luaopen_mare_orb_giop_codesets(lua_State *L) { return run_embedded(L, "mare.orb.giop.codesets"); }
int luaopen_mare_orb_giop_connection(lua_State *L) { return run_embedded(L, "mare.orb.giop.connection"); }
int luaopen_mare_orb_giop_ior(lua_State *L) { return run_embedded(L, "mare.orb.giop.ior"); }
int luaopen_mare_orb_giop_corbaloc(lua_State *L) { return run_embedded(L, "mare.orb.giop.corbaloc"); }
int luaopen_mare_orb_giop_pcap(lua_State *L) { return run_embedded(L, "mare.orb.giop.pcap"); }

/* The IDL compiler. */
#define EMBEDDED(symbol, name) \
  MR_EXPORT int luaopen_##symbol(lua_State *L); \
  int luaopen_##symbol(lua_State *L) { return run_embedded(L, name); }

EMBEDDED(mare_orb_idl, "mare.orb.idl")
EMBEDDED(mare_orb_idl_basic, "mare.orb.idl.basic")
EMBEDDED(mare_orb_idl_builtin, "mare.orb.idl.builtin")
EMBEDDED(mare_orb_idl_checker, "mare.orb.idl.checker")
EMBEDDED(mare_orb_idl_condition, "mare.orb.idl.condition")
EMBEDDED(mare_orb_idl_constant, "mare.orb.idl.constant")
EMBEDDED(mare_orb_idl_decimal, "mare.orb.idl.decimal")
EMBEDDED(mare_orb_idl_errors, "mare.orb.idl.errors")
EMBEDDED(mare_orb_idl_expressions, "mare.orb.idl.expressions")
EMBEDDED(mare_orb_idl_interfaces, "mare.orb.idl.interfaces")
EMBEDDED(mare_orb_idl_lexer, "mare.orb.idl.lexer")
EMBEDDED(mare_orb_idl_literal, "mare.orb.idl.literal")
EMBEDDED(mare_orb_idl_macros, "mare.orb.idl.macros")
EMBEDDED(mare_orb_idl_parser, "mare.orb.idl.parser")
EMBEDDED(mare_orb_idl_preprocessor, "mare.orb.idl.preprocessor")
EMBEDDED(mare_orb_idl_repository, "mare.orb.idl.repository")
EMBEDDED(mare_orb_idl_same, "mare.orb.idl.same")
EMBEDDED(mare_orb_idl_show, "mare.orb.idl.show")
EMBEDDED(mare_orb_idl_tokens, "mare.orb.idl.tokens")
EMBEDDED(mare_orb_idl_types, "mare.orb.idl.types")
EMBEDDED(mare_orb_idl_values, "mare.orb.idl.values")

/* The broker. */
MR_EXPORT int luaopen_mare_orb(lua_State *L);
MR_EXPORT int luaopen_mare_orb_addressing(lua_State *L);
MR_EXPORT int luaopen_mare_orb_broker(lua_State *L);
MR_EXPORT int luaopen_mare_orb_exception(lua_State *L);
MR_EXPORT int luaopen_mare_orb_interface(lua_State *L);
MR_EXPORT int luaopen_mare_orb_invoke(lua_State *L);
MR_EXPORT int luaopen_mare_orb_near(lua_State *L);
MR_EXPORT int luaopen_mare_orb_object(lua_State *L);
MR_EXPORT int luaopen_mare_orb_options(lua_State *L);
MR_EXPORT int luaopen_mare_orb_proxy(lua_State *L);
MR_EXPORT int luaopen_mare_orb_reference(lua_State *L);
MR_EXPORT int luaopen_mare_orb_text(lua_State *L);
MR_EXPORT int luaopen_mare_orb_transport(lua_State *L);
MR_EXPORT int luaopen_mare_orb_types(lua_State *L);

int luaopen_mare_orb(lua_State *L) { return run_embedded(L, "mare.orb"); }
int luaopen_mare_orb_addressing(lua_State *L) { return run_embedded(L, "mare.orb.addressing"); }
int luaopen_mare_orb_broker(lua_State *L) { return run_embedded(L, "mare.orb.broker"); }
int luaopen_mare_orb_exception(lua_State *L) { return run_embedded(L, "mare.orb.exception"); }
int luaopen_mare_orb_interface(lua_State *L) { return run_embedded(L, "mare.orb.interface"); }
int luaopen_mare_orb_invoke(lua_State *L) { return run_embedded(L, "mare.orb.invoke"); }
int luaopen_mare_orb_near(lua_State *L) { return run_embedded(L, "mare.orb.near"); }
int luaopen_mare_orb_object(lua_State *L) { return run_embedded(L, "mare.orb.object"); }
int luaopen_mare_orb_options(lua_State *L) { return run_embedded(L, "mare.orb.options"); }
int luaopen_mare_orb_proxy(lua_State *L) { return run_embedded(L, "mare.orb.proxy"); }
int luaopen_mare_orb_reference(lua_State *L) { return run_embedded(L, "mare.orb.reference"); }
int luaopen_mare_orb_text(lua_State *L) { return run_embedded(L, "mare.orb.text"); }
int luaopen_mare_orb_transport(lua_State *L) { return run_embedded(L, "mare.orb.transport"); }
int luaopen_mare_orb_types(lua_State *L) { return run_embedded(L, "mare.orb.types"); }
