/*
 * profile: where the CPU time and the memory of all processes' Lua code go, for `mare run --profile` and `--heap-profile`.
 *
 * Every stack is read by the thread that runs it, when nothing of it changes: in a hook, in an allocation, or when its fiber has just stopped. It is
 * added to stacks of the thread's own (stacks.h); these are put together when the program ends.
 */
#ifndef MR_PROFILE_H
#define MR_PROFILE_H

#include "process/process.h"
#include "process/stacks.h"

enum { PROFILE_CPU, PROFILE_HEAP, PROFILES };

/* What a thread has of it, made with its record; never freed. */
typedef struct mr_own {
  _Atomic(mr_stacks *) stacks[PROFILES];         /* NULL: not asked for, or no memory */
  /* By the signal's handler: a C function ran, called by this call of L's, which goes on there. The hook that follows is where its time is counted. */
  struct { lua_State *volatile L; const void *volatile call, *volatile saved; volatile unsigned session; } in_c;
  struct mr_own *every;
} mr_own;

/* Which are made: 1 << PROFILE_…. That of memory from before there are threads, that of CPU time also from mr_profile_begin on. */
extern atomic_int mr_profiling;
static inline int mr_profile_on(void) { return atomic_load_explicit(&mr_profiling, memory_order_relaxed); }
static inline int mr_profile_heap(void) { return mr_profile_on() & 1 << PROFILE_HEAP; }

/* A file's name, or NULL, for each; how often a second, and after how many bytes on the average, a sample is taken. 0: done; else `error` says why not. */
typedef struct mr_profile_wish { const char *file[PROFILES]; unsigned hz; size_t bytes; } mr_profile_wish;
int  mr_profile_start(const mr_profile_wish *wish, char error[200]);
void mr_profile_write(void);                     /* once, by whoever ends the program; others wait until it is done */
mr_stacks *mr_profile_all(int kind);             /* all that there is so far, for mr_stacks_free; NULL: no memory */

/*
 * For who looks at a program that runs (module/gathered.c), one thread: CPU time from now to that moment, in port_now() time; NULL, or why it can't be had.
 * mr_profile_end gives it, for mr_stacks_free; NULL: none was begun, or no memory. What has a file is not ended, and is not given.
 */
const char *mr_profile_begin(uint64_t until);
mr_stacks *mr_profile_end(void);

mr_own *mr_own_new(void);                        /* NULL: no memory: this thread's samples are not counted */

/* ---- CPU time ---- */
void mr_profile_kicked(lua_State *L);            /* in the signal's handler; L runs */
void mr_profile_take(mr_fiber *f, lua_State *L); /* f's thread runs it, L is the coroutine that runs: counts what is owed */
void mr_profile_stopped(mr_fiber *f, int yields);/* f has just stopped, and did not get to a hook: likewise. yields: it will go on */

/* ---- stacks ---- */
/*
 * The stack of what the calling thread runs, if that belongs to p; else one that says so. Its node in s, whose lock is held. L: the coroutine that runs;
 * NULL: p's fiber f has yielded; f NULL: nothing of it runs here.
 */
uint32_t mr_profile_stack(mr_stacks *s, const mr_proc *p, mr_fiber *f, lua_State *L);
uint32_t mr_profile_root(mr_stacks *s, const mr_proc *p);

/* ---- memory (allocs.c) ---- */
void mr_allocs_start(size_t bytes);
void mr_allocs_watch(mr_proc *p);                /* p has just got its state */
void mr_allocs_leave(mr_proc *p);                /* and it will be closed, or dropped */

/* ---- hook.c ---- */
void mr_hook_watch(lua_State *L, int on);        /* Lua keeps account of where L is at each instruction, for a while */

#endif
