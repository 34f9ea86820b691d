/* A preload that kills a process, or lets the disk fail, at a chosen file operation.
 *
 * Only operations that change something below a folder are counted. Arm it from the process itself
 * with fault_arm, or for a child with FAULT_PREFIX, FAULT_MODE and FAULT_AT in its environment.
 *
 * Modes: 0 count only, 1 kill at operation N (a write is half done), 2 the disk is full from N on,
 * 3 it is read-only from N on, 4 operation N alone fails with EIO.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, KILL, FULL, READ_ONLY, BROKEN };
enum { MAKE, WRITE, CUT, SYNC, NAME, REMOVE };
#define MOST 4096

static char prefix[4096];
static int mode = -1;
static long at = 0, count = 0;
static char tracked[MOST];

void fault_arm(const char *folder, int what, long when) {
    strncpy(prefix, folder, sizeof(prefix) - 1);
    mode = what, at = when, count = 0;
}
long fault_count(void) { return count; }

__attribute__((constructor)) static void from_environment(void) {
    const char *folder = getenv("FAULT_PREFIX");
    if (folder && getenv("FAULT_MODE") && getenv("FAULT_AT"))
        fault_arm(folder, atoi(getenv("FAULT_MODE")), atol(getenv("FAULT_AT")));
}

static int below(int dir, const char *path) {
    if (mode < 0 || !path) return 0;
    if (path[0] != '/') return dir >= 0 && dir < MOST && tracked[dir];
    return strncmp(path, prefix, strlen(prefix)) == 0;
}
static int open_here(int fd) { return mode >= 0 && fd >= 0 && fd < MOST && tracked[fd]; }

/* Whether the operation fails now; errno says how. 2: half of a write is done first. */
static int strike(int kind) {
    long number = ++count;
    if (mode == KILL && number == at) {
        if (kind == WRITE) return 2;
        kill(getpid(), SIGKILL);
    }
    if (mode == FULL && number >= at && (kind == MAKE || kind == WRITE || kind == CUT)) {
        errno = ENOSPC;
        return kind == WRITE && number == at ? 2 : 1;
    }
    if (mode == READ_ONLY && number >= at && kind != SYNC) {
        errno = EROFS;
        return 1;
    }
    if (mode == BROKEN && number == at) {
        errno = EIO;
        return 1;
    }
    return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int opened(int dir, const char *path, int flags, int fd) {
    if (fd >= 0 && fd < MOST) tracked[fd] = (char)below(dir, path);
    return fd;
}
static int refused(int dir, const char *path, int flags) {
    if (!below(dir, path) || !(flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))) return 0;
    struct stat found;
    int there = fstatat(dir, path, &found, 0) == 0;
    /* A full disk still opens what is there. */
    if (mode == FULL && there) return count++, 0;
    return strike(MAKE);
}

#define OPEN(name)                                                            \
    int name(const char *path, int flags, ...) {                              \
        va_list rest; va_start(rest, flags);                                  \
        int bits = va_arg(rest, int); va_end(rest);                           \
        if (refused(AT_FDCWD, path, flags)) return -1;                        \
        return opened(AT_FDCWD, path, flags, REAL(name)(path, flags, bits));  \
    }
#define OPENAT(name)                                                          \
    int name(int dir, const char *path, int flags, ...) {                     \
        va_list rest; va_start(rest, flags);                                  \
        int bits = va_arg(rest, int); va_end(rest);                           \
        if (refused(dir, path, flags)) return -1;                             \
        return opened(dir, path, flags, REAL(name)(dir, path, flags, bits));  \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t size) {
    int hit = open_here(fd) ? strike(WRITE) : 0, why = errno;
    if (hit == 2) {
        ssize_t half = REAL(write)(fd, data, size / 2);
        if (mode == KILL) kill(getpid(), SIGKILL);
        if (half > 0) return half;
        errno = why;
    }
    return hit ? -1 : REAL(write)(fd, data, size);
}
#define PWRITE(name, offset_type)                                             \
    ssize_t name(int fd, const void *data, size_t size, offset_type place) {  \
        int hit = open_here(fd) ? strike(WRITE) : 0;                          \
        if (hit && mode == KILL) kill(getpid(), SIGKILL);                     \
        return hit ? -1 : REAL(name)(fd, data, size, place);                  \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
ssize_t writev(int fd, const struct iovec *parts, int number) {
    int hit = open_here(fd) ? strike(WRITE) : 0;
    if (hit && mode == KILL) kill(getpid(), SIGKILL);
    return hit ? -1 : REAL(writev)(fd, parts, number);
}

int ftruncate(int fd, off_t size) {
    return open_here(fd) && strike(CUT) ? -1 : REAL(ftruncate)(fd, size);
}
int ftruncate64(int fd, off64_t size) {
    return open_here(fd) && strike(CUT) ? -1 : REAL(ftruncate64)(fd, size);
}
int fsync(int fd) { return open_here(fd) && strike(SYNC) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return open_here(fd) && strike(SYNC) ? -1 : REAL(fdatasync)(fd); }
int rename(const char *from, const char *to) {
    return below(AT_FDCWD, to) && strike(NAME) ? -1 : REAL(rename)(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    return below(b, to) && strike(NAME) ? -1 : REAL(renameat)(a, from, b, to);
}
int mkdir(const char *path, mode_t bits) {
    return below(AT_FDCWD, path) && strike(MAKE) ? -1 : REAL(mkdir)(path, bits);
}
int unlink(const char *path) {
    return below(AT_FDCWD, path) && strike(REMOVE) ? -1 : REAL(unlink)(path);
}
int unlinkat(int dir, const char *path, int flags) {
    return below(dir, path) && strike(REMOVE) ? -1 : REAL(unlinkat)(dir, path, flags);
}
int rmdir(const char *path) {
    return below(AT_FDCWD, path) && strike(REMOVE) ? -1 : REAL(rmdir)(path);
}
int close(int fd) {
    if (fd >= 0 && fd < MOST) tracked[fd] = 0;
    return REAL(close)(fd);
}
