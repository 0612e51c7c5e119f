/*
 * Files: what is written is read again; what would keep a reader waiting is refused; reading now never waits; what is there is told without a
 * descriptor; a folder is listed, made with its parents and removed with all that is in it, but no link in it is followed.
 */
#include "port/errors.h"
#include "port/fs.h"
#include "port/system.h"
#include "port/test.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char folder[200];

static const char *in(const char *name) {
  static char path[4][400];
  static int at;
  char *p = path[at = (at + 1) % 4];
  snprintf(p, sizeof path[0], "%s/%s", folder, name);
  return p;
}

static void spill(const char *path, const char *text) {
  int fd;
  size_t done;
  CHECK(port_fs_open(path, PORT_FS_WRITE | PORT_FS_CREATE | PORT_FS_TRUNCATE, &fd) == 0);
  CHECK(port_fs_write(fd, text, strlen(text), &done) == 0 && done == strlen(text));
  CHECK(port_fs_close(fd) == 0);
}

static void test_what_is_written_is_read_again(void) {
  int fd;
  char text[20];
  size_t n;
  int64_t pos;
  spill(in("a"), "hello world");
  CHECK(port_fs_open(in("a"), PORT_FS_READ | PORT_FS_WRITE | PORT_FS_APPEND, &fd) == 0);
  CHECK(port_fs_write(fd, "!", 1, &n) == 0 && n == 1);
  CHECK(port_fs_seek(fd, 6, PORT_FS_SET, &pos) == 0 && pos == 6);
  CHECK(port_fs_read(fd, text, sizeof text, &n) == 0 && n == 6 && memcmp(text, "world!", 6) == 0);
  CHECK(port_fs_read(fd, text, sizeof text, &n) == 0 && n == 0);
  CHECK(port_fs_seek(fd, -6, PORT_FS_END, &pos) == 0 && pos == 6);
  int err = port_fs_read_now(fd, text, sizeof text, &n);               /* just written, so in memory; but the system need not know */
  CHECK(err == EAGAIN || (err == 0 && n == 6));
  CHECK(port_fs_sync(fd) == 0);
  port_fs_info i;
  CHECK(port_fs_info_of(fd, &i) == 0 && i.size == 12 && strcmp(i.type, "file") == 0 && i.links == 1 && i.modified > 1.6e9);
  CHECK(port_fs_close(fd) == 0);
  CHECK(port_fs_open(in("a"), PORT_FS_WRITE | PORT_FS_CREATE | PORT_FS_NEW, &fd) == EEXIST);
  CHECK(port_fs_open(in("none"), PORT_FS_READ, &fd) == ENOENT);
}

static void test_what_keeps_a_reader_waiting_is_refused(void) {
  int fd;
  port_fs_info i;
  CHECK(mkfifo(in("pipe"), 0600) == 0);
  CHECK(port_fs_open(in("pipe"), PORT_FS_READ, &fd) == ENOTSUP);
  CHECK(port_fs_open(in("pipe"), PORT_FS_WRITE, &fd) == ENOTSUP);
  CHECK(port_fs_stat(in("pipe"), 1, &i) == 0 && strcmp(i.type, "pipe") == 0);
  CHECK(port_fs_open("/dev/null", PORT_FS_READ, &fd) == 0);
  CHECK(port_fs_close(fd) == 0);
}

static void test_a_temporary_file_is_its_makers_alone(void) {
  char path[300];
  int fd;
  port_fs_info i;
  snprintf(path, sizeof path, "%s/tXXXXXX", folder);
  CHECK(port_fs_temp(path, &fd) == 0 && !strstr(path, "XXXXXX"));
  CHECK(port_fs_info_of(fd, &i) == 0 && i.mode == 0600);
  port_fs_close(fd);
  CHECK(port_fs_remove(path) == 0 && port_fs_remove(path) == ENOENT);
}

static void test_folders_are_listed_and_made(void) {
  char *list;
  size_t count;
  CHECK(port_fs_mkdir(in("x/y/z"), 0) == ENOENT);
  CHECK(port_fs_mkdir(in("x/y/z"), 1) == 0 && port_fs_mkdir(in("x/y/z/"), 1) == 0);
  CHECK(port_fs_mkdir(in("x"), 0) == EEXIST);
  CHECK(port_fs_mkdir(in("a/b"), 1) == ENOTDIR);                        /* a is a file */
  spill(in("x/file"), "1");
  CHECK(symlink("/etc", in("x/link")) == 0);
  CHECK(port_fs_list(in("x"), &list, &count) == 0 && count == 3);
  int kinds = 0;
  for (const char *p = list; *p; p += strlen(p) + 1) {
    if (strcmp(p, "dy") == 0) kinds |= 1;
    if (strcmp(p, "ffile") == 0) kinds |= 2;
    if (strcmp(p, "llink") == 0) kinds |= 4;
  }
  CHECK(kinds == 7);
  free(list);
  CHECK(port_fs_list(in("a"), &list, &count) == ENOTDIR);
}

static void test_removing_all_follows_no_link(void) {
  port_fs_info i;
  CHECK(port_fs_mkdir(in("kept"), 0) == 0);
  spill(in("kept/file"), "1");
  char target[400];
  snprintf(target, sizeof target, "%s", in("kept"));
  CHECK(symlink(target, in("x/y/to-kept")) == 0);
  CHECK(port_fs_remove(in("x")) == ENOTEMPTY);
  CHECK(port_fs_remove_all(in("x")) == 0 && port_fs_stat(in("x"), 0, &i) == ENOENT);
  CHECK(port_fs_stat(in("kept/file"), 0, &i) == 0);
  CHECK(port_fs_remove_all(in("x")) == 0);                              /* nothing there is fine */
  CHECK(port_fs_rename(in("kept/file"), in("moved")) == 0 && port_fs_stat(in("moved"), 0, &i) == 0);
}

static void test_another_content_is_told_from_this_one(void) {
  port_stat a, b;
  spill(in("module"), "return 1");
  CHECK(port_file_stat(in("module"), &a) == 0);
  spill(in("module"), "return 10");
  CHECK(port_file_stat(in("module"), &b) == 0 && a.inode == b.inode && a.size != b.size);
  CHECK(port_file_stat(in("none"), &b) == ENOENT);
}

static void test_a_file_is_told_of_without_a_descriptor(void) {
  struct rlimit before, none;
  port_stat s;
  int fd;
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  none = before;
  none.rlim_cur = 0;
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  CHECK(port_fs_open(in("module"), PORT_FS_READ, &fd) == EMFILE);
  CHECK(port_file_stat(in("module"), &s) == 0 && port_file_stat(in("none"), &s) == ENOENT);
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

static void test_errors_have_names_and_texts(void) {
  char text[100];
  CHECK(strcmp(port_error_name(ENOENT), "ENOENT") == 0 && strcmp(port_error_name(12345), "EUNKNOWN") == 0);
  CHECK(strcmp(port_error_text(ENOENT, text, sizeof text), "No such file or directory") == 0);
}

int main(void) {
  snprintf(folder, sizeof folder, "%.150s/portXXXXXX", port_fs_temp_folder());
  if (!mkdtemp(folder)) return 2;
  test_what_is_written_is_read_again();
  test_what_keeps_a_reader_waiting_is_refused();
  test_a_temporary_file_is_its_makers_alone();
  test_folders_are_listed_and_made();
  test_removing_all_follows_no_link();
  test_another_content_is_told_from_this_one();
  test_a_file_is_told_of_without_a_descriptor();
  test_errors_have_names_and_texts();
  CHECK(port_fs_remove_all(folder) == 0);
  return CHECK_RESULT();
}
