/* stacks: see stacks.h. Nodes and functions are found by hash, in chains of indices; index 0 ends a chain. */
#include "process/stacks.h"

#include <string.h>

enum { TEXT_PER_FUNCTION = 128, NAMELESS = 8, NAME_MOST = 200 };

static uint32_t mix(uint32_t a, uint32_t b) {
  uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

static void *part(char **at, size_t n) {
  void *p = *at;
  *at += (n + 63) & ~(size_t)63;
  return p;
}

static size_t lay_out(mr_stacks *s, char *at, uint32_t nodes) {
  char *begin = at;
  uint32_t functions = nodes / 8;
  part(&at, sizeof *s);
  uint32_t *by_node = part(&at, nodes * sizeof *by_node), *by_function = part(&at, functions * sizeof *by_function);
  mr_stack_node *node = part(&at, nodes * sizeof *node);
  mr_stack_function *function = part(&at, functions * sizeof *function);
  char *text = part(&at, (size_t)functions * TEXT_PER_FUNCTION);
  if (s) {
    s->by_node = by_node;
    s->by_function = by_function;
    s->node = node;
    s->function = function;
    s->text = text;
    s->most_nodes = nodes;
    s->most_functions = functions;
    s->text_size = functions * TEXT_PER_FUNCTION;
  }
  return (size_t)(at - begin);
}

/* All is zero, or is written before it is read. */
static void begin(mr_stacks *s) {
  s->text_used = 1;                            /* text 0 is "" */
  s->functions = 1;
  s->nodes = 2;
  s->node[STACK_OTHER] = (mr_stack_node){ .function = mr_stacks_function(s, "", 0, -1, "(other)"), .line = -1 };
}

mr_stacks *mr_stacks_new(uint32_t nodes) {
  size_t size = (lay_out(NULL, (char *)64, nodes) + 65535) & ~(size_t)65535;
  mr_stacks *s = port_pages_reserve(size, 4096);
  if (!s) return NULL;
  s->size = size;
  lay_out(s, (char *)s, nodes);
  begin(s);
  return s;
}

void mr_stacks_clear(mr_stacks *s) {
  memset(s->by_node, 0, s->most_nodes * sizeof *s->by_node);
  memset(s->by_function, 0, s->most_functions * sizeof *s->by_function);
  memset(s->text, 0, s->text_used);
  begin(s);
}

void mr_stacks_free(mr_stacks *s) { port_pages_release(s, s->size); }

/* 0: no room. */
static uint32_t keep(mr_stacks *s, const char *text, size_t len) {
  if (len == 0 || len + 1 > s->text_size - s->text_used) return 0;
  uint32_t at = s->text_used;
  memcpy(s->text + at, text, len);             /* the byte behind is zero */
  s->text_used += (uint32_t)len + 1;
  return at;
}

static uint32_t hash_of(const char *text, size_t len, uint32_t h) {
  for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
  return h;
}

static int is_text(const mr_stacks *s, uint32_t at, const char *text, size_t len) {
  return strncmp(s->text + at, text, len) == 0 && s->text[at + len] == 0;
}

static size_t length_of(const char *name) {
  size_t len = 0;
  while (len < NAME_MOST && name[len]) len++;
  return len;
}

uint32_t mr_stacks_function(mr_stacks *s, const char *file, size_t len, int defined, const char *name) {
  size_t n = defined < 0 ? length_of(name) : 0;
  uint32_t slot = mix(hash_of(file, len, 2166136261u), hash_of(name, n, (uint32_t)defined)) & (s->most_functions - 1);
  for (uint32_t i = s->by_function[slot]; i; i = s->function[i].next) {
    const mr_stack_function *f = &s->function[i];
    if (f->defined == defined && is_text(s, f->file, file, len) && (defined >= 0 || is_text(s, f->name, name, n))) return i;
  }
  if (s->functions == s->most_functions || len + n + 2 > s->text_size - s->text_used) return 0;
  uint32_t i = s->functions++;
  s->function[i] = (mr_stack_function){ .file = keep(s, file, len), .name = keep(s, name, n), .defined = defined, .next = s->by_function[slot] };
  s->by_function[slot] = i;
  return i;
}

int mr_stacks_nameless(const mr_stacks *s, uint32_t function) { return !s->function[function].name && s->function[function].tries < NAMELESS; }

void mr_stacks_name(mr_stacks *s, uint32_t function, const char *name) {
  mr_stack_function *f = &s->function[function];
  if (f->name) return;
  if (name) f->name = keep(s, name, length_of(name));
  else if (f->tries < NAMELESS) f->tries++;
}

uint32_t mr_stacks_enter(mr_stacks *s, uint32_t parent, uint32_t function, int line) {
  if (parent == STACK_OTHER || !function) return STACK_OTHER;
  uint32_t slot = mix(mix(parent, function), (uint32_t)line) & (s->most_nodes - 1);
  for (uint32_t i = s->by_node[slot]; i; i = s->node[i].next)
    if (s->node[i].parent == parent && s->node[i].function == function && s->node[i].line == line) return i;
  if (s->nodes == s->most_nodes) return STACK_OTHER;
  uint32_t i = s->nodes++;
  s->node[i] = (mr_stack_node){ .parent = parent, .function = function, .line = line, .next = s->by_node[slot] };
  s->by_node[slot] = i;
  return i;
}

/* Nodes stand behind their parents, so each finds where its parent has gone. */
void mr_stacks_merge(mr_stacks *s, const mr_stacks *from) {
  size_t size = ((from->nodes + from->functions) * sizeof(uint32_t) + 65535) & ~(size_t)65535;
  uint32_t *node = port_pages_reserve(size, 4096), *function = node + from->nodes;
  if (!node) return;
  for (uint32_t i = 1; i < from->functions; i++) {
    const mr_stack_function *f = &from->function[i];
    const char *file = from->text + f->file, *name = from->text + f->name;
    function[i] = mr_stacks_function(s, file, strlen(file), f->defined, name);
    if (f->name && function[i]) mr_stacks_name(s, function[i], name);
  }
  node[STACK_OTHER] = STACK_OTHER;
  for (uint32_t i = 1; i < from->nodes; i++) {
    const mr_stack_node *n = &from->node[i];
    if (i > STACK_OTHER) node[i] = mr_stacks_enter(s, node[n->parent], function[n->function], n->line);
    for (int v = 0; v < STACK_VALUES; v++) s->node[node[i]].value[v] += n->value[v];
  }
  port_pages_release(node, size);
}
