/* screen: `before` is the terminal's mode while `taken`. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include "port/screen.h"

static struct termios before;
static atomic_int taken;

static void say(const char *s, size_t n) {
  if (write(STDOUT_FILENO, s, n) < 0) return;    /* who can't see it misses nothing */
}

/* The other screen, without a cursor; back. */
#define ENTER "\033[?1049h\033[?25l\033[2J"
#define LEAVE "\033[?25h\033[?1049l\033[0m"

int port_screen_open(void) {
  struct termios raw;
  if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &raw) != 0) return ENOTTY;
  if (atomic_load(&taken)) return 0;
  before = raw;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
  raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | IGNCR | BRKINT);
  raw.c_cc[VMIN] = 0;                            /* a read never waits */
  raw.c_cc[VTIME] = 0;
  atomic_store(&taken, 1);
  if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) {
    atomic_store(&taken, 0);
    return errno;
  }
  say(ENTER, sizeof ENTER - 1);
  return 0;
}

void port_screen_close(void) {
  if (!atomic_exchange(&taken, 0)) return;
  tcsetattr(STDIN_FILENO, TCSANOW, &before);
  say(LEAVE, sizeof LEAVE - 1);
}

int port_screen_size(int *rows, int *columns) {
  struct winsize w;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0) return errno;
  *rows = w.ws_row;
  *columns = w.ws_col;
  return 0;
}

long port_screen_keys(char *buf, size_t n) {
  struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
  if (poll(&p, 1, 0) <= 0) return 0;
  ssize_t r = p.revents & POLLIN ? read(STDIN_FILENO, buf, n) : 0;
  if (r > 0) return (long)r;
  return (r < 0 && errno == EINTR) || (r == 0 && !(p.revents & (POLLHUP | POLLERR | POLLNVAL))) ? 0 : -1;
}

void port_screen_stop(void) {
  port_screen_close();
  kill(0, SIGTSTP);                              /* the whole job, as the terminal would */
}

int port_screen_is(int fd) { return isatty(fd); }
