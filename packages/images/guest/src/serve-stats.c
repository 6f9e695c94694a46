/* Usage of the guest as a whole: now, and every few seconds of the last two hours. */
#define _GNU_SOURCE
#include "serve.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define HISTORY_SAMPLES 1440

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

struct usage {
  int64_t at, cpu_millis, memory_total, memory_available, memory_cache, disk_total, disk_used;
};

/* Written by the process that accepts; the ones that serve have what was there when they began. */
static struct usage history[HISTORY_SAMPLES];
static size_t samples_taken;
static int64_t sampled_busy, sampled_total;

static int64_t share_of(int64_t busy, int64_t total) { return total > 0 ? 100000 * busy / total : 0; }

static struct usage measure(int64_t cpu_millis) {
  char memory[4096];
  read_text("/proc/meminfo", memory, sizeof memory);
  struct statvfs disk = {0};
  statvfs("/", &disk);
  int64_t unit = (int64_t)disk.f_frsize;
  return (struct usage){
      .at = time(NULL),
      .cpu_millis = cpu_millis,
      .memory_total = memory_line(memory, "MemTotal:"),
      .memory_available = memory_line(memory, "MemAvailable:"),
      .memory_cache = memory_line(memory, "\nCached:"),
      .disk_total = (int64_t)disk.f_blocks * unit,
      .disk_used = (int64_t)(disk.f_blocks - disk.f_bfree) * unit,
  };
}

void take_sample(void) {
  int64_t busy, total;
  read_cpu(&busy, &total);
  int64_t cpu_millis = share_of(busy - sampled_busy, total - sampled_total);
  sampled_busy = busy;
  sampled_total = total;
  history[samples_taken++ % HISTORY_SAMPLES] = measure(cpu_millis);
}

static bool send_usage(int fd, const struct usage *usage) {
  struct json_writer writer;
  json_open(&writer);
  json_put_number(&writer, "at", usage->at);
  json_put_number(&writer, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
  json_put_number(&writer, "cpuMillis", usage->cpu_millis);
  json_put_number(&writer, "memoryTotal", usage->memory_total);
  json_put_number(&writer, "memoryAvailable", usage->memory_available);
  json_put_number(&writer, "memoryCache", usage->memory_cache);
  json_put_number(&writer, "diskTotal", usage->disk_total);
  json_put_number(&writer, "diskUsed", usage->disk_used);
  return send_json(fd, &writer);
}

/* Oldest first, from "since" on; without it none but the last record, which is of now. */
void serve_stats(int fd, struct json_object *request) {
  int64_t since = json_number(request, "since", INT64_MAX), busy, total, busy_before, total_before;
  size_t first = samples_taken > HISTORY_SAMPLES ? samples_taken - HISTORY_SAMPLES : 0;
  for (size_t index = first; index < samples_taken; index++) {
    const struct usage *usage = &history[index % HISTORY_SAMPLES];
    if (usage->at >= since && !send_usage(fd, usage)) return;
  }
  read_cpu(&busy_before, &total_before);
  usleep(100000);
  read_cpu(&busy, &total);
  struct usage now = measure(share_of(busy - busy_before, total - total_before));
  if (send_usage(fd, &now)) send_done(fd);
}
