/*
 * body: what the scheduler asks of what runs. src/process answers for Lua; a test of this folder answers with a few lines of C.
 *
 * One table for the program, known when it is linked: so a call is a call, and costs nothing where there is nothing to do. None of these is
 * called with a lock held, but `deadlock`.
 */
#ifndef MR_BODY_H
#define MR_BODY_H

#include "run/fiber.h"
#include "run/worker.h"

enum { BODY_YIELDS = 1 };            /* any other result of `resume` means that the body has ended */

typedef struct mr_body {
  size_t thread_size;                /* of its record of a thread, which begins with a mr_thread and is zeroed when made */
  int  (*equip)(mr_thread *t);       /* a new record, or one that gets a new owner; 0: no memory */
  void (*get)(mr_worker *w, mr_fiber *f);            /* (holder of w) f is fresh and will be resumed: what it runs in. May fail: resume sees it */
  /* f begins or goes on, until it stops: BODY_YIELDS, and f->sysyield says why, or it has ended with this result. */
  int  (*resume)(mr_fiber *f);
  int  (*end)(mr_thread *t, mr_fiber *f, int how);   /* f has ended, resume said how; f may be gone afterwards. 1: its whole job is */
  void (*recycle)(mr_worker *w, mr_thread *t);       /* t->left is set: keeps with w (NULL: drops) what t has left of a job; clears it */
  void (*flush)(mr_worker *w);       /* (holder) drops what is kept there */
  void (*prefetch)(const mr_fiber *f);   /* f will run soon, and has not for long */
  /* What number f has among its job's fibers, 0: it is the first; and its name, or NULL: of the first its job's. Its own thread asks. */
  unsigned (*describe)(const mr_fiber *f, const char **name);
  int  (*describe_on)(const mr_fiber *f, char *buf, size_t size);   /* what f->on is called: 0: it has no name. Its own thread asks */
  void (*kick)(void);                /* a signal's handler: what the current thread runs is to give way */
  void (*interrupt)(void);           /* on the monitor's thread, after mr_run_interrupt */
  void (*knocked)(void);             /* likewise, after mr_run_knocked */
  void (*report)(void);              /* on the monitor's thread, after mr_run_report; when replayed, on the one that runs something */
  void (*ending)(void);              /* on the monitor's thread, now and then while jobs are to end and something runs */
  /* (idle lock) nothing can ever run again: claims those who are to be told, at most n: mr_ready follows. How many. */
  int  (*deadlock)(mr_fiber **told, int n);
} mr_body;

extern const mr_body mr_run_body;

#endif
