/* A thread that decodes batches of JPEGs on the engine at a given rate, and never needs Python's lock.

   Each of its two states has its own stream, which is idle when a call begins. The addresses of libnvjpeg's and of the
   driver's functions are passed in, so that nothing of CUDA is needed to compile this. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define STATES 2

typedef struct {
    /* Functions. */
    int (*decode)(void *, void *, void *, void *, void *, void *, void *);
    int (*set_context)(void *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    int (*record)(void *, void *);
    int (*synchronize)(void *);
    /* What it decodes. */
    void *context, *handle, *sources, *sizes, *parameters[2]; /* of interleaved colours and of planes */
    void *states[2][STATES], *images[2][STATES], *streams[STATES], *events[STATES];
    /* What it launches behind a batch: two functions of the sizes' table. */
    void *kernels[2], *tables[2][STATES], *outputs[STATES];
    uint32_t grid[3], block;
    /* What the loop changes and reads. */
    double rate;    /* batches per second; 0: none, below 0: as many as possible */
    int32_t planes; /* 1: planes, 0: interleaved colours */
    int32_t decodes, launches, stop, status;
    int64_t batches;
    pthread_t thread;
} Work;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void sleep_until(double end) {
    struct timespec t = {(time_t)end, (long)((end - (time_t)end) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void *work(void *argument) {
    Work *w = argument;
    int status = w->set_context(w->context);
    double due = now();
    for (int i = 0; !status && !__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE); i = (i + 1) % STATES) {
        double rate = w->rate;
        if (rate == 0) {
            sleep_until(now() + 1e-3);
            due = now();
            continue;
        }
        if (rate > 0) {
            due += 1 / rate;
            if (due > now()) sleep_until(due);
            else if (due < now() - 0.1) due = now(); /* it can't keep up */
        }
        int planes = w->planes;
        status = w->synchronize(w->events[i]);
        if (!status && w->decodes)
            status = 1000 * w->decode(w->handle, w->states[planes][i], w->sources, w->sizes, w->images[planes][i],
                                      w->parameters[planes], w->streams[i]);
        if (!status && w->launches) {
            void *arguments[] = {&w->tables[planes][i], &w->outputs[i]};
            status = w->launch(w->kernels[planes], w->grid[0], w->grid[1], w->grid[2], w->block, 1, 1, 0,
                               w->streams[i], arguments, NULL);
        }
        if (!status) status = w->record(w->events[i], w->streams[i]);
        __atomic_add_fetch(&w->batches, 1, __ATOMIC_RELAXED);
    }
    w->status = status;
    return NULL;
}

int size_of_work(void) { return sizeof(Work); }
int start(Work *w) { return pthread_create(&w->thread, NULL, work, w); }
int end(Work *w) {
    __atomic_store_n(&w->stop, 1, __ATOMIC_RELEASE);
    pthread_join(w->thread, NULL);
    return w->status;
}
