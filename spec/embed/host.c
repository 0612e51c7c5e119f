/*
 * host [-2] [-n] SCRIPT: a C program that runs a Lua script in one state of its own, or in two, each on its own thread.
 *
 * Afterwards it closes the states; with -n it returns from main without doing so. Exit code 1 if a script failed.
 */
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *script;
static int close_it = 1;

static void *run(void *arg) {
  int *failed = arg;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (luaL_dofile(L, script) != LUA_OK) {
    fprintf(stderr, "host: %s\n", lua_tostring(L, -1));
    *failed = 1;
  }
  if (close_it) lua_close(L);
  return NULL;
}

int main(int argc, char **argv) {
  int failed[2] = { 0, 0 }, threads = 1;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-2") == 0) threads = 2;
    else if (strcmp(argv[i], "-n") == 0) close_it = 0;
    else script = argv[i];
  }
  if (!script) return 2;
  if (threads == 1) {
    run(&failed[0]);
    return failed[0];
  }
  pthread_t id[2];
  for (int i = 0; i < 2; i++)
    if (pthread_create(&id[i], NULL, run, &failed[i]) != 0) return 2;
  for (int i = 0; i < 2; i++) pthread_join(id[i], NULL);
  return failed[0] || failed[1];
}
