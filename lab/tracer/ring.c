/*
 * The ring: of all processes together the last so many events, in whole chunks, in memory until the end. The oldest chunk goes as soon as those
 * after it hold enough; so at least as many events as asked for are there, and at most a chunk per stream more.
 */
#define _GNU_SOURCE
#include "launcher.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int keep_chunk(trace *t, size_t i, const mtr_entry *entry, const uint64_t *words, uint32_t events)
{
  kept *k = malloc(sizeof *k + entry->words * sizeof *words);
  if (!k) return 0; /* then it goes to the file at once */
  k->next = NULL;
  k->image = i;
  k->entry = *entry;
  k->events = events;
  memcpy(k->words, words, entry->words * sizeof *words);
  if (t->newest) t->newest->next = k;
  else t->oldest = k;
  t->newest = k;
  t->kept_events += events;
  while (t->oldest != t->newest && t->kept_events - t->oldest->events >= t->o->ring) {
    kept *gone = t->oldest;
    t->oldest = gone->next;
    t->kept_events -= gone->events;
    free(gone);
  }
  return 1;
}

void write_kept(trace *t)
{
  while (t->oldest) {
    kept *k = t->oldest;
    write_chunk(t, k->image, &k->entry, k->words);
    if (t->images[k->image].fd >= 0) close(t->images[k->image].fd); /* there may be more images than descriptors */
    t->images[k->image].fd = -1;
    t->oldest = k->next;
    free(k);
  }
  t->newest = NULL;
  if (t->o->ring) t->events = t->kept_events;
}
