/* error: the codes functions in C return, and their texts, from one table so that they cannot drift. */
#ifndef MR_ERROR_H
#define MR_ERROR_H

#define MR_ERRORS(X) \
  X(MR_OK,        "no error") \
  X(MR_ENOMEM,    "not enough memory") \
  X(MR_ECLOSED,   "closed") \
  X(MR_ETIMEOUT,  "timeout") \
  X(MR_EFINAL,    "cannot wait in a finaliser (__gc); use try_send or try_receive there") \
  X(MR_ESPARE,    "too many processes wait inside calls that cannot yield (sort comparators, gsub callbacks, C functions); " \
                  "move the wait out of the callback or raise MARE_SPARES") \
  X(MR_EFORK,     "mare does not work in a forked child; start a new program instead") \
  X(MR_ESTOPPED,  "mare is stopping") \
  X(MR_ECANCELLED, "the fiber was cancelled") \
  X(MR_EENDED,    "the process has failed in its main function; its other fibers end") \
  X(MR_ENDING, "the process was cancelled") \
  X(MR_EDEADLINE, "the deadline is over") \
  X(MR_EOWNED, "the process belongs to another one") \
  X(MR_ECLOSING,  "mare is closed in this state, which is about to end") \
  X(MR_EDEADLOCK, "deadlock: every process waits and nothing can wake one") \
  X(MR_EINTR,     "interrupted!") \
  X(MR_ETHREAD,   "the system refuses to start another thread")

typedef enum {
#define X(code, text) code,
  MR_ERRORS(X)
#undef X
  MR_NERRORS
} mr_err;

const char *mr_err_text(int code);

#endif
