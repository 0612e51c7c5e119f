/* What packers, messages and movable objects promise is checked: each broken promise ends the program, and says which it was. */
#include "port/test.h"
#include "transfer/packet.h"

#include "lua/compat.h"

static lua_State *L;
static mr_packer *p;
static mr_message *m;

static void destroy(mr_shared *o) { (void)o; }
static void push(lua_State *to, mr_shared *o) { lua_pushlightuserdata(to, o); }
static const mr_sharetype type = { .name = "thing", .destroy = destroy, .push = push, .moves = 1, .dropped = destroy };
static mr_movable thing = { .shared = { .type = &type, .refs = 1 } };

/* {"a long string …", thing} */
static void prepare(void) {
  L = luaL_newstate();
  p = mr_packer_new();
  lua_newtable(L);
  lua_pushlstring(L, (char[2000]){ 1 }, 2000);
  lua_rawseti(L, 1, 1);
  *(mr_shared **)lua_newuserdatauv(L, sizeof(mr_shared *), 0) = &thing.shared;
  lua_newtable(L);
  lua_pushlightuserdata(L, (void *)&type);
  lua_setfield(L, -2, "__share");
  lua_setmetatable(L, -2);
  lua_rawseti(L, 1, 2);
  CHECK(mr_pack(p, L, 1, 1, "message") == 0);
  m = mr_packer_seal(p);
  CHECK(m && mr_message_size(m) > 2000 && atomic_load(&thing.shared.refs) == 2);
}

static void stream_is_too_long(void) {
  p->s[BODY].length = p->s[BODY].size + 8;
  mr_packer_seal(p);
}

static void seal_torn(void) {
  p->nmetas++;
  mr_packer_seal(p);
}

static void far_string_is_lost(void) {
  *(size_t *)(void *)p->far.at = p->s[STR].length;
  mr_packer_seal(p);
}

static void shared_object_is_gone(void) {
  atomic_store(&thing.shared.refs, 0);
  mr_packer_seal(p);
}

static void freed_twice(void) {
  atomic_store(&thing.shared.refs, 1);
  mr_message_free(m);                           /* as if somebody else had freed it before */
  mr_release(&thing.shared);
}

static void taken_back_after_it_was_received(void) {
  atomic_fetch_add(&thing.epoch, 1);
  mr_message_back(L, m);
}

static void object_out_of_range(void) {
  mr_def *d = (mr_def *)(void *)p->s[DEF].at;
  CHECK(d->kind == KIND_TABLE && d->narr == 2);
  uint64_t *body = (uint64_t *)(void *)p->s[BODY].at;
  for (size_t i = 0; i < p->s[BODY].length / 8; i++)
    if (body[i] == 1) body[i] = 77;             /* the number of the thing */
  lua_State *to = luaL_newstate();
  mr_unpack_view(to, p);
}

static void packed_under_a_lock(void) {
  static port_lock lock;
  port_acquire(&lock);
  mr_pack(p, L, 1, 1, "message");
}

int main(void) {
  prepare();
  CHECK_DIES(stream_is_too_long, "s->length <= s->size");
  CHECK_DIES(seal_torn, "p->s[META].length == p->nmetas");
  CHECK_DIES(far_string_is_lost, "far[i] + 16 <= p->s[STR].length");
  CHECK_DIES(shared_object_is_gone, "refs");
  CHECK_DIES(freed_twice, "refs");
  CHECK_DIES(taken_back_after_it_was_received, "atomic_load(&v->epoch) == atomic_load(&v->sealed)");
  CHECK_DIES(object_out_of_range, "word < u->m->nobjects");
  CHECK_DIES(packed_under_a_lock, "it may sleep, or run Lua, under a lock");
  mr_message_back(L, m);
  CHECK(atomic_load(&thing.shared.refs) == 1 && atomic_load(&thing.epoch) == 0);
  mr_packer_free(p);
  lua_close(L);
  return CHECK_RESULT();
}
