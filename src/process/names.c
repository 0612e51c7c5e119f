/*
 * names: which process has which name; see names.h.
 *
 * The table is cut into stripes by the name's hash. In each the entries are in two ways of chains under one lock, by name and by process: so an
 * end finds all names of a process, however many others there are. No other lock is taken under a stripe's.
 *
 * Invariants.
 *  - A process in the table lives: its record needs no reference there, and who finds it takes one under the lock. For its end takes it out
 *    before it gives its own reference up.
 *  - `named` of a process has the bit of each stripe where it has, or had, a name. Its end sets NAMED_OVER and then looks at those stripes.
 *    Who gives it a name puts that into the table, sets the bit, and takes it out again if NAMED_OVER was set: so one of the two sees the other.
 */
#include "base/show.h"
#include "process/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRIPES = 7, NAMED_OVER = 1 << STRIPES, FIRST_SLOTS = 8 };

typedef struct entry {
  struct entry *next, *sibling;        /* of the same slot by name, and by process */
  mr_proc *proc;
  uint64_t hash;
  size_t len;
  char text[];
} entry;

typedef struct stripe {
  _Alignas(PORT_CACHELINE) port_lock lock;
  size_t count, size;                /* size: 0 or a power of two */
  entry **slot;                      /* by name; behind these `size` more, by process */
} stripe;

static stripe stripes[STRIPES];

static uint64_t hash_of(const char *name, size_t len) {
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)name[i]) * 1099511628211u;
  return h ^ h >> 29;
}

static unsigned stripe_of(uint64_t hash) { return (unsigned)(hash >> 32) % STRIPES; }
static entry **by_name(const stripe *t, uint64_t hash) { return &t->slot[hash & (t->size - 1)]; }
static entry **by_proc(const stripe *t, const mr_proc *p) { return &t->slot[t->size + (p->job.id & (t->size - 1))]; }

/* (lock held) */
static entry **find(const stripe *t, const char *name, size_t len, uint64_t hash) {
  if (!t->size) return NULL;
  for (entry **e = by_name(t, hash); *e; e = &(*e)->next)
    if ((*e)->hash == hash && (*e)->len == len && memcmp((*e)->text, name, len) == 0) return e;
  return NULL;
}

static void link_in(stripe *t, entry *e) {
  entry **name = by_name(t, e->hash), **proc = by_proc(t, e->proc);
  e->next = *name;
  *name = e;
  e->sibling = *proc;
  *proc = e;
}

/* (lock held) Without memory for more slots the chains get longer. 0: there are none at all. */
static int grow(stripe *t) {
  size_t was = t->size, size = was ? was * 2 : FIRST_SLOTS;
  entry **old = t->slot, **slot = calloc(2 * size, sizeof(entry *));
  if (!slot) return was != 0;
  t->slot = slot;
  t->size = size;
  for (size_t i = 0; i < was; i++)
    for (entry *e = old[i], *next; e; e = next) {
      next = e->next;
      link_in(t, e);
    }
  free(old);
  return 1;
}

/* (lock held) Both ways; the caller frees it. */
static entry *take_out(stripe *t, entry **at) {
  entry *e = *at;
  entry **of = by_proc(t, e->proc);
  while (*of != e) of = &(*of)->sibling;
  *of = e->sibling;
  *at = e->next;
  t->count--;
  return e;
}

int mr_proc_describe(const mr_proc *p, char *buf, size_t size) {
  unsigned long long id = p->job.id;
  char name[104];
  return p->name ? snprintf(buf, size, "process #%llu '%s'", id, mr_show(name, sizeof name, p->name)) : snprintf(buf, size, "process #%llu", id);
}

/* (lock held) */
static int insert(stripe *t, unsigned bit, entry *e) {
  if (t->count >= t->size && !grow(t)) return NAME_NOMEM;
  link_in(t, e);
  t->count++;
  if (!(atomic_fetch_or(&e->proc->named, (unsigned char)bit) & NAMED_OVER)) return NAME_GIVEN;
  take_out(t, find(t, e->text, e->len, e->hash));
  return NAME_ENDED;
}

int mr_name_give(mr_proc *p, const char *name, size_t len, char holder[160]) {
  uint64_t hash = hash_of(name, len);
  unsigned at = stripe_of(hash);
  stripe *t = &stripes[at];
  entry *e = malloc(sizeof *e + len + 1);
  if (!e) return NAME_NOMEM;
  *e = (entry){ .proc = p, .hash = hash, .len = len };
  memcpy(e->text, name, len);
  e->text[len] = 0;
  port_acquire(&t->lock);
  entry **there = find(t, name, len, hash);
  if (there) mr_proc_describe((*there)->proc, holder, 160);
  int got = there ? NAME_TAKEN : insert(t, 1u << at, e);
  port_unlock(&t->lock);
  if (got != NAME_GIVEN) free(e);
  return got;
}

int mr_name_take(const char *name, size_t len) {
  uint64_t hash = hash_of(name, len);
  stripe *t = &stripes[stripe_of(hash)];
  port_acquire(&t->lock);
  entry **there = find(t, name, len, hash);
  entry *e = there ? take_out(t, there) : NULL;
  port_unlock(&t->lock);
  free(e);
  return e != NULL;
}

mr_proc *mr_name_find(const char *name, size_t len) {
  uint64_t hash = hash_of(name, len);
  stripe *t = &stripes[stripe_of(hash)];
  port_acquire(&t->lock);
  entry **there = find(t, name, len, hash);
  mr_proc *p = there ? (*there)->proc : NULL;
  if (p) mr_retain(&p->shared);
  port_unlock(&t->lock);
  return p;
}

/* (lock held) All of p's, in a list by `next`. */
static entry *take_all(stripe *t, const mr_proc *p) {
  entry *all = NULL;
  for (entry *e = *by_proc(t, p), *sibling; e; e = sibling) {
    sibling = e->sibling;
    if (e->proc != p) continue;
    take_out(t, find(t, e->text, e->len, e->hash));
    e->next = all;
    all = e;
  }
  return all;
}

size_t mr_names_list(mr_proc *p, char *buf, size_t size) {
  unsigned named = atomic_load(&p->named);
  size_t n = 0;
  for (unsigned i = 0; i < STRIPES; i++) {
    if (!(named & 1u << i)) continue;
    port_acquire(&stripes[i].lock);
    for (entry *e = stripes[i].size ? *by_proc(&stripes[i], p) : NULL; e; e = e->sibling) {
      if (e->proc != p || e->len + 1 > size - n) continue;
      memcpy(buf + n, e->text, e->len + 1);
      n += e->len + 1;
    }
    port_unlock(&stripes[i].lock);
  }
  return n;
}

void mr_names_end(mr_proc *p) {
  unsigned named = atomic_fetch_or(&p->named, (unsigned char)NAMED_OVER);
  for (unsigned i = 0; PORT_UNLIKELY(named & ~(unsigned)NAMED_OVER) && i < STRIPES; i++) {
    if (!(named & 1u << i)) continue;
    port_acquire(&stripes[i].lock);
    entry *all = take_all(&stripes[i], p);
    port_unlock(&stripes[i].lock);
    while (all) {
      entry *e = all;
      all = e->next;
      free(e);
    }
  }
}
