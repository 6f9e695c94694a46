/* What must differ between two machines that came from one snapshot, or be put right after a long sleep. */
#define _GNU_SOURCE
#include "guest.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef RNDRESEEDCRNG
#define RNDRESEEDCRNG _IO('R', 0x07)
#endif

/* Adds our own name to /etc/hosts once, so that programs which look it up do not wait for a name server. */
static void name_in_hosts(const char *name) {
  size_t length = 0;
  char *text = read_all("/etc/hosts", 256 * 1024, &length);
  char *fresh = malloc(length + 256);
  if (!fresh) {
    free(text);
    return;
  }
  size_t used = 0;
  for (char *rest = text, *line; text && (line = strsep(&rest, "\n"));)
    if (*line && !strstr(line, "# cocoon")) used += (size_t)sprintf(fresh + used, "%s\n", line);
  if (used == 0) used += (size_t)sprintf(fresh, "127.0.0.1\tlocalhost\n");
  sprintf(fresh + used, "127.0.1.1\t%s # cocoon\n", name);
  replace_text("/etc/hosts", fresh, 0644);
  free(fresh);
  free(text);
}

void identity_hostname(const char *name) {
  size_t length = strlen(name);
  if (length == 0 || length > 64) return;
  sethostname(name, length);
  char line[72];
  snprintf(line, sizeof line, "%s\n", name);
  replace_text("/etc/hostname", line, 0644);
  name_in_hosts(name);
}

/*
 * Two machines with one host key could stand in for each other. Without a file the SSH server of the toolkit makes a new
 * key at the next connection; OpenSSH needs to be told, which takes its time and so happens beside us.
 */
static void renew_ssh_keys(void) {
  unlink(SSH_HOST_KEY);
  if (access("/etc/ssh/ssh_host_ed25519_key", F_OK) < 0 || fork() != 0) return;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setsid();
  execl("/bin/sh", "sh", "-c",
        "rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub; ssh-keygen -A; "
        "systemctl try-restart ssh.service sshd.service 2>/dev/null || service ssh restart",
        NULL);
  _exit(127);
}

/* systemd and D-Bus read this file; the second name is a link to it or a copy of it. */
bool identity_machine_id(const char *id) {
  if (strlen(id) != 32 || id[strspn(id, "0123456789abcdef")]) return false;
  char line[40], former[40] = "";
  snprintf(line, sizeof line, "%s\n", id);
  read_text("/etc/machine-id", former, sizeof former);
  if (*former && *former != '\n' && strcmp(former, line) != 0) renew_ssh_keys();
  bool done = replace_text("/etc/machine-id", line, 0444);
  struct stat status;
  if (lstat("/var/lib/dbus/machine-id", &status) == 0 && S_ISREG(status.st_mode))
    done = replace_text("/var/lib/dbus/machine-id", line, 0444) && done;
  return done;
}

/* Credits the bytes and makes the kernel take them into its generator at once, not at the next interval. */
bool identity_entropy(const void *bytes, size_t length) {
  if (length == 0 || length > 512) return false;
  int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct {
    int entropy_count;
    int buf_size;
    char buf[512];
  } pool = {.entropy_count = (int)length * 8, .buf_size = (int)length};
  memcpy(pool.buf, bytes, length);
  bool done = ioctl(fd, RNDADDENTROPY, &pool) == 0 && ioctl(fd, RNDRESEEDCRNG) == 0;
  memset(&pool, 0, sizeof pool);
  close(fd);
  return done;
}

bool identity_clock(int64_t unix_nanoseconds) {
  struct timespec now = {.tv_sec = unix_nanoseconds / 1000000000, .tv_nsec = unix_nanoseconds % 1000000000};
  return clock_settime(CLOCK_REALTIME, &now) == 0;
}
