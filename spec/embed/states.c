/*
 * states WHAT: several host states in one program.
 *
 *   again   opens and closes a host a hundred times; afterwards every thread of mare is gone
 *   talk    four threads with a state each: named channels, channels sent through a process, each waits for the others
 *   churn   threads that open, use and close hosts as fast as they can, all at once
 *   first   the first host to open is the first to close, with processes that the others end
 *   late    finalisers that call mare after its host has closed; handles of a host that is gone
 *   fork    the child of fork() is told that mare does not work there; the parent goes on
 *   fork observed       a child of fork() holds nothing of what mare top is connected with, and takes no socket away
 *   fork while it waits   what the child's state closes stays open for the parent: a connection that is being made, a selector
 *   parked  the last host closes while processes are parked for ever; a new one starts afresh
 *   slow    the same, while a thread is still on its way out
 *   starved the same, while other programs leave next to no CPU
 *   due     a host closes while workers wake its fibers
 */
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int threads(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/task");
  CHECK(d);
  for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

/* Threads that have ended take a moment to disappear. */
static void expect_threads(int n) {
  for (int i = 0; i < 30000 && threads() > n; i++) nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
  if (threads() > n) {
    fprintf(stderr, "%d threads are left, not %d\n", threads(), n);
    exit(1);
  }
}

static void *in_state(void *code) {
  lua_State *L = open_state();
  run(L, code);
  lua_close(L);
  return NULL;
}

static pthread_t start(const char *code) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, in_state, (void *)code) == 0);
  return id;
}

static void again(void) {
  int before = threads();
  for (int i = 0; i < 100; i++) {
    in_state("local mare = require 'mare'\n"
             "local c = mare.channel.new()\n"
             "local list = {}\n"
             "for i = 1, 3 do list[i] = mare.process.spawn(function() c:send({ i }) return i end) end\n"
             "for _ = 1, 3 do assert(#c:receive() == 1) end\n"
             "for i = 1, 3 do local ok, v = list[i]:wait() assert(ok and v == i) end\n"
             "mare.process.spawn(function() table.sort({ 2, 1 }, function(a, b) mare.sleep(0.0001) return a < b end) end)\n");
    expect_threads(before);
  }
}

static void talk(void) {
  static const char code[] =
    "local mare = require 'mare'\n"
    "local inbox = mare.channel.new(math.huge)\n"
    "local hall = mare.channel.named('hall', math.huge)\n"
    "local p = mare.process.spawn(function(c) hall:send(c) hall:send({ c }) end, inbox)\n"   /* each inbox, twice */
    "assert(p:wait())\n"
    "local others = {}\n"
    "for i = 1, 2 do local c = hall:receive() others[i] = type(c) == 'table' and c[1] or c end\n"
    "for i = 1, 2000 do\n"
    "  for _, c in ipairs(others) do c:send(i, { text = 'x' .. i }) end\n"
    "  for _ = 1, 2 do local n, t = inbox:receive() assert(t.text == 'x' .. n) end\n"
    "end\n"
    "local list = {}\n"
    "for i = 1, 20 do list[i] = mare.process.spawn(function() return i end) end\n"
    "for i = 1, 20 do assert(select(2, list[i]:wait()) == i) end\n";
  pthread_t id[4];
  for (int i = 0; i < 4; i++) id[i] = start(code);
  for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
  in_state("require 'mare'.channel.named('hall'):close()");
}

static void *churner(void *arg) {
  for (int i = 0; i < 30; i++) in_state(arg);
  return NULL;
}

static void churn(void) {
  static char code[] =
    "local mare = require 'mare'\n"
    "local c = mare.channel.new(1)\n"
    "for i = 1, 5 do mare.process.spawn(function() c:send({ i }) end) end\n"
    "for i = 1, 5 do c:receive() end\n"
    "mare.process.spawn(function() mare.sleep(0.0002) end)\n";
  int before = threads();
  pthread_t id[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&id[i], NULL, churner, code) == 0);
  for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
  expect_threads(before);
}

/* The main thread's state has a process that waits for a message of that state, while another state comes and goes. */
static void first(void) {
  lua_State *L = open_state();
  run(L, "mare = require 'mare' c = mare.channel.new() p = mare.process.spawn('return (...):receive()', c)");
  pthread_join(start("local mare = require 'mare' assert(mare.process.spawn(function() return 1 end):wait())"), NULL);
  run(L, "c:send(7) assert(select(2, p:wait()) == 7)");
  pthread_t id = start("local c = require 'mare'.channel.named('go') c:receive()");
  run(L, "local go = mare.channel.named('go') mare.process.spawn(function() require 'mare'.sleep(0.05) go:send(1) go:close() end)");
  lua_close(L);
  pthread_join(id, NULL);
}

static void late(void) {
  lua_State *keeper = open_state();
  run(keeper, "mare = require 'mare' box = mare.channel.named('box', math.huge)");
  in_state("early = setmetatable({}, { __gc = function()\n"      /* made before mare was required: finalised after it */
           "  local function refused(f, ...)\n"
           "    local ok, err = pcall(f, ...)\n"
           "    assert(not ok and tostring(err):find('closed in this state', 1, true), err)\n"
           "  end\n"
           "  refused(mare.process.spawn, 'return')\n"
           "  refused(mare.sleep, 0.01)\n"
           "  assert(mare.channel.new(1):try_send({ 1 }))\n"
           "  mare.process.self():status()\n"
           "  box:try_send('late')\n"
           "end })\n"
           "mare = require 'mare'\n"
           "box = mare.channel.named('box')\n"
           "box:send(mare.process.self())\n");
  run(keeper, "local h = box:receive() collectgarbage() assert(h:status() == 'done' and h:wait() == true)\n"
              "assert(box:receive(0) == nil)\n");   /* the channel was finalised before, so nothing came */
  run(keeper, "box:close()");
  lua_close(keeper);
}

static void in_child(lua_State *L) {
  alarm(60);
  run(L, "local function refused(f, ...)\n"
         "  local ok, err = pcall(f, ...)\n"
         "  assert(not ok and tostring(err):find('forked child', 1, true), err)\n"
         "end\n"
         "refused(mare.channel.new)\n"
         "refused(mare.channel.named, 'x')\n"
         "refused(mare.channel.find, 'x')\n"
         "refused(mare.process.spawn, 'return')\n"
         "refused(mare.process.workers, 2)\n"
         "refused(mare.process.self)\n"
         "refused(mare.sleep, 0.01)\n"
         "refused(c.send, c, 1)\n"
         "refused(c.receive, c)\n"
         "refused(c.close, c)\n"
         "refused(function() h:wait() end)\n"
         "refused(function() return #c end)\n"
         "refused(mare.dict.new)\n"
         "refused(mare.dict.open, 'forked')\n"
         "refused(mare.dict.find, 'forked')\n"
         "refused(mare.dict.drop, 'forked')\n"
         "for _, f in ipairs { 'get', 'delete', 'incr', 'keys', 'each', 'clear', 'info', 'wait' } do refused(d[f], d, 'k') end\n"
         "refused(walk, walked)\n"
         "refused(w.wait, w)\n"
         "refused(mare.atomic.new)\n"
         "refused(mare.atomic.named, 'forked')\n"
         "refused(mare.atomic.once, 'forked', print)\n"
         "refused(a.add, a)\n"
         "refused(o)\n"
         "collectgarbage()\n");
}

static int l_fork_in_process(lua_State *L) {
  pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    lua_settop(L, 0);
    int bad = luaL_dostring(L, "local mare = require 'mare' assert(not pcall(mare.channel.new)) assert(not pcall(mare.sleep, 1)) mare.process.yield()\n"
                               "table.sort({ 2, 1 }, function(a, b) assert(not pcall(mare.sleep, 1)) return a < b end)");
    if (bad) fprintf(stderr, "%s\n", lua_tostring(L, -1));
    if (bad) _exit(1);
    return 0;                                    /* the process ends, and with it the child */
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : 100);
  return 1;
}

static void forked(void) {
  lua_State *L = open_state();
  lua_pushcfunction(L, l_fork_in_process);
  lua_setglobal(L, "fork_here");
  run(L, "package.loaded.forker = { fork = fork_here }");
  run(L, "mare = require 'mare' local c = mare.channel.new() _G.c = c mare.process.workers(3)\n"
         "d, a, o = mare.dict.open 'forked', mare.atomic.new(), mare.atomic.once(function() end) w = d:watch('k') d:set('k', {}) walk, walked = d:each()\n"
         "mare.process.spawn(function() local d = require 'mare.dict'.open 'forked' while not c:closed() do d:incr(1) d:set('t', {}) end end)\n"
         "h = mare.process.spawn(function() local n = 0 while c:receive() do n = n + 1 end return n end)\n"
         "for i = 1, 3 do mare.process.spawn(function() while not c:closed() do c:try_send({}) end end) end\n");   /* locks are taken all the time */
  for (int i = 0; i < 12; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      in_child(L);
      if (i % 3 == 0) lua_close(L);
      if (i % 3 == 1) run(L, "os.exit(0)");
      _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  run(L, "c:close() assert(h:wait())");
  lua_close(L);
}

/* Connects to the door that the host has opened, and gives the path. */
static int connect_to_door(lua_State *L, char path[108]) {
  run(L, "local t = require 'mare.cli.terminal'\n"
         "local stat <close> = assert(io.open '/proc/self/stat')\n"
         "local pid = stat:read 'n'\n"
         "repeat\n"
         "  if not door then t.knock(pid) end\n"
         "  for _, p in ipairs(t.doors(pid)) do door = door or os.rename(p, p) and p end\n"
         "  mare.sleep(0.01)\n"
         "until door\n");
  lua_getglobal(L, "door");
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  snprintf(un.sun_path, sizeof un.sun_path, "%s", lua_tostring(L, -1));
  strcpy(path, un.sun_path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  while (connect(fd, (struct sockaddr *)&un, sizeof un) != 0) usleep(10000);   /* it is bound a moment before it listens */
  return fd;
}

static void read_line(int fd) {
  char c = 0;
  while (c != '\n') CHECK(read(fd, &c, 1) == 1);
}

static void fork_observed(void) {
  lua_State *L = open_state();
  char path[108], rest[64];
  int status;
  run(L, "mare = require 'mare'");
  int fd = connect_to_door(L, path);
  read_line(fd);
  pid_t pid = fork();
  if (pid == 0) exit(0);                         /* with what is done at exit() */
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(access(path, F_OK) == 0);
  CHECK(write(fd, "totals\n", 7) == 7);
  read_line(fd);
  pid = fork();
  if (pid == 0) {
    close(fd);
    alarm(60);
    for (;;) pause();
  }
  lua_close(L);
  CHECK(access(path, F_OK) != 0);
  alarm(50);
  CHECK(read(fd, rest, sizeof rest) == 0);       /* though the child lives */
  alarm(0);
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, &status, 0) == pid);
  close(fd);
}

static void fork_in_process(void) {
  lua_State *L = open_state();
  lua_pushcfunction(L, l_fork_in_process);
  lua_setglobal(L, "fork_here");
  run(L, "package.loaded.forker = { fork = fork_here }\n"
         "package.preload.forker = fork_here\n"
         "mare = require 'mare'\n"
         "local ok, code = mare.process.spawn(function() return require 'forker' end):wait()\n"
         "assert(ok and code == 0, code)");
  lua_close(L);
}

static void fork_while_it_waits(void) {
  lua_State *L = open_state();
  run(L, "mare = require 'mare'\n"
         "server = assert(mare.net.listen { host = '127.0.0.1', port = 0, backlog = 1 })\n"
         "local host, port = server:address()\n"
         "local address = { host = host, port = port, timeout = 0.2 }\n"
         "kept = {}\n"
         "repeat\n"                               /* until nobody else is let in */
         "  local c, why = mare.net.connect(address)\n"
         "  kept[#kept + 1] = c\n"
         "until not c and assert(why == 'timeout', why) or #kept == 100\n"
         "address.timeout = 30\n"
         "connecting = mare.fiber.spawn(function() return assert(mare.net.connect(address)) end)\n"
         "c = mare.channel.new()\n"
         "s = mare.selector { c }\n"
         "assert(s:wait(0.01) == nil)\n");
  pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    lua_close(L);
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  run(L, "mare.fiber.spawn(function() for c in server:connections() do kept[#kept + 1] = c end end)\n"
         "assert(connecting:wait())\n"
         "mare.fiber.spawn(function() c:send(7) end)\n"
         "local i, v = s:wait(20) assert(i == 1 and v == 7)\n"
         "server:close()");
  lua_close(L);
}

static void parked(void) {
  int before = threads();
  for (int i = 0; i < 5; i++) {
    in_state("local mare = require 'mare'\n"
             "local c = mare.channel.named('left behind')\n"
             "for i = 1, 300 do mare.process.spawn(function() c:receive() end) end\n"
             "mare.process.spawn(function() coroutine.wrap(function() c:receive() end)() end)\n"
             "mare.process.spawn(function() table.sort({ 2, 1 }, function(a, b) c:receive() return a < b end) end)\n"
             "mare.process.spawn(function() setmetatable({}, { __gc = function() c:try_send('x') end }) c:receive() end)\n");
    expect_threads(before);
    in_state("local mare = require 'mare'\n"
             "assert(mare.process.count() == 0)\n"
             "local c = mare.channel.named('left behind')\n"
             "assert(c:try_send('x') == nil)\n"
             "c:close()\n"
             "assert(mare.process.spawn(function() return 1 end):wait())\n");
    expect_threads(before);
  }
  in_state("local mare = require 'mare'\n"
           "mare.process.spawn(function() local c = mare.channel.named('stubborn') while true do pcall(c.receive, c) end end)\n");
}

/* The process is ended where it waits, but then blocks in C for longer than the end waits for it. */
static void slow(void) {
  for (int i = 0; i < 2; i++) {
    in_state("local mare = require 'mare'\n"
             "mare.process.spawn(function() pcall(function() require 'mare'.channel.named('slow'):receive() end) os.execute('sleep 0.7') end)\n");
    in_state("assert(require 'mare'.process.spawn(function() return 1 end):wait())\n");
  }
}

/* On one CPU, beside programs that take it all: threads of the calling one's kind get next to nothing. */
static void starve(int burners, pid_t *burner) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CHECK(sched_getcpu() >= 0);
  CPU_SET(sched_getcpu(), &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  for (int i = 0; i < burners; i++)
    if ((burner[i] = fork()) == 0) {
      alarm(60);
      fclose(stdout);                              /* who reads what we say need not wait for this */
      fclose(stderr);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) {}
    }
}

static int l_starve_others(lua_State *L) {
  DIR *d = opendir("/proc/self/task");
  CHECK(d);
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    int id = atoi(e->d_name);
    if (id > 0 && id != gettid()) sched_setscheduler(id, SCHED_IDLE, &(struct sched_param){ 0 });
  }
  closedir(d);
  (void)L;
  return 0;
}

/*
 * The machine is so loaded that threads of the former host run only now and then: its processes still end by the error where they wait, also
 * those whose thread waits with them, and the next host waits for that.
 */
static void starved(void) {
  enum { BURNERS = 4 };
  pid_t burner[BURNERS];
  starve(BURNERS, burner);
  for (int i = 0; i < 2; i++) {
    lua_State *L = open_state();
    lua_register(L, "starve_others", l_starve_others);
    run(L, "local mare = require 'mare'\n"
           "local c, ready = mare.channel.new(), mare.channel.new()\n"
           "for i = 1, 5 do mare.process.spawn(function() c:receive() end) end\n"
           "for i = 1, 5 do\n"
           "  mare.process.spawn(function() table.sort({ 2, 1 }, function(a, b) ready:send(1) c:receive() return a < b end) end)\n"
           "end\n"
           "for i = 1, 5 do ready:receive() end\n"
           "starve_others()\n");
    lua_close(L);
    in_state("assert(require 'mare'.process.spawn(function() return 1 end):wait())\n");
  }
  for (int i = 0; i < BURNERS; i++) {
    kill(burner[i], SIGKILL);
    waitpid(burner[i], NULL, 0);
  }
}

/* Another host keeps the workers, which fire the timers just when the state is freed. */
static void due(void) {
  lua_State *keeper = open_state();
  run(keeper, "mare = require 'mare'");
  for (int i = 0; i < 300; i++)
    in_state("local mare = require 'mare'\n"
             "for i = 1, 20 do mare.fiber.spawn(function() mare.sleep(i * 2e-5) end) end\n"
             "mare.fiber.yield()\n"
             "mare.sleep(1e-4)\n");
  lua_close(keeper);
}

static void *nothing(void *arg) { return arg; }

int main(int argc, char **argv) {
  static const struct { const char *name; void (*f)(void); } all[] = {
    { "again", again }, { "talk", talk },   { "churn", churn },   { "first", first },
    { "late", late },   { "fork", forked }, { "fork in a process", fork_in_process }, { "fork observed", fork_observed },
    { "fork while it waits", fork_while_it_waits }, { "parked", parked },
    { "slow", slow }, { "starved", starved },
    { "due", due },
  };
  pthread_t id;                                  /* ThreadSanitizer starts a thread of its own with the first */
  CHECK(pthread_create(&id, NULL, nothing, NULL) == 0);
  pthread_join(id, NULL);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (argc > 1 && strcmp(argv[1], all[i].name) == 0) {
      all[i].f();
      puts("ok");
      return 0;
    }
  return 2;
}
