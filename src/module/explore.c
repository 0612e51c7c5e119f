/*
 * explore: see explore.h. Running copies (port/copies.h), and functions by which the search in lua/mare/cli/explore.lua asks for them.
 *
 * A *slot* has a server of copies and a schedule in shared memory: what the next copy is to do, and what the last one did.
 */
#include "module/explore.h"
#include "base/embedded.h"
#include "module/module.h"
#include "port/copies.h"
#include "port/system.h"
#include "port/virtual.h"
#include "process/info.h"
#include "run/replay.h"
#include "state/chunk.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 18, SLOTS = 16, PLACES = 32, STANDS = 1 << 17 };

/* `stands`: where all was when the run was asked by SIGQUIT; once `told`. */
typedef struct slot {
  mr_schedule s;
  int deadlock;
  int (*run)(void);
  char where[PLACES][REPLAY_PLACE];
  mr_replay_log log;
  atomic_int told;
  char stands[STANDS];
} slot;

static slot *slots[SLOTS];
static port_copies servers[SLOTS];
static int nslots;

static slot *slot_new(void) {
  size_t list = ROOM * sizeof(mr_deviation);
  slot *s = port_shared_new(sizeof *s + 2 * list);
  if (!s) return NULL;
  s->s.list = (mr_deviation *)(void *)(s + 1);
  s->s.record = s->s.list + ROOM;
  s->s.most = ROOM;
  s->s.where = s->where;
  return s;
}

const char *mr_replay_open(const char *schedule) {
  slot *s = slot_new();
  if (!s) return "not enough memory";
  const char *err = mr_replay_parse(&s->s, schedule, ROOM);
  if (err) return err;
  s->s.most = 0;
  mr_replay_begin(&s->s);
  return NULL;
}

static slot *own;                      /* in a copy */

/* In a copy of the copy. */
static void tell(const char *text) {
  snprintf(own->stands, sizeof own->stands, "%s", text ? text : mr_err_text(MR_ENOMEM));
  atomic_store(&own->told, 1);
}

/* In a copy. */
static void begin(void *arg) {
  slot *s = own = arg;
  s->deadlock = 0;
  atomic_store(&s->told, 0);
  mr_dump_told = tell;
  mr_replay_begin(&s->s);
  int code = s->run();
  s->deadlock = code == EXPLORE_DEADLOCK;
  mr_exit(s->deadlock ? EXIT_FAILURE : code);
}

static int check_slot(lua_State *L) {
  lua_Integer i = luaL_checkinteger(L, 1);
  luaL_argcheck(L, i >= 1 && i <= nslots, 1, "no such slot");
  return (int)i - 1;
}

/* run(slot, schedule, keep): with its output kept, or not */
static int l_run(lua_State *L) {
  int i = check_slot(L);
  const char *err = mr_replay_parse(&slots[i]->s, luaL_checkstring(L, 2), ROOM);
  if (err) return luaL_argerror(L, 2, err);
  slots[i]->s.places = lua_toboolean(L, 3) ? PLACES : 0;
  slots[i]->s.log = lua_toboolean(L, 3) ? &slots[i]->log : NULL;
  if (port_copies_run(&servers[i], lua_toboolean(L, 3)) != 0) return luaL_error(L, "a child process is gone");
  return 0;
}

/* wait(milliseconds) -> nil | slot, "exit" | "deadlock" | "signal", its code or number */
static int l_wait(lua_State *L) {
  port_copy_end end;
  int i = port_copies_wait(servers, nslots, (int)luaL_checkinteger(L, 1), &end);
  if (i == -2) return luaL_error(L, "a child process is gone");
  if (i < 0) return 0;
  lua_pushinteger(L, i + 1);
  lua_pushstring(L, end.signal ? "signal" : slots[i]->deadlock ? "deadlock" : "exit");
  lua_pushinteger(L, end.signal ? end.signal : end.code);
  return 3;
}

static int l_kill(lua_State *L) {
  port_copies_kill(&servers[check_slot(L)]);
  return 0;
}

/* ask(slot): where does all of its run stand? */
static int l_ask(lua_State *L) {
  int i = check_slot(L);
  atomic_store(&slots[i]->told, 0);
  port_copies_quit(&servers[i]);
  return 0;
}

/* stands(slot) -> the answer; nil: there is none yet */
static int l_stands(lua_State *L) {
  const slot *s = slots[check_slot(L)];
  if (!atomic_load(&s->told)) return 0;
  lua_pushstring(L, s->stands);
  return 1;
}

static atomic_int asked;               /* SIGQUIT has come */
static void quit(void) { atomic_store(&asked, 1); }

/* asked() -> was there a SIGQUIT since? */
static int l_asked(lua_State *L) {
  lua_pushboolean(L, atomic_exchange(&asked, 0));
  return 1;
}

/* cpu(slot) -> seconds that its run has computed */
static int l_cpu(lua_State *L) {
  lua_pushnumber(L, (lua_Number)port_copies_cpu(&servers[check_slot(L)]) * 1e-9);
  return 1;
}

/* record(slot) -> the deviations of its last run, as texts; how many points there were. nil, points: there were too many */
static int l_record(lua_State *L) {
  const mr_schedule *s = &slots[check_slot(L)]->s;
  char text[64];
  if (s->made > s->most) {
    lua_pushnil(L);
  } else {
    lua_createtable(L, (int)s->made, 0);
    for (uint32_t i = 0; i < s->made; i++) {
      mr_replay_text(&s->record[i], text);
      lua_pushstring(L, text);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
  }
  lua_pushinteger(L, s->points);
  return 2;
}

/* places(slot) -> where the first of its last run's deviations were made: "receive at file:line", "" for unknown; only if its output was kept */
static int l_places(lua_State *L) {
  const slot *s = slots[check_slot(L)];
  uint32_t n = s->s.made < s->s.places ? s->s.made : s->s.places;
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; i++) {
    lua_pushstring(L, s->where[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static void set_text(lua_State *L, const char *field, const char *text) {
  if (!*text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
}

static void set_flag(lua_State *L, const char *field, int yes) {
  if (!yes) return;
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, field);
}

/* events(slot) -> what happened in its last run, if its output was kept: a table, with gaps where there was no room; how many there were */
static int l_events(lua_State *L) {
  const slot *s = slots[check_slot(L)];
  uint64_t n = s->log.n;
  char choice[64] = "";
  lua_newtable(L);
  for (uint64_t i = 0; i < n; i++) {
    if (i == REPLAY_EVENTS && n > 2 * REPLAY_EVENTS) i = n - REPLAY_EVENTS;
    const mr_replay_event *e = i < REPLAY_EVENTS ? &s->log.first[i] : &s->log.last[i % REPLAY_EVENTS];
    lua_createtable(L, 0, 8);
    lua_pushinteger(L, (lua_Integer)i + 1);
    lua_setfield(L, -2, "number");
    lua_pushinteger(L, (lua_Integer)e->unit);
    lua_setfield(L, -2, "process");
    set_text(L, "who", e->who);
    set_text(L, "does", e->does);
    set_text(L, "at", e->at);
    set_flag(L, "switch", e->switched && i > 0);
    set_flag(L, "waits", e->waits);
    choice[0] = 0;
    if (e->choice && e->choice <= s->s.made && e->choice <= s->s.most) mr_replay_text(&s->s.record[e->choice - 1], choice);
    set_text(L, "choice", choice);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_pushinteger(L, (lua_Integer)n);
  return 2;
}

/* output(slot) -> what its last run has written, to stdout and stderr */
static int l_output(lua_State *L) {
  size_t len;
  char *text = port_copies_output(&servers[check_slot(L)], &len);
  if (!text) return luaL_error(L, "not enough memory");
  lua_pushlstring(L, text, len);
  free(text);
  return 1;
}

static int l_now(lua_State *L) {
  lua_pushnumber(L, (lua_Number)port_now() * 1e-9);
  return 1;
}

static int l_terminal(lua_State *L) {
  lua_pushboolean(L, port_file_is_terminal(strcmp(luaL_checkstring(L, 1), "out") == 0 ? stdout : stderr));
  return 1;
}

static void load(lua_State *S, const char *name) {
  const struct mr_embedded *e = mr_embedded_find(name);
  if (!e || mr_chunk_text(S, e->file, (const char *)e->code, e->size) != LUA_OK) lua_error(S);
}

/* module(name) -> what one of mare's own modules, that needs no other in Lua, returns */
static int l_module(lua_State *L) {
  load(L, luaL_checkstring(L, 1));
  lua_call(L, 0, 1);
  return 1;
}

static const luaL_Reg functions[] = {
  { "run", l_run }, { "wait", l_wait }, { "kill", l_kill }, { "ask", l_ask }, { "stands", l_stands }, { "asked", l_asked }, { "cpu", l_cpu }, { "record", l_record }, { "places", l_places }, { "events", l_events }, { "output", l_output },
  { "now", l_now }, { "module", l_module }, { "terminal", l_terminal }, { NULL, NULL }
};

/* The value at idx of L - of strings, numbers, booleans, and tables of these -, into S. */
static void copy(lua_State *S, lua_State *L, int idx) {
  idx = lua_absindex(L, idx);
  luaL_checkstack(S, 8, NULL);
  if (lua_isinteger(L, idx)) lua_pushinteger(S, lua_tointeger(L, idx));
  else if (lua_type(L, idx) == LUA_TNUMBER) lua_pushnumber(S, lua_tonumber(L, idx));
  else if (lua_type(L, idx) == LUA_TSTRING) lua_pushstring(S, lua_tostring(L, idx));
  else if (!lua_istable(L, idx)) lua_pushboolean(S, lua_toboolean(L, idx));
  if (!lua_istable(L, idx)) return;
  lua_newtable(S);
  for (lua_pushnil(L); lua_next(L, idx); lua_pop(L, 1)) {
    copy(S, L, -2);
    copy(S, L, -1);
    lua_rawset(S, -3);
  }
}

/* lightuserdata L, whose top are the options -> exit code */
static int search(lua_State *S) {
  lua_State *L = lua_touserdata(S, 1);
  luaL_openlibs(S);
  luaL_requiref(S, "mare.json.core", luaopen_mare_json_core, 0);
  lua_pop(S, 1);
  load(S, "mare.cli.explore");
  luaL_newlib(S, functions);
  lua_pushinteger(S, nslots);
  lua_setfield(S, -2, "slots");
  copy(S, L, -1);
  lua_call(S, 2, 1);
  return 1;
}

static int fails(const char *why) {
  fprintf(stderr, "mare: %s\n", why);
  return EXIT_FAILURE;
}

int mr_explore(lua_State *L, int options, int (*run)(void)) {
  lua_getfield(L, options, "jobs");
  lua_Integer jobs = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : port_cpus();
  lua_pop(L, 1);
  for (; nslots < SLOTS && nslots < jobs; nslots++) {
    if ((slots[nslots] = slot_new()) == NULL) return fails(mr_err_text(MR_ENOMEM));
    slots[nslots]->run = run;
    if (port_copies_open(&servers[nslots], begin, slots[nslots]) != 0) return fails("can't start child processes");
  }
  port_virtual_end();
  port_signal_quit(quit);
  lua_State *S = luaL_newstate();
  if (!S) return fails(mr_err_text(MR_ENOMEM));
  lua_pushvalue(L, options);
  lua_pushcfunction(S, search);
  lua_pushlightuserdata(S, L);
  int status = lua_pcall(S, 1, 1, 0), code = (int)lua_tointeger(S, -1);
  if (status != LUA_OK) code = fails(lua_tostring(S, -1));
  lua_close(S);
  fflush(stdout);
  return code;
}
