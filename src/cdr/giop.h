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

#include "cdr/cdr.h"

enum { GIOP_REQUEST, GIOP_REPLY, GIOP_CANCEL, GIOP_LOCATE_REQUEST, GIOP_LOCATE_REPLY, GIOP_CLOSE, GIOP_ERROR, GIOP_FRAGMENT, GIOP_TYPES };
enum { GIOP_HEADER = 12, GIOP_MINOR_AT = 5, GIOP_FLAGS_AT = 6, GIOP_TYPE_AT = 7, GIOP_SIZE_AT = 8 };   /* bytes of every message's header; what lies where */
enum { GIOP_LITTLE = 1, GIOP_MORE = 2 };         /* flags */
enum { GIOP_SEAMS = 0x80 };                      /* a flag of ours in a 1.1 header: a list of seams follows the message (see mr_in in cdr.h) */
enum { GIOP_KEY, GIOP_PROFILE, GIOP_REFERENCE }; /* how a 1.2 request says whom it is for */
enum { GIOP_NO_EXCEPTION, GIOP_USER_EXCEPTION, GIOP_SYSTEM_EXCEPTION, GIOP_LOCATION_FORWARD, GIOP_LOCATION_FORWARD_PERM, GIOP_NEEDS_ADDRESSING };
enum { GIOP_UNKNOWN_OBJECT, GIOP_OBJECT_HERE, GIOP_OBJECT_FORWARD, GIOP_OBJECT_FORWARD_PERM, GIOP_LOC_SYSTEM_EXCEPTION, GIOP_LOC_NEEDS_ADDRESSING };
enum { GIOP_TAG_IIOP = 0, GIOP_TAG_COMPONENTS = 1 };

typedef struct mr_slice { const char *p; size_t len; } mr_slice;

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
  size_t reference;                              /* GIOP_REFERENCE: where the IOR begins */
  mr_slice operation;
  size_t contexts;                               /* where the service contexts begin; 0: none are there */
  uint32_t ncontexts;
  size_t body;                                   /* where the body begins, len if there is none */
} mr_giop;

/* How long the message is that begins with these bytes; 0: more are needed to know. -1: they are no GIOP 1.0 to 1.2; *why says what is wrong. */
int64_t mr_giop_length(const char *p, size_t len, const char **why);

/* Of a message that goes on in fragments only type, version, order, `more` and, in 1.2, the id. 1, or 0: *why says what is wrong, *offset where. */
int mr_giop_parse(mr_giop *g, const char *p, size_t len, const char **why, size_t *offset);

/* The object key in an IIOP profile's data, which is an encapsulation. 1: there is one. */
int mr_giop_profile_key(mr_slice profile, mr_slice *key);

/* An IOR from where `in` stands to where `o` does, each in its order (reference.c). 1, or 0: it is broken, as in->bad says. */
int mr_ior_copy(mr_in *in, mr_out *o);

#endif
