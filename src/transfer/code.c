/*
 * code: see code.h.
 */
#include <stdlib.h>
#include <string.h>
#include "transfer/code.h"

typedef struct mr_code { mr_shared head; size_t size; char bytes[]; } mr_code;

static void destroy(mr_shared *o) { free(o); }
static void push_nothing(lua_State *L, mr_shared *o) { (void)o; lua_pushnil(L); }
static const mr_sharetype code_type = { "code", destroy, push_nothing };

static int write_code(lua_State *L, const void *data, size_t n, void *ud) {
  mr_packer *p = ud;
  (void)L;
  memcpy(mr_take(p, &p->dump, n), data, n);
  return 0;
}

static mr_code *dump(mr_packer *p) {
  p->dump.length = 0;
  lua_dump(p->L, write_code, p, 0);
  mr_code *c = malloc(sizeof *c + p->dump.length);
  if (!c) mr_raise_memory(p->L);
  c->head.type = &code_type;
  atomic_init(&c->head.refs, 1);
  c->size = p->dump.length;
  memcpy(c->bytes, p->dump.at, c->size);
  return c;
}

int mr_code_get(mr_packer *p, uint32_t number, mr_shared **code) {
  (void)number;
  mr_shared **held = mr_take(p, &p->held, sizeof *held);
  p->held.length -= sizeof *held;              /* room first: nothing may raise once there is a reference */
  mr_shared **shared = mr_take(p, &p->shared, sizeof *shared);
  *shared = *code = &dump(p)->head;
  *held = *code;
  p->held.length += sizeof *held;
  return 0;
}

typedef struct source { const mr_code *code; int done; } source;

static const char *read_code(lua_State *L, void *ud, size_t *n) {
  source *s = ud;
  (void)L;
  *n = s->done ? 0 : s->code->size;
  s->done = 1;
  return s->code->bytes;
}

void mr_code_load(lua_State *L, const mr_shared *code) {
  source s = { (const mr_code *)(const void *)code, 0 };
  if (lua_load(L, read_code, &s, "=received", "b") != LUA_OK) lua_error(L);
}
