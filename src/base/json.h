/*
 * json: texts of strings and numbers as JSON has them, for all that writes JSON: mare.json, the command line, traces. No memory is allocated, no Lua.
 */
#ifndef MR_JSON_TEXT_H
#define MR_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* What becomes of a byte that is no UTF-8: the string is refused; it is taken as Latin-1; it becomes a question mark. */
enum { MR_JSON_REFUSE, MR_JSON_LATIN1, MR_JSON_MARK };

enum {
  MR_JSON_WIDEST = 6,                          /* bytes that one of a string becomes at most */
  MR_JSON_NUMBER = 48                          /* room for a number: what yyjson asks for */
};
#define MR_JSON_REFUSED ((size_t)-1)

/* The string as it stands between quotes; there is room for MR_JSON_WIDEST * n bytes. How many it has become, or MR_JSON_REFUSED. */
size_t mr_json_escape(char *to, const char *s, size_t n, int other);
/* How many bytes of UTF-8 begin at p, of n there are (at least 1); 0: none do. */
size_t mr_json_character(const char *p, size_t n);

/* These give the end of what they have written, without a zero. A double must be finite: its shortest text that gives it back, and no integer's. */
char *mr_json_integer(char *to, int64_t n);
char *mr_json_natural(char *to, uint64_t n);
char *mr_json_double(char *to, double n);

#endif
