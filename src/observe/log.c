/*
 * log: the queue and the thread that writes; see log.h.
 *
 * Two buffers: lines are put into one (`front`), while the thread writes what the other has; then they change places. `idle` says that the thread sleeps,
 * or is about to, with nothing to do: who gives it something clears that and wakes it. Only the thread touches `fd`, once it runs.
 * Bytes are counted: what was put, and what the thread is done with.
 */
#include "observe/log.h"
#include "port/errors.h"
#include "port/fs.h"
#include "port/system.h"
#include "port/virtual.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE = 1 << 20, QUEUE_LEAST = 4096, PIECE = 65536, STANDARD_ERROR = 2, NO_FILE = -1 };
#define PATIENCE 1000000000u                   /* ns in which something must be written at the end */
#define PAUSE 1000000u                         /* ns until a full file descriptor that does not wait is tried again */

atomic_int mr_log_least;

static struct {
  port_lock lock;
  port_event wake, progress;
  char *buffer[2];                             /* (lock) the front one; the thread's own is the other */
  size_t size[2], used, most, before;          /* (lock) `used`: of the front; `before`: of these bytes, what belongs to the file before `next` */
  int front, idle, runs, next, again;          /* (lock) next: a file to go on with, or NO_FILE; again: the file is to be opened anew */
  char *path;                                  /* (lock) of the file; NULL: it is standard error */
  uint64_t lines, lost, told;                  /* (lock) */
  int fd;                                      /* (thread) */
  int torn;                                    /* (thread) the last line that was written has no end */
  _Atomic uint64_t put, done, failed;
  atomic_int used_at_all, format, forked, begun, from_environment;
} all = { .most = QUEUE, .fd = STANDARD_ERROR, .next = NO_FILE };

/* ---- writing ---- */

static void count_failed(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++) atomic_fetch_add(&all.failed, p[i] == '\n');
}

/* What can't be written is given up and counted. */
static void write_out(const char *p, size_t n) {
  while (n > 0) {
    size_t done = 0, piece = n < PIECE ? n : PIECE;
    int err = port_fs_write(all.fd, p, piece, &done);
    p += done;
    n -= done;
    if (done > 0) all.torn = p[-1] != '\n';
    atomic_fetch_add(&all.done, done);
    if (err == EAGAIN) {
      port_sleep(PAUSE);
    } else if (err) {
      count_failed(p, n);
      atomic_fetch_add(&all.done, n);
      return;
    }
    if (done > 0) port_event_set(&all.progress);         /* else who waits at the end would never give up */
  }
}

/* A line of the log's own, which is not in the queue. */
static void say(int level, const char *message, const mr_log_field *field, size_t fields) {
  char line[1024];
  mr_log_record r = { .level = level, .message = message, .length = strlen(message), .field = field, .fields = fields };
  if (mr_log_room(&r) > sizeof line) return;
  size_t n = mr_log_line(line, &r, atomic_load(&all.format)), done;
  if (all.torn) port_fs_write(all.fd, "\n", 1, &done);
  all.torn = 0;
  port_fs_write(all.fd, line, n, &done);
}

static void say_lost(uint64_t lost) {
  mr_log_field n = { .kind = MR_LOG_INTEGER, .name = "lost", .name_length = 4, .integer = (int64_t)lost };
  say(MR_LOG_WARN, "lines of the log were lost: they came faster than they can be written", &n, 1);
}

static void take_file(int fd) {
  if (all.fd != STANDARD_ERROR) port_fs_close(all.fd);
  all.fd = fd;
  all.torn = 0;
}

static int open_file(const char *path, int *fd) {
  int err = port_fs_open(path, PORT_FS_WRITE | PORT_FS_CREATE | PORT_FS_APPEND, fd);
  return err == 0 && *fd <= STANDARD_ERROR ? EBADF : err;
}

static void open_again(void) {
  char path[4096], reason[128];
  int fd;
  port_acquire(&all.lock);
  snprintf(path, sizeof path, "%s", all.path ? all.path : "");
  port_unlock(&all.lock);
  if (!*path) return;
  int err = open_file(path, &fd);
  if (!err) {
    take_file(fd);
    return;
  }
  const char *why = port_error_text(err, reason, sizeof reason);
  mr_log_field f = { .kind = MR_LOG_STRING, .name = "reason", .name_length = 6, .text = why, .length = strlen(why) };
  say(MR_LOG_ERROR, "the log's file can't be opened anew, so the old one goes on", &f, 1);
}

/* One round: 0, there was nothing to do. */
static int round_of_work(void) {
  port_acquire(&all.lock);
  size_t n = all.used;
  int from = all.front, again = all.again, next = all.next;
  size_t before = next == NO_FILE ? n : all.before;
  uint64_t lost = all.lost - all.told;
  all.front ^= 1;
  all.used = 0;
  all.again = 0;
  all.next = NO_FILE;
  all.told = all.lost;
  all.idle = n == 0 && lost == 0 && !again && next == NO_FILE;
  int work = !all.idle;
  port_unlock(&all.lock);
  if (!work) port_event_set(&all.progress);
  if (!work) return 0;
  write_out(all.buffer[from], before);
  if (next != NO_FILE) take_file(next);
  write_out(all.buffer[from] + before, n - before);
  if (lost > 0) say_lost(lost);
  if (again) open_again();
  return 1;
}

static void writer(void *arg) {
  (void)arg;
  for (;;)
    if (!round_of_work()) port_event_wait(&all.wake, UINT64_MAX);
}

/* Only the thread that forked is there. The lines in the queue are the parent's. */
static void in_child(void) { atomic_store(&all.forked, 1); }

static int alone(void) { return atomic_load(&all.forked) || port_is_virtual(); }

/* After something was given to it, the lock let go: `wake` and `start` as they were found under it. */
static void rouse(int wake, int start) {
  if (wake) port_event_set(&all.wake);
  if (start && port_thread_start(writer, NULL, "mare-log") != 0) {
    round_of_work();                           /* the next who comes tries it again */
    port_acquire(&all.lock);
    all.runs = 0;
    port_unlock(&all.lock);
  }
}

/* (lock) */
static int must_start(void) {
  int start = !all.runs && !alone();
  if (start) all.runs = 1;
  return start;
}

static int must_wake(void) {
  int wake = all.idle;
  all.idle = 0;
  return wake;
}

/* (lock) Is there room for n bytes more? */
static int has_room(size_t n) {
  int at = all.front;
  if (n > all.most || all.used > all.most - n) return 0;
  if (all.used + n <= all.size[at]) return 1;
  size_t size = all.size[at] ? all.size[at] : 16384;
  while (size < all.used + n) size *= 2;
  char *p = realloc(all.buffer[at], size);
  if (!p) return 0;
  all.buffer[at] = p;
  all.size[at] = size;
  return 1;
}

/* Alone: by whoever has it. */
static int put_alone(const char *line, size_t n) {
  size_t done;
  if (port_fs_write(all.fd, line, n, &done) != 0) {
    atomic_fetch_add(&all.failed, 1);
    return 0;
  }
  all.lines++;
  return 1;
}

static int put_line(const char *line, size_t n) {
  if (alone()) return put_alone(line, n);
  port_acquire(&all.lock);
  int fits = has_room(n);
  if (fits) {
    memcpy(all.buffer[all.front] + all.used, line, n);
    all.used += n;
    all.lines++;
    atomic_fetch_add(&all.put, n);
  } else {
    all.lost++;
  }
  int wake = must_wake(), start = must_start();
  port_unlock(&all.lock);
  if (wake || start) rouse(wake, start);
  return fits;
}

/* ---- settings ---- */

static int usual_format(int terminal) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  if (!terminal) return MR_LOG_JSON;
  return (no && *no) || (term && strcmp(term, "dumb") == 0) ? MR_LOG_TEXT : MR_LOG_COLOUR;
}

static void ask_environment(void) {
  const char *word = getenv("MARE_LOG");
  int level = 0, none = 0;
  for (int i = MR_LOG_TRACE; word && i <= MR_LOG_OFF; i++)
    if (strcmp(word, mr_log_levels[i]) == 0) level = i;
  if (level) atomic_store(&all.from_environment, level);
  atomic_compare_exchange_strong(&mr_log_least, &none, level ? level : MR_LOG_INFO);
  if (!word || !*word || level) return;
  mr_log_field f = { .kind = MR_LOG_STRING, .name = "value", .name_length = 5, .text = word, .length = strlen(word) };
  mr_log_write(&(mr_log_record){ .level = MR_LOG_WARN, .message = "MARE_LOG is no level: trace, debug, info, warn, error, off",
                                 .length = strlen("MARE_LOG is no level: trace, debug, info, warn, error, off"), .field = &f, .fields = 1 });
}

static void begin(void) {
  int no = 0;
  if (atomic_load_explicit(&all.begun, memory_order_acquire) == 2) return;
  if (!atomic_compare_exchange_strong(&all.begun, &no, 1)) {
    while (atomic_load(&all.begun) != 2 && no != 2) port_pause();
    return;
  }
  port_at_fork(in_child);
  no = 0;
  atomic_compare_exchange_strong(&all.format, &no, usual_format(port_file_is_terminal(stderr)));
  atomic_store(&all.begun, 2);
  ask_environment();
}

int mr_log_level(void) {
  int level = atomic_load_explicit(&mr_log_least, memory_order_relaxed);
  if (level) return level;
  begin();
  while ((level = atomic_load(&mr_log_least)) == 0) port_pause();
  return level;
}

/* Takes the lock; `taken`: once the thread has taken over the file that was set before, as it has a place in the queue. */
static void lock_when_taken(int taken) {
  port_acquire(&all.lock);
  while (taken && all.next != NO_FILE) {
    port_unlock(&all.lock);
    port_sleep(PAUSE / 10);
    port_acquire(&all.lock);
  }
}

int mr_log_set(const mr_log_plan *plan) {
  int fd = STANDARD_ERROR, err = 0;
  char *path = NULL;
  begin();
  if (plan->file && *plan->file) {
    path = malloc(strlen(plan->file) + 1);
    if (!path) return ENOMEM;
    strcpy(path, plan->file);
    err = open_file(path, &fd);
    if (err) {
      free(path);
      return err;
    }
  }
  lock_when_taken(plan->file != NULL);
  if (plan->level) atomic_store(&mr_log_least, atomic_load(&all.from_environment) ? atomic_load(&all.from_environment) : plan->level);
  if (plan->format) atomic_store(&all.format, plan->format);
  else if (plan->file) atomic_store(&all.format, path ? MR_LOG_JSON : usual_format(port_file_is_terminal(stderr)));
  if (plan->queue) all.most = plan->queue < QUEUE_LEAST ? QUEUE_LEAST : plan->queue;
  int wake = 0, start = 0;
  if (plan->file) {
    free(all.path);
    all.path = path;
    all.next = fd;
    all.before = all.used;
    wake = must_wake();
    start = must_start();
  }
  port_unlock(&all.lock);
  atomic_store(&all.used_at_all, 1);
  if (alone()) round_of_work();
  else rouse(wake, start);
  return 0;
}

void mr_log_reopen(void) {
  if (alone()) {
    open_again();
    return;
  }
  port_acquire(&all.lock);
  all.again = all.path != NULL;
  int wake = all.again && must_wake(), start = all.again && must_start();
  port_unlock(&all.lock);
  rouse(wake, start);
}

/* ---- records ---- */

int mr_log_write(const mr_log_record *r) {
  char small[2048], *line = small;
  size_t room = mr_log_room(r);
  begin();
  atomic_store_explicit(&all.used_at_all, 1, memory_order_relaxed);
  if (room > sizeof small && !(line = malloc(room))) {
    port_acquire(&all.lock);
    all.lost++;
    port_unlock(&all.lock);
    return 0;
  }
  int fits = put_line(line, mr_log_line(line, r, atomic_load_explicit(&all.format, memory_order_relaxed)));
  if (line != small) free(line);
  return fits;
}

int mr_log_in_use(void) { return atomic_load(&all.used_at_all); }

int mr_log_says(int level, uint64_t process, const char *process_name, const char *text) {
  if (!mr_log_in_use() || mr_log_level() > level) return 0;
  if (strncmp(text, "mare: ", 6) == 0) text += 6;
  size_t n = strlen(text);
  while (n > 0 && text[n - 1] == '\n') n--;
  const char *trace = strstr(text, "\nstack traceback:");
  mr_log_field f = { .kind = MR_LOG_STRING, .name = "traceback", .name_length = 9 };
  mr_log_record r = { .level = level, .process = process, .process_name = process_name, .message = text, .length = n, .field = &f };
  if (trace) {
    f.text = trace + 1;
    f.length = n - (size_t)(f.text - text);
    r.length = (size_t)(trace - text);
    r.fields = 1;
  }
  return mr_log_write(&r);
}

/* ---- numbers, the end ---- */

void mr_log_count(mr_log_numbers *n) {
  port_acquire(&all.lock);
  *n = (mr_log_numbers){ .lines = all.lines, .lost = all.lost, .failed = atomic_load(&all.failed), .queued = atomic_load(&all.put) - atomic_load(&all.done) };
  port_unlock(&all.lock);
}

uint64_t mr_log_mark(void) { return atomic_load(&all.put); }
int mr_log_written(uint64_t mark) { return atomic_load(&all.done) >= mark; }

/* Nothing is left to do. What is put makes that untrue again, so it is not waited for without end. */
static int is_idle(void) {
  port_acquire(&all.lock);
  int idle = !all.runs || all.idle;
  port_unlock(&all.lock);
  return idle;
}

/* Where the thread could not be started, lines may be left. */
static void write_what_is_left(void) {
  port_acquire(&all.lock);
  int left = !all.runs && all.used > 0;
  if (left) all.runs = 1;
  port_unlock(&all.lock);
  if (left) round_of_work();
}

void mr_log_end(void) {
  uint64_t mark = mr_log_mark();
  if (alone()) return;
  write_what_is_left();
  for (int more = 0; !is_idle() && more < 3; more += mr_log_written(mark)) {
    uint64_t before = atomic_load(&all.done);
    if (!port_event_wait(&all.progress, port_now() + PATIENCE) && atomic_load(&all.done) == before) return;
  }
}
