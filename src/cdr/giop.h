/*
 * giop: the messages of GIOP 1.0, 1.1 and 1.2 as bytes (CORBA 3.3 part 2, 9.4). No Lua, no sockets, no policy.
 *
 * Reading. mr_giop_parse looks at one whole message, as long as its header says, and gives slices into it; nothing is copied or allocated.
 * Every length is checked against what is left before it is used, and work is proportional to the bytes of the message. The first thing that is
 * wrong is named with its offset. What a version gained later (reserved octets, flags) is not asked to be zero: peers don't agree on that.
 *
 * Alignment is relative to the first byte of the message, which is also how bodies are read: a body is not an encapsulation.
 */
#ifndef CDR_GIOP_H
#define CDR_GIOP_H

/* cdr.h has functions of these names for Lua values. */
#define mr_get_octets mr_giop_get_octets
#define mr_get_string mr_giop_get_string
#define mr_put_string mr_giop_put_string
#define mr_put_octets mr_giop_put_octets

#include <stddef.h>
#include <stdint.h>

enum { GIOP_REQUEST, GIOP_REPLY, GIOP_CANCEL, GIOP_LOCATE_REQUEST, GIOP_LOCATE_REPLY, GIOP_CLOSE, GIOP_ERROR, GIOP_FRAGMENT, GIOP_TYPES };
enum { GIOP_HEADER = 12 };                       /* bytes of every message's header */
enum { GIOP_SEAMS = 0x80 };                      /* a flag of ours in a 1.1 header: a list of seams follows the message (see mr_in in cdr.h) */
enum { GIOP_KEY, GIOP_PROFILE, GIOP_REFERENCE }; /* how a 1.2 request says whom it is for */
enum { GIOP_TAG_IIOP = 0, GIOP_TAG_COMPONENTS = 1 };

typedef struct mr_slice { const char *p; size_t len; } mr_slice;

/* What reads: `bad` is set by the first read beyond the end or of a wrong value, and stays; reads then give zeros. */
typedef struct mr_reader {
  const char *p;
  size_t len, at;
  int little;
  const char *bad;                               /* what is wrong at `at`, or NULL */
} mr_reader;

uint8_t  mr_giop_get_octet(mr_reader *r);
uint16_t mr_giop_get_ushort(mr_reader *r);
uint32_t mr_giop_get_ulong(mr_reader *r);
mr_slice mr_giop_get_octets(mr_reader *r);            /* a sequence of octets */
mr_slice mr_giop_get_string(mr_reader *r);            /* without the zero that ends it, which must be there, and none before it */
void     mr_giop_get_fail(mr_reader *r, const char *what);

/* What writes: first with p == NULL to count, then with room for so many bytes. `full` is set by what doesn't fit, and stays: nothing more comes. */
typedef struct mr_writer { char *p; size_t at, room; int little, full; } mr_writer;

void mr_giop_put_octet(mr_writer *w, unsigned v);
void mr_giop_put_ushort(mr_writer *w, unsigned v);
void mr_giop_put_ulong(mr_writer *w, uint32_t v);
void mr_giop_put_align(mr_writer *w, size_t to);
void mr_giop_put_octets(mr_writer *w, mr_slice s);
void mr_giop_put_string(mr_writer *w, mr_slice s);
void mr_giop_put_raw(mr_writer *w, mr_slice s);

typedef struct mr_giop {
  int type, minor, little, more;
  uint32_t id;
  uint32_t status;                               /* of replies */
  int response;                                  /* of requests: 0 none, 1 when the server has it, 3 when it is served */
  int addressing;                                /* of requests and locate requests */
  int has_key;
  mr_slice key;                                  /* also out of an IIOP profile, whichever way it was given */
  uint32_t tag, index;                           /* of GIOP_PROFILE; of GIOP_REFERENCE */
  mr_slice profile;                              /* GIOP_PROFILE: its data */
  size_t reference, reference_end;               /* GIOP_REFERENCE: where the IOR begins and ends */
  mr_slice operation;
  size_t contexts;                               /* where the service contexts begin; 0: none are there */
  uint32_t ncontexts;
  size_t body;                                   /* where the body begins, len if there is none */
} mr_giop;

/* How long the message is that begins with these bytes; 0: more are needed to know. -1: they are no GIOP 1.0 to 1.2; *why says what is wrong. */
int64_t mr_giop_length(const char *p, size_t len, const char **why);

/* Of a message that goes on in fragments only type, version, order, `more` and, in 1.2, the id. 1, or 0: *why says what is wrong, *offset where. */
int mr_giop_parse(mr_giop *g, const char *p, size_t len, const char **why, size_t *offset);

/* A reader that stands at g's service contexts or its reference. */
void mr_giop_read_at(mr_reader *r, const mr_giop *g, const char *p, size_t len, size_t at);

/* The object key in an IIOP profile's data, which is an encapsulation. 1: there is one. */
int mr_giop_profile_key(mr_slice profile, mr_slice *key);

/*
 * The IOR at r as a canonical one: an encapsulation in little-endian. With out == NULL only counts. Returns its bytes, 0 when it is broken
 * (see r->bad).
 */
size_t mr_ior_canonical(mr_reader *r, char *out, size_t room);

#endif
