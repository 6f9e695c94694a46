/* Starts a program as the host asked: user, directory, environment, terminal or pipes. */
#define _GNU_SOURCE
#include "agent.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_ENVIRONMENT 1024

void close_fd(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

struct start {
  struct json_object *request;
  struct account account;
  const char *directory;
  char **arguments;
  int input, output, error; /* the child's ends */
  bool tty;
};

static struct settings machine;

static void machine_environment(const char *value, void *context) {
  (void)context;
  putenv((char *)value);
}

static void set_environment(const struct start *start) {
  clearenv();
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  setenv("HOME", start->account.home, 1);
  setenv("USER", *start->account.name ? start->account.name : "root", 1);
  setenv("SHELL", start->account.shell, 1);
  setenv("LANG", "C.UTF-8", 1);
  setenv("TERM", start->tty ? "xterm-256color" : "dumb", 1);
  each_setting(&machine, "env", machine_environment, NULL);
  size_t count;
  char **given = json_list(start->request, "env", &count);
  for (size_t index = 0; index < count && index < MAX_ENVIRONMENT; index++)
    if (strchr(given[index], '=')) putenv(given[index]);
}

/* In the child: becomes the program, or tells the parent by its number why not. */
static void become_program(const struct start *start, int report) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  setsid();
  if (start->tty) ioctl(start->input, TIOCSCTTY, 0);
  if (dup2(start->input, 0) < 0 || dup2(start->output, 1) < 0 || dup2(start->error, 2) < 0) goto failed;
  set_environment(start);
  if (!become(&start->account)) goto failed;
  if (chdir(start->directory) < 0) {
    if (*json_text(start->request, "cwd", "")) goto failed;
    if (chdir("/") < 0) goto failed; /* a home that does not exist is no reason to refuse */
  }
  execvp(start->arguments[0], start->arguments);
failed:;
  int reason = errno;
  (void)!write(report, &reason, sizeof reason);
  _exit(127);
}

static const char *fork_program(const struct start *start, pid_t *pid, char message[160]) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) < 0) return "failed";
  *pid = fork();
  if (*pid == 0) become_program(start, report[1]);
  close(report[1]);
  int reason = *pid < 0 ? errno : 0;
  if (*pid > 0 && read(report[0], &reason, sizeof reason) != sizeof reason) reason = 0;
  close(report[0]);
  if (reason == 0) return NULL;
  if (*pid > 0) waitpid(*pid, NULL, 0);
  snprintf(message, 160, "%.80s: %.60s", start->arguments[0], strerror(reason));
  if (reason == ENOENT || reason == ENOTDIR) return "notFound";
  return reason == EACCES || reason == EPERM || reason == ENOEXEC ? "denied" : "failed";
}

static bool open_tty(struct start *start, struct ends *ours, struct json_object *request) {
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), unlock = 0;
  if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0) return false;
  int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave < 0) {
    close(master);
    return false;
  }
  struct winsize size = {.ws_row = (unsigned short)json_number(request, "rows", 24),
                         .ws_col = (unsigned short)json_number(request, "columns", 80)};
  ioctl(slave, TIOCSWINSZ, &size);
  if (fchown(slave, start->account.uid, start->account.gid) == 0) fchmod(slave, 0620);
  start->input = start->output = start->error = slave;
  *ours = (struct ends){master, master, -1};
  return true;
}

static bool open_pipe(int *reader, int *writer, bool ours_writes) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return false;
  *reader = ends[0];
  *writer = ends[1];
  int ours = ours_writes ? ends[1] : ends[0];
  fcntl(ours, F_SETFL, fcntl(ours, F_GETFL) | O_NONBLOCK);
  return true;
}

static bool open_pipes(struct start *start, struct ends *ours, bool with_input) {
  *ours = (struct ends){-1, -1, -1};
  start->input = start->output = start->error = -1;
  if (with_input ? !open_pipe(&start->input, &ours->input, true)
                 : (start->input = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
    return false;
  return open_pipe(&ours->output, &start->output, false) && open_pipe(&ours->error, &start->error, false);
}

static void close_ends(struct start *start, struct ends *ours) {
  int all[] = {start->input, start->tty ? -1 : start->output, start->tty ? -1 : start->error};
  for (size_t index = 0; index < 3; index++) close_fd(&all[index]);
  if (!ours) return;
  int mine[] = {ours->input, start->tty ? -1 : ours->output, ours->error};
  for (size_t index = 0; index < 3; index++) close_fd(&mine[index]);
}

const char *exec_request(struct json_object *request, struct ends *ours, pid_t *pid, char message[160]) {
  struct start start = {.request = request, .input = -1, .output = -1, .error = -1};
  size_t count;
  start.arguments = json_list(request, "argv", &count);
  if (count == 0 || !*start.arguments[0]) {
    snprintf(message, 160, "argv is empty");
    return "invalid";
  }
  const char *user = json_text(request, "user", "");
  if (!find_account(user, &start.account)) {
    snprintf(message, 160, "no such user: %.100s", user);
    return "notFound";
  }
  const char *directory = json_text(request, "cwd", "");
  start.directory = *directory ? directory : start.account.home;
  start.tty = json_truth(request, "tty");
  if (!machine.data) machine = load_settings(MACHINE_FILE);
  *ours = (struct ends){-1, -1, -1};
  const char *code = "failed";
  if (start.tty ? open_tty(&start, ours, request) : open_pipes(&start, ours, json_truth(request, "stdin")))
    code = fork_program(&start, pid, message);
  else snprintf(message, 160, "no %s: %.60s", start.tty ? "terminal" : "pipe", strerror(errno));
  close_ends(&start, code ? ours : NULL);
  return code;
}
