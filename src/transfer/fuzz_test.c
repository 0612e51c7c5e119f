/*
 * Random graphs of everything that can be sent: what arrives must read the same as what was sent, object for object.
 *
 * usage: fuzz_test [seed] [rounds]
 */
#include <time.h>
#include "transfer/graphs.h"

#ifdef PORT_TSAN
enum { ROUNDS = 20 };
#else
enum { ROUNDS = 120 };
#endif

static void arrive(const char *want, mr_message *m, long seed) {
  lua_close(receiver);
  receiver = open_state();
  load_library(receiver);
  lua_settop(receiver, 0);
  lua_pushcfunction(receiver, m ? l_unpack : l_unpack_view);
  lua_pushlightuserdata(receiver, m);
  int r = lua_pcall(receiver, 1, LUA_MULTRET, 0);
  const char *got = r ? NULL : describe(receiver);
  checks++;
  if (got && strcmp(got, want) == 0) return;
  failures++;
  fprintf(stderr, "seed %ld, raw %d, %s: %s\n", seed, mr_layout, m ? "message" : "view", got ? "differs" : lua_tostring(receiver, -1));
  if (got && failures < 2) fprintf(stderr, "--- sent\n%s\n--- received\n%s\n", want, got);
}

static void once(long seed) {
  generate(sender, seed, 0);
  int n = lua_gettop(sender);
  const char *want = describe(sender);
  if (!want) { fprintf(stderr, "%s\n", lua_tostring(sender, -1)); abort(); }
  if (mr_pack(packer, sender, 1, n, "message")) {
    failures++;
    fprintf(stderr, "seed %ld: %s\n", seed, lua_tostring(sender, -1));
    return;
  }
  mr_message *m = mr_packer_seal(packer);
  arrive(want, NULL, seed);
  arrive(want, m, seed);
  mr_message_free(m);
}

int main(int argc, char **argv) {
  long seed = argc > 1 ? atol(argv[1]) : (long)time(NULL), rounds = argc > 2 ? atol(argv[2]) : ROUNDS;
  thing *t = thing_new();
  printf("seed %ld\n", seed);
  thing_give(t);
  load_library(sender);
  int was = mr_layout;
  for (long i = 0; i < rounds; i++) {
    mr_layout = was;
    once(seed + i);
    mr_layout = 0;
    once(seed + i);
  }
  mr_layout = was;
  close_states();
  CHECK(refs(t) == 1);
  mr_release(&t->head);
  return finish();
}
