/*
 * set: nodes that stay linked from wait to wait (mr_set, src/run/waitable.h). Objects take a node out when they become ready, and claim the
 * wait of its fiber or, when there is none, put the node on `missed`.
 *
 * Holds: the waiter does not sleep while an object has something whose node is neither linked there nor known to the waiter; no node is put
 * on `missed` twice.
 *
 * check: safety
 * check: ltl goes_on
 * broken: BROKEN_FLAG finds lost            (the word is marked before the node is on the list)
 * broken: BROKEN_OPEN finds lost            (the wait is opened by a store)
 * broken: BROKEN_CLOSE finds lost           (the list is taken before the word is cleared)
 * broken: BROKEN_SECOND finds lost          (who missed does not look at the word again)
 */
#include "base.inc"
#define NODES 2
#define THINGS (2 - i)         /* that object i becomes ready with */
#define ALL 3
#define NONE 255

mr_fiber f;
byte word_ticket; bool word_missed;           /* mr_set.word: two halves, always read and written as one */
byte missed = NONE, next[NODES];              /* mr_set.missed, through case->next */
bool lock[NODES], linked[NODES];              /* by object */
byte ready[NODES];                            /* (lock) what it has to give */
bool doubtful[NODES] = true;
byte fired;
byte got;
bool listed[NODES];                           /* (ghost) on `missed` */
bool lost;

inline try_claim(i, t, ok) {
  ok = false;
  if
  :: t != 0 -> mr_wait_claim(f, t, ok);
    if :: ok -> fired = i :: else fi
  :: else
  fi
}

inline push_missed(i, n) {
  do
  :: n = missed;
    next[i] = n;
    d_step { ok = (missed == n); if :: ok -> assert(!listed[i]); listed[i] = true; missed = i :: else fi }
    if :: ok -> break :: else fi
  od;
  skip
}

inline mr_set_claim(i, t, n, ok) {
  t = word_ticket;
  try_claim(i, t, ok);
  if
  :: ok
  :: else ->
#ifdef BROKEN_FLAG
    d_step { t = word_ticket; word_missed = true }
    push_missed(i, n);
#else
    push_missed(i, n);
    d_step { t = word_ticket; word_missed = true }
#endif
#ifdef BROKEN_SECOND
    ok = false
#else
    try_claim(i, t, ok)
#endif
  fi
}

active [NODES] proctype object() {
  byte i = _pid, n, t, k; bool ok; mtype was;
  do
  :: k == THINGS -> break
  :: else -> k++;
    port_acquire(lock[i]);
    ready[i]++;
    ok = false;
    if
    :: linked[i] -> linked[i] = false;
      mr_set_claim(i, t, n, ok)
    :: else
    fi;
    port_unlock(lock[i]);
    if :: ok -> mr_ready(f, MR_WOKEN, was) :: else fi
  od
}

active proctype timer() {
  byte t; bool ok; mtype was;
end:
  f.ticket % 2 -> t = f.ticket;
  if :: t % 2 -> mr_wait_claim(f, t, ok) :: else -> ok = false fi;
  if :: ok -> mr_ready(f, MR_TIMEOUT, was) :: else fi
}

inline mr_set_missed(c) {
  d_step { c = missed; missed = NONE };
  do
  :: c != NONE -> d_step { listed[c] = false; doubtful[c] = true; c = next[c] }
  :: else -> break
  od
}

/* One of them: 1: it gave something; 2: it may be ready; 0: linked, or not to be asked. */
inline ask(i, r) {
  r = 0;
  if
  :: doubtful[i] ->
    port_acquire(lock[i]);
    if :: ready[i] > 0 -> ready[i]--; got++; r = 1 :: else fi;
    port_unlock(lock[i]);
    if
    :: r == 0 ->
      port_acquire(lock[i]);
      if
      :: ready[i] > 0 -> r = 2
      :: else -> assert(!linked[i]); linked[i] = true
      fi;
      port_unlock(lock[i]);
      if :: r == 0 -> doubtful[i] = false :: else fi
    :: else
    fi
  :: else
  fi
}

active proctype waiter() {
  byte c, r; bool ok;
  do
  :: got == ALL -> break
  :: else ->
asks:
    mr_set_missed(c);
    ask(0, r);
    if :: r == 1 -> goto next_wait :: r == 2 -> goto asks :: else fi;
    ask(1, r);
    if :: r == 1 -> goto next_wait :: r == 2 -> goto asks :: else fi;
#ifdef BROKEN_CLOSE
    d_step { word_ticket = 0; word_missed = false };
#endif
    mr_wait_open(f);
#ifdef BROKEN_OPEN
    d_step { ok = true; word_ticket = f.node; word_missed = false }
#else
    d_step {                                  /* mr_set_open */
      ok = (word_ticket == 0 && !word_missed);
      if :: ok -> word_ticket = f.node :: else fi
    }
#endif
    if
    :: ok -> skip
    :: else ->
      d_step { word_ticket = 0; word_missed = false }
      mr_wait_cancel(f, ok);                  /* mr_wait_abandon */
      goto next_wait
    fi;
end: f.state == FIBER_READY;                  /* mr_park; how it parks is park.pml's */
    f.state = FIBER_RUNNING;
    assert(!f.owned);
#ifndef BROKEN_CLOSE
    d_step { word_ticket = 0; word_missed = false };    /* mr_set_close */
#endif
    if :: f.reason == MR_WOKEN -> doubtful[fired] = true :: else fi;
next_wait: skip
  od
}

active proctype quiet() {
  timeout -> lost = (got != ALL);
    assert(!lost)
}

ltl goes_on { [] ((f.owned) -> <> (f.state == FIBER_RUNNING)) }
