/* module: what the files of src/module share. One file per Lua module; no logic of their own. */
#ifndef MR_MODULE_H
#define MR_MODULE_H

#include <lua.h>
#include <lauxlib.h>
#include "process/process.h"
#include "process/waitable.h"

#ifndef MARE_VERSION
#define MARE_VERSION "0.1.0"
#endif

#if defined(__GNUC__)
#define MR_EXPORT __attribute__((visibility("default")))
#else
#define MR_EXPORT
#endif

/* ---- shared objects as userdata (shared.c) ---- */

/*
 * How objects of one type appear in Lua. The metatable is its own method table and is filled as methods are first used, because most
 * processes use two or three of them and there may be hundreds of thousands of processes.
 */
typedef struct mr_class {
  mr_sharetype share;            /* first: the metatable's __share leads to it */
  const char *tname;
  const luaL_Reg *meta;          /* made with the metatable; see mr_self in none of them */
  const luaL_Reg *methods;       /* made when first used */
  const luaL_Reg *fast;          /* in a process's state instead of the method of the same name, or NULL */
  const mr_waitclass *wait;      /* what select does with it; NULL: it can't be waited for */
} mr_class;

/* The userdata of the object in this state: the one that exists, or a new one. */
void       mr_shared_push(lua_State *L, mr_shared *o, const mr_class *class);
/* Pushes a method of the class, nil if there is none; remembers it in the metatable at idx. */
void       mr_class_method(lua_State *L, int idx, const mr_class *class, const char *name);
/* __index of handles at 1: their id, their name (or NULL), the class's methods. */
int        mr_handle_index(lua_State *L, const mr_class *class, uint64_t id, const char *name);
/* As mr_shared_push, for an object just made whose only reference becomes the userdata's; also when this raises. */
void       mr_shared_push_new(lua_State *L, mr_shared *o);

/*
 * The userdata: the object, and a tag derived from its address and a secret of this program run. So checking an argument
 * needs no look-up, and another library's userdata can't be taken for one of ours.
 */
typedef struct mr_box { mr_shared *object; uint64_t tag; } mr_box;
extern uint64_t mr_secret;

/* What tells that the box is one of ours, 0 in its low 48 bits; above them a movable's epoch, by which a husk is known. */
static inline uint64_t mr_box_rest(const mr_box *b) { return b->tag ^ mr_secret ^ (uintptr_t)b->object; }
#define MR_BOX_OURS(rest) (((rest) & UINT64_C(0xffffffffffff)) == 0)
static inline uint64_t mr_box_tag(mr_shared *o) {
  uint64_t epoch = o->type->moves ? atomic_load_explicit(&((mr_movable *)(void *)o)->epoch, memory_order_acquire) : 0;
  return mr_secret ^ (uintptr_t)o ^ epoch << 48;
}
/* The same as mr_shared_to for a movable type: NULL also for a husk. */
static inline mr_shared *mr_movable_to(lua_State *L, int idx, const mr_sharetype *type) {
  if (lua_rawlen(L, idx) != sizeof(mr_box)) return NULL;
  mr_box *b = (mr_box *)lua_touserdata(L, idx);
  if (!b || !b->object || !MR_BOX_OURS(mr_box_rest(b)) || b->object->type != type) return NULL;
  return b->tag == mr_box_tag(b->object) ? b->object : NULL;
}

/* NULL unless the value at idx is a userdata of ours for an object of that type. (Light userdata have length 0.) */
static inline mr_shared *mr_shared_to(lua_State *L, int idx, const mr_sharetype *type) {
  if (lua_rawlen(L, idx) != sizeof(mr_box)) return NULL;
  mr_box *b = (mr_box *)lua_touserdata(L, idx);
  if (!b || b->tag != (mr_secret ^ (uintptr_t)b->object) || !b->object || b->object->type != type) return NULL;
  return b->object;
}
/* Of whatever type; NULL: not one of ours. */
static inline mr_shared *mr_shared_any(lua_State *L, int idx) {
  mr_box *b = lua_rawlen(L, idx) == sizeof(mr_box) ? (mr_box *)lua_touserdata(L, idx) : NULL;
  return b && b->object && MR_BOX_OURS(mr_box_rest(b)) && b->tag == mr_box_tag(b->object) ? b->object : NULL;
}
/* What is left of an object that was moved. Going out of scope and being shown are no uses of it. */
int        mr_is_husk(lua_State *L, int idx);
mr_shared *mr_shared_check(lua_State *L, int idx, const mr_sharetype *type, const char *tname);

/* Registers functions so that mr_self works in them: with the host as upvalue in a host state, without in a process. */
void mr_set_functions(lua_State *L, const luaL_Reg *l);
void mr_function_push(lua_State *L, lua_CFunction f);   /* one such function */
void mr_host_ensure(lua_State *L);             /* in a host state: its record exists from now on */
int  mr_in_process(lua_State *L);              /* L is a process's state (not a host's) */

/* A finaliser may run while this thread's packer is being read: it gets the other one. */
static inline mr_packer *mr_packer_for(lua_State *L, mr_fiber *f) {
  return lua_gc(L, LUA_GCCOUNT, 0) == -1 ? f->thread->gc_packer : f->thread->packer;
}

/* Deadline from an optional number of seconds at idx: absent, nil or math.huge = never. Raises on what is no time. */
uint64_t mr_deadline(lua_State *L, int idx);
/* For reasons that are not the operation's own: raises MR_INTERRUPTED and MR_DEADLOCK as errors; else returns. */
void mr_raise_reason(lua_State *L, mr_fiber *f, mr_reason r);
int  mr_raise(lua_State *L, int err);

void mr_setup(void);                           /* once, before anything else: hooks and types */
void mr_channel_setup(void);
void mr_select_setup(void);
void mr_check_forked(lua_State *L);            /* raises in a child of fork() */
void mr_embed_open(lua_State *L);              /* makes the table of include/mare.h known to C modules of this state */
void mr_process_setup(void);
void mr_file_setup(void);
void mr_subprocess_setup(void);
void mr_signal_setup(void);

/* ---- parts of the module mare (outside.c) ---- */
int mr_wait_fd(lua_State *L);
int mr_host_descriptor(lua_State *L);
int mr_host_step(lua_State *L);

/* ---- fibers (fiber.c) ---- */
struct mr_strand *mr_fiber_spawn(lua_State *L, int n, const char *name);  /* of the function and n - 1 arguments on top; leaves its handle */

/* ---- select (select.c), for others who have something to offer to it ---- */
/* An operation rather than an object, as channel:sending makes it: its type, the object and the values. */
void mr_operation_push(lua_State *L, const mr_waitclass *type, int n);   /* takes n values off the stack, the object first */
int  mr_operation_values(lua_State *L, int idx);                         /* pushes the values behind the object, makes room; how many */

int luaopen_mare(lua_State *L);
int luaopen_mare_process(lua_State *L);
int luaopen_mare_channel(lua_State *L);
int luaopen_mare_file(lua_State *L);
int luaopen_mare_subprocess(lua_State *L);
int luaopen_mare_signal(lua_State *L);
int luaopen_mare_select(lua_State *L);
int luaopen_mare_selector(lua_State *L);
int luaopen_mare_fiber(lua_State *L);
int luaopen_mare_timer(lua_State *L);
int luaopen_mare_orb_giop_core(lua_State *L);
int luaopen_mare_orb_cdr(lua_State *L);

#endif
