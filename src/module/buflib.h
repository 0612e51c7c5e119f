/*
 * buflib: what the files of mare.buffer share (buffer.c making and reading, builder.c changing, numbers.c numbers in rows), and what other modules
 * use that read from buffers or make them.
 */
#ifndef MR_BUFLIB_H
#define MR_BUFLIB_H

#include "module/module.h"
#include "share/buffer.h"

#define MR_BUFFER_TNAME "buffer"

/* As mr_buffer_get, without a call. */
static inline mr_buffer *mr_buffer_here(lua_State *L, int idx) {
  mr_shared *o = mr_shared_any(L, idx);
  return o && (o->type == mr_buffer_sealed || o->type == mr_buffer_open) ? (mr_buffer *)o : NULL;
}
mr_buffer *mr_buffer_refuse(lua_State *L, int idx);              /* raises: it is none, or was moved */
static inline mr_buffer *mr_buffer_arg(lua_State *L, int idx) {
  mr_buffer *b = mr_buffer_here(L, idx);
  return PORT_LIKELY(b != NULL) ? b : mr_buffer_refuse(L, idx);
}

/* ---- for whoever takes bytes: strings and buffers alike ---- */
/* Of the string or buffer at idx; NULL: it is neither. They stay where they are until Lua is called, those of a string or sealed buffer longer. */
static inline const char *mr_piece_get(lua_State *L, int idx, size_t *len) {
  if (PORT_LIKELY(lua_type(L, idx) == LUA_TSTRING)) return lua_tolstring(L, idx, len);
  const mr_buffer *b = mr_buffer_here(L, idx);
  if (!b) return NULL;
  *len = b->length;
  return (const char *)b->bytes;
}
void mr_piece_check(lua_State *L, int idx);    /* raises unless it is a string, a buffer, or a number, which becomes a string */
/* The same; and an open buffer is replaced by a sealed one with what it has now: what the program does to it later does not matter. */
void mr_piece_fix(lua_State *L, int idx);
/* The store of the buffer at idx, referenced for the caller, or NULL: it is none, or empty. */
mr_store *mr_piece_store(lua_State *L, int idx);

/* ---- making ---- */
/* Pushes a sealed buffer of the bytes, which lie in a block of malloc's: taken over, also when this raises. Counts for the budget. */
void mr_buffer_adopt(lua_State *L, void *block, void *bytes, size_t len);
void mr_buffer_adopt_by(lua_State *L, void *block, void *bytes, size_t len, void (*drop)(mr_store *s), void *ud);
void mr_buffer_push_copy(lua_State *L, const void *bytes, size_t len);
void mr_buffer_push_open(lua_State *L, size_t len);              /* of zeros */
mr_store *mr_store_make(lua_State *L, size_t size, int zeroed);  /* for the budget of the process; raises */
mr_budget *mr_store_afford(lua_State *L, size_t size);           /* takes what it costs; the budget it was taken from, or NULL; raises */

/* ---- views (numbers.c) ---- */
char mr_view_buffer(lua_State *L, int idx);    /* pushes the buffer of the view at idx: the type of its numbers; 0: there is none, nothing is pushed */
void mr_view_push(lua_State *L, int idx, char type);             /* of the buffer at idx */

/* ---- the parts ---- */
/* The open buffer at idx, alone with its store, which has room for so many bytes; its `length` is left. Raises when it is sealed. */
mr_buffer *mr_buffer_edit(lua_State *L, int idx, size_t total);
mr_buffer *mr_buffer_edit_more(lua_State *L, int idx, size_t more);  /* room for so many behind what it has */
mr_buffer *mr_buffer_edit_all(lua_State *L, int idx);                /* to change what it has */
void mr_buffer_seal_at(lua_State *L, int idx);                       /* an absolute index */

int mr_buffer_l_append(lua_State *L);
int mr_buffer_l_pack(lua_State *L);
int mr_buffer_l_put(lua_State *L);
int mr_buffer_l_fill(lua_State *L);
int mr_buffer_l_resize(lua_State *L);
int mr_buffer_l_reserve(lua_State *L);
int mr_buffer_l_clear(lua_State *L);
int mr_buffer_l_seal(lua_State *L);
int mr_buffer_l_get(lua_State *L);
int mr_buffer_l_set(lua_State *L);
int mr_buffer_l_doubles(lua_State *L);
int mr_buffer_l_integers(lua_State *L);
int mr_buffer_l_view(lua_State *L);

#endif
