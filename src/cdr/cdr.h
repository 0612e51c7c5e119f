/*
 * cdr: bytes of CORBA's Common Data Representation (CORBA 3.3 part 2, 9.3): what writes and reads them, and what runs the marshalling
 * programs of mare.orb.cdr. The types behind the programs are in type.h.
 *
 * Heads of GIOP messages (giop.h) and values are read and written by the same two, mr_in and mr_out.
 *
 * Writing. An mr_out writes into the scratch buffer of its thread, which is kept between messages; mr_out_push makes a Lua string of it.
 *  - One mr_out at a time writes in a thread. Whoever runs foreign Lua code meanwhile (a function of the program, a metamethod, a
 *    finaliser) does so between mr_out_leave and mr_out_return, in protected mode, so that this code may write messages of its own.
 *  - A memory error raised while writing (by Lua's longjmp) loses nothing: the thread still has the buffer.
 *  - Alignment counts from `base`: the first byte, or the first byte of the encapsulation being written.
 *
 * Reading. An mr_in reads bytes that somebody else keeps alive. Every length is checked against what is left before it is used. Nothing here
 * raises: a read beyond the end gives 0 and sets `bad`, which stays.
 */
#ifndef MR_CDR_H
#define MR_CDR_H

#include <string.h>
#include <stddef.h>
#include <stdint.h>
#include "lua/compat.h"
#include "port/port.h"

/* A codec: how one message is written. Without CDR_AS_IS and CDR_FROM_LATIN the program has UTF-8 and the message ISO 8859-1. */
enum {
  CDR_LITTLE = 1,                              /* byte order */
  CDR_MINOR = 6, CDR_MINOR_SHIFT = 1,          /* GIOP 1.0, 1.1, 1.2 */
  CDR_AS_IS = 8,                               /* char has the code set of the program's strings: nothing is converted */
  CDR_UTF16 = 16,                              /* wchar is UTF-16, else it can't be sent */
  CDR_SERVER = 32,                             /* which exception says so */
  CDR_BULK = 64,                               /* long messages may be made in pieces, and are freed when they were decoded: bulk.h */
  CDR_FROM_LATIN = 128,                        /* the program has ISO 8859-1, the message UTF-8 */
  CDR_HAS_UTF8 = 256,                          /* the message has ISO 8859-1, but the peers could have taken UTF-8: for what errors advise */
  CDR_YES = 512, CDR_MAYBE = 1024,             /* what the call has done when this fails, for `fail` of the environment; else nothing */
  CDR_ALL = 2047
};

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
enum { CDR_NATIVE = 0 };
#else
enum { CDR_NATIVE = CDR_LITTLE };
#endif

static inline uint16_t cdr_swap16(uint16_t v) { return (uint16_t)(v << 8 | v >> 8); }
static inline uint32_t cdr_swap32(uint32_t v) {
  return v << 24 | (v & 0xff00) << 8 | (v >> 8 & 0xff00) | v >> 24;
}
static inline uint64_t cdr_swap64(uint64_t v) { return (uint64_t)cdr_swap32((uint32_t)v) << 32 | cdr_swap32((uint32_t)(v >> 32)); }

/* A number of 4 bytes at a place that need not be aligned. */
static inline uint32_t cdr_load32(const char *p, int little) {
  uint32_t v;
  memcpy(&v, p, 4);
  return !little != !CDR_NATIVE ? cdr_swap32(v) : v;
}
static inline void cdr_store32(char *p, uint32_t v, int little) {
  if (!little != !CDR_NATIVE) v = cdr_swap32(v);
  memcpy(p, &v, 4);
}

/* ---- writing ---- */

typedef struct mr_out {
  char *at, *end;                              /* next byte; end of the room there is */
  char *base;                                  /* where alignment counts from */
  char *start;                                 /* of the buffer */
  lua_State *L;                                /* gets the memory errors */
  int swap;                                    /* the bytes' order is not this machine's */
} mr_out;

void mr_out_begin(mr_out *o, lua_State *L, int little);
void mr_out_grow(mr_out *o, size_t n);         /* makes room for n more bytes */
void mr_out_push(mr_out *o);                   /* all of it as a string; o is done */
void mr_out_end(void);                         /* whatever wrote in this thread is done */
void mr_out_leave(mr_out *o);
void mr_out_return(mr_out *o);
size_t mr_out_open(mr_out *o);                 /* begins a counted encapsulation: length, byte order; the result is for mr_out_close */
void mr_out_close(mr_out *o, size_t mark);
void mr_out_text(mr_out *o, const char *s, size_t n);   /* a string of the protocol's own: length, bytes, zero */

static inline size_t mr_out_length(const mr_out *o) { return (size_t)(o->at - o->start); }
static inline void mr_out_room(mr_out *o, size_t n) { if (PORT_UNLIKELY((size_t)(o->end - o->at) < n)) mr_out_grow(o, n); }

/* `n` a power of two, at most 8; the padding is zero. Room has been made. */
static inline void mr_out_pad(mr_out *o, size_t n) {
  size_t gap = -(size_t)(o->at - o->base) & (n - 1);
  if (gap) {                                   /* at most 7: one store of 8 fits, as room is made for 8 more than needed */
    memset(o->at, 0, 8);
    o->at += gap;
  }
}
/* Room for that many bytes, and for the padding before each of them that mr_out_pad may write. */
#define OUT_SLACK 16

static inline void mr_out_align(mr_out *o, size_t n) { mr_out_room(o, OUT_SLACK); mr_out_pad(o, n); }

static inline void mr_out_u8(mr_out *o, unsigned v) { mr_out_room(o, 1); *o->at++ = (char)v; }
static inline void mr_out_number(mr_out *o, const void *v, size_t n) {
  mr_out_room(o, n + OUT_SLACK);
  mr_out_pad(o, n);
  memcpy(o->at, v, n);
  o->at += n;
}
static inline void mr_out_u16(mr_out *o, uint16_t v) { if (o->swap) v = cdr_swap16(v); mr_out_number(o, &v, 2); }
static inline void mr_out_u32(mr_out *o, uint32_t v) { if (o->swap) v = cdr_swap32(v); mr_out_number(o, &v, 4); }
static inline void mr_out_u64(mr_out *o, uint64_t v) { if (o->swap) v = cdr_swap64(v); mr_out_number(o, &v, 8); }
static inline void mr_out_bytes(mr_out *o, const void *p, size_t n) {
  mr_out_room(o, n);
  if (n) memcpy(o->at, p, n);
  o->at += n;
}
static inline void mr_out_octets(mr_out *o, const void *p, size_t n) {  /* a sequence of octets */
  mr_out_u32(o, (uint32_t)n);
  mr_out_bytes(o, p, n);
}
/* Writes over a number written before; `offset` from the start of the buffer. */
static inline void mr_out_patch32(mr_out *o, size_t offset, uint32_t v) {
  if (o->swap) v = cdr_swap32(v);
  memcpy(o->start + offset, &v, 4);
}

/* ---- reading ---- */

/*
 * A GIOP 1.1 message that came in fragments has seams: in each piece alignment counts from the piece's own header, so `base` moves at each of
 * them, and no number is broken by one. core.join (module/giop.c) lists them behind the message.
 */
typedef struct mr_in {
  const char *at, *end;
  const char *stop;                            /* the next seam, or the end */
  const char *base;                            /* where alignment counts from */
  const char *origin;                          /* where places count from */
  const char *seams;                           /* the ones behind `stop`: little-endian numbers of 4 bytes, offsets from `origin` */
  uint32_t nseams;
  uint32_t level;                              /* chunked values around what is read; 0: the next three mean nothing. See chunk.c */
  uint32_t ended;                              /* those of this level and above have ended already; 0: none has */
  const char *chunk, *edge;                    /* where the chunk ends; what `stop` would be without it */
  const char *bad, *bad_at;                    /* what is wrong, or NULL, and where */
  int swap;
} mr_in;

static inline void mr_in_begin(mr_in *in, const char *p, size_t n, size_t at, int little) {
  in->base = in->origin = p;
  in->at = p + at;
  in->end = in->stop = p + n;
  in->nseams = in->level = 0;
  in->bad = NULL;
  in->swap = !little != !CDR_NATIVE;
}
static inline size_t mr_in_left(const mr_in *in) { return (size_t)(in->end - in->at); }
static inline size_t mr_in_offset(const mr_in *in) { return (size_t)(in->at - in->base); }
void mr_in_fail(mr_in *in, const char *what);  /* the first failure counts; then nothing is left to read */
void mr_in_fail_at(mr_in *in, const char *at, const char *what);

const char *mr_in_beyond(mr_in *in, size_t align, size_t n);   /* mr_in_take where it ends before the value does, or a seam comes */
void mr_in_seams(mr_in *in);                   /* takes the list at the end of what is read */
void mr_in_cross(mr_in *in);                   /* goes over the seam at `stop` */
const char *mr_in_beyond_chunk(mr_in *in, size_t align, size_t n);   /* mr_in_beyond inside a chunked value: chunk.c */

/* The place of n bytes aligned to `align`, or NULL. */
static inline const char *mr_in_take(mr_in *in, size_t align, size_t n) {
  size_t gap = -(size_t)(in->at - in->base) & (align - 1), left = (size_t)(in->stop - in->at);
  if (PORT_UNLIKELY(left < gap || left - gap < n)) return mr_in_beyond(in, align, n);
  const char *p = in->at + gap;
  in->at = p + n;
  return p;
}
static inline uint8_t mr_in_u8(mr_in *in) {
  const char *p = mr_in_take(in, 1, 1);
  return p ? (uint8_t)*p : 0;
}
static inline void mr_in_number(mr_in *in, void *v, size_t n) {
  const char *p = mr_in_take(in, n, n);
  if (p) memcpy(v, p, n);
}
static inline uint16_t mr_in_u16(mr_in *in) { uint16_t v = 0; mr_in_number(in, &v, 2); return in->swap ? cdr_swap16(v) : v; }
static inline uint32_t mr_in_u32(mr_in *in) { uint32_t v = 0; mr_in_number(in, &v, 4); return in->swap ? cdr_swap32(v) : v; }
static inline uint64_t mr_in_u64(mr_in *in) { uint64_t v = 0; mr_in_number(in, &v, 8); return in->swap ? cdr_swap64(v) : v; }
/* Of bytes, for small caches. */
static inline uint32_t mr_hash(const char *s, size_t n) {
  uint64_t h = n * UINT64_C(0x9E3779B97F4A7C15), word;
  for (; n >= 8; s += 8, n -= 8) {
    memcpy(&word, s, 8);
    h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 32;
  }
  for (; n; n--) h = (h ^ (unsigned char)*s++) * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)(h >> 32);
}

/* A counted run of octets: its place and length, NULL when it doesn't fit; then what is wrong is the length. */
const char *mr_in_octets(mr_in *in, size_t *n);
/* A string of the protocol's own: its place and length without the zero that ends it, which must be there; NULL: none. */
const char *mr_in_text(mr_in *in, size_t *n);
/* Goes into a counted encapsulation: `sub` reads it. 0: there is none. */
int mr_in_open(mr_in *in, mr_in *sub);

#endif
