/*
 * logline: a record as a line: JSON by base/json.h, or text for people. Nothing that a stranger may have written - a message, a name, a value - can end a
 * line or steer a terminal: in JSON such bytes are escaped; in text they are shown as Lua writes them (\27), and what follows a line end is indented.
 */
#include "observe/log.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const mr_log_levels[MR_LOG_OFF + 1] = { NULL, "trace", "debug", "info", "warn", "error", "off" };

enum { HEAD = 320, EACH = MR_JSON_NUMBER + 32, WIDEST = MR_JSON_WIDEST };   /* bytes: what is not of the program's, of a line and of a field */

size_t mr_log_room(const mr_log_record *r) {
  size_t n = HEAD + WIDEST * r->length + (r->process_name ? WIDEST * strlen(r->process_name) : 0);
  for (size_t i = 0; i < r->fields; i++) n += EACH + WIDEST * (r->field[i].name_length + r->field[i].length);
  return n;
}

static char *put(char *to, const char *s) {
  size_t n = strlen(s);
  memcpy(to, s, n);
  return to + n;
}

static char *digits(char *to, unsigned n, int width) {
  for (int i = width; i-- > 0; n /= 10) to[i] = (char)('0' + n % 10);
  return to + width;
}

/* Coordinated universal time, 2026-11-27T16:33:12.123456Z. The year begins in March here, so that a leap day is its last. */
static char *moment(char *to, int places) {
  double wall = port_wall();
  int64_t seconds = (int64_t)floor(wall);
  unsigned micro = (unsigned)((wall - (double)seconds) * 1e6), second = (unsigned)(seconds % 86400);
  unsigned days = (unsigned)(seconds / 86400) + 719468, era = days / 146097, of_era = days % 146097;
  unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  unsigned of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153, day = of_year - (153 * month + 2) / 5 + 1;
  month = month < 10 ? month + 3 : month - 9;
  to = digits(to, era * 400 + year + (month <= 2), 4);
  *to++ = '-';
  to = digits(to, month, 2);
  *to++ = '-';
  to = digits(to, day, 2);
  *to++ = 'T';
  to = digits(to, second / 3600, 2);
  *to++ = ':';
  to = digits(to, second / 60 % 60, 2);
  *to++ = ':';
  to = digits(to, second % 60, 2);
  *to++ = '.';
  to = places == 3 ? digits(to, micro / 1000, 3) : digits(to, micro, 6);
  *to++ = 'Z';
  return to;
}

static char *quoted(char *to, const char *s, size_t n) {
  *to++ = '"';
  to += mr_json_escape(to, s, n, MR_JSON_LATIN1);
  *to++ = '"';
  return to;
}

static char *number(char *to, double d) {
  if (isfinite(d)) return mr_json_double(to, d);
  return put(to, isnan(d) ? "\"nan\"" : d > 0 ? "\"inf\"" : "\"-inf\"");
}

/* ---- JSON ---- */

/* A field of the program's has no name of the log's own: it gets a point behind it. */
static int is_ours(const char *s, size_t n) {
  static const char *const ours[] = { "time", "level", "message", "process", "process_name" };
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (strlen(ours[i]) == n && memcmp(ours[i], s, n) == 0) return 1;
  return 0;
}

static char *value(char *to, const mr_log_field *f) {
  switch (f->kind) {
    case MR_LOG_STRING: return quoted(to, f->text, f->length);
    case MR_LOG_INTEGER: return mr_json_integer(to, f->integer);
    case MR_LOG_NUMBER: return number(to, f->number);
    case MR_LOG_VALUE: break;
  }
  memcpy(to, f->text, f->length);
  return to + f->length;
}

static char *as_json(char *to, const mr_log_record *r) {
  to = put(to, "{\"time\":\"");
  to = moment(to, 6);
  to = put(to, "\",\"level\":\"");
  to = put(to, mr_log_levels[r->level]);
  to = put(to, "\",\"message\":");
  to = quoted(to, r->message, r->length);
  if (r->process) {
    to = put(to, ",\"process\":");
    to = mr_json_natural(to, r->process);
  }
  if (r->process_name) {
    to = put(to, ",\"process_name\":");
    to = quoted(to, r->process_name, strlen(r->process_name));
  }
  for (size_t i = 0; i < r->fields; i++) {
    const mr_log_field *f = &r->field[i];
    *to++ = ',';
    to = quoted(to, f->name, f->name_length);
    if (is_ours(f->name, f->name_length)) to = put(to - 1, ".\"");
    *to++ = ':';
    to = value(to, f);
  }
  return put(to, "}\n");
}

/* ---- text ---- */

/* In at most six bytes each. `lines`: a line end is one, and what follows is indented. */
static char *shown(char *to, const char *s, size_t n, int lines) {
  for (size_t i = 0; i < n;) {
    unsigned char c = (unsigned char)s[i];
    size_t length = mr_json_character(s + i, n - i);
    int control = c < 32 || c == 127 || length == 0 || (c == 0xc2 && (unsigned char)s[i + 1] < 0xa0);
    if (c == '\n' && lines) {
      to = put(to, "\n    ");
      i++;
    } else if (c == '\t' && lines) {
      *to++ = s[i++];
    } else if (control) {
      *to++ = '\\';
      to = digits(to, c, 3);
      i++;
    } else {
      memcpy(to, s + i, length);
      to += length;
      i += length;
    }
  }
  return to;
}

/* A string that could be taken for something else stands in quotes. */
static int is_plain(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)s[i] <= ' ' || s[i] == '"' || s[i] == '=' || s[i] == '\\' || (unsigned char)s[i] >= 127) return 0;
  return n > 0;
}

static char *as_text(char *to, const mr_log_record *r, int colour) {
  static const char *const words[] = { "", "TRACE", "DEBUG", "INFO ", "WARN ", "ERROR" };
  static const char *const colours[] = { "", "\033[2m", "\033[36m", "\033[32m", "\033[33m", "\033[1;31m" };
  to = moment(to, 3);
  *to++ = ' ';
  if (colour) to = put(to, colours[r->level]);
  to = put(to, words[r->level]);
  if (colour) to = put(to, "\033[0m");
  *to++ = ' ';
  if (r->process > 1) {
    to = put(to, "#");
    to = mr_json_natural(to, r->process);
    *to++ = ' ';
  }
  if (r->process_name) {
    to = shown(to, r->process_name, strlen(r->process_name), 0);
    to = put(to, ": ");
  }
  to = shown(to, r->message, r->length, 1);
  for (size_t i = 0; i < r->fields; i++) {
    const mr_log_field *f = &r->field[i];
    *to++ = ' ';
    if (colour) to = put(to, "\033[2m");
    to = shown(to, f->name, f->name_length, 0);
    if (colour) to = put(to, "\033[0m");
    *to++ = '=';
    if (f->kind != MR_LOG_STRING) to = value(to, f);
    else if (is_plain(f->text, f->length) || memchr(f->text, '\n', f->length)) to = shown(to, f->text, f->length, 1);
    else to = quoted(to, f->text, f->length);
  }
  *to++ = '\n';
  return to;
}

size_t mr_log_line(char *to, const mr_log_record *r, int format) {
  return (size_t)((format == MR_LOG_JSON ? as_json(to, r) : as_text(to, r, format == MR_LOG_COLOUR)) - to);
}
