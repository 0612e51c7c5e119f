/*
 * frozen: tables that never change again, outside all heaps, for all processes at once.
 *
 * A frozen value is a *whole*: the tables and functions that were frozen together, in one piece of memory. Each of its tables is a *part*, a
 * shared object of its own, so that a part that is sent or kept stands for itself; the first reference to a part holds the whole, which goes
 * with the last one. Values inside a whole are addresses in it; what it refers to outside (code, channels, parts of other wholes) it holds.
 *
 * After mr_frozen_new nothing but counters is written. Who reads needs a reference to some part of the whole, and no lock.
 */
#ifndef MR_FROZEN_H
#define MR_FROZEN_H

#include <stdint.h>
#include "heap/budget.h"
#include "transfer/packet.h"

/* Tags of values: Lua's own for scalars (RAW_…), these for the rest, whose word is an address. None is nil to raw_isnil. */
enum { FROZEN_STRING = 0x81, FROZEN_PART, FROZEN_FUNCTION, FROZEN_CFUNCTION, FROZEN_MODULE, FROZEN_SHARED, FROZEN_GLOBALS, FROZEN_JOINED };

typedef struct mr_frozen mr_frozen;            /* a whole */
typedef struct mr_keys mr_keys;                /* the keys of a table; tables with the same keys share them */

typedef struct mr_frozen_string { size_t length; uint32_t hash; char bytes[]; } mr_frozen_string;   /* a zero behind the bytes */

typedef struct mr_part {
  mr_shared shared;                            /* refs: 0 as long as only the whole knows it */
  mr_frozen *whole;
  const mr_keys *keys;                         /* NULL: none but 1 … narr */
  uint64_t border;                             /* '#' as it was when it was frozen */
  uint32_t narr;
  uint8_t uniform;                             /* all array values have this tag, and no tags are stored; 0: mixed */
  uint64_t words[];                            /* narr values, those of the keys; then their tags */
} mr_part;

/* FROZEN_JOINED: the upvalue is another function's (word), its `which`th, from 1. */
typedef struct mr_frozen_upvalue { uint64_t word; uint8_t tag, which; } mr_frozen_upvalue;
typedef struct mr_frozen_function { mr_shared *code; uint32_t nup; mr_frozen_upvalue up[]; } mr_frozen_function;
typedef struct mr_frozen_name { const mr_frozen_string *module, *field; } mr_frozen_name;      /* of a C function */

typedef struct mr_frozen_value { uint64_t word; uint8_t tag; } mr_frozen_value;

/* ---- making ---- */

/*
 * Packs the table at idx as mr_pack does: 0, or 1 and an error message on the stack. Then mr_frozen_new makes the whole of it: its outermost part,
 * with the caller's reference; NULL: no memory. The packer is empty then. `type` is that of the parts, its destroy mr_part_destroy.
 */
int      mr_frozen_pack(mr_packer *p, lua_State *L, int idx);
mr_part *mr_frozen_new(mr_packer *p, const mr_sharetype *type);
void     mr_part_destroy(mr_shared *o);
/* A reference, for who has one to the whole. Dropped by mr_release, as any. */
void     mr_part_hold(mr_shared *o);

size_t   mr_frozen_size(const mr_part *part);  /* bytes of the whole */
uint64_t mr_frozen_serial(const mr_part *part);   /* of the whole; no two in a program have the same */
/* The whole's bytes were taken from b; they are given back with it. Once, before anybody else has it. */
void     mr_frozen_charge(mr_part *part, mr_budget *b);

/* ---- reading: the value under a key, nil (RAW_NIL) if there is none ---- */
mr_frozen_value mr_part_string(const mr_part *part, const char *text, size_t length);
mr_frozen_value mr_part_integer(const mr_part *part, lua_Integer i);
mr_frozen_value mr_part_other(const mr_part *part, mr_frozen_value key);   /* no string, no NaN, no float that is an integer */

/*
 * Places: 0 before the first pair, then one per pair, in no order but with gaps. next: the pair behind the place *at, which becomes its place;
 * 0: there is none. place: of a key that is there; 0 if it isn't.
 */
int      mr_part_next(const mr_part *part, uint64_t *at, mr_frozen_value *key, mr_frozen_value *value);
uint64_t mr_part_place(const mr_part *part, mr_frozen_value key);          /* of anything else */
uint64_t mr_part_place_of(const mr_part *part, const char *text, size_t length);   /* of a string */
mr_frozen_value mr_part_key_at(const mr_part *part, uint64_t place);       /* of a place that next gave */
uint32_t mr_part_nkeys(const mr_part *part);

#endif
