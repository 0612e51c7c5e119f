/*
 * curl: requests of HTTP by libcurl's multi interface, without Lua. libcurl is loaded when the first client is made: a program that asks nobody
 * never has it in memory. Without its headers at the build there is nothing of this.
 *
 * A client (mr_curl) has connections, cookies if it is told to, and transfers; all that belongs to one process, which calls it from one thread at a
 * time. What libcurl waits for is behind one descriptor (port/nest.h): when that is readable, mr_curl_step goes on, and mr_curl_changed gives the
 * transfers to which something has happened.
 *
 * libcurl calls back only within calls from here, and what it calls touches no Lua. It gives bytes to a transfer's `in` until that is full; then it
 * pauses that transfer, and so in the end its sender, until somebody has taken enough. It takes bytes from `out` likewise.
 *
 * A transfer whose client is closed is over. Both are closed once, by their owners; results are 0 or an errno value unless said otherwise.
 */
#ifndef IO_CURL_H
#define IO_CURL_H

#include "port/nest.h"

typedef struct mr_curl mr_curl;
typedef struct mr_transfer mr_transfer;

typedef struct mr_curl_limits { long per_host, total, kept; int cookies; } mr_curl_limits;       /* 0: as libcurl has it */
/* How a transfer failed: a symbolic name, NULL for a time limit of ours, and a text. */
typedef struct mr_failure { const char *code, *text; } mr_failure;
/* What is known of one that has a head. */
typedef struct mr_transfer_info { const char *address; long port, connections, version; double total, connected, first; } mr_transfer_info;
typedef struct mr_url { char *text, *scheme, *host, *port; } mr_url;                /* its parts as they are compared; freed by mr_url_free */

const char *mr_curl_load(void);                       /* idempotent; NULL, or why libcurl can't be had */
const char *mr_curl_version(void);                    /* of the library that was loaded */

mr_curl *mr_curl_open(const mr_curl_limits *limits, int *err);
void     mr_curl_finish(mr_curl *c);                    /* closes its transfers; who waits for the descriptor wakes */
void     mr_curl_close(mr_curl *c);
int      mr_curl_descriptor(const mr_curl *c);
unsigned mr_curl_running(const mr_curl *c);           /* transfers that have begun and are not over */
int      mr_curl_step(mr_curl *c);                    /* never waits */
int64_t  mr_curl_changed(mr_curl *c);                 /* the id of one to which something has happened, each once; 0: there are no more */
/* One cookie of the jar after the other, as lines of Netscape's format. ENOMEM, or what `each` returned. */
int      mr_curl_cookies(mr_curl *c, int (*each)(void *ud, const char *line), void *ud);

mr_transfer *mr_transfer_open(mr_curl *c, int *err);
void     mr_transfer_close(mr_transfer *t);
int      mr_transfer_text(mr_transfer *t, const char *option, const char *value, size_t len);    /* ENOENT: there is no such option */
int      mr_transfer_number(mr_transfer *t, const char *option, int64_t value);
int      mr_transfer_field(mr_transfer *t, const char *line);        /* a field of the request: "Name: value", "Name;" empty, "Name:" without it */
void     mr_transfer_body(mr_transfer *t, const char *p, size_t len);             /* it stays where it is until the transfer is closed */
void     mr_transfer_upload(mr_transfer *t, int64_t length);         /* the body comes by mr_transfer_feed; -1: of unknown length */
int      mr_transfer_begin(mr_transfer *t);
int64_t  mr_transfer_id(const mr_transfer *t);

const char *mr_transfer_head(const mr_transfer *t, size_t *len);     /* NULL: it has not come */
const char *mr_transfer_bytes(const mr_transfer *t, size_t *len);    /* what of the body has come and was not taken */
void     mr_transfer_taken(mr_transfer *t, size_t n);
int      mr_transfer_over(mr_transfer *t, mr_failure *f);      /* 0: not yet; 1: well; -1: failed */
int      mr_transfer_hungry(const mr_transfer *t);    /* it wants bytes of the body: 1; never again: -1 */
int      mr_transfer_feed(mr_transfer *t, const char *p, size_t len);             /* copies; to one that is hungry */
void     mr_transfer_fed(mr_transfer *t);             /* that was all */
uint64_t mr_transfer_moved(const mr_transfer *t);     /* grows with every byte that comes or goes */
void     mr_transfer_info_of(mr_transfer *t, mr_transfer_info *i);

/* text as a URL, or relative to a base: absolute. NULL, or why not. */
const char *mr_url_read(const char *base, const char *text, mr_url *u);
void     mr_url_free(mr_url *u);

#endif
