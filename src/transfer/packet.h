/*
 * packet: the format of a packed message, and what the files of transfer share. Private to src/transfer, but that src/share reads what is to be
 * frozen in this form.
 *
 * A packet is six streams of 8-byte words. `body` opens with the values of the tuple; everything that is not a scalar
 * is a reference to a *slot*: first all strings, then all objects, both numbered in order of discovery.
 *   str    per string: its length and bytes, or (bit 0 of the length word set) a pointer to bytes kept elsewhere
 *   def    per object: one mr_def, enough to create it empty
 *   body   the tuple, then per object what fills it: blocks of n tags, padded to words, and n words of payload
 *   shape  sets of string keys that several tables have in common, each written once
 *   meta   pairs (object, metatable), applied last
 *   class  per class: where its section of the packet begins (class.c)
 * So the receiver creates every string and every empty object first, and then fills: filling allocates nothing,
 * which is what makes raw writes safe, and needs neither recursion nor a worklist.
 */
#ifndef MR_PACKET_H
#define MR_PACKET_H

#include <stdint.h>
#include <stddef.h>
#include "port/port.h"
#include "transfer/transfer.h"
#include "lua/layout.h"

/* Tags of payload words: Lua's own for scalars, these for references. */
enum { TAG_STRING = 0x80, TAG_OBJECT = 0x81, TAG_UPVALUE = 0x82 };
#define TAG_ISREF(t)       ((t) & 0x80)
/* String payload: slot number, and where its record is in `str`, in words. Upvalue payload: owner, and which of its. */
#define PAIR(low, high)    ((uint64_t)(uint32_t)(low) | (uint64_t)(high) << 32)
#define PAIR_LOW(w)        ((uint32_t)(w))
#define PAIR_HIGH(w)       ((uint32_t)((w) >> 32))
#define PAD8(n)            (((n) + 7) & ~(size_t)7)

enum mr_kind { KIND_TABLE, KIND_FUNCTION, KIND_CFUNCTION, KIND_MODULE, KIND_GLOBALS, KIND_SHARED, KIND_CLASS, KIND_CARGO };

typedef struct mr_def {
  uint8_t kind;
  uint8_t uniform;                             /* tables: every array value has this tag, and no tags are stored; 0 = mixed */
  uint16_t nup;                                /* functions; cargo: user values */
  uint32_t narr;                               /* tables: array values; modules and C functions: string slot of the module;
                                                  classes: their number */
  union {
    struct { uint32_t npairs, shape; } hash;   /* tables; shape: 0, or where in `shape` the keys are, in words, + 1 */
    uint64_t word;                             /* C functions: string slot of the field + 1, 0 = the module itself */
    mr_shared *object;                         /* shared objects, cargo; functions: their code */
  } u;
} mr_def;

enum { STR, DEF, BODY, SHAPE, META, CLASS, STREAMS };

/* What unpacking reads; a view points into the packer, a message into its own block. */
typedef struct mr_parts {
  uint32_t nvalues, nstrings, nobjects, nmetas;
  uint32_t nshapes, nclasses, ncargo;
  int plain;                                   /* all objects are tables without metatables */
  const char *at[STREAMS];
  int made;                                    /* stack index of what the first object becomes, a new function of its code; 0: there is none yet */
} mr_parts;

/*
 * A class's section: what is reachable through the class alone. It begins with a def for the class itself, which counts
 * as no object. Everything of a stream from here to the next section, or the end, belongs to it.
 */
typedef struct mr_section {
  uint64_t id;
  uint32_t object, referenced;                 /* referenced: another section uses objects of this one */
  uint32_t strings, objects, metas;            /* how many came before */
  uint32_t str, def, body;                     /* where it begins, in words */
} mr_section;

#define MAX_SHAPE 32                           /* keys; larger tables are written pair by pair */
#define MIN_FAR   512                          /* strings from this length on stay outside `str` */

typedef struct mr_stream { char *at; size_t length, size; } mr_stream;

/* A value of the sender as the packer sees it. `at` is its absolute stack index, for the API; raw reading needs none. */
typedef struct mr_value {
  uint64_t bits;                               /* scalar, address of the object, or address of a string's bytes */
  size_t length;                               /* strings */
  int at;
  uint8_t tt;
} mr_value;

typedef struct mr_object { uint64_t bits; uint32_t parent; uint8_t kind, tt, ismeta; } mr_object;
typedef struct mr_mapslot { uint64_t key; uint32_t value, era; } mr_mapslot;
typedef struct mr_text { uint64_t key; uint64_t payload; uint32_t era, section; } mr_text;
/*
 * keys: where in `shapekeys` their addresses are, and behind those what a hash part with them looks like: each node's key, 0 where it has none.
 */
typedef struct mr_shape { size_t keys; uint32_t nkeys, place, section; uint8_t isclass, lsizenode; } mr_shape;

#define TEXTS  256                             /* recently seen strings, direct mapped */
#define SHAPES 64                              /* shapes known per message */
#define GUESSES 64                             /* which shape a table may have, by two of its nodes */
#define NOBODY UINT32_MAX                      /* parent of the tuple's own values */

struct mr_packer {
  lua_State *L;                                /* the sender, during a pack */
  int (*judge)(mr_packer *p);                  /* what is packed is to be frozen: may it be? NULL: it is to be sent */
  mr_stream s[STREAMS];
  mr_stream held;                              /* mr_shared *: code this view keeps alive */
  mr_stream shared;                            /* mr_shared *: everything a message must retain */
  mr_stream dump;                              /* bytecode being dumped */
  mr_stream shapekeys;                         /* addresses of the keys of all shapes */
  mr_stream far;                               /* size_t: where in `str` the pointers are */
  uint32_t nvalues, nstrings, nobjects, nmetas, nshapes, nclasses;
  uint32_t others;                             /* objects that are no tables */
  size_t farsize;                              /* bytes behind those pointers, each padded */
  mr_object *objects; uint32_t maxobjects;
  uint32_t section;                            /* 0, or the number + 1 of the class whose section is written */
  uint32_t current;                            /* the object being read, or NOBODY */
  uint32_t failed; const char *problem;        /* the object that can't travel, and why */
  const char *still;                           /* the words for that, or NULL */
  mr_mapslot *map; uint32_t mapmask, nmap;     /* address -> number, of this era only */
  uint32_t era;
  mr_text texts[TEXTS];
  mr_shape shapes[SHAPES]; uint8_t shapemap[2 * SHAPES], guesses[GUESSES];   /* numbers of shapes + 1 */
  int raw;                                     /* this pack reads raw */
  int anchor;                                  /* stack index of the table of objects (API reading only), 0 = none */
  int looked;                                  /* for package.loaded: 0 = not yet, 1 = it is `loaded`, -1 = there is none */
  mr_value loaded;
  uint32_t loadedhint, codehint;               /* where things were in the registry last time */
  int newborn;                                 /* stack index of a table for classes without id, 0 = none */
  uint32_t nnewborn, maxnewborn, nameless;     /* in there, room in there, and how many have no id */
  int strangers;                               /* the same for userdata of other libraries, to be made ready (cargo.c) */
  uint32_t nwaiting, maxstrangers, nstrangers, ncargo;
  size_t cargosize;                            /* what it keeps outside of the message */
  uint64_t serial;                             /* of this pack, once it has made some ready; else 0 */
  char words[320];                             /* a text for `problem` */
  uint64_t globals;                            /* address of the sender's globals */
  uint8_t searches, filtered;                  /* objects looked for without the filter; it has been filled, for this message */
  uint64_t modules[8];                         /* filter over the addresses in package.loaded */
  uint8_t needscode, need, moves, stays, large;              /* stays: nothing may move; large: some buffer is too large to be kept */
};

static inline int mr_is_plain(const mr_packer *p) { return !p->others && !p->nmetas && !p->nclasses; }

/* Results inside pack: 0, or one of these, handed up unchanged. */
enum { PACK_FAILED = 1, PACK_AGAIN = 2 };
/* What PACK_AGAIN asks to have prepared; only there may the sender's collector step. */
enum { NEED_ANCHOR = 1, NEED_CODE, NEED_IDS, NEED_CARGO };

/*
 * As mr_pack, of the one table at idx, which is to be frozen: tables are neither classes nor, the outermost one, modules; none has a metatable.
 * `judge` sees the whole packet, while its objects can still be pushed: 0, or what mr_fail gives.
 */
int    mr_pack_frozen(mr_packer *p, lua_State *L, int idx, int (*judge)(mr_packer *p));

void   mr_stream_grow(mr_packer *p, mr_stream *s, size_t n);
void   mr_packer_reset(mr_packer *p);
#ifdef MR_CHECKS
void   mr_packer_check(const mr_packer *p);
#else
#define mr_packer_check(p) ((void)0)
#endif

static inline void *mr_take(mr_packer *p, mr_stream *s, size_t n) {
  if (PORT_UNLIKELY(s->size - s->length < n)) mr_stream_grow(p, s, n);
  void *at = s->at + s->length;
  s->length += n;
  return at;
}

/* A block of n values in `body`. */
typedef struct mr_block { uint8_t *tags; uint64_t *words; } mr_block;
static inline mr_block mr_take_block(mr_packer *p, size_t n) {
  mr_block b;
  b.tags = mr_take(p, &p->s[BODY], PAD8(n) + 8 * n);
  b.words = (uint64_t *)(b.tags + PAD8(n));
  return b;
}

/* ---- the packer's map of objects, from addresses to numbers ---- */

static inline mr_mapslot *mr_map_find(const mr_packer *p, uint64_t key) {
  uint32_t i = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & p->mapmask;
  while (p->map[i].era == p->era && p->map[i].key != key) i = (i + 1) & p->mapmask;
  return &p->map[i];
}
void mr_map_grow(mr_packer *p);
/* 1: was there, *value is it; 0: put. */
static inline int mr_map_put(mr_packer *p, uint64_t key, uint32_t *value) {
  if (PORT_UNLIKELY(!p->map || p->nmap * 2 > p->mapmask)) mr_map_grow(p);
  mr_mapslot *m = mr_map_find(p, key);
  if (m->era == p->era) {
    *value = m->value;
    return 1;
  }
  *m = (mr_mapslot){ key, *value, p->era };
  p->nmap++;
  return 0;
}

static inline uint32_t mr_filter_bit(uint64_t address) { return (uint32_t)(address * UINT64_C(0x9E3779B97F4A7C15) >> 55); }

/* pack.c */
uint64_t mr_pack_new_string(mr_packer *p, const char *text, size_t length, mr_text *known);
static inline uint64_t mr_pack_string(mr_packer *p, const char *text, size_t length) {
  uint64_t key = (uint64_t)text;
  mr_text *known = &p->texts[(key >> 4 ^ key >> 12) % TEXTS];
  if (PORT_LIKELY(known->key == key && known->era == p->era && (!known->section || known->section == p->section))) return known->payload;
  return mr_pack_new_string(p, text, length, known);
}
int      mr_pack_object(mr_packer *p, const mr_value *v, uint32_t *number);
void     mr_read(mr_packer *p, int at, mr_value *v);             /* the value at a stack index */
void     mr_push(mr_packer *p, const mr_value *v);               /* that value once more, on top */
void     mr_push_object(mr_packer *p, uint32_t number);
int      mr_fail(mr_packer *p, uint32_t number, const char *problem);

static inline void mr_read_raw(const raw_value *r, mr_value *v) {
  v->tt = r->tt;
  v->bits = r->bits;
  if (r->tt == RAW_SHORT || r->tt == RAW_LONG) {
    const raw_string *s = (const raw_string *)r->bits;
    v->bits = (uint64_t)s->text;
    v->length = r->tt == RAW_SHORT ? s->shrlen : s->length;
  }
}

int mr_emit_other(mr_packer *p, uint64_t bits, uint8_t tt, uint8_t *tag, uint64_t *word);   /* of a value that lies raw */
static inline int mr_emit(mr_packer *p, const mr_value *v, uint8_t *tag, uint64_t *word) {
  if (v->tt & RAW_COLLECTABLE || v->tt == RAW_LIGHTC) {
    if (v->tt == RAW_SHORT || v->tt == RAW_LONG) {
      *tag = TAG_STRING;
      *word = mr_pack_string(p, (const char *)v->bits, v->length);
      return 0;
    }
    uint32_t number;
    int r = mr_pack_object(p, v, &number);
    *tag = TAG_OBJECT;
    *word = number;
    return r;
  }
  *tag = raw_isnil(v->tt) ? RAW_NIL : v->tt;
  *word = v->bits;
  return 0;
}

/* A table that is no module, nor the globals, nor the first of what is to be frozen. 0: that can't be said yet. */
static PORT_INLINE int mr_emit_table(mr_packer *p, uint64_t bits, uint64_t *word) {
  uint32_t bit = mr_filter_bit(bits), number = p->nobjects;
  if (PORT_UNLIKELY(!p->filtered || p->section || number == p->maxobjects)) return 0;
  if (PORT_UNLIKELY(p->modules[bit / 64] >> bit % 64 & 1 || bits == p->globals)) return 0;
  if (!mr_map_put(p, bits, &number)) {
    p->objects[number] = (mr_object){ .bits = bits, .parent = p->current, .kind = KIND_TABLE, .tt = RAW_TABLE };
    p->nobjects++;
  }
  *word = number;
  return 1;
}

/* The same as mr_emit, of a value as it lies in the sender. */
static PORT_INLINE int mr_emit_raw(mr_packer *p, uint64_t bits, uint8_t tt, uint8_t *tag, uint64_t *word) {
  if (!(tt & RAW_COLLECTABLE) && PORT_LIKELY(tt != RAW_LIGHTC)) {
    *tag = raw_isnil(tt) ? RAW_NIL : tt;
    *word = bits;
    return 0;
  }
  if (tt == RAW_SHORT) {
    const raw_string *s = (const raw_string *)bits;
    *tag = TAG_STRING;
    *word = mr_pack_string(p, s->text, s->shrlen);
    return 0;
  }
  if (PORT_LIKELY(tt == RAW_TABLE && mr_emit_table(p, bits, word))) {
    *tag = TAG_OBJECT;
    return 0;
  }
  return mr_emit_other(p, bits, tt, tag, word);
}

/* table.c */
int  mr_pack_table(mr_packer *p, uint32_t number);
int  mr_pack_body(mr_packer *p, uint32_t number);                /* its def, its values, its metatable */

/* class.c */
int  mr_is_class_key(const char *text, size_t length);
int  mr_pack_class(mr_packer *p, uint32_t number);
int  mr_pack_section(mr_packer *p, uint32_t klass);
void mr_class_cross(mr_packer *p, uint32_t number);              /* object `number` is referred to from another section */
int  mr_pack_metatable(mr_packer *p, uint32_t number, const mr_value *meta);
void mr_class_register(lua_State *L, int table, uint64_t id);    /* table: absolute index */
int  mr_class_find(lua_State *L, uint64_t id);                   /* 1: pushed it; 0: not here */
void mr_class_newborn(lua_State *L, int newborn, uint32_t n);    /* gives the n tables in there ids */

/* function.c */
int  mr_pack_function(mr_packer *p, uint32_t number);

/* names.c */
void mr_find_modules(mr_packer *p);
int  mr_is_module(mr_packer *p, const mr_value *v);
int  mr_is_constant(mr_packer *p, const mr_value *v);             /* a userdata that stands for an object whose type says so */
int  mr_pack_module(mr_packer *p, uint32_t number);
int  mr_pack_cfunction(mr_packer *p, uint32_t number);
int  mr_pack_shared(mr_packer *p, uint32_t number);
void mr_push_module(lua_State *L, int name);                     /* receiver: pushes the module whose name is at that index */
void mr_push_cfunction(lua_State *L);                            /* receiver: [module, field or nil] -> [that function], or an error */

/* cargo.c */
int  mr_pack_cargo(mr_packer *p, uint32_t number);
void mr_type_metatable_keep(lua_State *L, const void *key);      /* takes the metatable on top */
int  mr_type_metatable_push(lua_State *L, const void *key);      /* it, or nil; no allocation */

/* fields.c: the string keys of a table, without metamethods and without allocation */
typedef struct mr_fields { const raw_table *t; uint32_t i; int at; mr_value key, value; } mr_fields;
void mr_fields_open(mr_packer *p, mr_fields *f, const mr_value *table);
int  mr_fields_next(mr_packer *p, mr_fields *f);                 /* 0: no more, and the stack is as it was */
void mr_fields_close(mr_packer *p, mr_fields *f);                /* leave before the end */
int  mr_field_find(mr_packer *p, const mr_value *table, const char *name, mr_value *value);  /* 1: found; by API, its `at` is stale */
/* Raw only: what the registry has under a string or (tt = RAW_LIGHT) an address; NULL: nothing. */
const raw_node *mr_registry_find(lua_State *L, uint32_t *hint, uint8_t tt, const void *key, size_t length);

/* explain.c */
void mr_explain(mr_packer *p, int first, int n, const char *root);

/* unpack.c */
#define MR_LIKES 16                            /* shapes of which the receiver copies hash parts */
int  mr_unpack_parts(lua_State *L, const mr_parts *m);

/* plain.c: of a plain packet, raw. There is room on the stack. 1: the values were pushed; 0: nothing was done, and there is too little memory */
int  mr_unpack_plain(lua_State *L, const mr_parts *m);

#endif
