/* dict: what the files of mare.dict share. */
#ifndef MR_MODULE_DICT_H
#define MR_MODULE_DICT_H

#include "module/module.h"
#include "share/dict.h"

mr_dict *mr_dict_check(lua_State *L, int idx);
void     mr_dict_key(lua_State *L, int idx, mr_key *k);      /* raises on what can't be one */

/* ---- dict_all.c ---- */
int mr_dict_l_keys(lua_State *L);
int mr_dict_l_each(lua_State *L);
int mr_dict_l_len(lua_State *L);
int mr_dict_l_size(lua_State *L);
int mr_dict_l_info(lua_State *L);
int mr_dict_l_clear(lua_State *L);
int mr_dict_l_purge(lua_State *L);
int mr_dict_l_name(lua_State *L);

/* ---- dict_wait.c ---- */
int mr_dict_l_wait(lua_State *L);
int mr_dict_l_watch(lua_State *L);

#endif
