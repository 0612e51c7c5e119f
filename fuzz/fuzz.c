/*
 * fuzz: runs the Lua function of one target, fuzz/<target>.lua, on what libFuzzer makes up.
 *
 * What steers it: the coverage that the compiler put into src/cdr and the C modules over it, and, of Lua code, the pairs of lines that follow each
 * other: a line hook counts them in the section that libFuzzer looks at for counters of others. Lua itself is compiled without either.
 *
 * A finding is what the sanitizers report, an error that the target's function lets out, or memory: the state may use LIMIT bytes, and after a
 * full collection not much more than at the beginning.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "module/module.h"

#define LIMIT ((size_t)64 << 20)
#define GROWTH ((size_t)16 << 20)
#define EVERY 20000                              /* executions between two full collections */

__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t counters[1 << 15];

static lua_State *L;
static size_t used, at_start;
static int handler, target;

/*
 * Where no C code of ours sees Lua's values (targets that say "pure Lua"), small blocks come from lists of their own: most of the time would
 * go into what AddressSanitizer does about each of them.
 */
#ifdef FUZZ_PURE
enum { SMALL = 512, GRAIN = 16 };
typedef struct block { struct block *next; } block;
static block *blocks[SMALL / GRAIN + 1];

static void *get(size_t n) {
  size_t c = (n + GRAIN - 1) / GRAIN;
  if (n > SMALL) return malloc(n);
  if (!blocks[c]) {
    char *chunk = malloc(64 * c * GRAIN);
    for (int i = 0; chunk && i < 64; i++) {
      block *b = (block *)(void *)(chunk + (size_t)i * c * GRAIN);
      b->next = blocks[c];
      blocks[c] = b;
    }
  }
  block *b = blocks[c];
  if (b) blocks[c] = b->next;
  return b;
}

static void give_back(void *p, size_t n) {
  size_t c = (n + GRAIN - 1) / GRAIN;
  if (n > SMALL) return free(p);
  ((block *)p)->next = blocks[c];
  blocks[c] = p;
}

static void *resize(void *p, size_t osize, size_t nsize) {
  if (p && osize > SMALL && nsize > SMALL) return realloc(p, nsize);
  void *q = nsize ? get(nsize) : NULL;
  if (p && q) memcpy(q, p, osize < nsize ? osize : nsize);
  if (p && (q || !nsize)) give_back(p, osize);
  return q;
}
#else
static void *resize(void *p, size_t osize, size_t nsize) {
  (void)osize;
  if (nsize) return realloc(p, nsize);
  free(p);
  return NULL;
}
#endif

static void *allocate(void *ud, void *p, size_t osize, size_t nsize) {
  (void)ud;
  if (!p) osize = 0;
  if (nsize > osize && used + (nsize - osize) > LIMIT) return NULL;
  used = used - osize + nsize;
  return resize(p, osize, nsize);
}

static uint32_t last_line;

static void line(lua_State *state, lua_Debug *ar) {
  if (!lua_getinfo(state, "S", ar)) return;
  uint32_t here = ((uint32_t)(uintptr_t)ar->source >> 4) * 31u + (uint32_t)ar->currentline * 2654435761u;
  uint32_t pair = here ^ (last_line >> 1);
  last_line = here;
  pair ^= pair >> 15;
  uint8_t *c = &counters[pair & (sizeof counters - 1)];
  if (*c != UINT8_MAX) ++*c;
}

static int l_embedded(lua_State *state) {
  const char *name = luaL_checkstring(state, 1);
  for (const struct mr_embedded *e = mr_embedded; e->name; e++)
    if (strcmp(e->name, name) == 0) {
      lua_pushfstring(state, "@%s", e->file);
      if (luaL_loadbuffer(state, (const char *)e->code, e->size, lua_tostring(state, -1)) != LUA_OK) return lua_error(state);
      return 1;
    }
  lua_pushfstring(state, "no module '%s' inside", name);
  return 1;
}

static int l_trace(lua_State *state) {
  luaL_traceback(state, state, luaL_tolstring(state, 1, NULL), 1);
  return 1;
}

static void finding(const char *what) {
  fprintf(stderr, "==FINDING== %s\n", what);
  abort();
}

static void preload(const char *name, lua_CFunction open) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

static void open_state(void) {
  luaL_openlibs(L);
  preload("mare.orb.giop.core", luaopen_mare_orb_giop_core);
  preload("mare.orb.cdr", luaopen_mare_orb_cdr);
  preload("mare.near", luaopen_mare_near);
  preload("mare.ludo.core", luaopen_mare_ludo_core);
  preload("mare.json", luaopen_mare_json);
  preload("mare.json.core", luaopen_mare_json_core);
  preload("mare.log.core", luaopen_mare_log_core);
  preload("mare.http.core", luaopen_mare_http_core);
  preload("mare.http.frames", luaopen_mare_http_frames);
  preload("mare.http.curl", luaopen_mare_http_curl);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  lua_pushcfunction(L, l_embedded);
  lua_rawseti(L, -2, 2);                         /* instead of files */
  lua_pushliteral(L, FUZZ_ROOT);
  lua_setglobal(L, "ROOT");
  lua_settop(L, 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  L = lua_newstate(allocate, NULL);
  if (!L) finding("no memory for a state");
  open_state();
  lua_pushcfunction(L, l_trace);
  handler = lua_gettop(L);
  if (luaL_loadfile(L, FUZZ_ROOT "/fuzz/" FUZZ_TARGET ".lua") != LUA_OK || lua_pcall(L, 0, 1, handler) != LUA_OK) finding(lua_tostring(L, -1));
  target = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_gc(L, LUA_GCCOLLECT);
  at_start = used;
  lua_gc(L, LUA_GCINC, 400, 400, 0);             /* memory is there, time is not */
  lua_sethook(L, line, LUA_MASKLINE, 0);
  return 0;
}

static void check_memory(void) {
  static unsigned runs;
  if (++runs % EVERY != 0) return;
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT);
  if (used > at_start + GROWTH) finding("memory is kept from one run to the next");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
static int run_target(const uint8_t *data, size_t size) {
  last_line = 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, target);
  lua_pushlstring(L, (const char *)data, size);
  return lua_pcall(L, 1, 0, handler);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int status = run_target(data, size);
  if (status == LUA_ERRMEM) {
    /* What waits for its finaliser, and all that hangs on it, outlives the collection that a failed allocation makes: it's not this input's. */
    lua_settop(L, handler);
    lua_gc(L, LUA_GCCOLLECT);
    lua_gc(L, LUA_GCCOLLECT);
    status = run_target(data, size);
  }
  if (status != LUA_OK) finding(lua_tostring(L, -1));
  check_memory();
  return 0;
}
