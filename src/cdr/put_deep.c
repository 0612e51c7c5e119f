/*
 * put_deep: encodes values inside values inside values without recursion. See MR_RECURSION in type.h.
 *
 * Each value that is being written has a frame: where in it we are. There is more room for frames by mr_foreign, as that may collect garbage; what
 * is being entered is on the stack by then.
 */
#include "cdr/put.h"
#include "cdr/frames.h"
#include "cdr/value.h"
#include "transfer/transfer.h"

typedef struct frame {
  const mr_type *t, *inside;                   /* inside: the type of an any's value */
  const mr_member *member;                     /* of a union */
  mr_val v;
  uint64_t i, n;                               /* values in it that were begun; how many there are */
  int strays;                                  /* when it was begun */
  mr_value_out value;                          /* of a valuetype, a box, an abstract interface */
} frame;

typedef struct stack { mr_enc *e; mr_frames open; } stack;

static int push(stack *s, const frame *f) {
  if (s->open.n == s->open.room) {
    lua_State *L = s->e->L;
    lua_pushvalue(L, s->open.index);
    lua_pushinteger(L, (lua_Integer)s->open.size);
    if (mr_foreign(s->e, mr_frames_more, 2)) return -1;
    lua_replace(L, s->open.index);
    mr_frames_moved(L, &s->open);
  }
  *(frame *)mr_frames_new(&s->open) = *f;
  return 0;
}

/* Begins a value: 1: that was all of it. */
static int begin(stack *s, const mr_type *t, mr_val v) {
  mr_enc *e = s->e;
  frame f = { .t = t, .v = v, .n = 1, .strays = e->strays };
  int r;
  switch (t->kind) {
    case TK_STRUCT: case TK_EXCEPT: r = mr_struct_begin(e, t, v); f.n = t->n; break;
    case TK_UNION: r = mr_union_begin(e, t, v, &f.member); f.n = f.member != NULL; break;
    case TK_ANY: r = mr_any_begin(e, v, &f.inside); break;
    case TK_VALUE: case TK_VALUEBOX: case TK_ABSTRACT:
      r = mr_value_begin(e, t, v, &f.value, &f.n);
      f.strays = e->strays;
      break;
    default: r = mr_list_begin(e, t, v, &f.i, &f.n); break;
  }
  return r ? r : push(s, &f);
}

/* The next value inside the last one; 0: there is no other. What a union or an any put on the stack stays until its value is done. */
static int next(stack *s, const mr_type **t, mr_val *v) {
  mr_enc *e = s->e;
  frame *f = mr_frames_last(&s->open);
  int kind = f->t->kind, last = f->i == f->n;
  if (e->strays != f->strays && (last || (kind != TK_UNION && kind != TK_ANY))) mr_drop(e, f->strays);
  if (last) {
    if (mr_is_value(f->t) || kind == TK_ABSTRACT) mr_value_end(e, &f->value);
    return 0;
  }
  uint64_t i = f->i++;
  switch (kind) {
    case TK_STRUCT: case TK_EXCEPT: *t = f->t->members[i].type; *v = mr_field(e, f->v, &f->t->members[i]); break;
    case TK_UNION: *t = f->member->type; *v = mr_union_value(e, f->v, f->member); break;
    case TK_ANY: *t = f->inside; *v = mr_any_value(e, f->v); break;
    case TK_VALUE: case TK_VALUEBOX: case TK_ABSTRACT: *v = mr_value_part(e, &f->value, i, t); break;
    default: *t = f->t->element; *v = mr_list_element(e, f->v, i + 1); break;
  }
  return 1;
}

/* A value inside it was refused. */
static void name_place(mr_enc *e, const frame *f) {
  switch (f->t->kind) {
    case TK_STRUCT: case TK_EXCEPT: mr_in_member(e, f->t->members[f->i - 1].name); break;
    case TK_UNION: mr_in_member(e, f->member->name); break;
    case TK_ANY: mr_in_member(e, "_anyval"); break;
    case TK_VALUE: case TK_VALUEBOX: case TK_ABSTRACT: mr_value_in_part(e, &f->value, f->i - 1); break;
    default: mr_in_element(e, f->i); break;
  }
}

int mr_put_deep(mr_enc *e, const mr_type *t, mr_val v) {
  stack s = { .e = e };
  if (!lua_checkstack(e->L, 20)) mr_raise_memory(e->L);
  mr_frames_begin(e->L, &s.open, sizeof(frame));
  e->strays++;
  int r = begin(&s, t, v);
  while (r >= 0 && s.open.n) {
    if (!next(&s, &t, &v)) {
      mr_leave(e);
      s.open.n--;
    } else r = PORT_UNLIKELY(!t) ? -1 : mr_is_deep(t) ? begin(&s, t, v) : mr_put(e, t, v);
  }
  for (; s.open.n; s.open.n--) name_place(e, mr_frames_last(&s.open));
  if (r < 0) return -1;
  lua_pop(e->L, 1);
  e->strays--;
  return 0;
}
