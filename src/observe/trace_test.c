/*
 * Traces: what many threads record is whole while others cut it; it stays within its size and keeps the newest; a file with other bytes is refused, or
 * read without harm; one that can't be written is an error.
 */
#include "observe/cut.h"
#include "observe/tracer.h"
#include "port/fs.h"
#include "port/test.h"

#include <errno.h>

enum { THREADS = 4, FIBERS = 50 };
static char folder[64], file[96], rings[112], cut[96];
static atomic_int stop;
static atomic_ullong hops;

#ifdef PORT_TSAN
enum { ROUNDS = 3 };
#else
enum { ROUNDS = 8 };
#endif

/* Fibers of its own, each wakes the next; now and then a read, a birth, an end, a call. */
static void play(void *arg) {
  uint64_t base = (uint64_t)(uintptr_t)arg * 1000 + 1;
  static const char *const ops[] = { "receive", "send", "read", "sleep" };
  unsigned number = 0;
  mr_trace_worker((unsigned)(uintptr_t)arg);
  for (unsigned i = 0; !atomic_load(&stop); i++) {
    uint64_t f = (base + i % FIBERS) << 16, next = (base + (i + 1) % FIBERS) << 16;
    if (i % FIBERS == 0) mr_trace_named(f, "the first of them");
    if (i % 100 == 0) number = mr_trace_numbered("channel 'one'") & 0xffff;
    if (!mr_trace_run_passed(f)) mr_trace_run(i % 9 ? f : f + 1);
    if (i % 7 == 0) {
      mr_trace_begin(TRACE_READ);
      mr_trace_finish(i % 14 ? (int64_t)i : -ECONNRESET);
    }
    if (i % 31 == 0) mr_trace_call(TRACE_CALL, i, "echo");
    if (i % 31 == 1) mr_trace_reply(TRACE_CALL, i - 1);
    if (i % 100 == 99) mr_trace_born(f + 1);
    if (i % 100 == 98) mr_trace_ended(f + 1, 1, "it said \"no\"\n\xff");
    mr_trace_woken(next, 0, i % 5 != 0);
    mr_trace_pause_in(ops[i % 4], i % 3 ? number : 0);
    if (i % 50 == 0) mr_trace_idle();
    if (i % 1000 == 999) {
      mr_trace_leave();
      port_yield();
    }
    atomic_fetch_add(&hops, 1);
  }
  mr_trace_leave();
}

/* The lines of a cut: in the order of time, as many ends as beginnings on each track, and of each arrow. */
static long look(const char *path, uint64_t most) {
  static long depth[3][256];
  char line[8192], phase;
  unsigned pid, tid;
  double ts, last = 0;
  long events = 0, flows = 0;
  uint64_t bytes = 0;
  memset(depth, 0, sizeof depth);
  FILE *f = fopen(path, "r");
  CHECK(f != NULL);
  if (!f) return 0;
  while (fgets(line, sizeof line, f)) {
    bytes += strlen(line);
    if (sscanf(line, "{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%lf", &phase, &pid, &tid, &ts) != 4) continue;
    events++;
    CHECK(pid < 3 && tid < 256 && ts >= last);
    last = ts;
    if (pid > 2 || tid > 255) break;
    depth[pid][tid] += phase == 'B' ? 1 : phase == 'E' ? -1 : 0;
    CHECK(depth[pid][tid] >= 0);
    flows += phase == 's' ? 1 : phase == 'f' ? -1 : 0;
    CHECK(flows >= 0);
  }
  for (int i = 0; i < 256; i++) CHECK(depth[1][i] == 0 && depth[2][i] == 0);
  CHECK(flows == 0 && strcmp(line, "]}\n") == 0 && bytes <= most);
  fclose(f);
  return events;
}

static void cuts_while_threads_write(void) {
  port_thread t[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(port_thread_fork(&t[i], play, (void *)(uintptr_t)i, "player") == 0);
  for (int i = 0; i < ROUNDS; i++) {
    unsigned long long before = atomic_load(&hops);
    while (atomic_load(&hops) < before + 20000) port_sleep(1000000);
    CHECK(mr_trace_cut(cut) == 0);
    CHECK(look(cut, MR_TRACE_LEAST) > 1000);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < THREADS; i++) port_thread_join(&t[i]);
}

static void ends_with_the_newest(void) {
  mr_trace_report r;
  mr_trace_worker(200);                         /* on this thread, last of all */
  CHECK(mr_trace_convert(rings, cut, &r) == 0);
  CHECK(r.missing > 0 && r.events > 1000 && r.bytes <= MR_TRACE_LEAST && r.dropped == 0);
}

static size_t slurp(const char *path, char **data) {
  FILE *f = fopen(path, "rb");
  CHECK(f != NULL);
  fseek(f, 0, SEEK_END);
  size_t n = (size_t)ftell(f);
  rewind(f);
  *data = malloc(n);
  CHECK(fread(*data, 1, n, f) == n);
  fclose(f);
  return n;
}

static void spill(const char *path, const char *data, size_t n) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(data, 1, n, f) == n);
  fclose(f);
}

/* Any bytes: an error or some JSON, but no fault. */
static void survives_other_bytes(void) {
  char *good, other[112];
  size_t n = slurp(rings, &good);
  char *bad = malloc(n);
  uint64_t seed = 1;
  snprintf(other, sizeof other, "%s/other", folder);
  for (int round = 0; round < 12 * ROUNDS; round++) {
    memcpy(bad, good, n);
    for (int i = 0; i < (round % 4 ? 2000 : 20); i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      size_t at = (seed >> 20) % (round % 3 ? n : 4096);
      if (round % 3 && at < 64) continue;       /* the head is tried by every third */
      bad[at] = (char)(seed >> 56);
    }
    spill(other, bad, round % 5 ? n : n / 2);
    int err = mr_trace_convert(other, cut, NULL);
    CHECK(err == 0 || err == EBADMSG || err == ENOMEM);
  }
  spill(other, "no", 2);
  CHECK(mr_trace_convert(other, cut, NULL) == EBADMSG);
  CHECK(mr_trace_convert(folder, cut, NULL) == EBADMSG);
  free(good);
  free(bad);
}

static void is_refused(void) {
  const char *what;
  char path[160];
  snprintf(path, sizeof path, "%s/no/such/folder", folder);
  CHECK(mr_trace_start(path, MR_TRACE_LEAST, "test", &what) == ENOENT && strcmp(what, path) == 0);
  CHECK(mr_trace_start(folder, MR_TRACE_LEAST, "test", &what) == EISDIR);
  CHECK(mr_trace_start(file, 5, "test", &what) == EINVAL);
  CHECK(mr_trace_cut(cut) == ENOENT && mr_trace_file() == NULL && !mr_trace_on());
  mr_trace_end();                               /* nothing */
}

int main(void) {
  const char *what;
  port_fs_info i;
  snprintf(folder, sizeof folder, "%s/mare-trace-XXXXXX", strlen(port_fs_temp_folder()) < 40 ? port_fs_temp_folder() : "/tmp");
  CHECK(mkdtemp(folder) != NULL);
  snprintf(file, sizeof file, "%s/trace", folder);
  snprintf(rings, sizeof rings, "%s.rings", file);
  snprintf(cut, sizeof cut, "%s/cut", folder);
  is_refused();
  CHECK(mr_trace_start(file, MR_TRACE_LEAST, "a \"test\"", &what) == 0);
  CHECK(mr_trace_start(file, MR_TRACE_LEAST, "test", &what) == EBUSY);
  CHECK(mr_trace_on() && strcmp(mr_trace_file(), rings) == 0);
  mr_trace_pause_in(NULL, 0);                   /* a wait that says nothing of itself is one */
  CHECK(mr_trace_self.how >= TRACE_WAITS);
  mr_trace_idle();
  cuts_while_threads_write();
  ends_with_the_newest();
  survives_other_bytes();
  mr_trace_end();
  CHECK(look(file, MR_TRACE_LEAST) > 1000);
  CHECK(port_fs_stat(rings, 1, &i) == ENOENT);
  mr_trace_end();
  CHECK(port_fs_remove_all(folder) == 0);
  return CHECK_RESULT();
}
