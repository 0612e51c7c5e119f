/*
 * handle: open files of mare.file.
 *
 * A call claims the file (io/file.h), does at once what needs no waiting, and leaves the rest to an operation, which then owns the
 * claim. Between a claim and its end nothing may raise without giving it back: what can raise goes through a protected call, or is done
 * before. The file is given back meanwhile, so another fiber's call may come in between; each is whole in itself.
 */
#include "module/filelib.h"
#include "module/buflib.h"

#include <errno.h>
#include <string.h>

#define TNAME "file"

static const mr_class class;

static mr_file *file_check(lua_State *L) { return (mr_file *)mr_shared_check(L, 1, mr_file_type, TNAME); }

static int fail_claim(lua_State *L, const mr_file *f, int err) {
  lua_pushnil(L);
  if (err == EBADF) lua_pushliteral(L, "closed");
  else lua_pushfstring(L, "%s: another call is using this file; one at a time", f->path);
  lua_pushstring(L, err == EBADF ? "EBADF" : "EBUSY");
  return 3;
}

/* ---- opening ---- */

static int done_open(lua_State *L, mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  if (o->error) return mr_file_fail(L, o->path, o->error);
  if (o->op == OP_TEMP) lua_pushstring(L, o->path);
  mr_shared_push(L, &o->file->base.shared, &class);
  mr_fileop_settle(o);
  if (o->op != OP_TEMP) return 1;
  lua_insert(L, -2);
  return 2;
}

static unsigned mode_of(lua_State *L, int idx) {
  const char *mode = luaL_optstring(L, idx, "r"), *p = mode + (*mode != 0);
  unsigned how = 0;
  if (*mode == 'r') how = PORT_FS_READ;
  else if (*mode == 'w') how = PORT_FS_WRITE | PORT_FS_CREATE | PORT_FS_TRUNCATE;
  else if (*mode == 'a') how = PORT_FS_WRITE | PORT_FS_CREATE | PORT_FS_APPEND;
  if (*p == 'b') p++;
  if (*p == '+') how |= PORT_FS_READ | PORT_FS_WRITE, p++;
  if (*p == 'b') p++;
  if (*p == 'x') how |= PORT_FS_NEW, p++;
  if (*p || !how || (how & PORT_FS_NEW && *mode != 'w'))
    luaL_argerror(L, idx, lua_pushfstring(L, "mode \"r\", \"w\" or \"a\" expected, perhaps with \"+\" behind it, or \"wx\"; got \"%s\"", mode));
  return how;
}

/* A new file for an operation that opens it; the hold on top owns it. */
static mr_fileop *opening(lua_State *L, mr_fop op, const char *path) {
  mr_fileop *o = mr_file_op(L, op, path, NULL, done_open);
  if ((o->file = mr_file_new(path)) == NULL) mr_raise(L, MR_ENOMEM);
  return o;
}

/* file.open(path[, mode[, seconds]]) -> file | nil, message, code */
int mr_file_open(lua_State *L) {
  const char *path = mr_check_name(L, 1);
  unsigned how = mode_of(L, 2);
  uint64_t deadline = mr_deadline(L, 3);
  opening(L, OP_OPEN, path)->how = how;
  return mr_hold_await(L, lua_gettop(L), MR_FILES, deadline, "file.open");
}

/* file.temp([prefix[, seconds]]) -> file, path | nil, message, code */
int mr_file_temp(lua_State *L) {
  const char *prefix = lua_isnoneornil(L, 1) ? NULL : mr_check_name(L, 1);
  uint64_t deadline = mr_deadline(L, 2);
  const char *path = prefix ? lua_pushfstring(L, "%sXXXXXX", prefix) : lua_pushfstring(L, "%s/mare_XXXXXX", port_fs_temp_folder());
  opening(L, OP_TEMP, path);
  return mr_hold_await(L, lua_gettop(L), MR_FILES, deadline, "file.temp");
}

/* ---- reading ---- */

static mr_want want_of(lua_State *L, int idx) {
  mr_want w = { READ_SOME, 0, 0 };
  if (lua_type(L, idx) == LUA_TNUMBER) {
    lua_Integer n = luaL_checkinteger(L, idx);
    luaL_argcheck(L, n >= 0, idx, "a count of bytes expected, not a negative number");
    w.what = READ_COUNT;
    w.count = (size_t)n;
  } else if (!lua_isnoneornil(L, idx)) {
    const char *s = luaL_checkstring(L, idx);
    if (*s == '*') s++;
    if (strcmp(s, "l") == 0) w.what = READ_LINE;
    else if (strcmp(s, "L") == 0) w.what = READ_LINE_END;
    else if (strcmp(s, "a") == 0) w.what = READ_ALL;
    else luaL_argerror(L, idx, lua_pushfstring(L, "a count, \"l\", \"L\", \"a\" or nothing expected, got \"%s\"", s));
  }
  return w;
}

static int l_push_bytes(lua_State *L) {
  lua_pushlstring(L, lua_touserdata(L, 1), (size_t)lua_tointeger(L, 2));
  return 1;
}

static int l_push_copy(lua_State *L) {
  mr_buffer_push_copy(L, lua_touserdata(L, 1), (size_t)lua_tointeger(L, 2));
  return 1;
}

static int l_push_block(lua_State *L) {
  void *block = lua_touserdata(L, 1);
  mr_buffer_adopt(L, block, block, (size_t)lua_tointeger(L, 2));
  return 1;
}

/* Pushes what is wanted out of the buffer. An error for memory leaves it to be read again, and the file claimed: *status tells. */
static int push_slice(lua_State *L, mr_file *f, const mr_want *w, int *status) {
  const char *p;
  size_t len;
  *status = LUA_OK;
  if (!mr_file_slice(f, w, &p, &len)) {
    lua_pushnil(L);
    lua_pushliteral(L, "end of file");
    lua_pushliteral(L, "EOF");
    return 3;
  }
  char *block = w->buffer ? mr_file_give(f, len) : NULL;
  lua_pushcfunction(L, block ? l_push_block : w->buffer ? l_push_copy : l_push_bytes);
  lua_pushlightuserdata(L, block ? (void *)block : (void *)(size_t)p);
  lua_pushinteger(L, (lua_Integer)len);
  *status = lua_pcall(L, 2, 1, 0);
  if (*status == LUA_OK && !block) mr_file_consume(f, w, len);
  int64_t pos;
  if (*status != LUA_OK && block) port_fs_seek(f->fd, -(int64_t)len, PORT_FS_CURRENT, &pos);   /* the block is gone: it is read again */
  return 1;
}

static int done_read(lua_State *L, mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  int status, n;
  if (o->error) {
    n = mr_file_fail(L, o->file->path, o->error);
    mr_fileop_settle(o);
    return n;
  }
  n = push_slice(L, o->file, &o->want, &status);
  mr_fileop_settle(o);
  return status == LUA_OK ? n : lua_error(L);
}

static int read(lua_State *L, mr_file *f, mr_want w, uint64_t deadline) {
  luaL_checkstack(L, 10, NULL);
  int err = mr_file_claim(f);
  if (err) return fail_claim(L, f, err);
  if (mr_file_ready(f, &w)) {
    int status, n = push_slice(L, f, &w, &status);
    mr_file_unclaim(f);
    return status == LUA_OK ? n : lua_error(L);
  }
  mr_file_unclaim(f);                            /* the next lines may raise */
  mr_fileop *o = mr_file_op(L, OP_READ, NULL, NULL, done_read);
  o->want = w;
  if ((err = mr_fileop_use(o, f)) != 0) return fail_claim(L, f, err);
  return mr_hold_await(L, lua_gettop(L), MR_FILES, deadline, "read");
}

/* file:read([count | "l" | "L" | "a"[, seconds]]) -> string | nil, message, code */
static int l_file_read(lua_State *L) {
  mr_file *f = file_check(L);
  mr_want w = want_of(L, 2);
  return read(L, f, w, mr_deadline(L, 3));
}

/* file:read_buffer([count | "l" | "L" | "a"[, seconds]]) -> sealed buffer | nil, message, code */
static int l_file_read_buffer(lua_State *L) {
  mr_file *f = file_check(L);
  mr_want w = want_of(L, 2);
  w.buffer = 1;
  return read(L, f, w, mr_deadline(L, 3));
}

static int lines_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status; (void)ctx;
  if (!lua_isnil(L, 2)) {
    lua_settop(L, 2);
    return 1;
  }
  const char *code = lua_tostring(L, 4);
  if (code && strcmp(code, "EOF") == 0) return 0;
  return luaL_error(L, "%s", lua_tostring(L, 3));
}

/* file -> line | nil: upvalues (host), reader, format */
static int l_next_line(lua_State *L) {
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 1);
  lua_pushvalue(L, lua_upvalueindex(3));
  lua_callk(L, 2, 3, 0, lines_k);
  return lines_k(L, LUA_OK, 0);
}

/* file:lines([format]) -> iterator, file */
static int l_file_lines(lua_State *L) {
  file_check(L);
  want_of(L, 2);
  lua_settop(L, 2);
  lua_pushnil(L);                                /* where a host's functions have their record */
  lua_getfield(L, 1, "read");
  if (lua_isnil(L, 2)) lua_pushliteral(L, "l");
  else lua_pushvalue(L, 2);
  lua_pushcclosure(L, l_next_line, 3);
  lua_pushvalue(L, 1);
  return 2;
}

/* ---- writing, position, closing ---- */

static int done_write(lua_State *L, mr_request *r) {
  mr_fileop *o = (mr_fileop *)r;
  int n = 1;
  if (o->error) n = mr_file_fail(L, o->file->path, o->error);
  else lua_pushboolean(L, 1);
  mr_fileop_settle(o);
  return n;
}

/* file:write(string | buffer[, seconds]) -> true | nil, message, code */
static int l_file_write(lua_State *L) {
  size_t len;
  mr_file *f = file_check(L);
  mr_piece_check(L, 2);
  uint64_t deadline = mr_deadline(L, 3);
  const char *data = mr_piece_get(L, 2, &len);
  int err = mr_file_claim(f);
  if (err) return fail_claim(L, f, err);
  size_t done = mr_file_write_now(f, data, len);
  mr_file_unclaim(f);
  if (done == len) {
    lua_pushboolean(L, 1);
    return 1;
  }
  mr_piece_fix(L, 2);                            /* so that the rest is the rest */
  mr_fileop *o = mr_file_op(L, OP_WRITE, NULL, NULL, done_write);
  mr_file_data(L, o, 2, done);
  if ((err = mr_fileop_use(o, f)) != 0) return fail_claim(L, f, err);
  return mr_hold_await(L, lua_gettop(L), MR_FILES, deadline, "write");
}

/* file:seek(["set" | "cur" | "end"[, offset]]) -> position | nil, message, code */
static int l_file_seek(lua_State *L) {
  static const char *const names[] = { "set", "cur", "end", NULL };
  mr_file *f = file_check(L);
  int from = luaL_checkoption(L, 2, "cur", names);
  int64_t pos = 0, offset = luaL_optinteger(L, 3, 0);
  int err = mr_file_claim(f);
  if (err) return fail_claim(L, f, err);
  err = mr_file_seek(f, offset, from, &pos);
  mr_file_unclaim(f);
  if (err) return mr_file_fail(L, f->path, err);
  lua_pushinteger(L, pos);
  return 1;
}

static int whole(lua_State *L, mr_fop op, const char *name) {
  mr_file *f = file_check(L);
  uint64_t deadline = mr_deadline(L, 2);
  mr_fileop *o = mr_file_op(L, op, NULL, NULL, done_write);
  int err = mr_fileop_use(o, f);
  if (err) return fail_claim(L, f, err);
  return mr_hold_await(L, lua_gettop(L), MR_FILES, deadline, name);
}

/* file:sync([seconds]) -> true | nil, message, code */
static int l_file_sync(lua_State *L) { return whole(L, OP_SYNC, "sync"); }

/* file:close([seconds]) -> true | nil, message, code */
static int l_file_close(lua_State *L) { return whole(L, OP_CLOSE, "close"); }

/* file:path() -> string */
static int l_file_path(lua_State *L) {
  lua_pushstring(L, file_check(L)->path);
  return 1;
}

/* A to-be-closed variable goes out of scope, perhaps by an error: nothing is waited for. */
static int l_file_leave(lua_State *L) {
  if (mr_is_husk(L, 1)) return 0;
  mr_file_close_later(file_check(L));
  return 0;
}

/* tostring(file) -> "file '/tmp/x'" */
static int l_file_tostring(lua_State *L) {
  if (mr_is_husk(L, 1)) {
    lua_pushliteral(L, "file (moved)");
    return 1;
  }
  mr_file *f = file_check(L);
  lua_pushfstring(L, atomic_load(&f->state) == FILE_CLOSED ? "file '%s' (closed)" : "file '%s'", f->path);
  return 1;
}

static const luaL_Reg meta[] = { { "__tostring", l_file_tostring }, { "__close", l_file_leave }, { NULL, NULL } };
static const luaL_Reg methods[] = {
  { "read", l_file_read }, { "read_buffer", l_file_read_buffer }, { "lines", l_file_lines }, { "write", l_file_write }, { "seek", l_file_seek },
  { "sync", l_file_sync }, { "close", l_file_close }, { "path", l_file_path },   { NULL, NULL }
};

static void file_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static void dropped(mr_shared *o) { mr_file_close_later((mr_file *)o); }
static const mr_class class = {
  .share = { .name = "file", .destroy = mr_file_destroy, .push = file_push, .moves = 1, .dropped = dropped },
  .tname = TNAME, .meta = meta, .methods = methods
};

void mr_file_setup(void) { mr_file_type = &class.share; }
