/*
 * weak: included before everything else in mare.so. Makes the functions that other Lua versions lack weak there, so that the library
 * can be loaded by any Lua and say "mare needs Lua 5.4" (mr_lua_check) instead of the loader's "undefined symbol".
 */
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#pragma weak luaL_buffinitsize
#pragma weak luaL_checkversion_
#pragma weak luaL_execresult
#pragma weak luaL_fileresult
#pragma weak luaL_getsubtable
#pragma weak luaL_len
#pragma weak luaL_loadbufferx
#pragma weak luaL_loadfilex
#pragma weak luaL_prepbuffsize
#pragma weak luaL_pushresultsize
#pragma weak luaL_requiref
#pragma weak luaL_setfuncs
#pragma weak luaL_setmetatable
#pragma weak luaL_testudata
#pragma weak luaL_tolstring
#pragma weak luaL_traceback
#pragma weak luaL_typeerror
#pragma weak lua_absindex
#pragma weak lua_arith
#pragma weak lua_callk
#if LUA_VERSION_RELEASE_NUM >= 50406
#pragma weak lua_closethread
#endif
#pragma weak lua_compare
#pragma weak lua_copy
#pragma weak lua_getglobal
#pragma weak lua_geti
#pragma weak lua_getiuservalue
#pragma weak lua_isinteger
#pragma weak lua_isyieldable
#pragma weak lua_len
#pragma weak lua_newuserdatauv
#pragma weak lua_pcallk
#pragma weak lua_rawgetp
#pragma weak lua_rawlen
#pragma weak lua_rawsetp
#pragma weak lua_resetthread
#pragma weak lua_rotate
#pragma weak lua_setglobal
#pragma weak lua_seti
#pragma weak lua_setiuservalue
#pragma weak lua_setwarnf
#pragma weak lua_stringtonumber
#pragma weak lua_toclose
#pragma weak lua_tointegerx
#pragma weak lua_tonumberx
#pragma weak lua_upvalueid
#pragma weak lua_upvaluejoin
#pragma weak lua_version
#pragma weak lua_yieldk
#pragma weak luaopen_coroutine
#pragma weak luaopen_utf8
