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

/* Every file of lua/mare but those of the command line (spec/require_spec.lua compares). */
#define EMBEDDED(X) \
  X(mare_orb, "mare.orb") \
  X(mare_orb_adapter, "mare.orb.adapter") \
  X(mare_orb_addressing, "mare.orb.addressing") \
  X(mare_orb_broker, "mare.orb.broker") \
  X(mare_orb_cdr_generate, "mare.orb.cdr.generate") \
  X(mare_orb_cdr_support, "mare.orb.cdr.support") \
  X(mare_orb_dispatch, "mare.orb.dispatch") \
  X(mare_orb_endpoint, "mare.orb.endpoint") \
  X(mare_orb_exception, "mare.orb.exception") \
  X(mare_orb_giop_codesets, "mare.orb.giop.codesets") \
  X(mare_orb_giop_connection, "mare.orb.giop.connection") \
  X(mare_orb_giop_corbaloc, "mare.orb.giop.corbaloc") \
  X(mare_orb_giop_ior, "mare.orb.giop.ior") \
  X(mare_orb_giop_pcap, "mare.orb.giop.pcap") \
  X(mare_orb_idl, "mare.orb.idl") \
  X(mare_orb_idl_basic, "mare.orb.idl.basic") \
  X(mare_orb_idl_builtin, "mare.orb.idl.builtin") \
  X(mare_orb_idl_checker, "mare.orb.idl.checker") \
  X(mare_orb_idl_condition, "mare.orb.idl.condition") \
  X(mare_orb_idl_constant, "mare.orb.idl.constant") \
  X(mare_orb_idl_decimal, "mare.orb.idl.decimal") \
  X(mare_orb_idl_errors, "mare.orb.idl.errors") \
  X(mare_orb_idl_expressions, "mare.orb.idl.expressions") \
  X(mare_orb_idl_interfaces, "mare.orb.idl.interfaces") \
  X(mare_orb_idl_lexer, "mare.orb.idl.lexer") \
  X(mare_orb_idl_literal, "mare.orb.idl.literal") \
  X(mare_orb_idl_macros, "mare.orb.idl.macros") \
  X(mare_orb_idl_parser, "mare.orb.idl.parser") \
  X(mare_orb_idl_preprocessor, "mare.orb.idl.preprocessor") \
  X(mare_orb_idl_repository, "mare.orb.idl.repository") \
  X(mare_orb_idl_same, "mare.orb.idl.same") \
  X(mare_orb_idl_show, "mare.orb.idl.show") \
  X(mare_orb_idl_tokens, "mare.orb.idl.tokens") \
  X(mare_orb_idl_types, "mare.orb.idl.types") \
  X(mare_orb_idl_values, "mare.orb.idl.values") \
  X(mare_orb_interface, "mare.orb.interface") \
  X(mare_orb_invoke, "mare.orb.invoke") \
  X(mare_orb_members, "mare.orb.members") \
  X(mare_orb_near, "mare.orb.near") \
  X(mare_orb_object, "mare.orb.object") \
  X(mare_orb_options, "mare.orb.options") \
  X(mare_orb_pool, "mare.orb.pool") \
  X(mare_orb_proxy, "mare.orb.proxy") \
  X(mare_orb_reference, "mare.orb.reference") \
  X(mare_orb_server, "mare.orb.server") \
  X(mare_orb_text, "mare.orb.text") \
  X(mare_orb_transport, "mare.orb.transport") \
  X(mare_orb_types, "mare.orb.types") \
  X(mare_socket, "mare.socket") \
  X(mare_socket_common, "mare.socket.common") \
  X(mare_socket_tcp, "mare.socket.tcp") \
  X(mare_socket_udp, "mare.socket.udp") \
  X(mare_tls, "mare.tls")

#define OPEN(function, name) \
  MR_EXPORT int luaopen_##function(lua_State *L); \
  int luaopen_##function(lua_State *L) { return run_embedded(L, name); }

EMBEDDED(OPEN)
