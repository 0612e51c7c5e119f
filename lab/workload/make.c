/*
 * The study's program (its figure 5.2) with its factors, and those it lacked. Per thread NA / NT allocations; a share of them lives to the end,
 * born first (peak) or spread evenly (growing); of the others `alive` live together. First in, first out and random: from then on one dies for each
 * that is born; last in, first out: all die, then as many are born anew. A share of them dies by the next thread's hand.
 */
#include "script.h"
#include <string.h>

typedef struct { sc_block *blocks; uint32_t first, count; } alive;

typedef struct {
  const mk_factors *f;
  sc_script *s;
  alive *short_lived;     /* per thread, a ring of f->alive */
  sc_block *long_lived;   /* of all threads, in order of birth */
  uint64_t long_count;
  uint64_t random;
} maker;

static sc_block take_one(maker *m, alive *a)
{
  uint32_t n = m->f->alive, k = 0;
  if (m->f->death == 0) k = a->count - 1;
  if (m->f->death == 2) k = (uint32_t)sc_below(&m->random, a->count);
  sc_block b = a->blocks[(a->first + k) % n];
  if (m->f->death == 1) a->first = (a->first + 1) % n;
  else a->blocks[(a->first + k) % n] = a->blocks[(a->first + a->count - 1) % n];
  a->count--;
  return b;
}

static void let_die(maker *m, uint32_t thread)
{
  sc_block b = take_one(m, &m->short_lived[thread]);
  int by_other = m->f->threads > 1 && m->f->cross > 0 && sc_unit(&m->random) < m->f->cross;
  sc_death(m->s, by_other ? (thread + 1) % m->f->threads : thread, &b);
}

static int lives_long(const mk_factors *f, uint64_t i, uint64_t n)
{
  if (f->peak) return (double)i < f->long_share * (double)n;
  return (uint64_t)((double)(i + 1) * f->long_share) > (uint64_t)((double)i * f->long_share);
}

static void step(maker *m, uint32_t thread, uint64_t i, uint64_t n)
{
  const mk_factors *f = m->f;
  uint64_t size = f->min_size + sc_below(&m->random, f->max_size - f->min_size + 1);
  sc_block b = sc_birth(m->s, thread, SC_MALLOC, size, 0);
  if (lives_long(f, i, n)) {
    m->long_lived[m->long_count++] = b;
    return;
  }
  alive *a = &m->short_lived[thread];
  a->blocks[(a->first + a->count++) % f->alive] = b;
  if (a->count < f->alive) return;
  do let_die(m, thread);
  while (f->death == 0 && a->count); /* last in, first out: all of them, else the same place would be used again and again */
}

/* All threads step by step side by side, so that what one frees for another is there in time. */
static void make(maker *m)
{
  const mk_factors *f = m->f;
  uint64_t least = f->allocations / f->threads, more = f->allocations % f->threads;
  for (uint64_t i = 0; i < least + (more != 0); i++)
    for (uint32_t t = 0; t < f->threads; t++) {
      uint64_t n = least + (t < more);
      if (i < n && !m->s->out_of_memory) step(m, t, i, n);
    }
  for (uint32_t t = 0; t < f->threads; t++)
    while (m->short_lived[t].count) let_die(m, t);
  for (uint64_t k = 0; k < m->long_count; k++) sc_death(m->s, m->long_lived[k].thread, &m->long_lived[k]);
}

sc_script *mk_from_factors(const mk_factors *f)
{
  size_t ring = (size_t)f->alive * sizeof(sc_block), most = (size_t)((double)f->allocations * f->long_share + f->threads + 1) * sizeof(sc_block);
  maker m = { .f = f, .s = sc_new(f->threads), .random = f->seed };
  m.short_lived = sc_map(f->threads * sizeof(alive));
  m.long_lived = sc_map(most);
  sc_block *rings = sc_map(f->threads * ring);
  int ok = m.s && m.short_lived && m.long_lived && rings;
  for (uint32_t t = 0; ok && t < f->threads; t++) m.short_lived[t].blocks = rings + (size_t)t * f->alive;
  if (ok) make(&m);
  sc_unmap(rings, f->threads * ring);
  sc_unmap(m.short_lived, f->threads * sizeof(alive));
  sc_unmap(m.long_lived, most);
  if (ok && !m.s->out_of_memory) return m.s;
  sc_free(m.s);
  return NULL;
}
