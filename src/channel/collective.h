/*
 * collective: operations that all members of a group call together, as MPI's. Calls no Lua.
 *
 * The members call the same operations in the same order. One operation of all of them is a *round*. A member gives its contribution when it
 * enters, and waits at most once: until the round is over or the group has failed.
 *
 *  - Reductions go up a tree over the ranks: two neighbours, two pairs, two fours. Who comes second to a node folds the two halves, the lower ranks
 *    on the left, and goes on with the result; who comes first waits for the end. So the brackets are the same in every run, whoever is fast,
 *    nobody waits for anybody in particular, and an operation needs no commutativity.
 *  - Scans are folded from the left by who comes last. Other rounds are over when the last has come; who waits takes what it needs out of the
 *    others' places.
 *  - A group fails once, with a text, and for ever: a member was dropped, gave up its wait, called another operation than the rest, or could not
 *    fold. Who waits is woken. A round that is over before stays so.
 *
 * Invariants (lock held):
 *  - there are two sets of places, used in turn. A round ends when all have entered it, so all have taken what the one before gave: nobody reads the
 *    set that the next one writes;
 *  - `arrived` members have entered the present round; what they gave is in their places, in `mine` of who folds, or in the result;
 *  - between its entry and its end a member is `busy`: one fiber of its process, which can't send it away.
 * What is in places and in `result` is read without the lock when the round is over, and nothing of it changes until all have taken.
 */
#ifndef MR_COLLECTIVE_H
#define MR_COLLECTIVE_H

#include "process/process.h"

enum { CALL_BARRIER, CALL_BROADCAST, CALL_SCATTER, CALL_GATHER, CALL_ALLGATHER, CALL_ALLTOALL, CALL_REDUCE, CALL_ALLREDUCE, CALL_SCAN, CALL_EXSCAN, CALLS };
enum { FOLD_NONE, FOLD_ADD, FOLD_MUL, FOLD_MAX, FOLD_MIN, FOLD_BAND, FOLD_BOR, FOLD_BXOR, FOLD_AND, FOLD_OR, FOLD_CONCAT, FOLD_FUNCTION, FOLDS };
extern const char *const mr_call_names[CALLS], *const mr_fold_names[FOLDS];
typedef struct mr_call { unsigned char what, fold; int root; } mr_call;      /* root: a rank from 0; 0 where there is none */

/* A list of numbers or booleans, of one kind, or scalars of several. Outside all heaps, owned by whoever holds the pointer. */
enum { NUMBERS_INTEGER, NUMBERS_FLOAT, NUMBERS_MIXED };
typedef struct mr_numbers { size_t n, bytes; unsigned char kind; union { lua_Integer *i; lua_Number *d; mr_scalar *s; void *at; } u; } mr_numbers;
mr_numbers *mr_numbers_new(size_t n, int kind);        /* NULL: no memory */
size_t mr_numbers_bytes(size_t n, int kind);           /* of the elements; 0: too many */

/* A contribution, or a result: owned. */
enum { GIVEN_NOTHING, GIVEN_SCALAR, GIVEN_NUMBERS, GIVEN_MESSAGE };
typedef struct mr_given { unsigned char kind; union { mr_scalar s; mr_numbers *a; mr_message *m; } u; } mr_given;
void mr_given_drop(mr_given *g);
int  mr_given_copy(mr_given *to, const mr_given *g);   /* of scalars and numbers. 0: no memory */

/* left = left fold right. NULL, or why not: then both are as they were. */
const char *mr_fold(int fold, mr_given *left, const mr_given *right);

typedef struct mr_comm mr_comm;
typedef struct mr_member {
  mr_movable base;                   /* first */
  mr_comm *comm;                     /* one reference */
  int rank;                          /* from 0 */
  unsigned round;                    /* (owner) in which it is, or the next one */
  unsigned char busy;                /* (owner) */
  mr_call call;                      /* (owner) of that round */
  unsigned char view;                /* (owner) it gave a view of a buffer, and gets one */
  unsigned char left;                /* (lock) it was dropped */
  int start, level;                  /* (owner) while it folds: the subtree whose value is in `mine` */
  mr_given mine, other;              /* (owner) */
  char who[64];                      /* (lock) whose it is, for messages */
} mr_member;
extern const mr_sharetype *mr_member_type;       /* set by module/ */

/* n members, each with a reference for the caller. 0, or MR_ENOMEM. */
int  mr_comm_new(int n, mr_member **members);
int  mr_comm_size(const mr_member *m);
void mr_member_dropped(mr_shared *o);
void mr_member_destroy(mr_shared *o);
void mr_member_leave(mr_member *m, mr_fiber *near);    /* takes part in nothing more */
void mr_member_owner(mr_member *m, const char *who);

typedef enum {
  COMM_WAIT,                         /* somebody else goes on: wait */
  COMM_FOLD,                         /* mine and other are to be folded, then mr_comm_carry; `left`: other is the left one */
  COMM_SCAN,                         /* all are there: this one folds the places from the left, then mr_comm_finish */
  COMM_OVER,                         /* the round is over */
  COMM_FAILED                        /* what was given is the caller's */
} mr_comm_step;
/* Enters the round. Takes over *given, and `list`, which is one for each member and from malloc, or NULL. */
mr_comm_step mr_comm_enter(mr_member *m, const mr_call *call, mr_given *given, mr_given *list, mr_fiber *near);
mr_comm_step mr_comm_carry(mr_member *m, mr_fiber *near);                 /* the fold's result is in `mine` */
int          mr_comm_left(const mr_member *m);                            /* after COMM_FOLD: other is the left one */
void         mr_comm_finish(mr_member *m, mr_fiber *near);
/* How the round is that m has entered: COMM_WAIT, COMM_OVER, COMM_FAILED. With w it is queued where it has to wait. */
mr_comm_step mr_comm_look(mr_member *m, mr_wait *w);
void         mr_comm_unwait(mr_member *m, mr_wait *w);
void         mr_comm_took(mr_member *m);                                   /* it has what the round gave */
void         mr_comm_give_up(mr_member *m, mr_fiber *near);                /* it waits no longer: unless the round is over the group fails */
void         mr_comm_fail(mr_member *m, const char *text, mr_fiber *near);
int          mr_comm_failure(mr_member *m, char *text, size_t size);     /* the rank of whom it failed for */

/* When the round is over: the places, and the result of a reduction. */
mr_given *mr_comm_place(mr_member *m, int rank);
mr_given *mr_comm_list(mr_member *m, int rank);          /* what rank gave to each */
mr_given *mr_comm_result(mr_member *m);

/* Large lists are as large in the next round: blocks are used again. NULL: no memory. */
mr_numbers *mr_comm_numbers(mr_member *m, size_t n, int kind);
void        mr_comm_folded(mr_member *m, mr_given *g);                     /* g is used up */

#endif
