/*
 * walk_json: the JSON of a walk. A buffer goes to the file when an event, of which none is longer than LONGEST_EVENT, might not fit any more; without a
 * file the bytes are only counted. What programs call things is escaped, and what is no UTF-8 becomes "?": the JSON is valid whatever the records hold.
 */
#include "observe/walk.h"
#include "base/json.h"
#include "port/errors.h"
#include "port/fs.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_EVENT = 8192 };

/* ---- values ---- */

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

static void add_number(walk *w, uint64_t n) { w->len = (size_t)(mr_json_natural(w->buffer + w->len, n) - w->buffer); }

static void add_time(walk *w) {
  uint64_t ns = (uint64_t)((double)w->now * w->rate);
  unsigned rest = (unsigned)(ns % 1000);
  add_number(w, ns / 1000);
  char three[4] = { '.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10) };
  add(w, three, sizeof three);
}

/* Inside quotes. */
static void add_escaped(walk *w, const char *s, size_t n) { w->len += mr_json_escape(w->buffer + w->len, s, n, MR_JSON_MARK); }

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
  const fiber *p = number ? mr_trace_fiber_known(w, f->key & ~(uint64_t)0xffff) : f;
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

/* ---- events ---- */

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

void mr_trace_event_end(walk *w, unsigned pid, unsigned tid) {
  begin_event(w, 'E', pid, tid);
  end_event(w);
}

void mr_trace_event_result(walk *w, unsigned tid, int64_t result) {
  begin_event(w, 'E', 1, tid);
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

void mr_trace_event_begin(walk *w, unsigned pid, unsigned tid, const char *name) {
  begin_event(w, 'B', pid, tid);
  ADD(w, ",\"name\":\"");
  add_escaped(w, name, strlen(name));
  ADD(w, "\"");
  end_event(w);
}

void mr_trace_event_wait(walk *w, unsigned tid, const char *op, const uint64_t *number) {
  begin_event(w, 'B', 2, tid);
  ADD(w, ",\"name\":\"");
  add_escaped(w, op, strlen(op));
  if (number && (number[1] & 0xfff)) {
    ADD(w, ", ");
    add_pieces(w, number, number[1] & 0xfff, 0);
  }
  ADD(w, "\"");
  end_event(w);
}

void mr_trace_event_fiber(walk *w, const thread *t) {
  begin_event(w, 'B', 1, t->id);
  ADD(w, ",\"name\":\"");
  add_fiber(w, t->runs);
  ADD(w, "\"");
  end_event(w);
}

void mr_trace_event_flow(walk *w, char phase, unsigned tid, size_t id) {
  begin_event(w, phase, 1, tid);
  ADD(w, ",\"cat\":\"wake\",\"name\":\"wake\",\"id\":");
  add_number(w, id);
  if (phase == 'f') ADD(w, ",\"bp\":\"e\"");
  end_event(w);
}

static void instant(walk *w, const thread *t, const char *before, const fiber *f, const char *after) {
  begin_event(w, 'i', 1, t->id);
  ADD(w, ",\"s\":\"t\",\"name\":\"");
  add_text(w, before);
  if (f) add_fiber(w, f);
  add_text(w, after);
  ADD(w, "\"");
}

void mr_trace_event_instant(walk *w, const thread *t, const char *before, const fiber *f, const char *after) {
  instant(w, t, before, f, after);
  end_event(w);
}

void mr_trace_event_over(walk *w, const thread *t, const fiber *f, const uint64_t *record) {
  size_t len = record[1] >> 1 & 0x7ff;
  instant(w, t, "", f, record[1] & 1 ? " failed" : " ends");
  if (len) {
    ADD(w, ",\"args\":{\"error\":\"");
    add_pieces(w, record, len, 0);
    ADD(w, "\"}");
  }
  end_event(w);
}

void mr_trace_event_call(walk *w, char phase, const call *c) {
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

/* ---- the head: who is who ---- */

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

void mr_trace_open_json(walk *w) {
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

void mr_trace_close_json(walk *w) {
  ADD(w, "\n]}\n");
  flush(w);
}
