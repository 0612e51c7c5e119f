/*
 * union: unions in both directions. In Lua a table with _switch (the discriminator), _field (the member it selects) and _value.
 *
 * What is sent: _switch, if it is there, exactly; else the first label of _field, or of the member that the table has by its own name. For the
 * default member that is the smallest value from 0 that no label takes.
 */
#include <stdlib.h>
#include "cdr/union.h"
#include "cdr/put.h"
#include "cdr/get.h"
#include "cdr/text.h"

/* ---- labels; sorted by value, so that finding one takes few steps however many there are ---- */

static int by_value(const void *a, const void *b) {
  int64_t x = ((const mr_label *)a)->value, y = ((const mr_label *)b)->value;
  return x < y ? -1 : x > y;
}

/* The labels are in the members. NULL, or what is wrong with them. */
const char *mr_union_ready(mr_type *t) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n; i++)
    if ((int32_t)i != t->fallback) t->labels[n++] = (mr_label) { t->members[i].label, i };
  t->nlabels = n;
  qsort(t->labels, n, sizeof *t->labels, by_value);
  t->unused = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i && t->labels[i].value == t->labels[i - 1].value) return "has the same label twice";
    if (t->labels[i].value == t->unused) t->unused++;
  }
  return NULL;
}

static const mr_member *find(const mr_type *t, int64_t value) {
  uint32_t low = 0, high = t->nlabels;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (t->labels[middle].value < value) low = middle + 1;
    else high = middle;
  }
  if (low < t->nlabels && t->labels[low].value == value) return &t->members[t->labels[low].member];
  return t->fallback < 0 ? NULL : &t->members[t->fallback];
}

/* What the discriminator's type has at most. */
static int64_t most(const mr_type *t) {
  switch (t->kind) {
    case TK_BOOLEAN: return 1;
    case TK_CHAR: case TK_OCTET: return 255;
    case TK_SHORT: return INT16_MAX;
    case TK_USHORT: case TK_WCHAR: return UINT16_MAX;
    case TK_LONG: return INT32_MAX;
    case TK_ULONG: return UINT32_MAX;
    case TK_ENUM: return (int64_t)t->n - 1;
    default: return INT64_MAX;
  }
}

int mr_union_allows(const mr_type *t) {
  return t->kind == TK_SHORT || t->kind == TK_LONG || t->kind == TK_USHORT || t->kind == TK_ULONG || t->kind == TK_LONGLONG ||
         t->kind == TK_ULONGLONG || t->kind == TK_BOOLEAN || t->kind == TK_CHAR || t->kind == TK_WCHAR || t->kind == TK_ENUM || t->kind == TK_OCTET;
}

/* ---- encoding ---- */

/* The number of a discriminator that has been encoded, and so is right. */
static int64_t value_of(mr_enc *e, const mr_type *t, mr_val v) {
  size_t n, used;
  uint32_t ordinal = 0;
  double f;
  switch (t->kind) {
    case TK_BOOLEAN: return v.tt == RAW_TRUE;
    case TK_ENUM: mr_enum_ordinal(e, t, v, &ordinal); return ordinal;
    case TK_CHAR: return (unsigned char)e->o.at[-1];
    case TK_WCHAR: {
      const char *s = mr_val_text(e, v, &n);
      return mr_text_read(s, n, &used);
    }
    default:
      if (v.tt == RAW_INT) return (int64_t)v.bits;
      memcpy(&f, &v.bits, 8);
      return f >= 9223372036854775808.0 ? (int64_t)(uint64_t)f : (int64_t)f;
  }
}

static int put_label(mr_enc *e, const mr_type *t, int64_t label) {
  switch (t->kind) {
    case TK_BOOLEAN: case TK_CHAR: mr_out_u8(&e->o, (unsigned)label & 255); return 0;
    case TK_ENUM: mr_out_u32(&e->o, (uint32_t)label); return 0;
    case TK_WCHAR: return mr_put_unit(e, (uint32_t)label);
    default: return mr_put(e, t, (mr_val) { (uint64_t)label, RAW_INT });
  }
}

static mr_member *member_named(mr_enc *e, const mr_type *t, mr_val name) {
  size_t n;
  if (name.tt != RAW_SHORT && name.tt != RAW_LONG) return NULL;
  const char *s = mr_val_text(e, name, &n);
  for (uint32_t i = 0; i < t->n; i++)
    if (t->members[i].length == n && memcmp(t->members[i].name, s, n) == 0) return &t->members[i];
  return NULL;
}

/* Whether the table itself has this member. */
static int has_own(mr_enc *e, mr_val table, mr_member *m) {
  lua_State *L = e->L;
  if (e->raw && m->key) {
    const raw_node *node = mr_find_node((const raw_table *)(uintptr_t)table.bits, m->key, &m->hint);
    return node && !raw_isnil(node->tt);
  }
  mr_push_val(e, table);
  lua_pushlstring(L, m->name, m->length);
  int has = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return has;
}

/* A member behind the one at i, with another name, that the table has itself; 0: there is none. */
static uint32_t other_own(mr_enc *e, const mr_type *t, mr_val v, uint32_t i) {
  const mr_member *is = &t->members[i];
  if (e->raw && raw_nodes((const raw_table *)(uintptr_t)v.bits) == 1 && has_own(e, v, &t->members[i])) return 0;
  for (uint32_t k = i + 1; k < t->n; k++) {
    mr_member *other = &t->members[k];
    if (other->length == is->length && memcmp(other->name, is->name, is->length) == 0) continue;     /* another label of the same */
    if (has_own(e, v, other)) return k;
  }
  return 0;
}

/* The member at i is there. What the table has itself goes before what its class gives; of its own there may be one. */
static int check_only(mr_enc *e, const mr_type *t, mr_val v, uint32_t i, const mr_member **chosen) {
  for (uint32_t k; (k = other_own(e, t, v, i)) != 0; i = k) {
    if (has_own(e, v, &t->members[i]))
      return mr_refuse(e, "BAD_PARAM", 0, "one member of union %s expected, got '%s' and '%s'", t->name ? t->name : "?", t->members[i].name, t->members[k].name);
  }
  *chosen = &t->members[i];
  return 0;
}

/* The member that the table has by its own name. */
static int choose_present(mr_enc *e, const mr_type *t, mr_val v, const mr_member **chosen) {
  int strays = e->strays;
  for (uint32_t i = 0; i < t->n; i++) {
    mr_val x = mr_field(e, v, &t->members[i]);
    if (e->strays != strays) mr_drop(e, strays);
    if (x.tt == RAW_NIL) continue;
    return check_only(e, t, v, i, chosen);
  }
  return mr_refuse(e, "BAD_PARAM", 0, "_switch, _field or a member of union %s expected", t->name ? t->name : "?");
}

static int put_chosen(mr_enc *e, const mr_type *t, const mr_member *m) {
  if (m != &t->members[t->fallback < 0 ? 0 : t->fallback] || t->fallback < 0) return put_label(e, t->element, m->label);
  if (t->unused > most(t->element)) return mr_refuse(e, "BAD_PARAM", 0, "_switch expected: no value is left for the default member '%s'", m->name);
  return put_label(e, t->element, t->unused);
}

/* _field is there: the member of that name, which is `chosen` if that has it (so a union that was received costs no search); NULL: refused. */
static const mr_member *check_field(mr_enc *e, const mr_type *t, mr_val field, const mr_member *chosen) {
  size_t n;
  const char *s = field.tt == RAW_SHORT || field.tt == RAW_LONG ? mr_val_text(e, field, &n) : NULL;
  if (s && chosen && chosen->length == n && memcmp(chosen->name, s, n) == 0) return chosen;
  const mr_member *named = member_named(e, t, field);
  if (named) return named;
  mr_wrong(e, "a member's name", field);
  mr_in_member(e, "_field");
  return NULL;
}

static int put_switch(mr_enc *e, const mr_type *t, mr_val v, const mr_member **chosen) {
  mr_val field = mr_field(e, v, &e->env->choice->members[1]);
  mr_push_val(e, field);                       /* keeps it while a metamethod gives _switch */
  e->strays++;
  mr_val given = mr_field(e, v, &e->env->choice->members[0]);
  if (given.tt == RAW_NIL) {
    if (field.tt == RAW_NIL && choose_present(e, t, v, chosen)) return -1;
    if (field.tt != RAW_NIL) *chosen = check_field(e, t, field, NULL);
    return *chosen ? put_chosen(e, t, *chosen) : -1;
  }
  if (mr_put(e, t->element, given)) return mr_in_member(e, "_switch");
  *chosen = find(t, value_of(e, t->element, given));
  const mr_member *named = field.tt != RAW_NIL ? check_field(e, t, field, *chosen) : *chosen;
  if (named == *chosen) return 0;
  return !named ? -1 : mr_refuse(e, "BAD_PARAM", 0, "_switch selects %s%s%s, but _field is '%s'", *chosen ? "'" : "",
                                 *chosen ? (*chosen)->name : "no member", *chosen ? "'" : "", named->name);
}

int mr_union_begin(mr_enc *e, const mr_type *t, mr_val v, const mr_member **m) {
  *m = NULL;
  if (v.tt != RAW_TABLE) return mr_wrong(e, t->name ? t->name : "union", v);
  return mr_enter(e, v) || put_switch(e, t, v, m) ? -1 : 0;
}

mr_val mr_union_value(mr_enc *e, mr_val v, const mr_member *m) {
  mr_val x = mr_field(e, v, &e->env->choice->members[2]);
  return x.tt == RAW_NIL ? mr_field(e, v, (mr_member *)m) : x;
}

int mr_put_union(mr_enc *e, const mr_type *t, mr_val v) {
  const mr_member *m;
  if (PORT_UNLIKELY(e->depth >= MR_RECURSION)) return mr_put_deep(e, t, v);
  int strays = e->strays;
  if (mr_union_begin(e, t, v, &m)) return -1;
  if (m && mr_put(e, m->type, mr_union_value(e, v, m))) return mr_in_member(e, m->name);
  if (e->strays != strays) mr_drop(e, strays);
  mr_leave(e);
  return 0;
}

/* ---- decoding ---- */

static int64_t read_label(mr_dec *d, const mr_type *t) {
  mr_in before = d->in;
  mr_get(d, t);                                /* pushes it as Lua has it */
  size_t n, used;
  switch (t->kind) {
    case TK_BOOLEAN: return mr_in_u8(&before) != 0;
    case TK_CHAR: case TK_OCTET: return mr_in_u8(&before);
    case TK_ENUM: case TK_ULONG: return mr_in_u32(&before);
    case TK_LONG: return (int32_t)mr_in_u32(&before);
    case TK_SHORT: return (int16_t)mr_in_u16(&before);
    case TK_USHORT: return mr_in_u16(&before);
    case TK_WCHAR: {
      const char *s = lua_tolstring(d->L, -1, &n);
      return mr_text_read(s, n, &used);
    }
    default: return (int64_t)mr_in_u64(&before);
  }
}

const mr_type *mr_union_begin_get(mr_dec *d, const mr_type *t) {
  mr_dec_enter(d, 3);
  const mr_member *m = find(t, read_label(d, t->element));
  if (!m) {
    lua_pushnil(d->L);
    lua_pushnil(d->L);
    return NULL;
  }
  if (d->raw && m->key) raw_push(d->L, RAW_SHORT, m->key);
  else lua_pushlstring(d->L, m->name, m->length);
  return m->type;
}

void mr_get_union(mr_dec *d, const mr_type *t) {
  if (PORT_UNLIKELY(d->depth >= MR_RECURSION)) { mr_get_deep(d, t); return; }
  const mr_type *inside = mr_union_begin_get(d, t);
  if (inside) mr_get(d, inside);
  mr_build(d, d->env->choice);
  mr_dec_leave(d);
}
