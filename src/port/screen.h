/*
 * screen: a whole terminal for a program that draws on it: what is typed comes key by key and is not shown, and what was on the screen comes back
 * at the end. stdin and stdout must both be that terminal. One at a time; results are 0 or an errno value unless said otherwise.
 */
#ifndef PORT_SCREEN_H
#define PORT_SCREEN_H

#include <stddef.h>

int  port_screen_open(void);                     /* ENOTTY: there is no terminal */
void port_screen_close(void);                    /* async-signal-safe; idempotent. Also done by port_quit and port_exit_now */
int  port_screen_size(int *rows, int *columns);
long port_screen_keys(char *buf, size_t n);      /* what has been typed, without waiting: how many bytes; 0: nothing. -1: the terminal is gone */
void port_screen_stop(void);                     /* closes it and stops the program, as Ctrl-Z does: SIGCONT tells when it goes on */
int  port_screen_is(int fd);                     /* is it a terminal? */

#endif
