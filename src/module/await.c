/* await: see await.h. The request's reference is in a userdata, so that no error on the way can lose it. */
#include "module/await.h"
#include "port/errors.h"

#include <string.h>

static char meta_key;

void mr_hold_drop(mr_hold *h) {
  mr_request *r = h->request;
  h->request = NULL;
  if (r) mr_request_drop(r);
}

static int l_gc(lua_State *L) {
  if (!mr_forked()) mr_hold_drop(lua_touserdata(L, 1));
  return 0;
}

mr_hold *mr_hold_push(lua_State *L) {
  mr_check_forked(L);
  mr_proc *p = mr_self(L);
  if (p->finalisers == 0) p->finalisers = 1;
  mr_hold *h = lua_newuserdatauv(L, sizeof *h, 0);
  h->request = NULL;
  h->late = NULL;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, l_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
  }
  lua_setmetatable(L, -2);
  return h;
}

static int ended(lua_State *L, mr_hold *h) {
  int n = h->finish(L, h->request);
  mr_hold_drop(h);
  return n;
}

static int too_late(lua_State *L, mr_hold *h) {
  int n = mr_fail_timeout(L);
  if (h->late) n += h->late(L, h->request);
  mr_hold_drop(h);
  return n;
}

static int await_k(lua_State *L, int status, lua_KContext idx) {
  mr_fiber *f = mr_self_fiber(L);
  mr_hold *h = lua_touserdata(L, (int)idx);
  mr_reason why = mr_wake(f);
  (void)status;
  if (PORT_LIKELY(why == MR_WOKEN)) return ended(L, h);
  mr_event_unwait(&h->request->done, &f->wait);
  if (why == MR_TIMEOUT) return too_late(L, h);
  mr_hold_drop(h);
  mr_raise_reason(L, f, why);
  return mr_fail_timeout(L);
}

int mr_await(lua_State *L, int idx, int pool, uint64_t deadline, const char *op) {
  mr_fiber *f = mr_self_fiber(L);
  mr_hold *h = lua_touserdata(L, idx);
  idx = lua_absindex(L, idx);
  if (deadline == 0) return too_late(L, h);
  int err = mr_wait_open(f, L);
  if (err) return mr_raise(L, err);
  mr_request_submit(h->request, pool);
  if (mr_event_wait(&h->request->done, &f->wait)) {
    mr_wait_abandon(f);
    return ended(L, h);
  }
  f->op = op;
  return mr_park(L, f, deadline, (lua_KContext)idx, await_k);
}

int mr_fail_timeout(lua_State *L) {
  lua_pushnil(L);
  lua_pushliteral(L, "timeout");
  lua_pushliteral(L, "ETIMEDOUT");
  return 3;
}

int mr_fail_path(lua_State *L, const char *what, int err) {
  char buf[128];
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", what, port_error_text(err, buf, sizeof buf));
  lua_pushstring(L, port_error_name(err));
  return 3;
}

const char *mr_check_name(lua_State *L, int idx) {
  size_t len;
  const char *s = luaL_checklstring(L, idx, &len);
  luaL_argcheck(L, strlen(s) == len, idx, "a name without zero bytes expected");
  return s;
}
