/*
 * child: programs started by this one, and pipes to them. Results are 0 or an errno value unless said otherwise.
 *
 * A child leads a process group of its own, has the signal mask that this program was started with, and inherits none of our
 * descriptors but the three it is given.
 */
#ifndef PORT_CHILD_H
#define PORT_CHILD_H

#include <stddef.h>

enum { PORT_KILL = 9 };                 /* the signal that ends everything, the same on all systems */
enum { PORT_CHILD_INHERIT = -1, PORT_CHILD_NULL = -2, PORT_CHILD_OUT = -3 };    /* OUT: for stderr, where stdout goes */

typedef struct port_program {
  char **argv;                         /* argv[0] is looked for in PATH if it has no slash */
  char **changes;                      /* of the environment: "NAME=value", or "NAME" to remove it; NULL: none */
  const char *cwd;                     /* NULL: ours */
  int fd[3];                           /* a descriptor, or one of PORT_CHILD_* */
} port_program;

/* Blocks until the program runs, or is known not to: ENOENT, EACCES … */
int port_child_spawn(const port_program *c, int *pid);
/* A child that has not been reaped. */
int port_child_kill(int pid, int signal, int group);
/* Takes the exit status of one that has ended: code or signal (the other is -1), both -1: the system has lost it. EAGAIN: it runs. */
int port_child_reap(int pid, int *code, int *signal);

/*
 * Being told of ends: fn(tag), once for each child that was added, not reaped yet. Calls come out of port_children_ready, to be called
 * when the descriptor that port_children_open gives is readable, or from any thread.
 */
int  port_children_open(void (*fn)(void *tag), int *fd);
int  port_children_add(int pid, void *tag);
void port_children_ready(void);

/* ---- pipes: no descriptor is below 3, all are closed on exec ---- */
int  port_pipe(int fd[2]);                           /* [0] to read from, [1] to write to */
int  port_pipe_nonblock(int fd);
void port_pipe_end(int fd);                          /* closes it */
long port_pipe_read(int fd, void *p, size_t n);      /* bytes, 0 at the end, or minus an errno value */
long port_pipe_write(int fd, const void *p, size_t n);   /* no SIGPIPE */

#endif
