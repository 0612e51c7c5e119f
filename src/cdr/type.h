/*
 * type: a type as the marshalling programs know it, and what their two directions share.
 *
 * A type (mr_type) is compiled once per environment from its Lua table and then constant, but for hints. It is a userdata, found by its table in
 * the environment's weak cache; its user values are that table and a list of everything it points to (other types, the strings of its members),
 * so that pointers in it are good as long as it is. A program (mr_program) is a list of types.
 *
 * Values are read and built raw (transfer/layout.h) where Lua's structures are as we know them, else through the API; `raw` says which. What the
 * two give is the same.
 */
#ifndef MR_CDR_TYPE_H
#define MR_CDR_TYPE_H

#include <lauxlib.h>
#include "cdr/cdr.h"
#include "transfer/layout.h"

/* The kinds, by their numbers in TypeCodes. */
enum {
  TK_NULL, TK_VOID, TK_SHORT, TK_LONG, TK_USHORT, TK_ULONG, TK_FLOAT, TK_DOUBLE, TK_BOOLEAN, TK_CHAR, TK_OCTET, TK_ANY, TK_TYPECODE, TK_PRINCIPAL,
  TK_OBJREF, TK_STRUCT, TK_UNION, TK_ENUM, TK_STRING, TK_SEQUENCE, TK_ARRAY, TK_ALIAS, TK_EXCEPT, TK_LONGLONG, TK_ULONGLONG, TK_LONGDOUBLE,
  TK_WCHAR, TK_WSTRING, TK_FIXED, TK_VALUE, TK_VALUEBOX, TK_NATIVE, TK_ABSTRACT, TK_LOCAL, TK_KINDS,
  TK_OCTETS = TK_KINDS, TK_CHARS               /* sequences and arrays of octet and char, which are strings in Lua */
};
#define TK_INDIRECTION 0xffffffffu

typedef struct mr_type mr_type;

typedef struct mr_member {
  const mr_type *type;
  const char *name;
  uint64_t key;                                /* the name's string, 0 when it is too long to be known by its address */
  uint32_t length;
  uint32_t hint;                               /* where the last table had it */
  uint32_t place;                              /* where new tables get it */
  int64_t label;                               /* of a union */
} mr_member;

typedef struct mr_label { int64_t value; uint32_t member; } mr_label;

struct mr_type {
  uint8_t kind, fixed;                         /* fixed: an array, whose length is not sent */
  uint8_t lsizenode;                           /* of new tables; 255: no template */
  uint8_t alias;                               /* another name for what the rest says */
  uint8_t ready;                               /* 0: being compiled, or that failed; 1: this type is there; SOUND: so is all that it leads to */
  uint32_t serial;                             /* of the compilation that made it */
  mr_type *made;                               /* the one made before it, until that compilation ends */
  uint32_t level;                              /* while it is compiled: sequences around it */
  uint32_t n;                                  /* members, labels, bound or length, digits */
  uint32_t scale;
  uint32_t map;                                /* mask of `slots` */
  int32_t lastfree;                            /* of the template's nodes */
  int32_t fallback;                            /* of a union: which member is the default, from 0; -1: none */
  uint64_t min;                                /* bytes a value has at least */
  const mr_type *element;                      /* of sequences and arrays; the discriminator of a union */
  mr_member *members;                          /* of an enum: its labels */
  raw_node *nodes;                             /* what the hash part of a new table begins as */
  uint32_t *slots;                             /* of an enum: 1 + ordinal by the address of a short label; mr_long_label has the others */
  mr_label *labels;                            /* of a union: by their values; that many: */
  uint32_t nlabels;
  int64_t unused;                              /* the smallest from 0 that is none of them */
  const char *name, *id;
};

/* ---- the environment's fields: a list on the stack of who needs them ---- */
enum {
  ENV_PROXIES = 1, ENV_IORS,                   /* canonical IOR -> value, weak values; value -> canonical IOR, weak keys */
  ENV_IN, ENV_OUT, ENV_FAIL, ENV_RESOLVE,      /* functions, or false */
  ENV_TYPES, ENV_ADDRESSES,                    /* type's table -> its userdata, weak keys; light userdata -> userdata, weak values */
  ENV_BASIC,                                   /* kind -> table, of the kinds that have no parameters, and unbounded strings */
  ENV_WRITTEN, ENV_READ,                       /* of TypeCodes, see typecode_out.c, any.c */
  ENV_RECENT,                                  /* see reference.c */
  ENV_OWN,                                     /* what the pointers of mr_cdr_env need */
  ENV_N,                                       /* the string "n" */
  ENV_FIELDS = ENV_N
};

typedef struct mr_cdr_env {
  uintptr_t tag;
  uint32_t serial;
  const mr_type *any, *choice;                 /* the tables that stand for an any (_anytype, _anyval), for a union (_switch, _field, _value) */
} mr_cdr_env;

typedef struct mr_program {
  uintptr_t tag;
  mr_cdr_env *env;
  uint32_t n;
  const mr_type **types;
  const char **names;                          /* NULL: they have none */
} mr_program;

enum { MR_MAX_DEPTH = 256 };                   /* of values, and of types */
enum { SOUND = 2 };

/*
 * The type of the table on top of the stack, which is replaced by its userdata. `fields` is the stack index of the environment's list.
 * Raises; wire: BAD_TYPECODE, as the table was made of received bytes.
 */
const mr_type *mr_type_get(lua_State *L, mr_cdr_env *env, int fields, int wire);
/* Where an enum's `slots` have the label with that key, or 0. */
static inline uint32_t mr_short_label(const mr_type *t, uint64_t key) {
  uint32_t slot = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 40) & t->map;
  while (t->slots[slot] && t->members[t->slots[slot] - 1].key != key) slot = (slot + 1) & t->map;
  return slot;
}
/* The ordinal of the long label on top of the stack, which is taken off; -1: the enum has none such. */
int64_t mr_long_label(lua_State *L, int fields, const mr_type *t);
const mr_type *mr_type_known(lua_State *L, int fields, int idx);   /* of the table at idx, if it was compiled; else NULL */
/* The table of what t is, or is another name for. May run metamethods. */
void mr_push_type(lua_State *L, int fields, const mr_type *t);
static inline int mr_may_be_nil(const mr_type *t) {
  return t->kind == TK_OBJREF || t->kind == TK_ANY || t->kind == TK_NULL || t->kind == TK_VOID;
}
int mr_kind_of(const char *name);              /* -1: there is none */
const char *mr_kind_name(const mr_type *t);    /* for messages */

/* ---- a value of Lua ---- */

/* tt as in layout.h. bits: the number's, or the object's address; through the API a string's or object's stack index. */
typedef struct mr_val { uint64_t bits; uint8_t tt; } mr_val;

/* ---- encoding ---- */

typedef struct mr_enc {
  mr_out o;                                    /* first */
  lua_State *L;
  mr_cdr_env *env;
  int raw, codec, depth, room;
  int strays;                                  /* values on the stack that are not tables being read: fields through the API, or inherited */
  int fields;                                  /* stack index of the environment's list; above it, room for a foreign error object */
  const char *exception;                       /* what fails, and why */
  int minor, raised;                           /* raised: the error object is there */
  uint32_t at, cut;                            /* where in `path` the path begins; its own beginning is missing */
  char text[240], path[256];
} mr_enc;

int mr_put(mr_enc *e, const mr_type *t, mr_val v);    /* 0, or -1: see e->exception */
mr_val mr_val_at(const mr_enc *e, int idx);
mr_val mr_field(mr_enc *e, mr_val table, mr_member *m);
const char *mr_val_text(const mr_enc *e, mr_val v, size_t *n);
int  mr_index(lua_State *L);                   /* index(table, light userdata name) -> table[name], with its metamethods */
int  mr_enter(mr_enc *e, mr_val table);
void mr_leave(mr_enc *e);
void mr_drop(mr_enc *e, int strays);           /* the values on the stack that are above that many strays */
int  mr_wrong(mr_enc *e, const char *expected, mr_val got);   /* BAD_PARAM: always -1 */
int  mr_refuse(mr_enc *e, const char *exception, int minor, const char *format, ...) __attribute__((format(printf, 4, 5)));
int  mr_in_member(mr_enc *e, const char *name);        /* prepend to the path: always -1 */
int  mr_in_element(mr_enc *e, uint64_t i);

/* ---- decoding ---- */

typedef struct mr_dec {
  mr_in in;                                    /* first */
  lua_State *L;
  mr_cdr_env *env;
  int raw, codec, depth, room;
  int fields;
  uint64_t budget;                             /* tables, and fields in them, that may still be made */
  uint64_t reserved;                           /* bytes that the elements to come of the lists being read need at least */
} mr_dec;

void mr_get(mr_dec *d, const mr_type *t);      /* pushes a value; raises */
PORT_NORETURN void mr_dec_raise(mr_dec *d, const char *exception, int minor, const char *what);
PORT_NORETURN void mr_env_raise(lua_State *L, int fields, const char *exception, int minor, const char *text);

#endif
