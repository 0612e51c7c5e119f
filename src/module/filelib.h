/* filelib: what file.c (paths) and handle.c (open files) of mare.file share. */
#ifndef MR_FILELIB_H
#define MR_FILELIB_H

#include "module/hold.h"
#include "io/file.h"

mr_fileop *mr_file_op(lua_State *L, mr_fop op, const char *path, const char *other, mr_finish finish);   /* pushes a hold with it */
void mr_file_data(lua_State *L, mr_fileop *o, const char *s, size_t len);     /* what to write: a copy */
int  mr_file_fail(lua_State *L, const char *path, int err);                   /* nil, message, code */

int mr_file_open(lua_State *L);
int mr_file_temp(lua_State *L);

#endif
