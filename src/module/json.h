/*
 * json: what the files of mare.json share: json.c the module and its options, json_write.c values to text, json_read.c text to values, json_lines.c
 * texts that come line by line.
 */
#ifndef MODULE_JSON_H
#define MODULE_JSON_H

#include "module/module.h"

enum { MR_JSON_DEPTH = 1000, MR_JSON_DEEPEST = 100000 };   /* arrays and objects in each other: usually, and at most */

/* What encode is told. The first of each set is what it does without being told. */
typedef struct mr_json_writing {
  int depth, indent;                           /* indent: spaces a level; 0: all on one line */
  uint8_t sorted, empty_object, null_numbers;  /* names in order; an empty table is an object; infinity and what is no number become null */
  uint8_t other;                               /* of base/json.h */
} mr_json_writing;

/* What decode is told. `null` is where null's value is on the stack, 0: json.null is. */
enum { MR_JSON_LAST, MR_JSON_FIRST, MR_JSON_ONCE };      /* of members of one name */
enum { MR_JSON_FLOAT, MR_JSON_STRING, MR_JSON_EXACT };   /* integers of more than 64 bits */
typedef struct mr_json_reading { int depth, null; uint8_t duplicates, big, null_as_nil; } mr_json_reading;

/* Metatables say what a table is: their field __jsontype is "array" or "object". */
enum { MR_JSON_NO_MARK, MR_JSON_ARRAY, MR_JSON_OBJECT };
int  mr_json_mark(lua_State *L, int idx);      /* of the table at idx */
void mr_json_set_mark(lua_State *L, int mark); /* of the table on top */

/* The text of the value at idx: pushed as a string, or behind what the open buffer at `into` has, if that is not 0. Raises. */
void mr_json_write(lua_State *L, int idx, const mr_json_writing *o, int into);

/* Pushes the value of the text: 1. Or nil and what is wrong with it: 2, its line, counted from `line`. The text must stay where it is. */
int  mr_json_read(lua_State *L, const char *text, size_t length, size_t line, const mr_json_reading *o);
extern const int mr_json_reads;                /* 0: this build has no yyjson, and mr_json_read only raises */
void mr_json_no_reader(lua_State *L);          /* raises, if that is so */

void mr_json_read_options(lua_State *L, int idx, mr_json_reading *o);   /* json.c */
int  mr_json_l_lines(lua_State *L);            /* json_lines.c */

#endif
