/* What the lists of this folder promise is checked: each broken promise ends the program, and says which it was. */
#include "process/test.h"

static mr_proc *a, *b, *c;
static mr_wait waits[4];

/* Three members, none of which runs; two of a's fibers wait. */
static void prepare(void) {
  mr_proc_setup();
  a = mr_proc_new(PROC_PLAIN, "a");
  b = mr_proc_new(PROC_PLAIN, "b");
  c = mr_proc_new(PROC_PLAIN, "c");
  mr_proc *of[] = { a, a, b, c };
  for (int i = 0; i < 4; i++) {
    of[i]->group = &test_group;
    waits[i].fiber = &of[i]->main.fiber;
  }
  for (int i = 0; i < 3; i++) mr_group_enter(&test_group);
  for (int i = 0; i < 3; i++) CHECK(mr_group_wait(&test_group, &waits[i], 1) == 0);
}

static void look_at_the_group(void) {
#ifdef MR_CHECKS
  port_acquire(&test_group.lock);
  mr_group_check(&test_group);
  port_unlock(&test_group.lock);
#endif
}

static void more_members_wait_than_there_are(void) {
  test_group.alive = 1;
  look_at_the_group();
}
static void a_member_s_count_is_wrong(void) {
  a->group_waits = 1;
  look_at_the_group();
}
static void the_members_count_is_wrong(void) {
  test_group.nmembers = 1;
  look_at_the_group();
}
static void one_of_another_group_waits(void) {
  b->group = NULL;
  look_at_the_group();
}
static void the_queue_is_torn(void) {
  waits[1].prev = &waits[2];
  look_at_the_group();
}

/* The checks that are built in notice, not only who asks. */
static void it_is_noticed_in_use(void) {
  test_group.nmembers = 1;
  for (int i = 0; i < 40; i++) mr_group_wait_end(&test_group, &waits[3], 1);   /* in no queue: the check alone does anything */
}

static void look_at_the_shard(mr_proc *p) {
#ifdef MR_CHECKS
  unsigned at = (unsigned)(p->job.id % MR_SHARDS);
  port_acquire(&mr_all.shard[at].lock);
  mr_shard_check(at);
  port_unlock(&mr_all.shard[at].lock);
#else
  (void)p;
#endif
}

/* As the birth of p does it. */
static void list(mr_proc *p) {
  mr_proc *head = &mr_all.shard[p->job.id % MR_SHARDS].head;
  p->live_next = head;
  p->live_prev = head->live_prev;
  head->live_prev->live_next = p;
  head->live_prev = p;
}

static void one_that_has_ended_well_is_listed(void) {
  list(a);
  atomic_store(&a->status, PROC_DONE);
  look_at_the_shard(a);
}
static void one_is_in_the_wrong_shard(void) {
  uint64_t id = a->job.id;
  list(a);
  a->job.id++;
  mr_proc other = { .job = { .id = id } };
  look_at_the_shard(&other);
}
static void the_list_is_torn(void) {
  list(a);
  a->live_prev = b;
  b->live_next = c;
  look_at_the_shard(a);
}
static void a_host_is_listed(void) {
  list(c);
  c->kind = PROC_HOST;
  look_at_the_shard(c);
}

int main(void) {
  test_setup();
  prepare();
  look_at_the_group();
  CHECK_DIES(more_members_wait_than_there_are, "g->nmembers <= g->alive");
  CHECK_DIES(a_member_s_count_is_wrong, "counted == nodes");
  CHECK_DIES(the_members_count_is_wrong, "processes == g->nmembers");
  CHECK_DIES(one_of_another_group_waits, "group == g");
  CHECK_DIES(the_queue_is_torn, "w->prev->next == w");
  CHECK_DIES(it_is_noticed_in_use, "processes == g->nmembers");
  CHECK_DIES(one_that_has_ended_well_is_listed, "!= PROC_DONE");
  CHECK_DIES(one_is_in_the_wrong_shard, "p->job.id % MR_SHARDS == at");
  CHECK_DIES(the_list_is_torn, "p->live_prev->live_next == p");
  CHECK_DIES(a_host_is_listed, "p->kind != PROC_HOST");
  for (int i = 0; i < 3; i++) mr_group_wait_end(&test_group, &waits[i], 1);
  look_at_the_group();
  CHECK(test_group.nmembers == 0 && a->group_waits == 0 && b->group_waits == 0);
  list(a);
  look_at_the_shard(a);
  return CHECK_RESULT();
}
