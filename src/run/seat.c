/* seat: see seat.h. */
#include "base/rank.h"
#include "run/seat.h"
#include "run/crew.h"

#include <stdlib.h>

#define PATIENCE 10000000u           /* ns: a quantum */
enum { ROUNDS = 5 };                 /* for one that has no worker yet: on a busy machine it may have to wait for many others */
enum { LOOK = 32 };                  /* so many others are looked at: with more of them a better one is as good as the best */

struct mr_rota {
  port_lock lock;
  atomic_size_t refs;                /* of the source, and of each seat with a job */
  atomic_uint seats;
  mr_seat *first;                    /* any of them */
};

static port_lock unused_lock;
static mr_seat *unused;

/* ---- what holds ---- */

#ifdef MR_CHECKS
enum { MANY = 1000 };                /* seats that are looked at */

/* (lock held) The ring holds just the seats of jobs that are there, and `seats` is how many. */
static void rota_check(mr_rota *r) {
  unsigned n = 0;
  const mr_seat *s = r->first;
  mr_assert_locked(&r->lock);
  if (s) do {
    mr_assert(s->next->prev == s && s->prev->next == s);
    mr_assert(s->rota == r && s->job != NULL && (atomic_load(&s->count) & 1));
    s = s->next;
  } while (++n < MANY && s != r->first);
  mr_assert(s != r->first || n == atomic_load(&r->seats));
}
#else
#define rota_check(r) ((void)0)
#endif

/* ---- life ---- */

mr_rota *mr_rota_new(void) {
  mr_rota *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  port_lock_rank(&r->lock, MR_RANK_ROTA);
  atomic_init(&r->refs, 1);
  return r;
}

void mr_rota_close(mr_rota *r) {
  if (r && atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) free(r);
}

static mr_seat *seat_new(void) {
  port_acquire(&unused_lock);
  mr_seat *s = unused;
  if (s) unused = s->next;
  port_unlock(&unused_lock);
  return s ? s : calloc(1, sizeof *s);
}

static void seat_put(mr_seat *s) {
  port_acquire(&unused_lock);
  s->next = unused;
  unused = s;
  port_unlock(&unused_lock);
}

static void sit(mr_rota *r, mr_seat *s) {
  port_acquire(&r->lock);
  if (r->first) {
    s->next = r->first;
    s->prev = r->first->prev;
    s->prev->next = s->next->prev = s;
  } else {
    r->first = s->next = s->prev = s;
  }
  atomic_fetch_add(&r->seats, 1);
  MR_CHECK_SOME(4, rota_check(r));
  port_unlock(&r->lock);
}

static void rise(mr_rota *r, mr_seat *s) {
  port_acquire(&r->lock);
  r->first = s->next == s ? NULL : s->next;
  s->next->prev = s->prev;
  s->prev->next = s->next;
  s->job = NULL;
  atomic_fetch_sub(&r->seats, 1);
  MR_CHECK_SOME(4, rota_check(r));
  port_unlock(&r->lock);
}

mr_seat *mr_seat_of(mr_rota *r, mr_job *j) {
  for (mr_seat *s = j->seats; s; s = s->more)
    if (s->rota == r) return s;
  mr_seat *s = seat_new();
  if (!s) return NULL;
  atomic_store(&s->count, 1);
  atomic_store(&s->absent, 0);
  s->since = 0;
  s->rota = r;
  s->job = j;
  s->more = j->seats;
  j->seats = s;
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  sit(r, s);
  return s;
}

static void lower(mr_seat *s, unsigned by) {
  if (atomic_fetch_sub_explicit(&s->count, by, memory_order_acq_rel) == by) seat_put(s);
}

void mr_seats_leave(mr_job *j) {
  mr_seat *s;
  while ((s = j->seats) != NULL) {
    mr_rota *r = s->rota;
    j->seats = s->more;
    rise(r, s);
    s->rota = NULL;
    mr_rota_close(r);
    lower(s, 1);
  }
}

void mr_seat_take(mr_seat *s) {
  atomic_fetch_add_explicit(&s->count, 2, memory_order_relaxed);
  s->since = 0;
}

void mr_seat_done(mr_seat *s) { lower(s, 2); }

/* ---- by load ---- */

/* An eighth more is no difference: what is being finished meanwhile makes as much. */
static int is_better(mr_seat *other, unsigned mine) {
  unsigned load = mr_seat_load(other);
  return load + load / 8 < mine;
}

/*
 * 0: nobody is better. Else somebody is, who comes by itself, being ready or busy (*idle NULL), or may have to be woken.
 * `late`: who computes is not waited for any more; who has no worker only if `last`.
 */
static int find_better(mr_seat *s, int late, int last, mr_seat *idle[LOOK], int *nidle) {
  mr_rota *r = s->rota;
  unsigned mine = mr_seat_load(s);
  int busy = 0, looked = 0;
  *nidle = 0;
  port_acquire(&r->lock);
  for (mr_seat *o = s->next; o != s && looked < LOOK; o = o->next, looked++) {
    if (!is_better(o, mine)) continue;
    int state = mr_job_busy(o->job);
    if (state == JOB_IDLE) idle[(*nidle)++] = o;
    else if (late && (last || state == JOB_RUNS)) atomic_store_explicit(&o->absent, 1, memory_order_relaxed);
    else if (!atomic_load_explicit(&o->absent, memory_order_relaxed)) busy = 1;
  }
  port_unlock(&r->lock);
  return busy;
}

int mr_seat_alone(mr_seat *s) {
  if (PORT_LIKELY(atomic_load_explicit(&s->rota->seats, memory_order_relaxed) < 2)) return 1;
  if (atomic_load_explicit(&s->absent, memory_order_relaxed)) atomic_store_explicit(&s->absent, 0, memory_order_relaxed);
  return mr_seat_load(s) == 0;
}

uint64_t mr_seat_better(mr_seat *s, uint64_t deadline, mr_watch *w, mr_fiber *near) {
  mr_seat *idle[LOOK];
  int nidle;
  uint64_t now = port_now();
  int late = s->since && now >= s->since + PATIENCE;
  int better = find_better(s, late, s->rounds >= ROUNDS, idle, &nidle);
  /* an idle one that is not woken here waits for something else, and nobody waits for it */
  for (int i = 0; i < nidle && !late; i++)
    if (mr_watch_wake(w, idle[i], near)) better = 1, i = nidle;
  if (!better || now >= deadline) {
    s->since = 0;
    return 0;
  }
  if (!s->since || late) {
    s->rounds = late ? s->rounds + 1 : 0;
    s->since = now;
  }
  return s->since + PATIENCE < deadline ? s->since + PATIENCE : deadline;
}
