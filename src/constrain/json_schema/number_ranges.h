/* SPDX-License-Identifier: Apache-2.0 */
/* NFAs of JSON numbers within bounds, exact for decimal bounds. */
#ifndef EY_CONSTRAIN_NUMBER_RANGES_H
#define EY_CONSTRAIN_NUMBER_RANGES_H

#include "constrain/automaton/nfa.h"

enum { DECIMAL_DIGITS = 40 };

/* ± whole.fraction, without leading zeros (except "0") and trailing zeros of the fraction. */
struct decimal {
    bool negative;
    char whole[DECIMAL_DIGITS], fraction[DECIMAL_DIGITS]; /* digits 0..9 */
    int n_whole, n_fraction;
};

/* Returns the shortest decimal that reads back as `value`. A larger magnitude than the
 * struct can hold becomes its largest one, a smaller one, except 0, its smallest. */
struct decimal decimal_of_double(double value);
struct decimal decimal_of_int(int64_t value);

struct number_bound {
    bool set, exclusive;
    struct decimal value;
};

struct number_spec {
    bool integer;
    struct number_bound min, max;
    uint32_t multiple_of; /* for integers; 0: no constraint */
};

/* The number of digits is limited, so that an answer cannot get stuck in an endless fraction.
 * Integers have up to 18 digits, 15 with multiple_of. Numbers without bounds have up to 15 digits
 * before the point, 15 behind it and 2 in the exponent. Numbers with bounds have no exponent, and
 * so few fraction digits that a number as long as the longer bound has at most 15 digits. Then a
 * decimal within the bounds is within them as a double, too. Integers and bounded numbers are never
 * -0. */
struct frag nfa_number(struct nfa *nfa, const struct number_spec *spec);

#endif
