/*
 * Every allocation of the thread that runs a script fails once: Lua's, and (where no sanitizer stands before it) those of the C library. The works
 * are in spec/support/oom.lua. What comes is the memory error; afterwards the same work succeeds, no descriptor stays open, and nothing leaks
 * (the sanitizer build sees that). Other threads - the workers, those of files and names - are left alone. ThreadSanitizer's build sees what these do
 * meanwhile, for which each fifth allocation is enough: what the failing thread itself does is seen by the others.
 * time limit: 600 s
 * runs first
 */
#include <dirent.h>
#define FAILING 2
#include "module/failing.h"
#include "module/net.h"
#include "module/observe.h"
#include "module/socket.h"

#ifdef PORT_TSAN
enum { STEP = 5 };
#else
enum { STEP = 1 };
#endif

static int descriptors(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static int call(lua_State *L) {
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  lua_gc(L, LUA_GCSTOP);                       /* Lua loses a finaliser that it has no memory to call */
  active = 1;
  int status = lua_pcall(L, 0, 0, 0);
  active = 0;
  lua_gc(L, LUA_GCRESTART);
  return status;
}

static int of_memory(lua_State *L) {
  const char *e = lua_tostring(L, -1);
  return e && (strstr(e, "not enough memory") || strstr(e, "Cannot allocate memory") || strstr(e, "ENOMEM"));
}

/* Of long works not each allocation fails. */
static int step_of(const char *name) {
  static const struct { const char *name; int step; } longer[] = { { "asking", 7 }, { "learned", 151 }, { "vanished", 17 }, { "offers", 41 } };
  for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
    if (strcmp(name, longer[i].name) == 0) return longer[i].step * STEP;
  }
  return STEP;
}

/* The work is at index 2. */
static long each_allocation(lua_State *L, const char *name) {
  int step = step_of(name);
  long n = once * (step / 2), runs = 0;        /* the two rounds differ in where they fail */
  for (int more = 1; more && failures < 20; n += step, runs++) {
    failed = 0;
    left = n;
    int status = call(L);
    left = -1;
    more = failed;
    int good = status == LUA_OK || (failed && of_memory(L));
    if (!good) fprintf(stderr, "%s, allocation %ld%s: %s\n", name, n, once ? ", once" : "", lua_tostring(L, -1));
    CHECK(good);
    status = call(L);
    if (status != LUA_OK) fprintf(stderr, "%s, after allocation %ld%s: %s\n", name, n, once ? ", once" : "", lua_tostring(L, -1));
    CHECK(status == LUA_OK);
  }
  return runs;
}

/* Its server lives on the same memory: without any it ends. */
static int is_shared(const char *name) {
  static const char *const shared[] = { "servants", "gates", "places", "values", "adapters", "channels", "filters", "pulled", "vanished", "callbacks",
                                       "offers" };
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
    if (strcmp(name, shared[i]) == 0) return 1;
  }
  return 0;
}

/* Each allocation fails in turn; how many. */
static long fail_all(lua_State *L, const char *name) {
  long n = 0;
  lua_gc(L, LUA_GCCOLLECT);
  int before = descriptors();
  /* Where every further allocation fails, not even Lua's own clean-up runs to its end in a fiber that serves others. */
  for (once = is_shared(name); once < 2; once++) n += each_allocation(L, name);
  once = 0;
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT);
  /* Some are closed by another thread, and some by fibers of this one, which must run. */
  for (int i = 0; i < 6000 && descriptors() > before; i++) CHECK(luaL_dostring(L, "require 'mare'.sleep(0.01)") == LUA_OK);
  CHECK(descriptors() <= before);
  return n;
}

int main(int argc, char **argv) {
  lua_State *L = mr_lua_newstate(allocate, NULL);
  luaL_openlibs(L);
  luaL_requiref(L, "mare", luaopen_mare, 0);
  luaL_requiref(L, "mare.near", luaopen_mare_near, 0);
  luaL_requiref(L, "mare.error", luaopen_mare_error, 0);
  luaL_requiref(L, "mare.net", luaopen_mare_net, 0);
  luaL_requiref(L, "mare.freeze", luaopen_mare_freeze, 0);
  luaL_requiref(L, "luaproc", luaopen_luaproc, 0);
  luaL_requiref(L, "mare.socket.core", luaopen_mare_socket_core, 0);
  luaL_requiref(L, "mare.orb.cdr", luaopen_mare_orb_cdr, 0);
  luaL_requiref(L, "mare.orb.giop.core", luaopen_mare_orb_giop_core, 0);
  luaL_requiref(L, "mare.orb.core", luaopen_mare_orb_core, 0);
  luaL_requiref(L, "mare.ludo.core", luaopen_mare_ludo_core, 0);
  luaL_requiref(L, "mare.json.core", luaopen_mare_json_core, 0);
#ifdef MARE_YYJSON
  luaL_requiref(L, "mare.json", luaopen_mare_json, 0);
#endif
  lua_settop(L, 1);                            /* each of them has left itself on the stack */
  luaL_requiref(L, "mare.tls.core", luaopen_mare_tls_core, 0);
  luaL_requiref(L, "mare.http.frames", luaopen_mare_http_frames, 0);
  luaL_requiref(L, "mare.trace.core", luaopen_mare_trace_core, 0);
  luaL_requiref(L, "mare.log.core", luaopen_mare_log_core, 0);
  luaL_requiref(L, "mare.collective.core", luaopen_mare_collective_core, 0);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_mare_http_core);        /* raises where there is no llhttp */
  lua_setfield(L, -2, "mare.http.core");
  lua_pushcfunction(L, luaopen_mare_http_deflate);     /* likewise, zlib */
  lua_setfield(L, -2, "mare.http.deflate");
  lua_settop(L, 1);
#ifdef MR_CURL
  luaL_requiref(L, "mare.http.curl", luaopen_mare_http_curl, 0);
#endif
  luaL_requiref(L, "observed", mr_observed_open, 0);
  lua_settop(L, 1);
  if (luaL_dofile(L, "spec/support/oom.lua")) { fprintf(stderr, "%s\n", lua_tostring(L, -1)); return 2; }
  lua_replace(L, 1);                           /* the table of works */
  lua_settop(L, 1);
  lua_State *names = lua_newthread(L);         /* walks the table; L's stack is each work's */
  lua_pushvalue(L, 1);
  lua_xmove(L, names, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, "names");
  for (lua_pushnil(names); lua_next(names, 1); lua_settop(names, 2)) {
    const char *name = lua_tostring(names, 2);
    if (argc > 1 && strcmp(argv[1], name) != 0) continue;
    lua_settop(L, 1);
    lua_xmove(names, L, 1);
    for (int i = 0; i < 3; i++) {                /* what is made once is made */
      int status = call(L);
      if (status != LUA_OK) fprintf(stderr, "%s, with memory: %s\n", name, luaL_tolstring(L, -1, NULL));
      CHECK(status == LUA_OK);
    }
    printf("%s: %ld allocations\n", name, fail_all(L, name));
    fflush(stdout);
  }
  if (luaL_dostring(L, "finish()")) { fprintf(stderr, "%s\n", lua_tostring(L, -1)); return 2; }
  lua_close(L);
  mr_observed_forget();
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
