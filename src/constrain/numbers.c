/* SPDX-License-Identifier: Apache-2.0 */
/* A number's digits are compared with both bounds as they come. What has been read matters only by
 * how it compares so far, so the states are few: (digits, comparison with the lower bound, with the
 * upper, remainder). */
#include "constrain/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- decimals
 * ------------------------------------------------------------------------------------ */

/* Digit i of 0.d1d2d3… · 10^exponent, counted from the decimal point to the left (i ≥ 0) or right.
 */
static struct decimal decimal_of_digits(bool negative, const char *digits, int n, int exponent)
{
    struct decimal d = {.negative = negative};
    if (exponent > DECIMAL_DIGITS) { /* beyond all numbers that are written here */
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

/* ---- states
 * -------------------------------------------------------------------------------------- */

enum { LESS, EQUAL, GREATER, ORDERS };

/* A bound of the magnitude. */
struct limit {
    bool set, exclusive;
    const struct decimal *value;
};

struct magnitude {
    struct net *net;
    const struct number_form *form;
    struct limit least, most;
    bool negative;
    uint32_t end; /* the net's state behind the number */
    int max_whole, max_fraction;
    uint32_t *known;    /* [digits][order to least][order to most][is not zero][remainder]: states
                           before the point … */
    uint32_t *fraction; /* … the same without a remainder, behind it */
};

/* What has been read so far. */
struct progress {
    int digits;      /* before the point, or behind it */
    int least, most; /* the order of what was read to the bounds, as far */
    bool nonzero;
    uint32_t remainder;
};

static int digit_order(int digit, int of_bound)
{
    return digit < of_bound ? LESS : digit > of_bound ? GREATER : EQUAL;
}

/* The order after another digit before the point; a bound's digits are compared from its first on.
 */
static int whole_order(int order, const struct limit *limit, int at, int digit)
{
    if (!limit->set) return EQUAL;
    if (at >= limit->value->n_whole) return GREATER;
    return order != EQUAL ? order : digit_order(digit, limit->value->whole[at]);
}

/* … when the point comes after n digits. */
static int order_at_point(int order, const struct limit *limit, int n)
{
    return limit->set && n < limit->value->n_whole ? LESS : order;
}

static int fraction_order(int order, const struct limit *limit, int at, int digit)
{
    if (!limit->set || order != EQUAL) return order;
    return digit_order(digit, at < limit->value->n_fraction ? limit->value->fraction[at] : 0);
}

/* … at the number's end, after n digits behind the point. */
static int order_at_end(int order, const struct limit *limit, int n)
{
    return limit->set && order == EQUAL && n < limit->value->n_fraction ? LESS : order;
}

static bool within(const struct magnitude *m, int least, int most)
{
    bool enough = !m->least.set || least == GREATER || (least == EQUAL && !m->least.exclusive);
    return enough && (!m->most.set || most == LESS || (most == EQUAL && !m->most.exclusive));
}

/* ---- behind the point
 * ---------------------------------------------------------------------------- */

static uint32_t fraction_state(struct magnitude *m, struct progress p, bool *made)
{
    size_t index = (((size_t)p.digits * ORDERS + (size_t)p.least) * ORDERS + (size_t)p.most) * 2 +
                   p.nonzero;
    *made = !m->fraction[index];
    if (*made) m->fraction[index] = net_state(m->net);
    return m->fraction[index];
}

/* The recursion is as deep as a number has digits. */
static uint32_t build_fraction(struct magnitude *m, struct progress p)
{
    bool made;
    uint32_t state = fraction_state(m, p, &made);
    if (!made || m->net->problem) return state;
    for (int digit = 0; digit < 10 && p.digits < m->max_fraction; digit++) {
        struct progress next = p;
        next.digits++;
        next.nonzero |= digit > 0;
        next.least = fraction_order(p.least, &m->least, p.digits, digit);

        next.most = fraction_order(p.most, &m->most, p.digits, digit);
        net_span(m->net, state, build_fraction(m, next), '0' + (uint32_t)digit,
                 '0' + (uint32_t)digit, 0);
    }
    if (!p.digits || (m->negative && !p.nonzero)) return state;
    if (within(m, order_at_end(p.least, &m->least, p.digits),
               order_at_end(p.most, &m->most, p.digits)))
        net_empty(m->net, state, m->end);
    return state;
}

/* ---- before the point
 * ---------------------------------------------------------------------------- */

static uint32_t whole_state(struct magnitude *m, struct progress p, bool *made)
{
    uint32_t multiple = m->form->multiple_of ? m->form->multiple_of : 1;
    size_t index = (((size_t)p.digits * ORDERS + (size_t)p.least) * ORDERS + (size_t)p.most) * 2 +
                   p.nonzero;
    index = index * multiple + p.remainder;
    *made = !m->known[index];
    if (*made) m->known[index] = net_state(m->net);
    return m->known[index];
}

/* The number may end here, or go on behind a point. */
static void end_whole(struct magnitude *m, uint32_t state, struct progress p)
{
    struct progress at_point = {.least = order_at_point(p.least, &m->least, p.digits),
                                .most = order_at_point(p.most, &m->most, p.digits),
                                .nonzero = p.nonzero};
    if (m->max_fraction) net_span(m->net, state, build_fraction(m, at_point), '.', '.', 0);
    if (m->negative && !p.nonzero) return;
    if (!p.remainder && within(m, order_at_end(at_point.least, &m->least, 0),
                               order_at_end(at_point.most, &m->most, 0)))
        net_empty(m->net, state, m->end);
}

static uint32_t build_whole(struct magnitude *m, struct progress p)
{
    bool made, zero = p.digits && !p.nonzero;
    uint32_t state = whole_state(m, p, &made), multiple = m->form->multiple_of;
    if (!made || m->net->problem) return state;
    for (int digit = 0; digit < 10 && p.digits < m->max_whole && !zero; digit++) {
        struct progress next = p;
        next.digits++;
        next.nonzero |= digit > 0;
        next.least = whole_order(p.least, &m->least, p.digits, digit);
        next.most = whole_order(p.most, &m->most, p.digits, digit);
        if (multiple) next.remainder = (p.remainder * 10 + (uint32_t)digit) % multiple;
        net_span(m->net, state, build_whole(m, next), '0' + (uint32_t)digit, '0' + (uint32_t)digit,
                 0);
    }
    if (p.digits) end_whole(m, state, p);
    return state;
}

/* ---- signs
 * --------------------------------------------------------------------------------------- */

enum { INTEGER_DIGITS = 18, NUMBER_DIGITS = 15 };

/* Digits behind the point of a number that has bounds: with those before it, few enough for a
 * double to tell apart. */
static int bounded_fraction(const struct magnitude *m)
{
    int whole = 1;
    if (m->least.set && m->least.value->n_whole > whole) whole = m->least.value->n_whole;
    if (m->most.set && m->most.value->n_whole > whole) whole = m->most.value->n_whole;
    return whole + 1 < NUMBER_DIGITS ? NUMBER_DIGITS - 1 - whole : 0;
}

/* Magnitudes between least and most, from `from` on. */
static void add_magnitudes(struct magnitude *m, uint32_t from)
{
    size_t multiple = m->form->multiple_of ? m->form->multiple_of : 1, orders = ORDERS * ORDERS * 2;
    m->max_whole = m->form->integer && !m->form->multiple_of ? INTEGER_DIGITS : NUMBER_DIGITS;
    m->max_fraction = m->form->integer ? 0 : bounded_fraction(m);
    m->known = calloc((INTEGER_DIGITS + 1) * orders * multiple, sizeof(*m->known));
    m->fraction = calloc((NUMBER_DIGITS + 1) * orders, sizeof(*m->fraction));
    if (m->known && m->fraction)
        net_empty(m->net, from, build_whole(m, (struct progress){.least = EQUAL, .most = EQUAL}));
    else
        m->net->problem = NET_NO_MEMORY;
    free(m->known);
    free(m->fraction);
}

static struct limit limit_of(const struct number_bound *bound)
{
    return (struct limit){.set = bound->set, .exclusive = bound->exclusive, .value = &bound->value};
}

/* False: no number of the sign lies within the bounds. Else which of them bound its magnitudes. */
static bool magnitude_limits(struct magnitude *m)
{
    const struct number_bound *near = m->negative ? &m->form->most : &m->form->least,
                              *far = m->negative ? &m->form->least : &m->form->most;
    if (far->set && far->value.negative != m->negative) return false;
    m->most = limit_of(far);
    m->least = limit_of(near);
    if (near->value.negative != m->negative) m->least.set = false; /* on the other side of zero */
    return true;
}

/* ---- without bounds
 * ------------------------------------------------------------------------------ */

/* One to `most` digits from `from` on; each may be the last. */
static void add_digits(struct net *net, uint32_t from, uint32_t end, uint32_t first, int most)
{
    for (int i = 0; i < most; i++) {
        uint32_t next = net_state(net);
        net_span(net, from, next, i ? '0' : first, '9', 0);
        net_empty(net, next, end);
        from = next;
    }
}

static struct frag free_integer(struct net *net)
{
    struct frag f = net_frag(net);
    uint32_t positive = net_state(net);
    net_empty(net, f.start, positive);
    net_span(net, f.start, positive, '-', '-', 0);
    add_digits(net, positive, f.end, '1', INTEGER_DIGITS);
    net_span(net, f.start, f.end, '0', '0', 0);
    return f;
}

static struct frag free_number(struct net *net)
{
    struct frag f = net_frag(net);
    uint32_t positive = net_state(net), whole = net_state(net), point = net_state(net),
             number = net_state(net), e = net_state(net);
    uint32_t exponent = net_state(net);
    net_empty(net, f.start, positive);
    net_span(net, f.start, positive, '-', '-', 0);
    net_span(net, positive, whole, '0', '0', 0);
    add_digits(net, positive, whole, '1', NUMBER_DIGITS);
    net_span(net, whole, point, '.', '.', 0);
    add_digits(net, point, number, '0', NUMBER_DIGITS);
    net_empty(net, whole, number);
    net_span(net, number, e, 'E', 'E', 0);
    net_span(net, number, e, 'e', 'e', 0);
    net_empty(net, e, exponent);
    net_span(net, e, exponent, '+', '+', 0);
    net_span(net, e, exponent, '-', '-', 0);
    add_digits(net, exponent, f.end, '0', 2);
    net_empty(net, number, f.end);
    return f;
}

struct frag net_number(struct net *net, const struct number_form *form)
{
    if (!form->least.set && !form->most.set && !form->multiple_of)
        return form->integer ? free_integer(net) : free_number(net);
    struct frag f = net_frag(net);
    for (int negative = 0; negative < 2; negative++) {
        struct magnitude m = {.net = net, .form = form, .negative = negative, .end = f.end};
        uint32_t from = f.start;
        if (!magnitude_limits(&m)) continue;
        if (negative) from = net_bytes(net, from, "-", 1);
        add_magnitudes(&m, from);
    }
    return f;
}
