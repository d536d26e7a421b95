// SPDX-License-Identifier: Apache-2.0
// Declares the tests; run_tests.cc describes each.
#ifndef ARENITE_TESTS_DEVICE_TESTS_H_
#define ARENITE_TESTS_DEVICE_TESTS_H_

namespace arenite::device {

void ieee_floats();

void exact_products();
void exact_products_in_few_bits();
void exact_integers();
void exact_row_kernels();
void near_functions();
void transposition();
void rows_of_integers();
void sound_of_integers();
void rows_with_nan();

void expected_numbers();
void bits_of_x86_64();
void sound();
void step_by_step();
void batches();
void arena_sizes();
void arena_neighbours();
void self_tests();

void texts();
void commands();

void changed_bytes();
void other_lengths();
void endless_lists();
void wrong_weights();

void stack_is_measured();
void stack_of_calls();

}  // namespace arenite::device

#endif  // ARENITE_TESTS_DEVICE_TESTS_H_
