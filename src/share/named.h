/*
 * named: what is shared and has a name, in tables of the program: one space of names for each kind of thing.
 *
 * A name holds a reference until it is dropped; so what has a name lives as long as the program, if nobody drops it. Who holds a thing whose name
 * was dropped goes on using it; the name is free for another one.
 */
#ifndef MR_NAMED_H
#define MR_NAMED_H

#include "transfer/transfer.h"

enum { NAMED_DICT, NAMED_ATOMIC, NAMED_ONCE, NAMED_SPACES };

/* A new reference to the one of that name, made by make(arg) if there is none (*made), which gives one reference. NULL: no memory. */
mr_shared *mr_named_get(int space, const char *name, size_t length, mr_shared *(*make)(void *arg), void *arg, int *made);
mr_shared *mr_named_find(int space, const char *name, size_t length);     /* a new reference, or NULL */
/* Takes the name away: its reference is the caller's. NULL: there is none. `only`: only if it is this one's, NULL: whatever has it. */
mr_shared *mr_named_drop(int space, const char *name, size_t length, const mr_shared *only);
/* Calls fn for all of them, with the lock of their table held. */
void       mr_named_each(int space, void (*fn)(const char *name, size_t length, mr_shared *o, void *arg), void *arg);

#endif
