/*
 * transfer: values between states, by copy, by move, by share.
 *
 * Packing reads the sender's values into a flat buffer; unpacking builds them in the receiver. Long strings are
 * referenced while the buffer is a *view* (they stay alive on the sender's stack), so a send to a parked receiver
 * copies their bytes once, state to state. Sealing a view makes a *message*: one self-contained block outside all
 * heaps, holding a reference to every shared object in it.
 *
 * Ownership: a packer belongs to one thread and is reused; a view dies at the next pack, or when the sender's values
 * leave its stack; a message is owned by whoever holds the pointer and is freed exactly once.
 * Nothing here knows processes, channels or workers, and nothing here is called with a lock held.
 */
#ifndef MR_TRANSFER_H
#define MR_TRANSFER_H

#include <stddef.h>
#include <stdatomic.h>
#include "heap/budget.h"
#include "lua/compat.h"
#include "base/shared.h"
#include "port/port.h"

/*
 * shared object: lives outside all heaps, counted references, crosses by reference (channels, handles, buffers).
 * `push` leaves on L's stack the one userdata that stands for it in that state (may raise a memory error; must not
 * take over the caller's reference).  A userdata is known as such by its metatable's field "__share" (a light
 * userdata: the mr_sharetype) and begins with the pointer to the mr_shared.
 */
typedef struct mr_shared mr_shared;
typedef struct mr_sharetype {
  const char *name;                            /* "channel" */
  void (*destroy)(mr_shared *o);               /* last reference gone */
  void (*push)(lua_State *L, mr_shared *o);
  const char *stays;                           /* NULL, or why it can't leave its process: the remedy in the error */
  unsigned char moves;                         /* it is a mr_movable */
  unsigned char constant;                      /* it never changes, so it goes by reference also where it is a module */
  unsigned char wide;                          /* its userdata have room for more (module.h) */
  void (*hold)(mr_shared *o);                  /* NULL, or what its userdata take their reference by, instead of mr_retain */
  void (*dropped)(mr_shared *o);               /* of movables: the owner's userdata was collected; others' references may last */
  const char *(*busy)(mr_shared *o);           /* of movables, or NULL: why it can't go just now; NULL: it can */
  void (*describe)(mr_shared *o, char *buf, size_t size);   /* or NULL: "on dict 'x'", for reports of who waits for it */
} mr_sharetype;
/*
 * Set by whoever makes those userdata: is that one of them (1), a husk (-1) or neither (0)? A program can give anything any metatable
 * (debug.setmetatable). NULL: trust.
 */
extern int (*mr_share_valid)(const void *block, size_t size);
static inline void mr_retain(mr_shared *o) {
  mr_assert(atomic_load_explicit(&o->refs, memory_order_relaxed) > 0);       /* nothing comes back to life */
  atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
}
static inline void mr_release(mr_shared *o) {
  mr_assert(atomic_load_explicit(&o->refs, memory_order_relaxed) > 0);
  if (atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1) o->type->destroy(o);
}

/*
 * movable: a shared object that one process owns. Sealing a message with it gives it a new epoch, and so does unpacking; the userdata of
 * earlier epochs are husks. The sender that could not deliver takes its message back, and its userdata is none. A message that dies
 * with the epoch of its sealing (`sealed`) was received by nobody: its movables are dropped with it.
 */
typedef struct mr_movable { mr_shared shared; atomic_uint epoch, sealed; } mr_movable;

PORT_NORETURN void mr_raise_memory(lua_State *L);   /* Lua's memory error, from code that Lua did not refuse the memory */

typedef struct mr_packer mr_packer;            /* a reusable buffer */
typedef struct mr_message mr_message;          /* a sealed block */

mr_packer  *mr_packer_new(void);               /* NULL: no memory */
void        mr_packer_free(mr_packer *p);

/*
 * Packs the n values at index first.. of L into p. 0 = done. Otherwise nothing is held and an error message (a string that names
 * the path of the value and the remedy) has been pushed on L. May raise a memory error of L; p is sound all the same.
 * `root` names the values in error paths: "message" gives "message[2].owner: …", "argument" and "result" likewise;
 * with n == 1 the index is left out ("message.owner: …").
 */
int         mr_pack(mr_packer *p, lua_State *L, int first, int n, const char *root);
/* The same for what is read more than once: whatever moves is refused, for that reason. */
int         mr_pack_still(mr_packer *p, lua_State *L, int first, int n, const char *root, const char *why);
/* Unpacking this view needs code to run in the receiver (a module to require): never do it on the sender's worker. */
int         mr_packer_needs_code(const mr_packer *p);
mr_message *mr_packer_seal(mr_packer *p);      /* NULL: no memory */
/*
 * The same; until the message is freed, its bytes are taken from the budget b. NULL: no memory, or *over is one that is too small for it at any
 * time. Not NULL, and *over is one that has not so much left: nothing is taken yet, and mr_message_count tries again (NULL: done).
 */
mr_message *mr_packer_seal_in(mr_packer *p, mr_budget *b, mr_budget **over);
mr_budget  *mr_message_count(mr_message *m);
mr_message *mr_message_of(mr_shared *o);       /* of this one object, which crosses by reference; NULL: no memory */
int         mr_message_needs_code(const mr_message *m);   /* so errors other than of memory are possible */

/* Pushes the values and returns how many. Raises memory errors, or what require raised, of L; consumes nothing: it can be tried again. */
int         mr_unpack_view(lua_State *L, const mr_packer *p);
int         mr_unpack(lua_State *L, const mr_message *m);
/* The code of the first function in m, if that is its first object; NULL: it is not. It is m's. */
mr_shared  *mr_message_function(const mr_message *m);
/* Pushes a new function of such code. 0: it can't, and an error was pushed. */
int         mr_function_load(lua_State *L, const mr_shared *code);
/* As mr_unpack; that first function is at a stack index already, loaded but never called: it becomes part of the values. 0: it is not. */
int         mr_unpack_with(lua_State *L, const mr_message *m, int function);
void        mr_message_free(mr_message *m);    /* drops the references it holds */
/* The same by the sender, in its state: nobody has seen it, what it moved is the sender's again. Allocates nothing there. */
void        mr_message_back(lua_State *L, mr_message *m);
size_t      mr_message_size(const mr_message *m);

/* ---- scalars: what needs no packing; 16 bytes ---- */
typedef struct mr_scalar {
  union { lua_Integer i; lua_Number n; void *p; int b; } u;
  unsigned char type;                          /* LUA_T*, numbers: LUA_TNUMBER float, 0x10 | LUA_TNUMBER integer */
} mr_scalar;

static inline int mr_scalar_get(lua_State *L, int idx, mr_scalar *s) {   /* 1: it is one */
  int t = lua_type(L, idx);
  switch (t) {
    case LUA_TNUMBER:
      if (lua_isinteger(L, idx)) {
        s->u.i = lua_tointeger(L, idx);
        s->type = 0x10 | LUA_TNUMBER;
        return 1;
      }
      s->u.n = lua_tonumber(L, idx);
      break;
    case LUA_TNIL: break;
    case LUA_TBOOLEAN: s->u.b = lua_toboolean(L, idx); break;
    case LUA_TLIGHTUSERDATA: s->u.p = lua_touserdata(L, idx); break;
    default: return 0;
  }
  s->type = (unsigned char)t;
  return 1;
}

static inline void mr_scalar_push(lua_State *L, const mr_scalar *s) {
  switch (s->type) {
    case 0x10 | LUA_TNUMBER: lua_pushinteger(L, s->u.i); break;
    case LUA_TNUMBER: lua_pushnumber(L, s->u.n); break;
    case LUA_TBOOLEAN: lua_pushboolean(L, s->u.b); break;
    case LUA_TLIGHTUSERDATA: lua_pushlightuserdata(L, s->u.p); break;
    default: lua_pushnil(L);
  }
}

#endif
