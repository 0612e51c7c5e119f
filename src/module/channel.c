/* mare.channel: the objects; what send and receive do is in exchange.c. */
#include "module/exchange.h"
#include "module/hop.h"

#include <string.h>

#define TNAME "channel"


static mr_channel *channel_check(lua_State *L) { 
  mr_shared *o = mr_shared_to(L, 1, mr_channel_type);
  return (mr_channel *)(PORT_LIKELY(o != NULL) ? o : mr_shared_check(L, 1, mr_channel_type, TNAME));
}

static int channel_fail(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* ---- receiving ---- */

/* The channel is alive while its fiber waits, as the userdata stays at index 1. */
static const mr_words receiving;

static int receive_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  return mr_hop_received(L, (mr_fiber *)ctx, &receiving);
}

static int not_received(lua_State *L, int how) { return channel_fail(L, how == EXCHANGE_CLOSED ? "closed" : "timeout"); }
static int nothing_there(lua_State *L, int how) { return channel_fail(L, how == EXCHANGE_CLOSED ? "closed" : "empty"); }

static const mr_words receiving = { receive_k, not_received, 1 };
static const mr_words trying = { receive_k, nothing_there, 1 };

static int receive_as(lua_State *L, mr_fiber *f) {
  mr_channel *c = channel_check(L);
  uint64_t deadline = UINT64_MAX;
  if (PORT_UNLIKELY(lua_gettop(L) != 1)) {
    deadline = mr_deadline(L, 2);
    lua_settop(L, 1);
  }
  return mr_exchange_receive(L, f, c, deadline, &receiving);
}

/* channel:receive([seconds]) -> v… | nil, "closed" | nil, "timeout" */
static int l_channel_receive(lua_State *L) { return receive_as(L, mr_self_fiber(L)); }

/* channel:try_receive() -> v… | nil, "closed" | nil, "empty" */
static int l_channel_try_receive(lua_State *L) {
  mr_channel *c = channel_check(L);
  lua_settop(L, 1);
  return mr_exchange_receive(L, mr_self_fiber(L), c, 0, &trying);
}

/* ---- sending ---- */

static const mr_words sending;

static int send_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  return mr_hop_was_sent(L, (mr_fiber *)ctx, &sending);
}

static int no_nil(lua_State *L, int first) {
  return luaL_argerror(L, first, "the first value of a message can't be nil; send false, or close the channel");
}

static int not_sent_as(lua_State *L, int how, int first, const char *blocked) {
  if (how == EXCHANGE_NIL) return no_nil(L, first);
  if (how == EXCHANGE_VALUE) return lua_error(L);
  return channel_fail(L, how == EXCHANGE_CLOSED ? "closed" : blocked);
}

static int not_sent(lua_State *L, int how) { return not_sent_as(L, how, 2, "timeout"); }
static int not_sent_within(lua_State *L, int how) { return not_sent_as(L, how, 3, "timeout"); }
static int no_room(lua_State *L, int how) { return not_sent_as(L, how, 2, "full"); }

static const mr_words sending = { send_k, not_sent, 0 };
static const mr_words sending_within = { send_k, not_sent_within, 0 };
static const mr_words trying_to_send = { send_k, no_room, 0 };

/* channel:send(v…) -> true | nil, "closed" */
static int l_channel_send(lua_State *L) { return mr_exchange_send(L, mr_self_fiber(L), channel_check(L), 2, UINT64_MAX, &sending); }

/* channel:send_within(seconds, v…) -> true | nil, "closed" | nil, "timeout" */
static int l_channel_send_within(lua_State *L) {
  mr_channel *c = channel_check(L);
  luaL_checknumber(L, 2);
  return mr_exchange_send(L, mr_self_fiber(L), c, 3, mr_deadline(L, 2), &sending_within);
}

/* channel:try_send(v…) -> true | nil, "closed" | nil, "full" */
static int l_channel_try_send(lua_State *L) { return mr_exchange_send(L, mr_self_fiber(L), channel_check(L), 2, 0, &trying_to_send); }

/* channel:sending(v…) -> a case for select: it is ready when the message can go */
static int l_channel_sending(lua_State *L) {
  channel_check(L);
  if (lua_isnoneornil(L, 2)) return no_nil(L, 2);
  mr_operation_push(L, &mr_exchange_sending, lua_gettop(L));
  return 1;
}

/* ---- the rest ---- */

/* channel:close() */
static int l_channel_close(lua_State *L) {
  mr_channel_close(channel_check(L), mr_self_fiber(L));
  return 0;
}

/* channel:closed() -> boolean */
static int l_channel_closed(lua_State *L) {
  lua_pushboolean(L, mr_channel_closed(channel_check(L)));
  return 1;
}

/* iterator of each: channel -> v… | nil */
static int l_next(lua_State *L) {
  lua_settop(L, 1);
  return receive_as(L, mr_self_fiber(L));
}

static int l_process_next(lua_State *L) { return mr_hop_receive(L, 0, &receiving, l_next); }

/* for v… in channel:each() do … end: until it is closed and empty */
static int l_channel_each(lua_State *L) {
  channel_check(L);
  mr_function_push(L, mr_in_process(L) ? l_process_next : l_next);
  lua_pushvalue(L, 1);
  return 2;
}

/* #channel -> messages queued */
static int l_channel_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_channel_count(channel_check(L)));
  return 1;
}

/* channel:name() -> string | nil */
static int l_channel_name(lua_State *L) {
  lua_pushstring(L, mr_channel_name(channel_check(L)));
  return 1;
}

/* Eight fields with send and receive, and so half the size of nine: tostring makes do with __name. */
static const luaL_Reg meta[] = { { "__len", l_channel_len }, { NULL, NULL } };

static const luaL_Reg methods[] = {
  { "send", l_channel_send },
  { "receive", l_channel_receive },
  { "send_within", l_channel_send_within },
  { "try_send", l_channel_try_send },
  { "try_receive", l_channel_try_receive },
  { "sending", l_channel_sending },
  { "close", l_channel_close },
  { "closed", l_channel_closed },
  { "each", l_channel_each },
  { "name", l_channel_name },
  { NULL, NULL }
};

/* In a process's state the hottest functions take the short way, if there is one. */
static int l_process_send(lua_State *L) { return mr_hop_send(L, &sending, l_channel_send); }
static int l_process_receive(lua_State *L) { return mr_hop_receive(L, 1, &receiving, l_channel_receive); }
static const luaL_Reg fast[] = { { "send", l_process_send }, { "receive", l_process_receive }, { NULL, NULL } };

static void channel_push(lua_State *L, mr_shared *o);
static const mr_class class = { { .name = "channel", .destroy = mr_channel_destroy, .push = channel_push }, TNAME, meta, methods, fast, &mr_exchange_receiving };
static void channel_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }

static size_t capacity_arg(lua_State *L, int idx) {
  if (lua_isnoneornil(L, idx)) return 0;
  lua_Number n = luaL_checknumber(L, idx);
  luaL_argcheck(L, n >= 0 && (n > 1e15 || n == (lua_Number)(lua_Integer)n), idx,
                "capacity must be 0 (rendezvous), a whole number, or math.huge");
  return n > 1e15 ? MR_UNBOUNDED : (size_t)n;
}

static int push_new(lua_State *L, mr_channel *c) {
  mr_shared_push_new(L, (mr_shared *)c);
  return 1;
}

/* channel.new([capacity]) -> channel */
static int l_new(lua_State *L) {
  size_t capacity = capacity_arg(L, 1);
  mr_channel *c = mr_channel_new(capacity);
  if (!c) return mr_raise(L, MR_ENOMEM);
  return push_new(L, c);
}

/* channel.named(name[, capacity]) -> channel: the one of that name, made if there is none; lives until closed */
static int l_named(lua_State *L) {
  size_t len;
  const char *name = luaL_checklstring(L, 1, &len);
  size_t capacity = capacity_arg(L, 2);
  mr_check_forked(L);
  int made, err;
  luaL_argcheck(L, memchr(name, 0, len) == NULL, 1, "a name can't contain a zero byte");
  mr_channel *c = mr_channel_named(CH_SPACE_MARE, name, len, capacity, &made, &err);
  if (!c) return mr_raise(L, err);
  return push_new(L, c);
}

/* channel.find(name) -> channel | nil */
static int l_find(lua_State *L) {
  size_t len;
  const char *name = luaL_checklstring(L, 1, &len);
  mr_check_forked(L);
  mr_channel *c = mr_channel_lookup(CH_SPACE_MARE, name, len, mr_channel_hash(name, len));
  if (!c) {
    lua_pushnil(L);
    return 1;
  }
  return push_new(L, c);
}

static const luaL_Reg functions[] = { { "new", l_new }, { "named", l_named }, { "find", l_find }, { NULL, NULL } };

int luaopen_mare_channel(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 3);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}

/* Sending and receiving bring the metatable's fields to eight. With --seed, too, methods are added when they are first used. */
static void furnish(lua_State *L) { mr_shared_furnish(L, &class); }

void mr_channel_setup(void) {
  mr_hooks.furnish = furnish;
  mr_channel_type = &class.share;
  mr_hooks.mail_back = mr_exchange_back;
  mr_hooks.describe = mr_channel_describe;
}
