/* flat: see flat.h. */
#include <math.h>
#include "cdr/flat.h"
#include "cdr/put.h"
#include "cdr/get.h"
#include "cdr/text.h"

/* ---- what is known of a type ---- */

/* Bytes on the wire of the kinds that runs are made of; 0: it is none. */
static unsigned size_of(int kind) {
  switch (kind) {
    case TK_OCTET: case TK_INT8: case TK_BOOLEAN: case TK_CHAR: return 1;
    case TK_SHORT: case TK_USHORT: return 2;
    case TK_LONG: case TK_ULONG: case TK_FLOAT: case TK_ENUM: return 4;
    case TK_LONGLONG: case TK_ULONGLONG: case TK_DOUBLE: return 8;
    default: return 0;
  }
}

static void lay_out(mr_run *run, mr_step *s, unsigned size) {
  for (unsigned a = 0; a < 8; a++) {
    s->at[a] = (uint16_t)(((a + run->size[a] + size - 1) & ~(size - 1)) - a);
    run->size[a] = (uint16_t)(s->at[a] + size);
  }
}

mr_flat *mr_flat_make(const mr_type *t, void *room) {
  mr_flat *f = room;
  if (t->n == 0 || t->n > MR_FLAT_MOST || t->lsizenode == 255) return NULL;
  f->steps = (mr_step *)(void *)(f + 1);
  f->runs = (mr_run *)(void *)(f->steps + t->n);
  f->nruns = f->ntexts = 0;
  f->lsizenode = t->lsizenode;
  mr_run *run = f->runs;
  memset(run, 0, (t->n + 1) * sizeof *run);
  run->text = MR_RUN_LAST;
  for (uint32_t i = 0; i < t->n; i++) {
    const mr_member *m = &t->members[i];
    mr_step *s = &f->steps[i];
    uint16_t place = (uint16_t)(m->place * sizeof(raw_node));
    *s = (mr_step){ .key = m->key, .type = m->type, .hint = place, .place = place, .kind = m->type->kind };
    if (size_of(s->kind)) {
      lay_out(run, s, size_of(s->kind));
      run->end = (uint16_t)(i + 1);
      continue;
    }
    if (s->kind != TK_STRING) return NULL;
    run->text = (uint16_t)i;
    f->ntexts++;
    *++run = (mr_run){ .first = (uint16_t)(i + 1), .end = (uint16_t)(i + 1), .text = MR_RUN_LAST };
  }
  f->nruns = (uint32_t)(run - f->runs) + (run->first < run->end);
  return f;
}

/* ---- text ---- */

#define HIGH UINT64_C(0x8080808080808080)
#define ONES UINT64_C(0x0101010101010101)

/* A bit for a byte that is zero, or, where it is asked for, beyond ASCII. There may be more bits where there is one. */
static inline uint64_t odd_bytes(uint64_t word, uint64_t high) { return ((word - ONES) & ~word & HIGH) | (word & high); }

/* Copies n bytes. 0: there is a zero byte among them, or one beyond ASCII (`high`). */
static inline int copy_text(char *to, const char *s, size_t n, uint64_t high) {
  uint64_t odd = 0, last = 0, word;
  if (PORT_LIKELY(n >= 8)) {
    size_t i = 0;
    for (; i + 8 < n; i += 8) {
      word = mr_load64(s + i);
      odd |= odd_bytes(word, high);
      memcpy(to + i, &word, 8);
    }
    word = mr_load64(s + n - 8);
    memcpy(to + n - 8, &word, 8);
    return !(odd | odd_bytes(word, high));
  }
  for (size_t i = 0; i < n; i++) {
    last |= (uint64_t)(unsigned char)s[i];
    odd |= s[i] == 0;
    to[i] = s[i];
  }
  return !(odd | (last & high));
}

/* ---- from Lua to bytes ---- */

#define STORE(type, word) do { type w_ = (type)(word); memcpy(at, &w_, sizeof w_); return 1; } while (0)
#define STORE16(v) STORE(uint16_t, swap ? cdr_swap16((uint16_t)(v)) : (uint16_t)(v))
#define STORE32(v) STORE(uint32_t, swap ? cdr_swap32((uint32_t)(v)) : (uint32_t)(v))
#define STORE64(v) STORE(uint64_t, swap ? cdr_swap64((uint64_t)(v)) : (uint64_t)(v))
#define WITHIN(low, high) if (PORT_UNLIKELY(!integer(node, &n) || n < (low) || n > (high))) return 0

static inline int integer(const raw_node *node, int64_t *n) {
  *n = (int64_t)node->bits;
  return PORT_LIKELY(node->tt == RAW_INT) || mr_whole((mr_val){ node->bits, node->tt }, n, 0);
}

static inline int number(const raw_node *node, double *n) {
  memcpy(n, &node->bits, sizeof *n);
  if (node->tt == RAW_INT) *n = (double)(int64_t)node->bits;
  return node->tt == RAW_FLT || node->tt == RAW_INT;
}

static PORT_INLINE int put_float(char *at, const raw_node *node, const int swap) {
  double n;
  uint32_t bits;
  if (!number(node, &n)) return 0;
  float f = (float)n;
  if (PORT_UNLIKELY(isinf(f) && !isinf(n))) return 0;
  memcpy(&bits, &f, 4);
  STORE32(bits);
}

static PORT_INLINE int put_double(char *at, const raw_node *node, const int swap) {
  double n;
  uint64_t bits;
  if (!number(node, &n)) return 0;
  memcpy(&bits, &n, 8);
  STORE64(bits);
}

static inline int put_char(const mr_enc *e, char *at, const raw_node *node) {
  const raw_string *s = (const raw_string *)(uintptr_t)node->bits;
  if (node->tt != RAW_SHORT || s->shrlen != 1 || ((e->codec & CDR_FROM_LATIN) && (s->text[0] & 0x80))) return 0;
  *at = s->text[0];
  return 1;
}

static PORT_INLINE int put_label(char *at, const mr_step *s, const raw_node *node, const int swap) {
  uint32_t found = node->tt == RAW_SHORT ? s->type->slots[mr_short_label(s->type, node->bits)] : 0;
  if (!found) return 0;
  STORE32(found - 1);
}

/* 0: the general way does it, or says what is wrong. */
static PORT_INLINE int put_fixed(const mr_enc *e, char *at, const mr_step *s, const raw_node *node, const int swap) {
  int64_t n;
  switch (s->kind) {
    case TK_SHORT: WITHIN(INT16_MIN, INT16_MAX); STORE16(n);
    case TK_USHORT: WITHIN(0, UINT16_MAX); STORE16(n);
    case TK_LONG: WITHIN(INT32_MIN, INT32_MAX); STORE32(n);
    case TK_ULONG: WITHIN(0, (int64_t)UINT32_MAX); STORE32(n);
    case TK_OCTET: WITHIN(0, UINT8_MAX); STORE(uint8_t, n);
    case TK_INT8: WITHIN(INT8_MIN, INT8_MAX); STORE(uint8_t, n);
    case TK_LONGLONG: case TK_ULONGLONG: if (node->tt != RAW_INT) return 0; STORE64(node->bits);
    case TK_FLOAT: return put_float(at, node, swap);
    case TK_DOUBLE: return put_double(at, node, swap);
    case TK_BOOLEAN: if (node->tt != RAW_TRUE && node->tt != RAW_FALSE) return 0; STORE(uint8_t, node->tt == RAW_TRUE);
    case TK_CHAR: return put_char(e, at, node);
    case TK_ENUM: return put_label(at, s, node, swap);
    default: PORT_NEVER(); return 0;
  }
}

/* Where another table has it than the last one. */
static PORT_NOINLINE const raw_node *search(const raw_table *v, mr_step *s) {
  uint32_t hint = 0;
  const raw_node *node = mr_find_node(v, s->key, &hint);
  if (node && hint < MR_FLAT_MOST) s->hint = (uint16_t)(hint * sizeof(raw_node));
  return node;
}

static inline const raw_node *find(const raw_table *v, mr_step *s) {
  const raw_node *node = (const raw_node *)(const void *)((const char *)v->node + s->hint);
  return PORT_LIKELY(node->key == s->key && node->key_tt == RAW_SHORT) ? node : search(v, s);
}

/* Hints must not lead beyond the nodes. */
static PORT_NOINLINE void forget(mr_flat *f, const raw_table *v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) f->steps[i].hint = 0;
  f->lsizenode = v->lsizenode;
}

static PORT_NOINLINE char *make_room(mr_out *o, char *at, size_t n) {
  o->at = at;
  mr_out_grow(o, n);
  return o->at;
}

#define ROOM(n) do { if (PORT_UNLIKELY((size_t)(o->end - at) < (n) + OUT_SLACK)) at = make_room(o, at, (n) + OUT_SLACK); } while (0)

/* The string that node has, at `at`; its end, or NULL. */
static PORT_INLINE char *put_text(mr_enc *e, char *at, const mr_step *s, const raw_node *node, const int swap) {
  mr_out *o = &e->o;
  const raw_string *string = (const raw_string *)(uintptr_t)node->bits;
  if (PORT_UNLIKELY(node->tt != RAW_SHORT && node->tt != RAW_LONG)) return NULL;
  size_t n = node->tt == RAW_SHORT ? string->shrlen : string->length;
  if (PORT_UNLIKELY(n >= INT32_MAX || (s->type->n && n > s->type->n))) return NULL;
  ROOM(n + 5);
  memset(at, 0, 4);
  at += -(size_t)(at - o->base) & 3;
  if (PORT_UNLIKELY(!copy_text(at + 4, string->text, n, e->codec & CDR_AS_IS ? 0 : HIGH))) return NULL;
  uint32_t length = (uint32_t)n + 1;
  if (swap) length = cdr_swap32(length);
  memcpy(at, &length, 4);
  at[4 + n] = 0;
  return at + 5 + n;
}

static PORT_INLINE char *put_all(mr_enc *e, const mr_flat *f, const raw_table *v, const int swap) {
  mr_out *o = &e->o;
  char *at = o->at;
  const raw_node *node;
  for (const mr_run *run = f->runs, *last = run + f->nruns; run < last; run++) {
    const unsigned a = (unsigned)(at - o->base) & 7;
    const size_t size = run->size[a];
    ROOM(size);
    for (size_t i = 0; i < size; i += 8) memset(at + i, 0, 8);   /* the padding between members is zero */
    for (mr_step *s = f->steps + run->first, *end = f->steps + run->end; s < end; s++) {
      node = find(v, s);
      if (PORT_UNLIKELY(!node || !put_fixed(e, at + s->at[a], s, node, swap))) return NULL;
    }
    at += size;
    if (run->text == MR_RUN_LAST) break;
    node = find(v, f->steps + run->text);
    if (PORT_UNLIKELY(!node || !(at = put_text(e, at, f->steps + run->text, node, swap)))) return NULL;
  }
  return at;
}

int mr_put_flat(mr_enc *e, const mr_type *t, const raw_table *v) {
  const size_t before = mr_out_length(&e->o);
  if (PORT_UNLIKELY(v->lsizenode != t->flat->lsizenode)) forget(t->flat, v, t->n);
  char *at = PORT_UNLIKELY(e->o.swap) ? put_all(e, t->flat, v, 1) : put_all(e, t->flat, v, 0);
  e->o.at = PORT_LIKELY(at != NULL) ? at : e->o.start + before;
  return at != NULL;
}

/* ---- from bytes to Lua ---- */

/* The string behind a run, on the stack; its end, or NULL. */
static inline const char *get_text(mr_dec *d, const mr_step *s, const char *at) {
  const mr_in *in = &d->in;
  at += -(size_t)(at - in->base) & 3;
  if (PORT_UNLIKELY(in->end - at < 4)) return NULL;
  size_t n = cdr_load32(at, d->codec & CDR_LITTLE);
  at += 4;
  if (PORT_UNLIKELY(n == 0 || n > (size_t)(in->end - at) || at[n - 1] || (s->type->n && n - 1 > s->type->n))) return NULL;
  if (PORT_UNLIKELY(!(d->codec & CDR_AS_IS) && !mr_text_ascii(at, n - 1))) return NULL;
  mr_push_text(d, at, n - 1);
  return at + n;
}

/* Where all runs begin; the strings are pushed. The bytes behind the struct, or NULL. */
static inline const char *get_texts(mr_dec *d, const mr_flat *f, const char **starts) {
  const char *at = d->in.at;
  for (const mr_run *run = f->runs, *end = run + f->nruns; run < end; run++) {
    size_t size = run->size[(at - d->in.base) & 7];
    if (PORT_UNLIKELY((size_t)(d->in.end - at) < size)) return NULL;
    *starts++ = at;
    at += size;
    if (run->text != MR_RUN_LAST && !(at = get_text(d, f->steps + run->text, at))) return NULL;
  }
  return at;
}

#define LOAD(type) type w; memcpy(&w, at, sizeof w)
#define LOAD16 LOAD(uint16_t); if (swap) w = cdr_swap16(w)
#define LOAD32 LOAD(uint32_t); if (swap) w = cdr_swap32(w)
#define LOAD64 LOAD(uint64_t); if (swap) w = cdr_swap64(w)
#define GIVE(type, value) do { to->bits = (uint64_t)(value); to->tt = (type); return 1; } while (0)

static PORT_INLINE int get_float(raw_node *to, const char *at, const int swap) {
  float f;
  double n;
  LOAD32;
  memcpy(&f, &w, 4);
  n = f;
  memcpy(&to->bits, &n, 8);
  to->tt = RAW_FLT;
  return 1;
}

/* Characters whose strings are there already: making one could collect garbage, when the table is not filled yet. */
static inline int get_char(const mr_dec *d, raw_node *to, const char *at) {
  const raw_value *kept = mr_kept_char(d, *at);
  if (PORT_UNLIKELY(!kept)) return 0;
  GIVE(RAW_SHORT, kept->bits);
}

static PORT_INLINE int get_label(raw_node *to, const mr_step *s, const char *at, const int swap) {
  LOAD32;
  if (w >= s->type->n || !s->type->members[w].key) return 0;
  GIVE(RAW_SHORT, s->type->members[w].key);
}

static PORT_INLINE int get_fixed(const mr_dec *d, raw_node *to, const mr_step *s, const char *at, const int swap) {
  switch (s->kind) {
    case TK_SHORT: { LOAD16; GIVE(RAW_INT, (int64_t)(int16_t)w); }
    case TK_USHORT: { LOAD16; GIVE(RAW_INT, w); }
    case TK_LONG: { LOAD32; GIVE(RAW_INT, (int64_t)(int32_t)w); }
    case TK_ULONG: { LOAD32; GIVE(RAW_INT, w); }
    case TK_LONGLONG: case TK_ULONGLONG: { LOAD64; GIVE(RAW_INT, w); }
    case TK_OCTET: GIVE(RAW_INT, (uint8_t)*at);
    case TK_INT8: GIVE(RAW_INT, (int64_t)(int8_t)*at);
    case TK_FLOAT: return get_float(to, at, swap);
    case TK_DOUBLE: { LOAD64; GIVE(RAW_FLT, w); }
    case TK_BOOLEAN: GIVE(*at ? RAW_TRUE : RAW_FALSE, 0);
    case TK_CHAR: return get_char(d, to, at);
    case TK_ENUM: return get_label(to, s, at, swap);
    default: PORT_NEVER(); return 0;
  }
}

static inline raw_node *node_at(raw_table *t, const mr_step *s) { return (raw_node *)(void *)((char *)t->node + s->place); }

static PORT_INLINE int fill(const mr_dec *d, const mr_flat *f, raw_table *table, const char *const *starts, const raw_value *texts, const int swap) {
  for (const mr_run *run = f->runs, *last = run + f->nruns; run < last; run++, starts++) {
    unsigned a = (unsigned)(*starts - d->in.base) & 7;
    for (const mr_step *s = f->steps + run->first, *end = f->steps + run->end; s < end; s++)
      if (PORT_UNLIKELY(!get_fixed(d, node_at(table, s), s, *starts + s->at[a], swap))) return 0;
    if (run->text == MR_RUN_LAST) continue;
    raw_node *to = node_at(table, f->steps + run->text);
    to->bits = texts->bits;
    to->tt = texts->tt;
    texts++;
  }
  return 1;
}

int mr_get_flat(mr_dec *d, const mr_type *t) {
  const char *starts[MR_FLAT_MOST + 1];
  const mr_flat *f = t->flat;
  lua_State *L = d->L;
  int before = lua_gettop(L);
  if (PORT_UNLIKELY(d->budget <= t->n)) return 0;
  const char *end = get_texts(d, f, starts);
  if (PORT_LIKELY(end)) {
    raw_table *table = mr_new_table(L, t);
    raw_value *texts = raw_top(L) - 1 - f->ntexts;
    if (PORT_LIKELY(table && (d->in.swap ? fill(d, f, table, starts, texts, 1) : fill(d, f, table, starts, texts, 0)))) {
      texts->bits = (uintptr_t)table;
      texts->tt = RAW_TABLE;
      ((raw_state *)L)->top = texts + 1;
      d->budget -= t->n + 1;
      d->in.at = end;
      return 1;
    }
  }
  lua_settop(L, before);
  return 0;
}
