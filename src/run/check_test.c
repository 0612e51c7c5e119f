/* What the scheduler promises is checked: each broken promise ends the program, and says which it was. */
#include "port/test.h"
#include "run/crew.h"
#include "run/rt.h"
#include "run/seat.h"

/* Nothing runs in this test. */
static int no(mr_thread *t) { return t != NULL; }
const mr_body mr_run_body = { .thread_size = sizeof(mr_thread), .equip = no };

static mr_fiber a, b;
static mr_job job;
static mr_queue queue;
static mr_timer timers[3];

static void prepare(void) {
  mr_job_init(&job, &a, 1, 1);
  mr_fiber_init(&b, &job);
  mr_wait_begin(&b);                             /* it waits */
  atomic_store(&a.state, FIBER_READY);
  mr_queue_add(&queue, &a, 0);
}

static void queued_twice(void) { mr_queue_add(&queue, &a, 0); }
static void queued_while_it_waits(void) { mr_queue_add(&queue, &b, 1); }
static void ready_unclaimed(void) { mr_ready(&b, MR_WOKEN, NULL); }
static void ready_twice(void) {
  CHECK(mr_wait_claim(&b.wait));
  b.mode = WAIT_HOST;
  b.thread = calloc(1, sizeof *b.thread);
  mr_ready(&b, MR_WOKEN, NULL);
  mr_ready(&b, MR_WOKEN, NULL);
}

static void waits_twice(void) { mr_wait_begin(&b); }
static void waits_though_linked(void) {
  mr_fiber c = { .job = &job };
  c.wait.next = &c.wait;
  mr_wait_begin(&c);
}

static void waits_for_another_thread(void) {
  mr_fiber c = { .job = &job };
  mr_thread other;
  job.host = 0;
  c.thread = &other;
  mr_wait_begin(&c);
}

static void wakes_in_an_open_wait(void) { mr_wake(&b); }

static void count_is_wrong(void) {
  atomic_store(&queue.count, 3);
  for (int i = 0; i < 40; i++) {                 /* some of them look */
    static mr_fiber more[40];
    more[i].job = &job;
    atomic_store(&more[i].state, FIBER_READY);
    mr_queue_add(&queue, &more[i], 0);
  }
}

static void idle_list_is_wrong(void) {
  mr_rt.nspare = 7;
  mr_thread *t = calloc(1, sizeof *t);
  mr_spare_put(t);
}

static void timers_are_out_of_order(void) {
  int first;
  port_acquire(&mr_rt.tlock);
  for (int i = 0; i < 3; i++) mr_timer_in(&timers[i], 100 + (uint64_t)i, &first);
  timers[0].due = 1000;
  for (int i = 0; i < 64; i++) {
    mr_timer_out(&timers[2]);
    mr_timer_in(&timers[2], 2000, &first);
  }
}

static void timer_is_set_twice(void) {
  int first;
  port_acquire(&mr_rt.tlock);
  mr_timer_in(&timers[0], 1, &first);
  mr_timer_in(&timers[0], 2, &first);
}

static void idle_crew_has_ready_fibers(void) {
  static mr_fiber more;
  mr_crew *c = mr_crew_of(&job);
  mr_fiber_init(&more, &job);
  atomic_store(&more.state, FIBER_READY);
  mr_row_add(&c->ready, &more);
  port_acquire(&c->lock);
#ifdef MR_CHECKS
  mr_crew_check(c);
#endif
}

static void looks_for_work_without_a_worker(void) {
  mr_thread t = { .worker = &mr_rt.worker[0] };
  mr_find(&t, t.worker);
}

/* Others come to the rota of the job's seat, and leave. */
static void others_come(mr_rota *r) {
  for (int i = 0; i < 40; i++) {
    mr_job other = { .id = 2 };
    mr_seat_of(r, &other);
    mr_seats_leave(&other);
  }
}

static void seat_is_empty_but_in_the_ring(void) {
  mr_rota *r = mr_rota_new();
  mr_seat_of(r, &job)->job = NULL;
  others_come(r);
}

static void seat_is_in_the_ring_of_another_rota(void) {
  mr_rota *r = mr_rota_new();
  mr_seat_of(r, &job)->rota = mr_rota_new();
  others_come(r);
}

static void seat_counts_nobody(void) {
  mr_rota *r = mr_rota_new();
  atomic_store(&mr_seat_of(r, &job)->count, 2);
  others_come(r);
}

static void ring_of_seats_is_too_short(void) {
  mr_rota *r = mr_rota_new();
  static mr_job jobs[3];
  mr_seat *s = NULL;
  for (int i = 0; i < 3; i++) s = mr_seat_of(r, &jobs[i]);
  s->prev->next = s->next;
  s->next->prev = s->prev;
  others_come(r);
}

/* Where its body can't yield, its thread would sleep; but it has been woken already. */
static void test_who_was_woken_before_its_thread_sleeps_runs(void) {
  mr_thread t = { .worker = NULL };
  mr_fiber c = { .job = &job, .thread = &t };
  c.wait.fiber = &c;
  mr_wait_begin(&c);
  c.mode = WAIT_HANDOVER;
  CHECK(mr_wait_claim(&c.wait));
  mr_ready(&c, MR_WOKEN, NULL);
  mr_wait_block(&c, UINT64_MAX);
  CHECK(atomic_load(&c.state) == FIBER_RUNNING && c.mode == WAIT_YIELD && mr_wake(&c) == MR_WOKEN);
  mr_wait_begin(&c);                             /* and can wait once more */
  mr_wait_abandon(&c);
}

int main(void) {
  prepare();
  CHECK_DIES(queued_twice, "atomic_fetch_add(&f->placed, 1) == 0");
  CHECK_DIES(queued_while_it_waits, "is_ready(f)");
  CHECK_DIES(ready_unclaimed, "!(atomic_load(&f->ticket) & 1)");
  CHECK_DIES(ready_twice, "was == FIBER_PARKING || was == FIBER_PARKED");
  CHECK_DIES(waits_twice, "& 1)");
  CHECK_DIES(waits_though_linked, "!f->wait.next");
  CHECK_DIES(waits_for_another_thread, "f->thread == mr_this_thread");
  CHECK_DIES(wakes_in_an_open_wait, "!(atomic_load(&f->ticket) & 1)");
  CHECK_DIES(count_is_wrong, "n == count");
  CHECK_DIES(idle_list_is_wrong, "spare == r->nspare");
  CHECK_DIES(timers_are_out_of_order, "due <= r->timer[i]->due");
  CHECK_DIES(timer_is_set_twice, "t->at == 0");
  CHECK_DIES(idle_crew_has_ready_fibers, "c->state != CREW_IDLE");
  CHECK_DIES(looks_for_work_without_a_worker, "t == mr_this_thread");
  CHECK_DIES(seat_is_empty_but_in_the_ring, "s->job != NULL");
  CHECK_DIES(seat_is_in_the_ring_of_another_rota, "s->rota == r");
  CHECK_DIES(seat_counts_nobody, "(atomic_load(&s->count) & 1)");
  CHECK_DIES(ring_of_seats_is_too_short, "n == atomic_load(&r->seats)");
  test_who_was_woken_before_its_thread_sleeps_runs();
  CHECK(mr_queue_take(&queue) == &a && mr_queue_take(&queue) == NULL);
  return CHECK_RESULT();
}
