/*
 * system: the doors to files, libraries, commands and signals that the states' libraries need, beside port.h.
 * Contract as in port.h: results are 0 or an errno value unless said otherwise.
 */
#ifndef PORT_SYSTEM_H
#define PORT_SYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "port/port.h"

/* ---- signals ---- */
/* Remembers the mask that the program was started with; runs by itself when the program or library is loaded. */
void port_signals_init(void);
typedef struct port_sigmask { uint64_t bits[16]; } port_sigmask;
/* Around the creation of a child: this thread takes the program's original mask, so that the child inherits it. */
void port_signals_default(port_sigmask *save);
void port_signals_restore(const port_sigmask *save);
void port_signals_original(port_sigmask *mask);           /* what port_signals_default puts on */
/* From here on a write of this thread into a pipe without reader does what the program was started with: SIGPIPE's default ends it. */
void port_signals_allow_pipe(void);
/* Around a write that gives EPIPE instead: `raised` says that it did. */
typedef struct port_pipe_hold { port_sigmask mask; int pending; } port_pipe_hold;
void port_signals_hold_pipe(port_pipe_hold *h);
void port_signals_drop_pipe(const port_pipe_hold *h, int raised);
/* SIGINT calls fn, which must be async-signal-safe, instead of ending the program. */
void port_signal_interrupt(void (*fn)(void));
void port_signal_quit(void (*fn)(void));                  /* the same for SIGQUIT */
int  port_signal_number(const char *name);                /* "INT" or "SIGINT"; 0: no such signal here */
const char *port_signal_name(int number);                 /* "INT"; NULL: unknown */
/*
 * Signals taken by the program. Each one that arrives is counted and rings a bell: port_signals_bell is readable until port_signals_clear.
 * Taking saves the disposition, giving back restores it. EINVAL: that one can't be taken.
 */
int  port_signal_take(int number);
void port_signal_give_back(int number);
unsigned port_signal_count(int number);                   /* since the last call */
int  port_signals_bell(int *fd);                          /* idempotent; before the first take */
void port_signals_clear(void);
/*
 * Signals that end a program, as far as they do: port_signals_end: TERM, HUP and INT tidy up by port_end_by. port_signals_ending: TERM, HUP and PIPE
 * call fn, which must be async-signal-safe, instead; so does what was taken before. Both may be called, in any order; the second of them once.
 */
void port_signals_end(void);
void port_signals_ending(void (*fn)(int number));
void port_end_by(int number) __attribute__((noreturn));   /* the program ends by this signal */
void port_exit_now(int code) __attribute__((noreturn));   /* async-signal-safe, flushes nothing */

/* ---- files ---- */
/* What tells one content of a file from another. */
typedef struct port_stat { uint64_t device, inode, size, mtime; } port_stat;
int  port_file_stat(const char *path, port_stat *s);      /* also checks that it may be read; needs no descriptor */
void port_file_lock(FILE *f);                             /* others' calls on f wait; held for one write, never across Lua */
void port_file_unlock(FILE *f);
size_t port_file_write(const char *s, size_t len, FILE *f);   /* f is locked by the caller */
void port_file_unlocked(FILE *f);                         /* from now on nobody locks it; at the end of the program */
int  port_file_is_terminal(FILE *f);

/* ---- line editing at a terminal (editor.c) ---- */
int   port_editor_open(void);                             /* 1: a library for it is there; MARE_EDITOR names another one, "" none */
/*
 * *line: without its end, malloc'd. `typed` is called at each key. PORT_LINE_LEFT: port_editor_interrupt came since port_editor_ready; the line is
 * gone, the terminal's cursor on a new one. One that comes before port_editor_ready is not seen here.
 */
enum { PORT_LINE, PORT_LINE_END, PORT_LINE_LEFT };
int   port_editor_line(const char *prompt, void (*typed)(void), char **line);
void  port_editor_ready(void);
void  port_editor_interrupt(void);                        /* async-signal-safe */
void  port_editor_keep(const char *line);                 /* in the history */
void  port_terminal_restore(void);                        /* the program ends while a line is read; async-signal-safe */

/* ---- commands: the child gets the program's own signal mask and none of our descriptors ---- */
int   port_command(const char *cmd);                      /* as system(), but signals go on being heard; NULL: is there a shell? */
FILE *port_pipe_open(const char *cmd, const char *mode);  /* as popen() */
int   port_pipe_close(FILE *f);                           /* as pclose() */
/* This program becomes another one; returns only if that fails. Before any thread exists. */
int   port_become(const char *path, char *const *argv);
int   port_program_path(char *path, size_t size);         /* of the running program, without symbolic links */

/* ---- libraries: never unloaded ---- */
void *port_library(const char *path, int global, const char **err);
typedef void (*port_function)(void);
void  port_pin(const void *address);                      /* the library that has the address stays, whoever else loaded it */
port_function port_symbol(void *library, const char *name, const char **err);

#endif
