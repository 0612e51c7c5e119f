/*
 * test: two states and a packer between them, for the tests of transfer. Every case runs raw and through the API,
 * as a view and as a sealed message.
 */
#ifndef MR_TRANSFER_TEST_H
#define MR_TRANSFER_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "transfer/packet.h"

static int failures, checks;
#define CHECK(c) do { checks++; if (!(c)) { failures++; fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); } } while (0)
#define RUN(t) do { t(); close_states(); } while (0)

static lua_State *sender, *receiver;
static mr_packer *packer;

static inline void close_states(void) {
  if (sender) lua_close(sender);
  if (receiver) lua_close(receiver);
  mr_packer_free(packer);
  sender = receiver = NULL;
  packer = NULL;
}

static inline lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  return L;
}

static inline void open_states(void) {
  if (!sender) sender = open_state();
  if (!receiver) {
    receiver = open_state();
    if (luaL_dostring(receiver, "package.preload.mymod = function() return {here = 1} end")) abort();
  }
  if (!packer) packer = mr_packer_new();
}

/* ---- a shared object ---- */
typedef struct thing { mr_shared head; int destroyed; } thing;

static int l_thing_gc(lua_State *L) { mr_release(*(mr_shared **)lua_touserdata(L, 1)); return 0; }

static void thing_push(lua_State *L, mr_shared *o) {
  mr_shared **u = lua_newuserdatauv(L, sizeof *u, 0);
  *u = NULL;
  if (luaL_newmetatable(L, "thing")) {
    lua_pushlightuserdata(L, (void *)o->type);
    lua_setfield(L, -2, "__share");
    lua_pushcfunction(L, l_thing_gc);
    lua_setfield(L, -2, "__gc");
  }
  *u = o;
  mr_retain(o);
  lua_setmetatable(L, -2);
}
static void thing_destroy(mr_shared *o) { free(o); }
static const mr_sharetype thing_type = { .name = "thing", .destroy = thing_destroy, .push = thing_push };

static inline thing *thing_new(void) {
  thing *t = calloc(1, sizeof *t);
  t->head.type = &thing_type;
  atomic_init(&t->head.refs, 1);
  return t;
}
static inline size_t refs(thing *t) { return atomic_load(&t->head.refs); }
static inline void thing_give(thing *t) {
  open_states();
  thing_push(sender, &t->head);
  lua_setglobal(sender, "thing");
}

/* ---- one transfer ---- */

/* Runs `make` in the sender and packs what it returns; 0 = packed, else the error is on the sender's stack. */
static inline int pack_results(const char *make) {
  lua_settop(sender, 0);
  if (luaL_dostring(sender, make)) { fprintf(stderr, "%s: %s\n", make, lua_tostring(sender, -1)); abort(); }
  int n = lua_gettop(sender);
  int r = mr_pack(packer, sender, 1, n, "message");
  CHECK(lua_gettop(sender) == n + (r != 0));
  return r;
}

static int l_unpack_view(lua_State *L) { return mr_unpack_view(L, packer); }
static int l_unpack(lua_State *L) { return mr_unpack(L, lua_touserdata(L, 1)); }

static inline void judge(const char *make, const char *test, const char *how) {
  int n = lua_gettop(receiver);
  if (luaL_loadstring(receiver, test)) { fprintf(stderr, "%s: %s\n", test, lua_tostring(receiver, -1)); abort(); }
  lua_insert(receiver, 1);
  int r = lua_pcall(receiver, n, 1, 0);
  checks++;
  if (r || !lua_toboolean(receiver, -1)) {
    failures++;
    fprintf(stderr, "%s, raw %d: %s\n  %s\n  %s\n", how, mr_layout, r ? lua_tostring(receiver, -1) : "not as it was", make, test);
  }
  lua_settop(receiver, 0);
}

static inline void receive(const char *make, const char *test, mr_message *m) {
  lua_settop(receiver, 0);
  lua_pushcfunction(receiver, m ? l_unpack : l_unpack_view);
  if (m) lua_pushlightuserdata(receiver, m);
  if (lua_pcall(receiver, m ? 1 : 0, LUA_MULTRET, 0)) {
    failures++;
    fprintf(stderr, "unpack: %s\n  %s\n", lua_tostring(receiver, -1), make);
    return;
  }
  judge(make, test, m ? "message" : "view");
}

static inline void one(const char *make, const char *test) {
  open_states();
  if (pack_results(make)) { failures++; fprintf(stderr, "%s\n  %s\n", lua_tostring(sender, -1), make); return; }
  mr_message *m = mr_packer_seal(packer);
  receive(make, test, NULL);
  lua_settop(sender, 0);
  lua_gc(sender, LUA_GCCOLLECT);
  receive(make, test, m);
  receive(make, test, m);
  mr_message_free(m);
}

static inline void both(const char *make, const char *test) {
  open_states();
  int was = mr_layout;
  one(make, test);
  mr_layout = 0;
  one(make, test);
  mr_layout = was;
}

static inline void refused_once(const char *make, const char *text) {
  open_states();
  int r = pack_results(make);
  checks++;
  if (!r || strcmp(lua_tostring(sender, -1), text) != 0) {
    failures++;
    fprintf(stderr, "raw %d: %s\n  is   %s\n  want %s\n", mr_layout, make, r ? lua_tostring(sender, -1) : "(sent)", text);
  }
  CHECK(packer->nobjects == 0);
}

static inline void refused(const char *make, const char *text) {
  open_states();
  int was = mr_layout;
  refused_once(make, text);
  mr_layout = 0;
  refused_once(make, text);
  mr_layout = was;
}

static inline int finish(void) {
  close_states();
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}

#endif
