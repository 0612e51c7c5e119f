/*
 * mare.h: mare for C. For modules that are loaded into mare's processes or into hosts, and for programs that embed Lua.
 *
 * Nothing here is linked: everything is reached through one table of functions that mare keeps in every state in which it was
 * required. So a module works with any mare that is new enough, and needs no library but Lua itself.
 *
 *   int luaopen_mymodule(lua_State *L) {
 *     const mare_api *mare = mare_api_require(L);        raises if mare is missing or too old
 *     mare->channel_named(L, "jobs", 10);                 pushes a channel
 *     lua_pushliteral(L, "hello");
 *     mare->channel_send(L, -2, 1, MARE_FOREVER, 0, NULL);
 *     ...
 *
 * Conventions
 *  - Values stay Lua values: channels and handles are userdata on L's stack; indices are Lua's.
 *  - [raises]: errors are Lua errors; call it where they are caught. Others never raise.
 *  - Functions that wait take `ctx` and `k` and behave as lua_callk: with k, what stands after the call may never run, because
 *    the process is suspended and k is called instead; write `return k(L, LUA_OK, ctx)` there. With k == NULL, and where Lua
 *    cannot yield, the thread waits and another takes its place. In a host the thread itself waits.
 *  - Times are seconds; MARE_FOREVER (any negative number) means no limit, 0 means not to wait.
 *  - A function may be called by the thread that runs L at that moment, by no other.
 *
 * Versions: the table only grows, at its end. A module asks for the version whose functions it uses by defining MARE_API_MINIMUM before it
 * includes this file; without that it asks for the version of this file.
 */
#ifndef MARE_H
#define MARE_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stddef.h>
/* Distributions keep Lua's headers in a folder of their own, which `pkg-config --cflags mare` names; without it the usual ones are tried. */
#ifdef __has_include
#if !__has_include(<lua.h>) && __has_include(<lua5.4/lua.h>)
#include <lua5.4/lua.h>
#elif !__has_include(<lua.h>) && __has_include(<lua54/lua.h>)
#include <lua54/lua.h>
#else
#include <lua.h>
#endif
#else
#include <lua.h>
#endif

#if LUA_VERSION_NUM != 504
#error "mare needs Lua 5.4"
#endif

#define MARE_RELEASE "0.2.0"               /* of this mare; all else that names it has it from here (spec/version_spec.lua) */
#define MARE_API_VERSION 3                 /* 2: fd_wait, host_descriptor, host_step; 3: buffers, transfer_register */
#ifndef MARE_API_MINIMUM
#define MARE_API_MINIMUM MARE_API_VERSION
#endif
#define MARE_API_FIELD "mare.api"          /* in the registry: a light userdata */
#define MARE_FOREVER (-1.0)
#define MARE_UNBOUNDED (-1.0)              /* as a capacity */

struct mare_transfer;

typedef struct mare_api {
  unsigned version;                        /* MARE_API_VERSION of the mare that runs */
  size_t size;                             /* of its table */
  const char *release;                     /* the MARE_RELEASE of the mare that runs */

  /* ---- hosts: states that mare did not make ---- */
  /* As require "mare", without a path: pushes the module. LUA_OK, or a status and an error message is pushed. */
  int (*host_open)(lua_State *L);
  /* Waits until every process of the program has ended. LUA_OK, or a status and a message is pushed (a deadlock, with its report). */
  int (*host_join)(lua_State *L);

  /* ---- processes ---- */
  /* Function (or string of code) and n arguments on the top become a handle. [raises] */
  void (*process_spawn)(lua_State *L, int n);
  /* Pushes true, results… or false, error, traceback or nil, "timeout"; returns how many. [raises] */
  int (*process_wait)(lua_State *L, int handle, double seconds, lua_KContext ctx, lua_KFunction k);
  void (*process_self)(lua_State *L);      /* pushes the handle of the process, or host, that L belongs to. [raises] */
  void (*process_sleep)(lua_State *L, double seconds, lua_KContext ctx, lua_KFunction k);       /* [raises] */
  size_t (*process_count)(void);           /* processes that have not ended */

  /* ---- channels ---- */
  void (*channel_new)(lua_State *L, double capacity);                        /* pushes it. [raises] */
  void (*channel_named)(lua_State *L, const char *name, double capacity);    /* pushes it; made if there is none. [raises] */
  int (*channel_find)(lua_State *L, const char *name);                       /* pushes it and returns 1, or nil and 0. [raises] */
  void (*channel_close)(lua_State *L, int channel);                          /* [raises] */
  /* The n values on the top are sent and popped. Pushes two values: true and nil, or nil and a reason. [raises] */
  void (*channel_send)(lua_State *L, int channel, int n, double seconds, lua_KContext ctx, lua_KFunction k);
  /* Pushes the values of a message, or nil and a reason; returns how many. With k count them there: lua_gettop. [raises] */
  int (*channel_receive)(lua_State *L, int channel, double seconds, lua_KContext ctx, lua_KFunction k);

  /* ---- the program ---- */
  int (*workers_get)(void);
  int (*workers_set)(int n);               /* 0, or a number for error_text */
  double (*clock_now)(void);               /* seconds of a clock that only goes forward */
  const char *(*error_text)(int number);

  /* ---- the world outside; since version 2, NULL before ---- */
  /*
   * Waits until the descriptor is ready ('r', 'w', or 'b' for either). Pushes two values: what is ready ("r", "w", "rw") and nil, or
   * nil and a reason. [raises]
   */
  void (*fd_wait)(lua_State *L, int fd, char how, double seconds, lua_KContext ctx, lua_KFunction k);
  /* For hosts with a loop of their own: a descriptor that is readable while host_step has something to do. [raises] */
  int (*host_descriptor)(lua_State *L);
  int (*host_step)(lua_State *L);          /* runs the host's fibers that are ready; how many. Never waits. [raises] */

  /* ---- buffers: bytes outside all heaps (mare.buffer); since version 3, NULL before ---- */
  void (*buffer_push)(lua_State *L, const void *bytes, size_t n);            /* pushes a sealed one, a copy. [raises] */
  /* Pushes an open one of n zeros; where they are, to be written until Lua is called again. [raises] */
  void *(*buffer_new)(lua_State *L, size_t n);
  /*
   * Pushes a sealed one that has these very bytes, which nobody may change from now on. When the last process has dropped it, drop is called, on any
   * thread, and may not touch Lua; also when this raises. drop NULL: free(bytes). [raises]
   */
  void (*buffer_adopt)(lua_State *L, void *bytes, size_t n, void (*drop)(void *ud, void *bytes, size_t n), void *ud);
  /* The bytes of the buffer at idx, NULL if it is none; of a sealed one they stay as long as it is alive, of an open one until Lua is called again. */
  const void *(*buffer_bytes)(lua_State *L, int idx, size_t *n);
  void *(*buffer_change)(lua_State *L, int idx, size_t *n);                  /* those of an open one, to be written. [raises if it is no open one] */
  void (*buffer_seal)(lua_State *L, int idx);                                /* [raises] */

  /* ---- userdata; since version 3, NULL before ---- */
  /*
   * From now on userdata whose metatable luaL_newmetatable made under that name can be sent, in every state of the program. The rule is
   * static and constant. For libraries of others; one's own say it by the metatable's field MARE_TRANSFER_FIELD. [raises]
   */
  void (*transfer_register)(lua_State *L, const char *name, const struct mare_transfer *rule);
  void *(*reserved[7])(void);
} mare_api;

/*
 * Userdata that can be sent. The metatable's field MARE_TRANSFER_FIELD holds a light userdata that points to one of these, static and constant;
 * or it is registered for the metatable's name by transfer_register. The metatable must be one of luaL_newmetatable, as the receiver finds
 * its own by the name.
 *
 * MARE_MOVE: one process has it. When a message with it is sealed, `pack` takes out of the block what it stands for. Then the block is zero and
 * the userdata a husk: every use of it raises an error. The receiver gets a userdata of the same size and with the same user values; its block
 * is zero, `unpack` puts the object in, and then it gets its metatable. Without `pack` the bytes of the block travel: they are the object, and
 * the receiver's block already holds them when `unpack` is called, to mend pointers into itself.
 *
 * MARE_SHARE: all processes have it; the block refers to an object that counts its references, whatever thread counts. `pack` takes one, `unpack`
 * takes another for the new userdata, `drop` gives back what pack took. A state has at most one userdata of it.
 */
#define MARE_TRANSFER_FIELD "__transfer"
#define MARE_TRANSFER_VERSION 1
enum { MARE_MOVE = 0, MARE_SHARE = 1 };
typedef struct mare_transfer {
  unsigned version;                        /* MARE_TRANSFER_VERSION */
  unsigned way;                            /* MARE_MOVE or MARE_SHARE */
  const char *module;                      /* what the receiver requires if it has no metatable of that name yet, or NULL */
  size_t size;                             /* the size of the userdata, as the rule knows it: others are refused; 0: any */
  /*
   * Why it can't go now, in static words that end "userdata 'x' …"'s sentence after a colon; NULL: it can. May be NULL. It may look at the block
   * and at user values; the state may not allocate anything.
   */
  const char *(*busy)(lua_State *L, int idx);
  /* 0, or 1: no memory, and nothing has changed. May be NULL (MARE_MOVE). The state may not allocate anything. */
  int (*pack)(lua_State *L, int idx, void **object);
  /* In the receiver, before `unpack`, for what may allocate or fail: the userdata has its place but neither bytes nor metatable. May be NULL.
   * The message can die, or be received once more, after it. [raises] */
  void (*ready)(lua_State *L, int idx, void *object);
  /* The object is the userdata's. May be NULL (MARE_MOVE without pack). It may not raise, and the state may not allocate anything. */
  void (*unpack)(lua_State *L, int idx, void *object);
  /* The message was not sent after all: the block has the bytes it had before pack; what else pack did is to be undone. May be NULL. */
  void (*back)(lua_State *L, int idx, void *object);
  /*
   * Nobody will receive it: the end of the object, on any thread. NULL: the metatable's __gc, a C function without upvalues, is called in an
   * empty state made for this, with a userdata as `unpack` makes it.
   */
  void (*drop)(void *object);
} mare_transfer;

/* The table, or NULL where mare was not required yet or is older than MARE_API_MINIMUM. */
static inline const mare_api *mare_api_get(lua_State *L) {
  const mare_api *a;
  lua_getfield(L, LUA_REGISTRYINDEX, MARE_API_FIELD);
  a = (const mare_api *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return a && a->version >= MARE_API_MINIMUM ? a : NULL;
}

/* Requires mare first if need be, and raises an error that says what is wrong instead of returning NULL. */
static inline const mare_api *mare_api_require(lua_State *L) {
  const mare_api *a = mare_api_get(L);
  if (a) return a;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mare");
  lua_call(L, 1, 0);
  a = mare_api_get(L);
  if (a) return a;
  lua_pushfstring(L, "this module needs version %d of mare's C interface; the mare that is loaded is older",
                  (int)MARE_API_MINIMUM);
  lua_error(L);
  return NULL;
}

#ifdef __cplusplus
}
#endif

#endif
