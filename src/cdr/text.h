/* text: between the bytes of a Lua program, which are UTF-8, and the code sets of the wire. Plain functions, no state. */
#ifndef MR_CDR_TEXT_H
#define MR_CDR_TEXT_H

#include <stddef.h>
#include <stdint.h>

int      mr_text_ascii(const char *s, size_t n);
/* The character at s (n > 0 bytes left) and its length in *used; UINT32_MAX: it is no UTF-8. */
uint32_t mr_text_read(const char *s, size_t n, size_t *used);
size_t   mr_text_write(char *to, uint32_t c);          /* at most 4 bytes; how many */
/* ISO 8859-1: how many characters, SIZE_MAX: some can't be converted; `to` has room for n. */
size_t   mr_text_to_latin(char *to, const char *s, size_t n);
size_t   mr_text_from_latin(char *to, const char *s, size_t n);   /* how many bytes of UTF-8; at most 2 n */
/* UTF-16: how many units, SIZE_MAX: it is no UTF-8; `to` may be NULL; big: most significant byte first. */
size_t   mr_text_to_utf16(char *to, const char *s, size_t n, int big);
/* How many bytes of UTF-8 (at most 3 a unit) so many units are; SIZE_MAX: half of a pair. */
size_t   mr_text_from_utf16(char *to, const char *s, size_t units, int big);

#endif
