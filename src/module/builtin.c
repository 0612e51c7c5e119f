/*
 * builtin: mare's own C modules, which every process can require without the file system.
 * Constant once there are threads; main.c adds its own before.
 */
#include "module/module.h"
#include "module/net.h"
#include "module/state.h"

luaL_Reg mr_builtins[32] = {
  { "mare", luaopen_mare },
  { "mare.process", luaopen_mare_process },
  { "mare.channel", luaopen_mare_channel },
  { "mare.select", luaopen_mare_select },
  { "mare.selector", luaopen_mare_selector },
  { "mare.fiber", luaopen_mare_fiber },
  { "mare.timer", luaopen_mare_timer },
  { "mare.file", luaopen_mare_file },
  { "mare.subprocess", luaopen_mare_subprocess },
  { "mare.signal", luaopen_mare_signal },
  { "mare.net", luaopen_mare_net },
  { "mare.tls.core", luaopen_mare_tls_core },
  { "mare.orb.giop.core", luaopen_mare_orb_giop_core },
  { "mare.orb.cdr", luaopen_mare_orb_cdr },
};

void mr_builtin_add(const char *name, lua_CFunction open) {
  luaL_Reg *r = mr_builtins;
  while (r->name) r++;
  r->func = open;
  r->name = name;
}
