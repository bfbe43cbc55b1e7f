/* The loops over pixels that take most of a CPU pipeline's time: resampling and normalising 8-bit images.

   Without this module, `resample.py` and `normalize.py` compute the same in several passes over memory. Here an image
   passes through the registers once, in one call without the GIL. Python passes windows, borders and all weights except
   those of the triangle filter. The loops, which compilers vectorise, are in `headers/fixed_point.h` and
   `headers/floats.h`; other headers have those of other operators. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../buffers.h"
#include "../copy_past_cache.h"
#include "../for_each_cpu.h"
#include "../sources.h"

#define LANES 4 /* floats per pixel during computation, for any number of channels */
typedef float Pixel __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

/* Rounds ties up like DALI, although sums of float weights may be slightly below them. */
#define ROUND 0.5001f

/* A borrowed array of rows, columns and channels with any strides. */
typedef struct {
    char *data;
    Py_ssize_t shape[3];
    Py_ssize_t strides[3];
} Image;

/* Resampling of an axis: output i is the sum over k < taps of weights[i * taps + k] * input[first[i] + k]. */
typedef struct {
    const int32_t *first;
    const float *weights;
    Py_ssize_t size;
    Py_ssize_t taps;
} Axis;

ALWAYS_INLINE void scale_row(const uint8_t *from, Py_ssize_t step, Py_ssize_t width, float gain, float offset,
                             float *restrict out) {
    for (Py_ssize_t x = 0; x < width; x++) out[x] = from[x * step] * gain + offset;
}

#include "headers/fixed_point.h"
#include "headers/floats.h"
#include "headers/rounding.h"

/* Borrow an array of rows, columns and channels; `format` is its element type, in the notation of `struct`, or 0. */
static int borrow(PyObject *array, Py_buffer *view, Image *image, char format, int writable) {
    if (PyObject_GetBuffer(array, view, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) < 0) return -1;
    if (view->ndim != 3 || view->format == NULL || (format && view->format[0] != format) || view->format[1] != 0) {
        PyBuffer_Release(view);
        PyErr_Format(PyExc_ValueError, "expected an array of three axes with elements of type '%c'", format);
        return -1;
    }
    image->data = view->buf;
    memcpy(image->shape, view->shape, sizeof(image->shape));
    memcpy(image->strides, view->strides, sizeof(image->strides));
    return 0;
}

/* Borrow an image of bytes, and memory for the result, whose elements are of the type `format`: both or neither. */
static int borrow_both(PyObject *from, Py_buffer *source_view, Image *source, PyObject *to, char format,
                       Py_buffer *target_view, Image *target) {
    if (borrow(from, source_view, source, 'B', 0) < 0) return -1;
    if (borrow(to, target_view, target, format, 1) == 0) return 0;
    PyBuffer_Release(source_view);
    return -1;
}

/* Borrow a volume (d, h, w, c), rows of adjacent pixels of any numbers, and C-contiguous memory for a volume with as many
   channels: both or neither. */
static int borrow_volumes(PyObject *from, Py_buffer *source, PyObject *to, Py_buffer *target) {
    if (PyObject_GetBuffer(from, source, PyBUF_STRIDES | PyBUF_FORMAT) < 0) return -1;
    if (PyObject_GetBuffer(to, target, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(source);
        return -1;
    }
    if (source->ndim == 4 && target->ndim == 4 && source->shape[3] == target->shape[3] &&
        (source->strides[3] == source->itemsize || source->shape[3] == 1) &&
        (source->strides[2] == source->itemsize * source->shape[3] || source->shape[2] == 1))
        return 0;
    RELEASE(source, target);
    PyErr_SetString(PyExc_ValueError, "expected volumes of adjacent pixels, with as many channels in the result");
    return -1;
}

/* Read the resampling of an axis, and check that all taps are among the `extent` inputs. */
static int read_axis(const Py_buffer *first, const Py_buffer *weights, Py_ssize_t extent, Py_ssize_t size, Axis *axis) {
    axis->first = first->buf;
    axis->weights = weights->buf;
    axis->size = first->len / (Py_ssize_t)sizeof(int32_t);
    axis->taps = axis->size ? weights->len / (Py_ssize_t)sizeof(float) / axis->size : 0;
    int fits = axis->size == size && axis->taps > 0;
    for (Py_ssize_t i = 0; fits && i < size; i++)
        fits = axis->first[i] >= 0 && axis->first[i] + axis->taps <= extent;
    if (!fits) PyErr_SetString(PyExc_ValueError, "the weights don't fit the image's or the result's extents");
    return fits ? 0 : -1;
}

/* Check the requirements of all ways to resample. The stride of an axis with one element doesn't matter. */
static int check_images(const Image *source, const Image *target) {
    Py_ssize_t channels = source->shape[2];
    if (channels >= 1 && channels <= LANES && target->shape[2] == channels &&
        (source->strides[2] == 1 || channels == 1) && (source->strides[1] == channels || source->shape[1] == 1))
        return 0;
    PyErr_SetString(PyExc_ValueError, "expected 1 to 4 adjacent channels, as many in the result");
    return -1;
}

static int is_region(double y0, double x0, double y1, double x1) {
    const double most = 1 << 20; /* a larger region would sum as many pixels outside of the image */
    return fabs(y0) < most && fabs(x0) < most && fabs(y1) < most && fabs(x1) < most;
}

static Py_ssize_t min_extent(const Image *image) {
    return image->shape[0] < image->shape[1] ? image->shape[0] : image->shape[1];
}

static void free_axis(Axis *axis) {
    free((void *)axis->first);
    free((void *)axis->weights);
}

/* Resample in fixed point, or in floats if that isn't possible, without the GIL. Return -1 without memory. */
static int resample_any(const Image *source, const Image *target, const Axis *rows, const Axis *columns) {
    Py_ssize_t row = source->shape[1] * source->shape[2] + LANES;
    float *work = NULL;
    FixedPlan plan;
    int fixed;
    Py_BEGIN_ALLOW_THREADS
    if ((fixed = plan_fixed(rows, columns, source->shape[2], &plan) > 0))
        resample_fixed(source, target, &plan.rows, &plan.columns, NULL, NULL, &plan.work);
    else if ((work = calloc(row + columns->size * LANES, sizeof(float))) != NULL)
        resample(source, target, rows, columns, work, work + row);
    Py_END_ALLOW_THREADS
    int done = fixed || work != NULL;
    free(plan.memory);
    free(work);
    return done ? 0 : -1;
}

PyDoc_STRVAR(resample_doc,
             "resample(source, target, row_first, row_weights, column_first, column_weights)\n--\n\n"
             "Resample uint8 (h, w, c), rows of adjacent pixels, c <= 4, into uint8 (h, w, c) of any strides.\n"
             "Output i of an axis is the sum over k of weights[i, k] * input[first[i] + k], rounded and clamped.");

static PyObject *resample_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer row_first, row_weights, column_first, column_weights, source_view, target_view;
    Image source, target;
    Axis rows, columns;
    if (!PyArg_ParseTuple(arguments, "OOy*y*y*y*", &from, &to, &row_first, &row_weights, &column_first,
                          &column_weights))
        return NULL;
    if (borrow_both(from, &source_view, &source, to, 'B', &target_view, &target) < 0) goto release_weights;
    if (check_images(&source, &target) < 0) goto release_images;
    if (read_axis(&row_first, &row_weights, source.shape[0], target.shape[0], &rows) < 0 ||
        read_axis(&column_first, &column_weights, source.shape[1], target.shape[1], &columns) < 0)
        goto release_images;
    if (resample_any(&source, &target, &rows, &columns) < 0) {
        PyErr_NoMemory();
        goto release_images;
    }
    result = Py_NewRef(Py_None);
release_images:
    RELEASE(&source_view, &target_view);
release_weights:
    RELEASE(&row_first, &row_weights, &column_first, &column_weights);
    return result;
}

PyDoc_STRVAR(resample_linear_doc,
             "resample_linear(source, target, y0, x0, y1, x1, antialias)\n--\n\n"
             "Resample a region, in pixels, with the triangle filter; `antialias` widens it along axes that shrink.");

static PyObject *resample_linear_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer source_view, target_view;
    Image source, target;
    Axis rows = {0}, columns = {0};
    double y0, x0, y1, x1;
    int antialias;
    if (!PyArg_ParseTuple(arguments, "OOddddp", &from, &to, &y0, &x0, &y1, &x1, &antialias)) return NULL;
    if (borrow_both(from, &source_view, &source, to, 'B', &target_view, &target) < 0) return NULL;
    if (check_images(&source, &target) < 0) goto release_images;
    if (!is_region(y0, x0, y1, x1) || min_extent(&source) < 1 || min_extent(&target) < 1) {
        PyErr_SetString(PyExc_ValueError, "the region is too large, or the image or the result is empty");
        goto release_images;
    }
    if (plan_triangle(source.shape[0], target.shape[0], y0, y1, antialias, 0, &rows) < 0 ||
        plan_triangle(source.shape[1], target.shape[1], x0, x1, antialias, 0, &columns) < 0 ||
        resample_any(&source, &target, &rows, &columns) < 0)
        PyErr_NoMemory();
    else
        result = Py_NewRef(Py_None);
    free_axis(&rows);
    free_axis(&columns);
release_images:
    RELEASE(&source_view, &target_view);
    return result;
}

/* An image of adjacent pixels: a row of 64-bit numbers in a NumPy array. */
typedef struct {
    int64_t address, height, width, stride;
} ImageRow;

/* The images of a batch, and the operations on them. */
typedef struct {
    const ImageRow *images;
    const double (*regions)[4];
    const uint8_t *mirrors;
    const float *gains, *offsets;
    Py_ssize_t values_step; /* distance from the gains of an image to the next image's; 0 if they are the same */
    int antialias;
    Image target; /* of image 0 */
    Py_ssize_t target_step;
} ImageBatch;

/* Compute one image of a batch. Return 1, 0 if it shrinks too much, or -1 without memory. */
static int compute_image(const ImageBatch *batch, Py_ssize_t number) {
    const ImageRow *image = batch->images + number;
    const double *region = batch->regions[number];
    Image target = batch->target;
    Image source = {(char *)(intptr_t)image->address,
                    {image->height, image->width, target.shape[2]},
                    {image->stride, target.shape[2], 1}};
    Axis rows = {0}, columns = {0};
    FixedPlan plan = {0};
    const float *gains = batch->gains + number * batch->values_step;
    const float *offsets = batch->offsets + number * batch->values_step;
    target.data += number * batch->target_step;
    int status = -1;
    if (plan_triangle(source.shape[0], target.shape[0], region[0], region[2], batch->antialias, 0, &rows) == 0 &&
        plan_triangle(source.shape[1], target.shape[1], region[1], region[3], batch->antialias,
                      batch->mirrors[number], &columns) == 0)
        status = plan_fixed(&rows, &columns, source.shape[2], &plan);
    if (status > 0) resample_fixed(&source, &target, &plan.rows, &plan.columns, gains, offsets, &plan.work);
    free(plan.memory);
    free_axis(&rows);
    free_axis(&columns);
    return status;
}

PyDoc_STRVAR(crop_resize_normalize_doc,
             "crop_resize_normalize(images, regions, mirrors, gains, offsets, antialias, target, begin, end)\n--\n\n"
             "Compute images begin .. end of a batch, as resample_linear and then normalize do, into float32\n"
             "(n, channels, h, w). images: int64 (n, 4), the address, height, width and bytes of a row of uint8\n"
             "images of adjacent pixels, not checked; regions: float64 (n, 4), y0, x0, y1, x1; mirrors: bool (n,);\n"
             "gains and offsets: float32 (n or 1, channels). Axes may shrink to 1 / 7.5.");

static PyObject *crop_resize_normalize_call(PyObject *module, PyObject *arguments) {
    PyObject *to, *result = NULL;
    Py_buffer images, regions, mirrors, gains, offsets, view;
    ImageBatch batch;
    Py_ssize_t begin, end;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*pOnn", &images, &regions, &mirrors, &gains, &offsets,
                          &batch.antialias, &to, &begin, &end))
        return NULL;
    if (PyObject_GetBuffer(to, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) < 0) goto release_values;
    Py_ssize_t count = mirrors.len, row = view.ndim == 4 ? view.shape[1] * (Py_ssize_t)sizeof(float) : 0;
    int fits = view.ndim == 4 && view.format != NULL && strcmp(view.format, "f") == 0 && view.shape[0] == count &&
               view.shape[1] >= 1 && view.shape[1] <= LANES && 0 <= begin && begin <= end && end <= count &&
               images.len == count * (Py_ssize_t)sizeof(ImageRow) &&
               regions.len == count * 4 * (Py_ssize_t)sizeof(double) && gains.len == offsets.len &&
               (gains.len == row || gains.len == count * row);
    batch.images = images.buf;
    batch.regions = regions.buf;
    for (Py_ssize_t i = begin; fits && i < end; i++) {
        const double *region = batch.regions[i];
        fits = batch.images[i].height > 0 && batch.images[i].width > 0 && view.shape[2] > 0 && view.shape[3] > 0 &&
               is_region(region[0], region[1], region[2], region[3]);
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the images, the values and the result don't fit each other");
        goto release_target;
    }
    batch.mirrors = mirrors.buf;
    batch.gains = gains.buf;
    batch.offsets = offsets.buf;
    batch.values_step = gains.len == row ? 0 : view.shape[1];
    batch.target = (Image){view.buf,
                           {view.shape[2], view.shape[3], view.shape[1]},
                           {view.strides[2], view.strides[3], view.strides[1]}};
    batch.target_step = view.strides[0];
    int status = 1;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = begin; i < end && status > 0; i++) status = compute_image(&batch, i);
    Py_END_ALLOW_THREADS
    if (status > 0)
        result = Py_NewRef(Py_None);
    else if (status < 0)
        PyErr_NoMemory();
    else
        PyErr_SetString(PyExc_ValueError, "an image shrinks too much");
release_target:
    PyBuffer_Release(&view);
release_values:
    RELEASE(&images, &regions, &mirrors, &gains, &offsets);
    return result;
}

PyDoc_STRVAR(normalize_doc,
             "normalize(source, target, mirror, gains, offsets)\n--\n\n"
             "Write source * gain + offset of each channel, (h, w, c) of any strides, integers of 8 or 16 bits or float32,\n"
             "into float32 (h, w, c) whose columns are adjacent; `mirror` reverses the columns.");

static PyObject *normalize_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer gains, offsets, source_view, target_view;
    Image source, target;
    int mirror;
    if (!PyArg_ParseTuple(arguments, "OOpy*y*", &from, &to, &mirror, &gains, &offsets)) return NULL;
    if (borrow(from, &source_view, &source, 0, 0) < 0) goto release_values;
    if (borrow(to, &target_view, &target, 'f', 1) < 0) {
        PyBuffer_Release(&source_view);
        goto release_values;
    }
    Normalize *normalize = normalize_of(source_view.format[0]);
    Py_ssize_t nbytes = source.shape[2] * (Py_ssize_t)sizeof(float);
    if (normalize == NULL || memcmp(source.shape, target.shape, sizeof(source.shape)) != 0 || gains.len != nbytes ||
        offsets.len != nbytes || (target.strides[1] != sizeof(float) && target.shape[1] > 1)) {
        PyErr_SetString(PyExc_ValueError, "the result or the values don't fit the image");
        goto release_images;
    }
    float *mirrored = mirror ? malloc((source.shape[1] + 1) * sizeof(float)) : NULL;
    if (mirror && mirrored == NULL) {
        PyErr_NoMemory();
        goto release_images;
    }
    Py_BEGIN_ALLOW_THREADS
    normalize(&source, &target, gains.buf, offsets.buf, mirrored);
    Py_END_ALLOW_THREADS
    free(mirrored);
    result = Py_NewRef(Py_None);
release_images:
    RELEASE(&source_view, &target_view);
release_values:
    RELEASE(&gains, &offsets);
    return result;
}

#include "headers/bins.h"
#include "headers/blobs.h"
#include "headers/boxes.h"
#include "headers/bytes.h"
#include "headers/colors.h"
#include "headers/crops.h"
#include "headers/draws.h"
#include "headers/jpeg_windows.h"
#include "headers/patches.h"
#include "headers/points.h"
#include "headers/png.h"
#include "headers/polygons.h"
#include "headers/resampling.h"
#include "headers/signals.h"
#include "headers/samples.h"
#include "headers/sinc.h"
#include "headers/slices.h"
#include "headers/sums.h"
#include "headers/tables.h"
#include "headers/warps.h"
#include "headers/windows.h"

static PyMethodDef functions[] = {
    {"resample", resample_call, METH_VARARGS, resample_doc},
    {"resample_linear", resample_linear_call, METH_VARARGS, resample_linear_doc},
    {"crop_resize_normalize", crop_resize_normalize_call, METH_VARARGS, crop_resize_normalize_doc},
    {"resample_floats", resample_floats_call, METH_VARARGS, resample_floats_doc},
    {"resample_signal", resample_signal_call, METH_VARARGS, resample_signal_doc},
    {"normalize", normalize_call, METH_VARARGS, normalize_doc},
    {"map_colors", map_colors_call, METH_VARARGS, map_colors_doc},
    {"to_gray", to_gray_call, METH_VARARGS, to_gray_doc},
    {"map_bytes", map_bytes_call, METH_VARARGS, map_bytes_doc},
    {"count_bytes", count_bytes_call, METH_VARARGS, count_bytes_doc},
    {"mirror", mirror_call, METH_VARARGS, mirror_doc},
    {"take", take_call, METH_VARARGS, take_doc},
    {"sample_linear", sample_linear_call, METH_VARARGS, sample_linear_doc},
    {"warp_nearest", warp_nearest_call, METH_VARARGS, warp_nearest_doc},
    {"round_floats", round_floats_call, METH_VARARGS, round_floats_doc},
    {"sum_rows", sum_rows_call, METH_VARARGS, sum_rows_doc},
    {"standardize", standardize_call, METH_VARARGS, standardize_doc},
    {"preemphasize", preemphasize_call, METH_VARARGS, preemphasize_doc},
    {"find_sound", find_sound_call, METH_VARARGS, find_sound_doc},
    {"take_windows", take_windows_call, METH_VARARGS, take_windows_doc},
    {"wave_powers", wave_powers_call, METH_VARARGS, wave_powers_doc},
    {"weigh_bins", weigh_bins_call, METH_VARARGS, weigh_bins_doc},
    {"blob_boxes", blob_boxes_call, METH_O, blob_boxes_doc},
    {"map_points", map_points_call, METH_VARARGS, map_points_doc},
    {"select_polygons", select_polygons_call, METH_VARARGS, select_polygons_doc},
    {"draw_windows", draw_windows_call, METH_VARARGS, draw_windows_doc},
    {"choose_crops", choose_crops_call, METH_VARARGS, choose_crops_doc},
    {"draw_numbers", draw_numbers_call, METH_VARARGS, draw_numbers_doc},
    {"random_words", random_words_call, METH_VARARGS, random_words_doc},
    {"normal_quantiles", normal_quantiles_call, METH_VARARGS, normal_quantiles_doc},
    {"load_jpeg_decoder", load_jpeg_decoder_call, METH_VARARGS, load_jpeg_decoder_doc},
    {"decode_jpeg_windows", decode_jpeg_windows_call, METH_VARARGS, decode_jpeg_windows_doc},
    {"match_boxes", match_boxes_call, METH_VARARGS, match_boxes_doc},
    {"stack_samples", stack_samples_call, METH_O, stack_samples_doc},
    {"place_samples", place_samples_call, METH_VARARGS, place_samples_doc},
    {"lie_inside", lie_inside_call, METH_VARARGS, lie_inside_doc},
    {"locate_slices", locate_slices_call, METH_VARARGS, locate_slices_doc},
    {"map_axes", map_axes_call, METH_VARARGS, map_axes_doc},
    {"solve_sizes", solve_sizes_call, METH_VARARGS, solve_sizes_doc},
    {"measure_gaussians", measure_gaussians_call, METH_VARARGS, measure_gaussians_doc},
    {"normalize_windows", normalize_windows_call, METH_VARARGS, normalize_windows_doc},
    {"align_windows", align_windows_call, METH_VARARGS, align_windows_doc},
    {"write_patches", write_patches_call, METH_VARARGS, write_patches_doc},
    {"unfilter_png", unfilter_png_call, METH_VARARGS, unfilter_png_doc},
    SOURCES_METHOD,
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_native", .m_doc = "Loops over pixels.", .m_size = 0, .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
