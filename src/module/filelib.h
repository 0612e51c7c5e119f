/* filelib: what file.c (paths) and handle.c (open files) of mare.file share. */
#ifndef MR_FILELIB_H
#define MR_FILELIB_H

#include "module/hold.h"
#include "io/file.h"

mr_fileop *mr_file_op(lua_State *L, mr_fop op, const char *path, const char *other, mr_finish finish);   /* pushes a hold with it */
/* What to write: the string or buffer at idx, from `from` on. A string is copied, a buffer lends what it has now. */
void mr_file_data(lua_State *L, mr_fileop *o, int idx, size_t from);
int  mr_file_fail(lua_State *L, const char *path, int err);                   /* nil, message, code */

int mr_file_open(lua_State *L);
int mr_file_temp(lua_State *L);

#endif
