/*
 * conn: a stream socket that is connected (or becomes so), with or without TLS on it.
 *
 * Ownership. A connection belongs to one process at a time - it is moved in messages, not shared - so its fields need no lock: a process
 * runs on one thread at a time. Its descriptor is watched from its opening to its closing.
 *
 * Reading. Bytes come into the thread's scratch buffer and go from there into a Lua string; only what was not asked for stays in `in`, which
 * owns memory only then. At most one fiber reads (`reading`). `dry`: the last read got less than it asked for, so the kernel has nothing
 * until the next edge and a read would only say so. A program that is one process, with one worker, waits for bytes in the read itself
 * (mr_conn_stay): that is one system call less, and nobody else could run meanwhile.
 *
 * Writing. What is written goes to the kernel at once, or, buffered, into `out` first. One fiber writes at a time (`writing`); others
 * wait in `turns`, first come first served, so that what one call writes stays together.
 */
#ifndef IO_CONN_H
#define IO_CONN_H

#include "port/net.h"
#include "run/poll.h"
#include "process/await.h"
#include "io/bytes.h"

typedef struct mr_tls mr_tls;

/* How messages of a protocol are told apart in a stream. */
typedef struct mr_framing {
  const char *name;                  /* "GIOP": a message of the protocol is "a GIOP message" */
  /* How long the message is that begins with these bytes; 0: more are needed to know. -1: it is none; *why says what is wrong. */
  int64_t (*length)(const char *p, size_t len, const char **why);
  int (*results)(lua_State *L);      /* or NULL: pushes what is returned behind the message, which is at the top; how many */
  size_t large;                      /* 0, or: messages of so many bytes may be given to adopt */
  /* Takes the bytes over and pushes something that owns them. 0: it does not want them, -1: they are gone, a finaliser closed the connection. */
  int (*adopt)(lua_State *L, struct mr_bytes *b);
} mr_framing;

typedef struct mr_conn {
  mr_movable base;                   /* first */
  int fd;                            /* -1: closed */
  mr_watch *watch;                   /* NULL: closed */
  unsigned char dry, eof, sent;      /* eof: the peer has ended its side; sent: ours is ended */
  unsigned char reading, writing;    /* a fiber is in the operation */
  unsigned short selected, selects_read;   /* calls of select that wait for it; and those of them that wait for bytes */
  mr_fiber *selector;                /* who waits in those: one fiber, as only one is woken when bytes come */
  unsigned char waits_for;           /* the direction the fiber that writes waits in */
  unsigned char lost;                /* bytes were lost: Lua had no memory for their string */
  unsigned char alone;               /* reads in a row that could have waited in the kernel, up to PATIENT: from then on they do; or NEVER */
  mr_fiber *stays;                   /* who reads now and may wait in the read; or NULL */
  int awaited;                       /* bytes the system waits for before it calls the descriptor readable, 0: any */
  int rerr, werr;                    /* errno values that stay: the direction is broken */
  mr_bytes in, out;
  uint64_t moved;                    /* bytes read and written in all: who waits for the peer sees by it whether there is progress */
  size_t buffered;                   /* `out` may hold so much; 0: nothing is held back */
  uint64_t patience;                 /* ns each operation may wait unless it says otherwise; UINT64_MAX: for ever */
  mr_wait *turns;                    /* the first of the fibers that want to write; circular, without a head */
  mr_tls *tls;                       /* owned, or NULL */
  mr_seat *seat;                     /* where it counts for the process that accepted it and still has it; or NULL */
  unsigned char accepted;            /* just now: no state has it yet */
  struct {                           /* of the fiber that reads */
    unsigned char kind;
    unsigned char buffer;            /* given as a buffer */
    size_t n;                        /* of WANT_COUNT: bytes; of WANT_UNTIL: how many at most; of WANT_FRAME: bytes, 0 until that is known */
    size_t seen;                     /* bytes of `in` that were looked at in vain */
    const mr_framing *framing;       /* of WANT_FRAME */
    size_t limit;                    /* of WANT_FRAME: the longest message that is taken */
    size_t room;                     /* of WANT_FRAME: the longest one for which there is room now; a longer one stays in the socket */
  } want;
  struct {                           /* of the fiber that writes */
    unsigned char kind;              /* module/conn.c's */
    int index, last;                 /* indices in its stack */
    size_t offset;                   /* of the string at index, sent already */
    size_t done;                     /* bytes sent or buffered in all */
  } job;
} mr_conn;
extern const mr_sharetype *mr_conn_type;          /* set by module/ */

enum { WANT_SOME, WANT_COUNT, WANT_LINE, WANT_KEPT_LINE, WANT_ALL, WANT_UNTIL, WANT_FRAME };

/* Takes the descriptor over, also when it fails. One reference, the caller's; NULL: *err is an errno value. */
mr_conn *mr_conn_new(int fd, int *err);
/* With a watch that is open already (of a connect). */
mr_conn *mr_conn_adopt(int fd, mr_watch *w);
void     mr_conn_destroy(mr_shared *o);
void     mr_conn_dropped(mr_shared *o);            /* its owner has forgotten it: says what can be said without waiting, and closes */
const char *mr_conn_busy(mr_shared *o);
/* Ends it for both sides at once; waiters are woken. What `out` holds is lost. */
void     mr_conn_drop(mr_conn *c, mr_fiber *near);
void     mr_conn_unseat(mr_conn *c);               /* it does not count any more */

#define MR_SCRATCH 65536
char    *mr_scratch(mr_fiber *f);                  /* MR_SCRATCH bytes of the thread; NULL: no memory */

/* One try. Bytes, 0 at the end of the stream, or minus an errno value: -EAGAIN wants a wait for mr_conn_direction. */
long     mr_conn_read(mr_conn *c, void *p, size_t n);
int      mr_conn_stay(mr_conn *c, mr_fiber *f);   /* 1: f's next mr_conn_read waits for bytes, up to the monitor's next look. Or 0 */
void     mr_conn_hasty(mr_conn *c);               /* its descriptor is known outside: its reads never wait in the kernel any more */
long     mr_conn_write(mr_conn *c, const port_slice *s, int n);
long     mr_conn_raw_read(mr_conn *c, void *p, size_t n);   /* below TLS */
int      mr_conn_direction(mr_conn *c, int usual);          /* MR_READ or MR_WRITE */
int      mr_conn_settled(const mr_conn *c);                 /* of TLS: its handshake is over, and what was written is with the kernel */
int      mr_conn_ready(mr_conn *c, mr_fiber *f);            /* 1: a read would not wait; may fetch something */
void     mr_conn_linger(mr_conn *c, mr_fiber *f);           /* before it is closed: takes what has come, or the peer would lose what we sent */
/* How many of the first len bytes at p fulfil what is wanted: 0 = more are needed, -1 = it is too long, beyond the room there is, or no message. *give: how many are
   the result. */
typedef struct mr_pattern { const char *p; size_t len; } mr_pattern;   /* of WANT_UNTIL */
long     mr_conn_match(mr_conn *c, const char *p, size_t len, const mr_pattern *pattern, size_t *give);
void     mr_conn_turn_add(mr_conn *c, mr_wait *w);
void     mr_conn_turn_del(mr_conn *c, mr_wait *w); /* also when it is not there */

#ifdef MR_CHECKS
void     mr_conn_check(const mr_conn *c);          /* by its owner */
#else
#define mr_conn_check(c) ((void)0)
#endif

int      mr_conn_selected_by_other(const mr_conn *c, const mr_fiber *f);   /* another fiber waits in select for bytes to come */
/* For select, functions of mr_waitops: until a read would not wait; or a write, at least not for its first bytes. */
int      mr_conn_reading_link(void *o, mr_wait *w);
int      mr_conn_writing_link(void *o, mr_wait *w);
void     mr_conn_unlink(void *o, mr_wait *w);

#endif
