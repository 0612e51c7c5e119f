/* number: the two number formats no machine here has: decimal digits, and floats of 128 bits. Plain functions, no state. */
#ifndef MR_CDR_NUMBER_H
#define MR_CDR_NUMBER_H

#include <stddef.h>
#include <stdint.h>

enum { MR_FIXED_TEXT = 40 };                   /* bytes that the text of a fixed needs at most */

/* The text (optional sign, digits, perhaps a point and more digits) as digits / 2 + 1 bytes. NULL, or what is wrong. */
const char *mr_fixed_pack(unsigned char *to, const char *s, size_t n, uint32_t digits, uint32_t scale);
/* The other way, with all `scale` digits behind the point; how many bytes, 0: these are no decimal digits. */
size_t mr_fixed_text(char *to, const unsigned char *from, uint32_t digits, uint32_t scale);

/* IEEE 754 binary128, most significant word first; to a double by rounding to the nearest, ties to even. */
void   mr_quad_from(uint64_t to[2], double n);
double mr_quad_to(const uint64_t from[2]);

#endif
