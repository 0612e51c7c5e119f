/*
 * value: valuetypes, their boxes and abstract interfaces (CORBA 3.3 part 2, 9.3.4), in both directions.
 *
 * In Lua a value is a table with its members as fields, those of its bases too. Which type it has follows from its class, the metatable that the
 * program registered (ENV_CLASSES), else from its field _repid, else it is the type that is declared where it stands. A box is what it holds; where it
 * is not declared as a box, a table with _repid and _value, or the struct in it with _repid.
 *
 * A message's values are shared: the second time a value is written as an indirection to the first, and what was read once is the same table again. Who
 * was met already is in a Lua table at `fields` + 1, made for the first value. Encoding: table -> its type's number and its place; number -> the place of its
 * repository id. Decoding: value_in.c. When something fails, the error object takes that place, and no value is written or read any more.
 *
 * Values are written and read in pieces, as all that holds others, so that put_deep and get_deep can do it by a loop.
 */
#ifndef MR_CDR_VALUE_H
#define MR_CDR_VALUE_H

#include "cdr/type.h"

/* How a value begins: its tag's bits. Between them and zero lie the sizes of chunks. */
enum { VALUE_TAG = 0x7fffff00, VALUE_CODEBASE = 1, VALUE_ONE_ID = 2, VALUE_IDS = 6, VALUE_CHUNKED = 8 };
enum { MR_MOST_ROOM = 1024 };                   /* values for which room is made at once */
enum { MR_MOST_BASES = 64, MR_MOST_INHERITED = 1 << 16, MR_MOST_CUSTOM = 50 };   /* custom values inside custom values: each takes some of C's stack */

typedef struct mr_id { const char *s; size_t n; } mr_id;

struct mr_value {
  uint8_t custom, abstract, any;               /* any: CORBA::ValueBase, which every value is */
  uint32_t nids;
  mr_id ids[];                                 /* its own repository id, then those of the bases to which it can be truncated */
};

/* ---- types: value_type.c ---- */

/* What has to be known of a valuetype before it is made. */
typedef struct mr_shape { uint32_t n, inherited, nids; int custom, abstract; } mr_shape;

/*
 * Pushes the list of what a type refers to, for the valuetype or box whose table is at `at`: its members with those of its bases, then its repository ids;
 * and everything that it is, as keys. NULL, or what is wrong.
 */
const char *mr_value_shape(lua_State *L, int at, int kind, mr_shape *shape);
static inline size_t mr_value_size(const mr_shape *s) { return sizeof(mr_value) + s->nids * sizeof(mr_id); }
void mr_value_make(lua_State *L, int refs, mr_value *v, const mr_shape *shape);
/* Whether what has the type t may stand where `formal` is declared; `last` has what was found last. */
int mr_value_is(lua_State *L, int fields, const mr_type *t, const mr_type *formal, uint32_t *last);
/* The type with that repository id, if the environment knows one; else NULL. Pushes its userdata, or nil. Foreign code: allocates, raises. */
const mr_type *mr_value_find(lua_State *L, mr_cdr_env *env, int fields, const char *id, size_t n);

/* The type that t is, or is another name for: one that was made before its type was complete does not know all of it. */
static inline const mr_type *mr_itself(const mr_type *t) { return t->origin ? t->origin : t; }
static inline int mr_is_value(const mr_type *t) { return t->kind == TK_VALUE || t->kind == TK_VALUEBOX; }

/* ---- writing: value_out.c, value_custom.c ---- */

typedef struct mr_value_out {
  const mr_type *t;                            /* what it is */
  mr_val v;
  int chunked, wrapped;                        /* wrapped: a box whose content is the field _value */
  int list;                                    /* stack index of what its class wrote; 0: it is not custom */
  int strays;                                  /* before it was begun */
} mr_value_out;

/* -1: refused; 1: that was all of it; 0: n values follow, and then mr_value_end. */
int mr_value_begin(mr_enc *e, const mr_type *formal, mr_val v, mr_value_out *o, uint64_t *n);
mr_val mr_value_part(mr_enc *e, mr_value_out *o, uint64_t i, const mr_type **t);   /* from 0; t: NULL: it failed */
int mr_value_in_part(mr_enc *e, const mr_value_out *o, uint64_t i);                /* it was refused: always -1 */
void mr_value_end(mr_enc *e, mr_value_out *o);
int mr_put_value(mr_enc *e, const mr_type *t, mr_val v);
/* The type of a table by its class (1), or by its field _repid (2). 0: it tells none; -1: failed. */
int mr_value_type(mr_enc *e, mr_val v, const mr_type **t);
const mr_type *mr_type_ready(mr_enc *e);       /* of the table on top, compiled; NULL: failed */
/* Pushes what its class wrote: a list of types and values in turn. n: values. */
int mr_custom_begin(mr_enc *e, const mr_type *t, mr_val v, uint64_t *n);

/* ---- reading: value_in.c, value_custom.c ---- */

typedef struct mr_value_in {
  const mr_type *t;                            /* what it is read as */
  const mr_type *fill;                         /* whose members its table gets: its own, or those of the struct in a box; NULL: a box of something else */
  const char *id;                              /* what the table has to say of its type; NULL: nothing */
  uint32_t entry;                              /* which of the values that were read */
  uint32_t n;                                  /* values in it */
  int chunked, more;                           /* more: there may be more in it than is read */
} mr_value_in;

/* 1: it is there, on the stack; 0: n values follow, each to be stored, and then the end; what begins has entered (mr_dec_enter). */
int mr_value_begin_get(mr_dec *d, const mr_type *formal, mr_value_in *v);
static inline const mr_type *mr_value_part_type(const mr_value_in *v, uint32_t i) { return v->fill ? v->fill->members[i].type : v->t->element; }
void mr_value_store(mr_dec *d, const mr_value_in *v, uint32_t i);   /* the value on top */
void mr_value_end_get(mr_dec *d, mr_value_in *v);
void mr_get_value(mr_dec *d, const mr_type *t);
/* The object of a custom value, which is on top, reads itself. */
void mr_custom_read(mr_dec *d, const mr_type *t);

/* ---- chunks: chunk.c ---- */

/* The long that a value begins with. *outside: what was inside chunks is not now, and mr_chunk_inside brings back that level. */
uint32_t mr_chunk_tag(mr_in *in, uint32_t *outside);
void mr_chunk_inside(mr_in *in, uint32_t level);
/* The state of a value of the level `in` is at has been read: goes behind it. skip: there may be more than was read. 0: see in->bad. */
int mr_chunk_end(mr_in *in, int skip);
void mr_chunk_begin(mr_in *in, uint32_t level);                /* what follows is the state of a chunked value with so many around it */
void mr_chunk_skip_text(mr_in *in);                            /* a string, or an indirection to one */

#endif
