/*
 * copies: this program, as it is at one moment, run again and again, each time in a child process of its own.
 *
 * port_copies_open forks a *server*, which waits; each time it is asked it forks the *copy*, which calls the function that was given, and tells how that
 * has ended. A server uses no malloc and runs nothing else, so all its copies begin with the same memory. Servers and copies end with who opened them.
 * Only before there are threads.
 */
#ifndef PORT_COPIES_H
#define PORT_COPIES_H

#include <stddef.h>
#include <stdint.h>

typedef struct port_copies {
  int ask, answer;                     /* pipes */
  int out;                             /* a file without a name: what a copy that was asked to keep its output has written */
  int *pid;                            /* of the copy that runs, in shared memory */
} port_copies;

typedef struct port_copy_end { int signal, code; } port_copy_end;   /* signal 0: it ended with code */

void *port_shared_new(size_t size);    /* zeroed memory that children share; NULL: none. Never freed */
int  port_copies_open(port_copies *c, void (*fn)(void *arg), void *arg);    /* fn never returns */
int  port_copies_run(port_copies *c, int keep);            /* keep its output; else it goes nowhere. 0 or an errno value */
/* Waits for one of n that were asked: its index and how it has ended; -1: the time is over; -2: a server is gone. */
int  port_copies_wait(port_copies *c, int n, int milliseconds, port_copy_end *end);
void port_copies_kill(port_copies *c);
uint64_t port_copies_cpu(port_copies *c);                  /* ns that its copy has computed so far */
void port_copies_quit(port_copies *c);                     /* sends its copy SIGQUIT; the servers don't mind that signal */
char *port_copies_output(port_copies *c, size_t *len);     /* malloc'd; NULL: no memory */

/*
 * One copy of a program that runs, with the calling thread only, made to be looked at: fn is called there, whatever it breaks. Waits until that has
 * returned, so many seconds at most. 0, or an errno value: it did not. Meanwhile port_is_aside there, for what else is called in forked children.
 */
int  port_aside(void (*fn)(void *arg), void *arg, unsigned seconds);
int  port_is_aside(void);

#endif
