/*
 * Calls a kernel with NumPy arrays, without Python in between: `ShortCall(slow, function, array,
 * arguments, result, words)` is called like `slow`, and calls the C function `function` itself where the
 * arguments are like those that `remember(sizes, shapes)` told of: exactly of the type `array`,
 * of the same formats and shapes, contiguous, writable where they are written. Everything else
 * goes to `slow`, before anything has been done or where the function refused (status not 0).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MOST_WORDS 12 /* parameters of a function: sizes, arrays, the workspace */
#define MOST_DIMENSIONS 8
#define MOST_FORMAT 8

typedef struct {
    PyObject *name;
    char format[MOST_FORMAT];
    int dimensions;
    int written;
    Py_ssize_t shape[MOST_DIMENSIONS];
} Argument;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *slow;
    PyTypeObject *array;
    void *function;
    int arguments, result;
    int words; /* parameters behind the sizes: of each whether it is an argument, else its value */
    int open[MOST_WORDS];
    int64_t word[MOST_WORDS];
    int known, sizes;
    int64_t size[MOST_WORDS];
    Argument argument[MOST_WORDS];
} ShortCall;

/* Sizes are int64_t and the rest are pointers: all words of one kind, passed alike. */
#define W int64_t
#define TYPE(...) ((int (*)(__VA_ARGS__))function)
static int invoke(void *function, const int64_t *w, int words)
{
    switch (words) {
    case 2: return TYPE(W, W)(w[0], w[1]);
    case 3: return TYPE(W, W, W)(w[0], w[1], w[2]);
    case 4: return TYPE(W, W, W, W)(w[0], w[1], w[2], w[3]);
    case 5: return TYPE(W, W, W, W, W)(w[0], w[1], w[2], w[3], w[4]);
    case 6: return TYPE(W, W, W, W, W, W)(w[0], w[1], w[2], w[3], w[4], w[5]);
    case 7: return TYPE(W, W, W, W, W, W, W)(w[0], w[1], w[2], w[3], w[4], w[5], w[6]);
    case 8: return TYPE(W, W, W, W, W, W, W, W)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]);
    case 9: return TYPE(W, W, W, W, W, W, W, W, W)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7],
                                                   w[8]);
    case 10: return TYPE(W, W, W, W, W, W, W, W, W, W)(w[0], w[1], w[2], w[3], w[4], w[5], w[6],
                                                       w[7], w[8], w[9]);
    case 11: return TYPE(W, W, W, W, W, W, W, W, W, W, W)(w[0], w[1], w[2], w[3], w[4], w[5], w[6],
                                                          w[7], w[8], w[9], w[10]);
    case 12: return TYPE(W, W, W, W, W, W, W, W, W, W, W, W)(w[0], w[1], w[2], w[3], w[4], w[5],
                                                             w[6], w[7], w[8], w[9], w[10], w[11]);
    default: return -1;
    }
}

/* The arguments in the order of the function; 0 where one is missing, double or unknown. */
static int arrange(const ShortCall *self, PyObject *const *given, Py_ssize_t positional,
                   PyObject *names, PyObject **arranged)
{
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    if (positional + named != self->arguments)
        return 0;
    for (int i = 0; i < self->arguments; i++)
        arranged[i] = i < positional ? given[i] : NULL;
    for (Py_ssize_t k = 0; k < named; k++) {
        int i = 0;
        while (i < self->arguments && self->argument[i].name != PyTuple_GET_ITEM(names, k))
            i++;
        if (i == self->arguments || arranged[i])
            return 0;
        arranged[i] = given[positional + k];
    }
    return 1;
}

static int fits(const Argument *argument, const Py_buffer *view)
{
    if (view->ndim != argument->dimensions || strcmp(view->format, argument->format) != 0)
        return 0;
    for (int d = 0; d < view->ndim; d++)
        if (view->shape[d] != argument->shape[d])
            return 0;
    return 1;
}

static PyObject *call(PyObject *object, PyObject *const *given, size_t number, PyObject *names)
{
    const ShortCall *self = (const ShortCall *)object;
    Py_ssize_t positional = PyVectorcall_NARGS(number);
    PyObject *arranged[MOST_WORDS];
    Py_buffer views[MOST_WORDS];
    int64_t words[MOST_WORDS];
    int held = 0, status = -1, used = 0;
    if (self->known && arrange(self, given, positional, names, arranged)) {
        int good = 1;
        for (; used < self->sizes; used++)
            words[used] = self->size[used];
        for (int place = 0; good && place < self->words; place++) {
            if (!self->open[place]) {
                words[used++] = self->word[place];
                continue;
            }
            const Argument *argument = &self->argument[held];
            int wanted = PyBUF_ND | PyBUF_FORMAT | (argument->written ? PyBUF_WRITABLE : 0);
            good = Py_TYPE(arranged[held]) == self->array;
            if (good && PyObject_GetBuffer(arranged[held], &views[held], wanted) != 0) {
                PyErr_Clear(); /* not contiguous, or read-only */
                good = 0;
            }
            if (good) {
                words[used++] = (int64_t)(intptr_t)views[held].buf;
                good = fits(argument, &views[held++]);
            }
        }
        if (good) {
            void *function = self->function;
            Py_BEGIN_ALLOW_THREADS
            status = invoke(function, words, used);
            Py_END_ALLOW_THREADS
        }
        for (int i = 0; i < held; i++)
            PyBuffer_Release(&views[i]);
        if (status == 0) {
            Py_INCREF(arranged[self->result]);
            return arranged[self->result];
        }
    }
    return PyObject_Vectorcall(self->slow, given, (size_t)positional, names);
}

/* remember(sizes, shapes): a call with arguments of these shapes passes these sizes. */
static PyObject *remember(PyObject *object, PyObject *arguments)
{
    ShortCall *self = (ShortCall *)object;
    PyObject *sizes, *shapes;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &sizes, &PyTuple_Type, &shapes))
        return NULL;
    self->known = 0;
    self->sizes = (int)PyTuple_GET_SIZE(sizes);
    if (self->sizes + self->words > MOST_WORDS
        || PyTuple_GET_SIZE(shapes) != self->arguments)
        return PyErr_Format(PyExc_ValueError, "too many sizes, or too few shapes");
    for (int i = 0; i < self->sizes; i++)
        self->size[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
    for (int i = 0; i < self->arguments; i++) {
        PyObject *shape = PyTuple_GET_ITEM(shapes, i);
        Argument *argument = &self->argument[i];
        if (!PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) > MOST_DIMENSIONS)
            return PyErr_Format(PyExc_ValueError, "not a shape of few dimensions");
        argument->dimensions = (int)PyTuple_GET_SIZE(shape);
        for (int d = 0; d < argument->dimensions; d++)
            argument->shape[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, d));
    }
    if (PyErr_Occurred())
        return NULL;
    self->known = 1;
    Py_RETURN_NONE;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    ShortCall *self = (ShortCall *)object;
    Py_VISIT(self->slow);
    Py_VISIT(self->array);
    return 0;
}

static int clear(PyObject *object)
{
    ShortCall *self = (ShortCall *)object;
    self->known = 0;
    Py_CLEAR(self->slow);
    Py_CLEAR(self->array);
    for (int i = 0; i < self->arguments; i++)
        Py_CLEAR(self->argument[i].name);
    self->arguments = 0;
    return 0;
}

static void destroy(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    clear(object);
    Py_TYPE(object)->tp_free(object);
}

/* ShortCall(slow, function, array, ((name, format, written), ...), result, (None or value, ...)):
   the last one tells what each parameter behind the sizes is, the next argument or always this. */
static PyObject *make(PyTypeObject *type, PyObject *positional, PyObject *named)
{
    PyObject *slow, *array, *arguments, *words;
    unsigned long long function;
    int result;
    (void)named;
    if (!PyArg_ParseTuple(positional, "OKO!O!iO!", &slow, &function, &PyType_Type, &array,
                          &PyTuple_Type, &arguments, &result, &PyTuple_Type, &words))
        return NULL;
    Py_ssize_t number = PyTuple_GET_SIZE(arguments);
    if (PyTuple_GET_SIZE(words) > MOST_WORDS || number > PyTuple_GET_SIZE(words) || result < 0
        || result >= number)
        return PyErr_Format(PyExc_ValueError, "too many arguments, or no such result");
    ShortCall *self = (ShortCall *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = call;
    self->slow = Py_NewRef(slow);
    self->array = (PyTypeObject *)Py_NewRef(array);
    self->function = (void *)(uintptr_t)function;
    self->result = result;
    for (Py_ssize_t i = 0; i < number; i++) {
        PyObject *name;
        const char *format;
        int written;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(arguments, i), "Usp", &name, &format, &written))
            break;
        if (strlen(format) >= MOST_FORMAT) {
            PyErr_Format(PyExc_ValueError, "an unknown format");
            break;
        }
        Argument *argument = &self->argument[self->arguments++];
        argument->name = Py_NewRef(name);
        argument->written = written;
        strcpy(argument->format, format);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(words) && !PyErr_Occurred(); i++) {
        PyObject *word = PyTuple_GET_ITEM(words, i);
        self->open[i] = word == Py_None;
        self->word[i] = self->open[i] ? 0 : (int64_t)PyLong_AsUnsignedLongLong(word);
        number -= self->open[i];
        self->words++;
    }
    if (number != 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "not one parameter for each argument");
    if (PyErr_Occurred()) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyMethodDef methods[] = {
    {"remember", remember, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "_tdsl_shortcall.ShortCall",
    .tp_basicsize = sizeof(ShortCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(ShortCall, call),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = destroy,
    .tp_methods = methods,
    .tp_new = make,
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_tdsl_shortcall", .m_size = -1};

PyMODINIT_FUNC PyInit__tdsl_shortcall(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddType(module, &type) != 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
