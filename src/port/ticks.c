/* ticks: see ticks.h. Some virtual machines have a counter that differs between CPUs; then the system does not use it as its clock. */
#include "port/ticks.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
int port_ticks_known = -1;

static int system_trusts_it(void) {
  char name[32] = "";
  FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  if (!f) return 0;
  if (!fgets(name, sizeof name, f)) name[0] = 0;
  fclose(f);
  return strcmp(name, "tsc\n") == 0 || strcmp(name, "kvm-clock\n") == 0;
}

int port_ticks_begin(void) {
  if (port_ticks_known < 0) port_ticks_known = port_ticks_counted() && system_trusts_it();
  return !port_ticks_known;
}
#else
int port_ticks_begin(void) { return 1; }
#endif
