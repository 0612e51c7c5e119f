/*
 * orb_serve_told: an ordinary request of a broker with interceptors, for lua/mare/orb/intercept/server.lua: tells them of it before and after the
 * servant's method. How requests come and go is in orb_serve.c; how calls are told of, in orb_told.c.
 *
 * What they see, the info, is a table that is used for one request after another; a request that finds it in use makes another. What is raised on
 * the way ends in Lua, as FAILED: the job leads to the info, and that says by _point at which stage it was, and of which interceptor.
 *
 * The stack: what orb_serve.c's execute gets, the object's entry, the interceptors' list, the info, the arguments, the results.
 */
#include "module/orb_serving.h"

enum stage { DECODE = -1, SERVANT = -2, FREE = 0, STARTS, MIDDLE, ENDS };    /* from STARTS on it is the point at which interceptors are told */
enum { ENTRY_AT = 7, LIST_AT, INFO_AT, ARGUMENTS_AT = INFO_AT + 3, STRIDE = 4, MANY = 1000 };   /* before the arguments: two values of their program */

static int told_k(lua_State *L, int status, lua_KContext ctx);
static lua_KContext context(int stage, int i, int n) { return (lua_KContext)(stage & 7) | (lua_KContext)i << 3 | (lua_KContext)n << 16; }

static raw_table *told_list(const mr_serving *s) { return (raw_table *)(uintptr_t)s->list->array[TOLD_AT].bits; }

/* Pushes the list and an info: the one that is kept, or a new one. */
static void push_info(lua_State *L, mr_serving *s) {
  const raw_value *list = s->list->array + TOLD_AT, *info = list + 1;
  int64_t stage;
  raw_push(L, list->tt, list->bits);
  if (PORT_LIKELY(INTEGER((raw_table *)(uintptr_t)info->bits, s, _point, &stage) && stage == FREE)) {
    raw_push(L, info->tt, info->bits);
    return;
  }
  lua_getfield(L, LIST_AT, "fresh");
  lua_call(L, 0, 1);
}

/* The info becomes that of the job's request. */
static void describe(lua_State *L, mr_serving *s, raw_table *job, mr_slice message) {
  raw_table *info = mr_table_at(L, INFO_AT), *call = TABLE(job, s, call);
  raw_value table = { (uintptr_t)job, RAW_TABLE }, itself = { (uintptr_t)info, RAW_TABLE };
  int64_t id = 0;
  if (PORT_UNLIKELY(!info || !call)) luaL_error(L, "an info and a call expected");
  INTEGER(job, s, id, &id);
  SET_INTEGER(info, s, request_id, id);
  SET_INTEGER(info, s, _point, DECODE);
  SET_INTEGER(info, s, _reached, 0);
  const raw_value *entry = raw_arguments(L) + ENTRY_AT - 1, *before = mr_slot_in(info, SLOT(s, _entry));
  if (TABLE(info, s, _call) != call || !before || before->bits != entry->bits) {
    mr_slot_put(L, INFO_AT, SLOT(s, _entry), entry);
    mr_slot_put(L, INFO_AT, SLOT(s, operation), mr_slot_in(job, SLOT(s, operation)));
    mr_slot_put(L, INFO_AT, SLOT(s, _key), mr_slot_in(job, SLOT(s, key)));
    mr_slot_put(L, INFO_AT, SLOT(s, _call), mr_slot_in(job, SLOT(s, call)));
    mr_slot_put(L, INFO_AT, SLOT(s, _def), mr_slot_in(call, SLOT(s, def)));
  }
  mr_slot_put(L, INFO_AT, SLOT(s, _job), &table);
  mr_slot_put(L, 4, SLOT(s, told), &itself);
  if (PORT_UNLIKELY(s->ncontexts)) {             /* who asks for one looks for it there */
    raw_push(L, RAW_SHORT, SLOT(s, _message)->key);
    lua_pushlstring(L, message.p, message.len);
    lua_rawset(L, INFO_AT);
  }
}

/* Calls the function of the i-th interceptor that is its `which`-th value, if it has one. */
static void tell(lua_State *L, mr_serving *s, int i, int which, lua_KContext ctx) {
  raw_table *flat = TABLE(mr_table_at(L, LIST_AT), s, flat);
  const raw_value *v = flat && (uint32_t)(STRIDE * i + which) < raw_arraysize(flat) ? flat->array + STRIDE * i : NULL;
  if (!v || v[which].tt == RAW_FALSE) return;
  raw_push(L, v[which].tt, v[which].bits);
  raw_push(L, v->tt, v->bits);
  mr_push_again(L, INFO_AT, 1);
  lua_callk(L, 2, 0, ctx, told_k);
}

/* All have been told: the reply, whose values begin at `first`. The info waits for the next request. */
static int answer(lua_State *L, mr_serving *s, raw_table *job, int first) {
  raw_table *info = mr_table_at(L, INFO_AT), *contexts = TABLE(info, s, _contexts);
  int n = lua_gettop(L) - first + 1;
  int64_t id = 0, codec = 0;
  mr_program *results = mr_program_at(L, 3);
  luaL_argcheck(L, results && INTEGER(job, s, id, &id) && INTEGER(job, s, codec, &codec), 1, "a request in progress expected");
  SET_INTEGER(job, s, phase, AFTER);
  SET_INTEGER(info, s, _point, FREE);
  if (contexts) {
    raw_push(L, RAW_TABLE, (uintptr_t)contexts);
    lua_replace(L, 2);
    SET_BOOLEAN(info, s, _contexts, 0);
  }
  if (IS_SET(info, s, _message)) SET_BOOLEAN(info, s, _message, 0);
  if (IS_SET(info, s, _heard)) SET_BOOLEAN(info, s, _heard, 0);
  if (mr_program_answer(L, results, 3, (uint32_t)id, (int)codec | CDR_BULK, first, n, contexts ? 2 : 0, &s->out)) return 0;
  s->out.p = NULL;
  return 1;
}

/* Goes on behind step i of the stage. n: of the arguments */
static int tell_all(lua_State *L, mr_serving *s, int stage, int i, int n) {
  raw_table *job = mr_table_at(L, 4);
  int64_t count = 0;
  luaL_argcheck(L, job && mr_table_at(L, INFO_AT), 4, "a request in progress expected");
  INTEGER(mr_table_at(L, LIST_AT), s, n, &count);
  for (;;) {
    raw_table *info = mr_table_at(L, INFO_AT);
    if (stage == STARTS || stage == MIDDLE) {
      if (stage == STARTS) SET_INTEGER(info, s, _reached, i + 1);
      if (++i < count) {
        if (stage == MIDDLE) SET_INTEGER(info, s, _at, i + 1);
        tell(L, s, i, stage == STARTS ? 1 : 2, context(stage, i, n));
        continue;
      }
      i = -1;
      if (stage == STARTS) {
        SET_INTEGER(info, s, _point, stage = MIDDLE);
        continue;
      }
      SET_INTEGER(info, s, _point, stage = SERVANT);
      SET_INTEGER(job, s, phase, DURING);
      if (PORT_UNLIKELY(n > 2)) luaL_checkstack(L, n + LUA_MINSTACK, NULL);
      mr_push_again(L, 5, 2);
      mr_push_again(L, ARGUMENTS_AT, n);
      lua_callk(L, n + 1, LUA_MULTRET, context(SERVANT, 0, n), told_k);
    } else if (stage == SERVANT) {
      int from = ARGUMENTS_AT + n, many = lua_gettop(L) - from + 1;
      if (many) mr_slot_fill(L, TABLE(info, s, _results), SLOT(s, n), from, many);
      SET_INTEGER(info, s, _point, stage = ENDS);
      i = (int)count;
    } else {
      if (--i < 0) return answer(L, s, job, ARGUMENTS_AT + n);
      SET_INTEGER(info, s, _reached, i);
      tell(L, s, i, 3, context(ENDS, i, n));
    }
  }
}

static int told_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  return tell_all(L, mr_serving_at(L, 1), (ctx & 7) == (SERVANT & 7) ? SERVANT : (int)(ctx & 7), (int)(ctx >> 3 & 0x1fff), (int)(ctx >> 16));
}

int mr_serve_told(lua_State *L) {
  mr_serving *s = mr_serving_at(L, 1);
  raw_table *job = mr_table_at(L, 4);
  mr_program *arguments = s->arguments;
  mr_slice in = s->in;
  int64_t codec = 0;
  int n = 0;
  s->in.p = NULL;
  luaL_argcheck(L, in.p && job && INTEGER(job, s, codec, &codec), 1, "a request expected");
  push_info(L, s);
  describe(L, s, job, in);
  if (arguments) {
    int fields = mr_program_open(L, arguments, 2);
    n = mr_program_read(L, arguments, fields, (int)codec, in.p, in.len, s->body);
    mr_slot_fill(L, TABLE(mr_table_at(L, INFO_AT), s, _args), SLOT(s, n), ARGUMENTS_AT, n);
  } else lua_settop(L, ARGUMENTS_AT - 1);
  SET_INTEGER(mr_table_at(L, INFO_AT), s, _point, STARTS);
  tell(L, s, 0, 1, context(STARTS, 0, n));
  return tell_all(L, s, STARTS, 0, n);
}

/* Slots of PICurrent are Lua's. */
int mr_serving_tells(mr_serving *s) {
  int64_t n;
  return IS_SET(told_list(s), s, fast) && INTEGER(told_list(s), s, n, &n) && n <= MANY;
}
