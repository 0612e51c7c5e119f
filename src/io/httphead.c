/* httphead: see httphead.h. */
#include "io/httphead.h"
#include "port/port.h"

#include <string.h>

/* Bits of the first 128 characters, from 0 on: what a name consists of, and what a host does not. */
static const uint64_t tokens[2] = { 0x03ff6cfa00000000, 0x57ffffffc7fffffe }, no_hosts[2] = { 0xd000900dffffffff, 0x3800000150000001 };

static int is_in(const uint64_t *set, unsigned char c) { return c < 128 && (set[c >> 6] >> (c & 63) & 1); }
static int is_token(unsigned char c) { return is_in(tokens, c); }

int mr_http_token(const char *p, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (!is_token((unsigned char)p[i])) return 0;
  return len > 0;
}

/* Who has sent an empty line behind a body of an earlier request is forgiven that one. */
static size_t first_line(const char *p, size_t len) { return len >= 2 && p[0] == '\r' && p[1] == '\n' ? 2 : 0; }

int64_t mr_httphead_length(const char *p, size_t len, const char **why) {
  size_t start = first_line(p, len), at = start;
  for (const char *q; at < len && (q = memchr(p + at, '\n', len - at)) != NULL; at = (size_t)(q - p) + 1) {
    size_t n = (size_t)(q - p) - at;
    if (n == 0 || q[-1] != '\r') return *why = "a line ends without a carriage return", -1;
    if (n == 1 && at == start) return *why = "it begins with empty lines", -1;
    if (n == 1) return (int64_t)(q + 1 - p);
    if (at != start && (p[at] == ' ' || p[at] == '\t')) return *why = "a field goes on in a second line", -1;
  }
  if (start < len && p[start] != '\r' && !is_token((unsigned char)p[start])) return *why = "it begins with no method", -1;
  return 0;
}

int mr_httphead_field(const char *p, size_t len, size_t *at, mr_slice_of *name, mr_slice_of *value) {
  if (*at == 0) {
    const char *q = memchr(p + first_line(p, len), '\n', len - first_line(p, len));
    *at = q ? (size_t)(q + 1 - p) : len;
  }
  const char *line = p + *at, *end = memchr(line, '\n', len - *at), *colon = end ? memchr(line, ':', (size_t)(end - line)) : NULL;
  if (!colon) return 0;
  *at = (size_t)(end + 1 - p);
  const char *from = colon + 1;
  while (end > from && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t')) end--;
  while (from < end && (*from == ' ' || *from == '\t')) from++;
  *name = (mr_slice_of){ line, (size_t)(colon - line) };
  *value = (mr_slice_of){ from, (size_t)(end - from) };
  return 1;
}

#ifndef MR_LLHTTP

int mr_http_built(void) { return 0; }

int mr_httphead_read(const char *p, size_t len, int most, mr_httphead *h) {
  (void)p;
  (void)len;
  (void)most;
  (void)h;
  return 501;
}

#else

#include <llhttp.h>

int mr_http_built(void) { return 1; }

typedef struct reading {
  mr_httphead *h;
  mr_slice_of name, value;
  int most, fields, hosts, codings, lengths, status;
  int complete;
} reading;

static int same(mr_slice_of s, const char *word, size_t n) {      /* `word` in lower case */
  if (s.len != n) return 0;
  for (size_t i = 0; i < n; i++) {
    char c = s.p[i];
    if ((c >= 'A' && c <= 'Z' ? (char)(c + 32) : c) != word[i]) return 0;
  }
  return 1;
}

#define IS(s, word) same(s, word, sizeof word - 1)

static int refuse(reading *r, int status) {
  r->status = status;
  return HPE_USER;
}

/* A host and a port: no more than their characters; what they mean is the program's matter. */
static int is_host(mr_slice_of s) {
  for (size_t i = 0; i < s.len; i++)
    if ((unsigned char)s.p[i] >= 127 || is_in(no_hosts, (unsigned char)s.p[i])) return 0;
  return 1;
}

static int on_target(llhttp_t *p, const char *at, size_t n) {
  reading *r = p->data;
  if (!r->h->target.p) r->h->target.p = at;
  r->h->target.len = (size_t)(at + n - r->h->target.p);
  return 0;
}

static int on_name(llhttp_t *p, const char *at, size_t n) {
  reading *r = p->data;
  if (!r->name.p) r->name.p = at;
  r->name.len = (size_t)(at + n - r->name.p);
  return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t n) {
  reading *r = p->data;
  if (!r->value.p) r->value.p = at;
  r->value.len = (size_t)(at + n - r->value.p);
  return 0;
}

static int on_field(llhttp_t *p) {
  reading *r = p->data;
  mr_slice_of name = r->name, value = r->value;
  r->name = r->value = (mr_slice_of){ NULL, 0 };
  while (value.len && (value.p[value.len - 1] == ' ' || value.p[value.len - 1] == '\t')) value.len--;
  if (++r->fields > r->most) return refuse(r, 431);
  switch (name.len) {
    case 4:
      if (IS(name, "host") && (++r->hosts > 1 || !is_host(value))) return refuse(r, 400);
      break;
    case 5:
      if (IS(name, "range")) r->h->bits |= HTTP_ASKS;
      break;
    case 13:
      if (IS(name, "if-none-match")) r->h->bits |= HTTP_ASKS;
      break;
    case 6:
      if (!IS(name, "expect")) break;
      if (!IS(value, "100-continue")) return refuse(r, 417);
      r->h->bits |= HTTP_WAITS;
      break;
    case 14:
      if (IS(name, "content-length") && ++r->lengths > 1) return refuse(r, 400);
      break;
    case 17:                           /* the coding that we know, and no other before it */
      if (IS(name, "if-modified-since")) r->h->bits |= HTTP_ASKS;
      if (!IS(name, "transfer-encoding")) break;
      if (++r->codings > 1) return refuse(r, 400);
      if (!IS(value, "chunked")) return refuse(r, value.len ? 501 : 400);
      break;
    default: break;
  }
  return 0;
}

static int on_end(llhttp_t *p) {
  ((reading *)p->data)->complete = 1;
  return HPE_PAUSED;                   /* the body is read elsewhere */
}

static const llhttp_settings_t settings = { .on_url = on_target, .on_header_field = on_name, .on_header_value = on_value,
                                            .on_header_value_complete = on_field, .on_headers_complete = on_end };

/* "HTTP/", a digit, a point and a digit end the first line. */
static int is_version(const char *p, const char *end) {
  size_t n = (size_t)(end - p);
  return n > 9 && end[-9] == ' ' && memcmp(end - 8, "HTTP/", 5) == 0 && end[-3] >= '0' && end[-3] <= '9' && end[-2] == '.' && end[-1] >= '0' && end[-1] <= '9';
}

static int refused(int err, const reading *r, const char *line, const char *end) {
  const char *space = memchr(line, ' ', (size_t)(end - line));
  if (r->status) return r->status;
  if (!space || !is_version(line, end) || !mr_http_token(line, (size_t)(space - line))) return 400;
  if (end[-3] != '1' || end[-1] > '1') return 505;
  return err == HPE_INVALID_METHOD ? 501 : 400;
}

int mr_httphead_read(const char *p, size_t len, int most, mr_httphead *h) {
  llhttp_t parser;
  reading r = { .h = h, .most = most };
  *h = (mr_httphead){ .length = -1 };
  llhttp_init(&parser, HTTP_REQUEST, &settings);
  parser.data = &r;
  int err = llhttp_execute(&parser, p, len);
  const char *line = p + first_line(p, len), *end = memchr(line, '\r', len - (size_t)(line - p));
  if (!end) return 400;
  if (err != HPE_PAUSED || !r.complete) return refused(err, &r, line, end);
  if (parser.http_major != 1 || parser.http_minor > 1) return 505;
  if (!is_version(line, end)) return 400;      /* llhttp knows RTSP, too */
  const char *space = memchr(line, ' ', (size_t)(end - line));
  if (!space || h->target.p != space + 1 || !h->target.len || h->target.p + h->target.len + 9 != end || memchr(h->target.p, '#', h->target.len)) return 400;
  if (parser.method == HTTP_CONNECT) return 501;   /* no tunnels: a proxy before us would take a 200 for an open one */
  h->method = (mr_slice_of){ line, (size_t)(space - line) };
  if (parser.http_minor == 0) h->bits |= HTTP_OLD;
  else if (!r.hosts) return 400;
  if (r.codings && (r.lengths || parser.http_minor == 0)) return 400;
  if (llhttp_should_keep_alive(&parser) && !(parser.flags & F_CONNECTION_CLOSE)) h->bits |= HTTP_KEEP;
  if (r.codings) h->bits |= HTTP_IN_CHUNKS;
  if (parser.flags & F_CONNECTION_UPGRADE) h->bits |= HTTP_CHANGES;
  if (r.lengths) h->length = parser.content_length > INT64_MAX ? INT64_MAX : (int64_t)parser.content_length;
  return 0;
}

#endif
