/*
 * late: references to shared objects that a process takes while its state closes. No finaliser will give them back, so they are listed, and dropped when
 * the state is gone; and those that it kept to find them quickly.
 */
#include "process/rt.h"

#include <stdlib.h>

struct mr_late { struct mr_late *next; mr_shared *object; };

int mr_late_keep(mr_proc *p, mr_shared *o) {
  int closing = p->job.host ? mr_host_closed(p) : p->finalisers == 2;
  if (PORT_LIKELY(!closing)) return 0;
  struct mr_late *l = malloc(sizeof *l);
  if (!l) return -1;
  l->object = o;
  l->next = p->late;
  p->late = l;
  return 1;
}

void mr_late_exchange(mr_proc *p, mr_shared *a, mr_shared *b) {
  for (struct mr_late *l = p->late; l; l = l->next) {
    if (l->object == a) l->object = b;
    else if (l->object == b) l->object = a;
  }
}

void mr_late_drop(mr_proc *p) {
  while (p->late) {
    struct mr_late *l = p->late;
    p->late = l->next;
    mr_release(l->object);
    free(l);
  }
}

void mr_known_drop(mr_proc *p) {
  for (int i = 0; i < MR_KNOWN; i++)
    if (p->known->object[i]) mr_release(p->known->object[i]);
  free(p->known);
  p->known = NULL;
}
