/*
 * state: what a process's lua_State is: everything that `lua5.4` gives a script, made when it is first used.
 *
 * A fresh state is the template of an image, which is copied to other addresses: nothing in it is keyed by an address. Its extra
 * space holds the process. Only process states are opened here; a host's state stays as its owner made it.
 *
 * Files: open.c opens; globals.c knows which names exist and their C functions; lazy.c makes them at first use; basic.c,
 * coroutine.c, debug.c, output.c, stdlib.c replace single functions; require.c, package.c, inherit.c, chunk.c load modules.
 */
#ifndef MR_STATE_H
#define MR_STATE_H

#include "lua/compat.h"
#include "process/process.h"

/* ---- open.c ---- */
void       mr_state_install(void);                    /* once, first of all: process/ opens its states here from now on */
int        mr_in_process(lua_State *L);               /* L is a process's state (not a host's) */
lua_State *mr_state_open(lua_Alloc f, void *ud);     /* NULL: no memory */
void       mr_state_start(lua_State *L, mr_proc *p);
/* For a __gc that anybody may call: is the value a userdata of ours, known by that __gc, of at least that size? */
int        mr_is_own(lua_State *L, int idx, size_t size, lua_CFunction gc);
extern atomic_int mr_noenv;                           /* -E: LUA_PATH and its like are ignored */
extern atomic_int mr_warnings;                        /* -W: processes but the main one start with warnings on */

/* ---- globals.c: the global names of Lua ---- */
enum { NAME_FUNCTION, NAME_VALUE, NAME_LIBRARY };
enum { MR_NGLOBALS = 35, MR_NLIBS = 9 };
typedef struct mr_global {
  const char *name;
  unsigned char kind;
  unsigned char lib;                                  /* NAME_LIBRARY: its number */
  lua_CFunction f;                                    /* the function, or the library's opener */
} mr_global;
extern mr_global mr_globals[MR_NGLOBALS];                   /* sorted by name; `f` filled by mr_globals_init */
enum { LIB_COROUTINE, LIB_DEBUG, LIB_IO, LIB_MATH, LIB_OS, LIB_PACKAGE, LIB_STRING, LIB_TABLE, LIB_UTF8 };
int  mr_globals_init(void);                             /* idempotent; 0: no memory */
int  mr_globals_find(const char *name);                 /* -1: none */
extern luaL_Reg mr_string_arith[];                    /* string metamethods that work without the library */

/* ---- lazy.c ---- */
void mr_lazy_install(lua_State *L);                   /* into a bare state */
/* Is the value at idx one of the two tables that fill themselves? */
static inline int mr_lazy_is(lua_State *L, int idx) {
  const mr_proc *p = mr_proc_here(L);
  const void *t = lua_topointer(L, idx);
  return t && p && (t == p->lazy[0] || t == p->lazy[1]);
}
void mr_lazy_watch(lua_State *L, int idx, int which); /* the program can reach table idx (0 globals, 1 loaded) from now on */
void mr_lazy_fill(lua_State *L);                      /* makes everything and goes away */
void mr_lazy_open(lua_State *L, int lib);             /* opens that library now, if it was not */
int  mr_package_opened(lua_State *L);                  /* the state has a package library of its own: it was opened, or everything was made */
void mr_lazy_note(lua_State *L);                      /* the program sets key 2 of table 1, which mr_lazy_is, by itself */

/* ---- replacements of single functions, and openers of libraries ---- */
int mr_base_next(lua_State *L);
int mr_base_pairs(lua_State *L);
int mr_base_rawget(lua_State *L);
int mr_base_rawset(lua_State *L);
int mr_base_getmetatable(lua_State *L);
int mr_base_setmetatable(lua_State *L);
int mr_base_tostring(lua_State *L);
int mr_output_print(lua_State *L);
void mr_output_patch(lua_State *L);                   /* the io library is on the top of the stack */
int mr_lib_coroutine(lua_State *L);
int mr_lib_debug(lua_State *L);
int mr_lib_io(lua_State *L);
int mr_lib_math(lua_State *L);
int mr_lib_os(lua_State *L);
int mr_lib_package(lua_State *L);
static inline void mr_lib_set(lua_State *L, const char *name, lua_CFunction f) {   /* in the library on the top of the stack */
  lua_pushcfunction(L, f);
  lua_setfield(L, -2, name);
}
void mr_warn_off(void *ud, const char *msg, int tocont);
void mr_warn_on(void *ud, const char *msg, int tocont);

/* ---- require.c, package.c, inherit.c ---- */
#define MR_PACKAGE "mare.package"                     /* registry: the package table, or what it will be made from */
int  mr_require(lua_State *L);
extern const lua_CFunction mr_searchers[5];           /* NULL-terminated */
int  mr_searchpath(lua_State *L);
int  mr_loadlib(lua_State *L);
const char *mr_package_default(int cpath);            /* as the environment sets it; lives for ever */
/*
 * In the parent, inside the function that spawns: what children inherit, or NULL when that is nothing; not retained, kept alive by the one
 * value it pushes. Uses the packer. In the child, before anything else ran: takes it over.
 */
mr_inherit *mr_package_inherit(lua_State *L, mr_packer *packer);
void mr_package_take(lua_State *L, const mr_inherit *i);
extern const luaL_Reg *mr_builtins;                   /* mare's own C modules; ends with NULL. Set by module/, constant once there are threads */

/* ---- coroutine.c, debug.c ---- */
void mr_coroutine_setup(void);
void mr_debug_setup(void);
void mr_hook_inherit(lua_State *L, lua_State *co);    /* L, in a process with debug hooks, has just made co, which is on its top */
int  mr_hook_resumes(lua_State *L);                   /* L resumes a coroutine: its debug hook would notice an interruption there */

/* ---- ends ---- */
PORT_NORETURN void mr_exit(int code);                 /* src/process/stop.c: ends the program, flushed, within bounds */

#endif
