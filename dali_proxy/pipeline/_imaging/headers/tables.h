/* Tables with a row for each sample of a batch: NumPy needs a pass over a few numbers for each operation, and each pass
   takes as long as a whole table does here. Without FOR_EACH_CPU, because fused multiply-add would round differently. */

PyDoc_STRVAR(place_samples_doc,
             "place_samples(shapes, address, itemsize, alignment, addresses, strides)\n--\n\n"
             "Write the addresses, int64 (n,), and the strides in bytes, int64 (n, axes), of contiguous samples of the\n"
             "shapes, int64 (n, axes), that lie one after another. Return the number of bytes up to their end.");

static PyObject *place_samples_call(PyObject *module, PyObject *arguments) {
    Py_buffer shapes, addresses, strides;
    long long address, itemsize, alignment;
    if (!PyArg_ParseTuple(arguments, "y*LLLw*w*", &shapes, &address, &itemsize, &alignment, &addresses, &strides))
        return NULL;
    const Py_ssize_t count = addresses.len / 8, axes = count ? shapes.len / 8 / count : 0;
    const int fits = alignment > 0 && shapes.len == 8 * count * axes && strides.len == shapes.len;
    const int64_t *extents = shapes.buf;
    int64_t *steps = strides.buf, offset = 0;
    for (Py_ssize_t i = 0; fits && i < count; i++, extents += axes, steps += axes) {
        int64_t size = itemsize;
        for (Py_ssize_t axis = axes - 1; axis >= 0; axis--) {
            steps[axis] = size;
            size *= extents[axis];
        }
        ((int64_t *)addresses.buf)[i] = address + offset;
        offset += (size + alignment - 1) / alignment * alignment;
    }
    RELEASE(&shapes, &addresses, &strides);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the shapes, the addresses and the strides don't fit each other");
    return fits ? PyLong_FromLongLong(offset) : NULL;
}

PyDoc_STRVAR(stack_samples_doc,
             "stack_samples(samples)\n--\n\n"
             "Return a bytearray with the elements of arrays of one shape, one array after another; None if their shapes\n"
             "differ, or if an array isn't contiguous.");

static PyObject *stack_samples_call(PyObject *module, PyObject *given) {
    PyObject *samples = PySequence_Fast(given, "expected a sequence of arrays"), *stacked = NULL;
    if (samples == NULL) return NULL;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(samples);
    Py_ssize_t shape[PyBUF_MAX_NDIM], length = 0, done = 0;
    int ndim = 0;
    for (; done < count; done++) {
        Py_buffer view;
        if (PyObject_GetBuffer(PySequence_Fast_GET_ITEM(samples, done), &view, PyBUF_C_CONTIGUOUS) < 0) break;
        if (done == 0) {
            ndim = view.ndim, length = view.len;
            memcpy(shape, view.shape, ndim * sizeof(Py_ssize_t));
            stacked = PyByteArray_FromStringAndSize(NULL, count * length);
        }
        const int alike = stacked != NULL && view.ndim == ndim && view.len == length &&
                          !memcmp(view.shape, shape, ndim * sizeof(Py_ssize_t));
        if (alike) memcpy(PyByteArray_AS_STRING(stacked) + done * length, view.buf, length);
        PyBuffer_Release(&view);
        if (!alike) break;
    }
    Py_DECREF(samples);
    if (done == count && stacked != NULL) return stacked;
    Py_XDECREF(stacked);
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(lie_inside_doc,
             "lie_inside(starts, extents, shapes)\n--\n\n"
             "Return whether no window exceeds its sample; all are int64 (n, axes).");

static PyObject *lie_inside_call(PyObject *module, PyObject *arguments) {
    Py_buffer starts, extents, shapes;
    if (!PyArg_ParseTuple(arguments, "y*y*y*", &starts, &extents, &shapes)) return NULL;
    const int fits = starts.len == shapes.len && extents.len == shapes.len;
    const int64_t *first = starts.buf, *count = extents.buf, *limit = shapes.buf;
    int inside = fits;
    for (Py_ssize_t i = 0; inside && i < shapes.len / 8; i++)
        inside = first[i] >= 0 && first[i] <= limit[i] && count[i] <= limit[i] - first[i];
    RELEASE(&starts, &extents, &shapes);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the windows and the samples don't fit each other");
    return fits ? PyBool_FromLong(inside) : NULL;
}

/* By the number of the mode of `ResizeGeometry`. */
enum { KEEP_RATIO, STRETCH, NOT_LARGER, NOT_SMALLER };

/* Writes the sizes of an image before rounding, as `ResizeGeometry._scaled`; returns 0 if they need a mean of factors. */
static int scale_sizes(const double *requested, const double *lengths, const double *largest, Py_ssize_t axes, int mode,
                       double *exact) {
    double scale = 1;
    const double *sizes = requested;
    int known = 0, missing = 0;
    for (Py_ssize_t axis = 0; axis < axes; axis++) {
        const double size = fabs(requested[axis]);
        missing += size == 0;
        if (size == 0 || lengths[axis] == 0) continue;
        const double own = (float)(size / lengths[axis]);
        if (!known++ || (mode == NOT_LARGER ? own < scale : own > scale)) scale = own;
    }
    if (mode == KEEP_RATIO && known > 1 && missing && missing < axes) return 0;
    if (mode == STRETCH) scale = 1;
    if (mode == NOT_LARGER || mode == NOT_SMALLER) {
        double limit = INFINITY;
        for (Py_ssize_t axis = 0; largest && axis < axes; axis++)
            if (lengths[axis] != 0 && (float)(largest[axis] / lengths[axis]) < limit)
                limit = (float)(largest[axis] / lengths[axis]);
        if (limit < scale) scale = limit, sizes = largest;
    }
    for (Py_ssize_t axis = 0; axis < axes; axis++) {
        const double size = fabs(sizes[axis]), length = lengths[axis], scaled = (float)(length * scale);
        if (missing == axes)
            exact[axis] = length;
        else if (mode == NOT_LARGER || mode == NOT_SMALLER)
            exact[axis] = length != 0 && (float)(size / length) == scale ? size : scaled;
        else {
            exact[axis] = size != 0 ? size : scaled;
            if (largest && largest[axis] < exact[axis]) exact[axis] = largest[axis];
        }
    }
    return 1;
}

PyDoc_STRVAR(solve_sizes_doc,
             "solve_sizes(axes, requested, lengths, largest, mode, subpixel, low, high, sizes)\n--\n\n"
             "Write the sizes, int64 (n, axes), and adapt the regions from low to high, float64 (n, axes), as\n"
             "`ResizeGeometry.solve`. requested, lengths: float64 (n, axes); largest: float64 (axes,), or empty. Return\n"
             "whether all samples were solved.");

static PyObject *solve_sizes_call(PyObject *module, PyObject *arguments) {
    Py_buffer requested, lengths, largest, low, high, sizes;
    Py_ssize_t axes;
    int mode, subpixel;
    if (!PyArg_ParseTuple(arguments, "ny*y*y*ipw*w*w*", &axes, &requested, &lengths, &largest, &mode, &subpixel, &low,
                          &high, &sizes))
        return NULL;
    enum { MOST_AXES = 3 };
    const int fits = axes > 0 && axes <= MOST_AXES && requested.len % (8 * axes) == 0 && (!largest.len || largest.len == 8 * axes) &&
                     lengths.len == requested.len && low.len == requested.len && high.len == requested.len &&
                     sizes.len == requested.len;
    int solved = fits;
    for (Py_ssize_t i = 0; solved && i < requested.len / 8; i += axes) {
        const double *given = (const double *)requested.buf + i;
        double *from = (double *)low.buf + i, *to = (double *)high.buf + i, exact[MOST_AXES];
        solved = scale_sizes(given, (const double *)lengths.buf + i, largest.len ? largest.buf : NULL, axes, mode, exact);
        int any = 0;
        for (Py_ssize_t axis = 0; axis < axes; axis++) any |= given[axis] != 0;
        for (Py_ssize_t axis = 0; solved && axis < axes; axis++) {
            solved = exact[axis] < (double)((int64_t)1 << 62);
            if (!solved) break;
            const int64_t size = (int64_t)(exact[axis] + 0.5) > 1 ? (int64_t)(exact[axis] + 0.5) : 1;
            ((int64_t *)sizes.buf)[i + axis] = size;
            if (subpixel && exact[axis] != (double)size && exact[axis] > 0) {
                const double center = (from[axis] + to[axis]) / 2, smallest = exact[axis] > 0.1 ? exact[axis] : 0.1;
                const double half = (to[axis] - from[axis]) / 2 * (double)size / smallest;
                from[axis] = center - half, to[axis] = center + half;
            }
            const int free = given[axis] == 0 && (mode == KEEP_RATIO || mode == STRETCH || !any);
            if (given[axis] < 0 || (free && from[axis] > to[axis])) {
                const double end = from[axis];
                from[axis] = to[axis], to[axis] = end;
            }
        }
    }
    RELEASE(&requested, &lengths, &largest, &low, &high, &sizes);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the sizes, the regions and the samples don't fit each other");
    return fits ? PyBool_FromLong(solved) : NULL;
}

/* struct Axis of filters.cuh. */
typedef struct {
    double origin, scale;
    float radius, shrink;
    int32_t filter, extent, base, adds;
} AxisRow;

PyDoc_STRVAR(map_axes_doc,
             "map_axes(low, high, extents, sizes, smaller, larger, codes, radii, antialias, table)\n--\n\n"
             "Write the rows of `axes.axis_tables`, (axes, n). low, high: float64 (n, axes); extents, sizes: int64\n"
             "(n, axes); smaller, larger: filters of samples that shrink and of others, int64 (n,); codes, int32, and\n"
             "radii, float64: those of each filter. Return whether all samples and filters are valid.");

static PyObject *map_axes_call(PyObject *module, PyObject *arguments) {
    enum { READ = 8 };
    Py_buffer read[READ], table;
    int antialias;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*y*y*y*pw*", &read[0], &read[1], &read[2], &read[3], &read[4], &read[5],
                          &read[6], &read[7], &antialias, &table))
        return NULL;
    const double *low = read[0].buf, *high = read[1].buf, *radii = read[7].buf;
    const int64_t *extents = read[2].buf, *sizes = read[3].buf, *smaller_filters = read[4].buf;
    const int64_t *larger_filters = read[5].buf;
    const int32_t *codes = read[6].buf;
    const Py_ssize_t count = read[4].len / 8, filters = read[6].len / 4, axes = count ? read[0].len / 8 / count : 0;
    int fits = read[5].len == read[4].len && read[7].len == 8 * filters && table.len == 40 * count * axes;
    for (int i = 0; i < 4; i++) fits &= read[i].len == 8 * count * axes;
    int valid = fits;
    for (Py_ssize_t i = 0; valid && i < count * axes; i++) {
        const Py_ssize_t sample = i / axes, axis = i % axes;
        AxisRow *row = (AxisRow *)table.buf + axis * count + sample;
        const double scale = (high[i] - low[i]) / (double)sizes[i];
        const int shrinks = fabs(scale) > 1;
        const int64_t chosen = shrinks ? smaller_filters[sample] : larger_filters[sample];
        valid = extents[i] > 0 && sizes[i] > 0 && chosen >= 0 && chosen < filters;
        if (!valid) break;
        const double width = shrinks && antialias ? fabs(scale) : 1;
        const double first = floor(low[i] < high[i] ? low[i] : high[i]), extent = (double)extents[i];
        const double base = first > 0 ? (first < extent ? first : extent) : 0;
        *row = (AxisRow){low[i], scale, (float)(radii[chosen] * width), (float)(1 / width), codes[chosen],
                         (int32_t)extents[i], (int32_t)base, axis < axes - 1};
    }
    for (int i = 0; i < READ; i++) PyBuffer_Release(&read[i]);
    PyBuffer_Release(&table);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the samples, the filters and the table don't fit each other");
    return fits ? PyBool_FromLong(valid) : NULL;
}

PyDoc_STRVAR(measure_gaussians_doc,
             "measure_gaussians(sigmas, sizes, radii, deviations)\n--\n\n"
             "Write the radii, int64, and the standard deviations, float64, of Gaussian windows of these standard\n"
             "deviations, float64, and sizes, int64; 0 stands for a derived value. Return the largest radius, or -1 if a\n"
             "window isn't valid.");

static PyObject *measure_gaussians_call(PyObject *module, PyObject *arguments) {
    Py_buffer sigmas, sizes, radii, deviations;
    if (!PyArg_ParseTuple(arguments, "y*y*w*w*", &sigmas, &sizes, &radii, &deviations)) return NULL;
    const int fits = sigmas.len == sizes.len && sigmas.len == radii.len && sigmas.len == deviations.len;
    int64_t largest = 0;
    for (Py_ssize_t i = 0; fits && largest >= 0 && i < sigmas.len / 8; i++) {
        const double sigma = ((const double *)sigmas.buf)[i];
        const int64_t size = ((const int64_t *)sizes.buf)[i];
        const int valid = isfinite(sigma) && sigma >= 0 && (size == 0 ? sigma > 0 : size > 0 && size % 2 == 1);
        const int64_t radius = !valid ? 0 : size > 0 ? (size - 1) / 2 : (int64_t)ceil(3 * sigma);
        ((int64_t *)radii.buf)[i] = radius;
        ((double *)deviations.buf)[i] = sigma > 0 ? sigma : (double)(radius - 1) * 0.3 + 0.8;
        largest = !valid ? -1 : radius > largest ? radius : largest;
    }
    RELEASE(&sigmas, &sizes, &radii, &deviations);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the arguments and the results don't fit each other");
    return fits ? PyLong_FromLongLong(largest) : NULL;
}

PyDoc_STRVAR(normalize_windows_doc,
             "normalize_windows(values, radii, weights)\n--\n\n"
             "Write the values in the middle of rows, float64 (n, odd), with a sum of 1, float32 (n, odd), and zeros around\n"
             "them. radii: number of values on each side of the middle, int64 (n,).");

static PyObject *normalize_windows_call(PyObject *module, PyObject *arguments) {
    Py_buffer values, radii, weights;
    if (!PyArg_ParseTuple(arguments, "y*y*w*", &values, &radii, &weights)) return NULL;
    const Py_ssize_t count = radii.len / 8, width = count ? values.len / 8 / count : 1, middle = width / 2;
    const int fits = width % 2 && values.len == 8 * count * width && weights.len == 4 * count * width;
    for (Py_ssize_t i = 0; fits && i < count; i++) {
        const double *row = (const double *)values.buf + i * width;
        const int64_t radius = ((const int64_t *)radii.buf)[i];
        double sum = 0;
        for (Py_ssize_t k = 0; k < width; k++) sum += llabs(k - middle) <= radius ? row[k] : 0;
        for (Py_ssize_t k = 0; k < width; k++)
            ((float *)weights.buf)[i * width + k] = (float)(llabs(k - middle) <= radius ? row[k] / sum : 0);
    }
    RELEASE(&values, &radii, &weights);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the values, the radii and the weights don't fit each other");
    return fits ? Py_NewRef(Py_None) : NULL;
}

PyDoc_STRVAR(align_windows_doc,
             "align_windows(weights, radii, aligned)\n--\n\n"
             "Move windows from the middle of the rows of weights, float32 (n, odd), to the begin of wider rows of zeros.\n"
             "radii: number of weights on each side of the middle, int64 (n,).");

static PyObject *align_windows_call(PyObject *module, PyObject *arguments) {
    Py_buffer weights, radii, aligned;
    if (!PyArg_ParseTuple(arguments, "y*y*w*", &weights, &radii, &aligned)) return NULL;
    const Py_ssize_t count = radii.len / 8, given = count ? weights.len / 4 / count : 1, middle = given / 2;
    const Py_ssize_t width = count ? aligned.len / 4 / count : 1;
    const int64_t *radius = radii.buf;
    int fits = given % 2 && given <= width && weights.len == 4 * count * given && aligned.len == 4 * count * width;
    for (Py_ssize_t i = 0; fits && i < count; i++) {
        fits = radius[i] >= 0 && radius[i] <= middle;
        if (fits)
            memcpy((float *)aligned.buf + i * width, (const float *)weights.buf + i * given + middle - radius[i],
                   (size_t)(2 * radius[i] + 1) * sizeof(float));
    }
    RELEASE(&weights, &radii, &aligned);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the weights, the radii and the rows don't fit each other");
    return fits ? Py_NewRef(Py_None) : NULL;
}
