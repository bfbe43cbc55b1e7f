/* A library to preload: reads of files whose path contains $FAULTY_PATH fail with EIO, those of files whose path contains
 * $SLOW_PATH take 60 s, and the system's clock is ahead by the number of seconds in the file $FAULTY_CLOCK. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int fails(int fd) {
    const char *part = getenv("FAULTY_PATH"), *slow = getenv("SLOW_PATH");
    char name[64], path[4096];
    int before = errno;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = part || slow ? readlink(name, path, sizeof path - 1) : -1;
    errno = before;
    if (length <= 0) return 0;
    path[length] = 0;
    if (slow && strstr(path, slow)) {
        struct timespec left = {60, 0};
        while (nanosleep(&left, &left)) {} /* no signal ends it, as with a file system that doesn't answer */
        errno = before;
    }
    if (!part || !strstr(path, part)) return 0;
    errno = EIO;
    return 1;
}

static long ahead(void) {
    long seconds = 0;
    FILE *file = getenv("FAULTY_CLOCK") ? fopen(getenv("FAULTY_CLOCK"), "r") : 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
        fclose(file);
    }
    return seconds;
}

#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))

ssize_t read(int fd, void *to, size_t size) {
    return fails(fd) ? -1 : REAL(ssize_t (*)(int, void *, size_t), "read")(fd, to, size);
}

ssize_t pread64(int fd, void *to, size_t size, off64_t offset) {
    return fails(fd) ? -1 : REAL(ssize_t (*)(int, void *, size_t, off64_t), "pread64")(fd, to, size, offset);
}

ssize_t pread(int fd, void *to, size_t size, off_t offset) { return pread64(fd, to, size, offset); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = REAL(int (*)(clockid_t, struct timespec *), "clock_gettime")(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += ahead();
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    int result = REAL(int (*)(struct timeval *, void *), "gettimeofday")(now, zone);
    now->tv_sec += ahead();
    return result;
}
