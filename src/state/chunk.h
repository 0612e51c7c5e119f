/*
 * chunk: compiled module files, shared by all processes of the program, so that a module which thousands of processes
 * require is compiled once.
 *
 * A chunk is known by its path and by what tells one content of the file from another (device, inode, size, time of change).
 * Chunks are counted: one reference by the table, one by each loader at work.
 */
#ifndef MR_CHUNK_H
#define MR_CHUNK_H

#include "lua/compat.h"
#include "port/system.h"

/* Loads the Lua file `path` as luaL_loadfile does; `s` from port_file_stat just before. Returns its status. */
int mr_chunk_load(lua_State *L, const char *path, const port_stat *s);
/* Loads text that never changes, under the name `file`. */
int mr_chunk_text(lua_State *L, const char *file, const char *text, size_t size);
/* For tests and reports: how many chunks were compiled so far, and the bytes held now. */
void mr_chunk_counts(size_t *compiled, size_t *bytes);

#endif
