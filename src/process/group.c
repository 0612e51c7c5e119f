/* group: see group.h. */
#include "process/group.h"

static mr_wait *queue(mr_group *g, int member) {
  mr_wait *head = member ? &g->members : &g->outsiders;
  if (!head->next) mr_waitq_init(head);
  return head;
}

static void unlink_wait(mr_group *g, mr_wait *w, int member) {
  if (w->next && member && --mr_proc_of(w->fiber)->group_waits == 0) g->nmembers--;
  mr_waitq_del(w);
}

void mr_group_enter(mr_group *g) {
  port_acquire(&g->lock);
  g->alive++;
  port_unlock(&g->lock);
}

/* (lock held) Takes all out of one queue; who is claimed is put into a list of their own, as such a fiber is in no other. */
static mr_fiber **claim_all(mr_group *g, int member, mr_fiber **end) {
  mr_wait *head = queue(g, member);
  while (!mr_waitq_empty(head)) {
    mr_wait *w = head->next;
    unlink_wait(g, w, member);
    if (!mr_wait_claim(w)) continue;
    w->fiber->next = NULL;
    *end = w->fiber;
    end = &w->fiber->next;
  }
  return end;
}

void mr_group_leave(mr_group *g, mr_fiber *near) {
  mr_fiber *woken = NULL, **end = &woken;
  port_acquire(&g->lock);
  if (--g->alive == g->nmembers) end = claim_all(g, 1, end);
  if (g->alive == 0) claim_all(g, 0, end);
  MR_CHECK_SOME(4, mr_group_check(g));
  port_unlock(&g->lock);
  while (woken) {
    mr_fiber *f = woken;
    woken = f->next;
    mr_ready(f, MR_WOKEN, near);
  }
}

void mr_group_forget(mr_group *g) {
  port_acquire(&g->lock);
  g->alive = g->nmembers = 0;
  mr_waitq_init(&g->members);
  mr_waitq_init(&g->outsiders);
  port_unlock(&g->lock);
}

int mr_group_wait(mr_group *g, mr_wait *w, int member) {
  port_acquire(&g->lock);
  mr_proc *p = mr_proc_of(w->fiber);
  int over = g->alive == (member ? g->nmembers + (p->group_waits == 0) : 0);
  if (!over) mr_waitq_add(queue(g, member), w);
  if (!over && member && p->group_waits++ == 0) g->nmembers++;
  MR_CHECK_SOME(4, mr_group_check(g));
  port_unlock(&g->lock);
  return over;
}

void mr_group_wait_end(mr_group *g, mr_wait *w, int member) {
  port_acquire(&g->lock);
  unlink_wait(g, w, member);
  MR_CHECK_SOME(4, mr_group_check(g));
  port_unlock(&g->lock);
}
