/* fileop: what the threads of MR_FILES do for mare.file; see file.h. */
#include "io/file.h"
#include "observe/trace.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int read_wanted(mr_fileop *o) {
  mr_file *f = o->file;
  int err = 0;
  for (f->eof = 0; !err && !f->eof && !mr_file_has(f, &o->want);) err = mr_file_fill(f, 0);
  return err;
}

static int write_all(mr_fileop *o) {
  int err = mr_file_unread(o->file);
  return err ? err : port_fs_write(o->file->fd, o->data, o->len, &o->done);
}

static int close_file(mr_file *f) {
  int fd = f->fd;
  f->fd = -1;
  return port_fs_close(fd);
}

static int open_file(mr_fileop *o) {
  int fd, err = port_fs_open(o->path, o->how, &fd);
  if (!err) o->file->fd = fd;
  return err;
}

static int open_temp(mr_fileop *o) {
  int fd, err = port_fs_temp(o->path, &fd);
  if (err) return err;
  o->file->fd = fd;
  memcpy(o->file->path, o->path, strlen(o->path) + 1);       /* of the same length */
  return 0;
}

/* One byte more than the file seems to have, so that its end is met by the first read that fits. */
static int read_to_end(mr_fileop *o, int fd, size_t size) {
  for (;;) {
    size_t got;
    if (size - o->len < 2) size = size * 2 + 4096;
    char *p = realloc(o->data, size);
    if (!p) return ENOMEM;
    o->data = p;
    do {
      int err = port_fs_read(fd, o->data + o->len, size - o->len, &got);
      if (err) return err;
      o->len += got;
    } while (got > 0 && o->len < size);
    if (got == 0) return 0;
  }
}

static int slurp(mr_fileop *o) {
  int fd, err = port_fs_open(o->path, PORT_FS_READ, &fd);
  if (err) return err;
  err = port_fs_info_of(fd, &o->info);
  if (!err && strcmp(o->info.type, "character device") == 0) err = ENOTSUP;
  if (!err && o->info.size >= INT64_MAX / 2) err = EFBIG;
  if (!err) err = read_to_end(o, fd, (size_t)o->info.size + 2);
  port_fs_close(fd);
  return err;
}

static int spill(mr_fileop *o) {
  int fd, err = port_fs_open(o->path, o->how, &fd);
  if (err) return err;
  err = port_fs_write(fd, o->data, o->len, &o->done);
  int last = port_fs_close(fd);
  return err ? err : last;
}

_Static_assert(TRACE_FILE_RENAME - TRACE_FILE_READ == (int)OP_RENAME - (int)OP_READ, "a trace has names for them, in this order");

static void work(mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  o->worked = 1;
  mr_trace_begin((mr_trace_what)(TRACE_FILE_READ + (int)o->op));
  switch (o->op) {
    case OP_READ: o->error = read_wanted(o); break;
    case OP_WRITE: o->error = write_all(o); break;
    case OP_SYNC: o->error = port_fs_sync(o->file->fd); break;
    case OP_CLOSE: o->error = close_file(o->file); break;
    case OP_OPEN: o->error = open_file(o); break;
    case OP_TEMP: o->error = open_temp(o); break;
    case OP_SLURP: o->error = slurp(o); break;
    case OP_SPILL: o->error = spill(o); break;
    case OP_STAT: o->error = port_fs_stat(o->path, (int)o->how, &o->info); break;
    case OP_LIST: o->error = port_fs_list(o->path, &o->data, &o->len); break;
    case OP_MKDIR: o->error = port_fs_mkdir(o->path, (int)o->how); break;
    case OP_REMOVE: o->error = o->how ? port_fs_remove_all(o->path) : port_fs_remove(o->path); break;
    case OP_RENAME: o->error = port_fs_rename(o->path, o->other); break;
  }
  mr_trace_finish(-o->error);
}

void mr_fileop_settle(mr_fileop *o) {
  mr_file *f = o->file;
  o->file = NULL;
  if (!f) return;
  mr_file_unclaim(f);
  mr_release(&f->base.shared);
}

static void destroy(mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  if (o->op == OP_TEMP && o->worked && !o->error && o->file) port_fs_remove(o->path);   /* nobody has got it: too late, or no memory */
  mr_fileop_settle(o);
  if (o->store) mr_store_release(o->store);
  else free(o->data);
  free(o);
}

mr_fileop *mr_fileop_new(mr_fop op, const char *path, const char *other) {
  size_t n = path ? strlen(path) + 1 : 0, m = other ? strlen(other) + 1 : 0;
  mr_fileop *o = calloc(1, sizeof *o + n + m);
  if (!o) return NULL;
  mr_request_init(&o->request, work, destroy);
  o->op = op;
  if (path) o->path = memcpy(o->text, path, n);
  if (other) o->other = memcpy(o->text + n, other, m);
  return o;
}

int mr_fileop_use(mr_fileop *o, mr_file *f) {
  int err = mr_file_claim(f);
  if (err) return err;
  o->file = f;
  mr_retain(&f->base.shared);
  return 0;
}
