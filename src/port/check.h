/*
 * check: assertions, and what a thread knows of the locks it holds. Included by port.h, so they are everywhere.
 *
 * They exist in builds with MR_CHECKS (cmake's MARE_CHECKS: on under the sanitizers, `MARE_CHECKS=ON tools/build plain` elsewhere). In others
 * nothing is left: no code, no field, no evaluated expression.
 *
 *   mr_assert(condition)      says where and what did not hold, and aborts
 *   mr_noun_check(object)     walks an object and asserts what the head of its file promises; the object's lock is held, or the caller owns it
 *   MR_CHECK_SOME(n, call)    one call of n, on each thread: for walks that cost as much as what they look at
 *
 * Locks. Each has a rank: one may be taken only by a thread that holds none of the same or a higher one. What has no rank is innermost:
 * nothing may be taken under it. So no two threads can wait for each other. Ranks below PORT_RANK_SHORT belong to the few locks that are
 * held for long; under any other a thread does not sleep, calls no Lua and asks the system for no memory.
 */
#ifndef PORT_CHECK_H
#define PORT_CHECK_H

enum { PORT_RANK_INNER = 0, PORT_RANK_SHORT = 16 };

#ifdef MR_CHECKS
PORT_NORETURN void port_check_failed(const char *file, int line, const char *what);
void port_check_taking(const void *lock, unsigned rank, const char *file, int line);
void port_check_taken(const void *lock, unsigned rank, const char *file, int line);
void port_check_leaving(const void *lock, const char *file, int line);
int  port_check_holds(const void *lock);                        /* the calling thread does */
void port_check_unlocked(const char *file, int line);
int  port_check_turn(unsigned n);                               /* 1: this one of n */
#define mr_assert(condition) (PORT_LIKELY(condition) ? (void)0 : port_check_failed(__FILE__, __LINE__, #condition))
#define mr_assert_locked(l)  mr_assert(port_check_holds(l))
/* The calling thread holds no lock but those that are held for long. */
#define mr_assert_unlocked() port_check_unlocked(__FILE__, __LINE__)
#define MR_CHECK_SOME(n, call) (port_check_turn(n) ? (void)(call) : (void)0)
#else
#define mr_assert(condition) ((void)sizeof((condition) ? 1 : 0))
#define mr_assert_locked(l)  ((void)0)
#define mr_assert_unlocked() ((void)0)
#define MR_CHECK_SOME(n, call) ((void)0)
#endif

#endif
