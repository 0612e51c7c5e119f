/*
 * control: who is tied to whom, and why one ends, while several threads change it and the processes end.
 */
#include "process/test.h"

enum { PROCS = 24, THREADS = 3, STEPS = 3000 / SLOW };

static mr_proc *procs[PROCS];

static unsigned chance(unsigned *seed, unsigned n) {
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 16) % n;
}

/* Processes that wait until they are made to end; the test holds a reference to each until result(). */
static void make_all(const test_host *h) {
  test_setup();
  RUN(h, "p = {} for i = 1, 24 do p[i] = spawn({}, function() local c <close> = setmetatable({}, { __close = closed }) await(0) end) end");
  lua_getglobal(h->L, "p");
  for (int i = 0; i < PROCS; i++) {
    lua_rawgeti(h->L, -1, i + 1);
    procs[i] = lua_touserdata(h->L, -1);
    lua_pop(h->L, 1);
  }
  lua_pop(h->L, 1);
}

static void drop_all(const test_host *h) { RUN(h, "for i = 1, 24 do assert(result(p[i]) == false) end p = nil"); }

static void test_ties_are_made_once_and_dissolve(const test_host *h) {
  make_all(h);
  mr_proc *a = procs[0], *b = procs[1], *c = procs[2];
  CHECK(mr_owner(a) == NULL && mr_untie(a, b, TIE_LINKED) == 0);
  CHECK(mr_tie(a, b, TIE_LINKED) == MR_OK && mr_tie(b, a, TIE_LINKED) == MR_OK);
  CHECK(mr_untie(b, a, TIE_LINKED) == 1 && mr_untie(a, b, TIE_LINKED) == 0);
  CHECK(mr_tie(a, b, TIE_OWNED) == MR_OK && mr_tie(c, b, TIE_OWNED) == MR_EOWNED);
  mr_proc *owner = mr_owner(b);
  CHECK(owner == a);
  mr_release(&owner->shared);
  CHECK(mr_give(c, b, a) == MR_EOWNED && mr_give(a, b, c) == MR_OK && mr_give(a, b, c) == MR_EOWNED);
  CHECK(mr_untie(a, b, TIE_OWNED) == 0 && mr_untie(c, b, TIE_OWNED) == 1);
  /* the end of an owner, and of a linked one; what is over is tied to nobody */
  CHECK(mr_tie(a, b, TIE_OWNED) == MR_OK && mr_tie(b, c, TIE_LINKED) == MR_OK);
  CHECK(mr_kill(a, NULL) == 1);
  while (atomic_load(&a->status) < PROC_DONE) port_pause();
  CHECK(mr_owner(b) == NULL && mr_orphaned(b));           /* at once: a's end is published before its ties are cut */
  while (mr_job_ends(&c->job) != JOB_OVER) port_sleep(100000);
  CHECK(mr_kill(a, NULL) == 0 && mr_cancel(b, mr_why_new(WHY_CANCELLED), NULL) == 0);
  CHECK(mr_orphaned(b) && !mr_orphaned(a) && !mr_orphaned(c) && mr_owner(b) == NULL);
  mr_cause cause;
  while (atomic_load(&c->status) < PROC_DONE) port_sleep(100000);
  mr_cause_of_process(a, &cause);
  CHECK(strcmp(cause.kind, "killed") == 0 && !cause.why);
  CHECK(mr_tie(a, procs[3], TIE_LINKED) == MR_ECLOSED && mr_tie(procs[3], c, TIE_OWNED) == MR_ECLOSED);
  CHECK(mr_give(procs[3], b, procs[4]) == MR_OK);            /* it has ended in between */
  for (int i = 3; i < PROCS; i++) mr_cancel(procs[i], NULL, NULL);
  drop_all(h);
}

static void meddler(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  for (int i = 0; i < STEPS; i++) {
    mr_proc *a = procs[chance(&seed, PROCS)], *b = procs[chance(&seed, PROCS)], *c = procs[chance(&seed, PROCS)], *o;
    int kind = chance(&seed, 2) ? TIE_LINKED : TIE_OWNED;
    if (a == b || b == c) continue;
    switch (chance(&seed, 6)) {
      case 0: case 1: mr_tie(a, b, kind); break;
      case 2: mr_untie(a, b, kind); break;
      case 3: mr_give(a, b, c); break;
      case 4: if ((o = mr_owner(a)) != NULL) mr_release(&o->shared); break;
      default:
        if (chance(&seed, (unsigned)STEPS / 4) == 0) mr_kill(a, NULL);
        else if (chance(&seed, (unsigned)STEPS / 4) == 0) mr_cancel(a, mr_why_new(WHY_CANCELLED), NULL);
    }
  }
}

static void test_many_change_them_while_processes_end(const test_host *h) {
  for (int r = 0; r < 10; r++) {
    port_thread th[THREADS];
    make_all(h);
    for (int i = 0; i < THREADS; i++) CHECK(port_thread_fork(&th[i], meddler, (void *)(uintptr_t)(r * THREADS + i + 1), "meddler") == 0);
    for (int i = 0; i < THREADS; i++) port_thread_join(&th[i]);
    for (int i = 0; i < PROCS; i++) mr_cancel(procs[i], mr_why_new(WHY_CANCELLED), NULL);
    drop_all(h);
  }
}

int main(void) {
  test_setup();
  mr_workers_set(3);
  test_host h = host_open();
  test_ties_are_made_once_and_dissolve(&h);
  test_many_change_them_while_processes_end(&h);
  host_close(&h);
  return CHECK_RESULT();
}
