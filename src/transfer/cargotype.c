/*
 * cargotype: what is known of a kind of userdata (cargo.h), blocks of known layout, and the end of what nobody received.
 *
 * Types lie in one list, which only grows, under a lock; a type is constant once it is in there, but for `named`. Few kinds exist.
 */
#include <stdlib.h>
#include <string.h>
#include "transfer/cargo.h"
#include "port/system.h"
#include "port/poll.h"

static port_lock lock = PORT_LOCK(0);
static mr_cargotype *all;

static mr_cargotype *find(const char *name, const mare_transfer *given, lua_CFunction send, lua_CFunction receive) {
  mr_cargotype *t = all;
  while (t && (strcmp(t->name, name) != 0 || t->given != given || t->send != send || t->receive != receive)) t = t->next;
  return t;
}

static char *copy(const char *s) {
  char *c = malloc(strlen(s) + 1);
  return c ? strcpy(c, s) : NULL;
}

static mr_cargotype *new_type(const char *name) {
  mr_cargotype *t = calloc(1, sizeof *t);
  char *own = copy(name);
  if (!t || !own) {
    free(t);
    free(own);
    return NULL;
  }
  t->name = own;
  t->layout.descriptor = -1;
  return t;
}

static mr_cargotype *add(mr_cargotype *t) {
  t->next = all;
  return all = t;
}

/* The rule's code stays: a thing may be on its way when the last state that loaded its library is closed. */
const mr_cargotype *mr_cargotype_of_rule(const char *name, const mare_transfer *rule, int named) {
  port_acquire(&lock);
  mr_cargotype *t = find(name, rule, NULL, NULL);
  int fresh = !t;
  if (!t && (t = new_type(name)) != NULL) {
    t->rule = *rule;
    t->given = rule;
    add(t);
  }
  if (t && named) {
    for (mr_cargotype *o = all; o; o = o->next)
      if (strcmp(o->name, name) == 0) o->named = 0;
    t->named = 1;
  }
  port_unlock(&lock);
  if (fresh) port_pin(rule);
  if (fresh && rule->unpack) port_pin((const void *)(size_t)rule->unpack);
  return t;
}

const mr_cargotype *mr_cargotype_of_functions(const char *name, lua_CFunction send, lua_CFunction receive) {
  port_acquire(&lock);
  mr_cargotype *t = find(name, NULL, send, receive);
  int fresh = !t;
  if (!t && (t = new_type(name)) != NULL) {
    t->rule.version = MARE_TRANSFER_VERSION;
    t->send = send;
    t->receive = receive;
    add(t);
  }
  port_unlock(&lock);
  if (fresh && receive) port_pin((const void *)(size_t)receive);
  return t;
}

const mr_cargotype *mr_cargotype_of_layout(const char *name, const mare_transfer *rule, const mr_layoutrule *layout) {
  mr_cargotype *t = new_type(name);
  if (!t) return NULL;
  t->rule = *rule;
  t->given = &t->rule;
  t->rule.module = rule->module ? copy(rule->module) : NULL;
  t->layout = *layout;
  t->named = 1;
  if (rule->module && !t->rule.module) {
    free((char *)t->name);
    free(t);
    return NULL;
  }
  port_acquire(&lock);
  add(t);
  port_unlock(&lock);
  return t;
}

const mr_cargotype *mr_cargotype_named(const char *name) {
  port_acquire(&lock);
  mr_cargotype *t = all;
  while (t && (!t->named || strcmp(t->name, name) != 0)) t = t->next;
  port_unlock(&lock);
  return t;
}

/* ---- blocks of known layout ---- */

static void *word_at(const void *block, uint32_t at) {
  void *word;
  memcpy(&word, (const char *)block + at, sizeof word);
  return word;
}

const char *mr_layout_problem(const mr_cargotype *t, const void *block) {
  const mr_layoutrule *l = &t->layout;
  for (uint32_t i = 0; i < l->ninside; i++)
    if (word_at(block, l->inside[i].at) != (const char *)block + l->inside[i].to)
      return "its library is of another version than the rule for it knows";
  for (uint32_t i = 0; i < l->ndemands; i++) {
    int32_t value;
    memcpy(&value, (const char *)block + l->demands[i].at, sizeof value);
    if (value != l->demands[i].value) return l->demands[i].words;
  }
  return NULL;
}

void mr_layout_mend(const mr_cargotype *t, void *block) {
  for (uint32_t i = 0; i < t->layout.ninside; i++) {
    char *to = (char *)block + t->layout.inside[i].to;
    memcpy((char *)block + t->layout.inside[i].at, &to, sizeof to);
  }
}

/* ---- what nobody received ---- */

/*
 * A rule that does not say how its objects end leaves that to the library's finaliser, which wants a userdata in a state. That state, the cargo's
 * container, is made before the userdata leaves, so that nothing is missing when it is needed; it holds the userdata, at 1, and its metatable, at
 * 2, which the userdata gets at the end only. luaproc's functions have put a copy into the container; others' is empty.
 */
static void *plain_alloc(void *ud, void *p, size_t was, size_t n) {
  (void)ud;
  (void)was;
  if (n) return realloc(p, n);
  free(p);
  return NULL;
}

lua_State *mr_container_new(void) { return mr_lua_newstate(plain_alloc, NULL); }

/* cargo[, userdata] -> userdata, metatable with what a finaliser looks for: the name, the fields that are true, and itself */
static int l_reserve(lua_State *L) {
  mr_cargo *c = lua_touserdata(L, 1);
  if (lua_gettop(L) == 1) memset(lua_newuserdatauv(L, c->size, 1), 0, c->size);
  luaL_newmetatable(L, c->type->name);
  for (const char *m = c->marks; m && *m; m += strlen(m) + 1) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, m);
  }
  lua_pushcfunction(L, c->gc);
  lua_setfield(L, -2, "__gc");
  for (const char *t = c->type->layout.tables; *t; t += strlen(t) + 1) {
    luaL_newmetatable(L, t);
    lua_pop(L, 1);
  }
  return 2;
}

int mr_cargo_reserve(mr_cargo *c) {
  const mr_cargotype *t = c->type;
  if (t->rule.way != MARE_MOVE || t->rule.drop || t->layout.descriptor >= 0 || !c->gc) return 1;
  if (c->container && !t->send) return 1;
  lua_State *L = c->container ? c->container : mr_container_new();
  if (!L) return 0;
  int n = c->container ? 1 : 0;
  c->container = L;
  lua_pushcfunction(L, l_reserve);
  lua_insert(L, 1);
  lua_pushlightuserdata(L, c);
  lua_insert(L, 2);
  if (lua_pcall(L, n + 1, 2, 0) == LUA_OK) return 1;
  lua_close(L);
  c->container = NULL;
  return 0;
}

static void finalise_in_state(mr_cargo *c) {
  lua_State *L = c->container;
  lua_settop(L, 2);
  if (!c->type->send) {
    void *block = lua_touserdata(L, 1);
    if (!c->type->rule.pack) memcpy(block, c->bytes, c->size);
    mr_layout_mend(c->type, block);
    if (c->type->rule.unpack) c->type->rule.unpack(L, 1, c->object);
  }
  lua_setmetatable(L, 1);
  lua_close(L);
  c->container = NULL;
}

void mr_cargo_finalise(mr_cargo *c) {
  const mr_cargotype *t = c->type;
  if (t->rule.drop) {
    t->rule.drop(c->object);
  } else if (t->layout.descriptor >= 0) {
    int fd;
    memcpy(&fd, (char *)c->bytes + t->layout.descriptor, sizeof fd);
    if (fd >= 0) port_close(fd);
  } else if (c->gc && c->container) {
    finalise_in_state(c);
  }
}
