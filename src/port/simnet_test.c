/*
 * The network inside the program: who connects reaches who listens, bytes come whole, in order and all, however they are cut; what is gone is told as TCP and
 * Unix sockets tell it; addresses are free again after a close; watchers hear in the order of events; datagrams; what fails without memory leaves nothing.
 */
#include "port/simnet.h"
#include "port/sim.h"
#include "port/test.h"

#include <errno.h>

static long left = -1;                         /* allocations until one fails */
#if !defined(PORT_ASAN) && !defined(PORT_TSAN) && defined(__GLIBC__)
#define FAILS 1
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
static int fails(void) { return left >= 0 && left-- == 0; }
void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails() ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
#else
#define FAILS 0
#endif

static size_t most;                            /* bytes that go through at once; 0: all */
static size_t cut(size_t n) { return most && n > most ? most : n; }

static port_addr at(const char *host, int port) {
  port_addr a;
  CHECK(port_addr_numeric(&a, host, port) == 0);
  return a;
}

static port_addr path(const char *name) {
  port_addr a;
  CHECK(port_addr_unix(&a, name, strlen(name)) == 0);
  return a;
}

static int where(int fd, int remote, char text[PORT_ADDR_TEXT]) {
  port_addr a;
  CHECK((remote ? port_net_peer(fd, &a) : port_net_local(fd, &a)) == 0);
  port_addr_text(&a, text);
  return port_addr_port(&a);
}

static int listener(const char *host, int port) {
  port_addr a = at(host, port);
  int fd;
  CHECK(port_net_socket(port_addr_family(&a), PORT_STREAM, &fd) == 0 && port_is_sim(fd));
  CHECK(port_net_option_set(fd, "reuseaddr", 1) == 0);
  CHECK(port_net_bind(fd, &a) == 0 && port_net_listen(fd, 5) == 0);
  return fd;
}

static int client(const port_addr *a, int *err) {
  int fd;
  CHECK(port_net_socket(port_addr_family(a), PORT_STREAM, &fd) == 0);
  if ((*err = port_net_connect(fd, a)) == 0) return fd;
  port_net_close(fd);
  return -1;
}

static long send_text(int fd, const char *s) { return port_net_write(fd, &(port_slice){ s, strlen(s) }, 1); }

static int gets(int fd, const char *want) {
  char buf[256];
  long n = port_net_read(fd, buf, sizeof buf);
  return n == (long)strlen(want) && memcmp(buf, want, (size_t)n) == 0;
}

static void poll_all(void) {
  port_ready r[16];
  while (port_poll(r, 16) == 16) { }
}

static void pair(int fd[2]) {
  char text[PORT_ADDR_TEXT];
  int l = listener("127.0.0.1", 0), err;
  port_addr a = at("127.0.0.1", where(l, 0, text));
  fd[0] = client(&a, &err);
  CHECK(fd[0] >= 0 && port_net_accept(l, &fd[1]) == 0);
  port_net_close(l);
}

static void end(int fd[2]) {
  port_net_close(fd[0]);
  port_net_close(fd[1]);
}

static void test_who_connects_reaches_who_listens(void) {
  char text[PORT_ADDR_TEXT];
  int l = listener("0.0.0.0", 0), port = where(l, 0, text), err, conn = -1;
  CHECK(port >= 49152 && strcmp(text, "0.0.0.0") == 0);
  port_addr a = at("127.0.0.5", port), b = at("127.0.0.5", port + 1), six = at("::1", port);
  CHECK(client(&b, &err) < 0 && err == ECONNREFUSED);
  CHECK(client(&six, &err) < 0 && err == ECONNREFUSED);
  CHECK(!port_net_readable(l) && port_net_accept(l, &conn) == EAGAIN);
  int c = client(&a, &err);
  CHECK(c >= 0 && port_net_connected(c) == 0 && port_net_readable(l));
  CHECK(port_net_accept(l, &conn) == 0 && !port_net_readable(l));
  CHECK(where(c, 1, text) == port && strcmp(text, "127.0.0.5") == 0);
  CHECK(where(conn, 0, text) == port && strcmp(text, "127.0.0.5") == 0);
  int own = where(c, 0, text);
  CHECK(strcmp(text, "127.0.0.1") == 0 && own > port && where(conn, 1, text) == own);
  CHECK(port_net_connect(c, &a) == EISCONN);
  CHECK(!port_net_readable(conn) && port_net_writable(conn) && port_net_read(conn, text, 1) == -EAGAIN);
  CHECK(send_text(c, "hello") == 5 && gets(conn, "hello") && send_text(conn, "you") == 3 && gets(c, "you"));
  port_net_close(conn);
  port_net_close(c);
  port_net_close(l);
  CHECK(client(&a, &err) < 0 && err == ECONNREFUSED);
  CHECK(sim_all == NULL);
}

static void test_an_address_is_taken_until_it_is_closed(void) {
  int l = listener("127.0.0.1", 80), fd, err;
  port_addr a = at("127.0.0.1", 80), any = at("::", 80);
  CHECK(port_net_socket(PORT_INET, PORT_STREAM, &fd) == 0);
  CHECK(port_net_bind(fd, &a) == EADDRINUSE);
  port_net_close(fd);
  CHECK(port_net_socket(PORT_INET6, PORT_STREAM, &fd) == 0 && port_net_bind(fd, &any) == EADDRINUSE);
  CHECK(port_net_option_set(fd, "v6only", 1) == 0 && port_net_bind(fd, &any) == 0 && port_net_listen(fd, 1) == 0);
  port_net_close(fd);
  int c = client(&a, &err);                    /* not accepted: it hears of it */
  port_net_close(l);
  CHECK(port_net_read(c, &fd, 1) == -ECONNRESET && port_net_read(c, &fd, 1) == 0);
  port_net_close(c);
  port_net_close(listener("127.0.0.1", 80));
  CHECK(sim_all == NULL);
}

static void test_only_addresses_of_the_program_are_inside(void) {
  int err, l = listener("10.0.0.7", 99), conn = -1;
  port_addr far = at("10.0.0.7", 99), other = at("10.0.0.8", 99), none = path("/tmp/no such socket");
  CHECK(port_sim_inside(&far) && !port_sim_inside(&other) && port_sim_inside(&none));
  int c = client(&far, &err);
  CHECK(c >= 0 && port_net_accept(l, &conn) == 0);
  CHECK(client(&other, &err) < 0 && err == ENETUNREACH);
  CHECK(client(&none, &err) < 0 && err == ENOENT);
  CHECK(port_sim_knows("localhost") && port_sim_knows("a.localhost") && port_sim_knows(NULL) && !port_sim_knows("example.org"));
  port_net_close(c);
  port_net_close(conn);
  port_net_close(l);
  CHECK(!port_sim_inside(&far));
}

static void test_an_end_is_told_as_tcp_tells_it(void) {
  int fd[2];
  char c;
  pair(fd);                                    /* half closed */
  CHECK(send_text(fd[0], "last") == 4 && port_net_shutdown(fd[0], 0, 1) == 0 && send_text(fd[0], "x") == -EPIPE);
  CHECK(gets(fd[1], "last") && port_net_readable(fd[1]) && port_net_read(fd[1], &c, 1) == 0);
  CHECK(send_text(fd[1], "answer") == 6 && gets(fd[0], "answer"));
  end(fd);
  pair(fd);                                    /* gone: what was sent is read, the first write is lost, the next one fails */
  CHECK(send_text(fd[0], "bye") == 3);
  port_net_close(fd[0]);
  CHECK(gets(fd[1], "bye") && port_net_read(fd[1], &c, 1) == 0);
  CHECK(send_text(fd[1], "lost") == 4 && send_text(fd[1], "more") == -EPIPE && port_net_read(fd[1], &c, 1) == 0);
  port_net_close(fd[1]);
  pair(fd);                                    /* gone with bytes unread */
  CHECK(send_text(fd[1], "unread") == 6);
  port_net_close(fd[0]);
  CHECK(port_net_readable(fd[1]) && port_net_read(fd[1], &c, 1) == -ECONNRESET && port_net_read(fd[1], &c, 1) == 0);
  port_net_close(fd[1]);
  pair(fd);
  CHECK(port_net_option_set(fd[0], "linger", 0) == 0);
  port_net_close(fd[0]);
  CHECK(send_text(fd[1], "x") == -ECONNRESET && send_text(fd[1], "x") == -EPIPE);
  port_net_close(fd[1]);
}

/* Numbers through a full ring, again and again; the reader takes other amounts than the writer gives. */
static void test_bytes_come_in_order_and_all(void) {
  enum { ALL = 1000000 };
  static unsigned char out[40000], in[30000];
  for (most = 0; most < 10000; most = most ? most * 7 : 1000) {
    int fd[2];
    size_t sent = 0, got = 0;
    pair(fd);
    while (got < ALL) {
      for (size_t i = 0; i < sizeof out; i++) out[i] = (unsigned char)((sent + i) * 7 >> 3);
      port_slice s[2] = { { (const char *)out, 17 }, { (const char *)out + 17, sizeof out - 17 } };
      long n = port_net_write(fd[0], s, 2);
      CHECK(n > 0 || n == -EAGAIN);
      if (n > 0) sent += (size_t)n;
      while ((n = port_net_read(fd[1], in, sizeof in)) > 0) {
        for (long i = 0; i < n; i++)
          if (in[i] != (unsigned char)((got + (size_t)i) * 7 >> 3)) return CHECK(!"a wrong byte");
        got += (size_t)n;
      }
      CHECK(n == -EAGAIN);
      poll_all();
    }
    end(fd);
  }
  most = 0;
}

static void test_a_cut_leaves_the_rest_for_the_next_poll(void) {
  int fd[2];
  char c;
  port_ready r[4];
  pair(fd);
  CHECK(port_poll_add(fd[1], 7, PORT_READ | PORT_WRITE, PORT_EDGE) == 0);
  poll_all();
  CHECK(send_text(fd[0], "abcdef") == 6);
  most = 4;
  CHECK(gets(fd[1], "abcd"));
  most = 0;
  CHECK(!port_net_readable(fd[1]) && port_net_read(fd[1], &c, 1) == -EAGAIN);
  CHECK(send_text(fd[0], "gh") == 2);          /* behind it */
  CHECK(port_net_read(fd[1], &c, 1) == -EAGAIN);
  CHECK(port_sim_news && port_poll(r, 4) == 1 && r[0].tag == 7 && r[0].what == PORT_READ);
  CHECK(gets(fd[1], "efgh"));
  most = 2;
  CHECK(send_text(fd[0], "xyz") == 2 && send_text(fd[0], "z") == -EAGAIN && !port_net_writable(fd[0]));
  most = 0;
  poll_all();
  CHECK(port_net_writable(fd[0]) && send_text(fd[0], "z") == 1 && gets(fd[1], "xyz"));
  end(fd);
}

static void test_watchers_hear_in_the_order_of_events(void) {
  int a[2], b[2], copy;
  port_ready r[8];
  pair(a);
  pair(b);
  CHECK(port_poll_add(a[1], 1, PORT_READ, PORT_EDGE) == 0 && port_poll_add(b[1], 2, PORT_READ, PORT_EDGE) == 0);
  CHECK(port_poll_add(b[1], 2, PORT_READ, PORT_EDGE) == port_error_exists);
  CHECK(port_poll(r, 8) == 0);
  CHECK(send_text(b[0], "x") == 1 && send_text(a[0], "x") == 1 && send_text(b[0], "x") == 1);
  CHECK(port_poll(r, 8) == 2 && r[0].tag == 2 && r[1].tag == 1 && port_poll(r, 8) == 0);
  CHECK(port_net_duplicate(a[1], &copy) == 0 && port_poll_add(copy, 3, PORT_READ, PORT_ONCE) == 0);
  CHECK(port_poll(r, 8) == 1 && r[0].tag == 3);
  CHECK(send_text(a[0], "y") == 1 && port_poll(r, 1) == 1 && r[0].tag == 1 && port_poll(r, 8) == 0);
  port_net_close(copy);
  CHECK(gets(a[1], "xy"));                     /* the copy was one of two */
  CHECK(send_text(b[0], "z") == 1 && gets(b[1], "xxz") && port_poll(r, 8) == 0);     /* not so any more */
  port_net_close(b[0]);
  CHECK(port_poll_remove(b[1]) == 0 && port_poll(r, 8) == 0);
  CHECK(port_poll_add(b[1], 4, PORT_READ, PORT_EDGE) == 0 && port_poll(r, 8) == 1 && r[0].what == (PORT_READ | PORT_HUP));
  port_net_close(b[1]);
  end(a);
}

static void test_room_is_told_to_who_waits_for_it(void) {
  int fd[2];
  port_ready r[8];
  static char much[100000];
  pair(fd);
  CHECK(port_poll_add(fd[0], 1, PORT_READ | PORT_WRITE, PORT_EDGE) == 0);
  CHECK(port_poll(r, 8) == 1 && r[0].what == PORT_WRITE);
  long n = port_net_write(fd[0], &(port_slice){ much, sizeof much }, 1);
  CHECK(n > 0 && n < (long)sizeof much && send_text(fd[0], "x") == -EAGAIN && !port_net_writable(fd[0]));
  CHECK(port_net_read(fd[1], much, 1000) == 1000 && port_poll(r, 8) == 0);
  CHECK(port_net_read(fd[1], much, sizeof much) == n - 1000 && port_poll(r, 8) == 1 && r[0].what == PORT_WRITE);
  end(fd);
}

static void test_sockets_with_paths(void) {
  port_addr a = path("/tmp/mare sim"), named;
  int l, err, conn = -1, other;
  char text[PORT_ADDR_TEXT];
  CHECK(port_addr_unix(&named, "\0sim", 4) == 0 && client(&named, &err) < 0 && err == ECONNREFUSED);
  CHECK(port_net_socket(PORT_UNIX, PORT_STREAM, &l) == 0 && port_net_bind(l, &a) == 0 && port_net_listen(l, 1) == 0);
  CHECK(access("/tmp/mare sim", F_OK) != 0);
  CHECK(port_net_socket(PORT_UNIX, PORT_STREAM, &other) == 0 && port_net_bind(other, &a) == EADDRINUSE);
  int c = client(&a, &err);
  CHECK(c >= 0 && port_net_accept(l, &conn) == 0 && send_text(c, "hi") == 2 && gets(conn, "hi"));
  where(c, 1, text);
  CHECK(strcmp(text, "/tmp/mare sim") == 0);
  where(conn, 1, text);
  CHECK(!*text);
  port_net_close(conn);
  CHECK(send_text(c, "x") == -EPIPE);
  port_net_close(c);
  port_net_close(l);
  port_net_close(other);
  CHECK(client(&a, &err) < 0 && err == ENOENT && sim_all == NULL);
}

static int datagrams(int family, const port_addr *a) {
  int fd;
  CHECK(port_net_socket(family, PORT_DATAGRAM, &fd) == 0 && (!a || port_net_bind(fd, a) == 0));
  return fd;
}

static void test_datagrams(void) {
  port_addr a = at("127.0.0.1", 53), from, nobody = at("127.0.0.1", 54), mapped = a;
  char buf[100];
  int s = datagrams(PORT_INET, &a), c = datagrams(PORT_INET6, NULL);
  port_addr_map(&mapped);
  CHECK(port_net_receive(s, buf, sizeof buf, &from) == -EAGAIN && port_net_send(c, "x", 1, NULL) == -EDESTADDRREQ);
  CHECK(port_net_send(c, "one", 3, &mapped) == 3 && port_net_send(c, "", 0, &mapped) == 0 && port_net_readable(s));
  CHECK(port_net_receive(s, buf, 2, &from) == 2 && memcmp(buf, "on", 2) == 0 && port_addr_family(&from) == PORT_INET);
  CHECK(port_net_receive(s, buf, sizeof buf, &from) == 0 && port_net_send(s, "back", 4, &from) == 4);
  CHECK(port_net_receive(c, buf, sizeof buf, &from) == 4 && port_addr_family(&from) == PORT_INET6 && port_addr_port(&from) == 53);
  CHECK(port_net_send(s, "x", 1, &nobody) == 1);                 /* lost */
  CHECK(port_net_connect(s, &nobody) == 0 && port_net_send(s, "x", 1, NULL) == 1 && port_net_readable(s));
  CHECK(port_net_receive(s, buf, sizeof buf, &from) == -ECONNREFUSED && port_net_disconnect(s) == 0 && port_net_peer(s, &from) == ENOTCONN);
  for (int i = 0; i < 1000; i++) CHECK(port_net_send(c, "x", 1, &mapped) == 1);
  int n = 0;
  while (port_net_receive(s, buf, sizeof buf, &from) == 1) n++;
  CHECK(n == 256);                             /* the others were lost */
  port_net_close(s);
  port_net_close(c);
}

static void test_datagrams_with_paths_wait_for_room(void) {
  port_addr a = path("/tmp/mare sim"), from;
  port_ready r[4];
  int c = datagrams(PORT_UNIX, NULL), n = 0;
  char buf[4];
  CHECK(port_net_send(c, "x", 1, &a) == -ENOENT);
  int s = datagrams(PORT_UNIX, &a);
  CHECK(port_poll_add(c, 1, PORT_WRITE, PORT_EDGE) == 0);
  poll_all();
  while (port_net_send(c, "x", 1, &a) == 1) n++;
  CHECK(n == 256 && port_net_send(c, "x", 1, &a) == -EAGAIN && port_poll(r, 4) == 0);
  CHECK(port_net_receive(s, buf, 4, &from) == 1 && port_addr_text(&from, (char[PORT_ADDR_TEXT]){ 0 }) == 0);
  CHECK(port_poll(r, 4) == 1 && r[0].what == PORT_WRITE && port_net_send(c, "x", 1, &a) == 1);
  port_net_close(c);
  port_net_close(s);
  CHECK(sim_all == NULL);
}

/* Whatever fails, closing leaves nothing. 1: it was done. */
static int work(void) {
  static const char much[5000];
  int l = -1, c = -1, conn = -1, u = -1, ok = 0;
  port_addr a = at("127.0.0.1", 7000);
  if (port_net_socket(PORT_INET, PORT_STREAM, &l) == 0 && port_net_bind(l, &a) == 0 && port_net_listen(l, 5) == 0 &&
      port_net_socket(PORT_INET, PORT_STREAM, &c) == 0 && port_net_connect(c, &a) == 0 && port_net_accept(l, &conn) == 0 &&
      send_text(c, "hello") == 5 && port_net_write(c, &(port_slice){ much, sizeof much }, 1) == sizeof much &&
      port_net_socket(PORT_INET, PORT_DATAGRAM, &u) == 0 && port_net_bind(u, &a) == 0 && port_net_send(u, "x", 1, &a) == 1) ok = 1;
  if (l >= 0) port_net_close(l);
  if (c >= 0) port_net_close(c);
  if (conn >= 0) port_net_close(conn);
  if (u >= 0) port_net_close(u);
  return ok;
}

static void test_without_memory_nothing_is_left(void) {
  int n = 0;
  if (!FAILS) return;
  for (int ok = 0; !ok && n < 100; n++) {
    left = n;
    ok = work();
    left = -1;
    CHECK(sim_all == NULL);
  }
  CHECK(n > 8 && work() && sim_all == NULL);
}

int main(void) {
  port_sim_begin(cut);
  test_who_connects_reaches_who_listens();
  test_an_address_is_taken_until_it_is_closed();
  test_only_addresses_of_the_program_are_inside();
  test_an_end_is_told_as_tcp_tells_it();
  test_bytes_come_in_order_and_all();
  test_a_cut_leaves_the_rest_for_the_next_poll();
  test_watchers_hear_in_the_order_of_events();
  test_room_is_told_to_who_waits_for_it();
  test_sockets_with_paths();
  test_datagrams();
  test_datagrams_with_paths_wait_for_room();
  test_without_memory_nothing_is_left();
  return CHECK_RESULT();
}
