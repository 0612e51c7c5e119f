/*
 * door: how a user's tools reach a running program of that user: a Unix socket in a folder of the user's, named by the program's number, and the
 * signal that asks a program to open it. Results are 0 or an errno value unless said otherwise.
 *
 * The socket lies in $XDG_RUNTIME_DIR/mare, or in /tmp/mare-UID if that is not to be had. The folder belongs to the user alone (0700), and a
 * folder for which that is not so is not used. The file goes with the program: at port_door_close, at exit(), and at SIGTERM, SIGHUP and SIGINT where
 * these would end the program as they came. What kills a program at once leaves its file behind: see port_door_sweep.
 */
#ifndef PORT_DOOR_H
#define PORT_DOOR_H

#include <stddef.h>
#include "port/net.h"

enum { PORT_DOOR_PATH = 108 };                   /* room for any path of a socket */

/* ---- in the program ---- */
/* Listens; *fd never blocks. There is one door, so it is closed before it is opened again. */
int  port_door_open(int *fd);
void port_door_close(void);                      /* async-signal-safe: takes the files away, leaves the descriptors. Idempotent */
void port_door_keep(const port_addr *a);         /* a path of another Unix socket, whose file goes likewise: one of them */
int  port_door_mine(int conn);                   /* 1: who has connected is this program's user, or root */
/* Descriptors that a child of fork() must not keep, or their other ends would wait for it. */
void port_door_hold(int fd);
void port_door_drop(int fd);                     /* and closes it */
void port_door_forked(void);                     /* in that child */
/* Calls fn, which must be async-signal-safe, when port_door_knock of another program has reached this one. */
void port_door_knocked(void (*fn)(void));
int  port_door_is_knock(int value);              /* what came with a queued signal of preemption: if it is one, it is seen to */

/* ---- in the tool ---- */
/* The i-th folder in which the door of program `pid` may be, 0: there is no i-th one. pid 0: of any program. */
int  port_door_folder(int i, int pid, char path[PORT_DOOR_PATH]);
/* ESRCH: there is no such program, or it does not run mare; EPERM: it is somebody else's. */
int  port_door_knock(int pid);
int  port_door_programs(int *pid, int most);     /* this user's programs in which mare runs, but this one. How many */
int  port_door_sweep(void);                      /* takes away what dead programs have left. How many files */

#endif
