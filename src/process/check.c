/* check: what the lists of this folder promise, for builds with checks (port/check.h). */
#include "process/group.h"
#include "process/rt.h"

#ifdef MR_CHECKS

enum { LONG = 1000, MANY = 100 };    /* of a list that are looked at; of a queue in which each is compared to all before it */

/* ---- the list of processes ---- */

/* Who has ended well is taken out before its status says so. */
void mr_shard_check(unsigned at) {
  const mr_proc *head = &mr_all.shard[at].head, *p = head;
  mr_assert_locked(&mr_all.shard[at].lock);
  for (int n = 0; n < LONG && (p = p->live_next) != head; n++) {
    mr_assert(p->live_prev->live_next == p && p->job.id % MR_SHARDS == at);
    mr_assert(p->kind != PROC_HOST && atomic_load(&p->status) != PROC_DONE);
  }
  mr_assert(head->live_prev->live_next == head && head->live_next->live_prev == head);
}

/* ---- groups ---- */

/* (lock held) Has a fiber of w's process been queued before w? */
static int comes_again(const mr_wait *head, const mr_wait *w) {
  const mr_wait *before = head->next;
  while (before != w && mr_proc_of(before->fiber) != mr_proc_of(w->fiber)) before = before->next;
  return before != w;
}

void mr_group_check(const mr_group *g) {
  const mr_wait *head = &g->members, *w = head;
  unsigned long nodes = 0, counted = 0, processes = 0;
  mr_assert_locked(&g->lock);
  mr_assert(g->nmembers <= g->alive);
  if (!head->next) {
    mr_assert(g->nmembers == 0);
    return;
  }
  while (nodes < MANY && (w = w->next) != head) {
    mr_assert(w->prev->next == w && mr_proc_of(w->fiber)->group == g);
    nodes++;
    if (comes_again(head, w)) continue;
    counted += mr_proc_of(w->fiber)->group_waits;
    processes++;
  }
  mr_assert(w != head || (processes == g->nmembers && counted == nodes));
}

#endif
