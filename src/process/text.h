/* text: a text that grows in malloc'd memory, for reports. Where that fails it stays as it is, and `failed` says so. */
#ifndef MR_TEXT_H
#define MR_TEXT_H

#include <stddef.h>

typedef struct mr_text { char *at; size_t length, size; int failed; } mr_text;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void mr_say(mr_text *t, const char *format, ...);        /* at most some 500 bytes at once; more are cut */
void mr_say_text(mr_text *t, const char *s);             /* of any length */

#endif
