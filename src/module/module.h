/* module: what the files of src/module share. One file per Lua module; no logic of their own. */
#ifndef MR_MODULE_H
#define MR_MODULE_H

#include "lua/compat.h"
#include "mare.h"
#include "process/process.h"
#include "process/await.h"
#include "state/state.h"

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

/* The userdata of the object in this state: the one that exists, or a new one; then 1. */
int        mr_shared_push(lua_State *L, mr_shared *o, const mr_class *class);
void       mr_shared_furnish(lua_State *L, const mr_class *class);   /* makes the class's metatable, in a fresh state: see mr_hooks.furnish */
/* Two userdata of one class, both ours: each stands for the other's object from now on. */
void       mr_shared_exchange(lua_State *L, int i, int j);
/* The state holds n more bytes outside of all heaps, of which its collector does not know. May collect garbage. */
void       mr_outside_held(lua_State *L, size_t n);
void       mr_outside_collect(lua_State *L);   /* the system has no memory: gives back what the state's garbage holds of it, unless the program has stopped that */
/* Pushes a method of the class, nil if there is none; remembers it in the metatable at idx. */
void       mr_class_method(lua_State *L, int idx, const mr_class *class, const char *name);
/* A field (2) that an object of the class doesn't have: nil, or an error that suggests one of `fields` (may be NULL) or methods. */
int        mr_class_missing(lua_State *L, const mr_class *class, const char *const *fields);
/* __index of handles at 1: their id, their name (or NULL), the class's methods. */
int        mr_handle_index(lua_State *L, const mr_class *class, uint64_t id, const char *name);
/* luaL_newmetatable and luaL_setmetatable, also where a program has put something else under that name. */
static inline int mr_metatable_new(lua_State *L, const char *name) {
  if (luaL_getmetatable(L, name) == LUA_TTABLE) return 0;
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, name);
  lua_pop(L, 1);
  return luaL_newmetatable(L, name);
}
static inline void mr_metatable_set(lua_State *L, const char *name) {
  if (luaL_getmetatable(L, name) != LUA_TTABLE) luaL_error(L, "registry[\"%s\"] was replaced", name);
  lua_setmetatable(L, -2);
}
/* Gives the value on top a metatable with this one function in it, which lies in the registry under `key`. */
void       mr_meta_set(lua_State *L, const void *key, const char *event, lua_CFunction f);
/* In a __gc, which anybody may call: the userdata at 1 if that is its own (mr_is_own), else NULL; so also in a forked child (shared.c). */
void      *mr_gc_own(lua_State *L, size_t size, lua_CFunction gc);
/*
 * The same of an object that is being made, when nothing may fail once it is made. First a userdata without object. Then `put`, when that is on top:
 * o's only reference becomes the userdata's, also when this raises; to the program it still is a userdata without object. `show` allocates
 * nothing, and makes it one with that object; 0: it was finalised already (a program can call __gc of whatever it gets hold of).
 */
typedef struct mr_box mr_box;
mr_box    *mr_shared_push_empty(lua_State *L, const mr_class *class);
void       mr_shared_put(lua_State *L, mr_box *b, mr_shared *o);
int        mr_shared_show(mr_box *b);
/* As mr_shared_push, for an object just made whose only reference becomes the userdata's; also when this raises. */
void       mr_shared_push_new(lua_State *L, mr_shared *o);
int        mr_shared_push_try(lua_State *L, mr_shared *o);   /* LUA_OK, or an error on top; the caller keeps its reference */

/*
 * The userdata: the object, and a tag derived from its address and a secret of this program run. So checking an argument
 * needs no look-up, and another library's userdata can't be taken for one of ours.
 */
struct mr_box { mr_shared *object; uint64_t tag; };
/* With words of the class's own; they are 0 at first. */
typedef struct mr_wide_box { mr_box box; uint64_t place; uint32_t reads, lazy; } mr_wide_box;
extern uint64_t mr_secret;

/*
 * What tells that the box is one of ours, 0 in its low 32 bits; above them a movable's epoch, by which a husk is known: all of it, as with fewer bits an
 * object that moves often would come to be owned by a husk again, and go when that is collected.
 */
static inline uint64_t mr_box_rest(const mr_box *b) { return b->tag ^ mr_secret ^ (uintptr_t)b->object; }
#define MR_BOX_OURS(rest) ((uint32_t)(rest) == 0)
static inline uint64_t mr_box_tag(mr_shared *o) {
  uint64_t epoch = o->type->moves ? atomic_load_explicit(&((mr_movable *)(void *)o)->epoch, memory_order_acquire) : 0;
  return mr_secret ^ (uintptr_t)o ^ epoch << 32;
}
/* The same as mr_shared_to for a movable type: NULL also for a husk. */
static inline mr_shared *mr_movable_to(lua_State *L, int idx, const mr_sharetype *type) {
  if (lua_rawlen(L, idx) != sizeof(mr_box)) return NULL;
  mr_box *b = (mr_box *)lua_touserdata(L, idx);
  if (!b || !b->object || !MR_BOX_OURS(mr_box_rest(b)) || b->object->type != type) return NULL;
  return b->tag == mr_box_tag(b->object) ? b->object : NULL;
}

/* NULL unless the value at idx is a userdata of ours for an object of that type, which is not wide. (Light userdata have length 0.) */
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
/* The same, wide or not: also a part of a frozen table. */
static inline mr_shared *mr_shared_or_wide(lua_State *L, int idx) {
  mr_box *b = lua_rawlen(L, idx) == sizeof(mr_wide_box) ? (mr_box *)lua_touserdata(L, idx) : NULL;
  return b && b->object && b->tag == mr_box_tag(b->object) ? b->object : mr_shared_any(L, idx);
}
/* What is left of an object that was moved. Going out of scope and being shown are no uses of it. */
int        mr_is_husk(lua_State *L, int idx);
mr_shared *mr_shared_check(lua_State *L, int idx, const mr_sharetype *type, const char *tname);

/* Registers functions so that mr_self works in them: with the host as upvalue in a host state, without in a process. */
void mr_set_functions(lua_State *L, const luaL_Reg *l);
void mr_function_push(lua_State *L, lua_CFunction f);   /* one such function */
void mr_operation_function(lua_State *L, lua_CFunction f);   /* the same in a process; replay.c: with --seed its end is a point */
void mr_outside_check(lua_State *L, const char *what);  /* replay.c: raises with --seed, where nothing outside can be spoken to */
void mr_lua_check(lua_State *L);               /* raises in a Lua other than 5.4: every luaopen_ begins so, mostly by mr_host_ensure */
void mr_host_ensure(lua_State *L);             /* in a host state: its record exists from now on */
void mr_host_push(lua_State *L);               /* otherwise: its host, as upvalue 1 of functions */

/* A finaliser may run while this thread's packer is being read: it gets the other one. */
static inline mr_packer *mr_packer_for(lua_State *L, mr_fiber *f) {
  return mr_lua_in_finaliser(L) ? mr_kit_of(f->thread)->gc_packer : mr_kit_of(f->thread)->packer;
}

/* Deadline from an optional number of seconds at idx: absent, nil or math.huge = never. Raises on what is no time. */
uint64_t mr_deadline(lua_State *L, int idx);
/* Fields of an options table at idx (fields.c), for messages of `who`: absent, or of the right type and in the range; else they raise. */
int        mr_boolean_field(lua_State *L, int idx, const char *who, const char *field, int usual);
int        mr_integer_field(lua_State *L, int idx, const char *who, const char *field, int least, int most, int usual);
uint64_t   mr_deadline_field(lua_State *L, int idx, const char *who, const char *field);
int        mr_arguments_field(lua_State *L, int idx);      /* pushes the values of spawn's field args; how many */

void mr_rules_install(void);                     /* rules.c: likewise, by it */
void mr_setup(void);                           /* once, before anything else: hooks and types */
void mr_check_forked(lua_State *L);            /* raises in a child of fork() */
void mr_embed_open(lua_State *L);              /* makes the table of include/mare.h known to C modules of this state */

/* ---- names that don't exist (near.c) ---- */
int  mr_may_miss(lua_State *L, int key);       /* that key is nil without an error where it doesn't exist */
int  mr_no_field(lua_State *L, const char *what, int key);   /* raises: which of the list of names on top was meant? */
void mr_list_add(lua_State *L, const char *name);            /* to the list on top; so do the next two */
void mr_list_functions(lua_State *L, const luaL_Reg *l);
void mr_list_keys(lua_State *L, int table);
const char *mr_module_name(lua_State *L, int module);        /* pushes the name by which it was loaded */
void mr_module_guard(lua_State *L);            /* reading a field that the module on top doesn't have raises from now on */

/* ---- parts of the module mare (outside.c) ---- */
int mr_wait_fd(lua_State *L);
int mr_host_descriptor(lua_State *L);
int mr_host_step(lua_State *L);

/* ---- ends ---- */
void mr_process_error_push(lua_State *L, mr_proc *p);                    /* process.c: the error value of one that has failed */
void mr_fiber_reason_push(lua_State *L, mr_fiber *f);                    /* fiber.c: what its cancel was given, or nil */

/* ---- fibers (fiber.c) ---- */
struct mr_strand *mr_fiber_spawn(lua_State *L, int n, const char *name);  /* of the function and n - 1 arguments on top; leaves its handle */

/* ---- names of processes (names.c) ---- */
int mr_name_l_register(lua_State *L);
int mr_name_l_unregister(lua_State *L);
int mr_name_l_whereis(lua_State *L);

/* ---- spawning (process.c) ---- */
/*
 * Of the function and its arguments at 1 … n. One reference for the caller, or for the handle (NULL: there is none) that was made before with
 * s->made, and is shown by this. NULL: the reason is *err, or the value that can't travel, if that is 0: then the message is on the top of the stack.
 */
mr_proc *mr_spawn_begin(lua_State *L, mr_spawn *s, int n, mr_box *handle, int *err);

/* ---- traces (trace.c) ---- */
void mr_trace_ask(void);                       /* by the first host: one is wanted if MARE_TRACE names a file */

/* ---- frozen tables (freeze.c) ---- */
const struct mr_part *mr_frozen_part(lua_State *L, int idx);   /* of the one at idx, which holds it; NULL: it is none */

/* ---- select (select.c), for others who have something to offer to it ---- */
/* An operation rather than an object, as channel:sending makes it: its type, the object and the values. */
void mr_operation_push(lua_State *L, const mr_waitclass *type, int n);   /* takes n values off the stack, the object first */
mr_shared *mr_operation_object(lua_State *L, int idx);                     /* what it is on; NULL: there is no operation at idx */
int  mr_operation_values(lua_State *L, int idx);                         /* pushes the values behind the object, makes room; how many */

void mr_luaproc_offer(lua_State *L);           /* in a host: require "luaproc" finds it from now on */

/* ---- all modules (modules.c): a new one in C is a line of modules.def, a new one in Lua is a file ---- */
#define C_MODULE(opener, name, kind, setup) MR_EXPORT int luaopen_##opener(lua_State *L); void setup(void);
#include "module/modules.def"
#undef C_MODULE
void mr_modules_setup(void);                   /* once, before there are threads */
void mr_modules_add(const char *name, lua_CFunction open);          /* one module of the program's, before mr_setup */
int  mr_modules_field(const char *noun, lua_CFunction *open);       /* 1: there is mare.NOUN; open NULL: it is written in Lua */
void mr_modules_list(lua_State *L);            /* their nouns, to the list on top */

#endif
