/*
 * gathered: what the observer counts over many processes, or for some time, as functions for lua/mare/observe: groups of processes, who talks to whom,
 * a profile of CPU time. Each is bounded, however large the program is. On the observer's thread, see observed.c.
 */
#include "module/observe.h"
#include "process/info.h"
#include "process/profile.h"
#include "run/talk.h"

#include <stdlib.h>
#include <string.h>

/* ---- groups ---- */

/*
 * Processes whose names differ in their digits alone are a group, "worker #"; so are those without a name that were made by the same one. At most GROUPS
 * are told apart; who comes later to a full table is counted as `rest`.
 */
enum { GROUPS = 512, STATES = 4 };
static const char *const states[STATES] = { "running", "ready", "waiting", "failed" };
typedef struct group {
  char name[MR_INFO_NAME];                       /* "": without one */
  unsigned char kind;
  uint64_t parent, example, count, state[STATES], cpu, heap, sent, received;
  double load, rate;
} group;
static struct { group at[GROUPS], rest; unsigned n, of[2 * GROUPS]; } groups;   /* `of`: index + 1, by hash */

/* No longer than the name. */
static void pattern(char *to, const char *name) {
  for (; *name; name++) {
    int digit = *name >= '0' && *name <= '9', again = digit && name[1] >= '0' && name[1] <= '9';
    if (!again) *to++ = digit ? '#' : *name;
  }
  *to = 0;
}

static int is_of(const group *g, const group *key) { return g->kind == key->kind && g->parent == key->parent && strcmp(g->name, key->name) == 0; }

static group *group_of(const mr_info *p) {
  group key = { .kind = p->kind, .parent = p->named ? 0 : p->parent, .example = p->id };
  if (p->named) pattern(key.name, p->name);
  uint64_t h = key.parent * 31 + key.kind;
  for (const char *c = key.name; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
  for (unsigned i = (unsigned)((h ^ h >> 32) % (2 * GROUPS));; i = (i + 1) % (2 * GROUPS)) {
    unsigned at = groups.of[i];
    if (at && is_of(&groups.at[at - 1], &key)) return &groups.at[at - 1];
    if (at) continue;
    if (groups.n == GROUPS) return &groups.rest;
    groups.at[groups.n] = key;
    groups.of[i] = ++groups.n;
    return &groups.at[groups.n - 1];
  }
}

static void add(group *g, const mr_info *p) {
  mr_observed_rates r = mr_observed_rates_of(p);
  g->count++;
  g->cpu += p->cpu;
  g->heap += p->heap;
  g->sent += p->sent;
  g->received += p->received;
  g->load += r.load;
  g->rate += r.messages;
  for (int i = 0; i < STATES; i++) g->state[i] += strcmp(p->status, states[i]) == 0;
}

/* The greatest first, of two alike the older one. */
static int by_count(const void *a, const void *b) {
  const group *x = a, *y = b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  return (x->example > y->example) - (x->example < y->example);
}

static void push_group(lua_State *L, const group *g) {
  lua_createtable(L, 0, 14);
  if (g->name[0]) mr_put_string(L, "name", g->name);
  if (g->kind != PROC_PLAIN) mr_put_string(L, "kind", g->kind == PROC_HOST ? "host" : "main");
  if (g->parent) mr_put_integer(L, "parent", g->parent);
  if (g->example) mr_put_integer(L, "example", g->example);
  mr_put_integer(L, "count", g->count);
  for (int i = 0; i < STATES; i++) mr_put_integer(L, states[i], g->state[i]);
  mr_put_number(L, "cpu", (double)g->cpu * 1e-9);
  mr_put_integer(L, "heap", g->heap);
  mr_put_integer(L, "sent", g->sent);
  mr_put_integer(L, "received", g->received);
  mr_put_number(L, "load", g->load);
  mr_put_number(L, "rate", g->rate);
}

/* (n) -> { groups = { … }, rest = group | nil }, the largest first; `rest`: all that is in no group that is told */
int mr_gathered_groups(lua_State *L) {
  lua_Integer most = luaL_checkinteger(L, 1);
  const mr_infos *all = mr_observed_infos(L);
  memset(&groups, 0, sizeof groups);
  for (size_t i = 0; i < all->n; i++) add(group_of(&all->at[i]), &all->at[i]);
  qsort(groups.at, groups.n, sizeof *groups.at, by_count);
  unsigned told = most < (lua_Integer)groups.n ? (unsigned)most : groups.n;
  for (unsigned i = told; i < groups.n; i++) {
    group *r = &groups.rest, *g = &groups.at[i];
    r->count += g->count;
    r->cpu += g->cpu;
    r->heap += g->heap;
    r->sent += g->sent;
    r->received += g->received;
    r->load += g->load;
    r->rate += g->rate;
    for (int k = 0; k < STATES; k++) r->state[k] += g->state[k];
  }
  lua_createtable(L, 0, 3);
  lua_createtable(L, (int)told, 0);
  for (unsigned i = 0; i < told; i++) {
    push_group(L, &groups.at[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "groups");
  if (!groups.rest.count) return 1;
  push_group(L, &groups.rest);
  lua_setfield(L, -2, "rest");
  return 1;
}

/* ---- who talks to whom ---- */

static mr_talk talks[MR_TALK_MOST];

static int by_n(const void *a, const void *b) {
  const mr_talk *x = a, *y = b;
  if (x->n != y->n) return x->n < y->n ? 1 : -1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (x->to > y->to) - (x->to < y->to);
}

/* What is known of one end, if it still lives. */
static void push_end(lua_State *L, uint64_t id, const char *field) {
  mr_proc *p = mr_proc_by_id(id);
  mr_info info = { .kind = PROC_PLAIN };
  if (p) {
    mr_proc_info(p, &info);
    mr_release(&p->shared);
  }
  lua_createtable(L, 0, 3);
  mr_put_integer(L, "id", id);
  if (info.named) mr_put_string(L, "name", info.name);
  if (info.kind != PROC_PLAIN) mr_put_string(L, "kind", info.kind == PROC_HOST ? "host" : "main");
  if (info.parent) mr_put_integer(L, "parent", info.parent);
  lua_setfield(L, -2, field);
}

/* (ms, n) -> { talk = { { from =, to =, n =, on =, waits = }, … }, seconds =, rest = }: the most frequent first; waits that long */
int mr_gathered_talk(lua_State *L) {
  uint64_t ms = (uint64_t)luaL_checkinteger(L, 1), begun = port_now(), rest;
  lua_Integer most = luaL_checkinteger(L, 2);
  mr_talk_begin();
  port_sleep(ms * 1000000u);
  unsigned n = mr_talk_end(talks, &rest);
  double seconds = (double)(port_now() - begun) * 1e-9;
  qsort(talks, n, sizeof *talks, by_n);
  for (unsigned i = most < (lua_Integer)n ? (unsigned)most : n; i < n; i++) rest += talks[i].n;
  if (most < (lua_Integer)n) n = (unsigned)most;
  lua_createtable(L, 0, 4);
  lua_createtable(L, (int)n, 0);
  for (unsigned i = 0; i < n; i++) {
    lua_createtable(L, 0, 5);
    push_end(L, talks[i].from, "from");
    push_end(L, talks[i].to, "to");
    mr_put_integer(L, "n", talks[i].n);
    if (talks[i].on[0]) mr_put_string(L, "on", talks[i].on);
    mr_put_string(L, "waits", talks[i].waits);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "talk");
  mr_put_number(L, "seconds", seconds);
  mr_put_integer(L, "rest", rest);
  return 1;
}

/* ---- a profile ---- */

enum { SHARE = 1000 };                           /* what has less than this part of all time is not told apart from its caller */
static mr_stacks *profiled;                      /* so that no error loses it */
static uint64_t profiled_from;

static void drop(void) {
  if (profiled) mr_stacks_free(profiled);
  profiled = NULL;
}

void mr_gathered_forget(void) {
  drop();
  profiled = mr_profile_end();
  drop();
}

/* (seconds) -> true | nil, why not */
int mr_gathered_begin(lua_State *L) {
  uint64_t now = port_now();
  const char *why = mr_profile_begin(now + (uint64_t)(luaL_checknumber(L, 1) * 1e9));
  if (!why) {
    profiled_from = now;
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/*
 * From the leaves, which stand behind their parents: value[1] is what a stack has used itself, and those of its calls that are not told apart; [2] with all
 * it has called; [3] its place in the list.
 */
static double sum_up(mr_stacks *s) {
  double all = 0;
  for (uint32_t i = s->nodes; i-- > STACK_OTHER;) {
    mr_stack_node *n = &s->node[i];
    n->value[2] += n->value[1];
    if (n->parent != STACK_NONE) s->node[n->parent].value[2] += n->value[2];
    else all += n->value[2];
  }
  for (uint32_t i = STACK_OTHER; i < s->nodes; i++) {
    const mr_stack_node *n = &s->node[i];
    if (n->value[2] < all / SHARE && n->parent != STACK_NONE) s->node[n->parent].value[1] += n->value[2];
  }
  return all;
}

static void push_node(lua_State *L, const mr_stacks *s, const mr_stack_node *n, lua_Integer parent) {
  char label[MR_STACK_LABEL];
  mr_stack_label(s, n->function, label);
  lua_createtable(L, 5, 0);
  lua_pushinteger(L, parent);
  lua_rawseti(L, -2, 1);
  lua_pushstring(L, label);
  lua_rawseti(L, -2, 2);
  lua_pushinteger(L, n->line);
  lua_rawseti(L, -2, 3);
  lua_pushinteger(L, (lua_Integer)(n->value[1] / 1000 + 0.5));
  lua_rawseti(L, -2, 4);
  lua_pushinteger(L, (lua_Integer)(n->value[2] / 1000 + 0.5));
  lua_rawseti(L, -2, 5);
}

/* () -> { nodes = { { parent, function, line, own, all }, … }, total =, seconds = } | nil, why there is none. Microseconds; a parent's place, 0: none */
int mr_gathered_end(lua_State *L) {
  drop();
  profiled = mr_profile_end();
  if (!profiled) {
    lua_pushnil(L);
    lua_pushliteral(L, "no profile was begun, or there is no memory for it");
    return 2;
  }
  mr_stacks *s = profiled;
  double all = sum_up(s);
  lua_Integer n = 0;
  lua_createtable(L, 0, 4);
  lua_newtable(L);
  for (uint32_t i = STACK_OTHER; i < s->nodes; i++) {
    mr_stack_node *node = &s->node[i];
    if (node->value[2] <= 0 || node->value[2] < all / SHARE) continue;   /* its callers have no less, so they are there */
    lua_Integer parent = node->parent == STACK_NONE ? 0 : (lua_Integer)s->node[node->parent].value[3];
    push_node(L, s, node, parent);
    lua_rawseti(L, -2, ++n);
    node->value[3] = (double)n;
  }
  lua_setfield(L, -2, "nodes");
  mr_put_integer(L, "total", (uint64_t)(all / 1000 + 0.5));
  mr_put_number(L, "seconds", (double)(port_now() - profiled_from) * 1e-9);
  drop();
  return 1;
}
