/* names: the processes that have one, or several, in a table of the program; a name goes with its process. */
#ifndef MR_NAMES_H
#define MR_NAMES_H

#include "process/process.h"

enum { NAME_GIVEN, NAME_TAKEN, NAME_ENDED, NAME_NOMEM };
/* p, to which the caller has a reference, has that name from now on. NAME_TAKEN: `holder` says by whom. */
int      mr_name_give(mr_proc *p, const char *name, size_t len, char holder[160]);
int      mr_name_take(const char *name, size_t len);       /* nobody has it any more; 0: nobody had */
mr_proc *mr_name_find(const char *name, size_t len);       /* with a reference for the caller, or NULL */
size_t   mr_names_list(mr_proc *p, char *buf, size_t size);    /* its names one behind the other, each with its zero byte; as many as fit. Bytes */
void     mr_names_end(mr_proc *p);                         /* it has none from now on and gets none; before its end is told */
int      mr_proc_describe(const mr_proc *p, char *buf, size_t size);   /* "process #7 'worker'" */

#endif
