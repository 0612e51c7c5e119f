/* leave: what is written when the program ends - profiles, a trace, the log - is written also where a signal ends it: by a thread, as a handler can't. */
#ifndef MR_LEAVE_H
#define MR_LEAVE_H

int  mr_leave_watch(void);             /* from now on, where the program leaves such signals (TERM, HUP, PIPE) as they are. 0 or an mr_err */
/*
 * Async-signal-safe: what is to be written is, then the program ends by signal `how`, or with exit code -how. 0: nothing is watched, or the program
 * is being ended so already: the caller goes on as without.
 */
int  mr_leave_by(int how);
void mr_leave_logged(void);            /* the log is in use: such a signal leaves time to write what is queued, under mare run. Cheap when called again */
void mr_leave_words(void);             /* writes it: once; others wait until it is written */

#endif
