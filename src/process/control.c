/* control: see control.h. */
#include "base/show.h"
#include "process/control.h"
#include "process/rt.h"
#include "run/crew.h"

#include <stdio.h>
#include <stdlib.h>

/* One end of a bond: its place in the list of `of`. */
typedef struct end { struct end *next, *prev; mr_proc *of; struct bond *bond; } end;

/* The first end is that of who has made the link, or of the owner. */
typedef struct bond { end end[2]; int kind; struct bond *next; } bond;

struct mr_control {
  end bonds;                                   /* (control lock) head of a circular list of places of this process */
  mr_shared *trap;                             /* (control lock) counted, or NULL */
  unsigned char over;                          /* (control lock) no bond is made any more */
  atomic_uchar orphan;                         /* its owner has ended */
  _Atomic uint64_t owner;                      /* (control lock to write) the id of the owner; 0: none */
  _Atomic(mr_why *) why;
};

static port_lock lock;

typedef struct mr_control mr_control;

static mr_control *control_of(mr_proc *p) {
  mr_control *c = atomic_load(&p->control), *other = NULL;
  if (c || (c = calloc(1, sizeof *c)) == NULL) return c;
  c->bonds.next = c->bonds.prev = &c->bonds;
  if (atomic_compare_exchange_strong(&p->control, &other, c)) return c;
  free(c);
  return other;
}

int mr_control_ready(mr_proc *p) { return control_of(p) != NULL; }

/* ---- why ---- */

/* Of who was asked without a reason: it counts as the first all the same. */
static mr_why no_reason = { .kind = WHY_CANCELLED };

mr_why *mr_why_new(int kind) {
  mr_why *w = calloc(1, sizeof *w);
  if (w) w->kind = (unsigned char)kind;
  return w;
}

void mr_why_free(mr_why *w) {
  if (!w || w == &no_reason) return;
  mr_mail_drop(&w->reason);
  if (w->dead) mr_release(&w->dead->shared);
  free(w);
}

static const mr_why *why_of(mr_proc *p) {
  mr_control *c = atomic_load(&p->control);
  return c ? atomic_load(&c->why) : NULL;
}

static void cause_of(mr_proc *p, int killed, mr_cause *c) {
  const mr_why *w = killed ? NULL : why_of(p);
  c->proc = p;
  c->why = w;
  c->kind = killed ? "killed" : w && w->kind == WHY_LINKED ? "linked" : "cancelled";
  c->message = killed                      ? "the process was killed"
               : !w                        ? mr_err_text(MR_ENDING)
               : w->kind == WHY_LINKED     ? "a linked process failed"
               : w->kind == WHY_OWNER      ? "the owner of the process has ended"
                                           : mr_err_text(MR_ENDING);
}

void mr_cause_of_fiber(mr_fiber *f, mr_cause *c) {
  unsigned ends = mr_job_ends(f->job);
  if (ends) {
    cause_of(mr_proc_of(f), ends == JOB_KILLED, c);
  } else {
    c->proc = mr_proc_of(f);
    c->why = NULL;
    c->kind = "cancelled";
    c->message = mr_err_text(!f->cancelled && f->crew->ending == CREW_FAILED ? MR_EENDED : MR_ECANCELLED);
  }
  c->fiber = f;
  c->raised = 1;
}

void mr_cause_of_process(mr_proc *p, mr_cause *c) {
  cause_of(p, p->result.n == JOB_KILLED, c);
  c->fiber = NULL;
  c->raised = 0;
}

/* Before the process is asked: who learns that it is to end finds the reason. */
int mr_cancel(mr_proc *p, mr_why *why, mr_fiber *near) {
  if (p->job.host || mr_job_ends(&p->job) == JOB_OVER) {         /* a host's thread is not ours */
    mr_why_free(why);
    return 0;
  }
  mr_control *c = control_of(p);
  mr_why *none = NULL;
  if (c && !why) why = &no_reason;
  if (!c || !atomic_compare_exchange_strong(&c->why, &none, why)) mr_why_free(why);
  return mr_job_end(&p->job, JOB_CANCELLED, near);
}

int mr_kill(mr_proc *p, mr_fiber *near) { return mr_job_end(&p->job, JOB_KILLED, near); }

/* ---- who does not hear it ---- */

#define DEAF_AFTER 5000000000u       /* ns */

/* Whose owner has ended has nobody left to see to it: it is killed when it has had the usual grace, and a second, however it was asked before. */
#define ORPHAN_AFTER (DEAF_AFTER + 1000000000u)

enum { DEAF_MOST = 8, ORPHANS = 64 };
typedef struct { uint64_t now; int n, norphans; char line[DEAF_MOST][256]; mr_proc *orphan[ORPHANS]; } deaf_report;

int mr_orphaned(mr_proc *p) {
  mr_control *c = atomic_load(&p->control);
  return c && atomic_load(&c->orphan);
}

/* (its shard's lock) Nothing is written here. */
static void look_for_deaf(mr_proc *p, void *ud) {
  deaf_report *r = ud;
  char name[64];
  unsigned ends = mr_job_ends(&p->job);
  uint64_t asked = atomic_load(&p->job.asked);
  if (ends == JOB_CANCELLED && asked && r->now - asked >= ORPHAN_AFTER && r->norphans < ORPHANS && mr_orphaned(p)) {
    mr_retain(&p->shared);
    r->orphan[r->norphans++] = p;
  }
  if (ends == 0 || ends == JOB_OVER || r->n == DEAF_MOST) return;
  if (asked == 0 || r->now - asked < DEAF_AFTER || mr_job_busy(&p->job) != JOB_RUNS) {
    mr_ending_heard(p);
    return;
  }
  unsigned char was = DEAF_NO;
  if (atomic_compare_exchange_strong(&p->deaf, &was, DEAF_ASKED) || was != DEAF_ASKED) return;
  if (!atomic_compare_exchange_strong(&p->deaf, &was, DEAF_REPORTED)) return;
  snprintf(r->line[r->n++], sizeof r->line[0],
           "mare: process #%llu%s%s%s was %s %u seconds ago, but is still in a finaliser, a debug hook or a C function, where nothing can end it\n",
           (unsigned long long)p->job.id, p->name ? " '" : "", p->name ? mr_show(name, sizeof name, p->name) : "", p->name ? "'" : "", ends == JOB_KILLED ? "killed" : "cancelled",
           (unsigned)((r->now - asked) / 1000000000u));
}

void mr_ending_report(void) {
  static deaf_report r;                          /* the monitor's */
  r.now = port_now();
  r.n = r.norphans = 0;
  mr_proc_each(look_for_deaf, &r);
  for (int i = 0; i < r.norphans; i++) {
    mr_kill(r.orphan[i], NULL);
    mr_release(&r.orphan[i]->shared);
  }
  for (int i = 0; i < r.n; i++) mr_proc_says(NULL, r.line[i]);
}

/* ---- bonds (control lock) ---- */

static mr_proc *other_of(const end *e) { return e == &e->bond->end[0] ? e->bond->end[1].of : e->bond->end[0].of; }

static void enlist(bond *b, int at, mr_proc *p) {
  end *e = &b->end[at], *head = &atomic_load(&p->control)->bonds;
  e->bond = b;
  e->of = p;
  e->next = head;
  e->prev = head->prev;
  head->prev->next = e;
  head->prev = e;
}

/* b, an ownership, begins or ends. */
static void owned_by(bond *b, const mr_proc *owner) {
  if (b->kind != TIE_OWNED) return;
  atomic_store_explicit(&atomic_load(&b->end[1].of->control)->owner, owner ? owner->job.id : 0, memory_order_relaxed);
}

static void delist(end *e) {
  e->next->prev = e->prev;
  e->prev->next = e->next;
}

static int over(mr_proc *p) { return atomic_load(&p->control)->over || atomic_load(&p->status) >= PROC_DONE; }

#ifdef MR_CHECKS
enum { LOOKED_AT = 100 };
/* What control.h promises of p's bonds, and of who is at their other ends. */
static void check_bonds(mr_proc *p) {
  mr_control *c = atomic_load(&p->control);
  const end *head = &c->bonds, *e = head;
  unsigned owners = 0;
  mr_assert_locked(&lock);
  mr_assert(!c->over || head->next == head);
  for (int n = 0; n < LOOKED_AT && (e = e->next) != head; n++) {
    const bond *b = e->bond;
    const end *its = e == &b->end[0] ? &b->end[1] : &b->end[0];
    mr_assert(e->of == p && (e == &b->end[0] || e == &b->end[1]) && e->prev->next == e && e->next->prev == e);
    mr_assert(its->of != p && its->bond == b && its->prev->next == its && its->next->prev == its);
    mr_assert(!atomic_load(&its->of->control)->over && (b->kind == TIE_LINKED || b->kind == TIE_OWNED));
    owners += b->kind == TIE_OWNED && e == &b->end[1];
  }
  mr_assert(owners <= 1);
}
#endif

static int fits(const end *e, const mr_proc *other, int kind, int at) {
  return e->bond->kind == kind && (!other || other_of(e) == other) && (at < 0 || e == &e->bond->end[at]);
}

/*
 * Of p: the bond of that kind with `with` (NULL: with anybody) in which p is at end `at` (-1: either). Both lists are walked side by side, and the
 * shorter one decides: a process may have a hundred thousand bonds with others that have one.
 */
static bond *find(mr_proc *p, mr_proc *with, int kind, int at) {
  mr_control *its = with ? atomic_load(&with->control) : NULL;
  if (with && !its) return NULL;
  end *head = &atomic_load(&p->control)->bonds, *tail = its ? &its->bonds : NULL;
  for (end *e = head->next, *g = tail ? tail->next : NULL; e != head && (!g || g != tail); e = e->next, g = g ? g->next : NULL) {
    if (fits(e, with, kind, at)) return e->bond;
    if (g && fits(g, p, kind, at < 0 ? -1 : 1 - at)) return g->bond;
  }
  return NULL;
}

static int tie(bond *b, mr_proc *p, mr_proc *q, int kind) {
  if (over(p) || over(q)) return MR_ECLOSED;
  if (kind == TIE_LINKED && find(p, q, kind, -1)) return MR_EOWNED;
  if (kind == TIE_OWNED && find(q, NULL, kind, 1)) return MR_EOWNED;
  b->kind = kind;
  enlist(b, 0, p);
  enlist(b, 1, q);
  owned_by(b, p);
  MR_CHECK_SOME(4, check_bonds(p));
  MR_CHECK_SOME(4, check_bonds(q));
  return MR_OK;
}

/* ---- tying ---- */

int mr_tie(mr_proc *a, mr_proc *b, int kind) {
  bond *made = control_of(a) && control_of(b) ? malloc(sizeof *made) : NULL;
  if (!made) return MR_ENOMEM;
  port_acquire(&lock);
  int err = tie(made, a, b, kind);
  port_unlock(&lock);
  if (err) free(made);
  return err == MR_EOWNED && kind == TIE_LINKED ? MR_OK : err;   /* linked already: nothing to do */
}

int mr_untie(mr_proc *a, mr_proc *b, int kind) {
  if (!atomic_load(&a->control)) return 0;
  port_acquire(&lock);
  bond *found = find(a, b, kind, kind == TIE_OWNED ? 0 : -1);
  if (found) delist(&found->end[0]), delist(&found->end[1]), owned_by(found, NULL);
  port_unlock(&lock);
  free(found);
  return found != NULL;
}

int mr_give(mr_proc *a, mr_proc *b, mr_proc *to) {
  if (!atomic_load(&a->control)) return MR_EOWNED;
  if (!control_of(to)) return MR_ENOMEM;
  int err = MR_EOWNED;
  port_acquire(&lock);
  bond *found = find(a, b, TIE_OWNED, 0);
  if (!found && atomic_load(&b->control) && over(b)) err = MR_OK;       /* it has ended in between: nobody owns it */
  if (found && (err = over(to) ? MR_ECLOSED : MR_OK) == MR_OK) {
    delist(&found->end[0]);
    enlist(found, 0, to);
    owned_by(found, to);
    MR_CHECK_SOME(2, check_bonds(to));
  }
  port_unlock(&lock);
  return err;
}

mr_proc *mr_owner(mr_proc *p) {
  if (!atomic_load(&p->control)) return NULL;
  port_acquire(&lock);
  bond *found = find(p, NULL, TIE_OWNED, 1);
  mr_proc *owner = found ? found->end[0].of : NULL;
  if (owner && atomic_load(&owner->status) >= PROC_DONE) {
    /* Its end is published; mr_control_ended has yet to come here. Who has learnt of that end must find it so. */
    atomic_store(&atomic_load(&p->control)->orphan, 1);
    owner = NULL;
  }
  if (owner) mr_retain(&owner->shared);
  port_unlock(&lock);
  return owner;
}

uint64_t mr_owner_id(mr_proc *p) {
  mr_control *c = atomic_load_explicit(&p->control, memory_order_acquire);
  return c ? atomic_load_explicit(&c->owner, memory_order_relaxed) : 0;
}

size_t mr_links(mr_proc *p, uint64_t *ids, size_t most) {
  mr_control *c = atomic_load(&p->control);
  size_t n = 0;
  if (!c) return 0;
  port_acquire(&lock);
  for (end *e = c->bonds.next; e != &c->bonds; e = e->next) {
    if (e->bond->kind != TIE_LINKED) continue;
    if (n < most) ids[n] = other_of(e)->job.id;
    n++;
  }
  port_unlock(&lock);
  return n;
}

int mr_trap(mr_proc *p, mr_shared *channel, mr_shared **now) {
  mr_control *c = control_of(p);
  if (c) {
    port_acquire(&lock);
    if (!c->trap) mr_retain(c->trap = channel);
    mr_retain(*now = c->trap);
    port_unlock(&lock);
  }
  mr_release(channel);
  return c ? MR_OK : MR_ENOMEM;
}

int mr_trapping(mr_proc *p) {
  mr_control *c = atomic_load(&p->control);
  return c && c->trap;
}

int mr_control_born(mr_proc *p, mr_proc *parent, unsigned ties) {
  int err = ties & TIE_LINKED ? mr_tie(parent, p, TIE_LINKED) : MR_OK;
  if (!err && (ties & TIE_OWNED)) err = mr_tie(parent, p, TIE_OWNED);
  if (err && (ties & TIE_LINKED)) mr_untie(parent, p, TIE_LINKED);
  return err;
}

/* ---- the end ---- */

static void fail_with(mr_proc *q, mr_proc *p, int kind, mr_fiber *near) {
  mr_why *why = mr_why_new(kind);
  const mr_why *its = why_of(p);
  if (why && kind == WHY_LINKED) {
    /* the first that failed of a row of linked ones, so that each learns of that */
    why->dead = p->result.kind == MAIL_ENDED && its && its->kind == WHY_LINKED ? its->dead : p;
    mr_retain(&why->dead->shared);
  }
  mr_cancel(q, why, near);
}

static mr_shared *trap_of(mr_proc *p) {
  mr_control *c = atomic_load(&p->control);
  if (!c) return NULL;
  port_acquire(&lock);
  mr_shared *trap = c->trap;
  if (trap) mr_retain(trap);
  port_unlock(&lock);
  return trap;
}

/* q, counted, was linked to p, which is over. */
static void tell_linked(mr_proc *q, mr_proc *p, int failed, mr_fiber *near) {
  mr_shared *trap = trap_of(q);
  mr_message *m = trap ? mr_message_of(&p->shared) : NULL;
  /* without memory for the message it is as if q did not trap: a failure must not go unnoticed */
  int told = m && mr_hooks.post(trap, m, near) == MR_OK;
  if (trap) mr_release(trap);
  if (!told && (failed || trap)) fail_with(q, p, WHY_LINKED, near);
}

void mr_tell_over(mr_proc *q, mr_proc *p, mr_fiber *near) {
  if (atomic_load(&p->status) >= PROC_DONE) tell_linked(q, p, atomic_load(&p->status) == PROC_FAILED, near);
}

void mr_control_ended(mr_proc *p, int failed, mr_fiber *near) {
  mr_control *c = atomic_load(&p->control);
  if (PORT_LIKELY(!c)) return;
  bond *all = NULL;
  port_acquire(&lock);
  MR_CHECK_SOME(4, check_bonds(p));
  c->over = 1;
  while (c->bonds.next != &c->bonds) {
    bond *b = c->bonds.next->bond;
    delist(&b->end[0]);
    delist(&b->end[1]);
    owned_by(b, NULL);
    mr_retain(&(b->end[0].of == p ? b->end[1].of : b->end[0].of)->shared);
    if (b->kind == TIE_OWNED && b->end[0].of == p) atomic_store(&atomic_load(&b->end[1].of->control)->orphan, 1);
    b->next = all;
    all = b;
  }
  mr_shared *trap = c->trap;
  c->trap = NULL;
  port_unlock(&lock);
  if (trap) mr_release(trap);
  while (all) {
    bond *b = all;
    mr_proc *q = b->end[0].of == p ? b->end[1].of : b->end[0].of;
    all = b->next;
    if (b->kind == TIE_LINKED) tell_linked(q, p, failed, near);
    else if (b->end[0].of == p) fail_with(q, p, WHY_OWNER, near);
    mr_release(&q->shared);
    free(b);
  }
}

/* Nobody is told. */
void mr_control_forget(mr_proc *p) {
  mr_control *c = atomic_load(&p->control);
  if (!c) return;
  port_acquire(&lock);
  c->over = 1;
  while (c->bonds.next != &c->bonds) {
    bond *b = c->bonds.next->bond;
    delist(&b->end[0]);
    delist(&b->end[1]);
    owned_by(b, NULL);
    free(b);
  }
  port_unlock(&lock);
}

void mr_control_free(mr_proc *p) {
  mr_control *c = atomic_load(&p->control);
  if (!c) return;
  mr_why_free(atomic_load(&c->why));
  free(c);
}
