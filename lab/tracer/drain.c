/*
 * Writing what the traced processes recorded, and knowing who they are.
 *
 * A chunk is written when it is full, or when its process is gone; then, and only here, it becomes free. Chunks of one stream may reach the file out
 * of order: each carries its index. A process is gone when its id is, when it is a zombie, or when a new image reports under the same id (exec).
 */
#define _GNU_SOURCE
#include "launcher.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/uio.h>

#define LOOKED_AT 10 /* processes whose /proc entry is read in one round */

/* ---- files ---- */

static int write_all(int fd, struct iovec *v, int n)
{
  while (n > 0) {
    ssize_t done = writev(fd, v, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return 0;
    for (; n > 0 && (size_t)done >= v->iov_len; v++, n--) done -= (ssize_t)v->iov_len;
    if (n > 0) { v->iov_base = (char *)v->iov_base + done; v->iov_len -= (size_t)done; }
  }
  return 1;
}

static int open_file(trace *t, image *im)
{
  char path[4096];
  mtr_header h = { .version = MTR_VERSION, .header_bytes = sizeof h, .pid = im->pid, .image = im->number, .chunk_words = MTR_CHUNK_WORDS,
                   .trace_began_us = t->map->began_us + t->base_us, .image_began_us = t->map->began_us + t->base_us + im->began_us };
  memcpy(h.magic, MTR_MAGIC, 8);
  snprintf(path, sizeof path, "%s/%u-%u.mtr", t->o->folder, im->pid, im->number);
  im->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (im->bytes ? O_APPEND : O_TRUNC), 0666);
  if (im->fd >= 0 && im->bytes) return 1; /* it was closed in between */
  struct iovec v = { &h, sizeof h };
  if (im->fd < 0 || !write_all(im->fd, &v, 1)) return 0;
  im->bytes = sizeof h;
  t->bytes += sizeof h;
  return 1;
}

void end_recording(trace *t)
{
  if (atomic_exchange(&t->map->clock, TR_STOPPED) != TR_STOPPED) t->limit_us = trace_us(t);
}

static void write_failed(trace *t)
{
  t->failed = errno ? errno : EIO;
  end_recording(t);
}

void write_chunk(trace *t, size_t i, const mtr_entry *entry, const uint64_t *words)
{
  image *im = &t->images[i];
  struct iovec v[2] = { { (void *)(uintptr_t)entry, sizeof *entry }, { (void *)(uintptr_t)words, entry->words * sizeof *words } };
  size_t size = sizeof *entry + v[1].iov_len;
  if (t->failed) return;
  if ((im->fd < 0 && !open_file(t, im)) || !write_all(im->fd, v, 2)) {
    write_failed(t);
    if (im->fd >= 0 && im->bytes && ftruncate(im->fd, (off_t)im->bytes) != 0) t->failed = errno; /* only whole chunks stay */
    return;
  }
  im->words += entry->words;
  im->bytes += size;
  t->words += entry->words;
  t->bytes += size;
}

/*
 * What an attached launcher writes instead of the chunk: times since it attached, and in place of words that earlier sessions wrote a time word each, so that
 * the others keep their positions.
 */
static const uint64_t *of_this_session(trace *t, uint32_t c, const uint64_t *words, uint32_t n)
{
  static uint64_t copy[MTR_CHUNK_WORDS];
  uint32_t i = 0;
  for (; i < n && i < t->skip[c]; i++) copy[i] = mtr_word(MTR_TIME, 0);
  memcpy(copy + i, words + i, (n - i) * sizeof *copy);
  for (; i < n; i++) {
    unsigned kind = mtr_kind(copy[i]);
    if (kind == MTR_TIME) copy[i] = mtr_word(MTR_TIME, mtr_payload(copy[i]) > t->base_us ? mtr_payload(copy[i]) - t->base_us : 0);
    else if (kind == MTR_REGION) i += 2;
    else if (kind == MTR_STACK) i += (uint32_t)(copy[i] & 0xff);
  }
  return copy;
}

static uint32_t count_events(const uint64_t *words, uint32_t n)
{
  uint32_t events = 0;
  for (uint32_t i = 0; i < n; i++) {
    unsigned kind = mtr_kind(words[i]);
    if (kind == MTR_REGION) i += 2;
    else if (kind == MTR_STACK) i += (uint32_t)(words[i] & 0xff);
    else events += kind != MTR_REALLOC_BEGIN && mtr_is_event(kind);
  }
  return events;
}

static void copy_chunk(trace *t, uint32_t c, uint64_t owner)
{
  const tr_chunk *chunk = &t->map->chunk[c];
  uint32_t n = atomic_load_explicit(&chunk->count, memory_order_acquire), slot = tr_owner_process(owner);
  uint32_t i = slot < TR_PROCESSES ? t->of_slot[slot] : 0;
  if (n == 0 || n > MTR_CHUNK_WORDS || (t->skip && n <= t->skip[c])) return;
  const uint64_t *words = t->skip ? of_this_session(t, c, chunk->words, n) : chunk->words;
  uint32_t events = count_events(words, n);
  if (!i) { /* of a process that seemed to be gone */
    t->orphaned += events;
    return;
  }
  mtr_entry entry = { MTR_CHUNK_MAGIC, tr_owner_stream(owner), (uint32_t)tr_owner_index(owner), n };
  if (entry.stream > t->images[i - 1].streams) t->images[i - 1].streams = entry.stream;
  t->events += events;
  if (!t->o->ring || !keep_chunk(t, i - 1, &entry, words, events)) write_chunk(t, i - 1, &entry, words);
}

static void take_chunk(trace *t, uint32_t c, uint64_t owner)
{
  copy_chunk(t, c, owner);
  if (t->skip) t->skip[c] = 0;
  atomic_store_explicit(&t->map->chunk[c].taking, 0, memory_order_relaxed);
  atomic_store_explicit(&t->map->chunk[c].count, 0, memory_order_relaxed);
  atomic_store_explicit(&t->map->owner[c], 0, memory_order_release);
}

/* What is written or still in chunks may not go beyond the limit. */
static void mind_limit(trace *t, uint32_t used)
{
  if (t->o->ring || t->limit_reached || t->bytes + (uint64_t)used * sizeof(tr_chunk) < t->o->limit) return;
  t->limit_reached = 1;
  end_recording(t);
}

int drain(trace *t)
{
  uint32_t usable = t->usable, used = 0;
  int full = 0;
  for (uint32_t c = 0; c < usable; c++) {
    uint64_t owner = atomic_load_explicit(&t->map->owner[c], memory_order_acquire);
    if (!owner) continue;
    used++;
    if (tr_owner_state(owner) != TR_FULL) continue;
    if (!t->of_slot[tr_owner_process(owner) % TR_PROCESSES]) see_arrivals(t);
    take_chunk(t, c, owner);
    full++;
  }
  mind_limit(t, used);
  t->used = used;
  return full;
}

/* ---- processes ---- */

char *copy_bytes(const char *from, size_t n)
{
  char *to = malloc(n + 1);
  if (!to) { perror("mare lab: trace"); exit(1); }
  memcpy(to, from, n);
  to[n] = 0;
  return to;
}

static image *new_image(trace *t)
{
  if (t->count == t->room) {
    t->room = t->room ? t->room * 2 : 64;
    t->images = realloc(t->images, t->room * sizeof *t->images);
    if (!t->images) { perror("mare lab: trace"); exit(1); }
  }
  image *im = &t->images[t->count++];
  memset(im, 0, sizeof *im);
  im->fd = -1;
  return im;
}

static size_t read_proc(uint32_t pid, const char *name, char *into, size_t room)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, into, room - 1);
  if (fd >= 0) close(fd);
  into[n > 0 ? n : 0] = 0;
  return n > 0 ? (size_t)n : 0;
}

/* The memory map, for stacks: as it was last seen. */
static void copy_maps(trace *t, image *im)
{
  static char text[1 << 20];
  char path[4096];
  size_t have = 0;
  if (!t->o->stack_every || trace_us(t) < im->maps_us) return;
  im->maps_us = trace_us(t) + (im->has_maps ? 200000 : 2000);
  snprintf(path, sizeof path, "/proc/%u/maps", im->pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  for (ssize_t n; have < sizeof text && (n = read(fd, text + have, sizeof text - have)) > 0;) have += (size_t)n;
  close(fd);
  snprintf(path, sizeof path, "%s/%u-%u.maps", t->o->folder, im->pid, im->number);
  FILE *f = have ? fopen(path, "we") : NULL;
  if (!f) return;
  fwrite(text, 1, have, f);
  fclose(f);
  im->has_maps = 1;
}

static void drain_slot(trace *t, uint32_t slot)
{
  uint32_t usable = t->usable;
  for (uint32_t c = 0; c < usable; c++) {
    uint64_t owner = atomic_load_explicit(&t->map->owner[c], memory_order_acquire);
    if (owner && tr_owner_process(owner) == slot) take_chunk(t, c, owner);
  }
}

static void say_goodbye(trace *t, size_t i, const char *how)
{
  image *im = &t->images[i];
  tr_process *p = &t->map->process[im->slot];
  drain_slot(t, im->slot);
  uint64_t last = atomic_load(&p->anonymous);
  if (last > im->anonymous) im->anonymous = last;
  im->lost = atomic_load(&p->lost);
  im->stalls = atomic_load(&p->stalls);
  im->stall_us = atomic_load(&p->stall_us);
  im->ended_us = trace_us(t);
  im->ended_by = how;
  im->live = 0;
  if (im->fd >= 0 && !t->o->ring) { close(im->fd); im->fd = -1; }
  t->of_slot[im->slot] = 0;
  atomic_store(&p->lost, 0);
  atomic_store(&p->stalls, 0);
  atomic_store(&p->stall_us, 0);
  atomic_store(&p->anonymous, 0);
  atomic_store(&p->looked_at, 0);
  atomic_store(&p->state, TR_NOBODY);
}

static void welcome(trace *t, uint32_t slot)
{
  tr_process *p = &t->map->process[slot];
  uint32_t number = 0;
  for (size_t i = t->count; i-- > 0;) {
    if (t->images[i].pid != p->pid) continue;
    number = t->images[i].number + 1;
    if (t->images[i].live) say_goodbye(t, i, p->forked ? "unknown" : "exec");
    break;
  }
  image *im = new_image(t);
  im->pid = p->pid;
  im->number = number;
  im->parent = p->parent;
  im->slot = slot;
  im->forked = (int)p->forked;
  im->live = 1;
  im->began_us = p->began_us > t->base_us ? p->began_us - t->base_us : 0;
  im->executable = copy_bytes(p->executable, strnlen(p->executable, sizeof p->executable));
  uint32_t bytes = *(volatile uint32_t *)&p->command_bytes; /* the program's: read once */
  im->command_bytes = bytes <= sizeof p->command ? bytes : 0;
  im->command = copy_bytes(p->command, im->command_bytes);
  t->of_slot[slot] = (uint32_t)t->count;
  copy_maps(t, im);
  atomic_store(&p->looked_at, 1);
}

void see_arrivals(trace *t)
{
  for (uint32_t slot = 0; slot < TR_PROCESSES; slot++)
    if (!t->of_slot[slot] && atomic_load(&t->map->process[slot].state) == TR_ALIVE) welcome(t, slot);
}

static int look_at(trace *t, size_t i)
{
  static char text[8192];
  image *im = &t->images[i];
  if (!read_proc(im->pid, "status", text, sizeof text)) return kill((pid_t)im->pid, 0) == 0 || errno != ESRCH;
  const char *state = strstr(text, "\nState:"), *memory = strstr(text, "\nRssAnon:");
  if (memory) {
    uint64_t bytes = strtoull(memory + strlen("\nRssAnon:"), NULL, 10) * 1024;
    if (bytes > im->anonymous) im->anonymous = bytes;
  }
  copy_maps(t, im);
  if (state) {
    for (state += strlen("\nState:"); isspace((unsigned char)*state); state++) { }
    return *state != 'Z' && *state != 'X';
  }
  return 1;
}

void see_processes(trace *t)
{
  static size_t next;
  see_arrivals(t);
  size_t live[TR_PROCESSES], n = 0;
  for (uint32_t slot = 0; slot < TR_PROCESSES; slot++)
    if (t->of_slot[slot]) live[n++] = t->of_slot[slot] - 1;
  for (size_t k = 0; k < n && k < LOOKED_AT; k++) {
    size_t i = live[next++ % n];
    if (t->images[i].live && !look_at(t, i)) say_goodbye(t, i, "exit");
  }
}

void finish_all(trace *t)
{
  see_arrivals(t);
  drain(t);
  for (size_t i = 0; i < t->count; i++)
    if (t->images[i].live) say_goodbye(t, i, look_at(t, i) ? "unknown" : "exit");
}

void leave_images(trace *t)
{
  uint32_t usable = t->usable;
  see_arrivals(t);
  drain(t);
  for (size_t i = 0; i < t->count; i++)
    if (t->images[i].live && !look_at(t, i)) say_goodbye(t, i, "exit");
  for (uint32_t c = 0; c < usable; c++) {
    uint64_t owner = atomic_load_explicit(&t->map->owner[c], memory_order_acquire);
    if (owner) copy_chunk(t, c, owner);
  }
  for (size_t i = 0; i < t->count; i++) {
    image *im = &t->images[i];
    if (!im->live) continue;
    tr_process *p = &t->map->process[im->slot];
    im->lost = atomic_load(&p->lost);
    im->stalls = atomic_load(&p->stalls);
    im->stall_us = atomic_load(&p->stall_us);
    im->ended_us = trace_us(t);
    im->ended_by = "detached";
    im->live = 0;
    if (im->fd >= 0 && !t->o->ring) { close(im->fd); im->fd = -1; }
  }
}
