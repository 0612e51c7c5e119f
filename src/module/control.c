/*
 * control: the part of mare.process about ends: who ends whom, until when, and what runs then. See process/control.h and process/limit.h.
 */
#include "base/show.h"
#include "module/control.h"
#include "process/control.h"
#include "process/limit.h"
#include "channel/channel.h"

#include <stdio.h>
#include <string.h>

/* Keys of the registry. */
static const char exits_key, limit_key;

static mr_proc *process_check(lua_State *L, int idx) { return (mr_proc *)mr_shared_check(L, idx, mr_proc_type, "process"); }

/* ---- cancel, kill ---- */

static void refuse_host(lua_State *L, const mr_proc *p, const char *verb) {
  if (p->job.host) luaL_error(L, "the main script can't be %s by mare; it runs on a thread that is not mare's", verb);
}

/* The value at 2, so that the process can have it when this one is gone. NULL: there is none. */
static mr_why *reason_at(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  mr_packer *packer = mr_packer_for(L, f);
  mr_scalar s;
  if (lua_isnoneornil(L, 2)) return NULL;
  int small = mr_scalar_get(L, 2, &s);
  if (!small && mr_pack(packer, L, 2, 1, "reason") != 0) lua_error(L);
  mr_why *why = mr_why_new(WHY_CANCELLED);
  mr_message *m = why && !small ? mr_packer_seal(packer) : NULL;
  if (!why || (!small && !m)) {
    mr_why_free(why);
    mr_raise(L, MR_ENOMEM);
  }
  why->reason.kind = small ? MAIL_SCALARS : MAIL_MESSAGE;
  why->reason.n = 1;
  if (small) why->reason.u.s[0] = s;
  else why->reason.u.m = m;
  return why;
}

/* Who has asked itself to end gets the error here. */
static int asked(lua_State *L, mr_proc *p, int lives) {
  if (p == mr_self(L) && lives && mr_lua_due(mr_lua_of(mr_self_fiber(L)))) return mr_raise(L, MR_EENDED);
  lua_pushboolean(L, lives);
  return 1;
}

/* handle:cancel([reason]) -> boolean (it had not ended) */
int mr_process_cancel(lua_State *L) {
  mr_proc *p = process_check(L, 1);
  refuse_host(L, p, "cancelled");
  mr_why *why = reason_at(L);
  if (why && !mr_control_ready(p)) {
    mr_why_free(why);
    return mr_raise(L, MR_ENOMEM);
  }
  return asked(L, p, mr_cancel(p, why, p == mr_self(L) ? NULL : mr_self_fiber(L)));
}

/* handle:kill() -> boolean (it had not ended) */
int mr_process_kill(lua_State *L) {
  mr_proc *p = process_check(L, 1);
  refuse_host(L, p, "killed");
  return asked(L, p, mr_kill(p, p == mr_self(L) ? NULL : mr_self_fiber(L)));
}

/* ---- links, owners ---- */

static void check_trap(lua_State *L) {
  mr_proc *self = mr_self(L);
  if (self->job.host && !mr_trapping(self))
    luaL_error(L, "the main script can't be ended through a link; call process.trap() first, which tells of ends instead");
}

unsigned mr_ties_field(lua_State *L, int idx) {
  int linked = mr_boolean_field(L, idx, "spawn", "linked", 0), owned = mr_boolean_field(L, idx, "spawn", "owned", 0);
  if (linked) check_trap(L);
  return (linked ? TIE_LINKED : 0u) | (owned ? TIE_OWNED : 0u);
}

/* handle:link() -> handle */
int mr_process_link(lua_State *L) {
  mr_proc *p = process_check(L, 1), *self = mr_self(L);
  if (p == self) return luaL_error(L, "a process can't be linked to itself");
  check_trap(L);
  int err = mr_tie(self, p, TIE_LINKED);
  if (err == MR_ECLOSED) mr_tell_over(self, p, mr_self_fiber(L));
  else if (err) return mr_raise(L, err);
  if (mr_lua_due(mr_lua_of(mr_self_fiber(L)))) return mr_raise(L, MR_EENDED);
  lua_settop(L, 1);
  return 1;
}

/* handle:unlink() -> boolean (they were linked) */
int mr_process_unlink(lua_State *L) {
  lua_pushboolean(L, mr_untie(mr_self(L), process_check(L, 1), TIE_LINKED));
  return 1;
}

/* handle:give(other): the process, which the caller owns, belongs to the other from now on */
int mr_process_give(lua_State *L) {
  mr_proc *p = process_check(L, 1), *to = process_check(L, 2);
  if (p == to) return luaL_error(L, "a process can't own itself");
  switch (mr_give(mr_self(L), p, to)) {
    case MR_OK: break;
    case MR_EOWNED: return luaL_error(L, "only its owner can give a process away (spawn{ owned = true })");
    case MR_ECLOSED: return luaL_error(L, "the new owner has ended");
    default: return mr_raise(L, MR_ENOMEM);
  }
  lua_settop(L, 1);
  return 1;
}

/* handle:owner() -> handle | nil | nil, "ended" */
int mr_process_owner(lua_State *L) {
  mr_proc *p = process_check(L, 1), *owner = mr_owner(p);
  if (owner) return mr_shared_push_new(L, &owner->shared), 1;
  lua_pushnil(L);
  if (!mr_orphaned(p)) return 1;
  lua_pushliteral(L, "ended");
  return 2;
}

/* process.trap() -> channel on which the handles of linked processes arrive when they have ended */
int mr_process_trap(lua_State *L) {
  mr_channel *c = mr_channel_new(MR_UNBOUNDED);
  mr_shared *now;
  if (!c) return mr_raise(L, MR_ENOMEM);
  if (mr_trap(mr_self(L), (mr_shared *)c, &now) != MR_OK) return mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, now);
  return 1;
}

static int post(mr_shared *channel, mr_message *m, mr_fiber *near) {
  mr_mail mail = { .kind = MAIL_MESSAGE, .u.m = m };
  mr_wait *peer;
  switch (mr_channel_put((mr_channel *)channel, &mail, NULL, &peer)) {
    case CH_PEER:
      *peer->mail = mail;
      mr_ready(peer->fiber, MR_WOKEN, near);
      return MR_OK;
    case CH_DONE: return MR_OK;
    case CH_CLOSED:
      mr_message_free(m);
      return MR_OK;
    default:
      mr_message_free(m);
      return MR_ENOMEM;
  }
}

/* ---- limits ---- */

static int l_leave(lua_State *L) {
  mr_limit *l = lua_rawlen(L, 1) == sizeof *l && lua_getmetatable(L, 1) && lua_rawgetp(L, LUA_REGISTRYINDEX, &limit_key) == LUA_TTABLE &&
                lua_rawequal(L, -1, -2) ? lua_touserdata(L, 1) : NULL;
  if (l) mr_limit_leave(l);
  return 0;
}

static mr_limit *limit_push(lua_State *L) {
  static const luaL_Reg meta[] = { { "__close", l_leave }, { "__gc", l_leave }, { NULL, NULL } };
  mr_limit *l = lua_newuserdatauv(L, sizeof *l, 0);
  memset(l, 0, sizeof *l);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &limit_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    luaL_newlib(L, meta);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &limit_key);
  }
  lua_setmetatable(L, -2);
  return l;
}

static int inside_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  (void)ctx;
  return lua_gettop(L) - 1;
}

/* Calls the function at 1 with the arguments behind it, inside a limit that ends with the call, however that ends. */
static int inside(lua_State *L, uint64_t until, uint64_t grace) {
  luaL_checkstack(L, 4, NULL);
  mr_limit *l = limit_push(L);
  l->until = until;
  l->grace = grace;
  lua_insert(L, 1);
  lua_toclose(L, 1);
  mr_limit_enter(l, mr_lua_of(mr_self_fiber(L)), L);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, inside_k);
  return inside_k(L, LUA_OK, 0);
}

static uint64_t nanoseconds(lua_State *L, int idx) {
  lua_Number s = luaL_checknumber(L, idx);
  luaL_argcheck(L, s == s, idx, "a number of seconds expected, got nan");
  return s <= 0 ? 0 : s >= 1e9 ? UINT64_MAX - 1 : (uint64_t)(s * 1e9);
}

/* process.masked([seconds,] f, …) -> results of f */
int mr_process_masked(lua_State *L) {
  uint64_t grace = MR_GRACE;
  if (lua_type(L, 1) == LUA_TNUMBER) {
    grace = nanoseconds(L, 1);
    lua_remove(L, 1);
  }
  if (lua_type(L, 1) != LUA_TFUNCTION) return luaL_error(L, "bad argument to 'masked': a function, or seconds and a function expected, got %s", luaL_typename(L, 1));
  return inside(L, UINT64_MAX, grace);
}

/* process.deadline(seconds, f, …) -> results of f */
int mr_process_deadline(lua_State *L) {
  uint64_t ns = nanoseconds(L, 1), now = port_now();
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_remove(L, 1);
  return inside(L, ns > UINT64_MAX - 1 - now ? UINT64_MAX - 1 : now + ns, 0);
}

/* process.remaining() -> seconds until the earliest deadline in force, or nil */
int mr_process_remaining(lua_State *L) {
  uint64_t due = mr_limit_deadline(mr_lua_of(mr_self_fiber(L))), now = port_now();
  if (due >= UINT64_MAX - 1) lua_pushnil(L);
  else lua_pushnumber(L, due > now ? (lua_Number)(due - now) * 1e-9 : 0);
  return 1;
}

/* ---- functions for the end ---- */

/* process.on_exit(f) */
int mr_process_on_exit(lua_State *L) {
  mr_proc *p = mr_self(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  if (p->job.host) return luaL_error(L, "on_exit is for processes; in the main script use a to-be-closed variable");
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &exits_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &exits_key);
  }
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  if (!p->exits) p->exits = 1;
  return 0;
}

static void print_error(lua_State *L, const mr_proc *p) {
  const char *text = luaL_tolstring(L, -1, NULL);
  char name[128], number[24];
  snprintf(number, sizeof number, "%llu", (unsigned long long)p->job.id);
  mr_proc_says(p, lua_pushfstring(L, "mare: process #%s%s%s%s: a function given to on_exit failed: %s\n", number, p->name ? " '" : "",
                                  p->name ? mr_show(name, sizeof name, p->name) : "", p->name ? "'" : "", text));
  lua_pop(L, 2);
}

static int killed(const mr_proc *p) { return mr_job_ends(&p->job) == JOB_KILLED; }

/* process: the last function that was given comes first; one may give others. */
static int l_exits(lua_State *L) {
  mr_proc *p = lua_touserdata(L, 1);
  lua_Unsigned n;
  luaL_checkstack(L, 10, NULL);
  while (!killed(p) && lua_rawgetp(L, LUA_REGISTRYINDEX, &exits_key) == LUA_TTABLE && (n = lua_rawlen(L, -1)) > 0) {
    int top = lua_gettop(L), values = 1;
    lua_rawgeti(L, top, (lua_Integer)n);
    lua_pushnil(L);
    lua_rawseti(L, top, (lua_Integer)n);
    lua_pushboolean(L, p->end == PROC_DONE);
    if (p->end != PROC_DONE) mr_process_error_push(L, p), values = 2;
    if (lua_pcall(L, values, 0, 0) != LUA_OK && !killed(p)) print_error(L, p);
    lua_settop(L, 1);
  }
  return 0;
}

/* It has a grace time for its waits, which nothing that ends it shortens. */
static void run_exits(mr_proc *p) {
  lua_State *L = p->main.L;
  mr_limit mask = { .until = UINT64_MAX, .grace = MR_GRACE }, least = { .until = port_now() + MR_GRACE };
  if (!L || !lua_checkstack(L, 4)) return;
  p->bounds.noticed = 0;
  p->exits = 2;
  atomic_store(&p->main.fiber.state, FIBER_RUNNING);
  mr_limit_enter(&mask, &p->main, L);
  mr_limit_enter(&least, &p->main, L);
  lua_pushcfunction(L, l_exits);
  lua_pushlightuserdata(L, p);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    if (!killed(p)) print_error(L, p);
    lua_pop(L, 1);
  }
  mr_limit_leave(&least);
  mr_limit_leave(&mask);
}

void mr_control_hooks(void) {
  mr_hooks.exits = run_exits;
  mr_hooks.post = post;
}
