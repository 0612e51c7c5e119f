/* value: Lua's values as those of dictionaries (share/dict.h), and back. */
#ifndef MR_MODULE_VALUE_H
#define MR_MODULE_VALUE_H

#include "module/module.h"
#include "share/dict.h"

/*
 * The value at idx, which may be a new object: mr_value_drop releases it, and nothing between may raise. Itself it raises, by `root`, where a
 * value can't be kept.
 */
void mr_value_get(lua_State *L, int idx, const char *root, mr_dict_value *v);
static inline void mr_value_drop(mr_dict_value *v) {
  if (v->kind == DICT_OBJECT) mr_release(v->object);
}
/* The value at idx for comparing; nothing is to be released. Raises where it is none that can be compared. */
void mr_value_compare(lua_State *L, int idx, mr_dict_value *v);
/* Pushes one value, and drops it, also when this raises; nil if it is absent. */
void mr_value_push(lua_State *L, mr_dict_value *v);
/* Pushes all values of that cell; the caller keeps its reference, also when this raises. */
int  mr_cell_push(lua_State *L, mr_cell *c);
/* The n values from `first` on as one cell, one reference, in the process's budget; raises where a value can't be kept. */
mr_cell *mr_cell_pack(lua_State *L, mr_fiber *f, int first, int n, const char *root);

#endif
