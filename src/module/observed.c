/*
 * observed: what the observer can see of the program, and do to it, as functions for lua/mare/observe.
 *
 * They run on the observer's thread, which is no fiber. What is read of processes is what anybody may read at any time; a process that is named by
 * its number is counted while it is looked at.
 */
#include "module/observe.h"
#include "port/self.h"
#include "process/control.h"
#include "process/failures.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

static void set_integer(lua_State *L, const char *name, uint64_t n) {
  lua_pushinteger(L, (lua_Integer)n);
  lua_setfield(L, -2, name);
}

static void set_number(lua_State *L, const char *name, double n) {
  lua_pushnumber(L, n);
  lua_setfield(L, -2, name);
}

static void set_string(lua_State *L, const char *name, const char *s) {
  lua_pushstring(L, s);
  lua_setfield(L, -2, name);
}

/* () -> { mare = version, pid =, started =, command =, workers = } */
static int l_program(lua_State *L) {
  char command[512];
  port_self self;
  size_t n = port_command_of(0, command, sizeof command);
  port_self_get(&self);
  lua_newtable(L);
  set_string(L, "mare", MARE_VERSION);
  set_integer(L, "pid", (uint64_t)port_self_pid());
  set_number(L, "started", self.started);
  lua_pushlstring(L, command, n);
  lua_setfield(L, -2, "command");
  set_integer(L, "workers", (uint64_t)mr_workers_get());
  return 1;
}

/* () -> { cpu = seconds, resident =, virtual =, descriptors =, most_descriptors =, clock = seconds } */
static int l_resources(lua_State *L) {
  port_self self;
  port_self_get(&self);
  lua_newtable(L);
  set_number(L, "cpu", (double)port_own_cpu() * 1e-9);
  set_integer(L, "resident", self.resident);
  set_integer(L, "virtual", self.virtual_);
  set_integer(L, "descriptors", self.descriptors);
  if (self.most_descriptors) set_integer(L, "most_descriptors", self.most_descriptors);
  set_number(L, "clock", (double)port_now() * 1e-9);
  return 1;
}

/* ---- a list ---- */

typedef struct row { uint64_t id; char name[64]; const char *status; } row;
typedef struct rows { row *at; size_t n, room; } rows;

static void collect(mr_proc *p, void *ud) {
  rows *all = ud;
  if (all->n == all->room) return;
  row *r = &all->at[all->n++];
  r->id = p->job.id;
  strncpy(r->name, p->name ? p->name : "", sizeof r->name - 1);
  r->name[sizeof r->name - 1] = 0;
  r->status = mr_proc_status(p);
}

static int by_id(const void *a, const void *b) {
  uint64_t x = ((const row *)a)->id, y = ((const row *)b)->id;
  return (x > y) - (x < y);
}

/* (key, n) -> { processes = { … }, count = } */
static int l_list(lua_State *L) {
  size_t most = (size_t)luaL_checkinteger(L, 2);
  rows all = { NULL, 0, mr_proc_count() + 100 };
  all.at = lua_newuserdatauv(L, all.room * sizeof(row), 0);
  mr_proc_each(collect, &all);
  qsort(all.at, all.n, sizeof(row), by_id);
  lua_newtable(L);
  lua_createtable(L, (int)(all.n < most ? all.n : most), 0);
  for (size_t i = 0; i < all.n && i < most; i++) {
    lua_newtable(L);
    set_integer(L, "id", all.at[i].id);
    if (all.at[i].name[0]) set_string(L, "name", all.at[i].name);
    set_string(L, "status", all.at[i].status);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "processes");
  lua_newtable(L);
  lua_setfield(L, -2, "states");
  set_integer(L, "count", all.n);
  return 1;
}

/* () -> a table */
static int l_totals(lua_State *L) {
  lua_newtable(L);
  set_integer(L, "failures", (uint64_t)atomic_load(&mr_failures));
  lua_newtable(L);
  lua_setfield(L, -2, "workers");
  lua_newtable(L);
  lua_setfield(L, -2, "processes");
  return 1;
}

/* ---- one process ---- */

static mr_proc *process_at(lua_State *L, int idx) { return mr_proc_find((uint64_t)luaL_checkinteger(L, idx)); }

static int l_info(lua_State *L) {
  mr_proc *p = process_at(L, 1);
  if (!p) return 0;
  mr_release(&p->shared);
  return 0;
}

static int l_traceback(lua_State *L) {
  (void)L;
  return 0;
}

/* ---- to end one ---- */

/* What its error's `reason` says. NULL: there is no memory, and it is ended without. */
static mr_why *reason(lua_State *L) {
  mr_packer *packer = mr_packer_new();
  mr_why *why = packer ? mr_why_new(WHY_CANCELLED) : NULL;
  lua_pushliteral(L, "mare top");
  if (why && mr_pack(packer, L, lua_gettop(L), 1, "reason") == 0) why->reason.u.m = mr_packer_seal(packer);
  if (why && why->reason.u.m) {
    why->reason.kind = MAIL_MESSAGE;
    why->reason.n = 1;
  }
  if (packer) mr_packer_free(packer);
  return why;
}

/* Who becomes ready by this is in nobody's hands for a moment: see run/run.h. */
static int end(mr_proc *p, mr_why *why, int kill) {
  mr_moving();
  int lived = kill ? mr_kill(p, NULL) : mr_cancel(p, why, NULL);
  mr_settled();
  return lived;
}

/* id -> true | nil, why not | nil (there is none) */
static int end_at(lua_State *L, int kill) {
  mr_proc *p = process_at(L, 1);
  if (!p) return 0;
  mr_why *why = kill ? NULL : reason(L);
  if (why && !mr_control_ready(p)) {
    mr_why_free(why);
    why = NULL;
  }
  int lived = end(p, why, kill);
  mr_release(&p->shared);
  if (lived) lua_pushboolean(L, 1);
  else lua_pushnil(L), lua_pushliteral(L, "it has ended already");
  return lived ? 1 : 2;
}

static int l_cancel(lua_State *L) { return end_at(L, 0); }
static int l_kill(lua_State *L) { return end_at(L, 1); }

/* ---- failures ---- */

/* (n) -> { { when = seconds since 1970, text = }, … }, the newest first */
static int l_failures(lua_State *L) {
  lua_Integer most = luaL_checkinteger(L, 1);
  mr_failure f;
  lua_newtable(L);
  for (lua_Integer i = 0; i < most && mr_failure_last((unsigned)i, &f); i++) {
    lua_newtable(L);
    set_number(L, "when", f.when);
    set_string(L, "text", f.text);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int l_channels(lua_State *L) {
  lua_newtable(L);
  return 1;
}

int mr_observed_open(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "program", l_program }, { "resources", l_resources }, { "list", l_list }, { "totals", l_totals }, { "info", l_info },
    { "traceback", l_traceback }, { "cancel", l_cancel }, { "kill", l_kill }, { "failures", l_failures }, { "channels", l_channels }, { NULL, NULL }
  };
  luaL_newlib(L, functions);
  return 1;
}
