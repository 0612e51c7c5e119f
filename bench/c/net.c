/*
 * TCP with blocking calls, for the rows of sockets.
 *   net echo               prints "port N", answers 64 bytes with the same for one connection
 *   net ping PORT TRIPS    prints "trips N round trips/s"
 *   net hold PORT COUNT    opens COUNT connections, prints "held COUNT connections", waits for the end of its input
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64 };

static void die(const char *what)
{
  perror(what);
  exit(1);
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct sockaddr_in loopback(int port)
{
  struct sockaddr_in a;
  memset(&a, 0, sizeof a);
  a.sin_family = AF_INET;
  a.sin_port = htons((unsigned short)port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

static int dial(int port)
{
  struct sockaddr_in a = loopback(port);
  int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) die("socket");
  if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) die("connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

/* 1: a whole message came; 0: the end */
static int get(int fd, char *buffer)
{
  size_t n = 0;
  while (n < SIZE) {
    ssize_t r = read(fd, buffer + n, SIZE - n);
    if (r <= 0) return 0;
    n += (size_t)r;
  }
  return 1;
}

static void echo(void)
{
  struct sockaddr_in a = loopback(0);
  socklen_t len = sizeof a;
  char buffer[SIZE];
  int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 1) != 0) die("listen");
  if (getsockname(fd, (struct sockaddr *)&a, &len) != 0) die("getsockname");
  printf("port %d\n", ntohs(a.sin_port));
  fflush(stdout);
  int conn = accept(fd, NULL, NULL);
  if (conn < 0) die("accept");
  setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  while (get(conn, buffer))
    if (write(conn, buffer, SIZE) != SIZE) die("write");
}

static void trips(int fd, long n)
{
  char buffer[SIZE];
  memset(buffer, 'x', SIZE);
  while (n-- > 0)
    if (write(fd, buffer, SIZE) != SIZE || !get(fd, buffer)) die("trip");
}

static void ping(int port, long n)
{
  int fd = dial(port);
  trips(fd, n / 10);
  double start = now();
  trips(fd, n);
  printf("trips %.6g round trips/s\n", (double)n / (now() - start));
}

static void hold(int port, long n)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  for (long i = 0; i < n; i++) dial(port);
  printf("held %ld connections\n", n);
  fflush(stdout);
  while (getchar() != EOF) { }
}

int main(int argc, char **argv)
{
  if (argc == 2 && strcmp(argv[1], "echo") == 0) echo();
  else if (argc == 4 && strcmp(argv[1], "ping") == 0) ping(atoi(argv[2]), atol(argv[3]));
  else if (argc == 4 && strcmp(argv[1], "hold") == 0) hold(atoi(argv[2]), atol(argv[3]));
  else {
    fprintf(stderr, "usage: net echo | net ping PORT TRIPS | net hold PORT COUNT\n");
    return 2;
  }
  return 0;
}
