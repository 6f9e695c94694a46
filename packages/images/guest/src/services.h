/* The programs that process 1 keeps running. */
#ifndef COCOON_SERVICES_H
#define COCOON_SERVICES_H

#include "guest.h"

void services_prepare(const struct settings *settings);
/* Starts what is due; returns the milliseconds until something else is, or -1. */
int services_start_due(int64_t now_ms);
void service_ended(pid_t pid, int status);
void services_stop(void);
void service_become_entrypoint(void);

#endif
