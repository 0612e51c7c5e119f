/* happens: what the processes of a replayed run do, in words, if its schedule asks for that (run/replay.h). Nothing here allocates: it would be another run. */
#ifndef MR_HAPPENS_H
#define MR_HAPPENS_H

#include "process/process.h"
#include "run/replay.h"

/* A record for what f does now, with its name; `at` is the program's line where L is, L NULL: none. NULL: nobody asks. */
mr_replay_event *mr_happens(mr_fiber *f, lua_State *L, const char *does);
void mr_happens_add(mr_replay_event *e, const char *text);   /* to what it does, as far as there is room */
void mr_happens_with(mr_replay_event *e, mr_shared *o);     /* likewise "#3 'name'", "channel 'results'", "channel 2"; others not at all */
void mr_happens_last(mr_fiber *f, const char *failed);      /* f, the first of its process or not; NULL: it did not fail */
/* "file:line" of the innermost line of the program's own code from that level on; 0: there is none. */
int  mr_happens_at(lua_State *L, int level, char *buf, size_t size);

#endif
