/*
 * Starts QEMU with little in sight:
 *
 *   jail [-N NETNS] [-n] [-t TAP]... [-r PATH]... -w DIRECTORY -u UID -g GID -- PROGRAM ARGUMENT...
 *
 * It gets a mount namespace whose root has the working directory (-w, the only one that can be written), what -r names
 * (read-only, where it exists) and the devices below; with -n a network namespace without any interface. Taps are opened
 * before, in the network namespace of -N where there is one, and become descriptors 10, 11, ... Then the user changes, and nothing that is started can get more rights.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Exists everywhere; the new root covers it, in this mount namespace only. */
#define NEW_ROOT "/sys"
#define FIRST_TAP 10

static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"};

static void fail(const char *what) {
  fprintf(stderr, "jail: %s: %s\n", what, strerror(errno));
  exit(125);
}

static void open_tap(const char *name, int number) {
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (fd < 0) fail("/dev/net/tun");
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
  if (ioctl(fd, TUNSETIFF, &request) < 0 || dup2(fd, number) < 0) fail(name);
}

static void enter_network(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) < 0) fail(path);
  close(fd);
}

static void make_parents(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (mkdir(path, 0755) < 0 && errno != EEXIST) fail(path);
    *slash = '/';
  }
}

static void show(const char *path, unsigned long flags) {
  struct stat status;
  char target[PATH_MAX], link[PATH_MAX];
  if (lstat(path, &status) < 0) {
    if (errno != ENOENT) fail(path);
    return;
  }
  if (snprintf(target, sizeof target, NEW_ROOT "%s", path) >= (int)sizeof target) fail(path);
  make_parents(target);
  if (S_ISLNK(status.st_mode)) {
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length < 0) fail(path);
    link[length] = 0;
    if (symlink(link, target) < 0 && errno != EEXIST) fail(target);
    return;
  }
  if (S_ISDIR(status.st_mode)) {
    if (mkdir(target, 0755) < 0 && errno != EEXIST) fail(target);
  } else {
    int fd = open(target, O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) fail(target);
    close(fd);
  }
  if (mount(path, target, NULL, MS_BIND | MS_REC, NULL) < 0) fail(target);
  if (mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | MS_NOSUID | flags, NULL) < 0) fail(target);
}

/* On the host it belongs to a group that machines are not in. */
static void show_kvm(uid_t uid, gid_t gid) {
  const char *target = NEW_ROOT "/dev/kvm";
  struct stat status;
  if (stat("/dev/kvm", &status) < 0) return;
  if (mknod(target, S_IFCHR | 0600, status.st_rdev) < 0) show("/dev/kvm", MS_NOEXEC);
  else if (chown(target, uid, gid) < 0) fail(target);
}

static void change_root(void) {
  if (chdir(NEW_ROOT) < 0 || syscall(SYS_pivot_root, ".", ".") < 0) fail("pivot_root");
  if (umount2(".", MNT_DETACH) < 0) fail("umount");
  if (mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID, NULL) < 0) fail("/");
}

int main(int argc, char **argv) {
  int namespaces = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS, taps = 0, visible = 0;
  const char *directory = NULL, **paths = calloc((size_t)argc, sizeof *paths);
  uid_t uid = 0;
  gid_t gid = 0;
  if (!paths) fail("memory");
  for (int flag; (flag = getopt(argc, argv, "+N:nt:r:w:u:g:")) != -1;) {
    if (flag == 'N') enter_network(optarg);
    else if (flag == 'n') namespaces |= CLONE_NEWNET;
    else if (flag == 't') open_tap(optarg, FIRST_TAP + taps++);
    else if (flag == 'r') paths[visible++] = optarg;
    else if (flag == 'w') directory = optarg;
    else if (flag == 'u') uid = (uid_t)strtoul(optarg, NULL, 10);
    else if (flag == 'g') gid = (gid_t)strtoul(optarg, NULL, 10);
    else return 125;
  }
  errno = EINVAL;
  if (!directory || uid == 0 || gid == 0 || optind >= argc) fail("usage");
  if (unshare(namespaces) < 0) fail("unshare");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) fail("private mounts");
  if (mount("jail", NEW_ROOT, "tmpfs", MS_NOSUID, "mode=0755,size=1m") < 0) fail(NEW_ROOT);
  for (int index = 0; index < visible; index++) show(paths[index], MS_RDONLY | MS_NODEV);
  for (size_t index = 0; index < sizeof devices / sizeof *devices; index++) show(devices[index], MS_NOEXEC);
  show_kvm(uid, gid);
  show(directory, MS_NODEV | MS_NOEXEC);
  change_root();
  if (chdir(directory) < 0) fail(directory);
  if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0) fail("change of user");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) fail("no new privileges");
  execv(argv[optind], argv + optind);
  fail(argv[optind]);
}
