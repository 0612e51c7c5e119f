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
