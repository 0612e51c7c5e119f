/* put_text: characters and strings of all kinds, from Lua to bytes (CORBA 3.3 part 2, 9.3.1.6, 9.3.2.7). */
#include "cdr/put.h"
#include "cdr/text.h"
#include "share/buffer.h"

enum { DATA_CONVERSION = 1 };

static int is_string(mr_val v) { return v.tt == RAW_SHORT || v.tt == RAW_LONG; }

/* Strings of UTF-8 for a message with ISO 8859-1. UTF-8 is no help against a peer's own set, which must hold the characters, too. */
static const char *advice(const mr_enc *e) {
  if (e->codec & CDR_SERVER)
    return e->codec & CDR_HAS_UTF8 ? "the client chose it, and may choose UTF-8 where orb.init{ codeset = \"UTF-8\" } names that first" : "the client chose it";
  return e->codec & CDR_HAS_UTF8 ? "orb.init{ codeset = \"UTF-8\" }, or -ORBcodeset UTF-8, helps if its own set has them all"
                                 : "its reference offers no UTF-8";
}

static int no_latin(mr_enc *e) {
  return mr_refuse(e, "DATA_CONVERSION", DATA_CONVERSION, "the peer takes ISO 8859-1, and not every character of this string exists there; %s",
                   advice(e));
}

/* A char is one byte in every set. */
static int no_byte(mr_enc *e) {
  return mr_refuse(e, "DATA_CONVERSION", DATA_CONVERSION, "a char is one byte, and %s has none for this character; a string or a wchar can hold it",
                   e->codec & (CDR_AS_IS | CDR_FROM_LATIN) ? "UTF-8" : "ISO 8859-1");
}

static int too_long(mr_enc *e, const char *what, size_t n, uint32_t bound) {
  return mr_refuse(e, "BAD_PARAM", 0, "%s of at most %lu expected, got %zu", what, (unsigned long)bound, n);
}

int mr_put_char(mr_enc *e, mr_val v) {
  size_t n, used;
  if (!is_string(v)) return mr_wrong(e, "char", v);
  const char *s = mr_val_text(e, v, &n);
  if (e->codec & CDR_FROM_LATIN) {
    if (n != 1) return mr_wrong(e, "char (a string of one character)", v);
    if (*s & 0x80) return no_byte(e);
  }
  uint32_t c = n == 1 ? (unsigned char)*s : n && !(e->codec & CDR_AS_IS) ? mr_text_read(s, n, &used) : UINT32_MAX;
  if (n != 1 && (c > 0xff || used != n)) {
    if (n > 1 && mr_text_read(s, n, &used) != UINT32_MAX && used == n) return no_byte(e);
    return mr_wrong(e, "char (a string of one character)", v);
  }
  mr_out_u8(&e->o, c);
  return 0;
}

/* How many bytes n may become. */
static inline size_t widest(const mr_enc *e, size_t n) { return PORT_UNLIKELY(e->codec & CDR_FROM_LATIN) ? 2 * n : n; }

/* The bytes of s as the peer wants them; the room has been made. SIZE_MAX: refused. */
static size_t put_converted(mr_enc *e, const char *s, size_t n) {
  if ((e->codec & CDR_AS_IS) || mr_text_ascii(s, n)) {
    memcpy(e->o.at, s, n);
    return n;
  }
  if (e->codec & CDR_FROM_LATIN) return mr_text_from_latin(e->o.at, s, n);
  size_t count = mr_text_to_latin(e->o.at, s, n);
  if (count == SIZE_MAX) no_latin(e);
  return count;
}

int mr_put_string(mr_enc *e, const mr_type *t, mr_val v) {
  size_t n;
  if (PORT_UNLIKELY(!is_string(v))) return mr_wrong(e, "string", v);
  const char *s = mr_val_text(e, v, &n);
  if (PORT_UNLIKELY(memchr(s, 0, n) != NULL)) return mr_refuse(e, "BAD_PARAM", 0, "string without zero bytes expected");
  mr_out_room(&e->o, widest(e, n) + 5 + OUT_SLACK);
  mr_out_pad(&e->o, 4);
  e->o.at += 4;
  size_t count = put_converted(e, s, n);
  if (PORT_UNLIKELY(count == SIZE_MAX)) return -1;
  if (PORT_UNLIKELY(t->n && count > t->n)) return too_long(e, "string", count, t->n);
  uint32_t length = (uint32_t)count + 1;
  if (e->o.swap) length = cdr_swap32(length);
  memcpy(e->o.at - 4, &length, 4);
  e->o.at[count] = 0;
  e->o.at += count + 1;
  return 0;
}

/* The bytes of a buffer; NULL: v is none. Nothing runs until they are copied. */
static const char *buffer_bytes(mr_enc *e, mr_val v, size_t *n) {
  if (v.tt != RAW_USERDATA) return NULL;
  mr_push_val(e, v);
  const mr_buffer *b = mr_buffer_get(e->L, -1);
  lua_pop(e->L, 1);
  if (b) *n = b->length;
  return b ? (const char *)b->bytes : NULL;
}

int mr_put_octets(mr_enc *e, const mr_type *t, mr_val v) {
  size_t n;
  const char *s = t->kind == TK_OCTETS ? buffer_bytes(e, v, &n) : NULL;
  if (!s && !is_string(v)) return mr_wrong(e, t->kind == TK_CHARS ? "string of characters" : "string of octets", v);
  if (!s) s = mr_val_text(e, v, &n);
  if (t->kind == TK_CHARS && (e->codec & CDR_FROM_LATIN) && !mr_text_ascii(s, n)) return no_byte(e);
  mr_out_room(&e->o, n + 4 + OUT_SLACK);
  if (!t->fixed) mr_out_pad(&e->o, 4);
  char *from = e->o.at;
  if (!t->fixed) e->o.at += 4;
  size_t count = n;
  if (t->kind == TK_CHARS) count = put_converted(e, s, n);
  else memcpy(e->o.at, s, n);
  if (count == SIZE_MAX) return -1;
  if (t->fixed && count != t->n) return mr_refuse(e, "BAD_PARAM", 0, "string of %lu bytes expected, got %zu", (unsigned long)t->n, count);
  if (!t->fixed && t->n && count > t->n) return too_long(e, "string", count, t->n);
  uint32_t length = (uint32_t)count;
  if (e->o.swap) length = cdr_swap32(length);
  if (!t->fixed) memcpy(from, &length, 4);
  e->o.at += count;
  return 0;
}

/* ---- wide ---- */

/* 0, or why wide characters can't be sent in this message. */
static int wide_refused(mr_enc *e) {
  if ((e->codec & CDR_MINOR) == 0) return mr_refuse(e, "MARSHAL", 0, "GIOP 1.0 has no wide characters");
  if (e->codec & CDR_UTF16) return 0;
  if (e->codec & CDR_SERVER) return mr_refuse(e, "BAD_PARAM", 23, "the client named no code set for wide characters");
  return mr_refuse(e, "INV_OBJREF", 1, "the reference names no code set for wide characters");
}

static int is_new(const mr_enc *e) { return (e->codec & CDR_MINOR) >> CDR_MINOR_SHIFT >= 2; }

/* GIOP 1.2 is always big-endian where no mark says otherwise; GIOP 1.1 has the message's order. */
static int is_big(const mr_enc *e) { return is_new(e) || !(e->codec & CDR_LITTLE); }

/* What begins like a mark of byte order must have a true one before it in GIOP 1.2, or it would be taken for one. */
static int wants_mark(const mr_enc *e, uint32_t unit) { return is_new(e) && (unit == 0xfeff || unit == 0xfffe); }

/* One unit of UTF-16 as a wchar. */
int mr_put_unit(mr_enc *e, uint32_t unit) {
  if (wide_refused(e)) return -1;
  int marked = wants_mark(e, unit);
  if (is_new(e)) mr_out_u8(&e->o, marked ? 4 : 2);
  else mr_out_align(&e->o, 2);
  if (marked) mr_out_bytes(&e->o, "\xfe\xff", 2);
  mr_out_u8(&e->o, is_big(e) ? unit >> 8 : unit & 255);
  mr_out_u8(&e->o, is_big(e) ? unit & 255 : unit >> 8);
  return 0;
}

int mr_put_wchar(mr_enc *e, mr_val v) {
  size_t n, used = 0;
  if (!is_string(v)) return mr_wrong(e, "wchar", v);
  const char *s = mr_val_text(e, v, &n);
  uint32_t c = n ? mr_text_read(s, n, &used) : UINT32_MAX;
  if (c == UINT32_MAX || used != n) return mr_wrong(e, "wchar (a string of one character in UTF-8)", v);
  if (c > 0xffff) return mr_refuse(e, "DATA_CONVERSION", DATA_CONVERSION, "a wchar holds no character above U+FFFF");
  return mr_put_unit(e, c);
}

int mr_put_wstring(mr_enc *e, const mr_type *t, mr_val v) {
  size_t n;
  if (!is_string(v)) return mr_wrong(e, "wstring", v);
  if (wide_refused(e)) return -1;
  const char *s = mr_val_text(e, v, &n);
  if (memchr(s, 0, n)) return mr_refuse(e, "BAD_PARAM", 0, "wstring without zero characters expected");
  size_t units = mr_text_to_utf16(NULL, s, n, 1);
  if (units == SIZE_MAX) return mr_refuse(e, "DATA_CONVERSION", DATA_CONVERSION, "a wstring must be UTF-8");
  if (t->n && units > t->n) return too_long(e, "wstring", units, t->n);
  size_t used;
  int marked = n && wants_mark(e, mr_text_read(s, n, &used));
  mr_out_u32(&e->o, (uint32_t)(is_new(e) ? 2 * (units + marked) : units + 1));
  if (marked) mr_out_bytes(&e->o, "\xfe\xff", 2);
  mr_out_room(&e->o, 2 * units + 2);
  mr_text_to_utf16(e->o.at, s, n, is_big(e));
  e->o.at += 2 * units;
  if (!is_new(e)) {
    memset(e->o.at, 0, 2);
    e->o.at += 2;
  }
  return 0;
}
