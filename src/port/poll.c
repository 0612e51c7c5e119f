/*
 * poll: epoll, or kqueue.
 *
 * An event whose waiter is in the kernel here has the word 3 (see sync.c); who sets it writes to `waker`, a descriptor in the set. It is
 * level-triggered and emptied by whoever waits in the set, not by those who only look in: they would take the waiter's call away.
 * While the role changes hands two may wait there for a moment, and the kernel wakes one: it passes on what was not, or not only, for it
 * (`calls`: events that were set and whose waiters have not seen it).
 */
#define _GNU_SOURCE
#include "port/poll.h"
#include "port/simnet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#else
#include <sys/event.h>
#endif

enum { MOST = 128 };
#define WAKER UINT64_MAX

static atomic_int set_fd = -1;          /* set once; looked at without a lock */
static int waker = -1;                 /* written to */
static port_lock opening;
static atomic_int calls;

#if defined(__linux__)

int port_bell_open(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

void port_bell_ring(int bell) {
  uint64_t one = 1;
  while (write(bell, &one, sizeof one) < 0 && errno == EINTR) { }
}

void port_bell_clear(int bell) {
  uint64_t count;
  while (read(bell, &count, sizeof count) < 0 && errno == EINTR) { }
}

void port_bell_close(int bell) { close(bell); }

static int open_set(void) {
  int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return errno;
  waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct epoll_event ev = { .events = EPOLLIN, .data.u64 = WAKER };
  if (waker < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, waker, &ev) != 0) {
    int err = errno;
    if (waker >= 0) close(waker);
    close(fd);
    return err;
  }
  set_fd = fd;
  return 0;
}

int port_poll_add(int fd, uint64_t tag, unsigned what, int how) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_poll_add(fd, tag, what, how);
  struct epoll_event ev = { .data.u64 = tag };
  ev.events = how == PORT_EDGE ? EPOLLET : how == PORT_ONCE ? EPOLLONESHOT : 0;
  if (what & PORT_READ) ev.events |= EPOLLIN | EPOLLRDHUP;
  if (what & PORT_WRITE) ev.events |= EPOLLOUT;
  return epoll_ctl(set_fd, EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : errno;
}

int port_poll_remove(int fd) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_poll_remove(fd);
  struct epoll_event ev = { 0 };
  return epoll_ctl(set_fd, EPOLL_CTL_DEL, fd, &ev) == 0 ? 0 : errno;
}

static void ring(void) { port_bell_ring(waker); }

static int take(const struct epoll_event *ev, int got, port_ready *r, int *called) {
  int n = 0;
  for (int i = 0; i < got; i++) {
    if (ev[i].data.u64 == WAKER) {
      *called = 1;
      continue;
    }
    unsigned e = ev[i].events, what = 0;
    if (e & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI)) what |= PORT_READ;
    if (e & (EPOLLOUT | EPOLLHUP | EPOLLERR)) what |= PORT_WRITE;
    if (e & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) what |= PORT_HUP;
    r[n++] = (port_ready){ ev[i].data.u64, what };
  }
  return n;
}

/* Nanoseconds where the kernel knows them (5.11), else milliseconds, rounded up. */
static int wait_ns(struct epoll_event *ev, int n, uint64_t deadline) {
  if (deadline == UINT64_MAX) return epoll_wait(set_fd, ev, n, -1);
  uint64_t now = port_now(), left = deadline > now ? deadline - now : 0;
#if defined(SYS_epoll_pwait2) && !defined(PORT_TSAN)
  static atomic_int missing;
  if (!atomic_load_explicit(&missing, memory_order_relaxed)) {
    struct { int64_t sec, nsec; } ts = { (int64_t)(left / 1000000000u), (int64_t)(left % 1000000000u) };
    int got = (int)syscall(SYS_epoll_pwait2, set_fd, ev, n, &ts, NULL, 0);
    if (got >= 0 || errno != ENOSYS) return got;
    atomic_store(&missing, 1);
  }
#endif
  uint64_t ms = (left + 999999) / 1000000;
  return epoll_wait(set_fd, ev, n, ms > 3600000 ? 3600000 : (int)ms);
}

int port_poll(port_ready *r, int n) {
  struct epoll_event ev[MOST];
  if (PORT_UNLIKELY(port_sim_on)) return port_sim_poll(r, n);
  if (set_fd < 0) return 0;
  int got = epoll_wait(set_fd, ev, n < MOST ? n : MOST, 0), called;
  return got > 0 ? take(ev, got, r, &called) : 0;
}

static int wait_ready(port_ready *r, int n, uint64_t deadline, int *called) {
  struct epoll_event ev[MOST];
  int got = wait_ns(ev, n < MOST ? n : MOST, deadline);
  int count = got > 0 ? take(ev, got, r, called) : 0;
  if (*called) port_bell_clear(waker);
  return count;
}

#else /* kqueue */

static int wake_read = -1;

/* A user event in a queue of its own makes that queue's descriptor readable. */
int port_bell_open(void) { return kqueue(); }

static void bell(int fd, unsigned short flags, unsigned fflags) {
  struct kevent ev;
  EV_SET(&ev, 1, EVFILT_USER, flags, fflags, 0, NULL);
  kevent(fd, &ev, 1, NULL, 0, NULL);
}

void port_bell_ring(int fd) {
  bell(fd, EV_ADD, 0);
  bell(fd, 0, NOTE_TRIGGER);
}

void port_bell_clear(int fd) { bell(fd, EV_DELETE, 0); }
void port_bell_close(int fd) { close(fd); }

static int open_set(void) {
  int pair[2], fd = kqueue();
  if (fd < 0) return errno;
  if (pipe(pair) != 0) {
    int err = errno;
    close(fd);
    return err;
  }
  for (int i = 0; i < 2; i++) {
    fcntl(pair[i], F_SETFD, FD_CLOEXEC);
    fcntl(pair[i], F_SETFL, O_NONBLOCK);
  }
  wake_read = pair[0];
  waker = pair[1];
  struct kevent ev;
  EV_SET(&ev, wake_read, EVFILT_READ, EV_ADD, 0, 0, (void *)(uintptr_t)WAKER);
  if (kevent(fd, &ev, 1, NULL, 0, NULL) != 0) return errno;
  set_fd = fd;
  return 0;
}

int port_poll_add(int fd, uint64_t tag, unsigned what, int how) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_poll_add(fd, tag, what, how);
  struct kevent ev[2];
  unsigned short flags = EV_ADD | (how == PORT_EDGE ? EV_CLEAR : how == PORT_ONCE ? EV_ONESHOT : 0);
  int n = 0;
  if (what & PORT_READ) EV_SET(&ev[n++], fd, EVFILT_READ, flags, 0, 0, (void *)(uintptr_t)tag);
  if (what & PORT_WRITE) EV_SET(&ev[n++], fd, EVFILT_WRITE, flags, 0, 0, (void *)(uintptr_t)tag);
  return kevent(set_fd, ev, n, NULL, 0, NULL) == 0 ? 0 : errno;
}

int port_poll_remove(int fd) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_poll_remove(fd);
  struct kevent ev;
  EV_SET(&ev, fd, EVFILT_READ, EV_DELETE, 0, 0, NULL);
  kevent(set_fd, &ev, 1, NULL, 0, NULL);        /* either may not be there */
  EV_SET(&ev, fd, EVFILT_WRITE, EV_DELETE, 0, 0, NULL);
  kevent(set_fd, &ev, 1, NULL, 0, NULL);
  return 0;
}

static void ring(void) {
  while (write(waker, "", 1) < 0 && errno == EINTR) { }
}

static int collect(port_ready *r, int n, const struct timespec *limit, int *called) {
  struct kevent ev[MOST];
  int got = kevent(set_fd, NULL, 0, ev, n < MOST ? n : MOST, limit), count = 0;
  for (int i = 0; i < got; i++) {
    uint64_t tag = (uint64_t)(uintptr_t)ev[i].udata;
    if (tag == WAKER) {
      *called = 1;
      continue;
    }
    unsigned what = ev[i].filter == EVFILT_READ ? PORT_READ : PORT_WRITE;
    if (ev[i].flags & (EV_EOF | EV_ERROR)) what |= PORT_HUP;
    r[count++] = (port_ready){ tag, what };
  }
  return count;
}

int port_poll(port_ready *r, int n) {
  static const struct timespec none;
  int called;
  if (PORT_UNLIKELY(port_sim_on)) return port_sim_poll(r, n);
  return set_fd < 0 ? 0 : collect(r, n, &none, &called);
}

static int wait_ready(port_ready *r, int n, uint64_t deadline, int *called) {
  struct timespec ts;
  uint64_t now = port_now(), left = deadline > now ? deadline - now : 0;
  ts.tv_sec = (time_t)(left / 1000000000u);
  ts.tv_nsec = (long)(left % 1000000000u);
  int count = collect(r, n, deadline == UINT64_MAX ? NULL : &ts, called);
  if (*called) {
    char buffer[256];
    while (read(wake_read, buffer, sizeof buffer) > 0) { }
  }
  return count;
}

#endif

const int port_error_exists = EEXIST;

int port_ready_now(int fd, unsigned what, unsigned *ready) {
  struct pollfd p = { .fd = fd };
  *ready = PORT_UNLIKELY(port_is_sim(fd)) ? port_sim_ready(fd) & what : 0;
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_has(fd) ? 0 : EBADF;
  if (what & PORT_READ) p.events |= POLLIN | POLLPRI;
  if (what & PORT_WRITE) p.events |= POLLOUT;
  if (poll(&p, 1, 0) < 0) return errno == EINTR ? 0 : errno;
  if (p.revents & POLLNVAL) return EBADF;
  if (p.revents & (POLLIN | POLLPRI | POLLHUP | POLLERR)) *ready |= PORT_READ;
  if (p.revents & (POLLOUT | POLLHUP | POLLERR)) *ready |= PORT_WRITE;
  *ready &= what;
  return 0;
}

int port_copy(int fd, int *copy) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_duplicate(fd, copy);
  *copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return *copy < 0 ? errno : 0;
}

void port_close(int fd) {
  if (PORT_UNLIKELY(port_is_sim(fd))) port_sim_close(fd);
  else close(fd);
}

int port_poll_open(void) {
  int err = 0;
  port_acquire(&opening);
  if (set_fd < 0) err = open_set();
  port_unlock(&opening);
  return err;
}

int port_poll_wait(port_event *e, uint64_t deadline, port_ready *r, int n, int *set) {
  unsigned clear = 0, one = 1, polling = 3;
  int got = 0, called = 0, waited = 0;
  *set = 0;
  mr_assert_unlocked();
  port_chaos();
  if (atomic_compare_exchange_strong(&e->word, &clear, 3)) {
    got = wait_ready(r, n, deadline, &called);
    waited = !atomic_compare_exchange_strong(&e->word, &polling, 0);
  } else {
    mr_assert(clear == 1);                       /* else somebody else waits there */
    got = port_poll(r, n);
    waited = -1;
  }
  if (waited != 0 && atomic_compare_exchange_strong(&e->word, &one, 0)) *set = 1;
  if (waited > 0) atomic_fetch_sub(&calls, 1);
  port_chaos();
  if (called && atomic_load(&calls) > 0) ring();
  return got;
}

void port_poll_wake(void) {
  atomic_fetch_add(&calls, 1);
  ring();
}
