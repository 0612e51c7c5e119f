/*
 * main: the program `mare`.
 *
 * The command line is read by lua/mare/cli/options.lua in a state of its own, before any thread exists: help, version and mistakes end
 * the program there; `mare lab` becomes the laboratory's program even before. Then the main process is spawned; its body is l_cli_main,
 * which runs what lua/mare/cli/session.lua hands out, step by step, each directly above the C function, so that tracebacks end as those
 * of lua do. Its result is the exit code.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/embedded.h"
#include "run/run.h"
#include "observe/trace.h"
#include "state/chunk.h"
#include "module/explore.h"
#include "module/module.h"
#include "module/observe.h"
#include "port/errors.h"
#include "process/info.h"
#include "process/leave.h"
#include "process/profile.h"
#include "port/virtual.h"
#include "run/replay.h"
#include "state/state.h"

#define MODULE "mare.cli"
#define LAB_PROGRAM "/venv/bin/marelab"

static int load_embedded(lua_State *L, const char *name) {
  const struct mr_embedded *e = mr_embedded_find(name);
  if (e) return mr_chunk_text(L, e->file, (const char *)e->code, e->size);
  lua_pushfstring(L, "'%s' is not part of this program", name);
  return LUA_ERRFILE;
}

/* ---- in the main process ---- */

/* message handler: adds a traceback to what can be shown */
static int l_cli_message(lua_State *L) {
  const char *msg = lua_tostring(L, 1);
  if (!msg) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
    msg = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  }
  luaL_traceback(L, L, msg, 1);
  return 1;
}

/*
 * Stack: 1 the session's step function, 2 message handler, 3… results of what ran last. A Ctrl-C is for what it hands out, never for the session:
 * one that comes in between waits.
 */
static int k_step(lua_State *L, int status, lua_KContext ctx) {
  for (;;) {
    mr_interrupt_hold(1);
    lua_pushvalue(L, 1);
    lua_insert(L, 3);
    lua_pushboolean(L, status == LUA_OK || status == LUA_YIELD);
    lua_insert(L, 4);
    lua_call(L, lua_gettop(L) - 3, LUA_MULTRET);
    mr_interrupt_hold(0);
    if (!lua_isfunction(L, 3)) {
      lua_settop(L, 4);
      return 1;
    }
    status = lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 2, ctx, k_step);
  }
}

static atomic_int interrupts;                   /* Ctrl-C's: the second ends the program */

static void interrupted(void) {
  if (atomic_exchange(&interrupts, 1) || mr_replay_on) {
    if (!mr_leave_by(-130)) port_exit_now(130);
    return;
  }
  mr_interrupt();
  port_editor_interrupt();
}

static void outlived(void) { atomic_store(&interrupts, 0); }

/* (): the next Ctrl-C is a first one again */
static int l_outlived(lua_State *L) {
  (void)L;
  outlived();
  return 0;
}

/* () -> was there a Ctrl-C that waits? */
static int l_interrupted(lua_State *L) {
  lua_pushboolean(L, mr_interrupt_take());
  return 1;
}

/* (prompt) -> line | nil, at a terminal; an error at a Ctrl-C. What is typed after one makes the next a first one again. */
static int l_line(lua_State *L) {
  static char *last;                            /* freed by the next call: pushing it may fail */
  const char *prompt = luaL_checkstring(L, 1);
  int what;
  do {                                          /* again also if the bell was late, and the interrupt has been raised before */
    port_editor_ready();
    if (mr_interrupt_take()) return luaL_error(L, "%s", mr_err_text(MR_EINTR));
    free(last);
    what = port_editor_line(prompt, outlived, &last);
  } while (what == PORT_LINE_LEFT);
  lua_pushstring(L, last);
  return 1;
}

/* (statement): for the history */
static int l_keep(lua_State *L) {
  port_editor_keep(luaL_checkstring(L, 1));
  return 0;
}

/* The session's editor, two functions, if a person is at the terminal and there is one. */
static int push_editor(lua_State *L) {
  if (!port_file_is_terminal(stdin) || !port_file_is_terminal(stdout) || !port_editor_open()) return 0;
  lua_pushcfunction(L, l_line);
  lua_pushcfunction(L, l_keep);
  return 2;
}

/* mare.cli.main (plan) -> exit code */
static int l_cli_main(lua_State *L) {
  lua_settop(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushnil(L);
  lua_setfield(L, -2, MODULE);                  /* the program must not see it */
  lua_pop(L, 1);
  if (load_embedded(L, "mare.cli.session") != LUA_OK) return lua_error(L);
  lua_insert(L, 1);
  lua_getfield(L, 2, "repl");
  int interactive = lua_toboolean(L, -1);
  lua_pop(L, 1);
  lua_pushcfunction(L, l_outlived);
  lua_pushcfunction(L, l_interrupted);
  lua_call(L, 3 + (interactive ? push_editor(L) : 0), 1);
  lua_pushcfunction(L, l_cli_message);
  return k_step(L, LUA_OK, 0);
}

static int open_cli(lua_State *L) {
  static const luaL_Reg functions[] = { { "main", l_cli_main }, { NULL, NULL } };
  luaL_newlib(L, functions);
  return 1;
}

/* ---- before it ---- */

static void push_arguments(lua_State *L, int argc, char **argv) {
  lua_createtable(L, argc, 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i);
  }
}

static int report(const char *msg) {
  fprintf(stderr, "mare: %s\n", msg ? msg : "unknown error");
  return EXIT_FAILURE;
}

static int asks_for_help(char **argv) {
  return !argv[1] || ((strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) && !argv[2]);
}

/* What it can do is said by its source alone, which any Python 3 runs. Returns where there is none. */
static void become_help(const char *build) {
  char where[4096 + sizeof "PYTHONPATH=/../lab"];
  snprintf(where, sizeof where, "PYTHONPATH=%.4095s/../lab", build);
  port_become("/usr/bin/env", (char *[]){ (char[]){ "env" }, where, (char[]){ "PYTHONDONTWRITEBYTECODE=1" }, (char[]){ "python3" }, (char[]){ "-m" },
                                          (char[]){ "marelab" }, (char[]){ "--help" }, NULL });
}

/* `mare lab …` belongs to the Python package in lab/, which `make lab` puts beside this program's own build: build/lab. */
static int become_lab(char **argv) {
  char self[4096], path[sizeof self + sizeof "/lab" LAB_PROGRAM];
  const char *lab = getenv("MARE_LAB");
  if (lab) {
    snprintf(path, sizeof path, "%.*s" LAB_PROGRAM, (int)sizeof self - 1, lab);
  } else {
    if (port_program_path(self, sizeof self) != 0) return report("can't find the path of this program: set MARE_LAB to mare's build/lab");
    for (int up = 0; up < 3; up++) {                  /* <build>/<configuration>/bin/mare */
      char *slash = strrchr(self, '/');
      if (slash) *slash = '\0';
    }
    snprintf(path, sizeof path, "%s/lab" LAB_PROGRAM, self);
  }
  char text[128];
  int why = port_become(path, argv), absent = strcmp(port_error_name(why), "ENOENT") == 0;
  if (absent && !lab && asks_for_help(argv)) become_help(self);
  fprintf(stderr, "mare: can't start the laboratory, %s: %s\n", path,
          absent ? "run `make lab` in mare's source folder, or set MARE_LAB to its build/lab" : port_error_text(why, text, sizeof text));
  return 2;
}

/* argc, argv -> plan */
static int l_options(lua_State *L) {
  int argc = (int)lua_tointeger(L, 1);
  char **argv = (char **)lua_touserdata(L, 2);
  luaL_openlibs(L);
  luaL_requiref(L, MODULE, open_cli, 0);
  luaL_requiref(L, "mare.near", luaopen_mare_near, 0);
  if (load_embedded(L, "mare.cli.options") != LUA_OK) return lua_error(L);
  push_arguments(L, argc, argv);
  lua_pushliteral(L, "mare " MARE_RELEASE);
  lua_pushliteral(L, LUA_COPYRIGHT);
  lua_pushboolean(L, port_file_is_terminal(stdin));
  lua_call(L, 4, 1);
  return 1;
}

/* plan -> nothing; lightuserdata spawn: packs the body and the plan */
static int l_pack(lua_State *L) {
  mr_spawn *s = (mr_spawn *)lua_touserdata(L, 2);
  lua_settop(L, 1);
  lua_pushcfunction(L, l_cli_main);
  lua_insert(L, 1);
  mr_packer *p = mr_packer_new();
  if (p && mr_pack(p, L, 1, 2, "argument") != 0) return lua_error(L);
  s->start = p ? mr_packer_seal(p) : NULL;
  if (p) mr_packer_free(p);
  return s->start ? 0 : luaL_error(L, "not enough memory");
}

static int flag(lua_State *L, const char *name) {
  lua_getfield(L, 1, name);
  int yes = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return yes;
}

/* What the plan says to do without running anything: 1 and the exit code. */
static int ends_here(lua_State *L, int *code) {
  if (lua_getfield(L, 1, "out") == LUA_TSTRING) fputs(lua_tostring(L, -1), stdout);
  if (lua_getfield(L, 1, "err") == LUA_TSTRING) fputs(lua_tostring(L, -1), stderr);
  int ends = lua_getfield(L, 1, "exit") == LUA_TNUMBER;
  *code = (int)lua_tointeger(L, -1);
  lua_pop(L, 3);
  fflush(stdout);
  return ends;
}

static int exit_code(mr_proc *p) {
  if (atomic_load(&p->status) == PROC_FAILED) return EXIT_FAILURE;
  if (p->result.kind == MAIL_SCALARS && p->result.n > 0) return (int)p->result.u.s[0].u.i;
  return EXIT_SUCCESS;
}

static int l_metrics(lua_State *L) {
  mr_observe_metrics(L, 1);
  return 0;
}

/* What the plan says about who may look at the program. 0: that can't be had, and why is on the top of the stack. */
static int observe(lua_State *L) {
  char text[128];
  int err = flag(L, "observe") ? mr_observe_open() : 0;
  if (err) {
    lua_pushfstring(L, "can't open this program to mare top: %s", port_error_text(err, text, sizeof text));
    return 0;
  }
  lua_pushcfunction(L, l_metrics);
  if (lua_getfield(L, 1, "metrics") != LUA_TSTRING) return 1;
  return lua_pcall(L, 1, 0, 0) == LUA_OK;
}

/* 0, or a message on the stack. */
static int start_profiles(lua_State *L) {
  mr_profile_wish wish = { .hz = 200, .bytes = 65536 };
  char error[200];
  lua_getfield(L, 1, "profile");
  lua_getfield(L, 1, "heap_profile");
  for (int i = 0; i < PROFILES; i++) wish.file[i] = lua_tostring(L, i - PROFILES);
  if (lua_getfield(L, 1, "profile_rate") == LUA_TNUMBER) wish.hz = (unsigned)lua_tointeger(L, -1);
  if (lua_getfield(L, 1, "heap_profile_rate") == LUA_TNUMBER) wish.bytes = (size_t)lua_tointeger(L, -1);
  int failed = mr_profile_start(&wish, error);
  lua_pop(L, 4);
  if (failed) lua_pushstring(L, error);
  return failed;
}

/* 1, or an error message is on top of L. */
static int start_trace(lua_State *L) {
  const char *what;
  char reason[128];
  lua_getfield(L, 1, "trace");
  lua_getfield(L, 1, "trace_size");
  lua_getfield(L, 1, "script");
  const char *file = lua_tostring(L, -3), *script = lua_tostring(L, -1);
  if (!file) return 1;
  int err = mr_trace_start(file, (uint64_t)lua_tointeger(L, -2), script && *script ? script : "mare", &what);
  if (err) {
    lua_pushfstring(L, "can't write the trace %s: %s", what, port_error_text(err, reason, sizeof reason));
    return 0;
  }
  mr_trace_thread("main");
  return 1;
}

/* Whatever is written at the end. 0: it can't be, and why is on the top of the stack. */
static int record(lua_State *L) {
  int some = lua_getfield(L, 1, "profile") != LUA_TNIL;
  some |= lua_getfield(L, 1, "heap_profile") != LUA_TNIL;
  some |= lua_getfield(L, 1, "trace") != LUA_TNIL;
  if (!some) return 1;
  if (start_profiles(L) || !start_trace(L)) return 0;
  int err = mr_leave_watch();
  if (err) lua_pushstring(L, mr_err_text(err));
  return !err;
}

static mr_spawn first = { .kind = PROC_MAIN };   /* the main process */

/* What the plan says of the program, and the main process's message. */
static int prepare(lua_State *L) {
  if (flag(L, "noenv")) atomic_store(&mr_noenv, 1);
  if (flag(L, "strict")) atomic_store(&mr_strict, 1);
  if (flag(L, "repl")) atomic_store(&mr_prompts, 1);
  if (flag(L, "warn")) atomic_store(&mr_warnings, 1);
  if (lua_getfield(L, 1, "workers") == LUA_TNUMBER) mr_workers_set((int)lua_tointeger(L, -1));
  if (!record(L)) return 0;
  lua_pushcfunction(L, l_pack);
  lua_pushvalue(L, 1);
  lua_pushlightuserdata(L, &first);
  return lua_pcall(L, 2, 0, 0) == LUA_OK;
}

/* Starts the scheduler and spawns the main process. L: the plan; NULL: nothing of it is left to do. */
static mr_proc *start(lua_State *L, int *err) {
  if ((*err = mr_start()) != MR_OK) return NULL;
  port_signal_interrupt(interrupted);
  port_signal_quit(mr_dump_asked);
  if (L && !observe(L)) {
    mr_message_free(first.start);
    return NULL;
  }
  return mr_proc_spawn(&first, NULL, err);
}

/* ---- with --seed: see run/replay.h ---- */

/* In a copy: until every process has ended. */
static int run_once(void) {
  int err, code;
  mr_proc *p = start(NULL, &err);
  if (!p) return report(mr_err_text(err));
  code = mr_run_until_done() ? EXPLORE_DEADLOCK : exit_code(p);
  mr_release(&p->shared);
  return code;
}

/* At 2 what is kept of the command line for this, which the main process does not see. 1: *code is the program's exit code. */
static int replays(lua_State *L, int *code) {
  lua_getfield(L, 2, "strict");
  if (lua_toboolean(L, -1)) atomic_store(&mr_strict, 1);
  lua_getfield(L, 2, "workers");
  mr_replay_workers((int)lua_tointeger(L, -1));
  mr_prepare();
  if (lua_getfield(L, 2, "explore") == LUA_TTABLE) {
    *code = mr_explore(L, lua_gettop(L), run_once);
    return 1;
  }
  lua_getfield(L, 2, "seed");
  const char *err = mr_replay_open(lua_tostring(L, -1));
  *code = 2;
  if (err) fprintf(stderr, "mare: --seed %s: %s\n", lua_tostring(L, -1), err);
  return err != NULL;
}

/* Reading the command line leaves no trace in malloc's memory: so the same program finds the same there, whatever the command line. */
static void *apart_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  struct { char *at, *end; } *zone = ud;
  size_t need = (nsize + 15) / 16 * 16;
  if (nsize == 0) return NULL;
  if (ptr && nsize <= osize) return ptr;
  if (need > (size_t)(zone->end - zone->at)) return NULL;
  void *p = zone->at;
  zone->at += need;
  return ptr ? memcpy(p, ptr, osize) : p;
}

static lua_State *state_apart(void) {
  static struct { char *at, *end; } zone;
  size_t size = 64 * 1024 * 1024;
  if ((zone.at = port_pages_reserve(size, 4096)) == NULL) return NULL;
  zone.end = zone.at + size;
  return mr_lua_newstate(apart_alloc, &zone);
}

static int may_replay(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strncmp(argv[i], "--seed", 6) == 0) return 1;
  return argc > 1 && strcmp(argv[1], "explore") == 0;
}

/* ---- all of it ---- */

static int program(int argc, char **argv) {
  int code, err;
  lua_State *L = port_is_virtual() ? state_apart() : luaL_newstate();
  if (!L) return report("not enough memory");
  mr_modules_add(MODULE, open_cli);
  mr_setup();
  lua_pushcfunction(L, l_options);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  if (lua_pcall(L, 2, 1, 0) != LUA_OK) return report(lua_tostring(L, -1));
  if (ends_here(L, &code)) {
    lua_close(L);
    return code;
  }
  lua_getfield(L, 1, "replay");
  lua_pushnil(L);
  lua_setfield(L, 1, "replay");
  int replayed = port_is_virtual() && lua_istable(L, 2);
  if (!replayed) port_virtual_end();
  int ready = prepare(L);
  if (ready && replayed && replays(L, &code)) return code;
  mr_proc *p = ready ? start(replayed ? NULL : L, &err) : NULL;
  if (!p) {
    mr_trace_end();
    report(ready && err ? mr_err_text(err) : lua_tostring(L, -1));
  }
  if (!replayed || !p) lua_close(L);
  if (!p) return EXIT_FAILURE;
  code = mr_run_until_done() ? EXIT_FAILURE : exit_code(p);
  mr_release(&p->shared);
  mr_exit(code);
}

typedef struct words { int argc; char **argv; } words;

static int program_there(void *w) { return program(((words *)w)->argc, ((words *)w)->argv); }

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "lab") == 0) return become_lab(argv + 1);
  if (argc > 2 && (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0) && strcmp(argv[2], "lab") == 0)
    return become_lab((char *[]){ argv[2], (char[]){ "--help" }, NULL });
  if (!may_replay(argc, argv)) return program(argc, argv);
  port_virtual_memory();
  port_virtual_begin();
  return port_virtual_stack(program_there, &(words){ argc, argv });
}
