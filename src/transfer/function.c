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

static void joined(mr_packer *p, uint32_t owner, int which, mr_block b, int i) {
  b.tags[i] = TAG_UPVALUE;
  b.words[i] = PAIR(owner, which + 1);
  if (PORT_UNLIKELY(p->section)) mr_class_cross(p, owner);
}

/* Upvalue pointers and objects share the map: their addresses differ. */
static int upvalue_raw(mr_packer *p, uint32_t number, const raw_closure *f, int i, mr_block b) {
  uint32_t owner = number;
  mr_value v;
  const raw_upval *u = f->upvals[i];
  if (mr_map_put(p, (uint64_t)u, &owner)) {
    const raw_closure *of = (const raw_closure *)p->objects[owner].bits;
    int k = 0;
    while (of->upvals[k] != u) k++;
    joined(p, owner, k, b, i);
    return 0;
  }
  mr_read_raw(u->v, &v);
  return mr_emit(p, &v, &b.tags[i], &b.words[i]);
}

/* Stack: [..., function]. */
static int upvalue_api(mr_packer *p, uint32_t number, int i, mr_block b) {
  lua_State *L = p->L;
  uint32_t owner = number;
  mr_value v;
  void *id = lua_upvalueid(L, -1, i + 1);
  if (mr_map_put(p, (uint64_t)id, &owner)) {
    int k = 0;
    mr_push_object(p, owner);
    while (lua_upvalueid(L, -1, k + 1) != id) k++;
    lua_pop(L, 1);
    joined(p, owner, k, b, i);
    return 0;
  }
  lua_getupvalue(L, -1, i + 1);
  mr_read(p, lua_gettop(L), &v);
  int r = mr_emit(p, &v, &b.tags[i], &b.words[i]);
  lua_pop(L, 1);
  return r;
}

static int count_upvalues(lua_State *L) {
  lua_Debug ar;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">u", &ar);
  return ar.nups;
}

static mr_block define(mr_packer *p, mr_shared *code, int n) {
  mr_def *d = mr_take(p, &p->s[DEF], sizeof *d);
  memset(d, 0, sizeof *d);
  d->kind = KIND_FUNCTION;
  d->nup = (uint16_t)n;
  d->u.object = code;
  return mr_take_block(p, (size_t)n);
}

static int function_raw(mr_packer *p, uint32_t number) {
  mr_shared *code;
  int r = mr_code_get(p, number, &code);
  if (r) return r;
  const raw_closure *f = (const raw_closure *)p->objects[number].bits;
  int n = f->nupvalues;
  mr_block b = define(p, code, n);
  for (int i = 0; !r && i < n; i++) r = upvalue_raw(p, number, f, i, b);
  return r;
}

int mr_pack_function(mr_packer *p, uint32_t number) {
  mr_shared *code;
  if (p->raw) return function_raw(p, number);
  mr_push_object(p, number);
  int r = mr_code_get(p, number, &code);
  if (r) return r;
  int n = count_upvalues(p->L);
  mr_block b = define(p, code, n);
  for (int i = 0; !r && i < n; i++) r = upvalue_api(p, number, i, b);
  lua_pop(p->L, 1);
  return r;
}
