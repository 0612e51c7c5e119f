/* trace: see trace.h. */
#include "observe/tracer.h"
#include "observe/cut.h"
#include "port/errors.h"
#include "port/fs.h"
#include "port/map.h"
#include "port/ticks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PORT_TLS mr_tracer mr_trace_self = { .op = "" };   /* as no operation is called */
mr_trace_shared mr_trace_all;

static struct {
  port_map map;
  rings_head *head;
  unsigned room;                                 /* records in a chunk */
  atomic_uint limit;                             /* chunks that there may be: fewer than at first once the disk is full */
  _Atomic uint64_t seq;
  atomic_uint used, ready;                       /* so many of the first have been taken once; so many have been asked for */
  struct cell *cells;                            /* chunks that were given back */
  size_t mask;
  atomic_size_t first, tail;
  atomic_uint threads;
  atomic_int state;                              /* RECORDS … */
  char file[1024], rings[1032];
} all;
enum { NEVER, RECORDS, ENDS, OVER };

atomic_int mr_tracing;

/* ---- chunks ---- */

static rings_chunk *chunk_at(unsigned i) { return (rings_chunk *)(void *)((char *)all.map.at + RINGS_HEAD + (size_t)i * all.head->chunk_size); }

static void raise_to(_Atomic uint64_t *to, uint64_t value) {
  uint64_t now = atomic_load(to);
  while (now < value && !atomic_compare_exchange_weak(to, &now, value)) { }
}

static _Atomic uint64_t *words_of(rings_chunk *c) { return (_Atomic uint64_t *)(void *)((char *)c + RINGS_CHUNK); }

/* What is in there is lost: so before its last record nothing is complete any more. */
static void forget(rings_chunk *c) {
  _Atomic uint64_t *words = words_of(c);
  unsigned n = 0, most = all.room;
  while (n < most) {                             /* the first that is not there */
    unsigned middle = (n + most) / 2;
    if (atomic_load(&words[2 * middle])) n = middle + 1;
    else most = middle;
  }
  while (n > 0 && (atomic_load(&words[2 * (n - 1)]) & 0xff) == REC_TEXT) n--;
  if (n) raise_to(&all.head->until, (atomic_load(&words[2 * (n - 1)]) >> 8) + 1);
}

/* Relaxed, and all of it: who reads it meanwhile finds seq 0. */
static void clear(rings_chunk *c) {
  _Atomic uint64_t *words = words_of(c);
  for (unsigned i = 0; i < 2 * all.room; i++) atomic_store_explicit(&words[i], 0, memory_order_relaxed);
}

/* The disk is full: from now on what there is goes round. */
static void shrink(unsigned to, int err) {
  unsigned zero = 0, now = atomic_load(&all.limit);
  atomic_compare_exchange_strong(&all.head->full, &zero, (unsigned)err);
  while (to < now && !atomic_compare_exchange_weak(&all.limit, &now, to)) { }
}

/*
 * Chunks that were given back, the oldest first: a queue in an array (after D. Vyukov), without a lock, as the caller may hold any. A cell's `turn` is
 * the place at which it is filled next, or that place plus 1: then it is full. Chunks of threads that record little are given back late, with what is
 * new in them; so the order of giving back, not that of taking, says whose content is the oldest.
 */
typedef struct cell { atomic_size_t turn; unsigned chunk; } cell;

static void give_back(rings_chunk *c) {
  size_t at = atomic_load(&all.tail);
  cell *e;
  for (;;) {
    e = &all.cells[at & all.mask];
    if (atomic_load(&e->turn) == at && atomic_compare_exchange_weak(&all.tail, &at, at + 1)) break;
    at = atomic_load(&all.tail);                 /* there is room for all chunks: somebody was faster */
  }
  e->chunk = (unsigned)(((char *)c - (char *)all.map.at - RINGS_HEAD) / all.head->chunk_size);
  atomic_store(&e->turn, at + 1);
}

static rings_chunk *oldest(void) {
  size_t at = atomic_load(&all.first);
  for (unsigned tries = 0; tries < 1000; tries++) {
    cell *e = &all.cells[at & all.mask];
    if (atomic_load(&e->turn) == at + 1) {
      if (!atomic_compare_exchange_weak(&all.first, &at, at + 1)) continue;
      rings_chunk *c = chunk_at(e->chunk);
      atomic_store(&e->turn, at + all.mask + 1);
      return c;
    }
    if (atomic_load(&all.tail) == at) return NULL;
    port_pause();                                /* it is just being filled */
    at = atomic_load(&all.first);
  }
  return NULL;
}

/* One that was never used. It has to be asked for: it may be that the disk has no place for it. */
static rings_chunk *fresh(void) {
  unsigned i = atomic_load(&all.used), size = all.head->chunk_size;
  do {
    if (i >= atomic_load(&all.limit)) return NULL;
  } while (!atomic_compare_exchange_weak(&all.used, &i, i + 1));
  if (i < atomic_load(&all.ready)) return chunk_at(i);
  int err = port_map_take(&all.map, RINGS_HEAD + (size_t)i * size, size);
  if (!err) return chunk_at(i);
  shrink(i, err);
  return NULL;
}

static rings_chunk *take(void) {
  rings_chunk *c = fresh();
  int again = !c;
  if (again && (c = oldest()) == NULL) return NULL;
  uint64_t seq = atomic_fetch_add(&all.seq, 1) + 1;
  if (again) forget(c);
  atomic_exchange(&c->seq, 0);                   /* nothing that follows goes before it */
  if (again) clear(c);
  atomic_store(&c->ticks, port_ticks());
  atomic_store(&c->ns, port_now());
  atomic_store(&c->seq, seq);
  atomic_store(&mr_trace_all.epoch, (unsigned)(seq * 4 / (atomic_load(&all.limit) + 1) % 255) + 1);   /* a quarter of the file each */
  return c;
}

static void label(mr_tracer *t) {
  char name[2 * sizeof(uint64_t)] = "";
  uint64_t word[2];
  if (!t->thread) t->thread = atomic_fetch_add(&all.threads, 1) + 1;
  if (t->name) strncpy(name, t->name, sizeof name - 1);
  memcpy(word, name, sizeof word);
  atomic_store_explicit(&t->chunk->name[0], word[0], memory_order_relaxed);
  atomic_store_explicit(&t->chunk->name[1], word[1], memory_order_relaxed);
  atomic_store_explicit(&t->chunk->thread, t->thread, memory_order_relaxed);
  atomic_store_explicit(&t->chunk->worker, t->worker, memory_order_relaxed);
}

void mr_trace_leave(void) {
  mr_tracer *t = &mr_trace_self;
  if (t->chunk) give_back(t->chunk);
  t->chunk = NULL;
  t->at = t->end = NULL;
  t->how = 0;
  t->passed = 0;
}

/* Room for n records behind each other, in another chunk. */
PORT_NOINLINE int mr_trace_more(mr_tracer *t, unsigned n) {
  rings_chunk *old = t->chunk;
  t->chunk = NULL;
  t->at = t->end = NULL;
  if (old) give_back(old);
  if ((t->chunk = take()) == NULL) {
    atomic_fetch_add_explicit(&all.head->dropped, n, memory_order_relaxed);
    return 0;
  }
  t->at = words_of(t->chunk);
  t->end = t->at + 2 * (size_t)all.room;
  label(t);
  return 1;
}

/* ---- records ---- */

/* See tracer.h. */
PORT_NOINLINE void mr_trace_settle_passed(mr_tracer *t, uint64_t time) {
  uint64_t at = t->passed_at > t->last ? t->passed_at : t->last;
  if (atomic_load_explicit(&mr_trace_all.tick, memory_order_relaxed) == t->passed_at) at = time;
  mr_trace_put(t, at << 8 | REC_WAKE, t->passed);
  t->passed = 0;
}

static void note(unsigned kind, uint64_t second) { mr_trace_record(&mr_trace_self, mr_trace_now(), kind, second); }

void mr_trace_began(mr_trace_what what) { note(REC_BEGIN, what); }
void mr_trace_finished(int64_t result) { note(REC_FINISH, (uint64_t)result); }

int mr_trace_in_fiber(void) { return mr_trace_on() && mr_trace_self.how == TRACER_RUNS; }

/* What the scheduler does between two fibers is none of theirs. */
static inline void settle(mr_tracer *t, uint64_t time) {
  if (!t->how || t->how == TRACER_RUNS) return;
  mr_trace_record(t, time, REC_STOP, t->how);
  t->how = 0;
}

void mr_trace_idle(void) { settle(&mr_trace_self, mr_trace_now()); }

void mr_trace_run(uint64_t key) {
  mr_tracer *t = &mr_trace_self;
  uint64_t time = mr_trace_now();
  uint64_t how = t->how & TRACER_HOW;
  int other = (key & 0xffff) != 0, passed = t->passed == key << 12 && atomic_load_explicit(&mr_trace_all.tick, memory_order_relaxed) == t->passed_at;
  if (other && how > 0xfff) {                    /* has no room there */
    mr_trace_record(t, time, REC_STOP, how);
    passed = 0;
    how = 0;
  }
  if (passed) t->passed = 0;
  t->how = TRACER_RUNS;
  mr_trace_record(t, time, other ? passed ? REC_PASS_OTHER : REC_RUN_OTHER : passed ? REC_PASS : REC_RUN, key << 12 | (other ? how & 0xfff : how));
}

static void about(unsigned kind, uint64_t key, unsigned bits) {
  mr_tracer *t = &mr_trace_self;
  uint64_t time = mr_trace_now();
  settle(t, time);
  mr_trace_record(t, time, kind, key << 12 | bits | (t->how != TRACER_RUNS));
}

PORT_NOINLINE void mr_trace_woken_slowly(uint64_t key, unsigned reason, int next) {
  mr_tracer *t = &mr_trace_self;
  if (!next || t->how != TRACER_RUNS) {
    about(REC_WAKE, key, reason << 1);
    return;
  }
  if (t->passed) mr_trace_settle_passed(t, t->last = mr_trace_now());
  t->passed = key << 12;
  t->passed_at = atomic_load_explicit(&mr_trace_all.tick, memory_order_relaxed);
}
void mr_trace_born(uint64_t key) { about(REC_BORN, key, 0); }

static size_t pack(uint64_t *first, uint64_t *second, const char *text, size_t len) {
  unsigned char b[RINGS_TEXT + 1] = { REC_TEXT };
  size_t n = len < RINGS_TEXT ? len : RINGS_TEXT;
  memcpy(b + 1, text, n);
  memcpy(first, b, 8);
  memcpy(second, b + 8, 8);
  return n;
}

/* A record with a text, whose pieces stay together. */
static void put_text(uint64_t first, uint64_t second, const char *text, size_t len) {
  mr_tracer *t = &mr_trace_self;
  unsigned n = 1 + (unsigned)((len + RINGS_TEXT - 1) / RINGS_TEXT);
  if (t->passed) mr_trace_settle_passed(t, first >> 8);
  t->last = first >> 8;
  if ((t->end - t->at) / 2 < (ptrdiff_t)n && !mr_trace_more(t, n)) return;
  mr_trace_put(t, first, second);
  while (len > 0) {
    size_t took = pack(&first, &second, text, len);
    mr_trace_put(t, first, second);
    text += took;
    len -= took;
  }
}

enum { LONGEST = 120 };                          /* bytes of a text: a piece of the smallest chunk */
static size_t length(const char *text) {
  size_t n = 0;
  while (text && n < LONGEST && text[n]) n++;
  return n;
}

void mr_trace_named(uint64_t key, const char *name) {
  size_t n = length(name);
  put_text(mr_trace_now() << 8 | REC_NAME, key << 12 | n, name, n);
}

void mr_trace_ended(uint64_t key, int failed, const char *text) {
  size_t n = length(text);
  put_text(mr_trace_now() << 8 | REC_END, key << 12 | n << 1 | (failed != 0), text, n);
}

void mr_trace_call(int side, uint64_t id, const char *operation) {
  size_t n = length(operation);
  if (n > RINGS_TEXT - 1) n = RINGS_TEXT - 1;
  char text[RINGS_TEXT] = "";
  memcpy(text, operation, n);
  put_text(mr_trace_now() << 8 | (side == TRACE_CALL ? REC_CALL : REC_SERVE), id, text, sizeof text);
}

void mr_trace_reply(int side, uint64_t id) { note(side == TRACE_CALL ? REC_REPLY : REC_SERVED, id); }

void mr_trace_worker(unsigned id) {
  mr_trace_self.worker = id + 1;
  note(REC_WORKER, id);
}

void mr_trace_thread(const char *name) { mr_trace_self.name = name; }

/* ---- names of operations ---- */

enum { CACHED = 512, NUMBERS = 0x7fff };
static struct { _Atomic(const char *) op; atomic_uint id; } cached[CACHED];
static port_lock naming;

static PORT_NOINLINE unsigned op_new(const char *op, unsigned at) {
  rings_head *h = all.head;
  port_acquire(&naming);
  unsigned n = atomic_load(&h->nops), i = TRACE_WAITS;
  while (i < TRACE_WAITS + n && strncmp(h->op[i], op, RINGS_OP - 1) != 0) i++;
  if (i == TRACE_WAITS + n && i < RINGS_OPS) {
    strncpy(h->op[i], op, RINGS_OP - 1);
    atomic_store(&h->nops, n + 1);
  }
  if (i == RINGS_OPS) i = TRACE_WAITS;           /* more operations than there are */
  atomic_store(&cached[at].op, NULL);
  atomic_store(&cached[at].id, i);
  atomic_store(&cached[at].op, op);
  port_unlock(&naming);
  return i;
}

static unsigned op_known(const char *op) {
  unsigned at = (unsigned)(((uintptr_t)op ^ (uintptr_t)op >> 9) % CACHED);
  unsigned id = atomic_load_explicit(&cached[at].id, memory_order_acquire);
  if (PORT_LIKELY(atomic_load_explicit(&cached[at].op, memory_order_acquire) == op) && atomic_load(&cached[at].id) == id) return id;
  return op_new(op, at);
}

uint64_t mr_trace_op_find(const char *op) {
  mr_tracer *t = &mr_trace_self;
  if (t->op == op) return t->op_id;
  t->op_id = op_known(op ? op : "wait");
  t->op = op;
  return t->op_id;
}

/* ---- names of what is waited for ---- */

/*
 * Epochs take turns with two halves of the numbers: so whoever goes on with one of the epoch before does not name something else. Those of which
 * there are too many have none: 0.
 */
static unsigned next_number(unsigned epoch) {
  static atomic_uint given;                      /* epoch << 16 | how many */
  unsigned was = atomic_load(&given), now;
  do {
    now = was >> 16 == epoch ? was + 1 : epoch << 16 | 1;
    if ((now & 0xffff) > NUMBERS) return 0;
  } while (!atomic_compare_exchange_weak(&given, &was, now));
  return (now & 0xffff) + (epoch & 1 ? NUMBERS : 0);
}

unsigned mr_trace_numbered(const char *name) {
  unsigned epoch = mr_trace_epoch(), n = next_number(epoch);
  size_t len = length(name);
  if (n) put_text(mr_trace_now() << 8 | REC_NUMBER, (uint64_t)n << 12 | len, name, len);
  return epoch << 16 | n;
}

/* ---- beginning and end ---- */

#define TICK 1000000u                            /* ns */
#define AHEAD 16u                                /* chunks */

/* What the file grows by is asked for here, so that who records need not wait for the system. */
static void prepare(void) {
  unsigned n = atomic_load(&all.limit), size = all.head->chunk_size, i;
  unsigned to = atomic_load(&all.used) + AHEAD;
  while ((i = atomic_load(&all.ready)) < n && i < to) {
    if (port_map_take(&all.map, RINGS_HEAD + (size_t)i * size, size) != 0) return;   /* who needs it asks again */
    atomic_store(&all.ready, i + 1);
  }
}

static void tick(void *arg) {
  (void)arg;
  while (atomic_load(&all.state) == RECORDS) {
    atomic_store(&mr_trace_all.tick, mr_trace_now());
    prepare();
    port_sleep(TICK);
  }
}

/* The file is its parent's. */
static void in_child(void) {
  atomic_store(&mr_tracing, 0);
  atomic_store(&all.state, OVER);
}

static int may_write(const char *file) {
  port_fs_info i;
  int fd, there = port_fs_stat(file, 1, &i) == 0;
  int err = there && strcmp(i.type, "file") != 0 ? strcmp(i.type, "directory") == 0 ? EISDIR : EINVAL : 0;
  if (!err) err = port_fs_open(file, PORT_FS_WRITE | PORT_FS_CREATE, &fd);
  if (err) return err;
  port_fs_close(fd);
  if (!there) port_fs_remove(file);
  return 0;
}

static void begin_clock(rings_head *h) {
  h->nanoseconds = (uint32_t)port_ticks_begin();
  h->wall = port_wall();
  h->ns = port_now();
  h->ticks = mr_trace_all.began = port_ticks();
  if (!h->nanoseconds) while (port_now() < h->ns + 1000000u) port_pause();   /* a program that is killed soon has still two pairs that lie apart */
}

/* An eighth of what the trace may have: of a record's 16 bytes JSON makes some 200 to 500. But so many chunks that some threads can have theirs. */
static void measure(uint64_t size, uint32_t *chunk, uint32_t *chunks) {
  uint64_t bytes = size / 8 < 262144 ? 262144 : size / 8;
  *chunk = 4096;
  while (*chunk < 65536 && (uint64_t)*chunk * 128 <= bytes) *chunk *= 2;
  *chunks = (uint32_t)(bytes / *chunk);
}

static int make_queue(uint32_t chunks) {
  size_t n = 1;
  while (n < chunks) n *= 2;
  all.cells = calloc(n, sizeof *all.cells);
  if (!all.cells) return 0;
  for (size_t i = 0; i < n; i++) atomic_init(&all.cells[i].turn, i);
  all.mask = n - 1;
  return 1;
}

int mr_trace_start(const char *file, uint64_t size, const char *program, const char **what) {
  uint32_t chunk, chunks;
  *what = file;
  if (atomic_load(&all.state) != NEVER) return EBUSY;
  if (size < MR_TRACE_LEAST || size > MR_TRACE_MOST) return EINVAL;
  if (strlen(file) >= sizeof all.file) return ENAMETOOLONG;
  int err = may_write(file);
  if (err) return err;
  measure(size, &chunk, &chunks);
  snprintf(all.file, sizeof all.file, "%s", file);
  snprintf(all.rings, sizeof all.rings, "%s.rings", all.file);
  *what = all.rings;
  if ((err = port_map_create(&all.map, all.rings, RINGS_HEAD + (size_t)chunk * chunks)) != 0) return err;
  if ((err = port_map_take(&all.map, 0, RINGS_HEAD + chunk)) != 0) {
    port_map_close(&all.map);
    port_fs_remove(all.rings);
    return err;
  }
  if (!make_queue(chunks)) {
    port_map_close(&all.map);
    port_fs_remove(all.rings);
    return ENOMEM;
  }
  rings_head *h = all.head = all.map.at;
  memcpy(h->magic, RINGS_MAGIC, sizeof h->magic);
  h->record = RINGS_RECORD;
  h->chunk_size = chunk;
  h->chunks = chunks;
  h->pid = (uint64_t)port_pid();
  h->size = size;
  snprintf(h->program, sizeof h->program, "%s", program);
  snprintf(h->file, sizeof h->file, "%s", file);
  begin_clock(h);
  all.room = (chunk - RINGS_CHUNK) / RINGS_RECORD;
  atomic_store(&all.limit, chunks);
  port_at_fork(in_child);
  atomic_store(&mr_trace_all.epoch, 1);
  atomic_store(&all.state, RECORDS);
  atomic_fetch_or(&mr_tracing, MR_TRACING_RECORDS);
  port_thread_start(tick, NULL, "mare-ticks");   /* without it a wake-up may be shown later than it was */
  return 0;
}

const char *mr_trace_file(void) { return atomic_load(&all.state) == NEVER ? NULL : all.rings; }

int mr_trace_cut(const char *path) {
  if (!mr_trace_file()) return ENOENT;
  return mr_trace_convert(all.rings, path, NULL);
}

static void tell(const mr_trace_report *r) {
  if (r->full) {
    char reason[128];
    fprintf(stderr, "mare: the trace could not grow: %s; %s has the newest only\n", port_error_text(r->full, reason, sizeof reason), all.file);
  }
  if (r->dropped) fprintf(stderr, "mare: %llu records are not in the trace: so many threads need a greater --trace-size\n", (unsigned long long)r->dropped);
}

static void finish(void) {
  mr_trace_report r = { 0 };
  atomic_store(&all.head->end_ns, port_now());
  atomic_store(&all.head->end_ticks, port_ticks());
  int err = mr_trace_convert(all.rings, all.file, &r);
  if (err) {
    char reason[128];
    fprintf(stderr, "mare: can't write the trace %s: %s; its records are in %s: mare trace %s -o FILE\n", all.file,
            port_error_text(err, reason, sizeof reason), all.rings, all.rings);
    return;
  }
  tell(&r);
  port_fs_remove(all.rings);
}

void mr_trace_end(void) {
  int records = RECORDS;
  if (atomic_compare_exchange_strong(&all.state, &records, ENDS)) {
    atomic_fetch_and(&mr_tracing, ~MR_TRACING_RECORDS);
    finish();
    atomic_store(&all.state, OVER);
  }
  while (atomic_load(&all.state) == ENDS) port_sleep(1000000);
}
