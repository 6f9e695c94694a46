/* Usage of the guest as a whole. */
#define _GNU_SOURCE
#include "serve.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int64_t memory_line(const char *text, const char *key) {
  const char *found = strstr(text, key);
  return found ? strtoll(found + strlen(key), NULL, 10) * 1024 : 0;
}

/* Busy and total time of all CPUs, in ticks. */
static void read_cpu(int64_t *busy, int64_t *total) {
  char text[512];
  long long user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  read_text("/proc/stat", text, sizeof text);
  sscanf(text, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal);
  *busy = user + nice + system + irq + soft + steal;
  *total = *busy + idle + wait;
}

void serve_stats(int fd) {
  int64_t busy, total, busy_before, total_before;
  read_cpu(&busy_before, &total_before);
  usleep(100000);
  read_cpu(&busy, &total);
  char memory[4096];
  read_text("/proc/meminfo", memory, sizeof memory);
  struct statvfs disk = {0};
  statvfs("/", &disk);
  int64_t unit = (int64_t)disk.f_frsize;
  struct json_writer writer;
  json_open(&writer);
  json_put_number(&writer, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
  json_put_number(&writer, "cpuMillis", total > total_before ? 100000 * (busy - busy_before) / (total - total_before) : 0);
  json_put_number(&writer, "memoryTotal", memory_line(memory, "MemTotal:"));
  json_put_number(&writer, "memoryAvailable", memory_line(memory, "MemAvailable:"));
  json_put_number(&writer, "memoryCache", memory_line(memory, "\nCached:"));
  json_put_number(&writer, "diskTotal", (int64_t)disk.f_blocks * unit);
  json_put_number(&writer, "diskUsed", (int64_t)(disk.f_blocks - disk.f_bfree) * unit);
  if (send_json(fd, &writer)) send_done(fd);
}
