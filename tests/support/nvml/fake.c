/* A small NVML for tests: the entry points that the binding asks for, over fleets chosen by REPRIEVE_FAKE_NVML.
 *
 * Fleets: h100x8, mig, mixed, none, mismatch, unloaded, lost, dies, absurd, old, hang, patchy. With -DOLD_DRIVER the functions
 * that a driver before 450 lacks are absent, so that asking for them fails as it does there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { int index; int part; } device;
typedef struct { unsigned long long total, free, used; } memory_info;
typedef struct { unsigned gpu, memory; } rates;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
typedef struct { unsigned sm, copy, dec, enc, jpeg, ofa, gi, ci; unsigned long long mib; } attributes;

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, NOT_LOADED = 9, NO_FUNCTION = 13, LOST = 15, RESET = 16, MISMATCH = 18 };
#define GIB (1ull << 30)
static device devices[64], parts[64];

static int is(const char *name) {
    const char *fleet = getenv("REPRIEVE_FAKE_NVML");
    return fleet && strcmp(fleet, name) == 0;
}
static int number(void *handle) { return ((device *)handle)->index; }
static int a100(int i) { return is("mig") || (is("mixed") && i > 0) || (is("patchy") && i == 3); }
static int text(char *out, unsigned size, const char *value) {
    if (strlen(value) >= size) return SMALL;
    strcpy(out, value);
    return OK;
}
static int gone(int i) { return is("dies") && i == 1; } /* has a handle, answers nothing */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (is("mismatch")) return MISMATCH;
    if (is("unloaded")) return NOT_LOADED;
    if (is("hang")) for (;;) pause();
    return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, is("absurd") ? "" : is("patchy") ? "570.211.01" : "580.142"); }
int nvmlSystemGetCudaDriverVersion(int *out) { *out = is("absurd") ? -1 : 13000; return OK; }
int nvmlDeviceGetCount_v2(unsigned *out) {
    *out = is("none") ? 0 : is("h100x8") ? 8 : is("patchy") ? 4 : is("mig") || is("old") || is("absurd") ? 1 : 3;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) {
    if (i >= 64) return INVALID;
    if (is("lost") && i == 2) return LOST;
    devices[i].index = (int)i;
    devices[i].part = -1;
    *out = &devices[i];
    return OK;
}
int nvmlDeviceGetName(void *h, char *out, unsigned size) {
    int i = number(h);
    if (gone(i)) return LOST;
    if (is("absurd")) return text(out, size, "Unknown Error");
    if (is("patchy") && i == 2) return text(out, size, "NVIDIA GB10");
    return text(out, size, a100(i) ? "NVIDIA A100-SXM4-40GB" : "NVIDIA H100 80GB HBM3");
}
int nvmlDeviceGetUUID(void *h, char *out, unsigned size) {
    char uuid[96];
    int i = number(h);
    if (gone(i)) return LOST;
    snprintf(uuid, sizeof uuid, is("absurd") ? "N/A" : "GPU-00000000-0000-0000-0000-%012d", i);
    return text(out, size, uuid);
}
int nvmlDeviceGetMemoryInfo(void *h, memory_info *out) {
    int i = number(h);
    if (gone(i)) return LOST;
    if (is("patchy") && i == 2) return NOT_SUPPORTED; /* its memory is the host's */
    if (is("patchy")) {
        out->total = (i == 3 ? 40960ull : 81559ull) << 20;
        out->used = i == 1 ? ~0ull : i == 0 ? 1204ull << 20 : 0;
        out->free = i == 1 ? ~0ull : out->total - out->used;
        return OK;
    }
    out->total = is("absurd") ? ~0ull : (a100(i) ? 40 : 80) * GIB;
    out->used = is("absurd") ? ~0ull : (i == 0 ? 9 : 1) * GIB;
    out->free = is("absurd") ? ~0ull - 5 : out->total - out->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *h, rates *out) {
    if (is("patchy") && number(h) == 3) return RESET;
    if (a100(number(h)) || (is("patchy") && number(h) == 1)) return NOT_SUPPORTED; /* as with MIG */
    out->gpu = is("absurd") ? 4000 : is("patchy") ? (number(h) ? 12 : 97) : 35;
    out->memory = 10;
    return OK;
}
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *out) {
    (void)sensor;
    if (is("patchy") && number(h) == 1) return NOT_SUPPORTED;
    if (is("patchy") && number(h) == 3) return RESET;
    *out = is("absurd") ? ~0u : is("patchy") ? (number(h) ? 44 : 61) : 41;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(void *h, int kind, int counter, unsigned long long *out) {
    (void)kind; (void)counter;
    *out = is("absurd") ? ~0ull : number(h) == 2 ? 3 : 0;
    return OK;
}
int nvmlDeviceGetPersistenceMode(void *h, int *out) { (void)h; *out = is("absurd") ? 7 : 1; return OK; }
int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
    *major = is("absurd") ? 9999 : a100(number(h)) ? 8 : 9;
    *minor = 0;
    return OK;
}
#ifndef OLD_DRIVER
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *pending) {
    if (is("patchy") && (number(h) == 1 || number(h) == 2)) return NO_FUNCTION;
    if (!a100(number(h)) && !is("absurd") && !is("patchy")) return NOT_SUPPORTED;
    *now = *pending = is("mig") || (is("patchy") && number(h) == 3) ? 1 : is("absurd") ? 77 : 0;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *out) { (void)h; *out = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **out) {
    (void)h;
    if (i == 1 || i > 2) return NOT_FOUND; /* a hole between the partitions */
    parts[i].part = (int)i;
    *out = &parts[i];
    return OK;
}
int nvmlDeviceGetAttributes_v2(void *h, attributes *out) {
    memset(out, 0, sizeof *out);
    out->gi = out->ci = ((device *)h)->part ? 3 : 1;
    out->mib = ((device *)h)->part ? 19968 : 4864;
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, process *out) {
    if (number(h) != 0) { *count = 0; return OK; }
    if (*count < 2) { *count = 2; return SMALL; }
    *count = 2;
    out[0] = (process){4121, 8 * GIB, ~0u, ~0u};
    out[1] = (process){4122, ~0ull, ~0u, ~0u};
    return OK;
}
#endif
