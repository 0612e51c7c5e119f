/*
 * resolve: names to addresses, as a request (request.h tells how to wait for one).
 *
 *   mr_resolve *q = mr_resolve_new(&query);         copies host and service; NULL: no memory
 *   if (q->known) …                                 host was an address: the result is there, nothing to wait for
 *   else mr_request_submit(&q->request, MR_NAMES), wait for q->request.done
 *   q->n addresses, in the order in which to try them; 0: q->code and q->text say why
 *   mr_request_drop(&q->request);                   always
 */
#ifndef MR_RESOLVE_H
#define MR_RESOLVE_H

#include "io/request.h"
#include "port/resolve.h"

enum { MR_ADDRESSES = 16 };

typedef struct mr_resolve {
  mr_request request;                  /* first */
  port_query query;
  int known;
  int n;
  const char *code;                    /* "EAI_NONAME" … */
  char text[160];                      /* "no.such.host: Name or service not known" */
  port_address list[MR_ADDRESSES];
  char names[];                        /* what query points into */
} mr_resolve;

mr_resolve *mr_resolve_new(const port_query *q);

#endif
