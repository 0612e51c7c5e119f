/* collective: the rounds; see collective.h for the invariants. */
#include "channel/collective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const mr_sharetype *mr_member_type;
const char *const mr_call_names[CALLS] = { "barrier", "broadcast", "scatter", "gather", "allgather", "alltoall", "reduce", "allreduce", "scan", "exscan" };

typedef struct place {
  mr_given given;
  mr_given *list;                    /* owned, one for each member; NULL: none */
  int level;                         /* of the whole subtree that waits here for its neighbour; -1: none */
} place;

typedef struct places { place *at; mr_given result; int taken; } places;

struct mr_comm {
  atomic_size_t refs;                /* one per member */
  port_lock lock;
  int n, arrived;
  unsigned round;
  mr_call call;                      /* of this round, once somebody is there */
  int first;                         /* who was it */
  unsigned char failed;
  mr_wait waiters;                   /* head */
  places set[2];
  mr_numbers **spare;                /* owned: `nspare` blocks for the next round, of n at most */
  int nspare;
  char text[300];                    /* why it has failed, and because of whom */
  int culprit;
};

/* ---- birth and end ---- */

static void comm_free(mr_comm *c) {
  for (int s = 0; s < 2; s++) {
    for (int i = 0; c->set[s].at && i < c->n; i++) {
      place *p = &c->set[s].at[i];
      mr_given_drop(&p->given);
      for (int j = 0; p->list && j < c->n; j++) mr_given_drop(&p->list[j]);
      free(p->list);
    }
    mr_given_drop(&c->set[s].result);
    free(c->set[s].at);
  }
  while (c->nspare > 0) free(c->spare[--c->nspare]);
  free(c->spare);
  free(c);
}

static mr_comm *comm_new(int n) {
  mr_comm *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->n = n;
  mr_waitq_init(&c->waiters);
  c->spare = calloc((size_t)n, sizeof *c->spare);
  for (int s = 0; s < 2; s++)
    if ((c->set[s].at = calloc((size_t)n, sizeof(place))) != NULL)
      for (int i = 0; i < n; i++) c->set[s].at[i].level = -1;
  if (c->spare && c->set[0].at && c->set[1].at) return c;
  comm_free(c);
  return NULL;
}

static mr_member *member_new(mr_comm *c, int rank) {
  mr_member *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->base.shared.type = mr_member_type;
  atomic_init(&m->base.shared.refs, 1);
  m->comm = c;
  m->rank = rank;
  snprintf(m->who, sizeof m->who, "not in any process");
  return m;
}

int mr_comm_new(int n, mr_member **members) {
  mr_comm *c = comm_new(n);
  int made = 0;
  if (!c) return MR_ENOMEM;
  while (made < n && (members[made] = member_new(c, made)) != NULL) made++;
  if (made < n) {
    while (made > 0) free(members[--made]);
    comm_free(c);
    return MR_ENOMEM;
  }
  atomic_init(&c->refs, (size_t)n);
  return MR_OK;
}

int mr_comm_size(const mr_member *m) { return m->comm->n; }

void mr_member_owner(mr_member *m, const char *who) {
  port_acquire(&m->comm->lock);
  snprintf(m->who, sizeof m->who, "%s", who);
  port_unlock(&m->comm->lock);
}

/* ---- waking ---- */

/* (lock held) Who waits is claimed and put into a list of their own, as such a fiber is in no other. */
static mr_fiber *release(mr_comm *c) {
  mr_fiber *first = NULL, **end = &first;
  while (!mr_waitq_empty(&c->waiters)) {
    mr_wait *w = c->waiters.next;
    mr_waitq_del(w);
    if (!mr_wait_claim(w)) continue;
    w->fiber->next = NULL;
    *end = w->fiber;
    end = &w->fiber->next;
  }
  return first;
}

static void leave(mr_comm *c, mr_fiber *woken, mr_fiber *near) {
  port_unlock(&c->lock);
  while (woken) {
    mr_fiber *f = woken;
    woken = f->next;
    mr_ready(f, MR_WOKEN, near);
  }
}

/* (lock held) The first reason counts. */
static mr_fiber *fail(mr_comm *c, const mr_member *m, const char *text) {
  if (c->failed) return NULL;
  c->failed = 1;
  c->culprit = m->rank;
  snprintf(c->text, sizeof c->text, "%s", text);
  return release(c);
}

/* (lock held) Round `m->round` is over for all, whatever became of the group later. */
static int is_over(const mr_comm *c, const mr_member *m) { return c->round != m->round; }

/* ---- ends of members ---- */

static void describe(const mr_call *k, char *text, size_t size) {
  int rooted = k->what == CALL_BROADCAST || k->what == CALL_SCATTER || k->what == CALL_GATHER || k->what == CALL_REDUCE;
  int n = snprintf(text, size, "%s", mr_call_names[k->what]);
  if (k->fold == FOLD_FUNCTION) n += snprintf(text + n, size - (size_t)n, " by a function");
  else if (k->fold) n += snprintf(text + n, size - (size_t)n, " by '%s'", mr_fold_names[k->fold]);
  if (rooted) snprintf(text + n, size - (size_t)n, " with root %d", k->root + 1);
}

void mr_member_leave(mr_member *m, mr_fiber *near) {
  mr_comm *c = m->comm;
  char text[300], call[64];
  port_acquire(&c->lock);
  if (m->left) {
    port_unlock(&c->lock);
    return;
  }
  m->left = 1;
  int n = snprintf(text, sizeof text, "member %d of %d (%s) has left the group", m->rank + 1, c->n, m->who);
  if (c->arrived) {
    describe(&c->call, call, sizeof call);
    snprintf(text + n, sizeof text - (size_t)n, "; others are in %s", call);
  }
  leave(c, fail(c, m, text), near);
}

void mr_member_dropped(mr_shared *o) { mr_member_leave((mr_member *)(void *)o, NULL); }

void mr_member_destroy(mr_shared *o) {
  mr_member *m = (mr_member *)(void *)o;
  mr_comm *c = m->comm;
  mr_member_leave(m, NULL);
  mr_given_drop(&m->mine);
  mr_given_drop(&m->other);
  free(m);
  if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) comm_free(c);
}

void mr_comm_fail(mr_member *m, const char *text, mr_fiber *near) {
  mr_comm *c = m->comm;
  char whole[300];
  snprintf(whole, sizeof whole, "member %d of %d (%s) %s", m->rank + 1, c->n, m->who, text);
  port_acquire(&c->lock);
  m->busy = 0;
  leave(c, fail(c, m, whole), near);
}

int mr_comm_failure(mr_member *m, char *text, size_t size) {
  port_acquire(&m->comm->lock);
  int culprit = m->comm->culprit;
  snprintf(text, size, "%s", m->comm->text);
  m->busy = 0;
  port_unlock(&m->comm->lock);
  return culprit;
}

/* ---- blocks ---- */

enum { SPARE_LEAST = 4096, SPARE_MOST = 16 << 20 };      /* bytes: smaller ones malloc has at hand, larger ones are not kept */

mr_numbers *mr_comm_numbers(mr_member *m, size_t n, int kind) {
  mr_comm *c = m->comm;
  mr_numbers *a = NULL;
  size_t bytes = mr_numbers_bytes(n, kind);
  if (bytes >= SPARE_LEAST) {
    port_acquire(&c->lock);
    if (c->nspare > 0 && c->spare[c->nspare - 1]->bytes >= bytes) a = c->spare[--c->nspare];
    port_unlock(&c->lock);
  }
  if (!a) return mr_numbers_new(n, kind);
  a->n = n;
  a->kind = (unsigned char)kind;
  return a;
}

/* g goes; its block may be kept. */
static void spare(mr_comm *c, mr_given *g) {
  if (g->kind == GIVEN_NUMBERS && g->u.a->bytes >= SPARE_LEAST && g->u.a->bytes <= SPARE_MOST) {
    mr_numbers *small = NULL;
    port_acquire(&c->lock);
    if (c->nspare == c->n && c->spare[c->n - 1]->bytes < g->u.a->bytes) small = c->spare[--c->nspare];
    if (c->nspare < c->n) {
      c->spare[c->nspare++] = g->u.a;
      g->kind = GIVEN_NOTHING;
    }
    port_unlock(&c->lock);
    free(small);
  }
  mr_given_drop(g);
}

void mr_comm_folded(mr_member *m, mr_given *g) { spare(m->comm, g); }

/* ---- the rounds ---- */

static places *set_of(const mr_member *m) { return &m->comm->set[m->round & 1]; }
mr_given *mr_comm_place(mr_member *m, int rank) { return &set_of(m)->at[rank].given; }
mr_given *mr_comm_list(mr_member *m, int rank) { return set_of(m)->at[rank].list; }
mr_given *mr_comm_result(mr_member *m) { return &set_of(m)->result; }

/* (lock held) */
static mr_fiber *end_round(mr_comm *c) {
  mr_assert(c->arrived == c->n);
  c->arrived = 0;
  c->round++;
  return release(c);
}

/* (lock held) From the subtree that m holds upwards, to where there is something to fold, or to wait for. */
static mr_comm_step climb(mr_comm *c, mr_member *m, mr_fiber **woken) {
  places *set = set_of(m);
  for (;; m->level++) {
    int size = 1 << m->level, other = m->start ^ size;
    if (size >= c->n) {
      set->result = m->mine;
      m->mine.kind = GIVEN_NOTHING;
      *woken = end_round(c);
      return COMM_OVER;
    }
    if (other >= c->n) continue;                 /* there is no neighbour */
    place *p = &set->at[other];
    if (p->level != m->level) {
      p = &set->at[m->start];
      p->given = m->mine;
      p->level = m->level;
      m->mine.kind = GIVEN_NOTHING;
      return COMM_WAIT;
    }
    m->other = p->given;
    p->given.kind = GIVEN_NOTHING;
    p->level = -1;
    return COMM_FOLD;
  }
}

int mr_comm_left(const mr_member *m) { return m->start & (1 << m->level); }

mr_comm_step mr_comm_carry(mr_member *m, mr_fiber *near) {
  mr_comm *c = m->comm;
  mr_fiber *woken = NULL;
  mr_comm_step s = COMM_FAILED;
  port_acquire(&c->lock);
  if (!c->failed) {
    m->start &= ~(1 << m->level);
    m->level++;
    s = climb(c, m, &woken);
  }
  leave(c, woken, near);
  return s;
}

static int same(const mr_call *a, const mr_call *b) { return a->what == b->what && a->fold == b->fold && a->root == b->root; }

/* (lock held) */
static mr_fiber *mismatch(mr_comm *c, const mr_member *m, const mr_call *call) {
  char text[300], mine[64], theirs[64];
  describe(call, mine, sizeof mine);
  describe(&c->call, theirs, sizeof theirs);
  snprintf(text, sizeof text, "member %d of %d called %s, but member %d called %s", m->rank + 1, c->n, mine, c->first + 1, theirs);
  return fail(c, m, text);
}

/* (lock held) */
static mr_comm_step arrive(mr_comm *c, mr_member *m, const mr_call *call, mr_given *given, mr_given *list, mr_fiber **woken) {
  place *p = &set_of(m)->at[m->rank];
  if (c->failed) return COMM_FAILED;
  if (c->arrived == 0) {
    mr_assert(set_of(m)->result.kind == GIVEN_NOTHING && set_of(m)->taken == 0);
    c->call = *call;
    c->first = m->rank;
  } else if (!same(call, &c->call)) {
    *woken = mismatch(c, m, call);
    return COMM_FAILED;
  }
  m->busy = 1;
  m->call = *call;
  c->arrived++;
  p->list = list;
  if (call->what == CALL_REDUCE || call->what == CALL_ALLREDUCE) {
    m->mine = *given;
    m->start = m->rank;
    m->level = 0;
    return climb(c, m, woken);
  }
  p->given = *given;
  if (c->arrived < c->n) return COMM_WAIT;
  if (call->what == CALL_SCAN || call->what == CALL_EXSCAN) return COMM_SCAN;
  *woken = end_round(c);
  return COMM_OVER;
}

mr_comm_step mr_comm_enter(mr_member *m, const mr_call *call, mr_given *given, mr_given *list, mr_fiber *near) {
  mr_comm *c = m->comm;
  mr_fiber *woken = NULL;
  port_acquire(&c->lock);
  mr_comm_step s = arrive(c, m, call, given, list, &woken);
  leave(c, woken, near);
  return s;
}

void mr_comm_finish(mr_member *m, mr_fiber *near) {
  mr_comm *c = m->comm;
  mr_fiber *woken = NULL;
  port_acquire(&c->lock);
  if (!c->failed) woken = end_round(c);
  leave(c, woken, near);
}

mr_comm_step mr_comm_look(mr_member *m, mr_wait *w) {
  mr_comm *c = m->comm;
  port_acquire(&c->lock);
  mr_comm_step s = is_over(c, m) ? COMM_OVER : c->failed ? COMM_FAILED : COMM_WAIT;
  if (s == COMM_WAIT && w) mr_waitq_add(&c->waiters, w);
  port_unlock(&c->lock);
  return s;
}

void mr_comm_unwait(mr_member *m, mr_wait *w) {
  port_acquire(&m->comm->lock);
  mr_waitq_del(w);
  port_unlock(&m->comm->lock);
}

/* All have taken: what is left is theirs no more, and nobody writes here before all have been in the next round. */
static void empty(mr_comm *c, places *set) {
  for (int i = 0; i < c->n; i++) {
    place *p = &set->at[i];
    if (p->given.kind > GIVEN_SCALAR) spare(c, &p->given);
    p->given.kind = GIVEN_NOTHING;
    if (!p->list) continue;
    for (int j = 0; j < c->n; j++) mr_given_drop(&p->list[j]);
    free(p->list);
    p->list = NULL;
  }
  spare(c, &set->result);
}

void mr_comm_took(mr_member *m) {
  mr_comm *c = m->comm;
  places *set = set_of(m);
  port_acquire(&c->lock);
  int last = ++set->taken == c->n;
  if (last) set->taken = 0;
  port_unlock(&c->lock);
  if (last) empty(c, set);
  m->round++;
  m->busy = 0;
}

void mr_comm_give_up(mr_member *m, mr_fiber *near) {
  char call[64], text[128];
  port_acquire(&m->comm->lock);
  int over = is_over(m->comm, m);
  port_unlock(&m->comm->lock);
  describe(&m->call, call, sizeof call);
  if (over) {
    mr_comm_took(m);
    return;
  }
  snprintf(text, sizeof text, "no longer waits in %s", call);
  mr_comm_fail(m, text, near);
}
