"""Names in C: the user's own where C allows, else with underscores appended."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEYWORDS = (
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while alignas alignof bool constexpr false nullptr "
    "static_assert thread_local true typeof typeof_unqual asm and and_eq bitand bitor catch class "
    "compl concept const_cast consteval constinit decltype delete dynamic_cast explicit export "
    "friend mutable namespace new noexcept not not_eq operator or or_eq private protected public "
    "reinterpret_cast requires static_cast template this throw try typeid typename using virtual "
    "wchar_t xor xor_eq"
)
_MACROS = (
    "linux unix i386 arm mips sparc NULL EOF BUFSIZ RAND_MAX errno stdin stdout stderr assert "
    "offsetof I complex imaginary noreturn NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL FP_NAN "
    "FP_INFINITE FP_ZERO FP_NORMAL FP_SUBNORMAL FP_ILOGB0 FP_ILOGBNAN MATH_ERRNO "
    "MATH_ERREXCEPT DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS M_E M_PI isnan isinf isfinite "
    "isnormal signbit fpclassify math_errhandling va_arg va_end va_start va_copy setjmp "
    "major minor makedev MB_CUR_MAX EXIT_SUCCESS EXIT_FAILURE CHAR_BIT EDOM ERANGE EILSEQ "
    "PATH_MAX TRUE FALSE"
)
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 "
    "log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo "
    "rint round roundeven scalbln scalbn sin sinh sqrt tan tanh tgamma trunc exp10 pow10 sincos "
    "drem gamma significand j0 j1 jn y0 y1 yn finite scalb"
)
# Further ones of C23 and glibc: nothing here calls them, but a header declares them.
_C23 = (
    "acospi asinpi atanpi atan2pi cospi sinpi tanpi compoundn exp10m1 exp2m1 log10p1 log2p1 logp1 "
    "pown powr rootn rsqrt llogb nextup nextdown fmaximum fmaximum_mag fmaximum_mag_num "
    "fmaximum_num fmaxmag fminimum fminimum_mag fminimum_mag_num fminimum_num fminmag fromfp "
    "fromfpx ufromfp ufromfpx getpayload setpayload setpayloadsig canonicalize totalorder "
    "totalordermag"
)
_POSIX = (
    "main abort access accept alarm asctime atexit atof atoi atol basename bcmp bcopy bind brk "
    "bsearch bzero chdir chmod chown clearerr clock close closedir connect creat ctime difftime "
    "dirname div dup dup2 encrypt environ execl execv execve exit fclose fcntl feof ferror fflush "
    "ffs fgetc fgets fileno fopen fork fprintf fputc fputs fread freopen fscanf fseek fstat fsync "
    "ftell ftruncate fwrite getc getchar getcwd getenv gethostname getline getopt getpid gets "
    "getuid gmtime index insque ioctl isalnum isalpha isdigit islower isspace isupper kill l64a "
    "ldiv link listen localtime longjmp lseek lstat mblen memchr memccpy mkdir mkfifo mknod mktime "
    "mlock mmap mount mprotect munmap nice open opendir optarg optind pause pclose perror pipe "
    "poll popen printf profil ptrace putc putchar putenv puts pwrite pread qsort raise rand random "
    "read readdir readlink readv recv regcomp regexec remove rename reset rewind rindex rmdir sbrk "
    "scanf search seekdir select send setbuf setenv setuid shutdown sigaction signal signgam sleep "
    "snprintf socket sprintf srand srandom sscanf stat step stpcpy strcat strchr strcmp strcpy "
    "strcspn strdup strerror strncat strncmp strncpy strrchr strspn strstr strtod strtok strtol "
    "swab symlink sync syscall sysconf system tee telldir time times timezone tmpfile tmpnam "
    "tolower toupper truncate tzname umask uname ungetc unlink usleep utime vfork vprintf wait "
    "wait4 waitpid warn err errx write writev daemon dlopen dlsym dlclose"
)

KEYWORDS = frozenset(_KEYWORDS.split())
"""Of C and, for the header, of C++."""

MACROS = frozenset(_MACROS.split())

CALLED = frozenset(
    name + end for name in _MATH.split() if len(name) > 2 for end in ("", "f", "l")
) | {
    "malloc", "calloc", "realloc", "free", "aligned_alloc", "abs", "labs", "memcpy", "memmove",
    "memset", "memcmp", "strlen", "main", "workspace",
}  # fmt: skip
"""What generated code may call, and the entry's own parameter: no local may hide these."""

LIBRARY = (
    CALLED
    | frozenset(
        name + end
        for name in (*_MATH.split(), *_C23.split())
        for end in ("", "f", "l", "f32", "f32x", "f64", "f64x", "f128")
    )
    | frozenset(_POSIX.split())
)
"""Functions of the C library and POSIX: no kernel may replace one when it is linked."""

# Ours (tdsl_, types such as f32x16), the intrinsics', and what C and POSIX keep for themselves.
_RESERVED = re.compile(
    r"_.*|tdsl_.*|TDSL_.*|(f|bf|i|u)\d+x\d+|.*_t|v[a-z0-9]+_[a-z0-9_]+|U?INT\w*_(MAX|MIN|C)|"
    r"SIZE_MAX|(str|mem|wcs|is|to)[a-z]+|SIG[A-Z]+|E[A-Z0-9]{2,}|omp_.*|GOMP_.*|Py[A-Z_].*|"
    # C23's sums that round to a narrower type (fadd, dsqrtl, f32mulf64), and types of the system
    r"(f|d|f\d+x?)(add|sub|mul|div|fma|sqrt)(l|f\d+x?)?|u(int|long|short|_char|_int|_long|_short)"
)
_LOCAL_RESERVED = re.compile(
    r"_.*|tdsl_.*|TDSL_.*|(f|bf|i|u)\d+x\d+|[a-z]+\d*_t|[a-z]+\d+x\d+_t|v[a-z0-9]+_[a-z0-9_]+|"
    r"U?INT\w*_(MAX|MIN|C)|SIZE_MAX|E[A-Z0-9]{3,}|SIG[A-Z]+"
)


class Names:
    """C names in one scope. The same key always gives the same name; two keys never do.

    `wanted`: names that will be added; those that C allows stay with their owners, so that a
    mangled one avoids them, whatever the order.
    """

    def __init__(
        self, *, external: bool = False, taken: Iterable[str] = (), wanted: Iterable[str] = ()
    ) -> None:
        self._external = external
        self._reserved = _RESERVED if external else _LOCAL_RESERVED
        self._names: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set(taken)
        self._owned = {name for name in wanted if name == _plain(name) and self._usable(name)}

    def add(self, kind: str, name: str) -> str:
        """The C name for `name` among things of one kind, made on first use."""
        key = (kind, name)
        if key not in self._names:
            self._names[key] = self._free(name)
        return self._names[key]

    def __getitem__(self, key: tuple[str, str]) -> str:
        return self._names[key]

    def _free(self, name: str) -> str:
        found = name
        if name not in self._owned or name in self._taken:
            found = _plain(name)
            if self._reserved.fullmatch(found + "_"):  # a reserved beginning, which stays
                found = "u_" + found
            while not self._usable(found) or found in self._owned:
                found += "_"
        self._taken.add(found)
        return found

    def _usable(self, name: str) -> bool:
        if name in self._taken or name in KEYWORDS or name in MACROS:
            return False
        functions = LIBRARY if self._external else CALLED
        return name not in functions and not self._reserved.fullmatch(name)


def _plain(name: str) -> str:
    """An identifier that starts with a letter."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name).lstrip("_") or "v"
    return "v" + plain if plain[0].isdigit() else plain
