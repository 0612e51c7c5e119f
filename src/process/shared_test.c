/*
 * shared: what src/share has, used by fibers of several threads, which src/share does not know. Steps of several threads on the same keys, with random delays under MR_CHAOS, leave what some order of them would have left; who waits is woken by
 * each change; entries that are put there, replaced, evicted and deleted at once are freed once, with their objects. Numbers of rounds are small, as
 * builds with sanitizers run this, too.
 * time limit: 600 s
 */
#include "process/process.h"
#include "port/test.h"
#include "share/atomic.h"
#include "share/named.h"
#include "share/once.h"
#include "share/stripe.h"

#ifdef MR_CHAOS
enum { ROUNDS = 400 };
#else
enum { ROUNDS = 20000 };
#endif
enum { THREADS = 4, KEYS = 8 };

static const mr_sharetype dict_type = { .name = "dict", .destroy = mr_dict_destroy };
static const mr_sharetype watch_type = { .name = "watch", .destroy = mr_watch_destroy };
static const mr_sharetype atomic_type = { .name = "atomic", .destroy = mr_atomic_destroy };
static const mr_sharetype once_type = { .name = "once", .destroy = mr_once_destroy };

/* ---- fibers of hosts, as in the tests of channels ---- */

typedef struct actor { mr_proc proc; mr_thread thread; port_thread self; void *shared; unsigned seed; uint64_t result; } actor;

static mr_fiber *actor_init(actor *a) {
  a->proc.kind = PROC_HOST;
  atomic_store(&a->proc.status, PROC_ALIVE);
  mr_job_init(&a->proc.job, &a->proc.main.fiber, 1, 1);
  a->proc.main.fiber.thread = &a->thread;
  return &a->proc.main.fiber;
}

static int goes_on(lua_State *L, int status, lua_KContext ctx) { return (void)L, (void)status, (void)ctx, 0; }

static void begin_wait(mr_fiber *f) {
  f->wait.fiber = f;
  f->wait.linked = 0;
  CHECK(mr_wait_open(f, NULL) == MR_OK);
}

static mr_reason park(mr_fiber *f, uint64_t deadline) {
  mr_park(NULL, f, deadline, 0, goes_on);
  return mr_wake(f);
}

static unsigned draw(actor *a) { return (a->seed = a->seed * 1664525u + 1013904223u) >> 8; }

static actor actors[THREADS];

static void together(void (*fn)(void *), void *shared) {
  memset(actors, 0, sizeof actors);
  for (unsigned i = 0; i < THREADS; i++) {
    actor_init(&actors[i]);
    actors[i].shared = shared;
    actors[i].seed = i + 1;
    CHECK(port_thread_fork(&actors[i].self, fn, &actors[i], "test") == 0);
  }
  for (unsigned i = 0; i < THREADS; i++) port_thread_join(&actors[i].self);
}

/* ---- values ---- */

static mr_key key(int64_t i) {
  mr_key k;
  mr_key_of_number(&k, KEY_INTEGER, (uint64_t)i);
  return k;
}

static mr_scalar number(lua_Integer n) { return (mr_scalar){ .u.i = n, .type = 0x10 | LUA_TNUMBER }; }
static mr_dict_value value(lua_Integer n) { return (mr_dict_value){ .kind = DICT_SCALAR, .scalar = number(n) }; }

static lua_Integer get(mr_dict *d, int64_t i) {
  mr_dict_value v;
  char room[MR_TEXT_MOST];
  mr_key k = key(i);
  if (!mr_dict_get(d, &k, &v, room, NULL, NULL)) return -1;
  CHECK(v.kind == DICT_SCALAR);
  return v.scalar.u.i;
}

/* ---- tests ---- */

static void add_all(void *arg) {
  actor *a = arg;
  mr_dict *d = a->shared;
  const mr_scalar one = number(1), zero = number(0);
  for (int i = 0; i < ROUNDS; i++) {
    mr_key k = key(draw(a) % KEYS);
    mr_dict_put how = { .expires = 0 };
    mr_scalar out;
    CHECK(mr_dict_incr(d, &k, &one, &zero, &how, &out, &a->proc.main.fiber) == DICT_DONE && out.u.i > 0);
  }
}

static void test_sums_lose_nothing(void) {
  mr_dict *d = mr_dict_new(&dict_type, 0);
  lua_Integer sum = 0;
  together(add_all, d);
  for (int i = 0; i < KEYS; i++) sum += get(d, i);
  CHECK(sum == (lua_Integer)THREADS * ROUNDS && mr_dict_count(d) == KEYS);
  mr_release((mr_shared *)d);
}

/*
 * Each thread keeps a count of its own successes at compare-and-set from what it has read, by value or by version; each value is reached by one success, so
 * the last one tells how many there were.
 */
static void count_up(void *arg) {
  actor *a = arg;
  mr_dict *d = a->shared;
  char room[MR_TEXT_MOST];
  for (int i = 0; i < ROUNDS / 4; i++) {
    mr_key k = key(draw(a) % 2);
    mr_dict_value old;
    uint64_t version;
    mr_dict_get(d, &k, &old, room, &version, NULL);
    mr_dict_value next = value(old.kind == DICT_ABSENT ? 1 : old.scalar.u.i + 1);
    mr_dict_put how = { .when = i % 2 ? PUT_SAME : PUT_VERSION, .old = &old, .version = version };
    mr_dict_result r = mr_dict_set(d, &k, &next, &how, &a->proc.main.fiber);
    CHECK(r == DICT_DONE || r == DICT_NOT);
    a->result += r == DICT_DONE;
  }
}

static void test_one_of_those_who_compare_wins(void) {
  mr_dict *d = mr_dict_new(&dict_type, 0);
  uint64_t wins = 0;
  together(count_up, d);
  for (int i = 0; i < THREADS; i++) wins += actors[i].result;
  CHECK(wins == (uint64_t)(get(d, 0) + get(d, 1)));
  mr_release((mr_shared *)d);
}

/* Entries of all kinds, with and without a time; what comes out is what was put there, whole. The value tells its key. */
static void all_at_once(void *arg) {
  actor *a = arg;
  mr_dict *d = a->shared;
  char room[MR_TEXT_MOST], text[400];
  for (int i = 0; i < ROUNDS; i++) {
    int64_t n = draw(a) % 64;
    mr_key k = key(n);
    mr_dict_value v = value(n);
    mr_dict_put how = { .when = (unsigned char)(draw(a) % 3), .expires = draw(a) % 4 ? 0 : port_now() + draw(a) % 100000 };
    mr_fiber *near = &a->proc.main.fiber;
    memset(text, (int)n, sizeof text);
    switch (draw(a) % 8) {
      case 0: case 1:
        v = (mr_dict_value){ .kind = DICT_TEXT, .text = text, .length = draw(a) % MR_TEXT_MOST };
        /* fall through */
      case 2: mr_dict_set(d, &k, &v, &how, near); break;
      case 3: {
        v = (mr_dict_value){ .kind = DICT_OBJECT, .object = (mr_shared *)mr_cell_of_text(text, 121 + draw(a) % 200) };
        mr_dict_set(d, &k, &v, &how, near);
        mr_release(v.object);
        break;
      }
      case 4: v.kind = DICT_ABSENT; mr_dict_set(d, &k, &v, &how, near); break;
      case 5: mr_dict_expire(d, &k, port_now() + 1000, near); break;
      case 6: if (draw(a) % 100 == 0) mr_dict_clear(d, near); break;
      default: {
        mr_dict_value got;
        if (!(draw(a) % 3 ? mr_dict_get(d, &k, &got, room, NULL, NULL) : mr_dict_take(d, &k, &got, room, near))) break;
        if (got.kind == DICT_SCALAR) CHECK(got.scalar.u.i == n);
        if (got.kind == DICT_TEXT) CHECK(got.length < MR_TEXT_MOST && memcmp(got.text, text, got.length) == 0);
        if (got.kind != DICT_OBJECT) break;
        const mr_cell *c = (const mr_cell *)(const void *)got.object;
        CHECK(c->length <= 320 && memcmp(c->bytes, text, c->length) == 0);
        mr_release(got.object);
      }
    }
  }
}

static void test_values_are_whole(size_t limit) {
  mr_dict *d = mr_dict_new(&dict_type, limit);
  mr_dict_info i;
  together(all_at_once, d);
  mr_dict_look(d, &i);
  CHECK(!limit || i.bytes <= limit);
  mr_dict_purge(d);
  mr_dict_clear(d, NULL);
  mr_dict_look(d, &i);
  CHECK(i.entries == 0 && i.bytes == 0);
  mr_release((mr_shared *)d);
}

static void walk(void *arg) {
  actor *a = arg;
  mr_dict *d = a->shared;
  static _Thread_local char buffer[1 << 16];
  for (int i = 0; i < ROUNDS / 20; i++) {
    if (a->seed % 2) {
      for (int k = 0; k < 20; k++) {
        mr_key other = key(1000 + draw(a) % 500);
        mr_dict_value v = value(0);
        mr_dict_put how = { .when = PUT_SET };
        if (draw(a) % 2) v.kind = DICT_ABSENT;
        mr_dict_set(d, &other, &v, &how, &a->proc.main.fiber);
      }
      a->seed |= 1;
      continue;
    }
    unsigned seen = 0;
    for (unsigned s = 0; s < mr_dict_stripes(d); s++) {
      size_t n;
      CHECK(mr_dict_keys(d, s, buffer, sizeof buffer, &n) <= sizeof buffer);
      const char *at = buffer;
      for (mr_key k; n > 0; n--) {
        at = mr_dict_unpack_key(at, &k);
        seen += k.number < 100;
      }
    }
    CHECK(seen == 100);
  }
}

static void test_keys_are_all_that_stay(void) {
  mr_dict *d = mr_dict_new(&dict_type, 0);
  for (int i = 0; i < 100; i++) {
    mr_key k = key(i);
    mr_dict_value v = value(i);
    mr_dict_put how = { .when = PUT_SET };
    CHECK(mr_dict_set(d, &k, &v, &how, NULL) == DICT_DONE);
  }
  together(walk, d);
  mr_release((mr_shared *)d);
}

/* Each waits until the number has its own remainder, and adds one: nobody else can. A change that was missed would leave them all asleep. */
static void in_turn(void *arg) {
  actor *a = arg;
  mr_dict *d = a->shared;
  mr_fiber *f = &a->proc.main.fiber;
  const mr_scalar one = number(1);
  char room[MR_TEXT_MOST];
  mr_key k = key(0);
  int mine = (int)(a - actors);
  for (int i = 0; i < ROUNDS / 20; i++) {
    for (lua_Integer n; (n = get(d, 0)) % THREADS != mine;) {
      mr_dict_value old = value(n), v;
      uint64_t until;
      mr_watch *w = mr_watch_new(&watch_type, d, &k, &old);
      while (!mr_watch_take(w, &v, room, &until)) {
        begin_wait(f);
        if (mr_watch_link(w, &f->wait)) mr_wait_abandon(f);
        else if (park(f, UINT64_MAX) != MR_WOKEN) mr_watch_unlink(w, &f->wait);
      }
      mr_release(&w->shared);
    }
    mr_dict_put how = { .expires = 0 };
    mr_scalar out;
    CHECK(mr_dict_incr(d, &k, &one, NULL, &how, &out, f) == DICT_DONE);
  }
}

static void test_who_waits_is_woken(void) {
  mr_dict *d = mr_dict_new(&dict_type, 0);
  mr_key k = key(0);
  mr_dict_value v = value(0);
  mr_dict_put how = { .when = PUT_SET };
  mr_dict_set(d, &k, &v, &how, NULL);
  together(in_turn, d);
  CHECK(get(d, 0) == THREADS * (ROUNDS / 20));
  mr_release((mr_shared *)d);
}

static void atomic_in_turn(void *arg) {
  actor *a = arg;
  mr_atomic *n = a->shared;
  mr_fiber *f = &a->proc.main.fiber;
  int mine = (int)(a - actors);
  for (int i = 0; i < ROUNDS / 20; i++) {
    for (int64_t old; (old = atomic_load(&n->value)) % THREADS != mine;) {
      begin_wait(f);
      if (mr_atomic_link(n, old, &f->wait)) mr_wait_abandon(f);
      else if (park(f, UINT64_MAX) != MR_WOKEN) mr_atomic_unlink(n, &f->wait);
    }
    atomic_fetch_add(&n->value, 1);
    mr_atomic_changed(n, f);
  }
}

static void test_who_waits_for_an_atomic_is_woken(void) {
  mr_atomic *n = mr_atomic_new(&atomic_type, 0);
  together(atomic_in_turn, n);
  CHECK(atomic_load(&n->value) == THREADS * (ROUNDS / 20));
  mr_release(&n->shared);
}

/* Some tries fail, some are left, at last one is done; nobody does it beside another, and nobody after it was done. */
static atomic_int inside, times;

static void try_once(void *arg) {
  actor *a = arg;
  mr_once *o = a->shared;
  mr_fiber *f = &a->proc.main.fiber;
  for (uint64_t since = 0;;) {
    mr_cell *failure;
    int state = mr_once_look(o, f, &since, &failure);
    CHECK(state != ONCE_INSIDE);
    if (failure) mr_release(&failure->shared);
    if (state == ONCE_DONE) return;
    if (state == ONCE_FAILED) since = 0;
    if (state == ONCE_NEW && mr_once_begin(o, f)) {
      CHECK(atomic_fetch_add(&inside, 1) == 0);
      int n = atomic_fetch_add(&times, 1);
      atomic_fetch_sub(&inside, 1);
      if (n == 20) mr_once_end(o, ONCE_DONE, mr_cell_of_text("done", 4), f);
      else if (n % 2) mr_once_end(o, ONCE_FAILED, mr_cell_of_text("no", 2), f);
      else mr_once_end(o, ONCE_NEW, NULL, f);
    }
    if (state != ONCE_RUNNING) continue;
    begin_wait(f);
    if (mr_once_link(o, since, &f->wait)) mr_wait_abandon(f);
    else if (park(f, UINT64_MAX) != MR_WOKEN) mr_once_unlink(o, &f->wait);
  }
}

static void test_once_is_done_once(void) {
  for (int i = 0; i < ROUNDS / 100; i++) {
    mr_once *o = mr_once_new(&once_type, NULL);
    atomic_store(&times, 0);
    together(try_once, o);
    CHECK(atomic_load(&times) == 21 && o->outcome->length == 4);
    mr_release(&o->shared);
  }
}

static mr_shared *make(void *arg) {
  (void)arg;
  return (mr_shared *)(void *)mr_dict_new(&dict_type, 0);
}

static void open_and_drop(void *arg) {
  actor *a = arg;
  for (int i = 0; i < ROUNDS / 20; i++) {
    char name[32];
    int made, n = snprintf(name, sizeof name, "name %u", draw(a) % 40);
    mr_shared *o = draw(a) % 4 ? mr_named_get(NAMED_DICT, name, (size_t)n, make, NULL, &made) : mr_named_drop(NAMED_DICT, name, (size_t)n, NULL);
    if (o) mr_release(o);
  }
}

static void test_names_lead_to_what_lives(void) {
  char name[32];
  together(open_and_drop, NULL);
  for (int i = 0; i < 40; i++) {
    mr_shared *o = mr_named_drop(NAMED_DICT, name, (size_t)snprintf(name, sizeof name, "name %d", i), NULL);
    if (o) mr_release(o);
    CHECK(!mr_named_find(NAMED_DICT, name, strlen(name)));
  }
}

/* Hashes of keys that differ in little, or in whole words that were exchanged, are spread over all places. */
static void test_hashes_are_spread(void) {
  enum { N = 4096, PLACES = 256 };
  static unsigned low[PLACES], high[PLACES];
  char text[33] = "the same beginning, then a number";
  for (unsigned i = 0; i < N; i++) {
    mr_key k;
    memcpy(text + 16, &i, sizeof i);
    mr_key_of_string(&k, text, 32);
    low[k.hash % PLACES]++;
    high[k.hash >> 56]++;
  }
  for (int i = 0; i < PLACES; i++) CHECK(low[i] < 4 * N / PLACES && high[i] < 4 * N / PLACES && low[i] > 0 && high[i] > 0);
}

int main(void) {
  mr_key_setup();
  test_hashes_are_spread();
  test_sums_lose_nothing();
  test_one_of_those_who_compare_wins();
  test_values_are_whole(0);
  test_values_are_whole(4000);
  test_values_are_whole(100000);
  test_keys_are_all_that_stay();
  test_who_waits_is_woken();
  test_who_waits_for_an_atomic_is_woken();
  test_once_is_done_once();
  test_names_lead_to_what_lives();
  return CHECK_RESULT();
}
