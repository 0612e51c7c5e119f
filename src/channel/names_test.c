/*
 * Names: the same name is the same channel, in each of the two spaces another; thousands of them are found; a deleted name is free again, unless its
 * channel stores messages; threads that make, find and close the same names at once always get an open channel or a
 * closed one, never a dead one, and who looks at all of them meanwhile sees none that is gone.
 */
#include "channel/test.h"

enum { MANY = 5000 };

static const char *name_of(char buf[32], int i) {
  snprintf(buf, 32, "%s%d", i % 3 ? "n" : "more than 8 bytes ", i);
  return buf;
}

static mr_channel *named(int space, const char *name, int *made) {
  int err;
  mr_channel *c = mr_channel_named(space, name, strlen(name), 1, made, &err);
  CHECK(c && err == MR_OK);
  return c;
}

static mr_channel *look_up(int space, const char *name) {
  return mr_channel_lookup(space, name, strlen(name), mr_channel_hash(name, strlen(name)));
}

static void test_a_name_is_one_channel_in_each_space(void) {
  int made;
  mr_channel *a = named(CH_SPACE_MARE, "x", &made);
  CHECK(made);
  mr_channel *b = named(CH_SPACE_MARE, "x", &made);
  CHECK(!made && a == b && strcmp(mr_channel_name(a), "x") == 0 && mr_channel_named_so(a, "x", 1) && !mr_channel_named_so(a, "xy", 2));
  mr_channel *c = named(CH_SPACE_LUAPROC, "x", &made);
  CHECK(made && c != a);
  mr_channel_close(a, NULL);
  CHECK(look_up(CH_SPACE_MARE, "x") == NULL);
  mr_channel *d = named(CH_SPACE_MARE, "x", &made);
  CHECK(made && d != a && mr_channel_closed(a) && !mr_channel_closed(d));
  mr_channel_close(c, NULL);
  mr_channel_close(d, NULL);
  mr_release(&a->shared);
  mr_release(&b->shared);
  mr_release(&c->shared);
  mr_release(&d->shared);
}

static void test_thousands_of_names_are_found(void) {
  static mr_channel *all[MANY];
  char buf[32];
  int made;
  mr_channel_type = &test_type;
  for (int i = 0; i < MANY; i++) {
    all[i] = named(CH_SPACE_MARE, name_of(buf, i), &made);
    CHECK(made);
  }
  for (int i = 0; i < MANY; i++) {
    mr_channel *c = look_up(CH_SPACE_MARE, name_of(buf, i));
    CHECK(c == all[i]);
    mr_release(&c->shared);
  }
  for (int i = 0; i < MANY; i += 2) CHECK(mr_channel_delete(CH_SPACE_MARE, name_of(buf, i), strlen(name_of(buf, i)), NULL) == CH_DONE);
  for (int i = 0; i < MANY; i++) {
    mr_channel *c = look_up(CH_SPACE_MARE, name_of(buf, i));
    CHECK((c != NULL) == (i % 2 == 1));
    if (c) {
      mr_channel_close(c, NULL);
      mr_release(&c->shared);
    }
    CHECK(mr_channel_closed(all[i]));
    mr_release(&all[i]->shared);
  }
}

static void test_one_that_stores_messages_is_not_deleted(void) {
  actor a;
  mr_fiber *f = actor_init(&a);
  lua_Integer n;
  int made;
  mr_channel *c = named(CH_SPACE_LUAPROC, "kept", &made);
  CHECK(test_send(f, c, 1, 0) == DONE);
  CHECK(mr_channel_delete(CH_SPACE_LUAPROC, "kept", 4, NULL) == CH_BLOCKED && !mr_channel_closed(c));
  CHECK(test_receive(f, c, &n, 0) == DONE);
  CHECK(mr_channel_delete(CH_SPACE_LUAPROC, "kept", 4, NULL) == CH_DONE && mr_channel_closed(c));
  CHECK(mr_channel_delete(CH_SPACE_LUAPROC, "kept", 4, NULL) == CH_CLOSED);
  mr_release(&c->shared);
}

/* ---- threads ---- */

enum { THREADS = 4, TURNS = 3000, NAMES = 5 };

static void make_find_and_close(void *arg) {
  uint64_t seed = (uintptr_t)arg;
  char buf[32];
  int made;
  for (int i = 0; i < TURNS; i++) {
    const char *name = name_of(buf, (int)(test_random(&seed) % NAMES));
    mr_channel *c = named(CH_SPACE_MARE, name, &made);
    CHECK(mr_channel_named_so(c, name, strlen(name)));
    switch (test_random(&seed) % 4) {
      case 0: mr_channel_close(c, NULL); break;
      case 1: mr_channel_delete(CH_SPACE_MARE, name, strlen(name), NULL); break;
      default: break;
    }
    mr_release(&c->shared);
  }
}

static atomic_int over;

/* The last reference may be the looker's. */
static void look(void *arg) {
  mr_channel_info seen[NAMES];
  unsigned n;
  (void)arg;
  while (!atomic_load(&over)) {
    CHECK(mr_channel_infos(seen, NAMES, &n) == MR_OK && n <= NAMES);
    for (unsigned i = 0; i < n; i++) CHECK(seen[i].capacity == 1 && (seen[i].name[0] == 'n' || seen[i].name[0] == 'm'));
  }
}

static void test_threads_share_names(void) {
  port_thread t[THREADS], looker;
  char buf[32];
  CHECK(port_thread_fork(&looker, look, NULL, "look") == 0);
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(port_thread_fork(&t[i], make_find_and_close, (void *)(i + 1), "names") == 0);
  for (int i = 0; i < THREADS; i++) port_thread_join(&t[i]);
  atomic_store(&over, 1);
  port_thread_join(&looker);
  for (int i = 0; i < NAMES; i++) mr_channel_delete(CH_SPACE_MARE, name_of(buf, i), strlen(name_of(buf, i)), NULL);
  for (int i = 0; i < NAMES; i++) CHECK(look_up(CH_SPACE_MARE, name_of(buf, i)) == NULL);
}

static unsigned infos(mr_channel_info *out, unsigned most) {
  unsigned n;
  CHECK(mr_channel_infos(out, most, &n) == MR_OK);
  return n;
}

static void test_the_fullest_are_found(void) {
  mr_channel *all[20];
  mr_channel_info seen[5];
  char buf[32];
  int made;
  CHECK(infos(seen, 5) == 0);
  for (int i = 0; i < 20; i++) {
    int err;
    mr_wait *w = NULL;
    const char *name = name_of(buf, i);
    all[i] = mr_channel_named(CH_SPACE_MARE, name, strlen(name), 100, &made, &err);
    for (int k = 0; k < (i * 7) % 20; k++) {
      mr_mail m = { .kind = MAIL_SCALARS, .n = 0 };
      CHECK(mr_channel_put(all[i], &m, NULL, &w) == CH_DONE);
    }
  }
  CHECK(infos(seen, 5) == 5);
  for (unsigned i = 0; i < 5; i++) CHECK(seen[i].length == 19 - i && seen[i].capacity == 100 && seen[i].senders == 0 && seen[i].receivers == 0);
  CHECK(infos(seen, 0) == 0 && infos(seen, 1) == 1 && seen[0].length == 19);
  for (int i = 0; i < 20; i++) {
    mr_channel_close(all[i], NULL);
    mr_release(&all[i]->shared);
  }
}

int main(void) {
  mr_channel_type = &test_type;
  test_a_name_is_one_channel_in_each_space();
  test_thousands_of_names_are_found();
  test_one_that_stores_messages_is_not_deleted();
  test_threads_share_names();
  test_the_fullest_are_found();
  return CHECK_RESULT();
}
