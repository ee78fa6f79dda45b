/* Shifts the wall clock of a process by the seconds in the file that SOAK_CLOCK names; preloaded by a soak. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift;

__attribute__((constructor)) static void map_shift(void)
{
    const char *name = getenv("SOAK_CLOCK");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED)
        shift = page;
}

static int64_t get_shift(void)
{
    return shift == NULL ? 0 : *shift;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*read_clock)(clockid_t, struct timespec *);
    if (read_clock == NULL)
        read_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = read_clock(clock, now);
    /* Monotonic clocks never jump. */
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += get_shift();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec moment;
    int failed = clock_gettime(CLOCK_REALTIME, &moment);
    now->tv_sec = moment.tv_sec;
    now->tv_usec = moment.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now)
{
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    if (now != NULL)
        *now = moment.tv_sec;
    return moment.tv_sec;
}
