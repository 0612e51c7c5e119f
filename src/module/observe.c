/*
 * observe: the observer's thread: connections, and how long they may take.
 *
 * Two kinds of them. A tool's, through the door, sends lines and gets a line for each; a reader's of metrics sends one request of HTTP. What is said
 * is Lua's matter (lua/mare/observe/protocol.lua); here are bytes. Nobody can do harm by what they send, or don't: a line and a head have a limit, so
 * has the time that each may take and the number of connections (the oldest goes when there are too many), and who does not read is not waited for.
 *
 * The thread alone touches clients and the Lua state. `o.lock` guards whether the thread runs; what others want is in atomics, and the bell wakes it.
 */
#include "module/observe.h"
#include "base/embedded.h"
#include "base/rank.h"
#include "heap/pool.h"
#include "observe/trace.h"
#include "port/door.h"
#include "port/net.h"
#include "port/poll.h"
#include "run/run.h"
#include "state/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 32, HEAD = 8192, LINE = 1024 };
enum { TOOL, READER, DRAIN };                    /* DRAIN: a reader that has been answered; what it still sends is thrown away */
#define SECOND 1000000000u
#define IDLE (600 * (uint64_t)SECOND)            /* a tool may be silent for so long, */
#define STALL (5 * (uint64_t)SECOND)             /* take so long to read an answer, to send a head, */
#define LINGER (2 * (uint64_t)SECOND)            /* and to hang up */
#define FULL (SECOND / 20)
#define ENDING SECOND                            /* the end of the runtime waits no longer for the thread */

typedef struct client {
  int fd;
  unsigned char kind;
  unsigned char last;                            /* nothing after this answer */
  uint64_t until;
  char *out;                                     /* what is to be written; NULL: nothing, so it may ask */
  size_t length, at, in;
  char text[HEAD];                               /* what has been read and not been answered */
} client;

static struct {
  port_lock lock;
  int runs;                                      /* (lock) */
  port_event ended;
  atomic_int bell;                               /* descriptor + 1 */
  atomic_int stop, knocked;
  atomic_int door;                               /* descriptor + 1, likewise */
  atomic_int opening;                            /* somebody opens the door: a knock and the program itself may want it at the same time */
  atomic_int metrics[MR_METRICS];
  lua_State *L;
  client *client[CLIENTS];
} o = { .lock = PORT_LOCK(MR_RANK_OBSERVE) };

/* ---- words ---- */

static const char protocol_key;                  /* in the registry: the function that answers */

typedef struct question { const char *kind, *text; size_t length; char *out; size_t size; int last; } question;

/* question, whose answer is malloc'd: all that may raise for want of memory is in here */
static int l_answer(lua_State *L) {
  question *q = lua_touserdata(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &protocol_key);
  lua_pushstring(L, q->kind);
  lua_pushlstring(L, q->text, q->length);
  lua_call(L, 2, 2);
  const char *s = luaL_checklstring(L, -2, &q->size);
  q->last = lua_toboolean(L, -1);
  q->out = malloc(q->size + 1);
  if (q->out) memcpy(q->out, s, q->size);
  return 0;
}

static int l_require(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, name) != LUA_TNIL) return 1;
  const struct mr_embedded *e = mr_embedded_find(name);
  if (!e) return luaL_error(L, "'%s' is not part of this library", name);
  if (mr_chunk_text(L, e->file, (const char *)e->code, e->size) != LUA_OK) return lua_error(L);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_pushvalue(L, -1);
  lua_setfield(L, 2, name);
  return 1;
}

static int l_open(lua_State *L) {
  static const luaL_Reg libraries[] = {
    { LUA_GNAME, luaopen_base }, { LUA_TABLIBNAME, luaopen_table }, { LUA_STRLIBNAME, luaopen_string }, { LUA_MATHLIBNAME, luaopen_math },
    { LUA_UTF8LIBNAME, luaopen_utf8 }, { NULL, NULL }
  };
  for (const luaL_Reg *l = libraries; l->name; l++) {
    luaL_requiref(L, l->name, l->func, 1);
    lua_pop(L, 1);
  }
  luaL_requiref(L, "mare.json.core", luaopen_mare_json_core, 0);
  lua_pop(L, 1);
  lua_pushcfunction(L, l_require);
  lua_setglobal(L, "require");
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mare.observe.protocol");
  lua_call(L, 1, 1);
  mr_observed_open(L);
  lua_call(L, 1, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &protocol_key);
  return 0;
}

static lua_State *state_new(void) {
  lua_State *L = luaL_newstate();
  if (!L) return NULL;
  lua_pushcfunction(L, l_open);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) return L;
  lua_close(L);
  return NULL;
}

/* What is said to `text` becomes c->out; 0: there is no memory for it. */
static int answer(client *c, const char *kind, const char *text, size_t n) {
  question q = { .kind = kind, .text = text, .length = n };
  lua_settop(o.L, 0);
  lua_pushcfunction(o.L, l_answer);
  lua_pushlightuserdata(o.L, &q);
  if (lua_pcall(o.L, 1, 0, 0) != LUA_OK || !q.out) return 0;
  c->last = c->last || q.last;
  c->out = q.out;
  c->length = q.size;
  c->at = 0;
  c->until = port_now() + STALL;
  return 1;
}

/* ---- connections ---- */

/* While a tool is there, CPU times are exact. */
static void count_tools(int by) {
  static int tools;
  if (tools == 0 || tools + by == 0) mr_observe(by);
  if ((tools += by) == 0) mr_observed_forget();
}

static void client_end(int i) {
  client *c = o.client[i];
  o.client[i] = NULL;
  if (c->kind == TOOL) count_tools(-1);
  port_door_drop(c->fd);
  free(c->out);
  free(c);
}

/* Readers of metrics may be anybody, so they go before tools. */
static int goes_before(const client *a, const client *b) {
  if ((a->kind == TOOL) != (b->kind == TOOL)) return a->kind != TOOL;
  return a->until < b->until;
}

/* A free place; the one whose time is over first makes room. */
static int place(void) {
  int first = 0;
  for (int i = 0; i < CLIENTS; i++) {
    if (!o.client[i]) return i;
    if (goes_before(o.client[i], o.client[first])) first = i;
  }
  client_end(first);
  return first;
}

static void take_in(int listener, int kind) {
  int fd, err = port_net_accept(listener, &fd);
  if (err && !PORT_WOULD_BLOCK(err)) port_sleep(FULL);   /* no descriptor is left: the listener stays readable */
  if (err) return;
  client *c = kind == TOOL && !port_door_mine(fd) ? NULL : calloc(1, sizeof *c);
  if (!c) {
    port_net_close(fd);
    return;
  }
  int i = place();
  port_door_hold(fd);
  o.client[i] = c;
  c->fd = fd;
  c->kind = (unsigned char)kind;
  c->until = port_now() + STALL;
  if (kind != TOOL) return;
  count_tools(1);
  if (!answer(c, "hello", "", 0)) client_end(i);
}

/* Nothing more is said; what is on its way to us would make the system forget what is on its way to them. */
static int hang_up(client *c) {
  if (c->kind == TOOL) return 0;
  c->kind = DRAIN;
  c->until = port_now() + LINGER;
  c->in = 0;
  return port_net_shutdown(c->fd, 0, 1) == 0;
}

/* 0: it is over. */
static int write_out(client *c) {
  port_slice s = { c->out + c->at, c->length - c->at };
  long n = port_net_write(c->fd, &s, 1);
  if (n < 0) return PORT_WOULD_BLOCK((int)-n);
  c->at += (size_t)n;
  if (c->at < c->length) return 1;
  free(c->out);
  c->out = NULL;
  if (c->last) return hang_up(c);
  c->until = port_now() + IDLE;
  return 1;
}

/* The first line of what was read is answered. 1: it was; 0: there is none yet, -1: it is over. */
static int answer_line(client *c) {
  char *end = memchr(c->text, '\n', c->in);
  size_t n = end ? (size_t)(end - c->text) : c->in;
  if (!end && n < LINE) return 0;
  if (!end || n > LINE) {
    c->last = 1;
    return answer(c, "long", "", 0) ? 1 : -1;
  }
  if (!answer(c, "line", c->text, n - (n > 0 && end[-1] == '\r'))) return -1;
  c->in -= n + 1;
  memmove(c->text, end + 1, c->in);
  return 1;
}

static int head_ends(const client *c) {
  for (size_t i = 1; i < c->in; i++)
    if (c->text[i] == '\n' && (c->text[i - 1] == '\n' || (i >= 3 && c->text[i - 1] == '\r' && c->text[i - 2] == '\n'))) return 1;
  return 0;
}

static int answer_head(client *c) {
  int whole = head_ends(c);
  if (!whole && c->in < HEAD) return 0;
  c->last = 1;
  return answer(c, whole ? "http" : "httplong", c->text, c->in) ? 1 : -1;
}

static int answer_next(client *c) { return c->kind == TOOL ? answer_line(c) : answer_head(c); }

/* 0: it is over. */
static int read_in(client *c) {
  long n = port_net_read(c->fd, c->text + c->in, HEAD - c->in);
  if (n <= 0) return n < 0 && PORT_WOULD_BLOCK((int)-n);
  if (c->kind == DRAIN) return 1;
  c->in += (size_t)n;
  return 1;
}

/* Reads, answers, writes, as far as that goes. A line a round: others have a turn, too. 0: it is over. */
static int attend(client *c, const struct port_want *w) {
  if (w->read && !read_in(c)) return 0;
  if (!c->out && c->kind != DRAIN && answer_next(c) < 0) return 0;
  if (c->out && !write_out(c)) return 0;
  return 1;
}

/* Is there something to answer already, though nothing comes? */
static int has_line(const client *c) { return !c->out && c->kind == TOOL && memchr(c->text, '\n', c->in) != NULL; }

/* ---- the thread ---- */

/* What is waited for: the bell, the listeners, the clients, in this order. */
typedef struct waits { struct port_want want[2 + MR_METRICS + CLIENTS]; int of[2 + MR_METRICS + CLIENTS]; int n, first; } waits;

static void wait_add(waits *w, int fd, int read, int write, int of) {
  w->want[w->n] = (struct port_want){ .fd = fd, .read = (unsigned char)read, .write = (unsigned char)write };
  w->of[w->n++] = of;
}

/* Milliseconds until the first deadline; those that are over are ended. */
static int waits_make(waits *w) {
  uint64_t now = port_now(), until = UINT64_MAX;
  int ready = 0;
  w->n = 0;
  wait_add(w, atomic_load(&o.bell) - 1, 1, 0, -1);
  if (atomic_load(&o.door)) wait_add(w, atomic_load(&o.door) - 1, 1, 0, TOOL);
  for (int i = 0; i < MR_METRICS; i++)
    if (atomic_load(&o.metrics[i])) wait_add(w, atomic_load(&o.metrics[i]) - 1, 1, 0, READER);
  w->first = w->n;
  for (int i = 0; i < CLIENTS; i++) {
    client *c = o.client[i];
    if (c && c->until <= now) client_end(i), c = NULL;
    if (!c) continue;
    wait_add(w, c->fd, !c->out && c->in < HEAD, c->out != NULL, i);
    if (c->until < until) until = c->until;
    ready = ready || has_line(c);
  }
  if (ready) return 0;
  return until == UINT64_MAX ? -1 : (int)((until - now) / 1000000u) + 1;
}

static int open_door(void) {
  int fd, err = 0;
  while (atomic_exchange(&o.opening, 1)) port_sleep(100000);
  if (!atomic_load(&o.door) && (err = port_door_open(&fd)) == 0) {
    port_door_hold(fd);
    atomic_store(&o.door, fd + 1);
  }
  atomic_store(&o.opening, 0);
  return err;
}

static void rounds(void) {
  waits w;
  while (!atomic_load(&o.stop)) {
    if (atomic_exchange(&o.knocked, 0)) open_door();
    int ms = waits_make(&w);
    port_net_await_any(w.want, w.n, ms);
    if (w.want[0].read) port_bell_clear(w.want[0].fd);
    for (int i = 1; i < w.first; i++)
      if (w.want[i].read) take_in(w.want[i].fd, w.of[i]);
    for (int i = w.first; i < w.n; i++) {
      client *c = o.client[w.of[i]];
      if (!c || c->fd != w.want[i].fd) continue;       /* it has made room */
      if ((w.want[i].read || w.want[i].write || has_line(c)) && !attend(c, &w.want[i])) client_end(w.of[i]);
    }
  }
}

static void drop(atomic_int *fd) {
  int n = atomic_exchange(fd, 0);
  if (n) port_door_drop(n - 1);
}

/* Was somebody knocking while this one was to end, too late for who waited for its end? The runtime has started again since. */
static int goes_on(void) {
  port_acquire(&o.lock);
  int again = atomic_load(&o.knocked) && !mr_run_stopping() && !mr_run_dead();
  if (again) {
    atomic_store(&o.stop, 0);
  } else {
    o.runs = 0;
    port_event_set(&o.ended);                    /* under the lock: who starts the next one takes it, or that would seem to have ended */
  }
  port_unlock(&o.lock);
  return again;
}

static void once(void) {
  o.L = state_new();
  if (o.L) rounds();
  for (int i = 0; i < CLIENTS; i++)
    if (o.client[i]) client_end(i);
  port_door_close();
  drop(&o.door);
  for (int i = 0; i < MR_METRICS; i++) drop(&o.metrics[i]);
  if (o.L) lua_close(o.L);
  o.L = NULL;
  mr_trace_leave();                              /* who was woken here, or ended, is in a trace and in the pool */
  mr_pool_thread_exit();
}

static void thread(void *arg) {
  (void)arg;
  do once();
  while (goes_on());
}

/* The thread runs, and looks at what has changed. 0 or an errno value. */
static int awake(void) {
  int err = 0;
  port_acquire(&o.lock);
  if (!atomic_load(&o.bell)) {
    int bell = port_bell_open();
    atomic_store(&o.bell, bell + 1);
    if (bell < 0) err = EMFILE;
  }
  if (!err && !o.runs) {
    atomic_store(&o.stop, 0);
    port_event_wait(&o.ended, 0);                /* of a thread that ended too late to be waited for */
    err = port_thread_start(thread, NULL, "mare-observe");
    o.runs = !err;
  }
  port_unlock(&o.lock);
  if (!err) port_bell_ring(atomic_load(&o.bell) - 1);
  return err;
}

/* ---- what others ask ---- */

/* On the monitor's thread, which is not to wait for disks. */
static void knocked(void) {
  if (mr_run_stopping()) return;
  atomic_store(&o.knocked, 1);
  awake();
}

/* The runtime has stopped, and may start again. A thread that does not end in time - it is the system that keeps it - goes on ending by itself. */
static void unobserve(void) {
  if (mr_run_dead()) return;                     /* a forked child, where there is no such thread */
  port_acquire(&o.lock);
  int runs = o.runs;
  port_unlock(&o.lock);
  if (!runs) return;
  port_door_close();
  atomic_store(&o.stop, 1);
  port_bell_ring(atomic_load(&o.bell) - 1);
  port_event_wait(&o.ended, port_now() + ENDING);
}

/* Knocks are heard from now on. */
void mr_observe_setup(void) {
  mr_hooks.knocked = knocked;
  mr_hooks.unobserve = unobserve;
  port_door_knocked(mr_run_knocked);
}

int mr_observe_open(void) {
  int err = open_door();
  if (err) return err;
  err = awake();
  if (err) {
    port_door_close();
    drop(&o.door);
  }
  return err;
}

void mr_observe_metrics(lua_State *L, int idx) {
  int fd[MR_METRICS], n = mr_metrics_listen(L, idx, fd);
  for (int i = 0; i < n; i++) {
    port_door_hold(fd[i]);
    atomic_store(&o.metrics[i], fd[i] + 1);
  }
  if (awake() != 0) luaL_error(L, "can't serve metrics: no thread is to be had");
}
