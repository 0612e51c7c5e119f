/*
 * request: each is worked on once, freed once, by whoever is last; abandoned ones are skipped or end by themselves; one kind does not
 * hold up the other. resolve: addresses at once, names by request.
 */
#include "io/request.h"
#include "io/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x) ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), exit(1)))
enum { MANY = 2000 };

static atomic_int worked, freed, gate;

static void count(mr_request *r) {
  (void)r;
  atomic_fetch_add(&worked, 1);
}

static void stand(mr_request *r) {
  count(r);
  while (!atomic_load(&gate)) port_sleep(100000);
}

static void gone(mr_request *r) {
  atomic_fetch_add(&freed, 1);
  free(r);
}

static mr_request *submit(void (*work)(mr_request *), int pool, int anyway) {
  mr_request *r = malloc(sizeof *r);
  CHECK(r);
  mr_request_init(r, work, gone);
  r->anyway = (unsigned char)anyway;
  mr_request_submit(r, pool);
  return r;
}

static void await(mr_request *r) {
  while (!mr_event_is_set(&r->done)) port_sleep(50000);
}

static void until(atomic_int *n, int value) {
  while (atomic_load(n) != value) port_sleep(50000);
}

static void reset(void) {
  atomic_store(&worked, 0);
  atomic_store(&freed, 0);
  atomic_store(&gate, 0);
}

static void many_are_worked_on_once(void) {
  static mr_request *r[MANY];
  reset();
  for (int i = 0; i < MANY; i++) r[i] = submit(count, MR_FILES, 0);
  for (int i = 0; i < MANY; i++) {
    await(r[i]);
    mr_request_drop(r[i]);
  }
  CHECK(atomic_load(&worked) == MANY);
  until(&freed, MANY);
}

static void abandoned_ones_are_skipped_and_freed(void) {
  enum { BUSY = 8, LATE = 100 };
  mr_request *busy[BUSY];
  reset();
  for (int i = 0; i < BUSY; i++) busy[i] = submit(stand, MR_FILES, 0);
  until(&worked, BUSY);                          /* all threads of the pool stand */
  for (int i = 0; i < LATE; i++) mr_request_drop(submit(count, MR_FILES, 0));
  for (int i = 0; i < LATE; i++) mr_request_drop(submit(count, MR_FILES, 1));
  mr_request *name = submit(count, MR_NAMES, 0);
  await(name);                                   /* the other kind goes on */
  mr_request_drop(name);
  for (int i = 0; i < BUSY; i++) mr_request_drop(busy[i]);
  CHECK(atomic_load(&worked) == BUSY + 1);
  atomic_store(&gate, 1);
  until(&freed, BUSY + 1 + 2 * LATE);
  CHECK(atomic_load(&worked) == BUSY + 1 + LATE);
}

static mr_resolve *query(const char *host, const char *service) {
  port_query q = { .host = host, .service = service };
  mr_resolve *r = mr_resolve_new(&q);
  CHECK(r);
  return r;
}

static void addresses_are_known_at_once(void) {
  static const char *const hosts[] = { "127.0.0.1", "::1", NULL };
  for (int i = 0; i < 3; i++) {
    mr_resolve *r = query(hosts[i], "80");
    CHECK(r->known && r->n > 0 && r->list[0].len > 0);
    mr_request_drop(&r->request);
  }
}

static void names_are_asked_for(void) {
  mr_resolve *good = query("localhost", "80"), *bad = query("no.such.name.invalid", "80");
  CHECK(!good->known && !bad->known);
  mr_request_submit(&good->request, MR_NAMES);
  mr_request_submit(&bad->request, MR_NAMES);
  await(&good->request);
  CHECK(good->n > 0);
  await(&bad->request);
  CHECK(bad->n == 0 && strncmp(bad->code, "EAI_", 4) == 0 && strstr(bad->text, "no.such.name.invalid"));
  mr_request_drop(&good->request);
  mr_request_drop(&bad->request);
}

int main(void) {
  many_are_worked_on_once();
  abandoned_ones_are_skipped_and_freed();
  addresses_are_known_at_once();
  names_are_asked_for();
  puts("request: ok");
  return 0;
}
