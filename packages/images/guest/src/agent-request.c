/* What the host may ask. Each number is done once; a repeated one gets the answer it got before. */
#define _GNU_SOURCE
#include "agent.h"
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AGENT_NAME "cocoon-guest/1"

static void begin(struct json_writer *writer, const struct port *port, const char *type) {
  json_open(writer);
  json_put_text(writer, "s", port->session);
  json_put_text(writer, "t", type);
}

static void begin_answer(struct json_writer *writer, const struct port *port, const char *type, int64_t id) {
  begin(writer, port, type);
  json_put_number(writer, "re", id);
}

/* Sends the answer and keeps it for a host that did not get it. */
static void answer(struct port *port, int64_t id, struct json_writer *writer) {
  json_close(writer);
  if (writer->failed) {
    free(writer->data);
    return;
  }
  struct answer *kept = &port->answers[port->next_answer++ % KEPT_ANSWERS];
  free(kept->line);
  *kept = (struct answer){.id = id, .line = writer->data, .length = writer->length};
  port_send_line(port, kept->line, kept->length);
}

static void answer_done(struct port *port, int64_t id) {
  struct json_writer writer;
  begin_answer(&writer, port, "done", id);
  answer(port, id, &writer);
}

static void answer_error(struct port *port, int64_t id, const char *code, const char *message) {
  struct json_writer writer;
  begin_answer(&writer, port, "error", id);
  json_put_text(&writer, "code", code);
  json_put_text(&writer, "message", message);
  answer(port, id, &writer);
}

/* Another one each time the agent starts: the programs of the former one are gone. */
static const char *agent_run_id(void) {
  static char id[33];
  unsigned char bytes[16];
  if (*id || getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != sizeof bytes) return id;
  for (size_t index = 0; index < sizeof bytes; index++) sprintf(id + 2 * index, "%02x", bytes[index]);
  return id;
}

static void on_ping(struct port *port, int64_t id, struct json_object *request) {
  (void)request;
  static const char *const features[] = {"exec", "tty", "identity", "stats", "shutdown"};
  struct timespec up;
  clock_gettime(CLOCK_BOOTTIME, &up);
  struct json_writer writer;
  begin_answer(&writer, port, "pong", id);
  json_put_text(&writer, "agent", AGENT_NAME);
  json_put_list(&writer, "features", features, sizeof features / sizeof *features);
  json_put_text(&writer, "boot", agent_run_id());
  json_put_text(&writer, "epoch", agent_epoch());
  json_put_number(&writer, "uptimeMs", up.tv_sec * 1000LL + up.tv_nsec / 1000000);
  answer(port, id, &writer);
}

static void on_identity(struct port *port, int64_t id, struct json_object *request) {
  agent_apply_identity(request);
  answer_done(port, id);
}

static void on_clock(struct port *port, int64_t id, struct json_object *request) {
  int64_t ms = json_number(request, "wallClockMs", 0);
  if (ms <= 0) answer_error(port, id, "invalid", "wallClockMs is missing");
  else if (!identity_clock(ms * 1000000)) answer_error(port, id, "failed", "the clock cannot be set");
  else answer_done(port, id);
}

static void on_entropy(struct port *port, int64_t id, struct json_object *request) {
  char *data = (char *)json_text(request, "data", "");
  ssize_t length = base64_decode(data);
  if (length <= 0) answer_error(port, id, "invalid", "data is not base64, or empty");
  else if (!identity_entropy(data, (size_t)length)) answer_error(port, id, "failed", "the kernel takes no entropy");
  else answer_done(port, id);
}

static int64_t memory_field(const char *text, const char *name) {
  const char *found = strstr(text, name);
  return found ? strtoll(found + strlen(name), NULL, 10) * 1024 : 0;
}

static int64_t interface_bytes(const char *direction) {
  int64_t sum = 0;
  DIR *directory = opendir("/sys/class/net");
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    char path[400], digits[32] = "";
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/sys/class/net/%s/device", entry->d_name);
    if (access(path, F_OK) < 0) continue;
    snprintf(path, sizeof path, "/sys/class/net/%s/statistics/%s", entry->d_name, direction);
    read_text(path, digits, sizeof digits);
    sum += strtoll(digits, NULL, 10);
  }
  if (directory) closedir(directory);
  return sum;
}

static void on_stats(struct port *port, int64_t id, struct json_object *request) {
  (void)request;
  char memory[4096] = "";
  read_text("/proc/meminfo", memory, sizeof memory);
  struct json_writer writer;
  begin_answer(&writer, port, "stats", id);
  json_put_number(&writer, "memoryTotalBytes", memory_field(memory, "MemTotal:"));
  json_put_number(&writer, "memoryAvailableBytes", memory_field(memory, "MemAvailable:"));
  json_put_number(&writer, "receivedBytes", interface_bytes("rx_bytes"));
  json_put_number(&writer, "sentBytes", interface_bytes("tx_bytes"));
  answer(port, id, &writer);
}

static int64_t shutdown_at_ms = -1;
static bool shutdown_reboots;

static void on_shutdown(struct port *port, int64_t id, struct json_object *request) {
  const char *mode = json_text(request, "mode", "");
  bool reboots = strcmp(mode, "reboot") == 0;
  if (!reboots && strcmp(mode, "poweroff") != 0) {
    answer_error(port, id, "invalid", "mode is neither poweroff nor reboot");
    return;
  }
  answer_done(port, id);
  shutdown_reboots = reboots;
  /* The answer leaves first. */
  shutdown_at_ms = monotonic_ms() + 50;
  agent_wake_at(shutdown_at_ms);
}

/* systemd takes real-time signals for this, other init programs what sysvinit and busybox use. */
static void shut_down(void) {
  char name[64] = "";
  read_text("/proc/1/comm", name, sizeof name);
  if (strncmp(name, "systemd", 7) == 0) kill(1, SIGRTMIN + (shutdown_reboots ? 5 : 4));
  else kill(1, shutdown_reboots ? SIGTERM : SIGUSR2);
}

void request_tick(int64_t now_ms) {
  if (shutdown_at_ms < 0) return;
  if (now_ms < shutdown_at_ms) {
    agent_wake_at(shutdown_at_ms);
    return;
  }
  shutdown_at_ms = -1;
  shut_down();
}

static void on_exec(struct port *port, int64_t id, struct json_object *request) {
  char message[160] = "";
  pid_t pid = 0;
  const char *code = program_start(port, id, request, &pid, message);
  if (code) {
    answer_error(port, id, code, message);
    return;
  }
  struct json_writer writer;
  begin_answer(&writer, port, "started", id);
  json_put_number(&writer, "pid", pid);
  answer(port, id, &writer);
}

static const struct {
  const char *type;
  void (*handle)(struct port *port, int64_t id, struct json_object *request);
} requests[] = {
    {"ping", on_ping},   {"identity", on_identity}, {"clock", on_clock}, {"entropy", on_entropy},
    {"stats", on_stats}, {"shutdown", on_shutdown}, {"exec", on_exec},
};

static void on_request(struct port *port, const char *type, struct json_object *request) {
  int64_t id = json_number(request, "id", 0);
  if (id <= 0) return;
  for (size_t index = 0; index < KEPT_ANSWERS; index++) {
    if (port->answers[index].id != id) continue;
    port_send_line(port, port->answers[index].line, port->answers[index].length);
    return;
  }
  /* Older than everything we remember: it was answered long ago, or the host no longer waits for it. */
  if (id <= port->newest_id - KEPT_ANSWERS) return;
  if (id > port->newest_id) port->newest_id = id;
  for (size_t index = 0; index < sizeof requests / sizeof *requests; index++) {
    if (strcmp(requests[index].type, type) != 0) continue;
    requests[index].handle(port, id, request);
    return;
  }
  answer_error(port, id, "invalid", "unknown request");
}

static void on_notice(struct port *port, const char *type, struct json_object *notice) {
  int64_t number = json_number(notice, "x", 0);
  if (strcmp(type, "stdin") == 0) program_input(port, number, (char *)json_text(notice, "data", ""));
  else if (strcmp(type, "eof") == 0) program_end_input(port, number);
  else if (strcmp(type, "signal") == 0) program_signal(port, number, json_text(notice, "name", ""));
  else if (strcmp(type, "resize") == 0)
    program_resize(port, number, (int)json_number(notice, "rows", 0), (int)json_number(notice, "columns", 0));
  else if (strcmp(type, "credit") == 0)
    program_credit(port, number, json_text(notice, "stream", ""), json_number(notice, "bytes", 0));
}

static void start_session(struct port *port, const char *session) {
  programs_leave(port);
  port_forget_answers(port);
  port->next_answer = 0;
  port->newest_id = 0;
  snprintf(port->session, sizeof port->session, "%s", session);
  /* Half a line of the former session may be on its way: end it. */
  port_send_line(port, "\n", 1);
}

void request_line(struct port *port, char *line) {
  static struct json_object message;
  if (!json_read(line, &message)) return;
  const char *session = json_text(&message, "s", ""), *type = json_text(&message, "t", "");
  if (!*session || strlen(session) >= sizeof port->session) return;
  if (strcmp(session, port->session) != 0) {
    if (strcmp(type, "ping") != 0) return;
    start_session(port, session);
  }
  if (json_number(&message, "id", 0) > 0) on_request(port, type, &message);
  else on_notice(port, type, &message);
}
