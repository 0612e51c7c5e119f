/* nest: epoll and a timerfd, or kqueue, which has timers. Without the simulation: who uses this refuses to work in a run that is repeated. */
#define _GNU_SOURCE
#include "port/nest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64 };

void port_close_on_exec(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

#if defined(__linux__)
#include <sys/epoll.h>
#include <sys/timerfd.h>

int port_nest_open(port_nest *n) {
  struct epoll_event ev = { .events = EPOLLIN, .data.fd = PORT_NEST_TIMER };
  n->timer = -1;
  n->set = epoll_create1(EPOLL_CLOEXEC);
  if (n->set >= 0) n->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (n->timer >= 0 && epoll_ctl(n->set, EPOLL_CTL_ADD, n->timer, &ev) == 0) return 0;
  int err = errno;
  port_nest_close(n);
  return err;
}

void port_nest_close(port_nest *n) {
  if (n->set >= 0) close(n->set);
  if (n->timer >= 0) close(n->timer);
  n->set = n->timer = -1;
}

int port_nest_watch(port_nest *n, int fd, unsigned what) {
  struct epoll_event ev = { .data.fd = fd };
  if (what & PORT_READ) ev.events |= EPOLLIN;
  if (what & PORT_WRITE) ev.events |= EPOLLOUT;
  if (!what) return epoll_ctl(n->set, EPOLL_CTL_DEL, fd, &ev), 0;
  if (epoll_ctl(n->set, EPOLL_CTL_MOD, fd, &ev) == 0) return 0;
  return errno == ENOENT && epoll_ctl(n->set, EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : errno;
}

void port_nest_timer(port_nest *n, int64_t ms) {
  struct itimerspec t = { .it_value = { 0, 0 } };      /* off */
  if (ms > 0) t.it_value = (struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000 * 1000000) };
  else if (ms == 0) t.it_value.tv_nsec = 1;
  timerfd_settime(n->timer, 0, &t, NULL);
}

int port_nest_ready(port_nest *n, int *fds, unsigned *what, int most) {
  struct epoll_event ev[MOST];
  uint64_t times;
  int got = epoll_wait(n->set, ev, most < MOST ? most : MOST, 0);
  for (int i = 0; i < got; i++) {
    fds[i] = ev[i].data.fd;
    what[i] = (ev[i].events & EPOLLIN ? PORT_READ : 0) | (ev[i].events & EPOLLOUT ? PORT_WRITE : 0) | (ev[i].events & (EPOLLERR | EPOLLHUP) ? PORT_HUP : 0);
    if (fds[i] == PORT_NEST_TIMER) while (read(n->timer, &times, sizeof times) < 0 && errno == EINTR) { }
  }
  return got > 0 ? got : 0;
}

#else
#include <sys/event.h>

int port_nest_open(port_nest *n) {
  n->timer = -1;
  n->set = kqueue();
  return n->set < 0 ? errno : fcntl(n->set, F_SETFD, FD_CLOEXEC) < 0 ? errno : 0;
}

void port_nest_close(port_nest *n) {
  if (n->set >= 0) close(n->set);
  n->set = -1;
}

static int change(port_nest *n, uintptr_t id, short filter, int flags, intptr_t data) {
  struct kevent ev;
  EV_SET(&ev, id, filter, flags, 0, data, NULL);
  return kevent(n->set, &ev, 1, NULL, 0, NULL) == 0 ? 0 : errno;
}

int port_nest_watch(port_nest *n, int fd, unsigned what) {
  int err = change(n, (uintptr_t)fd, EVFILT_READ, what & PORT_READ ? EV_ADD : EV_DELETE, 0);
  if (err && (what & PORT_READ)) return err;
  err = change(n, (uintptr_t)fd, EVFILT_WRITE, what & PORT_WRITE ? EV_ADD : EV_DELETE, 0);
  return err && (what & PORT_WRITE) ? err : 0;
}

void port_nest_timer(port_nest *n, int64_t ms) {
  if (ms < 0) change(n, 0, EVFILT_TIMER, EV_DELETE, 0);
  else change(n, 0, EVFILT_TIMER, EV_ADD | EV_ONESHOT, (intptr_t)ms);
}

int port_nest_ready(port_nest *n, int *fds, unsigned *what, int most) {
  struct kevent ev[MOST];
  struct timespec none = { 0, 0 };
  int got = kevent(n->set, NULL, 0, ev, most < MOST ? most : MOST, &none);
  for (int i = 0; i < got; i++) {
    fds[i] = ev[i].filter == EVFILT_TIMER ? PORT_NEST_TIMER : (int)ev[i].ident;
    what[i] = ev[i].filter == EVFILT_WRITE ? PORT_WRITE : PORT_READ;
  }
  return got > 0 ? got : 0;
}
#endif
