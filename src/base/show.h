/* show: names that a program has given, as they may be written to a terminal. */
#ifndef MR_SHOW_H
#define MR_SHOW_H

#include <stddef.h>

/* Control characters as escapes (\n, \x1b), bytes that are no UTF-8 too; as many whole characters as fit into buf. Returns buf. */
char *mr_show(char *buf, size_t size, const char *name);

#endif
