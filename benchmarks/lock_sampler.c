/* Counts how much core time of a Python process is spent with Python's lock held.
 *
 * bench_lock.py compiles this file and loads it into the processes to measure with LD_PRELOAD. The kernel interrupts
 * each thread with SIGPROF after each quarter of a millisecond of its own core time, and the handler finds out if the
 * thread holds the lock. (setitimer and timer_create only look at the system's ticks, which favours threads that run
 * long.) Time in the kernel counts to the state in which the thread returns. A thread that waits is not counted, so a
 * busy machine does not change the result.
 *
 * Each process keeps its counts in a file of its own, named after its id, in the folder $LOCK_SAMPLES: three uint64,
 * namely samples with the lock, samples without it, and nanoseconds of core time until the last sample.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PERIOD 250000 /* nanoseconds of a thread's core time between two samples */

struct counts {
    _Atomic uint64_t held, free, nanoseconds;
};

struct start {
    void *(*routine)(void *);
    void *argument;
};

static struct counts *counts;   /* NULL if this process is not measured */
static int (*holds_lock)(void); /* PyGILState_Check, which reads the calling thread's state only */
static __thread int event;      /* the calling thread's clock */

static void sample(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    struct timespec spent;
    (void)number, (void)context;
    atomic_fetch_add(holds_lock() ? &counts->held : &counts->free, 1);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    atomic_store(&counts->nanoseconds, (uint64_t)spent.tv_sec * 1000000000 + (uint64_t)spent.tv_nsec);
    ioctl(info->si_fd, PERF_EVENT_IOC_REFRESH, 1);
    errno = saved;
}

static void fail(const char *what)
{
    perror(what);
    _exit(70);
}

static void start_clock(void)
{
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attributes,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = PERIOD,
        .wakeup_events = 1,
        .disabled = 1,
    };
    struct f_owner_ex owner = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};
    event = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (event < 0)
        fail("perf_event_open (kernel.perf_event_paranoid must be 1 or less, and a container must allow it)");
    if (fcntl(event, F_SETOWN_EX, &owner) != 0 || fcntl(event, F_SETSIG, SIGPROF) != 0 ||
        fcntl(event, F_SETFL, O_ASYNC) != 0 || ioctl(event, PERF_EVENT_IOC_REFRESH, 1) != 0)
        fail("the clock of a thread");
}

/* Measure this process. A child has no clocks of its parent, so it begins anew. */
static void begin(void)
{
    char path[4096];
    const char *folder = getenv("LOCK_SAMPLES");
    struct sigaction action = {.sa_sigaction = sample, .sa_flags = SA_RESTART | SA_SIGINFO};
    int file;
    if (folder == NULL || snprintf(path, sizeof path, "%s/%d", folder, (int)getpid()) >= (int)sizeof path)
        return;
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *counts) != 0)
        fail(path);
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (counts == MAP_FAILED)
        fail(path);
    sigaction(SIGPROF, &action, NULL);
    start_clock();
}

static void *run(void *argument)
{
    struct start start = *(struct start *)argument;
    void *result;
    free(argument);
    start_clock();
    result = start.routine(start.argument);
    close(event);
    return result;
}

/* In place of the system's function: start a thread that is measured. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *), void *argument)
{
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    struct start *start;
    int status;
    if (create == NULL)
        *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    if (counts == NULL)
        return create(thread, attributes, routine, argument);
    if ((start = malloc(sizeof *start)) == NULL)
        return EAGAIN;
    *start = (struct start){routine, argument};
    if ((status = create(thread, attributes, run, start)) != 0)
        free(start);
    return status;
}

__attribute__((constructor)) static void load(void)
{
    *(void **)&holds_lock = dlsym(RTLD_DEFAULT, "PyGILState_Check");
    if (holds_lock == NULL) /* not Python */
        return;
    begin();
    pthread_atfork(NULL, NULL, begin);
}
