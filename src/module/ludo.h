/*
 * ludo: messages of mare.ludo, what ludo_out.c (values to bytes) and ludo_in.c (bytes to values) agree upon.
 *
 * A message is a head of LUDO_HEAD bytes - its length with the head, its id (both 32 bits, little-endian), its type, three zeros - and a body: a byte
 * of flags, how many values there are, the values. Numbers without sign are written seven bits at a time, the lowest first. A value is a tag and what
 * belongs to it. Strings get numbers in the order in which they come first, and so do tables and *shapes*: the keys of a table whose other keys are all
 * strings, written once for all tables that have the same. So what is one table on one side is one on the other, circles too.
 *
 * A *world* is the list of what both directions ask: see WORLD_ below. Neither direction recurses, so that depth takes no C stack; LUDO_DEPTH is the
 * limit of both.
 */
#ifndef MODULE_LUDO_H
#define MODULE_LUDO_H

#include "module/module.h"
#include "port/net.h"

#include <stdint.h>

enum { LUDO_HEAD = 12, LUDO_DEPTH = 1000, LUDO_VALUES = 1000 /* of a message */ };
enum { LUDO_BYTES = 2048 /* that are written without getting memory */, LUDO_MOST = 16384 /* of a message that is read where it lies, in the C stack */ };
enum { LUDO_CALL = 1, LUDO_REPLY, LUDO_RAISED, LUDO_CANCEL, LUDO_CLOSE, LUDO_LAST = LUDO_CLOSE };
enum { LUDO_AGAIN = 1 };                         /* flags: some table is referred to once more */

enum {
  LUDO_NIL, LUDO_FALSE, LUDO_TRUE,
  LUDO_INTEGER,                                  /* number: twice its size, + 1 if it is below zero (zigzag) */
  LUDO_FLOAT,                                    /* 8 bytes, little-endian */
  LUDO_STRING,                                   /* length, bytes */
  LUDO_KNOWN,                                    /* a string's number */
  LUDO_TABLE,                                    /* array values, pairs, their number each; then they */
  LUDO_SHAPED,                                   /* array values, a shape's number; then the array, and a value for each key */
  LUDO_SHAPE,                                    /* array values, how many keys; the keys, which are strings; then as LUDO_SHAPED */
  LUDO_OBJECT,                                   /* a table's number */
  LUDO_CLASS,                                    /* a string, its name, then a table of that class */
  LUDO_REFERENCE,                                /* a string: leads to an object that stays where it is */
  LUDO_BUFFER,                                   /* length, bytes: a sealed buffer */
  LUDO_TAGS,
  LUDO_SHORT = 0x40,                             /* + length below 32: a string */
  LUDO_RECENT = 0x60,                            /* + number below 32: a string */
  LUDO_SMALL = 0x80                              /* and above: an integer, less LUDO_ZERO */
};
enum { LUDO_ZERO = 0x90, LUDO_KEYS = 32 /* of a shape, at most */, LUDO_SHAPES = 64 /* of a message */ };

/* Places of a world. The two directions of a class: its metatable to its name, its name to its metatable. */
enum { WORLD_REFERENCES = 1,                     /* objects that travel as references: { [table] = string } */
       WORLD_NAMES, WORLD_CLASSES,               /* in the first, true for the metatable of proxies, whose field _reference is such a string */
       WORLD_RESOLVE,                            /* function(string) -> what stands for that object here */
       WORLD_MEMORY };                           /* bytes that the values of a message may take, about */

/*
 * ludo_out.c. A message of the values from the index `first` to the top, in `out` or, a longer one, in a userdata that is left on the stack. Raises what
 * can't be sent.
 */
port_slice mr_ludo_write(lua_State *L, char *out, size_t cap, int type, uint32_t id, int world, int first);
int  mr_ludo_message(lua_State *L);

/*
 * ludo_in.c. Pushes copies of the `again` topmost values, then the message's values without its first `skip`, which must be strings. Returns how many it
 * pushed. Raises what is wrong with the message.
 */
int  mr_ludo_read(lua_State *L, const char *p, size_t len, int world, int skip, int again);
int  mr_ludo_values(lua_State *L);

typedef struct mr_ludo_request { uint32_t id; port_slice key, operation; } mr_ludo_request;
int  mr_ludo_is_request(const char *p, size_t n, mr_ludo_request *q, size_t *length);   /* a call has come whole, and is no longer than LUDO_MOST */

static inline uint32_t mr_ludo_word(const char *p) {
  const unsigned char *b = (const unsigned char *)p;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

extern const luaL_Reg mr_ludo_calling[], mr_ludo_serving[];   /* functions of mare.ludo.core: ludo_call.c, ludo_serve.c */

#endif
