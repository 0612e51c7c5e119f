/* budget: what processes take from a budget besides their heaps (heap/budget.h): their records, and what they have packed. */
#include "process/rt.h"

#include <stdio.h>

enum { SCRAP = 200 };

mr_message *mr_proc_seal(lua_State *L, mr_proc *p, mr_packer *k, mr_budget **over) {
  *over = NULL;
  if (PORT_LIKELY(!p->budget)) return mr_packer_seal(k);
  mr_message *m = mr_packer_seal_in(k, p->budget, over);
  if (!m || !*over) return m;
  lua_gc(L, LUA_GCCOLLECT, 0);                   /* the view may be void now: what it read through weak tables is gone */
  mr_heap_settle(p->heap);
  if ((*over = mr_message_count(m)) == NULL) return m;
  mr_message_back(L, m);
  return NULL;
}

mr_budget *mr_proc_take(lua_State *L, mr_proc *p, mr_budget *b, size_t n) {
  mr_budget *over = mr_budget_take(b, n);
  if (!over || !p->budget) return over;
  lua_gc(L, LUA_GCCOLLECT, 0);
  mr_heap_settle(p->heap);
  return mr_budget_take(b, n);
}

const char *mr_proc_over(mr_budget *over, char buf[200]) {
  if (!over) return mr_err_text(MR_ENOMEM);
  size_t used = mr_budget_used(over);
  snprintf(buf, 200, "%s: of the %zu bytes that 'memory' grants the process and its children together, %zu are in use, and this needs more",
           mr_err_text(MR_ENOMEM), over->limit, used);
  return buf;
}

size_t mr_proc_keep(mr_proc *p, size_t n) {
  if (!p->budget) return n;
  if (mr_budget_take(p->budget, n)) return n < SCRAP ? n : SCRAP;
  p->charged += n;
  return n;
}

void mr_proc_unbudget(mr_proc *p) {
  mr_budget_give(p->budget, p->charged);
  mr_budget_release(p->budget);
}
