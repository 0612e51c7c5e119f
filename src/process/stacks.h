/*
 * stacks: a tree of call stacks with what was counted for each, in memory that is reserved at once: pages are taken as they are touched, and nothing is
 * ever allocated by who adds. What finds no room is counted at the stack "(other)".
 *
 * A tree has one lock, which its users take around a whole stack (mr_stacks_lock); reading it all needs it, too.
 */
#ifndef MR_STACKS_H
#define MR_STACKS_H

#include <stddef.h>
#include <stdint.h>
#include "port/port.h"

enum { STACK_VALUES = 4 };
enum { STACK_NONE, STACK_OTHER };              /* nodes: the empty stack, from which all begin; and where there is no room for more */

typedef struct mr_stack_function {
  uint32_t name, file;                         /* in `text`, 0 = unknown */
  int32_t defined;                             /* the line where it begins; 0: its file's main chunk; -1: it is no Lua function */
  uint32_t next;                               /* of the same hash */
  uint32_t tries;                              /* how often it had no name where it was called */
} mr_stack_function;
typedef struct mr_stack_node {
  uint32_t parent, function;
  int32_t line;                                /* that runs, -1 = none */
  uint32_t next;
  double value[STACK_VALUES];
} mr_stack_node;

typedef struct mr_stacks {
  port_lock lock;
  size_t size;                                 /* of all of it, in bytes */
  uint32_t nodes, most_nodes, functions, most_functions, text_used, text_size;
  uint32_t *by_node, *by_function;             /* heads of chains, as many as there may be */
  mr_stack_node *node;
  mr_stack_function *function;
  char *text;
  struct mr_stacks *every;                     /* the list that it is in */
} mr_stacks;

/* For at most so many different stacks, a power of two, of an eighth as many functions; NULL: no memory. */
mr_stacks *mr_stacks_new(uint32_t nodes);
void       mr_stacks_free(mr_stacks *s);
void       mr_stacks_clear(mr_stacks *s);        /* (lock) as if it were new */
/* A function by file and line, or, if it is none of Lua's (`defined` < 0), by name; 0: no room. The texts are copied. */
uint32_t   mr_stacks_function(mr_stacks *s, const char *file, size_t len, int defined, const char *name);
/* Its name, if it has none yet; NULL: it was called without one. Nameless: it is worth another look. */
void       mr_stacks_name(mr_stacks *s, uint32_t function, const char *name);
int        mr_stacks_nameless(const mr_stacks *s, uint32_t function);
/* The stack `parent` with one call more. */
uint32_t   mr_stacks_enter(mr_stacks *s, uint32_t parent, uint32_t function, int line);
/* All that another one, whose lock is held, has. */
void       mr_stacks_merge(mr_stacks *s, const mr_stacks *from);
static inline const char *mr_stacks_text(const mr_stacks *s, uint32_t at) { return s->text + at; }

/* ---- as files (pprof.c); buf grows by malloc ---- */
typedef struct mr_bytes { char *at; size_t length, size; int failed; } mr_bytes;
typedef struct mr_stack_kind {
  int n, shown;                                /* values; which of them a folded stack shows */
  double scale;                                /* what that is divided by there */
  const char *type[STACK_VALUES], *unit[STACK_VALUES];
  const char *period_type, *period_unit;
  double period;
  double began, lasted;                        /* seconds */
} mr_stack_kind;
enum { MR_STACK_LABEL = 400 };
void mr_stack_label(const mr_stacks *s, uint32_t function, char label[MR_STACK_LABEL]);   /* "f (work.lua:12)" */
void mr_folded(mr_bytes *b, const mr_stacks *s, const mr_stack_kind *k);
void mr_pprof(mr_bytes *b, const mr_stacks *s, const mr_stack_kind *k);
void mr_gzip(mr_bytes *b, const mr_bytes *content);    /* a gzip file; nothing is made smaller */

#endif
