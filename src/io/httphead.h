/*
 * httphead: the head of an HTTP/1 request, from its first line to the empty one. Knows no Lua and keeps nothing: what is found points into the text.
 *
 * llhttp reads it (tools/fetch-llhttp), in its strict mode. What it lets pass and a server must not is refused here: what is said of whom in RFC 9112, so
 * that this server and a proxy before it never see two different requests in the same bytes.
 */
#ifndef IO_HTTPHEAD_H
#define IO_HTTPHEAD_H

#include <stddef.h>
#include <stdint.h>

enum {                                 /* bits of a head */
  HTTP_KEEP = 1,                       /* the connection goes on after it */
  HTTP_OLD = 2,                        /* HTTP/1.0 */
  HTTP_IN_CHUNKS = 4,                  /* its body comes in chunks */
  HTTP_WAITS = 8,                      /* Expect: 100-continue */
  HTTP_CHANGES = 16,                   /* Connection: upgrade */
  HTTP_ASKS = 32                       /* a field is there that asks for a part, or for what is new: Range, If-None-Match, If-Modified-Since */
};

typedef struct mr_slice_of { const char *p; size_t len; } mr_slice_of;

typedef struct mr_httphead {
  mr_slice_of method, target;
  unsigned bits;
  int64_t length;                      /* of the body, -1: none is said */
} mr_httphead;

/* How long the head is that begins with these bytes; 0: its end has not come; -1: it is none, *why says what is wrong. */
int64_t mr_httphead_length(const char *p, size_t len, const char **why);
/* Reads a whole head. 0, or the status to refuse it with. `most`: so many fields are taken. */
int mr_httphead_read(const char *p, size_t len, int most, mr_httphead *h);
/* The next field of a head that was read: its name and value. `*at` begins as 0. 0: there is none. */
int mr_httphead_field(const char *p, size_t len, size_t *at, mr_slice_of *name, mr_slice_of *value);
/* Is it a name that a field or a method can have? */
int mr_http_token(const char *p, size_t len);
int mr_http_built(void);               /* llhttp was there when this was compiled */

#endif
