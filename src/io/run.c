/* run: see run.h. */
#include "io/run.h"
#include "observe/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 65536
#define STEP (1u << 20)                /* bytes after which others may run */

/* ---- start ---- */

static int connect_pipe(mr_run *r, int i, int theirs[2]) {
  int fd[2], err = port_pipe(fd);
  if (err) return err;
  int ours = i == RUN_IN ? 1 : 0;
  r->flow[i].fd = fd[ours];
  *theirs = fd[!ours];
  r->program.fd[i] = fd[!ours];
  return port_pipe_nonblock(fd[ours]);
}

static int watch_pipes(mr_run *r) {
  int err = 0;
  for (int i = 0; i < RUN_PIPES && !err; i++) {
    mr_flow *p = &r->flow[i];
    if (p->fd >= 0) p->watch = mr_watch_open(p->fd, &err);
  }
  return err;
}

static void start(mr_request *q) {
  mr_run *r = (mr_run *)q;
  int theirs[RUN_PIPES] = { -1, -1, -1 }, err = 0;
  for (int i = 0; i < RUN_PIPES && !err; i++)
    if (r->program.fd[i] == PIPE_OWN) err = connect_pipe(r, i, &theirs[i]);
  if (!err && r->child->keep) err = watch_pipes(r);
  mr_trace_begin(TRACE_START_CHILD);
  if (!err) err = mr_child_start(r->child, &r->program);
  mr_trace_finish(-err);
  for (int i = 0; i < RUN_PIPES; i++)
    if (theirs[i] >= 0) port_pipe_end(theirs[i]);
  r->error = err;
}

static void end_flow(mr_flow *p) {
  if (p->watch) mr_watch_close(p->watch, NULL);
  if (p->fd >= 0) port_pipe_end(p->fd);
  p->watch = NULL;
  p->fd = -1;
}

static void destroy(mr_request *q) {
  mr_run *r = (mr_run *)q;
  for (int i = 0; i < RUN_PIPES; i++) {
    end_flow(&r->flow[i]);
    if (r->flow[i].store) mr_store_release(r->flow[i].store);
    else free(r->flow[i].data);
  }
  if (r->child) {
    if (!r->stays) mr_child_kill(r->child, PORT_KILL);
    mr_child_let_go(r->child);
    mr_release(&r->child->shared);
  }
  free(r->text);
  free(r);
}

mr_run *mr_run_new(int keep) {
  mr_run *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  mr_request_init(&r->request, start, destroy);
  for (int i = 0; i < RUN_PIPES; i++) r->flow[i].fd = -1;
  if ((r->child = mr_child_new(keep)) != NULL) return r;
  free(r);
  return NULL;
}

int mr_run_take(mr_run *r, int which) {
  int fd = r->flow[which].fd;
  r->flow[which].fd = -1;
  return fd;
}

/* ---- steps ---- */

static int more(long n) { return n > 0 || n == -EAGAIN; }

/* Bytes written; the pipe is closed when all is, or nobody reads it. */
static size_t feed(mr_flow *p) {
  size_t total = 0;
  while (p->fd >= 0 && total < STEP) {
    size_t left = p->len - p->done;
    long n = left ? port_pipe_write(p->fd, p->data + p->done, left) : 0;
    if (n == -EAGAIN) break;
    if (n > 0) {
      p->done += (size_t)n;
      total += (size_t)n;
    }
    if (!more(n) || p->done == p->len) end_flow(p);
  }
  return total;
}

static int room(mr_flow *p) {
  if (p->size - p->len >= CHUNK) return 1;
  size_t size = p->size * 2 + CHUNK;
  char *data = realloc(p->data, size);
  if (!data) return 0;
  p->data = data;
  p->size = size;
  return 1;
}

/* Bytes read, or -1: no memory. */
static long collect(mr_flow *p) {
  size_t total = 0;
  while (p->fd >= 0 && total < STEP) {
    if (!room(p)) return -1;
    long n = port_pipe_read(p->fd, p->data + p->len, p->size - p->len);
    if (n == -EAGAIN) break;
    if (n > 0) {
      p->len += (size_t)n;
      total += (size_t)n;
    } else {
      end_flow(p);
    }
  }
  return (long)total;
}

int mr_run_step(mr_run *r) {
  r->over = mr_event_is_set(&r->child->ended);             /* asked first: what it wrote is in the pipes then */
  size_t fed = feed(&r->flow[RUN_IN]);
  long out = collect(&r->flow[RUN_OUT]), err = collect(&r->flow[RUN_ERR]);
  if (out < 0 || err < 0) return -1;
  if (fed >= STEP || out >= (long)STEP || err >= (long)STEP) return 2;
  return r->over && (r->killed || (r->flow[RUN_OUT].fd < 0 && r->flow[RUN_ERR].fd < 0));
}

static void prepare(mr_wait *n, mr_fiber *f) {
  memset(n, 0, sizeof *n);
  n->fiber = f;
  n->ticket = f->wait.ticket;
}

int mr_run_link(mr_run *r, mr_fiber *f) {
  int again = 0;
  for (int i = 0; i < RUN_PIPES; i++) prepare(&r->flow[i].node, f);
  prepare(&r->end, f);
  mr_wait_outside(f);
  for (int i = 0; i < RUN_PIPES && !again; i++)
    if (r->flow[i].watch) again = mr_watch_wait(r->flow[i].watch, i == RUN_IN ? MR_WRITE : MR_READ, &r->flow[i].node);
  return again || r->over ? again : mr_event_wait(&r->child->ended, &r->end);
}

void mr_run_unlink(mr_run *r) {
  for (int i = 0; i < RUN_PIPES; i++)
    if (r->flow[i].watch) mr_watch_unwait(r->flow[i].watch, &r->flow[i].node);
  mr_event_unwait(&r->child->ended, &r->end);
}

void mr_run_kill(mr_run *r) {
  r->killed = 1;
  mr_child_kill(r->child, PORT_KILL);
}
