/*
 * Userdata that move or are shared, between two states: every allocation on their way fails once. Whatever fails, the userdata is where it was, the
 * same message can be packed, sealed or received again, and in the end everything was finalised once.
 */
#include "transfer/cargo.h"
#include "transfer/failing.h"

/* ---- three kinds ---- */

static int made, ended;
static int stolen, lent;                       /* objects that are taken out, and references of what is shared */

static int get(lua_State *L) {
  lua_pushinteger(L, **(int **)lua_touserdata(L, 1));
  return 1;
}

static void end(void *object) {
  *(int *)object = 0;
  free(object);
  ended++;
}

static int gc(lua_State *L) {
  int **u = lua_touserdata(L, 1);
  if (*u) end(*u);
  *u = NULL;
  return 0;
}

static int take(lua_State *L, int idx, void **object) {
  int **u = lua_touserdata(L, idx);
  *object = *u;
  *u = NULL;
  stolen++;
  return 0;
}

static void put(lua_State *L, int idx, void *object) {
  *(int **)lua_touserdata(L, idx) = object;
  stolen--;
}

static void undo(lua_State *L, int idx, void *object) {
  CHECK(*(int **)lua_touserdata(L, idx) == object);
  stolen--;
}

static void lose(void *object) {
  stolen--;
  end(object);
}

static int lend(lua_State *L, int idx, void **object) {
  *object = *(int **)lua_touserdata(L, idx);
  lent++;
  return 0;
}

static void borrow(lua_State *L, int idx, void *object) {
  *(int **)lua_touserdata(L, idx) = object;
  lent++;
}

static void give_back(void *object) {
  if (--lent == 0) end(object);
}

static int shared_gc(lua_State *L) {
  int **u = lua_touserdata(L, 1);
  if (*u) give_back(*u);
  *u = NULL;
  return 0;
}

static const mare_transfer taken = { .version = 1, .module = "cargolib", .size = sizeof(int *), .pack = take, .unpack = put, .back = undo, .drop = lose };
static const mare_transfer block = { .version = 1, .module = "cargolib" };
static const mare_transfer shared = { .version = 1, .way = MARE_SHARE, .module = "cargolib", .pack = lend, .unpack = borrow, .drop = give_back };
static const struct { const char *name; const mare_transfer *rule; lua_CFunction gc; } kinds[] = {
  { "taken", &taken, gc }, { "block", &block, gc }, { "shared", &shared, shared_gc }
};

static const mr_cargotype *find(lua_State *L, int ud, const char *name) {
  (void)ud;
  for (size_t i = 0; i < 3; i++)
    if (strcmp(name, kinds[i].name) == 0) {
      const mr_cargotype *t = mr_cargotype_of_rule(name, kinds[i].rule, 0);
      if (!t) mr_raise_memory(L);
      return t;
    }
  return NULL;
}

static int l_new(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  int **u = lua_newuserdatauv(L, sizeof *u, 1);
  *u = NULL;
  luaL_setmetatable(L, name);
  *u = malloc(sizeof **u);
  if (!*u) abort();
  **u = 7;
  made++;
  if (strcmp(name, "shared") == 0) lent++;
  lua_pushliteral(L, "value");
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static int open_lib(lua_State *L) {
  for (size_t i = 0; i < 3; i++) {
    luaL_newmetatable(L, kinds[i].name);
    lua_pushcfunction(L, kinds[i].gc);
    lua_setfield(L, -2, "__gc");
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, get);
    lua_setfield(L, -2, "get");
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
  }
  lua_pushcfunction(L, l_new);
  lua_setglobal(L, "new");
  lua_pushboolean(L, 1);
  return 1;
}

static void open_both(void) {
  for (int i = 0; i < 2; i++) {
    lua_State *L = owners[i].L = mr_lua_newstate(allocate, &owners[i]);
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushcfunction(L, open_lib);
    lua_setfield(L, -2, "cargolib");
    lua_settop(L, 0);
    if (i) receiver = L; else sender = L;
  }
  packer = mr_packer_new();
  luaL_requiref(sender, "cargolib", open_lib, 0);
  lua_settop(sender, 0);
}

/* ---- steps ---- */

static void no_more_failures(void) { lua_left = c_left = -1; failed = 0; }

static void run(lua_State *L, const char *code) {
  if (luaL_dostring(L, code)) { fprintf(stderr, "%s: %s\n", code, lua_tostring(L, -1)); abort(); }
  lua_settop(L, 0);
}

static void at_home(void) { run(sender, "assert(u:get() == 7 and debug.getuservalue(u, 1) == 'value')"); }

static int l_pack(lua_State *L) {
  if (mr_pack(packer, L, 1, lua_gettop(L), "message") != 0) return lua_error(L);
  return 0;
}

/* The message { u, u } and u once more, in a stack of its own: its values stay there until it is sealed. */
static int pack(void) {
  lua_settop(sender, 0);
  failing = NULL;
  if (luaL_dostring(sender, "return {u, list = {u}}, u")) abort();
  lua_pushcfunction(sender, l_pack);
  lua_pushvalue(sender, 1);
  lua_pushvalue(sender, 2);
  failing = sender;
  int status = lua_pcall(sender, 2, 0, 0);
  failing = NULL;
  return status;
}

static int unpack(mr_message *m) {
  lua_settop(receiver, 0);
  failing = receiver;
  lua_pushcfunction(receiver, l_unpack);
  lua_pushlightuserdata(receiver, m);
  int status = lua_pcall(receiver, 1, 2, 0);
  failing = NULL;
  return status;
}

static void received(void) {
  lua_setglobal(receiver, "u");
  lua_setglobal(receiver, "t");
  run(receiver, "assert(t[1] == u and t.list[1] == u and u:get() == 7 and debug.getuservalue(u, 1) == 'value')");
}

/* `step` fails at its n-th allocation, for each n, until it succeeds without. Then the message is received, lost, or given back. */
enum { PACKING, SEALING, UNPACKING, STEPS };
enum { RECEIVED, LOST, BACK, ENDS };

static void journey(size_t kind, int step, int ending, long *left) {
  char code[64];
  snprintf(code, sizeof code, "u = new '%s'", kinds[kind].name);
  open_both();
  run(sender, code);
  mr_message *m = NULL;
  for (long n = 0, again = 1; again && step == PACKING; n++) {
    no_more_failures();
    *left = n;
    int status = pack();
    again = failed;
    no_more_failures();
    CHECK(status == LUA_OK || again);
    at_home();
  }
  for (long n = 0, again = 1; again && step == SEALING; n++) {
    no_more_failures();
    CHECK(pack() == LUA_OK);
    *left = n;
    failing = sender;
    m = mr_packer_seal(packer);
    failing = NULL;
    again = failed && !m;
    no_more_failures();
    if (!m) at_home();
  }
  if (!m) {
    no_more_failures();
    CHECK(pack() == LUA_OK);
    m = mr_packer_seal(packer);
  }
  lua_settop(sender, 0);
  if (kind < 2) run(sender, "assert(not pcall(function() return u.get end) and tostring(u):find 'moved')");
  for (long n = 0, again = 1; again && step == UNPACKING; n++) {
    no_more_failures();
    *left = n;
    int status = unpack(m);
    again = failed && status != LUA_OK;
    no_more_failures();
    CHECK(status == LUA_OK || again);
    if (again) lua_settop(receiver, 0), lua_gc(receiver, LUA_GCCOLLECT);
    CHECK(ended == made - 1);
    if (!again) received();
  }
  if (ending == BACK && step != UNPACKING) {
    mr_message_back(sender, m);
    at_home();
  } else {
    if (ending == RECEIVED && step != UNPACKING) {
      CHECK(unpack(m) == LUA_OK);
      received();
    }
    mr_message_free(m);
    if (kind < 2) run(sender, "assert(tostring(u):find 'moved')");
  }
  close_states();
  CHECK(ended == made && stolen == 0 && lent == 0);
}

static void everything(void) {
  for (size_t kind = 0; kind < 3; kind++)
    for (int step = 0; step < STEPS; step++)
      for (int ending = 0; ending < ENDS; ending++)
        for (once = 0; once < 2; once++) {
          journey(kind, step, ending, &lua_left);
#ifdef OWN_MALLOC
          journey(kind, step, ending, &c_left);
#endif
        }
}

/* A second receiver of one message comes too late; what was shared is the same for both. */
static void twice(void) {
  for (size_t kind = 0; kind < 3; kind++) {
    char code[64];
    snprintf(code, sizeof code, "u = new '%s'", kinds[kind].name);
    open_both();
    run(sender, code);
    CHECK(pack() == LUA_OK);
    mr_message *m = mr_packer_seal(packer);
    CHECK(unpack(m) == LUA_OK);
    received();
    CHECK(unpack(m) == LUA_OK);
    lua_setglobal(receiver, "v");
    lua_settop(receiver, 0);
    run(receiver, kind < 2 ? "assert(v ~= u and tostring(v):find 'moved' and u:get() == 7)" : "assert(v == u)");
    mr_message_free(m);
    close_states();
    CHECK(ended == made && stolen == 0 && lent == 0);
  }
}

int main(void) {
  mr_cargo_find = find;
  everything();
  twice();
  if (mr_layout) {
    mr_layout = 0;
    everything();
    twice();
  }
  return finish();
}
