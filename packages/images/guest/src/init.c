/*
 * Process 1 of guests without an init of their own. Prepares what a Linux program expects of a machine (mounts, name,
 * network, accounts for SSH), keeps a few services running, runs the image's entrypoint, reaps, and ends the machine
 * in order when the power button is pressed or a program inside asks.
 */
#define _GNU_SOURCE
#include "guest.h"
#include "services.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/input.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_BUTTONS 8
#define STOP_GRACE_MS 10000

static struct settings settings;

static void mount_rest(void) {
  mkdir("/dev/pts", 0755);
  mkdir("/dev/shm", 01777);
  mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0666");
  mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
  mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  symlink("/proc/self/fd", "/dev/fd");
  symlink("/proc/self/fd/0", "/dev/stdin");
  symlink("/proc/self/fd/1", "/dev/stdout");
  symlink("/proc/self/fd/2", "/dev/stderr");
  mkdir("/tmp", 01777);
  mkdir("/etc", 0755);
}

/* A container image may have no accounts at all; logging in needs root with a shell that exists. */
static void prepare_accounts(void) {
  if (access("/etc/passwd", F_OK) < 0) write_text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0644);
  if (access("/etc/group", F_OK) < 0) write_text("/etc/group", "root:x:0:\n", 0644);
  if (access("/bin/sh", X_OK) < 0 && errno == ENOENT) {
    make_directories("/bin", 0755);
    symlink(TOOLKIT "/bin/busybox", "/bin/sh");
  }
  if (access("/etc/shells", F_OK) < 0) write_text("/etc/shells", "/bin/sh\n/bin/bash\n/bin/ash\n", 0644);
}

static void add_key(const char *key, void *context) {
  const char *path = context;
  size_t length = 0;
  char *known = read_all(path, 1024 * 1024, &length);
  bool present = known && strstr(known, key);
  free(known);
  if (present) return;
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  full_write(fd, key, strlen(key));
  full_write(fd, "\n", 1);
  close(fd);
}

static void prepare_ssh_keys(void) {
  struct account root;
  find_account("root", &root);
  char path[300];
  if (strcmp(root.home, "/") == 0) snprintf(root.home, sizeof root.home, "/root");
  make_directories(root.home, 0700);
  snprintf(path, sizeof path, "%s/.ssh", root.home);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/.ssh/authorized_keys", root.home);
  each_setting(&settings, "ssh-key", add_key, path);
}

/* The password of root, as a hash: its line in the shadow file is replaced, and the others stay. */
static void prepare_password(void) {
  const char *hash = setting(&settings, "password-hash");
  if (!hash) return;
  size_t length = 0;
  char *known = read_all("/etc/shadow", 1 << 20, &length);
  size_t capacity = length + strlen(hash) + 64;
  char *text = malloc(capacity);
  if (!text) return;
  int used = snprintf(text, capacity, "root:%s:19000:0:99999:7:::\n", hash);
  for (char *line = known ? strtok(known, "\n") : NULL; line; line = strtok(NULL, "\n"))
    if (strncmp(line, "root:", 5) != 0)
      used += snprintf(text + used, capacity - (size_t)used, "%s\n", line);
  if (!replace_text("/etc/shadow", text, 0600)) say("cannot set the password of root");
  free(text);
  free(known);
}

/* "nic=MAC dhcp" or "nic=MAC ADDRESS/PREFIX GATEWAY DNS,DNS DOMAIN,DOMAIN MTU" with "-" for what is not given. */
static void configure_nic(const char *value, void *context) {
  (void)context;
  char mac[32], address[64] = "", gateway[64] = "-", dns[256] = "-", search[512] = "-", mtu[16] = "-", interface[64];
  int fields = sscanf(value, "%31s %63s %63s %255s %511s %15s", mac, address, gateway, dns, search, mtu);
  if (fields < 2) return;
  /* A card whose address is not the expected one is still the machine's card. */
  if (!link_find_by_mac(mac, interface, sizeof interface) && !link_first(interface, sizeof interface)) {
    say("there is no network interface for %s", mac);
    return;
  }
  if (strcmp(address, "dhcp") == 0) {
    dhcp_start(interface);
    return;
  }
  char *slash = strchr(address, '/');
  int prefix = slash ? atoi(slash + 1) : 24;
  if (slash) *slash = 0;
  if (atoi(mtu) > 0) link_set_mtu(interface, atoi(mtu));
  if (!address_set(interface, address, prefix)) say("cannot give %s the address %s", interface, address);
  if (strcmp(gateway, "-") != 0) gateway_set(interface, gateway);
  if (strcmp(dns, "-") != 0) resolver_set(dns, strcmp(search, "-") == 0 ? NULL : search);
}

static void configure_network(void) {
  link_up("lo");
  if (each_setting(&settings, "nic", configure_nic, NULL) > 0) return;
  char interface[64];
  if (!setting(&settings, "instance-id") && link_first(interface, sizeof interface)) dhcp_start(interface);
}

/* "mount=SERIAL PATH": a data disk that the host formatted. */
static void mount_data(const char *value, void *context) {
  (void)context;
  char serial[32], path[256];
  if (sscanf(value, "%31s %255s", serial, path) != 2) return;
  DIR *blocks = opendir("/sys/block");
  if (!blocks) return;
  bool mounted = false;
  for (struct dirent *entry; !mounted && (entry = readdir(blocks));) {
    char file[300], found[64] = "", device[300];
    snprintf(file, sizeof file, "/sys/block/%s/serial", entry->d_name);
    read_text(file, found, sizeof found);
    found[strcspn(found, "\n")] = 0;
    if (strcmp(found, serial) != 0) continue;
    snprintf(device, sizeof device, "/dev/%s", entry->d_name);
    make_directories(path, 0755);
    mounted = mount(device, path, "ext4", MS_NODEV, "discard") == 0;
  }
  closedir(blocks);
  if (!mounted) say("data disk %s is not mounted at %s", serial, path);
}

static int open_buttons(struct pollfd *fds) {
  int count = 0;
  for (int index = 0; index < 32 && count < MAX_BUTTONS; index++) {
    char path[64];
    unsigned char keys[KEY_MAX / 8 + 1] = {0};
    snprintf(path, sizeof path, "/dev/input/event%d", index);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (ioctl(fd, EVIOCGBIT(EV_KEY, sizeof keys), keys) >= 0 && (keys[KEY_POWER / 8] >> (KEY_POWER % 8) & 1))
      fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    else close(fd);
  }
  return count;
}

static bool power_pressed(int fd) {
  struct input_event event;
  bool pressed = false;
  while (read(fd, &event, sizeof event) == sizeof event)
    pressed |= event.type == EV_KEY && event.code == KEY_POWER && event.value == 1;
  return pressed;
}

/* Everything has been asked to end: waits until we are the only one left, or the time is up. */
static void wait_for_all(int64_t deadline) {
  while (monotonic_ms() < deadline) {
    pid_t gone = waitpid(-1, NULL, WNOHANG);
    if (gone < 0 && errno == ECHILD) return;
    if (gone <= 0) nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
  }
}

static void end_machine(int how) {
  say("going down");
  services_stop();
  kill(-1, SIGTERM);
  kill(-1, SIGHUP); /* interactive shells ignore the first */
  kill(-1, SIGCONT);
  wait_for_all(monotonic_ms() + STOP_GRACE_MS);
  kill(-1, SIGKILL);
  wait_for_all(monotonic_ms() + 1000);
  sync();
  mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
  reboot(how);
  for (;;) pause();
}

static void reap(void) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    service_ended(pid, status);
}

/* The same signals that busybox and sysvinit tools send to process 1. */
static void obey(int signal) {
  switch (signal) {
    case SIGCHLD: reap(); break;
    case SIGUSR1:
    case SIGUSR2: end_machine(RB_POWER_OFF); break;
    case SIGTERM:
    case SIGINT: end_machine(RB_AUTOBOOT); break;
    default: break;
  }
}

/*
 * An image whose entrypoint is an init of its own gets process 1; our services go on beside it, kept by a process that
 * has no parent.
 */
static void hand_over(void) {
  pid_t keeper = fork();
  if (keeper != 0) {
    service_become_entrypoint();
    say("the image's init does not start");
    return;
  }
  setsid();
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, NULL);
  struct pollfd children = {.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN};
  for (;;) {
    struct signalfd_siginfo info;
    poll(&children, 1, services_start_due(monotonic_ms()));
    while (read(children.fd, &info, sizeof info) == sizeof info) reap();
  }
}

static void run(void) {
  sigset_t mask;
  sigfillset(&mask);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  struct pollfd fds[1 + MAX_BUTTONS];
  fds[0] = (struct pollfd){.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN};
  int buttons = open_buttons(fds + 1);
  reboot(RB_DISABLE_CAD);
  reap();
  for (;;) {
    poll(fds, (nfds_t)(1 + buttons), services_start_due(monotonic_ms()));
    struct signalfd_siginfo info;
    while (read(fds[0].fd, &info, sizeof info) == sizeof info) obey((int)info.ssi_signo);
    for (int index = 1; index <= buttons; index++)
      if (fds[index].revents && power_pressed(fds[index].fd)) end_machine(RB_POWER_OFF);
  }
}

int init_main(void) {
  umask(022);
  setsid();
  signal(SIGPIPE, SIG_IGN);
  settings = load_settings(MACHINE_FILE);
  mount_rest();
  const char *name = setting(&settings, "hostname");
  identity_hostname(name ? name : "cocoon");
  const char *machine_id = setting(&settings, "machine-id");
  if (machine_id) identity_machine_id(machine_id);
  prepare_accounts();
  prepare_ssh_keys();
  prepare_password();
  services_prepare(&settings);
  configure_network();
  each_setting(&settings, "mount", mount_data, NULL);
  say("%s is up", name ? name : "cocoon");
  if (setting(&settings, "init")) hand_over();
  run();
  return 0;
}
