/* resolve: see resolve.h. */
#include "io/resolve.h"
#include "observe/trace.h"

#include <stdlib.h>
#include <string.h>

static void work(mr_request *r) {
  mr_resolve *q = (mr_resolve *)r;
  mr_trace_begin(TRACE_RESOLVE);
  q->n = port_resolve(&q->query, q->list, MR_ADDRESSES, &q->code, q->text, sizeof q->text);
  mr_trace_finish(q->n);
}

static void destroy(mr_request *r) { free(r); }

/* An address, not a name: the system's resolver only parses it, without opening a file or asking anybody. */
static int parse(mr_resolve *q) {
  port_query numeric = q->query;
  const char *code;
  char text[16];
  numeric.numeric = 1;
  return port_resolve(&numeric, q->list, MR_ADDRESSES, &code, text, sizeof text);
}

mr_resolve *mr_resolve_new(const port_query *query) {
  size_t host = query->host ? strlen(query->host) + 1 : 0, service = query->service ? strlen(query->service) + 1 : 0;
  mr_resolve *q = malloc(sizeof *q + host + service);
  if (!q) return NULL;
  mr_request_init(&q->request, work, destroy);
  q->query = *query;
  if (host) q->query.host = memcpy(q->names, query->host, host);
  if (service) q->query.service = memcpy(q->names + host, query->service, service);
  q->code = NULL;
  q->text[0] = 0;
  q->n = parse(q);
  q->known = q->n > 0;
  return q;
}
