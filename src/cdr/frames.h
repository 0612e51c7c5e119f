/*
 * frames: the explicit stack of a loop that does what a recursion would.
 *
 * The frames, C structs of one size, lie in a userdata at a place on Lua's stack, below all that the loop pushes: so an error that jumps past the
 * loop frees them, and a process's limit counts them. They move when one more is pushed. MR_MAX_DEPTH in type.h says who needs this.
 */
#ifndef MR_CDR_FRAMES_H
#define MR_CDR_FRAMES_H

#include "lua/compat.h"
#include "port/port.h"
#include <stddef.h>
#include <stdint.h>

typedef struct mr_frames {
  char *at;
  size_t size;                                 /* of one */
  uint32_t n, room;
  int index;                                   /* of the userdata, nil before the first one */
} mr_frames;

/* Takes a place on Lua's stack, on top. The caller has made room. */
static inline void mr_frames_begin(lua_State *L, mr_frames *f, size_t size) {
  lua_pushnil(L);
  *f = (mr_frames){ .size = size, .index = lua_gettop(L) };
}

/* more(userdata or nil, bytes of a frame) -> a larger one with the same contents; who may not collect garbage calls it by other ways */
int mr_frames_more(lua_State *L);
void mr_frames_grow(lua_State *L, mr_frames *f);   /* by the usual one; may collect, raises memory errors; needs 3 places on the stack */

/* The userdata at the index is another one now. */
static inline void mr_frames_moved(lua_State *L, mr_frames *f) {
  f->at = lua_touserdata(L, f->index);
  f->room = (uint32_t)(lua_rawlen(L, f->index) / f->size);
}

/* One more, whose bytes are not set; there is room. */
static inline void *mr_frames_new(mr_frames *f) {
  mr_assert(f->n < f->room);
  return f->at + f->size * f->n++;
}
static inline void *mr_frames_last(const mr_frames *f) {
  mr_assert(f->n > 0 && f->n <= f->room);
  return f->at + f->size * (f->n - 1);
}

static inline void *mr_frames_push(lua_State *L, mr_frames *f) {
  if (f->n == f->room) mr_frames_grow(L, f);
  return mr_frames_new(f);
}

#endif
