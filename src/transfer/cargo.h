/*
 * cargo: userdata of other libraries that travel by a rule (include/mare.h: mare_transfer). Private to src/transfer, but for what those who find
 * the rules use.
 *
 * A record of what travels (mr_cargo) lies outside all heaps and is counted: the userdata's tether has a reference, and so has a message. It says
 * where the thing is:
 *
 *   HOME    the sender's userdata has it
 *   AWAY    a sealed message has it; the sender's userdata is a husk, the bytes of its block are here
 *   TAKEN   somebody receives it just now, and will have it: nothing can fail any more
 *   GONE    somebody has received it: `where` says who
 *   LOST    nobody has, and nobody will: it was finalised
 *
 * AWAY is left by a compare-and-swap: of several who could (waiters for one result, the message's end) one gets it.
 */
#ifndef MR_CARGO_H
#define MR_CARGO_H

#include "transfer/transfer.h"
#include "mare.h"

/* ---- types: what is known of all userdata of one kind; never freed ---- */

/* A block whose layout is known: what is checked before it goes, and what is mended when it has arrived. */
typedef struct mr_inside { uint32_t at, to; } mr_inside;                     /* the word at `at` points to the byte `to` of the block */
typedef struct mr_demand { uint32_t at; int32_t value; char words[96]; } mr_demand;   /* the int at `at` must have this value */
typedef struct mr_layoutrule {
  uint32_t ninside, ndemands;
  int descriptor;                              /* where the block has the descriptor to close if nobody receives it, or -1 */
  mr_inside inside[16];
  mr_demand demands[4];
  char tables[128];                            /* metatables that its finaliser looks for in the registry: each with a zero behind it, and another zero */
} mr_layoutrule;

typedef struct mr_cargotype {
  struct mr_cargotype *next;
  const char *name;                            /* of the metatable */
  mare_transfer rule;
  const mare_transfer *given;                  /* the one it was made from, NULL: made from others */
  lua_CFunction send, receive;                 /* luaproc's functions instead of a rule's */
  mr_layoutrule layout;
  int named;                                   /* it is the rule for all userdata of that name */
} mr_cargotype;

/* Types are found by name and origin, or made. NULL: no memory. */
const mr_cargotype *mr_cargotype_of_rule(const char *name, const mare_transfer *rule, int named);
const mr_cargotype *mr_cargotype_of_functions(const char *name, lua_CFunction send, lua_CFunction receive);
const mr_cargotype *mr_cargotype_of_layout(const char *name, const mare_transfer *rule, const mr_layoutrule *layout);
const mr_cargotype *mr_cargotype_named(const char *name);                    /* NULL: none */

enum { MR_CARGO_WORDS = 160 };
/*
 * Set by those who know the rules. The type of the userdata at ud, whose metatable is on top and has that name; NULL: it has none. May run Lua
 * and raise. NULL here: there are no rules.
 */
extern const mr_cargotype *(*mr_cargo_find)(lua_State *L, int ud, const char *name);
extern void (*mr_cargo_place)(lua_State *L, char *text, size_t size);        /* who runs L: "process #7 'worker'" */

/* ---- cargo ---- */

enum { CARGO_HOME, CARGO_AWAY, CARGO_TAKEN, CARGO_GONE, CARGO_LOST };
typedef struct mr_cargo {
  mr_shared shared;
  const mr_cargotype *type;                    /* NULL: it can't travel */
  atomic_int state, received;                  /* received: luaproc's function is running with the container */
  uint64_t serial;                             /* of the pack it was made ready for */
  size_t size;
  int nvalues;                                 /* user values */
  void *object;                                /* what the rule's `pack` gave, or `bytes` */
  lua_State *container;                        /* for the library's finaliser, or NULL (cargotype.c); for luaproc's functions: has a copy of the userdata */
  lua_CFunction gc;
  char *marks;                                 /* the metatable's fields that are true, each with a zero behind it, and another zero */
  char where[MR_CARGO_WORDS];                  /* who received it; written before GONE */
  char problem[MR_CARGO_WORDS];                /* why it can't go, or "" */
  void *bytes;                                 /* the block as it was */
} mr_cargo;

extern const mr_sharetype mr_cargo_type;
static inline int mr_is_cargo(const mr_shared *o) { return o->type == &mr_cargo_type; }
static inline int mr_cargo_moves(const mr_cargo *c) { return c->type->rule.way == MARE_MOVE; }

void mr_cargo_prepare(lua_State *L, int ud, uint64_t serial);                /* before packing; may allocate, run Lua and raise */
int  mr_cargo_leave(lua_State *L, mr_cargo *c);  /* the sender's userdata becomes a husk; 0: no memory, nothing has changed */
void mr_cargo_back(lua_State *L, mr_cargo *c);   /* and is what it was: the message was not sent */
void mr_cargo_lose(mr_cargo *c);                 /* the message is freed: if nobody has received it, it is finalised */
void mr_cargo_make(lua_State *L, mr_cargo *c);   /* pushes a userdata with nothing in it, or the one there is; may raise */
void mr_cargo_arrive(lua_State *L, int ud, mr_cargo *c);                     /* puts it in; can't fail */

/* cargotype.c: with the block, not with Lua */
const char *mr_layout_problem(const mr_cargotype *t, const void *block);     /* NULL: it is as it should be */
void mr_layout_mend(const mr_cargotype *t, void *block);
int  mr_cargo_reserve(mr_cargo *c);              /* what the next needs; 0: no memory */
void mr_cargo_finalise(mr_cargo *c);             /* the end of what nobody received */
lua_State *mr_container_new(void);               /* NULL: no memory */

/* husk.c */
void mr_husk_prepare(lua_State *L, const mr_cargotype *t);                   /* makes the metatable of husks of this type */
void mr_husk_set(lua_State *L, int ud, const mr_cargotype *t);               /* gives it to the userdata; no allocation */
int  mr_is_husk_of(lua_State *L, int meta, const mr_cargotype *t);
void mr_cargo_words(const mr_cargo *c, char text[MR_CARGO_WORDS]);           /* "was moved to process #7" */
mr_cargo *mr_cargo_of(lua_State *L, int ud);     /* NULL: none; no allocation */

#endif
