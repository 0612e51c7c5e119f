/* hold: see hold.h. The request's reference is in a userdata, so that no error on the way can lose it. */
#include "module/hold.h"
#include "port/errors.h"

#include <string.h>

void mr_hold_drop(mr_hold *h) {
  mr_request *r = h->request;
  h->request = NULL;
  if (r) mr_request_drop(r);
}

static int l_hold_gc(lua_State *L) {
  mr_hold *h = mr_gc_own(L, sizeof *h, l_hold_gc);
  if (h) mr_hold_drop(h);
  return 0;
}

mr_hold *mr_hold_push(lua_State *L) {
  static const char key;
  mr_check_forked(L);
  mr_proc *p = mr_self(L);
  if (p->finalisers == 0) p->finalisers = 1;
  mr_hold *h = lua_newuserdatauv(L, sizeof *h, 0);
  *h = (mr_hold){ .request = NULL };
  mr_meta_set(L, &key, "__gc", l_hold_gc);
  return h;
}

static int hold_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_hold *h = o;
  (void)w;
  if (why != MR_WOKEN && !(h->submitted && mr_event_is_set(&h->request->done))) return -1;
  int n = h->finish(L, h->request);
  mr_hold_drop(h);
  return n;
}

/* Not earlier: opening the wait may refuse, and then nothing has happened. */
static int hold_link(void *o, mr_wait *w) {
  mr_hold *h = o;
  if (!h->submitted) mr_request_submit(h->request, h->pool);
  h->submitted = 1;
  mr_fiber_in(w->fiber, h->op);
  return mr_event_wait(&h->request->done, w);
}

static void hold_unlink(void *o, mr_wait *w) { mr_event_unwait(&((mr_hold *)o)->request->done, w); }

static int hold_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_hold *h = o;
  int n = MR_AWAIT_TIMEOUT;
  (void)w;
  if (why == MR_TIMEOUT && h->late) {
    n = mr_timed_out(L);
    lua_pushnil(L);
    n += 1 + h->late(L, h->request);
  }
  mr_hold_drop(h);
  return n;
}

static const mr_waitclass done = { .run = { .link = hold_link, .unlink = hold_unlink }, .take = hold_take, .give_up = hold_give_up };

int mr_hold_await(lua_State *L, int idx, int pool, uint64_t deadline, const char *op) {
  mr_hold *h = lua_touserdata(L, idx);
  h->pool = (unsigned char)pool;
  h->op = op;
  return mr_await(L, mr_self_fiber(L), &done, h, deadline);
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
