/* giop: reading messages. See giop.h. */
#include "cdr/giop.h"

#include <string.h>

/* ---- primitives ---- */

void mr_giop_get_fail(mr_reader *r, const char *what) {
  if (!r->bad) r->bad = what;
}

/* Where the next n bytes are, behind padding to a multiple of `to`; NULL: there are not so many. */
static const unsigned char *take(mr_reader *r, size_t to, size_t n) {
  size_t at = (r->at + to - 1) & ~(to - 1);
  if (r->bad) return NULL;
  if (at > r->len || n > r->len - at) return r->bad = "the message ends too early", NULL;
  r->at = at + n;
  return (const unsigned char *)r->p + at;
}

uint8_t mr_giop_get_octet(mr_reader *r) {
  const unsigned char *b = take(r, 1, 1);
  return b ? *b : 0;
}

uint16_t mr_giop_get_ushort(mr_reader *r) {
  const unsigned char *b = take(r, 2, 2);
  if (!b) return 0;
  return (uint16_t)(r->little ? b[0] | b[1] << 8 : b[0] << 8 | b[1]);
}

static uint32_t ulong_at(const unsigned char *b, int little) {
  return little ? b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24
                : (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

uint32_t mr_giop_get_ulong(mr_reader *r) {
  const unsigned char *b = take(r, 4, 4);
  return b ? ulong_at(b, r->little) : 0;
}

/* Where a length is, or the end. */
static size_t length_at(const mr_reader *r) {
  size_t at = (r->at + 3) & ~(size_t)3;
  return at < r->len ? at : r->len;
}

/* Where a length is wrong, the place is the length's. */
mr_slice mr_giop_get_octets(mr_reader *r) {
  size_t at = length_at(r);
  uint32_t n = mr_giop_get_ulong(r);
  const unsigned char *b = take(r, 1, n);
  if (b) return (mr_slice){ (const char *)b, n };
  r->at = at;
  return (mr_slice){ "", 0 };
}

mr_slice mr_giop_get_string(mr_reader *r) {
  size_t at = length_at(r);
  mr_slice s = mr_giop_get_octets(r);
  if (r->bad) return s;
  if (s.len == 0 || s.p[s.len - 1] != '\0') {
    r->at = at;
    mr_giop_get_fail(r, "a string does not end with a zero byte");
    return (mr_slice){ "", 0 };
  }
  s.len--;
  if (memchr(s.p, '\0', s.len)) {
    r->at = at;
    mr_giop_get_fail(r, "a string has a zero byte inside");
  }
  return s;
}

static void put(mr_writer *w, const void *p, size_t n) {
  if (w->full || n > w->room - w->at) { w->full = 1; return; }
  if (w->p && n) memcpy(w->p + w->at, p, n);
  w->at += n;
}

void mr_giop_put_align(mr_writer *w, size_t to) {
  static const char zeros[8];
  put(w, zeros, (0 - w->at) & (to - 1));
}

void mr_giop_put_octet(mr_writer *w, unsigned v) {
  unsigned char b = (unsigned char)v;
  put(w, &b, 1);
}

void mr_giop_put_ushort(mr_writer *w, unsigned v) {
  unsigned char b[2] = { (unsigned char)(v >> 8), (unsigned char)v }, l[2] = { b[1], b[0] };
  mr_giop_put_align(w, 2);
  put(w, w->little ? l : b, 2);
}

void mr_giop_put_ulong(mr_writer *w, uint32_t v) {
  unsigned char b[4];
  for (int i = 0; i < 4; i++) b[w->little ? i : 3 - i] = (unsigned char)(v >> 8 * i);
  mr_giop_put_align(w, 4);
  put(w, b, 4);
}

void mr_giop_put_raw(mr_writer *w, mr_slice s) { put(w, s.p, s.len); }

void mr_giop_put_octets(mr_writer *w, mr_slice s) {
  mr_giop_put_ulong(w, (uint32_t)s.len);
  put(w, s.p, s.len);
}

void mr_giop_put_string(mr_writer *w, mr_slice s) {
  mr_giop_put_ulong(w, (uint32_t)s.len + 1);
  put(w, s.p, s.len);
  mr_giop_put_octet(w, 0);
}

/* ---- headers ---- */

int64_t mr_giop_length(const char *p, size_t len, const char **why) {
  const unsigned char *b = (const unsigned char *)p;
  if (memcmp(p, "GIOP", len < 4 ? len : 4) != 0) return *why = "it does not begin with \"GIOP\"", -1;
  if (len > 4 && b[4] != 1) return *why = "its major version is not 1", -1;
  if (len > 5 && b[5] > 2) return *why = "its version is above 1.2", -1;
  if (len < GIOP_HEADER) return 0;
  return GIOP_HEADER + (int64_t)ulong_at(b + 8, b[6] & 1);
}

void mr_giop_read_at(mr_reader *r, const mr_giop *g, const char *p, size_t len, size_t at) {
  *r = (mr_reader){ p, len, at, g->little, NULL };
}

/* ---- what requests are for ---- */

int mr_giop_profile_key(mr_slice profile, mr_slice *key) {
  mr_reader r = { profile.p, profile.len, 0, 0, NULL };
  r.little = mr_giop_get_octet(&r) & 1;
  if (mr_giop_get_octet(&r) != 1) return 0;           /* IIOP 1.x */
  mr_giop_get_octet(&r);
  mr_giop_get_string(&r);
  mr_giop_get_ushort(&r);
  *key = mr_giop_get_octets(&r);
  return !r.bad;
}

/* A reference in a request: the key is that of the profile the index tells. */
static void reference(mr_reader *r, mr_giop *g) {
  g->index = mr_giop_get_ulong(r);
  g->reference = r->at;
  mr_giop_get_string(r);
  uint32_t n = mr_giop_get_ulong(r);
  if (!r->bad && g->index >= n) mr_giop_get_fail(r, "the index of a profile is beyond the reference's profiles");
  for (uint32_t i = 0; i < n && !r->bad; i++) {
    uint32_t tag = mr_giop_get_ulong(r);
    mr_slice data = mr_giop_get_octets(r);
    if (i == g->index && tag == GIOP_TAG_IIOP && !r->bad) g->has_key = mr_giop_profile_key(data, &g->key);
  }
  g->reference_end = r->at;
}

static void target(mr_reader *r, mr_giop *g) {
  size_t at = r->at;
  g->addressing = g->minor < 2 ? GIOP_KEY : mr_giop_get_ushort(r);
  switch (g->addressing) {
    case GIOP_KEY:
      g->key = mr_giop_get_octets(r);
      g->has_key = 1;
      break;
    case GIOP_PROFILE:
      g->tag = mr_giop_get_ulong(r);
      g->profile = mr_giop_get_octets(r);
      if (!r->bad && g->tag == GIOP_TAG_IIOP) g->has_key = mr_giop_profile_key(g->profile, &g->key);
      break;
    case GIOP_REFERENCE: reference(r, g); break;
    default:
      r->at = at;
      mr_giop_get_fail(r, "an unknown way to address the object");
  }
}

/* ---- messages ---- */

static int may_be_fragmented(const mr_giop *g) {
  if (g->type == GIOP_LOCATE_REQUEST || g->type == GIOP_LOCATE_REPLY) return g->minor == 2;
  return g->type == GIOP_REQUEST || g->type == GIOP_REPLY || g->type == GIOP_FRAGMENT;
}

/* Steps over them; each takes eight bytes at least, so a lying count ends at the end of the message. */
static void contexts(mr_reader *r, mr_giop *g) {
  g->ncontexts = mr_giop_get_ulong(r);
  g->contexts = g->ncontexts ? r->at : 0;
  for (uint32_t i = 0; i < g->ncontexts && !r->bad; i++) {
    mr_giop_get_ulong(r);
    mr_giop_get_octets(r);
  }
}

static void flags(mr_reader *r, mr_giop *g) {
  g->response = mr_giop_get_octet(r);
  g->response = !(g->response & 1) ? 0 : g->minor < 2 || g->response & 2 ? 3 : 1;
  if (g->minor > 0)
    for (int i = 0; i < 3; i++) mr_giop_get_octet(r);
}

static void request(mr_reader *r, mr_giop *g) {
  if (g->minor < 2) contexts(r, g);
  g->id = mr_giop_get_ulong(r);
  flags(r, g);
  target(r, g);
  g->operation = mr_giop_get_string(r);
  if (g->minor < 2) mr_giop_get_octets(r);            /* the principal, which nobody uses */
  else contexts(r, g);
}

static void reply(mr_reader *r, mr_giop *g) {
  static const uint32_t last[] = { 3, 3, 5 };
  if (g->minor < 2) contexts(r, g);
  g->id = mr_giop_get_ulong(r);
  size_t at = r->at;
  g->status = mr_giop_get_ulong(r);
  if (!r->bad && g->status > last[g->minor]) {
    r->at = at;
    mr_giop_get_fail(r, "an unknown status of a reply");
  }
  if (g->minor == 2) contexts(r, g);
}

static void locate_reply(mr_reader *r, mr_giop *g) {
  static const uint32_t last[] = { 2, 2, 5 };
  g->id = mr_giop_get_ulong(r);
  size_t at = r->at;
  g->status = mr_giop_get_ulong(r);
  if (!r->bad && g->status > last[g->minor]) {
    r->at = at;
    mr_giop_get_fail(r, "an unknown status of a locate reply");
  }
}

/* A message that goes on in fragments: what lies where is known when they are here. In 1.2 the id always is. */
static void beginning(mr_reader *r, mr_giop *g) {
  if (g->minor == 2) g->id = mr_giop_get_ulong(r);
}

static void header(mr_reader *r, mr_giop *g) {
  const char *why;
  int64_t n = mr_giop_length(r->p, r->len, &why);
  r->at = r->len < GIOP_HEADER ? r->len : 0;
  if (n < 0) return mr_giop_get_fail(r, why);
  if (n == 0) return mr_giop_get_fail(r, "a header has 12 bytes");
  r->at = 8;
  if ((unsigned char)r->p[5] == 1 && (r->p[6] & GIOP_SEAMS) && (uint64_t)n < r->len) r->len = (size_t)n;
  if ((uint64_t)n != r->len) return mr_giop_get_fail(r, "its size is not what its header says");
  g->minor = (unsigned char)r->p[5];
  g->little = r->little = r->p[6] & 1;
  g->more = g->minor > 0 ? r->p[6] >> 1 & 1 : 0;
  g->type = (unsigned char)r->p[7];
  r->at = 7;
  if (g->type >= GIOP_TYPES - (g->minor == 0)) return mr_giop_get_fail(r, "an unknown type of message");
  if (g->more && !may_be_fragmented(g)) return mr_giop_get_fail(r, "a message of this type can't be fragmented");
  r->at = GIOP_HEADER;
}

/* 1.2 bodies of requests and replies begin at a multiple of 8, if there is one. */
static void body(mr_reader *r, mr_giop *g) {
  g->body = r->at;
  if (g->minor == 2 && !g->more && (g->type == GIOP_REQUEST || g->type == GIOP_REPLY)) g->body = (r->at + 7) & ~(size_t)7;
  if (g->body > r->len) g->body = r->len;
}

int mr_giop_parse(mr_giop *g, const char *p, size_t len, const char **why, size_t *offset) {
  mr_reader r = { p, len, 0, 0, NULL };
  memset(g, 0, sizeof *g);
  header(&r, g);
  if (!r.bad) {
    if (g->more) beginning(&r, g);
    else switch (g->type) {
      case GIOP_REQUEST: request(&r, g); break;
      case GIOP_REPLY: reply(&r, g); break;
      case GIOP_CANCEL: g->id = mr_giop_get_ulong(&r); break;
      case GIOP_LOCATE_REQUEST: g->id = mr_giop_get_ulong(&r); target(&r, g); break;
      case GIOP_LOCATE_REPLY: locate_reply(&r, g); break;
      case GIOP_FRAGMENT: beginning(&r, g); break;
      default: break;
    }
    body(&r, g);
  }
  *why = r.bad;
  *offset = r.at;
  return !r.bad;
}

/* ---- references ---- */

size_t mr_ior_canonical(mr_reader *r, char *out, size_t room) {
  mr_writer w = { .p = out, .room = room, .little = 1 };
  mr_giop_put_octet(&w, 1);
  mr_giop_put_string(&w, mr_giop_get_string(r));
  uint32_t n = mr_giop_get_ulong(r);
  mr_giop_put_ulong(&w, n);
  for (uint32_t i = 0; i < n && !r->bad; i++) {
    mr_giop_put_ulong(&w, mr_giop_get_ulong(r));
    mr_giop_put_octets(&w, mr_giop_get_octets(r));
  }
  return r->bad || w.full ? 0 : w.at;
}
