/* Standard normal numbers from uniform ones, in C and in CUDA; dali_proxy/pipeline/_imaging/quantiles.py does the same with
   NumPy. All have the same bits, because they only use additions, multiplications, divisions and square roots of
   doubles, which IEEE 754 defines, in the same order. So includers must not fuse multiplications and additions.

   Includers define INLINE, the specifiers of functions. */

typedef union {
    double value;
    unsigned long long bits;
} Double;

/* Logarithm of a positive normal number; an error of less than one unit in the last place. That of fdlibm: with
   x = 2^k (1 + f) between sqrt(1/2) and sqrt(2), and s = f / (2 + f), log(1 + f) = 2 atanh(s) is a polynomial. */
INLINE double portable_log(double x) {
    Double number = {x};
    number.bits += 0x3ff0000000000000ull - 0x3fe6a09e00000000ull;
    const double k = (double)((int)(number.bits >> 52) - 1023);
    number.bits = (number.bits & 0x000fffffffffffffull) + 0x3fe6a09e00000000ull;
    const double f = number.value - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
    const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const double odd = z * (6.666666666666735130e-01 +
                            w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    const double half_square = 0.5 * f * f;
    return k * 6.93147180369123816490e-01 -
           ((half_square - (s * (half_square + (odd + even)) + k * 1.90821492927058770002e-10)) - f);
}

/* Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37, 1988: PPND16,
   with a relative error of 1e-16. Quotients of two polynomials for probabilities q + 0.5 near 0.5 ... */
#define CENTER 0.425 /* largest |q| */
INLINE double center_quantile(double q) {
    const double r = 0.180625 - q * q;
    return q *
           (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r +
                45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427) * r +
             133.14166789178437745) * r + 3.3871328727963666080) /
           (((((((5226.4952788528545610 * r + 28729.085735721942674) * r + 39307.895800092710610) * r +
                21213.794301586595867) * r + 5394.1960214247511077) * r + 687.18700749205790830) * r +
             42.313330701600911252) * r + 1.0);
}

/* ... and for the tails, of the root of -log(probability): up to 5, and larger. */
INLINE double tail_root(double probability) { return sqrt(-portable_log(probability)); }

INLINE double near_tail(double root) {
    const double r = root - 1.6;
    return (((((((7.74545014278341407640e-4 * r + 0.0227238449892691845833) * r + 0.241780725177450611770) * r +
               1.27045825245236838258) * r + 3.64784832476320460504) * r + 5.76949722146069140550) * r +
            4.63033784615654529590) * r + 1.42343711074968357734) /
           (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r +
               0.148103976427480074590) * r + 0.689767334985100004550) * r + 1.67638483018380384940) * r +
            2.05319162663775882187) * r + 1.0);
}

INLINE double far_tail(double root) {
    const double r = root - 5.0;
    return (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.00124266094738807843860) * r +
               0.0265321895265761230930) * r + 0.296560571828504891230) * r + 1.78482653991729133580) * r +
            5.46378491116411436990) * r + 6.65790464350110377720) /
           (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r +
               7.86869131145613259100e-4) * r + 0.0148753612908506148525) * r + 0.136929880922735805310) * r +
            0.599832206555887937690) * r + 1.0);
}

INLINE double tail_quantile(double probability) {
    const double root = tail_root(probability);
    return root <= 5.0 ? near_tail(root) : far_tail(root);
}

/* Probabilities are the centers of the 2^53 intervals of uniform numbers, minus 0.5. They are never 0 and 1. */
INLINE double centered(double number) { return number - 0.5 + 1.0 / 18014398509481984.0; }

/* The standard normal number of a uniform one, a multiple of 2^-53 from [0, 1). */
INLINE double normal_quantile(double number) {
    const double q = centered(number);
    if (fabs(q) <= CENTER) return center_quantile(q);
    const double tail = tail_quantile(0.5 - fabs(q));
    return q < 0 ? -tail : tail;
}
