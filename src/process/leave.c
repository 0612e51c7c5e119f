/* leave: see leave.h. */
#include "process/leave.h"
#include "observe/log.h"
#include "observe/trace.h"
#include "port/system.h"
#include "port/virtual.h"
#include "process/profile.h"
#include "process/rt.h"

static struct { port_event told; atomic_int how, starts, watched; } leaving;

void mr_leave_words(void) {
  mr_profile_write();
  mr_trace_end();
  mr_log_end();
}

static void see(void *arg) {
  (void)arg;
  while (!atomic_load(&leaving.how)) port_event_wait(&leaving.told, UINT64_MAX);
  int how = atomic_load(&leaving.how);
  mr_leave_words();
  if (how > 0) port_end_by(how);
  port_exit_now(-how);
}

int mr_leave_by(int how) {
  int none = 0;
  if (!atomic_load(&leaving.watched) || mr_run_dead()) return 0;
  if (!atomic_compare_exchange_strong(&leaving.how, &none, how)) return how > 0;
  port_event_set(&leaving.told);
  return 1;
}

static void ended_by(int number) {
  if (!mr_leave_by(number)) port_end_by(number);
}

int mr_leave_watch(void) {
  if (atomic_exchange(&leaving.starts, 1)) return MR_OK;
  if (port_thread_start(see, NULL, "mare-leave") != 0) {
    atomic_store(&leaving.starts, 0);
    return MR_ETHREAD;
  }
  atomic_store(&leaving.watched, 1);
  port_signals_ending(ended_by);
  return MR_OK;
}

void mr_leave_logged(void) {
  static atomic_int asked;
  if (PORT_LIKELY(atomic_load_explicit(&asked, memory_order_relaxed)) || port_is_virtual()) return;
  if (!atomic_exchange(&asked, 1) && mr_all.main) mr_leave_watch();
}
