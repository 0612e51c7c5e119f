/* Making, saving and loading scripts: see script.h. A saved script is a header, the threads' counts, and their operations. */
#define _GNU_SOURCE
#include "script.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MAGIC "MARESCR1"

typedef struct { char magic[8]; uint32_t threads, shared; uint64_t peak; } header;
typedef struct { uint64_t count; uint32_t slots, zero; } part;

void *sc_map(size_t bytes)
{
  void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void *sc_remap(void *old, size_t had, size_t bytes)
{
  void *p = old ? mremap(old, had, bytes, MREMAP_MAYMOVE) : sc_map(bytes);
  return p == MAP_FAILED ? NULL : p;
}

void sc_unmap(void *p, size_t bytes) { if (p) munmap(p, bytes ? bytes : 1); }

sc_script *sc_new(uint32_t threads)
{
  sc_script *s = sc_map(sizeof *s);
  if (s) s->threads = threads;
  return s;
}

void sc_free(sc_script *s)
{
  if (!s) return;
  for (uint32_t i = 0; i < SC_THREADS; i++) {
    sc_unmap(s->thread[i].ops, s->thread[i].room * sizeof(sc_op));
    sc_unmap(s->thread[i].idle, s->thread[i].idle_room * sizeof(uint32_t));
  }
  sc_unmap(s, sizeof *s);
}

static uint64_t append(sc_script *s, uint32_t thread, unsigned kind, uint64_t size, unsigned log2, uint32_t from, uint32_t to)
{
  sc_thread *t = &s->thread[thread];
  if (t->count == t->room) {
    uint64_t room = t->room ? t->room * 2 : 4096;
    sc_op *more = sc_remap(t->ops, t->room * sizeof *more, room * sizeof *more);
    if (!more) { s->out_of_memory = 1; return 0; }
    t->ops = more;
    t->room = room;
  }
  t->ops[t->count] = (sc_op){ (size & ((UINT64_C(1) << 48) - 1)) | (uint64_t)kind << 48 | (uint64_t)log2 << 56, from, to };
  return t->count++;
}

static uint32_t own_slot(sc_script *s, uint32_t thread)
{
  sc_thread *t = &s->thread[thread];
  return t->idle_count ? t->idle[--t->idle_count] : t->slots++;
}

static void give_back(sc_script *s, uint32_t thread, uint32_t slot)
{
  sc_thread *t = &s->thread[thread];
  if (t->idle_count == t->idle_room) {
    uint32_t room = t->idle_room ? t->idle_room * 2 : 1024;
    uint32_t *more = sc_remap(t->idle, t->idle_room * sizeof *more, room * sizeof *more);
    if (!more) { s->out_of_memory = 1; return; }
    t->idle = more;
    t->idle_room = room;
  }
  t->idle[t->idle_count++] = slot;
}

static void count_live(sc_script *s, uint64_t size)
{
  s->live += size;
  if (s->live > s->peak) s->peak = s->live;
}

sc_block sc_birth(sc_script *s, uint32_t thread, unsigned kind, uint64_t size, unsigned log2)
{
  sc_block b = { thread, own_slot(s, thread), 0 };
  b.op = append(s, thread, kind, size, log2, SC_NO_SLOT, b.slot);
  count_live(s, size);
  return b;
}

/* The slot that a block's end names. If another thread ends it, its birth is changed to a shared slot first. */
static uint32_t last_use(sc_script *s, uint32_t thread, const sc_block *b, unsigned *flag)
{
  give_back(s, b->thread, b->slot);
  *flag = 0;
  if (s->out_of_memory) return b->slot;
  sc_op *birth = &s->thread[b->thread].ops[b->op];
  s->live -= sc_size(birth);
  if (b->thread == thread) return b->slot;
  birth->what |= (uint64_t)SC_NEW_SHARED << 48;
  birth->to = s->shared++;
  *flag = SC_OLD_SHARED;
  return birth->to;
}

void sc_death(sc_script *s, uint32_t thread, const sc_block *b)
{
  unsigned flag;
  uint32_t slot = last_use(s, thread, b, &flag);
  append(s, thread, SC_FREE | flag, 0, 0, slot, SC_NO_SLOT);
}

sc_block sc_regrow(sc_script *s, uint32_t thread, const sc_block *b, uint64_t size)
{
  unsigned flag;
  uint32_t slot = last_use(s, thread, b, &flag);
  sc_block grown = { thread, own_slot(s, thread), 0 };
  grown.op = append(s, thread, SC_REALLOC | flag, size, 0, slot, grown.slot);
  count_live(s, size);
  return grown;
}

void sc_pace(sc_script *s, uint32_t thread, uint64_t ms) { append(s, thread, SC_PACE, ms, 0, SC_NO_SLOT, SC_NO_SLOT); }

/* ---- files ---- */

int sc_save(const sc_script *s, const char *path, const char **error)
{
  FILE *f = fopen(path, "we");
  header h = { .threads = s->threads, .shared = s->shared, .peak = s->peak };
  memcpy(h.magic, MAGIC, 8);
  int ok = f && fwrite(&h, sizeof h, 1, f) == 1;
  for (uint32_t i = 0; ok && i < s->threads; i++) {
    part p = { s->thread[i].count, s->thread[i].slots, 0 };
    ok = fwrite(&p, sizeof p, 1, f) == 1;
  }
  for (uint32_t i = 0; ok && i < s->threads; i++)
    ok = s->thread[i].count == 0 || fwrite(s->thread[i].ops, sizeof(sc_op), s->thread[i].count, f) == s->thread[i].count;
  if (f && fclose(f) != 0) ok = 0;
  *error = strerror(errno);
  return ok ? 0 : -1;
}

static int read_all(int fd, void *into, size_t n)
{
  size_t have = 0;
  while (have < n) {
    ssize_t k = read(fd, (char *)into + have, n - have);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return 0;
    have += (size_t)k;
  }
  return 1;
}

static int good_op(const sc_op *op, const sc_thread *t, const sc_script *s)
{
  unsigned flags = (unsigned)(op->what >> 48) & 0xff, kind = flags & SC_KIND;
  if (kind >= SC_KINDS || op->what >> 56 > 40) return 0;
  if (kind == SC_PACE) return 1;
  int makes = kind != SC_FREE, ends = kind == SC_FREE || (kind == SC_REALLOC && op->from != SC_NO_SLOT);
  if (makes && op->to >= (flags & SC_NEW_SHARED ? s->shared : t->slots)) return 0;
  return !ends || op->from < (flags & SC_OLD_SHARED ? s->shared : t->slots);
}

static int load_parts(sc_script *s, int fd, uint64_t size, uint64_t *bad)
{
  uint64_t at = sizeof(header), ops = 0;
  for (uint32_t i = 0; i < s->threads; i++, at += sizeof(part)) {
    part p;
    *bad = at;
    if (!read_all(fd, &p, sizeof p) || p.count > size / sizeof(sc_op) || p.slots > p.count) return 0;
    s->thread[i] = (sc_thread){ .count = p.count, .room = p.count, .slots = p.slots };
    ops += p.count;
  }
  if (at + ops * sizeof(sc_op) != size || s->shared > ops) return 0;
  for (uint32_t i = 0; i < s->threads; i++) {
    sc_thread *t = &s->thread[i];
    *bad = at;
    if (!(t->ops = sc_map(t->count * sizeof(sc_op))) || !read_all(fd, t->ops, t->count * sizeof(sc_op))) return 0;
    for (uint64_t k = 0; k < t->count; k++, at += sizeof(sc_op)) {
      *bad = at;
      if (!good_op(&t->ops[k], t, s)) return 0;
    }
  }
  return 1;
}

sc_script *sc_load(const char *path, char *error, size_t room)
{
  header h;
  struct stat info;
  uint64_t bad = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &info) != 0) {
    snprintf(error, room, "%s: %s", path, strerror(errno));
    return NULL;
  }
  sc_script *s = NULL;
  if (!read_all(fd, &h, sizeof h) || memcmp(h.magic, MAGIC, 8) != 0)
    snprintf(error, room, "%s: byte 0: not a script; make one with `mare lab replay`", path);
  else if (h.threads == 0 || h.threads > SC_THREADS || !(s = sc_new(h.threads)))
    snprintf(error, room, "%s: byte 8: %u threads (1 to %d)", path, h.threads, SC_THREADS);
  else {
    s->shared = h.shared;
    s->peak = h.peak;
    if (!load_parts(s, fd, (uint64_t)info.st_size, &bad)) {
      snprintf(error, room, "%s: byte %llu: the script is damaged or truncated; make it again", path, (unsigned long long)bad);
      sc_free(s);
      s = NULL;
    }
  }
  close(fd);
  return s;
}
