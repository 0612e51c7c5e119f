/*
 * file: operations on files and folders as requests (request.h).
 *
 * An open file has a read-ahead buffer and no write buffer: what `write` accepted is the system's. One operation at a time: who wants to
 * use it claims it (mr_file_claim), and it is free again when the operation's result was taken, or when the abandoned operation has
 * ended. While claimed the descriptor and the buffer belong to the operation; the thread that claimed may do at once what does not
 * block, and submit the rest.
 *
 * A file belongs to one process at a time: sent, it moves. It is counted, and an operation holds a reference, so an abandoned one finds it
 * alive. The last reference closes it, on a thread of its own.
 */
#ifndef MR_FILE_H
#define MR_FILE_H

#include "io/request.h"
#include "port/fs.h"
#include "share/buffer.h"
#include "transfer/transfer.h"

enum { FILE_IDLE, FILE_BUSY, FILE_CLOSED };

typedef struct mr_file {
  mr_movable base;                     /* first */
  atomic_int state;                    /* FILE_* */
  int fd;
  int eof;                             /* (claimed) the last read met the end */
  char *buf;                           /* (claimed) read ahead, or NULL */
  size_t start, end, size;             /* (claimed) content is buf[start..end) */
  size_t seen;                         /* (claimed) no newline in buf[start..seen) */
  char path[];                         /* for messages */
} mr_file;

enum { READ_SOME, READ_COUNT, READ_LINE, READ_LINE_END, READ_ALL };
typedef struct mr_want { int what; size_t count; int buffer; } mr_want;   /* buffer: as one, for who takes it */

typedef enum {
  /* with a claimed file */
  OP_READ, OP_WRITE, OP_SYNC, OP_CLOSE,
  /* with a path */
  OP_OPEN, OP_TEMP, OP_SLURP, OP_SPILL, OP_STAT, OP_LIST, OP_MKDIR, OP_REMOVE, OP_RENAME
} mr_fop;

typedef struct mr_fileop {
  mr_request request;                  /* first */
  mr_fop op;
  int worked;                          /* it had its turn */
  int error;                           /* an errno value */
  mr_file *file;                       /* referenced; claimed until mr_fileop_settle. Result of OP_OPEN and OP_TEMP, or NULL */
  mr_want want;
  unsigned how;                        /* PORT_FS_* for open and spill; else a flag */
  char *data;                          /* malloc'd: to write, or the result of slurp and list; or in `store` */
  mr_store *store;                     /* referenced: what is written lies there; or NULL */
  size_t len, done;
  port_fs_info info;
  char *path, *other;                  /* within text */
  char text[];
} mr_fileop;

extern const mr_sharetype *mr_file_type;         /* set by module/ */

mr_file   *mr_file_new(const char *path);        /* claimed, without a descriptor; one reference; NULL: no memory */
void       mr_file_destroy(mr_shared *o);
int        mr_file_claim(mr_file *f);            /* 0, EBUSY or EBADF */
void       mr_file_unclaim(mr_file *f);

/* (claimed) The buffer holds what is wanted, perhaps after reading what can be read without blocking. */
int        mr_file_ready(mr_file *f, const mr_want *w);
/* (claimed) What is wanted out of the buffer, as far as it is there: *len bytes at *p, valid until the next read. 0: nothing, the end. */
int        mr_file_slice(mr_file *f, const mr_want *w, const char **p, size_t *len);
void       mr_file_consume(mr_file *f, const mr_want *w, size_t len);    /* the slice was used */
/* (claimed) Instead: the slice is all there is in the read-ahead buffer, which becomes the caller's (malloc's). NULL: it is not, or a copy is cheaper. */
char      *mr_file_give(mr_file *f, size_t len);
int        mr_file_seek(mr_file *f, int64_t offset, int from, int64_t *pos);     /* (claimed) 0 or an errno value; does not block */
/* (claimed) Writes a small piece if that does not block: how much of it. */
size_t     mr_file_write_now(mr_file *f, const char *p, size_t len);

/* (claimed) For fileop.c: blocking or not, see file.c. */
int        mr_file_has(mr_file *f, const mr_want *w);
int        mr_file_fill(mr_file *f, int now);
int        mr_file_unread(mr_file *f);

mr_fileop *mr_fileop_new(mr_fop op, const char *path, const char *other);   /* copies both, if any; NULL: no memory */
int        mr_fileop_use(mr_fileop *o, mr_file *f);    /* o claims f and refers to it: 0, EBUSY or EBADF */
void       mr_fileop_settle(mr_fileop *o);       /* the asker has taken the result: the file is free for others */
void       mr_file_close_later(mr_file *f);      /* closes an idle file without waiting */

#endif
