/* typecode: TypeCodes as bytes (CORBA 3.3 part 2, 9.3.5.1), in both directions, and what any needs of the rest. */
#ifndef MR_CDR_TYPECODE_H
#define MR_CDR_TYPECODE_H

#include "cdr/type.h"

/* Pushes the TypeCode of the type whose table is at idx, as bytes that go to a place aligned to 4. Foreign code: allocates, raises. */
void mr_typecode_bytes(lua_State *L, mr_cdr_env *env, int fields, int idx, int little);
/* Whether two types, at the indices, have the same TypeCode. What is made of theirs is no longer than ours. */
int mr_typecode_same(lua_State *L, mr_cdr_env *env, int fields, int ours, int theirs);
/* Reads one: pushes the type's table, or with `compiled` the table and returns what it is compiled to. */
const mr_type *mr_typecode_read(mr_dec *d);
/* Reads one that isn't in the cache: pushes the type's table. */
void mr_typecode_parse(mr_dec *d);
/* ValueModifier */
enum { MR_VM_NONE, MR_VM_CUSTOM, MR_VM_ABSTRACT, MR_VM_TRUNCATABLE };
int  mr_knows_reference(mr_enc *e, mr_val v);  /* the environment has an IOR for it */

#endif
