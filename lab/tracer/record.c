/*
 * The slow way to record: attaching a thread to a stream, chunks, regions taken from other streams, forks, stacks.
 *
 * Streams are handed on: a thread that ends pushes its writers on the idle stack, the next thread pops one, so there are never more streams than
 * threads at once (a handler that allocates in mid-record needs one more). A thread whose destructors allocate after ours attaches and detaches
 * for every such event. All of it is lock-free and calls nothing that allocates, so it may run in a signal handler, or be left for good at any point.
 */
#define _GNU_SOURCE
#include "record.h"
#include "attach.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>
#include <sys/syscall.h>

#define STACK_FRAMES 64u
#define LAUNCHER_DEAD_S (tr_map->asleep ? 3 : 10) /* a clock that stands still for so long: nobody drains any more */

__thread tr_self_t tr_self;

/* ---- chunks ---- */

static int try_chunk(tr_writer *w, uint64_t index)
{
  uint32_t usable = atomic_load_explicit(&tr_map->usable, memory_order_acquire);
  uint64_t mine = tr_owner(TR_WRITING, tr_slot(), w->id, index);
  for (uint32_t i = 0; i < usable; i++) { /* from 0: chunks just drained are still in the caches */
    uint64_t nobody = 0;
    if (atomic_load_explicit(&tr_map->owner[i], memory_order_relaxed) != 0) continue;
    if (!atomic_compare_exchange_strong(&tr_map->owner[i], &nobody, mine)) continue;
    w->chunk = &tr_map->chunk[i];
    w->slot = i;
    return 1;
  }
  return 0;
}

static uint64_t now_us(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static int recording(void) { return atomic_load_explicit(&tr_map->clock, memory_order_relaxed) != TR_STOPPED; }

/* Waits until the launcher has drained a chunk; 0 when recording has ended, or the launcher has. */
static int wait_for_chunk(tr_writer *w, uint64_t index)
{
  tr_process *process = &tr_map->process[tr_slot()];
  uint64_t began = now_us(), seen = atomic_load(&tr_map->clock), since = began;
  int got = 0;
  atomic_fetch_add(&process->stalls, 1);
  atomic_fetch_add(&tr_map->waiting, 1);
  while (recording() && !(got = try_chunk(w, index))) {
    struct timespec a_bit = { 0, 100000 };
    syscall(SYS_nanosleep, &a_bit, NULL);
    uint64_t clock = atomic_load(&tr_map->clock), now = now_us();
    if (clock != seen) { seen = clock; since = now; }
    if (now - since > LAUNCHER_DEAD_S * UINT64_C(1000000)) atomic_store(&tr_map->clock, TR_STOPPED);
  }
  atomic_fetch_sub(&tr_map->waiting, 1);
  atomic_fetch_add(&process->stall_us, now_us() - began);
  return got;
}

static void set_end(tr_writer *w)
{
  w->end = w->chunk->words + MTR_CHUNK_WORDS - TR_GROUP_WORDS - (tr_map->stack_every ? STACK_FRAMES + 1 : 0);
  w->limit = tr_map->stack_every ? w->cur : w->end; /* with stacks every event goes the slow way */
}

/* The first event after another launcher attached: who writes, and whether with stacks, is said anew. */
static void begin_session(tr_writer *w, uint32_t session)
{
  w->session = session;
  w->thread = w->countdown = 0;
  if (w->chunk) set_end(w);
}

static int next_chunk(tr_writer *w)
{
  uint64_t index = 0;
  if (w->chunk) {
    index = w->base / MTR_CHUNK_WORDS + 1;
    atomic_store_explicit(&tr_map->owner[w->slot], tr_owner(TR_FULL, tr_slot(), w->id, index - 1), memory_order_release);
    w->chunk = NULL;
    w->limit = w->end = w->cur = NULL;
    w->base = index * MTR_CHUNK_WORDS;
  } else if (w->base) {
    index = w->base / MTR_CHUNK_WORDS; /* recording had ended in between */
  }
  if (!try_chunk(w, index) && !wait_for_chunk(w, index)) return 0;
  w->base = index * MTR_CHUNK_WORDS;
  w->cur = w->chunk->words;
  set_end(w);
  return 1;
}

/* ---- streams and threads ---- */

static tr_writer *idle_writer(void)
{
  tr_streams *all = tr_streams_;
  uint64_t head = atomic_load(&all->idle);
  while ((uint32_t)head != 0) {
    uint32_t next = all->writer[(uint32_t)head].next;
    if (atomic_compare_exchange_weak(&all->idle, &head, ((head >> 32) + 1) << 32 | next)) return &all->writer[(uint32_t)head];
  }
  return NULL;
}

static void make_idle(tr_writer *w)
{
  tr_streams *all = tr_streams_;
  uint64_t head = atomic_load(&all->idle);
  do {
    w->next = (uint32_t)head;
  } while (!atomic_compare_exchange_weak(&all->idle, &head, ((head >> 32) + 1) << 32 | w->id));
}

static tr_writer *some_writer(void)
{
  tr_streams *all = tr_streams_;
  tr_writer *w = idle_writer();
  if (w) return w;
  if (atomic_load(&all->used) >= MTR_MAX_STREAM) return NULL;
  uint32_t id = atomic_fetch_add(&all->used, 1) + 1;
  if (id > MTR_MAX_STREAM) return NULL;
  w = &all->writer[id];
  w->id = id;
  w->clock = UINT64_MAX - 1; /* no time yet */
  return w;
}

void tr_leave(void *unused)
{
  (void)unused;
  tr_self_t *self = &tr_self;
  self->dying = 1;
  if (self->busy) return; /* cancelled in mid-record: its streams are lost to others, not their content */
  tr_writer *w = self->writer, *nested = self->nested;
  self->writer = self->nested = NULL;
  tr_fence();
  if (w) make_idle(w);
  if (nested) make_idle(nested);
}

static tr_writer *attach_thread(tr_writer **place)
{
  tr_self_t *self = &tr_self;
  if (!self->thread) self->thread = (uint32_t)syscall(SYS_gettid);
  tr_writer *w = some_writer();
  if (!w) return NULL;
  *place = w;
  if (!self->dying) pthread_setspecific(tr_key, self); /* an early key: glibc stores it without allocating */
  return w;
}

/* ---- words ---- */

/* Takes the region of this event from whoever owns it; FORMAT.md says why the two positions. */
static uint64_t *take_region(tr_writer *w, uint64_t address, uint64_t *at)
{
  unsigned h = mtr_region(address);
  _Atomic uint64_t *entry = &tr_regions->region[h];
  uint64_t owner = atomic_load(entry), sequence, p1, p2;
  do {
    if (owner >> 44 == w->id) return at;
    atomic_store_explicit(&w->chunk->taking, 1, memory_order_relaxed); /* who sees the region as ours sees this, too */
    sequence = ((owner & MTR_ADDRESS_MASK) + 1) & MTR_ADDRESS_MASK;
    p1 = owner >> 44 ? atomic_load(&tr_streams_->writer[owner >> 44].position) : 0;
  } while (!atomic_compare_exchange_weak(entry, &owner, (uint64_t)w->id << 44 | sequence));
  p2 = owner >> 44 ? atomic_load(&tr_streams_->writer[owner >> 44].position) : 0;
  uint64_t between = p2 - p1 < 1023 ? p2 - p1 : 1023;
  *at++ = mtr_word(MTR_REGION, sequence << MTR_REGION_BITS | h);
  *at++ = (owner >> 44) << 50 | between << 40 | (p1 & MTR_POSITION);
  *at++ = p2;
  return at;
}

typedef struct { uint64_t *at, *end; } frames;

/* This library, by the linker's names for its two ends: its own frames are of no interest. */
extern char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

static _Unwind_Reason_Code one_frame(struct _Unwind_Context *context, void *data)
{
  frames *f = data;
  uintptr_t at = _Unwind_GetIP(context);
  if (at >= (uintptr_t)__ehdr_start && at < (uintptr_t)_end) return _URC_NO_REASON;
  if (f->at == f->end || at == 0) return _URC_END_OF_STACK;
  *f->at++ = at;
  return _URC_NO_REASON;
}

/* Each Nth on average, at random from 1 to 2N - 1: a program that allocates in a cycle would always be met at the same place of it. */
static uint32_t until_next(tr_writer *w)
{
  uint32_t x = w->draw ? w->draw : w->id * UINT32_C(2654435761) | 1;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  w->draw = x;
  return 1 + (uint32_t)((uint64_t)x * (2 * (uint64_t)tr_map->stack_every - 1) >> 32);
}

static uint64_t *sample_stack(tr_writer *w, unsigned kind, uint64_t size, uint64_t *at)
{
  if (kind == MTR_FREE || kind == MTR_REALLOC_BEGIN) return at;
  if (size < MTR_STACK_ALWAYS) {
    if (w->countdown > 1) { w->countdown--; return at; }
    w->countdown = until_next(w);
  }
  frames f = { at + 1, at + 1 + STACK_FRAMES };
  _Unwind_Backtrace(one_frame, &f);
  *at = mtr_word(MTR_STACK, (uint64_t)(f.at - at - 1));
  return f.at;
}

static void write_group(tr_writer *w, unsigned kind, uint64_t address, unsigned label, uint64_t size, unsigned alignment, uint64_t now)
{
  uint64_t *at = w->cur;
  if (w->thread != tr_self.thread) *at++ = mtr_word(MTR_THREAD, w->thread = tr_self.thread);
  if (w->clock != now) *at++ = mtr_word(MTR_TIME, w->clock = now);
  if (size >= MTR_SIZE_ESCAPE) *at++ = mtr_word(MTR_SIZE, size < MTR_PAYLOAD ? size : MTR_PAYLOAD);
  if (address) at = take_region(w, address, at);
  if (alignment) *at++ = mtr_word(MTR_ALIGNMENT, alignment);
  if (tr_map->stack_every) at = sample_stack(w, kind, size, at);
  *at++ = mtr_event(kind, address, label, size < MTR_SIZE_ESCAPE ? size : MTR_SIZE_ESCAPE);
  tr_publish(w, at);
  atomic_store_explicit(&w->chunk->taking, 0, memory_order_release);
  if (tr_map->stack_every) w->limit = w->cur;
}

static void lose(void) { atomic_fetch_add(&tr_map->process[tr_slot()].lost, 1); }

static void record_at(tr_writer **place, unsigned kind, uint64_t address, unsigned label, uint64_t size, unsigned alignment)
{
  uint64_t now = atomic_load(&tr_map->clock);
  tr_writer *w = *place;
  if (now == TR_STOPPED) return;
  if (w && !w->id) { /* the parent's, and another thread of this forked child was first */
    w = NULL;
    tr_self.thread = 0;
  }
  if (!w && !(w = attach_thread(place))) { lose(); return; }
  uint32_t session = atomic_load(&tr_map->session);
  if (w->session != session) begin_session(w, session);
  if (w->cur >= w->end && !next_chunk(w)) return;
  write_group(w, kind, address, label, size, alignment, now);
  if (tr_self.dying) {
    *place = NULL;
    tr_fence();
    make_idle(w);
  }
}

void tr_slow(unsigned kind, uint64_t address, unsigned label, uint64_t size, unsigned alignment)
{
  tr_self_t *self = &tr_self;
  if (tr_idle()) return;
  int saved = errno;
  unsigned char *busy = !self->busy ? &self->busy : !self->nested_busy ? &self->nested_busy : NULL;
  if (busy) {
    *busy = 1;
    tr_fence();
    if (tr_here()) record_at(busy == &self->busy ? &self->writer : &self->nested, kind, address, label, size, alignment);
    tr_fence();
    *busy = 0;
  } else if (tr_here()) {
    lose();
  }
  errno = saved;
}
