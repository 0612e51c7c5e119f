/*
 * replay: see replay.h.
 *
 * What is ready lies in one row here, in the order in which it became so: who looks for the next one empties all queues into it first. So nothing else of
 * the scheduler has to know.
 *
 * Strategies. Most races need few switches, but at the right places; a fair coin at each point rarely leaves a process alone long enough to come to
 * a rare place. So a seed has one of these:
 *  - priorities (half of the seeds): each process has a random one, and the highest goes on until it waits; at up to three points, drawn beforehand, the
 *    one that runs falls behind all others. This finds a race that needs d orderings with a probability of at least 1 / (n k^(d-1)), for n processes and
 *    k points: Burckhardt, Kothari, Musuvathi, Nagarakatte, "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010. There k is
 *    known; here a seed has to do without a run before, so points are drawn by their logarithm: none is less likely than 1 / (10 i) to be number i.
 *    Who yields, or goes on for very long, falls behind too, or it would wait for somebody whom it keeps from running.
 *  - few switches (a quarter): the default but for one to three points, drawn likewise, where another goes on. Finds what goes wrong by one interruption.
 *  - a walk (a quarter): at each point a switch with a probability of 1/2 to 1/16. Finds what needs many.
 * Time passes when nothing is ready. So what a process does after a sleep would never come between what others do now; on a slow machine it can. Half of
 * the seeds let it, one to three times: who sleeps, and is due first, within a second, goes on at once. Not more often, not later, and never whose
 * wait has a limit: a test's limits are there for the case that something is wrong, and are not to be over because everything was delayed; and who
 * sleeps for an hour means for ever.
 * Reads and writes of sockets are cut by half of the seeds, whatever else these do: half of them up to three times, the others at random. Numbers for that are drawn
 * apart: so a program without sockets runs as if there were none.
 */
#include "run/rt.h"
#include "run/clock.h"
#include "run/poll.h"
#include "run/replay.h"
#include "run/waitable.h"
#include "port/simnet.h"
#include "port/virtual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLLOW, PRIORITIES, FEW, WALK };
enum {
  LONG_ROW = 1000,                   /* points in a row after which others have their turn */
  TICK = 10,                         /* ns that an instruction takes */
  LOOP = 100000,                     /* instructions in a row, likewise */
  OPERATION = 1000, SOON = 1000000000,   /* ns */
  CHANGES = 3, HORIZON = 13,         /* points are drawn from the first 2^HORIZON */
  UNITS = 1 << 16                    /* processes with a record; later ones share these */
};

typedef struct unit { uint64_t stream, priority; uint32_t point, seen; } unit;

int mr_replay_on;

static struct {
  mr_schedule *s;
  uint64_t rng;
  int strategy, changes, odds;
  uint32_t change[CHANGES];
  uint64_t cut_rng;
  unsigned cuts, cut_odds;           /* so many reads and writes will be cut at most; one in how many */
  unsigned early, early_odds;        /* so many times a sleeper will go on before its time; one in how many points */
  uint64_t last;                     /* who runs, or ran last */
  uint64_t lowest;                   /* priorities below all that were drawn: falls */
  unsigned row, instructions;        /* points, and instructions since the last point, without another unit in between */
  unsigned char gone;                /* `last` is not to go on by itself: it yielded */
  unsigned char looked;              /* its operation is a look at the clock */
  mr_fiber **ready;
  unsigned n, size;
  mr_fiber *chosen;                  /* at a point: it is the next one */
  unit *unit;
  char place[REPLAY_PLACE];
} r;
static port_event go;
static atomic_int gone_on;

static unit *unit_of(uint64_t id) {
  unit *u = &r.unit[id % UNITS];
  if (!u->seen) {
    u->seen = 1;
    u->stream = port_virtual_mix(id + 1);
    u->priority = (port_virtual_mix(r.s->seed ^ u->stream) >> 1) | UINT64_C(1) << 62;
  }
  return u;
}

static uint64_t draw(uint64_t *rng) { return port_virtual_mix(*rng += 0x9e3779b97f4a7c15u); }
static unsigned below_of(uint64_t *rng, unsigned n) { return (unsigned)((draw(rng) >> 32) * n >> 32); }
static unsigned below(unsigned n) { return below_of(&r.rng, n); }
static unsigned cut_below(unsigned n) { return below_of(&r.cut_rng, n); }

/* 1 … 2^HORIZON, each power of two as likely as the next. */
static uint32_t draw_point(void) {
  uint32_t power = (uint32_t)1 << below(HORIZON);
  return power + below(power);
}

static void choose_strategy(void) {
  r.rng = r.s->seed;
  unsigned kind = below(4);
  r.strategy = r.s->listed || r.s->seed == 0 ? FOLLOW : kind < 2 ? PRIORITIES : kind == 2 ? FEW : WALK;
  r.changes = r.strategy == FEW ? 1 + (int)below(CHANGES) : (int)below(CHANGES + 1);
  for (int i = 0; i < r.changes; i++) r.change[i] = draw_point();
  r.odds = 2 << below(4);
  r.early = below(2) ? 1 + below(3) : 0;
  r.early_odds = 2u << below(5);
}

static void choose_cuts(void) {
  r.cut_rng = port_virtual_mix(r.s->seed);
  unsigned kind = cut_below(4), few = 1 + cut_below(3);
  r.cuts = r.strategy == FOLLOW || kind < 2 ? 0 : kind == 2 ? few : UINT32_MAX;
  r.cut_odds = kind == 2 ? 2u << cut_below(5) : 2u << cut_below(3);
}

/* ---- the list ---- */

static int compare(const void *a, const void *b) {
  const mr_deviation *x = a, *y = b;
  if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
  if (x->point != y->point) return x->point < y->point ? -1 : 1;
  return (x->kind > y->kind) - (x->kind < y->kind);
}

/* The value of a choice that the list names, or `usual`. */
#define NONE UINT64_MAX
static uint64_t listed(uint32_t kind, uint32_t point, uint64_t usual) {
  mr_deviation key = { .unit = r.last, .point = point, .kind = kind };
  const mr_deviation *d = r.s->given ? bsearch(&key, r.s->list, r.s->given, sizeof key, compare) : NULL;
  return d ? d->value : usual;
}

static void note(uint32_t kind, uint32_t point, uint64_t value) {
  mr_schedule *s = r.s;
  if (s->made < s->places) memcpy(s->where[s->made], r.place, sizeof r.place);
  if (s->made < s->most) s->record[s->made] = (mr_deviation){ .unit = r.last, .value = value, .point = point, .kind = kind };
  s->made++;
}

/* By insertion over ever smaller distances. (The library's sort may use malloc: what a list costs must not change what the program finds there.) */
static void sort(mr_deviation *list, uint32_t n) {
  for (uint32_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
    for (uint32_t i = gap; i < n; i++) {
      mr_deviation d = list[i];
      uint32_t at = i;
      for (; at >= gap && compare(&list[at - gap], &d) > 0; at -= gap) list[at] = list[at - gap];
      list[at] = d;
    }
  }
}

static const char *number(const char *p, uint64_t *n, uint64_t most) {
  if (*p < '0' || *p > '9') return NULL;
  for (*n = 0; *p >= '0' && *p <= '9'; p++) {
    if (*n > (most - (uint64_t)(*p - '0')) / 10) return NULL;
    *n = *n * 10 + (uint64_t)(*p - '0');
  }
  return p;
}

static int is_kind(char c) { return c == REPLAY_NEXT || c == REPLAY_CASE || c == REPLAY_CUT; }

static const char *deviation(const char *p, mr_deviation *d) {
  uint64_t point = 0;
  if ((p = number(p, &d->unit, UINT64_MAX)) == NULL || *p++ != '.') return NULL;
  if ((p = number(p, &point, UINT32_MAX)) == NULL || !is_kind(*p)) return NULL;
  d->point = (uint32_t)point;
  d->kind = (uint32_t)*p++;
  return number(p, &d->value, UINT64_MAX);
}

const char *mr_replay_parse(mr_schedule *s, const char *text, uint32_t room) {
  const char *p = number(text, &s->seed, UINT64_MAX);
  s->given = 0;
  if (!p) return "a seed is a number of at most 64 bits";
  s->listed = *p == ':';
  if (!s->listed) return *p ? "behind a seed there may be ':' and a list of choices" : NULL;
  while (*p++ && *p) {
    if (s->given == room) return "too many choices";
    if ((p = deviation(p, &s->list[s->given])) == NULL || (*p && *p != ',')) return "choices look like 1.4=2,3.7+1";
    s->given++;
  }
  sort(s->list, s->given);
  return NULL;
}

void mr_replay_text(const mr_deviation *d, char text[64]) {
  snprintf(text, 64, "%llu.%u%c%llu", (unsigned long long)d->unit, d->point, (int)d->kind, (unsigned long long)d->value);
}

/* ---- how much of a read or a write ---- */

/* A byte, all but one, or anything. */
static size_t draw_cut(size_t n) {
  if (r.cuts == 0 || cut_below(r.cut_odds)) return n;
  if (r.cuts != UINT32_MAX) r.cuts--;
  switch (cut_below(3)) {
    case 0: return 1;
    case 1: return n - 1;
    default: return 1 + cut_below((unsigned)(n - 1));
  }
}

/* It is a point of the unit's, but none at which others could go on: that is when its operation is over. */
static size_t cut(size_t n) {
  uint32_t point = ++unit_of(r.last)->point;
  size_t k = r.strategy == FOLLOW ? (size_t)listed(REPLAY_CUT, point, n) : draw_cut(n);
  if (k == 0 || k >= n) return n;
  note(REPLAY_CUT, point, k);
  return k;
}

/* ---- start and end ---- */

void mr_replay_begin(mr_schedule *s) {
  mr_replay_on = 1;
  r.s = s;
  s->made = s->points = 0;
  r.lowest = UINT64_C(1) << 62;
  if (!r.unit) r.unit = port_pages_reserve(UNITS * sizeof *r.unit, 4096);
  if (!r.unit) r.unit = calloc(UNITS, sizeof *r.unit);
  if (!r.unit) abort();
  port_virtual_seed(s->seed);
  choose_strategy();
  choose_cuts();
  port_sim_begin(cut);
}

void mr_replay_go(void) {
  if (!mr_replay_on) return;
  atomic_store(&gone_on, 1);
  port_event_set(&go);
}

void mr_replay_over(void) {
  if (!mr_replay_on) return;
  port_virtual_end();
  mr_replay_go();
}

/* ---- who is ready ---- */

static void add(mr_fiber *f) {
  if (r.n == r.size) {
    unsigned size = r.size ? r.size * 2 : 4096;
    mr_fiber **more = realloc(r.ready, size * sizeof *more);
    if (!more) abort();                /* without it there is no run to be repeated */
    r.ready = more;
    r.size = size;
  }
  r.ready[r.n++] = f;
}

/* What is due first, as it would be first in a queue; then who waited longest. */
static void gather(mr_worker *w) {
  mr_fiber *f;
  while (port_sim_news) mr_poll(w, 0);
  mr_fire_due(w, 0);
  while ((f = mr_queue_take(&w->queue)) != NULL) add(f);
  while ((f = mr_queue_take(&mr_rt.queue)) != NULL) add(f);
  for (int level = 0; level < NLEVELS; level++)
    while ((f = mr_share_pop(level)) != NULL) add(f);
  if ((f = atomic_exchange(&w->slot, NULL)) == NULL) return;
  mr_fiber_taken(f);
  add(f);
}

static mr_fiber *take(unsigned i) {
  mr_fiber *f = r.ready[i];
  r.n--;
  for (; i < r.n; i++) r.ready[i] = r.ready[i + 1];
  return f;
}

/* The unit of who sleeps and is due first, if that is neither ready nor runs; else NONE. A wait with a limit is no sleep. */
static uint64_t asleep(int may_stay) {
  mr_fiber *f = NULL;
  port_acquire(&mr_rt.tlock);
  mr_timer *t = mr_rt.ntimers && mr_rt.timer[1]->due - port_now() <= SOON ? mr_rt.timer[1] : NULL;
  if (t && t->kind == TIMER_CLOCK) {
    const mr_wait *w = ((mr_clock *)(void *)((char *)t - offsetof(mr_clock, timer)))->waiters.next;
    f = w->set ? w->set->fiber : w->fiber;
  } else if (t) {
    f = (mr_fiber *)(void *)((char *)t - offsetof(mr_fiber, timer));
    if (!f->op || strcmp(f->op, "sleep") != 0) f = NULL;
  }
  port_unlock(&mr_rt.tlock);
  if (!f || (may_stay && f->job->id == r.last)) return NONE;
  for (unsigned i = 0; i < r.n; i++)
    if (r.ready[i]->job == f->job) return NONE;
  return f->job->id;
}

static int place_of(uint64_t id, int otherwise) {
  for (unsigned i = 0; i < r.n; i++)
    if (r.ready[i]->job->id == id) return (int)i;
  return otherwise;
}

/* ---- choosing: a place in the row, or STAYS ---- */

enum { STAYS = -1 };

static void fall_behind(uint64_t id) { unit_of(id)->priority = --r.lowest; }

static int is_change(void) {
  for (int i = 0; i < r.changes; i++)
    if (r.change[i] == r.s->points) return 1;
  return 0;
}

static int by_priority(int may_stay) {
  int best = may_stay ? STAYS : 0;
  if (is_change()) fall_behind(r.last);
  uint64_t highest = may_stay ? unit_of(r.last)->priority : 0;
  for (unsigned i = 0; i < r.n; i++) {
    uint64_t p = unit_of(r.ready[i]->job->id)->priority;
    if (p <= highest) continue;
    highest = p;
    best = (int)i;
  }
  return best;
}

static int by_strategy(int may_stay) {
  int usual = may_stay ? STAYS : 0;
  switch (r.strategy) {
    case PRIORITIES: return by_priority(may_stay);
    case FEW: return is_change() ? (int)below(r.n) : usual;
    default: return may_stay && below((unsigned)r.odds) ? STAYS : (int)below(r.n);
  }
}

/* Time passes until the first timer: then the sleeper is ready. */
static int wake(mr_worker *w, uint64_t id, int otherwise) {
  port_virtual_until(atomic_load(&mr_rt.next_due));
  gather(w);
  return place_of(id, otherwise);
}

/* Somebody is ready, or sleeps, or who runs may stay. */
static int choose(mr_worker *w, uint32_t point, int may_stay) {
  int usual = may_stay ? STAYS : 0, i;
  if (r.strategy == FOLLOW) {
    uint64_t id = listed(REPLAY_NEXT, point, NONE);
    i = id == NONE || (may_stay && id == r.last) ? usual : place_of(id, usual);
    if (i == usual && id != NONE && id == asleep(may_stay)) i = wake(w, id, usual);
  } else {
    uint64_t id = r.early ? asleep(may_stay) : NONE;
    if (id != NONE && below(r.early_odds) == 0) {
      r.early--;
      i = wake(w, id, usual);
    } else {
      i = r.n ? by_strategy(may_stay) : STAYS;
    }
  }
  if (i != usual) note(REPLAY_NEXT, point, r.ready[i]->job->id);
  return i;
}

static uint32_t next_point(void) {
  r.s->points++;
  return ++unit_of(r.last)->point;
}

/* ---- points ---- */

/* At one of its own: it goes on unless somebody else is chosen, or others have waited for very long. */
static int switches(mr_fiber *f, int may_switch) {
  uint32_t point = next_point();
  if (!may_switch) return 0;
  mr_worker *w = f->thread->worker;
  gather(w);
  int over = ++r.row >= LONG_ROW && r.n > 0;
  if (over && r.strategy == PRIORITIES) fall_behind(r.last);
  int i = choose(w, point, !over);
  if (i == STAYS) return 0;
  r.chosen = take((unsigned)i);
  return 1;
}

int mr_replay_point(mr_fiber *f, int may_switch) {
  r.instructions = 0;
  if (!r.looked) {
    port_virtual_seen();
    port_virtual_pass(OPERATION);
  }
  r.looked = 0;
  return switches(f, may_switch);
}

int mr_replay_tick(mr_fiber *f, unsigned instructions) {
  port_virtual_pass((uint64_t)instructions * TICK);
  if ((r.instructions += instructions) < LOOP) return 0;
  r.instructions = 0;
  r.row = LONG_ROW;
  return switches(f, 1);
}

char *mr_replay_place(void) { return PORT_UNLIKELY(r.s->places) ? r.place : NULL; }

void mr_replay_look(void) {
  port_virtual_look();
  r.looked = 1;
}

void mr_replay_yields(void) {
  port_virtual_look();
  r.gone = 1;
}

unsigned mr_replay_case(unsigned n) {
  uint32_t point = next_point();
  if (n < 2) return 0;
  uint64_t i = r.strategy == FOLLOW ? listed(REPLAY_CASE, point, 0) : below(n);
  if (i >= n) i = 0;
  if (i) note(REPLAY_CASE, point, i);
  return (unsigned)i;
}

int mr_replay_workers(int n) {
  static int workers = 4;
  if (n > 0) workers = n < MR_MAX_WORKERS ? n : MR_MAX_WORKERS;
  return workers;
}

/* ---- the scheduler asks ---- */

static mr_fiber *runs(mr_fiber *f) {
  if (f->job->id != r.last) {
    r.row = r.instructions = 0;
    r.place[0] = 0;
  }
  r.last = f->job->id;
  r.gone = 0;
  port_virtual_stream(&unit_of(r.last)->stream);
  return f;
}

mr_fiber *mr_replay_find(mr_thread *t, mr_worker *w) {
  (void)t;
  while (!atomic_load(&gone_on)) port_event_wait(&go, UINT64_MAX);
  gather(w);
  if (r.chosen) {
    mr_fiber *f = r.chosen;
    r.chosen = NULL;
    return runs(f);
  }
  if (r.n == 0) return NULL;
  if (r.gone && r.strategy == PRIORITIES) fall_behind(r.last);
  if (!r.gone) port_virtual_seen();
  uint32_t point = next_point();
  return runs(take((unsigned)choose(w, point, 0)));
}

int mr_replay_idle(void) {
  uint64_t due = atomic_load(&mr_rt.next_due);
  if (due == UINT64_MAX) return 0;
  port_virtual_until(due);
  return 1;
}
