/*
 * /init of the initramfs: loads the drivers, finds the seed and the root disk, grows the root to its disk, changes
 * into it. The toolkit (agent, busybox, SSH server) stays in the initramfs and is bound to /run/cocoon of the new root,
 * so that a root file system needs nothing of ours.
 */
#define _GNU_SOURCE
#include "guest.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NEW_ROOT "/newroot"
#define DISK_WAIT_MS 10000
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)

struct disks {
  char root[300];
  char seed[300];
};

static void stop_machine(const char *why) {
  say("cannot boot: %s", why);
  sync();
  reboot(RB_POWER_OFF);
  for (;;) pause();
}

static void mount_kernel_files(void) {
  mkdir("/proc", 0555);
  mkdir("/sys", 0555);
  mkdir("/dev", 0755);
  mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  mount("dev", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
  int console = open("/dev/console", O_RDWR | O_NOCTTY);
  if (console < 0) return;
  for (int fd = 0; fd < 3; fd++) dup2(console, fd);
  if (console > 2) close(console);
}

/* /modules names one file per line, in an order in which each finds what it needs. */
static void load_modules(void) {
  size_t length;
  char *list = read_all("/modules", 64 * 1024, &length);
  for (char *rest = list, *path; list && (path = strsep(&rest, "\n"));) {
    if (!*path) continue;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)) say("module %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
  }
  free(list);
}

static void classify(const char *device, struct disks *disks) {
  unsigned char head[2048];
  int fd = open(device, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t got = pread(fd, head, sizeof head, 0);
  close(fd);
  if (got < (ssize_t)sizeof head) return;
  bool ext = head[1080] == 0x53 && head[1081] == 0xef;
  bool seed = head[510] == 0x55 && head[511] == 0xaa &&
              (memcmp(head + 43, SEED_LABEL, 11) == 0 || memcmp(head + 71, SEED_LABEL, 11) == 0);
  if (seed && !*disks->seed) snprintf(disks->seed, sizeof disks->seed, "%s", device);
  else if (ext && !*disks->root) snprintf(disks->root, sizeof disks->root, "%s", device);
}

static int by_name(const struct dirent **left, const struct dirent **right) {
  size_t a = strlen((*left)->d_name), b = strlen((*right)->d_name);
  return a != b ? (a < b ? -1 : 1) : strcmp((*left)->d_name, (*right)->d_name);
}

static struct disks find_disks(void) {
  struct disks disks = {"", ""};
  struct dirent **entries;
  int count = scandir("/sys/block", &entries, NULL, by_name);
  for (int index = 0; index < count; index++) {
    char device[300];
    snprintf(device, sizeof device, "/dev/%s", entries[index]->d_name);
    if (entries[index]->d_name[0] != '.') classify(device, &disks);
    free(entries[index]);
  }
  if (count >= 0) free(entries);
  return disks;
}

/* Drivers probe while their module loads, as a rule; a slow machine gets its time all the same. */
static struct disks wait_for_root(void) {
  for (int waited = 0;; waited += 20) {
    struct disks disks = find_disks();
    if (*disks.root || waited >= DISK_WAIT_MS) return disks;
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
  }
}

static void keep_seed(const char *device) {
  if (!*device) return;
  mkdir("/seed", 0700);
  if (mount(device, "/seed", "vfat", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
    say("seed disk %s: %s", device, strerror(errno));
    return;
  }
  size_t length;
  char *settings = read_all("/seed/" SEED_FILE_NAME, 1024 * 1024, &length);
  int fd = settings ? open("/cocoon/machine", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
  if (fd < 0 || !full_write(fd, settings, length)) say("the seed disk holds no " SEED_FILE_NAME);
  if (fd >= 0) close(fd);
  free(settings);
  umount("/seed");
}

static uint64_t device_bytes(const char *device) {
  uint64_t bytes = 0;
  int fd = open(device, O_RDONLY | O_CLOEXEC);
  if (fd >= 0 && ioctl(fd, BLKGETSIZE64, &bytes) < 0) bytes = 0;
  if (fd >= 0) close(fd);
  return bytes;
}

/* The image's file system is as small as its content; the disk is as large as the machine asked for. */
static void grow_root(const char *device) {
  unsigned char super[1024];
  int fd = open(device, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t got = pread(fd, super, sizeof super, 1024);
  close(fd);
  if (got < (ssize_t)sizeof super) return;
  uint32_t low, high, log_block;
  memcpy(&low, super + 4, 4);
  memcpy(&log_block, super + 24, 4);
  memcpy(&high, super + 0x150, 4);
  if (log_block > 6) return;
  uint64_t block_bytes = (uint64_t)1024 << log_block, blocks = low | (uint64_t)high << 32;
  uint64_t wanted = device_bytes(device) / block_bytes;
  if (wanted <= blocks) return;
  int root = open(NEW_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0 || ioctl(root, EXT4_IOC_RESIZE_FS, &wanted) < 0) say("cannot grow the root file system: %s", strerror(errno));
  if (root >= 0) close(root);
}

static void mount_root(const char *device) {
  mkdir(NEW_ROOT, 0755);
  if (mount(device, NEW_ROOT, "ext4", MS_NOATIME, "noinit_itable,discard") < 0) stop_machine("the root disk does not mount");
  grow_root(device);
  mkdir(NEW_ROOT "/run", 0755);
  if (mount("run", NEW_ROOT "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0) stop_machine("no /run");
  mkdir(NEW_ROOT TOOLKIT, 0755);
  if (mount("/cocoon", NEW_ROOT TOOLKIT, NULL, MS_BIND, NULL) < 0) stop_machine("the toolkit cannot be bound");
  static const char *const kept[] = {"/dev", "/proc", "/sys"};
  for (size_t index = 0; index < sizeof kept / sizeof *kept; index++) {
    char target[64];
    snprintf(target, sizeof target, NEW_ROOT "%s", kept[index]);
    mkdir(target, 0755);
    mount(kept[index], target, NULL, MS_MOVE, NULL);
  }
}

static void enter_root(void) {
  if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
    stop_machine("cannot change into the root file system");
}

int boot_main(void) {
  umask(022);
  mount_kernel_files();
  load_modules();
  struct disks disks = wait_for_root();
  keep_seed(disks.seed);
  if (!*disks.root) stop_machine("no disk holds an ext4 file system");
  mount_root(disks.root);
  enter_root();
  execl(TOOLKIT "/bin/cocoon-guest", "cocoon-guest", "init", NULL);
  stop_machine("the toolkit does not start");
  return 1;
}
