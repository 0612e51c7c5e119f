/* map: see map.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "port/map.h"

/* The mapping is whole from the beginning, so it never moves; the file behind it is as long, but has no blocks. */
static int map(port_map *m) {
  m->at = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
  if (m->at != MAP_FAILED) return 0;
  m->at = NULL;
  return errno;
}

/* Held by who made it, until it is closed or the program ends; not by who reads it. */
static int held(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  int yes = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (fd >= 0) close(fd);
  return yes;
}

int port_map_create(port_map *m, const char *path, size_t size) {
  if (held(path)) return EBUSY;
  int err = unlink(path) == 0 || errno == ENOENT ? 0 : errno;   /* who still reads the old one keeps it */
  if (err) return err;
  do m->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); while (m->fd < 0 && errno == EINTR);
  if (m->fd < 0) return errno;
  flock(m->fd, LOCK_EX | LOCK_NB);               /* where that can't be, two programs with one file take it from each other */
  m->size = size;
  err = ftruncate(m->fd, (off_t)size) == 0 ? map(m) : errno;
  if (err) {
    close(m->fd);
    unlink(path);
  }
  return err;
}

int port_map_take(port_map *m, size_t from, size_t len) {
  int e = errno, err;
  do err = posix_fallocate(m->fd, (off_t)from, (off_t)len); while (err == EINTR);
#ifdef MADV_POPULATE_WRITE
  if (!err) madvise((char *)m->at + from, len, MADV_POPULATE_WRITE);   /* in one go, instead of a fault for each page */
#endif
  errno = e;
  return err;
}

int port_map_open(port_map *m, const char *path) {
  struct stat st;
  int err;
  do m->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); while (m->fd < 0 && errno == EINTR);
  if (m->fd < 0) return errno;
  err = fstat(m->fd, &st) != 0 ? errno : !S_ISREG(st.st_mode) || st.st_size <= 0 ? EINVAL : 0;
  m->size = err ? 0 : (size_t)st.st_size;
  m->at = NULL;
  if (err) close(m->fd);
  return err;
}

int port_map_read(const port_map *m, size_t from, void *to, size_t len) {
  char *p = to;
  while (len > 0) {
    ssize_t n = pread(m->fd, p, len, (off_t)from);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENODATA;
    p += n;
    from += (size_t)n;
    len -= (size_t)n;
  }
  return 0;
}

void port_map_close(port_map *m) {
  if (m->at) munmap(m->at, m->size);
  close(m->fd);
  m->at = NULL;
}

/* A file that says it has 0 bytes, and gives some: one of /proc. One that has grown just now says so when it is asked again. */
static int has_no_size(int fd) {
  char c;
  struct stat st;
  ssize_t r;
  do r = pread(fd, &c, 1, 0); while (r < 0 && errno == EINTR);
  return r > 0 && fstat(fd, &st) == 0 && st.st_size <= 0;
}

static int part_of(port_part *m, int fd, uint64_t offset, uint64_t length) {
  struct stat st;
  if (fstat(fd, &st) != 0) return errno;
  if (!S_ISREG(st.st_mode)) return S_ISDIR(st.st_mode) ? EISDIR : ENOTSUP;
  uint64_t size = st.st_size > 0 ? (uint64_t)st.st_size : 0, page = (uint64_t)sysconf(_SC_PAGESIZE);
  if (size == 0 && has_no_size(fd)) return ENOTSUP;
  if (offset >= size || length == 0) return 0;
  if (length > size - offset) length = size - offset;
  uint64_t before = offset % page;
  if (length > SIZE_MAX / 2) return EOVERFLOW;
  void *at = mmap(NULL, (size_t)(length + before), PROT_READ, MAP_SHARED, fd, (off_t)(offset - before));
  if (at == MAP_FAILED) return errno;
  *m = (port_part){ at, (size_t)(length + before), (char *)at + before, (size_t)length };
  return 0;
}

int port_map_part_open(port_part *m, const char *path, uint64_t offset, uint64_t length) {
  int fd;
  *m = (port_part){ NULL, 0, NULL, 0 };
  do fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); while (fd < 0 && errno == EINTR);
  if (fd < 0) return errno;
  int err = part_of(m, fd, offset, length);
  close(fd);
  return err;
}

void port_map_part_close(void *at, size_t size) { munmap(at, size); }

/* "from-to rights offset device inode   path" */
static int mapped_path(const char *line, const char *ending, char *path, size_t size) {
  const char *p = strchr(line, '/');
  size_t n = p ? strcspn(p, "\n") : 0, tail = strlen(ending);
  if (n < tail || n >= size || strncmp(p + n - tail, ending, tail) != 0) return 0;
  memcpy(path, p, n);
  path[n] = 0;
  return 1;
}

int port_map_find(long pid, const char *ending, char *path, size_t size) {
  char name[64], line[8192];
  snprintf(name, sizeof name, "/proc/%ld/maps", pid);
  FILE *f = fopen(name, "re");
  if (!f) return errno == ENOENT ? ESRCH : errno;
  int found = 0;
  while (!found && fgets(line, sizeof line, f)) found = mapped_path(line, ending, path, size);
  fclose(f);
  return found ? 0 : ESRCH;
}

long port_pid(void) { return (long)getpid(); }
