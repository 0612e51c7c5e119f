/*
 * mare.file: whole files and folders by path. Open files are in handle.c.
 *
 * Everything is an operation of src/io (fileop.c) that this fiber waits for. What the operation works on is copied: whoever asked may be
 * gone before it ends.
 */
#include "module/filelib.h"
#include "module/buflib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mr_file_fail(lua_State *L, const char *path, int err) {
  if (err != ENOTSUP) return mr_fail_path(L, path, err);
  lua_pushnil(L);
  lua_pushfstring(L, "%s: a file is expected, not a pipe, socket, terminal or endless device; mare.subprocess can read it: "
                     "spawn{\"cat\", path}", path);
  lua_pushliteral(L, "ENOTSUP");
  return 3;
}

/* ---- results ---- */

static int done_ok(lua_State *L, mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  if (o->error) return mr_file_fail(L, o->path, o->error);
  lua_pushboolean(L, 1);
  return 1;
}

static int done_data(lua_State *L, mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  if (o->error) return mr_file_fail(L, o->path, o->error);
  lua_pushlstring(L, o->data, o->len);
  return 1;
}

/* The block that was read becomes the buffer's. */
static int done_buffer(lua_State *L, mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  if (o->error) return mr_file_fail(L, o->path, o->error);
  char *block = o->data;
  o->data = NULL;
  luaL_checkstack(L, 10, NULL);
  mr_buffer_adopt(L, block, block, o->len);
  return 1;
}

static void number(lua_State *L, const char *name, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

static void integer(lua_State *L, const char *name, uint64_t value) {
  lua_pushinteger(L, (lua_Integer)value);
  lua_setfield(L, -2, name);
}

static int done_stat(lua_State *L, mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  const port_fs_info *i = &o->info;
  if (o->error) return mr_file_fail(L, o->path, o->error);
  lua_createtable(L, 0, 11);
  lua_pushstring(L, i->type);
  lua_setfield(L, -2, "type");
  integer(L, "size", (uint64_t)i->size);
  number(L, "modified", i->modified);
  number(L, "accessed", i->accessed);
  number(L, "changed", i->changed);
  integer(L, "mode", i->mode);
  integer(L, "user", i->user);
  integer(L, "group", i->group);
  integer(L, "device", i->device);
  integer(L, "inode", i->inode);
  integer(L, "links", i->links);
  return 1;
}

static const char *type_name(char letter) {
  static const char letters[] = "fdlpscb";
  static const char *const names[] = { "file", "directory", "link", "pipe", "socket", "character device", "block device" };
  const char *at = strchr(letters, letter);
  return at ? names[at - letters] : "unknown";
}

static int compare(const void *a, const void *b) { return strcmp(*(const char *const *)a + 1, *(const char *const *)b + 1); }

/* In the order of their bytes: what the system gives has none. */
static int done_list(lua_State *L, mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  if (o->error) return mr_file_fail(L, o->path, o->error);
  const char **entry = lua_newuserdatauv(L, (o->len + 1) * sizeof *entry, 0), *p = o->data;
  for (size_t i = 0; i < o->len; i++, p += strlen(p) + 1) entry[i] = p;
  qsort(entry, o->len, sizeof *entry, compare);
  lua_createtable(L, (int)o->len, 0);
  lua_createtable(L, (int)o->len, 0);
  for (size_t i = 0; i < o->len; i++) {
    lua_pushstring(L, entry[i] + 1);
    lua_rawseti(L, -3, (lua_Integer)i + 1);
    lua_pushstring(L, type_name(entry[i][0]));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 2;
}

/* ---- operations ---- */

/* Leaves the hold on top. */
mr_fileop *mr_file_op(lua_State *L, mr_fop op, const char *path, const char *other, mr_finish finish) {
  mr_hold *h = mr_hold_push(L);
  mr_fileop *o = mr_fileop_new(op, path, other);
  if (!o) mr_raise(L, MR_ENOMEM);
  h->request = &o->request;
  h->finish = finish;
  return o;
}

static int run(lua_State *L, uint64_t deadline, const char *op) { return mr_hold_await(L, lua_gettop(L), MR_FILES, deadline, op); }

static int flag(lua_State *L, int idx, const char *word) {
  const char *given = luaL_optstring(L, idx, NULL);
  if (!given) return 0;
  if (strcmp(given, word) != 0) luaL_argerror(L, idx, lua_pushfstring(L, "\"%s\" or nothing expected, got \"%s\"", word, given));
  return 1;
}

static int slurp(lua_State *L, mr_finish finish, const char *name) {
  const char *path = mr_check_name(L, 1);
  uint64_t deadline = mr_deadline(L, 2);
  mr_file_op(L, OP_SLURP, path, NULL, finish);
  return run(L, deadline, name);
}

/* file.read(path[, seconds]) -> string | nil, message, code */
static int l_read(lua_State *L) { return slurp(L, done_data, "file.read"); }
/* file.read_buffer(path[, seconds]) -> sealed buffer | nil, message, code */
static int l_read_buffer(lua_State *L) { return slurp(L, done_buffer, "file.read_buffer"); }

void mr_file_data(lua_State *L, mr_fileop *o, int idx, size_t from) {
  size_t len;
  const char *s = mr_piece_get(L, idx, &len);
  if (!s || len <= from) return;
  o->store = mr_piece_store(L, idx);
  o->len = len - from;
  if (o->store) o->data = (char *)(size_t)s + from;
  else if ((o->data = malloc(o->len)) == NULL) mr_raise(L, MR_ENOMEM);
  else memcpy(o->data, s + from, o->len);
}

/* file.write(path, string | buffer[, "append"[, seconds]]) -> true | nil, message, code */
static int l_write(lua_State *L) {
  const char *path = mr_check_name(L, 1);
  mr_piece_check(L, 2);
  int append = flag(L, 3, "append");
  uint64_t deadline = mr_deadline(L, 4);
  mr_fileop *o = mr_file_op(L, OP_SPILL, path, NULL, done_ok);
  mr_file_data(L, o, 2, 0);
  o->how = PORT_FS_WRITE | PORT_FS_CREATE | (append ? PORT_FS_APPEND : PORT_FS_TRUNCATE);
  return run(L, deadline, "file.write");
}

/* An operation on a path with an optional word, which sets its flag. */
static int path_op(lua_State *L, mr_fop op, const char *word, int without, mr_finish finish, const char *name) {
  const char *path = mr_check_name(L, 1);
  int with = flag(L, 2, word);
  uint64_t deadline = mr_deadline(L, 3);
  mr_fileop *o = mr_file_op(L, op, path, NULL, finish);
  o->how = (unsigned)(with ^ without);
  return run(L, deadline, name);
}

/* file.stat(path[, "link"[, seconds]]) -> { type=, size=, modified=, … } | nil, message, code */
static int l_stat(lua_State *L) { return path_op(L, OP_STAT, "link", 1, done_stat, "file.stat"); }

/* file.mkdir(path[, "parents"[, seconds]]) -> true | nil, message, code */
static int l_mkdir(lua_State *L) { return path_op(L, OP_MKDIR, "parents", 0, done_ok, "file.mkdir"); }

/* file.remove(path[, "all"[, seconds]]) -> true | nil, message, code */
static int l_remove(lua_State *L) { return path_op(L, OP_REMOVE, "all", 0, done_ok, "file.remove"); }

/* file.list(path[, seconds]) -> names, types | nil, message, code */
static int l_list(lua_State *L) {
  const char *path = mr_check_name(L, 1);
  uint64_t deadline = mr_deadline(L, 2);
  mr_file_op(L, OP_LIST, path, NULL, done_list);
  return run(L, deadline, "file.list");
}

/* file.rename(from, to[, seconds]) -> true | nil, message, code */
static int l_rename(lua_State *L) {
  const char *from = mr_check_name(L, 1), *to = mr_check_name(L, 2);
  uint64_t deadline = mr_deadline(L, 3);
  mr_file_op(L, OP_RENAME, from, to, done_ok);
  return run(L, deadline, "file.rename");
}

static const luaL_Reg functions[] = {
  { "read", l_read },   { "read_buffer", l_read_buffer },   { "write", l_write },   { "open", mr_file_open },  { "temp", mr_file_temp },     { "stat", l_stat },
  { "list", l_list },   { "mkdir", l_mkdir },   { "remove", l_remove },    { "rename", l_rename },       { NULL, NULL }
};

int luaopen_mare_file(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 11);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}
