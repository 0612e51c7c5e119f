/* named: see named.h. Things are looked up by name when they are opened, not when they are used: one lock for each space will do. */
#include "base/rank.h"
#include "share/key.h"
#include "share/named.h"

#include <stdlib.h>

typedef struct entry {
  struct entry *next;
  uint64_t hash;
  mr_shared *object;                   /* the name's reference */
  size_t length;
  char text[];                         /* ends with a zero */
} entry;

typedef struct table {
  _Alignas(PORT_CACHELINE) port_lock lock;
  size_t count, size;                  /* size: 0 or a power of two */
  entry **slot;
} table;

#define TABLE { .lock = PORT_LOCK(MR_RANK_NAMES) }
static table tables[NAMED_SPACES] = { TABLE, TABLE, TABLE };

/* (lock held) Where the entry is linked; NULL: there is none. */
static entry **find(table *t, const char *name, size_t length, uint64_t hash) {
  if (!t->size) return NULL;
  for (entry **e = &t->slot[hash & (t->size - 1)]; *e; e = &(*e)->next)
    if ((*e)->hash == hash && (*e)->length == length && memcmp((*e)->text, name, length) == 0) return e;
  return NULL;
}

/* (lock held) A new reference, or NULL. */
static mr_shared *find_object(table *t, const char *name, size_t length, uint64_t hash) {
  entry **e = find(t, name, length, hash);
  if (!e) return NULL;
  mr_retain((*e)->object);
  return (*e)->object;
}

/* (lock held) *old is what to free. Without memory the chains get longer; 0: there are none at all. */
static int grow(table *t, entry ***old) {
  size_t size = t->size ? t->size * 2 : 8;
  entry **slot = calloc(size, sizeof(entry *));
  if (!slot) return t->size != 0;
  for (size_t i = 0; i < t->size; i++)
    for (entry *e = t->slot[i], *next; e; e = next) {
      next = e->next;
      e->next = slot[e->hash & (size - 1)];
      slot[e->hash & (size - 1)] = e;
    }
  *old = t->slot;
  t->slot = slot;
  t->size = size;
  return 1;
}

mr_shared *mr_named_find(int space, const char *name, size_t length) {
  table *t = &tables[space];
  uint64_t hash = mr_hash_bytes(name, length);
  port_acquire(&t->lock);
  mr_shared *o = find_object(t, name, length, hash);
  port_unlock(&t->lock);
  return o;
}

static entry *entry_new(const char *name, size_t length, uint64_t hash, mr_shared *o) {
  entry *e = malloc(sizeof *e + length + 1);
  if (!e) return NULL;
  *e = (entry){ .hash = hash, .object = o, .length = length };
  memcpy(e->text, name, length);
  e->text[length] = 0;
  return e;
}

/* The object that has the name from now on, with a new reference; NULL: no memory. */
static mr_shared *enter(table *t, entry *e) {
  entry **old = NULL;
  port_acquire(&t->lock);
  mr_shared *o = find_object(t, e->text, e->length, e->hash);
  if (!o && (t->count < t->size || grow(t, &old))) {
    entry **slot = &t->slot[e->hash & (t->size - 1)];
    e->next = *slot;
    *slot = e;
    t->count++;
    o = e->object;
    mr_retain(o);
  }
  port_unlock(&t->lock);
  free(old);
  return o;
}

mr_shared *mr_named_get(int space, const char *name, size_t length, mr_shared *(*make)(void *arg), void *arg, int *made) {
  mr_shared *o = mr_named_find(space, name, length);
  *made = 0;
  if (o) return o;
  mr_shared *fresh = make(arg);
  entry *e = fresh ? entry_new(name, length, mr_hash_bytes(name, length), fresh) : NULL;
  o = e ? enter(&tables[space], e) : NULL;
  *made = o && o == fresh;
  if (*made) return o;
  free(e);
  if (fresh) mr_release(fresh);
  return o;
}

mr_shared *mr_named_drop(int space, const char *name, size_t length, const mr_shared *only) {
  table *t = &tables[space];
  entry *gone = NULL;
  port_acquire(&t->lock);
  entry **e = find(t, name, length, mr_hash_bytes(name, length));
  if (e && (!only || (*e)->object == only)) {
    gone = *e;
    *e = gone->next;
    t->count--;
  }
  port_unlock(&t->lock);
  mr_shared *o = gone ? gone->object : NULL;
  free(gone);
  return o;
}

void mr_named_each(int space, void (*fn)(const char *name, size_t length, mr_shared *o, void *arg), void *arg) {
  table *t = &tables[space];
  port_acquire(&t->lock);
  for (size_t i = 0; i < t->size; i++)
    for (entry *e = t->slot[i]; e; e = e->next) fn(e->text, e->length, e->object, arg);
  port_unlock(&t->lock);
}
