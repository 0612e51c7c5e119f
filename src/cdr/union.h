/* union: what compile needs of union.c. */
#ifndef MR_CDR_UNION_H
#define MR_CDR_UNION_H

#include "cdr/type.h"

int mr_union_allows(const mr_type *discriminator);
const char *mr_union_ready(mr_type *t);        /* sorts the labels; NULL, or what is wrong with them */

#endif
