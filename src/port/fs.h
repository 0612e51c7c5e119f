/*
 * fs: the file system. Results are 0 or an errno value. Everything here may block on a disk or a network, but for what says that it does
 * not; so it is called on threads that may.
 *
 * Files are regular files, and devices that always answer (/dev/null). What can keep a reader waiting for a peer - pipes, sockets,
 * terminals - is refused by port_fs_open with ENOTSUP.
 */
#ifndef PORT_FS_H
#define PORT_FS_H

#include <stddef.h>
#include <stdint.h>

enum { PORT_FS_READ = 1, PORT_FS_WRITE = 2, PORT_FS_CREATE = 4, PORT_FS_TRUNCATE = 8, PORT_FS_APPEND = 16, PORT_FS_NEW = 32 };
enum { PORT_FS_SET, PORT_FS_CURRENT, PORT_FS_END };

typedef struct port_fs_info {
  const char *type;                    /* "file", "directory", "link", "pipe", "socket", "character device", "block device" */
  int64_t size;
  double modified, accessed, changed;  /* seconds since 1970 */
  unsigned mode;                       /* permission bits */
  unsigned user, group;
  uint64_t device, inode, links;
} port_fs_info;

int port_fs_open(const char *path, unsigned how, int *fd);
int port_fs_temp(char *path, int *fd);                         /* path ends in "XXXXXX", which is replaced; mode 0600 */
int port_fs_close(int fd);
/* *got: 0 at the end of the file. */
int port_fs_read(int fd, void *p, size_t n, size_t *got);
int port_fs_read_now(int fd, void *p, size_t n, size_t *got);  /* never blocks: EAGAIN if it would, or if that can't be known */
/* *done: how much was written, also when that was not all. */
int port_fs_write(int fd, const void *p, size_t n, size_t *done);
int port_fs_write_now(int fd, const void *p, size_t n, size_t *done);   /* never blocks: EAGAIN if less than all could be written */
int port_fs_seek(int fd, int64_t offset, int from, int64_t *pos);
int port_fs_sync(int fd);
int port_fs_info_of(int fd, port_fs_info *i);

int port_fs_stat(const char *path, int follow, port_fs_info *i);
/* *list: malloc'd, for each entry a letter for its type (f d l p s c b, or ? if unknown) and its name with a zero byte, then a zero byte. */
int port_fs_list(const char *path, char **list, size_t *count);
int port_fs_mkdir(const char *path, int parents);              /* parents: makes them too, and an existing directory is fine */
int port_fs_remove(const char *path);                          /* a file, a link or an empty directory */
int port_fs_remove_all(const char *path);                      /* with everything in it; follows no links; nothing there is fine */
int port_fs_rename(const char *from, const char *to);
const char *port_fs_temp_folder(void);

#endif
