/*
 * share: who takes long turns waits for its next one in the busy queue, so that those with short turns don't wait behind it.
 *
 * A *turn* is from when a worker takes a fiber (or a crew's token, for all its fibers) until it takes the next one. It is *long* if it
 * lasts longer than LONG. The *unit* that is charged is what sits in run queues: a fiber, or a crew's token.
 *
 * Invariants.
 *  - Clocks are read only where they cost little: every TURNS dispatches (mr_share_look), around turns of who had a long one lately or runs
 *    for the first time (HEED_*), and around all turns of a worker for some time after TURNS of them took longer than LONG ("exact").
 *  - HEED_BUSY: the unit had a long turn. The worker that comes across it in a run queue puts it into the busy queue instead of running it.
 *    So only the dispatcher and its own thread touch `heed` and `credit`: a unit is in one place at a time.
 *  - The busy queue has its turn at a worker when nothing else is ready there or `due` has passed (each long turn moves it on by twice its own
 *    length).
 *  - `credit` is what a unit may still use in its `round`. Who used half a quantum without any waits in busy[SPENT], where who comes to the
 *    front gets a slice of credit in the next round, and returns when that is used up (HEED_KNOWN). Who stops with credit left waits in
 *    busy[LEFT]: it lets those go first who have more of the same round before them, not those of a later one. So who yields lets others run,
 *    and has as much as they in the end. Those with little use so far wait in busy[LITTLE], which has every other turn: a turn of 200 us does not
 *    wait behind all who compute for ever.
 *  - The busy queue is one for all workers, so it evens out who computes. `nbusy` is made visible as the counts of other queues are.
 *
 * The brood table remembers of each job, by its number: how many of its children wait for their first turn, and whether first turns of
 * its children were long lately. Jobs whose numbers collide there share what is remembered, at worst for some long waits.
 */
#include "run/rt.h"
#include "run/crew.h"

#define LONG (mr_rt.quantum / 100)
#define EXACT (2 * mr_rt.quantum)
#define MOST_WAIT (3 * mr_rt.quantum)          /* after a turn of the busy queue the next one is due then, at the latest */
#define MOST_DEBT (4 * (int64_t)mr_rt.quantum)
#define UNBORN 64                              /* so many children that have not begun, and their parent gives way to them */
#define BROODS 1024
#define HOGS 4                                 /* `heavy` of a brood: first turns were of half a quantum or more; less, but not 0: long */

enum { BUSY_SPENT, BUSY_LEFT, BUSY_LITTLE };
enum { TIME_TURN = 1, TIME_ALL = 2 };          /* thread's `timing` */

static struct { atomic_uint unborn; atomic_uchar heavy; } brood[BROODS];

/* When many compute, they take turns more often. */
uint64_t mr_share_slice(void) {
  return atomic_load_explicit(&mr_rt.nbusy, memory_order_relaxed) > 4 ? mr_rt.quantum / 2 : mr_rt.quantum;
}

static mr_fiber *unit(mr_fiber *f) { return f->crew ? &f->crew->token : f; }

/* ---- the busy queue: three lists under one lock ---- */

/* It has used a good part of a turn already, or will as its siblings did. */
static int uses_much(const mr_fiber *f) {
  if (f->heed & HEED_NEW) return atomic_load_explicit(&brood[f->job->brood].heavy, memory_order_relaxed) >= HOGS;
  return f->credit <= (f->heed & HEED_KNOWN ? 0 : -(int64_t)mr_rt.quantum / 2);
}

static void busy_push(mr_fiber *f) {
  mr_runtime *r = &mr_rt;
  int where = uses_much(f) ? BUSY_SPENT : f->credit > 0 ? BUSY_LEFT : BUSY_LITTLE;
  port_acquire(&r->busy_lock);
  mr_row_add(&r->busy[where], f);
  atomic_store(&r->nbusy, atomic_load_explicit(&r->nbusy, memory_order_relaxed) + 1);
  port_unlock(&r->busy_lock);
  mr_wake_idle();
}

/* (busy lock) The round in which f, whose credit is spent, gets the next: not one that is over. */
static unsigned next_round(const mr_runtime *r, const mr_fiber *f) {
  unsigned n = f->round + 1;
  return (int)(n - r->busy_round) < 0 ? r->busy_round : n;
}

/* (busy lock) Who used so much more than a turn that the next one is used up too goes behind the others. */
static mr_fiber *take_spent(mr_runtime *r) {
  mr_row *l = &r->busy[BUSY_SPENT];
  mr_fiber *f;
  for (int i = 0; (f = mr_row_take(l)) != NULL; i++) {
    f->round = r->busy_round = next_round(r, f);
    if (f->credit <= 0) f->credit += (int64_t)mr_share_slice();
    f->heed |= HEED_KNOWN;
    if (f->credit > 0 || !mr_row_first(l) || i == 16) break;
    mr_row_add(l, f);
  }
  return f;
}

/* (busy lock) Both lists have a first: has that of busy[SPENT] more of the same round before it, or is it in an earlier one? */
static int spent_first(const mr_runtime *r) {
  const mr_fiber *spent = mr_row_first(&r->busy[BUSY_SPENT]), *left = mr_row_first(&r->busy[BUSY_LEFT]);
  int later = (int)(next_round(r, spent) - left->round);
  return later < 0 || (later == 0 && spent->credit + (int64_t)mr_share_slice() >= left->credit);
}

mr_fiber *mr_share_pop(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load_explicit(&r->nbusy, memory_order_relaxed) == 0) return NULL;
  port_acquire(&r->busy_lock);
  mr_fiber *f = NULL;
  r->busy_turn = !r->busy_turn;
  if (r->busy_turn) f = mr_row_take(&r->busy[BUSY_LITTLE]);
  if (!f && mr_row_first(&r->busy[BUSY_LEFT]) && !(mr_row_first(&r->busy[BUSY_SPENT]) && spent_first(r))) f = mr_row_take(&r->busy[BUSY_LEFT]);
  if (!f) f = take_spent(r);
  if (!f) f = mr_row_take(&r->busy[BUSY_LITTLE]);
  if (f) {
    atomic_store_explicit(&r->nbusy, atomic_load_explicit(&r->nbusy, memory_order_relaxed) - 1, memory_order_relaxed);
    f->heed = (unsigned char)((f->heed & ~HEED_BUSY) | HEED_TURN);
  }
  port_unlock(&r->busy_lock);
  return f;
}

/* In the slot is who runs next: the chain's next, not somebody beside it. */
static int anybody_waits(mr_worker *w) {
  mr_runtime *r = &mr_rt;
  return atomic_load_explicit(&w->queue.count, memory_order_relaxed) ||
         atomic_load_explicit(&r->nbusy, memory_order_relaxed) || atomic_load_explicit(&r->queue.count, memory_order_relaxed);
}

/* ---- before a turn ---- */

static void time_from(mr_thread *t, uint64_t now, int what) {
  t->timing |= (unsigned char)what;
  t->began = t->last = now;
}

static void stamp(mr_thread *t, uint64_t now) {
  t->stamp.at = now;
  t->stamp.cpu = port_thread_cpu(&t->os);
  t->stamp.slept = port_thread_sleeps();
}

/*
 * The system may have run somebody else for most of a turn that was long by the clock: what its thread's CPU clock lacks since the last
 * stamp is taken off. But not if it slept, in a call to the system: so it kept its worker from others as much as if it computed.
 */
static uint64_t stolen(mr_thread *t, uint64_t now, uint64_t used) {
  uint64_t at = t->stamp.at, cpu = t->stamp.cpu;
  long slept = t->stamp.slept;
  stamp(t, now);
  if (at == 0) return used;                     /* nothing is known: the next one will be */
  if (cpu == 0 || t->stamp.slept != slept || t->stamp.cpu - cpu >= now - at) return 0;
  uint64_t lacks = (now - at) - (t->stamp.cpu - cpu);
  return lacks < used ? lacks : used;
}

int mr_share_heed(mr_thread *t, mr_worker *w, mr_fiber *f) {
  unsigned heed = f->heed;
  if ((heed & (HEED_NEW | HEED_TURN)) == HEED_NEW && atomic_load_explicit(&brood[f->job->brood].heavy, memory_order_relaxed))
    heed |= HEED_BUSY;
  f->heed = (unsigned char)heed;
  if (heed & HEED_BUSY) {
    if (anybody_waits(w) || atomic_load_explicit(&w->slot, memory_order_relaxed)) {
      busy_push(f);
      return 0;
    }
    f->heed &= (unsigned char)~HEED_BUSY;
    if (f->credit <= 0) f->credit += (int64_t)mr_rt.quantum;
  }
  if (t->timing & TIME_ALL) return 1;
  time_from(t, port_now(), TIME_TURN);
  if (heed & HEED_WATCH) stamp(t, t->began);
  return 1;
}

mr_fiber *mr_share_look(mr_thread *t, mr_worker *w) {
  mr_fiber *f;
  if (!anybody_waits(w)) {
    mr_share_rested(t, w);
    return NULL;
  }
  uint64_t now = port_now();
  if (w->window && now - w->window > LONG && now - w->window - stolen(t, now, now - w->window) > LONG) w->exact = now + EXACT;
  w->window = now;
  if (now >= w->exact) t->timing = 0;
  else if (!(t->timing & TIME_ALL)) time_from(t, now, TIME_ALL);   /* the stamp is new: see above */
  if (now < w->due || (f = mr_share_pop()) == NULL) return NULL;
  w->served_busy = now;
  return f;
}

void mr_share_rested(mr_thread *t, mr_worker *w) {
  t->timing = 0;
  t->stamp.at = 0;
  w->window = w->exact = 0;
}

/* ---- after a turn ---- */

static void charge(mr_fiber *who, uint64_t used) {
  who->credit -= (int64_t)used;
  if (who->credit < -MOST_DEBT) who->credit = -MOST_DEBT;
}

/* What it kept its worker is by the clock, as the others' time until the busy queue is due; what it used is not. */
static void long_turn(mr_thread *t, mr_fiber *who, uint64_t used, uint64_t kept) {
  if (who->heed & HEED_TURN) t->gave_way |= BUSY_TURN;
  who->heed = (unsigned char)(HEED_BUSY | HEED_WATCH | (who->heed & HEED_KNOWN));
  charge(who, used);
  t->spent = kept;
  t->gave_way |= LONG_TURN;
}

/* The first turn of a child, or a part of it, is over. */
static void child_seen(mr_fiber *f, int heavy, uint64_t used) {
  atomic_uchar *h = &brood[f->job->brood].heavy;
  unsigned char was = atomic_load_explicit(h, memory_order_relaxed);
  f->heed &= (unsigned char)~HEED_NEW;
  unsigned char seen = used >= mr_rt.quantum / 2 ? HOGS : 2;
  if (heavy && was < seen) atomic_store_explicit(h, seen, memory_order_relaxed);
  else if (!heavy && was > 0) atomic_store_explicit(h, (unsigned char)(was - 1), memory_order_relaxed);
}

void mr_share_charge(mr_thread *t, mr_fiber *f) {
  mr_fiber *who = unit(f);
  uint64_t now = port_now(), used = now - t->last;
  int heavy = now - t->began > LONG;
  if (heavy) {
    uint64_t lacks = stolen(t, now, used);
    used -= lacks;
    t->began += lacks;
    heavy = now - t->began > LONG;
  }
  if (f->heed & HEED_NEW) child_seen(f, heavy, used);
  if (heavy) {
    long_turn(t, who, used, now - t->last);
  } else if (who->heed) {
    charge(who, used);
    who->heed &= HEED_WATCH | HEED_KNOWN;
    if (who->heed & HEED_WATCH) who->heed--;
    if (!(who->heed & HEED_WATCH)) who->heed = 0;
  }
  t->last = now;
  t->gave_way |= TIMED;
  if (!f->crew) mr_share_turn_over(t);
}

void mr_share_turn_over(mr_thread *t) {
  t->timing &= TIME_ALL;
  t->began = t->last;
}

/* Ending a process takes its time too, which is nobody's turn any more. */
void mr_share_ended(mr_thread *t) {
  uint64_t now = port_now(), used = now - t->last;
  t->began = t->last = now;
  if (used <= LONG) return;
  t->spent = t->gave_way & LONG_TURN ? t->spent + used : used;
  t->gave_way |= LONG_TURN;
}

void mr_share_settle(mr_thread *t, mr_worker *w) {
  uint64_t now = port_now(), due = w->due > now ? w->due : now;
  due += 2 * t->spent;
  uint64_t most = (t->gave_way & BUSY_TURN ? now : w->served_busy) + MOST_WAIT;
  w->due = due < most ? due : most;
  if (w->window) w->window += t->spent;
}

int mr_share_over(const mr_crew *c) { return (c->token.heed & HEED_BUSY) && c->token.credit <= 0; }

void mr_share_step_back(mr_thread *t, mr_fiber *f) {
  mr_fiber *who = unit(f);
  if (f->sysyield == SYS_CEDED) {
    if (who->credit > 0) who->credit = 0;
    if (atomic_load_explicit(&brood[f->job->id % BROODS].heavy, memory_order_relaxed)) who->heed |= HEED_BUSY | HEED_WATCH;
  } else if (!(t->gave_way & TIMED)) {
    who->heed |= HEED_WATCH;                    /* it was long by the clock, but perhaps the system ran somebody else */
  }
  if (f->crew) mr_crew_push(f, CREW_INTERRUPTED);
  else if (f->heed & HEED_BUSY) busy_push(f);
  else mr_enqueue(t->worker, f, 0);
}

/* ---- children ---- */

void mr_share_born(mr_job *j, const mr_fiber *near) {
  j->brood = (unsigned short)(near ? near->job->id % BROODS : 0);
  j->first->heed = HEED_NEW;
  atomic_fetch_add_explicit(&brood[j->brood].unborn, 1, memory_order_relaxed);
}

void mr_job_begun(mr_job *j) { atomic_fetch_sub_explicit(&brood[j->brood].unborn, 1, memory_order_relaxed); }

int mr_job_crowded(const mr_job *j) { return atomic_load_explicit(&brood[j->id % BROODS].unborn, memory_order_relaxed) >= UNBORN; }

void mr_share_forget(void) {
  for (int i = BUSY_SPENT; i <= BUSY_LITTLE; i++) mr_row_clear(&mr_rt.busy[i]);
  atomic_store(&mr_rt.nbusy, 0);
  for (int i = 0; i < BROODS; i++) {
    atomic_store(&brood[i].unborn, 0);
    atomic_store(&brood[i].heavy, 0);
  }
}
