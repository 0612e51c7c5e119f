/*
 * chunk: reading the state of values that comes in chunks (CORBA 3.3 part 2, 9.3.4.5).
 *
 * Inside a chunked value `stop` of the reader is where the chunk ends, so whoever reads on comes here, as at a seam (buffer.c), and the next chunk's
 * size is read. Values inside begin between chunks: their tags and what follows them up to their state are read *outside*, with level 0. Null and
 * indirections are data of a chunk, but are taken outside, too. A tag may end several levels at once: `ended` is the outermost of them.
 */
#include "cdr/value.h"

static int is_tag(uint32_t v) { return v >= VALUE_TAG && v <= INT32_MAX; }

static void set_stop(mr_in *in) { in->stop = in->chunk < in->edge ? in->chunk : in->edge; }

static uint32_t go_outside(mr_in *in) {
  uint32_t level = in->level;
  in->level = 0;
  if (!in->bad) in->stop = in->edge;
  return level;
}

void mr_chunk_inside(mr_in *in, uint32_t level) {
  if (!level || in->bad) return;
  in->edge = in->stop;
  in->level = level;
  in->chunk = in->stop = in->at;
}

void mr_chunk_begin(mr_in *in, uint32_t level) {
  in->ended = 0;
  mr_chunk_inside(in, level + 1);
}

/* Its size has been read, outside. */
static int open_chunk(mr_in *in, uint32_t size, uint32_t level) {
  if (size == 0 || size >= VALUE_TAG) return mr_in_fail_at(in, in->at - 4, "a value that ends before its state does"), 0;
  if (size > mr_in_left(in)) return mr_in_fail_at(in, in->at - 4, "a chunk longer than the bytes that are left"), 0;
  mr_chunk_inside(in, level);
  in->chunk = in->at + size;
  set_stop(in);
  return 1;
}

static int has_ended(mr_in *in) {
  if (!in->ended || in->ended > in->level) return 0;
  mr_in_fail(in, "a value that ends before its state does");
  return 1;
}

static int next_chunk(mr_in *in) {
  if (has_ended(in)) return 0;
  uint32_t level = go_outside(in), size = mr_in_u32(in);
  return !in->bad && open_chunk(in, size, level);
}

/* The chunk goes on in another piece of the message. */
static void cross(mr_in *in) {
  mr_in_cross(in);
  in->edge = in->stop;
  set_stop(in);
}

/* Bytes, or many numbers in a row, that a piece of the message ends in. */
static const char *over_seams(mr_in *in, const char *p, size_t align, size_t n) {
  if ((align > 1 && n <= align) || align > 4 || n > (size_t)(in->chunk - p)) return mr_in_fail(in, "numbers broken by a fragment"), NULL;
  in->at = p + n;
  while (in->edge < in->at && in->edge < in->end) cross(in);
  return p;
}

const char *mr_in_beyond_chunk(mr_in *in, size_t align, size_t n) {
  while (!in->bad) {
    size_t gap = -(size_t)(in->at - in->base) & (align - 1), left = (size_t)(in->stop - in->at);
    if (left >= gap && left - gap >= n) {
      in->at += gap + n;
      return in->at - n;
    }
    if (in->stop != in->chunk && left > gap) return over_seams(in, in->at + gap, align, n);
    if (left > gap) return mr_in_fail(in, "a chunk that ends inside of a value"), NULL;
    in->at = in->stop;
    if (in->stop != in->chunk) cross(in);
    else if (!next_chunk(in)) return NULL;
  }
  return NULL;
}

static int at_end(const mr_in *in) { return (size_t)(in->chunk - in->at) <= (-(size_t)(in->at - in->base) & 3); }

uint32_t mr_chunk_tag(mr_in *in, uint32_t *outside) {
  *outside = 0;
  if (in->level && at_end(in)) {
    if (has_ended(in)) return 0;
    in->at = in->chunk;
    uint32_t level = go_outside(in), tag = mr_in_u32(in);
    if (in->bad) return 0;
    if (tag == 0 || tag >= VALUE_TAG) { *outside = level; return tag; }
    if (!open_chunk(in, tag, level)) return 0;
  }
  uint32_t tag = mr_in_u32(in);
  if (in->level && is_tag(tag)) mr_in_fail_at(in, in->at - 4, "a value that begins inside of a chunk");
  return tag;
}

void mr_chunk_skip_text(mr_in *in) {
  mr_in ahead = *in;
  size_t n;
  if (mr_in_u32(&ahead) != TK_INDIRECTION) { mr_in_text(in, &n); return; }
  *in = ahead;
  mr_in_u32(in);
}

/* Where it came from, what it is called: of a value that nobody wants. */
static void skip_head(mr_in *in, uint32_t tag) {
  if (!(tag & VALUE_CHUNKED)) { mr_in_fail_at(in, in->at - 4, "a value without chunks in one that has them"); return; }
  if (tag & VALUE_CODEBASE) mr_chunk_skip_text(in);
  if ((tag & VALUE_IDS) == VALUE_ONE_ID) mr_chunk_skip_text(in);
  if ((tag & VALUE_IDS) != VALUE_IDS) return;
  uint32_t n = mr_in_u32(in);
  if (n == TK_INDIRECTION) mr_in_u32(in);
  else for (uint32_t i = 0; i < n && !in->bad; i++) mr_chunk_skip_text(in);
}

/* Up to the tag that ends the level; which is the outermost that it ends. 0: failed. Values inside are gone over, too. */
static uint32_t find_end(mr_in *in, uint32_t level, int skip) {
  uint32_t inner = level;
  for (;;) {
    uint32_t v = mr_in_u32(in), end = -v;
    if (in->bad) return 0;
    if (v > INT32_MAX) {
      if (end > inner) return mr_in_fail_at(in, in->at - 4, "the end of a value that has not begun"), 0;
      if (end <= level) return end;
      inner = end - 1;
    } else if (!skip) return mr_in_fail_at(in, in->at - 4, "a value with more in it than its type has"), 0;
    else if (is_tag(v)) { skip_head(in, v); inner++; }
    else mr_in_take(in, 1, v);
  }
}

/* To the end of the chunk. */
static void leave_chunk(mr_in *in) {
  in->at = in->chunk;
  while (in->edge < in->at && in->edge < in->end) cross(in);
}

int mr_chunk_end(mr_in *in, int skip) {
  uint32_t level = in->level;
  mr_assert(level > 0);
  if (!in->ended || in->ended > level) {
    if (!skip && !at_end(in)) return mr_in_fail(in, "a value with more in it than its type has"), 0;
    leave_chunk(in);
    go_outside(in);
    in->ended = find_end(in, level, skip);
    if (in->bad) return 0;
  } else go_outside(in);
  mr_chunk_inside(in, level - 1);
  return 1;
}
