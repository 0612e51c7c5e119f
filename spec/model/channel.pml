/*
 * channel: a rendezvous by select on both sides: each asks, links its node, and looks under the same lock whether the other has linked its
 * own. With SELECTOR the receiver's node belongs to a set and stays linked from wait to wait. A timer ends one wait of the sender, and
 * somebody may close the channel. src/channel/channel.c mr_channel_take, mr_channel_put, mr_channel_link, others_wait, mr_channel_wake_all.
 *
 * Holds: the two never wait for each other; a message arrives once; nobody waits on a closed channel.
 *
 * check: safety
 * check: safety SELECTOR
 * broken: BROKEN_LINK finds both_wait               (links without a look at the other side)
 * broken: BROKEN_UNLINK finds linked                (a wait ends, its node stays in the queue)
 * broken: BROKEN_CLOSE finds waits_on_closed        (marks the channel closed when all are awake)
 * broken: SELECTOR BROKEN_COUNT finds both_wait     (a set counts as waiting only while its wait is open)
 * broken: BROKEN_CLAIM finds ticket                 (looks at the ticket and writes it, in two steps)
 */
#include "base.inc"
#define MESSAGES 2
#define TRIES 3                /* after so many rounds each gives up, as at a deadline */
#define RECEIVER 0
#define SENDER 1

mr_fiber f[2];
bool lock, closed;
bool linked[2];                /* (lock) the node of each is in its queue: receivers, senders */
bool mail;                     /* a message in the receiver's node */
byte word;                     /* mr_set.word of the receiver: its ticket, or MISSED */
bool missed;                   /* mr_set.missed: one node can be on it */
bool doubtful;
#define MISSED 255
byte sent, got;                /* (ghost) */
bool both_wait, waits_on_closed;

/* Node n has been taken out. */
inline claim(n, ok, t) {
#ifdef SELECTOR
  if
  :: n == RECEIVER ->          /* mr_set_claim */
    t = word;
    ok = false;
    if :: t != 0 && t != MISSED -> mr_wait_claim(f[RECEIVER], t, ok) :: else fi;
    if
    :: ok -> skip
    :: else -> missed = true;
      d_step { t = word; if :: t == 0 -> word = MISSED :: else fi }
      if :: t != 0 && t != MISSED -> mr_wait_claim(f[RECEIVER], t, ok) :: else fi
    fi
  :: else -> mr_wait_claim(f[n], f[n].node, ok)
  fi
#else
  mr_wait_claim(f[n], f[n].node, ok)
#endif
}

inline claim_first(n, ok, t) {
  ok = false;
  if :: linked[n] -> linked[n] = false; claim(n, ok, t) :: else fi
}

inline others_wait(n, yes) {
  yes = false;
  if
#ifdef SELECTOR
#ifdef BROKEN_COUNT
  :: linked[n] && n == RECEIVER -> yes = (word != 0 && word != MISSED)
#else
  :: linked[n] && n == RECEIVER -> yes = true
#endif
  :: linked[n] && n == SENDER ->
#else
  :: linked[n] ->
#endif
    yes = (f[n].ticket == f[n].node);
    linked[n] = yes
  :: else
  fi
}

inline mr_channel_link(n, possible) {
  port_acquire(lock);
#ifdef BROKEN_LINK
  possible = closed;
#else
  others_wait(1 - n, possible);
  possible = (possible || closed);
#endif
  if :: !possible -> assert(!linked[n]); linked[n] = true :: else fi;
  port_unlock(lock)
}

inline mr_channel_unwait(n) { port_acquire(lock); linked[n] = false; port_unlock(lock) }

active proctype receiver() {
  bool ok, end_of_it; byte t; mtype was;
  f[RECEIVER].state = FIBER_RUNNING;
  doubtful = true;
  do
  :: got == MESSAGES || end_of_it || f[RECEIVER].steps == TRIES -> break
  :: else -> f[RECEIVER].steps++;
#ifdef SELECTOR
    d_step { if :: missed -> missed = false; doubtful = true :: else fi }
    if :: !doubtful -> goto open :: else fi;
#endif
    port_acquire(lock);                       /* mr_channel_take */
    claim_first(SENDER, ok, t);
    if :: !ok && closed -> end_of_it = true :: else fi;
    port_unlock(lock);
    if
    :: ok -> d_step { got++; assert(f[SENDER].owned) }
      mr_ready(f[SENDER], MR_WOKEN, was);
      goto next
    :: end_of_it -> goto next
    :: else
    fi;
#ifdef SELECTOR
    mr_channel_link(RECEIVER, ok);
    if :: ok -> goto next :: else -> doubtful = false fi;
open:
    mr_wait_open(f[RECEIVER]);
    d_step { ok = (word == 0); if :: ok -> word = f[RECEIVER].node :: else fi }
    if
    :: ok -> skip
    :: else -> word = 0; mr_wait_cancel(f[RECEIVER], ok); goto next
    fi;
#else
    mr_wait_open(f[RECEIVER]);
    mr_channel_link(RECEIVER, ok);
    if
    :: ok -> mr_wait_cancel(f[RECEIVER], ok);
      mr_channel_unwait(RECEIVER);
      if :: ok -> goto next :: else -> goto woken fi
    :: else
    fi;
#endif
end: f[RECEIVER].state == FIBER_READY;        /* mr_park */
    f[RECEIVER].state = FIBER_RUNNING;
#ifdef SELECTOR
    word = 0;
    doubtful = true;
#else
    mr_channel_unwait(RECEIVER);
woken:
#endif
    assert(!f[RECEIVER].owned);
    if
    :: f[RECEIVER].reason == MR_WOKEN -> d_step { assert(mail); mail = false; got++ }
    :: f[RECEIVER].reason == MR_CLOSED -> end_of_it = true
    :: else
    fi;
next: skip
  od;
  f[RECEIVER].state = FIBER_DONE
}

active proctype sender() {
  bool ok, end_of_it; byte t; mtype was;
  f[SENDER].state = FIBER_RUNNING;
  do
  :: sent == MESSAGES || end_of_it || f[SENDER].steps == TRIES -> break
  :: else -> f[SENDER].steps++;
    port_acquire(lock);                       /* mr_channel_put */
    ok = false;
    if
    :: closed -> end_of_it = true
    :: else -> claim_first(RECEIVER, ok, t)
    fi;
    port_unlock(lock);
    if
    :: ok -> d_step { assert(f[RECEIVER].owned); assert(!mail); mail = true; sent++ }
      mr_ready(f[RECEIVER], MR_WOKEN, was);
      goto next
    :: end_of_it -> goto next
    :: else
    fi;
    mr_wait_open(f[SENDER]);
    mr_channel_link(SENDER, ok);
    if
    :: ok -> mr_wait_cancel(f[SENDER], ok);
      mr_channel_unwait(SENDER);
      if :: ok -> goto next :: else -> goto woken fi
    :: else
    fi;
end: f[SENDER].state == FIBER_READY;
    f[SENDER].state = FIBER_RUNNING;
#ifndef BROKEN_UNLINK
    mr_channel_unwait(SENDER);
#endif
woken:
    assert(!f[SENDER].owned);
    if
    :: f[SENDER].reason == MR_WOKEN -> sent++
    :: f[SENDER].reason == MR_CLOSED -> end_of_it = true
    :: else
    fi;
next: skip
  od;
  f[SENDER].state = FIBER_DONE
}

active proctype timer() {
  byte t; bool ok; mtype was;
end:
  f[SENDER].ticket % 2 -> t = f[SENDER].ticket;
  ok = false;
  if :: t % 2 -> mr_wait_claim(f[SENDER], t, ok) :: else fi;
  if :: ok -> mr_ready(f[SENDER], MR_TIMEOUT, was) :: else fi
}

active proctype closer() {
  bool ok; byte t, n; mtype was;
  if :: goto stays :: skip fi;
  do                                          /* mr_channel_wake_all */
  :: port_acquire(lock);
#ifndef BROKEN_CLOSE
    closed = true;
#endif
    n = RECEIVER;
    claim_first(RECEIVER, ok, t);
    if :: !ok -> n = SENDER; claim_first(SENDER, ok, t) :: else fi;
    port_unlock(lock);
    if
    :: ok && n == RECEIVER -> mr_ready(f[RECEIVER], MR_CLOSED, was)
    :: ok && n == SENDER -> mr_ready(f[SENDER], MR_CLOSED, was)
    :: else -> break
    fi
  od;
#ifdef BROKEN_CLOSE
  closed = true;
#endif
stays: skip
}

active proctype quiet() {
  timeout -> both_wait = (f[RECEIVER].ticket % 2 && f[SENDER].ticket % 2);
    assert(!both_wait);
    waits_on_closed = (closed && (f[RECEIVER].ticket % 2 || f[SENDER].ticket % 2));
    assert(!waits_on_closed);
    assert(sent == got)
}
