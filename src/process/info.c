/*
 * info: see info.h.
 *
 * Whoever is listed (a shard's lock held) has a record; of that only atomics and what never changes are read. What a thread runs is known by the
 * address of its fiber, which is compared and never followed.
 */
#include "process/info.h"
#include "process/control.h"
#include "process/rt.h"

#include <stdlib.h>

#define READ(a) atomic_load_explicit(&(a), memory_order_relaxed)

enum { RUNNING_MOST = 512 };
typedef struct { unsigned n; mr_running_fiber at[RUNNING_MOST]; } running;

/* ---- one ---- */

/* As many bytes of the name as fit, and no half of a character. */
static void copy_name(char *to, const char *name) {
  size_t n = strlen(name);
  if (n >= MR_INFO_NAME) {
    n = MR_INFO_NAME - 1;
    while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80) n--;
  }
  memcpy(to, name, n);
  to[n] = 0;
}

static void match(const mr_fiber *f, const running *r, mr_info *out) {
  for (unsigned i = 0; i < r->n; i++) {
    if (r->at[i].fiber != f) continue;
    out->cpu += r->at[i].ns;
    out->worker = r->at[i].worker;
  }
}

typedef struct { const running *r; mr_info *out; } of_crew;

/* (crew's lock) */
static void see_fiber(mr_fiber *f, void *ud) {
  of_crew *o = ud;
  o->out->fibers++;
  unsigned state = READ(f->state);
  if (!o->out->waits && (state == FIBER_PARKED || state == FIBER_PARKING)) o->out->waits = mr_fiber_op(f);   /* a host stays PARKING */
  match(f, o->r, o->out);
}

static void see_fibers(mr_proc *p, const running *r, mr_info *out) {
  of_crew o = { r, out };
  out->status = mr_status_with(p, mr_crew_each(&p->job, see_fiber, &o));
  if (out->status[0] != 'w') out->waits = NULL;  /* not "waiting" */
}

static void see(mr_proc *p, const running *r, mr_info *out) {
  *out = (mr_info){ .id = p->job.id, .parent = p->parent, .owner = mr_owner_id(p), .cpu = READ(p->job.cpu),
                    .heap = READ(p->held), .sent = READ(p->sent), .received = READ(p->received), .restarts = READ(p->restarts), .worker = -1,
                    .kind = p->kind, .level = (unsigned char)mr_fiber_level(&p->main.fiber), .named = p->name != NULL };
  if (p->name) copy_name(out->name, p->name);
  if (READ(p->status) >= PROC_DONE) {
    out->status = mr_status_with(p, -1);
    return;
  }
  if (p->kind == PROC_HOST) out->cpu = port_thread_cpu(&p->main.fiber.thread->host);
  see_fibers(p, r, out);
}

static void find_running(running *r) { r->n = mr_running(r->at, RUNNING_MOST); }

void mr_proc_info(mr_proc *p, mr_info *out) {
  running r;
  find_running(&r);
  see(p, &r, out);
}

/* ---- all ---- */

typedef struct { mr_infos *all; size_t size; const running *r; int keep; } collection;

/* A failed one may have lost its last handle: it waits for the shard's lock to be taken out. NULL then. */
static mr_proc *retained(mr_proc *p) {
  size_t n = atomic_load(&p->shared.refs);
  while (n > 0 && !atomic_compare_exchange_weak(&p->shared.refs, &n, n + 1)) { }
  return n > 0 ? p : NULL;
}

static void drop_from(mr_infos *all, size_t from) {
  for (size_t i = from; i < all->n; i++)
    if (all->at[i].proc) mr_release(&all->at[i].proc->shared);
  all->n = from;
}

/* What is read of a record lies in several cache lines, and where the next one is stands in the last of them. */
static void prefetch(const mr_proc *p) {
  PORT_PREFETCH(&p->job.id);
  PORT_PREFETCH(&p->job.cpu);
  PORT_PREFETCH(&p->held);
  PORT_PREFETCH(&p->main.fiber.state);
  PORT_PREFETCH(&p->main.fiber.op);
  PORT_PREFETCH(&p->main.fiber.crew);
  PORT_PREFETCH(&p->main.fiber.level);
  PORT_PREFETCH(&p->status);
  PORT_PREFETCH(&p->name);
  PORT_PREFETCH(&p->parent);
  PORT_PREFETCH(&p->live_next);
}

/* (shard's lock, or that of the hosts) */
static void collect(mr_proc *p, void *ud) {
  collection *c = ud;
  if (p->kind != PROC_HOST) prefetch(p->live_next);   /* hosts are walked otherwise */
  if (c->all->n < c->size) {
    see(p, c->r, &c->all->at[c->all->n]);
    if (c->keep) c->all->at[c->all->n].proc = retained(p);
  }
  c->all->n++;
}

/* Of a long list much of the time would be faults: some large pages instead of thousands of small ones. */
static void advise(void *at, size_t size) {
  const uintptr_t page = (uintptr_t)2 << 20;
  uintptr_t begin = ((uintptr_t)at + page - 1) & ~(page - 1), end = ((uintptr_t)at + size) & ~(page - 1);
  if (begin < end) port_pages_huge((char *)at + (begin - (uintptr_t)at), end - begin);
}

/* Under no lock: room for `more` and some. */
static int make_room(collection *c, size_t more) {
  size_t want = c->all->n + more + more / 8 + 16;
  if (want <= c->size) return 1;
  want += want / 2;
  mr_info *at = mr_pool_failing() ? NULL : realloc(c->all->at, want * sizeof *at);
  if (!at) return 0;
  advise(at, want * sizeof *at);
  c->all->at = at;
  c->size = want;
  return 1;
}

typedef void walk(int i, void (*fn)(mr_proc *p, void *ud), void *ud);

/* A part that has grown since there was made room for it is read anew. */
static int part(collection *c, walk *walk, int i) {
  size_t before = c->all->n, count = 0;
  for (;;) {
    if (!make_room(c, count)) return 0;
    walk(i, collect, c);
    if (c->all->n <= c->size) return 1;
    count = c->all->n - before;
    c->all->n = c->size;
    drop_from(c->all, before);
  }
}

static void walk_hosts(int i, void (*fn)(mr_proc *p, void *ud), void *ud) {
  (void)i;
  mr_hosts_each(fn, ud);
}

int mr_proc_infos(mr_infos *out, int keep) {
  running r;
  *out = (mr_infos){ NULL, 0 };
  collection c = { out, 0, &r, keep };
  find_running(&r);
  int ok = make_room(&c, mr_proc_count()) && part(&c, walk_hosts, 0);
  for (int i = 0; ok && i < MR_SHARDS; i++) ok = part(&c, mr_shard_each, i);
  if (ok) return MR_OK;
  mr_infos_free(out);
  return MR_ENOMEM;
}

void mr_infos_free(mr_infos *all) {
  drop_from(all, 0);
  free(all->at);
  *all = (mr_infos){ NULL, 0 };
}

typedef struct { uint64_t id; mr_proc *found; } search;

static void find(mr_proc *p, void *ud) {
  search *s = ud;
  if (p->job.id != s->id || s->found) return;
  s->found = retained(p);
}

mr_proc *mr_proc_by_id(uint64_t id) {
  search s = { id, NULL };
  if (id == 0) return NULL;
  mr_shard_each((int)(id % MR_SHARDS), find, &s);
  if (!s.found) mr_hosts_each(find, &s);
  return s.found;
}

/* ---- totals ---- */

static void add(mr_proc *p, void *ud) {
  mr_totals *t = ud;
  t->sent += READ(p->sent);
  t->received += READ(p->received);
  t->cpu += READ(p->job.cpu);
}

void mr_totals_get(mr_totals *out) {
  mr_worker_load load[MR_MAX_WORKERS];
  running r;
  *out = (mr_totals){ .up = mr_run_up(), .processes = mr_proc_count(), .workers = (unsigned)mr_workers_get(), .ended = READ(mr_all.ended), .failed = READ(mr_all.failed), .memory = mr_pool_reserved() };
  mr_run_count(&out->threads, &out->blocked, &out->hosts);
  for (int i = 0; i < MR_SHARDS; i++) mr_shard_totals(i, add, out);
  mr_hosts_each(add, out);
  find_running(&r);
  for (unsigned i = 0; i < r.n; i++) out->cpu += r.at[i].ns;
  for (unsigned i = 0, n = mr_worker_loads(load, MR_MAX_WORKERS); i < n; i++) {
    out->dispatches += load[i].dispatches;
    out->steals += load[i].steals;
    out->busy += load[i].busy;
  }
}
