/*
 * The door: a socket in a folder of the user's alone, which goes with the program; a knock is told from an interrupt, and finds programs of mare's only.
 */
#include "port/test.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "port/door.h"

static char folder[64], path[PORT_DOOR_PATH];

static int there(void) { return access(path, F_OK) == 0; }

static void in_a_folder_of_our_own(void) {
  strcpy(folder, "/tmp/mare-door.XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  setenv("XDG_RUNTIME_DIR", folder, 1);
  snprintf(path, sizeof path, "%s/mare/%d", folder, (int)getpid());
}

static int connect_to(const char *where) {
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  snprintf(un.sun_path, sizeof un.sun_path, "%s", where);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(connect(fd, (struct sockaddr *)&un, sizeof un) == 0);
  return fd;
}

static void test_it_is_the_users_alone(void) {
  int fd, conn;
  struct stat st;
  char mare[PORT_DOOR_PATH];
  CHECK(port_door_open(&fd) == 0 && there());
  CHECK(stat(path, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0600);
  snprintf(mare, sizeof mare, "%s/mare", folder);
  CHECK(stat(mare, &st) == 0 && (st.st_mode & 0777) == 0700);
  int tool = connect_to(path);
  CHECK(port_net_accept(fd, &conn) == 0 && port_door_mine(conn));
  close(conn);
  close(tool);
  port_door_close();
  CHECK(!there());
  port_door_close();
  close(fd);
}

static void test_another_folder_is_used_if_others_may_enter_this(void) {
  int fd = -1;
  char mare[PORT_DOOR_PATH], other[PORT_DOOR_PATH];
  snprintf(mare, sizeof mare, "%s/mare", folder);
  CHECK(chmod(mare, 0711) == 0 && port_door_open(&fd) == 0 && !there());
  snprintf(other, sizeof other, "/tmp/mare-%u/%d", (unsigned)geteuid(), (int)getpid());
  CHECK(access(other, F_OK) == 0);
  port_door_close();
  CHECK(access(other, F_OK) != 0);
  close(fd);
  CHECK(chmod(mare, 0700) == 0);
}

/* In a child, whose socket is another one: what `end` does, and how it ended. */
static int ends_by(void (*end)(void)) {
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    int fd;
    if (port_door_open(&fd) != 0) _exit(100);
    end();
    _exit(101);
  }
  CHECK(waitpid(pid, &status, 0) == pid);
  char left[PORT_DOOR_PATH];
  snprintf(left, sizeof left, "%s/mare/%d", folder, (int)pid);
  CHECK(access(left, F_OK) != 0);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void by_term(void) { raise(SIGTERM); }
static void by_hup(void) { raise(SIGHUP); }
static void by_int(void) { raise(SIGINT); }
static void by_exit(void) { exit(3); }
static void by_quit(void) { port_quit(4); }

static void test_it_goes_with_the_program(void) {
  CHECK(ends_by(by_term) == 1000 + SIGTERM);
  CHECK(ends_by(by_hup) == 1000 + SIGHUP);
  CHECK(ends_by(by_int) == 1000 + SIGINT);
  CHECK(ends_by(by_exit) == 3);
  CHECK(ends_by(by_quit) == 4);
}

static void test_what_a_killed_program_left_is_swept(void) {
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    int fd;
    port_door_open(&fd);
    raise(SIGKILL);
  }
  CHECK(waitpid(pid, &status, 0) == pid);
  char left[PORT_DOOR_PATH];
  snprintf(left, sizeof left, "%s/mare/%d", folder, (int)pid);
  CHECK(access(left, F_OK) == 0);
  int fd;
  CHECK(port_door_open(&fd) == 0);
  CHECK(port_door_sweep() >= 1 && access(left, F_OK) != 0 && there());
  port_door_close();
  close(fd);
}

static void test_a_child_of_fork_keeps_nothing(void) {
  int ends[2], status;
  char c;
  CHECK(pipe(ends) == 0);
  port_door_hold(ends[1]);
  pid_t pid = fork();
  if (pid == 0) {
    port_door_forked();
    alarm(60);
    for (;;) pause();
  }
  port_door_drop(ends[1]);
  CHECK(read(ends[0], &c, 1) == 0);              /* nobody has the other end any more */
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, &status, 0) == pid);
  close(ends[0]);
}

static atomic_int kicks, knocks;
static port_event over;
static void kicked(void) { atomic_fetch_add(&kicks, 1); }
static void knocked(void) { atomic_fetch_add(&knocks, 1); }

/* Handlers of a thread that sleeps may run when it wakes (ThreadSanitizer): it wakes often. */
static void monitor(void *arg) {
  port_thread_self(arg);
  while (!port_event_wait(&over, port_now() + 1000000)) { }
}

static void test_a_knock_is_told_from_an_interrupt(void) {
  port_thread self = { 0 }, t = { 0 };
  CHECK(port_door_knock((int)getpid()) == ESRCH && port_door_knock(1) != 0 && port_door_knock(0x7ffffff0) == ESRCH);
  CHECK(port_kick_handler(kicked) == 0);
  port_door_knocked(knocked);
  CHECK(port_thread_fork(&t, monitor, &self, "mare-monitor") == 0);
  while (!atomic_load(&self.id)) port_sleep(1000000);
  while (port_door_knock((int)getpid()) == ESRCH) port_sleep(1000000);     /* it has not got its name yet */
  while (atomic_load(&knocks) == 0) port_sleep(1000000);
  CHECK(atomic_load(&kicks) == 0);
  CHECK(port_thread_kick(&self) == 0);
  while (atomic_load(&kicks) == 0) port_sleep(1000000);
  CHECK(atomic_load(&knocks) == 1);
  port_event_set(&over);
  port_thread_join(&t);
}

int main(void) {
  in_a_folder_of_our_own();
  test_it_is_the_users_alone();
  test_another_folder_is_used_if_others_may_enter_this();
  test_it_goes_with_the_program();
  test_what_a_killed_program_left_is_swept();
  test_a_child_of_fork_keeps_nothing();
  test_a_knock_is_told_from_an_interrupt();
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
  return CHECK_RESULT();
}
