// SPDX-License-Identifier: MIT
//
// The GGUF reader on good files, on every fault it must name, cut at every byte, and with random
// bytes changed. Files are built in memory, each in an allocation of its exact size, so that the
// address sanitizer sees any read past the end.
#define _XOPEN_SOURCE 700 // mkstemp, ftruncate
#include "gguf_writer.h"

#include <stdio.h>
#include <unistd.h>

static struct bytes good_file(uint32_t version) {
    struct bytes b = {0};
    put_head(&b, version, 2, 9);
    put_key_str(&b, "general.architecture", "llama");
    put_key_u32(&b, "general.alignment", 64);
    put_key_u32(&b, "answer", 42);
    put_key(&b, "minus", GGUF_I16);
    put(&b, "\xfe\xff", 2);
    put_key_bool(&b, "flag", 1);
    put_key(&b, "pi", GGUF_F32);
    put(&b, (float[]){3.25f}, 4);
    put_key(&b, "words", GGUF_ARRAY);
    put_array(&b, GGUF_STRING, 3);
    put_str(&b, "one");
    put_str(&b, "");
    put_str(&b, "three");
    put_key(&b, "numbers", GGUF_ARRAY);
    put_array(&b, GGUF_I32, 4);
    put(&b, (int32_t[]){1, -2, 3, -4}, 16);
    put_key(&b, "nested", GGUF_ARRAY);
    put_array(&b, GGUF_ARRAY, 2);
    put_array(&b, GGUF_U8, 3);
    put(&b, "abc", 3);
    put_array(&b, GGUF_BOOL, 1);
    put(&b, "\1", 1);
    put_tensor(&b, "first", 2, (uint64_t[]){64, 3}, 2, 0); // q4_0: 6 blocks of 18 bytes
    put_tensor(&b, "second", 1, (uint64_t[]){5}, 0, 128);  // f32
    pad_to(&b, 64);
    for (int i = 0; i < 128 + 20; i++) put(&b, &(char){(char)i}, 1);
    return b;
}

// Parses a copy of exactly n bytes; the copy lives until close_copy.
static void *copy;

static struct gguf *parse_copy(const char *p, size_t n, struct err *err) {
    copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, p, n);
    err->text[0] = 0;
    return gguf_parse(copy, n, err);
}

static void close_copy(struct gguf *g) {
    gguf_close(g);
    free(copy);
    copy = NULL;
}

// The file must be refused with a text that contains `want`.
static void refuse(const struct bytes *b, const char *want) {
    struct err err;
    struct gguf *g = parse_copy(b->p, b->n, &err);
    if (g || !strstr(err.text, want)) print_error("expected \"%s\", got \"%s\"\n", want, g ? "no error" : err.text);
    assert_null(g);
    assert_non_null(strstr(err.text, want));
    close_copy(g);
}

// Overwrites n bytes at `rel` after the first place where `needle` stands.
static void patch(struct bytes *b, const char *needle, long rel, const void *p, size_t n) {
    size_t len = strlen(needle);
    for (size_t i = 0; i + len <= b->n; i++)
        if (memcmp(b->p + i, needle, len) == 0) {
            memcpy(b->p + (long)i + rel, p, n);
            return;
        }
    fail_msg("no %s in the file", needle);
}

// A fault: 4 or 8 bytes of a good file changed, and the text that must come back.
struct fault {
    const char *needle;
    long rel;
    uint64_t value;
    size_t n;
    const char *want;
};

// Offsets in a tensor's entry of the good file, from its name.
enum { FIRST_DIMS = 5, FIRST_NE0 = 9, FIRST_NE1 = 17, FIRST_TYPE = 25, FIRST_OFFSET = 29 };

static const struct fault faults[] = {
    {"GGUF", 0, 0x21, 1, "magic is \"!GUF\", expected \"GGUF\""},
    {"GGUF", 0, 0x47475546, 4, "big-endian"},
    {"GGUF", 4, 1, 4, "GGUF version 1, expected 2 or 3"},
    {"GGUF", 4, 4, 4, "GGUF version 4, expected 2 or 3"},
    {"GGUF", 4, 0x03000000, 4, "big-endian file (version 3"},
    {"GGUF", 8, UINT64_MAX, 8, "tensors cannot lie in the"},
    {"GGUF", 8, 3, 8, "tensor"},
    {"GGUF", 16, UINT64_MAX, 8, "keys cannot lie in the"},
    {"GGUF", 16, 8, 8, "tensor"},
    {"general.architecture", -8, UINT64_MAX, 8, "truncated at byte 32: a key needs"},
    {"general.architecture", -8, 1 << 20, 8, "a key needs 1048576 bytes"},
    {"general.architecture", 20, 13, 4, "value type 13 is unknown, expected 0 to 12"},
    {"general.architecture", 24, UINT64_MAX - 3, 8, "a string value needs"},
    {"general.alignment", 21, 0, 4, "general.alignment is 0, expected a power of two"},
    {"general.alignment", 21, 48, 4, "general.alignment is 48, expected a power of two"},
    {"general.alignment", 17, GGUF_F32, 4, "\"general.alignment\" has type f32, expected an int"},
    {"general.alignment", 21, UINT32_C(1) << 31, 4, "tensor data starts at byte 2147483648"},
    {"flag", 8, 2, 1, "a bool is 2, expected 0 or 1"},
    {"words", 9, 99, 4, "value type 99 is unknown"},
    {"words", 13, UINT64_MAX / 2, 8, "an array of 9223372036854775807 x string"},
    {"words", 21, UINT64_MAX, 8, "a string of an array needs 18446744073709551615 bytes"},
    {"numbers", 15, UINT64_MAX / 3, 8, "an array of 6148914691236517205 x i32"},
    {"numbers", 15, 1000, 8, "an array of 1000 x i32 needs more than"},
    {"numbers", 15, UINT64_C(1) << 62, 8, "an array of"},
    {"first", FIRST_DIMS, 0, 4, "0 dimensions, expected 1 to 4"},
    {"first", FIRST_DIMS, 5, 4, "5 dimensions, expected 1 to 4"},
    {"first", FIRST_NE0, 0, 8, "dimension 0 is 0, expected 1 or more"},
    {"first", FIRST_NE1, (uint64_t)-3, 8, "dimension 1 is -3, expected 1 or more"},
    {"first", FIRST_NE1, INT64_MAX / 2, 8, "overflows 64 bits"},
    {"first", FIRST_NE0, 48, 8, "rows of 48 elements, expected a multiple of the block size 32"},
    {"first", FIRST_TYPE, 4, 4, "tensor type 4 is unknown"},
    {"first", FIRST_TYPE, 77, 4, "tensor type 77 is unknown"},
    {"first", FIRST_TYPE, UINT32_MAX, 4, "tensor type 4294967295 is unknown"},
    {"first", FIRST_OFFSET, 32, 8, "offset 32 is no multiple of the alignment 64"},
    {"first", FIRST_OFFSET, 64, 8, "go past the end"},
    {"first", FIRST_OFFSET, UINT64_MAX - 63, 8, "go past the end"},
    {"second", 10, 6, 8, "24 bytes at offset 128 go past the end: 148 bytes of data"},
    {"second", 10, (uint64_t)INT64_MAX / 2, 8, "overflows 64 bits"},
};

static void names_every_fault(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct fault *f = &faults[i];
        struct bytes b = good_file(3);
        patch(&b, f->needle, f->rel, &f->value, f->n);
        refuse(&b, f->want);
        bytes_free(&b);
    }
}

static void refuses_duplicates(void **state) {
    (void)state;
    struct bytes b = {0};
    put_head(&b, 3, 0, 2);
    put_key_u32(&b, "same", 1);
    put_key_u32(&b, "same", 2);
    refuse(&b, "key \"same\" is there twice");
    bytes_free(&b);
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "same", 1, (uint64_t[]){1}, 0, 0);
    put_tensor(&b, "same", 1, (uint64_t[]){1}, 0, 32);
    pad_to(&b, 32);
    pad_to(&b, 128);
    refuse(&b, "tensor \"same\" is there twice");
    bytes_free(&b);
}

static void refuses_deep_nesting(void **state) {
    (void)state;
    struct bytes b = {0};
    put_head(&b, 3, 0, 1);
    put_key(&b, "deep", GGUF_ARRAY);
    for (int i = 0; i < 100000; i++) put_array(&b, GGUF_ARRAY, 1);
    refuse(&b, "nested deeper than 8 levels");
    bytes_free(&b);
}

static void reads_a_good_file(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct bytes b = good_file(version);
        struct err err;
        struct gguf *g = parse_copy(b.p, b.n, &err);
        assert_non_null(g);
        assert_int_equal(gguf_version(g), version);
        assert_int_equal(gguf_file_bytes(g), b.n);
        assert_int_equal(gguf_n_tensors(g), 2);
        const struct gguf_tensor *t = gguf_find_tensor(g, "first");
        assert_ptr_equal(t, gguf_tensor_at(g, 0));
        assert_int_equal(t->type, 2);
        assert_int_equal(t->n_dims, 2);
        assert_int_equal(t->ne[0], 64);
        assert_int_equal(t->ne[1], 3);
        assert_int_equal(t->ne[2], 1);
        assert_int_equal(t->bytes, 108);
        assert_int_equal(*(const unsigned char *)t->data, 0);
        t = gguf_find_tensor(g, "second");
        assert_int_equal(t->bytes, 20);
        assert_int_equal(*(const unsigned char *)t->data, 128);
        assert_null(gguf_find_tensor(g, "third"));
        assert_null(gguf_find_tensor(g, "firs"));
        assert_null(gguf_tensor_at(g, 2));
        close_copy(g);
        bytes_free(&b);
    }
}

static void getters_check_types(void **state) {
    (void)state;
    struct bytes b = good_file(3);
    struct err err;
    struct gguf *g = parse_copy(b.p, b.n, &err);
    uint64_t u = 7;
    double d = 1;
    bool flag = false;
    struct gguf_str s;
    struct gguf_array a;
    assert_non_null(g);
    assert_true(gguf_get_uint(g, "answer", GGUF_REQUIRED, 42, &u, &err));
    assert_int_equal(u, 42);
    assert_false(gguf_get_uint(g, "answer", GGUF_REQUIRED, 41, &u, &err));
    assert_string_equal(err.text, "key \"answer\" is 42, expected 0 to 41");
    assert_false(gguf_get_uint(g, "minus", GGUF_OPTIONAL, 10, &u, &err));
    assert_string_equal(err.text, "key \"minus\" is -2, expected 0 to 10");
    assert_false(gguf_get_uint(g, "pi", GGUF_OPTIONAL, 10, &u, &err));
    assert_string_equal(err.text, "key \"pi\" has type f32, expected an integer");
    assert_true(gguf_get_uint(g, "absent", GGUF_OPTIONAL, 10, &u, &err));
    assert_int_equal(u, 42);
    assert_false(gguf_get_uint(g, "absent", GGUF_REQUIRED, 10, &u, &err));
    assert_string_equal(err.text, "key \"absent\" is missing");
    assert_true(gguf_get_f64(g, "pi", GGUF_REQUIRED, &d, &err));
    assert_true(d == 3.25);
    assert_false(gguf_get_f64(g, "answer", GGUF_REQUIRED, &d, &err));
    assert_true(gguf_get_bool(g, "flag", GGUF_REQUIRED, &flag, &err));
    assert_true(flag);
    assert_false(gguf_get_bool(g, "answer", GGUF_REQUIRED, &flag, &err));
    assert_true(gguf_get_str(g, "general.architecture", GGUF_REQUIRED, &s, &err));
    assert_true(gguf_str_is(s, "llama"));
    assert_false(gguf_get_str(g, "words", GGUF_REQUIRED, &s, &err));
    assert_string_equal(err.text, "key \"words\" has type array, expected a string");
    assert_true(gguf_get_array(g, "words", GGUF_REQUIRED, GGUF_STRING, &a, &err));
    assert_int_equal(a.count, 3);
    const unsigned char *at = a.data;
    assert_true(gguf_str_is(gguf_next_str(&at), "one"));
    assert_true(gguf_str_is(gguf_next_str(&at), ""));
    assert_true(gguf_str_is(gguf_next_str(&at), "three"));
    assert_false(gguf_get_array(g, "words", GGUF_REQUIRED, GGUF_I32, &a, &err));
    assert_string_equal(err.text, "key \"words\" is an array of string, expected one of i32");
    assert_true(gguf_has(g, "nested"));
    assert_false(gguf_has(g, "neste"));
    close_copy(g);
    bytes_free(&b);
}

static void refuses_every_truncation(void **state) {
    (void)state;
    struct bytes b = good_file(3);
    for (size_t n = 0; n < b.n; n++) {
        struct err err;
        struct gguf *g = parse_copy(b.p, n, &err);
        if (g) fail_msg("a file cut at byte %zu of %zu was accepted", n, b.n);
        assert_true(err.text[0] != 0);
        close_copy(g);
    }
    bytes_free(&b);
}

// Reads everything that a parsed file hands out.
static void walk(const struct gguf *g) {
    static const char *const words[] = {"words", "general.architecture"};
    struct gguf_array a;
    struct gguf_str s;
    unsigned sum = 0;
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const unsigned char *p = t->data;
        for (uint64_t k = 0; k < t->bytes; k++) sum += p[k];
    }
    if (gguf_get_array(g, words[0], GGUF_REQUIRED, GGUF_STRING, &a, NULL))
        for (const unsigned char *at = a.data; a.count--;) {
            s = gguf_next_str(&at);
            for (uint64_t k = 0; k < s.n; k++) sum += (unsigned char)s.s[k];
        }
    if (gguf_get_str(g, words[1], GGUF_REQUIRED, &s, NULL))
        for (uint64_t k = 0; k < s.n; k++) sum += (unsigned char)s.s[k];
    *(volatile unsigned *)&sum = sum;
}

static void survives_random_bytes(void **state) {
    (void)state;
    enum { ROUNDS = 50000, MOST = 4 };
    struct bytes b = good_file(3);
    uint64_t rng = 1;
    int accepted = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct bytes bad = {0};
        struct err err;
        put(&bad, b.p, b.n);
        for (uint64_t k = 1 + random_u64(&rng) % MOST; k--;) {
            uint64_t r = random_u64(&rng);
            bad.p[r % bad.n] = (char)(r & UINT64_C(1) << 40 ? 0xff : r >> 48);
        }
        struct gguf *g = parse_copy(bad.p, bad.n, &err);
        accepted += g != NULL;
        if (g) walk(g);
        else assert_true(err.text[0] != 0);
        close_copy(g);
        bytes_free(&bad);
    }
    print_message("    %d of %d changed files were still valid\n", accepted, (int)ROUNDS);
    bytes_free(&b);
}

static void opens_paths(void **state) {
    (void)state;
    char path[] = "/tmp/ingot-test-gguf-XXXXXX";
    int fd = mkstemp(path);
    struct bytes b = good_file(3);
    struct err err;
    assert_true(fd >= 0);
    assert_null(gguf_open(path, &err));
    assert_non_null(strstr(err.text, "an empty file"));
    assert_int_equal(write(fd, b.p, b.n), b.n);
    struct gguf *g = gguf_open(path, &err);
    assert_non_null(g);
    walk(g);
    gguf_close(g);
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_null(gguf_open(path, &err));
    assert_non_null(strstr(err.text, path));
    assert_null(gguf_open("/tmp", &err));
    assert_non_null(strstr(err.text, "not a regular file"));
    close(fd);
    unlink(path);
    assert_null(gguf_open(path, &err));
    assert_non_null(strstr(err.text, "No such file"));
    gguf_close(NULL);
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_good_file),     cmocka_unit_test(getters_check_types),
        cmocka_unit_test(names_every_fault),     cmocka_unit_test(refuses_duplicates),
        cmocka_unit_test(refuses_deep_nesting),  cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_random_bytes), cmocka_unit_test(opens_paths),
    };
    return cmocka_run_group_tests_name("llama/gguf", tests, NULL, NULL);
}
