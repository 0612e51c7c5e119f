/*
 * cut: see cut.h. The records of all threads are walked in the order of time, two or three times: to learn names, which wake-ups have both ends, and
 * which fibers ran most; if the JSON could be too long, to find from when on it fits; and to write it.
 *
 * What a walk knows of threads and fibers it also knows of what it does not show, so that at the first moment shown everything that is open begins.
 */
#include "observe/cut.h"
#include "observe/trace.h"
#include "observe/walk.h"
#include "port/fs.h"
#include "port/map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 0xffff, CHECKPOINT = 256, PER_RECORD = 700 };

/* ---- names of what is done ---- */

static const char *const whats[TRACE_WHATS] = {
  [TRACE_CONNECT] = "connect", [TRACE_ACCEPT] = "accept", [TRACE_READ] = "read", [TRACE_WRITE] = "write", [TRACE_RECEIVE] = "receive datagram",
  [TRACE_SEND] = "send datagram", [TRACE_REQUEST] = "request", [TRACE_RESOLVE] = "resolve", [TRACE_START_CHILD] = "start program",
  [TRACE_COLLECT] = "gc step", [TRACE_COLLECT_ALL] = "gc", [TRACE_FILE_READ] = "file read", [TRACE_FILE_WRITE] = "file write", [TRACE_FILE_SYNC] = "file sync",
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

static void show_state(walk *w, fiber *f) {
  if (f->state == READY) mr_trace_event_begin(w, 2, f->track, "ready");
  else mr_trace_event_wait(w, f->track, op_of(w, f->how & 0xfff), w->numbers[f->how >> 12 & 0xffff]);
  f->shows = 1;
}

/* The track of a fiber goes over to another state. */
static void turn(walk *w, fiber *f, unsigned char state) {
  f->state = state;
  if (w->surveys || !f->track) return;
  if (f->shows && w->shows) mr_trace_event_end(w, 2, f->track);
  f->shows = 0;
  if ((state == WAITS || state == READY) && w->shows) show_state(w, f);
}

static void close_inner(walk *w, thread *t) {
  for (; t->depth > 0; t->depth--)
    if (is_shown(w) && t->depth <= DEPTH) mr_trace_event_end(w, 1, t->id);
}

/* The thread's fiber has stopped. It may have been woken, or even run elsewhere, before its thread said so. */
static void stop(walk *w, thread *t, unsigned how) {
  fiber *f = t->runs;
  close_inner(w, t);
  if (!f) return;
  t->runs = NULL;
  if (is_shown(w)) mr_trace_event_end(w, 1, t->id);
  if (f->on != t->id) return;
  f->on = 0;
  f->how = how;
  if ((how & 0xfff) >= TRACE_WAITS && !f->woken) turn(w, f, WAITS);
  else if (how == TRACE_ENDED || how == 0) turn(w, f, NONE);
  else turn(w, f, READY);
  f->woken = 0;
}

/* An arrow needs a slice at each end; and the one that counts is the last before the fiber runs. */
static void wake(walk *w, thread *t, fiber *f, size_t number) {
  int has_source = t->runs || t->depth > 0;
  f->wake = has_source ? number + 1 : 0;
  f->flows = 0;
  if (!w->surveys && w->shows && has_source && (w->flows[number / 8] >> number % 8 & 1)) {
    mr_trace_event_flow(w, 's', t->id, number + 1);
    f->flows = 1;
  }
  if (f->state == RUNS) f->woken = 1;
  else turn(w, f, READY);
}

/* A wake-up, or a birth. */
static void on_wake(walk *w, thread *t, uint64_t word, size_t number, int born) {
  fiber *f = mr_trace_fiber_of(w, word >> 12);
  if (!f) return;
  if ((word & 1) && t->runs) stop(w, t, 0);
  if (born && is_shown(w)) mr_trace_event_instant(w, t, "spawn ", f, "");
  wake(w, t, f, number);
}

static void on_run(walk *w, thread *t, uint64_t key, unsigned how, size_t number, int passed) {
  fiber *f = mr_trace_fiber_of(w, key);
  if (!f) return;
  if (passed && t->runs) wake(w, t, f, number);
  stop(w, t, how);
  t->runs = f;
  if (w->surveys) {
    f->runs++;
    if (f->wake) w->flows[(f->wake - 1) / 8] |= (unsigned char)(1u << (f->wake - 1) % 8);
  } else if (w->shows) {
    mr_trace_event_fiber(w, t);
    if (f->wake && f->flows) mr_trace_event_flow(w, 'f', t->id, f->wake);
  }
  f->wake = 0;
  f->woken = f->flows = 0;
  turn(w, f, RUNS);
  f->on = t->id;
}

static void on_end(walk *w, thread *t, const uint64_t *record) {
  fiber *f = mr_trace_fiber_of(w, record[1] >> 12);
  if (f && is_shown(w)) mr_trace_event_over(w, t, f, record);
}

static void on_worker(walk *w, thread *t, uint64_t id) {
  unsigned worker = (unsigned)id + 1;
  if (!t->workers) t->workers = worker;
  if (t->worker && t->worker != worker && is_shown(w)) {
    char text[64];
    snprintf(text, sizeof text, "takes worker %u", worker - 1);
    mr_trace_event_instant(w, t, text, NULL, "");
  }
  t->worker = worker;
}

static void on_begin(walk *w, thread *t, unsigned what) {
  if (t->depth < DEPTH) {
    t->what[t->depth] = (unsigned char)(what < TRACE_WHATS ? what : TRACE_WHATS);
    if (is_shown(w)) mr_trace_event_begin(w, 1, t->id, what_of(what));
  }
  t->depth++;
}

static void on_finish(walk *w, thread *t, int64_t result) {
  if (t->depth == 0) return;
  if (is_shown(w) && t->depth <= DEPTH) mr_trace_event_result(w, t->id, result);
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

static void on_call(walk *w, const thread *t, const uint64_t *record, const char *side) {
  if (w->surveys) return;
  call *c = malloc(sizeof *c), **list = &w->calls[record[1] % CALLS];
  if (!c) {
    w->failed = ENOMEM;
    return;
  }
  *c = (call){ .next = *list, .id = record[1], .side = side, .text = record, .tid = t->id, .shows = (unsigned char)w->shows };
  *list = c;
  if (w->shows) mr_trace_event_call(w, 'b', c);
}

static void end_call(walk *w, call **at) {
  call *c = *at;
  *at = c->next;
  if (c->shows) mr_trace_event_call(w, 'e', c);
  free(c);
}

static void on_reply(walk *w, uint64_t id, const char *side) {
  for (call **at = &w->calls[id % CALLS]; *at; at = &(*at)->next)
    if ((*at)->id == id && (*at)->side == side) {
      end_call(w, at);
      return;
    }
}

/* ---- the walk ---- */

static void step(walk *w, thread *t, const uint64_t *r, size_t number) {
  static const char client[] = "call", server[] = "serve";
  fiber *f;
  switch (r[0] & 0xff) {
    case REC_RUN: on_run(w, t, r[1] >> 28 << 16, (unsigned)(r[1] & 0xfffffff), number, 0); break;
    case REC_PASS: on_run(w, t, r[1] >> 28 << 16, (unsigned)(r[1] & 0xfffffff), number, 1); break;
    case REC_RUN_OTHER: on_run(w, t, r[1] >> 12, (unsigned)(r[1] & 0xfff), number, 0); break;
    case REC_PASS_OTHER: on_run(w, t, r[1] >> 12, (unsigned)(r[1] & 0xfff), number, 1); break;
    case REC_NUMBER: w->numbers[r[1] >> 12 & 0xffff] = r; break;
    case REC_STOP: stop(w, t, (unsigned)(r[1] & 0xfffffff)); break;
    case REC_WAKE: on_wake(w, t, r[1], number, 0); break;
    case REC_BORN: on_wake(w, t, r[1], number, 1); break;
    case REC_NAME:
      if (w->surveys && (f = mr_trace_fiber_of(w, r[1] >> 12)) != NULL) f->name = r;
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
    if (t->runs) mr_trace_event_fiber(w, t);
    for (unsigned d = 0; d < t->depth && d < DEPTH; d++) mr_trace_event_begin(w, 1, t->id, what_of(t->what[d]));
  }
  for (size_t i = 0; i < w->size; i++) {
    fiber *f = w->table[i];
    if (f && f->track && (f->state == WAITS || f->state == READY)) show_state(w, f);
  }
}

static void show_rest(walk *w) {
  for (size_t i = 0; i < w->nthreads; i++) {
    thread *t = &w->threads[i];
    close_inner(w, t);
    if (t->runs) mr_trace_event_end(w, 1, t->id);
  }
  for (size_t i = 0; i < w->size; i++)
    if (w->table[i] && w->table[i]->shows) mr_trace_event_end(w, 2, w->table[i]->track);
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
  memset(w->numbers, 0, (NUMBERS + 1) * sizeof *w->numbers);
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
  if (!w->surveys) mr_trace_open_json(w);
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

/* What is half written goes; a device stays, and so does a link to one. */
static void drop(const char *to) {
  port_fs_info i;
  if (port_fs_stat(to, 1, &i) == 0 && strcmp(i.type, "file") == 0) port_fs_remove(to);
}

static int write_json(walk *w, const char *to) {
  int err = port_fs_open(to, PORT_FS_WRITE | PORT_FS_CREATE | PORT_FS_TRUNCATE, &w->fd);
  if (err) return err;
  go(w);
  mr_trace_close_json(w);
  err = port_fs_close(w->fd);
  if (!w->failed) w->failed = err;
  if (w->failed) drop(to);
  return w->failed;
}

static int convert(walk *w, const char *to, mr_trace_report *r) {
  w->buffer = malloc(BUFFER);
  w->numbers = malloc((NUMBERS + 1) * sizeof *w->numbers);
  if (!w->buffer || !w->numbers) return ENOMEM;
  w->from = atomic_load(&w->head.until);
  w->fd = -1;
  w->surveys = 1;
  go(w);
  w->surveys = 0;
  if (!w->failed) mr_trace_choose_tracks(w);
  if (!w->failed) fit(w);
  int err = w->failed ? w->failed : write_json(w, to);
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
  free(w->numbers);
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
  err = w ? mr_trace_read(w, &m) : ENOMEM;
  port_map_close(&m);
  if (!err) err = convert(w, to, r);
  if (w) forget(w);
  return err;
}
