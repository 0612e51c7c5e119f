/*
 * pack: reads the sender's values into a packet.
 *
 * Objects are numbered as they are met and read in that order, a worklist that is the list itself: nesting costs no C
 * stack and no Lua stack. An object's number is known before it is read, so cycles need no care.
 *
 * Invariant: from the first object met until the last is read, nothing may let the sender's collector take a step, as
 * a finaliser could then change what is being read, or pack with this very packer. Whatever has to be allocated in
 * the state (a cache, an id for a class) ends the attempt with PACK_AGAIN; it is made, and packing starts anew.
 */
#include <string.h>
#include "transfer/packet.h"
#include "transfer/code.h"
#include "transfer/cargo.h"

PORT_NOINLINE uint64_t mr_pack_new_string(mr_packer *p, const char *text, size_t length, mr_text *known) {
  mr_stream *s = &p->s[STR];
  uint64_t payload = PAIR(p->nstrings, s->length / 8);
  if (length < MIN_FAR) {
    uint64_t *record = mr_take(p, s, 8 + PAD8(length));
    record[PAD8(length) / 8] = 0;              /* no stray bytes behind a short last word */
    record[0] = length << 1;
    memcpy(record + 1, text, length);
  } else {
    *(size_t *)mr_take(p, &p->far, sizeof(size_t)) = s->length;
    uint64_t *record = mr_take(p, s, 16);
    record[0] = length << 1 | 1;
    record[1] = (uint64_t)text;
    p->farsize += PAD8(length);
  }
  p->nstrings++;
  known->key = (uint64_t)text;
  known->payload = payload;
  known->era = p->era;
  known->section = p->section;
  return payload;
}

int mr_fail(mr_packer *p, uint32_t number, const char *problem) {
  p->failed = number;
  p->problem = problem;
  return PACK_FAILED;
}

/* Nearly everything misses the filter, once it is there. */
static inline int is_module(mr_packer *p, const mr_value *v) {
  uint32_t bit = mr_filter_bit(v->bits);
  return (PORT_UNLIKELY(!p->filtered) || p->modules[bit / 64] >> bit % 64 & 1) && mr_is_module(p, v);
}

static inline int kind_of(mr_packer *p, const mr_value *v) {
  if (PORT_UNLIKELY(p->judge && p->nobjects == 0)) return KIND_TABLE;          /* its contents are asked for, whatever it is besides */
  if (v->bits == p->globals && v->tt == RAW_TABLE) return KIND_GLOBALS;
  if (is_module(p, v) && !(v->tt == RAW_USERDATA && mr_is_constant(p, v))) return KIND_MODULE;
  switch (v->tt) {
    case RAW_TABLE: return KIND_TABLE;
    case RAW_FUNCTION: return KIND_FUNCTION;
    case RAW_LIGHTC: case RAW_CCLOSURE: return KIND_CFUNCTION;
    default: return KIND_SHARED;               /* or not to be sent at all: seen when it is its turn */
  }
}

static PORT_NOINLINE void objects_grow(mr_packer *p) {
  mr_stream s = { (char *)p->objects, p->nobjects * sizeof(mr_object), p->maxobjects * sizeof(mr_object) };
  mr_stream_grow(p, &s, sizeof(mr_object));
  p->objects = (mr_object *)(void *)s.at;
  p->maxobjects = (uint32_t)(s.size / sizeof(mr_object));
}

int mr_pack_object(mr_packer *p, const mr_value *v, uint32_t *number) {
  if (!p->raw && !p->anchor) { p->need = NEED_ANCHOR; return PACK_AGAIN; }
  if (!p->looked) mr_find_modules(p);
  *number = p->nobjects;
  if (mr_map_put(p, v->bits, number)) {
    if (PORT_UNLIKELY(p->section)) mr_class_cross(p, *number);
    return 0;
  }
  if (PORT_UNLIKELY(p->nobjects == p->maxobjects)) objects_grow(p);
  mr_object *o = &p->objects[p->nobjects];
  o->bits = v->bits;
  o->tt = v->tt;
  o->parent = p->current;
  o->ismeta = 0;
  o->kind = (uint8_t)kind_of(p, v);
  p->others += o->kind != KIND_TABLE;
  p->nobjects++;
  if (!p->raw) {
    lua_pushvalue(p->L, v->at);
    lua_rawseti(p->L, p->anchor, p->nobjects);
  }
  return 0;
}

PORT_NOINLINE int mr_emit_other(mr_packer *p, uint64_t bits, uint8_t tt, uint8_t *tag, uint64_t *word) {
  raw_value r = { bits, tt };
  mr_value v;
  mr_read_raw(&r, &v);
  return mr_emit(p, &v, tag, word);
}

void mr_push_object(mr_packer *p, uint32_t number) {
  if (p->raw) raw_push(p->L, p->objects[number].tt, p->objects[number].bits);
  else lua_rawgeti(p->L, p->anchor, (lua_Integer)number + 1);
}

void mr_push(mr_packer *p, const mr_value *v) {
  if (p->raw) raw_push(p->L, v->tt, v->bits);
  else lua_pushvalue(p->L, v->at);
}

static void read_api(lua_State *L, int at, mr_value *v) {
  v->at = at;
  switch (lua_type(L, at)) {
    case LUA_TNIL: v->tt = RAW_NIL; v->bits = 0; break;
    case LUA_TBOOLEAN: v->tt = lua_toboolean(L, at) ? RAW_TRUE : RAW_FALSE; v->bits = 0; break;
    case LUA_TNUMBER:
      if (lua_isinteger(L, at)) {
        v->tt = RAW_INT;
        v->bits = (uint64_t)lua_tointegerx(L, at, NULL);
      } else {
        lua_Number n = lua_tonumberx(L, at, NULL);
        v->tt = RAW_FLT;
        memcpy(&v->bits, &n, sizeof n);
      }
      break;
    case LUA_TSTRING: v->tt = RAW_SHORT; v->bits = (uint64_t)lua_tolstring(L, at, &v->length); break;
    case LUA_TLIGHTUSERDATA: v->tt = RAW_LIGHT; v->bits = (uint64_t)lua_touserdata(L, at); break;
    case LUA_TTABLE: v->tt = RAW_TABLE; v->bits = (uint64_t)lua_topointer(L, at); break;
    case LUA_TFUNCTION:
      v->tt = lua_iscfunction(L, at) ? RAW_LIGHTC : RAW_FUNCTION;
      v->bits = (uint64_t)lua_topointer(L, at);
      break;
    case LUA_TUSERDATA: v->tt = RAW_USERDATA; v->bits = (uint64_t)lua_topointer(L, at); break;
    default: v->tt = RAW_THREAD; v->bits = (uint64_t)lua_topointer(L, at); break;
  }
}

void mr_read(mr_packer *p, int at, mr_value *v) {
  if (!p->raw) { read_api(p->L, at, v); return; }
  lua_pushvalue(p->L, at);
  raw_pop(p->L);
  mr_read_raw(raw_top(p->L), v);
}

static int pack_values(mr_packer *p, int first, int n) {
  p->nvalues = (uint32_t)n;
  mr_block b = mr_take_block(p, (size_t)n);
  if (!p->raw) {
    for (int i = 0; i < n; i++) {
      mr_value v;
      read_api(p->L, first + i, &v);
      int r = mr_emit(p, &v, &b.tags[i], &b.words[i]);
      if (r) return r;
    }
    return 0;
  }
  const raw_value *values = raw_top(p->L) - (lua_gettop(p->L) + 1 - first);
  for (int i = 0; i < n; i++) {
    int r = mr_emit_raw(p, values[i].bits, values[i].tt, &b.tags[i], &b.words[i]);
    if (r) return r;
  }
  return 0;
}

static int pack_one(mr_packer *p, uint32_t i) {
  p->current = i;
  if (PORT_LIKELY(p->objects[i].kind == KIND_TABLE)) return mr_pack_table(p, i);
  switch (p->objects[i].kind) {
    case KIND_FUNCTION: return mr_pack_function(p, i);
    case KIND_CFUNCTION: return mr_pack_cfunction(p, i);
    case KIND_MODULE: return mr_pack_module(p, i);
    case KIND_GLOBALS: {
      mr_def *d = mr_take(p, &p->s[DEF], sizeof *d);
      memset(d, 0, sizeof *d);
      d->kind = KIND_GLOBALS;
      return 0;
    }
    default: return mr_pack_shared(p, i);
  }
}

/* First all that can be reached without reading a class, then class by class. */
static int pack_all(mr_packer *p, int first, int n) {
  int r = pack_values(p, first, n);
  uint32_t i = 0, klass = 0;
  for (;;) {
    for (; !r && i < p->nobjects; i++) r = pack_one(p, i);
    if (r || klass == p->nclasses) break;
    r = mr_pack_section(p, klass++);
  }
  if (!r && PORT_UNLIKELY(p->nameless)) { p->need = NEED_IDS; return PACK_AGAIN; }
  if (!r && PORT_UNLIKELY(p->nstrangers)) { p->need = NEED_CARGO; return PACK_AGAIN; }
  return r;
}

/* Those that were met get ready; the others, for which there was no room, get room. May run Lua, and pack. */
static void prepare_cargo(lua_State *L, int strangers, uint32_t waiting, uint32_t all, uint64_t serial) {
  for (uint32_t i = 1; i <= waiting; i++) {
    lua_rawgeti(L, strangers, i);
    mr_cargo_prepare(L, lua_gettop(L), serial);
    lua_pop(L, 1);
  }
  lua_createtable(L, (int)(all - waiting), 0);
  lua_replace(L, strangers);
}

/*
 * Makes what the last attempt lacked; the collector may step here. Classes without id take two more attempts: one into a
 * table large enough for all of them.
 */
static void prepare(lua_State *L, const mr_packer *p, int anchor, int newborn, uint64_t serial) {
  switch (p->need) {
    case NEED_ANCHOR: lua_createtable(L, 16, 0); lua_replace(L, anchor); break;
    case NEED_CODE: mr_code_prepare(L); break;
    case NEED_CARGO: prepare_cargo(L, newborn + 1, p->nwaiting, p->nstrangers, serial); break;
    default:
      mr_class_newborn(L, newborn, p->nnewborn);
      lua_createtable(L, (int)(p->nameless - p->nnewborn), 0);
      lua_replace(L, newborn);
  }
}

static PORT_NOINLINE void start_again(mr_packer *p, int top) {
  static atomic_uint_least64_t serials;
  lua_State *L = p->L;
  lua_settop(L, top + 3);                      /* places for the anchor, the newborn and the strangers */
  uint32_t room = p->need == NEED_IDS ? p->nameless - p->nnewborn : p->maxnewborn;
  uint32_t more = p->need == NEED_CARGO ? p->nstrangers - p->nwaiting : p->maxstrangers;
  uint64_t serial = p->need == NEED_CARGO && !p->serial ? atomic_fetch_add(&serials, 1) + 1 : p->serial;
  uint8_t stays = p->stays;
  const char *still = p->still;
  int (*judge)(mr_packer *) = p->judge;      /* what is prepared may run code, which may pack */
  prepare(L, p, top + 1, top + 2, serial);
  p->L = L;
  p->raw = mr_layout;
  mr_packer_reset(p);
  if (lua_istable(L, top + 1)) p->anchor = top + 1;
  if (lua_istable(L, top + 2)) p->newborn = top + 2;
  if (lua_istable(L, top + 3)) p->strangers = top + 3;
  p->maxnewborn = room;
  p->maxstrangers = more;
  p->serial = serial;
  p->stays = stays;
  p->still = still;
  p->judge = judge;
}

/* What others may read as well, or nobody at all. */
static int may_move(const char *root) { return strcmp(root, "reason") != 0 && strncmp(root, "package", 7) != 0; }

#ifdef MR_CHECKS
/* What the state has allocated, -1 in a finaliser: raw reading must leave it as it is. */
static long long allocated(lua_State *L) {
  int k = lua_gc(L, LUA_GCCOUNT);
  return k < 0 ? -1 : (long long)k * 1024 + lua_gc(L, LUA_GCCOUNTB);
}

static int attempt(mr_packer *p, int first, int n) {
  long long before = allocated(p->L);
  int r = pack_all(p, first, n);
  mr_assert(r != 0 || !p->raw || allocated(p->L) == before);
  return r;
}
#else
#define attempt pack_all
#endif

static int judged(mr_packer *p, int first, int n) {
  int r = attempt(p, first, n);
  return r || PORT_LIKELY(!p->judge) ? r : p->judge(p);
}

static int pack_as(mr_packer *p, lua_State *L, int first, int n, const char *root, const char *still, int (*judge)(mr_packer *p)) {
  int top = lua_gettop(L), r, again = 0;
  mr_assert_unlocked();
  p->L = L;
  p->still = still;
  p->judge = judge;
  p->raw = mr_layout;
  first = lua_absindex(L, first);
  if (PORT_UNLIKELY(!lua_checkstack(L, LUA_MINSTACK))) { lua_settop(L, top); mr_raise_memory(L); }
  mr_packer_reset(p);
  p->maxnewborn = p->maxstrangers = 0;
  p->serial = 0;
  p->stays = still || !may_move(root);
  for (; (r = judged(p, first, n)) == PACK_AGAIN; again = 1) start_again(p, top);
  if (PORT_UNLIKELY(r)) {
    mr_explain(p, first, n, root);             /* leaves the text on top */
    lua_insert(L, top + 1);
    lua_settop(L, top + 1);
    mr_packer_reset(p);
    return 1;
  }
  if (PORT_UNLIKELY(!p->raw || again)) lua_settop(L, top);
  mr_packer_check(p);
  return 0;
}

int mr_pack(mr_packer *p, lua_State *L, int first, int n, const char *root) { return pack_as(p, L, first, n, root, NULL, NULL); }

int mr_pack_still(mr_packer *p, lua_State *L, int first, int n, const char *root, const char *why) {
  return pack_as(p, L, first, n, root, why, NULL);
}

int mr_pack_frozen(mr_packer *p, lua_State *L, int idx, int (*judge)(mr_packer *p)) {
  return pack_as(p, L, idx, 1, "value", NULL, judge);
}
