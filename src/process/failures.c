/*
 * failures: the last ones that nobody waited for, as they were printed, for who looks at the program later. A ring of fixed size: a failure costs a
 * copy, and a program that fails all the time no more memory than one that fails now and then.
 */
#include "process/failures.h"

#include <string.h>

atomic_int mr_failures;

static struct {
  port_lock lock;                              /* guards all of it */
  uint64_t count;
  mr_failure last[MR_FAILURES];
} ring;

/* Whole lines, as far as there is room. */
static void copy(char *to, const char *text) {
  size_t n = strlen(text);
  if (n >= MR_FAILURE_TEXT) {
    n = MR_FAILURE_TEXT - 1;
    while (n > MR_FAILURE_TEXT / 2 && text[n] != '\n') n--;
  }
  memcpy(to, text, n);
  to[n] = 0;
}

void mr_failure_note(const char *text) {
  double now = port_wall();
  atomic_fetch_add(&mr_failures, 1);
  port_acquire(&ring.lock);
  mr_failure *f = &ring.last[ring.count++ % MR_FAILURES];
  f->when = now;
  copy(f->text, text);
  port_unlock(&ring.lock);
}

int mr_failure_last(unsigned back, mr_failure *out) {
  port_acquire(&ring.lock);
  int there = back < MR_FAILURES && back < ring.count;
  if (there) *out = ring.last[(ring.count - 1 - back) % MR_FAILURES];
  port_unlock(&ring.lock);
  return there;
}
