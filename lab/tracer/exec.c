/*
 * The program starts another: the tracer goes with it, in front of whatever the program put into LD_PRELOAD. Everything happens on the stack,
 * because the caller may be a child of vfork or a signal handler; what doesn't fit there is started as it is, untraced.
 */
#define _GNU_SOURCE
#include "attach.h"
#include "real.h"
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRELOAD "LD_PRELOAD="
#define MOST_VARIABLES 16384

extern char **environ;

typedef struct {
  char preload[8192], setting[8300];
  size_t count;
} changes;

static int starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

/* Fills in the two settings; 0 when the environment can stay as it is. */
static int needs_changes(char *const env[], changes *c)
{
  const char *preload = NULL;
  int told = 0;
  if (!tr_map || (tr_idle() && !tr_map->asleep)) return 0;
  snprintf(c->setting, sizeof c->setting, TR_ENV "=%s:%s", tr_mapping, tr_library);
  for (c->count = 0; env && env[c->count]; c->count++) {
    if (starts(env[c->count], PRELOAD)) preload = env[c->count] + strlen(PRELOAD);
    if (strcmp(env[c->count], c->setting) == 0) told = 1;
  }
  size_t n = strlen(tr_library);
  tr_passed_on = 1; /* in a child of vfork, its parent's */
  if (told && preload && strncmp(preload, tr_library, n) == 0 && (preload[n] == 0 || preload[n] == ':' || preload[n] == ' ')) return 0;
  if (preload && strlen(preload) + n + 32 > sizeof c->preload) return 0;
  snprintf(c->preload, sizeof c->preload, PRELOAD "%s%s%s", tr_library, preload && *preload ? ":" : "", preload ? preload : "");
  return c->count < MOST_VARIABLES;
}

/* into has room for count + 3. Of several LD_PRELOAD the last counted and is in ours. */
static void change(char *const env[], changes *c, char **into)
{
  size_t n = 0;
  for (size_t i = 0; i < c->count; i++)
    if (!starts(env[i], PRELOAD) && !starts(env[i], TR_ENV "=")) into[n++] = env[i];
  into[n++] = c->preload;
  into[n++] = c->setting;
  into[n] = NULL;
}

/* In the caller's frame: `env` is what to pass on. */
#define TRACED(env) \
  changes env##_changes; \
  if (needs_changes(env, &env##_changes)) { \
    char **env##_traced = alloca((env##_changes.count + 3) * sizeof(char *)); \
    change(env, &env##_changes, env##_traced); \
    env = env##_traced; \
  }

#define REAL(f) ((__typeof__(&f))find_real(&real_##f, #f))
#define CACHE(f) static _Atomic(void *) real_##f

static void *find_real(_Atomic(void *) *cache, const char *name)
{
  void *f = atomic_load_explicit(cache, memory_order_relaxed);
  if (!f) atomic_store(cache, f = dlsym(RTLD_NEXT, name));
  return f;
}

CACHE(execve);
CACHE(execvpe);
CACHE(fexecve);
CACHE(execveat);
CACHE(posix_spawn);
CACHE(posix_spawnp);

/* Looked up before any vfork or handler could need them. */
__attribute__((constructor)) static void find_all(void)
{
  (void)REAL(execve);
  (void)REAL(execvpe);
  (void)REAL(fexecve);
  (void)REAL(execveat);
  (void)REAL(posix_spawn);
  (void)REAL(posix_spawnp);
}

TR_EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
  TRACED(env)
  return REAL(execve)(path, argv, env);
}

TR_EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
  TRACED(env)
  return REAL(execvpe)(file, argv, env);
}

TR_EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
  TRACED(env)
  return REAL(fexecve)(fd, argv, env);
}

TR_EXPORT int execveat(int fd, const char *path, char *const argv[], char *const env[], int flags)
{
  TRACED(env)
  return REAL(execveat)(fd, path, argv, env, flags);
}

TR_EXPORT int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }
TR_EXPORT int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

TR_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                          char *const argv[], char *const env[])
{
  TRACED(env)
  return REAL(posix_spawn)(pid, path, actions, attributes, argv, env);
}

TR_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                           char *const argv[], char *const env[])
{
  TRACED(env)
  return REAL(posix_spawnp)(pid, file, actions, attributes, argv, env);
}

/* The forms with a list: arguments are counted, then copied to an array on the stack. */
#define LISTED(first, argv) \
  va_list list_; \
  size_t count_ = 1; \
  va_start(list_, first); \
  while (va_arg(list_, char *)) count_++; \
  va_end(list_); \
  char **argv = alloca((count_ + 1) * sizeof(char *)); \
  argv[0] = (char *)(uintptr_t)first; \
  va_start(list_, first); \
  for (size_t i_ = 1; i_ <= count_; i_++) argv[i_] = va_arg(list_, char *)

TR_EXPORT int execl(const char *path, const char *first, ...)
{
  LISTED(first, argv);
  va_end(list_);
  return execve(path, argv, environ);
}

TR_EXPORT int execlp(const char *file, const char *first, ...)
{
  LISTED(first, argv);
  va_end(list_);
  return execvpe(file, argv, environ);
}

TR_EXPORT int execle(const char *path, const char *first, ...)
{
  LISTED(first, argv);
  char *const *env = va_arg(list_, char *const *);
  va_end(list_);
  return execve(path, argv, env);
}
