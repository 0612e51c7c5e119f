/*
 * get_deep: decodes values inside values inside values without recursion. See MR_RECURSION in type.h.
 *
 * Each value that is being read has a frame: where in it we are. It takes fewer bytes than the tables that the value will become.
 */
#include <stdio.h>
#include "cdr/get.h"
#include "cdr/frames.h"
#include "cdr/value.h"
#include "transfer/transfer.h"

typedef struct frame {
  const mr_type *t, *inside;                   /* inside: the type of the one value in a union or an any */
  uint32_t i, n;                               /* values in it that were begun; how many there are */
  mr_value_in value;                           /* of a valuetype, a box, an abstract interface */
} frame;

typedef struct stack { mr_dec *d; mr_frames open; } stack;

static void check_depth(mr_dec *d, int depth) {
  char text[60];
  if (PORT_LIKELY(depth <= MR_MAX_DEPTH)) return;
  snprintf(text, sizeof text, "a value nested more than %d levels deep", MR_MAX_DEPTH);
  mr_dec_raise(d, "MARSHAL", 0, text);
}

static void begin(stack *s, const mr_type *t) {
  mr_dec *d = s->d;
  frame f = { .t = t };
  int value = mr_is_value(t) || t->kind == TK_ABSTRACT;     /* null is none */
  if (!value) check_depth(d, d->depth + 1);
  switch (t->kind) {
    case TK_EXCEPT: mr_except_begin(d); /* fall through */
    case TK_STRUCT: mr_dec_enter(d, t->n); f.n = t->n; break;
    case TK_UNION: f.inside = mr_union_begin_get(d, t); f.n = f.inside != NULL; break;
    case TK_ANY: f.inside = mr_any_begin_get(d); f.n = 1; break;
    case TK_VALUE: case TK_VALUEBOX: case TK_ABSTRACT:
      if (mr_value_begin_get(d, t, &f.value)) return;
      f.n = f.value.n;
      break;
    default:
      if (!mr_list_begin_get(d, t, &f.n)) break;
      mr_dec_leave(d);
      return;
  }
  if (value) check_depth(d, d->depth);
  *(frame *)mr_frames_push(d->L, &s->open) = f;
}

/* All values in it are there. */
static void end(mr_dec *d, frame *f) {
  switch (f->t->kind) {
    case TK_EXCEPT: mr_build(d, f->t); mr_except_end(d); break;
    case TK_STRUCT: mr_build(d, f->t); break;
    case TK_UNION: mr_build(d, d->env->choice); break;
    case TK_ANY: mr_build(d, d->env->any); break;
    case TK_VALUE: case TK_VALUEBOX: case TK_ABSTRACT: mr_value_end_get(d, &f->value); break;
    default: mr_list_end(d, f->t, f->n); break;
  }
  mr_dec_leave(d);
}

/* The type of the next value inside the last one; NULL: there is no other. */
static const mr_type *next(mr_dec *d, frame *f) {
  const mr_type *t = f->t;
  int list = t->kind == TK_SEQUENCE || t->kind == TK_ARRAY, value = mr_is_value(t) || t->kind == TK_ABSTRACT;
  if (list && f->i) mr_list_store(d, f->i - 1);
  if (value && f->i) mr_value_store(d, &f->value, f->i - 1);
  if (f->i == f->n) return NULL;
  uint32_t i = f->i++;
  if (value) return mr_value_part_type(&f->value, i);
  if (!list) return f->inside ? f->inside : t->members[i].type;
  d->reserved -= t->element->min;
  return t->element;
}

void mr_get_deep(mr_dec *d, const mr_type *t) {
  stack s = { .d = d };
  if (!lua_checkstack(d->L, 12)) mr_raise_memory(d->L);
  mr_frames_begin(d->L, &s.open, sizeof(frame));
  begin(&s, t);
  while (s.open.n) {
    frame *f = mr_frames_last(&s.open);
    t = next(d, f);
    if (!t) {
      end(d, f);
      s.open.n--;
    } else if (mr_is_deep(t)) begin(&s, t);
    else mr_get(d, t);
  }
  mr_assert(lua_gettop(d->L) == s.open.index + 1);           /* the value and nothing else */
  lua_remove(d->L, s.open.index);
}
