/*
 * chunk: see chunk.h.
 *
 * Invariants (lock held): `bytes` is the sum of the sizes of the chunks in the table and at most LIMIT, except that a single one may be
 * larger; `first`…`last` holds them in the order they came, oldest first; there is one chunk a path, the newest content seen.
 * Nothing is compiled, loaded or freed under the lock. Two processes that require a module at the same instant may both
 * compile it; the later one's chunk is used from then on.
 */
#include <stdlib.h>
#include <string.h>
#include "state/chunk.h"
#include "port/port.h"

enum { SLOTS = 256, LIMIT = 64 << 20 };

typedef struct chunk {
  struct chunk *chain;                 /* same slot */
  struct chunk *newer;                 /* in order of arrival */
  atomic_size_t refs;
  port_stat stat;
  size_t size;
  uint32_t hash;
  char *code;                          /* binary chunk, in the same block */
  char path[];
} chunk;

static port_lock lock;
static chunk *slot[SLOTS], *first, **last = &first;
static size_t bytes;
static atomic_size_t compiled;

static uint32_t hash_of(const char *s) {
  uint32_t h = 2166136261u;
  while (*s) h = (h ^ (unsigned char)*s++) * 16777619u;
  return h;
}

static void release(chunk *c) {
  if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) free(c);
}

static chunk **place(uint32_t hash, const char *path) {
  chunk **p = &slot[hash % SLOTS];
  while (*p && ((*p)->hash != hash || strcmp((*p)->path, path) != 0)) p = &(*p)->chain;
  return p;
}

static chunk *find(const char *path, const port_stat *s) {
  uint32_t hash = hash_of(path);
  port_acquire(&lock);
  chunk *c = *place(hash, path);
  if (c && memcmp(&c->stat, s, sizeof *s) == 0) atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
  else c = NULL;
  port_unlock(&lock);
  return c;
}

/* Takes c out of the table and the order (lock held). */
static void unlink(chunk *c) {
  chunk **p = place(c->hash, c->path);
  *p = c->chain;
  for (p = &first; *p != c; p = &(*p)->newer) {}
  *p = c->newer;
  if (last == &c->newer) last = p;
  bytes -= c->size;
}

static void insert(chunk *c) {
  chunk *dropped = NULL;
  port_acquire(&lock);
  chunk *old = *place(c->hash, c->path);
  if (old) {
    unlink(old);
    old->newer = dropped;
    dropped = old;
  }
  while (first && bytes + c->size > LIMIT) {
    chunk *oldest = first;
    unlink(oldest);
    oldest->newer = dropped;
    dropped = oldest;
  }
  *place(c->hash, c->path) = c;
  *last = c;
  last = &c->newer;
  bytes += c->size;
  port_unlock(&lock);
  while (dropped) {
    chunk *next = dropped->newer;
    release(dropped);
    dropped = next;
  }
}

/* ---- compiling ---- */

typedef struct dump { char *p; size_t len, size; } dump;

static int l_dump_write(lua_State *L, const void *p, size_t len, void *ud) {
  dump *d = (dump *)ud;
  (void)L;
  if (len > d->size - d->len) {
    size_t size = 2 * d->size + len + 1024;
    char *q = (char *)realloc(d->p, size);
    if (!q) return 1;
    d->p = q;
    d->size = size;
  }
  memcpy(d->p + d->len, p, len);
  d->len += len;
  return 0;
}

/* Keeps the function at the top of the stack; without memory it is just not kept. */
static void keep(lua_State *L, const char *path, const port_stat *s) {
  size_t n = strlen(path) + 1;
  dump d = { NULL, 0, 0 };
  atomic_fetch_add_explicit(&compiled, 1, memory_order_relaxed);
  if (mr_lua_dump(L, l_dump_write, &d) != 0) {
    free(d.p);
    return;
  }
  chunk *c = (chunk *)malloc(sizeof *c + n + d.len);
  if (c) {
    c->chain = c->newer = NULL;
    atomic_init(&c->refs, 1);
    c->stat = *s;
    c->size = sizeof *c + n + d.len;
    c->hash = hash_of(path);
    memcpy(c->path, path, n);
    c->code = c->path + n;
    memcpy(c->code, d.p, d.len);
    insert(c);
  }
  free(d.p);
}

static int load_kept(lua_State *L, chunk *c) {
  size_t n = c->size - (size_t)(c->code - (char *)c);
  const char *name = lua_pushfstring(L, "@%s", c->path);
  int status = luaL_loadbufferx(L, c->code, n, name, "b");
  lua_remove(L, -2);
  release(c);
  return status;
}

int mr_chunk_load(lua_State *L, const char *path, const port_stat *s) {
  luaL_checkstack(L, 4, NULL);
  chunk *c = find(path, s);
  if (c) return load_kept(L, c);
  int status = luaL_loadfilex(L, path, NULL);
  if (status == LUA_OK) keep(L, path, s);
  return status;
}

int mr_chunk_text(lua_State *L, const char *file, const char *text, size_t size) {
  port_stat s = { 0, 0, size, (uint64_t)(uintptr_t)text };
  luaL_checkstack(L, 4, NULL);
  chunk *c = find(file, &s);
  if (c) return load_kept(L, c);
  const char *name = lua_pushfstring(L, "@%s", file);
  int status = luaL_loadbufferx(L, text, size, name, "t");
  lua_remove(L, -2);
  if (status == LUA_OK) keep(L, file, &s);
  return status;
}

void mr_chunk_counts(size_t *count, size_t *held) {
  *count = atomic_load(&compiled);
  port_acquire(&lock);
  *held = bytes;
  port_unlock(&lock);
}
