/* SPDX-License-Identifier: Apache-2.0 */
/* JSON numbers within bounds, as NFAs: exact for decimal bounds, digit by digit. */
#ifndef EY_CONSTRAIN_NUMBER_RANGES_H
#define EY_CONSTRAIN_NUMBER_RANGES_H

#include "constrain/automaton/nfa.h"

enum { DECIMAL_DIGITS = 40 };

/* ± whole.fraction, no leading zero but that of "0", no zero at the end of the fraction. */
struct decimal {
    bool negative;
    char whole[DECIMAL_DIGITS], fraction[DECIMAL_DIGITS]; /* digits 0..9 */
    int n_whole, n_fraction;
};

/* The shortest decimal that reads back as `value`. What is beyond 10^DECIMAL_DIGITS is cut to that,
 * what is below 10^-DECIMAL_DIGITS to the smallest that is not 0. */
struct decimal decimal_of_double(double value);
struct decimal decimal_of_int(int64_t value);

struct number_bound {
    bool set, exclusive;
    struct decimal value;
};

struct number_spec {
    bool integer;
    struct number_bound min, max;
    uint32_t multiple_of; /* 0: any; integers only */
};

/* Digits are bounded, so that an answer cannot end in an endless fraction: integers have at most 18
 * digits, and 15 where a remainder counts; numbers without bounds 15 before the point, 15 behind it
 * and an exponent of two; numbers with bounds no exponent, and about 15 digits in total, so that
 * what is on one side of a bound in decimal is there in doubles too. An integer is not -0, nor is a
 * number with bounds. */
struct frag nfa_number(struct nfa *nfa, const struct number_spec *spec);

#endif
