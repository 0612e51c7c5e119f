/*
 * freezing: makes a whole of what mr_pack has read, as sender of a message would.
 *
 * First the packet is judged, as long as its objects can be named in an error: which tables are part of the value, and does a function, or a
 * key, refer to anything else that could change? Then sizes are summed up, so that all but the keys lie in one block; objects and strings get
 * their addresses; then tables are filled, in the packet's order. Nothing recurses. What is needed meanwhile lies in `dump`, a buffer of the
 * packer's: one `note` per object.
 */
#include <stdlib.h>
#include "share/hash.h"

typedef struct note {
  uint64_t body;                               /* where in `body` its values are, in bytes */
  uint64_t border;                             /* tables: '#' */
  uint64_t place;                              /* address in the whole */
  uint32_t queued;                             /* tables: the one to look at behind this one, + 1 */
  uint8_t part;                                /* reached through tables alone */
} note;

/* The values of a table in the packet. */
typedef struct content {
  uint32_t narr, n;                            /* n: keys */
  uint8_t uniform;
  const uint8_t *array_tags, *tags;
  const uint64_t *array, *words;
  const uint64_t *shape;                       /* the keys' strings; NULL: keys and values alternate in `words` */
} content;

static const mr_def *defs(const mr_packer *p) { return (const mr_def *)(const void *)p->s[DEF].at; }
static note *notes(const mr_packer *p) { return (note *)(void *)p->dump.at; }

static size_t block(size_t n) { return PAD8(n) + 8 * n; }

static content content_of(const mr_packer *p, uint32_t i) {
  const mr_def *d = &defs(p)[i];
  const char *at = p->s[BODY].at + notes(p)[i].body;
  content c = { .narr = d->narr, .n = d->u.hash.npairs, .uniform = d->uniform };
  c.array_tags = (const uint8_t *)at;
  c.array = (const uint64_t *)(const void *)(at + (d->uniform ? 0 : PAD8((size_t)d->narr)));
  at += d->uniform ? 8 * (size_t)d->narr : block(d->narr);
  c.shape = d->u.hash.shape ? (const uint64_t *)(const void *)p->s[SHAPE].at + d->u.hash.shape : NULL;
  c.tags = (const uint8_t *)at;
  c.words = (const uint64_t *)(const void *)(at + PAD8(c.shape ? (size_t)c.n : 2 * (size_t)c.n));
  return c;
}

static size_t content_size(const mr_def *d) {
  size_t pairs = d->u.hash.npairs;
  if (d->kind == KIND_FUNCTION || d->kind == KIND_CARGO) return block(d->nup);
  if (d->kind != KIND_TABLE) return 0;
  return (d->uniform ? 8 * (size_t)d->narr : block(d->narr)) + block(d->u.hash.shape ? pairs : 2 * pairs);
}

/* ---- judging ---- */

static int refuse(mr_packer *p, uint32_t number, uint32_t from, const char *problem) {
  if (from < number) p->objects[number].parent = from;       /* name it where it is a problem; a path leads from lower numbers to higher ones */
  return mr_fail(p, number, problem);
}

static int owned(const mr_def *d) { return d->kind == KIND_SHARED && d->u.object->type->moves; }
static const char moves[] = "object that one process owns cannot be frozen; send it by itself";

/* Of what is neither a table nor a name: processes share it, or else it is refused. */
static int judge_object(mr_packer *p, uint32_t number, uint32_t from) {
  const mr_def *d = &defs(p)[number];
  if (owned(d)) return refuse(p, number, from, moves);
  if (d->kind == KIND_SHARED || d->kind == KIND_FUNCTION || d->kind == KIND_CFUNCTION) return 0;
  return refuse(p, number, from, d->kind == KIND_CARGO ? NULL : "value of this kind cannot be frozen");   /* NULL: explain.c finds the words */
}

/* The tables that are found and not yet looked at, a list through their notes. */
typedef struct queue { uint32_t first, last; } queue;

static void found(mr_packer *p, queue *q, uint32_t number) {
  note *n = notes(p);
  if (n[number].part) return;
  n[number].part = 1;
  if (q->first) n[q->last].queued = number + 1;
  else q->first = number + 1;
  q->last = number;
}

static int judge_value(mr_packer *p, queue *q, uint32_t from, uint8_t tag, uint64_t word) {
  if (tag != TAG_OBJECT) return 0;
  const mr_def *d = &defs(p)[word];
  switch (d->kind) {
    case KIND_TABLE: found(p, q, (uint32_t)word); return 0;
    case KIND_MODULE:
      return refuse(p, (uint32_t)word, from, "module cannot be frozen, as each process has its own; keep its name, and require it where it is used");
    case KIND_GLOBALS: return refuse(p, (uint32_t)word, from, "the globals cannot be frozen, as each process has its own");
    default: return judge_object(p, (uint32_t)word, from);
  }
}

static int judge_key(mr_packer *p, queue *q, uint32_t from, uint8_t tag, uint64_t word) {
  int kind = tag == TAG_OBJECT ? defs(p)[word].kind : KIND_TABLE;
  if (kind == KIND_FUNCTION || kind == KIND_CFUNCTION)
    return refuse(p, (uint32_t)word, from, "function that is a key cannot be frozen; make it a value");
  return judge_value(p, q, from, tag, word);
}

static int judge_table(mr_packer *p, queue *q, uint32_t i) {
  content c = content_of(p, i);
  int r = 0;
  for (uint32_t k = 0; !r && !c.uniform && k < c.narr; k++) r = judge_value(p, q, i, c.array_tags[k], c.array[k]);
  if (c.shape) for (uint32_t k = 0; !r && k < c.n; k++) r = judge_value(p, q, i, c.tags[k], c.words[k]);
  else for (size_t k = 0; !r && k < 2 * (size_t)c.n; k += 2) {
    r = judge_key(p, q, i, c.tags[k], c.words[k]);
    if (!r) r = judge_value(p, q, i, c.tags[k + 1], c.words[k + 1]);
  }
  return r;
}

static int judge_function(mr_packer *p, uint32_t i) {
  size_t n = defs(p)[i].nup;
  const uint8_t *tags = (const uint8_t *)p->s[BODY].at + notes(p)[i].body;
  const uint64_t *words = (const uint64_t *)(const void *)(tags + PAD8(n));
  for (size_t k = 0; k < n; k++) {
    if (tags[k] != TAG_OBJECT) continue;
    uint32_t number = (uint32_t)words[k];
    int kind = defs(p)[number].kind, r = 0;
    if (kind == KIND_TABLE && !notes(p)[number].part)
      r = refuse(p, number, i, "table outside the value cannot be frozen with a function; freeze it first, or pass it as an argument");
    else if (kind != KIND_TABLE && kind != KIND_MODULE && kind != KIND_GLOBALS) r = judge_object(p, number, i);
    if (r) return r;
  }
  return 0;
}

static void take_notes(mr_packer *p) {
  size_t at = block(p->nvalues);
  p->dump.length = 0;
  note *n = mr_take(p, &p->dump, p->nobjects * sizeof *n);
  for (uint32_t i = 0; i < p->nobjects; i++) {
    const mr_def *d = &defs(p)[i];
    n[i] = (note){ .body = at };
    at += content_size(d);
    if (d->kind != KIND_TABLE) continue;
    mr_push_object(p, i);
    n[i].border = lua_rawlen(p->L, -1);
    lua_pop(p->L, 1);
  }
}

static int judge(mr_packer *p) {
  queue q = { 0, 0 };
  int r = 0;
  take_notes(p);
  found(p, &q, 0);
  for (uint32_t i = q.first; !r && i; i = notes(p)[i - 1].queued) r = judge_table(p, &q, i - 1);
  for (uint32_t i = 0; !r && i < p->nobjects; i++)
    if (defs(p)[i].kind == KIND_FUNCTION) r = judge_function(p, i);
  return r;
}

int mr_frozen_pack(mr_packer *p, lua_State *L, int idx) { return mr_pack_frozen(p, L, idx, judge); }

/* ---- strings: each text once ---- */

typedef struct text { const char *bytes; size_t length; mr_frozen_string *place; uint32_t hash, same; } text;   /* same: the first with its bytes */

#define SHARED_KEYS 64                         /* larger tables have keys of their own */
enum { FEW = 64, MANY = 1024 };                /* keys that are tried for the next table, direct mapped: about as many as there are tables */

typedef struct freezer {
  const mr_packer *p;
  mr_frozen *whole;
  text *texts;
  uint32_t *index;                             /* open addressing over texts */
  size_t mask;
  char *at;                                    /* the next free byte of the whole */
  mr_frozen_value *keys; uint32_t *hashes; size_t room;      /* of the table being filled */
  size_t nrecent;
  const mr_keys *recent[];
} freezer;

static void find_text(freezer *z, uint32_t number) {
  text *t = &z->texts[number];
  size_t i = t->hash & z->mask;
  for (; z->index[i]; i = (i + 1) & z->mask) {
    const text *other = &z->texts[z->index[i] - 1];
    if (other->hash != t->hash || other->length != t->length || memcmp(other->bytes, t->bytes, t->length) != 0) continue;
    t->same = z->index[i] - 1;
    return;
  }
  z->index[i] = number + 1;
  t->same = number;
}

/* How many bytes all strings need, or 0 without memory. */
static int read_texts(freezer *z, size_t *size) {
  uint32_t n = z->p->nstrings;
  if (!n) return 1;
  for (z->mask = 16; z->mask < 2 * (size_t)n;) z->mask *= 2;
  z->texts = malloc(n * sizeof *z->texts);
  z->index = calloc(z->mask--, sizeof *z->index);
  if (!z->texts || !z->index) return 0;
  const uint64_t *record = (const uint64_t *)(const void *)z->p->s[STR].at;
  for (uint32_t i = 0; i < n; i++) {
    text *t = &z->texts[i];
    int far = record[0] & 1;
    t->length = (size_t)(record[0] >> 1);
    t->bytes = far ? (const char *)record[1] : (const char *)(record + 1);
    t->hash = mr_hash_text(t->bytes, t->length);
    record += far ? 2 : 1 + PAD8(t->length) / 8;
    find_text(z, i);
    if (t->same == i) *size += PAD8(sizeof(mr_frozen_string) + t->length + 1);
  }
  return 1;
}

static void *take(freezer *z, size_t size) {
  void *at = z->at;
  z->at += PAD8(size);
  return at;
}

static void write_texts(freezer *z) {
  for (uint32_t i = 0; i < z->p->nstrings; i++) {
    text *t = &z->texts[i];
    if (t->same != i) {
      t->place = z->texts[t->same].place;
      continue;
    }
    t->place = take(z, sizeof(mr_frozen_string) + t->length + 1);
    t->place->length = t->length;
    t->place->hash = t->hash;
    memcpy(t->place->bytes, t->bytes, t->length);
    t->place->bytes[t->length] = 0;
  }
}

/* ---- keys ---- */

static void *take_chunk(mr_frozen *w, size_t size) {
  mr_chunk *c = w->chunks;
  if (!c || c->size - c->used < size) {
    size_t room = c ? 2 * c->size : 1024;
    if (room > (size_t)1 << 20) room = (size_t)1 << 20;
    if (room < size) room = size;
    mr_chunk *more = malloc(sizeof *more + room);
    if (!more) return NULL;
    *more = (mr_chunk){ .next = c, .size = room };
    w->chunks = c = more;
    w->size += sizeof *c + room;
  }
  c->used += size;
  return c->bytes + c->used - size;
}

static const mr_keys *new_keys(freezer *z, uint32_t n) {
  uint32_t nslots = n + n / 2 + 1, i = 0;
  mr_keys *k = take_chunk(z->whole, sizeof *k + nslots * sizeof(mr_slot));
  if (!k) return NULL;
  k->n = n;
  k->nslots = nslots;
  memset(k->slots, 0, nslots * sizeof(mr_slot));
  for (uint32_t j = 0; j < n; j++) {
    const mr_slot *there = mr_keys_find(k, z->keys[j], z->hashes[j], &i);
    mr_assert(!there);
    (void)there;
    k->slots[i] = (mr_slot){ z->keys[j].word, mr_slot_mark(z->keys[j].tag, z->hashes[j]), j };
  }
  return k;
}

static int are_keys(const freezer *z, const mr_keys *k, uint32_t n) {
  uint32_t empty;
  if (!k || k->n != n) return 0;
  for (uint32_t j = 0; j < n; j++)
    if (!mr_keys_find(k, z->keys[j], z->hashes[j], &empty)) return 0;
  return 1;
}

/* The keys z->keys, whose sum of hashes does not depend on their order; NULL: no memory. */
static const mr_keys *find_keys(freezer *z, uint32_t n) {
  if (n > SHARED_KEYS) return new_keys(z, n);
  uint32_t sum = n;
  for (uint32_t j = 0; j < n; j++) sum += z->hashes[j] * (z->hashes[j] | 1);
  const mr_keys **recent = &z->recent[sum % z->nrecent];
  if (!are_keys(z, *recent, n)) *recent = new_keys(z, n);
  return *recent;
}

/* ---- objects ---- */

static size_t part_tags(const mr_def *d) { return (d->uniform ? 0 : (size_t)d->narr) + d->u.hash.npairs; }
static size_t part_size(const mr_def *d) {
  return sizeof(mr_part) + 8 * ((size_t)d->narr + d->u.hash.npairs) + PAD8(part_tags(d));
}

static size_t object_size(const mr_def *d) {
  switch (d->kind) {
    case KIND_TABLE: return part_size(d);
    case KIND_FUNCTION: return sizeof(mr_frozen_function) + d->nup * sizeof(mr_frozen_upvalue);
    case KIND_CFUNCTION: return sizeof(mr_frozen_name);
    default: return 0;
  }
}

static void place_objects(freezer *z) {
  const mr_def *d = defs(z->p);
  note *n = notes(z->p);
  for (uint32_t i = 0; i < z->p->nobjects; i++) {
    switch (d[i].kind) {
      case KIND_SHARED: n[i].place = (uint64_t)(uintptr_t)d[i].u.object; break;
      case KIND_MODULE: n[i].place = (uint64_t)(uintptr_t)z->texts[d[i].narr].place; break;
      case KIND_GLOBALS: n[i].place = 0; break;
      default: n[i].place = (uint64_t)(uintptr_t)take(z, object_size(&d[i]));
    }
  }
}

static mr_frozen_value value_of(const freezer *z, uint8_t tag, uint64_t word) {
  static const uint8_t tags[] = {
    [KIND_TABLE] = FROZEN_PART, [KIND_FUNCTION] = FROZEN_FUNCTION, [KIND_CFUNCTION] = FROZEN_CFUNCTION, [KIND_MODULE] = FROZEN_MODULE,
    [KIND_GLOBALS] = FROZEN_GLOBALS, [KIND_SHARED] = FROZEN_SHARED
  };
  if (tag == TAG_STRING) return (mr_frozen_value){ (uint64_t)(uintptr_t)z->texts[PAIR_LOW(word)].place, FROZEN_STRING };
  if (tag == TAG_OBJECT) return (mr_frozen_value){ notes(z->p)[word].place, tags[defs(z->p)[word].kind] };
  return (mr_frozen_value){ tag == RAW_FALSE || tag == RAW_TRUE || raw_isnil(tag) ? 0 : word, tag };   /* theirs is whatever lay there */
}

static int room_for_keys(freezer *z, uint32_t n) {
  if (n <= z->room) return 1;
  size_t room = n < 64 ? 64 : n;
  free(z->keys);
  free(z->hashes);
  z->keys = malloc(room * sizeof *z->keys);
  z->hashes = malloc(room * sizeof *z->hashes);
  z->room = z->keys && z->hashes ? room : 0;
  return z->room != 0;
}

static void read_keys(freezer *z, const content *c) {
  for (uint32_t k = 0; k < c->n; k++) {
    uint64_t word = c->shape ? c->shape[k] : c->words[2 * (size_t)k];
    uint8_t tag = c->shape ? TAG_STRING : c->tags[2 * (size_t)k];
    z->keys[k] = value_of(z, tag, word);
    z->hashes[k] = tag == TAG_STRING ? z->texts[PAIR_LOW(word)].hash : mr_hash_other(z->keys[k]);
  }
}

static int fill_keys(freezer *z, mr_part *part, const content *c) {
  uint32_t empty;
  if (!room_for_keys(z, c->n)) return 0;
  read_keys(z, c);
  if (!(part->keys = find_keys(z, c->n))) return 0;
  uint8_t *tags = mr_part_tags(part) + (part->uniform ? 0 : part->narr);
  for (uint32_t k = 0; k < c->n; k++) {
    size_t from = c->shape ? k : 2 * (size_t)k + 1;
    uint32_t at = mr_keys_find(part->keys, z->keys[k], z->hashes[k], &empty)->at;
    mr_frozen_value v = value_of(z, c->tags[from], c->words[from]);
    part->words[c->narr + at] = v.word;
    tags[at] = v.tag;
  }
  return 1;
}

static int fill_part(freezer *z, mr_part *part, uint32_t i, const mr_sharetype *type) {
  content c = content_of(z->p, i);
  part->shared.type = type;
  atomic_init(&part->shared.refs, i == 0);
  part->whole = z->whole;
  part->keys = NULL;
  part->border = notes(z->p)[i].border;
  part->narr = c.narr;
  part->uniform = c.uniform;
  if (c.n && !fill_keys(z, part, &c)) return 0;
  if (c.uniform) {
    memcpy(part->words, c.array, 8 * (size_t)c.narr);
    return 1;
  }
  uint8_t *tags = mr_part_tags(part);
  for (uint32_t k = 0; k < c.narr; k++) {
    mr_frozen_value v = value_of(z, c.array_tags[k], c.array[k]);
    part->words[k] = v.word;
    tags[k] = v.tag;
  }
  return 1;
}

static void fill_function(freezer *z, mr_frozen_function *f, uint32_t i) {
  const mr_def *d = &defs(z->p)[i];
  const uint8_t *tags = (const uint8_t *)z->p->s[BODY].at + notes(z->p)[i].body;
  const uint64_t *words = (const uint64_t *)(const void *)(tags + PAD8((size_t)d->nup));
  f->code = d->u.object;
  f->nup = d->nup;
  for (uint32_t k = 0; k < f->nup; k++) {
    mr_frozen_upvalue *u = &f->up[k];
    if (tags[k] == TAG_UPVALUE) {
      *u = (mr_frozen_upvalue){ notes(z->p)[PAIR_LOW(words[k])].place, FROZEN_JOINED, (uint8_t)PAIR_HIGH(words[k]) };
      continue;
    }
    mr_frozen_value v = value_of(z, tags[k], words[k]);
    *u = (mr_frozen_upvalue){ v.word, v.tag, 0 };
  }
}

static void fill_name(freezer *z, mr_frozen_name *name, const mr_def *d) {
  name->module = z->texts[d->narr].place;
  name->field = z->texts[d->u.word].place;
}

static int fill_all(freezer *z, const mr_sharetype *type) {
  for (uint32_t i = 0; i < z->p->nobjects; i++) {
    const mr_def *d = &defs(z->p)[i];
    void *at = (void *)(uintptr_t)notes(z->p)[i].place;
    if (d->kind == KIND_FUNCTION) fill_function(z, at, i);
    else if (d->kind == KIND_CFUNCTION) fill_name(z, at, d);
    else if (d->kind == KIND_TABLE && !fill_part(z, at, i, type)) return 0;
  }
  return 1;
}

/* ---- the whole ---- */

static int new_whole(freezer *z, size_t size) {
  static atomic_uint_least64_t last;
  const mr_stream *shared = &z->p->shared;
  size = sizeof(mr_frozen) + PAD8(shared->length) + size;
  for (uint32_t i = 0; i < z->p->nobjects; i++) size += PAD8(object_size(&defs(z->p)[i]));
  mr_frozen *w = malloc(size);
  if (!w) return 0;
  *w = (mr_frozen){ .serial = atomic_fetch_add(&last, 1) + 1, .size = size };
  atomic_init(&w->refs, 1);
  z->whole = w;
  z->at = (char *)(w + 1);
  w->held = take(z, shared->length);
  return 1;
}

/* What is referred to is held when nothing can fail any more. */
static void hold(mr_frozen *w, const mr_stream *shared) {
  w->nheld = shared->length / sizeof *w->held;
  if (w->nheld) memcpy(w->held, shared->at, shared->length);
  for (size_t i = 0; i < w->nheld; i++) mr_retain(w->held[i]);
}

static mr_part *freeze(freezer *z, const mr_sharetype *type) {
  size_t size = 0;
  if (!read_texts(z, &size) || !new_whole(z, size)) return NULL;
  write_texts(z);
  place_objects(z);
  if (!fill_all(z, type)) return NULL;
  hold(z->whole, &z->p->shared);
  return (mr_part *)(uintptr_t)notes(z->p)[0].place;
}

static void draw_seed(void) {
  static port_lock lock;
  port_acquire(&lock);
  if (!mr_frozen_seed) mr_frozen_seed = port_entropy() | 1;
  port_unlock(&lock);
}

static void abandon(mr_frozen *w) {
  for (mr_chunk *c = w ? w->chunks : NULL, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(w);
}

mr_part *mr_frozen_new(mr_packer *p, const mr_sharetype *type) {
  size_t n = p->nobjects < FEW ? FEW : p->nobjects < MANY ? p->nobjects : MANY;
  freezer *z = calloc(1, sizeof *z + n * sizeof *z->recent);
  if (!z) return NULL;
  draw_seed();
  z->nrecent = n;
  z->p = p;
  mr_part *root = freeze(z, type);
  if (!root) abandon(z->whole);
  free(z->texts);
  free(z->index);
  free(z->keys);
  free(z->hashes);
  free(z);
  mr_packer_reset(p);                          /* its buffers may be as large as the whole */
  return root;
}
