/*
 * orb_told: calls of a broker with interceptors, for lua/mare/orb/intercept/client.lua: tells them of an ordinary call, around the function of
 * orb_call.c that makes it. How requests are told of is in orb_serve_told.c; what both share is in slots.h.
 *
 * What interceptors see, the info, is a table that belongs to the operation, and is used again for its next call; a call that finds it in use makes
 * another. Only its fields change that differ between calls. Interceptors lie in list.flat, some values for each: itself, its functions, false where
 * it has none. They run in protected calls; so does the call itself. What any of these raises ends in Lua (`rescue`), which is told how far it got
 * and does all that is left, as for a call that was not ordinary.
 *
 * The stack: the arguments, the info, and above it the results. A step's index, how many arguments there are and the stage are in the continuation's
 * context.
 */
#include "module/orb.h"

enum upvalues { RECORD = 1, LIST, INFO, INNER, SLOW, FRESH, RESCUE, UPVALUES = RESCUE };
enum stage { START = 1, CALL, END };
enum point { FREE = 0, BETWEEN = -1, SEND_REQUEST = 1, RECEIVE_REPLY };        /* of an info; BETWEEN: the call is made */
enum { MANY = 1000, STRIDE = 3 };                /* interceptors, and arguments, beyond which Lua does it; values in list.flat for each */

#define FIELDS(F) F(fast) F(n) F(serial) F(flat) F(request_id) F(_point) F(_reached) F(_args) F(_results) F(_contexts) F(_message) F(_proxy) F(_heard) F(_state) F(_target) F(_list)
enum { FIELDS(MR_F_NUMBER) NFIELDS };
static const char *const names[] = { FIELDS(MR_F_NAME) };

typedef struct telling { uintptr_t tag; mr_slot slots[NFIELDS]; } telling;
static const char telling_tag;

static telling *telling_at(lua_State *L, int idx) {
  telling *k = (telling *)lua_touserdata(L, idx);      /* an upvalue of ours, which l_make_told has looked at */
  if (!k || k->tag != ((uintptr_t)&telling_tag ^ (uintptr_t)k)) luaL_error(L, "record of told calls expected");
  return k;
}

static int told_k(lua_State *L, int status, lua_KContext ctx);
static lua_KContext context(int stage, int i, int n) { return (lua_KContext)stage | (lua_KContext)i << 2 | (lua_KContext)n << 16; }

static int all_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  return lua_gettop(L) - (int)ctx + 1;
}

/* The info has done its service: it waits for the operation's next call, and says nothing any more. */
static void put_back(lua_State *L, telling *k, int n) {
  raw_table *info = mr_table_at(L, n + 1);
  SET_INTEGER(info, k, _point, FREE);
  if (IS_SET(info, k, _contexts)) SET_BOOLEAN(info, k, _contexts, 0);
  if (IS_SET(info, k, _message)) SET_BOOLEAN(info, k, _message, 0);
  if (PORT_UNLIKELY(IS_SET(info, k, _state))) {  /* it was not ordinary */
    SET_BOOLEAN(info, k, _state, 0);
    SET_BOOLEAN(info, k, _target, 0);
    SET_BOOLEAN(info, k, _heard, 0);
  }
}

/* Something was raised, and is on top. rescue(info, stage, i, error, arguments…) gives the results, or raises. */
static int rescue(lua_State *L, int stage, int i, int n) {
  int first = lua_gettop(L) + 1;
  if (lua_rawequal(L, n + 1, lua_upvalueindex(INFO))) {        /* it is Lua's now */
    lua_pushboolean(L, 0);
    lua_replace(L, lua_upvalueindex(INFO));
  }
  luaL_checkstack(L, n + 10, NULL);
  lua_pushvalue(L, lua_upvalueindex(RESCUE));
  lua_pushvalue(L, n + 1);
  lua_pushinteger(L, stage);
  lua_pushinteger(L, i + 1);
  lua_pushvalue(L, first - 1);
  mr_push_again(L, 1, n);
  lua_callk(L, n + 4, LUA_MULTRET, first, all_k);
  return all_k(L, LUA_OK, first);
}

/* Calls the interceptor's function, if it has one. -> the status */
static int tell(lua_State *L, telling *k, int stage, int i, int n) {
  raw_table *list = TABLE(mr_table_at(L, n + 1), k, _list), *flat = list ? TABLE(list, k, flat) : NULL;
  const raw_value *v = flat && (uint32_t)(STRIDE * i + 2) < raw_arraysize(flat) ? flat->array + STRIDE * i : NULL;
  const raw_value *f = v ? v + (stage == START ? 1 : 2) : NULL;
  if (!f || f->tt == RAW_FALSE) return LUA_OK;
  raw_push(L, f->tt, f->bits);
  raw_push(L, v->tt, v->bits);
  mr_push_again(L, n + 1, 1);
  return lua_pcallk(L, 2, 0, 0, context(stage, i, n), told_k);
}

static int make_call(lua_State *L, int n) {
  if (PORT_UNLIKELY(n > 4)) luaL_checkstack(L, n + LUA_MINSTACK, NULL);
  lua_pushvalue(L, lua_upvalueindex(INNER));
  mr_push_again(L, n + 1, 1);
  mr_push_again(L, 1, n);
  return lua_pcallk(L, n + 1, LUA_MULTRET, 0, context(CALL, 0, n), told_k);
}

/* Goes on behind step i of the stage, which has ended with this status. */
static int go_on(lua_State *L, telling *k, int status, int stage, int i, int n) {
  raw_table *list = TABLE(mr_table_at(L, n + 1), k, _list);
  int64_t count = 0;
  INTEGER(list, k, n, &count);
  while (PORT_LIKELY(status == LUA_OK || status == LUA_YIELD)) {
    if (stage == START) {
      SET_INTEGER(mr_table_at(L, n + 1), k, _reached, i + 1);
      if (++i < count) {
        status = tell(L, k, START, i, n);
        continue;
      }
      SET_INTEGER(mr_table_at(L, n + 1), k, _point, BETWEEN);
      stage = CALL;
      status = make_call(L, n);
      continue;
    }
    if (stage == CALL) {
      raw_table *info = mr_table_at(L, n + 1);
      int64_t reached = 0;
      int many = lua_gettop(L) - n - 1;
      if (many) mr_slot_fill(L, TABLE(info, k, _results), SLOT(k, n), n + 2, many);
      INTEGER(info, k, _reached, &reached);
      SET_INTEGER(info, k, _point, RECEIVE_REPLY);
      stage = END;
      i = (int)reached;
    }
    if (--i < 0) {
      put_back(L, k, n);
      return lua_gettop(L) - n - 1;
    }
    SET_INTEGER(mr_table_at(L, n + 1), k, _reached, i);
    status = tell(L, k, END, i, n);
  }
  return rescue(L, stage, i, n);
}

static int told_k(lua_State *L, int status, lua_KContext ctx) {
  return go_on(L, telling_at(L, lua_upvalueindex(RECORD)), status, (int)(ctx & 3), (int)(ctx >> 2 & 0x3fff), (int)(ctx >> 16));
}

/* Pushes the operation's info, or a new one if that is in use. */
static void push_info(lua_State *L, telling *k) {
  int64_t point;
  lua_pushvalue(L, lua_upvalueindex(INFO));
  raw_table *info = mr_table_at(L, -1);
  if (PORT_LIKELY(info && INTEGER(info, k, _point, &point) && point == FREE)) return;
  lua_pop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(FRESH));
  lua_call(L, 0, 1);
  if (!info) lua_copy(L, -1, lua_upvalueindex(INFO));
}

/* function(object, …) -> results */
static int l_told(lua_State *L) {
  telling *k = telling_at(L, lua_upvalueindex(RECORD));
  int n = lua_gettop(L);
  int64_t serial = 0, count = 0;
  raw_table *list = (raw_table *)(uintptr_t)lua_topointer(L, lua_upvalueindex(LIST));
  if (PORT_UNLIKELY(n == 0 || n > MANY || !lua_checkstack(L, LUA_MINSTACK) || !IS_SET(list, k, fast) || !INTEGER(list, k, n, &count) || count > MANY)) {
    lua_pushvalue(L, lua_upvalueindex(SLOW));
    lua_insert(L, 1);
    lua_callk(L, n, LUA_MULTRET, 1, all_k);
    return lua_gettop(L);
  }
  push_info(L, k);
  raw_table *info = mr_table_at(L, n + 1);
  if (!info) return luaL_error(L, "an info expected");
  INTEGER(list, k, serial, &serial);
  SET_INTEGER(list, k, serial, serial + 1);
  SET_INTEGER(info, k, request_id, serial + 1);
  SET_INTEGER(info, k, _point, SEND_REQUEST);
  SET_INTEGER(info, k, _reached, 0);
  mr_slot_put(L, n + 1, SLOT(k, _proxy), raw_arguments(L));
  if (n > 1) mr_slot_fill(L, TABLE(info, k, _args), SLOT(k, n), 2, n - 1);
  return go_on(L, k, tell(L, k, START, 0, n), START, 0, n);
}

/* ---- making them ---- */

/* telling() -> record | nil: Lua is not as we know it */
static int l_telling(lua_State *L) {
  lua_settop(L, 0);
  if (!mr_layout) return 0;
  telling *k = lua_newuserdatauv(L, sizeof *k, 1);
  memset(k, 0, sizeof *k);
  lua_createtable(L, NFIELDS, 0);
  mr_slots_make(L, k->slots, names, NFIELDS);
  lua_setiuservalue(L, 1, 1);
  k->tag = (uintptr_t)&telling_tag ^ (uintptr_t)k;
  return 1;
}

/* told(record, list, info, inner, slow, fresh, rescue) -> function(object, …). inner(info, object, …) makes the call; slow(object, …) does all of it. */
static int l_make_told(lua_State *L) {
  luaL_argcheck(L, lua_rawlen(L, 1) >= sizeof(telling), 1, "record of told calls expected");
  telling_at(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  for (int i = INNER; i <= UPVALUES; i++) luaL_checktype(L, i, LUA_TFUNCTION);
  lua_settop(L, UPVALUES);
  lua_pushcclosure(L, l_told, UPVALUES);
  return 1;
}

const luaL_Reg mr_orb_telling[] = { { "telling", l_telling }, { "told", l_make_told }, { NULL, NULL } };
