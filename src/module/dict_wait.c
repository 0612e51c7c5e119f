/* dict_wait: mare.dict's waiting: a watch is what is waited for, alone or in select. It stays in its process. */
#include "module/dict.h"
#include "module/value.h"

#include <stdio.h>

#define TNAME "watch"

static const mr_class class;

static int watch_link(void *o, mr_wait *w) { return mr_watch_link(o, w); }
static void watch_unlink(void *o, mr_wait *w) { mr_watch_unlink(o, w); }

/* The value; nil, "absent". An entry with a time of its own changes by itself: then it is asked again. */
static int watch_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  char room[MR_TEXT_MOST];
  mr_dict_value v;
  uint64_t until;
  (void)why;
  if (!mr_watch_take(o, &v, room, &until)) {
    if (until < w->fiber->deadline) w->fiber->deadline = until;
    return -1;
  }
  mr_value_push(L, &v);
  if (v.kind != DICT_ABSENT) return 1;
  lua_pushliteral(L, "absent");
  return 2;
}

/* A selector would not ask it again when the entry's time is over: so it does not stay. */
static const mr_waitclass watching = { .run = { .op = "wait for a key", .link = watch_link, .unlink = watch_unlink, .shown = 1 }, .take = watch_take };

static mr_watch *watch_check(lua_State *L, int idx) { return (mr_watch *)(void *)mr_shared_check(L, idx, &class.share, TNAME); }

/* watch:wait([seconds]) -> value | nil, "absent" | nil, "timeout" */
static int l_watch_wait(lua_State *L) {
  mr_watch *w = watch_check(L, 1);
  uint64_t deadline = mr_deadline(L, 2);
  lua_settop(L, 1);
  return mr_await(L, mr_self_fiber(L), &watching, w, deadline);
}

/* "on dict 'sessions', key 'x'" */
static void describe(mr_shared *o, char *buf, size_t size) {
  const mr_watch *w = (const mr_watch *)(const void *)o;
  char key[40];
  size_t length;
  const char *name = mr_dict_name(w->dict, &length);
  if (w->key.type == KEY_STRING) snprintf(key, sizeof key, "'%.*s'", (int)(w->key.length < 30 ? w->key.length : 30), w->key.text);
  else if (w->key.type == KEY_INTEGER) snprintf(key, sizeof key, "%lld", (long long)w->key.number);
  else if (w->key.type == KEY_BOOLEAN) snprintf(key, sizeof key, w->key.number ? "true" : "false");
  else snprintf(key, sizeof key, "of a float");
  if (name) snprintf(buf, size, "on dict '%.40s', key %s", name, key);
  else snprintf(buf, size, "on dict %p, key %s", (void *)w->dict, key);
}

static const luaL_Reg meta[] = { { NULL, NULL } };
static const luaL_Reg methods[] = { { "wait", l_watch_wait }, { NULL, NULL } };
static void watch_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = { { .name = TNAME, .destroy = mr_watch_destroy, .push = watch_push, .describe = describe,
                                  .stays = "watch cannot be sent; send the dict and watch the key in the receiver" }, TNAME, meta, methods, NULL, &watching };

static mr_watch *new_watch(lua_State *L) {
  mr_dict *d = mr_dict_check(L, 1);
  mr_dict_value old;
  mr_key k;
  int by_value = !lua_isnone(L, 3);
  mr_dict_key(L, 2, &k);
  if (by_value) mr_value_compare(L, 3, &old);
  mr_watch *w = mr_watch_new(&class.share, d, &k, by_value ? &old : NULL);
  if (!w) mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, &w->shared);
  return w;
}

/* dict:watch(key[, old]) -> a watch: it is ready when the value is another than old; without old, when it has changed since */
int mr_dict_l_watch(lua_State *L) {
  new_watch(L);
  return 1;
}

/* dict:wait(key[, old[, seconds]]) -> value | nil, "absent" | nil, "timeout" */
int mr_dict_l_wait(lua_State *L) {
  uint64_t deadline = mr_deadline(L, 4);
  mr_watch *w = new_watch(L);
  return mr_await(L, mr_self_fiber(L), &watching, w, deadline);
}
