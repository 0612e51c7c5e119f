/*
 * function: Lua functions, as code and upvalues.
 *
 * An upvalue belongs to the first function of the message that has it; later ones name that owner and are joined to it
 * on arrival, so sharing survives. What an upvalue holds is a value like any other (the sender's globals become the
 * receiver's because that table does).
 */
#include <string.h>
#include "transfer/packet.h"
#include "transfer/code.h"

/* The value on top, however packing reads. */
static inline void read_top(mr_packer *p, mr_value *v) {
  if (p->raw) mr_read_raw(raw_top(p->L) - 1, v);
  else mr_read(p, lua_gettop(p->L), v);
}

/* Stack: [..., function]. Upvalue pointers and objects share the map: their addresses differ. */
static int pack_upvalue(mr_packer *p, uint32_t number, int i, mr_block b) {
  lua_State *L = p->L;
  mr_value v;
  uint32_t owner = number;
  int r = 0;
  uint64_t id = (uint64_t)lua_upvalueid(L, -1, i + 1);
  if (mr_map_put(p, id, &owner)) {
    b.tags[i] = TAG_UPVALUE;
    b.words[i] = owner;
    for (int k = 1; owner != number; k++) {    /* which one of the owner's it is */
      mr_push_object(p, owner);
      uint64_t other = (uint64_t)lua_upvalueid(L, -1, k);
      lua_pop(L, 1);
      if (other == id) { b.words[i] = PAIR(owner, k); return 0; }
    }
    for (int k = 1; ; k++)
      if ((uint64_t)lua_upvalueid(L, -1, k) == id) { b.words[i] = PAIR(owner, k); return 0; }
  }
  lua_getupvalue(L, -1, i + 1);
  read_top(p, &v);
  r = mr_emit(p, &v, &b.tags[i], &b.words[i]);
  lua_pop(L, 1);
  return r;
}

static int count_upvalues(lua_State *L) {
  lua_Debug ar;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">u", &ar);
  return ar.nups;
}

int mr_pack_function(mr_packer *p, uint32_t number) {
  mr_push_object(p, number);
  mr_shared *code;
  int r = mr_code_get(p, number, &code);
  if (r) return r;
  int n = p->raw ? ((const raw_closure *)p->objects[number].bits)->nupvalues : count_upvalues(p->L);
  mr_def *d = mr_take(p, &p->s[DEF], sizeof *d);
  memset(d, 0, sizeof *d);
  d->kind = KIND_FUNCTION;
  d->nup = (uint16_t)n;
  d->u.object = code;
  mr_block b = mr_take_block(p, (size_t)n);
  for (int i = 0; !r && i < n; i++) r = pack_upvalue(p, number, i, b);
  lua_pop(p->L, 1);
  return r;
}
