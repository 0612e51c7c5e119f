/*
 * packer: the memory of packing, and sealing.
 *
 * Invariants:
 *  - a packer is sound at every moment a Lua error can leave it: mr_packer_reset makes it empty whatever came before;
 *  - `held` owns one reference per entry, released at the next reset; `shared` owns none until a seal;
 *  - a message owns one reference per entry of its own copy of `shared`.
 */
#include <stdlib.h>
#include <string.h>
#include "transfer/packet.h"
#include "transfer/cargo.h"

struct mr_message {
  size_t size;
  uint32_t nvalues, nstrings, nobjects, nmetas, nshapes, nclasses, nshared, ncargo;
  uint8_t needscode, plain;
  uint32_t words[STREAMS];                     /* lengths of the streams */
  /* then: shared objects, streams in order, bytes of far strings */
};

#define FIRST_SIZE 1024
#define KEEP_SIZE  ((size_t)4 << 20)           /* larger buffers are not kept for the next message */
#define MOST       ((size_t)8 << 30)           /* bytes of a buffer: all numbers of objects, strings and words fit into 31 bits */
#define FIRST_MAP  256

PORT_NORETURN void mr_raise_memory(lua_State *L) {
  lua_pushliteral(L, "not enough memory");     /* lua_error knows this string and raises the memory error proper */
  lua_error(L);
  abort();
}

PORT_NOINLINE void mr_stream_grow(mr_packer *p, mr_stream *s, size_t n) {
  size_t size = s->size ? s->size * 2 : FIRST_SIZE;
  if (n > MOST) mr_raise_memory(p->L);
  while (size - s->length < n) size *= 2;
  char *at = size <= MOST ? realloc(s->at, size) : NULL;
  if (!at) mr_raise_memory(p->L);
  if (size > KEEP_SIZE) p->large = 1;
  s->at = at;
  s->size = size;
}

PORT_NOINLINE void mr_map_grow(mr_packer *p) {
  uint32_t size = p->map ? (p->mapmask + 1) * 2 : FIRST_MAP, old = p->map ? p->mapmask + 1 : 0;
  mr_mapslot *was = p->map, *map = calloc(size, sizeof *map);
  if (!map) mr_raise_memory(p->L);
  p->map = map;
  p->mapmask = size - 1;
  for (uint32_t i = 0; i < old; i++)
    if (was[i].era == p->era) *mr_map_find(p, was[i].key) = was[i];
  free(was);
}

mr_packer *mr_packer_new(void) {
  mr_layout_check();
  return calloc(1, sizeof(mr_packer));
}

static void release_held(mr_packer *p) {
  mr_shared **held = (mr_shared **)(void *)p->held.at;
  for (size_t i = 0, n = p->held.length / sizeof *held; i < n; i++) mr_release(held[i]);
  p->held.length = 0;
}

static void stream_drop(mr_stream *s) {
  free(s->at);
  s->at = NULL;
  s->length = s->size = 0;
}

/* An era is over after 2^32 - 1 messages; stale entries must not look new. */
static void first_era(mr_packer *p) {
  if (p->map) memset(p->map, 0, (p->mapmask + 1) * sizeof *p->map);
  memset(p->texts, 0, sizeof p->texts);
  p->era = 1;
}

static PORT_NOINLINE void drop_large(mr_packer *p) {
  mr_stream *others[] = { &p->held, &p->shared, &p->dump, &p->shapekeys, &p->far };
  for (int i = 0; i < STREAMS; i++) if (p->s[i].size > KEEP_SIZE) stream_drop(&p->s[i]);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) if (others[i]->size > KEEP_SIZE) stream_drop(others[i]);
  free(p->objects);
  p->objects = NULL;
  p->maxobjects = 0;
  free(p->map);
  p->map = NULL;
  p->large = 0;
}

void mr_packer_reset(mr_packer *p) {
  if (p->held.length) release_held(p);
  if (PORT_UNLIKELY(p->large)) drop_large(p);
  for (int i = 0; i < STREAMS; i++) p->s[i].length = 0;
  if (p->nshapes) {
    memset(p->shapemap, 0, sizeof p->shapemap);
    memset(p->guesses, 0, sizeof p->guesses);
  }
  p->shared.length = p->shapekeys.length = p->far.length = p->farsize = 0;
  p->nvalues = p->nstrings = p->nobjects = p->nmetas = p->nshapes = p->nclasses = p->nmap = p->others = 0;
  p->section = p->nnewborn = p->nameless = p->nwaiting = p->nstrangers = p->ncargo = 0;
  p->cargosize = 0;
  p->current = NOBODY;
  p->problem = NULL;
  p->anchor = p->newborn = p->strangers = p->looked = p->filtered = p->needscode = p->moves = p->need = 0;
  if (PORT_UNLIKELY(++p->era == 0)) first_era(p);
  mr_packer_check(p);
}

void mr_packer_free(mr_packer *p) {
  if (!p) return;
  release_held(p);
  for (int i = 0; i < STREAMS; i++) stream_drop(&p->s[i]);
  stream_drop(&p->held);
  stream_drop(&p->shared);
  stream_drop(&p->far);
  stream_drop(&p->shapekeys);
  stream_drop(&p->dump);
  free(p->objects);
  free(p->map);
  free(p);
}

#ifdef MR_CHECKS
static void stream_check(const mr_stream *s, size_t unit) {
  mr_assert(s->length <= s->size && (s->at || !s->size) && s->length % unit == 0);
}

static void shared_check(mr_shared *const *shared, size_t n) {
  for (size_t i = 0; i < n; i++) mr_assert(shared[i]->type && atomic_load_explicit(&shared[i]->refs, memory_order_relaxed) > 0);
}

/* A complete view, or an empty packer. */
void mr_packer_check(const mr_packer *p) {
  const size_t *far = (const size_t *)(const void *)p->far.at;
  for (int i = 0; i < STREAMS; i++) stream_check(&p->s[i], 8);
  stream_check(&p->held, sizeof(mr_shared *));
  stream_check(&p->shared, sizeof(mr_shared *));
  stream_check(&p->far, sizeof *far);
  mr_assert(p->nobjects <= p->maxobjects && (!p->map || p->nmap <= p->mapmask));
  mr_assert(p->s[DEF].length == (p->nobjects + p->nclasses) * sizeof(mr_def));
  mr_assert(p->s[META].length == p->nmetas * (size_t)8 && p->s[CLASS].length == p->nclasses * sizeof(mr_section));
  for (size_t i = 0; i < p->far.length / sizeof *far; i++)
    mr_assert(far[i] + 16 <= p->s[STR].length && *(const uint64_t *)(const void *)(p->s[STR].at + far[i]) & 1);
  shared_check((mr_shared *const *)(const void *)p->held.at, p->held.length / sizeof(mr_shared *));
  shared_check((mr_shared *const *)(const void *)p->shared.at, p->shared.length / sizeof(mr_shared *));
}

static void message_check(const mr_message *m) {
  size_t size = sizeof *m + m->nshared * sizeof(mr_shared *);
  for (int i = 0; i < STREAMS; i++) size += (size_t)m->words[i] * 8;
  mr_assert(size <= m->size && m->words[META] == m->nmetas);
  mr_assert(m->words[DEF] * (size_t)8 == (m->nobjects + m->nclasses) * sizeof(mr_def));
  shared_check((mr_shared *const *)(const void *)(m + 1), m->nshared);
}
#else
#define message_check(m) ((void)0)
#endif

int mr_packer_needs_code(const mr_packer *p) { return p->needscode || p->moves; }

static char *copy_far(const mr_packer *p, char *str, char *to) {
  const size_t *far = (const size_t *)(void *)p->far.at;
  for (size_t i = 0, n = p->far.length / sizeof *far; i < n; i++) {
    uint64_t *record = (uint64_t *)(void *)(str + far[i]);
    size_t length = record[0] >> 1;
    memcpy(to, (const char *)record[1], length);
    record[1] = (uint64_t)to;
    to += PAD8(length);
  }
  return to;
}

static size_t sealed_size(const mr_packer *p) {
  size_t size = sizeof(mr_message) + p->shared.length + p->farsize;
  for (int i = 0; i < STREAMS; i++) {
    if (p->s[i].length / 8 > UINT32_MAX) return 0;
    size += p->s[i].length;
  }
  return size;
}

/* All userdata of others leave their sender, or none. */
static PORT_NOINLINE int leave(mr_packer *p) {
  mr_shared **shared = (mr_shared **)(void *)p->shared.at;
  uint32_t n = (uint32_t)(p->shared.length / sizeof *shared), i = 0;
  while (i < n && (!mr_is_cargo(shared[i]) || mr_cargo_leave(p->L, (mr_cargo *)shared[i]))) i++;
  if (i == n) return 1;
  while (i-- > 0)
    if (mr_is_cargo(shared[i])) mr_cargo_back(p->L, (mr_cargo *)shared[i]);
  return 0;
}

mr_message *mr_packer_seal(mr_packer *p) {
  mr_assert_unlocked();
  mr_packer_check(p);
  size_t size = sealed_size(p);
  mr_message *m = size ? malloc(size) : NULL;
  if (!m) return NULL;
  m->size = size;
  m->nvalues = p->nvalues; m->nstrings = p->nstrings; m->nobjects = p->nobjects;
  m->nmetas = p->nmetas; m->nshapes = p->nshapes; m->nclasses = p->nclasses;
  m->nshared = (uint32_t)(p->shared.length / sizeof(mr_shared *));
  m->ncargo = p->ncargo;
  m->needscode = p->needscode;
  m->plain = (uint8_t)mr_is_plain(p);
  if (PORT_UNLIKELY(p->ncargo) && !leave(p)) {
    free(m);
    return NULL;
  }
  mr_shared **shared = (mr_shared **)(void *)(m + 1);
  if (m->nshared) memcpy(shared, p->shared.at, p->shared.length);
  for (uint32_t i = 0; i < m->nshared; i++) {
    mr_retain(shared[i]);
    if (shared[i]->type->moves) {
      mr_movable *v = (mr_movable *)shared[i];
      atomic_store(&v->sealed, atomic_fetch_add(&v->epoch, 1) + 1);
    }
  }
  char *to = (char *)(shared + m->nshared), *str = to;
  for (int i = 0; i < STREAMS; i++) {
    size_t length = p->s[i].length;
    m->words[i] = (uint32_t)(length / 8);
    if (!length) continue;
    memcpy(to, p->s[i].at, length);
    to += length;
  }
  if (p->far.length) to = copy_far(p, str, to);
  mr_assert(to == (char *)m + size);
  message_check(m);
  return m;
}

mr_message *mr_message_of(mr_shared *o) {
  const mr_def def = { .kind = KIND_SHARED, .u.object = o };
  const uint8_t tags[8] = { TAG_OBJECT };
  const uint64_t slot = 0;
  size_t size = sizeof(mr_message) + sizeof o + sizeof def + sizeof tags + sizeof slot;
  mr_message *m = calloc(1, size);
  if (!m) return NULL;
  m->size = size;
  m->nvalues = m->nobjects = m->nshared = 1;
  m->words[DEF] = sizeof def / 8;
  m->words[BODY] = (sizeof tags + sizeof slot) / 8;
  char *to = (char *)(m + 1);
  mr_retain(o);
  memcpy(to, &o, sizeof o);
  memcpy(to += sizeof o, &def, sizeof def);
  memcpy(to += sizeof def, tags, sizeof tags);
  memcpy(to + sizeof tags, &slot, sizeof slot);
  message_check(m);
  return m;
}

/* ---- in a budget ---- */

/* What a message has taken from a budget goes with it as one more shared object: others pay nothing for that. */
typedef struct charge { mr_shared shared; mr_budget *budget; size_t bytes; int taken; } charge;

static void charge_destroy(mr_shared *o) {
  charge *c = (charge *)o;
  if (c->taken) mr_budget_give(c->budget, c->bytes);
  mr_budget_release(c->budget);
  free(c);
}

static const mr_sharetype charge_type = { .name = "charge", .destroy = charge_destroy };

/* Besides the message: this record, and its place in a queue. */
#define CHARGE_MORE (sizeof(charge) + 64)

static charge *charge_new(mr_budget *b, size_t bytes) {
  charge *c = malloc(sizeof *c);
  if (!c) return NULL;
  c->shared.type = &charge_type;
  atomic_init(&c->shared.refs, 1);
  c->budget = b;
  c->bytes = bytes;
  c->taken = 0;
  mr_budget_retain(b);
  return c;
}

static mr_budget *charge_take(charge *c) {
  mr_budget *over = mr_budget_take(c->budget, c->bytes);
  c->taken = !over;
  return over;
}

/* Room in the list of shared objects, without raising errors. */
static int room_for_charge(mr_packer *p) {
  mr_stream *s = &p->shared;
  if (s->size - s->length >= sizeof(mr_shared *)) return 1;
  size_t size = s->size ? s->size * 2 : FIRST_SIZE;
  char *at = realloc(s->at, size);
  if (!at) return 0;
  s->at = at;
  s->size = size;
  if (size > KEEP_SIZE) p->large = 1;
  return 1;
}

/* What is larger than a whole budget is not even made. */
static mr_budget *too_small(mr_budget *b, size_t bytes) {
  while (b && b->limit >= bytes) b = b->outer;
  return b;
}

mr_message *mr_packer_seal_in(mr_packer *p, mr_budget *b, mr_budget **over) {
  size_t size = sealed_size(p);
  if (size) size += p->cargosize;
  if ((*over = too_small(b, size + CHARGE_MORE)) != NULL) return NULL;
  charge *c = size && room_for_charge(p) ? charge_new(b, size + CHARGE_MORE) : NULL;
  if (!c) return NULL;
  *(mr_shared **)(void *)(p->shared.at + p->shared.length) = &c->shared;
  p->shared.length += sizeof(mr_shared *);
  mr_message *m = mr_packer_seal(p);
  p->shared.length -= sizeof(mr_shared *);       /* the view may still be used */
  if (m) *over = charge_take(c);
  mr_release(&c->shared);
  return m;
}

mr_budget *mr_message_count(mr_message *m) {
  mr_shared **shared = (mr_shared **)(void *)(m + 1);
  return charge_take((charge *)shared[m->nshared - 1]);
}

int mr_message_needs_code(const mr_message *m) { return m->needscode; }

size_t mr_message_size(const mr_message *m) { return m->size; }

void mr_message_free(mr_message *m) {
  if (!m) return;
  mr_assert_unlocked();
  message_check(m);
  mr_shared **shared = (mr_shared **)(void *)(m + 1);
  for (uint32_t i = 0; i < m->nshared; i++) {
    mr_movable *v = (mr_movable *)shared[i];
    if (PORT_UNLIKELY(mr_is_cargo(shared[i]))) mr_cargo_lose((mr_cargo *)shared[i]);
    else if (PORT_UNLIKELY(shared[i]->type->moves) && atomic_load(&v->epoch) == atomic_load(&v->sealed)) shared[i]->type->dropped(shared[i]);
    mr_release(shared[i]);
  }
  free(m);
}

void mr_message_back(lua_State *L, mr_message *m) {
  mr_shared **shared = (mr_shared **)(void *)(m + 1);
  for (uint32_t i = 0; i < m->nshared; i++)
    if (mr_is_cargo(shared[i])) {
      mr_cargo_back(L, (mr_cargo *)shared[i]);
    } else if (shared[i]->type->moves) {
      mr_movable *v = (mr_movable *)shared[i];
      mr_assert(atomic_load(&v->epoch) == atomic_load(&v->sealed));            /* nobody has received it */
      atomic_fetch_sub(&v->epoch, 1);
    }
  mr_message_free(m);
}

static const char *streams(const mr_message *m) { return (const char *)(m + 1) + m->nshared * sizeof(mr_shared *); }

mr_shared *mr_message_function(const mr_message *m) {
  const mr_def *first = (const mr_def *)(const void *)(streams(m) + (size_t)m->words[STR] * 8);
  return m->nobjects && first->kind == KIND_FUNCTION ? first->u.object : NULL;
}

int mr_unpack_with(lua_State *L, const mr_message *m, int function) {
  message_check(m);
  mr_parts parts = { m->nvalues, m->nstrings, m->nobjects, m->nmetas, m->nshapes, m->nclasses, m->ncargo, m->plain, { 0 }, function };
  const char *at = streams(m);
  for (int i = 0; i < STREAMS; i++) {
    parts.at[i] = at;
    at += (size_t)m->words[i] * 8;
  }
  return mr_unpack_parts(L, &parts);
}

int mr_unpack(lua_State *L, const mr_message *m) { return mr_unpack_with(L, m, 0); }

int mr_unpack_view(lua_State *L, const mr_packer *p) {
  mr_parts parts = { p->nvalues, p->nstrings, p->nobjects, p->nmetas, p->nshapes, p->nclasses, p->ncargo, mr_is_plain(p), { 0 }, 0 };
  for (int i = 0; i < STREAMS; i++) parts.at[i] = p->s[i].at;
  return mr_unpack_parts(L, &parts);
}
