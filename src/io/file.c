/* file: open files: claiming, the read-ahead buffer, closing. See file.h; the operations are in fileop.c. */
#include "io/file.h"
#include "observe/trace.h"
#include "process/process.h"
#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 65536
#define AT_ONCE 262144                 /* bytes read or written on a worker before the rest is left to another thread */

const mr_sharetype *mr_file_type;

mr_file *mr_file_new(const char *path) {
  size_t n = strlen(path) + 1;
  mr_file *f = calloc(1, sizeof *f + n);
  if (!f) return NULL;
  f->base.shared.type = mr_file_type;
  atomic_init(&f->base.shared.refs, 1);
  atomic_init(&f->state, FILE_BUSY);
  f->fd = -1;
  memcpy(f->path, path, n);
  return f;
}

typedef struct closing { mr_request request; int fd; } closing;

static void close_fd(mr_request *r) { port_fs_close(((closing *)r)->fd); }
static void closed(mr_request *r) { free(r); }

/* Closing may wait for a slow file system. */
static void close_apart(int fd) {
  closing *c = mr_forked() ? NULL : malloc(sizeof *c);
  if (!c) {
    port_fs_close(fd);
    return;
  }
  c->fd = fd;
  mr_request_init(&c->request, close_fd, closed);
  c->request.anyway = 1;
  mr_request_submit(&c->request, MR_FILES);
  mr_request_drop(&c->request);
}

void mr_file_destroy(mr_shared *o) {
  mr_file *f = (mr_file *)o;
  if (f->fd >= 0) close_apart(f->fd);
  free(f->buf);
  free(f);
}

void mr_file_close_later(mr_file *f) {
  if (mr_file_claim(f) != 0) return;
  close_apart(f->fd);
  f->fd = -1;
  atomic_store(&f->state, FILE_CLOSED);
}

int mr_file_claim(mr_file *f) {
  int idle = FILE_IDLE;
  port_chaos();
  if (atomic_compare_exchange_strong(&f->state, &idle, FILE_BUSY)) return 0;
  return idle == FILE_CLOSED ? EBADF : EBUSY;
}

void mr_file_unclaim(mr_file *f) { atomic_store(&f->state, f->fd >= 0 ? FILE_IDLE : FILE_CLOSED); }

/* ---- reading ---- */

static int found_line(mr_file *f) {
  if (f->seen < f->start) f->seen = f->start;
  const char *nl = f->end > f->seen ? memchr(f->buf + f->seen, '\n', f->end - f->seen) : NULL;
  f->seen = nl ? (size_t)(nl - f->buf) : f->end;
  return nl != NULL;
}

int mr_file_has(mr_file *f, const mr_want *w) {
  switch (w->what) {
    case READ_SOME: return f->end > f->start;
    case READ_COUNT: return f->end - f->start >= (w->count ? w->count : 1);
    case READ_ALL: return 0;
    default: return found_line(f);
  }
}

/* Place for a chunk after the content. 0: no memory. */
static int room(mr_file *f) {
  size_t n = f->end - f->start;
  if (f->size - f->end >= CHUNK) return 1;
  if (f->start > 0 && f->start >= f->size / 2) {            /* so every byte is moved at most once */
    memmove(f->buf, f->buf + f->start, n);
    f->seen = f->seen > f->start ? f->seen - f->start : 0;
    f->start = 0;
    f->end = n;
    if (f->size - f->end >= CHUNK) return 1;
  }
  size_t size = f->size ? f->size * 2 : CHUNK;
  if (size - f->end < CHUNK) size = f->end + CHUNK;
  char *buf = realloc(f->buf, size);
  if (!buf) return 0;
  f->buf = buf;
  f->size = size;
  return 1;
}

/* One more chunk. 0, or an errno value; at the end of the file f->eof. */
int mr_file_fill(mr_file *f, int now) {
  size_t got = 0;
  if (!room(f)) return ENOMEM;
  if (now) mr_trace_begin(TRACE_FILE_READ);
  int err = (now ? port_fs_read_now : port_fs_read)(f->fd, f->buf + f->end, f->size - f->end, &got);
  if (now) mr_trace_finish(err ? -err : (int64_t)got);
  f->eof = !err && got == 0;
  f->end += got;
  return err;
}

int mr_file_ready(mr_file *f, const mr_want *w) {
  size_t had = f->end - f->start;
  f->eof = 0;
  while (!mr_file_has(f, w)) {
    if (f->end - f->start - had >= AT_ONCE || mr_file_fill(f, 1) != 0) return 0;
    if (f->eof) return 1;
  }
  return 1;
}

int mr_file_slice(mr_file *f, const mr_want *w, const char **p, size_t *len) {
  size_t n = f->end - f->start;
  *p = f->buf ? f->buf + f->start : "";
  if (n == 0 && w->what != READ_ALL) return 0;
  if (w->what == READ_COUNT && n > w->count) n = w->count;
  if (w->what == READ_LINE || w->what == READ_LINE_END)
    if (found_line(f)) n = f->seen - f->start + (w->what == READ_LINE_END);
  *len = n;
  return 1;
}

void mr_file_consume(mr_file *f, const mr_want *w, size_t len) {
  f->start += len;
  if (w->what == READ_LINE && f->start < f->end && f->buf[f->start] == '\n') f->start++;
  if (f->start < f->end) return;
  f->start = f->end = f->seen = 0;
  if (f->size <= 2 * CHUNK) return;
  free(f->buf);                                             /* it was a large one */
  f->buf = NULL;
  f->size = 0;
}

#define WORTH 16384                    /* bytes from which giving a block away is cheaper than a copy */

char *mr_file_give(mr_file *f, size_t len) {
  char *block = f->buf;
  if (len < WORTH || len != f->end - f->start || f->start != 0 || len < f->size / 2) return NULL;
  f->buf = NULL;
  f->size = f->start = f->end = f->seen = 0;
  return block;
}

/* ---- position and writing ---- */

/* The system's position is behind what was read ahead. */
int mr_file_unread(mr_file *f) {
  int64_t pos;
  size_t ahead = f->end - f->start;
  f->start = f->end = f->seen = 0;
  int err = ahead ? port_fs_seek(f->fd, -(int64_t)ahead, PORT_FS_CURRENT, &pos) : 0;
  return err == ESPIPE ? 0 : err;
}

int mr_file_seek(mr_file *f, int64_t offset, int from, int64_t *pos) {
  int err = mr_file_unread(f);
  return err ? err : port_fs_seek(f->fd, offset, from, pos);
}

size_t mr_file_write_now(mr_file *f, const char *p, size_t len) {
  size_t done = 0;
  if (len == 0 || len > AT_ONCE || mr_file_unread(f) != 0) return 0;
  mr_trace_begin(TRACE_FILE_WRITE);
  port_fs_write_now(f->fd, p, len, &done);
  mr_trace_finish((int64_t)done);
  return done;
}
