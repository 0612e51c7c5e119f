/*
 * fields: walks the string keys of a table of the sender, and finds things in its registry. No metamethod runs, nothing
 * is allocated, so the collector never steps (see pack.c).
 */
#include <string.h>
#include "transfer/packet.h"

void mr_fields_open(mr_packer *p, mr_fields *f, const mr_value *table) {
  f->i = 0;
  f->t = (const raw_table *)table->bits;
  f->at = table->at;
  if (!p->raw) lua_pushnil(p->L);
}

static int next_raw(mr_fields *f) {
  for (uint32_t n = raw_nodes(f->t); f->i < n; f->i++) {
    const raw_node *node = &f->t->node[f->i];
    if (raw_isnil(node->tt) || node->key_tt != RAW_SHORT) continue;
    raw_value key = { node->key, node->key_tt }, value = { node->bits, node->tt };
    mr_read_raw(&key, &f->key);
    mr_read_raw(&value, &f->value);
    f->i++;
    return 1;
  }
  return 0;
}

int mr_fields_next(mr_packer *p, mr_fields *f) {
  if (p->raw) return next_raw(f);
  if (f->i++) lua_pop(p->L, 1);                /* the last value; its key stays for lua_next */
  while (lua_next(p->L, f->at)) {
    if (lua_type(p->L, -2) == LUA_TSTRING) {
      mr_read(p, lua_absindex(p->L, -2), &f->key);
      mr_read(p, lua_absindex(p->L, -1), &f->value);
      return 1;
    }
    lua_pop(p->L, 1);
  }
  return 0;
}

void mr_fields_close(mr_packer *p, mr_fields *f) {
  (void)f;
  if (!p->raw) lua_pop(p->L, 2);
}

int mr_field_find(mr_packer *p, const mr_value *table, const char *name, mr_value *value) {
  size_t length = strlen(name);
  mr_fields f;
  mr_fields_open(p, &f, table);
  while (mr_fields_next(p, &f)) {
    if (f.key.length != length || memcmp((const char *)f.key.bits, name, length) != 0) continue;
    *value = f.value;
    mr_fields_close(p, &f);
    return 1;
  }
  return 0;
}

static inline int is_key(const raw_node *n, uint8_t tt, const void *key, size_t length) {
  if (n->key_tt != tt || raw_isnil(n->tt)) return 0;
  if (tt == RAW_LIGHT) return n->key == (uint64_t)key;
  const raw_string *s = (const raw_string *)n->key;
  return s->shrlen == length && memcmp(s->text, key, length) == 0;
}

/* States of one make have the same keys in the same places; so where the key was last time is tried first. */
const raw_node *mr_registry_find(lua_State *L, uint32_t *hint, uint8_t tt, const void *key, size_t length) {
  const raw_table *t = raw_registry(L);
  uint32_t n = raw_nodes(t);
  if (PORT_LIKELY(*hint < n && is_key(&t->node[*hint], tt, key, length))) return &t->node[*hint];
  for (uint32_t i = 0; i < n; i++)
    if (is_key(&t->node[i], tt, key, length)) return &t->node[*hint = i];
  return NULL;
}
