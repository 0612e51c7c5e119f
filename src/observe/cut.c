/*
 * cut: see cut.h. The records of all threads are walked in the order of time, two or three times: to learn names, which wake-ups have both ends, and
 * which fibers ran most; if the JSON could be too long, to find from when on it fits; and to write it.
 *
 * What a walk knows of threads and fibers it also knows of what it does not show, so that at the first moment shown everything that is open begins.
 */
#include "observe/cut.h"
#include "observe/rings.h"
#include "observe/trace.h"
#include "port/errors.h"
#include "port/fs.h"
#include "port/map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACKS = 200, DEPTH = 8, BUFFER = 1 << 16, LONGEST_EVENT = 8192, CHECKPOINT = 256, PER_RECORD = 700, CALLS = 1024,
       TID = 9 };                                /* numbers of tracks are greater: one that is its group's would be called the main thread */
enum { NONE, WAITS, READY, RUNS };               /* states of a fiber, as its track shows them */

/* ---- what was read ---- */

typedef struct piece {
  uint64_t seq, ticks, ns;
  unsigned thread, worker, count;
  char name[17];
  const uint64_t *words;
  size_t first;                                  /* the number of its first record */
} piece;

typedef struct fiber {
  uint64_t key;
  const uint64_t *name;                          /* the record */
  unsigned runs, track;                          /* track: 0 none */
  unsigned on;                                   /* the thread that runs it, plus 1 */
  size_t wake;                                   /* the number of the wake-up, plus 1, that it has not answered */
  unsigned char state, woken, shows, flows;      /* woken: while it ran; shows: a slice is open; flows: that wake-up was shown */
} fiber;

typedef struct thread {
  unsigned id, worker, workers;                  /* worker: the one it holds, plus 1; workers: the first one */
  const char *name;
  piece *next, *end;                             /* its pieces, in order */
  unsigned at;                                   /* the record of the first that is next */
  uint64_t now;
  fiber *runs;
  unsigned depth;
  unsigned char what[DEPTH];
  unsigned char shows;                           /* the slice of the fiber is open */
} thread;

typedef struct call { struct call *next; uint64_t id; const char *side; const uint64_t *text; unsigned tid; unsigned char shows; } call;

typedef struct walk {
  rings_head head;
  void *memory;                                  /* of pieces */
  piece *pieces;
  size_t npieces, nrecords;
  thread *threads, **heap;
  size_t nthreads, nheap;
  fiber **table;
  size_t nfibers, size;
  unsigned char *flows;                          /* a bit for each record: a wake-up with both ends */
  call *calls[CALLS];
  double rate;                                   /* nanoseconds in a tick */
  uint64_t from;                                 /* ticks: what was before is not shown */
  int surveys, shows, failed;                    /* surveys: only looks; shows: the first moment has come; failed: an errno value */
  uint64_t now;                                  /* ticks */
  /* the JSON */
  int fd;                                        /* -1: only counted */
  char *buffer;
  size_t len;
  uint64_t bytes, events;
  fiber **tracks;
  size_t ntracks;
  uint64_t *checks;                              /* bytes and ticks at each checkpoint */
  size_t nchecks;
} walk;

/* ---- reading ---- */

static int read_head(const port_map *m, rings_head *h) {
  if (port_map_read(m, 0, h, sizeof *h) != 0) return EBADMSG;
  if (memcmp(h->magic, RINGS_MAGIC, sizeof h->magic) != 0 || h->record != RINGS_RECORD) return EBADMSG;
  if (h->chunk_size < 4096 || h->chunk_size > 1 << 20 || h->chunk_size % RINGS_CHUNK != 0) return EBADMSG;
  if (m->size < RINGS_HEAD || (m->size - RINGS_HEAD) / h->chunk_size < h->chunks || h->chunks == 0) return EBADMSG;
  if (h->size < MR_TRACE_LEAST || h->size > MR_TRACE_MOST) return EBADMSG;
  h->program[sizeof h->program - 1] = h->file[sizeof h->file - 1] = 0;
  for (int i = 0; i < RINGS_OPS; i++) h->op[i][RINGS_OP - 1] = 0;
  return 0;
}

static size_t offset_of(const rings_head *h, unsigned i) { return RINGS_HEAD + (size_t)i * h->chunk_size; }

/* 0: it is empty, or is just being used again. */
static int copy_chunk(const port_map *m, const rings_head *h, unsigned i, piece *p, uint64_t *words) {
  unsigned room = (h->chunk_size - RINGS_CHUNK) / RINGS_RECORD;
  rings_chunk c, again;
  if (port_map_read(m, offset_of(h, i), &c, sizeof c) != 0 || c.seq == 0 || c.count == 0 || c.count > room) return 0;
  if (port_map_read(m, offset_of(h, i) + RINGS_CHUNK, words, (size_t)c.count * RINGS_RECORD) != 0) return 0;
  if (port_map_read(m, offset_of(h, i), &again, sizeof again) != 0 || again.seq != c.seq) return 0;
  *p = (piece){ .seq = c.seq, .ticks = c.ticks, .ns = c.ns, .thread = c.thread, .worker = c.worker, .count = c.count, .words = words };
  memcpy(p->name, &c.name, sizeof c.name);
  return 1;
}

static int compare_pieces(const void *a, const void *b) {
  const piece *p = a, *q = b;
  if (p->thread != q->thread) return p->thread < q->thread ? -1 : 1;
  return p->seq < q->seq ? -1 : p->seq > q->seq;
}

/* Those that have been used; more may be meanwhile. */
static size_t used_chunks(const port_map *m, const rings_head *h) {
  size_t used = 0;
  rings_chunk c;
  for (unsigned i = 0; i < h->chunks; i++) used += port_map_read(m, offset_of(h, i), &c, sizeof c) == 0 && c.seq != 0;
  return used;
}

static int copy(walk *w, const port_map *m) {
  const rings_head *h = &w->head;
  size_t used = used_chunks(m, h), words = (h->chunk_size - RINGS_CHUNK) / sizeof(uint64_t);
  uint64_t *to = w->memory = calloc(used + 1, words * sizeof *to);
  w->pieces = calloc(used + 1, sizeof *w->pieces);
  if (!to || !w->pieces) return ENOMEM;
  for (unsigned i = 0; i < h->chunks && w->npieces < used; i++) {
    piece *p = &w->pieces[w->npieces];
    if (!copy_chunk(m, h, i, p, to)) continue;
    w->npieces++;
    w->nrecords += p->count;
    to += 2 * (size_t)p->count;
  }
  qsort(w->pieces, w->npieces, sizeof *w->pieces, compare_pieces);
  return 0;
}

static int make_threads(walk *w) {
  size_t n = 0, records = 0;
  for (size_t i = 0; i < w->npieces; i++) n += i == 0 || w->pieces[i].thread != w->pieces[i - 1].thread;
  w->threads = calloc(n + 1, sizeof *w->threads);
  w->heap = calloc(n + 1, sizeof(thread *));
  w->flows = calloc(w->nrecords / 8 + 1, 1);
  if (!w->threads || !w->heap || !w->flows) return ENOMEM;
  for (size_t i = 0; i < w->npieces; i++) {
    piece *p = &w->pieces[i];
    p->first = records;
    records += p->count;
    if (i == 0 || p->thread != p[-1].thread) {
      thread *t = &w->threads[w->nthreads++];
      t->id = (unsigned)w->nthreads + TID;
      t->next = p;
      t->workers = p->worker;
      t->name = p->name;
    }
    w->threads[w->nthreads - 1].end = p + 1;
  }
  return 0;
}

/* Two readings of both clocks, as far apart as there are. */
static void measure(walk *w) {
  const rings_head *h = &w->head;
  uint64_t ticks = atomic_load(&h->end_ticks), ns = atomic_load(&h->end_ns);
  for (size_t i = 0; i < w->npieces; i++)
    if (w->pieces[i].ticks > ticks) {
      ticks = w->pieces[i].ticks;
      ns = w->pieces[i].ns;
    }
  w->rate = h->nanoseconds || ticks <= h->ticks || ns <= h->ns ? 1 : (double)(ns - h->ns) / (double)(ticks - h->ticks);
}

/* ---- fibers ---- */

static size_t slot_of(const walk *w, uint64_t key) {
  size_t i = (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & (w->size - 1);
  while (w->table[i] && w->table[i]->key != key) i = (i + 1) & (w->size - 1);
  return i;
}

static int grow(walk *w) {
  fiber **old = w->table;
  size_t n = w->size;
  w->size = n ? 2 * n : 1024;
  w->table = calloc(w->size, sizeof(fiber *));
  if (!w->table) {
    w->table = old;
    w->size = n;
    w->failed = ENOMEM;
    return 0;
  }
  for (size_t i = 0; i < n; i++)
    if (old[i]) w->table[slot_of(w, old[i]->key)] = old[i];
  free(old);
  return 1;
}

/* NULL: no memory. */
static fiber *fiber_of(walk *w, uint64_t key) {
  if (2 * w->nfibers >= w->size && !grow(w)) return NULL;
  size_t i = slot_of(w, key);
  if (!w->table[i]) {
    if ((w->table[i] = calloc(1, sizeof(fiber))) == NULL) {
      w->failed = ENOMEM;
      return NULL;
    }
    w->table[i]->key = key;
    w->nfibers++;
  }
  return w->table[i];
}

static int compare_runs(const void *a, const void *b) {
  const fiber *f = *(fiber *const *)a, *g = *(fiber *const *)b;
  if (f->runs != g->runs) return f->runs > g->runs ? -1 : 1;
  return f->key < g->key ? -1 : f->key > g->key;
}

static int compare_keys(const void *a, const void *b) {
  const fiber *f = *(fiber *const *)a, *g = *(fiber *const *)b;
  return f->key < g->key ? -1 : f->key > g->key;
}

/* Those that ran most have a track each, in the order of their keys. */
static void choose_tracks(walk *w) {
  fiber **list = w->tracks = malloc((w->nfibers + 1) * sizeof *list);
  size_t n = 0;
  if (!list) {
    w->failed = ENOMEM;
    return;
  }
  for (size_t i = 0; i < w->size; i++)
    if (w->table[i] && w->table[i]->runs) list[n++] = w->table[i];
  qsort(list, n, sizeof *list, compare_runs);
  if (n > TRACKS) n = TRACKS;
  qsort(list, n, sizeof *list, compare_keys);
  for (size_t i = 0; i < n; i++) list[i]->track = (unsigned)i + 1 + TID;
  w->ntracks = n;
}

/* ---- JSON ---- */

static void flush(walk *w) {
  size_t done;
  if (w->fd >= 0 && w->len && !w->failed) w->failed = port_fs_write(w->fd, w->buffer, w->len, &done);
  w->bytes += w->len;
  w->len = 0;
}

static void add(walk *w, const char *s, size_t n) {
  memcpy(w->buffer + w->len, s, n);
  w->len += n;
}

#define ADD(w, literal) add(w, literal, sizeof(literal) - 1)
static void add_text(walk *w, const char *s) { add(w, s, strlen(s)); }

static void add_number(walk *w, uint64_t n) {
  char digits[24], *p = digits + sizeof digits;
  do *--p = (char)('0' + n % 10); while ((n /= 10) != 0);
  add(w, p, (size_t)(digits + sizeof digits - p));
}

static void add_time(walk *w) {
  uint64_t ns = (uint64_t)((double)w->now * w->rate);
  unsigned rest = (unsigned)(ns % 1000);
  add_number(w, ns / 1000);
  char three[4] = { '.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10) };
  add(w, three, sizeof three);
}

/* How many bytes of UTF-8 begin here, 0: none do. */
static size_t sequence(const unsigned char *p, size_t n) {
  size_t len = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
  if (len == 0 || len > n) return 0;
  for (size_t i = 1; i < len; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f)) return 0;
  return len;
}

/* Inside quotes. */
static void add_escaped(walk *w, const char *s, size_t n) {
  static const char hex[] = "0123456789abcdef";
  for (size_t i = 0; i < n;) {
    unsigned char c = (unsigned char)s[i];
    size_t len = sequence((const unsigned char *)s + i, n - i);
    if (c == '"' || c == '\\') {
      char both[2] = { '\\', (char)c };
      add(w, both, 2);
    } else if (c < 0x20) {
      char code[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
      add(w, code, sizeof code);
    } else if (len == 0) {
      ADD(w, "?");
    } else {
      add(w, s + i, len);
    }
    i += len ? len : 1;
  }
}

/* The text that follows a record; the pieces are in its piece. */
static void add_pieces(walk *w, const uint64_t *record, size_t len, int to_zero) {
  char text[256];
  size_t n = 0;
  if (len > sizeof text - RINGS_TEXT - 1) len = sizeof text - RINGS_TEXT - 1;
  for (const uint64_t *p = record + 2; n < len; p += 2) {
    if ((p[0] & 0xff) != REC_TEXT) break;
    memcpy(text + n, (const char *)p + 1, RINGS_TEXT);
    n += RINGS_TEXT;
  }
  if (n > len) n = len;
  const char *zero = to_zero ? memchr(text, 0, n) : NULL;
  if (zero) n = (size_t)(zero - text);
  add_escaped(w, text, n);
}

static void add_fiber(walk *w, const fiber *f) {
  unsigned number = (unsigned)(f->key & 0xffff);
  ADD(w, "process #");
  add_number(w, f->key >> 16);
  const fiber *p = number ? w->table[slot_of(w, f->key & ~(uint64_t)0xffff)] : f;
  if (p && p->name) {
    ADD(w, " '");
    add_pieces(w, p->name, p->name[1] & 0xfff, 0);
    ADD(w, "'");
  }
  if (!number) return;
  ADD(w, ", fiber #");
  add_number(w, number);
  if (!f->name) return;
  ADD(w, " '");
  add_pieces(w, f->name, f->name[1] & 0xfff, 0);
  ADD(w, "'");
}

static void begin_line(walk *w, char phase, unsigned pid, unsigned tid) {
  char what[3] = { '"', phase, '"' };
  if (w->len > BUFFER - LONGEST_EVENT) flush(w);
  if (w->events++) ADD(w, ",\n");
  ADD(w, "{\"ph\":");
  add(w, what, sizeof what);
  ADD(w, ",\"pid\":");
  add_number(w, pid);
  ADD(w, ",\"tid\":");
  add_number(w, tid);
}

static void begin_event(walk *w, char phase, unsigned pid, unsigned tid) {
  begin_line(w, phase, pid, tid);
  ADD(w, ",\"ts\":");
  add_time(w);
}

static void end_event(walk *w) { ADD(w, "}"); }

static void event_end(walk *w, unsigned pid, unsigned tid) {
  begin_event(w, 'E', pid, tid);
  end_event(w);
}

static void event_begin(walk *w, unsigned pid, unsigned tid, const char *name) {
  begin_event(w, 'B', pid, tid);
  ADD(w, ",\"name\":\"");
  add_escaped(w, name, strlen(name));
  ADD(w, "\"");
  end_event(w);
}

static void event_fiber(walk *w, const thread *t) {
  begin_event(w, 'B', 1, t->id);
  ADD(w, ",\"name\":\"");
  add_fiber(w, t->runs);
  ADD(w, "\"");
  end_event(w);
}

static void event_flow(walk *w, char phase, unsigned tid, size_t id) {
  begin_event(w, phase, 1, tid);
  ADD(w, ",\"cat\":\"wake\",\"name\":\"wake\",\"id\":");
  add_number(w, id);
  if (phase == 'f') ADD(w, ",\"bp\":\"e\"");
  end_event(w);
}

static void metadata(walk *w, unsigned pid, unsigned tid, const char *what) {
  begin_line(w, 'M', pid, tid);
  ADD(w, ",\"name\":\"");
  add_text(w, what);
  ADD(w, "\",\"args\":{\"name\":\"");
}

static void end_metadata(walk *w) {
  ADD(w, "\"}");
  end_event(w);
}

/* ---- names of what is done ---- */

static const char *const whats[TRACE_WHATS] = {
  [TRACE_CONNECT] = "connect", [TRACE_ACCEPT] = "accept", [TRACE_READ] = "read", [TRACE_WRITE] = "write", [TRACE_RECEIVE] = "receive datagram",
  [TRACE_SEND] = "send datagram", [TRACE_REQUEST] = "request", [TRACE_RESOLVE] = "resolve", [TRACE_START_CHILD] = "start program",
  [TRACE_COLLECT] = "collectgarbage", [TRACE_FILE_READ] = "file read", [TRACE_FILE_WRITE] = "file write", [TRACE_FILE_SYNC] = "file sync",
  [TRACE_FILE_CLOSE] = "file close", [TRACE_FILE_OPEN] = "file open", [TRACE_FILE_TEMP] = "file temp", [TRACE_FILE_SLURP] = "file read all",
  [TRACE_FILE_SPILL] = "file write all", [TRACE_FILE_STAT] = "file stat", [TRACE_FILE_LIST] = "file list", [TRACE_FILE_MKDIR] = "file mkdir",
  [TRACE_FILE_REMOVE] = "file remove", [TRACE_FILE_RENAME] = "file rename",
};

static const char *what_of(unsigned what) { return what < TRACE_WHATS ? whats[what] : "?"; }

static const char *op_of(const walk *w, unsigned how) {
  if (how < TRACE_WAITS || how >= RINGS_OPS || !w->head.op[how][0]) return "wait";
  return w->head.op[how];
}

/* ---- steps ---- */

static int is_shown(const walk *w) { return !w->surveys && w->shows; }

/* The track of a fiber goes over to another state. */
static void turn(walk *w, fiber *f, unsigned char state, const char *name) {
  f->state = state;
  if (w->surveys || !f->track) return;
  if (f->shows && w->shows) event_end(w, 2, f->track);
  f->shows = 0;
  if (!name || !w->shows) return;
  event_begin(w, 2, f->track, name);
  f->shows = 1;
}

static void close_inner(walk *w, thread *t) {
  for (; t->depth > 0; t->depth--)
    if (is_shown(w) && t->depth <= DEPTH) event_end(w, 1, t->id);
}

/* The thread's fiber has stopped. It may have been woken, or even run elsewhere, before its thread said so. */
static void stop(walk *w, thread *t, unsigned how) {
  fiber *f = t->runs;
  close_inner(w, t);
  if (!f) return;
  t->runs = NULL;
  if (is_shown(w)) event_end(w, 1, t->id);
  if (f->on != t->id) return;
  f->on = 0;
  if (how >= TRACE_WAITS && !f->woken) turn(w, f, WAITS, op_of(w, how));
  else if (how == TRACE_ENDED || how == 0) turn(w, f, NONE, NULL);
  else turn(w, f, READY, "ready");
  f->woken = 0;
}

static void instant(walk *w, const thread *t, const char *before, const fiber *f, const char *after) {
  begin_event(w, 'i', 1, t->id);
  ADD(w, ",\"s\":\"t\",\"name\":\"");
  add_text(w, before);
  if (f) add_fiber(w, f);
  add_text(w, after);
  ADD(w, "\"");
}

/* An arrow needs a slice at each end; and the one that counts is the last before the fiber runs. */
static void wake(walk *w, thread *t, fiber *f, size_t number) {
  int has_source = t->runs || t->depth > 0;
  f->wake = has_source ? number + 1 : 0;
  f->flows = 0;
  if (!w->surveys && w->shows && has_source && (w->flows[number / 8] >> number % 8 & 1)) {
    event_flow(w, 's', t->id, number + 1);
    f->flows = 1;
  }
  if (f->state == RUNS) f->woken = 1;
  else turn(w, f, READY, "ready");
}

/* A wake-up, or a birth. */
static void on_wake(walk *w, thread *t, uint64_t word, size_t number, int born) {
  fiber *f = fiber_of(w, word >> 12);
  if (!f) return;
  if ((word & 1) && t->runs) stop(w, t, 0);
  if (born && is_shown(w)) {
    instant(w, t, "spawn ", f, "");
    end_event(w);
  }
  wake(w, t, f, number);
}

static void on_run(walk *w, thread *t, uint64_t word, size_t number, int passed) {
  fiber *f = fiber_of(w, word >> 12);
  if (!f) return;
  if (passed && t->runs) wake(w, t, f, number);
  stop(w, t, (unsigned)(word & 0xfff));
  t->runs = f;
  if (w->surveys) {
    f->runs++;
    if (f->wake) w->flows[(f->wake - 1) / 8] |= (unsigned char)(1u << (f->wake - 1) % 8);
  } else if (w->shows) {
    event_fiber(w, t);
    if (f->wake && f->flows) event_flow(w, 'f', t->id, f->wake);
  }
  f->wake = 0;
  f->woken = f->flows = 0;
  turn(w, f, RUNS, NULL);
  f->on = t->id;
}

static void on_end(walk *w, thread *t, const uint64_t *record) {
  fiber *f = fiber_of(w, record[1] >> 12);
  if (!f || !is_shown(w)) return;
  size_t len = record[1] >> 1 & 0x7ff;
  instant(w, t, "", f, record[1] & 1 ? " failed" : " ends");
  if (len) {
    ADD(w, ",\"args\":{\"error\":\"");
    add_pieces(w, record, len, 0);
    ADD(w, "\"}");
  }
  end_event(w);
}

static void on_worker(walk *w, thread *t, uint64_t id) {
  unsigned worker = (unsigned)id + 1;
  if (!t->workers) t->workers = worker;
  if (t->worker && t->worker != worker && is_shown(w)) {
    char text[64];
    snprintf(text, sizeof text, "takes worker %u", worker - 1);
    instant(w, t, text, NULL, "");
    end_event(w);
  }
  t->worker = worker;
}

static void on_begin(walk *w, thread *t, unsigned what) {
  if (t->depth < DEPTH) {
    t->what[t->depth] = (unsigned char)(what < TRACE_WHATS ? what : TRACE_WHATS);
    if (is_shown(w)) event_begin(w, 1, t->id, what_of(what));
  }
  t->depth++;
}

static void on_finish(walk *w, thread *t, int64_t result) {
  if (t->depth == 0) return;
  if (is_shown(w) && t->depth <= DEPTH) {
    begin_event(w, 'E', 1, t->id);
    if (result < 0) {
      const char *name = port_error_name((int)-result);
      ADD(w, ",\"args\":{\"error\":\"");
      add_text(w, name ? name : "?");
      ADD(w, "\"}");
    } else if (result > 0) {
      ADD(w, ",\"args\":{\"result\":");
      add_number(w, (uint64_t)result);
      ADD(w, "}");
    }
    end_event(w);
  }
  t->depth--;
}

/* ---- calls ---- */

static void drop_calls(walk *w) {
  for (size_t i = 0; i < CALLS; i++)
    while (w->calls[i]) {
      call *c = w->calls[i];
      w->calls[i] = c->next;
      free(c);
    }
}

static void event_call(walk *w, char phase, const call *c) {
  begin_event(w, phase, 1, c->tid);
  ADD(w, ",\"cat\":\"corba\",\"id\":\"");
  add_text(w, c->side);
  add_number(w, c->id >> 32);
  ADD(w, ".");
  add_number(w, c->id & 0xffffffffu);
  ADD(w, "\",\"name\":\"");
  add_text(w, c->side);
  ADD(w, " ");
  add_pieces(w, c->text, RINGS_TEXT, 1);
  ADD(w, "\"");
  if (phase == 'b') {
    ADD(w, ",\"args\":{\"request\":");
    add_number(w, c->id & 0xffffffffu);
    ADD(w, "}");
  }
  end_event(w);
}

static void on_call(walk *w, const thread *t, const uint64_t *record, const char *side) {
  if (w->surveys) return;
  call *c = malloc(sizeof *c), **list = &w->calls[record[1] % CALLS];
  if (!c) {
    w->failed = ENOMEM;
    return;
  }
  *c = (call){ .next = *list, .id = record[1], .side = side, .text = record, .tid = t->id, .shows = (unsigned char)w->shows };
  *list = c;
  if (w->shows) event_call(w, 'b', c);
}

static void end_call(walk *w, call **at) {
  call *c = *at;
  *at = c->next;
  if (c->shows) event_call(w, 'e', c);
  free(c);
}

static void on_reply(walk *w, uint64_t id, const char *side) {
  for (call **at = &w->calls[id % CALLS]; *at; at = &(*at)->next)
    if ((*at)->id == id && (*at)->side == side) {
      end_call(w, at);
      return;
    }
}

/* ---- the head: who is who ---- */

static void add_program(walk *w) {
  char text[64];
  add_escaped(w, w->head.program, strlen(w->head.program));
  snprintf(text, sizeof text, " (pid %llu)", (unsigned long long)w->head.pid);
  add_text(w, text);
}

static void name_thread(walk *w, const thread *t) {
  char text[64];
  size_t same = 0;
  for (size_t i = 0; i < w->nthreads && same < 2; i++)
    same += w->threads[i].workers == t->workers && (t->workers || strcmp(w->threads[i].name, t->name) == 0);
  if (!t->workers && *t->name && same == 1) snprintf(text, sizeof text, "%s", t->name);
  else if (!t->workers) snprintf(text, sizeof text, "%s%s%u", t->name, *t->name ? " " : "thread ", t->id);
  else if (same == 1) snprintf(text, sizeof text, "worker %u", t->workers - 1);
  else snprintf(text, sizeof text, "worker %u, thread %u", t->workers - 1, t->id);
  metadata(w, 1, t->id, "thread_name");
  add_escaped(w, text, strlen(text));
  end_metadata(w);
  begin_line(w, 'M', 1, t->id);
  ADD(w, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":");
  add_number(w, t->workers ? t->workers : 1000 + t->id);
  ADD(w, "}");
  end_event(w);
}

static void open_json(walk *w) {
  char text[256];
  int n = snprintf(text, sizeof text, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"pid\":%llu,\"began\":%.6f,\"missing\":%.6f,\"dropped\":%llu},\n\"traceEvents\":[\n",
                   (unsigned long long)w->head.pid, w->head.wall, (double)w->from * w->rate / 1e9, (unsigned long long)atomic_load(&w->head.dropped));
  add(w, text, (size_t)n);
  metadata(w, 1, 0, "process_name");
  ADD(w, "workers of ");
  add_program(w);
  end_metadata(w);
  metadata(w, 2, 0, "process_name");
  ADD(w, "processes of ");
  add_program(w);
  ADD(w, ": what they wait for");
  end_metadata(w);
  for (size_t i = 0; i < w->nthreads; i++) name_thread(w, &w->threads[i]);
  for (size_t i = 0; i < w->ntracks; i++) {
    metadata(w, 2, w->tracks[i]->track, "thread_name");
    add_fiber(w, w->tracks[i]);
    end_metadata(w);
  }
}

/* ---- the walk ---- */

static void step(walk *w, thread *t, const uint64_t *r, size_t number) {
  static const char client[] = "call", server[] = "serve";
  fiber *f;
  switch (r[0] & 0xff) {
    case REC_RUN: on_run(w, t, r[1], number, 0); break;
    case REC_PASS: on_run(w, t, r[1], number, 1); break;
    case REC_STOP: stop(w, t, (unsigned)(r[1] & 0xfff)); break;
    case REC_WAKE: on_wake(w, t, r[1], number, 0); break;
    case REC_BORN: on_wake(w, t, r[1], number, 1); break;
    case REC_NAME:
      if (w->surveys && (f = fiber_of(w, r[1] >> 12)) != NULL) f->name = r;
      break;
    case REC_END: on_end(w, t, r); break;
    case REC_WORKER: on_worker(w, t, r[1]); break;
    case REC_BEGIN: on_begin(w, t, (unsigned)(r[1] & 0xff)); break;
    case REC_FINISH: on_finish(w, t, (int64_t)r[1]); break;
    case REC_CALL: on_call(w, t, r, client); break;
    case REC_SERVE: on_call(w, t, r, server); break;
    case REC_REPLY: on_reply(w, r[1], client); break;
    case REC_SERVED: on_reply(w, r[1], server); break;
    default: break;
  }
}

/* What is open at the first moment that is shown. */
static void show(walk *w) {
  w->shows = 1;
  w->now = w->from;
  if (w->surveys) return;
  for (size_t i = 0; i < w->nthreads; i++) {
    thread *t = &w->threads[i];
    if (t->runs) event_fiber(w, t);
    for (unsigned d = 0; d < t->depth && d < DEPTH; d++) event_begin(w, 1, t->id, what_of(t->what[d]));
  }
  for (size_t i = 0; i < w->size; i++) {
    fiber *f = w->table[i];
    if (!f || !f->track || (f->state != WAITS && f->state != READY)) continue;
    event_begin(w, 2, f->track, f->state == READY ? "ready" : "wait");
    f->shows = 1;
  }
}

static void show_rest(walk *w) {
  for (size_t i = 0; i < w->nthreads; i++) {
    thread *t = &w->threads[i];
    close_inner(w, t);
    if (t->runs) event_end(w, 1, t->id);
  }
  for (size_t i = 0; i < w->size; i++)
    if (w->table[i] && w->table[i]->shows) event_end(w, 2, w->table[i]->track);
  for (size_t i = 0; i < CALLS; i++) while (w->calls[i]) end_call(w, &w->calls[i]);
}

static uint64_t time_of(const thread *t) {
  uint64_t at = t->next->words[2 * t->at] >> 8;
  return at > t->now ? at : t->now;
}

static void sink(walk *w, size_t i) {
  thread *t = w->heap[i];
  for (size_t child; (child = 2 * i + 1) < w->nheap; i = child) {
    if (child + 1 < w->nheap && time_of(w->heap[child + 1]) < time_of(w->heap[child])) child++;
    if (time_of(w->heap[child]) >= time_of(t)) break;
    w->heap[i] = w->heap[child];
    w->heap[child] = t;
  }
}

/* To its next record, over the pieces of texts, which have no time. 0: there is none. */
static int advance(thread *t) {
  do {
    if (++t->at >= t->next->count) {
      t->at = 0;
      if (++t->next == t->end) return 0;
    }
  } while ((t->next->words[2 * t->at] & 0xff) == REC_TEXT);
  return 1;
}

static void rewind_all(walk *w) {
  piece *p = w->pieces;
  drop_calls(w);
  w->nheap = 0;
  w->now = 0;
  w->shows = 0;
  w->bytes = w->events = 0;
  w->len = 0;
  for (size_t i = 0; i < w->nthreads; i++) {
    thread *t = &w->threads[i];
    t->next = p;
    p = t->end;
    t->at = 0;
    t->now = 0;
    t->runs = NULL;
    t->depth = 0;
    t->worker = t->next->worker;
    if ((t->next->words[0] & 0xff) != REC_TEXT || advance(t)) w->heap[w->nheap++] = t;
  }
  for (size_t i = 0; i < w->size; i++) {
    fiber *f = w->table[i];
    if (!f) continue;
    f->state = f->woken = f->shows = f->flows = 0;
    f->on = 0;
    f->wake = 0;
  }
  for (size_t i = w->nheap; i-- > 0;) sink(w, i);
}

static void check(walk *w, size_t done) {
  if (done % CHECKPOINT || !w->checks) return;
  w->checks[2 * w->nchecks] = w->bytes + w->len;
  w->checks[2 * w->nchecks++ + 1] = w->now;
}

static void go(walk *w) {
  rewind_all(w);
  if (!w->surveys) open_json(w);
  for (size_t done = 0; w->nheap > 0 && !w->failed; done++) {
    thread *t = w->heap[0];
    t->now = time_of(t);
    if (!w->shows && t->now >= w->from) show(w);
    if (t->now > w->now) w->now = t->now;
    check(w, done);
    step(w, t, &t->next->words[2 * t->at], t->next->first + t->at);
    if (!advance(t)) w->heap[0] = w->heap[--w->nheap];
    if (w->nheap) sink(w, 0);
  }
  if (!w->surveys && w->shows) show_rest(w);
}

/* ---- all of it ---- */

/* From when on what follows is as long as it may be. */
static void fit(walk *w) {
  uint64_t limit = w->head.size - w->head.size / 16;
  if ((uint64_t)w->nrecords * PER_RECORD <= limit) return;
  w->checks = malloc((w->nrecords / CHECKPOINT + 1) * 2 * sizeof *w->checks);
  if (!w->checks) {
    w->failed = ENOMEM;
    return;
  }
  go(w);
  uint64_t total = w->bytes + w->len;
  for (size_t i = 0; i < w->nchecks && total > limit; i++)
    if (i + 1 == w->nchecks || total - w->checks[2 * i] <= limit) {
      if (w->checks[2 * i + 1] > w->from) w->from = w->checks[2 * i + 1];
      break;
    }
  free(w->checks);
  w->checks = NULL;
}

static int write_json(walk *w, const char *to) {
  int err = port_fs_open(to, PORT_FS_WRITE | PORT_FS_CREATE | PORT_FS_TRUNCATE, &w->fd);
  if (err) return err;
  go(w);
  ADD(w, "\n]}\n");
  flush(w);
  err = port_fs_close(w->fd);
  if (!w->failed) w->failed = err;
  if (w->failed) port_fs_remove(to);
  return w->failed;
}

static int convert(walk *w, const char *to, mr_trace_report *r) {
  int err = make_threads(w);
  w->buffer = malloc(BUFFER);
  if (err || !w->buffer) return ENOMEM;
  measure(w);
  w->from = atomic_load(&w->head.until);
  w->fd = -1;
  w->surveys = 1;
  go(w);
  w->surveys = 0;
  if (!w->failed) choose_tracks(w);
  if (!w->failed) fit(w);
  err = w->failed ? w->failed : write_json(w, to);
  if (r && !err) {
    *r = (mr_trace_report){ .events = w->events, .bytes = w->bytes, .dropped = atomic_load(&w->head.dropped), .full = (int)atomic_load(&w->head.full),
                            .missing = (double)w->from * w->rate / 1e9, .covered = (double)(w->now > w->from ? w->now - w->from : 0) * w->rate / 1e9 };
  }
  return err;
}

static void forget(walk *w) {
  for (size_t i = 0; i < w->size; i++) free(w->table[i]);
  drop_calls(w);
  free(w->tracks);
  free(w->table);
  free(w->flows);
  free(w->heap);
  free(w->threads);
  free(w->pieces);
  free(w->memory);
  free(w->buffer);
  free(w);
}

int mr_trace_convert(const char *rings, const char *to, mr_trace_report *r) {
  port_map m;
  int err = port_map_open(&m, rings);
  if (err) return err == EINVAL ? EBADMSG : err;
  walk *w = calloc(1, sizeof *w);
  err = w ? read_head(&m, &w->head) : ENOMEM;
  if (!err) err = copy(w, &m);
  port_map_close(&m);
  if (!err) err = convert(w, to, r);
  if (w) forget(w);
  return err;
}
