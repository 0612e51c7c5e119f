/* files, commands and libraries: thin, no state of their own. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "port/system.h"

/*
 * Without a descriptor: a program that has used up all of its own still finds the modules it has already compiled, and what is missing is not
 * mistaken for what can't be opened now.
 */
int port_file_stat(const char *path, port_stat *s) {
  struct stat st;
  if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0 || stat(path, &st) != 0) return errno;
  s->device = (uint64_t)st.st_dev;
  s->inode = (uint64_t)st.st_ino;
  s->size = (uint64_t)st.st_size;
  s->mtime = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
  return 0;
}

void port_file_lock(FILE *f) { flockfile(f); }
void port_file_unlock(FILE *f) { funlockfile(f); }
size_t port_file_write(const char *s, size_t len, FILE *f) { return fwrite_unlocked(s, 1, len, f); }
void port_file_unlocked(FILE *f) { __fsetlocking(f, FSETLOCKING_BYCALLER); }
int port_file_is_terminal(FILE *f) { return isatty(fileno(f)); }

FILE *port_pipe_open(const char *cmd, const char *mode) {
  char m[3] = { mode[0], 'e', 0 };
  port_sigmask mask;
  port_signals_default(&mask);
  FILE *f = popen(cmd, m);
  int err = errno;
  port_signals_restore(&mask);
  errno = err;
  return f;
}

int port_pipe_close(FILE *f) { return pclose(f); }

int port_become(const char *path, char *const *argv) {
  execv(path, argv);
  return errno;
}

int port_program_path(char *path, size_t size) {
  ssize_t n = readlink("/proc/self/exe", path, size);
  if (n < 0) return errno;
  if ((size_t)n >= size) return ENAMETOOLONG;
  path[n] = '\0';
  return 0;
}

void *port_library(const char *path, int global, const char **err) {
  void *lib = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (!lib) *err = dlerror();
  return lib;
}

void port_pin(const void *address) {
  Dl_info info;
  if (dladdr(address, &info) && info.dli_fname) (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

port_function port_symbol(void *library, const char *name, const char **err) {
  void *p = dlsym(library, name);
  port_function f = NULL;
  if (!p) *err = dlerror();
  memcpy(&f, &p, sizeof f);
  return f;
}
