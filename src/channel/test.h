/*
 * test: fibers for the tests of channels, without Lua: each is a host's, on a thread of the test, which sleeps where a process would park. Sending
 * and receiving do with numbers what module/exchange.c does with values.
 */
#ifndef CHANNEL_TEST_H
#define CHANNEL_TEST_H

#include "channel/parts.h"
#include "port/test.h"

typedef struct actor { mr_proc proc; mr_thread thread; } actor;

static const mr_sharetype test_type = { .name = "channel", .destroy = mr_channel_destroy };

static inline mr_fiber *actor_init(actor *a) {
  memset(a, 0, sizeof *a);
  a->proc.kind = PROC_HOST;
  atomic_store(&a->proc.status, PROC_ALIVE);
  mr_job_init(&a->proc.job, &a->proc.main.fiber, 1, 1);
  a->proc.main.fiber.thread = &a->thread;
  return &a->proc.main.fiber;
}

static inline mr_mail number(lua_Integer n) {
  mr_mail m = { .kind = MAIL_SCALARS, .n = 1 };
  m.u.s[0].type = 0x10 | LUA_TNUMBER;
  m.u.s[0].u.i = n;
  return m;
}

static inline lua_Integer number_of(const mr_mail *m) {
  CHECK(m->kind == MAIL_SCALARS && m->n == 1 && m->u.s[0].type == (0x10 | LUA_TNUMBER));
  return m->u.s[0].u.i;
}

static inline int goes_on(lua_State *L, int status, lua_KContext ctx) { return (void)L, (void)status, (void)ctx, 0; }

/* Sleeps until the open wait ends. */
static inline mr_reason test_park(mr_fiber *f, uint64_t deadline) {
  mr_park(NULL, f, deadline, 0, goes_on);
  return mr_wake(f);
}

typedef enum { DONE, CLOSED, LATE } outcome;

/* deadline 0: without waiting. */
static inline outcome test_send(mr_fiber *f, mr_channel *c, lua_Integer n, uint64_t deadline) {
  mr_mail m = number(n);
  int open = 0;
  for (;;) {
    mr_wait *peer;
    mr_step s = mr_channel_put(c, &m, open ? &f->wait : NULL, &peer);
    if (s == CH_WAIT) {
      mr_reason why = test_park(f, deadline);
      open = 0;
      if (why == MR_WOKEN) return DONE;
      mr_channel_unwait(c, &f->wait);
      if (why != MR_AGAIN) return why == MR_CLOSED ? CLOSED : LATE;
      continue;
    }
    if (open) mr_wait_abandon(f);
    if (s == CH_PEER) {
      *peer->mail = m;
      mr_ready(peer->fiber, MR_WOKEN, NULL);
      return DONE;
    }
    if (s == CH_DONE || s == CH_CLOSED) return s == CH_DONE ? DONE : CLOSED;
    CHECK(s == CH_BLOCKED && !open);
    if (deadline == 0) return LATE;
    CHECK(mr_wait_open(f, NULL) == MR_OK);
    open = 1;
  }
}

static inline outcome test_receive(mr_fiber *f, mr_channel *c, lua_Integer *n, uint64_t deadline) {
  int open = 0;
  for (;;) {
    mr_mail m;
    mr_wait *peer = NULL;
    mr_step s = mr_channel_take(c, &m, open ? &f->wait : NULL, &peer);
    if (s == CH_WAIT) {
      mr_reason why = test_park(f, deadline);
      open = 0;
      if (why == MR_WOKEN) return *n = number_of(&mr_lua_of(f)->mail), DONE;
      mr_channel_unwait(c, &f->wait);
      if (why != MR_AGAIN) return why == MR_CLOSED ? CLOSED : LATE;
      continue;
    }
    if (open) mr_wait_abandon(f);
    if (s == CH_PEER) m = *peer->mail;
    if (s == CH_PEER) peer->mail->kind = MAIL_NONE;
    if (s == CH_PEER || s == CH_DONE) {
      if (peer) mr_ready(peer->fiber, peer->mail->kind == MAIL_NONE ? MR_WOKEN : MR_AGAIN, NULL);
      return *n = number_of(&m), DONE;
    }
    if (s == CH_CLOSED) return CLOSED;
    CHECK(s == CH_BLOCKED && !open);
    if (deadline == 0) return LATE;
    CHECK(mr_wait_open(f, NULL) == MR_OK);
    open = 1;
  }
}

static inline mr_channel *test_channel(size_t capacity) {
  mr_channel_type = &test_type;
  mr_channel *c = mr_channel_new(capacity);
  CHECK(c != NULL);
  return c;
}

#endif
