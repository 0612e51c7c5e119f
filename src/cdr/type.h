/*
 * type: a type as the marshalling programs know it, and what their two directions share.
 *
 * A type (mr_type) is compiled once per environment from its Lua table and then constant, but for hints. It is a userdata, found by its table in
 * the environment's weak cache; its user values are that table and a list of everything it points to (other types, the strings of its members),
 * so that pointers in it are good as long as it is. A program (mr_program) is a list of types; its user value begins as its environment's list of
 * fields does, and then has all that the program points to. A Lua program with the debug library may put something else there and into those lists:
 * that is an error where it is found.
 *
 * Values are read and built raw (lua/layout.h) where Lua's structures are as we know them, else through the API; `raw` says which. What the
 * two give is the same.
 */
#ifndef MR_CDR_TYPE_H
#define MR_CDR_TYPE_H

#include "cdr/cdr.h"
#include "lua/layout.h"

/* The kinds, by their numbers in TypeCodes. */
enum {
  TK_NULL, TK_VOID, TK_SHORT, TK_LONG, TK_USHORT, TK_ULONG, TK_FLOAT, TK_DOUBLE, TK_BOOLEAN, TK_CHAR, TK_OCTET, TK_ANY, TK_TYPECODE, TK_PRINCIPAL,
  TK_OBJREF, TK_STRUCT, TK_UNION, TK_ENUM, TK_STRING, TK_SEQUENCE, TK_ARRAY, TK_ALIAS, TK_EXCEPT, TK_LONGLONG, TK_ULONGLONG, TK_LONGDOUBLE,
  TK_WCHAR, TK_WSTRING, TK_FIXED, TK_VALUE, TK_VALUEBOX, TK_NATIVE, TK_ABSTRACT, TK_LOCAL, TK_KINDS,
  TK_OCTETS = TK_KINDS, TK_CHARS,              /* sequences and arrays of octet and char, which are strings in Lua */
  TK_INT8, TK_ALL                              /* IDL 4's: on the wire, and in TypeCodes, an octet */
};
#define TK_INDIRECTION 0xffffffffu
#define MR_VALUEBASE_ID "IDL:omg.org/CORBA/ValueBase:1.0"

typedef struct mr_type mr_type;
typedef struct mr_flat mr_flat;
typedef struct mr_value mr_value;

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
  uintptr_t tag;                               /* see mr_type_at */
  uint8_t kind, fixed;                         /* fixed: an array, whose length is not sent */
  uint8_t lsizenode;                           /* of new tables; 255: no template */
  uint8_t alias;                               /* another name for what the rest says: */
  uint8_t wire;                                /* it was made of a TypeCode that came */
  uint8_t ready;                               /* 0: being compiled, or that failed; 1: this type is there; SOUND: so is all that it leads to */
  const mr_type *origin;                       /* that type itself */
  uint32_t serial;                             /* of the compilation that made it */
  uint32_t number;                             /* the environment has no other with that, but other names for it */
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
  mr_flat *flat;                               /* of a struct or value whose members are all small: flat.h; else NULL */
  mr_value *value;                             /* of a valuetype or a box: value.h; else NULL */
};

/* ---- the environment's fields: a list on the stack of who needs them ---- */
enum {
  ENV_PROXIES = 1, ENV_IORS,                   /* canonical IOR -> value, weak values; value -> canonical IOR, weak keys */
  ENV_IN, ENV_OUT, ENV_FAIL, ENV_RESOLVE, ENV_ASK,     /* functions, or false */
  ENV_TYPES, ENV_ADDRESSES,                    /* type's table -> its userdata, weak keys; light userdata -> userdata, weak values */
  ENV_BASIC,                                   /* kind -> table, of the kinds that have no parameters, and unbounded strings */
  ENV_WRITTEN, ENV_READ,                       /* of TypeCodes, see typecode_out.c, any.c */
  ENV_RECENT,                                  /* see reference.c */
  ENV_N,                                       /* the string "n" */
  ENV_ANY, ENV_CHOICE,                         /* the types of that name in mr_cdr_env; from here on the list is sealed */
  ENV_KEPT,                                    /* short strings that were read: get_text.c */
  ENV_CLASSES,                                 /* of valuetypes: class -> its type's table, repository id -> class: value.h */
  ENV_WRITE, ENV_READER,                       /* functions for custom values, or false: value_custom.c */
  ENV_OWN,                                     /* the type that `own` in mr_cdr_env is */
  ENV_FIELDS = ENV_OWN
};

enum { MR_KEPT_CHARS = 128, MR_KEPT_TEXTS = 64, MR_KEPT = MR_KEPT_CHARS + MR_KEPT_TEXTS };

typedef struct mr_cdr_env {
  uintptr_t tag;
  const void *fields;                          /* the address of its list */
  uint64_t seal;
  uint32_t serial;
  int buffers;                                 /* octets are decoded as buffers */
  int owed;                                    /* KiB that the collector has to be told of: debt.c */
  const mr_type *any, *choice;                 /* the tables that stand for an any (_anytype, _anyval), for a union (_switch, _field, _value) */
  const mr_type *own;                          /* a value that says which type it has (_repid), a box in such a table (_value) */
  uint32_t types;                              /* that were made: the last number */
  uint32_t sent, got;                          /* values in a message, as it was lately: for how many room is made */
  raw_table *kept;
} mr_cdr_env;

typedef struct mr_program {
  uintptr_t tag;
  const void *fields;                          /* the address of its list */
  uint64_t seal;
  mr_cdr_env *env;
  uint32_t n;
  const mr_type **types;
  const char **names;                          /* NULL: they have none */
} mr_program;

/*
 * How deep. Values inside values and types inside types may come from a stranger, so the C stack needed does not depend on any message. Values: up to
 * MR_RECURSION levels a function calls itself, what is below that is done by a loop whose frames lie on the heap (frames.h, put_deep.c, get_deep.c).
 * Types, and their TypeCodes in both directions: always by such a loop (compile.c, typecode_in.c, typecode_out.c).
 */
enum { MR_MAX_DEPTH = 20000, MR_MAX_TYPE_DEPTH = 10000, MR_RECURSION = 32 };
enum { SOUND = 2 };

PORT_NORETURN void mr_env_changed(lua_State *L);
/* A number that changes with what the list has from ENV_ANY on to its n-th value: what pointers lead to. 0: it has no such place. */
static inline uint64_t mr_seal_raw(const raw_table *list, uint32_t n) {
  uint64_t seal = 1;
  if (PORT_UNLIKELY(raw_arraysize(list) < n)) return 0;
  for (const raw_value *v = list->array + ENV_ANY - 1, *end = list->array + n; v < end; v++) seal = (seal << 5 | seal >> 59) + v->bits;
  return seal;
}
uint64_t mr_seal_of(lua_State *L, uint32_t n); /* of the list on top */
/* Pushes the user value of the program or environment at idx: its list, whose address is `fields`. */
static inline void mr_fields_push(lua_State *L, int idx, const void *fields, uint32_t n, uint64_t seal) {
  lua_getiuservalue(L, idx, 1);
  if (PORT_LIKELY(mr_layout)) {
    const raw_value *v = raw_top(L) - 1;
    if (PORT_LIKELY(v->bits == (uintptr_t)fields && v->tt == RAW_TABLE && mr_seal_raw((const raw_table *)fields, n) == seal)) return;
  } else if (lua_topointer(L, -1) == fields && mr_seal_of(L, n) == seal) return;
  mr_env_changed(L);
}
/* Pushes the table that the list at the index `fields` has there. */
static inline void mr_env_table(lua_State *L, int fields, int which) {
  if (PORT_UNLIKELY(lua_rawgeti(L, fields, which) != LUA_TTABLE)) mr_env_changed(L);
}
mr_type *mr_type_at(lua_State *L, int idx);    /* the type whose userdata is at idx; NULL: there is none */

/*
 * The type of the table on top of the stack, which is replaced by its userdata. `fields` is the stack index of the environment's list.
 * Raises; wire: the codec of the bytes that the table was made of, then it is BAD_TYPECODE; -1: it is the program's.
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
/* The table of what t is, or is another name for. */
void mr_push_type(lua_State *L, int fields, const mr_type *t);
/* Values of these kinds hold others. */
static inline int mr_is_deep(const mr_type *t) {
  return t->kind == TK_STRUCT || t->kind == TK_UNION || t->kind == TK_SEQUENCE || t->kind == TK_ARRAY || t->kind == TK_ANY || t->kind == TK_EXCEPT ||
         t->kind == TK_VALUE || t->kind == TK_VALUEBOX || t->kind == TK_ABSTRACT;
}
static inline int mr_may_be_nil(const mr_type *t) {
  return t->kind == TK_OBJREF || t->kind == TK_ANY || t->kind == TK_NULL || t->kind == TK_VOID || t->kind == TK_VALUE || t->kind == TK_VALUEBOX ||
         t->kind == TK_ABSTRACT;
}
int mr_kind_of(const char *name);              /* -1: there is none */
uint64_t mr_kind_least(int kind);              /* bytes of a value, without its parts */
int mr_kind_is_basic(uint32_t kind);           /* it has no parameters */
void mr_push_basic(lua_State *L, int fields, int kind);   /* the table of such a kind */
const char *mr_kind_name(const mr_type *t);    /* for messages */

/* ---- a value of Lua ---- */

/* tt as in layout.h. bits: the number's, or the object's address; through the API a string's or object's stack index. */
typedef struct mr_val { uint64_t bits; uint8_t tt; } mr_val;

/* ---- encoding ---- */

/* What a message's values share. `begun` is set at its beginning, the rest with the first value. */
typedef struct mr_values_out {
  int begun;
  uint32_t n;                                  /* tables that were noted */
  uint32_t level;                              /* chunked values around what is written */
  size_t chunk, before;                        /* where the data of the open chunk begins, 0: none is open; where the bytes ended before it */
  size_t end;                                  /* where the last tag that ends a value ends */
  int64_t id_of;                               /* the number of the last type whose id was written, minus that for its list of ids, */
  size_t id_at;                                /* where */
  uint32_t is[2];                              /* numbers of types, the first is one of the second: what was found last */
  const void *class_at;                        /* the last class, and its type */
  const mr_type *class_type;
} mr_values_out;

typedef struct mr_enc {
  mr_out o;                                    /* first */
  lua_State *L;
  mr_cdr_env *env;
  int raw, codec, depth, room;
  int strays;                                  /* values on the stack that are not tables being read: fields through the API, or inherited */
  int fields;                                  /* stack index of the environment's list; above it, room for a foreign error object */
  const char *exception;                       /* what fails, and why */
  int minor, raised;                           /* raised: the error object is there */
  int foreign;                                 /* code of the program's has run */
  uint32_t at, cut;                            /* where in `path` the path begins; its own beginning is missing */
  mr_values_out values;
  char text[240], path[256];
} mr_enc;

int mr_put(mr_enc *e, const mr_type *t, mr_val v);    /* 0, or -1: see e->exception */
int mr_put_deep(mr_enc *e, const mr_type *t, mr_val v);   /* the same for values inside others (mr_is_deep), without recursion */
mr_val mr_val_at(const mr_enc *e, int idx);
mr_val mr_field(mr_enc *e, mr_val table, mr_member *m);
int  mr_whole(mr_val v, int64_t *n, int wide); /* a float that is a whole number, which is as good; 0: it is none. wide: up to 2^64 */
const char *mr_val_text(const mr_enc *e, mr_val v, size_t *n);
int  mr_index(lua_State *L);                   /* index(table, light userdata name) -> table[name], with its metamethods */
int  mr_enter(mr_enc *e, mr_val table);
void mr_leave(mr_enc *e);
void mr_drop(mr_enc *e, int strays);           /* the values on the stack that are above that many strays */
int  mr_wrong(mr_enc *e, const char *expected, mr_val got);   /* BAD_PARAM: always -1 */
int  mr_refuse(mr_enc *e, const char *exception, int minor, const char *format, ...) __attribute__((format(printf, 4, 5)));
void mr_hint(mr_enc *e, const char *more);         /* goes behind what was refused */
int  mr_in_member(mr_enc *e, const char *name);        /* prepend to the path: always -1 */
int  mr_in_element(mr_enc *e, uint64_t i);

/* ---- decoding ---- */

/* What a message's values share. */
typedef struct mr_values_in {
  uint32_t n;                                  /* that were read: value_in.c */
  int begun, custom;                                  /* custom: custom values around what is read */
  uint32_t is[2];                              /* numbers of types, the first is one of the second: what was found last */
  uint32_t kept;                               /* the number of the last type that was kept */
  int64_t id_at;                               /* where the last id stands that was pointed to, and what it stands for */
  const mr_type *id_type;
} mr_values_in;

typedef struct mr_dec {
  mr_in in;                                    /* first */
  lua_State *L;
  mr_cdr_env *env;
  int raw, codec, depth, room;
  int fields;
  uint64_t budget;                             /* tables, and fields in them, that may still be made */
  uint64_t reserved;                           /* bytes that the elements to come of the lists being read need at least */
  mr_values_in values;
} mr_dec;

void mr_get(mr_dec *d, const mr_type *t);      /* pushes a value; raises */
void mr_get_deep(mr_dec *d, const mr_type *t); /* the same for values inside others (mr_is_deep), without recursion */
/* Around the decoding of n bytes; begin's result is for end, but -1: there is none. */
int  mr_debt_begin(lua_State *L, mr_cdr_env *env, size_t n);
void mr_debt_end(lua_State *L, mr_cdr_env *env, int held);
PORT_NORETURN void mr_dec_raise(mr_dec *d, const char *exception, int minor, const char *what);
PORT_NORETURN void mr_env_raise(lua_State *L, int fields, const char *exception, int minor, const char *text, int codec);

#endif
