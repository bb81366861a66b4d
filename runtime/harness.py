"""A program around a C module that runs one of its functions on arrays from a file.

    program MODE FUNCTION INPUT OUTPUT

INPUT holds the sizes as int64, then for each argument its length in bytes as int64 and its bytes;
before those of an argument with strides, how many bytes lie below its first element, and behind
them its free strides, as int64.
The mode "call" writes the status as int64 and, where it is 0, the bytes of each argument that is
written; "workspace" and "prepared_bytes" write a number of bytes as int64, "variant" a name.
"prepare" takes the const arguments alone and writes what it prepared; "run_prepared" is "call" with
that behind the arguments.

Every array ends at a page that may not be touched, as far as its alignment allows: what reads or
writes too far ends by SIGSEGV.
"""

from __future__ import annotations

from collections.abc import Sequence

from tdsl.runtime.interface import Argument, BuildRequest, Entry

C_TYPES = {
    "f64": "double",
    "f32": "float",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "bool": "uint8_t",
}

HEAD = """\
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "{name}.h"

static FILE *input, *output;

static void need(int holds, const char *what) {{
  if (!holds) {{
    fprintf(stderr, "%s\\n", what);
    exit(120);
  }}
}}

static int64_t read_number(void) {{
  int64_t value;
  need(fread(&value, sizeof value, 1, input) == 1, "the input is too short");
  return value;
}}

static void write_bytes(const void *bytes, int64_t count) {{
  need(count == 0 || fwrite(bytes, 1, (size_t)count, output) == (size_t)count,
       "the output cannot be written");
}}

/* Memory that ends, but for the alignment, at a page that may not be touched. */
static void *guarded(int64_t count, int64_t align) {{
  int64_t page = sysconf(_SC_PAGESIZE);
  int64_t rounded = (count + align - 1) / align * align;
  int64_t inside = (rounded + page - 1) / page * page;
  char *start = mmap(0, (size_t)(inside + 2 * page), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(start != MAP_FAILED, "no memory for an array");
  need(mprotect(start, (size_t)page, PROT_NONE) == 0 &&
           mprotect(start + page + inside, (size_t)page, PROT_NONE) == 0,
       "a page cannot be protected");
  return start + page + inside - rounded;
}}

static void *read_array(int64_t *count, int64_t align) {{
  *count = read_number();
  void *bytes = guarded(*count, align);
  need(*count == 0 || fread(bytes, 1, (size_t)*count, input) == (size_t)*count,
       "the input is too short");
  return bytes;
}}
"""

MAIN = """
int main(int argc, char **argv) {{
  need(argc == 5, "usage: MODE FUNCTION INPUT OUTPUT");
  const char *mode = argv[1], *function = argv[2];
  input = fopen(argv[3], "rb");
  output = fopen(argv[4], "wb");
  need(input && output, "a file cannot be opened");
{dispatch}
  else need(0, "there is no such function");
  need(fclose(output) == 0, "the output cannot be written");
  return 0;
}}
"""


def harness(request: BuildRequest, entries: Sequence[Entry]) -> str:
    """The C text of the program for the entries of a module."""
    parts = [HEAD.format(name=request.name)]
    parts += [_function(number, entry) for number, entry in enumerate(entries)]
    tests = [
        f'if (!strcmp(function, "{entry.symbol}")) run_{number}(mode);'
        for number, entry in enumerate(entries)
    ]
    parts.append(MAIN.format(dispatch="\n".join(_indented(" else ".join(tests)))))
    return "\n".join(parts)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.replace(" else ", "\nelse ").splitlines()]


def _function(number: int, entry: Entry) -> str:
    sizes = [f"n{place}" for place in range(len(entry.sizes))]
    prepared = entry.prepared
    lines = [f"static void run_{number}(const char *mode) {{"]
    lines += [f"  int64_t {size} = read_number();" for size in sizes]
    if entry.workspace is not None:
        lines += _number("workspace", entry.workspace, sizes)
    if prepared is not None:
        lines += _number("prepared_bytes", prepared.bytes, sizes)
    if entry.variant is not None:
        lines += [
            '  if (!strcmp(mode, "variant")) {',
            f"    const char *name = {entry.variant}({', '.join(sizes)});",
            "    write_bytes(name, (int64_t)strlen(name));",
            "    return;",
            "  }",
        ]
    if prepared is not None:
        lines += _prepare(entry, sizes)
    run = ' || !strcmp(mode, "run_prepared")' if prepared is not None else ""
    lines.append(f'  need(!strcmp(mode, "call"){run}, "there is no such mode");')
    passed = list(sizes)
    for place, argument in enumerate(entry.arguments):
        lines += _read(place, argument)
        passed += _passed(place, argument)
    scratch = "0"
    if entry.workspace is not None:
        lines.append(f"  int64_t scratch = (int64_t){entry.workspace}({', '.join(sizes)});")
        scratch = "scratch ? guarded(scratch, 64) : 0"
    call = f"{entry.symbol}({', '.join([*passed, scratch])})"
    if prepared is None:
        lines.append(f"  int64_t status = {call};")
    else:
        lines += [
            "  int64_t status;",
            '  if (!strcmp(mode, "call")) {',
            f"    status = {call};",
            "  } else {",
            "    int64_t count;",
            "    const void *made = read_array(&count, 64);",
            f"    status = {prepared.run}({', '.join([*passed, 'made', scratch])});",
            "  }",
        ]
    lines += ["  write_bytes(&status, sizeof status);", "  if (status) return;"]
    lines += [
        f"  write_bytes(a{place}, c{place});"
        for place, argument in enumerate(entry.arguments)
        if argument.is_written
    ]
    return "\n".join([*lines, "}"])


def _number(mode: str, function: str, sizes: Sequence[str]) -> list[str]:
    return [
        f'  if (!strcmp(mode, "{mode}")) {{',
        f"    int64_t bytes = (int64_t){function}({', '.join(sizes)});",
        "    write_bytes(&bytes, sizeof bytes);",
        "    return;",
        "  }",
    ]


def _prepare(entry: Entry, sizes: Sequence[str]) -> list[str]:
    assert entry.prepared is not None
    lines = ['  if (!strcmp(mode, "prepare")) {']
    passed = list(sizes)
    for place, argument in enumerate(entry.constants):
        lines += [f"  {line}" for line in _read(place, argument)]
        passed += _passed(place, argument)
    return [
        *lines,
        f"    int64_t bytes = (int64_t){entry.prepared.bytes}({', '.join(sizes)});",
        "    void *made = guarded(bytes, 64);",
        f"    int64_t status = {entry.prepared.prepare}({', '.join([*passed, 'made'])});",
        "    write_bytes(&status, sizeof status);",
        "    if (!status) write_bytes(made, bytes);",
        "    return;",
        "  }",
    ]


def _passed(place: int, argument: Argument) -> list[str]:
    if argument.strided:
        strides = [f"s{place}_{n}" for n in range(len(argument.free))]
        return [f"(void *)(a{place} + b{place})", *strides]
    return [f"*a{place}" if argument.by_value else f"a{place}"]


def _read(place: int, argument: Argument) -> list[str]:
    # Through void *, so that whatever pointer type the header declares is taken.
    kind = f"{C_TYPES[argument.elem]}" if argument.by_value else "void"
    if argument.strided:
        return [
            f"  int64_t b{place} = read_number(), c{place};",
            f"  char *a{place} = read_array(&c{place}, {argument.alignment});",
            *(f"  int64_t s{place}_{n} = read_number();" for n in range(len(argument.free))),
        ]
    return [
        f"  int64_t c{place};",
        f"  {kind} *a{place} = read_array(&c{place}, {argument.alignment});",
    ]
