/* entry: cells, and entries of a dictionary with their values; nothing here knows where they lie. See dict.h. */
#include "share/stripe.h"

#include <stdlib.h>

/* ---- cells ---- */

static void cell_destroy(mr_shared *o) {
  mr_cell *c = (mr_cell *)(void *)o;
  mr_message_free(c->message);
  free(c);
}

const mr_sharetype mr_cell_type = { .name = "cell", .destroy = cell_destroy };

static mr_cell *cell_new(size_t length) {
  mr_cell *c = malloc(sizeof *c + length);
  if (!c) return NULL;
  c->shared.type = &mr_cell_type;
  atomic_init(&c->shared.refs, 1);
  c->message = NULL;
  c->length = length;
  return c;
}

mr_cell *mr_cell_of_text(const char *text, size_t length) {
  mr_cell *c = cell_new(length);
  if (c) memcpy(c->bytes, text, length);
  return c;
}

mr_cell *mr_cell_of_message(mr_message *m) {
  mr_cell *c = cell_new(0);
  if (c) c->message = m;
  return c;
}

size_t mr_cell_size(const mr_cell *c) { return sizeof *c + c->length + (c->message ? mr_message_size(c->message) : 0); }

/* ---- entries ---- */

static size_t object_bytes(const mr_shared *o) { return o->type == &mr_cell_type ? mr_cell_size((const mr_cell *)(const void *)o) : 0; }

/* What malloc adds, and its place. */
#define MORE (2 * sizeof(void *) + sizeof(mr_entry *))

static size_t room_for(const mr_dict_value *v) { return v->kind == DICT_TEXT ? (v->length + 7) & ~(size_t)7 : 0; }

size_t mr_dict_cost(const mr_key *k, const mr_dict_value *v) {
  return sizeof(mr_entry) + MORE + k->length + room_for(v) + (v->kind == DICT_OBJECT ? object_bytes(v->object) : 0);
}

size_t mr_entry_bytes(const mr_entry *e) {
  return sizeof *e + MORE + e->key_length + e->room + (e->kind == DICT_OBJECT ? object_bytes(e->u.object) : 0);
}

static char *text_of(const mr_entry *e) { return (char *)(uintptr_t)e->bytes + e->key_length; }

/* The old object, if there is one, is the caller's to release. */
void mr_entry_store(mr_entry *e, const mr_dict_value *v) {
  e->kind = v->kind;
  if (v->kind == DICT_SCALAR) {
    e->u.scalar = v->scalar;
  } else if (v->kind == DICT_TEXT) {
    e->text_length = (unsigned char)v->length;
    memcpy(text_of(e), v->text, v->length);
  } else {
    mr_retain(v->object);
    e->u.object = v->object;
  }
}

mr_entry *mr_entry_new(const mr_key *k, const mr_dict_value *v, const mr_dict_put *how) {
  size_t room = room_for(v);
  mr_entry *e = malloc(sizeof *e + k->length + room);
  if (!e) return NULL;
  memset(e, 0, sizeof *e);
  e->hash = k->hash;
  e->number = k->number;
  e->key_type = k->type;
  e->key_length = k->length;
  e->room = (unsigned char)room;
  memcpy(e->bytes, k->text, k->length);
  if (how->budget) mr_budget_retain(e->budget = how->budget);
  mr_entry_store(e, v);
  return e;
}

void mr_entry_free(mr_entry *e, int charged) {
  if (e->budget) {
    if (charged) mr_budget_give(e->budget, mr_entry_bytes(e));
    mr_budget_release(e->budget);
  }
  if (e->kind == DICT_OBJECT) mr_release(e->u.object);
  free(e);
}

void mr_entry_value(const mr_entry *e, mr_dict_value *out, char *room) {
  out->kind = e->kind;
  if (e->kind == DICT_SCALAR) {
    out->scalar = e->u.scalar;
  } else if (e->kind == DICT_TEXT) {
    out->length = e->text_length;
    out->text = room ? memcpy(room, text_of(e), e->text_length) : text_of(e);
  } else {
    out->object = e->u.object;
    mr_retain(out->object);
  }
}

static int same_scalar(const mr_scalar *a, const mr_scalar *b) {
  if (a->type != b->type) {                      /* 1 == 1.0, as in Lua */
    const mr_scalar *i = a->type == (0x10 | LUA_TNUMBER) ? a : b, *n = i == a ? b : a;
    if (i->type != (0x10 | LUA_TNUMBER) || n->type != LUA_TNUMBER) return 0;
    return n->u.n >= -0x1p63 && n->u.n < 0x1p63 && (lua_Number)(lua_Integer)n->u.n == n->u.n && (lua_Integer)n->u.n == i->u.i;
  }
  switch (a->type) {
    case 0x10 | LUA_TNUMBER: return a->u.i == b->u.i;
    case LUA_TNUMBER: return a->u.n == b->u.n;
    case LUA_TBOOLEAN: return !a->u.b == !b->u.b;
    case LUA_TLIGHTUSERDATA: return a->u.p == b->u.p;
    default: return 1;
  }
}

static int same_text(const char *text, size_t length, const mr_dict_value *v) {
  return length == v->length && memcmp(text, v->text, length) == 0;
}

/* Texts that are long are equal by their bytes, too; other cells never. */
static int same_object(const mr_shared *a, const mr_shared *b) {
  const mr_cell *x = (const mr_cell *)(const void *)a, *y = (const mr_cell *)(const void *)b;
  if (a == b) return 1;
  if (a->type != &mr_cell_type || b->type != &mr_cell_type || x->message || y->message) return 0;
  return x->length == y->length && memcmp(x->bytes, y->bytes, x->length) == 0;
}

/* What is to be compared comes as a text, however long it is. */
static int is_cell_of(const mr_shared *o, const mr_dict_value *v) {
  const mr_cell *c = (const mr_cell *)(const void *)o;
  return v->kind == DICT_TEXT && o->type == &mr_cell_type && !c->message && same_text(c->bytes, c->length, v);
}

int mr_entry_is(const mr_entry *e, const mr_dict_value *v) {
  if (!e) return v->kind == DICT_ABSENT;
  if (e->kind != v->kind) return e->kind == DICT_OBJECT && is_cell_of(e->u.object, v);
  switch (e->kind) {
    case DICT_SCALAR: return same_scalar(&e->u.scalar, &v->scalar);
    case DICT_TEXT: return same_text(text_of(e), e->text_length, v);
    default: return same_object(e->u.object, v->object);
  }
}
