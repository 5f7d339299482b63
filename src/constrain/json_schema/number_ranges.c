/* SPDX-License-Identifier: Apache-2.0 */
/* Builds NFAs of numbers within bounds. Digits are compared with both bounds as they are read, so a
 * state is only the number of digits read, the order to each bound (less, equal or greater) and the
 * remainder. */
#include "constrain/json_schema/number_ranges.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- decimals ---- */

/* The decimal 0.d1d2d3… · 10^exponent. */
static struct decimal decimal_of_digits(bool negative, const char *digits, int n, int exponent)
{
    struct decimal d = {.negative = negative};
    if (exponent > DECIMAL_DIGITS) { /* above all numbers that the grammar allows */
        memset(d.whole, 9, DECIMAL_DIGITS);
        d.n_whole = DECIMAL_DIGITS;
        return d;
    }
    for (int i = 0; i < exponent; i++)
        d.whole[d.n_whole++] = (char)(i < n ? digits[i] - '0' : 0);
    if (!d.n_whole) d.n_whole = 1;
    for (int i = exponent; i < n && d.n_fraction < DECIMAL_DIGITS; i++)
        d.fraction[d.n_fraction++] = (char)(i < 0 ? 0 : digits[i] - '0');
    while (d.n_fraction && !d.fraction[d.n_fraction - 1])
        d.n_fraction--;
    bool zero = d.n_whole == 1 && !d.whole[0] && !d.n_fraction;
    if (zero && n) {
        d.n_fraction = DECIMAL_DIGITS;
        d.fraction[DECIMAL_DIGITS - 1] = 1;
    }
    return d;
}

struct decimal decimal_of_double(double value)
{
    char text[40], digits[40];
    int precision = 0, n = 0;
    do
        snprintf(text, sizeof(text), "%.*e", precision, fabs(value));
    while (precision++ < 17 && strtod(text, NULL) != fabs(value));
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9') digits[n++] = *at;
    while (n && digits[n - 1] == '0')
        n--;
    return decimal_of_digits(signbit(value) && n, digits, n, n ? atoi(at + 1) + 1 : 0);
}

struct decimal decimal_of_int(int64_t value)
{
    char text[24];
    uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
    int n = snprintf(text, sizeof(text), "%" PRIu64, magnitude), exponent = n;
    while (n && text[n - 1] == '0')
        n--;
    return decimal_of_digits(value < 0, text, n, n ? exponent : 0);
}

/* ---- states ---- */

enum { LESS, EQUAL, GREATER, ORDERS };

/* A bound of the absolute value. */
struct magnitude_limit {
    bool set, exclusive;
    const struct decimal *value;
};

/* The numbers of one sign, under construction. */
struct magnitude {
    struct nfa *nfa;
    const struct number_spec *spec;
    struct magnitude_limit min, max;
    bool negative;
    uint32_t end; /* the NFA state after the number */
    int max_whole, max_fraction;
    uint32_t *whole;    /* [digits][order to min][order to max][nonzero][remainder]: states before
                          the decimal point … */
    uint32_t *fraction; /* … and behind it, without the remainder */
};

/* What has been read so far. */
struct digit_progress {
    int digits;                     /* before the decimal point, or after it */
    int order_to_min, order_to_max; /* how the digits so far compare with the bounds' */
    bool nonzero;
    uint32_t remainder;
};

static int digit_order(int digit, int of_bound)
{
    return digit < of_bound ? LESS : digit > of_bound ? GREATER : EQUAL;
}

/* Returns the order after another digit before the point. */
static int whole_order(int order, const struct magnitude_limit *limit, int at, int digit)
{
    if (!limit->set) return EQUAL;
    if (at >= limit->value->n_whole) return GREATER;
    return order != EQUAL ? order : digit_order(digit, limit->value->whole[at]);
}

/* Returns the order at the decimal point, after n digits. */
static int order_at_point(int order, const struct magnitude_limit *limit, int n)
{
    return limit->set && n < limit->value->n_whole ? LESS : order;
}

static int fraction_order(int order, const struct magnitude_limit *limit, int at, int digit)
{
    if (!limit->set || order != EQUAL) return order;
    return digit_order(digit, at < limit->value->n_fraction ? limit->value->fraction[at] : 0);
}

/* Returns the order at the number's end, n digits behind the point. */
static int order_at_end(int order, const struct magnitude_limit *limit, int n)
{
    return limit->set && order == EQUAL && n < limit->value->n_fraction ? LESS : order;
}

static bool within_limits(const struct magnitude *m, int order_to_min, int order_to_max)
{
    bool enough = !m->min.set || order_to_min == GREATER ||
                  (order_to_min == EQUAL && !m->min.exclusive);
    return enough &&
           (!m->max.set || order_to_max == LESS || (order_to_max == EQUAL && !m->max.exclusive));
}

/* ---- behind the point ---- */

static uint32_t fraction_state(struct magnitude *m, struct digit_progress p, bool *made)
{
    size_t index = (((size_t)p.digits * ORDERS + (size_t)p.order_to_min) * ORDERS +
                    (size_t)p.order_to_max) *
                       2 +
                   p.nonzero;
    *made = !m->fraction[index];
    if (*made) m->fraction[index] = nfa_add_state(m->nfa);
    return m->fraction[index];
}

/* Recursion depth is the number of digits. */
static uint32_t build_fraction(struct magnitude *m, struct digit_progress p)
{
    bool made;
    uint32_t state = fraction_state(m, p, &made);
    if (!made || m->nfa->problem) return state;
    for (int digit = 0; digit < 10 && p.digits < m->max_fraction; digit++) {
        struct digit_progress next = p;
        next.digits++;
        next.nonzero |= digit > 0;
        next.order_to_min = fraction_order(p.order_to_min, &m->min, p.digits, digit);
        next.order_to_max = fraction_order(p.order_to_max, &m->max, p.digits, digit);
        nfa_add_span(m->nfa, state, build_fraction(m, next), '0' + (uint32_t)digit,
                     '0' + (uint32_t)digit, 0);
    }
    if (!p.digits || (m->negative && !p.nonzero)) return state;
    if (within_limits(m, order_at_end(p.order_to_min, &m->min, p.digits),
                      order_at_end(p.order_to_max, &m->max, p.digits)))
        nfa_add_epsilon(m->nfa, state, m->end);
    return state;
}

/* ---- before the point ---- */

static uint32_t whole_state(struct magnitude *m, struct digit_progress p, bool *made)
{
    uint32_t multiple = m->spec->multiple_of ? m->spec->multiple_of : 1;
    size_t index = (((size_t)p.digits * ORDERS + (size_t)p.order_to_min) * ORDERS +
                    (size_t)p.order_to_max) *
                       2 +
                   p.nonzero;
    index = index * multiple + p.remainder;
    *made = !m->whole[index];
    if (*made) m->whole[index] = nfa_add_state(m->nfa);
    return m->whole[index];
}

/* Lets the number end here or continue with a fraction. */
static void end_whole(struct magnitude *m, uint32_t state, struct digit_progress p)
{
    struct digit_progress at_point = {
        .order_to_min = order_at_point(p.order_to_min, &m->min, p.digits),
        .order_to_max = order_at_point(p.order_to_max, &m->max, p.digits),
        .nonzero = p.nonzero};
    if (m->max_fraction) nfa_add_span(m->nfa, state, build_fraction(m, at_point), '.', '.', 0);
    if (m->negative && !p.nonzero) return;
    if (!p.remainder && within_limits(m, order_at_end(at_point.order_to_min, &m->min, 0),
                                      order_at_end(at_point.order_to_max, &m->max, 0)))
        nfa_add_epsilon(m->nfa, state, m->end);
}

static uint32_t build_whole(struct magnitude *m, struct digit_progress p)
{
    bool made, zero = p.digits && !p.nonzero;
    uint32_t state = whole_state(m, p, &made), multiple = m->spec->multiple_of;
    if (!made || m->nfa->problem) return state;
    for (int digit = 0; digit < 10 && p.digits < m->max_whole && !zero; digit++) {
        struct digit_progress next = p;
        next.digits++;
        next.nonzero |= digit > 0;
        next.order_to_min = whole_order(p.order_to_min, &m->min, p.digits, digit);
        next.order_to_max = whole_order(p.order_to_max, &m->max, p.digits, digit);
        if (multiple) next.remainder = (p.remainder * 10 + (uint32_t)digit) % multiple;
        nfa_add_span(m->nfa, state, build_whole(m, next), '0' + (uint32_t)digit,
                     '0' + (uint32_t)digit, 0);
    }
    if (p.digits) end_whole(m, state, p);
    return state;
}

/* ---- signs ---- */

enum { INTEGER_DIGITS = 18, NUMBER_DIGITS = 15 };

/* Fraction digits of a bounded number: together with the whole part, few enough for a double to
 * distinguish. */
static int bounded_fraction(const struct magnitude *m)
{
    int whole = 1;
    if (m->min.set && m->min.value->n_whole > whole) whole = m->min.value->n_whole;
    if (m->max.set && m->max.value->n_whole > whole) whole = m->max.value->n_whole;
    return whole + 1 < NUMBER_DIGITS ? NUMBER_DIGITS - 1 - whole : 0;
}

/* Adds the absolute values between min and max, from state `from` on. */
static void add_magnitudes(struct magnitude *m, uint32_t from)
{
    size_t multiple = m->spec->multiple_of ? m->spec->multiple_of : 1, orders = ORDERS * ORDERS * 2;
    m->max_whole = m->spec->integer && !m->spec->multiple_of ? INTEGER_DIGITS : NUMBER_DIGITS;
    m->max_fraction = m->spec->integer ? 0 : bounded_fraction(m);
    m->whole = calloc((INTEGER_DIGITS + 1) * orders * multiple, sizeof(*m->whole));
    m->fraction = calloc((NUMBER_DIGITS + 1) * orders, sizeof(*m->fraction));
    if (m->whole && m->fraction)
        nfa_add_epsilon(
            m->nfa, from,
            build_whole(m, (struct digit_progress){.order_to_min = EQUAL, .order_to_max = EQUAL}));
    else
        m->nfa->problem = NFA_NO_MEMORY;
    free(m->whole);
    free(m->fraction);
}

static struct magnitude_limit limit_of(const struct number_bound *bound)
{
    return (struct magnitude_limit){
        .set = bound->set, .exclusive = bound->exclusive, .value = &bound->value};
}

/* Sets the bounds of the absolute value for m's sign. Returns false if no number of that sign is
 * within the bounds. */
static bool magnitude_limits(struct magnitude *m)
{
    const struct number_bound *near = m->negative ? &m->spec->max : &m->spec->min,
                              *far = m->negative ? &m->spec->min : &m->spec->max;
    if (far->set && far->value.negative != m->negative) return false;
    m->max = limit_of(far);
    m->min = limit_of(near);
    if (near->value.negative != m->negative)
        m->min.set = false; /* beyond zero: no limit for this sign */
    return true;
}

/* ---- without bounds ---- */

/* Adds between 1 and `most` digits after the state `from`. The number may end after each. */
static void add_digits(struct nfa *nfa, uint32_t from, uint32_t end, uint32_t first, int most)
{
    for (int i = 0; i < most; i++) {
        uint32_t next = nfa_add_state(nfa);
        nfa_add_span(nfa, from, next, i ? '0' : first, '9', 0);
        nfa_add_epsilon(nfa, next, end);
        from = next;
    }
}

static struct frag unbounded_integer(struct nfa *nfa)
{
    struct frag f = nfa_new_frag(nfa);
    uint32_t positive = nfa_add_state(nfa);
    nfa_add_epsilon(nfa, f.start, positive);
    nfa_add_span(nfa, f.start, positive, '-', '-', 0);
    add_digits(nfa, positive, f.end, '1', INTEGER_DIGITS);
    nfa_add_span(nfa, f.start, f.end, '0', '0', 0);
    return f;
}

static struct frag unbounded_number(struct nfa *nfa)
{
    struct frag f = nfa_new_frag(nfa);
    uint32_t positive = nfa_add_state(nfa);
    uint32_t whole = nfa_add_state(nfa);
    uint32_t point = nfa_add_state(nfa);
    uint32_t number = nfa_add_state(nfa);
    uint32_t e = nfa_add_state(nfa);
    uint32_t exponent = nfa_add_state(nfa);
    nfa_add_epsilon(nfa, f.start, positive);
    nfa_add_span(nfa, f.start, positive, '-', '-', 0);
    nfa_add_span(nfa, positive, whole, '0', '0', 0);
    add_digits(nfa, positive, whole, '1', NUMBER_DIGITS);
    nfa_add_span(nfa, whole, point, '.', '.', 0);
    add_digits(nfa, point, number, '0', NUMBER_DIGITS);
    nfa_add_epsilon(nfa, whole, number);
    nfa_add_span(nfa, number, e, 'E', 'E', 0);
    nfa_add_span(nfa, number, e, 'e', 'e', 0);
    nfa_add_epsilon(nfa, e, exponent);
    nfa_add_span(nfa, e, exponent, '+', '+', 0);
    nfa_add_span(nfa, e, exponent, '-', '-', 0);
    add_digits(nfa, exponent, f.end, '0', 2);
    nfa_add_epsilon(nfa, number, f.end);
    return f;
}

struct frag nfa_number(struct nfa *nfa, const struct number_spec *spec)
{
    if (!spec->min.set && !spec->max.set && !spec->multiple_of)
        return spec->integer ? unbounded_integer(nfa) : unbounded_number(nfa);
    struct frag f = nfa_new_frag(nfa);
    for (int negative = 0; negative < 2; negative++) {
        struct magnitude m = {.nfa = nfa, .spec = spec, .negative = negative, .end = f.end};
        uint32_t from = f.start;
        if (!magnitude_limits(&m)) continue;
        if (negative) from = nfa_add_bytes(nfa, from, "-", 1);
        add_magnitudes(&m, from);
    }
    return f;
}
