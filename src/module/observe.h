/*
 * observe: how a running program is looked at from outside. The observer is a thread, "mare-observe", that exists only when somebody has asked for
 * it: `mare run --observe` or `--metrics`, or a knock (port/door.h) of `mare top`. It has a Lua state of its own, runs lua/mare/observe, and is
 * nothing to the scheduler: no worker, no fiber, nothing that could wake anybody. So it answers while all workers compute or block, keeps no program
 * alive, and hides no deadlock.
 */
#ifndef MR_OBSERVE_H
#define MR_OBSERVE_H

#include "module/module.h"

/* 0, or an errno value. The door is open when this returns. */
int  mr_observe_open(void);
/* (address at idx) Prometheus's numbers are served there from now on. Raises what is wrong with it. */
void mr_observe_metrics(lua_State *L, int idx);

/* (address at idx) Listens there: descriptors, and how many (metrics.c). Raises likewise. */
enum { MR_METRICS = 4 };
int  mr_metrics_listen(lua_State *L, int idx, int *fd);

/* What lua/mare/observe asks, as a table (observed.c). */
int  mr_observed_open(lua_State *L);
void mr_observed_forget(void);                 /* (observer's thread) nobody is connected who compares */

/* Those of the last list, or of now if there was none. */
struct mr_info;
struct mr_infos;
const struct mr_infos *mr_observed_infos(lua_State *L);
/* By a process, per second; 0 and no rates: it is too early to tell. One that is new has used all it has since. */
typedef struct mr_observed_rates { int known; double load, messages; } mr_observed_rates;
mr_observed_rates mr_observed_rates_of(const struct mr_info *p);

/* What is counted over many processes, or for some time (gathered.c): functions of that table. */
int  mr_gathered_groups(lua_State *L);
int  mr_gathered_talk(lua_State *L);
int  mr_gathered_begin(lua_State *L);
int  mr_gathered_end(lua_State *L);
void mr_gathered_forget(void);                 /* nobody is connected any more: what has begun ends */

/* A field of the table on top. */
static inline void mr_put_integer(lua_State *L, const char *name, uint64_t n) {
  lua_pushinteger(L, (lua_Integer)n);
  lua_setfield(L, -2, name);
}

static inline void mr_put_number(lua_State *L, const char *name, double n) {
  lua_pushnumber(L, n);
  lua_setfield(L, -2, name);
}

static inline void mr_put_string(lua_State *L, const char *name, const char *s) {
  lua_pushstring(L, s);
  lua_setfield(L, -2, name);
}

#endif
