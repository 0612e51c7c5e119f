/*
 * observed: what the observer can see of the program, and do to it, as functions for lua/mare/observe.
 *
 * They run on the observer's thread, which is no fiber. What is read of processes is what anybody may read at any time; a process that is named by
 * its number is counted while it is looked at.
 */
#include "module/observe.h"
#include "port/self.h"
#include "process/control.h"
#include "process/failures.h"
#include "process/info.h"
#include "channel/channel.h"
#include "share/dict.h"
#include "share/named.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

/* () -> { mare = version, pid =, started =, command =, workers = } */
static int l_program(lua_State *L) {
  char command[512];
  port_self self;
  size_t n = port_command_of(0, command, sizeof command);
  port_self_get(&self);
  lua_newtable(L);
  mr_put_string(L, "mare", MARE_RELEASE);
  mr_put_integer(L, "pid", (uint64_t)port_self_pid());
  mr_put_number(L, "started", self.started);
  lua_pushlstring(L, command, n);
  lua_setfield(L, -2, "command");
  mr_put_integer(L, "workers", (uint64_t)mr_workers_get());
  return 1;
}

/* () -> { cpu = seconds, resident =, virtual =, descriptors =, most_descriptors =, clock = seconds } */
static int l_resources(lua_State *L) {
  port_self self;
  port_self_get(&self);
  lua_newtable(L);
  mr_put_number(L, "cpu", (double)port_own_cpu() * 1e-9);
  mr_put_integer(L, "resident", self.resident);
  mr_put_integer(L, "virtual", self.virtual_);
  mr_put_integer(L, "descriptors", self.descriptors);
  if (self.most_descriptors) mr_put_integer(L, "most_descriptors", self.most_descriptors);
  mr_put_number(L, "clock", (double)port_now() * 1e-9);
  return 1;
}

/* ---- what was used lately ---- */

/*
 * What every process had used at two moments; `newer` becomes `older` when it is old enough for a difference to say something. Both by id. Gone with
 * the last tool: nobody asks then.
 */
typedef struct sample { uint64_t id, cpu, messages; } sample;
typedef struct samples { sample *at; size_t n; uint64_t when; } samples;
static samples older, newer;
static mr_infos infos;                           /* of the last list, so that no error loses it */
#define APART 400000000u                         /* ns */

static void samples_free(samples *s) {
  free(s->at);
  *s = (samples){ NULL, 0, 0 };
}

void mr_observed_forget(void) {
  samples_free(&older);
  samples_free(&newer);
  mr_infos_free(&infos);
  mr_gathered_forget();
}

static int by_sample_id(const void *a, const void *b) {
  uint64_t x = ((const sample *)a)->id, y = ((const sample *)b)->id;
  return (x > y) - (x < y);
}

/* Without memory there are no rates. */
static void samples_take(uint64_t now) {
  if (newer.at && now - newer.when < APART) return;
  samples_free(&older);
  older = newer;
  newer = (samples){ malloc((infos.n + 1) * sizeof(sample)), infos.n, now };
  if (!newer.at) newer.n = 0;
  for (size_t i = 0; i < newer.n; i++) {
    const mr_info *p = &infos.at[i];
    newer.at[i] = (sample){ p->id, p->cpu, p->sent + p->received };
  }
  if (newer.at) qsort(newer.at, newer.n, sizeof(sample), by_sample_id);
}

typedef mr_observed_rates rates;
static rates rates_of(const mr_info *p, uint64_t now) {
  if (!older.at || now <= older.when) return (rates){ 0, 0, 0 };
  sample key = { p->id, 0, 0 };
  const sample *was = bsearch(&key, older.at, older.n, sizeof key, by_sample_id);
  double ns = (double)(now - older.when), all = (double)(p->sent + p->received);
  double cpu = (double)p->cpu - (was ? (double)was->cpu : 0), messages = all - (was ? (double)was->messages : 0);
  return (rates){ 1, cpu > 0 ? cpu / ns : 0, messages > 0 ? messages * 1e9 / ns : 0 };
}

mr_observed_rates mr_observed_rates_of(const mr_info *p) { return rates_of(p, port_now()); }

/* ---- a list ---- */

static void push_process(lua_State *L, const mr_info *p, const rates *r) {
  static const char *const levels[NLEVELS] = { "normal", "high", "low" };
  lua_createtable(L, 0, 16);
  mr_put_integer(L, "id", p->id);
  if (p->named) mr_put_string(L, "name", p->name);
  if (p->kind != PROC_PLAIN) mr_put_string(L, "kind", p->kind == PROC_HOST ? "host" : "main");
  if (p->parent) mr_put_integer(L, "parent", p->parent);
  if (p->owner) mr_put_integer(L, "owner", p->owner);
  mr_put_string(L, "status", p->status);
  mr_put_string(L, "priority", levels[p->level]);
  if (p->waits) mr_put_string(L, "waits", p->waits);
  mr_put_number(L, "cpu", (double)p->cpu * 1e-9);
  if (p->kind != PROC_HOST) mr_put_integer(L, "heap", p->heap);
  mr_put_integer(L, "sent", p->sent);
  mr_put_integer(L, "received", p->received);
  mr_put_integer(L, "fibers", p->fibers);
  mr_put_integer(L, "restarts", p->restarts);
  if (p->worker >= 0) mr_put_integer(L, "worker", (uint64_t)p->worker);
  if (!r->known) return;
  mr_put_number(L, "load", r->load);
  mr_put_number(L, "rate", r->messages);
}

enum { BY_CPU, BY_HEAP, BY_MESSAGES, BY_ID };
typedef struct entry { double key; uint64_t id; size_t at; } entry;

/* The greatest first, of two alike the older process. */
static int by_key(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? 1 : -1;
  return (x->id > y->id) - (x->id < y->id);
}

static double key_of(const mr_info *p, const rates *r, int by) {
  switch (by) {
    case BY_CPU: return r->known ? r->load : (double)p->cpu;
    case BY_HEAP: return (double)p->heap;
    case BY_MESSAGES: return r->known ? r->messages : (double)(p->sent + p->received);
    default: return 0;
  }
}

static void push_states(lua_State *L) {
  static const char *const states[] = { "running", "ready", "waiting", "failed" };
  uint64_t count[4] = { 0 };
  for (size_t i = 0; i < infos.n; i++)
    for (int k = 0; k < 4; k++) count[k] += strcmp(infos.at[i].status, states[k]) == 0;
  lua_createtable(L, 0, 4);
  for (int k = 0; k < 4; k++) mr_put_integer(L, states[k], count[k]);
}

static void take_infos(lua_State *L) {
  mr_infos_free(&infos);
  if (mr_proc_infos(&infos, 0) != MR_OK) luaL_error(L, "not enough memory");
}

const mr_infos *mr_observed_infos(lua_State *L) {
  if (!infos.n) take_infos(L);
  return &infos;
}

/* () -> { running =, ready =, waiting =, failed = } */
static int l_states(lua_State *L) {
  take_infos(L);
  push_states(L);
  mr_infos_free(&infos);
  return 1;
}

/* (key, n) -> { processes = { … }, count =, states = { running = … } } */
static int l_list(lua_State *L) {
  static const char *const keys[] = { "cpu", "heap", "messages", "id", NULL };
  int by = luaL_checkoption(L, 1, NULL, keys);
  size_t most = (size_t)luaL_checkinteger(L, 2);
  take_infos(L);
  uint64_t now = port_now();
  samples_take(now);
  entry *order = lua_newuserdatauv(L, (infos.n + 1) * sizeof *order, 0);
  for (size_t i = 0; most > 0 && i < infos.n; i++) {
    rates r = by == BY_CPU || by == BY_MESSAGES ? rates_of(&infos.at[i], now) : (rates){ 0, 0, 0 };
    order[i] = (entry){ key_of(&infos.at[i], &r, by), infos.at[i].id, i };
  }
  if (most > 0) qsort(order, infos.n, sizeof *order, by_key);
  if (most > infos.n) most = infos.n;
  lua_createtable(L, 0, 4);
  lua_createtable(L, (int)most, 0);
  for (size_t i = 0; i < most; i++) {
    const mr_info *p = &infos.at[order[i].at];
    rates r = rates_of(p, now);
    push_process(L, p, &r);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "processes");
  push_states(L);
  lua_setfield(L, -2, "states");
  mr_put_integer(L, "count", infos.n);
  return 1;
}

/* ---- totals ---- */

static void push_workers(lua_State *L) {
  mr_worker_load load[MR_MAX_WORKERS];
  unsigned n = mr_worker_loads(load, MR_MAX_WORKERS);
  lua_createtable(L, (int)n, 0);
  for (unsigned i = 0; i < n; i++) {
    lua_createtable(L, 0, 6);
    mr_put_integer(L, "id", load[i].id);
    mr_put_number(L, "busy", (double)load[i].busy * 1e-9);
    mr_put_integer(L, "dispatches", load[i].dispatches);
    mr_put_integer(L, "steals", load[i].steals);
    mr_put_integer(L, "queued", load[i].queued);
    lua_pushboolean(L, load[i].active);
    lua_setfield(L, -2, "active");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* () -> a table */
static int l_totals(lua_State *L) {
  mr_totals t;
  mr_totals_get(&t);
  lua_createtable(L, 0, 16);
  mr_put_number(L, "up", (double)t.up * 1e-9);
  mr_put_integer(L, "spawned", t.spawned);
  mr_put_integer(L, "ended", t.ended);
  mr_put_integer(L, "failed", t.failed);
  mr_put_integer(L, "failures", (uint64_t)atomic_load(&mr_failures));
  mr_put_integer(L, "messages", t.sent);
  mr_put_integer(L, "dispatches", t.dispatches);
  mr_put_integer(L, "steals", t.steals);
  mr_put_integer(L, "heap", t.memory);
  mr_put_integer(L, "threads", t.threads);
  mr_put_integer(L, "blocked", t.blocked);
  push_workers(L);
  lua_setfield(L, -2, "workers");
  return 1;
}

/* ---- one process ---- */

static mr_proc *process_at(lua_State *L, int idx) { return mr_proc_by_id((uint64_t)luaL_checkinteger(L, idx)); }

#define GLANCE 300000000u                        /* ns for a process to say where it is, and to give its traceback */
#define READING 2000000000u

/* text malloc'd: its string on the stack, also if there is none; pushing may raise, so it is freed later */
static char *kept;

/* (id) -> process | nil */
static int l_info(lua_State *L) {
  mr_proc *p = process_at(L, 1);
  mr_info info;
  mr_look look;
  if (!p) return 0;
  mr_proc_info(p, &info);
  int state = mr_look_at(p, LOOK_WHERE, port_now() + GLANCE, &look);
  free(look.text);
  mr_release(&p->shared);
  rates r = rates_of(&info, port_now());
  push_process(L, &info, &r);
  if (state != LOOK_DONE) return 1;
  if (look.where[0]) mr_put_string(L, "where", look.where);
  if (look.there) mr_put_integer(L, "there", look.there);
  if (look.on[0]) mr_put_string(L, "on", look.on);
  if (look.used) mr_put_integer(L, "memory", look.used);
  return 1;
}

/* (id) -> text | nil, why there is none | nil (no such process) */
static int l_traceback(lua_State *L) {
  mr_proc *p = process_at(L, 1);
  mr_look look;
  if (!p) return 0;
  int state = mr_look_at(p, LOOK_TRACE, port_now() + READING, &look);
  mr_release(&p->shared);
  free(kept);
  kept = look.text;
  if (kept) {
    lua_pushstring(L, kept);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, state == LOOK_NEW ? "it has not begun" : state == LOOK_OVER ? "it has ended" : state == LOOK_NOMEM ? "not enough memory" :
                    "it does not answer: it is in a C function, or waits for a worker");
  return 2;
}

/* ---- to end one ---- */

/* What its error's `reason` says, from the top of the stack. NULL: there is no memory, and it is ended without. */
static mr_why *reason(lua_State *L) {
  mr_packer *packer = mr_packer_new();
  mr_why *why = packer ? mr_why_new(WHY_CANCELLED) : NULL;
  if (why && mr_pack(packer, L, lua_gettop(L), 1, "reason") == 0) why->reason.u.m = mr_packer_seal(packer);
  if (why && why->reason.u.m) {
    why->reason.kind = MAIL_MESSAGE;
    why->reason.n = 1;
  }
  if (packer) mr_packer_free(packer);
  return why;
}

/* Who becomes ready by this is in nobody's hands for a moment: see run/run.h. */
static int end(mr_proc *p, mr_why *why, int kill) {
  mr_moving();
  int lived = kill ? mr_kill(p, NULL) : mr_cancel(p, why, NULL);
  mr_settled();
  return lived;
}

/* id -> true | nil, why not | nil (there is none) */
static int end_at(lua_State *L, int kill) {
  lua_pushliteral(L, "mare top");                /* before anything is held: it may raise */
  mr_proc *p = process_at(L, 1);
  if (!p) return 0;
  if (p->job.host) {
    mr_release(&p->shared);
    lua_pushnil(L);
    lua_pushfstring(L, "the main script can't be %s by mare; it runs on a thread that is not mare's", kill ? "killed" : "cancelled");
    return 2;
  }
  mr_why *why = kill ? NULL : reason(L);
  if (why && !mr_control_ready(p)) {
    mr_why_free(why);
    why = NULL;
  }
  int lived = end(p, why, kill);
  mr_release(&p->shared);
  if (lived) lua_pushboolean(L, 1);
  else lua_pushnil(L), lua_pushliteral(L, "it has ended already");
  return lived ? 1 : 2;
}

static int l_cancel(lua_State *L) { return end_at(L, 0); }
static int l_kill(lua_State *L) { return end_at(L, 1); }

/* ---- failures ---- */

/* (n) -> { { when = seconds since 1970, text = }, … }, the newest first */
static int l_failures(lua_State *L) {
  lua_Integer most = luaL_checkinteger(L, 1);
  mr_failure f;
  lua_newtable(L);
  for (lua_Integer i = 0; i < most && mr_failure_last((unsigned)i, &f); i++) {
    lua_newtable(L);
    mr_put_number(L, "when", f.when);
    mr_put_string(L, "text", f.text);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- channels ---- */

enum { DEEPEST = 50 };

/* (n) -> { { name =, length =, capacity =, senders =, receivers = }, … }, the fullest first */
static int l_channels(lua_State *L) {
  lua_Integer most = luaL_checkinteger(L, 1);
  mr_channel_info deep[DEEPEST];
  unsigned n;
  if (mr_channel_infos(deep, most < DEEPEST ? (unsigned)most : DEEPEST, &n) != MR_OK) return luaL_error(L, "not enough memory");
  lua_createtable(L, (int)n, 0);
  for (unsigned i = 0; i < n; i++) {
    lua_createtable(L, 0, 5);
    mr_put_string(L, "name", deep[i].name);
    mr_put_integer(L, "length", deep[i].length);
    if (deep[i].capacity < (size_t)LUA_MAXINTEGER) mr_put_integer(L, "capacity", deep[i].capacity);
    mr_put_integer(L, "senders", deep[i].senders);
    mr_put_integer(L, "receivers", deep[i].receivers);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- dicts ---- */

enum { DICTS = 50 };
typedef struct dicts { unsigned n; struct { char name[200]; mr_dict_info info; } of[DICTS]; } dicts;

static void add_dict(const char *name, size_t length, mr_shared *o, void *arg) {
  dicts *all = arg;
  (void)length;
  if (all->n == DICTS) return;
  snprintf(all->of[all->n].name, sizeof all->of[0].name, "%s", name);
  mr_dict_look((mr_dict *)(void *)o, &all->of[all->n++].info);
}

/* () -> { { name =, entries =, bytes =, hits =, misses =, evicted = }, … }, of those that have names; not more than fifty */
static int l_dicts(lua_State *L) {
  dicts all = { 0 };
  mr_named_each(NAMED_DICT, add_dict, &all);
  lua_createtable(L, (int)all.n, 0);
  for (unsigned i = 0; i < all.n; i++) {
    const mr_dict_info *d = &all.of[i].info;
    lua_createtable(L, 0, 6);
    mr_put_string(L, "name", all.of[i].name);
    mr_put_integer(L, "entries", d->entries);
    mr_put_integer(L, "bytes", d->bytes);
    mr_put_integer(L, "hits", d->hits);
    mr_put_integer(L, "misses", d->misses);
    mr_put_integer(L, "evicted", d->evicted);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

int mr_observed_open(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "program", l_program }, { "resources", l_resources }, { "list", l_list }, { "states", l_states }, { "totals", l_totals }, { "info", l_info },
    { "traceback", l_traceback }, { "cancel", l_cancel }, { "kill", l_kill }, { "failures", l_failures }, { "channels", l_channels },
    { "dicts", l_dicts }, { "groups", mr_gathered_groups }, { "talk", mr_gathered_talk }, { "profile_begin", mr_gathered_begin },
    { "profile_end", mr_gathered_end }, { NULL, NULL }
  };
  luaL_newlib(L, functions);
  return 1;
}
