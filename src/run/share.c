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
 *  - The busy queue is one for all workers, so it evens out who computes. Its `count` is made visible as those of other queues are.
 *  - Each level (priority) has such lists of its own. In those of LEVEL_HIGH and LEVEL_LOW everybody waits, in busy[SOON] who had no long turn,
 *    except in a slot. LEVEL_HIGH goes before all others, until `streak` says that it is their turn; LEVEL_LOW behind them, until its `low_credit`
 *    on a worker is 0 or more. That grows with the time of the others, and what it uses is taken from it LOW_SHARE times.
 *    HEED_LEVEL: the unit's level is, or was, one of these two. Who puts it anywhere looks, and who takes it out of a slot.
 *
 * The brood table remembers of each job, by its number: how many of its children wait for their first turn, and whether first turns of
 * its children were long lately. Jobs whose numbers collide there share what is remembered, at worst for some long waits.
 */
#include "run/rt.h"
#include "run/crew.h"
#include "run/replay.h"

#define LONG (mr_rt.quantum / 100)
#define EXACT (2 * mr_rt.quantum)
#define MOST_WAIT (3 * mr_rt.quantum)          /* after a turn of the busy queue the next one is due then, at the latest */
#define MOST_DEBT (4 * (int64_t)mr_rt.quantum)
#define UNBORN 64                              /* so many children that have not begun, and their parent gives way to them */
#define BROODS 1024
#define HOGS 4                                 /* `heavy` of a brood: first turns were of half a quantum or more; less, but not 0: long */

#define LOW_SHARE 16                           /* LEVEL_LOW has one of so many parts of the time, whatever is ready, */
#define LOW_WAIT (10 * (int64_t)mr_rt.quantum) /* and a turn after that time at the latest */

enum { BUSY_SPENT, BUSY_LEFT, BUSY_LITTLE, BUSY_SOON, BUSY_ROWS };
enum { TIME_TURN = 1, TIME_ALL = 2, TIME_LENT = 4 };   /* thread's `timing` */

static struct { atomic_uint unborn; atomic_uchar heavy; } brood[BROODS];

/* When many compute, they take turns more often. */
uint64_t mr_share_slice(void) {
  return mr_waiting(LEVEL_NORMAL) > 4 ? mr_rt.quantum / 2 : mr_rt.quantum;
}

static mr_fiber *unit(mr_fiber *f) { return f->crew ? &f->crew->token : f; }

/* HEED_LEVEL is others' to change. */
static void heed_add(mr_fiber *f, unsigned what) { atomic_fetch_or_explicit(&f->heed, (unsigned char)what, memory_order_relaxed); }
static void heed_keep(mr_fiber *f, unsigned what) { atomic_fetch_and_explicit(&f->heed, (unsigned char)(what | HEED_LEVEL), memory_order_relaxed); }
static void heed_drop(mr_fiber *f, unsigned what) { heed_keep(f, ~what & 255u); }

/* ---- the busy queue: lists under one lock, of each level ---- */

/* It has used a good part of a turn already, or will as its siblings did. */
static int uses_much(const mr_fiber *f) {
  if (mr_fiber_heed(f) & HEED_NEW) return atomic_load_explicit(&brood[f->job->brood].heavy, memory_order_relaxed) >= HOGS;
  return f->credit <= (mr_fiber_heed(f) & HEED_KNOWN ? 0 : -(int64_t)mr_rt.quantum / 2);
}

/* Who changes f's level looks for it afterwards, under the same lock: so one of the two sees the other. */
void mr_share_push(mr_fiber *f, int front) {
  int busy = (mr_fiber_heed(f) & HEED_BUSY) != 0, level;
  int where = !busy ? BUSY_SOON : uses_much(f) ? BUSY_SPENT : f->credit > 0 ? BUSY_LEFT : BUSY_LITTLE;
  mr_busy *b = &mr_rt.busy[level = mr_fiber_level(f)];
  port_acquire(&b->lock);
  while (PORT_UNLIKELY(mr_fiber_level(f) != level)) {
    port_unlock(&b->lock);
    b = &mr_rt.busy[level = mr_fiber_level(f)];
    port_acquire(&b->lock);
  }
  if (front && where == BUSY_SOON) mr_row_add_due(&b->row[where], f);
  else mr_row_add(&b->row[where], f);
  atomic_store(&b->count, atomic_load_explicit(&b->count, memory_order_relaxed) + 1);
  port_unlock(&b->lock);
}

static void busy_push(mr_fiber *f) {
  mr_share_push(f, 0);
  mr_wake_idle();
}

int mr_share_remove(mr_fiber *f) {
  int there = 0;
  for (mr_busy *b = mr_rt.busy; b < mr_rt.busy + NLEVELS && !there; b++) {
    port_acquire(&b->lock);
    for (int i = 0; i < BUSY_ROWS && !there; i++) there = mr_row_remove(&b->row[i], f);
    if (there) atomic_store_explicit(&b->count, atomic_load_explicit(&b->count, memory_order_relaxed) - 1, memory_order_relaxed);
    port_unlock(&b->lock);
  }
  return there;
}

/* (busy lock) The round in which f, whose credit is spent, gets the next: not one that is over. */
static unsigned next_round(const mr_busy *b, const mr_fiber *f) {
  unsigned n = f->round + 1;
  return (int)(n - b->round) < 0 ? b->round : n;
}

/* (busy lock) Who used so much more than a turn that the next one is used up too goes behind the others. */
static mr_fiber *take_spent(mr_busy *b) {
  mr_row *l = &b->row[BUSY_SPENT];
  mr_fiber *f;
  for (int i = 0; (f = mr_row_take(l)) != NULL; i++) {
    f->round = b->round = next_round(b, f);
    if (f->credit <= 0) f->credit += (int64_t)mr_share_slice();
    heed_add(f, HEED_KNOWN);
    if (f->credit > 0 || !mr_row_first(l) || i == 16) break;
    mr_row_add(l, f);
  }
  return f;
}

/* (busy lock) Both lists have a first: has that of busy[SPENT] more of the same round before it, or is it in an earlier one? */
static int spent_first(const mr_busy *b) {
  const mr_fiber *spent = mr_row_first(&b->row[BUSY_SPENT]), *left = mr_row_first(&b->row[BUSY_LEFT]);
  int later = (int)(next_round(b, spent) - left->round);
  return later < 0 || (later == 0 && spent->credit + (int64_t)mr_share_slice() >= left->credit);
}

/* (busy lock) */
static mr_fiber *take_busy(mr_busy *b) {
  mr_fiber *f = NULL;
  b->turn = !b->turn;
  if (b->turn) f = mr_row_take(&b->row[BUSY_LITTLE]);
  if (!f && mr_row_first(&b->row[BUSY_LEFT]) && !(mr_row_first(&b->row[BUSY_SPENT]) && spent_first(b))) f = mr_row_take(&b->row[BUSY_LEFT]);
  if (!f) f = take_spent(b);
  return f ? f : mr_row_take(&b->row[BUSY_LITTLE]);
}

/* (busy lock) The clock is read only if there is a choice. */
static mr_fiber *take_soon(mr_busy *b) {
  if (!mr_row_first(&b->row[BUSY_SOON])) return NULL;
  for (int i = BUSY_SPENT; i <= BUSY_LITTLE; i++)
    if (mr_row_first(&b->row[i])) return port_now() < atomic_load_explicit(&b->due, memory_order_relaxed) ? mr_row_take(&b->row[BUSY_SOON]) : NULL;
  return mr_row_take(&b->row[BUSY_SOON]);
}

mr_fiber *mr_share_pop(int level) {
  mr_busy *b = &mr_rt.busy[level];
  if (mr_waiting(level) == 0) return NULL;
  port_acquire(&b->lock);
  mr_fiber *f = take_soon(b);
  if (!f) f = take_busy(b);
  if (f) {
    atomic_store_explicit(&b->count, atomic_load_explicit(&b->count, memory_order_relaxed) - 1, memory_order_relaxed);
    heed_add(f, HEED_TURN);
    heed_drop(f, HEED_BUSY);
  }
  port_unlock(&b->lock);
  return f;
}

/* In the slot is who runs next: the chain's next, not somebody beside it. */
static int anybody_waits(mr_worker *w) {
  return atomic_load_explicit(&w->queue.count, memory_order_relaxed) || mr_waiting(LEVEL_NORMAL) || mr_waiting(LEVEL_HIGH) ||
         atomic_load_explicit(&mr_rt.queue.count, memory_order_relaxed);
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

/* It goes on, though it had a long turn. */
static void goes_on(mr_fiber *f) {
  heed_drop(f, HEED_BUSY);
  if (f->credit <= 0) f->credit += (int64_t)mr_rt.quantum;
}

/* f has HEED_LEVEL. 0: others go before it. One that comes from the lists of its level has its turn now. */
static int level_allows(mr_worker *w, mr_fiber *f) {
  int level = mr_fiber_level(f), taken = mr_fiber_heed(f) & HEED_TURN, others = 0;
  if (level == LEVEL_NORMAL) return 1;
  heed_drop(f, HEED_TURN);                      /* what busy queue it was does not count for the normal one's turns */
  if (taken) return 1;
  if (level == LEVEL_LOW) others = anybody_waits(w) || atomic_load_explicit(&w->slot, memory_order_relaxed) || mr_waiting(LEVEL_LOW);
  else if (mr_fiber_heed(f) & HEED_BUSY) others = mr_waiting(LEVEL_HIGH) > 0;
  if (!others) goes_on(f);
  return !others;
}

int mr_share_heed(mr_thread *t, mr_worker *w, mr_fiber *f) {
  unsigned heed = mr_fiber_heed(f);
  if (PORT_UNLIKELY(mr_replay_on)) return 1;
  if ((heed & (HEED_NEW | HEED_TURN)) == HEED_NEW && atomic_load_explicit(&brood[f->job->brood].heavy, memory_order_relaxed)) heed_add(f, HEED_BUSY);
  if ((heed & HEED_LEVEL) && !level_allows(w, f)) {
    busy_push(f);
    return 0;
  }
  heed = mr_fiber_heed(f);
  if (heed & HEED_BUSY) {
    if (anybody_waits(w) || atomic_load_explicit(&w->slot, memory_order_relaxed)) {
      busy_push(f);
      return 0;
    }
    goes_on(f);
  }
  if ((t->timing & TIME_ALL) || heed == HEED_LEVEL) return 1;
  time_from(t, port_now(), TIME_TURN);
  if (heed & HEED_WATCH) stamp(t, t->began);
  return 1;
}

/*
 * A look follows each long turn and every TURNS dispatches: what is more than a quantum the system gave to somebody else. Who has just become
 * ready waits for a quantum of the others' time first.
 */
static void low_earns(mr_worker *w, uint64_t now) {
  uint64_t passed = now - w->low_seen;
  int64_t first = -2 * (int64_t)mr_rt.quantum;
  if (passed > (uint64_t)LOW_WAIT && w->low_credit > first) w->low_credit = first;
  w->low_credit += (int64_t)(passed < mr_rt.quantum ? passed : mr_rt.quantum);
  if (w->low_credit > LOW_WAIT) w->low_credit = LOW_WAIT;
  w->low_seen = now;
}

static int normal_waits(mr_worker *w) {
  return atomic_load_explicit(&w->queue.count, memory_order_relaxed) || atomic_load_explicit(&w->slot, memory_order_relaxed) ||
         atomic_load_explicit(&mr_rt.queue.count, memory_order_relaxed) || mr_waiting(LEVEL_NORMAL);
}

/*
 * While those of LEVEL_HIGH are always ready, the turns that they leave go to LEVEL_LOW and to the normal ones alternately: neither is to
 * starve. For the time of its turn, see mr_share_settle.
 */
mr_fiber *mr_share_low(mr_thread *t, mr_worker *w) {
  if (mr_waiting(LEVEL_LOW) == 0) return NULL;
  if (mr_waiting(LEVEL_HIGH) && normal_waits(w) && (w->spared = !w->spared) == 0) return NULL;
  uint64_t now = port_now();
  low_earns(w, now);
  mr_fiber *f = w->low_credit < 0 ? NULL : mr_share_pop(LEVEL_LOW);
  if (!f) return NULL;
  t->timing |= TIME_LENT;
  if (!(t->timing & TIME_ALL)) time_from(t, now, TIME_TURN);
  return f;
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
  if (now < w->due || (f = mr_share_pop(LEVEL_NORMAL)) == NULL) return NULL;
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

/* As mr_share_settle does it for the normal level. */
static void put_off(mr_busy *b, uint64_t kept) {
  atomic_store_explicit(&b->due, port_now() + (2 * kept < MOST_WAIT ? 2 * kept : MOST_WAIT), memory_order_relaxed);
}

/* What it kept its worker is by the clock, as the others' time until the busy queue is due; what it used is not. */
static void long_turn(mr_thread *t, mr_fiber *who, uint64_t used, uint64_t kept) {
  int level = mr_fiber_level(who);
  if (mr_fiber_heed(who) & HEED_TURN) t->gave_way |= BUSY_TURN;
  if (level == LEVEL_HIGH) t->gave_way |= HIGH_TURN;
  if (level != LEVEL_NORMAL) put_off(&mr_rt.busy[level], kept);
  heed_keep(who, HEED_KNOWN);
  heed_add(who, HEED_BUSY | HEED_WATCH);
  charge(who, used);
  t->spent = kept;
  t->gave_way |= LONG_TURN;
}

/* The first turn of a child, or a part of it, is over. */
static void child_seen(mr_fiber *f, int heavy, uint64_t used) {
  atomic_uchar *h = &brood[f->job->brood].heavy;
  unsigned char was = atomic_load_explicit(h, memory_order_relaxed);
  heed_drop(f, HEED_NEW);
  unsigned char seen = used >= mr_rt.quantum / 2 ? HOGS : 2;
  if (heavy && was < seen) atomic_store_explicit(h, seen, memory_order_relaxed);
  else if (!heavy && was > 0) atomic_store_explicit(h, (unsigned char)(was - 1), memory_order_relaxed);
}

static void short_turn(mr_fiber *who, uint64_t used) {
  charge(who, used);
  heed_keep(who, HEED_WATCH | HEED_KNOWN);
  if (mr_fiber_heed(who) & HEED_WATCH) atomic_fetch_sub_explicit(&who->heed, 1, memory_order_relaxed);
  if (!(mr_fiber_heed(who) & HEED_WATCH)) heed_keep(who, 0);
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
  if (mr_fiber_heed(f) & HEED_NEW) child_seen(f, heavy, used);
  if (PORT_UNLIKELY(t->timing & TIME_LENT)) {
    t->gave_way |= LENT;
    t->lent = now - t->last;
  }
  if (heavy) long_turn(t, who, used, now - t->last);
  else if (mr_fiber_heed(who) & ~(unsigned)HEED_LEVEL) short_turn(who, used);
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

/* Who has short turns goes on as long as there is credit: hence the look that the caller asks for. */
static void settle_low(mr_thread *t, mr_worker *w, uint64_t now) {
  w->low_credit -= LOW_SHARE * (int64_t)t->lent;
  if (w->low_credit < -LOW_WAIT) w->low_credit = -LOW_WAIT;
  w->low_seen = now;
}

void mr_share_settle(mr_thread *t, mr_worker *w) {
  uint64_t now = port_now();
  if (mr_waiting(LEVEL_LOW)) {
    w->turn |= TURN_LOW;
    if (t->gave_way & HIGH_TURN) low_earns(w, now);   /* nobody asks for one of its own until LEVEL_HIGH leaves a turn */
  }
  if (t->gave_way & LENT) settle_low(t, w, now);
  if (!(t->gave_way & LONG_TURN)) return;
  if (t->gave_way & HIGH_TURN) w->streak += (unsigned)(TURNS * t->spent / (uint64_t)LOW_WAIT);
  uint64_t due = w->due > now ? w->due : now;
  due += 2 * t->spent;
  uint64_t most = (t->gave_way & BUSY_TURN ? now : w->served_busy) + MOST_WAIT;
  w->due = due < most ? due : most;
  if (w->window) w->window += t->spent;
}

int mr_share_over(const mr_crew *c) {
  return PORT_UNLIKELY(mr_replay_on) || ((mr_fiber_heed(&c->token) & HEED_BUSY) && c->token.credit <= 0);
}

void mr_share_step_back(mr_thread *t, mr_fiber *f) {
  mr_fiber *who = unit(f);
  if (f->sysyield == SYS_CEDED) {
    if (who->credit > 0) who->credit = 0;
    if (atomic_load_explicit(&brood[f->job->id % BROODS].heavy, memory_order_relaxed)) heed_add(who, HEED_BUSY | HEED_WATCH);
  } else if (!(t->gave_way & TIMED)) {
    heed_add(who, HEED_WATCH);                  /* it was long by the clock, but perhaps the system ran somebody else */
  }
  if (f->crew) mr_crew_push(f, CREW_INTERRUPTED);
  else if (mr_fiber_heed(f) & HEED_BUSY) busy_push(f);
  else mr_enqueue(t->worker, f, 0);
}

/* ---- children ---- */

void mr_share_born(mr_job *j, const mr_fiber *near) {
  j->brood = (unsigned short)(near ? near->job->id % BROODS : 0);
  heed_add(j->first, HEED_NEW);
  atomic_fetch_add_explicit(&brood[j->brood].unborn, 1, memory_order_relaxed);
}

void mr_job_begun(mr_job *j) { atomic_fetch_sub_explicit(&brood[j->brood].unborn, 1, memory_order_relaxed); }

int mr_job_crowded(const mr_job *j) { return atomic_load_explicit(&brood[j->id % BROODS].unborn, memory_order_relaxed) >= UNBORN; }

void mr_share_forget(void) {
  for (mr_busy *b = mr_rt.busy; b < mr_rt.busy + NLEVELS; b++) {
    for (int i = 0; i < BUSY_ROWS; i++) mr_row_clear(&b->row[i]);
    atomic_store(&b->count, 0);
  }
  for (int i = 0; i < BROODS; i++) {
    atomic_store(&brood[i].unborn, 0);
    atomic_store(&brood[i].heavy, 0);
  }
}
