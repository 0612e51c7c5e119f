/* buffer: see buffer.h. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "share/buffer.h"

const mr_sharetype *mr_buffer_sealed, *mr_buffer_open;

#define LEAST ((size_t)64)                     /* bytes of a first store that grows */
static const unsigned char none[1];

/* ---- stores ---- */

/* The bytes of a store of ours lie behind it, aligned for every number. */
#define HEAD ((sizeof(mr_store) + 15) & ~(size_t)15)

mr_store *mr_store_new(size_t size, int zeroed) {
  if (size > MR_BUFFER_MOST) return NULL;
  mr_store *s = zeroed ? calloc(1, HEAD + size) : malloc(HEAD + size);
  if (!s) return NULL;
  memset(s, 0, sizeof *s);
  atomic_init(&s->refs, 1);
  s->bytes = (unsigned char *)s + HEAD;
  s->size = size;
  return s;
}

mr_store *mr_store_adopt(void *block, void *bytes, size_t size, void (*drop)(mr_store *s), void *ud) {
  mr_store *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  atomic_init(&s->refs, 1);
  s->bytes = bytes;
  s->size = size;
  s->drop = drop;
  s->block = block;
  s->ud = ud;
  return s;
}

void mr_store_free_block(mr_store *s) { free(s->block); }

void mr_store_charge(mr_store *s, mr_budget *b, size_t n) {
  mr_budget *old = s->budget;
  size_t taken = s->taken;
  if (b) mr_budget_retain(b);
  s->budget = b;
  s->taken = n;
  if (!old) return;
  mr_budget_give(old, taken);
  mr_budget_release(old);
}

void mr_store_retain(mr_store *s) {
  mr_assert(atomic_load_explicit(&s->refs, memory_order_relaxed) > 0);
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void mr_store_release(mr_store *s) {
  if (!s) return;
  mr_assert(atomic_load_explicit(&s->refs, memory_order_relaxed) > 0);
  if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  if (s->drop) s->drop(s);
  mr_store_charge(s, NULL, 0);
  free(s);
}

/* Of one reference, and ours: its room becomes `size`. NULL: no memory, nothing changed. */
static mr_store *resize(mr_store *s, size_t size) {
  mr_store *n = realloc(s, HEAD + size);
  if (!n) return NULL;
  n->bytes = (unsigned char *)n + HEAD;
  n->size = size;
  return n;
}

/* ---- buffers ---- */

#ifdef MR_CHECKS
void mr_buffer_check(const mr_buffer *b) {
  mr_assert(b->bytes && b->length <= MR_BUFFER_MOST);
  mr_assert(b->store || b->length == 0);
  if (b->length) mr_assert(b->bytes >= b->store->bytes && b->bytes + b->length <= b->store->bytes + b->store->size);
}
#endif

static mr_buffer *make(const mr_sharetype *type) {
  mr_buffer *b = calloc(1, sizeof *b);
  if (!b) return NULL;
  b->base.shared.type = type;
  atomic_init(&b->base.shared.refs, 1);
  b->bytes = none;
  return b;
}

mr_buffer *mr_buffer_new(void) { return make(mr_buffer_open); }

mr_buffer *mr_buffer_part(mr_store *s, const unsigned char *bytes, size_t length) {
  mr_buffer *b = make(mr_buffer_sealed);
  if (!b || length == 0) return b;               /* nothing of it keeps the rest */
  mr_store_retain(s);
  b->store = s;
  b->bytes = bytes;
  b->length = length;
  mr_buffer_check(b);
  return b;
}

mr_buffer *mr_buffer_copy(const void *bytes, size_t length) {
  mr_store *s = mr_store_new(length, 0);
  if (!s) return NULL;
  if (length) memcpy(s->bytes, bytes, length);
  mr_buffer *b = mr_buffer_part(s, s->bytes, length);
  mr_store_release(s);
  return b;
}

static int is_wasteful(const mr_buffer *b) {
  return b->length && mr_buffer_alone(b, 0) && b->store->size - b->length > b->store->size / 8;
}

void mr_buffer_hand_over(mr_buffer *b, mr_buffer *sealed) {
  mr_assert(mr_buffer_is_open(b) && !mr_buffer_is_open(sealed) && !sealed->store);
  mr_store *less = is_wasteful(b) ? resize(b->store, b->length) : NULL;
  if (less) {
    b->store = less;
    b->bytes = less->bytes;
  }
  if (less && less->budget) {
    size_t spare = less->taken - mr_store_cost(less->size);
    mr_budget_give(less->budget, spare);
    less->taken -= spare;
  }
  if (b->length) {
    sealed->store = b->store;
    sealed->bytes = b->bytes;
    sealed->length = b->length;
    b->store = NULL;
  }
  mr_buffer_clear(b);
  mr_buffer_check(sealed);
}

void mr_buffer_clear(mr_buffer *b) {
  mr_store *s = b->store;
  b->store = NULL;
  b->bytes = none;
  b->length = 0;
  mr_store_release(s);
}

void mr_buffer_dropped(mr_shared *o) { mr_buffer_clear((mr_buffer *)o); }

void mr_buffer_destroy(mr_shared *o) {
  mr_buffer *b = (mr_buffer *)o;
  mr_buffer_check(b);
  mr_store_release(b->store);
  free(b);
}

/* ---- open ones ---- */

size_t mr_buffer_growth(const mr_buffer *b, size_t total) {
  size_t size = mr_buffer_alone(b, 0) ? b->store->size : 0;
  if (!size && b->length) return total;          /* a copy of what others have, too */
  size_t twice = size + (size < LEAST ? LEAST : size < ((size_t)64 << 20) ? size : size / 4);
  return twice > total ? twice : total;
}

int mr_buffer_grow(mr_buffer *b, size_t size) {
  mr_assert(size >= b->length);
  if (size > MR_BUFFER_MOST) return 0;
  mr_store *s;
  if (mr_buffer_alone(b, 0)) {
    s = resize(b->store, size);
    if (!s) return 0;
  } else {
    s = mr_store_new(size, 0);
    if (!s) return 0;
    if (b->length) memcpy(s->bytes, b->bytes, b->length);
    mr_store_release(b->store);
  }
  b->store = s;
  b->bytes = s->bytes;
  mr_buffer_check(b);
  return 1;
}

/* ---- in Lua ---- */

mr_buffer *mr_buffer_get(lua_State *L, int idx) {
  size_t size = lua_rawlen(L, idx);
  mr_shared *const *block = size < sizeof *block ? NULL : (mr_shared *const *)lua_touserdata(L, idx);
  if (!block || !mr_share_valid || mr_share_valid(block, size) <= 0 || !*block) return NULL;
  const mr_sharetype *type = (*block)->type;
  return type == mr_buffer_sealed || type == mr_buffer_open ? (mr_buffer *)*block : NULL;
}

void mr_buffer_push(lua_State *L, mr_buffer *b) { b->base.shared.type->push(L, &b->base.shared); }

static int l_push(lua_State *L) {
  mr_buffer_push(L, lua_touserdata(L, 1));
  return 1;
}

void mr_buffer_push_new(lua_State *L, mr_buffer *b) {
  if (!b) mr_raise_memory(L);
  lua_pushcfunction(L, l_push);
  lua_pushlightuserdata(L, b);
  int status = lua_pcall(L, 1, 1, 0);
  mr_release(&b->base.shared);
  if (status != LUA_OK) lua_error(L);
}

size_t mr_buffer_range(lua_Integer i, lua_Integer j, size_t n, size_t *from) {
  lua_Integer len = (lua_Integer)n;
  if (i < 0) i = i < -len ? 1 : len + i + 1;
  else if (i == 0) i = 1;
  if (j < 0) j = j < -len ? 0 : len + j + 1;
  else if (j > len) j = len;
  if (i > j) {
    *from = i > len ? n : (size_t)i - 1;
    return 0;
  }
  *from = (size_t)i - 1;
  return (size_t)(j - i) + 1;
}

const unsigned char *mr_buffer_find(const unsigned char *p, size_t n, const char *what, size_t len) {
  if (len == 0) return p;
  while (n >= len) {
    const unsigned char *q = memchr(p, (unsigned char)what[0], n - len + 1);
    if (!q) return NULL;
    if (memcmp(q, what, len) == 0) return q;
    n -= (size_t)(q + 1 - p);
    p = q + 1;
  }
  return NULL;
}
