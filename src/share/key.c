/* key: see key.h. */
#include "share/key.h"
#include "port/port.h"

uint64_t mr_key_secret[2];

void mr_key_setup(void) {
  if (mr_key_secret[1]) return;
  mr_key_secret[0] = port_entropy();
  mr_key_secret[1] = port_entropy() | 1;
}

void mr_key_push(lua_State *L, const mr_key *k) {
  lua_Number n;
  switch (k->type) {
    case KEY_STRING: lua_pushlstring(L, k->text, k->length); break;
    case KEY_INTEGER: lua_pushinteger(L, (lua_Integer)k->number); break;
    case KEY_FLOAT:
      memcpy(&n, &k->number, sizeof n);
      lua_pushnumber(L, n);
      break;
    default: lua_pushboolean(L, k->number != 0);
  }
}
