/*
 * door: `mine` are the paths of sockets while they are there, and name the process that has made them, so that a child of fork() takes nothing away.
 *
 * A program in which mare runs is known by its thread "mare-monitor". It is knocked at by the signal of preemption, which that thread alone is sent
 * here, with a value: so no call of the program's own threads is interrupted, and to others the signal means nothing (its default is to be ignored).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include "port/door.h"
#include "port/net.h"
#include "port/port.h"
#include "port/system.h"

#define MONITOR "mare-monitor"

enum { DOOR, OTHER, FILES };
static struct { atomic_int pid; char path[PORT_DOOR_PATH]; } mine[FILES];

/* ---- the folder ---- */

/* Into buf, whole; 0: it does not fit. */
__attribute__((format(printf, 2, 3)))
static int put(char buf[PORT_DOOR_PATH], const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(buf, PORT_DOOR_PATH, format, args);
  va_end(args);
  return n > 0 && n < PORT_DOOR_PATH;
}

/* Room for a slash and a number must be left. */
static int folder_of(const char *runtime, char path[PORT_DOOR_PATH]) {
  return runtime[0] == '/' && put(path, "%s/mare", runtime) && strlen(path) + 12 < PORT_DOOR_PATH;
}

static int last_folder(char path[PORT_DOOR_PATH]) { return put(path, "/tmp/mare-%u", (unsigned)geteuid()); }

/* Is it a folder that nobody else can write to or look into? */
static int is_ours(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

/* Makes it if need be; 0 or an errno value. */
static int make_folder(const char *path) {
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return errno;
  return is_ours(path) ? 0 : EACCES;
}

/* ---- ends ---- */

static void take_away(int i) {
  int own = (int)getpid();
  if (atomic_compare_exchange_strong(&mine[i].pid, &own, 0)) unlink(mine[i].path);
}

void port_door_close(void) {
  for (int i = 0; i < FILES; i++) take_away(i);
}

static void watch_ends(void) {
  static int once;
  if (!once) atexit(port_door_close);
  once = 1;
  port_signals_end();
}

/* ---- the socket ---- */

static int listen_at(const char *path, int *fd) {
  port_addr a;
  int err = port_addr_unix(&a, path, strlen(path));
  if (err || (err = port_net_socket(PORT_UNIX, PORT_STREAM, fd)) != 0) return err;
  err = port_net_bind(*fd, &a);
  if (err == EADDRINUSE) {                       /* of a dead program with our number: nobody else's is called so */
    unlink(path);
    err = port_net_bind(*fd, &a);
  }
  if (!err && chmod(path, 0600) != 0) err = errno;
  if (!err) err = port_net_listen(*fd, 64);
  if (err) close(*fd);
  return err;
}

static int open_in(const char *folder, int *fd) {
  int err = make_folder(folder);
  if (err) return err;
  snprintf(mine[DOOR].path, sizeof mine[DOOR].path, "%.90s/%d", folder, (int)getpid());
  err = listen_at(mine[DOOR].path, fd);
  if (!err) atomic_store(&mine[DOOR].pid, (int)getpid());
  return err;
}

int port_door_open(int *fd) {
  char folder[PORT_DOOR_PATH];
  const char *runtime = getenv("XDG_RUNTIME_DIR");
  int err = runtime && folder_of(runtime, folder) ? open_in(folder, fd) : ENOENT;
  if (err && last_folder(folder)) err = open_in(folder, fd);
  if (!err) watch_ends();
  return err;
}

void port_door_keep(const port_addr *a) {
  char path[PORT_ADDR_TEXT];
  if (!port_addr_text(a, path) || !path[0] || !put(mine[OTHER].path, "%s", path)) return;
  atomic_store(&mine[OTHER].pid, (int)getpid());
  watch_ends();
}

int port_door_mine(int conn) {
  struct ucred who;
  socklen_t len = sizeof who;
  if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0) return 0;
  return who.uid == geteuid() || who.uid == 0;
}

/* ---- fork ---- */

enum { HELD = 128 };
static atomic_int held[HELD];                    /* descriptor + 1; 0: a free place */

void port_door_hold(int fd) {
  for (int i = 0; i < HELD; i++) {
    int none = 0;
    if (atomic_compare_exchange_strong(&held[i], &none, fd + 1)) return;
  }
}

void port_door_drop(int fd) {
  for (int i = 0; i < HELD; i++) {
    int own = fd + 1;
    if (atomic_compare_exchange_strong(&held[i], &own, 0)) break;
  }
  close(fd);
}

void port_door_forked(void) {
  for (int i = 0; i < HELD; i++) {
    int fd = atomic_exchange(&held[i], 0) - 1;
    if (fd >= 0) close(fd);
  }
}

/* ---- the tool's side: folders ---- */

/* The value of a variable in the environment with which a program was started, into buf; 0: it can't be seen, or is not there. */
static int variable_of(int pid, const char *name, char *buf, size_t size) {
  char path[64], *line = NULL;
  size_t room = 0, len = strlen(name);
  int found = 0;
  snprintf(path, sizeof path, "/proc/%d/environ", pid);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  while (!found && getdelim(&line, &room, 0, f) > 0)
    if (strncmp(line, name, len) == 0 && line[len] == '=') found = snprintf(buf, size, "%s", line + len + 1) < (int)size;
  free(line);
  fclose(f);
  return found;
}

int port_door_folder(int i, int pid, char path[PORT_DOOR_PATH]) {
  char runtime[PORT_DOOR_PATH];
  const char *own = getenv("XDG_RUNTIME_DIR");
  path[0] = 0;
  switch (i) {
    case 0: return last_folder(path);
    case 1:
      if (!own || !folder_of(own, path)) path[0] = 0;
      return 1;
    case 2:
      snprintf(runtime, sizeof runtime, "/run/user/%u", (unsigned)geteuid());
      if (!folder_of(runtime, path)) path[0] = 0;
      return 1;
    case 3:
      if (pid && (!variable_of(pid, "XDG_RUNTIME_DIR", runtime, sizeof runtime) || !folder_of(runtime, path))) path[0] = 0;
      return pid != 0;
    default: return 0;
  }
}

static int gone(int pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

static int sweep_folder(const char *folder) {
  char path[PORT_DOOR_PATH];
  int n = 0;
  DIR *d = is_ours(folder) ? opendir(folder) : NULL;
  for (struct dirent *e; d && (e = readdir(d)) != NULL; ) {
    char *end;
    long pid = strtol(e->d_name, &end, 10);
    if (pid <= 0 || *end || !gone((int)pid)) continue;
    if (put(path, "%.90s/%ld", folder, pid) && unlink(path) == 0) n++;
  }
  if (d) closedir(d);
  return n;
}

int port_door_sweep(void) {
  char folder[PORT_DOOR_PATH];
  int n = 0;
  for (int i = 0; port_door_folder(i, 0, folder); i++) n += sweep_folder(folder);
  return n;
}

/* ---- programs ---- */

static int is_monitor(int pid, long tid) {
  char path[96], name[32];
  snprintf(path, sizeof path, "/proc/%d/task/%ld/comm", pid, tid);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  int yes = fgets(name, sizeof name, f) && strcmp(name, MONITOR "\n") == 0;
  fclose(f);
  return yes;
}

/* The thread by which mare is known; 0: there is none, or no such program. */
static int monitor_of(int pid) {
  char path[64];
  long tid = 0;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *d = opendir(path);
  for (struct dirent *e; d && !tid && (e = readdir(d)) != NULL; )
    if (e->d_name[0] != '.' && is_monitor(pid, strtol(e->d_name, NULL, 10))) tid = strtol(e->d_name, NULL, 10);
  if (d) closedir(d);
  return (int)tid;
}

/* They may run under another user's rights than they were started with; /proc tells of those they have. */
static int user_of(int pid, unsigned *uid) {
  char path[64];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%d", pid);
  if (stat(path, &st) != 0) return 0;
  *uid = (unsigned)st.st_uid;
  return 1;
}

int port_door_programs(int *pid, int most) {
  DIR *d = opendir("/proc");
  int n = 0;
  unsigned uid;
  for (struct dirent *e; d && n < most && (e = readdir(d)) != NULL; ) {
    int p = atoi(e->d_name);
    if (p > 0 && p != (int)getpid() && user_of(p, &uid) && uid == geteuid() && monitor_of(p)) pid[n++] = p;
  }
  if (d) closedir(d);
  return n;
}

/* ---- knocking ---- */

enum { KNOCK = 0x6d617265 };                     /* "mare" */

static int signal_of(int pid) {
  char text[16];
  int n = variable_of(pid, "MARE_SIGNAL", text, sizeof text) ? atoi(text) : 0;
  return n > 0 && n <= SIGRTMAX && n != SIGKILL && n != SIGSTOP ? n : SIGURG;
}

int port_door_knock(int pid) {
  siginfo_t info;
  int tid = pid > 0 ? monitor_of(pid) : 0;
  if (!tid) return ESRCH;
  memset(&info, 0, sizeof info);
  info.si_signo = signal_of(pid);
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = KNOCK;
  return syscall(SYS_rt_tgsigqueueinfo, pid, tid, info.si_signo, &info) == 0 ? 0 : errno;
}

static void (*_Atomic knocked)(void);

void port_door_knocked(void (*fn)(void)) { atomic_store(&knocked, fn); }

int port_door_is_knock(int value) {
  if (value != KNOCK) return 0;
  void (*fn)(void) = atomic_load(&knocked);
  if (fn) fn();
  return 1;
}
