/*
 * fs: files and folders by the system's calls; see fs.h. Interrupted calls are made again.
 *
 * Files are opened non-blocking: regular files don't care, and the open of a pipe must not wait for its other end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "port/fs.h"

enum { DEPTH = 128 };                  /* of folders: each one holds a descriptor while it is removed */

static int would_wait(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return errno;
  if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(fd))) return ENOTSUP;
  return 0;
}

int port_fs_open(const char *path, unsigned how, int *fd) {
  int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  flags |= (how & PORT_FS_READ) && (how & PORT_FS_WRITE) ? O_RDWR : how & PORT_FS_WRITE ? O_WRONLY : O_RDONLY;
  if (how & PORT_FS_CREATE) flags |= O_CREAT;
  if (how & PORT_FS_TRUNCATE) flags |= O_TRUNC;
  if (how & PORT_FS_APPEND) flags |= O_APPEND;
  if (how & PORT_FS_NEW) flags |= O_EXCL;
  int n;
  do n = open(path, flags, 0666); while (n < 0 && errno == EINTR);
  if (n < 0) return errno == ENXIO ? ENOTSUP : errno;      /* a pipe that nobody reads, or a socket */
  int err = would_wait(n);
  if (err) close(n);
  else *fd = n;
  return err;
}

int port_fs_temp(char *path, int *fd) {
  int n = mkostemp(path, O_CLOEXEC);
  if (n < 0) return errno;
  *fd = n;
  return 0;
}

int port_fs_close(int fd) { return close(fd) == 0 || errno == EINTR ? 0 : errno; }   /* after EINTR it is closed all the same */

int port_fs_read(int fd, void *p, size_t n, size_t *got) {
  ssize_t r;
  do r = read(fd, p, n); while (r < 0 && errno == EINTR);
  if (r < 0) return errno;
  *got = (size_t)r;
  return 0;
}

int port_fs_read_now(int fd, void *p, size_t n, size_t *got) {
  struct iovec v = { p, n };
  ssize_t r = preadv2(fd, &v, 1, -1, RWF_NOWAIT);
  if (r < 0) return EAGAIN;                                 /* whatever it is, the call that may block will tell */
  *got = (size_t)r;
  return 0;
}

int port_fs_write(int fd, const void *p, size_t n, size_t *done) {
  const char *from = p;
  for (*done = 0; *done < n;) {
    ssize_t r = write(fd, from + *done, n - *done);
    if (r >= 0) *done += (size_t)r;
    else if (errno != EINTR) return errno;
  }
  return 0;
}

int port_fs_write_now(int fd, const void *p, size_t n, size_t *done) {
  struct iovec v = { (void *)p, n };
  ssize_t r = pwritev2(fd, &v, 1, -1, RWF_NOWAIT);
  *done = r > 0 ? (size_t)r : 0;
  return *done == n ? 0 : EAGAIN;
}

int port_fs_seek(int fd, int64_t offset, int from, int64_t *pos) {
  static const int whence[] = { SEEK_SET, SEEK_CUR, SEEK_END };
  off_t r = lseek(fd, (off_t)offset, whence[from]);
  if (r < 0) return errno;
  *pos = (int64_t)r;
  return 0;
}

int port_fs_sync(int fd) {
  int r;
  do r = fsync(fd); while (r != 0 && errno == EINTR);
  return r == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;      /* a device that has nothing to sync */
}

static const char *type_of(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "file";
    case S_IFDIR: return "directory";
    case S_IFLNK: return "link";
    case S_IFIFO: return "pipe";
    case S_IFSOCK: return "socket";
    case S_IFCHR: return "character device";
    default: return "block device";
  }
}

static double seconds(struct timespec t) { return (double)t.tv_sec + (double)t.tv_nsec / 1e9; }

static int info(const struct stat *st, port_fs_info *i) {
  i->type = type_of(st->st_mode);
  i->size = (int64_t)st->st_size;
  i->modified = seconds(st->st_mtim);
  i->accessed = seconds(st->st_atim);
  i->changed = seconds(st->st_ctim);
  i->mode = st->st_mode & 07777u;
  i->user = st->st_uid;
  i->group = st->st_gid;
  i->device = (uint64_t)st->st_dev;
  i->inode = (uint64_t)st->st_ino;
  i->links = (uint64_t)st->st_nlink;
  return 0;
}

int port_fs_info_of(int fd, port_fs_info *i) {
  struct stat st;
  return fstat(fd, &st) == 0 ? info(&st, i) : errno;
}

int port_fs_stat(const char *path, int follow, port_fs_info *i) {
  struct stat st;
  return (follow ? stat(path, &st) : lstat(path, &st)) == 0 ? info(&st, i) : errno;
}

/* ---- folders ---- */

typedef struct text { char *p; size_t len, size; } text;

static int add(text *t, const char *s, size_t n) {
  if (t->len + n > t->size) {
    size_t size = (t->len + n) * 2 + 256;
    char *p = realloc(t->p, size);
    if (!p) return ENOMEM;
    t->p = p;
    t->size = size;
  }
  memcpy(t->p + t->len, s, n);
  t->len += n;
  return 0;
}

static char letter(unsigned char type) {
  switch (type) {
    case DT_REG: return 'f';
    case DT_DIR: return 'd';
    case DT_LNK: return 'l';
    case DT_FIFO: return 'p';
    case DT_SOCK: return 's';
    case DT_CHR: return 'c';
    case DT_BLK: return 'b';
    default: return '?';
  }
}

static int dots(const char *name) { return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0)); }

/* The next entry that is not the folder itself or its parent; NULL with *err 0: there is none. */
static struct dirent *entry(DIR *d, int *err) {
  struct dirent *e;
  do {
    errno = 0;
    e = readdir(d);
    *err = e ? 0 : errno;
  } while (e && dots(e->d_name));
  return e;
}

int port_fs_list(const char *path, char **list, size_t *count) {
  text t = { NULL, 0, 0 };
  struct dirent *e;
  int err;
  DIR *d = opendir(path);
  if (!d) return errno;
  for (*count = 0; (e = entry(d, &err)) != NULL && err == 0; ++*count) {
    char type = letter(e->d_type);
    if ((err = add(&t, &type, 1)) != 0 || (err = add(&t, e->d_name, strlen(e->d_name) + 1)) != 0) break;
  }
  closedir(d);
  if (!err) err = add(&t, "", 1);
  if (err) free(t.p);
  else *list = t.p;
  return err;
}

/* EEXIST is fine if a directory is there. */
static int make(const char *path) {
  struct stat st;
  if (mkdir(path, 0777) == 0) return 0;
  int err = errno;
  return err == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : err;
}

int port_fs_mkdir(const char *path, int parents) {
  if (!parents) return mkdir(path, 0777) == 0 ? 0 : errno;
  char *copy = strdup(path);
  int err = 0;
  if (!copy) return ENOMEM;
  for (char *p = copy + 1; !err && *copy && *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    if ((err = make(copy)) == EEXIST) err = ENOTDIR;
    *p = '/';
  }
  if (!err) err = make(copy);
  free(copy);
  return err;
}

int port_fs_remove(const char *path) {
  if (unlink(path) == 0) return 0;
  int err = errno;
  if (err != EISDIR && err != EPERM) return err;
  return rmdir(path) == 0 ? 0 : errno == ENOTDIR ? err : errno;
}

/* Everything in the folder that fd, which it takes over, is open on. */
static int empty(int fd, int depth) {
  struct dirent *e;
  int err = 0;
  DIR *d = depth < DEPTH ? fdopendir(fd) : NULL;
  if (!d) {
    err = depth < DEPTH ? errno : ELOOP;
    close(fd);
    return err;
  }
  while ((e = entry(d, &err)) != NULL) {
    if (unlinkat(fd, e->d_name, 0) == 0 || errno == ENOENT) continue;
    err = errno;
    if (err != EISDIR && err != EPERM) break;
    int sub = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (sub < 0) {
      if (errno != ENOTDIR) err = errno;
      break;
    }
    if ((err = empty(sub, depth + 1)) != 0) break;
    if (unlinkat(fd, e->d_name, AT_REMOVEDIR) != 0 && (err = errno) != 0) break;
  }
  closedir(d);
  return err;
}

int port_fs_remove_all(const char *path) {
  int err = port_fs_remove(path);
  if (err == ENOENT) return 0;
  if (err != ENOTEMPTY && err != EEXIST) return err;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno;
  if ((err = empty(fd, 0)) != 0) return err;
  return rmdir(path) == 0 ? 0 : errno;
}

int port_fs_rename(const char *from, const char *to) { return rename(from, to) == 0 ? 0 : errno; }

const char *port_fs_temp_folder(void) {
  const char *dir = getenv("TMPDIR");
  return dir && *dir ? dir : "/tmp";
}
