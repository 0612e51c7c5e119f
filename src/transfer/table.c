/*
 * table: reads one table of the sender, raw or through the API. No metamethod runs.
 *
 * The array values from 1 to the last one that is not nil are a block of their own; the rest are pairs, or, if all keys
 * are a few short strings, the values of a shape: its keys are written once per message. Tables that were made alike have their keys in the same nodes,
 * so the shape of most is guessed by two of them, and then only compared node by node.
 */
#include <string.h>
#include "lua/build.h"
#include "transfer/packet.h"

static mr_def *define_table(mr_packer *p) {
  mr_def *d = mr_take(p, &p->s[DEF], sizeof *d);
  *d = (mr_def){ .kind = KIND_TABLE };
  return d;
}

/* ---- raw ---- */

/* Arrays of integers or floats go without tags. 0: it is not one. */
static int numbers_raw(mr_packer *p, const raw_value *a, uint32_t n) {
  uint8_t tt = a[0].tt;
  if (tt != RAW_INT && tt != RAW_FLT) return 0;
  size_t was = p->s[BODY].length;
  if (raw_take_numbers(mr_take(p, &p->s[BODY], (size_t)n * 8), a, tt, n)) return tt;
  p->s[BODY].length = was;
  return 0;
}

static int array_raw(mr_packer *p, const raw_table *t, mr_def *d) {
  const raw_value *a = t->array;
  uint32_t n = raw_arraysize(t);
  while (n && raw_isnil(a[n - 1].tt)) n--;
  d->narr = n;
  if (!n || (d->uniform = (uint8_t)numbers_raw(p, a, n)) != 0) return 0;
  mr_block b = mr_take_block(p, n);
  for (uint32_t i = 0; i < n; i++) {
    int r = mr_emit_raw(p, a[i].bits, a[i].tt, &b.tags[i], &b.words[i]);
    if (PORT_UNLIKELY(r)) return r;
  }
  return 0;
}

static int pairs_raw(mr_packer *p, const raw_table *t, uint32_t n) {
  mr_block b = mr_take_block(p, (size_t)n * 2);
  uint32_t at = 0;
  for (const raw_node *node = t->node; at < 2 * n; node++) {
    if (raw_isnil(node->tt)) continue;
    int r = mr_emit_raw(p, node->key, node->key_tt, &b.tags[at], &b.words[at]);
    if (!r) r = mr_emit_raw(p, node->bits, node->tt, &b.tags[at + 1], &b.words[at + 1]);
    if (PORT_UNLIKELY(r)) return r;
    at += 2;
  }
  return 0;
}

/* The keys' addresses as they were when the shape was written: they are the sender's own, alive until the pack ends. */
typedef struct keys { uint64_t text[MAX_SHAPE]; uint8_t node[MAX_SHAPE]; uint32_t n; uint64_t hash; } keys;

/* Live entries of the hash part; k is filled as long as all of them may form a shape (k->n == result then). */
static uint32_t count_raw(const raw_table *t, keys *k) {
  uint32_t n = 0, size = raw_nodes(t), shaped = 0;
  k->hash = 0;
  for (uint32_t i = 0; i < size; i++) {
    const raw_node *node = &t->node[i];
    if (raw_isnil(node->tt)) continue;
    n++;
    if (node->key_tt != RAW_SHORT || shaped == MAX_SHAPE || i > 255) continue;
    k->text[shaped] = node->key;
    k->node[shaped++] = (uint8_t)i;
    k->hash = (k->hash ^ node->key) * UINT64_C(0x9E3779B97F4A7C15);
  }
  k->n = shaped;
  return n;
}

static int same_shape(const mr_packer *p, const mr_shape *s, const keys *k) {
  const uint64_t *texts = (const uint64_t *)(const void *)(p->shapekeys.at + s->keys);
  if (s->nkeys != k->n || (s->section && s->section != p->section)) return 0;
  for (uint32_t i = 0; i < k->n; i++) if (texts[i] != k->text[i]) return 0;
  return 1;
}

static int has_class_key(const keys *k) {
  for (uint32_t i = 0; i < k->n; i++) {
    const raw_string *key = (const raw_string *)k->text[i];
    if (mr_is_class_key(key->text, key->shrlen)) return 1;
  }
  return 0;
}

enum { NOT_GUESSED = 255 };                    /* instead of lsizenode */

/* `shape` gets: the number of keys and the shape's own number, then the keys' strings. */
static mr_shape *new_shape(mr_packer *p, const raw_table *t, const keys *k) {
  mr_shape *s = &p->shapes[p->nshapes];
  s->nkeys = k->n;
  s->section = p->section;
  s->place = (uint32_t)(p->s[SHAPE].length / 8);
  s->keys = p->shapekeys.length;
  s->lsizenode = raw_nodes(t) <= 2 * MAX_SHAPE ? t->lsizenode : NOT_GUESSED;
  memcpy(mr_take(p, &p->shapekeys, k->n * 8), k->text, k->n * 8);
  if (s->lsizenode != NOT_GUESSED) {
    uint64_t *nodes = mr_take(p, &p->shapekeys, (size_t)raw_nodes(t) * 8);
    memset(nodes, 0, (size_t)raw_nodes(t) * 8);
    for (uint32_t i = 0; i < k->n; i++) nodes[k->node[i]] = k->text[i];
  }
  uint64_t *at = mr_take(p, &p->s[SHAPE], 8 + 8 * (size_t)k->n);
  *at++ = PAIR(k->n, p->nshapes++);
  for (uint32_t i = 0; i < k->n; i++) {
    const raw_string *text = (const raw_string *)k->text[i];
    at[i] = mr_pack_string(p, text->text, text->shrlen);
  }
  return s;
}

/* The shape k belongs to, if it is known; else where it will be in the map. */
static mr_shape *find_shape(mr_packer *p, const keys *k, uint8_t **place) {
  uint32_t i = (uint32_t)(k->hash >> 40) % (2 * SHAPES);
  for (; p->shapemap[i]; i = (i + 1) % (2 * SHAPES))
    if (same_shape(p, &p->shapes[p->shapemap[i] - 1], k)) return &p->shapes[p->shapemap[i] - 1];
  *place = &p->shapemap[i];
  return NULL;
}

static int fields_raw(mr_packer *p, const raw_table *t, const keys *k) {
  mr_block b = mr_take_block(p, k->n);
  for (uint32_t i = 0; i < k->n; i++) {
    const raw_node *node = &t->node[k->node[i]];
    int r = mr_emit_raw(p, node->bits, node->tt, &b.tags[i], &b.words[i]);
    if (PORT_UNLIKELY(r)) return r;
  }
  return 0;
}

/* Larger tables, and those with other keys. */
static int pairs_have_class_key(const raw_table *t) {
  for (uint32_t i = 0, n = raw_nodes(t); i < n; i++) {
    const raw_node *node = &t->node[i];
    if (raw_isnil(node->tt) || node->key_tt != RAW_SHORT) continue;
    const raw_string *key = (const raw_string *)node->key;
    if (mr_is_class_key(key->text, key->shrlen)) return 1;
  }
  return 0;
}

/* ---- guessing the shape ---- */

static inline uint64_t known_key(const raw_node *node) { return node->key_tt == RAW_SHORT ? node->key : 0; }

static inline uint8_t *guess_of(mr_packer *p, const raw_table *t) {
  uint64_t mixed = known_key(t->node) + 5 * known_key(t->node + raw_nodes(t) - 1) + t->lsizenode;
  return &p->guesses[mixed * UINT64_C(0x9E3779B97F4A7C15) >> 58];
}

static inline const uint64_t *shape_nodes(const mr_packer *p, const mr_shape *s) {
  return (const uint64_t *)(const void *)(p->shapekeys.at + s->keys) + s->nkeys;
}

/* Has the hash part of t the keys of s, each in its node, and no others? */
static inline int has_shape(const mr_packer *p, const mr_shape *s, const raw_table *t) {
  if (s->lsizenode != t->lsizenode || (s->section && s->section != p->section)) return 0;
  const uint64_t *key = shape_nodes(p, s);
  for (const raw_node *node = t->node, *end = node + raw_nodes(t); node < end; node++, key++)
    if (*key ? node->key != *key || node->key_tt != RAW_SHORT || raw_isnil(node->tt) : !raw_isnil(node->tt)) return 0;
  return 1;
}

/* As its shape was guessed; or there is no hash part, and no shape: NULL. */
static int table_guessed(mr_packer *p, const raw_table *t, const mr_shape *s) {
  mr_def *d = define_table(p);
  int r = t->alimit ? array_raw(p, t, d) : 0;
  if (PORT_UNLIKELY(r) || !s) return r;
  d->u.hash.npairs = s->nkeys;
  d->u.hash.shape = s->place + 1;
  const uint64_t *key = shape_nodes(p, s);
  mr_block b = mr_take_block(p, s->nkeys);
  for (const raw_node *node = t->node, *end = node + raw_nodes(t); node < end; node++) {
    if (!*key++) continue;
    r = mr_emit_raw(p, node->bits, node->tt, b.tags++, b.words++);
    if (PORT_UNLIKELY(r)) return r;
  }
  return 0;
}

static int table_raw(mr_packer *p, const raw_table *t, uint32_t number, int body) {
  keys k;
  uint8_t *place = NULL;
  uint32_t n = count_raw(t, &k);
  mr_shape *s = n && k.n == n ? find_shape(p, &k, &place) : NULL;
  if (!body && !p->judge) {
    int isclass = p->objects[number].ismeta;
    if (!isclass && n && !s) isclass = k.n == n ? has_class_key(&k) : pairs_have_class_key(t);
    if (isclass || (s && s->isclass)) return mr_pack_class(p, number);
  }
  if (place && p->nshapes < SHAPES) {
    s = new_shape(p, t, &k);
    s->isclass = (uint8_t)(body && has_class_key(&k));
    *place = (uint8_t)p->nshapes;
  }
  if (s) *guess_of(p, t) = (uint8_t)(s - p->shapes + 1);
  mr_def *d = define_table(p);
  d->u.hash.npairs = n;
  d->u.hash.shape = s ? s->place + 1 : 0;
  int r = array_raw(p, t, d);
  if (!r && n) r = s ? fields_raw(p, t, &k) : pairs_raw(p, t, n);
  if (r || PORT_LIKELY(!t->metatable)) return r;
  mr_value meta = { .tt = RAW_TABLE, .bits = (uint64_t)t->metatable };
  return mr_pack_metatable(p, number, &meta);
}

/* ---- API ---- */

/* Array values are those lua_next yields with the keys 1, 2, 3...; stack: [..., table]. */
static void count_api(lua_State *L, mr_def *d) {
  int inarray = 1;
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (inarray && lua_isinteger(L, -2) && lua_tointegerx(L, -2, NULL) == (lua_Integer)d->narr + 1 && d->narr < INT32_MAX)
      d->narr++;
    else {
      inarray = 0;
      d->u.hash.npairs++;
    }
    lua_pop(L, 1);
  }
}

/* An emergency collection, when the anchor could not grow, may have taken entries out of a weak table since they were counted. */
static void next_api(mr_packer *p, int table) {
  if (!lua_next(p->L, table)) mr_raise_memory(p->L);
}

static int values_api(mr_packer *p, mr_block b, uint32_t narr, mr_block pairs, uint32_t npairs) {
  lua_State *L = p->L;
  int at = lua_gettop(L) + 1, r = 0;
  mr_value v;
  uint32_t i = 0;
  lua_pushnil(L);
  for (; !r && i < narr; i++) {
    next_api(p, at - 1);
    mr_read(p, at + 1, &v);
    r = mr_emit(p, &v, &b.tags[i], &b.words[i]);
    lua_settop(L, at);
  }
  for (i = 0; !r && i < 2 * npairs; i += 2) {
    next_api(p, at - 1);
    mr_read(p, at, &v);
    r = mr_emit(p, &v, &pairs.tags[i], &pairs.words[i]);
    if (!r) {
      mr_read(p, at + 1, &v);
      r = mr_emit(p, &v, &pairs.tags[i + 1], &pairs.words[i + 1]);
    }
    lua_settop(L, at);
  }
  lua_settop(L, at - 1);
  return r;
}

static int is_class_api(lua_State *L) {
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    size_t length;
    const char *text = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &length) : NULL;
    lua_pop(L, 1);
    if (text && mr_is_class_key(text, length)) { lua_pop(L, 1); return 1; }
  }
  return 0;
}

static int table_api(mr_packer *p, uint32_t number) {
  lua_State *L = p->L;
  mr_def *d = define_table(p);
  count_api(L, d);
  uint32_t narr = d->narr, npairs = d->u.hash.npairs;
  size_t first = PAD8(narr) + 8 * (size_t)narr;
  char *all = mr_take(p, &p->s[BODY], first + PAD8((size_t)npairs * 2) + 16 * (size_t)npairs);
  mr_block b = { (uint8_t *)all, (uint64_t *)(void *)(all + PAD8(narr)) };
  mr_block pairs = { (uint8_t *)all + first, (uint64_t *)(void *)(all + first + PAD8((size_t)npairs * 2)) };
  int r = values_api(p, b, narr, pairs, npairs);
  if (r || !lua_getmetatable(L, -1)) return r;
  mr_value meta;
  mr_read(p, lua_gettop(L), &meta);
  r = mr_pack_metatable(p, number, &meta);
  lua_pop(L, 1);
  return r;
}

static int read_table(mr_packer *p, uint32_t number, int body) {
  if (p->raw) return table_raw(p, (const raw_table *)p->objects[number].bits, number, body);
  mr_push_object(p, number);
  int isclass = !body && !p->judge && (p->objects[number].ismeta || is_class_api(p->L));
  int r = isclass ? mr_pack_class(p, number) : table_api(p, number);
  lua_pop(p->L, 1);
  return r;
}

int mr_pack_table(mr_packer *p, uint32_t number) {
  if (PORT_UNLIKELY(!p->raw)) return read_table(p, number, 0);
  const raw_table *t = (const raw_table *)p->objects[number].bits;
  if (PORT_LIKELY(!t->metatable && !p->objects[number].ismeta)) {
    if (!t->lastfree) return table_guessed(p, t, NULL);
    uint8_t guess = *guess_of(p, t);
    const mr_shape *s = guess ? &p->shapes[guess - 1] : NULL;
    if (s && !s->isclass && has_shape(p, s, t)) return table_guessed(p, t, s);
  }
  return table_raw(p, t, number, 0);
}
int mr_pack_body(mr_packer *p, uint32_t number) { return read_table(p, number, 1); }
