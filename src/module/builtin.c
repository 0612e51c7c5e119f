/* builtin: mare's own C modules, which every process can require without the file system. */
#include "module/module.h"
#include "module/state.h"

const luaL_Reg mr_builtins[] = {
  { "mare", luaopen_mare },
  { "mare.process", luaopen_mare_process },
  { "mare.channel", luaopen_mare_channel },
  { NULL, NULL }
};
