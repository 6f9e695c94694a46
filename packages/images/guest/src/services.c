/* The programs that process 1 keeps running: agent, SSH server, and the entrypoint or a console shell. */
#define _GNU_SOURCE
#include "services.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_SERVICES 3
#define FIRST_DELAY_MS 500
#define LONGEST_DELAY_MS 30000
#define STABLE_MS 20000

enum restart { RESTART_ALWAYS, RESTART_ON_FAILURE };

struct service {
  const char *name;
  void (*exec)(void);
  enum restart restart;
  pid_t pid;
  int64_t started_ms;
  int64_t due_ms; /* -1 = not to be started */
  int delay_ms;
};

static struct service services[MAX_SERVICES];
static size_t service_count;
static const struct settings *machine;
static bool stopping;

static void add(const char *name, void (*exec)(void), enum restart restart) {
  services[service_count++] = (struct service){.name = name, .exec = exec, .restart = restart};
}

static void exec_agent(void) {
  execl(TOOLKIT "/bin/cocoon-guest", "cocoon-guest", "agent", NULL);
}

/* Keys, and a password only where the machine was given one; the host keys are the machine's own. */
static void exec_ssh(void) {
  setenv("LD_LIBRARY_PATH", TOOLKIT "/lib", 1);
  make_directories("/etc/dropbear", 0700);
  /* By its whole path it can start itself again for each connection, which then reads the host key as it is now. */
  const char *keys_only = setting(machine, "password-hash") ? NULL : "-s";
  execl(TOOLKIT "/bin/dropbear", TOOLKIT "/bin/dropbear", "-F", "-R", "-P", TOOLKIT "/dropbear.pid", "-r", SSH_HOST_KEY,
        keys_only, NULL);
}

static void exec_shell(void) {
  setsid();
  int fd = open("/dev/ttyS0", O_RDWR);
  if (fd < 0) fd = open("/dev/console", O_RDWR);
  if (fd < 0) return;
  ioctl(fd, TIOCSCTTY, 1);
  for (int target = 0; target < 3; target++) dup2(fd, target);
  if (fd > 2) close(fd);
  setenv("HOME", "/root", 1);
  setenv("TERM", "vt102", 1);
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  if (chdir("/root") < 0) (void)!chdir("/");
  execl("/bin/bash", "-bash", NULL); /* where the image has one: it keeps a history */
  execl("/bin/sh", "-sh", NULL);
}

struct words {
  char **list;
  size_t count;
  size_t capacity;
};

static void add_word(const char *value, void *context) {
  struct words *words = context;
  if (words->count + 2 > words->capacity) {
    words->capacity = words->capacity ? words->capacity * 2 : 16;
    words->list = realloc(words->list, words->capacity * sizeof *words->list);
    if (!words->list) _exit(126);
  }
  words->list[words->count++] = (char *)value;
  words->list[words->count] = NULL;
}

static void add_environment(const char *value, void *context) {
  (void)context;
  putenv((char *)value);
}

static void exec_entrypoint(void) {
  struct words arguments = {0};
  each_setting(machine, "arg", add_word, &arguments);
  if (arguments.count == 0) _exit(126);
  struct account account;
  const char *user = setting(machine, "user"), *directory = setting(machine, "cwd");
  if (!find_account(user, &account)) {
    say("the image's user \"%s\" does not exist", user);
    _exit(126);
  }
  setsid();
  int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, 0);
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  setenv("HOME", account.home, 1);
  each_setting(machine, "env", add_environment, NULL);
  if (directory && *directory && chdir(directory) < 0) {
    make_directories(directory, 0755);
    if (chdir(directory) < 0) say("working directory %s: %s", directory, strerror(errno));
  }
  if (!become(&account)) _exit(126);
  execvp(arguments.list[0], arguments.list);
  say("entrypoint %s: %s", arguments.list[0], strerror(errno));
}

/* For an image that brings its own init; returns only when that cannot be started. */
void service_become_entrypoint(void) {
  struct words arguments = {0};
  each_setting(machine, "arg", add_word, &arguments);
  each_setting(machine, "env", add_environment, NULL);
  if (arguments.count > 0) execvp(arguments.list[0], arguments.list);
}

void services_prepare(const struct settings *settings) {
  machine = settings;
  add("agent", exec_agent, RESTART_ALWAYS);
  if (access(TOOLKIT "/bin/dropbear", X_OK) == 0) add("ssh", exec_ssh, RESTART_ALWAYS);
  if (setting(machine, "init")) return;
  if (setting(machine, "arg")) add("entrypoint", exec_entrypoint, RESTART_ON_FAILURE);
  else add("console", exec_shell, RESTART_ALWAYS);
}

static void start(struct service *service, int64_t now) {
  pid_t child = fork();
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    service->exec();
    _exit(127);
  }
  service->pid = child < 0 ? 0 : child;
  service->started_ms = now;
  service->due_ms = child < 0 ? now + 1000 : -1;
}

int services_start_due(int64_t now) {
  if (stopping) return -1;
  int64_t next = -1;
  for (size_t index = 0; index < service_count; index++) {
    struct service *service = &services[index];
    if (service->due_ms < 0) continue;
    if (service->due_ms <= now) start(service, now);
    if (service->due_ms >= 0 && (next < 0 || service->due_ms < next)) next = service->due_ms;
  }
  return next < 0 ? -1 : next <= now ? 0 : (int)(next - now);
}

static bool wants_restart(const struct service *service, int status) {
  if (service->restart == RESTART_ALWAYS) return true;
  return service->restart == RESTART_ON_FAILURE && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void service_ended(pid_t pid, int status) {
  for (size_t index = 0; index < service_count; index++) {
    struct service *service = &services[index];
    if (service->pid != pid) continue;
    service->pid = 0;
    if (stopping) return;
    if (WIFSIGNALED(status)) say("%s was ended by signal %d", service->name, WTERMSIG(status));
    else say("%s ended with code %d", service->name, WEXITSTATUS(status));
    if (!wants_restart(service, status)) return;
    int64_t now = monotonic_ms();
    bool stable = now - service->started_ms > STABLE_MS;
    service->delay_ms = stable || service->delay_ms == 0 ? FIRST_DELAY_MS : service->delay_ms * 2;
    if (service->delay_ms > LONGEST_DELAY_MS) service->delay_ms = LONGEST_DELAY_MS;
    service->due_ms = now + service->delay_ms;
    return;
  }
}

void services_stop(void) { stopping = true; }
