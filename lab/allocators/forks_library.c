/*
 * A library of the test `forks`, as numeric ones are that have threads: before a fork it ends its thread, and starts it again afterwards. Its handlers
 * allocate, and it registers them before anything else.
 */
#include "tests.h"
#include <pthread.h>
#include <semaphore.h>

static pthread_t thread;
static sem_t may_end;
static int running;

/* Blocks of many sizes: some of them an allocator must get from where it has locks. */
void use_memory(void)
{
  enum { MANY = 200 };
  void *blocks[MANY];
  for (size_t size = 16; size <= (size_t)1 << 20; size *= 4) {
    int n = size <= 4096 ? MANY : 4;
    for (int i = 0; i < n; i++) WANT((blocks[i] = memset(take(size), 1, size)));
    for (int i = 0; i < n; i++) give(blocks[i]);
  }
}

static void *allocate_to_the_end(void *unused)
{
  use_memory();
  while (sem_wait(&may_end) != 0) {}
  use_memory();
  return unused;
}

static void start(void)
{
  use_memory();
  WANT(pthread_create(&thread, NULL, allocate_to_the_end, NULL) == 0);
  running = 1;
}

static void end(void)
{
  use_memory();
  WANT(sem_post(&may_end) == 0 && pthread_join(thread, NULL) == 0);
  running = 0;
}

int library_runs(void) { return running; }

__attribute__((constructor)) static void begin(void)
{
  WANT(pthread_atfork(end, start, start) == 0);
  WANT(sem_init(&may_end, 0, 0) == 0);
  start();
}
