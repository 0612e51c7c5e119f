/* limit: see limit.h. */
#include "process/limit.h"
#include "process/strand.h"

/* Not in mr_lua, of which every hand-over touches each line. */
static mr_bounds *bounds(mr_lua *l) {
  mr_fiber *f = &l->fiber;
  return f == f->job->first ? &mr_proc_of(f)->bounds : &mr_strand_at(f)->bounds;
}

void mr_limit_enter(mr_limit *l, mr_lua *of, lua_State *on) {
  mr_bounds *b = bounds(of);
  l->of = of;
  l->on = on;
  l->inner = NULL;
  l->outer = b->limits;
  if (l->outer) l->outer->inner = l;
  b->limits = l;
  of->fiber.bounded = 1;
}

void mr_limit_leave(mr_limit *l) {
  if (!l->of) return;
  mr_fiber *f = &l->of->fiber;
  if (l->inner) l->inner->outer = l->outer;
  else bounds(l->of)->limits = l->outer;
  if (l->outer) l->outer->inner = l->inner;
  else if (!l->inner) f->bounded = 0;
  l->of = NULL;
}

void mr_limits_forget(mr_lua *l) {
  mr_bounds *b = bounds(l);
  while (b->limits) {
    mr_limit *m = b->limits;
    b->limits = m->outer;
    m->of = NULL;
  }
  l->fiber.bounded = 0;
}

/* The coroutines that wait, or resume one that does, are not suspended for Lua while their fiber runs. */
static int in_force(const mr_limit *l) { return lua_status(l->on) == LUA_OK; }

static uint64_t later(uint64_t t, uint64_t by) { return t > UINT64_MAX - by ? UINT64_MAX : t + by; }

/* What lies outside a mask reaches the inside later, by the longest grace of the masks between. */
static uint64_t until_when(mr_lua *l, int *is_masked) {
  uint64_t until = UINT64_MAX, grace = 0;
  int masked = 0;
  for (const mr_limit *m = bounds(l)->limits; m; m = m->outer) {
    if (!in_force(m)) continue;
    if (m->until == UINT64_MAX) {
      masked = 1;
      if (m->grace > grace) grace = m->grace;
    } else if (later(m->until, grace) < until) {
      until = later(m->until, grace);
    }
  }
  *is_masked = masked;
  if (!masked || !mr_fiber_ending(&l->fiber)) return until;
  uint64_t end = mr_limit_end(l);
  return end < until ? end : until;
}

uint64_t mr_limit_until(mr_lua *l) {
  int masked;
  return until_when(l, &masked);
}

int mr_limit_open(mr_lua *l) {
  int masked;
  uint64_t until = until_when(l, &masked);
  l->fiber.masked = (unsigned char)masked;
  return until > port_now();
}

uint64_t mr_limit_end(mr_lua *l) {
  uint64_t grace = 0;
  for (const mr_limit *m = bounds(l)->limits; m; m = m->outer)
    if (m->until == UINT64_MAX && m->grace > grace && in_force(m)) grace = m->grace;
  mr_bounds *b = bounds(l);
  if (!b->noticed) b->noticed = port_now();
  return later(b->noticed, grace);
}

int mr_limit_noticed(mr_lua *l) { return bounds(l)->noticed != 0; }

uint64_t mr_limit_deadline(mr_lua *l) {
  uint64_t least = UINT64_MAX;
  for (const mr_limit *m = bounds(l)->limits; m; m = m->outer)
    if (in_force(m) && m->until < least) least = m->until;
  return least;
}
