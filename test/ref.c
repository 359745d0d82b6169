// SPDX-License-Identifier: MIT
/* ref.c - see ref.h.  Written from the op table in include/ingot.h. */
#define _POSIX_C_SOURCE 200809L
#include "ref.h"

#include <math.h>

/* A tensor's elements, decoded. */
struct values {
    const double *v;
    const int64_t *ne;
};

static struct values values_of(const struct tensor *a) {
    return (struct values){tensor_values(a), a->t.ne};
}

static size_t at(const int64_t *ne, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return (size_t)(((i3 * ne[2] + i2) * ne[1] + i1) * ne[0] + i0);
}

static double get(struct values a, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return a.v[at(a.ne, i0, i1, i2, i3)];
}

/* i3, i2, i1 over the rows of a shape. */
#define FOR_ROWS(ne)                                                                                                   \
    for (int64_t i3 = 0; i3 < (ne)[3]; i3++)                                                                           \
        for (int64_t i2 = 0; i2 < (ne)[2]; i2++)                                                                       \
            for (int64_t i1 = 0; i1 < (ne)[1]; i1++)

static void get_rows(const struct op_case *c, double *out) {
    struct values table = values_of(c->src[0]), ids = values_of(c->src[1]);
    const double missing = c->dst->t.type == INGOT_TYPE_I32 ? -1.0 : NAN;
    FOR_ROWS(c->dst->t.ne) {
        int64_t id = (int64_t)get(ids, i1, i2, i3, 0);
        for (int64_t i = 0; i < table.ne[0]; i++)
            *out++ = id >= 0 && id < table.ne[1] ? get(table, i, id, i2, i3) : missing;
    }
}

static void set_rows(const struct op_case *c, double *out) {
    struct values rows = values_of(c->src[0]), ids = values_of(c->src[1]);
    const int64_t *ne = c->dst->t.ne;
    memcpy(out, tensor_values(c->dst), (size_t)ingot_tensor_elements(&c->dst->t) * sizeof *out);
    FOR_ROWS(rows.ne) {
        int64_t id = (int64_t)get(ids, i1, i2 % ids.ne[1], i3 % ids.ne[2], 0);
        if (id < 0 || id >= ne[1]) continue;
        for (int64_t i = 0; i < ne[0]; i++) out[at(ne, i, id, i2, i3)] = get(rows, i, i1, i2, i3);
    }
}

static void binary(const struct op_case *c, double *out) {
    struct values a = values_of(c->src[0]), b = values_of(c->src[1]);
    FOR_ROWS(a.ne)
    for (int64_t i = 0; i < a.ne[0]; i++) {
        double x = get(a, i, i1, i2, i3), y = get(b, i % b.ne[0], i1 % b.ne[1], i2 % b.ne[2], i3 % b.ne[3]);
        *out++ = c->op == INGOT_OP_ADD ? x + y : x * y;
    }
}

static void rms_norm(const struct op_case *c, double *out) {
    struct values x = values_of(c->src[0]);
    FOR_ROWS(x.ne) {
        double sum = 0.0;
        for (int64_t i = 0; i < x.ne[0]; i++) sum += get(x, i, i1, i2, i3) * get(x, i, i1, i2, i3);
        double factor = 1.0 / sqrt(sum / (double)x.ne[0] + (double)c->node.params.rms_norm.eps);
        for (int64_t i = 0; i < x.ne[0]; i++) *out++ = get(x, i, i1, i2, i3) * factor;
    }
}

/* The pair index at which a wave turns `turns` times within the trained context. */
static double yarn_index(const ingot_rope_params *p, double turns) {
    const double pi = 3.14159265358979323846;
    return p->n_dims * log(p->n_ctx_orig / (turns * 2.0 * pi)) / (2.0 * log(p->freq_base));
}

static void rope(const struct op_case *c, double *out) {
    struct values x = values_of(c->src[0]), pos = values_of(c->src[1]);
    const ingot_rope_params *p = &c->node.params.rope;
    const double *factors = c->src[2] ? tensor_values(c->src[2]) : NULL;
    double low = 0.0, high = 0.0, magnitude = p->attn_factor;
    if (p->ext_factor != 0.0f) {
        low = fmax(0.0, floor(yarn_index(p, p->beta_fast)));
        high = fmin(p->n_dims - 1.0, ceil(yarn_index(p, p->beta_slow)));
        magnitude *= 1.0 + 0.1 * log(1.0 / p->freq_scale);
    }
    FOR_ROWS(x.ne) {
        double *row = out + at(x.ne, 0, i1, i2, i3);
        for (int64_t i = p->n_dims; i < x.ne[0]; i++) row[i] = get(x, i, i1, i2, i3);
        for (int i = 0; i < p->n_dims / 2; i++) {
            double extrapolated = get(pos, i2, 0, 0, 0) * pow(p->freq_base, -2.0 * i / p->n_dims);
            if (factors) extrapolated /= factors[i];
            double ramp = fmin(1.0, fmax(0.0, (i - low) / fmax(0.001, high - low)));
            double mix = (1.0 - ramp) * p->ext_factor;
            double theta = p->freq_scale * extrapolated * (1.0 - mix) + extrapolated * mix;
            int64_t a = p->mode == INGOT_ROPE_NEOX ? i : 2 * i,
                    b = p->mode == INGOT_ROPE_NEOX ? i + p->n_dims / 2 : 2 * i + 1;
            double u = get(x, a, i1, i2, i3), v = get(x, b, i1, i2, i3);
            row[a] = magnitude * (u * cos(theta) - v * sin(theta));
            row[b] = magnitude * (u * sin(theta) + v * cos(theta));
        }
    }
}

static double silu(double x) {
    return x / (1.0 + exp(-x));
}

double ref_glu(const ingot_glu_params *p, double g, double y) {
    const double limit = (double)p->limit;
    switch (p->kind) {
    case INGOT_GLU_REGLU:
        return g > 0.0 ? g * y : 0.0;
    case INGOT_GLU_GEGLU: /* 1 + tanh v by its tail, which does not cancel */
        return g / (1.0 + exp(-2.0 * sqrt(2.0 / acos(-1.0)) * (g + 0.044715 * g * g * g))) * y;
    case INGOT_GLU_SWIGLU:
        return silu(g) * y;
    case INGOT_GLU_SWIGLU_OAI:
        g = fmin(g, limit);
        return g / (1.0 + exp((double)p->alpha * -g)) * (fmax(-limit, fmin(y, limit)) + 1.0);
    case INGOT_GLU_GEGLU_ERF:
        return 0.5 * g * erfc(-g * sqrt(0.5)) * y;
    default:
        return g / (1.0 + exp(-1.702 * g)) * y;
    }
}

double ref_unary(ingot_op op, double x) {
    const ingot_glu_kind kind = op == INGOT_OP_SILU       ? INGOT_GLU_SWIGLU
                                : op == INGOT_OP_RELU     ? INGOT_GLU_REGLU
                                : op == INGOT_OP_GELU     ? INGOT_GLU_GEGLU
                                : op == INGOT_OP_GELU_ERF ? INGOT_GLU_GEGLU_ERF
                                                          : INGOT_GLU_GEGLU_QUICK;
    return ref_glu(&(ingot_glu_params){.kind = kind}, x, 1.0);
}

static void glu(const struct op_case *c, double *out) {
    struct values gate = values_of(c->src[0]), up = c->src[1] ? values_of(c->src[1]) : gate;
    const int64_t *ne = c->dst->t.ne;
    FOR_ROWS(ne)
    for (int64_t i = 0; i < ne[0]; i++)
        *out++ = ref_glu(&c->node.params.glu, get(gate, i, i1, i2, i3), get(up, c->src[1] ? i : i + ne[0], i1, i2, i3));
}

static void soft_max(const struct op_case *c, double *out) {
    struct values x = values_of(c->src[0]), mask = c->src[1] ? values_of(c->src[1]) : x;
    FOR_ROWS(x.ne) {
        double largest = -INFINITY, sum = 0.0, *row = out + at(x.ne, 0, i1, i2, i3);
        for (int64_t i = 0; i < x.ne[0]; i++) {
            row[i] = (double)c->node.params.soft_max.scale * get(x, i, i1, i2, i3);
            if (c->src[1]) row[i] += get(mask, i, i1, i2 % mask.ne[2], i3 % mask.ne[3]);
            largest = fmax(largest, row[i]);
        }
        for (int64_t i = 0; i < x.ne[0]; i++) {
            row[i] = largest == -INFINITY ? 0.0 : exp(row[i] - largest);
            sum += row[i];
        }
        for (int64_t i = 0; i < x.ne[0]; i++) row[i] = sum > 0.0 ? row[i] / sum : 0.0;
    }
}

static void mul_mat(const struct op_case *c, double *out) {
    struct values a = values_of(c->src[0]), b = values_of(c->src[1]);
    const int64_t *ne = c->dst->t.ne;
    double *column = check_alloc((size_t)a.ne[0] * sizeof *column);
    FOR_ROWS(ne) {
        const int64_t a2 = i2 / (ne[2] / a.ne[2]), a3 = i3 / (ne[3] / a.ne[3]);
        for (int64_t k = 0; k < a.ne[0]; k++) {
            column[k] = get(b, k, i1, i2, i3);
            if (c->rounded_b) column[k] = check_round(c->src[0]->t.type, column[k]);
        }
        for (int64_t i = 0; i < ne[0]; i++) {
            const double *row = a.v + at(a.ne, 0, i, a2, a3);
            double sum = 0.0;
            for (int64_t k = 0; k < a.ne[0]; k++) sum += row[k] * column[k];
            *out++ = sum;
        }
    }
}

static void mul_mat_id(const struct op_case *c, double *out) {
    struct values a = values_of(c->src[0]), b = values_of(c->src[1]), ids = values_of(c->src[2]);
    const int64_t *ne = c->dst->t.ne;
    FOR_ROWS(ne) { /* i1 the expert's place, i2 the token; i3 is 0 */
        const int64_t id = (int64_t)get(ids, i1, i2, i3, 0);
        for (int64_t i = 0; i < ne[0]; i++) {
            double sum = id >= 0 && id < a.ne[2] ? 0.0 : NAN;
            for (int64_t k = 0; k < a.ne[0] && !isnan(sum); k++)
                sum += get(a, k, i, id, 0) * get(b, k, i1 % b.ne[1], i2, 0);
            *out++ = sum;
        }
    }
}

static void attention(const struct op_case *c, double *out) {
    struct values q = values_of(c->src[0]), k = values_of(c->src[1]), v = values_of(c->src[2]);
    const int64_t d = q.ne[0], n_q = q.ne[1], heads = q.ne[2], keys = k.ne[1], per_group = heads / k.ne[2];
    const int64_t *ne = c->dst->t.ne;
    double *weight = check_alloc((size_t)(keys ? keys : 1) * sizeof *weight);
    for (int64_t batch = 0; batch < q.ne[3]; batch++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < n_q; i++) {
                int64_t length = keys;
                if (c->src[3]) {
                    length = (int64_t)tensor_get(c->src[3], c->src[3]->t.ne[0] > 1 ? batch : 0, 0, 0, 0);
                    length = length < 0 ? 0 : length > keys ? keys : length;
                }
                int64_t seen = c->node.params.attention.causal ? length - n_q + i + 1 : length;
                double largest = -INFINITY, sum = 0.0, *row = out + at(ne, 0, h, i, batch);
                for (int64_t j = 0; j < seen; j++) {
                    double dot = 0.0;
                    for (int64_t e = 0; e < d; e++) dot += get(q, e, i, h, batch) * get(k, e, j, h / per_group, batch);
                    weight[j] = dot * (double)c->node.params.attention.scale;
                    largest = fmax(largest, weight[j]);
                }
                for (int64_t e = 0; e < d; e++) row[e] = 0.0;
                for (int64_t j = 0; j < seen; j++) {
                    double w = exp(weight[j] - largest);
                    sum += w;
                    for (int64_t e = 0; e < d; e++) row[e] += w * get(v, e, j, h / per_group, batch);
                }
                for (int64_t e = 0; e < d && seen > 0; e++) row[e] /= sum;
            }
}

double *case_reference(const struct op_case *c) {
    const int64_t count = ingot_tensor_elements(&c->dst->t);
    double *out = check_alloc((size_t)count * sizeof *out);
    double *x;
    switch (c->op) {
    case INGOT_OP_GET_ROWS:
        get_rows(c, out);
        break;
    case INGOT_OP_SET_ROWS:
        set_rows(c, out);
        break;
    case INGOT_OP_CPY:
        memcpy(out, tensor_values(c->src[0]), (size_t)count * sizeof *out);
        break;
    case INGOT_OP_ADD:
    case INGOT_OP_MUL:
        binary(c, out);
        break;
    case INGOT_OP_RMS_NORM:
        rms_norm(c, out);
        break;
    case INGOT_OP_ROPE:
        rope(c, out);
        break;
    case INGOT_OP_SILU:
    case INGOT_OP_RELU:
    case INGOT_OP_GELU:
    case INGOT_OP_GELU_ERF:
    case INGOT_OP_GELU_QUICK:
        x = tensor_values(c->src[0]);
        for (int64_t i = 0; i < count; i++) out[i] = ref_unary(c->op, x[i]);
        break;
    case INGOT_OP_GLU:
        glu(c, out);
        break;
    case INGOT_OP_SOFT_MAX:
        soft_max(c, out);
        break;
    case INGOT_OP_MUL_MAT:
        mul_mat(c, out);
        break;
    case INGOT_OP_MUL_MAT_ID:
        mul_mat_id(c, out);
        break;
    case INGOT_OP_ATTENTION:
        attention(c, out);
        break;
    default:
        check_fail("no reference for op %s", ingot_op_name(c->op));
    }
    /* Sums and products of narrow types are f32 before they are rounded. */
    if (c->op == INGOT_OP_ADD || c->op == INGOT_OP_MUL)
        for (int64_t i = 0; i < count; i++) out[i] = (float)out[i];
    return out;
}

ingot_node case_node(const struct op_case *c) {
    ingot_node node = c->node;
    node.op = c->op;
    node.dst = c->dst->t;
    for (int i = 0; i < INGOT_MAX_SRC; i++) node.src[i] = c->src[i] ? &c->src[i]->t : NULL;
    return node;
}

const char *case_text(const struct op_case *c) {
    char *text = check_alloc(1024);
    size_t used = (size_t)snprintf(text, 1024, "%s", ingot_op_name(c->op));
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c->src[i]) used += (size_t)snprintf(text + used, 1024 - used, " src%d %s,", i, check_shape(&c->src[i]->t));
    return text;
}

double case_cancellation(const struct op_case *c, const double *ref) {
    double natural = 0.0, power = 0.0;
    struct values a = values_of(c->src[0]), b = values_of(c->src[1]);
    const bool chosen = c->op == INGOT_OP_MUL_MAT_ID;
    const int64_t *ne = c->dst->t.ne;
    for (int64_t i = 0; i < ingot_tensor_elements(&c->dst->t); i++) power += isnan(ref[i]) ? 0.0 : ref[i] * ref[i];
    FOR_ROWS(ne) {
        const int64_t a2 = chosen ? (int64_t)tensor_get(c->src[2], i1, i2, 0, 0) : i2 / (ne[2] / a.ne[2]);
        const int64_t a3 = chosen ? 0 : i3 / (ne[3] / a.ne[3]), b1 = chosen ? i1 % b.ne[1] : i1;
        if (a2 < 0 || a2 >= a.ne[2]) continue;
        for (int64_t i = 0; i < ne[0]; i++)
            for (int64_t k = 0; k < a.ne[0]; k++) {
                double term = get(a, k, i, a2, a3) * get(b, k, b1, i2, i3);
                natural += term * term;
            }
    }
    return power > 0.0 && natural > power ? natural / power : 1.0;
}

void case_check(const struct op_case *c, double nmse) {
    const double *ref = case_reference(c);
    if (c->op == INGOT_OP_MUL_MAT || c->op == INGOT_OP_MUL_MAT_ID) nmse *= case_cancellation(c, ref);
    const char *text = case_text(c);
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c->src[i]) tensor_upload(c->src[i]);
    tensor_upload(c->dst);
    ingot_node node = case_node(c);
    ingot_status st = ingot_compute(check_context(), &node);
    if (st != INGOT_OK) check_fail("%s: %s: %s", text, ingot_status_name(st), ingot_error(check_context()));
    check_result(c->dst, ref, nmse, text);
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c->src[i] && c->src[i]->buffer != c->dst->buffer) check_unchanged(c->src[i], text);
}

void case_repeat(const struct op_case *c, int times) {
    unsigned char *before = check_alloc(c->dst->bytes), *first = check_alloc(c->dst->bytes);
    memcpy(before, c->dst->host, c->dst->bytes);
    ingot_node node = case_node(c);
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c->src[i]) tensor_upload(c->src[i]);
    for (int i = 0; i < times; i++) {
        memcpy(c->dst->host, before, c->dst->bytes);
        tensor_upload(c->dst);
        CHECK_OK(ingot_compute(check_context(), &node));
        tensor_download(c->dst);
        if (i == 0) memcpy(first, c->dst->host, c->dst->bytes);
        else if (memcmp(first, c->dst->host, c->dst->bytes) != 0)
            check_fail("%s: run %d differs from run 1", case_text(c), i + 1);
    }
}
